"""The events of iterators: the iterator of each, and what TensorFlow records of iterators beside their events."""

from __future__ import annotations

import numpy as np

from fastprof._native import records
from fastprof.derive.pipelines.host_lines import GENERATOR, NAMED, HostLines, is_root
from fastprof.derive.pipelines.reading import Value
from fastprof.derive.steps.links import first_of, numbered
from fastprof.schema.array_types import Bools, Int32s, Int64s, UInt8s
from fastprof.schema.value_classes import dataclass

INTEGERS = (records.INT64, records.UINT64)
ATTRIBUTES = ("parallelism", "buffer_limit", "buffer_size", "autotune", "batch_size", "cycle_length", "deterministic",
              "cpu_budget", "threadpool_size")  # fmt: skip
"""Stats of iterator events that record the setup of the iterator; the last two are those of entire pipelines."""


def is_integer(kind: UInt8s) -> Bools:
    """Whether stats of these kinds are integers."""
    return np.asarray((kind == records.INT64) | (kind == records.UINT64))


@dataclass(frozen=True, slots=True, eq=False)
class Origins:
    """What iterator events record of their iterator: a row for each that differs, in order of first event, or for each
    event. ``*_kind``: how the id was recorded, NONE: not at all; ``name``: place in ``names``; ``is_named``: the name
    begins like those of iterators; ``is_root``: the name is that of a single iterator, which a program calls."""

    iterator_id: Int64s
    id_kind: UInt8s
    parent_id: Int64s
    parent_kind: UInt8s
    name: Int32s
    is_generator: Bools
    is_named: Bools
    is_root: Bools
    names: list[str]

    def __len__(self) -> int:
        return len(self.iterator_id)

    @property
    def is_identified(self) -> Bools:
        """Whether it has the id of its iterator."""
        return is_integer(self.id_kind) & self.is_named


@dataclass(frozen=True, slots=True, eq=False)
class IteratorEvents:
    """Events of iterators, by line and start. ``parent``: the event right around each, if that is one of these; -1:
    none."""

    start_ps: Int64s
    duration_ps: Int64s
    origin: Int32s
    parent: Int32s
    origins: Origins

    def __len__(self) -> int:
        return len(self.start_ps)


def iterator_events(lines: HostLines, *, kept: bool) -> IteratorEvents:
    """The iterator events of a host, as ``lines.number`` numbers them. ``kept``: their origins are, and so have a row
    for each that differs only, which takes longer to find."""
    rows = lines.iterator_rows
    origin, origins = _origins(lines, rows, kept)
    parent = lines.number[np.maximum(lines.around[rows], -1)]
    return IteratorEvents(lines.start_ps[rows], lines.duration_ps[rows], origin, parent, origins)


def _origins(lines: HostLines, rows: Int32s, kept: bool) -> tuple[Int32s, Origins]:
    id_kind, iterator_id = lines.beside("id", rows)
    parent_kind, parent_id = lines.beside("parent_id", rows)
    origin = np.arange(len(rows), dtype=np.int32)
    if kept:
        kinds = lines.meta[rows].astype(np.int64) << 16 | id_kind.astype(np.int64) << 8 | parent_kind
        origin, count = numbered([iterator_id, parent_id, kinds])
        first = first_of(origin, count)
        rows, id_kind, iterator_id = rows[first], id_kind[first], iterator_id[first]
        parent_kind, parent_id = parent_kind[first], parent_id[first]
    metas, name = _distinct(lines.meta[rows], len(lines.events.names))
    names = [lines.events.names[number] for number in metas.tolist()]
    role = lines.roles[rows]
    is_generator, is_named = (role & GENERATOR) != 0, (role & NAMED) != 0
    of_root = np.array([is_root(text) for text in names], np.bool_)[name]
    return origin, Origins(iterator_id, id_kind, parent_id, parent_kind, name, is_generator, is_named, of_root, names)


def _distinct(meta: Int32s, count: int) -> tuple[Int64s, Int32s]:
    """Which of ``count`` numbers there are, ascending, and the place of each in these."""
    there = np.zeros(count, np.bool_)
    there[meta] = True
    return np.flatnonzero(there), (np.cumsum(there, dtype=np.int32) - np.int32(1))[meta]


def recorded_attributes(lines: HostLines, iterator: Int32s, count: int) -> dict[str, list[Value]]:
    """By attribute that the capture has, its last value for each iterator, in the order of events. ``iterator``: by
    iterator event, -1: unknown."""
    attributes: dict[str, list[Value]] = {}
    for name in ATTRIBUTES:
        stat = lines.stat(name)
        event = lines.number[stat.rows]
        own = np.where(event >= 0, iterator[event], -1) if len(iterator) else event
        last = np.full(count + 1, -1, np.int64)  # of equal indices the last assignment stays; the last for -1
        last[own] = np.arange(len(stat))
        has = np.flatnonzero(last[:-1] >= 0)
        if not len(has):
            continue
        kinds, values = stat.kind[last[has]], stat.value[last[has]]
        keys = list(zip(kinds.tolist(), values.tolist(), strict=True))
        by_key = {key: _value(lines, *key) for key in set(keys)}
        shown: list[Value] = [None] * count
        for number, key in zip(has.tolist(), keys, strict=True):
            shown[number] = by_key[key]
        attributes[name] = shown
    return attributes


def _value(lines: HostLines, kind: int, value: int) -> Value:
    if kind == records.INT64:
        return value
    if kind == records.UINT64:
        return value % 2**64
    if kind == records.DOUBLE:
        return float(np.int64(value).view(np.float64))
    if kind in (records.STR, records.REF):
        text = lines.events.text(value)
        return None if text == "unavailable" else text
    return None
