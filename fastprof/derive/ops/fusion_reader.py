"""Instructions within the fusions of a program, with text and work."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from fastprof.hlo.cost import CostModel
from fastprof.hlo.opcodes import get_category
from fastprof.hlo.text.instruction_text import EXPRESSION, InstructionText
from fastprof.hlo.work import NOTHING

if TYPE_CHECKING:
    from fastprof.hlo.module import HloModule
    from fastprof.hlo.work import Counting

_FUSION: Final = "fusion"
_PLUMBING: Final = ("parameter", "tuple")
_DEEPEST: Final = 16
"""Levels of nested fusions whose instructions are read."""


class FusionReader:
    """Reads the fusions of one module. Each computation is read once: in a sound module a single fusion calls it."""

    def __init__(self, module: HloModule, counting: Counting) -> None:
        self._module = module
        self._costs = CostModel(module, counting)
        self._texts = InstructionText(module, EXPRESSION)
        self._categories: dict[str, str] = {}
        self._read: set[int] = set()

    def is_fusion(self, row: int) -> bool:
        return self._module.opcodes[row] == _FUSION

    def instructions(self, fusion: int, *, with_work: bool) -> list[tuple[int, str, str, str, str, float, float]]:
        """Return the instructions of a fusion and of fusions within it: the place of the enclosing fusion, or -1 for
        the outermost one; name, category, framework op, text, flops and bytes, NaN if it is unknown."""
        module = self._module
        instructions: list[tuple[int, str, str, str, str, float, float]] = []
        waiting = [(fusion, -1, 0)]
        for row, above, depth in waiting:  # it grows meanwhile
            for inner in self._within(row):
                if self.is_fusion(inner) and depth < _DEEPEST:
                    waiting.append((inner, len(instructions), depth + 1))
                name, op = module.text(module.instructions[inner]["name"]), module.framework_op(inner)
                cost = self._costs.cost(inner) if with_work else NOTHING
                flops, moved = (cost.flops, cost.bytes_accessed) if cost.is_known else (math.nan, math.nan)
                text = self._texts.line(inner)
                instructions.append((above, name, self._category(inner), op, text, float(flops), float(moved)))
        return instructions

    def _within(self, fusion: int) -> list[int]:
        raw = self._module.instructions[fusion]
        computation = int(self._module.calls[int(raw["first_call"])]) if raw["call_count"] else -1
        if computation < 0 or computation in self._read:
            return []
        self._read.add(computation)
        return [row for row in self._module.rows_of(computation) if self._module.opcodes[row] not in _PLUMBING]

    def _category(self, row: int) -> str:
        """Return a category. Only those of fusions and convolutions depend on more than the opcode."""
        opcode = self._module.opcodes[row]
        if opcode in (_FUSION, "convolution"):
            return get_category(self._module.instruction(row))
        if opcode not in self._categories:
            self._categories[opcode] = get_category(self._module.instruction(row))
        return self._categories[opcode]
