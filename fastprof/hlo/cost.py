"""What an instruction costs on a GPU, by XLA's cost model: operations, bytes, and bytes to and from HBM.

Figures are those of one execution. The model takes the cycles of operators from a table of one GPU, whichever the
device is, and adds up in 32-bit floats; both are kept, so that its figures are met to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from fastprof.errors import CaptureError
from fastprof.hlo.convolution import WindowDimension, valid_positions
from fastprof.hlo.fusion import Fusion
from fastprof.hlo.module import HloModule, Instruction
from fastprof.hlo.opcodes import CUBLAS_LT, RULES, Measuring
from fastprof.hlo.shapes import BITS, OPAQUE, PRED, TOKEN, TUPLE, Shape
from fastprof.hlo.work import ZERO, Effort, Float, Place, Work, whole

_HBM = 0
"""The memory space that layouts call 0."""
_STEPS, _PLACES = 16, 1 << 22
"""How many steps a module may take for each of its parts, and positions of windows beside those."""
_FAILURES = (LookupError, ValueError, CaptureError)
_FASTER = {8: 2, 4: 4}
"""How many times as fast as at 16 bits the device computes, by bits of the widest operand."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one execution. 0 stands for nothing and for what the model does not know."""

    flops: int = 0
    """Operations, of narrow types counted as the fraction of the time that they take."""
    model_flops: int = 0
    """Operations."""
    bytes_accessed: int = 0
    hbm_read_bytes: int = 0
    hbm_write_bytes: int = 0


NOTHING = Cost()


class CostModel:
    """The cost of instructions of one module, each worked out when it is first asked for, with those that it calls."""

    def __init__(self, module: HloModule) -> None:
        self.module = module
        self._works: dict[int, Work] = {}
        self._computations: dict[int, Work] = {}
        self._failed: set[int] = set()
        self._fusions: dict[int, Fusion | None] = {}
        self._movers: dict[int, int | None] = {}
        self._windows: dict[WindowDimension, int] = {}
        self._costs: dict[int, Cost] = {}
        parts = (module.instructions, module.operands, module.shapes, module.dimensions)
        steps = _STEPS * (100 + sum(map(len, parts)))
        self.effort, self._window_effort = Effort(steps), Effort(_PLACES + steps)

    def cost(self, row: int) -> Cost:
        """Of a damaged instruction nothing is known."""
        if row not in self._costs:
            try:
                with np.errstate(all="ignore"):
                    one = self.module.instruction(row)
                    self._costs[row] = self._answer(one, self._work(one))
            except _FAILURES:
                self._costs[row] = NOTHING
        return self._costs[row]

    # ---- work, callees first

    def _work(self, one: Instruction) -> Work:
        if one.row not in self._works:
            for computation in one.calls:
                self._run_through(computation)
            self._works[one.row] = self._measured(one)
        return self._works[one.row]

    def of_computation(self, computation: int) -> Work:
        """All its instructions together, once each. LookupError: there is no such computation, or it calls itself."""
        return self._computations[computation]

    def valid_positions(self, window: WindowDimension) -> int:
        if window not in self._windows:
            self._window_effort.spend(max(min(window.kernel, window.output, _PLACES), 0))
            self._windows[window] = valid_positions(window)
        return self._windows[window]

    def _run_through(self, start: int) -> None:
        """Works out a computation after those that it calls. One that fails does so once, with those that wait."""
        stack, begun = [start], set[int]()
        try:
            self._run_stack(stack, begun)
        except _FAILURES:
            self._failed |= {one for one in begun if one not in self._computations}
            raise

    def _run_stack(self, stack: list[int], begun: set[int]) -> None:
        """``begun``: those that were looked at. Without recursion: captures may nest computations at will."""
        while stack:
            computation = stack[-1]
            if computation < 0 or computation in self._computations:
                stack.pop()
                continue
            if computation in self._failed:
                raise LookupError("an instruction calls a computation that fails")
            instructions = [self.module.instruction(row) for row in self.module.rows_of(computation)]
            waiting = [c for one in instructions for c in one.calls if c not in self._computations and c not in begun]
            first = computation not in begun
            begun.add(computation)
            if first and waiting:
                stack += waiting
                continue
            stack.pop()
            self._computations[computation] = self._sum(instructions)

    def _sum(self, instructions: list[Instruction]) -> Work:
        total = Work()
        for one in instructions:
            if one.row not in self._works:
                self._works[one.row] = self._measured(one)
            self.effort.spend(len(self._works[one.row]))
            total.add(self._works[one.row])
        return total

    def _measured(self, one: Instruction) -> Work:
        operands = [self.module.instruction(row) for row in one.operands]
        work = Work(bytes=Float(one.shape.leaf_bytes))
        work.output[()] = work.bytes
        for k, operand in enumerate(operands):
            work.operand[k, ()] = Float(operand.shape.bytes)
            work.bytes = Float(work.bytes + work.operand[k, ()])
        if one.opcode == "fusion":
            self._measure_fusion(one, work)
        elif one.opcode in RULES:
            RULES[one.opcode](Measuring(self, one, [operand.shape for operand in operands], work))
        return work

    def _measure_fusion(self, one: Instruction, work: Work) -> None:
        computation = one.calls[0]
        mover = self._mover(computation) if one.fusion_kind == "kCustom" else None
        if mover is not None:
            work.becomes(self._works[mover])
            return
        if computation not in self._fusions:
            self._fusions[computation] = None
            self._fusions[computation] = Fusion(self, self._works, computation)
        fusion = self._fusions[computation]
        if fusion is None:
            raise LookupError("a fusion calls a computation that fails")
        fusion.measure(one, work)

    def _mover(self, computation: int) -> int | None:
        """The row of a computation's first gather or scatter."""
        if computation not in self._movers:
            inner = map(self.module.instruction, self.module.rows_of(computation))
            rows = (one.row for one in inner if one.opcode in ("gather", "scatter"))
            self._movers[computation] = next(rows, None)
        return self._movers[computation]

    # ---- the answer

    def _answer(self, one: Instruction, work: Work) -> Cost:
        total = whole(work.bytes)
        read, written = self._hbm(one, work) if total > 0 else (0, 0)
        flops = whole(work.flops)
        return Cost(
            flops=_known(flops - self._saved(one, work.flops)),
            model_flops=_known(flops),
            bytes_accessed=_known(total),
            hbm_read_bytes=max(read, 0),
            hbm_write_bytes=max(written, 0),
        )

    def _saved(self, one: Instruction, flops: Float) -> int:
        """Operations that narrow operands save."""
        operands = [self.module.instruction(row).shape for row in one.operands]
        widths = [1 if o.element_type == PRED else BITS.get(o.element_type, 0) for o in operands]
        widths = [w for w, o in zip(widths, operands, strict=True) if o.element_type not in (0, TUPLE, OPAQUE, TOKEN)]
        if one.opcode == "custom-call":
            widths = widths[:1] if one.custom_call_target in CUBLAS_LT else []
        if not widths or flops == ZERO:
            return 0
        return whole(Float(flops - flops / Float(_FASTER.get(max(widths), 1))))

    def _hbm(self, one: Instruction, work: Work) -> tuple[int, int]:
        inputs = [self.module.instruction(row).shape for row in one.operands]
        written = sum(whole(work.output.get(index, ZERO)) for index, leaf in one.shape.leaves() if _in_hbm(leaf))
        return self._read(inputs, work.operand), written

    def _read(self, inputs: list[Shape], sizes: Mapping[Place, Float]) -> int:
        """Bytes of leaves in HBM, by the smaller of two ways to go about it."""
        leaves = sum(len(shape.places) for shape in inputs)
        places: Iterable[Place] = sizes
        if leaves <= len(sizes):
            places = ((k, index) for k, shape in enumerate(inputs) for index in shape.places)
        self.effort.spend(max(min(leaves, len(sizes)) - 2 * len(inputs), 0))
        read = 0
        for k, index in places:
            leaf = inputs[k].places.get(index) if k < len(inputs) else None
            if leaf is not None and _in_hbm(leaf):
                read += whole(sizes.get((k, index), ZERO))
        return read


def _in_hbm(leaf: Shape) -> bool:
    return leaf.has_layout and leaf.memory_space == _HBM


def _known(figure: int) -> int:
    """-1 stands for not known."""
    return 0 if figure == -1 else figure
