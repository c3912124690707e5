"""The forest of a host's events: what encloses each, and what each waits for on other threads and devices."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from fastprof._native.grouping import EventGraph
from fastprof.decode.workers import Workers
from fastprof.derive.steps import device_steps
from fastprof.derive.steps.enclosing import enclosing, tpu_planes
from fastprof.derive.steps.event_types import CODES, KERNEL_EXECUTE, TF_OP, event_types
from fastprof.derive.steps.links import Links, find_links, having, is_one_of, numbered
from fastprof.schema.array_types import Int32s
from fastprof.tables.host_events import HostEvents, Plane

STATS = (
    "_r", "_a", "_pt", "_p", "_ct", "_c", "_pid", "id", "iter_num", "step_num", "graph_type", "is_func",
    "correlation_id", "group_id", "step_name", "is_eager", "request_id", "queue_addr", "queue_id", "run_id",
    "core_type", "device_ordinal", "device_offset_ps", "device_duration_ps", "step_idle_time_ps",
)  # fmt: skip
"""The stats of events that grouping reads."""

Types = npt.NDArray[np.uint8]
HAS_GRAPH_TYPE, HAS_ITER_NUM, HAS_STEP_NUM, _EXECUTES_EAGERLY, _IS_OP = 1, 2, 4, 8, 16
_LOOPS = {"WhileOp-EvalCond", "WhileOp-StartBody", "ForOp", "ParallelForOp", "ForeverOp"}
_CAPTURED_FUNCTIONS = tuple(CODES[f"InstantiatedCapturedFunction::{what}"] for what in (
    "Run", "RunWithBorrowedArgs", "RunInstantiated", "RunAsync",
))  # fmt: skip
_EXECUTOR = CODES["ExecutorState::Process"]
_PLANES_IN_GROUPS = (
    "/host:CPU", "Host CPUs", "/host:tfstreamz", "/host:metadata", "Syscalls", "/host:python-tracer", "/host:CUPTI",
    "/device", "#Chip", "/custom:",
)  # fmt: skip
"""How the names of planes of hosts and of devices begin."""


class Forest:
    """``recorded``: the capture records its groups. ``vetoed``: it has events of loops that do not record their
    iterations, and cannot be grouped. All else is computed at first use.
    """

    def __init__(self, events: HostEvents, workers: Workers) -> None:
        self.events = events
        self.workers = workers
        self.loop_roots: Int32s | None = None
        """Where executors run loops, the first event of each iteration in order of time; known with ``graph``."""
        self.recorded = len(events.stat("group_id")) > 0 and all_declare_groups(events)
        self.vetoed = not self.recorded and bool(_LOOPS & set(events.names))

    @cached_property
    def types(self) -> Types:
        """The kind of each event; see event_types.py."""
        return event_types(self.events)

    @cached_property
    def tpu_planes(self) -> list[Plane]:
        return tpu_planes(self.events)

    @cached_property
    def node(self) -> Int32s | None:
        """The row that represents each event in the graph, -1: none; None: each is its own."""
        return device_steps.nodes(self.events, self.tpu_planes) if self.tpu_planes else None

    @cached_property
    def captured_functions(self) -> npt.NDArray[np.int64]:
        """The ids of functions that tf.data runs, one of each run: they are no steps."""
        runs = having(self.events, "id").of_types(self.types, _CAPTURED_FUNCTIONS)
        return runs.keys[0]

    @cached_property
    def graph(self) -> EventGraph:
        tasks: list[Callable[[], Any]] = [
            partial(find_links, self.events, self.types), partial(enclosing, self.events),
        ]  # fmt: skip
        links, parent = self.workers.run(None, tasks)
        self.loop_roots = _loop_roots(self, links)
        producers, consumers = links.members(self.node)
        return EventGraph(parent, producers, consumers, links.count)

    @cached_property
    def marks(self) -> Types:
        return _marks(self.events, self.types)

    @cached_property
    def is_eager(self) -> Types:
        """1 for ops and kernels that were executed eagerly, by row of ``events``; of other events what they record."""
        if self.recorded:
            return self._recorded_eager()
        found = np.zeros(len(self.events), np.uint8)
        if self.vetoed:
            return found
        if (self.types == CODES["EagerExecute"]).any():
            found = _eager(self.events, self.graph, self.marks)
        if not len(self.events.stat("is_eager")):
            return found
        is_op = (self.types == KERNEL_EXECUTE) | (self.types == TF_OP)
        return np.where(is_op, found, self._recorded_eager())

    def _recorded_eager(self) -> Types:
        return self.events.dense("is_eager").astype(bool).view(np.uint8)

    def nearest_above(self, bit: int, rows: Int32s) -> Int32s:
        """The nearest event above each of the rows, itself included, with this bit of ``marks``; -1: none."""
        found = np.full(len(rows), -1, np.int32)
        if (self.marks & bit).any():
            self.graph.nearest_above(self.marks, bit, rows, found)
        return found


def all_declare_groups(events: HostEvents) -> bool:
    """Whether every plane of a host or a device declares the stat of groups, used or not: TSL requires no more of a
    grouped capture."""
    return not any(name.startswith(_PLANES_IN_GROUPS) for name in events.planes_without("group_id"))


def _marks(events: HostEvents, types: Types) -> Types:
    """Bits by row: which of the stats that names are made of it has, and whether it is or runs an op."""
    marks = np.zeros(len(events), np.uint8)
    marks[events.texts("graph_type")[0]] |= HAS_GRAPH_TYPE
    for name, bit in (("iter_num", HAS_ITER_NUM), ("step_num", HAS_STEP_NUM)):
        marks[events.ints(name)[0]] |= bit
    eager = types == CODES["EagerExecute"]
    if eager.any():
        is_op = (types == KERNEL_EXECUTE) | (types == TF_OP)
        marks |= eager.view(np.uint8) * np.uint8(_EXECUTES_EAGERLY) | is_op.view(np.uint8) * np.uint8(_IS_OP)
    return marks


def _eager(events: HostEvents, graph: EventGraph, marks: Types) -> Types:
    """Ops and kernels whose nearest eager execution above runs an op, not a function."""
    is_eager = np.zeros(len(events), np.uint8)
    if not (marks & _EXECUTES_EAGERLY).any():
        return is_eager
    above = np.empty(len(events), np.int32)
    graph.nearest_above_all(marks, _EXECUTES_EAGERLY, above)
    rows, values = events.ints("is_func")
    of_an_op = np.zeros(len(events) + 1, bool)  # the last for -1
    of_an_op[rows[values == 0]] = True
    is_eager[:] = of_an_op[above] & ((marks & _IS_OP) != 0)
    return is_eager


def _loop_roots(forest: Forest, links: Links) -> Int32s | None:
    """Where executors run loops, the first event of each iteration, in order of time, linked to the others of it; None:
    there are no loops. An executor that only ran iteration 0 does not count."""
    events = forest.events
    runs = having(events, "id", "iter_num").of_types(forest.types, (_EXECUTOR,))
    if not runs.keys[1].any():
        return None
    keep = ~is_one_of(runs.keys[0], forest.captured_functions)
    rows, executor, iteration = runs.rows[keep], runs.keys[0][keep], runs.keys[1][keep]
    if not len(rows):
        return None
    loop, count = numbered([executor])
    iterates = np.zeros(count, bool)
    iterates[loop[iteration != 0]] = True
    keep = iterates[loop]
    if not keep.any():
        return None
    rows, executor, iteration = rows[keep], executor[keep], iteration[keep]
    number, count = numbered([executor, iteration])
    order = np.lexsort((rows, events.start_ps[rows], number))
    first = np.ones(len(order), bool)
    first[1:] = number[order[1:]] != number[order[:-1]]
    leader = rows[order[first]]
    followers = order[~first]
    links.lead(leader, rows[followers], number[followers])
    return np.ascontiguousarray(leader[np.argsort(events.start_ps[leader], kind="stable")])
