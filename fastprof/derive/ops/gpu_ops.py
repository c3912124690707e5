"""The ops of GPUs that their own events name: the instruction of a compiled program, or the op of a framework, that
each kernel belongs to.

A kernel's op is what its stats ``program_id`` and ``hlo_op`` name (of several names the last), if the capture carries
that program; else what its stat ``tf_op`` names, together with the kernel's own name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof.derive.devices.op_names import parse
from fastprof.derive.ops.kernel_names import DETAILS_OF_MEMORY, KERNEL_DETAILS, copy_category
from fastprof.derive.ops.stat_values import Numbers, distinct, distinct_rows
from fastprof.derive.steps.device_steps import is_derived
from fastprof.hlo.modules import Found, Modules
from fastprof.hlo.work import NOTHING, Cost, Counting
from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, Line, Plane
from fastprof.tables.once import once

UNKNOWN_TYPE: Final = "unknown"
"""Category of an op of a framework whose type is not recorded."""


@dataclass(frozen=True, slots=True)
class GpuOp:
    """What is known of one op; ``cost`` is that of one kernel of it, to XProf. Framework ops are of no program: 0."""

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
    """Whether it is an instruction of a program."""
    reason: str = ""
    """Why the op is unknown; "": it is known."""
    device_cost: Cost = NOTHING
    """``cost``, with what XLA's model leaves out, and of one execution, which may run several kernels."""


@dataclass(slots=True)
class OpList:
    """Ops as they are met, each once for each key."""

    ops: list[GpuOp] = field(default_factory=list)
    places: dict[tuple[bool, int, str], int] = field(default_factory=dict)

    def add(self, op: GpuOp) -> int:
        """The place of the op, or of the one of its key that was met before."""
        place = self.places.setdefault((op.is_hlo, op.program_id, op.name), len(self.ops))
        if place == len(self.ops):
            self.ops.append(op)
        return place


@dataclass(frozen=True, slots=True)
class GpuOpEvents:
    """``op``: by row of the host's events the place of its op in ``ops``; -1: none. ``is_hlo``: by op, whether it is an
    instruction of a program. ``way``: by row, how its op is known, see attribution.py."""

    ops: list[GpuOp]
    op: Int32s
    is_hlo: Bools
    way: npt.NDArray[np.uint8]

    def device_cost(self, number: int) -> Cost:
        """Of an op by its place. A device needs those of its own ops, not of all that the host ran."""
        return self.ops[number].device_cost


def op_lines(plane: Plane) -> list[Line]:
    """The lines with events that a GPU recorded."""
    return [line for line in plane.lines if not is_derived(line) and line.last > line.first]


def on_op_lines(events: HostEvents) -> Bools:
    """Which events are on such lines of GPUs."""
    wanted = np.zeros(len(events), bool)
    for plane in events.planes_of("GPU"):
        for line in op_lines(plane):
            wanted[line.first : line.last] = True
    return wanted


def is_kernel(events: HostEvents) -> Bools:
    """Return a mask of the kernel events: all GPU stream events except memory copies and fills. Copies with recorded
    launch dimensions are kernels, as on ROCm."""
    of_memory = np.array([bool(copy_category(name)) for name in events.names] + [False], bool)
    moves = of_memory[events.meta]
    for stat in DETAILS_OF_MEMORY:
        if stat in events.stats:
            moves[events.texts(stat)[0]] = True
    if KERNEL_DETAILS in events.stats:
        moves[events.texts(KERNEL_DETAILS)[0]] = False
    found: Bools = on_op_lines(events) & ~moves
    return found


@once
def named_op_events(events: HostEvents, modules: Modules) -> GpuOpEvents:
    """The op of each event of a GPU that names a known one: those that XProf counts."""
    wanted = on_op_lines(events)
    found = OpList()
    op = np.full(len(events), -1, np.int32)
    compiled = _of_programs(events, wanted, modules, found, op)
    _of_frameworks(events, wanted & ~compiled, found, op)
    is_hlo = np.array([one.is_hlo for one in found.ops], bool)
    return GpuOpEvents(found.ops, op, is_hlo, np.zeros(len(events), np.uint8))


def _of_programs(events: HostEvents, wanted: Bools, modules: Modules, found: OpList, op: Int32s) -> Bools:
    """Adds the instructions that events ran, and writes the events' ops. Returns which events name an instruction,
    whether it is known or not."""
    rows = _naming(events, wanted)
    names_one = np.zeros(len(events), bool)
    names_one[rows] = True
    rows = rows[programs(events)[0][rows]]
    keys, key = instruction_keys(events, rows)
    ops = [-1 if one is None else found.add(one) for one in described_by_programs(keys, modules)]
    op[rows] = np.array(ops, np.int32)[key]
    return names_one


def _naming(events: HostEvents, wanted: Bools) -> Numbers:
    """The rows of events that name an instruction."""
    rows, numbers = _in(wanted, *events.texts("hlo_op"))
    texts, text = distinct(numbers)
    named: Numbers = rows[np.array([bool(one) for one in events.all_texts(texts)], bool)[text]]
    return named


def named_programs(events: HostEvents, modules: Modules) -> list[int]:
    """The ids of programs with instructions that ``named_op_events`` finds, which takes far longer: it has their costs,
    too."""
    rows = _naming(events, on_op_lines(events))
    names: dict[int, list[str]] = {}
    for program_id, name in instruction_keys(events, rows[programs(events)[0][rows]])[0]:
        names.setdefault(program_id, []).append(name)
    read = {program_id: modules.module(program_id) for program_id in names}
    return [one for one, module in read.items() if module is not None and bool((module.find(names[one]) >= 0).any())]


def instruction_keys(events: HostEvents, rows: Numbers) -> tuple[list[tuple[int, str]], Int32s]:
    """The instructions that these events name, each as the id of its program and its name; and the place of that of
    each event among them."""
    at, numbers = events.texts("hlo_op")
    program = programs(events)[1][rows]
    first, pair = distinct_rows([program, numbers[np.searchsorted(at, rows)]])
    names = events.all_texts(numbers[np.searchsorted(at, rows[first])])
    places: dict[tuple[int, str], int] = {}
    keys = zip(program[first].tolist(), map(last_name, names), strict=True)
    place = np.array([places.setdefault(key, len(places)) for key in keys], np.int32)
    return list(places), place[pair]


def described_by_programs(
    keys: list[tuple[int, str]], modules: Modules, counting: Counting | None = None
) -> list[GpuOp | None]:
    """The instructions of programs; None: there is no such program or instruction."""
    ops: list[GpuOp | None] = [None] * len(keys)
    of_program: dict[int, list[int]] = {}
    for place, (program_id, _) in enumerate(keys):
        of_program.setdefault(program_id, []).append(place)
    for program_id, places in of_program.items():
        found = instructions(modules, program_id, [keys[place][1] for place in places], counting)
        for place, one in zip(places, found, strict=True):
            ops[place] = one
    return ops


def last_name(hlo_op: str) -> str:
    """Of several names of instructions the last."""
    return hlo_op.split("::")[-1]


def instructions(
    modules: Modules, program_id: int, names: list[str], counting: Counting | None = None
) -> list[GpuOp | None]:
    """The instructions of a program as ops; None: there is no such program or instruction."""
    found = modules.find(program_id, names, counting)
    return [None if one is None else _op_of(program_id, one) for one in found]


def _op_of(program_id: int, one: Found) -> GpuOp:
    known = (one.name, one.category, one.framework_op, one.cost, one.long_name, one.deduplicated_name, one.source)
    return GpuOp(program_id, *known, is_hlo=True, device_cost=one.device_cost)


def described(ops: Sequence[GpuOp]) -> dict[str, list[Any]]:
    """The columns of an OpTable that say what ops are, without their names."""
    names = ("program_id", "category", "provenance", "long_name", "deduplicated_name")
    columns = {name: [getattr(one, name) for one in ops] for name in names}
    source = ("source_file", "source_line", "source_stack")
    return columns | {name: [one.source[place] for one in ops] for place, name in enumerate(source)}


def programs(events: HostEvents) -> tuple[Bools, Int64s]:
    """By row, whether an event records its program, and which."""
    rows, values = events.ints("program_id")
    present = np.zeros(len(events), bool)
    program = np.zeros(len(events), np.int64)
    present[rows] = True
    program[rows] = values
    return present, program


def _of_frameworks(events: HostEvents, wanted: Bools, found: OpList, op: Int32s) -> None:
    """Adds the ops of frameworks that other events ran, one for each op and kernel, and writes the events' ops."""
    rows, numbers = _in(wanted, *events.texts("tf_op"))
    texts, text = distinct(numbers)
    full_names = events.all_texts(texts)
    kernels = len(events.names)
    pairs, pair = distinct(text.astype(np.int64) * kernels + events.meta[rows] % kernels)
    op_of_pair = np.full(len(pairs), -1, np.int32)
    for i, one in enumerate(pairs.tolist()):
        full_name = full_names[one // kernels]
        if full_name:
            op_of_pair[i] = found.add(framework_op(full_name, events.names[one % kernels]))
    op[rows] = op_of_pair[pair]


def framework_op(full_name: str, kernel: str) -> GpuOp:
    """The op of a framework together with a kernel that it ran."""
    parsed = parse(full_name)
    return GpuOp(0, f"{parsed.name}/{kernel}", parsed.type or UNKNOWN_TYPE, full_name, NOTHING)


def torch_op(name: str, kernel: str) -> GpuOp:
    """The op of PyTorch together with a kernel that it ran: its name is its type, too."""
    return GpuOp(0, f"{name}/{kernel}", name, name, NOTHING)


def _in(wanted: Bools, rows: Numbers, values: Numbers) -> tuple[Numbers, Numbers]:
    keep = wanted[rows]
    return rows[keep], values[keep]
