"""What the viewer keeps of a host and draws of it, by the definitions, event by event in Python."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastprof.viewer.host_files import TrackInput

LATEST = 2**63 - 1
MOST_LANES = 4096

Event = tuple[int, int, int]
"""start, duration, number of the name."""


def end_of(start: int, duration: int) -> int:
    return min(start + max(duration, 1), LATEST)


def sorted_events(events: Sequence[Event]) -> list[Event]:
    return sorted(events, key=lambda event: (event[0], -event[1]))


def lanes_of(events: Sequence[Event]) -> list[int]:
    """The first free lane below the lowest open event that encloses the new one."""
    open_until: dict[int, int] = {}
    found = []
    for start, duration, _ in events:
        end = end_of(start, duration)
        open_until = {lane: until for lane, until in open_until.items() if until > start}
        lane = max((lane for lane, until in open_until.items() if until >= end), default=-1) + 1
        while lane in open_until:
            lane += 1
        lane = min(lane, MOST_LANES - 1)
        open_until[lane] = max(end, open_until.get(lane, end))
        found.append(lane)
    return found


@dataclass(slots=True)
class Kept:
    """An event as the store has it. ``end``: on its lane."""

    track: int
    lane: int
    start: int
    duration: int
    name: int
    row: int
    end: int = 0

    @property
    def busy(self) -> int:
        return min(max(self.duration, 0), self.end - self.start)


class SlowStore:
    """Events of several tracks, in the order of ``at``."""

    def __init__(self, tracks: Sequence[Sequence[Event]]) -> None:
        self.kept: list[Kept] = []
        row = 0
        for track, events in enumerate(tracks):
            mine = sorted_events(events)
            found = [Kept(track, lane, *event, row=0) for lane, event in zip(lanes_of(mine), mine, strict=True)]
            for i, one in enumerate(found):
                one.row = row + i
            row += len(found)
            self.kept += sorted(found, key=lambda one: one.lane)
        for one, following in zip(self.kept, [*self.kept[1:], None], strict=False):
            one.end = end_of(one.start, one.duration)
            if following is not None and (following.track, following.lane) == (one.track, one.lane):
                one.end = min(one.end, following.start)

    def lanes(self) -> dict[tuple[int, int], list[int]]:
        found: dict[tuple[int, int], list[int]] = defaultdict(list)
        for at, one in enumerate(self.kept):
            found[one.track, one.lane].append(at)
        return dict(found)

    def runs(self, ats: Sequence[int], level: int) -> list[list[int]]:
        """The events of a lane as slices: neighbours shorter than a bucket that begin in the same one are one."""
        found: list[list[int]] = []
        for at in ats:
            one = self.kept[at]
            last = self.kept[found[-1][-1]] if found else None
            short = one.end - one.start < 1 << level
            if last and short and last.end - last.start < 1 << level and last.start >> level == one.start >> level:
                found[-1].append(at)
            else:
                found.append([at])
        return found

    def slices(self, level: int, first: int, last: int, origin: int) -> dict[tuple[int, int], list[tuple[Any, ...]]]:
        """By track and lane: start, duration, busy share, count, name, at."""
        found = {}
        for place, ats in self.lanes().items():
            drawn = [run for run in self.runs(ats, level) if any(self._is_in(at, first, last) for at in run)]
            if drawn:
                found[place] = [self._drawn(run, origin) for run in drawn]
        return found

    def _is_in(self, at: int, first: int, last: int) -> bool:
        one = self.kept[at]
        return one.start <= last and (one.end > first or one.start >= first)

    def _drawn(self, run: Sequence[int], origin: int) -> tuple[Any, ...]:
        begin, end = self.kept[run[0]], self.kept[run[-1]].end
        busy = sum(self.kept[at].busy for at in run)
        if len(run) == 1:
            return (float(begin.start - origin), float(busy), 1.0, 1, begin.name, run[0])
        extent = end - begin.start
        share = float(np.float32(busy / float(extent))) if extent else 1.0
        times: dict[int, int] = defaultdict(int)
        for at in run:
            times[self.kept[at].name] += self.kept[at].busy
        name = min(times, key=lambda name: (-times[name], name))
        return (float(begin.start - origin), float(extent), share, len(run), name, run[0])

    def parent(self, at: int) -> int | None:
        inner, best = self.kept[at], None
        for number, one in enumerate(self.kept):
            if one.track != inner.track or one.lane >= inner.lane or one.start > inner.start:
                continue
            if end_of(one.start, one.duration) >= end_of(inner.start, inner.duration):
                best = number
        return best

    def sums(self, tracks: Sequence[int] | None, first: int, last: int) -> dict[int, tuple[int, ...]]:
        """By name: count, total, clipped, least, most, longest."""
        found: dict[int, list[int]] = {}
        for at, one in enumerate(self.kept):
            if tracks is not None and one.track not in tracks:
                continue
            if one.start > last or end_of(one.start, one.duration) <= first:
                continue
            length = max(one.duration, 0)
            inside = max(min(one.start + length, last + 1) - max(one.start, first), 0)
            sums = found.setdefault(one.name, [0, 0, 0, length, -1, at])
            sums[0] += 1
            sums[1] += length
            sums[2] += inside
            sums[3] = min(sums[3], length)
            if length > sums[4]:
                sums[4], sums[5] = length, at
        return {name: tuple(sums) for name, sums in found.items()}

    def place(self, at: int) -> tuple[int, int, int]:
        one = self.kept[at]
        return one.start, one.track, one.lane

    def hits(self, wanted: Sequence[bool]) -> list[int]:
        """Numbers of events with a wanted name, in the order of start, track, lane."""
        return sorted((at for at, one in enumerate(self.kept) if wanted[one.name]), key=self.place)


def inputs(tracks: Sequence[Sequence[Event]], row: int = 0) -> list[TrackInput]:
    """The tracks as a store is built from them, sorted."""
    found = []
    for number, events in enumerate(tracks):
        mine = sorted_events(events)
        start, duration, name = ([event[i] for event in mine] for i in range(3))
        columns = np.array(start, np.int64), np.array(duration, np.int64), np.array(name, np.int32)
        found.append(TrackInput(*columns, row, {"name": f"track {number}"}))
        row += len(mine)
    return found


def unpacked(tile: bytes) -> tuple[dict[str, int], dict[tuple[int, int], list[tuple[Any, ...]]]]:
    """Header and slices of a tile, by track and lane, as docs/viewer.md describes its bytes."""
    names = ("magic", "version", "rows", "slices", "level", "zero", "low", "high")
    header = dict(zip(names, struct.unpack_from("<8I", tile), strict=True))
    rows, count = header["rows"], header["slices"]
    track, lane, end = np.frombuffer(tile, "<u4", 3 * rows, 32).reshape(3, rows).tolist()
    at = 32 + (12 * rows + 7) // 8 * 8
    columns = []
    for dtype in ("<f8", "<f8", "<f4", "<u4", "<u4", "<u4"):
        columns.append(np.frombuffer(tile, dtype, count, at).tolist())
        at += count * np.dtype(dtype).itemsize
    assert at == len(tile)
    slices = list(zip(*columns, strict=True))
    begins = [0, *end][:rows]
    found = {(t, k): slices[a:b] for t, k, a, b in zip(track, lane, begins, end, strict=True)}
    assert len(found) == rows
    return header, found
