"""What fusions are made of: the instructions of the computation that each one calls, nested fusions with theirs.

No time is recorded within a fusion. The work of its instructions comes from XLA's cost model, one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from fastprof.errors import CaptureError
from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from fastprof.decode.import_log import ImportLog
    from fastprof.derive.ops.tables import OpTable
    from fastprof.hlo.programs import Program
    from fastprof.hlo.work import Counting

Key = tuple[int, str]
"""Of an op: its program and its name."""

MOST_COSTED: Final = 1_000
"""Fusions, the longest ones, for whose instructions work is computed: it takes longer than all else."""


@dataclass(slots=True)
class FusedInstructions:
    """Instructions within fusions, a column each. ``of``: by op that is a fusion, the first row of its instructions and
    the row after the last. ``above``: the row of the fusion that each is in; -1: the op. Work is that of one execution,
    NaN where it is unknown."""

    of: dict[Key, tuple[int, int]] = field(default_factory=dict)
    above: list[int] = field(default_factory=list)
    name: list[str] = field(default_factory=list)
    category: list[str] = field(default_factory=list)
    framework_op: list[str] = field(default_factory=list)
    expression: list[str] = field(default_factory=list)
    flops: list[float] = field(default_factory=list)
    bytes: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.name)

    def add(self, op: Key, instructions: Sequence[tuple[int, str, str, str, str, float, float]]) -> None:
        """Adds the instructions of an op, a value per column; ``above`` counts from the first of them."""
        first = len(self)
        for above, *values in instructions:
            self.above.append(above if above < 0 else first + above)
            columns = (self.name, self.category, self.framework_op, self.expression, self.flops, self.bytes)
            for column, value in zip(columns, values, strict=True):
                column.append(value)  # type: ignore[attr-defined]
        if instructions:
            self.of[op] = (first, len(self))


@dataclass(frozen=True, slots=True)
class Programs:
    """Programs of a host, undecoded, and the log of their faults."""

    by_id: Mapping[int, Program]
    log: ImportLog

    @classmethod
    def of(cls, table: OpTable, programs: Iterable[Program], log: ImportLog) -> Programs:
        """The programs of these ops."""
        ran = set(table.program_id.tolist())
        return cls({program.id: program for program in programs if program.id in ran}, log)


def fused_instructions(
    table: OpTable, hosts: Sequence[Programs], counting: Counting
) -> tuple[FusedInstructions, list[str]]:
    """The instructions of all fusions among these ops whose programs are known, and sentences about programs that could
    not be read. A program is read from the first host that has it."""
    fused, problems = FusedInstructions(), []
    costed = set(np.argsort(-table.self_ps, kind="stable")[:MOST_COSTED].tolist())
    for number, rows in _by_program(table):
        host = next((one for one in hosts if number in one.by_id), None)
        if host is None:
            continue
        program = host.by_id[number]
        from fastprof.derive.ops.tree.fusion_reader import FusionReader  # most captures carry no programs

        try:
            module = program.read(host.log)
        except CaptureError as error:
            problems.append(program.problem(error))
            continue
        names = [table.name[row] for row in rows]
        reader = FusionReader(module, counting)
        for row, name, at in zip(rows, names, module.find(names).tolist(), strict=True):
            if at >= 0 and reader.is_fusion(at):
                fused.add((number, name), reader.instructions(at, with_work=row in costed))
    return fused, problems


def _by_program(table: OpTable) -> Iterator[tuple[int, list[int]]]:
    order = np.argsort(table.program_id, kind="stable")
    programs = table.program_id[order]
    starts = np.flatnonzero(np.append(True, programs[1:] != programs[:-1])).tolist()
    for first, last in pairwise([*starts, len(order)] if len(order) else []):
        yield int(programs[first]), order[first:last].tolist()
