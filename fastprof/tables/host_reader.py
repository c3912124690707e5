"""Reads one host: its events with the requested stats, or only its lines; and completes what some writers leave out:
TPU op metadata, the calls that launched device work, CUPTI range counters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof import hlo
from fastprof._native import records
from fastprof.decode import metadata_tables
from fastprof.decode.decoder import Request
from fastprof.decode.index import Index, get_line_labels
from fastprof.decode.nesting import get_int64s, nest_line
from fastprof.decode.plane_kinds import GPU_PLANES, find_device_of_plane
from fastprof.decode.selection import Selection, Wanted
from fastprof.decode.span_stats import XPROF
from fastprof.errors import CaptureError
from fastprof.schema.columns import (
    Bools,
    Int32s,
    Int64s,
    find_rows_within,
    number_sorted_rows,
    number_values,
    sort_rows,
)
from fastprof.schema.tables import mark_nulls
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import (
    CATEGORY,
    EMPTY,
    FIRST_DERIVED,
    HOST_THREADS,
    MODULE_LINES,
    EventSource,
    HostEvents,
    Line,
    Plane,
    Stat,
    join_stat,
)
from fastprof.tables.table_set import TableSet
from fastprof.wording.patterns import compile_late

_CATEGORY, _LONG_NAME = "hlo_category", "long_name"
_PROGRAM, _SYMBOL = "program_id", "symbol_id"
_CORES: Final = ("TPU", "SPARSECORE")
_ID: Final = compile_late(r"\(([0-9]{1,20})\)\Z")
_LARGEST_ID: Final = 2**64 - 1
_TEXTS: Final = (records.STR, records.REF)
_INTEGERS: Final = (records.INT64, records.UINT64)


def choose_op_stats(metadata: Sequence[str]) -> tuple[str, ...]:
    """Return the stats of events that rows with these stats are made from; none: ops are not requested."""
    return (*metadata, _CATEGORY, _LONG_NAME, _PROGRAM) if _SYMBOL in metadata else ()


def add_op_metadata(events: HostEvents, source: EventSource, metadata: Sequence[str]) -> HostEvents:
    """Return the events of a trace, but for what lines that XProf made from others repeat of cores; those that record
    an op have the row of metadata that an XSpace has of it, with these stats."""
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


def _add_ops(events: HostEvents, source: EventSource, metadata: Sequence[str]) -> None:
    rows = _find_op_rows(events)
    programs, names, long_names = (
        _find_programs(events, rows),
        _number_names(events, rows),
        _find_long_names(events, rows),
    )
    plane = np.searchsorted([plane.last for plane in events.planes], rows, side="right")
    _, op = number_sorted_rows([programs, names, long_names])
    first, number = number_sorted_rows([plane, op])
    firsts = rows[first]
    short = [events.names[meta] for meta in events.meta[firsts].tolist()]
    full = [events.text(text) if text >= 0 else "" for text in long_names[first].tolist()]
    pairs = list(zip(short, full, strict=True))
    base = source.add_metas([text or name for name, text in pairs], [name if text else "" for name, text in pairs])
    own = base + np.arange(len(first), dtype=np.int32)
    numbers = {_PROGRAM: programs[first], _SYMBOL: op[first] + 1}
    for name in metadata:
        stat = events.stat(name).at(firsts)
        if name in numbers:
            stat = Stat(firsts, np.full(len(first), records.UINT64, np.uint8), numbers[name])
        source.meta_stats[name] = _append_stat(source.meta_stats.get(name, EMPTY), own, stat)
    meta = events.meta.copy()
    meta[rows] = own[number.reshape(-1)]
    events.meta = meta


def _append_stat(known: Stat, rows: Int32s, more: Stat) -> Stat:
    """Return values of a stat, and of further rows those of the other stat."""
    has = more.kind != records.NONE
    columns = ((known.rows, rows[has]), (known.kind, more.kind[has]), (known.value, more.value[has]))
    return Stat(*(np.concatenate(pair) for pair in columns))


def _find_op_rows(events: HostEvents) -> Int32s:
    """Return the events of cores that record an op."""
    has = np.zeros(len(events), bool)
    for name in (_CATEGORY, _LONG_NAME):
        has[events.stat(name).of_kinds(_TEXTS).rows] = True
    for line in events.lines:
        if line.plane.kind not in _CORES:
            has[line.first : line.last] = False
    return np.flatnonzero(has).astype(np.int32)


def _number_names(events: HostEvents, rows: Int32s) -> Int64s:
    """Return the name of each event as a number: each core has its own metadata."""
    metas, place = number_values(events.meta[rows])
    numbers: dict[str, int] = {}
    each = [numbers.setdefault(events.names[meta], len(numbers)) for meta in metas.tolist()]
    return np.array(each, np.int64)[place]


def _find_long_names(events: HostEvents, rows: Int32s) -> Int64s:
    """Return the number of the text of each event's long name, or -1."""
    stat = events.stat(_LONG_NAME).of_kinds(_TEXTS).at(rows)
    return np.where(stat.kind != records.NONE, stat.value, -1)


def _find_programs(events: HostEvents, rows: Int32s) -> Int64s:
    """Return the id of the program of each event: its own, or that of what runs when it begins; 0: unknown."""
    own = events.stat(_PROGRAM).of_kinds(_INTEGERS).at(rows)
    values = np.where(own.kind != records.NONE, own.value, 0)
    for plane in events.planes:
        mine = find_rows_within(rows, plane.first, plane.last)
        for line in plane.lines:
            if line.name in MODULE_LINES and line.last > line.first:
                values[mine] = np.where(values[mine] == 0, _find_modules_around(events, line, rows[mine]), values[mine])
    return values


def _find_modules_around(events: HostEvents, line: Line, rows: Int32s) -> Int64s:
    """Return the id in brackets behind the name of the innermost module that runs when each event begins, 0: none does.
    A module has ended at its end: begins of events take part in the nesting of modules as if each lasted 1 ps."""
    times, number = number_values(events.start_ps[rows])
    start = np.concatenate([events.start_ps[line.first : line.last], times])
    duration = np.concatenate([events.duration_ps[line.first : line.last], np.ones(len(times), np.int64)])
    order = sort_rows(start, -duration)
    _, parent = nest_line(start[order], duration[order])
    module = np.full(len(order), -1, np.int64)
    module[order] = np.where(parent >= 0, order[parent], -1)
    place = module[line.last - line.first :][number.reshape(-1)]
    ids = [_ID.search(events.names[meta]) for meta in events.meta[line.first : line.last].tolist()]
    numbers = [int(match[1]) if match else 0 for match in ids]
    known = np.array([number if number <= _LARGEST_ID else 0 for number in numbers], np.uint64).view(np.int64)
    return np.where(place >= 0, known[place], 0)


CORRELATION: Final = "correlation_id"
EXTERNAL_IDS: Final = ("External id", "external id")
"""Categories of ops, calls and device work; kernels of 2020 are recorded in lower case."""
OP_ID: Final = "op of a launch"
"""A stat that an op and what it launched have in common; only in events that need it."""
CALLS: Final = frozenset({"runtime", "_runtime", "_driver"})
"""Categories of calls of the driver or its runtime, which launch and copy; ``_``: those of vendors end so."""
_OPS: Final = frozenset({"cpu_op", "operator"})
_STARTS: Final = ("launch", "memcpy", "memset", "copy", "fill", "enqueue", "submit")
"""Parts of the names of calls that start work, among those of one id."""


@dataclass(frozen=True, slots=True)
class _Ids:
    """Rows of events with an id."""

    rows: Int64s
    ids: Int64s

    def where(self, keep: Bools) -> _Ids:
        return _Ids(self.rows[keep], self.ids[keep])


def link_launches(events: HostEvents, external_ids: Callable[[], list[Stat]]) -> None:
    """Complete the correlation ids of events, which were read. ``external_ids``: reads the stats ``EXTERNAL_IDS``."""
    rows = _find_without_call(events)
    if not len(rows):
        return
    launcher = np.full(len(rows), -1, np.int64)
    has, own = join_stat(rows, *events.ints(CORRELATION))
    bare = ~has | (own <= 0)  # with an id, the arrow would come from the call that is missing; binding takes long
    if bare.any():
        launcher[bare] = _find_by_arrows(events, rows[bare])
    left = launcher < 0
    if left.any():
        launcher[left] = _find_by_ids(events, rows[left], np.where(has, own, 0)[left], external_ids())
    known = launcher >= 0
    is_call = is_of_category(events, CALLS)[events.meta[launcher]]
    _correlate_rows(events, rows[known & is_call], launcher[known & is_call])
    is_op = is_of_category(events, _OPS)[events.meta[launcher]]
    if (known & is_op).any():
        used, number = number_values(launcher[known & is_op])
        every = np.concatenate([used, rows[known & is_op]])
        ids = np.concatenate([np.arange(len(used)), number.reshape(-1)]) + 1
        order = np.argsort(every)
        at: Int32s = every[order].astype(np.int32)
        events.stats[OP_ID] = Stat(at, np.full(len(at), records.INT64, np.uint8), ids[order].astype(np.int64))


def is_of_category(events: HostEvents, categories: frozenset[str]) -> Bools:
    """Return whether the category of each event metadata is one of these; the last is that of events without any."""
    endings = tuple(category for category in categories if category.startswith("_"))
    wanted = {category for category in set(events.categories) if category in categories or category.endswith(endings)}
    if not wanted:
        return np.zeros(len(events.categories), bool)
    return np.array([category in wanted for category in events.categories], bool)


def _find_without_call(events: HostEvents) -> Int64s:
    """Return what devices ran whose call is not known by a correlation id; not what was launched before calls were
    recorded: ids count up."""
    lines = [
        line
        for plane in events.planes
        if plane.kind in ("GPU", "CUSTOM")
        for line in plane.lines
        if not line.is_derived and line.last > line.first
    ]
    rows = np.concatenate([np.zeros(0, np.int64), *(np.arange(line.first, line.last) for line in lines)])
    at, ids = events.ints(CORRELATION)
    has, own = join_stat(rows, at, ids)
    threads = events.plane_named(HOST_THREADS)
    calls = ids[:0] if threads is None else ids[find_rows_within(at, threads.first, threads.last)]
    linked = np.isin(own, calls) if len(calls) else np.zeros(len(rows), bool)
    earlier = (own > 0) & (own < calls.min(initial=np.iinfo(np.int64).max)) if len(calls) else linked
    left: Int64s = rows[~(has & (linked | earlier))]
    return left


def _find_by_arrows(events: HostEvents, rows: Int64s) -> Int64s:
    """Return the event of a thread from which an arrow leads to each row, or -1."""
    launcher = np.full(len(events), -1, np.int64)
    threads = events.plane_named(HOST_THREADS)
    if threads is not None:
        begin, end = events.recorded_arrows()
        of_threads = (begin >= threads.first) & (begin < threads.last)
        launcher[end[of_threads]] = begin[of_threads]
    return launcher[rows]


def _find_by_ids(events: HostEvents, rows: Int64s, correlations: Int64s, stats: list[Stat]) -> Int64s:
    """Return the call with the External id of each row, else the op that has it; -1: neither is recorded. If several
    calls of an id start work, the nth launches what is nth of the id. External ids that repeat the ``correlations`` of
    the rows (0: none) name calls, not ops."""
    ids = np.zeros(len(events), np.int64)
    for stat in stats:
        whole = stat.of_kinds((records.INT64, records.UINT64))
        ids[whole.rows] = whole.value
    host = np.zeros(len(events), bool)
    threads = events.plane_named(HOST_THREADS)
    if threads is not None:
        host[threads.first : threads.last] = True
    have = np.flatnonzero(host & (ids > 0))
    with_id = _Ids(have, ids[have])
    wanted = _Ids(rows, ids[rows])
    is_call, is_op = (is_of_category(events, category)[events.meta[have]] for category in (CALLS, _OPS))
    starts = np.array([any(part in name.lower() for part in _STARTS) for name in events.names], bool)
    repeats = (correlations > 0).any() and bool((wanted.ids == correlations)[correlations > 0].all())
    launcher = np.full(len(rows), -1, np.int64)
    for chosen in (is_call & starts[events.meta[have]], is_call, *(() if repeats else (is_op,))):
        left = launcher < 0
        launcher[left] = _match_launchers(events, wanted.where(left), with_id.where(chosen))
    return launcher


def _match_launchers(events: HostEvents, wanted: _Ids, launchers: _Ids) -> Int64s:
    """Return the launcher of each wanted row, the nth of an id for the nth, the last for those that are left; -1: none
    has the id."""
    order = sort_rows(launchers.ids, events.start_ps[launchers.rows])
    rows, ids = launchers.rows[order], launchers.ids[order]
    by_time = sort_rows(wanted.ids, events.start_ps[wanted.rows])
    first = np.searchsorted(wanted.ids[by_time], wanted.ids[by_time])
    nth = np.empty(len(by_time), np.int64)
    nth[by_time] = np.arange(len(by_time)) - first
    low, high = (np.searchsorted(ids, wanted.ids, side) for side in ("left", "right"))
    known = (high > low) & (wanted.ids > 0)
    matched = np.full(len(nth), -1, np.int64)
    matched[known] = rows[np.minimum(low + nth, high - 1)[known]]
    return matched


def _correlate_rows(events: HostEvents, rows: Int64s, calls: Int64s) -> None:
    """Give each row the correlation id of its call, and calls without one an id that no other event has."""
    if not len(rows):
        return
    at, ids = events.ints(CORRELATION)
    has, own = join_stat(calls, at, ids)
    fresh = max(int(ids.max(initial=0)), 0) + 1
    own = np.where(has & (own > 0), own, fresh + number_values(calls)[1])
    _set_correlations(events, np.concatenate([calls, rows]), np.concatenate([own, own]))


def _set_correlations(events: HostEvents, rows: Int64s, ids: Int64s) -> None:
    """Set the correlation ids of rows, instead of those that they have."""
    stat = events.stat(CORRELATION)
    rows, first = np.unique(rows, return_index=True)
    keep = ~np.isin(stat.rows, rows)
    every = np.concatenate([stat.rows[keep], rows.astype(np.int32)])
    order = np.argsort(every, kind="stable")
    kind = np.concatenate([stat.kind[keep], np.full(len(rows), records.INT64, np.uint8)])
    value = np.concatenate([stat.value[keep], ids[first]])
    events.replace_stat(CORRELATION, Stat(every[order], kind[order], value[order]))


PROFILER_RANGE: Final = "profiler_range"
"""The stat of events that are ranges."""
COUNTER: Final = "counter of a range: "
"""How stats begin that ranges have only; the name of the counter follows."""
PLANES: Final = (GPU_PLANES,)
_NUMBERS: Final = (records.INT64, records.UINT64, records.DOUBLE)
_OTHERS: Final = frozenset(
    {PROFILER_RANGE, "device", "context", "stream", "correlation", "correlation_id", "external id", "cat", "queue"}
    | {"kernel_id"}
)
"""Args that are no counters."""


def add_range_counters(events: HostEvents, names: list[str], read: Callable[[tuple[str, ...]], list[Stat]]) -> None:
    """Add a stat for each counter. ``names``: all stats of the capture; ``read``: reads some of the events of GPUs."""
    lines = [line for line in events.lines if line.plane.kind == "GPU"]
    rows = np.concatenate(
        [np.zeros(0, np.int32), *(np.arange(line.first, line.last, dtype=np.int32) for line in lines)]
    )
    is_range = np.isin(rows, events.ints(PROFILER_RANGE)[0])
    chosen = tuple(name for name in names if name.lower() not in _OTHERS)
    for name, stat in zip(chosen, read(chosen), strict=True):
        values = stat.of_kinds(_NUMBERS)
        keep = is_range[values.rows]
        if keep.any():
            events.stats[COUNTER + name] = Stat(rows[values.rows[keep]], values.kind[keep], values.value[keep])


_MOST_ROWS: Final = 2**31 - 1
_LAST_DERIVED: Final = FIRST_DERIVED + 388
_OF_TPUS: Final = ("Framework Name Scope", "Framework Ops", "Source code")
_DERIVED: Final[dict[str | None, tuple[str, ...]]] = {
    "GPU": (*_OF_TPUS, "Steps", "Launch Stats", "XLA Modules", "XLA Ops", "Command Buffers"),
    "TPU": _OF_TPUS,
    "SPARSECORE": _OF_TPUS,
}
"""Lines that XProf derives, by kind of device. Behind the name of a GPU's stands the stream that it is made from."""


def read_host(
    tables: TableSet, number: int, planes: tuple[str, ...], stats: tuple[str, ...], metadata: tuple[str, ...]
) -> HostEvents:
    """Return the events of capture ``number`` of the selection, in planes that match any of the regular expressions
    (none: in all planes), with these stats of events and of event metadata. Raises CaptureError where the file is
    broken."""
    index = tables.session.index
    part = index.captures[number]
    if part.capture.declares(CATEGORY).any():
        metadata = tuple(dict.fromkeys((*metadata, CATEGORY)))
        planes = ()  # there, what devices ran names no op: what launched it does
    narrow = tables.selection.narrowed([part.capture.host], planes or None)
    of_xprof = part.environment.transcribed_from == XPROF
    of_ops = choose_op_stats(metadata) if of_xprof else ()
    stats = tuple(dict.fromkeys((*_expand_names(tables, number, stats), *of_ops)))
    wanted = Wanted(index, narrow)
    source = EventSource(part, metadata)
    source.arrows = lambda: tables.session.arrows()[number]
    # The headers of all lines number them. If a single host is read entirely, its events are indexed with them: a
    # second look is saved.
    if len(index.captures) == 1 and not planes and not narrow.planes and not narrow.lines:
        index.ensure(records.STATS if index.captures[0].capture.salvage else records.EVENTS)
    else:
        index.ensure_lines()
    if metadata:
        _read_metadata(source, tables, number)
    own_planes = _list_planes(tables, wanted, number)
    filtered = narrow.filters_events or part.capture.salvage
    times = ("start_ps", "duration_ps", "line_id") if filtered else ("start_ps", "duration_ps")
    decoder = tables.decoder(Request(times, picks=stats, metas=True), narrow)
    share = list(decoder.blocks())
    if sum(block.rows for block in share) > _MOST_ROWS:
        raise CaptureError(
            "the host has more than 2,147,483,647 events: choose fewer with planes, lines or a time range",
            path=part.capture.path,
        )
    decoded = decoder.decode(share)
    source.texts = decoded.texts
    _add_lines(index, wanted, own_planes, decoded.events.get("line_id"), of_xprof)
    start = decoded.events["start_ps"]
    columns: dict[str, Any] = {
        "meta": decoded.metas,
        "start_ps": get_int64s(start),
        "duration_ps": get_int64s(decoded.events["duration_ps"]),
        "stats": {name: Stat(*picked) for name, picked in zip(stats, decoded.picks, strict=True)},
    }
    events = HostEvents(tables.session.first + number, own_planes, columns, source)
    if CATEGORY in source.metadata_numbers and CORRELATION in stats:
        link_launches(events, lambda: _read_stats(tables, EXTERNAL_IDS, narrow))
    if PROFILER_RANGE in stats and part.capture.declares(PROFILER_RANGE).any():
        of_gpus = tables.selection.narrowed([part.capture.host], PLANES)
        add_range_counters(events, _list_declared(tables, number), lambda names: _read_stats(tables, names, of_gpus))
    events = _drop_timeless(events, ~mark_nulls(start)) if start.null_count else events
    return add_op_metadata(events, source, metadata) if of_ops else events


def read_host_lines(tables: TableSet, number: int) -> HostEvents:
    """Capture ``number`` without its events: planes, and lines, whose ``first`` and ``last`` count the events that the
    capture has of them, those without a start too. Nothing is decoded."""
    index = tables.session.index
    part = index.captures[number]
    wanted = Wanted(index, tables.selection.narrowed([part.capture.host]))
    index.ensure_lines()
    planes = _list_planes(tables, wanted, number)
    _add_lines(index, wanted, planes, None, part.environment.transcribed_from == XPROF)
    none = np.zeros(0, np.int64)
    columns: dict[str, Any] = {"meta": np.zeros(0, np.int32), "start_ps": none, "duration_ps": none, "stats": {}}
    return HostEvents(number, planes, columns, EventSource(part, ()))


def _drop_timeless(events: HostEvents, has_start: npt.NDArray[np.bool_]) -> HostEvents:
    timed = events.subset(has_start)
    pairs = zip(events.lines, timed.lines, strict=True)
    lacking = {before.line_id: (before.last - before.first) - (line.last - line.first) for before, line in pairs}
    timed.untimed = {line_id: count for line_id, count in lacking.items() if count}
    return timed


def _expand_names(tables: TableSet, number: int, stats: tuple[str, ...]) -> tuple[str, ...]:
    """Expand names: one that ends in * stands for all stats of the capture that begin so."""
    begins = tuple(name.removesuffix("*") for name in stats if name.endswith("*"))
    plain = tuple(name for name in stats if not name.endswith("*"))
    if not begins:
        return plain
    return plain + tuple(
        name for name in _list_declared(tables, number) if name.startswith(begins) and name not in plain
    )


def _list_declared(tables: TableSet, number: int) -> list[str]:
    """Return the names of all stats of a capture."""
    names = tables.session.index.names
    numbers = sorted(set(names.texts[number].now().names.tolist()))
    texts = names.stats.array()  # after the numbers: other threads may declare stats meanwhile
    return [texts[text].as_py() for text in numbers]


def _read_stats(tables: TableSet, names: tuple[str, ...], selection: Selection) -> list[Stat]:
    """These stats of the selected events."""
    return [Stat(*picked) for picked in tables.decode(Request(picks=names), selection).picks]


def _add_lines(index: Index, wanted: Wanted, planes: list[Plane], line_id: pa.Array | None, of_xprof: bool) -> None:
    """Give the planes their lines, with the rows of each. ``line_id``: the line of each row; None: all events of the
    lines are there. ``of_xprof``: they are of a trace of XProf."""
    by_id = {plane.plane_id: plane for plane in planes}
    chosen = np.flatnonzero(wanted.lines())
    titles = [index.line_display_names[line] for line in chosen.tolist()]
    names = get_line_labels([index.line_names[line] for line in chosen.tolist()], titles)
    if line_id is None:
        lasts = np.cumsum(index.lines["event_count"][chosen])
        firsts = lasts - index.lines["event_count"][chosen]
    else:
        firsts = np.searchsorted(np.asarray(line_id), chosen)
        lasts = np.searchsorted(np.asarray(line_id), chosen, side="right")
    for number, (line, first, last) in enumerate(zip(chosen.tolist(), firsts.tolist(), lasts.tolist(), strict=True)):
        header = index.lines[line]
        plane = by_id[int(header["plane_id"])]
        base_ps, shown = int(header["base_ps"]), int(header["display_id"])
        name = names[number]
        plane.lines.append(
            Line(
                number, line, int(header["xline_id"]), name, plane, first, last, base_ps, shown, titles[number],
                int(header["first_event_id"]), int(header["event_count"]),
                _is_derived(int(header["xline_id"]), name, plane, of_xprof),
            )
        )  # fmt: skip


def _is_derived(xline_id: int, name: str, plane: Plane, of_xprof: bool) -> bool:
    """XProf gives lines that it derives of GPUs new ids in its traces, so that only their names remain."""
    if FIRST_DERIVED <= xline_id & 0xFFFFFFFF <= _LAST_DERIVED:
        return True
    return of_xprof and name.partition(" - from #")[0] in _DERIVED.get(plane.kind, ())


def _list_planes(tables: TableSet, wanted: Wanted, number: int) -> list[Plane]:
    index = tables.session.index
    part = index.captures[number]
    chosen = wanted.planes()
    planes: list[Plane] = []
    for i, (name, xplane_id) in enumerate(part.capture.plane_keys):
        if chosen[part.plane_base + i]:
            kind, ordinal = find_device_of_plane(name)
            if kind == "CPU" and name != HOST_THREADS:
                kind = None
            planes.append(Plane(len(planes), part.plane_base + i, name, kind, ordinal, xplane_id))
    by_id = {plane.plane_id: plane for plane in planes}
    for plane_id, stat, value in metadata_tables.list_plane_stats(index, chosen):
        by_id[plane_id].stats.setdefault(stat, value)
    return planes


def _read_metadata(source: EventSource, tables: TableSet, number: int) -> None:
    """Stats of event metadata: of several of one name, the first counts."""
    names = tables.session.index.names
    owner, stats = tables.session.metadata_stats(number)
    if set(hlo.METADATA_STATS) <= set(source.metadata_numbers):
        source.programs = tables.session.programs(number, (owner, stats))
    for name in source.metadata_numbers:
        rows = stats.first_rows(owner, names.stats.find(name))
        kind = stats.kind[rows].copy()
        value = np.where(kind == records.DOUBLE, stats.double_value[rows].view(np.int64), stats.int_value[rows])
        is_text = np.isin(kind, _TEXTS)
        value = np.where(is_text, stats.text[rows], value)
        kind[is_text & (stats.text[rows] < 0)] = records.NONE
        source.meta_stats[name] = Stat(owner[rows].astype(np.int32), kind, value.astype(np.int64))
        rows = rows[kind == records.BYTES]
        places = stats.places_of_bytes(rows)
        source.meta_places[name] = {int(owner[row]): places[row] for row in rows.tolist()}
