"""Ops of a host's threads: what the names of their events say ran, how often and how long.

An op is an event of plane /host:CPU whose name parses as one (derive/devices/op_names.py), a stage of an input
pipeline, or the op that a stat tf_op names; if there is no device, also the instruction of a compiled program that a
stat hlo_op names. In traces of PyTorch the category of an event says whether it is an op, and its name is the op's.
Time nests within a thread; a thread's total is at least the span of its ops, and what no op covers is idle. Threads
that ran what XLA compiled for the CPU are the lines of one device. XProf does not show these.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof._native.op_kernels import host_ops_sum
from fastprof.decode.workers import Workers
from fastprof.derive.devices.op_names import Framework, is_kineto, is_op, parse_op_name
from fastprof.derive.ops.gpu_ops import GpuOp, find_program_ops, make_description_columns, number_instruction_keys
from fastprof.derive.ops.line_times import LineTimes, measure_line_times, select_instruction_rows
from fastprof.derive.ops.op_table import Ops, OpTable
from fastprof.derive.ops.roofline_model import fill_missing_work
from fastprof.errors import CaptureError
from fastprof.hlo.programs import Modules
from fastprof.hlo.work import GENERAL, NOTHING
from fastprof.schema.columns import (
    Int32s,
    Int64s,
    Records,
    find_least_by,
    find_rows_within,
    join_values,
    number_values,
    sum_by,
    sum_exactly,
    summarize_by,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HOST_THREADS, HostEvents, Plane

EVENT_STATS: Final = ("tf_op", "hlo_op", "_ipl_stage_id", "_ipl_stage_cat")

XLA_OP: Final = "XLA op on host"
"""Type of instructions of compiled programs."""

TORCH_OP: Final = "PyTorch op"
"""Type of PyTorch ops."""

INFEED_ENQUEUE: Final = "InfeedEnqueue"
"""Prefix of the types of ops that feed a device."""

OP_LINE = np.dtype(
    [(name, "i8") for name in ("first", "last", "span", "self_time", "enqueue", "enqueue_start", "lost")]
)
OP_SUM = np.dtype([(name, "i8") for name in ("occurrences", "time", "self_time", "shortest", "eager", "met")])
ROW_OP = np.dtype([("row", "i8"), ("op", "i8")])
"""Mirror the structs of csrc/kernels/host_ops.h."""

_Key = tuple[int, str, str]
"""Stage id or 0, name, type."""


class _OpRegistry:
    """Numbers of the ops met so far, by (id, name, type)."""

    def __init__(self) -> None:
        self.numbers: dict[_Key, int] = {}

    def number(self, stage: int, name: str, kind: str) -> int:
        return self.numbers.setdefault((stage, name, kind), len(self.numbers))

    def number_of(self, full_name: str, *, known: bool) -> int:
        """Return the number of the op that a name means, or -1. ``known``: accept only ops of known frameworks."""
        op = parse_op_name(full_name)
        if known and op.framework is Framework.UNKNOWN:
            return -1
        return self.number(0, op.name, op.type)


@dataclass(frozen=True, slots=True)
class HostOps:
    """The ops of a host's threads. ``crossing``: occurrences that cross another one of their thread, or end together
    with it."""

    ops: Ops
    crossing: int


class ThreadOps:
    """What ran on the threads of a host. ``is_eager``: by row of events."""

    def __init__(self, events: HostEvents, is_eager: npt.NDArray[Any], workers: Workers) -> None:
        self._workers = workers
        self.keys: list[_Key] = []
        """Stage or 0, name and type of each op, by number."""
        plane = events.plane_named(HOST_THREADS)
        self.lines = [] if plane is None else [line for line in plane.lines if not line.is_derived]
        if plane is None or not self.lines:
            return
        ops = _OpRegistry()
        op_of_meta = _match_names(events, plane, ops)
        stages = _find_stages(events, plane, ops)
        tf_ops = _select_plane_rows(plane, *events.texts("tf_op"))
        self._named = _match_texts(events, *tf_ops, partial(ops.number_of, known=False))
        self._beside = _add_instructions(events, plane, ops, op_of_meta, self._named)
        self.keys = list(ops.numbers)
        eager = np.ascontiguousarray(is_eager, np.uint8)
        self._given = (events.start_ps, events.duration_ps, events.meta, op_of_meta, eager, stages)
        self._enqueues = np.array([kind.startswith(INFEED_ENQUEUE) for _, _, kind in self.keys], np.uint8)

    @property
    def has_instructions(self) -> bool:
        """Return whether instructions of compiled programs are among the ops."""
        return self._beside is not self._named

    def occurrences(self) -> tuple[Int64s, Int64s, Int64s]:
        """Return the events that ops are read from, line after line: rows, numbers of ops, and how many each line has.
        An event of two ops comes twice, the enclosing op first."""
        if not self.lines:
            none = np.zeros(0, np.int64)
            return none, none, none
        _, _, meta, op_of_meta, _, instead = self._given
        own = op_of_meta[meta]
        own[instead["row"]] = instead["op"]
        of_lines = np.concatenate([np.arange(line.first, line.last) for line in self.lines])
        named, beside = of_lines[own[of_lines] >= 0], self._beside[self._beside["op"] >= 0]
        rows, ops = np.r_[named, beside["row"]], np.r_[own[named], beside["op"]]
        order = np.argsort(rows, kind="stable")
        rows, ops = rows[order], ops[order]
        bounds = np.array([(line.first, line.last) for line in self.lines], np.int64)
        inside = np.zeros(len(meta), bool)
        inside[of_lines] = True
        rows, ops = rows[inside[rows]], ops[inside[rows]]
        order = np.argsort(bounds[:, 0])
        counts = np.diff(np.searchsorted(rows, bounds[order].reshape(-1)))[::2]
        return rows, ops.astype(np.int64), counts.astype(np.int64)

    def nested(self) -> Ops:
        """Return all ops: each lies within the innermost one that includes it. CaptureError: sums overflow."""
        return self._counted(self._beside, stacked=False)[0]

    def stacked(self) -> tuple[Ops, int]:
        """Ops but for instructions, and without those that cross another one of their thread, or end together with it;
        and how many occurrences these are. CaptureError: times do not add up in 64 bits."""
        return self._counted(self._named, stacked=True)

    def _counted(self, beside: Records, *, stacked: bool) -> tuple[Ops, int]:
        of_lines = np.zeros(len(self.lines), OP_LINE)
        of_lines["first"] = [line.first for line in self.lines]
        of_lines["last"] = [line.last for line in self.lines]
        shares = _divide_lines(of_lines, self._workers.threads)
        sums = [np.zeros(len(self.keys), OP_SUM) for _ in shares]
        kernel = partial(host_ops_sum, *self._given, beside, self._enqueues, stacked)
        tasks = [partial(kernel, of_lines[a:b], out) for (a, b), out in zip(shares, sums, strict=True)]
        try:
            self._workers.run(None, tasks)
        except OverflowError as error:
            raise CaptureError("the durations of ops do not add up in 64 bits") from error
        return _build_host_ops(self.keys, sums, of_lines), int(of_lines["lost"].sum())


def sum_host_ops(events: HostEvents, is_eager: npt.NDArray[Any], workers: Workers) -> HostOps:
    """``is_eager``: by row. CaptureError: times do not add up in 64 bits."""
    threads = ThreadOps(events, is_eager, workers)
    if not threads.lines:
        return HostOps(Ops.none(), 0)
    ops, crossing = threads.stacked()
    if crossing or threads.has_instructions:
        ops = threads.nested()
    return HostOps(ops, crossing)


def _match_names(events: HostEvents, plane: Plane, ops: _OpRegistry) -> npt.NDArray[np.int32]:
    """Return, per row of metadata, the op that its name stands for, or -1."""
    op_of_meta = np.full(len(events.names), -1, np.int32)
    rows = np.flatnonzero(events.meta_plane == plane.number)
    if is_kineto(events):
        for row in rows[is_op(events)[rows]].tolist():
            op_of_meta[row] = ops.number(0, events.names[row], TORCH_OP)
        return op_of_meta
    for row in rows.tolist():
        op_of_meta[row] = ops.number_of(events.names[row], known=True)
    return op_of_meta


def _select_plane_rows(plane: Plane, rows: Int32s, values: Int64s) -> tuple[Int32s, Int64s]:
    """Return the events of a plane that have a stat, and its values."""
    mine = find_rows_within(rows, plane.first, plane.last)
    return rows[mine], values[mine]


def _make_pairs(rows: Int32s, ops: npt.NDArray[Any] | list[int]) -> Records:
    """Events and their ops."""
    pairs = np.zeros(len(rows), ROW_OP)
    pairs["row"], pairs["op"] = rows, ops
    return pairs


def _match_texts(events: HostEvents, rows: Int32s, numbers: Int64s, op_of: Callable[[str], int]) -> Records:
    """Events with the ops that their texts stand for, -1: the text is empty."""
    distinct, inverse = number_values(numbers)
    ops = np.array([op_of(text) if text else -1 for text in events.all_texts(distinct)], np.int64)
    return _make_pairs(rows, ops[inverse] if len(ops) else -np.ones(len(rows), np.int64))


def _find_stages(events: HostEvents, plane: Plane, ops: _OpRegistry) -> Records:
    """Return the events that are stages of input pipelines, with their op: one for each id whose category is known."""
    rows, ids = _select_plane_rows(plane, *events.ints("_ipl_stage_id"))
    category = join_values(*events.texts("_ipl_stage_cat"), rows)
    known = (category >= 0) & np.array([bool(events.names[meta]) for meta in events.meta[rows].tolist()], bool)
    op_of_id: dict[int, int] = {}
    for i in np.flatnonzero(known).tolist():
        if (stage := int(ids[i])) not in op_of_id:
            kind = events.text(int(category[i]))
            op_of_id[stage] = ops.number(stage, events.names[events.meta[rows[i]]], kind)
    return _make_pairs(rows, [op_of_id.get(stage, -1) for stage in ids.tolist()])


def _add_instructions(
    events: HostEvents, plane: Plane, ops: _OpRegistry, op_of_meta: npt.NDArray[np.int32], named: Records
) -> Records:
    """Return the ``named`` events and, on a host without devices, the instructions that are no other op."""
    if events.planes_of("TPU") or events.planes_of("GPU"):
        return named
    rows, numbers = _select_plane_rows(plane, *events.texts("hlo_op"))
    only = ~np.isin(rows, named["row"]) & (op_of_meta[events.meta[rows]] < 0)
    if not only.any():
        return named
    instructions = _match_texts(events, rows[only], numbers[only], lambda text: ops.number(0, text, XLA_OP))
    together = np.concatenate([named, instructions])
    return together[np.argsort(together["row"], kind="stable")]


def _divide_lines(lines: Records, threads: int) -> list[tuple[int, int]]:
    """Lines divided in ``threads`` groups of about as many events each."""
    done = np.cumsum(lines["last"] - lines["first"])
    edges = np.searchsorted(done, np.arange(1, threads) * (int(done[-1]) / threads)) + 1
    edges = np.unique(np.concatenate([[0], np.minimum(edges, len(lines)), [len(lines)]]))
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))


def _build_host_ops(keys: list[_Key], sums: list[Records], lines: Records) -> Ops:
    """Return a row for each (id, name), in the order in which they were met; the type is that of the first that has
    one."""
    number = np.concatenate([np.flatnonzero(part["met"]) for part in sums])
    met = np.concatenate([part[part["met"] > 0] for part in sums])
    order = np.argsort(met["met"], kind="stable")
    number, met = number[order], met[order]
    rows: dict[tuple[int, str], int] = {}
    kinds: list[str] = []
    row = np.zeros(len(met), np.int64)
    for i, (stage, name, kind) in enumerate(keys[op] for op in number.tolist()):
        row[i] = rows.setdefault((stage, name), len(rows))
        if row[i] == len(kinds):
            kinds.append(kind)
        kinds[row[i]] = kinds[row[i]] or kind
    count = len(rows)
    table = OpTable.of(
        [name for _, name in rows],
        program_id=[stage for stage, _ in rows],
        category=kinds,
        occurrences=sum_by(row, met["occurrences"], count),
        time_ps=sum_by(row, met["time"], count),
        self_ps=sum_by(row, met["self_time"], count),
        min_ps=find_least_by(row, met["shortest"], count),
        is_eager=np.bincount(row, met["eager"], count) > 0,
    )
    return Ops(
        table,
        total_ps=sum_exactly(np.maximum(lines["self_time"], lines["span"])),
        op_ps=sum_exactly(lines["self_time"]),
        infeed_enqueue_ps=sum_exactly(lines["enqueue"]),
        infeed_enqueue_start_diff_ps=sum_exactly(lines["enqueue_start"]),
        parts=len(lines),
    )


def sum_cpu_ops(events: HostEvents, modules: Modules, plane: Plane) -> tuple[Ops, LineTimes, Int32s]:
    """Return the ops that a host's threads ran, their events, and beside these the row of each one's op."""
    times = measure_line_times(events, plane.lines, select_instruction_rows(events, plane))
    keys, op = number_instruction_keys(events, times.rows)
    instructions = find_program_ops(keys, modules, GENERAL)
    ops = [instruction or GpuOp(*key, "", "", NOTHING) for key, instruction in zip(keys, instructions, strict=True)]
    time = summarize_by(op, times.duration_ps, len(keys))
    table = OpTable.of(
        [name for _, name in keys],
        occurrences=time["count"].copy(),
        time_ps=time["total"].copy(),
        min_ps=time["minimum"].copy(),
        self_ps=sum_by(op, times.self_ps, len(keys)),
        cores=np.ones(len(keys), np.int32),
        **make_description_columns(ops),
    )
    return times.ops(fill_missing_work(table, modules), times.span_ps), times, op
