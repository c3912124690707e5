"""An oracle of grouping: the rules applied one after the other to plain objects, with no code of fastprof's grouping.

    grouped(data)     bytes of a capture -> Grouped: each event with its group, the groups with their names

Events are objects that know what is above and below them. Nothing is quick here.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import slow_tables
from slow_link_keys import REQUESTS, Key, KeyOf, context_key, integer, is_module, program, stats_key
from slow_reader import Space, parse, signed

from fastprof.derive.devices.op_names import Framework
from fastprof.derive.devices.op_names import parse_op_name as parse_op
from fastprof.derive.steps.event_graph import CODES

LOOPS = {"WhileOp-EvalCond", "WhileOp-StartBody", "ForOp", "ParallelForOp", "ForeverOp"}
TF_DATA = {f"InstantiatedCapturedFunction::Run{how}" for how in ("", "WithBorrowedArgs", "Instantiated", "Async")}
IMPLICIT = {"FunctionRun", "SessionRun", "RunGraph", "ExecutorState::Process"}
STEPS, MODULES = ("Steps", "Sparse Core Steps"), ("XLA Modules", "Sparse Core Modules")
START, STOP = "ThreadpoolListener::StartRegion", "ThreadpoolListener::StopRegion"


@dataclass(eq=False)
class Event:
    row: int
    name: str
    start: int
    duration: int
    line: Line
    stats: dict[str, tuple[str, Any]]
    type: str = ""
    above: list[Event] = field(default_factory=list)
    below: list[Event] = field(default_factory=list)
    level: int | None = None
    group: int | None = None
    is_eager = False
    step_name = False

    @property
    def end(self) -> int:
        return self.start + self.duration

    def int(self, name: str) -> int | None:
        return integer(self.stats.get(name, ("none", None)))

    def includes(self, start: int, end: int) -> bool:
        return self.start <= start and end <= self.end


@dataclass(eq=False)
class Line:
    name: str
    id: int
    plane: Plane
    events: list[Event] = field(default_factory=list)


@dataclass(eq=False)
class Plane:
    name: str
    stats: dict[str, tuple[str, Any]]
    event_names: set[str]
    lines: list[Line] = field(default_factory=list)

    @property
    def events(self) -> list[Event]:
        return [event for line in self.lines for event in line.events]

    @property
    def grouping_line(self) -> Line | None:
        for names in (STEPS, MODULES):
            for line in self.lines:
                if line.name in names and line.events:
                    return line
        return None


@dataclass
class Step:
    group: int
    start: int
    duration: int


@dataclass
class Grouped:
    planes: list[Plane]
    events: list[Event]
    roots: list[Event] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    relations: set[tuple[int, int]] = field(default_factory=set)
    steps: dict[int, list[Step]] = field(default_factory=dict)
    vetoed: bool = False


# ---- events as objects -----------------------------------------------------------------------------


def _values(stats: Any, wire: Any) -> dict[str, tuple[str, Any]]:
    """The first of each name that has a value."""
    found: dict[str, tuple[str, Any]] = {}
    for stat in stats:
        meta, kind, value = wire.stat_metadata.get(stat.metadata_id), stat.kind, stat.value
        if meta is None or kind == "none":
            continue
        if kind == "ref":
            metadata = wire.stat_metadata.get(signed(value))
            kind, value = ("str", metadata.name) if metadata else ("lost", None)
        found.setdefault(meta.name, (kind, value))
    return found


def _planes(space: Space) -> list[Plane]:
    planes, row = [], 0
    start = slow_tables._start_of(space)
    for merged in slow_tables._merge(space):
        slow_tables._add_lines(merged, start)
        stats: dict[str, tuple[str, Any]] = {}
        for part in merged.parts:
            stats = _values(part.wire.stats, part.wire) | stats
        plane = Plane(merged.name, stats, {m.name for part in merged.parts for m in part.wire.event_metadata.values()})
        planes.append(plane)
        for found in merged.lines.values():
            line = Line(found.name or found.display_name, found.id, plane)
            plane.lines.append(line)
            for timed in found.events:
                if timed.start_ps is None:
                    continue
                one, wire = timed.event, timed.part.wire
                name = wire.event_metadata[one.metadata_id].name if one.metadata_id in wire.event_metadata else ""
                line.events.append(Event(row, name, timed.start_ps, one.duration_ps, line, _values(one.stats, wire)))
                row += 1
    return planes


def _type_of(event: Event) -> str:
    if event.name in CODES:
        return event.name
    framework = parse_op(event.name).framework
    if framework is Framework.TENSORFLOW:
        return "TfOpRun"
    if framework is Framework.TF_DATA:
        return "Iterator"
    if "correlation_id" in event.stats:
        return "KernelLaunch" if event.line.plane.name == "/host:CPU" else "KernelExecute"
    return ""


# ---- what is above what ----------------------------------------------------------------------------


def _link(parent: Event, child: Event) -> None:
    parent.below.append(child)
    child.above.append(parent)


class _Span(NamedTuple):
    start: int
    end: int
    event: Event | None


def _regions(line: Line) -> list[tuple[int, int]]:
    """Start and end of what lies between marks of a thread pool."""
    found, begun = [], 0
    for event in line.events:
        if event.name == START and event.int("_c") is not None:
            begun = event.start
        elif event.name == STOP and begun != 0 and event.start > begun:
            found.append((begun, event.start))
    return found if {START, STOP} <= line.plane.event_names else []


def _nest(line: Line) -> None:
    """The parent is the last before that includes it; regions count, and stand for what includes them."""
    spans = [_Span(event.start, event.end, event) for event in line.events if not event.int("_a")]
    spans += [_Span(*region, None) for region in _regions(line)]
    spans.sort(key=lambda span: (span.start, -(span.end - span.start), span.event is None))
    for i, span in enumerate(spans):
        at = _last_including(spans, i)
        while at is not None and spans[at].event is None:
            at = _last_including(spans, at)
        parent = spans[at].event if at is not None else None
        if span.event is not None and parent is not None:
            _link(parent, span.event)


def _last_including(spans: list[_Span], place: int) -> int | None:
    inner = spans[place]
    for at in range(place - 1, -1, -1):
        if spans[at].start <= inner.start and inner.end <= spans[at].end:
            return at
    return None


class _Forest:
    def __init__(self, planes: list[Plane]) -> None:
        self.planes = planes
        self.events = [event for plane in planes for event in plane.events]
        self.stands_for = {id(event): event for event in self.events}
        for plane in planes:
            if plane.name.startswith("/device:TPU:"):
                self._stand_ins(plane)
            else:
                for line in plane.lines:
                    _nest(line)

    def _stand_ins(self, plane: Plane) -> None:
        """On a TPU the steps, else the modules, stand for all that they include."""
        grouping = plane.grouping_line
        for event in plane.events:
            if grouping is not None and event.line is grouping:
                continue
            del self.stands_for[id(event)]
            if grouping is None:
                continue
            first = next((step for step in grouping.events if step.end > event.start), None)
            if first is not None and first.includes(event.start, event.end):
                self.stands_for[id(event)] = first

    def of_type(self, *types: str) -> list[Event]:
        return [event for event in self.events if event.type in types]

    def join(
        self, producers: list[Event], of_producer: KeyOf, consumers: list[Event], of_consumer: KeyOf, last: bool = False
    ) -> None:
        buckets: dict[Key, tuple[list[Event], list[Event]]] = {}
        for side, (events, key_of) in enumerate(((producers, of_producer), (consumers, of_consumer))):
            for event in events:
                key = key_of(event)
                if key is not None:
                    buckets.setdefault(key, ([], []))[side].append(event)
        for givers, takers in buckets.values():
            if len(givers) >= 64 and len(takers) >= 64 and not last:
                continue
            for giver in (
                givers[-1:] if last else sorted(givers, key=lambda event: self.stands_for.get(id(event), event).row)
            ):
                for taker in takers:
                    if id(giver) in self.stands_for and id(taker) in self.stands_for:
                        _link(self.stands_for[id(giver)], self.stands_for[id(taker)])

    def link(self) -> None:
        executions, iteration = self.of_type("ExecutorState::Process"), stats_key("id", "iter_num")
        for name in ("IteratorGetNextOp::DoCompute", "IteratorGetNextAsOptionalOp::DoCompute"):
            self.join(executions, iteration, self.of_type(name), iteration, last=True)
        launch = stats_key("correlation_id")
        self.join(self.of_type("KernelLaunch"), launch, self.of_type("KernelExecute"), launch, last=True)
        self.join(self.events, context_key("_pt", "_p"), self.events, context_key("_ct", "_c"))
        self.join(executions, iteration, self.of_type("TpuExecuteOp"), iteration)
        request = stats_key("request_id", "queue_addr")
        self.join(self.of_type("EnqueueRequestLocked"), request, self.of_type(*REQUESTS), request)
        callbacks = self.of_type("CompleteCallbacks")
        modules = [event for event in self.events if is_module(event)]
        self.join(self.of_type("DoEnqueueProgram"), program, callbacks + modules, program)


# ---- walks -----------------------------------------------------------------------------------------


def _upwards(event: Event) -> Iterator[Event]:
    """The event and all above it, the nearest first."""
    seen, queue = {id(event)}, deque([event])
    while queue:
        at = queue.popleft()
        yield at
        for other in at.above:
            if id(other) not in seen:
                seen.add(id(other))
                queue.append(other)


def _nearest(event: Event, wanted: Callable[[Event], bool]) -> Event | None:
    return next((one for one in _upwards(event) if wanted(one)), None)


def _loops(forest: _Forest, tf_data: set[int | None]) -> list[Event]:
    """The first event of each iteration of each loop; it is above the others of it."""
    loops: dict[int, dict[int, list[Event]]] = {}
    for event in forest.of_type("ExecutorState::Process"):
        number, iteration = event.int("id"), event.int("iter_num")
        if number is not None and iteration is not None and number not in tf_data:
            loops.setdefault(number, {}).setdefault(iteration, []).append(event)
    roots = []
    for loop in loops.values():
        for events in loop.values() if set(loop) != {0} else ():
            first = min(events, key=lambda event: event.start)
            roots.append(first)
            for event in events:
                if event is not first:
                    _link(first, event)
    return sorted(roots, key=lambda event: event.start)


def _levels(forest: _Forest) -> None:
    for event in forest.events:
        if event.line.plane.name.startswith("/device:TPU:"):
            continue
        event.level = {"ProcessBatch": 2, "OrbaxServing::ProcessBatch": 2, "BatchingSessionRun": 1}.get(event.type)
        if event.level is None:
            event.level = event.int("_r")
        if event.level is None and event.type == "TraceContext":
            event.level = 1


# ---- groups ----------------------------------------------------------------------------------------


class _Groups:
    def __init__(self, out: Grouped) -> None:
        self.out = out
        self.count = 0

    def add(self, root: Event, number: int) -> None:
        queue, seen = deque([root]), {id(root)}
        while queue:
            at = queue.popleft()
            if at.group is not None:
                if at.group != number:
                    self.out.relations.add((number, at.group))
                continue
            at.group = number
            for other in at.below:
                if id(other) not in seen:
                    seen.add(id(other))
                    queue.append(other)

    def add_root(self, root: Event) -> None:
        self.add(root, self.count)
        self.count += 1
        self.out.roots.append(root)


def _name(root: Event, number: int) -> str:
    graph = _nearest(root, lambda event: event.stats.get("graph_type", ("lost",))[0] == "str")
    implicit = root.type in IMPLICIT or root.line.name in (*STEPS, *MODULES)
    title = "" if implicit else root.name
    if graph is not None:
        title = str(graph.stats["graph_type"][1])
    for stat in ("iter_num", "step_num"):
        source = _nearest(root, lambda event, stat=stat: event.int(stat) is not None)  # type: ignore[misc]
        if source is not None:
            number = source.int(stat)  # type: ignore[assignment]
            break
    return f"{title} {number}" if title else str(number)


def grouped(data: bytes) -> Grouped:
    """Groups the events of a capture that nobody has grouped before."""
    planes = _planes(parse(data))
    out = Grouped(planes, [event for plane in planes for event in plane.events])
    for event in out.events:
        event.type = _type_of(event)
    out.vetoed = any(plane.event_names & LOOPS for plane in planes)
    if not out.vetoed:
        _group(out)
    for number, plane in enumerate(planes):
        line = plane.grouping_line
        if plane.name.startswith("/device:GPU:"):
            out.steps[number] = _gpu_steps(plane)
        elif plane.name.startswith("/device:TPU:") and line and line.name in STEPS:
            out.steps[number] = _tpu_steps(line)
    return out


def _group(out: Grouped) -> None:
    forest = _Forest(out.planes)
    forest.link()
    tf_data = {event.int("id") for event in forest.of_type(*TF_DATA)} - {None}
    groups = _Groups(out)
    loops = _loops(forest, tf_data)
    _levels(forest)
    roots = [event for event in forest.events if event.level is not None and event.int("id") not in tf_data]
    for root in loops or sorted(roots, key=lambda event: (-(event.level or 0), event.start)):
        others = (event for event in _upwards(root) if event is not root)
        if loops or (root.group is None and not any(event.level == root.level for event in others)):
            groups.add_root(root)
    out.names = [_name(root, number) for number, root in enumerate(out.roots)]
    for root in out.roots:
        root.step_name = root.type not in IMPLICIT and root.line.name not in (*STEPS, *MODULES)
    for event in forest.of_type("TfOpRun", "KernelExecute"):
        eager = _nearest(event, lambda other: other.type == "EagerExecute")
        event.is_eager = eager is not None and eager.int("is_func") == 0
    _group_tpus(out, groups)


def _group_tpus(out: Grouped, groups: _Groups) -> None:
    tpus = [plane for plane in out.planes if plane.name.startswith("/device:TPU:")]
    lines = [plane.grouping_line for plane in tpus if re.fullmatch(r"/device:TPU:\d+", plane.name)]
    cores = [line.events for line in lines if line is not None]
    if not any(event.group is not None for core in cores for event in core):
        for core in cores:
            for number, event in enumerate(core, groups.count):
                groups.add(event, number)
        groups.count += max(map(len, cores), default=0)
    out.names += [str(number) for number in range(len(out.names), groups.count)]
    for plane in tpus:
        _spread(plane)


def _spread(plane: Plane) -> None:
    grouping = plane.grouping_line
    if grouping is None:
        return
    spans = [(event.group, event.start, event.end) for event in grouping.events]
    if grouping.name in STEPS and any(group is not None for group, _, _ in spans):
        spans = _one_a_step(spans)
    for event in plane.events:
        if event.group is not None or (event.line is grouping and grouping.name in STEPS):
            continue
        first = next((span for span in spans if span[2] >= event.start), None)
        if first is not None and first[1] <= event.end:
            event.group = first[0]


def _one_a_step(spans: list[tuple[int | None, int, int]]) -> list[tuple[int | None, int, int]]:
    """Those of a group that follow each other as one, up to the end of the last; without those of none."""
    runs: list[list[tuple[int | None, int, int]]] = []
    for span in spans:
        if runs and runs[-1][0][0] == span[0]:
            runs[-1].append(span)
        else:
            runs.append([span])
    return [(run[0][0], run[0][1], run[-1][2]) for run in runs if run[0][0] is not None]


# ---- steps of devices ------------------------------------------------------------------------------


def _runs(spans: list[tuple[int | None, int, int]]) -> list[Step]:
    """Of (group, start, end) those that follow each other in one group, as one; None ends a run."""
    steps: list[Step] = []
    last = None
    for group, start, end in spans:
        if group is not None and group == last:
            step, first = steps[-1], min(steps[-1].start, start)
            steps[-1] = Step(group, first, max(step.start + step.duration, end) - first)
        elif group is not None:
            steps.append(Step(group, start, end - start))
        last = group
    return steps


def _gpu_steps(plane: Plane) -> list[Step]:
    """Of events that begin together the shorter is first."""
    events = sorted(plane.events, key=lambda event: (event.start, event.duration, event.row))
    last = None
    for event in events:
        event.group = last = last if event.group is None else event.group
    return _runs([(event.group, event.start, event.end) for event in events])


def _tpu_steps(line: Line) -> list[Step]:
    """By the device's own clock."""
    spans = []
    for event in line.events:
        start, duration = event.int("device_offset_ps"), event.int("device_duration_ps")
        if start is None or duration is None:
            start, duration = event.start, event.duration
        spans.append((event.group, start, start + duration))
    return _runs(spans)
