"""Plans of memory made by hand: the BufferAssignmentProto that goes with a program of hlo_builder.

    plan = Plan(program)
    x = plan.buffer("x", 64)
    y = plan.buffer("pair", 32, (1,))
    plan.allocation(64, [x], parameter=0)
    plan.allocation(32, [y])
    plan.trace(("alloc", y, "pair"), ("free", y, "main"))
    program.proto(plan.proto())

Buffers are known by their ids, which count from 1; allocations are numbered from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hlo_builder import Program, packed
from trace_builder import int_field, len_field

KINDS = {"alloc": 0, "free": 1, "share": 2}
Event = tuple[str, int, str] | tuple[str, int, str, int]
"""Kind, buffer, instruction; of a share also the buffer whose memory is shared."""


def flag(number: int, value: bool) -> bytes:
    return int_field(number, 1) if value else b""


@dataclass
class Plan:
    program: Program
    buffers: list[bytes] = field(default_factory=list)
    allocations: list[bytes] = field(default_factory=list)
    traces: list[bytes] = field(default_factory=list)
    sizes: dict[int, int] = field(default_factory=dict)

    def buffer(self, instruction: str, size: int, index: Sequence[int] = (), space: int = 0, *, id: int = 0) -> int:
        """Of an instruction, or an element of what it makes; its id."""
        id = id or len(self.buffers) + 1
        place = len_field(2, instruction) + packed(3, index) + int_field(4, self.program.ids.get(instruction, 0))
        self.buffers.append(int_field(1, id) + int_field(2, size) + len_field(3, place) + int_field(4, space))
        self.sizes[id] = size
        return id

    def allocation(
        self,
        size: int,
        buffers: Sequence[int | tuple[int, int]] = (),
        space: int = 0,
        *,
        parameter: int | None = None,
        element: Sequence[int] = (),
        output: bool = False,
        constant: bool = False,
        on_threads: bool = False,
        is_tuple: bool = False,
        index: int | None = None,
    ) -> int:
        """``buffers``: ids, or (id, offset) of each; the index of the allocation."""
        index = len(self.allocations) if index is None else index
        written = int_field(1, index) + int_field(2, size) + flag(3, on_threads) + flag(5, parameter is not None)
        written += int_field(6, parameter or 0) + flag(7, output) + int_field(8, space)
        for one in buffers:
            id, offset = one if isinstance(one, tuple) else (one, 0)
            written += len_field(9, int_field(1, id) + int_field(2, offset) + int_field(3, self.sizes.get(id, 0)))
        written += packed(10, element) + flag(11, is_tuple) + flag(12, constant)
        self.allocations.append(written)
        return index

    def trace(self, *events: Event, computation: str = "main") -> None:
        written = b""
        for kind, buffer, instruction, *shared in events:
            named = len_field(3, computation) + len_field(4, instruction)
            one = int_field(1, KINDS.get(kind, 7)) + int_field(2, buffer) + named
            written += len_field(1, one + (int_field(5, shared[0]) if shared else b""))
        self.traces.append(written + int_field(2, 1))

    def proto(self) -> bytes:
        parts = [(1, self.buffers), (3, self.allocations), (4, self.traces)]
        return b"".join(len_field(number, one) for number, ones in parts for one in ones)
