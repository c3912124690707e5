"""Op statistics of a host, or of several hosts that follow each other: ops, ops host by host, and tf.functions.

Times and counts of many hosts are compressed: they are seldom read, and most are alike. A row of a host's table is
six integers, all rows of a column after each other, table after table:

     place of its name and of its category in the texts, occurrences, executions, time_ps, self_ps
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import islice
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.decode.nesting import nest_events, number_lines
from fastprof.decode.workers import Workers
from fastprof.derive.devices.run_environment import HostDevices
from fastprof.derive.ops import torch_calls
from fastprof.derive.ops.device_ops import HostDeviceOps, MergedDeviceOps
from fastprof.derive.ops.op_columns import group_by_framework_op, number_framework_ops
from fastprof.derive.ops.op_table import Ops, OpTable, merge_ops
from fastprof.schema.columns import Int64s, number_sorted_rows, sum_by
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HOST_THREADS, HostEvents

_COLUMNS: Final = ("occurrences", "executions", "time_ps", "self_ps")
_DECISIVE: Final = ("name", "provenance", "category")
"""What framework ops depend on."""
_CODEC: Final = "zstd"


@dataclass(frozen=True, slots=True)
class OpsByHost:
    """``counts``: rows of each table; ``texts``: names and categories, each once."""

    counts: tuple[int, ...]
    texts: tuple[str, ...]
    packed: bytes

    @classmethod
    def of(cls, tables: Iterable[OpTable]) -> OpsByHost:
        counts, columns, places = [], [], _Places()
        for table in tables:
            counts.append(len(table))
            columns += [places.of(table.name), places.of(table.category)]
            columns += [getattr(table, name) for name in _COLUMNS]
        data = np.concatenate([*columns, np.zeros(0, np.int64)]).astype("<i8").tobytes()
        return cls(tuple(counts), tuple(places.known), pa.compress(data, codec=_CODEC, asbytes=True))

    def tables(self) -> Iterator[OpTable]:
        """Yield the tables, with these columns alone."""
        width = 2 + len(_COLUMNS)
        size = 8 * width * sum(self.counts)
        data = pa.decompress(self.packed, size, codec=_CODEC)
        numbers, at = np.frombuffer(data, "<i8"), 0
        for count in self.counts:
            names, categories, *columns = numbers[at : at + width * count].reshape(width, count)
            at += width * count
            texts = ([self.texts[place] for place in some.tolist()] for some in (names, categories))
            yield OpTable.of(next(texts), category=next(texts), **dict(zip(_COLUMNS, columns, strict=True)))


class FrameworkTimes:
    """Times and counts of the device ops of hosts, by framework op, as ``group_by_framework_op`` has them."""

    def __init__(self) -> None:
        self._before: tuple[OpTable, Int64s, list[str], list[str]] | None = None

    def of(self, table: OpTable) -> OpTable:
        before = self._before
        if before is None or any(getattr(before[0], name) != getattr(table, name) for name in _DECISIVE):
            self._before = before = table, *number_framework_ops(table)
        _, row, names, types = before
        sums = {name: sum_by(row, getattr(table, name), len(names)) for name in _COLUMNS}
        return OpTable.of(names, category=types, **sums)


class _Places:
    """The place of each text in those that are ``known``. Hosts of a program mostly have the same ops."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        self._before: list[tuple[list[str], Int64s]] = []

    def of(self, texts: list[str]) -> Int64s:
        for other, places in self._before:
            if other == texts:
                return places
        places = np.fromiter((self.known.setdefault(text, len(self.known)) for text in texts), np.int64)
        self._before = [*islice(reversed(self._before), 7), (texts, places)]
        return places


EVENT_STATS: Final = ("tf_function_call", "tracing_count")

EAGER, CONCRETE, TRACED, NOT_TRACED, INVALID = "eager", "concrete", "traced", "not_traced", "invalid"
XLA, OTHER, MIXED = "xla", "other", "mixed"

_MODES: Final = {
    "eager": (EAGER, ""),
    "concrete": (CONCRETE, ""),
    "traced-xla": (TRACED, XLA),
    "traced-nonXla": (TRACED, OTHER),
    "notTraced-xla": (NOT_TRACED, XLA),
    "notTraced-nonXla": (NOT_TRACED, OTHER),
}
"""How a call was executed and what compiled it, by the value of the stat tf_function_call."""


@dataclass(slots=True)
class TfFunction:
    """The calls of one function. ``count`` and ``self_ps`` are by how they were executed."""

    name: str
    count: dict[str, int] = field(default_factory=dict)
    self_ps: dict[str, int] = field(default_factory=dict)
    tracings: int = 0
    compiler: str = ""

    @property
    def expensive_percent(self) -> float:
        """Share of self time in calls that were traced or ran eagerly."""
        total = sum(self.self_ps.values())
        return 100.0 * (self.self_ps.get(TRACED, 0) + self.self_ps.get(EAGER, 0)) / total if total else 0.0

    def add(self, other: TfFunction) -> None:
        for mode, count in other.count.items():
            self.count[mode] = self.count.get(mode, 0) + count
            self.self_ps[mode] = self.self_ps.get(mode, 0) + other.self_ps[mode]
        self.tracings = max(self.tracings, other.tracings)
        if other.compiler and self.compiler != other.compiler:
            self.compiler = MIXED if self.compiler else other.compiler


def sum_tf_functions(events: HostEvents, workers: Workers) -> list[TfFunction]:
    """Return the functions called on the threads of a host, by name; self time leaves out functions called within."""
    plane = events.plane_named(HOST_THREADS)
    rows, texts = events.texts("tf_function_call")
    if plane is None or not len(rows):
        return []
    edges = np.array([(line.first, line.last) for line in plane.lines], np.int64).reshape(-1, 2)
    first, last = np.searchsorted(rows, edges[:, 0]), np.searchsorted(rows, edges[:, 1])
    lines = number_lines(last - first, first.astype(np.int64))
    chosen = np.concatenate([np.arange(a, b) for a, b in zip(first, last, strict=True)] or [rows[:0]]).astype(np.int64)
    rows, texts = rows[chosen], texts[chosen]
    _, _, self_time = nest_events(events.start_ps[rows], events.duration_ps[rows], None, lines, workers)
    tracings = events.dense("tracing_count")[rows]
    return _sum_calls(events, events.meta[rows], texts, self_time, tracings)


def _sum_calls(
    events: HostEvents,
    meta: npt.NDArray[np.int32],
    texts: npt.NDArray[np.int64],
    self_time: npt.NDArray[np.int64],
    tracings: npt.NDArray[np.int64],
) -> list[TfFunction]:
    """Calls by function and value of the stat; both are few."""
    first, inverse = number_sorted_rows([meta, texts])
    size = len(first)
    count = np.bincount(inverse, minlength=size)
    total, most = np.zeros(size, np.int64), np.zeros(size, np.int64)
    np.add.at(total, inverse, self_time)
    np.maximum.at(most, inverse, tracings)
    return merge_tf_functions(
        TfFunction(events.names[row], {mode: number}, {mode: time}, traced, compiler)
        for row, (mode, compiler), number, time, traced in zip(
            meta[first].tolist(),
            (_MODES.get(events.text(text), (INVALID, "")) for text in texts[first].tolist()),
            count.tolist(),
            total.tolist(),
            most.tolist(),
            strict=True,
        )
    )


def merge_tf_functions(functions: Iterable[TfFunction]) -> list[TfFunction]:
    """Functions of several threads or hosts as one each, by name."""
    by_name: dict[str, TfFunction] = {}
    for function in functions:
        by_name.setdefault(function.name, TfFunction(function.name)).add(function)
    return [by_name[name] for name in sorted(by_name)]


_NO_OPS: Final = OpTable.empty()
"""Shared by all hosts, so that pickles have it once."""


@dataclass(frozen=True, slots=True)
class HostOpTotals:
    """A host beside its ops: ``threads`` and ``devices`` have only their sums. ``crossing``: as in ``HostOps``."""

    name: str
    threads: Ops
    devices: Ops
    present: HostDevices
    is_training: bool | None
    crossing: int

    def bare(self) -> HostOpTotals:
        """Return the totals without ops."""
        threads, devices = (replace(side, table=_NO_OPS, children=None, parent=None) for side in self._sides)
        return replace(self, threads=threads, devices=devices)

    @property
    def _sides(self) -> tuple[Ops, Ops]:
        return self.threads, self.devices


@dataclass(frozen=True, slots=True)
class HostOpStats:
    """``by_host``: of each of several hosts the framework ops of its devices, and the ops of its threads. None: these
    are of one host, and here; empty: nobody asks."""

    hosts: tuple[HostOpTotals, ...]
    threads: Ops
    device: HostDeviceOps | MergedDeviceOps
    functions: list[TfFunction]
    launched: Mapping[str, torch_calls.LaunchedTime] | None
    by_host: tuple[OpsByHost, ...] | None = None

    @classmethod
    def of(cls, parts: Sequence[HostOpStats], shared: dict[Any, Any]) -> HostOpStats:
        """Merge hosts. ``shared``: a cache of earlier merges of these hosts."""
        return cls(
            tuple(host.bare() for part in parts for host in part.hosts),
            merge_ops([part.threads for part in parts], add_cores=False),
            MergedDeviceOps.of([part.device for part in parts], shared),
            merge_tf_functions([function for part in parts for function in part.functions]),
            torch_calls.merge_launched(part.launched for part in parts),
            _pack_hosts(parts),
        )


def _pack_hosts(parts: Sequence[HostOpStats]) -> tuple[OpsByHost, ...]:
    alone = [part for part in parts if part.by_host is None]
    if len(alone) < len(parts):
        return tuple(some for part in parts for some in part.by_host or ())
    times = FrameworkTimes()
    return (OpsByHost.of(table for part in alone for table in (times.of(part.device.ops.table), part.threads.table)),)


def iterate_host_ops(parts: Sequence[HostOpStats]) -> Iterator[tuple[str, Ops, Ops]]:
    """Yield the name of each host, the framework ops of its devices and the ops of its threads; nothing if merged hosts
    did not keep them."""
    if any(part.by_host == () and len(part.hosts) > 1 for part in parts):
        return
    for part in parts:
        if len(part.hosts) == 1:
            device = part.device.ops
            yield part.hosts[0].name, replace(device, table=group_by_framework_op(device.table)), part.threads
            continue
        tables = (table for some in part.by_host or () for table in some.tables())
        for host, device_table, thread_table in zip(part.hosts, tables, tables, strict=True):
            yield host.name, replace(host.devices, table=device_table), replace(host.threads, table=thread_table)
