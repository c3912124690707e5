"""Tables of a comparison beside its times: compiled programs and their changed instructions, annotations,
communication, memory and input pipelines of two runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from fastprof.analyses.contract import Known, ScalarSpec
from fastprof.derive.comparison.part_matching import RunSteps, StepPart
from fastprof.derive.comparison.program_changes import (
    GONE,
    NEW,
    InstructionChange,
    ProgramInstruction,
    ProgramPair,
    RunProgram,
    describe_instruction_change,
    list_instruction_changes,
    list_program_quantities,
    name_instructions,
    pair_programs,
)
from fastprof.schema.tables import Bytes, Column, Count, Number, Picoseconds, String, TableSchema
from fastprof.schema.value_classes import dataclass
from fastprof.wording.quantities import shorten_name

TABLES: Final[dict[str, TableSchema]] = {
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
        numbers = ((part, -1 if part.program is None else links.get((part.program, part.name), -1)) for part in parts)
        return [part if number < 0 else replace(part, change=number) for part, number in numbers]

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
            ids = program.ids if program is not None else ()
            known.update(((each, instruction.name), number) for instruction in instructions for each in ids)
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
            "base_names": name_instructions(change.base) or None,
            "new_names": name_instructions(change.new) or None,
            "op_name": shorten_name(first.op_name, _LONGEST) or None,
            "base_count": len(change.base), "new_count": len(change.new),
            "base_shape": _get_shape(change.base), "new_shape": _get_shape(change.new), **amounts,
            "change_ps": round(sum(spent[1]) - sum(spent[0])) if any(spent) else None,
        })  # fmt: skip
    return sorted(rows, key=lambda row: -abs(row["change_ps"] or 0))


def _get_shape(instructions: Sequence[ProgramInstruction]) -> str | None:
    return shorten_name(instructions[0].shape, _LONGEST) if len(instructions) == 1 else None


# ---- records

REPORTS: Final = ("annotations", "communication", "tf_data", "input_pipeline")
"""Analyses of each run that have records, beside those that make the verdict."""
Key = tuple[str, ...]
Amounts = Mapping[Key, Sequence[float]]
"""Values of a table by key, in the order of ``Recorded.amounts``."""
_ITERATOR: Final = "Iterator::"
_MOST: Final = 1_000
"""Rows of a table that are kept of a run, the largest."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A table of what runs recorded. ``keys``, ``amounts``: columns with descriptions; each amount has a column for
    each run and its change; ``figure``: name of the number of rows; ``absent``: why there are none."""

    row: str
    keys: Mapping[str, str]
    amounts: Mapping[str, str]
    figure: str
    absent: str

    def make_schema(self, name: str) -> TableSchema:
        columns: list[Column] = [String(key, description) for key, description in self.keys.items()]
        for amount, description in self.amounts.items():
            make = {"ps": Picoseconds, "bytes": Bytes}.get(amount.rpartition("_")[2], Number)
            for side in ("base", "new"):
                text = f"{description}, in the {side} run; null: the run recorded nothing of this table"
                columns.append(make(f"{side}_{amount}", text))
            columns.append(make(name_change(amount), f"new_{amount} - base_{amount}; null: one is unknown"))
        return TableSchema(name, f"{self.row}, largest change first", tuple(columns), derived=True)


def name_change(amount: str) -> str:
    """Return the column of the change of an amount, its unit last."""
    stem, _, unit = amount.rpartition("_")
    return f"{stem}_change_{unit}" if stem else f"{unit}_change"


_RECORDED: Final = {
    "annotations": Recorded("a user annotation in the steps that count", {"name": "annotation name"}, {
        "time_ps": "time per step on a host, summed over threads",
        "count": "occurrences per step on a host",
    }, "annotation_count", "neither run has annotations in the steps that count"),
    "communication": Recorded("a kind of communication in the steps that count", {
        "kind": "kind of communication, such as all-reduce",
        "scope": "where the data move: between devices, with the host, within the device",
    }, {
        "exposed_ps": "time per step and device without compute",
        "hidden_ps": "time per step and device while the device computes",
    }, "communication_kind_count", "neither run has communication in the steps that count"),
    "memory": Recorded("a memory peak, or memory in use at it", {
        "kind": "allocator: its peak; op: memory of ops with similar names in use at the peak",
        "allocator": "name of the allocator, or number of the device",
        "name": "names of the ops, * for numbers; of an allocator its name",
    }, {"size_bytes": "bytes on the host that has most"}, "memory_row_count", "neither run records allocations"),
    "pipelines": Recorded("a part of an input pipeline", {
        "kind": "pipeline: steps wait for it; iterator: an iterator of tf.data; input op: another op that reads, "
                "preprocesses or transfers input",
        "name": "pipeline, long name of the iterator, or op",
    }, {
        "time_ps": "waiting or self time per step on a host; of an iterator per call of its pipeline",
        "count": "calls per step on a host; of an iterator per call of its pipeline",
    }, "pipeline_part_count", "neither run records input pipelines or input ops"),
}  # fmt: skip
_NO_PROGRAMS: Final = "neither run has compiled programs"
SCALARS: Final = {"program_count": ScalarSpec(None, f"compiled programs that ran; null: {_NO_PROGRAMS}")} | {
    each.figure: ScalarSpec(None, f"rows of the table {name}; null: {each.absent}") for name, each in _RECORDED.items()
}
TABLES.update({name: recorded.make_schema(name) for name, recorded in _RECORDED.items()})


class _Reported(Protocol):
    @property
    def tables(self) -> Mapping[str, pa.Table]: ...


def collect_records(reports: Mapping[str, _Reported], steps: RunSteps, hosts: int) -> dict[str, Amounts]:
    """Return the records of a run by table; tables without rows are absent. ``reports``: REPORTS and memory_profile;
    ``steps``: the judged ones count."""
    judged, count = pa.array(steps.judged), len(steps.judged)

    def read(report: str, table: str) -> pa.Table:
        rows = reports[report].tables[table]
        return rows.filter(pc.is_in(rows["step"], value_set=judged)) if "step" in rows.column_names else rows

    communication, iterators = read("communication", "step_kinds"), read("tf_data", "iterators")
    devices = len(_average_rows(communication, ("host", "device"), (), 1))
    calls = pc.sum(read("tf_data", "pipelines")["call_count"]).as_py() or 0
    ops = read("input_pipeline", "input_ops")
    if iterators.num_rows:
        ops = ops.filter(pc.invert(pc.starts_with(ops["name"], _ITERATOR)))
    waits = _average_rows(read("tf_data", "step_waits"), ("pipeline",), ("wait_ps", "call_count"), count * hosts)
    of_iterators = _average_rows(iterators, ("long_name",), ("self_ps", "call_count"), calls)
    of_ops = _average_rows(ops, ("name",), ("self_ps", "occurrences"), len(steps.number) * hosts)
    pipelines = {"pipeline": waits, "iterator": of_iterators, "input op": of_ops}
    tables = {
        "annotations": _average_rows(
            read("annotations", "steps"), ("name",), ("total_ps", "count"), count * hosts
        ),
        "communication": _average_rows(
            communication, ("kind", "scope"), ("exposed_ps", "hidden_ps"), count * devices
        ),
        "memory": _find_most_memory(
            read("memory_profile", "allocators").to_pylist(), read("memory_profile", "active_groups").to_pylist()
        ),
        "pipelines": {(kind, *key): amounts for kind, rows in pipelines.items() for key, amounts in rows.items()},
    }  # fmt: skip
    return {
        name: dict(sorted(table.items(), key=lambda row: -row[1][0])[:_MOST]) for name, table in tables.items() if table
    }


def _average_rows(rows: pa.Table, key: Key, amounts: Key, shares: int) -> dict[Key, list[float]]:
    """Return sums of amounts by key, divided by ``shares``; nothing if that is 0. ``key``, ``amounts``: columns."""
    if not shares or not rows.num_rows:
        return {}
    columns = {name: rows[name].cast("string") for name in key} | {name: rows[name] for name in amounts}
    sums = pa.table(columns).group_by(list(key)).aggregate([(name, "sum") for name in amounts])
    names = zip(*(sums[name].to_pylist() for name in key), strict=True)
    columns_of_sums = [sums[f"{name}_sum"].to_pylist() for name in amounts]
    return {
        tuple(map(str, name)): [(column[at] or 0) / shares for column in columns_of_sums]
        for at, name in enumerate(names)
    }


def _find_most_memory(
    allocators: Iterable[Mapping[str, Any]], groups: Iterable[Mapping[str, Any]]
) -> dict[Key, list[float]]:
    """Return the peaks of allocators, and the memory of ops at them, each on the host that has most."""
    sizes: dict[tuple[str, Key], int] = {}
    for row in allocators:
        key = row["host"], ("allocator", str(row["allocator"]), str(row["allocator"]))
        sizes[key] = row["peak_bytes"] or 0
    for row in groups:
        key = row["host"], ("op", str(row["allocator"]), row["op_names"] or "not recorded")
        sizes[key] = sizes.get(key, 0) + (row["total_bytes"] or 0)
    table: dict[Key, list[float]] = {}
    for (_, name), size in sizes.items():
        table[name] = [max(size, *table.get(name, (0,)))]
    return table


def compare_records(base: Mapping[str, Amounts], new: Mapping[str, Amounts]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each table of records."""
    compared = {}
    for name, recorded in _RECORDED.items():
        sides = [records.get(name) for records in (base, new)]
        rows = []
        for key in dict.fromkeys(key for side in sides for key in side or ()):
            row: dict[str, Any] = dict(zip(recorded.keys, key, strict=True))
            for place, amount in enumerate(recorded.amounts):
                exact = [None if side is None else side[key][place] if key in side else 0.0 for side in sides]
                values = exact if amount == "count" else [None if each is None else round(each) for each in exact]
                first, second = values
                row |= {f"base_{amount}": first, f"new_{amount}": second}
                row[name_change(amount)] = None if first is None or second is None else second - first
            rows.append(row)
        changed = name_change(next(iter(recorded.amounts)))
        compared[name] = sorted(rows, key=lambda row: -abs(row[changed] or 0))
    return compared


def count_rows(tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Known]:
    """Return the number of programs and the rows of each table of records, or why there are none."""
    programs = {(row["base_program"], row["new_program"]) for row in tables["programs"]}
    counts: dict[str, Known] = {"program_count": len(programs) or (None, _NO_PROGRAMS)}
    return counts | {each.figure: len(tables[name]) or (None, each.absent) for name, each in _RECORDED.items()}
