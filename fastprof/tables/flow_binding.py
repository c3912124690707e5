"""Which event the end of a flow is at: the slices of its thread, and where its time lies among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.decode.decoder import Decoder
from fastprof.decode.flow_records import FlowRecords
from fastprof.decode.index import Index
from fastprof.decode.nesting import int64s
from fastprof.decode.request import Request
from fastprof.decode.selection import Selection, Wanted
from fastprof.decode.task_environment import KINETO
from fastprof.schema.array_types import Int32s, Int64s

_INSTANT: Final = "s"
"""The scope of an instant. Instants are not slices."""
_MOST: Final = np.iinfo(np.int64).max


def ends_of(start: Int64s, duration: Int64s) -> Int64s:
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
        event_id, start, duration = (int64s(decoded.events[name]) for name in ("event_id", "start_ps", "duration_ps"))
        is_slice = (duration >= 0) & ~np.asarray(decoded.events["start_ps"].is_null())
        for rows, *_ in decoded.picks:
            is_slice[rows[duration[rows] == 0]] = False
        kept = np.flatnonzero(is_slice)
        self.event_id, self.start = event_id[kept], start[kept]
        self.end = ends_of(self.start, duration[kept])
        line = np.asarray(decoded.events["line_id"])
        self.line = line[kept]
        self._names = decoded.events["name"] if named else None
        self._all = event_id, line, start, duration
        planes = {number: part.plane_base + place for place, (_, number) in enumerate(part.capture.plane_keys)}
        ids = zip(index.lines["plane_id"].tolist(), index.lines["xline_id"].tolist(), strict=True)
        line_ids = {key: line for line, key in enumerate(ids)}
        self._planes, self._line_ids = planes, line_ids

    def line_id(self, plane: int, line: int) -> int:
        """The line with these ids in the capture; -1: there is none, because it has no events."""
        return self._line_ids.get((self._planes.get(plane, -1), line), -1)

    def rows(self, line_ids: Sequence[int]) -> Int64s:
        """The slices of some lines together, by start; of equal starts the longer first."""
        ranges = [np.arange(*np.searchsorted(self.line, [line, line + 1])) for line in line_ids]
        rows: Int64s = np.concatenate([np.zeros(0, np.int64), *ranges])
        return rows if len(ranges) == 1 else rows[np.lexsort((-self.end[rows], self.start[rows]))]

    def events_at(self, part: FlowRecords, ps: Int64s) -> tuple[Int64s, Int32s]:
        """The event that each record is of, by its line, its start ``ps``, its duration and its name, -1: none, as it
        was left out; and its line. Of several that are equal in all of these, the first."""
        assert self._names is not None
        event_id, line, start, duration = self._all
        import pyarrow.compute as pc  # few captures have such flows

        code_of = pc.index_in(pa.array(part.texts, pa.string()), self._names.dictionary).fill_null(-1)
        codes = np.append(np.asarray(code_of, np.int64), -1)[part.ends["name"]]
        used, place = np.unique(part.ends["line"], return_inverse=True)
        line_ids = np.array([self.line_id(*part.lines[one].tolist()) for one in used.tolist()], np.int32)
        wanted_line = line_ids[place.reshape(-1)]
        keys = [
            np.append(own, other)
            for own, other in (
                (np.asarray(self._names.indices, np.int64), codes), (duration, part.ends["duration_ps"]), (start, ps),
                (line, wanted_line),
            )
        ]  # fmt: skip
        is_wanted = np.arange(len(keys[0])) >= len(event_id)
        order = np.lexsort((is_wanted, *keys))
        is_first = np.append(True, np.logical_or.reduce([np.diff(key[order]) != 0 for key in keys]))[: len(order)]
        first = order[is_first][np.cumsum(is_first) - 1]
        found = np.append(event_id, np.full(len(ps), -1, np.int64))
        event = np.empty(len(order), np.int64)
        event[order] = found[first]
        return event[len(event_id) :], wanted_line


def bound(part: FlowRecords, phase: npt.NDArray[np.int32], ps: Int64s, slices: Slices) -> tuple[Int64s, Int32s]:
    """The event that each end is at, -1: none; and its line, else that of its thread, -1: the thread has no events.
    ``phase``: in small letters; ``ps``: times of ends, as events have them."""
    event, line = np.full(len(ps), -1, np.int64), np.full(len(ps), -1, np.int32)
    for group, line_ids in _threads(part, slices):
        rows = slices.rows(line_ids)
        is_next = part.ends["phase"][group] == ord("f")
        outlasts = (phase[group] == ord("s")) & (not slices.of_kineto)
        place = _places(slices.start[rows], slices.end[rows], ps[group], is_next, outlasts)
        at = place >= 0
        line[group] = line_ids[0]
        event[group[at]], line[group[at]] = slices.event_id[rows[place[at]]], slices.line[rows[place[at]]]
    return event, line


def _threads(part: FlowRecords, slices: Slices) -> Iterator[tuple[Int64s, list[int]]]:
    """The ends of each thread, and the lines that have its events, if any has."""
    numbers = part.ends["line"]
    order = np.argsort(numbers, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1):
        if len(group):
            own = int(numbers[group[0]])
            lines = [own, *(part.beside[own].tolist() if len(part.beside) else ())]
            ids = [slices.line_id(*part.lines[one].tolist()) for one in lines if one >= 0]
            known = [line_id for line_id in ids if line_id >= 0]
            if known:
                yield group, known


def _places(
    start: Int64s, end: Int64s, ps: Int64s, is_next: npt.NDArray[np.bool_], outlasts: npt.NDArray[np.bool_]
) -> Int64s:
    """Among the slices of a thread the one that each time is at; -1: none. The innermost around it, begin and end
    included; ``is_next``: the first that begins at it or later. Where a slice ends as others begin, ``outlasts`` are
    at its end, the others at their begin.

        |---------- a ----------|
           |--- b ---|--- c ---|
                     t             c, or b where it outlasts
    """
    before, after = np.searchsorted(start, ps, "left"), np.searchsorted(start, ps, "right")
    most = _maxima(end)
    place = _last_reaching(most, after, ps)
    outer = np.where(outlasts, _last_reaching(most, before, ps), -1)
    ends_here = outer >= 0
    ends_here[ends_here] = end[outer[ends_here]] == ps[ends_here]
    place = np.where(ends_here, outer, place)
    return np.where(is_next, np.where(before < len(start), before, -1), place)


def _maxima(values: Int64s) -> list[Int64s]:
    """The values, the maxima of pairs of them, of fours, of eights, and so on."""
    levels = [values]
    while len(levels[-1]) > 1:
        below = levels[-1]
        even = below if len(below) % 2 == 0 else np.append(below, np.iinfo(np.int64).min)
        levels.append(np.maximum(even[::2], even[1::2]))
    return levels


def _last_reaching(levels: list[Int64s], before: Int64s, least: Int64s) -> Int64s:
    """For each pair of ``before`` and ``least`` the last place below ``before`` whose value is at least ``least``; -1:
    there is none. ``levels``: the maxima of the values.

    Up, until a block on the left has such a value; then down in it, to the right half if that has one.
    """
    at = before.astype(np.int64)
    block, found = np.full(len(at), -1, np.int64), np.full(len(at), -1, np.int64)
    for level, values in enumerate(levels):
        is_odd = (at % 2 == 1) & (found < 0)
        left = np.where(is_odd, at - 1, 0)
        reaches = is_odd & (values[left] >= least) if len(values) else np.zeros(len(at), bool)
        block[reaches], found[reaches] = left[reaches], level
        at = at // 2
    for level in range(len(levels) - 2, -1, -1):
        inside = np.flatnonzero(found > level)
        right = np.minimum(2 * block[inside] + 1, len(levels[level]) - 1)
        block[inside] = np.where(levels[level][right] >= least[inside], right, 2 * block[inside])
    return block
