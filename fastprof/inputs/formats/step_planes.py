"""Planes of an XSpace of what TensorFlow 1 recorded of runs of graphs, as ``device_places`` lists them.

Events are on lines by thread, or by lane if those of a thread overlap. The lines stream all and memcpy of a device are
derived if its streams are recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from fastprof.inputs.formats.device_places import HOST, place_of, task_of
from fastprof.inputs.formats.step_stats import MICRO, MOST_NS, UNKNOWN, Device, Node, Op, is_tracer, op_of
from fastprof.schema.message_fields import put, put_all

_DERIVED: Final = 0xDEADBEEF + 300
"""Lines with such ids are made from others."""
_ALLOCATIONS: Final = "allocations"
_RUNS: Final = "runs"
Value = int | str


@dataclass(slots=True)
class _Event:
    name: str
    start_ns: int
    duration_ns: int
    stats: dict[str, Value]


@dataclass(slots=True)
class _Line:
    name: str
    events: list[_Event] = field(default_factory=list)
    derived: bool = False


@dataclass(slots=True)
class _Plane:
    name: str
    lines: dict[str, _Line] = field(default_factory=dict)

    def line(self, name: str, derived: bool = False) -> _Line:
        return self.lines.setdefault(name, _Line(name, derived=derived))


class StepPlanes:
    """``skipped``: nodes without a time."""

    def __init__(self) -> None:
        self.skipped = 0
        self._planes: dict[str, _Plane] = {}
        self._task: str | None = None
        self._live: dict[str, int] = {}
        self._runs = 0

    def add(self, devices: Sequence[Device], number: int) -> None:
        """What one run recorded, which is a step of this number."""
        names, events = {one.name.lower() for one in devices}, list[_Event]()
        for device in devices:
            timed = [node for node in device.nodes if 0 < node.start_ns < MOST_NS]
            self.skipped += len(device.nodes) - len(timed)
            events += self._add(device, timed, names)
        events += self._allocate(devices)
        self._mark(events, number)
        self._runs += 1

    def _add(self, device: Device, nodes: list[Node], names: set[str]) -> list[_Event]:
        events = [(node, _event(node, op_of(node, device.name), is_tracer(device.name))) for node in nodes]
        self._task = self._task or task_of(device.name)
        place = place_of(device.name, self._task)
        plane = self._plane(place.plane)
        if place.is_lanes:
            self._in_lines(plane, events, device.threads, place.line)
        else:
            repeats = place.line in ("stream all", "memcpy") and any(map(_is_stream, names))
            plane.line(place.line, repeats).events.extend(event for _, event in events)
        return [event for _, event in events]

    def _plane(self, name: str) -> _Plane:
        return self._planes.setdefault(name, _Plane(name))

    def _in_lines(self, plane: _Plane, events: list[tuple[Node, _Event]], threads: dict[int, str], prefix: str) -> None:
        """By thread, if the events of each thread nest; else by lane: the first one that is free."""
        by_thread: dict[int, list[_Event]] = {}
        for node, event in events:
            by_thread.setdefault(node.thread, []).append(event)
        if all(map(_nest, by_thread.values())):
            for thread, own in by_thread.items():
                name = threads.get(thread) or f"thread {thread}"
                plane.line(f"{prefix} {name}".strip() if len(by_thread) > 1 or not prefix else prefix).events.extend(
                    own
                )
            return
        lanes = _Lanes()
        for _, event in events:
            lane = lanes.taken(event.start_ns, event.start_ns + event.duration_ns)
            plane.line(f"{prefix} lane {lane}".strip()).events.append(event)

    def _allocate(self, devices: Sequence[Device]) -> list[_Event]:
        """Events of allocators, in order of time, with what each holds by then."""
        records = [
            (when, allocator.name, size, op_of(node, device.name))
            for device in devices
            for node in device.nodes
            for allocator in node.allocators
            for when, size in allocator.records
            if 0 < when < MOST_NS // MICRO
        ]
        events = []
        for when, allocator, size, op in sorted(records, key=lambda one: one[0]):
            self._live[allocator] = live = self._live.get(allocator, 0) + size
            stats: dict[str, Value] = {
                "allocator_name": allocator, "allocation_bytes": abs(size), "bytes_allocated": live,
                "tf_op": _named(op),
            }  # fmt: skip
            name = "MemoryAllocation" if size >= 0 else "MemoryDeallocation"
            events.append(_Event(name, when * MICRO, 0, stats))
        if events:
            self._plane(HOST).line(_ALLOCATIONS, derived=True).events.extend(events)
        return events

    def _mark(self, events: Sequence[_Event], number: int) -> None:
        """Gives the events of this run their group, and adds one that lasts from the first to the last of them."""
        for one in events:
            one.stats["group_id"] = self._runs
        if events:
            begin, end = min(one.start_ns for one in events), max(one.start_ns + one.duration_ns for one in events)
            stats: dict[str, Value] = {"group_id": self._runs, "step_name": str(number)}
            self._plane(HOST).line(_RUNS, derived=True).events.append(_Event("RunMetadata", begin, end - begin, stats))

    def _lines(self) -> list[_Line]:
        return [line for plane in self._planes.values() for line in plane.lines.values()]

    # ---- writing

    def xspace(self, source: str) -> Iterator[bytes]:
        """The XSpace, a plane at a time."""
        zero = min((one.start_ns for line in self._lines() for one in line.events), default=0)
        for number, plane in enumerate(self._planes.values()):
            yield put(1, _plane_bytes(plane, number + 1, zero))
        yield environment(source, zero)


def environment(source: str, zero_ns: int) -> bytes:
    """The plane that says what was transcribed, and what times count from."""
    names = put(2, "Task Environment") + put(5, _entry(1, "transcribed_from")) + put(5, _entry(2, "zero_ns"))
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


def _event(node: Node, op: Op, on_device: bool) -> _Event:
    """What ran, with the stats of its node."""
    duration = node.relative_ns(3)
    stats: dict[str, Value] = {"node": op.node}
    if on_device:  # of a thread, the name of the event says so
        stats["tf_op"] = _named(op)
    for number, name in enumerate(op.inputs):
        stats[f"input{number}"] = name
    optional: Iterable[tuple[str, Value]] = (
        ("timeline_label", node.label), ("temp_bytes", node.temp_bytes), ("persistent_bytes", node.persistent_bytes),
        ("scheduled_micros", node.scheduled_micros),
    )  # fmt: skip
    stats.update((name, value) for name, value in optional if value)
    stats["op_start_ps"], stats["op_end_ps"] = node.relative_ns(1) * 1000, node.relative_ns(2) * 1000
    for allocator in node.allocators:
        stats.update((f"{allocator.name} {what}", size) for what, size in allocator.sizes.items() if size)
    stats.update((f"output:{slot}", described) for slot, described in node.outputs.items())
    return _Event(op.kernel or _named(op), node.start_ns, min(duration, MOST_NS - node.start_ns), stats)


def _is_stream(device: str) -> bool:
    return "/stream:" in device and "all" not in device


def _named(op: Op) -> str:
    return op.node if op.type == UNKNOWN else f"{op.node}:{op.type}"


def _nest(events: list[_Event]) -> bool:
    """Whether no two of these overlap in part."""
    open_: list[int] = []
    for one in sorted(events, key=lambda event: (event.start_ns, -event.duration_ns)):
        end = one.start_ns + one.duration_ns
        while open_ and open_[-1] <= one.start_ns:
            open_.pop()
        if open_ and open_[-1] < end:
            return False
        open_.append(end)
    return True


def _plane_bytes(plane: _Plane, number: int, zero_ns: int) -> bytes:
    names: dict[str, int] = {}
    stats: dict[str, int] = {}
    lines = [
        _line_bytes(line, _DERIVED + place if line.derived else place + 1, zero_ns, names, stats)
        for place, line in enumerate(plane.lines.values())
    ]
    return (
        put(1, number)
        + put(2, plane.name)
        + put_all(3, lines)
        + put_all(4, (_entry(id_, name) for name, id_ in names.items()))
        + put_all(5, (_entry(id_, name) for name, id_ in stats.items()))
    )


def _entry(id_: int, name: str) -> bytes:
    """An entry of a map from ids to metadata, of events as of stats."""
    return put(1, id_) + put(2, put(1, id_) + put(2, name))


def _line_bytes(line: _Line, id_: int, zero_ns: int, names: dict[str, int], stats: dict[str, int]) -> bytes:
    events = []
    for one in line.events:
        parts = [put(1, names.setdefault(one.name, len(names) + 1)), put(2, (one.start_ns - zero_ns) * 1000)]
        parts.append(put(3, one.duration_ns * 1000))
        for name, value in one.stats.items():
            key = put(1, stats.setdefault(name, len(stats) + 1))
            parts.append(put(4, key + put(4 if isinstance(value, int) else 5, value)))
        events.append(b"".join(parts))
    return put(1, id_) + put(2, line.name) + put(3, zero_ns) + put_all(4, events)
