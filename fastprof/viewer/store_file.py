"""The file that a store maps: a host's events by track, lane and start, and slices of them at each level of detail.

It begins with HEAD; columns and records lie where the header at its end, a JSON object, says. Tracks are built in
groups, side by side: events have their place from the start, slices are appended as they come.
"""

from __future__ import annotations

import json
import os
import struct
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof._native import lod
from fastprof.decode.workers import Workers, grouped
from fastprof.schema.array_types import Int64s
from fastprof.schema.value_classes import dataclass

Records = npt.NDArray[Any]

FORMAT: Final = 1
"""Files of other formats are not read: it is part of what names a file in the cache."""
HEAD: Final = struct.Struct("<8sIIQQ")
"""Magic, format, a number that shows the order of bytes, and the place and length of the header."""
MAGIC, ORDER = b"fastprof", 0x01020304

LANE = np.dtype([(name, "u4") for name in ("first", "count", "track", "lane", "first_level", "levels")])
LEVEL = np.dtype([("first", "u8"), ("count", "u4"), ("level", "u4")])
SLICE = np.dtype([("start", "i8"), ("end", "i8"), ("busy", "i8"), ("first", "u4"), ("name", "u4")])
TRACK = np.dtype([("first_at", "u4"), ("events", "u4"), ("first_lane", "u4"), ("lanes", "u4"), ("row", "u4")])
COLUMNS: Final[dict[str, np.dtype[Any]]] = {
    "start": np.dtype("i8"),
    "duration": np.dtype("i8"),
    "name": np.dtype("u4"),
    "event": np.dtype("u4"),
}

_LAST_LANE: Final = 4095
_LATEST: Final = 2**63 - 1
_ALIGNED: Final = 64
_GROUP_EVENTS: Final = 1 << 19
_MOST_EVENTS: Final = 2**32 - 2
_WRITE_BYTES: Final = 1 << 30


@dataclass(frozen=True, slots=True, eq=False)
class TrackInput:
    """``start``, ``duration``: int64; ``name``: int32, places in names. Events are best sorted by start, longer first.
    ``row``: the number of the first event, others count up. ``about``: what JSON can hold; all tracks have the same
    keys."""

    start: Int64s
    duration: Int64s
    name: npt.NDArray[np.int32]
    row: int
    about: dict[str, Any]


def build(
    path: str | os.PathLike[str],
    tracks: Sequence[TrackInput],
    names: Sequence[str] | pa.Array,
    about: dict[str, Any],
    workers: Workers,
) -> None:
    """Writes the file. OSError: it cannot be written; ValueError: names or columns make no sense."""
    counts = np.array([len(track.start) for track in tracks], np.int64)
    if int(counts.sum()) > _MOST_EVENTS:
        raise ValueError("more than 4,294,967,294 events")
    texts = names if isinstance(names, pa.Array) else pa.array(names, pa.large_string())
    if texts.type != pa.large_string():
        texts = texts.cast(pa.large_string())
    with Path(path).open("wb") as file:
        _Build(file.fileno(), tracks, counts, texts, workers).write(about)


class _Build:
    def __init__(
        self, fd: int, tracks: Sequence[TrackInput], counts: Int64s, names: pa.Array, workers: Workers
    ) -> None:
        self.fd = fd
        self.tracks = tracks
        self.names = names
        self.workers = workers
        self.first_at = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        self.lock = threading.Lock()
        self.end = HEAD.size
        self.spare: list[dict[str, Records]] = []
        self.sections: dict[str, tuple[int, int]] = {}
        events = int(self.first_at[-1])
        for name, dtype in COLUMNS.items():
            self.sections[name] = self.reserve(events * dtype.itemsize), events * dtype.itemsize

    # ---- places in the file

    def reserve(self, size: int) -> int:
        """The offset of ``size`` more bytes."""
        with self.lock:
            offset = -(-self.end // _ALIGNED) * _ALIGNED
            self.end = offset + size
        return offset

    def put(self, data: Any, offset: int) -> None:
        plain: Any = data.view(np.uint8) if isinstance(data, np.ndarray) else data
        view = memoryview(plain)
        while len(view):
            written = os.pwrite(self.fd, view[:_WRITE_BYTES], offset)
            view, offset = view[written:], offset + written

    def section(self, name: str, data: Any, size: int) -> None:
        self.sections[name] = self.reserve(size), size
        self.put(data, self.sections[name][0])

    # ---- what is written

    def write(self, about: dict[str, Any]) -> None:
        groups = grouped(np.diff(self.first_at).tolist(), _GROUP_EVENTS)
        groups.sort(key=lambda group: int(self.first_at[group[0]] - self.first_at[group[1]]))  # the largest first
        slices = self.reserve(0)
        tasks = [partial(self.group, first, last) for first, last in groups]
        built = sorted(self.workers.run("levels of detail", tasks), key=lambda one: one.first)
        self.sections["slices"] = slices, self.end - slices
        self.spare.clear()
        lanes, levels = _joined(built, slices)
        self.section("lanes", lanes, lanes.nbytes)
        self.section("levels", levels, levels.nbytes)
        records = self.track_records(lanes)
        self.section("tracks", records, records.nbytes)
        self.put_names()
        header = {
            "about": about,
            "tracks": _columns_of([track.about for track in self.tracks]),
            "names": len(self.names),
            "first_ps": min((one.first_ps for one in built), default=0),
            "last_ps": max((one.last_ps for one in built), default=0),
            "sections": self.sections,
        }
        text = json.dumps(header, separators=(",", ":")).encode()
        offset = self.reserve(len(text))
        self.put(text, offset)
        self.put(HEAD.pack(MAGIC, FORMAT, ORDER, offset, len(text)), 0)

    def put_names(self) -> None:
        _, offsets, data = self.names.buffers()
        first, last = self.names.offset, self.names.offset + len(self.names)
        places = np.frombuffer(offsets, np.int64)[first : last + 1] if len(self.names) else np.zeros(1, np.int64)
        self.section("name_offsets", places - places[0], places.nbytes)
        size = int(places[-1] - places[0])
        self.section("name_text", memoryview(data)[int(places[0]) : int(places[-1])] if size else b"", size)

    def track_records(self, lanes: Records) -> Records:
        records = np.zeros(len(self.tracks), TRACK)
        records["first_at"], records["events"] = self.first_at[:-1], np.diff(self.first_at)
        numbers = np.arange(len(self.tracks))
        records["first_lane"] = np.searchsorted(lanes["track"], numbers)
        records["lanes"] = np.searchsorted(lanes["track"], numbers, side="right") - records["first_lane"]
        records["row"] = [track.row for track in self.tracks]
        return records

    # ---- groups of tracks

    def group(self, first: int, last: int) -> _Group:
        """Tracks ``first`` to ``last``: lays their events in lanes, and writes these and their slices."""
        at, events = int(self.first_at[first]), int(self.first_at[last] - self.first_at[first])
        columns = self.room(events)
        out = {name: column[:events] for name, column in columns.items()}
        work = lod.Group(at, len(self.names), out["start"], out["duration"], out["name"], out["event"])
        for number in range(first, last):
            self.add(work, number, out["event"][int(self.first_at[number]) - at : int(self.first_at[number + 1]) - at])
        lanes = np.frombuffer(work.lanes(), LANE)
        for name, column in out.items():
            self.put(column, self.sections[name][0] + at * column.itemsize)
        slices = work.slices()
        offset = self.reserve(len(slices))
        self.put(slices, offset)
        first_ps, last_ps = _extent(lanes, at, out["start"], out["duration"])
        self.spare.append(columns)
        return _Group(first, lanes, np.frombuffer(work.levels(), LEVEL), offset, first_ps, last_ps)

    def add(self, work: lod.Group, number: int, event: Records) -> None:
        track = self.tracks[number]
        code = work.add(number, track.start, track.duration, track.name, track.row)
        if code == lod.UNSORTED:
            order = np.lexsort((~track.duration, track.start))
            code = work.add(number, track.start[order], track.duration[order], track.name[order], 0)
            event[:] = track.row + order[event]
        if code == lod.BAD_NAME:
            raise ValueError("an event has a name that is not there")

    def room(self, events: int) -> dict[str, Records]:
        """Columns for ``events`` events, used again when others have done with them."""
        with self.lock:
            for i, columns in enumerate(self.spare):
                if len(columns["start"]) >= events:
                    return self.spare.pop(i)
        return {name: np.empty(events, dtype) for name, dtype in COLUMNS.items()}


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    first: int
    lanes: Records
    levels: Records
    offset: int
    first_ps: int
    last_ps: int


def _joined(groups: Sequence[_Group], slices: int) -> tuple[Records, Records]:
    """Lanes and levels of all groups; ``slices``: where those of the first begin."""
    lanes, levels, count = [np.zeros(0, LANE)], [np.zeros(0, LEVEL)], 0
    for group in groups:
        lanes.append(group.lanes.copy())
        levels.append(group.levels.copy())
        lanes[-1]["first_level"] += count
        levels[-1]["first"] += (group.offset - slices) // SLICE.itemsize
        count += len(group.levels)
    return np.concatenate(lanes), np.concatenate(levels)


def _extent(lanes: Records, at: int, start: Int64s, duration: Int64s) -> tuple[int, int]:
    """When the first event of a group begins, and when the last ends."""
    if not len(lanes):
        return _LATEST, -_LATEST - 1
    ends = lanes["first"].astype(np.int64) + lanes["count"] - 1 - at
    for lane in lanes[lanes["lane"] == _LAST_LANE]:  # its events overlap
        first = int(lane["first"]) - at
        ends = np.append(ends, np.arange(first, first + int(lane["count"])))
    firsts = lanes["first"].astype(np.int64) - at
    last = start[ends] + np.maximum(duration[ends], 0)
    last[last < start[ends]] = _LATEST
    return int(start[firsts].min()), int(last.max())


def _columns_of(abouts: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    return {key: [about[key] for about in abouts] for key in (abouts[0] if abouts else ())}
