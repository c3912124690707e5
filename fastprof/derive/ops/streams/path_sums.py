"""Sums of the critical path of a host: rows of the tables of the analysis ``critical_path``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from types import SimpleNamespace

import numpy as np

from fastprof.derive.devices.kineto_categories import is_kineto
from fastprof.derive.ops.stat_values import distinct_rows
from fastprof.derive.ops.streams.critical_path import CriticalPath, critical_path
from fastprof.derive.ops.streams.path_edges import COLLECTIVE, COPIED, HOST, KERNEL, KINDS
from fastprof.derive.ops.streams.path_nodes import Window
from fastprof.derive.ops.tables import sums_by
from fastprof.schema.array_types import Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents

_TIMED = 6
"""Of KINDS, the first that last."""


@dataclass(slots=True)
class HostPath:
    """Rows of each table, as attributes of their columns. ``missing``: the host has no such window; ``waits``,
    ``launches``: waits, and calls that launched what GPUs ran, are recorded; ``torch``: the capture is PyTorch's."""

    windows: list[SimpleNamespace] = field(default_factory=list)
    kinds: list[SimpleNamespace] = field(default_factory=list)
    names: list[SimpleNamespace] = field(default_factory=list)
    path: list[SimpleNamespace] = field(default_factory=list)
    missing: bool = False
    waits: bool = False
    launches: bool = False
    torch: bool = False


def host_path(events: HostEvents, window: Window, marks: Int64s) -> HostPath:
    found = critical_path(events, window, marks)
    sums = sums_by(found.kind, found.time_ps, len(KINDS))
    window_row = SimpleNamespace(
        host=events.host, window=window.name, instance=window.number, of=window.count, start_ps=window.begin_ps,
        window_ps=window.end_ps - window.begin_ps, path_ps=found.length_ps, host_ps=int(sums[HOST]),
        device_ps=sum(int(sums[kind]) for kind in (KERNEL, COLLECTIVE, COPIED)), edges=len(found.kind), cut=found.cut,
    )  # fmt: skip
    return HostPath(
        [window_row], list(_kinds(events, found, sums)), list(_names(events, found)), list(_path(events, found)),
        waits=found.waits, launches=found.launches, torch=is_kineto(events),
    )  # fmt: skip


def _share(found: CriticalPath, time: int) -> float | None:
    return time / found.length_ps if found.length_ps else None


def _kinds(events: HostEvents, found: CriticalPath, sums: Int64s) -> Iterator[SimpleNamespace]:
    counts = np.bincount(found.kind, minlength=len(KINDS))
    for kind in sorted(range(_TIMED), key=lambda one: -int(sums[one])):
        if counts[kind]:
            time = int(sums[kind])
            yield SimpleNamespace(
                host=events.host, kind=KINDS[kind], time_ps=time, share=_share(found, time), count=int(counts[kind])
            )


def _names(events: HostEvents, found: CriticalPath) -> Iterator[SimpleNamespace]:
    lasts = np.flatnonzero(found.kind < _TIMED)
    if not len(lasts):
        return
    kind, meta = found.kind[lasts], events.meta[found.row[lasts]]
    first, number = distinct_rows([kind, meta])
    sums, counts = sums_by(number, found.time_ps[lasts], len(first)), np.bincount(number)
    for place in np.argsort(-sums, kind="stable").tolist():
        time = int(sums[place])
        yield SimpleNamespace(
            host=events.host, kind=KINDS[kind[first[place]]], name=events.names[meta[first[place]]], time_ps=time,
            share=_share(found, time), count=int(counts[place]),
        )  # fmt: skip


def _path(events: HostEvents, found: CriticalPath) -> Iterator[SimpleNamespace]:
    lines = sorted((line for line in events.lines if line.last > line.first), key=lambda line: line.first)
    place = np.searchsorted(np.array([line.first for line in lines], np.int64), found.row, side="right") - 1
    for i, (row, at) in enumerate(zip(found.row.tolist(), place.tolist(), strict=True)):
        yield SimpleNamespace(
            host=events.host, kind=KINDS[found.kind[i]], name=events.names[events.meta[row]],
            plane=lines[at].plane.name, line=lines[at].name, start_ps=int(found.start_ps[i]),
            time_ps=int(found.time_ps[i]),
        )  # fmt: skip
