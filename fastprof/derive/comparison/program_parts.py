"""Compiled programs of a run as a comparison sees them: instructions with contents that survive renaming and
renumbering."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from fastprof.decode.import_log import ImportLog
from fastprof.derive.comparison.part_matching import get_stem
from fastprof.errors import CaptureError
from fastprof.hlo.cost import CostModel
from fastprof.hlo.module import HloModule
from fastprof.hlo.programs import Program
from fastprof.hlo.work import GENERAL
from fastprof.schema.value_classes import dataclass
from fastprof.wording.quantities import shorten_name

MOST_PROGRAMS: Final = 16
"""Programs of a run that are compared: those with most device time."""
_MOST_READ: Final = 64
"""Programs of a run that are decoded: recompilations mostly give equal ones."""
_LONGEST: Final = 200
"""Most letters of the name of a program."""
FUSION: Final = "fusion"
_FREE: Final = frozenset(
    ("tuple", "get-tuple-element", "constant", "bitcast", "after-all", "partition-id", "replica-id")
)
"""Opcodes that take no time and say nothing about a program."""
_RUN_OTHERS: Final = frozenset(("while", "conditional", "call", "async-start"))
_MOST_CONTENTS, _DEEPEST = 4_096, 16
"""Most atoms of a fusion, and fusions in each other that are looked into."""

Atom = tuple[str, str, str]
"""Opcode, shape without layout, and framework op of an instruction."""


@dataclass(frozen=True, slots=True)
class ProgramInstruction:
    """An instruction that runs by itself: not part of a fusion. ``contents``: its own atom, or those of all fused
    instructions, sorted. ``shape``: with layout. ``flops``, ``accessed_bytes``: of one execution, 0 if unknown;
    ``padding_bytes``: of its result."""

    name: str
    opcode: str
    shape: str
    plain_shape: str
    op_name: str
    contents: tuple[Atom, ...]
    flops: int
    accessed_bytes: int
    padding_bytes: int


@dataclass(frozen=True, slots=True)
class RunProgram:
    """A program, or several of one name and structure, such as after recompilations. ``name``: title without numbers;
    ``ids``: all program ids; ``instruction_count``: with fused instructions; ``peak_bytes``: of device memory, None if
    unknown; ``signature``: how often each opcode with its shape occurs."""

    title: str
    name: str
    ids: frozenset[int]
    instructions: tuple[ProgramInstruction, ...]
    instruction_count: int
    peak_bytes: int | None
    signature: Mapping[tuple[str, str], int]


def list_run_programs(
    programs: Sequence[Program], time_by_id: Mapping[int, float], peaks: Mapping[int, int | None]
) -> tuple[list[RunProgram], int]:
    """Return the programs that ran, longest device time first; all if none is known to have run; and the number of
    programs beyond the most that are compared. ``time_by_id``: device time; ``peaks``: peak of device memory. Programs
    that do not decode are left out."""
    listed = {(program.id, program.title): program for program in reversed(programs)}  # hosts mostly have the same ones
    ran = [program for program in reversed(listed.values()) if program.id in time_by_id] or [*reversed(listed.values())]
    distinct: dict[bytes, list[Program]] = {}
    for program in sorted(ran, key=lambda program: -time_by_id.get(program.id, 0)):
        distinct.setdefault(program.digest, []).append(program)
    grouped: dict[object, list[RunProgram]] = {}
    tried = 0
    for same in islice(distinct.values(), _MOST_READ):
        if len(grouped) == MOST_PROGRAMS:
            break
        tried += 1
        try:
            read = _read_program(same, peaks)
        except (LookupError, ValueError, CaptureError):
            continue
        grouped.setdefault((read.name, frozenset(read.signature.items())), []).append(read)
    every = [
        replace(versions[0], ids=frozenset(number for version in versions for number in version.ids))
        for versions in grouped.values()
    ]
    return every, len(distinct) - tried


def _read_program(same: Sequence[Program], peaks: Mapping[int, int | None]) -> RunProgram:
    program = same[0]
    module = program.read(ImportLog())
    instructions = tuple(_list_instructions(module))
    signature = Counter(atom[:2] for instruction in instructions for atom in instruction.contents)
    ids = frozenset(each.id for each in same)
    title = shorten_name(program.title, _LONGEST)
    name = get_stem(shorten_name(module.name, _LONGEST) or title)
    peak = next((peaks[number] for number in ids if peaks.get(number) is not None), None)
    return RunProgram(title, name, ids, instructions, len(module), peak, signature)


def _list_instructions(module: HloModule) -> Iterator[ProgramInstruction]:
    """Yield the instructions of the entry computation, and of the loops and branches that it runs."""
    costs, fused = CostModel(module, GENERAL), dict[int, tuple[Atom, ...]]()
    waiting, seen = [module.entry], set[int]()
    while waiting:
        computation = waiting.pop()
        if computation in seen or computation < 0:
            continue
        seen.add(computation)
        for row in module.rows_of(computation):
            opcode = module.opcodes[row]
            if opcode in _RUN_OTHERS:
                waiting.extend(module.calls_of(row))
            if opcode in _FREE or opcode in _RUN_OTHERS:
                continue
            calls = module.calls_of(row) if opcode == FUSION else []
            contents = _list_contents(module, calls[0], fused) if calls and calls[0] >= 0 else ()
            instruction, cost = module.instruction(row), costs.cost(row)
            plain, op_name = module.plain_shape_text(row), module.op_name(row)
            padded = instruction.shape.padded_bytes
            yield ProgramInstruction(
                module.names[row], opcode, module.shape_text(module.shape_rows[row]), plain, op_name,
                contents or ((opcode, plain, op_name),),
                cost.model_flops if cost.is_known else 0,
                cost.bytes_accessed if cost.is_known else 0,
                0 if padded is None else max(padded - instruction.shape.leaf_bytes, 0),
            )  # fmt: skip


def _list_contents(
    module: HloModule, computation: int, fused: dict[int, tuple[Atom, ...]], depth: int = 0
) -> tuple[Atom, ...]:
    """Return the sorted atoms of a fused computation, with those of fusions in it. ``fused``: contents by computation,
    which it extends."""
    if computation not in fused:
        fused[computation] = ()  # ends cycles of damaged programs
        atoms: list[Atom] = []
        for row in module.rows_of(computation):
            opcode = module.opcodes[row]
            calls = module.calls_of(row) if opcode == FUSION else []
            if len(atoms) >= _MOST_CONTENTS:
                break
            if calls and calls[0] >= 0 and depth < _DEEPEST:
                atoms += fused.get(calls[0]) or _list_contents(module, calls[0], fused, depth + 1)
            elif opcode not in _FREE and opcode != "parameter":
                atoms.append((opcode, module.plain_shape_text(row), module.op_name(row)))
        fused[computation] = tuple(sorted(atoms[:_MOST_CONTENTS]))
    return fused[computation]
