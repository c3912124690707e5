"""What fusions are made of: the instructions of the computation that each one calls, nested fusions with theirs.

No time is recorded within a fusion. What its instructions do is what XLA's cost model reckons, one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from fastprof.derive.ops.tree.fused_columns import FusedInstructions
from fastprof.errors import CaptureError

if TYPE_CHECKING:
    from fastprof.decode.import_log import ImportLog
    from fastprof.derive.ops.tables import OpTable
    from fastprof.hlo.counting import Counting
    from fastprof.hlo.programs import Program


MOST_COSTED: Final = 1_000
"""Fusions, those that ran longest, of whose instructions the work is reckoned: it takes longer than all else."""


@dataclass(frozen=True, slots=True)
class Programs:
    """Programs of a host, undecoded, and where to note what is wrong with them."""

    by_id: Mapping[int, Program]
    log: ImportLog

    @classmethod
    def of(cls, table: OpTable, programs: Iterable[Program], log: ImportLog) -> Programs:
        """Those that these ops are of."""
        ran = set(table.program_id.tolist())
        return cls({program.id: program for program in programs if program.id in ran}, log)


def fused_instructions(
    table: OpTable, hosts: Sequence[Programs], counting: Counting
) -> tuple[FusedInstructions, list[str]]:
    """The instructions of all fusions among these ops, as far as their programs are known, and what could not be read,
    in words. Of a program that several hosts have that of the first is read."""
    found, problems = FusedInstructions(), []
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
                reader.add(found, (number, name), at, with_work=row in costed)
    return found, problems


def _by_program(table: OpTable) -> Iterator[tuple[int, list[int]]]:
    order = np.argsort(table.program_id, kind="stable")
    programs = table.program_id[order]
    starts = np.flatnonzero(np.append(True, programs[1:] != programs[:-1])).tolist()
    for first, last in pairwise([*starts, len(order)] if len(order) else []):
        yield int(programs[first]), order[first:last].tolist()
