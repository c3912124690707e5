"""The two files that a host's timeline is made of: the store, with its events, and the facts, with all else.

A store has the events by track, lane and start, and slices of them at each level of detail. It begins with HEAD;
columns and records lie where the header at its end, a JSON object, says. Facts are flows, groups, steps, counters and
values of derived events, as an Arrow file of columns of different lengths. Both are kept in the cache, so that the next
time nothing is decoded for them.
"""

from __future__ import annotations

import json
import os
import struct
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof._native import lod
from fastprof.decode.workers import Workers, group_sizes
from fastprof.inputs.open_files import write_bytes
from fastprof.schema.columns import Int32s, Int64s, count_bounds, find_group_bounds, sort_rows
from fastprof.schema.tables import make_texts
from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from fastprof.derive.host import Host
    from fastprof.derive.timeline.derived_track import DerivedTimeline
    from fastprof.derive.timeline.event_groups import StepBand
    from fastprof.tables.table_set import TableSet


Records = npt.NDArray[Any]

STORE_FORMAT: Final = 1
"""Format of store files, part of what names a file in the cache. Files of other formats are not read."""
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


@dataclass(frozen=True, slots=True, eq=False)
class TrackInput:
    """Events of a track. ``start``, ``duration``: int64; ``name``: int32, places in names. Events are best sorted by
    start, longer first. ``row``: the number of the first event, others count up. ``about``: what JSON can hold; all
    tracks have the same keys."""

    start: Int64s
    duration: Int64s
    name: npt.NDArray[np.int32]
    row: int
    about: dict[str, Any]


def build_store(
    path: str | os.PathLike[str],
    tracks: Sequence[TrackInput],
    names: Sequence[str] | pa.Array,
    about: dict[str, Any],
    workers: Workers,
) -> None:
    """Write the file. OSError: it cannot be written; ValueError: names or columns make no sense."""
    counts = np.array([len(track.start) for track in tracks], np.int64)
    if int(counts.sum()) > _MOST_EVENTS:
        raise ValueError("more than 4,294,967,294 events")
    texts = names if isinstance(names, pa.Array) else pa.array(names, pa.large_string())
    if texts.type != pa.large_string():
        texts = texts.cast(pa.large_string())
    with Path(path).open("wb") as file:
        _StoreBuilder(file.fileno(), tracks, counts, texts, workers).write(about)


class _StoreBuilder:
    def __init__(
        self, fd: int, tracks: Sequence[TrackInput], counts: Int64s, names: pa.Array, workers: Workers
    ) -> None:
        self.fd = fd
        self.tracks = tracks
        self.names = names
        self.workers = workers
        self.first_at = count_bounds(counts)
        self.lock = threading.Lock()
        self.end = HEAD.size
        self.spare: list[dict[str, Records]] = []
        self.sections: dict[str, tuple[int, int]] = {}
        events = int(self.first_at[-1])
        for name, dtype in COLUMNS.items():
            self.sections[name] = self.reserve(events * dtype.itemsize), events * dtype.itemsize

    # ---- places in the file

    def reserve(self, size: int) -> int:
        """Reserve ``size`` more bytes, and return their offset."""
        with self.lock:
            offset = -(-self.end // _ALIGNED) * _ALIGNED
            self.end = offset + size
        return offset

    def put(self, data: Any, offset: int) -> None:
        plain: Any = data.view(np.uint8) if isinstance(data, np.ndarray) else data
        write_bytes(self.fd, plain, offset)

    def section(self, name: str, data: Any, size: int) -> None:
        self.sections[name] = self.reserve(size), size
        self.put(data, self.sections[name][0])

    # ---- what is written

    def write(self, about: dict[str, Any]) -> None:
        groups = group_sizes(np.diff(self.first_at).tolist(), _GROUP_EVENTS)
        groups.sort(key=lambda group: int(self.first_at[group[0]] - self.first_at[group[1]]))  # the largest first
        slices = self.reserve(0)
        tasks = [partial(self.group, first, last) for first, last in groups]
        built = sorted(self.workers.run("levels of detail", tasks), key=lambda group: group.first)
        self.sections["slices"] = slices, self.end - slices
        self.spare.clear()
        lanes, levels = _join_groups(built, slices)
        self.section("lanes", lanes, lanes.nbytes)
        self.section("levels", levels, levels.nbytes)
        records = self.track_records(lanes)
        self.section("tracks", records, records.nbytes)
        self.put_names()
        keys = self.tracks[0].about if self.tracks else ()
        header = {
            "about": about,
            "tracks": {key: [track.about[key] for track in self.tracks] for key in keys},
            "names": len(self.names),
            "first_ps": min((group.first_ps for group in built), default=0),
            "last_ps": max((group.last_ps for group in built), default=0),
            "sections": self.sections,
        }
        text = json.dumps(header, separators=(",", ":")).encode()
        offset = self.reserve(len(text))
        self.put(text, offset)
        self.put(HEAD.pack(MAGIC, STORE_FORMAT, ORDER, offset, len(text)), 0)

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
        bounds = find_group_bounds(lanes["track"], len(self.tracks))
        records["first_lane"], records["lanes"] = bounds[:-1], np.diff(bounds)
        records["row"] = [track.row for track in self.tracks]
        return records

    # ---- groups of tracks

    def group(self, first: int, last: int) -> _TrackGroup:
        """Lay the events of tracks ``first`` to ``last`` in lanes, and write these and their slices."""
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
        first_ps, last_ps = _find_extent(lanes, at, out["start"], out["duration"])
        self.spare.append(columns)
        return _TrackGroup(first, lanes, np.frombuffer(work.levels(), LEVEL), offset, first_ps, last_ps)

    def add(self, work: lod.Group, number: int, event: Records) -> None:
        track = self.tracks[number]
        code = work.add(number, track.start, track.duration, track.name, track.row)
        if code == lod.UNSORTED:
            order = sort_rows(track.start, ~track.duration)
            code = work.add(number, track.start[order], track.duration[order], track.name[order], 0)
            event[:] = track.row + order[event]
        if code == lod.BAD_NAME:
            raise ValueError("an event has a name that is not there")

    def room(self, events: int) -> dict[str, Records]:
        """Return columns for ``events`` events, reused from groups that are done."""
        with self.lock:
            for i, columns in enumerate(self.spare):
                if len(columns["start"]) >= events:
                    return self.spare.pop(i)
        return {name: np.empty(events, dtype) for name, dtype in COLUMNS.items()}


@dataclass(frozen=True, slots=True, eq=False)
class _TrackGroup:
    first: int
    lanes: Records
    levels: Records
    offset: int
    first_ps: int
    last_ps: int


def _join_groups(groups: Sequence[_TrackGroup], slices: int) -> tuple[Records, Records]:
    """Join lanes and levels of all groups; ``slices``: where those of the first begin."""
    lanes, levels, count = [np.zeros(0, LANE)], [np.zeros(0, LEVEL)], 0
    for group in groups:
        lanes.append(group.lanes.copy())
        levels.append(group.levels.copy())
        lanes[-1]["first_level"] += count
        levels[-1]["first"] += (group.offset - slices) // SLICE.itemsize
        count += len(group.levels)
    return np.concatenate(lanes), np.concatenate(levels)


def _find_extent(lanes: Records, at: int, start: Int64s, duration: Int64s) -> tuple[int, int]:
    """Return when the first event of a group begins, and when the last ends."""
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


Column: TypeAlias = "npt.NDArray[Any] | pa.Array"

FACTS_FORMAT: Final = b"1"
FACTS_VERSION: Final = 8
"""Number that grows when other facts are computed: older ones are computed again."""
_FORMAT_KEY: Final = b"fastprof.facts"
_NO_PROCESS: Final = -1


@dataclass(frozen=True, slots=True)
class Flows:
    """Pairs of rows of the host's events. ``from_ps``: the end of the producer, ``to_ps``: start of the consumer."""

    producer: Int32s
    consumer: Int32s
    kind: npt.NDArray[np.uint8]
    from_ps: Int64s
    to_ps: Int64s

    def __len__(self) -> int:
        return len(self.producer)

    def kind_name(self, place: int) -> str:
        from fastprof.derive.timeline.flows import SHOWN_KINDS  # late: the first picture does not wait for it

        return str(SHOWN_KINDS[int(self.kind[place])])


@dataclass(frozen=True, slots=True)
class Counter:
    """Counter of a process, by its number on the host. ``time_ps`` ascends."""

    process: int
    name: str
    unit: str
    time_ps: Int64s
    value: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Band:
    """Steps of a process, or of the host if it is -1, in order of time. ``title``: places in ``titles``."""

    process: int
    start_ps: Int64s
    duration_ps: Int64s
    group: Int32s
    title: Int32s
    titles: Sequence[str]


class HostFacts:
    """Facts of a host, read from their file when they are needed. ValueError: it is no such file, or one of another
    version."""

    def __init__(self, path: Path) -> None:
        try:
            reader = pa.ipc.open_file(pa.memory_map(str(path)))
            if (reader.schema.metadata or {}).get(_FORMAT_KEY) != FACTS_FORMAT:
                raise ValueError("facts of another version")
            batch = reader.get_batch(0)
        except pa.ArrowException as error:
            raise ValueError(f"no facts: {error}") from None
        self._columns = {name: batch.column(i).flatten() for i, name in enumerate(batch.schema.names)}

    def _numbers(self, name: str) -> npt.NDArray[Any]:
        numbers: npt.NDArray[Any] = np.asarray(self._columns[name])
        return numbers

    def _texts(self, name: str) -> list[str]:
        texts: list[str] = self._columns[name].to_pylist()
        return texts

    def _spans(self, name: str) -> Iterator[slice]:
        """Yield the rows of each part, from where the parts end."""
        first = 0
        for end in self._numbers(name).tolist():
            yield slice(first, end)
            first = end

    @cached_property
    def flows(self) -> Flows:
        return Flows(*(self._numbers(f"flow.{name}") for name in Flows.__dataclass_fields__))

    def group(self, row: int) -> int:
        """Return the number of the group of an event of the capture, or -1."""
        groups = self._numbers("group")
        return int(groups[row]) if row < len(groups) else -1

    @cached_property
    def group_names(self) -> dict[int, str]:
        """Names of groups, by number."""
        return dict(zip(self._numbers("named.group").tolist(), self._texts("named.name"), strict=True))

    @cached_property
    def step_names(self) -> dict[int, str]:
        """Names of steps, by the row of the event that trace viewers show under this name."""
        return dict(zip(self._numbers("called.row").tolist(), self._texts("called.name"), strict=True))

    @cached_property
    def gpu_programs(self) -> frozenset[int]:
        """Ids of programs with instructions that events of GPUs name themselves, as int64."""
        return frozenset(self._numbers("gpu.program").tolist())

    @cached_property
    def counters(self) -> list[Counter]:
        times, values = self._numbers("counter.time_ps"), self._numbers("counter.value")
        labels = (self._numbers("counter.process").tolist(), self._texts("counter.name"), self._texts("counter.unit"))
        parts = zip(*labels, self._spans("counter.end"), strict=True)
        return [Counter(process, name, unit, times[rows], values[rows]) for process, name, unit, rows in parts]

    @cached_property
    def bands(self) -> list[Band]:
        titles = self._texts("band.titles")
        columns = {name: self._numbers(f"band.{name}") for name in ("start_ps", "duration_ps", "group", "title")}
        parts = zip(self._numbers("band.process").tolist(), self._spans("band.end"), strict=True)
        return [
            Band(process, titles=titles, **{name: column[rows] for name, column in columns.items()})
            for process, rows in parts
        ]

    @cached_property
    def step_range(self) -> list[int]:
        """Begin of the first step and end of the last; empty if there are no steps."""
        return list(map(int, self._numbers("step_range")))

    def derived(self, row: int) -> tuple[int, int, list[tuple[str, str]]]:
        """Return the group of a derived event, the name behind the one displayed (either is -1 if there is none), and
        its values by name."""
        group, name = int(self._numbers("derived.group")[row]), int(self._numbers("derived.long_name")[row])
        rows, values, texts = self._numbers("arg.row"), self._numbers("arg.value"), self._columns["arg.texts"]
        values_by_name = []
        for label, part in zip(self._texts("arg.name"), self._spans("arg.end"), strict=True):
            place = part.start + int(np.searchsorted(rows[part], row))
            if place < part.stop and rows[place] == row:
                values_by_name.append((label, str(texts[int(values[place])].as_py())))
        return group, name, values_by_name


# ---- making them


def write_facts(path: Path, columns: Mapping[str, Column]) -> None:
    """Write columns to an Arrow IPC file of one row of lists."""
    arrays = {}
    for name, column in columns.items():
        values = pa.array(column) if isinstance(column, np.ndarray) else column
        arrays[name] = pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)
    schema = pa.schema([(name, array.type) for name, array in arrays.items()], {_FORMAT_KEY: FACTS_FORMAT})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(list(arrays.values()), schema=schema))


def make_fact_columns(tables: TableSet, number: int, host: Host, derived: DerivedTimeline) -> dict[str, Column]:
    """Return the facts of host ``number``, read with ``derived_lines.NEEDS``, as columns of a file."""
    from fastprof.derive.timeline.counter_tracks import list_counter_tracks, list_stream_counters
    from fastprof.derive.timeline.event_groups import (
        find_name_overrides,
        find_step_range,
        list_step_bands,
        name_groups,
        read_group_ids,
    )
    from fastprof.derive.timeline.host_timeline import list_processes

    processes = list_processes(host.raw)
    bands = list_step_bands(host)
    columns: dict[str, Column] = {
        **_make_band_columns(bands),
        "step_range": np.array(find_step_range(host, bands) or (), np.int64),
    }
    del bands
    columns |= dict(zip(("called.row", "called.name"), find_name_overrides(host), strict=True))
    group = read_group_ids(host)
    there = np.zeros(int(group.max(initial=-1)) + 2, np.bool_)
    there[group] = True  # without one: the last place
    numbers = np.flatnonzero(there[:-1])
    columns |= {"named.group": numbers, "named.name": name_groups(host.groups, numbers)}
    series = [*list_counter_tracks(tables, number, processes), *list_stream_counters(host.raw, processes)]
    return {
        **columns,
        "group": _narrow(group),
        "gpu.program": _get_gpu_programs(host),
        **_make_flow_columns(host),
        "counter.process": np.array([counter.process.number for counter in series], np.int32),
        "counter.name": make_texts([counter.name for counter in series]),
        "counter.unit": make_texts([counter.unit for counter in series]),
        "counter.end": count_bounds([len(counter) for counter in series])[1:],
        "counter.time_ps": _concatenate((counter.time_ps for counter in series), np.int64),
        "counter.value": _concatenate((counter.value for counter in series), np.float64),
        **_make_derived_columns(derived),
    }


def _get_gpu_programs(host: Host) -> Int64s:
    if not host.raw.planes_of("GPU"):
        return np.zeros(0, np.int64)
    from fastprof.derive.ops.gpu_ops import list_named_programs

    return np.array(list_named_programs(host.raw, host.modules), np.int64)


def _make_flow_columns(host: Host) -> dict[str, Column]:
    from fastprof.derive.timeline.flows import pair_flows

    events, pairs = host.raw, pair_flows(host)
    ends = events.start_ps[pairs.producer] + np.maximum(events.duration_ps[pairs.producer], 0)
    starts = events.start_ps[pairs.consumer]
    flows = Flows(pairs.producer, pairs.consumer, pairs.kind, ends, starts)
    return {f"flow.{name}": getattr(flows, name) for name in Flows.__dataclass_fields__}


def _make_band_columns(bands: Sequence[StepBand]) -> dict[str, Column]:
    firsts = count_bounds([len(band.names) for band in bands])[:-1]
    titles = (band.name.astype(np.int32) + np.int32(first) for band, first in zip(bands, firsts, strict=True))
    return {
        "band.process": np.array(
            [_NO_PROCESS if band.process is None else band.process.number for band in bands], np.int32
        ),
        "band.end": count_bounds([len(band) for band in bands])[1:],
        "band.start_ps": _concatenate((band.start_ps for band in bands), np.int64),
        "band.duration_ps": _concatenate((band.duration_ps for band in bands), np.int64),
        "band.group": _concatenate((band.group for band in bands), np.int32),
        "band.title": _concatenate(titles, np.int32),
        "band.titles": pa.concat_arrays([make_texts([]), *(band.names for band in bands)]),
    }


def _make_derived_columns(derived: DerivedTimeline) -> dict[str, Column]:
    number: dict[str, int] = {}
    values = [
        [
            number.setdefault(str(value), len(number))
            for value in (arg.values.tolist() if isinstance(arg.values, np.ndarray) else arg.values)
        ]
        for arg in derived.args
    ]
    return {
        "derived.group": _narrow(derived.group),
        "derived.long_name": _narrow(derived.long_name),
        "arg.name": make_texts([arg.name for arg in derived.args]),
        "arg.end": count_bounds([len(arg.rows) for arg in derived.args])[1:],
        "arg.row": _concatenate((arg.rows for arg in derived.args), np.int64),
        "arg.value": _concatenate((np.array(numbers, np.int64) for numbers in values), np.int64),
        "arg.texts": make_texts(list(number)),
    }


def _narrow(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return numbers of events in the smallest integer type that holds all of them."""
    least, most = int(numbers.min(initial=0)), int(numbers.max(initial=0))
    kinds = (np.iinfo(kind) for kind in (np.int8, np.int16, np.int32, np.int64))
    return numbers.astype(next(kind.dtype for kind in kinds if kind.min <= least and most <= kind.max))


def _concatenate(parts: Iterable[npt.NDArray[Any]], kind: type[np.generic]) -> npt.NDArray[Any]:
    return np.concatenate([np.zeros(0, kind), *(part.astype(kind, copy=False) for part in parts)])
