"""GPU ops with their time and work: which op each GPU event belongs to, and why an op is unknown.

An event's op is the first of these that is known:

    ""                        what its own stats name
    "annotation"              what its own annotation names
    "graph node"              what other events of the same node of a CUDA graph name
    "launch"                  what the call that launched it names (correlation_id), or the op that has its id
    "enclosing event"         what the nearest event around that call names
    "kernel name in module"   the instruction that the kernel is named after, if no other may run as the same kernel:
                              an instruction of the program that the launch, or what encloses it, names; else of the
                              program that ran before and after it on its line; else of the only program that has such
                              an instruction. For what a graph launches this counts before the launch, which is that
                              of the entire graph

Other events are counted by kernel or copy, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof.decode.plane_kinds import GPU_PLANES
from fastprof.derive.ops.gpu_kernels import MEMSET, NO_OPS, KernelNames, classify_copy
from fastprof.derive.ops.gpu_ops import (
    GpuOp,
    GpuOpEvents,
    OpList,
    OpReference,
    OpReferences,
    find_instructions,
    find_named_op_events,
    list_op_lines,
    make_description_columns,
    make_framework_op,
    make_torch_op,
    mark_op_line_events,
)
from fastprof.derive.ops.launches import Launches, find_enclosing_reference, find_launchers, find_launches
from fastprof.derive.ops.line_times import LineTimes, measure_line_times
from fastprof.derive.ops.op_table import FROM_CAPTURE, FROM_HLO, HBM, Ops, OpTable, is_work
from fastprof.derive.ops.roofline_model import list_cost_accesses
from fastprof.derive.ops.torch_calls import fill_work_of_calls
from fastprof.hlo.programs import Modules
from fastprof.hlo.work import NOTHING, Cost
from fastprof.schema.columns import (
    Bools,
    Float64s,
    Int32s,
    Int64s,
    Numbers,
    UInt8s,
    find_least_by,
    find_most_by,
    find_present,
    find_rows_within,
    find_runs,
    join_values,
    number_distinct,
    number_distinct_rows,
    number_keys,
    number_owners,
    sum_by,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, Plane, Stat, compute_once

WAYS: Final = ("", "annotation", "graph node", "launch", "enclosing event", "kernel name in module")
"""Ways in which an op is known, by code."""
_ITSELF, _ANNOTATION, _GRAPH_NODE, _LAUNCH, _ENCLOSING, _KERNEL_NAME = range(len(WAYS))
UNATTRIBUTED: Final = len(WAYS)
"""Code of events whose op is unknown."""

KERNEL: Final = "kernel"
"""Category of kernels whose op is unknown."""
_CONTAINERS = frozenset({"call", "while", "conditional", "async-start", "async-done", "command_buffer"})
"""Opcodes of instructions that run others."""


def attribute_events(events: HostEvents, modules: Modules) -> GpuOpEvents:
    """Return the op of each GPU event; every event on a line that a GPU recorded has one."""
    named = find_named_op_events(events, modules)
    ops = OpList(list(named.ops), {(op.is_hlo, op.program_id, op.name): i for i, op in enumerate(named.ops)})
    work = _Attribution(events, ops, KernelNames(modules), named.op.copy(), np.zeros(len(events), np.uint8))
    vague = np.array([gpu_op.provenance in NO_OPS for gpu_op in named.ops] + [False])  # XLA writes so on all kernels
    rows = np.flatnonzero(mark_op_line_events(events) & ((named.op < 0) | vague[named.op]))
    if len(rows):
        work.op[rows] = -1
        work.run(rows.astype(np.int64))
    all_ops = []
    for gpu_op in ops.ops:  # a copy is one, whatever the type of the framework op that it serves
        is_named = gpu_op.provenance and not gpu_op.is_hlo
        category = classify_copy(gpu_op.name.rpartition("/")[2]) if is_named else ""
        all_ops.append(replace(gpu_op, category=category) if category else gpu_op)
    return GpuOpEvents(all_ops, work.op, np.array([gpu_op.is_hlo for gpu_op in all_ops], bool), work.way)


@dataclass(slots=True)
class _Attribution:
    """``op`` and ``way`` are filled, by row of events. References are places in ``references.each``, or -1."""

    events: HostEvents
    ops: OpList
    names: KernelNames
    op: Int32s
    way: UInt8s
    references: OpReferences = field(init=False)

    def __post_init__(self) -> None:
        self.references = OpReferences(self.events)

    def run(self, rows: Int64s) -> None:
        """Find the ops of these rows."""
        self._by_references(rows, self.references.of_rows(rows), _ITSELF)
        self._by_graph_nodes(rows)
        rows = rows[self.op[rows] < 0]
        calls = replace(find_launches(self.events, rows), row=find_launchers(self.events, rows))
        launch = self._of_calls(calls.row, calls.row >= 0)
        inner = np.array([self._is_container(named) for named in self.references.each] + [False])
        chosen = (launch >= 0) & (calls.shared | inner[launch])
        self._named_after(rows[chosen], launch[chosen], np.zeros((int(chosen.sum()), 0), np.int64))
        self._by_references(rows, launch, _LAUNCH)
        around, left = np.full(len(rows), -1, np.int32), np.flatnonzero((self.op[rows] < 0) & (calls.row >= 0))
        above = find_enclosing_reference(self.events, calls.row[left], self.references)
        around[left] = self._of_calls(above, above >= 0)
        self._by_references(rows, around, _ENCLOSING)
        nearest = np.where(launch >= 0, launch, around)
        unknown = self.op[rows] < 0
        if unknown.any() and len(self.names.modules):
            self._named_after(rows[unknown], nearest[unknown], self._neighbours(rows[unknown]))
        self._leave(rows, calls, nearest)

    def _of_calls(self, call: Int32s, chosen: Bools) -> Int32s:
        """Return what the chosen host events refer to; -1 for the others."""
        references = np.full(len(call), -1, np.int32)
        references[chosen] = self.references.of_rows(call[chosen].astype(np.int64), by_name=True)
        return references

    def _write(self, rows: Int64s, op: Int32s, way: UInt8s | int) -> None:
        known = op >= 0
        self.op[rows[known]] = op[known]
        self.way[rows[known]] = way if isinstance(way, int) else way[known]

    # ---- by what events refer to

    def _by_references(self, rows: Int64s, reference: Int32s, way: int) -> None:
        """Attribute rows by the ``reference`` of each."""
        wanted = (reference >= 0) & (self.op[rows] < 0)
        rows, reference = rows[wanted], reference[wanted]
        if not len(rows):
            return
        first, number = number_distinct_rows([reference, self.events.meta[rows]])
        each = [self.references.each[place] for place in reference[first].tolist()]
        kernels = [self.events.names[meta] for meta in self.events.meta[rows[first]].tolist()]
        ops = [self._op(named, kernel) for named, kernel in zip(each, kernels, strict=True)]
        ways = [_ANNOTATION if target.from_annotation and way == _ITSELF else way for target in each]
        self._write(rows, np.array(ops, np.int32)[number], np.array(ways, np.uint8)[number])

    def _op(self, reference: OpReference, kernel: str) -> int:
        """Return the place of the op that a reference names, or -1."""
        if reference.hlo_op:
            return self._instruction(reference.hlo_op, self._program(reference))
        if reference.torch_op:
            return self.ops.add(make_torch_op(reference.torch_op, kernel))
        return self.ops.add(make_framework_op(reference.tf_op, kernel)) if reference.tf_op else -1

    def _instruction(self, name: str, program_id: int) -> int:
        known = find_instructions(self.names.modules, program_id, [name])[0]
        return self.ops.add(known or GpuOp(program_id, name, "", "", NOTHING, is_hlo=True))

    def _program(self, reference: OpReference) -> int:
        """Return the program that a reference names by id, else by module name if only one such program has the
        instruction; 0 if it is unknown."""
        if reference.program_id is not None:
            return reference.program_id
        modules, op = self.names.modules, reference.hlo_op
        programs = [
            program_id
            for program_id in modules.program_ids
            if (modules.title(program_id) or "").rpartition("(")[0] == reference.module
            and (not op or modules.find(program_id, [op])[0] is not None)
        ]
        return programs[0] if len(programs) == 1 else 0

    # ---- by nodes of graphs

    def _by_graph_nodes(self, rows: Int64s) -> None:
        """Attribute events of a graph node to the op that its other events name, if they agree."""
        at, nodes = self.events.ints("cuda_graph_node_id")
        rows = rows[self.op[rows] < 0]
        if not len(at) or not len(rows):
            return
        of_event = self.op[at].copy()
        unknown = np.flatnonzero(of_event < 0)
        reference = self.references.of_rows(at[unknown].astype(np.int64))
        ops = [self._op(named, "") if named.hlo_op else -1 for named in self.references.each] + [-1]
        of_event[unknown] = np.array(ops, np.int32)[reference]
        number, count = number_keys([nodes])
        known = of_event >= 0
        least = find_least_by(number[known], of_event[known].astype(np.int64), count, -1)
        most = find_most_by(number[known], of_event[known].astype(np.int64), count, -1)
        has, place = find_present(at, rows)
        self._write(rows[has], np.where(least == most, most, -1).astype(np.int32)[number[place]], _GRAPH_NODE)

    # ---- by names of kernels

    def _is_container(self, reference: OpReference) -> bool:
        """Return whether a reference is to an instruction that runs others; one that the capture lacks goes by its
        name."""
        if not reference.hlo_op:
            return reference.names_program
        module = self.names.modules.module(self._program(reference))
        row = -1 if module is None else int(module.find([reference.hlo_op])[0])
        opcode = reference.hlo_op.split(".")[0] if module is None or row < 0 else module.instruction(row).opcode
        return opcode in _CONTAINERS

    def _named_after(self, rows: Int64s, reference: Int32s, near: Int64s) -> None:
        """Attribute kernels by their names. ``near``: places of ops of programs that ran before and after each row, or
        -1."""
        if not len(rows):
            return
        meta = self.events.meta[rows]
        first, number = number_distinct_rows([reference, meta, *near.T])
        ops = []
        for at in first.tolist():
            kernel = self.events.names[meta[at]]
            launched = self.references.each[reference[at]] if reference[at] >= 0 else None
            if launched is not None and launched.names_program:
                programs = [self._program(launched)]
            else:
                programs = self.names.programs(kernel)
                nearby = [self.ops.ops[place].program_id for place in near[at].tolist() if place >= 0]
                programs = [program for program in dict.fromkeys(nearby) if program in programs] or programs
            name = self.names.instruction(programs[0], kernel) if len(programs) == 1 else ""
            ops.append(self._instruction(name, programs[0]) if name else -1)
        self._write(rows, np.array(ops, np.int32)[number], _KERNEL_NAME)

    def _neighbours(self, rows: Int64s) -> Int64s:
        """Return for each row the ops of the last event before and the first after it on its line that are program
        instructions, or -1. [n, 2]"""
        is_hlo = np.array([op.is_hlo for op in self.ops.ops] + [False])
        near = np.full((len(rows), 2), -1, np.int64)
        for plane in self.events.planes_of("GPU"):
            for line in list_op_lines(plane):
                mine = find_rows_within(rows, line.first, line.last)
                if mine.stop == mine.start:
                    continue
                of_program = line.first + np.flatnonzero(is_hlo[self.op[line.first : line.last]])
                place = np.searchsorted(of_program, rows[mine])
                ops = np.concatenate([[-1], self.op[of_program], [-1]])
                near[mine, 0], near[mine, 1] = ops[place], ops[place + 1]
        return near

    # ---- the others

    def _leave(self, rows: Int64s, calls: Launches, reference: Int32s) -> None:
        """Add an op for each name and program of the remaining rows, with the reason. ``reference``: that of each row's
        launch, or of what encloses it."""
        left = self.op[rows] < 0
        rows = rows[left]
        if not len(rows):
            return
        own = self.references.of_rows(rows)
        programs = np.array(
            [self._program(named) if named.names_program else 0 for named in self.references.each] + [0]
        )
        program = programs.astype(np.int64)[np.where(own >= 0, own, reference[left])]
        call, correlated, meta = calls.row[left], calls.correlated[left], self.events.meta[rows]
        call_meta = np.where(call >= 0, self.events.meta[call], -1)
        first, number = number_distinct_rows([meta, program, call_meta, correlated.astype(np.int8)])
        ops = []
        for at in first.tolist():
            launch = "" if call[at] < 0 else self.events.names[call_meta[at]]
            name = self.events.names[meta[at]]
            reason, category = self._reason(name, launch, bool(correlated[at])), classify_copy(name)
            if category in ("", "copy") and (of_launch := classify_copy(launch)) and (category or of_launch == MEMSET):
                name, category = f"{name} {of_launch.partition(' ')[2]}".rstrip(), of_launch
            op = GpuOp(int(program[at]), name, category or KERNEL, "", NOTHING, reason=reason)
            ops.append(self.ops.add(op))
        self.op[rows] = np.array(ops, np.int32)[number]
        self.way[rows] = UNATTRIBUTED

    def _reason(self, kernel: str, launch: str, is_correlated: bool) -> str:
        if not is_correlated:
            why = "neither an op name nor a correlation id of its launch"
        elif not launch:
            why = "no op name and no launch record"
        else:
            why = f"launch {launch} names no op, nor do the event itself and those around the launch"
        several = self.names.programs(kernel) if len(self.names.modules) else []
        if len(several) > 1:
            return f"{why}; {len(several)} programs have an instruction of its name"
        is_shared = len(several) == 1 and not self.names.instruction(several[0], kernel)
        return f"{why}; several instructions may run as a kernel of its name" if is_shared else why


PLANES: Final = (GPU_PLANES,)


@compute_once
def find_op_events(events: HostEvents, modules: Modules) -> GpuOpEvents:
    """Return the op of each GPU event, see the module."""
    return attribute_events(events, modules)


def sum_gpu_ops(events: HostEvents, is_eager: UInt8s, modules: Modules) -> list[Ops]:
    """Return the ops of each GPU, in the order of planes; every event counts somewhere. ``is_eager``: by row."""
    return [sum_gpu_plane_ops(events, is_eager, modules, plane)[0] for plane in events.planes_of("GPU")]


def sum_gpu_plane_ops(
    events: HostEvents, is_eager: UInt8s, modules: Modules, plane: Plane
) -> tuple[Ops, LineTimes, Int32s]:
    """Return the ops of a GPU, its events, and the row of each event's op."""
    op_events = find_op_events(events, modules)
    times = measure_line_times(events, list_op_lines(plane))
    kernels = select_op_kernels(events, is_eager, times.rows, op_events)
    line = np.searchsorted([op_line.last for op_line in list_op_lines(plane)], times.rows, side="right")
    table, op = build_gpu_op_table(
        events, kernels, op_events, op_events.device_cost, times.duration_ps, times.self_ps, line
    )
    table = fill_work_of_calls(table, events, op_events, kernels.rows, op)
    return times.ops(table, times.span_ps), times, op


def list_gpu_plane_events(events: HostEvents, modules: Modules, plane: Plane) -> tuple[LineTimes, Int32s]:
    """Return a GPU's events, and the row of each event's op in its ops, without summing these."""
    times = measure_line_times(events, list_op_lines(plane))
    return times, number_distinct(find_op_events(events, modules).op[times.rows])[1]


@dataclass(frozen=True, slots=True)
class AttributedKernels:
    """Events of a plane that belong to an op, line by line: rows, numbers of ops, whether they are eager, and the work
    that they record, or 0."""

    rows: Int64s
    op: Int32s
    eager: Bools
    flops: Float64s
    bytes: Float64s


def select_op_kernels(events: HostEvents, is_eager: UInt8s, rows: Numbers, op_events: GpuOpEvents) -> AttributedKernels:
    """Select these rows, which all have an op. ``is_eager``: by row of all events."""
    op = op_events.op[rows]
    flops, moved = (
        np.where(op_events.is_hlo[op], _read_recorded(events, stat, rows), 0.0) for stat in ("flops", "bytes_accessed")
    )
    return AttributedKernels(rows.astype(np.int64), op, is_eager[rows] != 0, flops, moved)


def _read_recorded(events: HostEvents, stat: str, rows: Numbers) -> Float64s:
    """Return an integer stat of these events, or 0 if they have none or a negative one."""
    figures: Float64s = np.maximum(join_values(*events.ints(stat), rows, 0), 0).astype(np.float64)
    return figures


def build_gpu_op_table(
    events: HostEvents,
    kernels: AttributedKernels,
    op_events: GpuOpEvents,
    cost_of: Callable[[int], Cost],
    durations: Int64s,
    self_times: Int64s,
    line: Numbers | None = None,
) -> tuple[OpTable, Int32s]:
    """Return the ops of these kernels, and the row of each kernel's op. ``cost_of``: cost of one execution by number of
    the op; ``durations``, ``self_times``: of the kernels; ``line``: their lines, to count executions; by default each
    kernel is one."""
    met, op = number_distinct(kernels.op)
    ops = [op_events.ops[number] for number in met.tolist()]
    count = len(ops)
    occurrences = np.bincount(op, minlength=count).astype(np.int64)
    costs = [cost_of(number) for number in met.tolist()]
    times = occurrences if line is None else _count_executions(line, op, events.meta[kernels.rows], count)
    own_flops, own_bytes = (np.bincount(op, work, count) for work in (kernels.flops, kernels.bytes))
    model_flops = _choose_work([cost.model_flops for cost in costs], times, own_flops)
    flops = _choose_work([cost.flops for cost in costs], times, own_flops)
    moved = _choose_work([cost.bytes_accessed for cost in costs], times, own_bytes)
    is_known = np.array([cost.is_known for cost in costs], bool)
    ways = [*WAYS, ""]  # the last: unknown
    of_way = np.bincount(op.astype(np.int64) * len(ways) + op_events.way[kernels.rows], minlength=count * len(ways))
    usual_way = of_way.reshape(count, len(ways)).argmax(axis=1)
    table = OpTable.of(
        [named.name for named in ops],
        occurrences=occurrences,
        executions=times,
        time_ps=sum_by(op, durations, count),
        self_ps=sum_by(op, self_times, count),
        flops=flops,
        model_flops=np.where(model_flops > 0, model_flops, flops),
        bytes_accessed=moved,
        energy_j=_sum_energy(events, kernels.rows, op, count),
        cores=np.ones(count, np.int32),
        is_eager=np.bincount(op, kernels.eager, count) > 0,
        memory=list_cost_accesses(enumerate(costs), times, {0: HBM}),
        attribution=[ways[most] for most in usual_way.tolist()],
        unattributed=[gpu_op.reason for gpu_op in ops],
        flops_source=_encode_source(is_known, own_flops),
        bytes_source=_encode_source(is_known, own_bytes),
        **make_description_columns(ops),
    )
    return table, op.astype(np.int32)


def _count_executions(line: Numbers, op: Numbers, name: Numbers, count: int) -> Int64s:
    """Return how often each of ``count`` ops ran; one execution may launch several kernels. ``line``, ``op``, ``name``:
    numbers of the kernels, line after line, in order of time.

    Kernels of one op that follow each other on a line are a run: at least one execution, and as many as the least
    frequent kernel name occurs in it, since an execution may launch a kernel several times. Where an op launches
    kernels of one name only, each counts as an execution.
    """
    if not len(op):
        return np.zeros(count, np.int64)
    starts = find_runs(op, line)
    lengths = np.diff(np.append(starts, len(op)))
    times = np.ones(len(starts), np.int64)
    longer = np.flatnonzero(lengths > 1)
    if len(longer):
        chosen = np.repeat(lengths > 1, lengths)
        run = number_owners(lengths[longer])
        first, pair = number_distinct_rows([run, name[chosen]])
        times[longer] = find_least_by(run[first], np.bincount(pair, minlength=len(first)), len(longer))
    return np.bincount(op[starts], times, count).astype(np.int64)


def _encode_source(is_known: Bools, recorded: npt.NDArray[Any]) -> UInt8s:
    """Return the source of each op's figure: the cost model, else its events."""
    return np.where(is_known, FROM_HLO, np.where(recorded > 0, FROM_CAPTURE, 0)).astype(np.uint8)


def _choose_work(of_one: list[int], times: Int64s, recorded: npt.NDArray[Any]) -> Float64s:
    """Return ops' work by the cost of one execution, or as their events record it if the cost is unknown."""
    known = np.array(of_one, np.float64)
    return np.where(known > 0, known * times, recorded)


def _sum_energy(events: HostEvents, rows: Int64s, op: Numbers, ops: int) -> Float64s:
    stat = events.stat("vdd_energy_j")
    if not len(stat) or not len(rows):
        return np.zeros(ops)
    has, place = find_present(stat.rows, rows)
    recorded = Stat(stat.rows[place], stat.kind[place], stat.value[place]).numbers
    joules = np.zeros(len(rows))
    joules[has] = np.where(is_work(recorded), recorded, 0.0)
    energy: Float64s = np.bincount(op, joules, ops).astype(np.float64)
    return energy
