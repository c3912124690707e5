"""An oracle of the exact reading: its rules applied to plain objects, moment by moment, with no code of fastprof's.

answered(threads)   events of each thread, as trace_builder has them -> Answer
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from trace_builder import Event, u64

BUFFERS = (
    "Prefetch", "ParallelInterleave", "ParallelMap", "MapAndBatch", "ParseExample", "ParallelBatch", "ParallelFilter",
)  # fmt: skip
FILE_READ, FUNCTION, TAKING, WAITING, OTHER = range(5)


def integer(stats: dict[str, Any], name: str) -> int | None:
    """As 64 bits, whether or not they were recorded with a sign."""
    value = stats.get(name)
    return value.value if isinstance(value, u64) else value % (1 << 64) if isinstance(value, int) else None


@dataclass(eq=False)
class Node:
    name: str
    start: int
    end: int
    stats: dict[str, Any]
    row: int
    above: Node | None = None
    asker: Node | None = None
    asked: list[Node] = field(default_factory=list)
    doings: list[tuple[int, int, int]] = field(default_factory=list)

    def int(self, name: str) -> int | None:
        return integer(self.stats, name)

    @property
    def iterator(self) -> int | None:
        return self.int("id") if self.name.startswith("Iterator:") else None

    @property
    def is_root(self) -> bool:
        return self.iterator is not None and len(self.name.split("::")) == 2

    def up(self) -> Iterable[Node]:
        """What encloses it, the innermost first."""
        above = self.above
        while above is not None:
            yield above
            above = above.above

    def nearest(self, wanted: Any) -> Node | None:
        return next((node for node in self.up() if wanted(node)), None)

    @property
    def within(self) -> Node | None:
        """The iterator event that it lies in."""
        return self.nearest(lambda node: node.iterator is not None)

    def covers(self, time: int) -> bool:
        return self.start <= time < self.end


@dataclass
class Used:
    start: int
    total: int = 0
    self: int = 0
    critical: int = 0
    count: int = 0
    blocks: bool = False


@dataclass
class Call:
    root: Node
    used: dict[int, Used]
    segments: list[tuple[int, int, int]]
    parts: dict[tuple[int, int], int]


@dataclass
class Answer:
    """Calls of each pipeline by the id of its root, slowest first."""

    nodes: list[Node]
    pipelines: dict[int, list[Call]]


def is_buffer(name: str, end: str) -> bool:
    return name.endswith(end) and name[: -len(end)] in BUFFERS


def nest(events: list[Event], first_row: int) -> list[Node]:
    nodes, open_nodes = [], []
    for row, one in enumerate(events, first_row):
        stats = dict(one.stats)  # type: ignore[arg-type]
        node = Node(str(one.name), one.offset_ps or 0, (one.offset_ps or 0) + one.duration_ps, stats, row)
        nodes.append(node)
        if stats.get("_a"):
            continue
        while open_nodes and not (open_nodes[-1].start <= node.start and node.end <= open_nodes[-1].end):
            open_nodes.pop()
        node.above = open_nodes[-1] if open_nodes else None
        open_nodes.append(node)
    return nodes


def taker(nodes: list[Node], child: Node) -> Node | None:
    """The iterator event that took the element for which this one was made."""
    produce = child.nearest(lambda node: is_buffer(node.name, "Produce"))
    if produce is None or produce.int("element_id") is None or child.int("parent_id") is None:
        return None
    takes = [
        node for node in nodes
        if is_buffer(node.name, "Consume") and node.int("element_id") == produce.int("element_id")
        and node.within is not None and node.within.iterator == child.int("parent_id")
    ]  # fmt: skip
    takes.sort(key=lambda node: (node.start, node.row))
    later = [node for node in takes if node.start >= produce.start]
    chosen = later[0] if later else takes[-1] if takes else None
    return chosen.within if chosen else None


def maker(nodes: list[Node], lost: Node) -> Node | None:
    """The iterator event that made the context in which this one ran: of several the last that began by then, the first
    of those that began at once; where none had begun, the first, the last of those that began at once."""

    def taken(node: Node) -> Any:
        keys = node.int("_ct"), node.int("_c")
        return None if None in keys else keys

    around = lost if taken(lost) else lost.nearest(taken)
    if around is None:
        return None
    found = []
    for node in nodes:
        by = node if node.iterator is not None else node.within
        if (node.int("_pt"), node.int("_p")) == taken(around) and by is not None:
            found.append((node, by))
    found.sort(key=lambda pair: (pair[0].start, pair[0].row))
    before = [pair for pair in found if pair[0].start <= around.start]
    if before:
        latest = before[-1][0].start
        return next(by for node, by in before if node.start == latest)
    return [by for node, by in found if node.start == found[0][0].start][-1] if found else None


def link(nodes: list[Node]) -> None:
    for node in nodes:
        if node.iterator is None or node.is_root:
            continue
        node.asker = node.within or taker(nodes, node)
        if node.asker is None:
            made_by = maker(nodes, node)
            node.asker = None if made_by is node else made_by
    for node in nodes:
        if node.asker is not None:
            node.asker.asked.append(node)
    for node in nodes:
        node.asked.sort(key=lambda child: (child.start, child.row))


def served(nodes: list[Node], node: Node) -> Node | None:
    """The iterator event for which something else was done."""
    if node.within is not None:
        return node.within
    produce = node.nearest(
        lambda one: is_buffer(one.name, "Produce") and any(made_first(child, one) for child in nodes)
    )
    if produce is None:
        return None
    return taker(nodes, next(child for child in nodes if made_first(child, produce)))


def made_first(child: Node, produce: Node) -> bool:
    lone = child.iterator is not None and not child.is_root and child.within is None
    return lone and child.nearest(lambda node: is_buffer(node.name, "Produce")) is produce


def is_function(node: Node) -> bool:
    return node.name.startswith("InstantiatedCapturedFunction::Run")


def note_doings(nodes: list[Node]) -> None:
    functions: dict[int, Node] = {}
    for node in filter(is_function, nodes):
        if node.int("id") is not None:
            functions.setdefault(node.int("id") or 0, node)
    executors = [node for node in nodes if node.name == "ExecutorState::Process" and node.int("id") in functions]
    for node in nodes:
        event, end = served(nodes, node), node.end
        if is_function(node):
            own = [one.end for one in executors if functions[one.int("id") or 0] is node]
            part, end = FUNCTION, max([end, *own])
        elif is_buffer(node.name, "Consume"):
            part = TAKING
        elif node.name.endswith(":ReadFile"):
            part = FILE_READ
            executor = node.nearest(lambda one: one in executors)
            if event is None and executor is not None:
                event = served(nodes, functions[executor.int("id") or 0])
        else:
            continue
        if event is not None:
            event.doings.append((node.start, end, part))


def own_part(name: str) -> int:
    last = name.split("::")[-1].split("[")[0]
    if last in ("Prefetch", "ParallelMapV2"):
        return WAITING
    return FILE_READ if last in ("TFRecord", "TextLine") else OTHER


def at(root: Node, time: int) -> Node:
    """Who has the time at a moment of a call: from the root down, the first child that runs then."""
    node = root
    while True:
        child = next((child for child in node.asked if child.covers(time)), None)
        if child is None:
            return node
        node = child


def call_of(root: Node, names: dict[int, str]) -> Call:
    used: dict[int, Used] = {}

    def visit(node: Node, blocks: bool) -> None:
        mine = used.setdefault(node.iterator or 0, Used(node.start))
        mine.total += node.end - node.start
        mine.count += 1
        mine.blocks |= blocks
        mine.self += sum(not any(child.covers(time) for child in node.asked) for time in range(node.start, node.end))
        for child in node.asked:
            visit(child, blocks and min(child.end, node.end) > max(child.start, node.start))

    visit(root, True)
    segments: list[tuple[int, int, int]] = []
    parts: dict[tuple[int, int], int] = {}
    last = None
    for time in range(root.start, root.end):
        node = at(root, time)
        used[node.iterator or 0].critical += 1
        going_on = [part for begin, end, part in node.doings if begin <= time < end]
        key = node.iterator or 0, min(going_on, default=own_part(names[node.iterator or 0]))
        parts[key] = parts.get(key, 0) + 1
        if last is node:
            segments[-1] = (*segments[-1][:2], segments[-1][2] + 1)
        else:
            segments.append((node.iterator or 0, time, 1))
        last = node
    return Call(root, used, segments, parts)


def answered(threads: list[list[Event]]) -> Answer:
    nodes: list[Node] = []
    for events in threads:
        nodes += nest(events, len(nodes))
    link(nodes)
    note_doings(nodes)
    names: dict[int, str] = {}
    for node in nodes:
        if node.iterator is not None:
            names.setdefault(node.iterator, node.name)
    pipelines: dict[int, list[Call]] = {}
    for node in sorted(nodes, key=lambda node: node.start):
        if node.is_root:
            pipelines.setdefault(node.iterator or 0, []).append(call_of(node, names))
    for calls in pipelines.values():
        calls.sort(key=lambda call: call.root.start - call.root.end)
    return Answer(nodes, pipelines)
