"""Planes of an XSpace of what TensorFlow 1 recorded of runs of graphs, as ``device_places`` lists them. Tasks but the
first are hosts: their names stand before those of their planes.

Events are on lines by thread, or by lane if those of a thread overlap. The lines stream all and memcpy of a device are
derived if its streams are recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Final

import numpy as np

from fastprof._native.transcribing import event_metadata
from fastprof.errors import CaptureError
from fastprof.inputs.formats.device_places import HOST, host_of, place_of, task_of
from fastprof.inputs.formats.event_columns import Events
from fastprof.inputs.formats.step_stats import BATCH, MICRO, MOST_NS, SIZES, Device, Nodes, is_tracer, read_nodes
from fastprof.inputs.formats.tensor_lifetimes import Held, held_by_allocators
from fastprof.schema.array_types import Int64s
from fastprof.schema.message_fields import prefix, put
from fastprof.schema.value_classes import dataclass

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
class _Line:
    """``id``: 0: by its place; ``derived``: made from others."""

    name: str
    derived: bool = False
    id: int = 0
    parts: list[bytes] = field(default_factory=list)


@dataclass(slots=True)
class _Plane:
    """``lines``: by name; ``names``, ``stats``: ids of event and stat metadata."""

    name: str
    lines: dict[str, _Line] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    stats: dict[str, int] = field(default_factory=dict)

    def line(self, name: str, derived: bool = False, id_: int = 0) -> _Line:
        return self.lines.setdefault(name, _Line(name, derived, id_))


@dataclass(slots=True)
class _Placed:
    """A device and where its nodes go: ``line``, the place of each in ``lines``. ``host``: what the names of the planes
    of its host begin with."""

    host: str
    device: Device
    plane: _Plane
    lines: list[_Line]
    line: Int64s


@dataclass(slots=True)
class _Run:
    number: int
    placed: list[_Placed]

    def by_host(self) -> dict[str, list[_Placed]]:
        hosts: dict[str, list[_Placed]] = {}
        for one in self.placed:
            hosts.setdefault(one.host, []).append(one)
        return hosts


class StepPlanes:
    """``untimed``: nodes without a time; ``lost``: nodes that are damaged."""

    def __init__(self) -> None:
        self.untimed = self.lost = 0
        self._planes: dict[str, _Plane] = {}
        self._task: str | None = None
        self._live: dict[tuple[str, str], int] = {}
        self._runs: list[_Run] = []

    def add(self, devices: Sequence[Device], number: int) -> None:
        """What one run recorded, which is a step of this number."""
        names = {one.name.lower() for one in devices}
        run = _Run(number, [self._placed(device, names) for device in devices])
        self._runs.append(run)
        self.untimed += sum(device.untimed for device in devices)
        self.lost += sum(device.lost for device in devices)
        for host, placed in run.by_host().items():
            if any((_times(one.device) > 0).any() for one in placed):
                self._plane(host + HOST).line(_ALLOCATIONS, derived=True)
            if any(_bounds(one.device) for one in placed):
                self._plane(host + HOST).line(_RUNS, derived=True)

    def _placed(self, device: Device, names: set[str]) -> _Placed:
        task = task_of(device.name)
        self._task = self._task or task
        host = f"{host_of(task)} " if task not in (None, self._task) else ""
        place = place_of(device.name, task or self._task)
        plane = self._plane(host + place.plane)
        if place.is_lanes:
            return _in_lines(host, plane, device, place.line)
        repeats = place.line in ("stream all", "memcpy") and any(map(_is_stream, names))
        return _Placed(host, device, plane, [plane.line(place.line, repeats)], np.zeros(len(device), np.int64))

    def _plane(self, name: str) -> _Plane:
        return self._planes.setdefault(name, _Plane(name))

    # ---- writing

    def xspace(self, source: str) -> Iterator[bytes]:
        """The XSpace, a plane at a time. CaptureError: a node does not decode."""
        starts = [time for run in self._runs for one in run.placed for time in _bounds(one.device)[:1]]
        zero = min(starts, default=0)
        for group, run in enumerate(self._runs):
            self._write(run, group, zero)
        for number, plane in enumerate(self._planes.values()):
            yield from _written(plane, number + 1, zero)
        yield environment(source, zero)

    def _write(self, run: _Run, group: int, zero: int) -> None:
        for host, placed in run.by_host().items():
            records = [_write_nodes(one, group, zero) for one in placed]
            self._allocate(host, placed, records, group, zero)
            for held in held_by_allocators([one.device for one in placed]):
                self._count(host, held, zero)
            self._mark_run(host, placed, run.number, group, zero)
        self._mark_gpus(run, group, zero)

    def _mark_run(self, host: str, placed: list[_Placed], number: int, group: int, zero: int) -> None:
        """The step of a host: from the first event of the run to the last."""
        bounds = [time for one in placed for time in _bounds(one.device)]
        if bounds:
            begin, end = min(bounds), max(bounds)
            events = Events(["RunMetadata"], np.array([begin]), np.array([end - begin]))
            events.add_integers(np.zeros(1, np.int64), "group_id", np.array([group]))
            events.add_texts(np.zeros(1, np.int64), "step_name", [str(number)])
            self._put(host, _RUNS, events, zero)

    def _mark_gpus(self, run: _Run, group: int, zero: int) -> None:
        """The step of each GPU: from its first event of the run to the last."""
        gpus: dict[str, list[int]] = {}
        for one in run.placed:
            if one.plane.name.startswith("/device:GPU:"):
                gpus.setdefault(one.plane.name, []).extend(_bounds(one.device))
        for name, bounds in gpus.items():
            if bounds:
                begin, end = min(bounds), max(bounds)
                events = Events([str(run.number)], np.array([begin]), np.array([end - begin]))
                events.add_integers(np.zeros(1, np.int64), "group_id", np.array([group]))
                plane = self._plane(name)
                line = plane.line(_STEPS, derived=True, id_=_STEPS_LINE)
                line.parts.append(events.columns(plane.names, plane.stats, zero).written())

    def _allocate(self, host: str, placed: list[_Placed], named: list[dict[int, str]], group: int, zero: int) -> None:
        """Events of the allocators of a host, in order of time, with what each holds by then."""
        records = [one.device.records for one in placed]
        names = [name for one in records for name in one.names]
        firsts = np.cumsum([0, *(len(one.names) for one in records)]).tolist()
        allocator = np.concatenate(
            [one.allocator + first for one, first in zip(records, firsts, strict=False)] or [_NONE]
        )
        size = np.concatenate([one.size for one in records] or [_NONE])
        when = np.concatenate([_times(one.device) for one in placed] or [_NONE])
        ops = [
            own.get(row) for one, own in zip(records, named, strict=True) for row in one.owner.tolist()
        ]  # None: of a node that has no time
        order = np.argsort(when, kind="stable")
        order = order[when[order] > 0]
        live = self._held(host, [names[one] for one in allocator[order].tolist()], size[order])
        for first in range(0, len(order), BATCH):
            rows, own = order[first : first + BATCH], live[first : first + BATCH]
            every, known = np.arange(len(rows)), [row for row, at in enumerate(rows.tolist()) if ops[at] is not None]
            kinds = ["MemoryDeallocation" if one else "MemoryAllocation" for one in (size[rows] < 0).tolist()]
            events = Events(kinds, when[rows], np.zeros(len(rows), np.int64))
            events.add_texts(every, "allocator_name", [names[one] for one in allocator[rows].tolist()])
            events.add_integers(every, "allocation_bytes", np.abs(size[rows]))
            events.add_integers(every, "bytes_allocated", own)
            events.add_texts(np.array(known, np.int64), "tf_op", [ops[at] or "" for at in rows[known].tolist()])
            events.add_integers(every, "group_id", np.full(len(rows), group))
            self._put(host, _ALLOCATIONS, events, zero)

    def _held(self, host: str, allocators: list[str], size: Int64s) -> Int64s:
        """What the allocator of each record holds after it."""
        live = np.zeros(len(size), np.int64)
        place = {name: number for number, name in enumerate(dict.fromkeys(allocators))}
        numbers = np.array([place[name] for name in allocators], np.int64)
        for name, number in place.items():
            rows = np.flatnonzero(numbers == number)
            live[rows] = np.cumsum(size[rows]) + self._live.get((host, name), 0)
            self._live[host, name] = int(live[rows[-1]])
        return live

    def _count(self, host: str, held: Held, zero: int) -> None:
        rows = np.flatnonzero((held.micros > 0) & (held.micros < MOST_NS // MICRO))
        events = Events([held.allocator] * len(rows), held.micros[rows] * MICRO, np.zeros(len(rows), np.int64))
        events.add_integers(np.arange(len(rows)), held.allocator, held.size[rows])
        plane = self._plane(host + _ALLOCATORS)
        plane.line(_COUNTERS, derived=True).parts.append(events.columns(plane.names, plane.stats, zero).written())

    def _put(self, host: str, line: str, events: Events, zero: int) -> None:
        plane = self._plane(host + HOST)
        plane.line(line).parts.append(events.columns(plane.names, plane.stats, zero).written())


_NONE: Final = np.zeros(0, np.int64)


def _times(device: Device) -> Int64s:
    """Of records of allocators, in nanoseconds; 0: it is none."""
    micros = device.records.micros
    return np.where((micros > 0) & (micros < MOST_NS // MICRO), micros, 0) * MICRO


def _bounds(device: Device) -> list[int]:
    """The first start and the last end, if there is one."""
    records = _times(device)
    records = records[records > 0]
    starts, ends = [device.start_ns, records], [device.start_ns + device.duration_ns, records]
    begins, finishes = np.concatenate(starts), np.concatenate(ends)
    return [int(begins.min()), int(finishes.max())] if len(begins) else []


def _in_lines(host: str, plane: _Plane, device: Device, prefix: str) -> _Placed:
    """By thread, if the events of each thread nest; else by lane: the first one that is free."""
    start, end = device.start_ns.tolist(), (device.start_ns + device.duration_ns).tolist()
    by_thread: dict[int, list[int]] = {}
    for row, thread in enumerate(device.thread.tolist()):
        by_thread.setdefault(thread, []).append(row)
    if all(_nest(start, end, rows) for rows in by_thread.values()):
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
    """Writes the events of a device; returns the ops of nodes with records of allocators, by row."""
    device, plane, named = placed.device, placed.plane, dict[int, str]()
    has_records = np.zeros(len(device), bool)
    has_records[device.records.owner[device.records.owner >= 0]] = True
    for first in range(0, len(device), BATCH):
        rows = np.arange(first, min(first + BATCH, len(device)))
        try:
            nodes = read_nodes(device.data, device.at.taken(rows), device.name)
        except CaptureError as fault:
            raise CaptureError(fault.message, offset=device.base + (fault.offset or 0)) from None
        columns = _events(device, rows, nodes, group).columns(plane.names, plane.stats, zero)
        for place, own in columns.by_line(placed.line[rows]):
            placed.lines[place].parts.append(own.written())
        named |= {first + row: nodes.ops[row].name for row in np.flatnonzero(has_records[rows]).tolist()}
    return named


def _events(device: Device, rows: Int64s, nodes: Nodes, group: int) -> Events:
    """What ran, with the stats of its nodes."""
    ops, every = nodes.ops, np.arange(len(rows))
    events = Events([op.kernel or op.name for op in ops], device.start_ns[rows], device.duration_ns[rows])
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


def environment(source: str, zero_ns: int) -> bytes:
    """The plane that says what was transcribed, and what times count from."""
    names = put(1, _ENVIRONMENT_ID) + put(2, "Task Environment")
    names += put(5, _entry(1, "transcribed_from")) + put(5, _entry(2, "zero_ns"))
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
        """The first lane whose last event has ended before ``begin``; now it is taken until ``end``."""
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


def _nest(start: list[int], end: list[int], rows: list[int]) -> bool:
    """Whether no two of these overlap in part."""
    open_: list[int] = []
    for row in sorted(rows, key=lambda row: (start[row], -end[row])):
        while open_ and open_[-1] <= start[row]:
            open_.pop()
        if open_ and open_[-1] < end[row]:
            return False
        open_.append(end[row])
    return True


def _written(plane: _Plane, number: int, zero_ns: int) -> Iterator[bytes]:
    """The plane as a field of an XSpace, in parts; those of its lines are given up as they are written."""
    head = put(1, number) + put(2, plane.name)
    texts = [name.encode("utf-8", "replace") for name in plane.names]
    bounds = np.cumsum([0, *map(len, texts)])
    names = event_metadata(1, bounds, b"".join(texts), 0)
    stats = b"".join(put(5, _entry(id_, name)) for name, id_ in plane.stats.items())
    lines = []
    for place, line in enumerate(plane.lines.values()):
        id_ = line.id or (_DERIVED + place if line.derived else place + 1)
        start = put(1, id_) + put(2, line.name) + put(3, zero_ns)
        lines.append((prefix(3, len(start) + sum(map(len, line.parts))) + start, line.parts))
    length = sum(len(start) + sum(map(len, parts)) for start, parts in lines)
    yield prefix(1, len(head) + length + len(names) + len(stats)) + head
    for start, parts in lines:
        yield start
        while parts:
            yield parts.pop(0)
    yield names + stats


def _entry(id_: int, name: str) -> bytes:
    """An entry of a map from ids to metadata, of events as of stats."""
    key = put(1, id_)
    return key + put(2, key + put(2, name))
