"""Host events as the viewer asks for them: what is drawn of a window, sums by name, names found, what encloses what.

A Store maps one file (host_files.py). A HostStore is the events of the capture and, once they are there, those derived
of them: numbers of events (``at``), tracks and names of the derived follow those of the capture.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof._native import lod
from fastprof.decode.workers import Workers, count_cpus
from fastprof.schema.columns import (
    Bools,
    Int64s,
    UInt8s,
    UInt32s,
    expand_ranges,
    find_place,
    find_runs,
    reduce_runs,
    sort_rows,
    sum_by,
)
from fastprof.schema.value_classes import dataclass
from fastprof.viewer.cache_folder import DamagedFileError
from fastprof.viewer.host_files import (
    COLUMNS,
    HEAD,
    LANE,
    LEVEL,
    MAGIC,
    ORDER,
    SLICE,
    STORE_FORMAT,
    TRACK,
)

SUM_TYPE: Final = np.dtype(
    [("total", "i8"), ("clipped", "i8"), ("least", "i8"), ("most", "i8")]
    + [("name", "u4"), ("longest", "u4"), ("count", "u8")]
)
_WIDE: Final = np.dtype([(field, "i8") for field in SUM_TYPE.names or ()])


@dataclass(frozen=True, slots=True, eq=False)
class NameSums:
    """Sums by name as columns, the most time in the range first. ``clipped_ps``: parts of durations in the range;
    ``longest``: the number of the longest event. Sums that do not fit 64 bits are the largest number."""

    name: Int64s
    count: Int64s
    total_ps: Int64s
    clipped_ps: Int64s
    min_ps: Int64s
    max_ps: Int64s
    longest: Int64s

    @property
    def events(self) -> int:
        return int(self.count.sum())

    def __len__(self) -> int:
        return len(self.name)


def merge_sums(parts: Iterable[tuple[bytes, int, int]]) -> NameSums:
    """Merge sums of several parts: records, and the first numbers of their names and of their events."""
    records_of_parts = [np.zeros(0, _WIDE)]
    for data, names, events in parts:
        records = np.frombuffer(data, SUM_TYPE).astype(_WIDE)
        records["name"] += names
        records["longest"] += events
        records_of_parts.append(records)
    sums = np.concatenate(records_of_parts)
    sums = sums[sort_rows(sums["name"], -sums["most"], sums["longest"])]
    firsts = find_runs(sums["name"])
    if len(firsts) < len(sums):
        sums = _add_sums(sums, firsts)
    sums = sums[sort_rows(-sums["clipped"], -sums["total"], sums["name"])]
    fields = ("name", "count", "total", "clipped", "least", "most", "longest")
    return NameSums(*(np.ascontiguousarray(sums[field]) for field in fields))


def _add_sums(sums: npt.NDArray[Any], firsts: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
    """Add the rows of each name; the first of them has the longest event."""
    out = sums[firsts]
    out["least"] = reduce_runs(np.minimum, sums["least"], firsts)
    out["count"] = reduce_runs(np.add, sums["count"], firsts)
    for field in ("total", "clipped"):
        near = reduce_runs(np.add, sums[field].astype(np.float64), firsts)
        out[field] = np.where(near >= 2.0**63, _LATEST, reduce_runs(np.add, sums[field], firsts))
    return out


COARSEST: Final = lod.COARSEST
"""Largest level of a tile."""
NAME_LETTERS: Final = 300
"""Letters of a name that is shown beside others; the details of an event have all of it."""
_FEWEST, _LATEST = -(2**63), 2**63 - 1
_NO_TRACK: Final = 2**32
"""Number past those of all tracks."""
_TILE_BITS: Final = 10
_EFFORT: Final = 1 << 20
_TASK_EVENTS: Final = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class StoredTrack:
    """Track of a store. ``lanes``: how many it has. ``first_at``: the number of its first event."""

    number: int
    about: dict[str, Any]
    derived: bool
    events: int
    lanes: int
    first_at: int


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """Event of a store. ``name``: its number. ``row``: of HostEvents, or of the derived timeline."""

    at: int
    track: int
    lane: int
    start_ps: int
    duration_ps: int
    name: int
    row: int
    derived: bool


class Store:
    """Mapped store file. DamagedFileError: it is not a store; OSError: it cannot be opened."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        with Path(path).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < HEAD.size:
                raise DamagedFileError("too short for levels of detail")
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        magic, version, order, offset, length = HEAD.unpack(self._map[: HEAD.size])
        if (magic, version, order) != (MAGIC, STORE_FORMAT, ORDER) or offset + length > size:
            raise DamagedFileError("no levels of detail")
        try:
            self._read(json.loads(self._map[offset : offset + length]))
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
            raise DamagedFileError("levels of detail are damaged") from error

    def _read(self, header: dict[str, Any]) -> None:
        self._sections = header["sections"]
        self.about: dict[str, Any] = header["about"]
        self.first_ps, self.last_ps = int(header["first_ps"]), int(header["last_ps"])
        self.start, self.duration, self.name, self.event = (self._column(*item) for item in COLUMNS.items())
        self.lanes, self.levels = self._column("lanes", LANE), self._column("levels", LEVEL)
        self.track_records = self._column("tracks", TRACK)
        self.names = self._names(int(header["names"]))
        self._abouts: dict[str, list[Any]] = header["tracks"]
        slices = self._column("slices", SLICE) if self._sections["slices"][1] else np.zeros(0, SLICE)
        columns = (self.start, self.duration, self.name, self.event)
        self.lod = lod.Lod(*columns, self.lanes, self.levels, slices, len(self.names))
        records = self.track_records
        for first, count, there in (("first_at", "events", len(self)), ("first_lane", "lanes", len(self.lanes))):
            ends = np.cumsum(records[count], dtype=np.int64)
            if (records[first] != ends - records[count]).any() or (int(ends[-1]) if len(ends) else 0) != there:
                raise DamagedFileError("tracks are damaged")  # they do not follow each other, in events or lanes
        if any(len(column) != len(records) for column in self._abouts.values()):
            raise DamagedFileError("tracks are damaged")

    def _column(self, name: str, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        offset, size = self._sections[name]
        return np.frombuffer(self._map, dtype, size // dtype.itemsize, offset) if size else np.zeros(0, dtype)

    def _names(self, count: int) -> pa.Array:
        offsets = self._name_offsets = self._column("name_offsets", np.dtype("i8"))
        text = self._name_text = self._column("name_text", np.dtype("u1"))
        if len(offsets) != count + 1 or offsets[-1] != len(text) or (np.diff(offsets) < 0).any():
            raise DamagedFileError("names are damaged")
        names = pa.LargeStringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text))
        names.validate(full=True)
        return names

    def __len__(self) -> int:
        return len(self.start)

    def short_name(self, number: int) -> str:
        begin, end = self._name_offsets[number : number + 2].tolist()
        most = 4 * (NAME_LETTERS + 1)  # bytes of that many letters
        text = self._name_text[begin : min(end, begin + most)].tobytes().decode("utf-8", "ignore")
        return cut_name(text)

    def tracks(self, number: int = 0, at: int = 0, *, derived: bool = False) -> list[StoredTrack]:
        """Return the tracks, numbered from ``number`` on, and their events from ``at`` on."""
        rows = self.track_records.tolist()
        columns = zip(*self._abouts.values(), strict=True) if self._abouts else ((),) * len(rows)
        abouts = [dict(zip(self._abouts, values, strict=True)) for values in columns]
        return [
            StoredTrack(number + i, about, derived, row[1], row[3], at + row[0])
            for i, (row, about) in enumerate(zip(rows, abouts, strict=True))
        ]

    def lanes_of(self, tracks: Int64s | None) -> UInt32s:
        """Return the numbers of the lanes of tracks (None for all), in their order."""
        if tracks is None:
            return np.arange(len(self.lanes), dtype=np.uint32)
        if len(tracks) == 1:
            record = self.track_records[int(tracks[0])]
            return np.arange(record["first_lane"], record["first_lane"] + record["lanes"], dtype=np.uint32)
        firsts, counts = self.track_records["first_lane"][tracks], self.track_records["lanes"][tracks].astype(np.int64)
        return expand_ranges(firsts, counts)[1].astype(np.uint32)

    def lanes_seen(self, first_ps: int, last_ps: int) -> Bools:
        """Return whether each lane has an event that overlaps the times from ``first_ps`` to ``last_ps``: the last one
        that starts by then is the one to end last. All lanes are bisected at once."""
        begin = self.lanes["first"].astype(np.int64)
        low, high = begin.copy(), begin + self.lanes["count"]
        while (open_ := low < high).any():
            middle = (low[open_] + high[open_]) // 2
            before = self.start[middle] <= last_ps
            low[open_] = np.where(before, middle + 1, low[open_])
            high[open_] = np.where(before, high[open_], middle)
        is_seen = low > begin
        start, duration = self.start[low[is_seen] - 1], np.maximum(self.duration[low[is_seen] - 1], 0)
        since = np.full(len(start), first_ps, np.int64).view(np.uint64) - start.view(np.uint64)  # may pass 2**63
        is_seen[is_seen] = (start >= first_ps) | (duration.view(np.uint64) > since)
        return is_seen

    def place(self, row: int) -> int | None:
        """Return the number of the event of a row, or None."""
        records = self.track_records
        order, rows = self._tracks_by_row
        place = find_place(rows, row)
        while place >= 0 and not records["events"][order[place]]:
            place -= 1
        if place < 0:
            return None
        track = records[order[place]]
        for lane in self.lanes[track["first_lane"] : track["first_lane"] + track["lanes"]]:
            first, last = int(lane["first"]), int(lane["first"]) + int(lane["count"])
            at = first + find_place(self.event[first:last], row)
            if at >= first and self.event[at] == row:
                return at
        first = int(track["first_at"])  # a track whose rows were not in order
        found_at = np.flatnonzero(self.event[first : first + int(track["events"])] == row)
        return first + int(found_at[0]) if len(found_at) else None

    @cached_property
    def _tracks_by_row(self) -> tuple[npt.NDArray[np.intp], UInt32s]:
        """Return the order of tracks by their first rows, and these rows in it."""
        order = np.argsort(self.track_records["row"], kind="stable")
        return order, self.track_records["row"][order]

    def sums(self, tracks: Int64s | None, first_ps: int, last_ps: int, workers: Workers) -> list[bytes]:
        lanes = self.lanes_of(tracks)
        ends = np.cumsum(self.lanes["count"][lanes], dtype=np.int64)
        cuts = np.searchsorted(ends, np.arange(_TASK_EVENTS, int(ends[-1]) if len(ends) else 0, _TASK_EVENTS)) + 1
        shares = np.split(lanes, np.unique(cuts))
        return workers.run(None, [partial(self.lod.sums, share, first_ps, last_ps) for share in shares])


@dataclass(frozen=True, slots=True, eq=False)
class _StorePart:
    """Store of a host; its tracks, events and names are numbered from these on."""

    store: Store
    derived: bool = False
    tracks: int = 0
    events: int = 0
    names: int = 0

    def chosen(self, tracks: Sequence[int] | npt.NDArray[Any] | None) -> Int64s | None:
        """Return the tracks that are of this store, as it numbers them; None for all."""
        if tracks is None:
            return None
        numbers = sort_unique(tracks) - self.tracks
        return numbers[(numbers >= 0) & (numbers < len(self.store.track_records))]

    def flags(self, wanted: Bools) -> UInt8s:
        """Return the flags of its names."""
        return np.ascontiguousarray(wanted[self.names : self.names + len(self.store.names)]).view(np.uint8)


class HostStore:
    """Events of a host: ``raw``, those of the capture, and ``derived``, None before they are there."""

    def __init__(self, raw: Store, derived: Store | None = None, threads: int | None = None) -> None:
        self.raw = raw
        self._parts = [_StorePart(raw)]
        if derived is not None:
            self._parts.append(_StorePart(derived, True, len(raw.track_records), len(raw), len(raw.names)))
        self.about = raw.about if derived is None else {**raw.about, **derived.about}
        self._workers = Workers(threads or count_cpus())

    @cached_property
    def tracks(self) -> list[StoredTrack]:
        return [
            track for part in self._parts for track in part.store.tracks(part.tracks, part.events, derived=part.derived)
        ]

    @property
    def events(self) -> int:
        return sum(len(part.store) for part in self._parts)

    @property
    def first_ps(self) -> int:
        """Start of its first event, or 0 if there is none."""
        return min((part.store.first_ps for part in self._parts if len(part.store)), default=0)

    @property
    def last_ps(self) -> int:
        return max((part.store.last_ps for part in self._parts if len(part.store)), default=0)

    # ---- names

    @property
    def name_count(self) -> int:
        return sum(len(part.store.names) for part in self._parts)

    @property
    def name_array(self) -> list[pa.Array]:
        """Names of both stores, whose numbers are places in the concatenation."""
        return [part.store.names for part in self._parts]

    def name(self, number: int) -> str:
        part = self._parts[-1] if number >= self._parts[-1].names else self._parts[0]
        return str(part.store.names[number - part.names].as_py())

    def short_name(self, number: int) -> str:
        """Return the first letters of a name, without looking at the others: many events may share a name of
        megabytes."""
        part = self._parts[-1] if number >= self._parts[-1].names else self._parts[0]
        return part.store.short_name(number - part.names)

    # ---- events

    def _local(self, at: int) -> tuple[_StorePart, int]:
        part = self._parts[-1] if at >= self._parts[-1].events else self._parts[0]
        if not 0 <= at - part.events < len(part.store):
            raise IndexError(f"no event {at}")
        return part, at - part.events

    def event(self, at: int) -> StoredEvent:
        """Return the event of that number. IndexError: there is none."""
        part, local = self._local(at)
        store = part.store
        lane = store.lanes[store.lod.lane_of(local)]
        return StoredEvent(
            at=at,
            track=int(lane["track"]) + part.tracks,
            lane=int(lane["lane"]),
            start_ps=int(store.start[local]),
            duration_ps=int(store.duration[local]),
            name=int(store.name[local]) + part.names,
            row=int(store.event[local]),
            derived=part.derived,
        )

    def times(self, ats: Sequence[int]) -> tuple[Int64s, Int64s]:
        """Return starts and durations of events of one track."""
        part, _ = self._local(ats[0]) if ats else (self._parts[0], 0)
        places = np.array(ats, np.int64) - part.events
        return part.store.start[places], part.store.duration[places]

    def place(self, row: int) -> int | None:
        """Return the number of the capture's event of a row, or None."""
        return self.raw.place(row)

    def parent(self, at: int) -> int | None:
        """Return the innermost event of its track that encloses an event, or None."""
        part, local = self._local(at)
        parent = part.store.lod.parent(local)
        return None if parent is None else parent + part.events

    def enclosing(self, at: int, most: int) -> list[int]:
        """Return the events that enclose an event, the innermost first, at most ``most``."""
        outers: list[int] = []
        while len(outers) < most and (outer := self.parent(outers[-1] if outers else at)) is not None:
            outers.append(outer)
        return outers

    def children(self, at: int, most: int) -> tuple[int | None, list[int]]:
        """Return the number of events with this parent, None if more than can be counted at once; and the first
        ``most`` of them."""
        part, local = self._local(at)
        children = np.zeros(most, np.uint32)
        count = part.store.lod.children(local, children, _EFFORT)
        first = children if count < 0 else children[:count]
        return None if count < 0 else count, (first[first > 0].astype(np.int64) + part.events).tolist()

    def lanes_within(self, from_ps: int, to_ps: int) -> tuple[Int64s, Int64s]:
        """Return the tracks and numbers of the lanes with events that overlap [from_ps, to_ps), by track, then lane."""
        first, last = max(from_ps, _FEWEST), min(to_ps - 1, _LATEST)
        tracks, lanes = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for part in self._parts if first <= last else ():
            chosen = part.store.lanes[part.store.lanes_seen(first, last)]
            tracks.append(chosen["track"].astype(np.int64) + part.tracks)
            lanes.append(chosen["lane"].astype(np.int64))
        return np.concatenate(tracks), np.concatenate(lanes)

    # ---- sums and search

    def range_sums(self, tracks: Sequence[int] | npt.NDArray[Any] | None, from_ps: int, to_ps: int) -> NameSums:
        """Sum by name the events that overlap [from_ps, to_ps)."""
        first, last = max(from_ps, _FEWEST), min(to_ps - 1, _LATEST)
        if first > last:
            return merge_sums([])
        return merge_sums([
            (sums, part.names, part.events)
            for part in self._parts
            for sums in part.store.sums(part.chosen(tracks), first, last, self._workers)
        ])  # fmt: skip

    def slice_sums(self, at: int, count: int) -> NameSums:
        """Sum the events of a slice by name."""
        part, local = self._local(at)
        count = min(max(count, 0), len(part.store) - local)
        return merge_sums([(part.store.lod.run_sums(local, count), part.names, part.events)])

    def hits(self, wanted: Bools) -> Int64s:
        """Count by track the events that have a name that is wanted."""
        counts_of_parts = []
        for part in self._parts:
            store, flags = part.store, part.flags(wanted)
            counts, lanes = np.zeros(len(store.lanes), np.int64), store.lanes_of(None)
            if flags.any():
                shares = [slice(int(share[0]), int(share[-1]) + 1) for share in np.array_split(lanes, 8) if len(share)]
                tasks = [partial(store.lod.hits, lanes[share], flags, counts[share]) for share in shares]
                self._workers.run(None, tasks)
            counts_of_parts.append(sum_by(store.lanes["track"], counts, len(store.track_records)))
        return np.concatenate(counts_of_parts)

    def named(self, wanted: Bools) -> Iterator[tuple[Int64s, Int64s, Int64s]]:
        """Yield numbers, starts and durations of the events of wanted names, by number, in parts."""
        for part in self._parts:
            store, flags = part.store, part.flags(wanted).view(np.bool_)
            for first in range(0, len(store) if flags.any() else 0, _TASK_EVENTS):
                places = first + np.flatnonzero(flags[store.name[first : first + _TASK_EVENTS]])
                if len(places):
                    yield places + part.events, store.start[places], store.duration[places]

    def next_hit(
        self, wanted: Bools, from_ps: int, track: int = -1, lane: int = -1, *, forward: bool = True
    ) -> int | None:
        """Return the first wanted event past a place in the order of start, track, lane, or the last before it."""
        if not _FEWEST <= from_ps <= _LATEST:  # before all events, or past all
            if forward == (from_ps > _LATEST):
                return None
            from_ps, track = (_FEWEST, -1) if forward else (_LATEST, _NO_TRACK)
        hits: list[tuple[int, int]] = []
        for part in self._parts:
            store, flags = part.store, part.flags(wanted)
            if flags.any():
                at = store.lod.next_hit(store.lanes_of(None), flags, from_ps, track - part.tracks, lane, forward)
                if at is not None:
                    hits.append((int(store.start[at]), at + part.events))
        return (min(hits) if forward else max(hits))[1] if hits else None

    def hit_number(self, wanted: Bools, at: int) -> int:
        """Count the wanted events before one."""
        event = self.event(at)
        return sum(
            part.store.lod.hits_before(
                part.store.lanes_of(None), part.flags(wanted), event.start_ps, event.track - part.tracks, event.lane
            )
            for part in self._parts
        )

    # ---- drawing

    def draw(self, to: lod.Tile, part: TilePart, level: int, first_ps: int, last_ps: int) -> None:
        """Add the rows of a part to a tile."""
        tracks, ids = np.asarray(part.tracks, np.int64), np.asarray(part.ids, np.uint32)
        first, last = max(first_ps, _FEWEST), min(last_ps, _LATEST)
        if first > last:
            return
        origin = min(max(part.origin_ps, _FEWEST), _LATEST)
        for stored in self._parts:
            store, numbers = stored.store, tracks - stored.tracks
            mine = (numbers >= 0) & (numbers < len(store.track_records))
            lanes = store.lanes_of(numbers[mine])
            rows = np.repeat(ids[mine], store.track_records["lanes"][numbers[mine]])
            if part.lanes is not None:
                shown = (store.lanes["lane"][lanes] >= part.lanes.start) & (
                    store.lanes["lane"][lanes] < part.lanes.stop
                )
                lanes, rows = lanes[shown], rows[shown]
            shift = float(origin - part.origin_ps)
            to.add(store.lod, lanes, rows, level, first, last, origin, shift, stored.events, stored.names)


@dataclass(frozen=True, slots=True, eq=False)
class TilePart:
    """Tracks of a host, by their numbers; ``ids``: what the tile calls them. ``origin_ps``: the host's time when the
    session's is 0. ``lanes``: drawn lanes of each track, None for all."""

    store: HostStore
    tracks: Sequence[int] | npt.NDArray[Any]
    ids: Sequence[int] | npt.NDArray[Any]
    origin_ps: int
    lanes: range | None = None


def make_tile(parts: Sequence[TilePart], level: int, index: int) -> bytes:
    """Draw [index, index + 1) * 2^(level + 10) ps of the session: docs/viewer.md describes its bytes. ValueError: there
    is no such tile."""
    if not 0 <= level <= COARSEST or not 0 <= index < 1 << 64:
        raise ValueError("no such tile")
    drawn = lod.Tile()
    first, width = index << (level + _TILE_BITS), 1 << (level + _TILE_BITS)
    for part in parts:
        begin = part.origin_ps + first
        part.store.draw(drawn, part, level, begin, begin + width - 1)
    return drawn.packed(level, index)


def cut_name(name: str, letters: int = NAME_LETTERS) -> str:
    return name if len(name) <= letters else name[: letters - 1] + "…"


def sort_unique(numbers: npt.ArrayLike) -> Int64s:
    """Return the distinct numbers in ascending order. np.unique takes tens of times as long if they already are."""
    ascending: Int64s = np.asarray(numbers, np.int64)
    if (ascending[1:] < ascending[:-1]).any():
        ascending = np.sort(ascending)
    return ascending if (ascending[1:] > ascending[:-1]).all() else ascending[find_runs(ascending)]
