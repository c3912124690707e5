"""Steps and program executions as devices record them.

A TPU has a line of steps; its events belong to the step, else to the module execution, that they overlap in time. A GPU
has no line of steps: consecutive events of one group make up a step.

An execution of a compiled program is on a TPU an event of the line XLA Modules, from its begin to the end of the last
op that began in it; on a GPU, the kernels of one module up to the one that it began with, or to one of another module;
on a host, the ops of one run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof._native import records
from fastprof._native.grouping import EventGraph
from fastprof._native.kernels import rank_order
from fastprof._native.step_kernels import placed
from fastprof.decode.plane_kinds import is_gpu_plane
from fastprof.derive.devices.device_events import OP_LINES, clip_negative
from fastprof.derive.steps.step_database import Markers
from fastprof.errors import CaptureError
from fastprof.hlo.shapes import Message
from fastprof.schema.columns import (
    ArrayRows,
    Bools,
    Int32s,
    Int64s,
    add_durations,
    merge_spans,
    number_sorted_rows,
    number_values,
    sort_rows,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import (
    COUNTER_LINE,
    FIRST_DERIVED,
    HOST_THREADS,
    MODULE_LINES,
    STEP_LINES,
    HostEvents,
    Line,
    Plane,
    compute_once,
    join_stat,
)


@dataclass(frozen=True, slots=True)
class CoreDetails:
    """Numbers of a core: its own on the host, its chip's on the host, its own in the system; 0 where not recorded."""

    device_ordinal: int = 0
    local_chip_id: int = 0
    global_core_id: int = 0


def read_core_details(stats: dict[str, Any]) -> CoreDetails | None:
    """Read core details from the stats of a plane, or None if it has none that can be read."""
    recorded = stats.get("core_details")
    if not isinstance(recorded, bytes | memoryview):
        return None
    try:
        message = Message(memoryview(recorded))
    except CaptureError:
        return None
    return CoreDetails(*(message.integer(field) & 0xFFFFFFFF for field in (2, 4, 6)))


@dataclass(frozen=True, slots=True)
class PlaneSteps(ArrayRows):
    """The steps of one plane, in order. ``device_start_ps``, ``device_duration_ps``: by the device clock if it is
    recorded, else equal to the others."""

    group_id: Int32s
    start_ps: Int64s
    duration_ps: Int64s
    device_start_ps: Int64s
    device_duration_ps: Int64s

    @property
    def markers(self) -> Markers:
        return Markers(self.group_id, self.device_start_ps, self.device_duration_ps)


def find_grouping_line(plane: Plane) -> Line | None:
    """Return the line of a TPU plane that marks its steps: the line of steps, else that of modules, or None if both are
    empty."""
    for names in (STEP_LINES, MODULE_LINES):
        for line in plane.lines:
            if line.name in names and line.last > line.first:
                return line
    return None


def collect_device_steps(events: HostEvents, group_id: Int32s, recorded: bool) -> dict[int, PlaneSteps]:
    """Return the steps of each device plane, by its number. Events of GPUs that have no group join the one before them.
    ``recorded``: the groups are those of the capture, and so are the steps that it shows of GPUs."""
    steps_by_plane = {}
    for plane in events.planes:
        if is_gpu_plane(plane.name):
            steps_by_plane[plane.number] = _collect_gpu_steps(events, plane, group_id, recorded)
        elif plane.name.startswith("/device:TPU:"):
            line = find_grouping_line(plane)
            if line is not None and line.name in STEP_LINES:
                rows = np.arange(line.first, line.last)
                steps_by_plane[plane.number] = _merge_group_runs(
                    group_id[rows], _get_line_times(events, line), read_device_times(events, rows)
                )
    return steps_by_plane


def read_device_times(events: HostEvents, rows: npt.NDArray[np.intp] | Int32s) -> tuple[Int64s, Int64s]:
    """Return start and duration by the device clock where the event records both, else the event's own."""
    start, duration = events.start_ps[rows], events.duration_ps[rows]
    has_offset, offset = join_stat(rows, *events.ints("device_offset_ps"))
    has_length, length = join_stat(rows, *events.ints("device_duration_ps"))
    both = has_offset & has_length
    return np.where(both, offset, start), np.where(both, length, duration)


# ---- GPUs


def _collect_gpu_steps(events: HostEvents, plane: Plane, group_id: Int32s, recorded: bool) -> PlaneSteps:
    shown = [line for line in plane.lines if line.xline_id & 0xFFFFFFFF == FIRST_DERIVED]
    if not shown:
        return _group_gpu_events(events, plane, group_id)
    rows = np.arange(shown[0].first, shown[0].last)
    rows = rows[group_id[rows] >= 0]
    start, duration = events.start_ps[rows], events.duration_ps[rows]
    known = PlaneSteps(group_id[rows], start, duration, start, duration)
    return known if recorded else PlaneSteps.joined([_group_gpu_events(events, plane, group_id), known])


def _group_gpu_events(events: HostEvents, plane: Plane, group_id: Int32s) -> PlaneSteps:
    rows = np.concatenate(
        [np.arange(line.first, line.last) for line in plane.lines if not line.is_derived] or [np.zeros(0, np.intp)]
    )
    rows = rows[sort_by_start(events.start_ps[rows], events.duration_ps[rows])]
    groups = group_id[rows]
    last_known = np.maximum.accumulate(np.where(groups >= 0, np.arange(len(rows)), -1))
    groups = np.where(last_known >= 0, groups[np.maximum(last_known, 0)], -1).astype(np.int32)
    group_id[rows] = groups
    times = (events.start_ps[rows], events.duration_ps[rows])
    return _merge_group_runs(groups, times, times)


def sort_by_start(start: Int64s, duration: Int64s) -> npt.NDArray[np.intp]:
    """Return the order of start, then shorter first; equal ones as std::sort leaves them. Lines are sorted by start, so
    this is quick unless there are ties."""
    order = np.argsort(start, kind="stable")
    ordered = start[order]
    if not (ordered[1:] == ordered[:-1]).any():
        return order
    order = sort_rows(start, duration)
    times = np.stack([start[order], duration[order]])
    fresh = np.append(True, (times[:, 1:] != times[:, :-1]).any(axis=0))
    if fresh.all():
        return order
    place = np.empty(len(order), np.int64)
    place[order] = -np.cumsum(fresh)
    ranked = np.arange(len(order), dtype=np.int32)
    rank_order(place, ranked)
    return ranked.astype(np.intp)


def _merge_group_runs(groups: Int32s, times: tuple[Int64s, Int64s], device_times: tuple[Int64s, Int64s]) -> PlaneSteps:
    """Merge consecutive events of one group into one step, from the earliest start to the last end; group -1 is none.
    Times are starts and durations."""
    if not len(groups):
        return PlaneSteps.none()
    first = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
    kept = groups[first] >= 0
    return PlaneSteps(groups[first][kept], *_bound_runs(times, first, kept), *_bound_runs(device_times, first, kept))


def _bound_runs(
    times: tuple[Int64s, Int64s], first: npt.NDArray[np.intp], kept: npt.NDArray[np.bool_]
) -> tuple[Int64s, Int64s]:
    """Return start and duration of runs of events, which begin at ``first``, for the runs in ``kept``."""
    start, duration = times
    begin = np.minimum.reduceat(start, first)
    return begin[kept], (np.maximum.reduceat(start + duration, first) - begin)[kept]


# ---- TPUs


def map_to_nodes(events: HostEvents, planes: Sequence[Plane]) -> Int32s:
    """Return the row that represents each event in the graph: itself on hosts and on grouping lines, on other lines of
    a TPU the first event of the grouping line that ends after it begins, if that includes it, or -1 if there is
    none."""
    node = np.arange(len(events), dtype=np.int32)
    for plane in planes:
        line = find_grouping_line(plane)
        node[plane.first : plane.last] = -1
        if line is None:
            continue
        own = np.arange(line.first, line.last, dtype=np.int32)
        spans = _get_line_spans(events, line)
        for other in plane.lines:
            if other is not line:
                placed(*spans, own, *_get_line_times(events, other), False, node[other.first : other.last])
        node[line.first : line.last] = own
    return node


def _get_line_times(events: HostEvents, line: Line) -> tuple[Int64s, Int64s]:
    return events.start_ps[line.first : line.last], events.duration_ps[line.first : line.last]


def _get_line_spans(events: HostEvents, line: Line) -> tuple[Int64s, Int64s, Int64s]:
    """Return begin and end of the events of a line, and the latest end so far."""
    begin, duration = _get_line_times(events, line)
    end = begin + duration
    return begin, end, np.maximum.accumulate(end)


def number_in_lock_step(planes: Sequence[Plane], graph: EventGraph, group_id: Int32s, count: int) -> tuple[int, bytes]:
    """Give steps of different TensorCores equal numbers, on from ``count``, if no group of the host reaches any; return
    the new number of groups, and int32 pairs of groups, in which the first leads into the second."""
    lines = [find_grouping_line(plane) for plane in planes if plane.kind == "TPU"]
    cores = [line for line in lines if line is not None]
    if any((group_id[line.first : line.last] >= 0).any() for line in cores):
        return count, b""
    pairs = [graph.group(np.arange(line.first, line.last, dtype=np.int32), None, count, group_id)[1] for line in cores]
    return count + max((line.last - line.first for line in cores), default=0), b"".join(pairs)


def spread_groups(events: HostEvents, planes: Sequence[Plane], group_id: Int32s) -> None:
    """Assign each other TPU event the group of the event of the grouping line that it overlaps; counters have none."""
    for plane in planes:
        line = find_grouping_line(plane)
        if line is None:
            continue
        spans, groups = _get_line_spans(events, line), group_id[line.first : line.last].copy()
        if line.name in STEP_LINES:
            # merge consecutive steps of one group, and drop those of no group
            first = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
            last = np.append(first[1:], len(groups)) - 1
            known = groups[first] >= 0
            if known.any():
                begin, end = spans[0][first[known]], spans[1][last[known]]
                spans = begin, end, np.maximum.accumulate(end)
                groups = np.ascontiguousarray(groups[first[known]])
        for other in plane.lines:
            if (other is line and line.name in STEP_LINES) or other.name == COUNTER_LINE:
                continue
            its_groups = group_id[other.first : other.last]
            placed(*spans, groups, *_get_line_times(events, other), True, its_groups)
            if other is line:
                its_groups[groups >= 0] = groups[groups >= 0]


_MOST, _LEAST = 2**63 - 1, -(2**63)


def compute_execution_spans(
    events: HostEvents, begin: Int64s, end: Int64s, parts: Sequence[tuple[Int64s, Int64s]]
) -> tuple[Int64s, Int64s]:
    """Return begin and end by the device clock of executions that last from ``begin`` to ``end`` by the clock of their
    line, in order of time, unchanged if no event has another clock. ``parts``: rows of events in them, and the
    execution of each."""
    rows, of = (np.concatenate(column) for column in zip(*parts, strict=True))
    (has_offset, offset), (has_length, length) = (
        map(np.concatenate, zip(*(join_stat(some, *events.ints(stat)) for some, _ in parts), strict=True))
        for stat in ("device_offset_ps", "device_duration_ps")
    )
    both = has_offset & has_length
    if not both.any():
        return begin, end
    rows, of, offset, length = rows[both], of[both], offset[both], clip_negative(length[both])
    start = events.start_ps[rows]
    first, last = _bound_parts(of, start, add_durations(start, events.duration_ps[rows]), len(begin))
    own, own_end = _bound_parts(of, offset, add_durations(offset, length), len(begin))
    known = np.zeros(len(begin), np.bool_)
    known[of] = True
    before = np.maximum.accumulate(np.where(known, np.arange(len(begin)), -1))
    at = np.flatnonzero(known)[:1]
    shift = np.where(before >= 0, own_end[before] - last[before], own[at] - first[at])
    begins = add_durations(begin, np.where(known, own - first, shift))
    ends = add_durations(end, np.where(known, own_end - last, shift))
    done = np.maximum.accumulate(np.append(_LEAST, np.where(known, own_end, _LEAST)[:-1]))
    ahead = np.minimum.accumulate(np.where(known, own, _MOST)[::-1])[::-1]
    begins = np.maximum.accumulate(np.minimum(np.maximum(begins, done), ahead))
    ends = np.minimum(ends, np.append(begins[1:], _MOST))
    return begins, np.maximum(ends, np.where(known, own_end, begins))


def _bound_parts(of: Int64s, begin: Int64s, end: Int64s, count: int) -> tuple[Int64s, Int64s]:
    """Return the first begin and the last end in each execution."""
    first, last = np.full(count, _MOST), np.full(count, _LEAST)
    np.minimum.at(first, of, begin)
    np.maximum.at(last, of, end)
    return first, last


EXECUTION_STATS: Final = ("hlo_module", "hlo_op", "run_id")
_MODULE_LINE: Final = "XLA Modules"
_HALF: Final = 32


@dataclass(frozen=True, slots=True)
class ProgramExecutions:
    """Program executions of one plane. ``rows``: events of executions, ``of``: the execution of each; ``module``: place
    in ``modules`` of the name of the program; ``run``: the recorded id of the run, only on hosts; ``device_begin_ps``,
    ``device_end_ps``: by the clock of a TPU, None elsewhere."""

    plane: Plane
    rows: Int64s
    of: Int64s
    begin_ps: Int64s
    end_ps: Int64s
    module: Int64s
    modules: list[str]
    run: Int64s | None = None
    device_begin_ps: Int64s | None = None
    device_end_ps: Int64s | None = None

    @property
    def on_device(self) -> tuple[Int64s, Int64s]:
        """Begin and end by the clock of the device."""
        if self.device_begin_ps is None or self.device_end_ps is None:
            return self.begin_ps, self.end_ps
        return self.device_begin_ps, self.device_end_ps

    def chosen(self, keep: Bools) -> ProgramExecutions:
        """Return some of the executions."""
        if keep.all():
            return self
        number = np.where(keep, np.cumsum(keep) - 1, -1)
        mine = keep[self.of]
        return ProgramExecutions(
            self.plane,
            self.rows[mine],
            number[self.of[mine]],
            self.begin_ps[keep],
            self.end_ps[keep],
            self.module[keep],
            self.modules,
            *(None if times is None else times[keep] for times in (self.run, self.device_begin_ps, self.device_end_ps)),
        )

    def of_modules(self, names: Sequence[str]) -> ProgramExecutions:
        """Return the executions of these programs."""
        return self.chosen(np.array([module in names for module in self.modules], np.bool_)[self.module])

    def counts(self) -> Counter[str]:
        """Return how often each module was executed."""
        return _count_by_module(self.module, self.modules)


@compute_once
def find_executions(events: HostEvents) -> list[ProgramExecutions]:
    """Return the executions of each device; of the host where it has none."""
    if tpus := events.planes_of("TPU"):
        return [_find_tpu_executions(events, plane) for plane in tpus]
    if gpus := events.planes_of("GPU"):
        return [_find_gpu_executions(events, plane) for plane in gpus]
    plane = events.plane_named(HOST_THREADS)
    return [] if plane is None else [_find_host_executions(events, plane)]


def find_step_modules(of_planes: list[ProgramExecutions]) -> list[str]:
    """Return the program whose executions take most time on all devices together, of equals the first by name; then the
    programs of the same function whose executions take a similar time, as the function was compiled for other
    shapes."""
    time: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for of_plane in of_planes:
        count += of_plane.counts()
        took = of_plane.end_ps - of_plane.begin_ps
        high, low = (np.zeros(len(of_plane.modules), np.int64) for _ in range(2))
        np.add.at(high, of_plane.module, took >> _HALF)  # the sum may take more than 64 bits
        np.add.at(low, of_plane.module, took & (1 << _HALF) - 1)
        for name, above, below in zip(of_plane.modules, high.tolist(), low.tolist(), strict=True):
            time[name] += (above << _HALF) + below
    main = min(time, key=lambda name: (-time[name], name), default=None)
    if main is None:
        return []
    if "lambda" in main:  # other functions have the same name
        return [main]

    def is_alike(name: str) -> bool:
        own, usual = time[name] * count[main], time[main] * count[name]
        return _strip_id(name) == _strip_id(main) and usual <= _ALIKE * own and own <= _ALIKE * usual

    return [main, *sorted(name for name in time if name != main and count[name] and is_alike(name))]


_ALIKE: Final = 4
"""Largest ratio of the mean times of executions that take each other's place."""


def _strip_id(name: str) -> str:
    """Return the name of a program without its id: ``jit_f`` of ``jit_f(7)``."""
    return name.partition("(")[0]


def count_execution_steps(events: HostEvents) -> int:
    """Return how many steps the executions make: for each module, as many as on the device that ran it most often."""
    most: Counter[str] = Counter()
    if tpus := events.planes_of("TPU"):
        for plane in tpus:
            most |= _count_by_module(*_find_names(events, _find_module_rows(events, plane)))
    else:
        for execution in find_executions(events):
            most |= execution.counts()
    return most.total()


def count_executions_outside(events: HostEvents, begin_ps: Int64s, duration_ps: Int64s) -> int:
    """Return how many executions on a host without devices run during no step."""
    begins, ends = merge_spans(begin_ps.ravel(), duration_ps.ravel())
    outside = 0
    for execution in find_executions(events):
        first = np.searchsorted(ends, execution.begin_ps, side="right")  # the first stretch that ends after its begin
        meets = first < len(begins)
        meets[meets] = begins[first[meets]] < execution.end_ps[meets]
        outside += int((~meets).sum())
    return outside


def _find_tpu_executions(events: HostEvents, plane: Plane) -> ProgramExecutions:
    """Find executions on a TPU. Ops belong to the module that runs when they begin, and make it last until they end."""
    modules = _find_module_rows(events, plane)
    begin = events.start_ps[modules]
    end = add_durations(begin, events.duration_ps[modules])
    others = [line for line in plane.lines if line.name != _MODULE_LINE]
    parts = [_find_rows_within(events, line, begin, end) for line in others]
    op_parts = [part for line, part in zip(others, parts, strict=True) if line.name in OP_LINES]
    (rows, of), (ops, of_op) = _join_parts(parts), _join_parts(op_parts)
    end = end.copy()
    np.maximum.at(end, of_op, add_durations(events.start_ps[ops], events.duration_ps[ops]))
    number = np.arange(len(modules))
    own, own_end = compute_execution_spans(events, begin, end, [(modules, number), (ops, of_op)])
    return ProgramExecutions(
        plane, np.concatenate([modules, rows]), np.concatenate([number, of]), begin, end, *_find_names(events, modules),
        None, own, own_end,
    )  # fmt: skip


def _find_rows_within(events: HostEvents, line: Line, begin: Int64s, end: Int64s) -> tuple[Int64s, Int64s]:
    """Return the rows of a line, which are in order of time, that begin in modules, and the module of each: the last
    that began. ``begin`` ascends."""
    start = events.start_ps[line.first : line.last]
    low = np.searchsorted(start, begin)
    high = np.minimum(np.append(low[1:], len(start)), np.maximum(np.searchsorted(start, end), low))
    count = high - low
    of = np.repeat(np.arange(len(begin)), count)
    return np.arange(len(of)) + np.repeat(low + line.first - (np.cumsum(count) - count), count), of


def _join_parts(parts: list[tuple[Int64s, Int64s]]) -> tuple[Int64s, Int64s]:
    rows, of = (np.concatenate(column) for column in zip((_create_no_rows(), _create_no_rows()), *parts, strict=True))
    return rows, of


def _find_module_rows(events: HostEvents, plane: Plane) -> Int64s:
    """Return the rows of a TPU's executions, in order of time."""
    rows = [np.arange(line.first, line.last) for line in plane.lines if line.name == _MODULE_LINE]
    modules = np.concatenate(rows or [_create_no_rows()])
    return modules[np.argsort(events.start_ps[modules], kind="stable")]


def _find_names(events: HostEvents, rows: Int64s) -> tuple[Int64s, list[str]]:
    """Return the place of the name of each row, and the names."""
    metas, place = number_values(events.meta[rows])
    return _deduplicate_names(place, [events.names[meta] for meta in metas.tolist()])


def _deduplicate_names(place: Int64s, names: Sequence[str]) -> tuple[Int64s, list[str]]:
    """Return names without repetition, and ``place`` in them."""
    number = {name: at for at, name in enumerate(dict.fromkeys(names))}
    return np.array([number[name] for name in names], np.int64)[place], list(number)


def _count_by_module(module: Int64s, modules: Sequence[str]) -> Counter[str]:
    counts = np.bincount(module, minlength=len(modules)).tolist()
    return Counter({name: often for name, often in zip(modules, counts, strict=True) if often})


def _find_gpu_executions(events: HostEvents, plane: Plane) -> ProgramExecutions:
    """Find executions on a GPU from its kernels in order of time: an execution ends where another module's kernel
    comes, or the kernel that it began with comes again. (A module that begins inside of a loop seems to be executed at
    each turn of it.)"""
    stat = events.stat("hlo_module").of_kinds((records.STR, records.REF))
    here = np.zeros(len(stat.rows), np.bool_)
    for line in plane.lines:
        if not line.is_derived:
            here |= (stat.rows >= line.first) & (stat.rows < line.last)
    rows, module = stat.rows[here].astype(np.int64), stat.value[here]
    order = np.argsort(events.start_ps[rows], kind="stable")
    rows, module = rows[order], module[order]
    if not len(rows):
        return _bound_executions(events, plane, rows, rows, module)
    named = events.stat("hlo_op").of_kinds((records.STR, records.REF))
    op = np.full(len(events), -1, np.int64)
    op[named.rows] = named.value
    kernel = np.stack([op[rows], events.meta[rows].astype(np.int64)], axis=1)
    del op
    changes = np.append(True, module[1:] != module[:-1])
    first = np.flatnonzero(changes)[np.cumsum(changes) - 1]
    begins = changes | (kernel == kernel[first]).all(axis=1)
    return _bound_executions(events, plane, rows, np.cumsum(begins).astype(np.int64) - 1, module)


def _find_host_executions(events: HostEvents, plane: Plane) -> ProgramExecutions:
    """Find executions on a host. Ops that record their module and their run belong to that run."""
    stat = events.stat("hlo_module").of_kinds((records.STR, records.REF))
    runs, run = events.ints("run_id")
    rows, at, beside = np.intersect1d(stat.rows, runs, assume_unique=True, return_indices=True)
    here = (rows >= plane.first) & (rows < plane.last)
    of_module, of_run = stat.value[at[here]], run[beside[here]]
    first, of = number_sorted_rows([of_module, of_run])
    return _bound_executions(events, plane, rows[here].astype(np.int64), of, of_module, of_run[first])


def _bound_executions(
    events: HostEvents, plane: Plane, rows: Int64s, of: Int64s, module: Int64s, run: Int64s | None = None
) -> ProgramExecutions:
    """Bound executions, which last from the first of their events to the end of the last."""
    n = int(of.max(initial=-1)) + 1
    begin, end = np.full(n, np.iinfo(np.int64).max), np.full(n, np.iinfo(np.int64).min)
    np.minimum.at(begin, of, events.start_ps[rows])
    np.maximum.at(end, of, add_durations(events.start_ps[rows], events.duration_ps[rows]))
    number = np.zeros(n, np.int64)
    number[of] = module
    distinct, place = number_values(number)
    return ProgramExecutions(plane, rows, of, begin, end, *_deduplicate_names(place, events.all_texts(distinct)), run)


def _create_no_rows() -> Int64s:
    return np.zeros(0, np.int64)
