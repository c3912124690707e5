"""Graph of the events of a host: types of events by name, links between threads and devices, and the forest they make.

A link leads from an event that produces a context or launches a kernel to the events that consume or run it. In the
forest an event is below what encloses it on its line and below what it is linked from.

A thread pool marks with events of no duration when a thread takes up a task and when it has done it. The region between
two marks is not an event: it only keeps what the thread does for the task from being nested in an event that began
before and ends in between. An event of another thread scheduled the task:

    python            |-- PjitFunction --|
                             ^ ThreadpoolListener::Record, which produces task 7
    tf_Compute/3                  ^ StartRegion, which consumes task 7   |-- fusion.1 --|   ^ StopRegion
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof._native.grouping import EventGraph, parents
from fastprof.decode.plane_kinds import find_device_of_plane
from fastprof.decode.workers import Workers
from fastprof.derive.devices.op_names import Framework, parse_op_name
from fastprof.derive.steps import device_steps
from fastprof.schema.columns import (
    Bools,
    Int32s,
    Int64s,
    UInt8s,
    find_last_started,
    find_rows_within,
    number_keys,
    sort_rows,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HOST_THREADS, HostEvents, Plane, compute_once, find_line_starts, join_stat

UNKNOWN = 0
_NAMES = (
    "TraceContext", "SessionRun", "FunctionRun", "RunGraph", "RunGraphDone", "TfOpRun", "EagerExecute",
    "ExecutorState::Process", "ExecutorDoneCallback", "MemoryAllocation", "MemoryDeallocation", "RemotePerfCounter",
    "InstantiatedCapturedFunction::Run", "InstantiatedCapturedFunction::RunWithBorrowedArgs",
    "InstantiatedCapturedFunction::RunInstantiated", "InstantiatedCapturedFunction::RunAsync", "ParallelForOp",
    "ForeverOp", "WhileOp-EvalCond", "WhileOp-StartBody", "ForOp", "IteratorGetNextOp::DoCompute",
    "IteratorGetNextAsOptionalOp::DoCompute", "Iterator", "Iterator::Prefetch::Generator", "PrefetchProduce",
    "PrefetchConsume", "ParallelInterleaveProduce", "ParallelInterleaveConsume", "ParallelInterleaveInitializeInput",
    "ParallelMapProduce", "ParallelMapConsume", "MapAndBatchProduce", "MapAndBatchConsume", "ParseExampleProduce",
    "ParseExampleConsume", "ParallelBatchProduce", "ParallelBatchConsume", "BatchingSessionRun", "ProcessBatch",
    "BrainSessionRun", "ConcatInputTensors", "MergeInputTensors", "ScheduleWithoutSplit", "ScheduleWithSplit",
    "ScheduleWithEagerSplit", "ASBSQueue::Schedule", "OrbaxServing::ProcessBatch", "OrbaxServing::ConcatInputBuffers",
    "TfrtModelRun", "ServingModelRun", "KernelLaunch", "KernelExecute", "EnqueueRequestLocked", "RunProgramRequest",
    "HostCallbackRequest", "TransferH2DRequest", "TransferPreprocessedH2DRequest", "TransferD2HRequest",
    "OnDeviceSendRequest", "OnDeviceRecvRequest", "OnDeviceSendRecvLocalRequest", "CustomWait",
    "OnDeviceSendRequestMulti", "OnDeviceRecvRequestMulti", "PjrtAsyncWait", "DoEnqueueProgram",
    "DoEnqueueContinuationProgram", "WriteHbm", "ReadHbm", "TpuExecuteOp", "CompleteCallbacks",
    "TPUPartitionedCallOp-InitializeVarOnTPU", "TPUPartitionedCallOp-ExecuteRemote",
    "TPUPartitionedCallOp-ExecuteLocal", "Linearize", "Delinearize", "TransferBufferFromDevice-FastPath",
    "tpu::System::TransferToDevice=>IssueEvent", "tpu::System::TransferToDevice=>IssueEvent=>Done",
    "tpu::System::TransferFromDevice=>IssueEvent", "tpu::System::TransferFromDevice=>IssueEvent=>Done",
    "tpu::System::Execute",
)  # fmt: skip
CODES = {name: number for number, name in enumerate(_NAMES, 1)}
"""The names that mean something by themselves, and their codes."""

TF_OP, ITERATOR = CODES["TfOpRun"], CODES["Iterator"]
KERNEL_LAUNCH, KERNEL_EXECUTE = CODES["KernelLaunch"], CODES["KernelExecute"]


@lru_cache(maxsize=1 << 16)
def get_type_code(name: str) -> int:
    """Return the code of an event's name; UNKNOWN: the name is not special."""
    code = CODES.get(name)
    if code is not None:
        return code
    framework = parse_op_name(name).framework
    if framework is Framework.TENSORFLOW:
        return TF_OP
    return ITERATOR if framework is Framework.TF_DATA else UNKNOWN


def classify_events(events: HostEvents) -> npt.NDArray[np.uint8]:
    """Return the code of each event. Other events that have a ``correlation_id`` launch kernels on the host's threads,
    and are kernels elsewhere."""
    of_meta = np.array([get_type_code(name) for name in events.names], np.uint8)
    types: npt.NDArray[np.uint8] = of_meta[events.meta]
    rows = events.stat("correlation_id").rows
    rows = rows[types[rows] == UNKNOWN]
    types[rows] = KERNEL_EXECUTE
    for plane in events.planes:
        if plane.name == HOST_THREADS:
            types[rows[find_rows_within(rows, plane.first, plane.last)]] = KERNEL_LAUNCH
    return types


def is_any_type(types: npt.NDArray[np.uint8], wanted: Iterable[int]) -> npt.NDArray[np.bool_]:
    """Return whether each code is one of those wanted."""
    table = np.zeros(256, bool)
    table[list(wanted)] = True
    is_wanted: npt.NDArray[np.bool_] = table[types]
    return is_wanted


MEMBER = np.dtype([("row", "i4"), ("link", "i4")])

CROWD = 64
"""A context with this many producers and this many consumers, or more of both, is left out."""

_EXECUTOR = CODES["ExecutorState::Process"]
DEVICE_REQUESTS = tuple(
    CODES[name]
    for name in (
        "RunProgramRequest", "HostCallbackRequest", "TransferH2DRequest", "TransferPreprocessedH2DRequest",
        "TransferD2HRequest", "OnDeviceSendRequest", "OnDeviceRecvRequest", "OnDeviceSendRecvLocalRequest",
        "OnDeviceSendRequestMulti", "OnDeviceRecvRequestMulti", "CustomWait", "PjrtAsyncWait",
    )
)  # fmt: skip
_RUN_ID_BITS = 2**27 - 1


@dataclass(frozen=True, slots=True)
class LinkEnds:
    """Events with their keys: one int64 column a part of the key."""

    rows: Int32s
    keys: tuple[Int64s, ...]

    def of_types(self, types: UInt8s, wanted: Sequence[int]) -> LinkEnds:
        return self.where(is_any_type(types[self.rows], wanted))

    def where(self, keep: Bools) -> LinkEnds:
        return LinkEnds(self.rows[keep], tuple(key[keep] for key in self.keys))


class EventLinks:
    """Links as they are found; ``members`` gives them as the graph wants them."""

    def __init__(self) -> None:
        self.count = 0
        self._producers: list[tuple[Int32s, Int32s]] = []
        self._consumers: list[tuple[Int32s, Int32s]] = []

    def join(self, producers: LinkEnds, consumers: LinkEnds, crowds: bool = False) -> None:
        """Link all producers of a key to all consumers of it; ``crowds``: unless there are too many of both."""
        if not len(producers.rows) or not len(consumers.rows):
            return
        link, count = number_keys([np.concatenate(pair) for pair in zip(producers.keys, consumers.keys, strict=True)])
        given, taken = link[: len(producers.rows)], link[len(producers.rows) :]
        gives, takes = np.bincount(given, minlength=count), np.bincount(taken, minlength=count)
        wanted = (gives > 0) & (takes > 0)
        if crowds:
            wanted &= (gives < CROWD) | (takes < CROWD)
        self._add(producers.rows, given, consumers.rows, taken, wanted)

    def join_last(self, producers: LinkEnds, consumers: LinkEnds) -> None:
        """Return the last producer of a key to all consumers of it."""
        if not len(producers.rows) or not len(consumers.rows):
            return
        link, count = number_keys([np.concatenate(pair) for pair in zip(producers.keys, consumers.keys, strict=True)])
        given, taken = link[: len(producers.rows)], link[len(producers.rows) :]
        last = np.full(count, -1, np.int32)
        last[given] = producers.rows  # of equal indices the last assignment stays
        wanted = (last >= 0) & (np.bincount(taken, minlength=count) > 0)
        self._add(last, np.arange(count, dtype=np.int32), consumers.rows, taken, wanted)

    def lead(self, leader: Int32s, followers: Int32s, leader_of: Int32s) -> None:
        """Link ``leader[leader_of[i]]`` to ``followers[i]``."""
        wanted = np.ones(len(leader), bool)
        self._add(leader, np.arange(len(leader), dtype=np.int32), followers, leader_of, wanted)

    def _add(self, givers: Int32s, given: Int32s, takers: Int32s, taken: Int32s, wanted: npt.NDArray[np.bool_]) -> None:
        place = (np.cumsum(wanted) - 1 + self.count).astype(np.int32)
        for into, rows, links in ((self._producers, givers, given), (self._consumers, takers, taken)):
            keep = wanted[links]
            into.append((rows[keep], place[links[keep]]))
        self.count += int(wanted.sum())

    def members(self, node: Int32s | None) -> tuple[npt.NDArray[np.void], npt.NDArray[np.void]]:
        """Return producers and consumers by row, then link; ``node``: the row that represents each, or -1 if there is
        none."""
        return _pair_members(self._producers, node), _pair_members(self._consumers, node)


def _pair_members(shares: list[tuple[Int32s, Int32s]], node: Int32s | None) -> npt.NDArray[np.void]:
    rows = np.concatenate([rows for rows, _ in shares] or [np.zeros(0, np.int32)])
    links = np.concatenate([links for _, links in shares] or [np.zeros(0, np.int32)])
    if node is not None:
        rows = node[rows]
        rows, links = rows[rows >= 0], links[rows >= 0]
    key = rows.astype(np.int64) << 32 | links
    if (key[1:] < key[:-1]).any():
        order = np.argsort(key, kind="stable")
        rows, links = rows[order], links[order]
    members = np.zeros(len(rows), MEMBER)
    members["row"], members["link"] = rows, links
    return members


def find_events_with_stats(events: HostEvents, *stats: str) -> LinkEnds:
    """Return the events that have all of these integer stats, with their values."""
    rows, first = events.ints(stats[0])
    values = [first]
    for name in stats[1:]:
        other, value = events.ints(name)
        if len(other) == len(rows) and (other == rows).all():
            values.append(value)
            continue
        mine, its = find_common_rows(rows, other)
        rows, values = rows[mine], [*(column[mine] for column in values), value[its]]
    return LinkEnds(rows, tuple(values))


def find_common_rows(rows: Int32s, others: Int32s) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the places of common rows in each. The fewer are looked up among the more."""
    if len(others) < len(rows):
        its, mine = find_common_rows(others, rows)
        return mine, its
    place = np.searchsorted(others, rows)
    place[place == len(others)] = 0
    common = np.flatnonzero(others[place] == rows) if len(others) else np.zeros(0, np.intp)
    return common, place[common]


def is_one_of(keys: Int64s, known: Int64s) -> npt.NDArray[np.bool_]:
    """Return whether each key is known, in linear time."""
    number, count = number_keys([np.concatenate([keys, known])])
    there = np.zeros(count, bool)
    there[number[len(keys) :]] = True
    return there[number[: len(keys)]]


def find_links(events: HostEvents, types: UInt8s) -> EventLinks:
    """Return all links of a host, in the order in which parents of an event are searched."""
    links = EventLinks()
    iterations = find_events_with_stats(events, "id", "iter_num")
    executors = iterations.of_types(types, (_EXECUTOR,))
    for name in ("IteratorGetNextOp::DoCompute", "IteratorGetNextAsOptionalOp::DoCompute"):
        links.join_last(executors, iterations.of_types(types, (CODES[name],)))
    correlated = find_events_with_stats(events, "correlation_id")
    links.join_last(correlated.of_types(types, (KERNEL_LAUNCH,)), correlated.of_types(types, (KERNEL_EXECUTE,)))
    executed = iterations.of_types(types, (CODES["TpuExecuteOp"],))
    requests = find_events_with_stats(events, "request_id", "queue_addr")
    enqueued = requests.of_types(types, (CODES["EnqueueRequestLocked"],))
    taken_up = requests.of_types(types, DEVICE_REQUESTS)
    programs, runs = _find_launches(events, types)
    links.join(
        _exclude_linked(find_contexts(events, "_pt", "_p"), executors, enqueued, programs),
        _exclude_linked(find_contexts(events, "_ct", "_c"), executed, taken_up, runs),
        crowds=True,
    )
    links.join(executors, executed, crowds=True)
    links.join(enqueued, taken_up, crowds=True)
    links.join(programs, runs, crowds=True)
    return links


def _exclude_linked(ends: LinkEnds, *others: LinkEnds) -> LinkEnds:
    """Return the ends that are not linked in another way: other contexts of such events do not count."""
    rows = np.concatenate([other.rows for other in others])
    if not len(rows) or not len(ends.rows):
        return ends
    return ends.where(~np.isin(ends.rows, rows))


def find_contexts(events: HostEvents, kind: str, number: str) -> LinkEnds:
    """Return events with the type and number of the context that they produce or consume, and its process: the event's
    ``_pid``, else the plane's ``process_id``."""
    ends = find_events_with_stats(events, kind, number)
    rows, values = events.ints("_pid")
    if not len(rows) and not any("process_id" in plane.stats for plane in events.planes):
        return ends
    process, known = np.zeros(len(ends.rows), np.int64), np.zeros(len(ends.rows), np.int64)
    for plane in events.planes:
        stated = plane.stats.get("process_id")
        if isinstance(stated, int):
            part = find_rows_within(ends.rows, plane.first, plane.last)
            process[part], known[part] = np.array([stated % 2**64], np.uint64).view(np.int64)[0], 1
    own, value = join_stat(ends.rows, rows, values)
    return LinkEnds(ends.rows, (*ends.keys, np.where(own, value, process), np.where(own, 1, known)))


def _find_launches(events: HostEvents, types: UInt8s) -> tuple[LinkEnds, LinkEnds]:
    """Return programs that the host enqueues, the callbacks of their end, and their executions on devices."""
    runs = find_events_with_stats(events, "run_id", "queue_id")
    of_host = find_events_with_stats(events, "run_id", "queue_id", "device_ordinal")
    _, core_type = join_stat(of_host.rows, *events.ints("core_type"))
    run_id, queue, ordinal = of_host.keys
    called = LinkEnds(of_host.rows, (ordinal, queue, run_id & _RUN_ID_BITS, core_type))
    programs = called.of_types(types, (CODES["DoEnqueueProgram"],))
    modules = find_module_ends(events, runs)
    callbacks = called.of_types(types, (CODES["CompleteCallbacks"],))
    keys = tuple(np.concatenate(pair) for pair in zip(callbacks.keys, modules.keys, strict=True))
    return programs, LinkEnds(np.concatenate([callbacks.rows, modules.rows]), keys)


def find_module_ends(events: HostEvents, runs: LinkEnds) -> LinkEnds:
    """Return executions of modules on TensorCores, keyed as the programs that the host enqueues."""
    device = np.full(len(runs.rows), -1, np.int64)
    for line in events.lines:
        kind, ordinal = find_device_of_plane(line.plane.name)
        if line.name == "XLA Modules" and kind == "TPU" and ordinal is not None:
            device[find_rows_within(runs.rows, line.first, line.last)] = ordinal
    _, core_type = join_stat(runs.rows, *events.ints("core_type"))
    run_id, queue = runs.keys
    return LinkEnds(runs.rows, (device, queue, run_id, core_type)).where(device >= 0)


STATS = (
    "_r", "_a", "_pt", "_p", "_ct", "_c", "_pid", "id", "iter_num", "step_num", "graph_type", "is_func",
    "correlation_id", "group_id", "step_name", "is_eager", "request_id", "queue_addr", "queue_id", "run_id",
    "core_type", "device_ordinal", "device_offset_ps", "device_duration_ps", "step_idle_time_ps",
)  # fmt: skip
"""The stats of events that grouping reads."""

HAS_GRAPH_TYPE, HAS_ITER_NUM, HAS_STEP_NUM, _EXECUTES_EAGERLY, _IS_OP = 1, 2, 4, 8, 16
_LOOPS = {"WhileOp-EvalCond", "WhileOp-StartBody", "ForOp", "ParallelForOp", "ForeverOp"}
_CAPTURED_FUNCTIONS = tuple(CODES[f"InstantiatedCapturedFunction::{what}"] for what in (
    "Run", "RunWithBorrowedArgs", "RunInstantiated", "RunAsync",
))  # fmt: skip
_PLANES_IN_GROUPS = (
    "/host:CPU", "Host CPUs", "/host:tfstreamz", "/host:metadata", "Syscalls", "/host:python-tracer", "/host:CUPTI",
    "/device", "#Chip", "/custom:",
)  # fmt: skip
"""How the names of planes of hosts and of devices begin."""


class EventForest:
    """``recorded``: the capture records its groups. ``vetoed``: it has events of loops that do not record their
    iterations, and cannot be grouped. All else is computed at first use.
    """

    def __init__(self, events: HostEvents, workers: Workers) -> None:
        self.events = events
        self.workers = workers
        self.loop_roots: Int32s | None = None
        """The first event of each iteration in order of time, if executors run loops; known with ``graph``."""
        self.recorded = len(events.stat("group_id")) > 0 and has_declared_groups(events)
        self.vetoed = not self.recorded and bool(_LOOPS & set(events.names))

    @cached_property
    def types(self) -> UInt8s:
        """The kind of each event; see event_graph.py."""
        return classify_events(self.events)

    @cached_property
    def tpu_planes(self) -> list[Plane]:
        return list_tpu_planes(self.events)

    @cached_property
    def node(self) -> Int32s | None:
        """The row that represents each event in the graph, or -1 if there is none. None if each represents itself."""
        return device_steps.map_to_nodes(self.events, self.tpu_planes) if self.tpu_planes else None

    @cached_property
    def captured_functions(self) -> npt.NDArray[np.int64]:
        """The ids of functions that tf.data runs, one of each run: they are no steps."""
        runs = find_events_with_stats(self.events, "id").of_types(self.types, _CAPTURED_FUNCTIONS)
        return runs.keys[0]

    @cached_property
    def graph(self) -> EventGraph:
        tasks: list[Callable[[], Any]] = [
            partial(find_links, self.events, self.types), partial(find_enclosing, self.events),
        ]  # fmt: skip
        links, parent = self.workers.run(None, tasks)
        self.loop_roots = _find_loop_roots(self, links)
        producers, consumers = links.members(self.node)
        return EventGraph(parent, producers, consumers, links.count)

    @cached_property
    def marks(self) -> UInt8s:
        """Bits by row: which of the stats that make names it has, and whether it is or runs an op."""
        events, types = self.events, self.types
        marks = np.zeros(len(events), np.uint8)
        marks[events.texts("graph_type")[0]] |= HAS_GRAPH_TYPE
        for name, bit in (("iter_num", HAS_ITER_NUM), ("step_num", HAS_STEP_NUM)):
            marks[events.ints(name)[0]] |= bit
        eager = types == CODES["EagerExecute"]
        if eager.any():
            is_op = (types == KERNEL_EXECUTE) | (types == TF_OP)
            marks |= eager.view(np.uint8) * np.uint8(_EXECUTES_EAGERLY) | is_op.view(np.uint8) * np.uint8(_IS_OP)
        return marks

    @cached_property
    def is_eager(self) -> UInt8s:
        """1 for ops and kernels that were executed eagerly, by row of ``events``; of other events what they record."""
        if self.recorded:
            return self._recorded_eager()
        is_eager = np.zeros(len(self.events), np.uint8)
        if self.vetoed:
            return is_eager
        if (self.types == CODES["EagerExecute"]).any():
            is_eager = _find_eager(self.events, self.graph, self.marks)
        if not len(self.events.stat("is_eager")):
            return is_eager
        is_op = (self.types == KERNEL_EXECUTE) | (self.types == TF_OP)
        return np.where(is_op, is_eager, self._recorded_eager())

    def _recorded_eager(self) -> UInt8s:
        return self.events.dense("is_eager").astype(bool).view(np.uint8)

    def nearest_above(self, bit: int, rows: Int32s) -> Int32s:
        """Return the nearest event above each of the rows, itself included, with this bit of ``marks``, or -1 if there
        is none."""
        nearest = np.full(len(rows), -1, np.int32)
        if (self.marks & bit).any():
            self.graph.nearest_above(self.marks, bit, rows, nearest)
        return nearest


def has_declared_groups(events: HostEvents) -> bool:
    """Return whether every plane of a host or a device declares the stat of groups, used or not: TSL requires no more
    of a grouped capture."""
    return not any(name.startswith(_PLANES_IN_GROUPS) for name in events.planes_without("group_id"))


def _find_eager(events: HostEvents, graph: EventGraph, marks: UInt8s) -> UInt8s:
    """Find ops and kernels whose nearest eager execution above runs an op, not a function."""
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


def _find_loop_roots(forest: EventForest, links: EventLinks) -> Int32s | None:
    """Return the first event of each loop iteration of executors, in order of time, linked to the others of it, or None
    if there are no loops. An executor that only ran iteration 0 does not count."""
    events = forest.events
    runs = find_events_with_stats(events, "id", "iter_num").of_types(forest.types, (_EXECUTOR,))
    if not runs.keys[1].any():
        return None
    keep = ~is_one_of(runs.keys[0], forest.captured_functions)
    rows, executor, iteration = runs.rows[keep], runs.keys[0][keep], runs.keys[1][keep]
    if not len(rows):
        return None
    loop, count = number_keys([executor])
    iterates = np.zeros(count, bool)
    iterates[loop[iteration != 0]] = True
    keep = iterates[loop]
    if not keep.any():
        return None
    rows, executor, iteration = rows[keep], executor[keep], iteration[keep]
    number, count = number_keys([executor, iteration])
    order = sort_rows(number, events.start_ps[rows], rows)
    first = np.ones(len(order), bool)
    first[1:] = number[order[1:]] != number[order[:-1]]
    leader = rows[order[first]]
    followers = order[~first]
    links.lead(leader, rows[followers], number[followers])
    return np.ascontiguousarray(leader[np.argsort(events.start_ps[leader], kind="stable")])


STRETCH: Final = np.dtype([("begin", "i8"), ("end", "i8"), ("row", "i8")])

PIECE: Final = np.dtype([("begin", "i8"), ("end", "i8"), ("label", "i8")])
"""Structs of csrc/kernels/stretches.h and foremost.h; a test compares their sizes with C's."""

REGION_START, REGION_STOP = "ThreadpoolListener::StartRegion", "ThreadpoolListener::StopRegion"


def find_pool_regions(events: HostEvents) -> Int64s:
    """Return [k, 3] the row that each region comes before on its line, its start and its duration; sorted by row, then
    longer first. There is one for each stop that a start precedes on its line."""
    begun, begins, duration = find_region_marks(events)
    some = duration > 0
    begun, begins, duration = begun[some], begins[some], duration[some]
    start = events.start_ps[begun]
    before = _place_regions(events, begun, begins, duration)
    regions = np.stack([before, start, duration], axis=1)
    if (before[1:] > before[:-1]).all():
        return regions
    return np.ascontiguousarray(regions[sort_rows(before, -duration)])


@compute_once
def find_region_marks(events: HostEvents) -> tuple[Int64s, Int64s, Int64s]:
    """Return the row of the start, the first row of the line, and the duration of each region, empty ones included."""
    marks = _find_marks(events)
    if marks is None:
        none = np.zeros(0, np.int64)
        return none, none, none
    starts, stops = marks
    begins = find_line_starts(events.used_lines, stops)
    last = np.searchsorted(starts, stops) - 1
    known = (last >= 0) & (starts[last] >= begins)
    known[known] = events.start_ps[starts[last[known]]] != 0  # a start at 0 is none to TSL
    begun = starts[last[known]]
    return begun, begins[known], events.start_ps[stops[known]] - events.start_ps[begun]


def _find_marks(events: HostEvents) -> tuple[Int64s, Int64s] | None:
    """Return rows of starts that record their task, and of stops, in planes that have both, or None if no plane has."""
    code = np.array([(name == REGION_START) + 2 * (name == REGION_STOP) for name in events.names], np.uint8)
    start, stop = (np.flatnonzero(code == mark) for mark in (1, 2))
    if not len(start) or not len(stop):
        return None
    both = np.intersect1d(events.meta_plane[start], events.meta_plane[stop])
    for metas in (start, stop):
        code[metas[~np.isin(events.meta_plane[metas], both)]] = 0
    has_task = events.ints("_c")[0]
    starts = has_task[code[events.meta[has_task]] == 1].astype(np.int64)
    stops = np.flatnonzero((code == 2)[events.meta])
    return (starts, stops) if len(starts) and len(stops) else None


def _place_regions(events: HostEvents, begun: Int64s, begins: Int64s, duration: Int64s) -> Int64s:
    """Return the row that each region comes before: that of its mark, or the first that starts as it does and is
    shorter. ``begins``: the first row of its line."""
    above = np.maximum(begun - 1, 0)
    tied = (begun > begins) & (events.start_ps[above] == events.start_ps[begun])
    tied &= events.duration_ps[above] < duration
    place = begun.copy()
    low, high, start, length = begins[tied], begun[tied], events.start_ps[begun[tied]], duration[tied]
    while (low < high).any():
        middle = (low + high) // 2
        after = (events.start_ps[middle] == start) & (events.duration_ps[middle] < length)
        high, low = np.where(after, middle, high), np.where(after | (low == high), low, middle + 1)
    place[tied] = low
    return place


TASK_RECORD: Final = "ThreadpoolListener::Record"

_MOST_TURNS: Final = 16
"""A task that was scheduled by a task, and so on, is followed so far."""


def find_schedulers(events: HostEvents, rows: Int32s, above: Int32s, wanted: Bools) -> Int32s:
    """Complete ``above``: where it is -1, by the event that scheduled the task of the row, if it is ``wanted``, else
    the one that scheduled that, and so on, or -1 if there is none."""
    if not (above < 0).any():
        return above
    schedulers, marks = above.copy(), _Tasks(events)
    places = np.flatnonzero(above < 0)
    here = rows[places].astype(np.int64)
    for _ in range(_MOST_TURNS):
        here = marks.scheduler(here)
        known = here >= 0
        places, here = places[known], here[known]
        done = wanted[here]
        schedulers[places[done]] = here[done]
        places, here = places[~done], here[~done]
        if not len(places):
            break
    return schedulers


class _Tasks:
    """The regions in which threads of pools run tasks, and the events that scheduled them."""

    def __init__(self, events: HostEvents) -> None:
        self._events = events
        begun, first, duration = find_region_marks(events)
        last_stop = np.append(begun[1:] != begun[:-1], True) if len(begun) else np.zeros(0, np.bool_)
        self._begun, self._first = begun[last_stop], first[last_stop]
        self._end = events.start_ps[self._begun] + duration[last_stop]
        _, self._task = join_stat(self._begun, *events.ints("_c"))
        rows, tasks = events.ints("_p")
        is_record = np.array([name == TASK_RECORD for name in events.names], np.bool_)
        chosen = is_record[events.meta[rows]]
        order = np.argsort(tasks[chosen], kind="stable")
        self._made, self._by = tasks[chosen][order], rows[chosen][order].astype(np.int64)

    def scheduler(self, rows: Int64s) -> Int64s:
        """Return the event that scheduled the task of each row, or -1 if the row is part of none."""
        events = self._events
        scheduler = np.full(len(rows), -1, np.int64)
        if not len(self._begun) or not len(self._made):
            return scheduler
        region = find_last_started(self._begun, rows)
        line_of = find_line_starts(events.used_lines, rows)
        ends = events.start_ps[rows] + np.maximum(events.duration_ps[rows], 0)
        inside = (region >= 0) & (self._first[region] == line_of) & (ends <= self._end[region])
        task = self._task[region[inside]]
        place = np.minimum(np.searchsorted(self._made, task), len(self._made) - 1)
        scheduler[inside] = np.where(self._made[place] == task, self._by[place], -1)
        return scheduler


@compute_once
def find_enclosing(events: HostEvents) -> Int32s:
    """Return the innermost enclosing event of each event, or -1. Asynchronous events neither enclose nor are enclosed,
    nor do those of TPUs. What lies in a region of a thread pool lies in nothing that began before. Reads ``_a`` and
    ``_c``."""
    apart: UInt8s | None = None
    rows, values = events.ints("_a")
    if len(rows):
        apart = np.zeros(len(events), np.uint8)
        apart[rows[values != 0]] = 1
    for plane in list_tpu_planes(events):
        apart = np.zeros(len(events), np.uint8) if apart is None else apart
        apart[plane.first : plane.last] = 1
    parent = np.full(len(events), -1, np.int32)
    bounds = np.array([(line.first, line.last) for line in events.lines], np.int64).reshape(-1, 2)
    parents(events.start_ps, events.duration_ps, apart, find_pool_regions(events), bounds, parent, events.slack_ps)
    parent.flags.writeable = False
    return parent


def list_tpu_planes(events: HostEvents) -> list[Plane]:
    return [plane for plane in events.planes if plane.name.startswith("/device:TPU:")]
