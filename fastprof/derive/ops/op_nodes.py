"""Ops that a host and its devices ran, as nodes of a graph: names, scopes, code, inputs and work.

    instruction of a program   layer_3/attn/dot_general/fusion.12     below the scopes of its op; passes of training are
                                                                      types, not scopes
    op of a framework          model/dense/MatMul                     what the host took for it and what devices ran
    op of PyTorch              Net_0/Linear_0/aten::linear            below its modules, a node for each stack of calls
    what names no op           (no scope)/copy-done.4

The time of a node is self time, so that nodes add up to the time of all ops. An op of Python code is a node for each
stack of calls around it::

    thread   |-- train.py(9): main ------------------------------------|
               |-- nn.Module: Net_0 ------------|  |-- aten::add -|         aten::add    called by main
                 |-- nn.Module: Linear_0 ---|
                   |-- aten::linear --|                                     Net_0/Linear_0/aten::linear

Kernels whose PyTorch op is known by name only, because no call of it is recorded, are a node of their own.
Instructions that do not run by themselves hand on what they take::

    fusion.1 ──► get-tuple-element.2 ──► bitcast.3 ──► dot.4          dot.4 takes output 2 of fusion.1
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np

from fastprof._native.op_kernels import self_times
from fastprof.decode.nesting import number_lines
from fastprof.derive.devices.op_names import is_frame, is_kineto, parse_op_name
from fastprof.derive.ops import device_ops, host_ops
from fastprof.derive.ops.device_ops import CPU_ONLY, HostDeviceOps, OpHost, SessionOps
from fastprof.derive.ops.gpu_attribution import find_op_events
from fastprof.derive.ops.gpu_ops import list_op_lines, read_program_ids, take_last_name
from fastprof.derive.ops.host_ops import XLA_OP, ThreadOps
from fastprof.derive.ops.line_times import measure_line_times
from fastprof.derive.ops.op_columns import UNKNOWN, parse_framework_name
from fastprof.derive.ops.op_table import OpTable, is_container
from fastprof.derive.ops.op_trees import build_call_tree, find_nearest_wanted
from fastprof.derive.ops.roofline_model import (
    count_transfers_once,
    get_known_bytes,
    get_known_flops,
    list_ceilings,
    measure_efficiency,
    parse_instruction_name,
)
from fastprof.derive.ops.scope_trees import UNSCOPED
from fastprof.derive.ops.torch_calls import OpsAround, fill_work_of_calls
from fastprof.derive.ops.training_passes import OTHER, PASSES, parse_scopes
from fastprof.derive.steps.event_graph import find_enclosing
from fastprof.derive.steps.event_origin import has_line, parse_frame
from fastprof.schema.columns import (
    DURATIONS,
    Bools,
    Float64s,
    Int32s,
    Int64s,
    number_distinct_rows,
    number_values,
    sum_by,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HOST_THREADS, HostEvents
from fastprof.tables.needs import Needs, unite_needs

if TYPE_CHECKING:
    from fastprof.derive.devices.device_peaks import Peaks
    from fastprof.hlo.module import HloModule


_MODULE = "nn.Module: "


@dataclass(frozen=True, slots=True)
class CodeFrame:
    """A call in a stack: the function, and the line that is known of it; 0 if there is none."""

    file: str
    line: int
    function: str


Stack = tuple[CodeFrame, ...]
"""Calls, the outermost first."""


@dataclass(frozen=True, slots=True)
class HostNode:
    """An op and where it is called. ``modules``: those of PyTorch around it, outermost first. ``program_id``: of an
    instruction of a compiled program."""

    name: str
    type: str
    modules: tuple[str, ...]
    stack: Stack
    program_id: int | None
    calls: int
    self_ps: int


@dataclass(frozen=True, slots=True)
class HostNodes:
    """``of_row``: by row of the host's events the place of its op in ``each``, of several the first, or -1. ``rows``
    and ``node``: the occurrences."""

    each: list[HostNode]
    of_row: Int32s
    rows: Int64s
    node: Int64s


def find_host_nodes(host: OpHost) -> HostNodes:
    """Return the ops of a host. CaptureError: times do not add up in 64 bits."""
    events = host.events
    threads = ThreadOps(events, host.is_eager, host.workers)
    rows, op, counts = threads.occurrences()
    self_ps = np.empty(len(rows), np.int64)
    start, duration = events.start_ps[rows], np.maximum(events.duration_ps[rows], 0)
    self_times(start, duration, number_lines(counts, np.cumsum(counts) - counts), self_ps, None)
    sites, site = _find_sites(events, rows)
    is_compiled = np.array([kind == XLA_OP for _, _, kind in threads.keys], bool)
    program = np.where(np.append(is_compiled, False)[op], read_program_ids(events)[1][rows], 0)
    first, place = number_distinct_rows([op, site, program])
    count = len(first)
    calls, own = np.bincount(place, minlength=count).tolist(), sum_by(place, self_ps, count, DURATIONS).tolist()
    each = []
    keys = (column[first].tolist() for column in (op, site, program))
    for at, (number, where, program_id) in enumerate(zip(*keys, strict=True)):
        _, name, kind = threads.keys[number]
        modules, stack = sites[where]
        each.append(
            HostNode(name, kind, modules, stack, program_id if is_compiled[number] else None, calls[at], own[at])
        )
    of_row = np.full(len(events), -1, np.int32)
    of_row[rows[::-1]] = place[::-1]
    return HostNodes(each, of_row, rows, place.astype(np.int64))


def _find_sites(events: HostEvents, rows: Int64s) -> tuple[list[tuple[tuple[str, ...], Stack]], Int64s]:
    """Return the modules and stacks around these rows, and which each has. Stacks that differ only in calls of compiled
    functions are one."""
    is_call = np.array([is_frame(name) for name in events.names], bool)[events.meta]
    frames = np.flatnonzero(is_call)
    if not len(frames) or not len(rows):
        return [((), ())], np.zeros(len(rows), np.int64)
    parent = find_enclosing(events).astype(np.int64)
    above = find_nearest_wanted(np.arange(len(parent)), parent, is_call)
    place = np.full(len(events) + 1, -1, np.int64)
    place[frames] = np.arange(len(frames))
    of_frames = place[np.append(above, -1)[parent[frames]]]
    tree, node = build_call_tree(
        of_frames, _count_depths(of_frames), events.meta[frames].astype(np.int64), np.zeros((len(frames), 1), np.int64)
    )
    around = np.append(node, -1)[place[np.append(above, -1)[parent[rows]]]]
    known: dict[tuple[tuple[str, ...], Stack], int] = {((), ()): 0}
    stacks: list[tuple[tuple[str, ...], Stack]] = []
    for up, label in zip(tree.parent.tolist(), tree.label.tolist(), strict=True):
        modules, stack = stacks[up] if up >= 0 else ((), ())
        name = events.names[label]
        if name.startswith(_MODULE):
            modules = (*modules, name.removeprefix(_MODULE))
        elif has_line(name):
            frame = parse_frame(name)
            stack = (*stack, CodeFrame(frame.file, frame.line or 0, frame.function))
        stacks.append((modules, stack))
    number = np.array([known.setdefault(around_call, len(known)) for around_call in stacks] + [0], np.int64)
    return list(known), number[around]


def _count_depths(parent: Int64s) -> Int32s:
    """Return how many calls are around each; -1 if none is."""
    depth = np.where(parent < 0, 0, 1).astype(np.int64)
    up = parent.copy()
    while (left := np.flatnonzero(up >= 0)).size:
        further = up[left]
        depth[left] += depth[further]
        up[left] = up[further]
    return depth.astype(np.int32)


_PER_INSTRUCTION = 16
"""Steps of the search for inputs, for each instruction of a program: if many share large parts, no more are found."""
_GET_ELEMENT = "get-tuple-element"


@dataclass(frozen=True, slots=True)
class PlacedInstruction:
    """An instruction in its program. ``inputs``: names of instructions and numbers of their outputs; ``shapes``: of its
    outputs, by number."""

    inputs: tuple[tuple[str, int], ...]
    shapes: tuple[tuple[int, ...], ...]
    stack: Stack


def place_instructions(module: HloModule, names: Mapping[str, object]) -> dict[str, PlacedInstruction]:
    """Return the named instructions that the program has."""
    rows = {int(row): name for name, row in zip(names, module.find(list(names)).tolist(), strict=True) if row >= 0}
    walk = _OperandWalk(module, rows)
    placed = {}
    for row, name in rows.items():
        shape = module.shape(module.shape_rows[row])
        arrays = shape.elements if shape.is_tuple else (shape,)  # tuples in a tuple have no dimensions
        dimensions = tuple(array.dimensions for array in arrays)
        source = module.source_of(row)
        frames = [frame for frame in source.frames if frame.has_location]
        stack = tuple(CodeFrame(frame.file, max(frame.line, 0), frame.function) for frame in reversed(frames))
        if not frames and source.file:
            stack = (CodeFrame(source.file, max(source.line, 0), ""),)
        placed[name] = PlacedInstruction(walk.inputs(row), dimensions, stack)
    return placed


class _OperandWalk:
    def __init__(self, module: HloModule, rows: Mapping[int, str]) -> None:
        self._module, self._rows = module, rows
        self._left = _PER_INSTRUCTION * len(module)

    def inputs(self, row: int) -> tuple[tuple[str, int], ...]:
        """Return each input once, depth first, in the order of operands."""
        operands = self._module.operands_of
        inputs: dict[tuple[str, int], None] = {}
        waiting = [(operand, 0) for operand in reversed(operands(row)) if operand >= 0]
        met = set(waiting)
        while waiting and self._left > 0:
            self._left -= 1
            at, output = waiting.pop()
            if at in self._rows:
                inputs[self._rows[at], output] = None
                continue
            if self._module.opcodes[at] == _GET_ELEMENT:
                output = self._module.instruction(at).tuple_index
            above = [place for row in reversed(operands(at)) if row >= 0 and (place := (row, output)) not in met]
            met.update(above)
            waiting += above
        return tuple(inputs)


Keyed = tuple[tuple[str, str, Stack], dict[str, Any]]
"""Name, program and stack of a node, and its fields."""


def list_torch_nodes(host: OpHost, called: HostNodes, peaks: Peaks | None) -> Iterator[Keyed]:
    """``called``: the ops of the host. CaptureError: times do not add up in 64 bits."""
    kernels = _NodeKernels(host, called)
    work = _TorchNodeWork.of(kernels.table, peaks)
    for place, node in enumerate(called.each):
        devices = {HOST_THREADS, *kernels.devices[place]}
        fields = {
            "type": node.name, "types": {node.name, node.type, *devices, *kernels.categories[place]},
            "devices": devices,
            "cpu_ps": node.self_ps, "accelerator_ps": int(kernels.table.self_ps[place]), "calls": node.calls,
            "flops": work.flops[place], "bytes": work.bytes[place], "bound_by": work.bound_by[place],
            "stack": node.stack,
        }  # fmt: skip
        yield ("/".join((*node.modules, node.name)), "", node.stack), fields
    yield from kernels.others()


class _NodeKernels:
    """What GPUs ran, by node of the ops that launched it: ``table``, categories and devices."""

    def __init__(self, host: OpHost, called: HostNodes) -> None:
        events, count = host.events, len(called.each)
        self.categories: list[set[str]] = [set() for _ in range(count)]
        self.devices: list[set[str]] = [set() for _ in range(count)]
        self._others: dict[int, dict[str, Any]] = {}
        gpus = events.planes_of("GPU")
        op_events = find_op_events(events, host.modules) if gpus else None
        around = OpsAround(events)
        self._ops = op_events.ops if op_events is not None else []
        rows, nodes, own, whole = ([np.zeros(0, np.int64)] for _ in range(4))
        for plane in gpus:
            assert op_events is not None
            times = measure_line_times(events, list_op_lines(plane))
            op = around.launching(times.rows.astype(np.int64))
            node = np.where(op >= 0, called.of_row[op], -1)
            kind = op_events.op[times.rows].astype(np.int64)
            first, _ = number_distinct_rows([node, kind])
            for place, number in zip(node[first].tolist(), kind[first].tolist(), strict=True):
                if place >= 0:
                    self.devices[place].add(plane.name)
                    self.categories[place].add(self._ops[number].category)
            self._add_others(plane.name, kind[node < 0], times.self_ps[node < 0])
            known = node >= 0
            for parts, values in ((rows, times.rows), (nodes, node), (own, times.self_ps), (whole, times.duration_ps)):
                parts.append(values[known].astype(np.int64))
        every = np.concatenate(nodes)
        table = OpTable.of(
            [node.name for node in called.each],
            category=[node.name for node in called.each],
            self_ps=sum_by(every, np.concatenate(own), count, DURATIONS),
            time_ps=sum_by(every, np.concatenate(whole), count, DURATIONS),
        )
        self.table = (
            table
            if op_events is None
            else (fill_work_of_calls(table, events, op_events, np.concatenate(rows), every.astype(np.int32)))
        )

    def _add_others(self, device: str, kind: Int64s, self_ps: Int64s) -> None:
        """Add what no recorded op launched, by op."""
        numbers, place = number_values(kind)
        counts = np.bincount(place.reshape(-1), minlength=len(numbers)).tolist()
        sums = sum_by(place.reshape(-1), self_ps, len(numbers), DURATIONS).tolist()
        for number, count, time in zip(numbers.tolist(), counts, sums, strict=True):
            fields = self._others.setdefault(number, {"accelerator_ps": 0, "device_runs": 0, "devices": set()})
            fields["accelerator_ps"] += time
            fields["device_runs"] += count
            fields["devices"].add(device)

    def others(self) -> Iterator[Keyed]:
        """Yield what no recorded op launched, by the name of its op, else by its own."""
        for number, fields in self._others.items():
            op = self._ops[number]
            kind = parse_framework_name(op.provenance) or op.category
            types = {kind, op.category, *fields["devices"]}
            name = parse_framework_name(op.provenance) or f"{UNSCOPED}/{op.name}"
            yield (name, "", ()), {**fields, "type": kind, "types": types}


@dataclass(frozen=True, slots=True)
class _TorchNodeWork:
    """Operations, bytes and bound of each node; None if it is unknown."""

    flops: list[int | None]
    bytes: list[int | None]
    bound_by: list[str | None]

    @classmethod
    def of(cls, table: OpTable, peaks: Peaks | None) -> _TorchNodeWork:
        has_bytes = table.bytes_source > 0
        bounds = measure_efficiency(table, list_ceilings(peaks)).bound_by
        return cls(
            _round_known(table.flops, table.flops_source > 0),
            _round_known(table.bytes_accessed, has_bytes),
            [bound if there else None for bound, there in zip(bounds, has_bytes.tolist(), strict=True)],
        )


READS: Final = unite_needs([device_ops.READS, Needs(stats=host_ops.EVENT_STATS)])
"""What is read of a host, beside what grouping reads."""


class NodeHost(OpHost, Protocol):
    @property
    def device_ops(self) -> HostDeviceOps: ...


class NodeKey(NamedTuple):
    """What nodes of several hosts have in common if they are one: scopes and op, program, and stack of calls."""

    name: str
    program: str = ""
    stack: Stack = ()


@dataclass(slots=True)
class OpNode:
    """``type``: of the op. ``types``: by which it is accounted. ``cpu_ps``: on threads of the host; ``accelerator_ps``:
    on devices. ``runs``: of the op on the host, else on devices. ``flops``, ``bytes``: of all runs; None if it is
    unknown. ``stack``: the code that calls it, or that it was compiled from. ``inputs``: nodes and numbers of their
    outputs; ``shapes``: of its outputs."""

    type: str = ""
    types: set[str] = field(default_factory=set)
    devices: set[str] = field(default_factory=set)
    cpu_ps: int = 0
    accelerator_ps: int = 0
    calls: int = 0
    device_runs: int = 0
    flops: int | None = None
    bytes: int | None = None
    bound_by: str | None = None
    stack: Stack = ()
    inputs: tuple[tuple[NodeKey, int], ...] = ()
    shapes: tuple[tuple[int, ...], ...] = ()

    @property
    def runs(self) -> int:
        return self.calls or self.device_runs

    def add(self, other: OpNode) -> None:
        """Add time, runs and work of the op elsewhere."""
        self.type = self.type or other.type
        self.types |= other.types
        self.devices |= other.devices
        self.cpu_ps += other.cpu_ps
        self.accelerator_ps += other.accelerator_ps
        self.calls += other.calls
        self.device_runs += other.device_runs
        self.flops = _add_optional(self.flops, other.flops)
        self.bytes = _add_optional(self.bytes, other.bytes)
        self.bound_by = self.bound_by or other.bound_by
        self.stack = self.stack or other.stack
        self.inputs = self.inputs or other.inputs
        self.shapes = self.shapes or other.shapes


Nodes = dict[NodeKey, OpNode]


def _add_optional(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else a + b


def merge_nodes(hosts: Iterable[Nodes]) -> Nodes:
    """Return the nodes of several hosts."""
    every: Nodes = {}
    for nodes in hosts:
        for key, node in nodes.items():
            _add_node(every, key, node)
    return every


def _add_node(nodes: Nodes, key: NodeKey, node: OpNode) -> None:
    if (known := nodes.get(key)) is None:
        nodes[key] = node
    else:
        known.add(node)


def list_host_op_nodes(host: NodeHost) -> Nodes:
    """Return the nodes, in the order in which they were met: ops of the host first. CaptureError: times do not add up
    in 64 bits."""
    called, ran = find_host_nodes(host), host.device_ops
    peaks = SessionOps.of([ran]).peaks
    nodes: Nodes = {}
    if is_kineto(host.events):
        for parts, fields in list_torch_nodes(host, called, peaks):
            _add_node(nodes, NodeKey(*parts), OpNode(**fields))
        return nodes
    compiled = _Compiled(host, ran, peaks)
    for called_op in called.each:
        _add_node(nodes, *(_make_host_node(called_op) if called_op.program_id is None else compiled.on_host(called_op)))
    if ran.hardware != CPU_ONLY:
        for key, node in compiled.on_devices():
            _add_node(nodes, key, node)
    return nodes


def _make_host_node(called: HostNode) -> tuple[NodeKey, OpNode]:
    node = OpNode(
        called.type, {called.type, HOST_THREADS} - {""}, {HOST_THREADS}, cpu_ps=called.self_ps, calls=called.calls
    )
    node.stack = called.stack
    return NodeKey(called.name, "", called.stack), node


class _Compiled:
    """Ops of devices by their rows in the table of a host's ops; without devices they are of its threads."""

    def __init__(self, host: NodeHost, ran: HostDeviceOps, peaks: Peaks | None) -> None:
        self._ran, self._table = ran, ran.ops.table
        self._rows = {key: row for row, key in enumerate(_list_keys(self._table))}
        self._work = _NodeWork(self._table, peaks)
        self._devices: dict[tuple[int, str], set[str]] = {}
        for name, ops in ran.by_device:
            for key in _list_keys(ops.table):
                self._devices.setdefault(key, set()).add(name)
        self._placed: dict[tuple[int, str], PlacedInstruction] = {}
        of_program: dict[int, dict[str, str]] = {}
        for program_id, name in self._rows:
            of_program.setdefault(program_id, {})[parse_instruction_name(name)] = name
        for program_id, names in of_program.items():
            module = host.modules.module(program_id) if program_id else None
            if module is not None:
                for instruction, placed in place_instructions(module, names).items():
                    self._placed[program_id, names[instruction]] = placed

    def on_host(self, called: HostNode) -> tuple[NodeKey, OpNode]:
        """Return an instruction that threads ran."""
        row = self._rows.get((called.program_id or 0, take_last_name(called.name)))
        if row is None:
            node = _make_host_node(called)[1]
            return NodeKey(f"{UNSCOPED}/{called.name}"), node
        key, node = self._of_row(row)
        node.cpu_ps, node.calls, node.device_runs = called.self_ps, called.calls, 0
        return key, node

    def on_devices(self) -> Iterator[tuple[NodeKey, OpNode]]:
        for row, self_ps in enumerate(self._table.self_ps.tolist()):
            key, node = self._of_row(row)
            node.accelerator_ps = self_ps
            yield key, node

    def _of_row(self, row: int) -> tuple[NodeKey, OpNode]:
        table, work = self._table, self._work
        program_id, name = int(table.program_id[row]), table.name[row]
        provenance, category = table.provenance[row], table.category[row]
        op = parse_op_name(provenance) if provenance else None
        title = self._ran.titles.get(program_id) or (f"program {program_id}" if program_id else "")
        node = OpNode((op.type if op else "") or category or UNKNOWN)
        node.devices = self._devices.get((program_id, name), set())
        node.types = {node.type, category, title, *node.devices} - {""}
        node.device_runs = int(table.executions[row])
        node.flops, node.bytes, node.bound_by = work.flops[row], work.bytes[row], work.bound_by[row]
        node.stack = _read_stack(table, row)
        placed = self._placed.get((program_id, name))
        if placed is not None:
            node.stack, node.shapes = placed.stack or node.stack, placed.shapes
            node.inputs = tuple((self._key(program_id, operand, title)[0], slot) for operand, slot in placed.inputs)
        key, passed = self._key(program_id, name, title)
        if passed != OTHER:
            node.types.add(f"_{PASSES[passed]}")
        return key, node

    def _key(self, program_id: int, name: str, title: str) -> tuple[NodeKey, int]:
        """Return the key of an op, and its pass of training."""
        provenance = self._table.provenance[self._rows[program_id, name]]
        if program_id:
            scopes = parse_scopes(provenance)
            return NodeKey(
                "/".join((*(scopes.path or (UNSCOPED,)), parse_instruction_name(name))), title
            ), scopes.passed
        return NodeKey(parse_op_name(provenance).name if provenance else f"{UNSCOPED}/{name}"), OTHER


def _list_keys(table: OpTable) -> Iterator[tuple[int, str]]:
    return zip(table.program_id.tolist(), table.name, strict=True)


class _NodeWork:
    """Work of the ops of a table. That of ops which run others is of these; bytes of a transfer count once."""

    def __init__(self, table: OpTable, peaks: Peaks | None) -> None:
        own = ~is_container(table)
        self.flops = _round_known(table.flops, get_known_flops(table) & own)
        self.bytes = _round_known(count_transfers_once(table).bytes_accessed, get_known_bytes(table) & own)
        self.bound_by = measure_efficiency(table, list_ceilings(peaks)).bound_by


def _round_known(values: Float64s, known: Bools) -> list[int | None]:
    return [round(value) if there else None for value, there in zip(values.tolist(), known.tolist(), strict=True)]


def _read_stack(table: OpTable, row: int) -> Stack:
    """Return the code of an op as the capture records it beside its program."""

    frames = []
    for text in table.source_stack[row].splitlines():
        file, line, _ = (*text.rsplit(":", 2), "", "")[:3]
        if line.isdecimal():
            frames.append(CodeFrame(file, min(int(line), 2**31 - 1), ""))
    if not frames and table.source_file[row]:
        frames.append(CodeFrame(table.source_file[row], max(int(table.source_line[row]), 0), ""))
    return tuple(reversed(frames))


def name_nodes(nodes: Nodes) -> list[str]:
    """Return a name for each node that no other has: with its program if that is needed, else numbered as TensorFlow
    numbers nodes: MatMul, MatMul_1."""
    programs: dict[str, set[str]] = {}
    for key in nodes:
        programs.setdefault(key.name, set()).add(key.program)
    taken: set[str] = set()
    last: dict[str, int] = {}
    names = []
    for key in nodes:
        name = f"{key.name}@{key.program}" if key.program and len(programs[key.name]) > 1 else key.name
        unique = name
        while unique in taken:
            last[name] = last.get(name, 0) + 1
            unique = f"{name}_{last[name]}"
        taken.add(unique)
        names.append(unique)
    return names
