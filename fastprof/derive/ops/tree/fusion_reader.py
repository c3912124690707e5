"""Reads what fusions of a program are made of: their instructions, the text of each and its work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from fastprof.hlo.category import category
from fastprof.hlo.cost import CostModel
from fastprof.hlo.text.instruction_text import EXPRESSION, InstructionText
from fastprof.hlo.text.program import program_of

if TYPE_CHECKING:
    from fastprof.derive.ops.tree.fused_columns import FusedInstructions, Key
    from fastprof.hlo.counting import Counting
    from fastprof.hlo.module import HloModule

FUSION: Final = "fusion"
_PLUMBING: Final = ("parameter", "tuple")
_DEEPEST: Final = 16
"""Fusions within each other whose instructions are told."""


class FusionReader:
    """Reads the fusions of one module. Each computation is told once: in a sound module a single fusion calls it."""

    def __init__(self, module: HloModule, counting: Counting) -> None:
        self._module = module
        self._costs = CostModel(module, counting)
        self._texts = InstructionText(program_of(module), EXPRESSION)
        self._opcodes: list[str] = module.texts.take(pa.array(module.instructions["opcode"])).to_pylist()
        self._categories: dict[str, str] = {}
        self._told: set[int] = set()

    def is_fusion(self, row: int) -> bool:
        return self._opcodes[row] == FUSION

    def add(self, found: FusedInstructions, op: Key, fusion: int, *, with_work: bool) -> None:
        """Adds the instructions of a fusion, and of those within it."""
        first = len(found)
        waiting = [(fusion, -1, 0)]
        for row, above, depth in waiting:  # it grows meanwhile
            for one in self._within(row):
                if self.is_fusion(one) and depth < _DEEPEST:
                    waiting.append((one, len(found), depth + 1))
                found.above.append(above)
                self._describe(found, one, with_work=with_work)
        if len(found) > first:
            found.of[op] = (first, len(found))

    def _within(self, fusion: int) -> list[int]:
        raw = self._module.instructions[fusion]
        if not raw["call_count"]:
            return []
        computation = int(self._module.calls[int(raw["first_call"])])
        if computation < 0 or computation in self._told:
            return []
        self._told.add(computation)
        return [row for row in self._module.rows_of(computation) if self._opcodes[row] not in _PLUMBING]

    def _describe(self, found: FusedInstructions, row: int, *, with_work: bool) -> None:
        module = self._module
        found.name.append(module.text(module.instructions[row]["name"]))
        found.opcode.append(self._opcodes[row])
        found.category.append(self._category(row))
        found.framework_op.append(module.framework_op(row))
        found.expression.append(self._texts.line(row))
        flops, moved = self._work(row) if with_work else (float("nan"), float("nan"))
        found.flops.append(flops)
        found.bytes.append(moved)

    def _category(self, row: int) -> str:
        """Fusions and convolutions differ, others are told by their opcode."""
        opcode = self._opcodes[row]
        if opcode in (FUSION, "convolution"):
            return category(self._module.instruction(row))
        if opcode not in self._categories:
            self._categories[opcode] = category(self._module.instruction(row))
        return self._categories[opcode]

    def _work(self, row: int) -> tuple[float, float]:
        """Flops and bytes, NaN where the model knows neither."""
        cost = self._costs.cost(row)
        if not cost.is_known:
            return float("nan"), float("nan")
        return float(cost.flops), float(cost.bytes_accessed)
