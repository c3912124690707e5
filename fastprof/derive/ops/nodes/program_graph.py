"""The instructions of compiled programs that ran, as a graph: whose outputs each takes, their shapes, and their code.

Instructions that do not run by themselves hand on what they take::

    fusion.1 ──► get-tuple-element.2 ──► bitcast.3 ──► dot.4          dot.4 takes output 2 of fusion.1
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fastprof.derive.ops.nodes.host_nodes import CodeFrame, Stack
from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from fastprof.hlo.module import HloModule
    from fastprof.hlo.shapes import Shape

_PER_INSTRUCTION = 16
"""Steps of the search for inputs, for each instruction of a program: if many share large parts, no more are found."""
_GET_ELEMENT = "get-tuple-element"


@dataclass(frozen=True, slots=True)
class Placed:
    """An instruction in its program. ``inputs``: names of instructions and numbers of their outputs; ``shapes``: of its
    outputs, by number."""

    inputs: tuple[tuple[str, int], ...]
    shapes: tuple[tuple[int, ...], ...]
    stack: Stack


def placed(module: HloModule, names: Mapping[str, object]) -> dict[str, Placed]:
    """Of the named instructions those that the program has."""
    rows = {int(row): name for name, row in zip(names, module.find(list(names)).tolist(), strict=True) if row >= 0}
    walk = _Walk(module, rows)
    return {name: Placed(walk.inputs(row), _shapes(module.shape(module.shape_rows[row])), _stack(module, row))
            for row, name in rows.items()}  # fmt: skip


class _Walk:
    def __init__(self, module: HloModule, rows: Mapping[int, str]) -> None:
        self._module, self._rows = module, rows
        self._left = _PER_INSTRUCTION * len(module)

    def inputs(self, row: int) -> tuple[tuple[str, int], ...]:
        """Depth first, in the order of operands, each once."""
        operands = self._module.operands_of
        found: dict[tuple[str, int], None] = {}
        waiting = [(one, 0) for one in reversed(operands(row)) if one >= 0]
        met = set(waiting)
        while waiting and self._left > 0:
            self._left -= 1
            at, output = waiting.pop()
            if at in self._rows:
                found[self._rows[at], output] = None
                continue
            if self._module.opcodes[at] == _GET_ELEMENT:
                output = self._module.instruction(at).tuple_index
            above = [(one, output) for one in reversed(operands(at)) if one >= 0 and (one, output) not in met]
            met.update(above)
            waiting += above
        return tuple(found)


def _shapes(shape: Shape) -> tuple[tuple[int, ...], ...]:
    """Of a tuple, the shapes of what is right in it; tuples in it have none."""
    return tuple(one.dimensions for one in (shape.elements if shape.is_tuple else (shape,)))


def _stack(module: HloModule, row: int) -> Stack:
    """The stack that the compiler recorded, else the line alone."""
    source = module.source_of(row)
    frames = [frame for frame in source.frames if frame.has_location]
    if frames:
        return tuple(CodeFrame(frame.file, max(frame.line, 0), frame.function) for frame in reversed(frames))
    return (CodeFrame(source.file, max(source.line, 0), ""),) if source.file else ()
