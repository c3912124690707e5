"""The instructions around one, its operands and users and theirs within its computation: as a table and a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from fastprof.hlo.module import HloModule
from fastprof.hlo.text.instruction_text import InstructionText
from fastprof.hlo.text.orders import instruction_order

SCHEMA = pa.schema(
    [pa.field("distance", pa.int64(), False)]
    + [
        pa.field(name, pa.string(), False)
        for name in ("relation", "name", "opcode", "shape", "computation", "instruction")
    ]
)


class Neighbourhood:
    """What lies within ``width`` uses of an instruction, in either direction. ``distances``: by row. ``entire``: its
    entire computation, whatever the width."""

    def __init__(self, module: HloModule, centre: int, width: int, entire: bool = False) -> None:
        self.module = module
        self.centre = centre
        self.computation = module.computation_rows[centre]
        rows = module.rows_of(self.computation)
        users = _users(module, rows)
        width = len(rows) if entire else width
        self.distances = _reach(centre, width, lambda row: [*module.operands_of(row), *users.get(row, ())])
        if entire:
            self.distances = {row: self.distances.get(row, width) for row in rows}
        self._before = _reach(centre, width, module.operands_of)
        self._after = _reach(centre, width, lambda row: users.get(row, []))

    def relation(self, row: int) -> str:
        """``itself``; ``operand`` or ``user``, direct or not; ``beside``: reached only back and forth."""
        if row == self.centre:
            return "itself"
        return "operand" if row in self._before else "user" if row in self._after else "beside"

    def rows(self) -> list[int]:
        """In the order of the program."""
        return [row for row in instruction_order(self.module, self.computation) if row in self.distances]

    def edges(self) -> Iterator[tuple[int, int]]:
        """(operand, user) of all that is in it."""
        for row in self.rows():
            for operand in dict.fromkeys(self.module.operands_of(row)):
                if operand in self.distances:
                    yield operand, row

    def table(self, writer: InstructionText) -> pa.Table:
        """One row per instruction; ``distance``: the number of uses in between."""
        module = self.module
        rows = self.rows()
        columns = {
            "distance": [self.distances[row] for row in rows],
            "relation": [self.relation(row) for row in rows],
            "name": [module.names[row] for row in rows],
            "opcode": [module.opcodes[row] for row in rows],
            "shape": [module.shape_text(module.shape_rows[row]) for row in rows],
            "computation": [module.computation_names[self.computation]] * len(rows),
            "instruction": [writer.line(row) for row in rows],
        }
        return pa.table(columns, SCHEMA)


def _reach(centre: int, width: int, step: Callable[[int], list[int]]) -> dict[int, int]:
    """Distances of what at most ``width`` steps reach."""
    distances = {centre: 0}
    edge = [centre]
    for distance in range(1, width + 1):
        reached = dict.fromkeys(one for row in edge for one in step(row) if one >= 0)
        edge = [one for one in reached if one not in distances]
        if not edge:
            break
        distances |= dict.fromkeys(edge, distance)
    return distances


def _users(module: HloModule, rows: range) -> dict[int, list[int]]:
    """The instructions that use each."""
    users: dict[int, list[int]] = {}
    for row in rows:
        for operand in dict.fromkeys(module.operands_of(row)):
            users.setdefault(operand, []).append(row)
    return users


# ---- as a graph in the language of Graphviz: a node per instruction, an edge per use

_COLOURS = {
    "#90caf9": "async-start async-update async-done",
    "#bcaaa4": "all-gather all-gather-start all-gather-done all-reduce all-reduce-start all-reduce-done reduce-scatter "
    "all-to-all ragged-all-to-all collective-broadcast collective-permute collective-permute-start "
    "collective-permute-done infeed outfeed send send-done recv recv-done partition-id replica-id",
    "#5c6bc0": "convolution dot ragged-dot scaled-dot fft triangular-solve cholesky",
    "#66bb6a": "call conditional custom-call while",
    "#e0e0e0": "domain fusion map get-dimension-size set-dimension-size",
    "#c8e6c9": "concatenate dynamic-slice reshape dynamic-reshape reverse transpose copy copy-start copy-done",
    "#ffcc80": "parameter",
    "#ce93d8": "batch-norm-grad batch-norm-inference batch-norm-training reduce reduce-window scatter "
    "select-and-scatter gather",
    "#fff59d": "broadcast dynamic-update-slice",
}
_COLOUR_OF = {opcode: colour for colour, opcodes in _COLOURS.items() for opcode in opcodes.split()}
_OTHER = "#ffffff"


def dot_graph(around: Neighbourhood) -> Iterator[str]:
    """Operands above their users."""
    module = around.module
    yield "digraph neighbourhood {\n"
    title = f"{module.names[around.centre]} in {module.computation_names[around.computation]} of {module.name}"
    yield f'  label="{_quoted(title)}";\n  node [shape=box, style=filled, fontname="sans-serif"];\n'
    for row in around.rows():
        label = f"{module.names[row]}\n{module.opcodes[row]}\n{module.shape_text(module.shape_rows[row])}"
        colour = _COLOUR_OF.get(module.opcodes[row], _OTHER)
        edge = ", penwidth=3" if row == around.centre else ""
        yield f'  n{row} [label="{_quoted(label)}", fillcolor="{colour}"{edge}];\n'
    for operand, user in around.edges():
        yield f"  n{operand} -> n{user};\n"
    yield "}\n"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
