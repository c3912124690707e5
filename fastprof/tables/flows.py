"""The table flows: which recorded event led to which, by trace events of phase s, t and f, and the events at their
ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.decode.decoder import Decoder, Request
from fastprof.decode.flow_records import BOTH, IN, OUT, FlowRecords, read_flow_records
from fastprof.decode.import_log import ImportLog
from fastprof.decode.index import CaptureIndex, Index
from fastprof.decode.nesting import get_int64s
from fastprof.decode.selection import Selection, Wanted
from fastprof.decode.span_stats import KINETO
from fastprof.decode.text_pools import get_index_dtype
from fastprof.errors import CaptureError
from fastprof.schema.columns import (
    Int32s,
    Int64s,
    Records,
    count_bounds,
    find_rows_within,
    find_runs,
    number_owners,
    number_values,
    sort_rows,
)
from fastprof.schema.tables import Count, Kind, Picoseconds, String, TableSchema, Text, mark_nulls
from fastprof.schema.value_classes import dataclass

_INSTANT: Final = "s"
"""The scope of an instant. Instants are not slices."""
_MOST: Final = np.iinfo(np.int64).max


def clip_ends(start: Int64s, duration: Int64s) -> Int64s:
    """Times of ends, at most what 64 bits hold."""
    end: Int64s = start + np.minimum(duration, _MOST - np.maximum(start, 0))
    return end


class Slices:
    """The slices of a host, and the lines that they are on. ``named``: also all events with their names, for
    ``events_at``."""

    def __init__(self, index: Index, number: int, named: bool = False) -> None:
        part = index.captures[number]
        self.zero_ns = part.environment.zero_ns or 0
        self.of_kineto = part.environment.transcribed_from == KINETO
        picks = (_INSTANT,) if index.names.stats.find(_INSTANT) >= 0 else ()
        columns = ("event_id", "line_id", "start_ps", "duration_ps", *(("name",) if named else ()))
        request = Request(columns, picks=picks)
        decoder = Decoder(index, Wanted(index, Selection(hosts=(part.capture.host,))), request)
        decoded = decoder.decode(list(decoder.blocks()))
        event_id, start, duration = (
            get_int64s(decoded.events[name]) for name in ("event_id", "start_ps", "duration_ps")
        )
        is_slice = (duration >= 0) & ~mark_nulls(decoded.events["start_ps"])
        for rows, *_ in decoded.picks:
            is_slice[rows[duration[rows] == 0]] = False
        kept = np.flatnonzero(is_slice)
        self.event_id, self.start = event_id[kept], start[kept]
        self.end = clip_ends(self.start, duration[kept])
        line = np.asarray(decoded.events["line_id"])
        self.line = line[kept]
        self._names = decoded.events["name"] if named else None
        self._all = event_id, line, start, duration
        planes = {number: part.plane_base + place for place, (_, number) in enumerate(part.capture.plane_keys)}
        ids = zip(index.lines["plane_id"].tolist(), index.lines["xline_id"].tolist(), strict=True)
        line_ids = {key: line for line, key in enumerate(ids)}
        self._planes, self._line_ids = planes, line_ids

    def line_id(self, plane: int, line: int) -> int:
        """Return the line with these ids in the capture, or -1 if it has no events."""
        return self._line_ids.get((self._planes.get(plane, -1), line), -1)

    def rows(self, line_ids: Sequence[int]) -> Int64s:
        """Return the slices of some lines together, by start; of equal starts the longer first."""
        slices = [find_rows_within(self.line, line, line + 1) for line in line_ids]
        ranges = [np.arange(own.start, own.stop) for own in slices]
        rows: Int64s = np.concatenate([np.zeros(0, np.int64), *ranges])
        return rows if len(ranges) == 1 else rows[sort_rows(self.start[rows], -self.end[rows])]

    def events_at(self, part: FlowRecords, ps: Int64s) -> tuple[Int64s, Int32s]:
        """Return the event that each record is of, by its line, its start ``ps``, its duration and its name, -1: none,
        as it was left out; and its line. Of several that are equal in all of these, the first."""
        assert self._names is not None
        event_id, line, start, duration = self._all
        import pyarrow.compute as pc  # few captures have such flows

        code_of = pc.index_in(pa.array(part.texts, pa.string()), self._names.dictionary).fill_null(-1)
        codes = np.append(np.asarray(code_of, np.int64), -1)[part.ends["name"]]
        used, place = number_values(part.ends["line"])
        line_ids = np.array([self.line_id(*part.lines[number].tolist()) for number in used.tolist()], np.int32)
        wanted_line = line_ids[place.reshape(-1)]
        keys = [
            np.append(own, other)
            for own, other in (
                (np.asarray(self._names.indices, np.int64), codes), (duration, part.ends["duration_ps"]), (start, ps),
                (line, wanted_line),
            )
        ]  # fmt: skip
        is_wanted = np.arange(len(keys[0])) >= len(event_id)
        order = sort_rows(*reversed(keys), is_wanted)
        runs = find_runs(*(key[order] for key in keys))
        first = np.repeat(order[runs], np.diff(np.append(runs, len(order))))
        rows = np.append(event_id, np.full(len(ps), -1, np.int64))
        event = np.empty(len(order), np.int64)
        event[order] = rows[first]
        return event[len(event_id) :], wanted_line


def bind_ends(part: FlowRecords, phase: npt.NDArray[np.int32], ps: Int64s, slices: Slices) -> tuple[Int64s, Int32s]:
    """Return the event that each end is at, -1: none; and its line, else that of its thread, -1: the thread has no
    events. ``phase``: in small letters; ``ps``: times of ends, as events have them."""
    event, line = np.full(len(ps), -1, np.int64), np.full(len(ps), -1, np.int32)
    for group, line_ids in _group_by_thread(part, slices):
        rows = slices.rows(line_ids)
        is_next = part.ends["phase"][group] == ord("f")
        outlasts = (phase[group] == ord("s")) & (not slices.of_kineto)
        place = _find_slices(slices.start[rows], slices.end[rows], ps[group], is_next, outlasts)
        at = place >= 0
        line[group] = line_ids[0]
        event[group[at]], line[group[at]] = slices.event_id[rows[place[at]]], slices.line[rows[place[at]]]
    return event, line


def _group_by_thread(part: FlowRecords, slices: Slices) -> Iterator[tuple[Int64s, list[int]]]:
    """Yield the ends of each thread, and the lines that have its events, if any has."""
    numbers = part.ends["line"]
    order = np.argsort(numbers, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1):
        if len(group):
            own = int(numbers[group[0]])
            lines = [own, *(part.beside[own].tolist() if len(part.beside) else ())]
            ids = [slices.line_id(*part.lines[line].tolist()) for line in lines if line >= 0]
            known = [line_id for line_id in ids if line_id >= 0]
            if known:
                yield group, known


def _find_slices(
    start: Int64s, end: Int64s, ps: Int64s, is_next: npt.NDArray[np.bool_], outlasts: npt.NDArray[np.bool_]
) -> Int64s:
    """Return the slice of a thread at each time, or -1: the innermost around it, begin and end included; ``is_next``:
    the first that begins at it or later. Where a slice ends as others begin, ``outlasts`` are at its end, the others at
    their begin.

        |---------- a ----------|
           |--- b ---|--- c ---|
                     t             c, or b where it outlasts
    """
    before, after = np.searchsorted(start, ps, "left"), np.searchsorted(start, ps, "right")
    most = [end]  # then the maxima of pairs, of fours, of eights, and so on
    while len(most[-1]) > 1:
        below = most[-1]
        even = below if len(below) % 2 == 0 else np.append(below, np.iinfo(np.int64).min)
        most.append(np.maximum(even[::2], even[1::2]))
    place = _find_last_reaching(most, after, ps)
    outer = np.where(outlasts, _find_last_reaching(most, before, ps), -1)
    ends_here = outer >= 0
    ends_here[ends_here] = end[outer[ends_here]] == ps[ends_here]
    place = np.where(ends_here, outer, place)
    return np.where(is_next, np.where(before < len(start), before, -1), place)


def _find_last_reaching(levels: list[Int64s], before: Int64s, least: Int64s) -> Int64s:
    """Return, for each pair of ``before`` and ``least``, the last place below ``before`` whose value is at least
    ``least``, or -1. ``levels``: the maxima of the values.

    Up, until a block on the left has such a value; then down in it, to the right half if that has one.
    """
    at = before.astype(np.int64)
    block, row = np.full(len(at), -1, np.int64), np.full(len(at), -1, np.int64)
    for level, values in enumerate(levels):
        is_odd = (at % 2 == 1) & (row < 0)
        left = np.where(is_odd, at - 1, 0)
        reaches = is_odd & (values[left] >= least) if len(values) else np.zeros(len(at), bool)
        block[reaches], row[reaches] = left[reaches], level
        at = at // 2
    for level in range(len(levels) - 2, -1, -1):
        inside = np.flatnonzero(row > level)
        right = np.minimum(2 * block[inside] + 1, len(levels[level]) - 1)
        block[inside] = np.where(levels[level][right] >= least[inside], right, 2 * block[inside])
    return block


_LineId: Final = Kind(pa.int32())
FLOWS: Final = TableSchema("flows", "an arrow of a flow, from an event to one that it caused", (
    Text("host", "host, named after its capture file"),
    Count("flow", "number of the flow, the same for all arrows of a chain"),
    Text("name", "name of the flow"),
    Text("category", "category of the flow, such as ac2g (PyTorch: from launch to kernel), fwdbwd (from forward to "
         "backward op) or DataFlow (TensorFlow 1); null: not recorded"),
    String("id", "id that the ends share in the trace; null: not recorded"),
    Count("from_event_id", "event at the start of the arrow; null: no event is there, for a later arrow of a chain"),
    Count("to_event_id", "event at the end of the arrow; null: no event is there, although the end is recorded"),
    Picoseconds("from_ps", "time of the first end, from the start of profiling on its host"),
    Picoseconds("to_ps", "time of the other end, from the start of profiling on its host"),
    _LineId("from_line_id", "line of the first end; null: its thread has no events"),
    _LineId("to_line_id", "line of the other end; null: its thread has no events"),
), derived=True)  # fmt: skip

_FAR_NS: Final = 9223372036854775
_SMALL: Final = ord("a") - ord("A")
Chosen = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Arrows:
    """Arrows of one host. Ids of events and lines: -1 is null; ``name`` and ``category``: places in ``texts``, too."""

    flow: Int64s
    name: Int32s
    category: Int32s
    texts: list[str]
    id: list[str | None]
    from_event_id: Int64s
    to_event_id: Int64s
    from_ps: Int64s
    to_ps: Int64s
    from_line_id: Int32s
    to_line_id: Int32s

    def chosen(self, rows: Chosen) -> Arrows:
        numbers = {name: getattr(self, name)[rows] for name in (*_NUMBERS, "name", "category")}
        ids = [self.id[row] for row in np.flatnonzero(rows).tolist()]
        return Arrows(texts=self.texts, id=ids, **numbers)


_NUMBERS: Final = ("flow", "from_event_id", "to_event_id", "from_ps", "to_ps", "from_line_id", "to_line_id")


def read_capture_flows(part: CaptureIndex, log: ImportLog) -> list[FlowRecords]:
    """Return the ends of flows that a capture records: only those of other formats do. CaptureError: they are damaged,
    which is a row of import_log where faults are salvaged."""
    if part.environment.transcribed_from is None:
        return []
    try:
        return read_flow_records(part.capture)
    except CaptureError as fault:
        if not part.capture.salvage:
            raise
        log.add("data_loss", "damaged_flows", fault.message, fault.path, offset=fault.offset)
        return []


def make_arrows(index: Index, number: int, parts: list[FlowRecords], first: int) -> list[Arrows]:
    """Return the arrows of capture ``number``, with a row of import_log for what has none. ``first``: number of its
    first end among those of the session."""
    joined: list[Arrows] = []
    unmatched = 0
    of_events = [np.isin(part.ends["phase"], (IN, OUT, BOTH)) for part in parts]
    slices = Slices(index, number, named=any(rows.any() for rows in of_events)) if parts else None
    for part, is_event in zip(parts, of_events, strict=True):
        assert slices is not None
        for rows, match in ((np.flatnonzero(~is_event), _match_ends), (np.flatnonzero(is_event), _link_slices)):
            if len(rows):
                arrows, alone = match(replace(part, ends=part.ends[rows]), slices, first + rows)
                joined.append(arrows)
                unmatched += alone
        first += len(part.ends)
    if unmatched:
        text = "flow ends without another end or without an event are not in the flows table"
        index.log.add("info", "unmatched_flow", text, index.captures[number].capture.path, unmatched)
    return joined


def _convert_times(ends: Records, zero_ns: int) -> tuple[Int64s, Chosen]:
    """Return the times of ends as events have them, and whether they are near enough to have one."""
    is_near = np.abs(ends["ns"].astype(np.float64) - zero_ns) < _FAR_NS
    return np.where(is_near, (ends["ns"] - zero_ns) * 1000 + ends["ps"], 0), is_near


def _match_ends(part: FlowRecords, slices: Slices, numbers: Int64s) -> tuple[Arrows, int]:
    """Return the arrows between ends of one key, which follow each other in time; and the number of ends without
    others, and of flows that begin at no event. ``numbers``: of the ends in the session."""
    ends = part.ends
    phase = np.where(ends["phase"] < ord("a"), ends["phase"] + _SMALL, ends["phase"])
    ps, is_near = _convert_times(ends, slices.zero_ns)
    event, line = bind_ends(part, phase, ps, slices)
    order, chain = _chain_ends(part, phase, np.flatnonzero(is_near))
    heads = np.flatnonzero(np.diff(chain, prepend=-1))
    begins = phase[order[heads]] == ord("s")
    finished = np.cumsum(phase[order] == ord("f")) - (phase[order] == ord("f"))
    is_end = begins[chain] & (finished == finished[heads][chain])
    size = np.bincount(chain[is_end], minlength=len(heads))
    is_bound = event[order[heads]] >= 0
    rows, of = order[is_end & ((size > 1) & is_bound)[chain]], chain[is_end & ((size > 1) & is_bound)[chain]]
    linked = of[1:] == of[:-1]
    start, stop, flow = rows[:-1][linked], rows[1:][linked], order[heads[of[1:][linked]]]
    by_flow = np.argsort(flow, kind="stable")
    start, stop, flow = start[by_flow], stop[by_flow], flow[by_flow]
    arrows = Arrows(
        numbers[flow], ends["name"][flow], ends["category"][flow], part.texts, part.id_texts(flow), event[start],
        event[stop], ps[start], ps[stop], line[start], line[stop],
    )  # fmt: skip
    return arrows, len(ends) - int(is_end.sum()) + int((size == 1).sum()) + int(((size > 1) & ~is_bound).sum())


def _chain_ends(part: FlowRecords, phase: npt.NDArray[np.int32], rows: Int64s) -> tuple[Int64s, Int64s]:
    """These ends in order of category, name, id and time, and the number of the chain of each: s begins another."""
    ends = part.ends[rows]
    order = sort_rows(ends["category"], ends["name"], ends["id_kind"], ends["id"], ends["ns"], ends["ps"])
    ends = ends[order]
    fresh = phase[rows[order]] == ord("s")
    for name in ("id", "id_kind", "name", "category"):
        fresh[1:] |= ends[name][1:] != ends[name][:-1]
    fresh[:1] = True
    return rows[order], np.cumsum(fresh) - 1


def _link_slices(part: FlowRecords, slices: Slices, numbers: Int64s) -> tuple[Arrows, int]:
    """Link slices with a ``bind_id``, in the order of their starts. A slice that nothing flows into begins another
    flow."""
    ends = part.ends
    ps, is_near = _convert_times(ends, slices.zero_ns)
    event, line = slices.events_at(part, ps)
    rows = np.flatnonzero(is_near)
    order = rows[sort_rows(*(ends[name][rows] for name in ("id_kind", "id", "ns", "ps")))]
    phase, place = ends["phase"][order], np.arange(len(order))
    is_other = np.zeros(len(order), bool)
    for name in ("id", "id_kind"):
        is_other[1:] |= np.diff(ends[name][order]) != 0
    is_other[:1] = True
    head = np.maximum.accumulate(np.where(is_other | (phase == OUT), place, 0))
    gives, takes = np.isin(phase, (OUT, BOTH)), np.isin(phase, (IN, BOTH))
    before = np.append(-1, np.maximum.accumulate(np.where(gives, place, -1)))[:-1]
    takes_something = takes & (before >= np.maximum.accumulate(np.where(is_other, place, 0)))
    consumer = np.flatnonzero(takes_something)
    producer = before[consumer]
    alone = len(ends) - len(rows) + int((takes & ~takes_something).sum()) + int(gives.sum()) - len(np.unique(producer))
    known = event[order[producer]] >= 0
    consumer, producer = consumer[known], producer[known]
    start, stop, flow = order[producer], order[consumer], order[head[producer]]
    return Arrows(
        numbers[flow], ends["name"][flow], ends["category"][flow], part.texts, part.id_texts(flow), event[start],
        event[stop], clip_ends(ps[start], ends["duration_ps"][start]), ps[stop], line[start], line[stop],
    ), alone  # fmt: skip


def make_flows_table(hosts: list[tuple[str, Arrows]]) -> dict[str, pa.Array]:
    """Return the columns of the table."""
    counts = [len(arrows.flow) for _, arrows in hosts]
    texts = [text for _, arrows in hosts for text in arrows.texts]
    before = count_bounds([len(arrows.texts) for _, arrows in hosts])
    columns: dict[str, pa.Array] = {"host": _encode_values([host for host, _ in hosts], number_owners(counts))}
    for name in ("name", "category"):
        places = [getattr(arrows, name) for _, arrows in hosts]
        at = [np.where(place < 0, -1, place + offset) for place, offset in zip(places, before, strict=False)]
        columns[name] = _encode_values(texts, np.concatenate([np.zeros(0, np.int64), *at]))
    columns["id"] = pa.array([text for _, arrows in hosts for text in arrows.id], pa.string())
    for name in _NUMBERS:
        values = np.concatenate([np.zeros(0, np.int64), *(getattr(arrows, name) for _, arrows in hosts)])
        kind = FLOWS[name].type
        columns[name] = pa.array(values, kind, mask=values < 0 if name.endswith("_id") else None)
    return {name: columns[name] for name in FLOWS.names()}


def _encode_values(values: list[str], at: npt.NDArray[Any]) -> pa.DictionaryArray:
    """``values[at[i]]`` in row i, -1: null; each text once, with indices as narrow as fit."""
    used, place = number_values(at[at >= 0])
    distinct: dict[str, int] = {}
    number = np.array([distinct.setdefault(values[value], len(distinct)) for value in used.tolist()], np.int64)
    rows = np.zeros(len(at), get_index_dtype(len(distinct)))
    rows[at >= 0] = number[place.reshape(-1)] if len(number) else 0
    return pa.DictionaryArray.from_arrays(pa.array(rows, mask=at < 0), pa.array(list(distinct), pa.string()))
