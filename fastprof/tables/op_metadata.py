"""Ops of TPUs in XProf's traces: their events record what an XSpace records once, in event metadata.

    XSpace   event metadata "%add.3 = f32[8] …", displayed as "add.3": program_id, symbol_id, hlo_category, tf_op, …
    trace    each event "add.3": long_name "%add.3 = f32[8] …", hlo_category, tf_op, …

Rows of event metadata are made from such events, so that analyses find ops where they look for them. They follow those
of the capture, one for each plane, program and name. XProf leaves out program_id, which the name of the innermost
module around the event has, if its args do not; and symbol_id, for which the number of the op stands. It leaves out
flops too: they stay unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from fastprof._native import records
from fastprof.decode.nesting import nested
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.tables.event_stats import EMPTY, Stat
from fastprof.tables.host_events import HostEvents, Line, Source
from fastprof.wording.patterns import pattern_of

_CATEGORY, _LONG_NAME = "hlo_category", "long_name"
_PROGRAM, _SYMBOL = "program_id", "symbol_id"
_CORES: Final = ("TPU", "SPARSECORE")
_MODULE_LINES: Final = ("XLA Modules", "Sparse Core Modules")
_ID: Final = pattern_of(r"\(([0-9]{1,20})\)\Z")
_LARGEST_ID: Final = 2**64 - 1
_TEXTS: Final = (records.STR, records.REF)
_INTEGERS: Final = (records.INT64, records.UINT64)


def event_stats(metadata: Sequence[str]) -> tuple[str, ...]:
    """The stats of events that rows with these stats are made from; none: ops are not requested."""
    return (*metadata, _CATEGORY, _LONG_NAME, _PROGRAM) if _SYMBOL in metadata else ()


def with_ops(events: HostEvents, source: Source, metadata: Sequence[str]) -> HostEvents:
    """The events of a trace, but for what lines that XProf made from others repeat of cores; those that record an op
    have the row of metadata that an XSpace has of it, with these stats."""
    keep = np.ones(len(events), bool)
    for line in events.lines:
        if line.plane.kind in _CORES and line.is_derived:
            keep[line.first : line.last] = False
    if not keep.all():
        untimed = events.untimed
        events = events.subset(keep)
        events.untimed = untimed
    _add_ops(events, source, metadata)
    return events


def _add_ops(events: HostEvents, source: Source, metadata: Sequence[str]) -> None:
    rows = _rows(events)
    programs, names, long_names = _programs(events, rows), _own_names(events, rows), _long_names(events, rows)
    plane = np.searchsorted([plane.last for plane in events.planes], rows, side="right")
    _, op = np.unique(np.stack([programs, names, long_names]), axis=1, return_inverse=True)
    _, first, number = np.unique(np.stack([plane, op.reshape(-1)]), axis=1, return_index=True, return_inverse=True)
    firsts = rows[first]
    short = [events.names[meta] for meta in events.meta[firsts].tolist()]
    full = [events.text(text) if text >= 0 else "" for text in long_names[first].tolist()]
    pairs = list(zip(short, full, strict=True))
    base = source.add_metas([text or name for name, text in pairs], [name if text else "" for name, text in pairs])
    own = base + np.arange(len(first), dtype=np.int32)
    numbers = {_PROGRAM: programs[first], _SYMBOL: op.reshape(-1)[first].astype(np.int64) + 1}
    for name in metadata:
        stat = events.stat(name).at(firsts)
        if name in numbers:
            stat = Stat(firsts, np.full(len(first), records.UINT64, np.uint8), numbers[name])
        source.meta_stats[name] = _with(source.meta_stats.get(name, EMPTY), own, stat)
    meta = events.meta.copy()
    meta[rows] = own[number.reshape(-1)]
    events.meta = meta


def _with(known: Stat, rows: Int32s, more: Stat) -> Stat:
    """Values of a stat, and of further rows those of the other stat."""
    has = more.kind != records.NONE
    columns = ((known.rows, rows[has]), (known.kind, more.kind[has]), (known.value, more.value[has]))
    return Stat(*(np.concatenate(pair) for pair in columns))


def _rows(events: HostEvents) -> Int32s:
    """The events of cores that record an op."""
    has = np.zeros(len(events), bool)
    for name in (_CATEGORY, _LONG_NAME):
        has[events.stat(name).of_kinds(_TEXTS).rows] = True
    for line in events.lines:
        if line.plane.kind not in _CORES:
            has[line.first : line.last] = False
    return np.flatnonzero(has).astype(np.int32)


def _own_names(events: HostEvents, rows: Int32s) -> Int64s:
    """The name of each event as a number: each core has its own metadata."""
    metas, place = np.unique(events.meta[rows], return_inverse=True)
    numbers: dict[str, int] = {}
    each = [numbers.setdefault(events.names[meta], len(numbers)) for meta in metas.tolist()]
    return np.array(each, np.int64)[place.reshape(-1)]


def _long_names(events: HostEvents, rows: Int32s) -> Int64s:
    """The number of the text of each event's long name, -1: it has none."""
    stat = events.stat(_LONG_NAME).of_kinds(_TEXTS).at(rows)
    return np.where(stat.kind != records.NONE, stat.value, -1)


def _programs(events: HostEvents, rows: Int32s) -> Int64s:
    """The id of the program of each event: its own, or that of what runs when it begins; 0: unknown."""
    own = events.stat(_PROGRAM).of_kinds(_INTEGERS).at(rows)
    found = np.where(own.kind != records.NONE, own.value, 0)
    for plane in events.planes:
        mine = slice(*np.searchsorted(rows, [plane.first, plane.last]).tolist())
        for line in plane.lines:
            if line.name in _MODULE_LINES and line.last > line.first:
                found[mine] = np.where(found[mine] == 0, _around(events, line, rows[mine]), found[mine])
    return found


def _around(events: HostEvents, line: Line, rows: Int32s) -> Int64s:
    """The id in brackets behind the name of the innermost module that runs when each event begins, 0: none does. A
    module has ended at its end: begins of events take part in the nesting of modules as if each lasted 1 ps."""
    times, number = np.unique(events.start_ps[rows], return_inverse=True)
    start = np.concatenate([events.start_ps[line.first : line.last], times])
    duration = np.concatenate([events.duration_ps[line.first : line.last], np.ones(len(times), np.int64)])
    order = np.lexsort((-duration, start))
    _, parent = nested(start[order], duration[order])
    module = np.full(len(order), -1, np.int64)
    module[order] = np.where(parent >= 0, order[parent], -1)
    place = module[line.last - line.first :][number.reshape(-1)]
    ids = [_ID.search(events.names[meta]) for meta in events.meta[line.first : line.last].tolist()]
    numbers = [int(one[1]) if one else 0 for one in ids]
    known = np.array([one if one <= _LARGEST_ID else 0 for one in numbers], np.uint64).view(np.int64)
    return np.where(place >= 0, known[place], 0)
