"""Compiled programs of two runs: their exact quantities, and the instructions that changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from fastprof.derive.comparison.program_changes import (
    GONE,
    NEW,
    InstructionChange,
    ProgramPair,
    describe_instruction_change,
    list_instruction_changes,
    list_program_quantities,
    pair_programs,
)
from fastprof.derive.comparison.program_parts import ProgramInstruction, RunProgram
from fastprof.derive.comparison.step_parts import StepPart
from fastprof.schema.tables import Bytes, Count, Number, Picoseconds, String, TableSchema
from fastprof.schema.value_classes import dataclass
from fastprof.wording.quantities import list_few, shorten_name

TABLES: Final = {
    "programs": TableSchema("programs", "a quantity of a compiled program that ran in the compared steps, changed ones "
                            "first; exact", (
        String("program", "program name without numbers"),
        String("base_program", "program in the base run; null: it has none"),
        String("new_program", "program in the new run; null: it has none"),
        String("matched", "name, or structure: programs of different names with mostly equal instructions; null: only "
               "one run has the program"),
        String("quantity", "compilations: programs of this name and structure; instructions, with fused ones; fusions; "
               "flops, accessed_bytes and padding_bytes of all instructions, loops once; peak_bytes of device memory; "
               "or the instructions of an opcode, if their number changed"),
        String("unit", "bytes; null: a count"),
        Number("base", "value in the base run; null: unknown, or no such program"),
        Number("new", "value in the new run; null: unknown, or no such program"),
        Number("change", "new - base; null: one is unknown"),
    ), derived=True),
    "program_changes": TableSchema("program_changes", "a change of instructions of a program that both runs have, "
                                   "largest change of time first; instructions are matched by contents", (
        String("program", "program name without numbers"),
        String("kind", "split, merged, regrouped: fusions that share their contents; contents: one fusion with other "
               "contents; layout; shape; new; gone"),
        String("title", "the change in words"),
        String("base_names", "instructions in the base run; null: it has none"),
        String("new_names", "instructions in the new run; null: it has none"),
        String("op_name", "framework op of the first instruction; null: not recorded"),
        Count("base_count", "number of instructions in the base run"),
        Count("new_count", "number of instructions in the new run"),
        String("base_shape", "shape of the result with layout in the base run; null: not one instruction"),
        String("new_shape", "shape of the result with layout in the new run; null: not one instruction"),
        Count("base_flops", "operations of one execution in the base run"),
        Count("new_flops", "operations of one execution in the new run"),
        Bytes("base_accessed_bytes", "bytes read and written by one execution in the base run"),
        Bytes("new_accessed_bytes", "bytes read and written by one execution in the new run"),
        Bytes("base_padding_bytes", "padding of results in the base run"),
        Bytes("new_padding_bytes", "padding of results in the new run"),
        Picoseconds("change_ps", "change of time per step; null: the instructions did not run in the compared steps"),
    ), derived=True),
}  # fmt: skip
_MOST_LINKED: Final = 8
"""Most instructions of a change that are one row of the changes of the mean step."""
_LONGEST: Final = 200


@dataclass(frozen=True, slots=True)
class ComparedPrograms:
    """Programs of two runs in pairs, and their changes. ``links``: by side, program id and instruction name the number
    of its change."""

    pairs: Sequence[ProgramPair]
    changes: Sequence[InstructionChange]
    links: tuple[Mapping[tuple[int, str], int], Mapping[tuple[int, str], int]]

    def link_parts(self, parts: Iterable[StepPart], side: int) -> list[StepPart]:
        """Return parts of the mean step with the change that they belong to. ``side``: 0 for the base run, 1 for the
        new one."""
        links = self.links[side]
        return [
            part if part.program is None else replace(part, change=links.get((part.program, part.name), -1))
            for part in parts
        ]

    def describe_change(self, number: int) -> str | None:
        """Describe a change by its number; None for -1."""
        return None if number < 0 else describe_instruction_change(self.changes[number])


def compare_compiled(base: Sequence[RunProgram], new: Sequence[RunProgram]) -> ComparedPrograms:
    """Compare the programs of two runs."""
    pairs = pair_programs(base, new)
    changes = [change for pair in pairs for change in list_instruction_changes(pair)]
    links: tuple[dict[tuple[int, str], int], dict[tuple[int, str], int]] = ({}, {})
    for number, change in enumerate(changes):
        if change.kind in (NEW, GONE) or len(change.base) + len(change.new) > _MOST_LINKED:
            continue
        sides = ((change.program.base, change.base), (change.program.new, change.new))
        for known, (program, instructions) in zip(links, sides, strict=True):
            for instruction in instructions:
                known.update(((each, instruction.name), number) for each in program.ids if program)
    return ComparedPrograms(pairs, changes, links)


def list_program_rows(compared: ComparedPrograms) -> list[dict[str, Any]]:
    """Return the rows of the table programs."""
    rows = []
    for pair in compared.pairs:
        for quantity, unit, base, new in list_program_quantities(pair):
            if base is None and new is None:
                continue
            rows.append({
                "program": pair.name,
                "base_program": pair.base.title if pair.base else None,
                "new_program": pair.new.title if pair.new else None,
                "matched": pair.matched or None,
                "quantity": quantity, "unit": unit, "base": base, "new": new,
                "change": None if base is None or new is None else new - base,
            })  # fmt: skip
    return sorted(rows, key=lambda row: not row["change"])


def list_change_rows(
    compared: ComparedPrograms, base_parts: Iterable[StepPart], new_parts: Iterable[StepPart]
) -> list[dict[str, Any]]:
    """Return the rows of the table program_changes. Parts: of the mean steps."""
    times: tuple[dict[tuple[int, str], float], ...] = ({}, {})
    for known, parts in zip(times, (base_parts, new_parts), strict=True):
        for part in parts:
            if part.program is not None:
                place = part.program, part.name
                known[place] = known.get(place, 0.0) + part.time_ps
    rows = []
    for change in compared.changes:
        pair = change.program
        sides = [(times[0], pair.base, change.base), (times[1], pair.new, change.new)]
        spent = [
            [known[number, each.name] for each in some for number in program.ids if (number, each.name) in known]
            for known, program, some in sides
            if program is not None
        ]
        first = (*change.new, *change.base)[0]
        amounts = {
            f"{side}_{name}": amount
            for name in ("flops", "accessed_bytes", "padding_bytes")
            for side, amount in zip(("base", "new"), getattr(change, name), strict=True)
        }
        rows.append({
            "program": change.program.name, "kind": change.kind, "title": describe_instruction_change(change),
            "base_names": list_few([each.name for each in change.base]) or None,
            "new_names": list_few([each.name for each in change.new]) or None,
            "op_name": first.op_name or None, "base_count": len(change.base), "new_count": len(change.new),
            "base_shape": _get_shape(change.base), "new_shape": _get_shape(change.new), **amounts,
            "change_ps": round(sum(spent[1]) - sum(spent[0])) if any(spent) else None,
        })  # fmt: skip
    return sorted(rows, key=lambda row: -abs(row["change_ps"] or 0))


def _get_shape(instructions: Sequence[ProgramInstruction]) -> str | None:
    return shorten_name(instructions[0].shape, _LONGEST) if len(instructions) == 1 else None
