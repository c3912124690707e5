"""The ops that a host and its devices ran, as nodes of a graph.

    instruction of a program   layer_3/attn/dot_general/fusion.12     below the scopes of its op; passes of training are
                                                                      types, not scopes
    op of a framework          model/dense/MatMul                     what the host took for it and what devices ran
    op of PyTorch              Net_0/Linear_0/aten::linear            below its modules, a node for each stack of calls
    what names no op           (no scope)/copy-done.4

The time of a node is self time, so that nodes add up to the time of all ops.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from fastprof.derive.devices.kineto_categories import is_kineto
from fastprof.derive.devices.op_names import parse
from fastprof.derive.ops import device_ops, host_ops
from fastprof.derive.ops.ceilings import against, ceilings, known_bytes, known_flops
from fastprof.derive.ops.device_ops import CPU_ONLY, HostDeviceOps, OpHost, SessionOps
from fastprof.derive.ops.framework import UNKNOWN
from fastprof.derive.ops.gpu_ops import last_name
from fastprof.derive.ops.nodes import program_graph, torch_nodes
from fastprof.derive.ops.nodes.host_nodes import HostNode, Stack, host_nodes
from fastprof.derive.ops.op_marks import is_container
from fastprof.derive.ops.tables import OpTable
from fastprof.derive.ops.transfers import once
from fastprof.derive.ops.tree.name_scopes import OTHER, PASSES, scoped
from fastprof.derive.ops.tree.scope_trees import UNSCOPED
from fastprof.derive.ops.work_sources import instruction_name
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HOST_THREADS
from fastprof.tables.needs import Needs, union

if TYPE_CHECKING:
    from fastprof.derive.devices.devices import Peaks

READS: Final = union([device_ops.READS, Needs(stats=host_ops.EVENT_STATS)])
"""What is read of a host, beside what grouping reads."""


class NodeHost(OpHost, Protocol):
    @property
    def device_ops(self) -> HostDeviceOps: ...


class Key(NamedTuple):
    """What nodes of several hosts have in common if they are one: scopes and op, program, and stack of calls."""

    name: str
    program: str = ""
    stack: Stack = ()


@dataclass(slots=True)
class Node:
    """``type``: of the op. ``types``: by which it is accounted. ``cpu_ps``: on threads of the host; ``accelerator_ps``:
    on devices. ``runs``: of the op on the host, else on devices. ``flops``, ``bytes``: of all runs; None: unknown.
    ``stack``: the code that calls it, or that it was compiled from. ``inputs``: nodes and numbers of their outputs;
    ``shapes``: of its outputs."""

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
    inputs: tuple[tuple[Key, int], ...] = ()
    shapes: tuple[tuple[int, ...], ...] = ()

    @property
    def runs(self) -> int:
        return self.calls or self.device_runs

    def add(self, other: Node) -> None:
        """The same op elsewhere: its time, runs and work."""
        self.type = self.type or other.type
        self.types |= other.types
        self.devices |= other.devices
        self.cpu_ps += other.cpu_ps
        self.accelerator_ps += other.accelerator_ps
        self.calls += other.calls
        self.device_runs += other.device_runs
        self.flops = _sum(self.flops, other.flops)
        self.bytes = _sum(self.bytes, other.bytes)
        self.bound_by = self.bound_by or other.bound_by
        self.stack = self.stack or other.stack
        self.inputs = self.inputs or other.inputs
        self.shapes = self.shapes or other.shapes


Nodes = dict[Key, Node]


def _sum(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else a + b


def together(hosts: Iterable[Nodes]) -> Nodes:
    """The nodes of several hosts."""
    every: Nodes = {}
    for nodes in hosts:
        for key, node in nodes.items():
            _add(every, key, node)
    return every


def _add(nodes: Nodes, key: Key, node: Node) -> None:
    if (known := nodes.get(key)) is None:
        nodes[key] = node
    else:
        known.add(node)


def nodes_of_host(host: NodeHost) -> Nodes:
    """The nodes, in the order in which they were met: ops of the host first. CaptureError: times do not add up in 64
    bits."""
    called, ran = host_nodes(host), host.device_ops
    peaks = SessionOps.of([ran]).peaks
    nodes: Nodes = {}
    if is_kineto(host.events):
        for parts, fields in torch_nodes.nodes(host, called, peaks):
            _add(nodes, Key(*parts), Node(**fields))
        return nodes
    compiled = _Compiled(host, ran, peaks)
    for one in called.each:
        _add(nodes, *(_of_host(one) if one.program_id is None else compiled.on_host(one)))
    if ran.hardware != CPU_ONLY:
        for key, node in compiled.on_devices():
            _add(nodes, key, node)
    return nodes


def _of_host(one: HostNode) -> tuple[Key, Node]:
    node = Node(one.type, {one.type, HOST_THREADS} - {""}, {HOST_THREADS}, cpu_ps=one.self_ps, calls=one.calls)
    node.stack = one.stack
    return Key(one.name, "", one.stack), node


class _Compiled:
    """Ops of devices by their rows in the table of a host's ops; without devices they are of its threads."""

    def __init__(self, host: NodeHost, ran: HostDeviceOps, peaks: Peaks | None) -> None:
        self._ran, self._table = ran, ran.ops.table
        self._rows = {key: row for row, key in enumerate(_keys(self._table))}
        self._work = _Work(self._table, peaks)
        self._devices: dict[tuple[int, str], set[str]] = {}
        for name, ops in ran.by_device:
            for key in _keys(ops.table):
                self._devices.setdefault(key, set()).add(name)
        self._placed = dict(self._instructions(host))

    def _instructions(self, host: NodeHost) -> Iterator[tuple[tuple[int, str], program_graph.Placed]]:
        """What programs say of the instructions that ran, by program and name of the op."""
        of_program: dict[int, dict[str, str]] = {}
        for program_id, name in self._rows:
            of_program.setdefault(program_id, {})[instruction_name(name)] = name
        for program_id, names in of_program.items():
            module = host.modules.module(program_id) if program_id else None
            if module is not None:
                for instruction, found in program_graph.placed(module, names).items():
                    yield (program_id, names[instruction]), found

    def on_host(self, one: HostNode) -> tuple[Key, Node]:
        """An instruction that threads ran."""
        row = self._rows.get((one.program_id or 0, last_name(one.name)))
        if row is None:
            node = _of_host(one)[1]
            return Key(f"{UNSCOPED}/{one.name}"), node
        key, node = self._of_row(row)
        node.cpu_ps, node.calls, node.device_runs = one.self_ps, one.calls, 0
        return key, node

    def on_devices(self) -> Iterator[tuple[Key, Node]]:
        for row, self_ps in enumerate(self._table.self_ps.tolist()):
            key, node = self._of_row(row)
            node.accelerator_ps = self_ps
            yield key, node

    def _of_row(self, row: int) -> tuple[Key, Node]:
        table, work = self._table, self._work
        program_id, name = int(table.program_id[row]), table.name[row]
        provenance, category = table.provenance[row], table.category[row]
        op = parse(provenance) if provenance else None
        title = self._ran.titles.get(program_id) or (f"program {program_id}" if program_id else "")
        node = Node((op.type if op else "") or category or UNKNOWN)
        node.devices = self._devices.get((program_id, name), set())
        node.types = {node.type, category, title, *node.devices} - {""}
        node.device_runs = int(table.executions[row])
        node.flops, node.bytes, node.bound_by = work.flops[row], work.bytes[row], work.bound_by[row]
        node.stack = _stack(table, row)
        placed = self._placed.get((program_id, name))
        if placed is not None:
            node.stack, node.shapes = placed.stack or node.stack, placed.shapes
            node.inputs = tuple((self._key(program_id, one, title)[0], slot) for one, slot in placed.inputs)
        key, passed = self._key(program_id, name, title)
        if passed != OTHER:
            node.types.add(f"_{PASSES[passed]}")
        return key, node

    def _key(self, program_id: int, name: str, title: str) -> tuple[Key, int]:
        """The key of an op, and its pass of training."""
        provenance = self._table.provenance[self._rows[program_id, name]]
        if program_id:
            scopes = scoped(provenance)
            return Key("/".join((*(scopes.path or (UNSCOPED,)), instruction_name(name))), title), scopes.passed
        return Key(parse(provenance).name if provenance else f"{UNSCOPED}/{name}"), OTHER


def _keys(table: OpTable) -> Iterator[tuple[int, str]]:
    return zip(table.program_id.tolist(), table.name, strict=True)


class _Work:
    """Work of the ops of a table. That of ops which run others is of these; bytes of a transfer count once."""

    def __init__(self, table: OpTable, peaks: Peaks | None) -> None:
        own = ~is_container(table)
        self.flops = _integers(table.flops, known_flops(table) & own)
        self.bytes = _integers(once(table).bytes_accessed, known_bytes(table) & own)
        self.bound_by = against(table, ceilings(peaks)).bound_by


def _integers(values: Iterable[float], known: Iterable[bool]) -> list[int | None]:
    return [round(value) if is_known else None for value, is_known in zip(values, known, strict=True)]


def _stack(table: OpTable, row: int) -> Stack:
    """The code of an op as the capture records it beside its program."""
    from fastprof.derive.ops.nodes.host_nodes import CodeFrame

    frames = []
    for text in table.source_stack[row].splitlines():
        file, line, _ = (*text.rsplit(":", 2), "", "")[:3]
        if line.isdecimal():
            frames.append(CodeFrame(file, min(int(line), 2**31 - 1), ""))
    if not frames and table.source_file[row]:
        frames.append(CodeFrame(table.source_file[row], max(int(table.source_line[row]), 0), ""))
    return tuple(reversed(frames))


def names_of(nodes: Nodes) -> list[str]:
    """A name for each node that no other has: with its program if that is needed, else numbered as TensorFlow numbers
    nodes: MatMul, MatMul_1."""
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
