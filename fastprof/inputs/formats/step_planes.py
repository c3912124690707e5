"""Planes of an XSpace of what TensorFlow 1 recorded of runs of graphs, and of the graphs, which stay as they were
written. Tasks but the first are hosts: their names stand before those of their planes.

Events are on lines by thread, or by lane if those of a thread overlap. The lines stream all and memcpy of a device are
derived if its streams are recorded.

device                                    plane           lines
/job:J/replica:R/task:T/device:CPU:0      /host:CPU       threads or lanes
/job:.../device:GPU:N                     /host:CPU       GPU:N scheduling: what the host does to launch
/device:GPU:N/stream:K                    /device:GPU:N   stream K
/device:GPU:N/stream:all, .../memcpy      /device:GPU:N   stream all, memcpy
others                                    as written      threads or lanes

A graph is cut between its fields, which are its nodes, into pieces of about a megabyte. Each is the stat ``graph_def``
of an event metadata, so that one piece is read at a time; all pieces of a graph one after the other are the graph.

    plane "TensorFlow graphs"
      event metadata 1  "graph"       graph 0   graph_def  node node node ...
      event metadata 2  "graph"       graph 0   graph_def  node node library
      event metadata 3  "partition"   graph 1   graph_def  node ...
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from fastprof._native.line_events import line_events
from fastprof._native.transcribing import event_metadata
from fastprof.errors import CaptureError
from fastprof.inputs.formats.contract import GRAPH_PLANE, GRAPH_STATS
from fastprof.inputs.formats.step_stats import (
    BATCH,
    MICRO,
    MOST_NS,
    SIZES,
    DeviceStats,
    HeldBytes,
    NodeStats,
    count_held_bytes,
    cut_batches,
    is_tracer,
    read_nodes,
)
from fastprof.inputs.message import CUT, BadMessageError, find_complete_end
from fastprof.inputs.message_columns import Buffer
from fastprof.schema.columns import Int64s, UInt8s, count_bounds, expand_ranges, find_group_bounds, find_runs
from fastprof.schema.message_fields import put, put_prefix
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import compile_late

HOST: Final = "/host:CPU"
_TASK: Final = compile_late(r"/job:[^/]+/replica:\d+/task:\d+(?=/)", re.IGNORECASE)
_DEVICE: Final = compile_late(
    rf"(?P<task>{_TASK.pattern})?/(?:device:)?(?P<kind>cpu|gpu):(?P<number>\d{{1,9}})(?P<part>/.*)?",
    re.IGNORECASE,
)


class DevicePlace(NamedTuple):
    """``line``: its name, or what the names of lanes begin with, if ``is_lanes``; empty: nothing."""

    plane: str
    line: str
    is_lanes: bool


def find_task(device: str) -> str | None:
    """Return the task that a device belongs to, if its name says so."""
    match = _TASK.match(device)
    return match[0] if match else None


def name_task_host(task: str) -> str:
    """``/job:worker/replica:0/task:1`` as the name of a host: ``worker-replica0-task1``."""
    return task[len("/job:") :].replace("/", "-").replace(":", "")


def place_device(device: str, task: str | None) -> DevicePlace:
    """``task``: the one whose host the plane /host:CPU is."""
    match = _DEVICE.fullmatch(device)
    if match is None or (match["task"] is not None and match["task"] != task):
        return DevicePlace(device, "", True)
    is_gpu = match["kind"].lower() == "gpu"
    if match["part"] and is_gpu and not match["task"]:
        return DevicePlace(f"/device:GPU:{int(match['number'])}", match["part"][1:].lower().replace(":", " "), False)
    return DevicePlace(HOST, f"GPU:{int(match['number'])} scheduling" if is_gpu else "", True)


PS: int = 1000
"""Picoseconds of a nanosecond."""


class EventColumns:
    """Some events. Stats are added for all at once; an event has them in the order in which they were added.

    ``owner``: rows of events. ``name``: of the stat, one for all or one for each.
    """

    def __init__(self, names: Sequence[str], start_ns: Int64s, duration_ns: Int64s) -> None:
        self._names, self._start_ns, self._duration_ns = names, start_ns, duration_ns
        self._stats: list[tuple[Int64s, str | list[str], Int64s, bool]] = []
        self._texts: list[str] = []

    def add_integers(self, owner: Int64s, name: str | list[str], values: Int64s) -> None:
        self._stats.append((owner, name, values, False))

    def add_texts(self, owner: Int64s, name: str | list[str], values: Sequence[str]) -> None:
        first = len(self._texts)
        self._texts += values
        self._stats.append((owner, name, np.arange(first, len(self._texts)), True))

    def columns(self, names: dict[str, int], stats: dict[str, int], zero_ns: int) -> LineColumns:
        """``names``, ``stats``: ids of the plane, to which new ones are added."""
        ids = np.array([names.setdefault(name, len(names) + 1) for name in self._names], np.int64)
        owner = np.concatenate([part[0] for part in self._stats]) if self._stats else np.zeros(0, np.int64)
        order = np.argsort(owner, kind="stable")
        stat = np.concatenate([_make_stat_ids(part[1], len(part[0]), stats) for part in self._stats])
        value = np.concatenate([part[2] for part in self._stats])
        is_text = np.concatenate([np.full(len(part[0]), part[3], np.uint8) for part in self._stats])
        first = find_group_bounds(owner[order], len(ids))
        encoded = [text.encode("utf-8", "replace") for text in self._texts]
        bounds = count_bounds([len(text) for text in encoded])
        return LineColumns(
            ids, (self._start_ns - zero_ns) * PS, self._duration_ns * PS, first, stat[order], value[order],
            is_text[order], bounds, b"".join(encoded),
        )  # fmt: skip


def _make_stat_ids(name: str | list[str], count: int, stats: dict[str, int]) -> Int64s:
    if not count:
        return np.zeros(0, np.int64)
    if isinstance(name, str):
        return np.full(count, stats.setdefault(name, len(stats) + 1), np.int64)
    return np.array([stats.setdefault(text, len(stats) + 1) for text in name], np.int64)


@dataclass(frozen=True, slots=True)
class LineColumns:
    """What ``line_events`` writes."""

    ids: Int64s
    offset_ps: Int64s
    duration_ps: Int64s
    first_stat: Int64s
    stat_id: Int64s
    value: Int64s
    is_text: UInt8s
    text_at: Int64s
    texts: bytes

    @classmethod
    def of_integer(cls, ids: Int64s, offset_ps: Int64s, duration_ps: Int64s, stat: int, values: Int64s) -> LineColumns:
        """Make columns of events with one stat each, an integer."""
        count = len(ids)
        return cls(
            ids, offset_ps, duration_ps, np.arange(count + 1), np.full(count, stat, np.int64), values,
            np.zeros(count, np.uint8), np.zeros(1, np.int64), b"",
        )  # fmt: skip

    def by_line(self, lines: Int64s) -> Iterator[tuple[int, LineColumns]]:
        """Yield the events of each line; ``lines``: of each event."""
        order = np.argsort(lines, kind="stable")
        bounds = [*find_runs(lines[order]).tolist(), len(order)]
        for first, last in pairwise(bounds):
            rows = order[first:last]
            yield int(lines[rows[0]]), self if len(rows) == len(lines) else self._taken(rows)

    def _taken(self, rows: Int64s) -> LineColumns:
        counts = np.diff(self.first_stat)[rows]
        first, (_, stats) = count_bounds(counts), expand_ranges(self.first_stat[rows], counts)
        return LineColumns(
            self.ids[rows], self.offset_ps[rows], self.duration_ps[rows], first, self.stat_id[stats],
            self.value[stats], self.is_text[stats], self.text_at, self.texts,
        )  # fmt: skip

    def written(self) -> bytes:
        """Return fields of an XLine."""
        return line_events(
            self.ids, self.offset_ps, self.duration_ps, self.first_stat, self.stat_id, self.value, self.is_text,
            self.text_at, self.texts,
        )  # fmt: skip


_DERIVED: Final = 0xDEADBEEF + 300
"""Lines with such ids are made from others."""
_STEPS: Final = "Steps"
_STEPS_LINE: Final = 0xDEADBEEF
"""The line of a GPU's steps, by its id."""
_ALLOCATIONS: Final = "allocations"
_ALLOCATORS: Final = "Allocators"
_COUNTERS: Final = "_counters_"
"""A plane, and its line of counters, as TensorFlow's own timelines have them."""
_RUNS: Final = "runs"
_ENVIRONMENT_ID: Final = 2**31 - 1
"""Which the scribe of JSON uses, too: processes of traces have other ids."""


@dataclass(slots=True)
class _PlaneLine:
    """``id``: 0: by its place; ``derived``: made from others."""

    name: str
    derived: bool = False
    id: int = 0
    parts: list[bytes] = field(default_factory=list)


@dataclass(slots=True)
class _Plane:
    """``lines``: by name; ``names``, ``stats``: ids of event and stat metadata."""

    name: str
    lines: dict[str, _PlaneLine] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    stats: dict[str, int] = field(default_factory=dict)

    def line(self, name: str, derived: bool = False, id_: int = 0) -> _PlaneLine:
        return self.lines.setdefault(name, _PlaneLine(name, derived, id_))


@dataclass(slots=True)
class _Placed:
    """A device and where its nodes go: ``line``, the place of each in ``lines``. ``host``: what the names of the planes
    of its host begin with."""

    host: str
    device: DeviceStats
    plane: _Plane
    lines: list[_PlaneLine]
    line: Int64s


@dataclass(slots=True)
class _PlacedRun:
    number: int
    placed: list[_Placed]

    def by_host(self) -> dict[str, list[_Placed]]:
        hosts: dict[str, list[_Placed]] = {}
        for device in self.placed:
            hosts.setdefault(device.host, []).append(device)
        return hosts


class StepPlanes:
    """``untimed``: nodes without a time; ``lost``: nodes that are damaged."""

    def __init__(self) -> None:
        self.untimed = self.lost = 0
        self._planes: dict[str, _Plane] = {}
        self._task: str | None = None
        self._live: dict[tuple[str, str], int] = {}
        self._runs: list[_PlacedRun] = []

    def add(self, devices: Sequence[DeviceStats], number: int) -> None:
        """What one run recorded, which is a step of this number."""
        names = {device.name.lower() for device in devices}
        run = _PlacedRun(number, [self._placed(device, names) for device in devices])
        self._runs.append(run)
        self.untimed += sum(device.untimed for device in devices)
        self.lost += sum(device.lost for device in devices)
        for host, placed in run.by_host().items():
            if any((_get_times(entry.device) > 0).any() for entry in placed):
                self._plane(host + HOST).line(_ALLOCATIONS, derived=True)
            if any(_find_bounds(entry.device) for entry in placed):
                self._plane(host + HOST).line(_RUNS, derived=True)

    def _placed(self, device: DeviceStats, names: set[str]) -> _Placed:
        task = find_task(device.name)
        self._task = self._task or task
        host = f"{name_task_host(task)} " if task not in (None, self._task) else ""
        place = place_device(device.name, task or self._task)
        plane = self._plane(host + place.plane)
        if place.is_lanes:
            return _split_into_lines(host, plane, device, place.line)
        repeats = place.line in ("stream all", "memcpy") and any(map(_is_stream, names))
        return _Placed(host, device, plane, [plane.line(place.line, repeats)], np.zeros(len(device), np.int64))

    def _plane(self, name: str) -> _Plane:
        return self._planes.setdefault(name, _Plane(name))

    # ---- writing

    def xspace(self, source: str) -> Iterator[bytes]:
        """Yield the XSpace, a plane at a time. CaptureError: a node does not decode."""
        starts = [time for run in self._runs for device in run.placed for time in _find_bounds(device.device)[:1]]
        zero = min(starts, default=0)
        for group, run in enumerate(self._runs):
            self._write(run, group, zero)
        for number, plane in enumerate(self._planes.values()):
            yield from _write_plane(plane, number + 1, zero)
        yield make_environment(source, zero)

    def _write(self, run: _PlacedRun, group: int, zero: int) -> None:
        for host, placed in run.by_host().items():
            records = [_write_nodes(device, group, zero) for device in placed]
            self._allocate(host, placed, records, group, zero)
            for held in count_held_bytes([entry.device for entry in placed]):
                self._count(host, held, zero)
            self._mark_run(host, placed, run.number, group, zero)
        self._mark_gpus(run, group, zero)

    def _mark_run(self, host: str, placed: list[_Placed], number: int, group: int, zero: int) -> None:
        """The step of a host: from the first event of the run to the last."""
        bounds = [time for device in placed for time in _find_bounds(device.device)]
        if bounds:
            begin, end = min(bounds), max(bounds)
            events = EventColumns(["RunMetadata"], np.array([begin]), np.array([end - begin]))
            events.add_integers(np.zeros(1, np.int64), "group_id", np.array([group]))
            events.add_texts(np.zeros(1, np.int64), "step_name", [str(number)])
            self._put(host, _RUNS, events, zero)

    def _mark_gpus(self, run: _PlacedRun, group: int, zero: int) -> None:
        """The step of each GPU: from its first event of the run to the last."""
        gpus: dict[str, list[int]] = {}
        for device in run.placed:
            if device.plane.name.startswith("/device:GPU:"):
                gpus.setdefault(device.plane.name, []).extend(_find_bounds(device.device))
        for name, bounds in gpus.items():
            if bounds:
                begin, end = min(bounds), max(bounds)
                events = EventColumns([str(run.number)], np.array([begin]), np.array([end - begin]))
                events.add_integers(np.zeros(1, np.int64), "group_id", np.array([group]))
                plane = self._plane(name)
                line = plane.line(_STEPS, derived=True, id_=_STEPS_LINE)
                line.parts.append(events.columns(plane.names, plane.stats, zero).written())

    def _allocate(self, host: str, placed: list[_Placed], named: list[dict[int, str]], group: int, zero: int) -> None:
        """Events of the allocators of a host, in order of time, with what each holds by then."""
        records = [device.device.records for device in placed]
        names = [name for record in records for name in record.names]
        firsts = count_bounds([len(part.names) for part in records]).tolist()
        allocator = np.concatenate(
            [part.allocator + first for part, first in zip(records, firsts, strict=False)] or [_NONE]
        )
        size = np.concatenate([part.size for part in records] or [_NONE])
        when = np.concatenate([_get_times(entry.device) for entry in placed] or [_NONE])
        ops = [
            own.get(row) for part, own in zip(records, named, strict=True) for row in part.owner.tolist()
        ]  # None: of a node that has no time
        order = np.argsort(when, kind="stable")
        order = order[when[order] > 0]
        live = self._held(host, [names[number] for number in allocator[order].tolist()], size[order])
        for first in range(0, len(order), BATCH):
            rows, own = order[first : first + BATCH], live[first : first + BATCH]
            every, known = np.arange(len(rows)), [row for row, at in enumerate(rows.tolist()) if ops[at] is not None]
            kinds = [
                "MemoryDeallocation" if is_negative else "MemoryAllocation" for is_negative in (size[rows] < 0).tolist()
            ]
            events = EventColumns(kinds, when[rows], np.zeros(len(rows), np.int64))
            events.add_texts(every, "allocator_name", [names[number] for number in allocator[rows].tolist()])
            events.add_integers(every, "allocation_bytes", np.abs(size[rows]))
            events.add_integers(every, "bytes_allocated", own)
            events.add_texts(np.array(known, np.int64), "tf_op", [ops[at] or "" for at in rows[known].tolist()])
            events.add_integers(every, "group_id", np.full(len(rows), group))
            self._put(host, _ALLOCATIONS, events, zero)

    def _held(self, host: str, allocators: list[str], size: Int64s) -> Int64s:
        """Return the bytes that the allocator of each record holds after it."""
        live = np.zeros(len(size), np.int64)
        place = {name: number for number, name in enumerate(dict.fromkeys(allocators))}
        numbers = np.array([place[name] for name in allocators], np.int64)
        for name, number in place.items():
            rows = np.flatnonzero(numbers == number)
            live[rows] = np.cumsum(size[rows]) + self._live.get((host, name), 0)
            self._live[host, name] = int(live[rows[-1]])
        return live

    def _count(self, host: str, held: HeldBytes, zero: int) -> None:
        rows = np.flatnonzero((held.micros > 0) & (held.micros < MOST_NS // MICRO))
        events = EventColumns([held.allocator] * len(rows), held.micros[rows] * MICRO, np.zeros(len(rows), np.int64))
        events.add_integers(np.arange(len(rows)), held.allocator, held.size[rows])
        plane = self._plane(host + _ALLOCATORS)
        plane.line(_COUNTERS, derived=True).parts.append(events.columns(plane.names, plane.stats, zero).written())

    def _put(self, host: str, line: str, events: EventColumns, zero: int) -> None:
        plane = self._plane(host + HOST)
        plane.line(line).parts.append(events.columns(plane.names, plane.stats, zero).written())


_NONE: Final = np.zeros(0, np.int64)


def _get_times(device: DeviceStats) -> Int64s:
    """Return the times of allocator records in nanoseconds, or 0."""
    micros = device.records.micros
    return np.where((micros > 0) & (micros < MOST_NS // MICRO), micros, 0) * MICRO


def _find_bounds(device: DeviceStats) -> list[int]:
    """Return the first start and the last end, if there is one."""
    records = _get_times(device)
    records = records[records > 0]
    starts, ends = [device.start_ns, records], [device.start_ns + device.duration_ns, records]
    begins, finishes = np.concatenate(starts), np.concatenate(ends)
    return [int(begins.min()), int(finishes.max())] if len(begins) else []


def _split_into_lines(host: str, plane: _Plane, device: DeviceStats, prefix: str) -> _Placed:
    """Split events into lines by thread, if those of each thread nest; otherwise into the first lane that is free."""
    start, end = device.start_ns.tolist(), (device.start_ns + device.duration_ns).tolist()
    by_thread: dict[int, list[int]] = {}
    for row, thread in enumerate(device.thread.tolist()):
        by_thread.setdefault(thread, []).append(row)
    if all(_is_nested(start, end, rows) for rows in by_thread.values()):
        place, names = {thread: number for number, thread in enumerate(by_thread)}, []
        for thread in by_thread:
            name = device.threads.get(thread) or f"thread {thread}"
            names.append(f"{prefix} {name}".strip() if len(by_thread) > 1 or not prefix else prefix)
        lines = np.array([place[thread] for thread in device.thread.tolist()], np.int64)
    else:
        lanes = _Lanes()
        lines = np.array([lanes.taken(*times) for times in zip(start, end, strict=True)], np.int64)
        names = [f"{prefix} lane {lane}".strip() for lane in range(int(lines.max(initial=-1)) + 1)]
    return _Placed(host, device, plane, [plane.line(name) for name in names], lines)


def _write_nodes(placed: _Placed, group: int, zero: int) -> dict[int, str]:
    """Write the events of a device; return the op of each node with allocator records, by row."""
    device, plane, named = placed.device, placed.plane, dict[int, str]()
    has_records = np.zeros(len(device), bool)
    has_records[device.records.owner[device.records.owner >= 0]] = True
    for some in cut_batches(device.at.length):
        rows, first = np.arange(some.start, some.stop), some.start
        try:
            nodes = read_nodes(device.data, device.at.taken(rows), device.name)
        except CaptureError as fault:
            raise CaptureError(fault.message, offset=device.base + (fault.offset or 0)) from None
        columns = _make_events(device, rows, nodes, group).columns(plane.names, plane.stats, zero)
        for place, own in columns.by_line(placed.line[rows]):
            placed.lines[place].parts.append(own.written())
        named |= {first + row: nodes.ops[row].name for row in np.flatnonzero(has_records[rows]).tolist()}
    return named


def _make_events(device: DeviceStats, rows: Int64s, nodes: NodeStats, group: int) -> EventColumns:
    """Return the events that ran, with the stats of their nodes."""
    ops, every = nodes.ops, np.arange(len(rows))
    events = EventColumns([op.kernel or op.name for op in ops], device.start_ns[rows], device.duration_ns[rows])
    events.add_texts(every, "node", [op.node for op in ops])
    if is_tracer(device.name):  # of a thread, the name of the event says so
        events.add_texts(every, "tf_op", [op.name for op in ops])
    inputs = [(row, number, name) for row, op in enumerate(ops) for number, name in enumerate(op.inputs)]
    if inputs:
        owners, numbers, texts = zip(*inputs, strict=True)
        events.add_texts(np.array(owners), [f"input{number}" for number in numbers], texts)
    labelled = [row for row, label in enumerate(nodes.labels) if label]
    events.add_texts(np.array(labelled, np.int64), "timeline_label", [nodes.labels[row] for row in labelled])
    for name in ("temp_bytes", "persistent_bytes", "scheduled_micros"):
        values = getattr(nodes, name)
        known = np.flatnonzero(values)
        events.add_integers(known, name, values[known])
    events.add_integers(every, "op_start_ps", nodes.op_start_ns * 1000)
    events.add_integers(every, "op_end_ps", nodes.op_end_ns * 1000)
    entry, what = np.nonzero(nodes.sizes)
    kinds = [
        f"{nodes.allocators[row]} {SIZES[column]}" for row, column in zip(entry.tolist(), what.tolist(), strict=True)
    ]
    events.add_integers(nodes.allocator_owner[entry], kinds, nodes.sizes[entry, what])
    slots = [f"output:{slot}" for slot in nodes.slots.tolist()]
    events.add_texts(nodes.output_owner, slots, nodes.outputs)
    events.add_integers(every, "group_id", np.full(len(rows), group))
    return events


def make_environment(source: str, zero_ns: int) -> bytes:
    """Return the plane that says what was transcribed, and what times count from."""
    names = put(1, _ENVIRONMENT_ID) + put(2, "Task Environment")
    names += put(5, _make_entry(1, "transcribed_from")) + put(5, _make_entry(2, "zero_ns"))
    return put(1, names + put(6, put(1, 1) + put(5, source)) + put(6, put(1, 2) + put(4, zero_ns)))


class _Lanes:
    """When lanes are free: a tree whose nodes have the earliest end of the lanes below.

    lanes     0:90  1:40  2:-1  3:-1      -1: never taken
    nodes        40          -1
    root               -1
    """

    def __init__(self) -> None:
        self._size = 1
        self._ends = [-1, -1]

    def taken(self, begin: int, end: int) -> int:
        """Return the first lane whose last event has ended before ``begin``; now it is taken until ``end``."""
        if self._ends[1] >= begin:
            level, tree = 1, [-1, self._ends[1]]
            while level <= self._size:
                tree += [*self._ends[level : 2 * level], *([-1] * level)]
                level *= 2
            tree[1] = -1
            self._size, self._ends = 2 * self._size, tree
        at = 1
        while at < self._size:
            at = 2 * at if self._ends[2 * at] < begin else 2 * at + 1
        lane = at - self._size
        self._ends[at] = end
        while at > 1:
            at //= 2
            self._ends[at] = min(self._ends[2 * at], self._ends[2 * at + 1])
        return lane


def _is_stream(device: str) -> bool:
    return "/stream:" in device and "all" not in device


def _is_nested(start: list[int], end: list[int], rows: list[int]) -> bool:
    """Return whether no two of these overlap in part."""
    open_: list[int] = []
    for row in sorted(rows, key=lambda row: (start[row], -end[row])):
        while open_ and open_[-1] <= start[row]:
            open_.pop()
        if open_ and open_[-1] < end[row]:
            return False
        open_.append(end[row])
    return True


def _write_plane(plane: _Plane, number: int, zero_ns: int) -> Iterator[bytes]:
    """Yield the plane as a field of an XSpace, in parts; those of its lines are given up as they are written."""
    head = put(1, number) + put(2, plane.name)
    texts = [name.encode("utf-8", "replace") for name in plane.names]
    bounds = count_bounds([*map(len, texts)])
    names = event_metadata(1, bounds, b"".join(texts), 0)
    stats = b"".join(put(5, _make_entry(id_, name)) for name, id_ in plane.stats.items())
    lines = []
    for place, line in enumerate(plane.lines.values()):
        id_ = line.id or (_DERIVED + place if line.derived else place + 1)
        start = put(1, id_) + put(2, line.name) + put(3, zero_ns)
        lines.append((put_prefix(3, len(start) + sum(map(len, line.parts))) + start, line.parts))
    length = sum(len(start) + sum(map(len, parts)) for start, parts in lines)
    yield put_prefix(1, len(head) + length + len(names) + len(stats)) + head
    for start, parts in lines:
        yield start
        while parts:
            yield parts.pop(0)
    yield names + stats


def _make_entry(id_: int, name: str) -> bytes:
    """Return an entry of a map from ids to metadata, of events as of stats."""
    key = put(1, id_)
    return key + put(2, key + put(2, name))


_NUMBER, _BYTES, _OFFSET = 1, 2, 3
_PLANE_ID: Final = 0x6772_6170
_PIECE: Final = 1 << 20
_NAMES: Final = b"".join(
    put(5, put(1, number) + put(2, put(1, number) + put(2, name))) for number, name in enumerate(GRAPH_STATS, 1)
)


class GraphPlanes:
    """Writes graphs one after the other. ``count``: graphs that were begun; ``faults``: what was salvaged from."""

    def __init__(self) -> None:
        self.count = 0
        self.faults: list[BadMessageError] = []
        self._kind = ""
        self._pieces = 0
        self._fields = FieldCutter(0)

    def begin(self, kind: str, at: int) -> None:
        """The next graph; ``at``: where it begins in the file."""
        self._kind = kind
        self._fields = FieldCutter(at)
        self.count += 1

    def push(self, data: Buffer) -> bytes:
        """More of it. BadMessageError: a field is damaged."""
        return b"".join(self._piece(piece, at) for piece, at in self._fields.push(data))

    def end(self) -> bytes:
        """Return the rest of it; a graph without nodes is one, too."""
        rest, at = self._fields.rest()
        return self._piece(rest, at)

    def check_end(self) -> None:
        """BadMessageError: it ends within a field."""
        self._fields.check_end()

    def graph(self, kind: str, data: Buffer, at: int, salvage: bool) -> Iterator[bytes]:
        """Yield all of a graph. BadMessageError: it is damaged; to salvage, what comes before the damage is there."""
        self.begin(kind, at)
        view = memoryview(data)
        try:
            for first in range(0, len(view), _PIECE):
                yield self.push(view[first : first + _PIECE])
            self.check_end()
        except BadMessageError as fault:
            if not salvage:
                raise
            self.faults.append(fault)
        yield self.end()

    def _piece(self, data: bytes, at: int) -> bytes:
        self._pieces += 1
        stats = (
            put(5, put(1, _NUMBER) + put(4, self.count - 1))
            + put(5, put(1, _BYTES) + put(6, data))
            + put(5, put(1, _OFFSET) + put(4, at))
        )
        metadata = put(1, self._pieces) + put(2, self._kind) + stats
        entry = put(4, put(1, self._pieces) + put(2, metadata))
        return put(1, put(1, _PLANE_ID) + put(2, GRAPH_PLANE) + entry + _NAMES)


class FieldCutter:
    """Cuts a message that comes in chunks between its fields. It holds one piece, or one field if that is longer."""

    def __init__(self, base: int) -> None:
        self._held = bytearray()
        self._base = base
        self._whole = 0
        """Bytes that are complete fields."""
        self._wanted = 0
        """Bytes by which the next field is complete."""

    def push(self, data: Buffer) -> Iterator[tuple[bytes, int]]:
        """Pieces, and where they begin in the file."""
        self._held += data
        if len(self._held) >= self._wanted:
            self._whole, self._wanted = find_complete_end(self._held, self._whole, self._base)
        if self._whole >= _PIECE:
            yield self._taken()

    def rest(self) -> tuple[bytes, int]:
        """Return the fields that are complete."""
        return self._taken()

    def check_end(self) -> None:
        if self._whole < len(self._held):
            raise BadMessageError(CUT, self._base + self._whole)

    def _taken(self) -> tuple[bytes, int]:
        piece, at = bytes(memoryview(self._held)[: self._whole]), self._base
        del self._held[: self._whole]
        self._base += self._whole
        self._wanted -= self._whole
        self._whole = 0
        return piece, at
