"""The instructions within fusions, as columns."""

from __future__ import annotations

from dataclasses import dataclass, field

Key = tuple[int, str]
"""Of an op: its program and its name."""


@dataclass(slots=True)
class FusedInstructions:
    """n instructions, a column each. ``of``: of each op that is a fusion the first row of its own, and the row after
    the last. ``above``: of each the row of the fusion that it is in; -1: the op. Work is that of one execution, NaN
    where it is not known."""

    of: dict[Key, tuple[int, int]] = field(default_factory=dict)
    above: list[int] = field(default_factory=list)
    name: list[str] = field(default_factory=list)
    opcode: list[str] = field(default_factory=list)
    category: list[str] = field(default_factory=list)
    framework_op: list[str] = field(default_factory=list)
    expression: list[str] = field(default_factory=list)
    flops: list[float] = field(default_factory=list)
    bytes: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.name)
