"""Ops that events name: the instruction of a program, or the framework op, that a GPU event runs or a call launches.

A kernel's op is what its stats ``program_id`` and ``hlo_op`` name (of several names the last), if the capture carries
that program; else what its stat ``tf_op`` names, together with the kernel's own name. TensorFlow's CUDA tracer writes
annotations, ``scope/MatMul:MatMul#shape=(f32[2])#``; several are joined by ``::``, the innermost last. XLA's have
``hlo_op=…,hlo_module=…,program_id=…`` between the ``#``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof.derive.devices.op_names import Framework, is_kineto, may_launch, parse_op_name
from fastprof.derive.ops.gpu_kernels import DETAILS_OF_MEMORY, KERNEL_DETAILS, NO_OPS, classify_copy
from fastprof.hlo.programs import Modules
from fastprof.hlo.work import NOTHING, Cost, Counting
from fastprof.schema.columns import (
    Bools,
    Int32s,
    Int64s,
    Numbers,
    find_present,
    join_values,
    number_distinct,
    number_distinct_rows,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, Line, Plane, compute_once
from fastprof.wording.patterns import compile_late

UNKNOWN_TYPE: Final = "unknown"
"""Category of an op of a framework whose type is not recorded."""


@dataclass(frozen=True, slots=True)
class GpuOp:
    """An op of a GPU. ``cost``: of one kernel, for XProf. Framework ops have program 0."""

    program_id: int
    name: str
    category: str
    provenance: str
    cost: Cost
    long_name: str = ""
    deduplicated_name: str = ""
    source: tuple[str, int, str] = ("", -1, "")
    """File, line and stack."""
    is_hlo: bool = False
    """True if it is an instruction of a program."""
    reason: str = ""
    """Why the op is unknown; "" if it is known."""
    device_cost: Cost = NOTHING
    """``cost``, with what XLA's model leaves out, and of one execution, which may run several kernels."""


@dataclass(slots=True)
class OpList:
    """Distinct ops by first occurrence."""

    ops: list[GpuOp] = field(default_factory=list)
    places: dict[tuple[bool, int, str], int] = field(default_factory=dict)

    def add(self, op: GpuOp) -> int:
        """Return the place of the op, or of an earlier one with its key."""
        place = self.places.setdefault((op.is_hlo, op.program_id, op.name), len(self.ops))
        if place == len(self.ops):
            self.ops.append(op)
        return place


@dataclass(frozen=True, slots=True)
class GpuOpEvents:
    """``op``: place in ``ops`` by row of the host's events, or -1. ``is_hlo``: whether each op is a program
    instruction. ``way``: how each event's op is known, see gpu_attribution.py."""

    ops: list[GpuOp]
    op: Int32s
    is_hlo: Bools
    way: npt.NDArray[np.uint8]

    def device_cost(self, number: int) -> Cost:
        """Return the cost of an op by its place. A device needs those of its own ops only."""
        return self.ops[number].device_cost


def list_op_lines(plane: Plane) -> list[Line]:
    """Return the lines with events that a GPU recorded."""
    return [line for line in plane.lines if not line.is_derived and line.last > line.first]


def mark_op_line_events(events: HostEvents) -> Bools:
    """Mark the events on these lines of GPUs."""
    wanted = np.zeros(len(events), bool)
    for plane in events.planes_of("GPU"):
        for line in list_op_lines(plane):
            wanted[line.first : line.last] = True
    return wanted


def is_kernel(events: HostEvents) -> Bools:
    """Return a mask of the kernel events: all GPU stream events except memory copies and fills. Copies with recorded
    launch dimensions are kernels, as on ROCm."""
    kernels = mark_op_line_events(events)
    if not kernels.any():
        return kernels
    of_memory = np.array([bool(classify_copy(name)) for name in events.names] + [False], bool)
    moves = of_memory[events.meta]
    for stat in DETAILS_OF_MEMORY:
        if stat in events.stats:
            moves[events.texts(stat)[0]] = True
    if KERNEL_DETAILS in events.stats:
        moves[events.texts(KERNEL_DETAILS)[0]] = False
    kernels &= ~moves
    return kernels


@compute_once
def find_named_op_events(events: HostEvents, modules: Modules) -> GpuOpEvents:
    """Return the op of each event of a GPU that names a known one: those that XProf counts."""
    wanted = mark_op_line_events(events)
    ops = OpList()
    op = np.full(len(events), -1, np.int32)
    compiled = _add_program_ops(events, wanted, modules, ops, op)
    _add_framework_ops(events, wanted & ~compiled, ops, op)
    is_hlo = np.array([each.is_hlo for each in ops.ops], bool)
    return GpuOpEvents(ops.ops, op, is_hlo, np.zeros(len(events), np.uint8))


def _add_program_ops(events: HostEvents, wanted: Bools, modules: Modules, known_ops: OpList, op: Int32s) -> Bools:
    """Add the instructions that events ran, and write the events' ops. Returns which events name an instruction, known
    or not."""
    rows = _select_naming_events(events, wanted)
    names_one = np.zeros(len(events), bool)
    names_one[rows] = True
    rows = rows[read_program_ids(events)[0][rows]]
    keys, key = number_instruction_keys(events, rows)
    ops = [-1 if known is None else known_ops.add(known) for known in find_program_ops(keys, modules)]
    op[rows] = np.array(ops, np.int32)[key]
    return names_one


def _select_naming_events(events: HostEvents, wanted: Bools) -> Numbers:
    """Return the rows of events that name an instruction."""
    rows, numbers = _select_wanted(wanted, *events.texts("hlo_op"))
    texts, text = number_distinct(numbers)
    named: Numbers = rows[np.array([bool(name) for name in events.all_texts(texts)], bool)[text]]
    return named


def list_named_programs(events: HostEvents, modules: Modules) -> list[int]:
    """Return the ids of programs with instructions that ``find_named_op_events`` finds, which takes far longer: it has
    their costs, too."""
    rows = _select_naming_events(events, mark_op_line_events(events))
    names: dict[int, list[str]] = {}
    for program_id, name in number_instruction_keys(events, rows[read_program_ids(events)[0][rows]])[0]:
        names.setdefault(program_id, []).append(name)
    read = {program_id: modules.module(program_id) for program_id in names}
    rows_of = {number: module.find(names[number]) for number, module in read.items() if module is not None}
    return [number for number, rows in rows_of.items() if (rows >= 0).any()]


def number_instruction_keys(events: HostEvents, rows: Numbers) -> tuple[list[tuple[int, str]], Int32s]:
    """Return the instructions that these events name, each as the id of its program and its name; and the place of that
    of each event among them."""
    at, numbers = events.texts("hlo_op")
    program = read_program_ids(events)[1][rows]
    first, pair = number_distinct_rows([program, numbers[np.searchsorted(at, rows)]])
    names = events.all_texts(numbers[np.searchsorted(at, rows[first])])
    places: dict[tuple[int, str], int] = {}
    keys = zip(program[first].tolist(), map(take_last_name, names), strict=True)
    place = np.array([places.setdefault(key, len(places)) for key in keys], np.int32)
    return list(places), place[pair]


def find_program_ops(
    keys: list[tuple[int, str]], modules: Modules, counting: Counting | None = None
) -> list[GpuOp | None]:
    """Return the instructions of programs; None if the program or the instruction is unknown."""
    ops: list[GpuOp | None] = [None] * len(keys)
    of_program: dict[int, list[int]] = {}
    for place, (program_id, _) in enumerate(keys):
        of_program.setdefault(program_id, []).append(place)
    for program_id, places in of_program.items():
        instructions = find_instructions(modules, program_id, [keys[place][1] for place in places], counting)
        for place, instruction in zip(places, instructions, strict=True):
            ops[place] = instruction
    return ops


def take_last_name(hlo_op: str) -> str:
    """Return the last of several names of instructions."""
    return hlo_op.split("::")[-1]


def find_instructions(
    modules: Modules, program_id: int, names: list[str], counting: Counting | None = None
) -> list[GpuOp | None]:
    """Return the instructions of a program as ops; None if the program or the instruction is unknown."""
    ops: list[GpuOp | None] = []
    for instruction in modules.find(program_id, names, counting):
        if instruction is None:
            ops.append(None)
            continue
        known = (
            instruction.name,
            instruction.category,
            instruction.framework_op,
            instruction.cost,
            instruction.long_name,
            instruction.deduplicated_name,
            instruction.source,
        )
        ops.append(GpuOp(program_id, *known, is_hlo=True, device_cost=instruction.device_cost))
    return ops


def make_description_columns(ops: Sequence[GpuOp]) -> dict[str, list[Any]]:
    """Return the columns of an OpTable that say what ops are, without their names."""
    names = ("program_id", "category", "provenance", "long_name", "deduplicated_name")
    columns = {name: [getattr(op, name) for op in ops] for name in names}
    source = ("source_file", "source_line", "source_stack")
    return columns | {name: [op.source[place] for op in ops] for place, name in enumerate(source)}


def read_program_ids(events: HostEvents) -> tuple[Bools, Int64s]:
    """Return, per row, whether an event records its program, and which."""
    rows, values = events.ints("program_id")
    present = np.zeros(len(events), bool)
    program = np.zeros(len(events), np.int64)
    present[rows] = True
    program[rows] = values
    return present, program


def _add_framework_ops(events: HostEvents, wanted: Bools, ops: OpList, op: Int32s) -> None:
    """Add the framework ops that other events ran, one for each op and kernel, and write the events' ops."""
    rows, numbers = _select_wanted(wanted, *events.texts("tf_op"))
    texts, text = number_distinct(numbers)
    full_names = events.all_texts(texts)
    kernels = len(events.names)
    pairs, pair = number_distinct(text.astype(np.int64) * kernels + events.meta[rows] % kernels)
    op_of_pair = np.full(len(pairs), -1, np.int32)
    for i, key in enumerate(pairs.tolist()):
        full_name = full_names[key // kernels]
        if full_name:
            op_of_pair[i] = ops.add(make_framework_op(full_name, events.names[key % kernels]))
    op[rows] = op_of_pair[pair]


def make_framework_op(full_name: str, kernel: str) -> GpuOp:
    """Return the op of a framework together with a kernel that it ran."""
    parsed = parse_op_name(full_name)
    return GpuOp(0, f"{parsed.name}/{kernel}", parsed.type or UNKNOWN_TYPE, full_name, NOTHING)


def make_torch_op(name: str, kernel: str) -> GpuOp:
    """Return the op of PyTorch together with a kernel that it ran: its name is its type, too."""
    return GpuOp(0, f"{name}/{kernel}", name, name, NOTHING)


def _select_wanted(wanted: Bools, rows: Numbers, values: Numbers) -> tuple[Numbers, Numbers]:
    keep = wanted[rows]
    return rows[keep], values[keep]


TEXTS: Final = ("hlo_op", "hlo_module", "tf_op", "annotation")
_OF_XLA = compile_late(r"[#,](hlo_op|hlo_module|program_id)=([^,#]*)")
_DETAILS = compile_late(r"#[^#]*(?:#|$)")
_LARGEST = 1 << 64


@dataclass(frozen=True, slots=True)
class OpReference:
    """What an event names. ``hlo_op``, ``module``, ``tf_op``, ``torch_op``: "" if not named."""

    hlo_op: str = ""
    program_id: int | None = None
    module: str = ""
    tf_op: str = ""
    torch_op: str = ""
    from_annotation: bool = False

    @property
    def names_op(self) -> bool:
        return bool(self.hlo_op or self.tf_op or self.torch_op)

    @property
    def names_program(self) -> bool:
        return self.program_id is not None or bool(self.module)


def parse_annotation(text: str) -> OpReference:
    """Return what an annotation names; of several ops the innermost."""
    of_xla = dict(_OF_XLA.findall(text))
    parts = [part.rstrip("#") for part in _DETAILS.sub("#", text).split("::")]
    names = [name for name in parts if name and name.partition(":")[0] not in ("XlaModule", "Thunk", "XlaOp")]
    typed = [name for name in names if ":" in name]
    program = of_xla.get("program_id", "")
    number = int(program) if program.isascii() and program.isdigit() and len(program) <= 20 else _LARGEST
    signed = number - _LARGEST if number >> 63 else number
    return OpReference(
        take_last_name(of_xla.get("hlo_op", "")),
        signed if number < _LARGEST else None,
        of_xla.get("hlo_module", ""),
        (typed or names or [""])[-1],
        from_annotation=True,
    )


@dataclass(slots=True)
class OpReferences:
    """Reads references off events, each distinct one once."""

    events: HostEvents
    each: list[OpReference] = field(default_factory=list)
    _numbers: dict[OpReference, int] = field(default_factory=dict)

    def of_rows(self, rows: Int64s, *, by_name: bool = False) -> npt.NDArray[np.int32]:
        """Return the places in ``each`` of what these events refer to; -1 if nothing. ``by_name``: their names count
        too."""
        if not len(rows):
            return np.zeros(0, np.int32)
        columns: list[Any] = [join_values(*self.events.texts(name), rows) for name in TEXTS]
        at, programs = self.events.ints("program_id")
        columns += [find_present(at, rows)[0], join_values(at, programs, rows, 0)]
        named = np.full(len(rows), -1, np.int64)
        if by_name:
            metas = self.events.meta[rows].astype(np.int64)
            named = np.where(self._names_op()[metas], metas, -1)
        columns.append(named)
        first, number = number_distinct_rows(columns)
        places = [self._number(*(int(column[at]) for column in columns)) for at in first.tolist()]
        return np.array(places, np.int32)[number]

    def possible(self) -> Bools:
        """Return, per row, whether an event has a stat that may name something, the name of a TensorFlow op, or is a
        PyTorch op."""
        named = self._names_op()[self.events.meta]
        for stat in TEXTS:
            named[self.events.texts(stat)[0]] = True
        return named

    def _names_op(self) -> Bools:
        """Return, per row of metadata, whether its name is that of an op of TensorFlow, or it is an op of PyTorch."""
        if is_kineto(self.events):
            return may_launch(self.events)
        names = self.events.names
        return np.array([":" in name and parse_op_name(name).framework is Framework.TENSORFLOW for name in names], bool)

    def _number(self, hlo: int, module: int, tf_op: int, annotation: int, has: int, program: int, name: int) -> int:
        op, of_module, framework_op, annotated = (
            "" if number < 0 else self.events.text(number) for number in (hlo, module, tf_op, annotation)
        )
        framework_op = "" if framework_op in NO_OPS else framework_op
        reference = OpReference(take_last_name(op), program if has else None, of_module, framework_op)
        if not reference.names_op:
            other = parse_annotation(annotated)
            reference = other if other.names_op or (other.names_program and not reference.names_program) else reference
        if not reference.names_op and name >= 0:
            own = self.events.names[name]
            of_torch = is_kineto(self.events)
            reference = replace(reference, tf_op="" if of_torch else own, torch_op=own if of_torch else "")
        if not reference.names_op and not reference.names_program:
            return -1
        place = self._numbers.setdefault(reference, len(self.each))
        if place == len(self.each):
            self.each.append(reference)
        return place
