"""The instructions around one: those whose values it uses and those that use its own, and so on, in its computation."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from fastprof.hlo.text.instruction_text import InstructionText
from fastprof.hlo.text.orders import instruction_order
from fastprof.hlo.text.program import Program

SCHEMA = pa.schema(
    [
        pa.field("distance", pa.int64(), False),
        pa.field("relation", pa.string(), False),
        pa.field("name", pa.string(), False),
        pa.field("opcode", pa.string(), False),
        pa.field("shape", pa.string(), False),
        pa.field("computation", pa.string(), False),
        pa.field("instruction", pa.string(), False),
    ]
)


class Neighbourhood:
    """What lies within ``width`` uses of an instruction, whichever way they go. ``distances``: by row.

    ``whole``: all of its computation, whatever the width.
    """

    def __init__(self, program: Program, centre: int, width: int, whole: bool = False) -> None:
        self.program = program
        self.centre = centre
        self.computation = program.computations[centre]
        rows = program.rows_of(self.computation)
        users = _users(program, rows)
        width = len(rows) if whole else width
        self.distances = _reach(centre, width, lambda row: [*program.operands(row), *users.get(row, ())])
        if whole:
            self.distances = {row: self.distances.get(row, width) for row in rows}
        self._before = _reach(centre, width, program.operands)
        self._after = _reach(centre, width, lambda row: users.get(row, []))

    def relation(self, row: int) -> str:
        """``itself``; ``operand`` or ``user``, perhaps through others; ``beside``: only back and forth leads there."""
        if row == self.centre:
            return "itself"
        return "operand" if row in self._before else "user" if row in self._after else "beside"

    def rows(self) -> list[int]:
        """In the order of the program."""
        return [row for row in instruction_order(self.program, self.computation) if row in self.distances]

    def edges(self) -> Iterator[tuple[int, int]]:
        """(operand, user) of all that is in it."""
        for row in self.rows():
            for operand in dict.fromkeys(self.program.operands(row)):
                if operand in self.distances:
                    yield operand, row

    def table(self, writer: InstructionText) -> pa.Table:
        """One row an instruction; ``distance``: how many uses lie between."""
        program = self.program
        rows = self.rows()
        columns = {
            "distance": [self.distances[row] for row in rows],
            "relation": [self.relation(row) for row in rows],
            "name": [program.names[row] for row in rows],
            "opcode": [program.opcodes[row] for row in rows],
            "shape": [program.shape_text(program.shape_rows[row]) for row in rows],
            "computation": [program.computation_names[self.computation]] * len(rows),
            "instruction": [writer.line(row) for row in rows],
        }
        return pa.table(columns, SCHEMA)


def _reach(centre: int, width: int, step: Callable[[int], list[int]]) -> dict[int, int]:
    """Distances of what at most ``width`` steps lead to."""
    found = {centre: 0}
    edge = [centre]
    for distance in range(1, width + 1):
        reached = dict.fromkeys(one for row in edge for one in step(row) if one >= 0)
        edge = [one for one in reached if one not in found]
        if not edge:
            break
        found |= dict.fromkeys(edge, distance)
    return found


def _users(program: Program, rows: range) -> dict[int, list[int]]:
    """The instructions that use each."""
    users: dict[int, list[int]] = {}
    for row in rows:
        for operand in dict.fromkeys(program.operands(row)):
            users.setdefault(operand, []).append(row)
    return users
