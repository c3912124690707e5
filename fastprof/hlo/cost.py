"""What an instruction costs, by XLA's cost models: operations, and bytes by memory space.

Figures are for one execution. XLA adds in 32-bit floats, and its model of GPUs takes the cycles of operators from a
table of one GPU for any device; both are kept here, so that figures match XLA's to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Final

import numpy as np

from fastprof.errors import CaptureError
from fastprof.hlo.fusion import Fusion
from fastprof.hlo.module import HloModule, Instruction
from fastprof.hlo.opcodes import (
    CUBLAS_LT,
    RULES,
    Measuring,
    WindowDimension,
    dot_flops,
    gemm_contracting,
    valid_positions,
)
from fastprof.hlo.shapes import BITS, MOST, OPAQUE, PRED, TOKEN, TUPLE, TYPE_NAMES, Shape
from fastprof.hlo.work import (
    NOT_VISITED,
    NOTHING,
    OF_GPUS,
    ZERO,
    Cost,
    Counting,
    Effort,
    Float,
    Place,
    Work,
    fits,
    truncated,
)

_HBM = 0
"""Memory space 0 of layouts."""
_STEPS, _PLACES = 16, 1 << 22
"""Steps that a module may take per part of it, and extra positions of windows."""
_FAILURES = (LookupError, ValueError, CaptureError)
_FASTER = {8: 2, 4: 4}
"""How much faster than at 16 bits the device computes, by bits of the widest operand."""
_GEMMS: Final = ("__cublas$gemm", "__cublas$lt$matmul", "__hipblaslt$")
"""Prefixes of targets of calls that multiply two matrices."""
_BYTES: Final = frozenset((TYPE_NAMES.index("S8"), TYPE_NAMES.index("U8")))


class CostModel:
    """The cost of instructions of one module, each computed at first use, together with those that it calls."""

    def __init__(self, module: HloModule, counting: Counting = OF_GPUS) -> None:
        self.module = module
        self.counting = counting
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
        """NOTHING for a damaged instruction."""
        if row not in self._costs:
            computation = self.module.computation_rows[row] if row >= 0 else -1
            if self.counting.for_gpus and computation not in self._visited:
                return NOTHING
            try:
                with np.errstate(all="ignore"):
                    one = self.module.instruction(row)
                    self._costs[row] = self._answer(one, self._work(one))
            except _FAILURES:
                self._costs[row] = NOTHING
        return self._costs[row]

    @cached_property
    def _visited(self) -> set[int]:
        """The computations that XLA's analysis visits, from the entry on."""
        module = self.module
        skipped = {number for number, text in enumerate(module.texts.to_pylist()) if text in NOT_VISITED}
        first, last = module.computations["first_instruction"], module.computations["last_instruction"]
        opcode, begin, count = (module.instructions[name] for name in ("opcode", "first_call", "call_count"))
        visited, stack = set[int](), [module.entry]
        while stack:
            computation = stack.pop()
            if computation < 0 or computation in visited:
                continue
            visited.add(computation)
            rows = slice(int(first[computation]), int(last[computation]))
            calling = np.flatnonzero(count[rows]) + rows.start
            for row in calling.tolist():
                if int(opcode[row]) not in skipped:
                    stack += module.calls[begin[row] : begin[row] + count[row]].tolist()
        return visited

    # ---- work, callees first

    def _work(self, one: Instruction) -> Work:
        if one.row not in self._works:
            for computation in one.calls:
                self._run_through(computation)
            self._works[one.row] = self._measured(one)
        return self._works[one.row]

    def of_computation(self, computation: int) -> Work:
        """The sum of its instructions, once each. LookupError: there is no such computation, or it calls itself."""
        return self._computations[computation]

    def valid_positions(self, window: WindowDimension) -> int:
        if window not in self._windows:
            self._window_effort.spend(max(min(window.kernel, window.output, _PLACES), 0))
            self._windows[window] = valid_positions(window)
        return self._windows[window]

    def _run_through(self, start: int) -> None:
        """Computes a computation after those that it calls. A failure is kept, also for those that wait."""
        stack, begun = [start], set[int]()
        try:
            self._run_stack(stack, begun)
        except _FAILURES:
            self._failed |= {one for one in begun if one not in self._computations}
            raise

    def _run_stack(self, stack: list[int], begun: set[int]) -> None:
        """``begun``: those that were visited. Without recursion: captures may nest computations at will."""
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
        total = truncated(work.bytes)
        moved = self._moved(one, work) if total > 0 else {}
        read, written = moved.pop(_HBM, (0, 0))
        flops = truncated(work.flops)
        is_cut = not (fits(work.flops) and fits(work.bytes) and max(read, written) < MOST)
        is_cut |= total > 0 and self._has_cut_shapes(one)
        return Cost(
            flops=_known(flops - self._saved(one, work.flops)),
            model_flops=_known(flops),
            bytes_accessed=_known(total),
            hbm_read_bytes=_within(read),
            hbm_write_bytes=_within(written),
            is_known=work.is_known and not is_cut,
            is_cut=is_cut,
            elsewhere=tuple(
                (space, _within(a), _within(b)) for space, (a, b) in sorted(moved.items()) if max(a, b) > 0
            ),
        )

    def _has_cut_shapes(self, one: Instruction) -> bool:
        """Whether sizes of its result or operands are not known, as they are too large."""
        return one.shape.is_cut or any(self.module.instruction(row).shape.is_cut for row in one.operands)

    def _saved(self, one: Instruction, flops: Float) -> int:
        """Operations that narrow operands save."""
        if flops == ZERO or not self.counting.for_gpus:
            return 0
        types = [self.module.instruction(row).shape.element_type for row in one.operands]
        widths = [1 if t == PRED else BITS.get(t, 0) for t in types if t not in (0, TUPLE, OPAQUE, TOKEN)]
        if one.opcode == "custom-call":
            widths = widths[:1] if one.custom_call_target in CUBLAS_LT else []
        if not widths:
            return 0
        return truncated(Float(flops - flops / Float(_FASTER.get(max(widths), 1))))

    def _moved(self, one: Instruction, work: Work) -> dict[int, tuple[int, int]]:
        """Bytes read and written, by the memory space of the leaves that have a layout."""
        inputs = [self.module.instruction(row).shape for row in one.operands]
        moved = {space: (size, 0) for space, size in self._read(inputs, work.operand).items()}
        for index, leaf in one.shape.leaves():
            if leaf.has_layout:
                read, written = moved.get(leaf.memory_space, (0, 0))
                moved[leaf.memory_space] = read, written + truncated(work.output.get(index, ZERO))
        return moved

    def _read(self, inputs: list[Shape], sizes: Mapping[Place, Float]) -> dict[int, int]:
        """Bytes of leaves by memory space, by the shorter of two loops."""
        leaves = sum([len(shape.places) for shape in inputs])
        places: Iterable[Place] = sizes
        if leaves <= len(sizes):
            places = ((k, index) for k, shape in enumerate(inputs) for index in shape.places)
        self.effort.spend(max(min(leaves, len(sizes)) - 2 * len(inputs), 0))
        read: dict[int, int] = {}
        for k, index in places:
            leaf = inputs[k].places.get(index) if k < len(inputs) else None
            if leaf is not None and leaf.has_layout:
                read[leaf.memory_space] = read.get(leaf.memory_space, 0) + truncated(sizes.get((k, index), ZERO))
        return read


def _known(figure: int) -> int:
    """0 for -1, which means unknown."""
    return 0 if figure == -1 else figure


def _within(size: int) -> int:
    return min(max(size, 0), MOST)


# ---- devices: where XLA's model leaves something out

# Matrix products of libraries (cuBLAS, hipBLASLt) have their dimensions in their configuration: two operations per
# product that is added, and the bytes of operands and result. Scratch space, a last array of bytes in the result, is no
# work. All bytes are in the device's memory unless a layout says otherwise, also those of results that are tuples.


def device_cost(model: CostModel, row: int) -> Cost:
    """Of one execution; XLA's cost where that is complete, or where the instruction is damaged."""
    known = model.cost(row)
    try:
        one = model.module.instruction(row)
        if not known.is_known and one.opcode == "custom-call" and one.custom_call_target.startswith(_GEMMS):
            return _of_product(model, one)
        return _all_placed(known, has_tuple=one.shape.is_tuple)
    except _FAILURES:
        return known


def _of_product(model: CostModel, one: Instruction) -> Cost:
    inputs = [model.module.instruction(row).shape for row in one.operands]
    outputs = _results(one.shape)
    flops = dot_flops(inputs[0], gemm_contracting(one), outputs[0])
    elsewhere: dict[int, list[int]] = {}
    for way, shapes in enumerate((inputs, outputs)):
        for shape in shapes:
            for _, leaf in shape.leaves():
                elsewhere.setdefault(leaf.memory_space, [0, 0])[way] += leaf.bytes
    moved = sum(map(sum, elsewhere.values()))
    if flops >= MOST or moved >= MOST or any(shape.is_cut for shape in (*inputs, *outputs)):
        return replace(NOTHING, is_cut=True)
    read, written = elsewhere.pop(0, [0, 0])
    return Cost(
        flops=flops // _FASTER.get(BITS.get(inputs[0].element_type, 0), 1),
        model_flops=flops,
        bytes_accessed=moved,
        hbm_read_bytes=read,
        hbm_write_bytes=written,
        is_known=True,
        elsewhere=tuple((space, a, b) for space, (a, b) in sorted(elsewhere.items())),
    )


def _results(shape: Shape) -> list[Shape]:
    """The results of a call, without its scratch space."""
    if not shape.is_tuple:
        return [shape]
    last = shape.elements[-1]
    is_scratch = len(shape.elements) > 1 and last.element_type in _BYTES and len(last.dimensions) == 1
    return list(shape.elements[: -1 if is_scratch else None])


def _all_placed(known: Cost, *, has_tuple: bool) -> Cost:
    """With all bytes in HBM that are nowhere else. Missing bytes were written where the result is a tuple, whose parts
    XLA's model lacks; otherwise they were read, and surplus bytes are taken from those read first."""
    missing = known.bytes_accessed - sum(a + b for _, a, b in known.elsewhere)
    missing -= known.hbm_read_bytes + known.hbm_write_bytes
    if not missing or known.bytes_accessed <= 0:
        return known
    if missing > 0 and has_tuple:
        return replace(known, hbm_write_bytes=known.hbm_write_bytes + missing)
    read = max(known.hbm_read_bytes + missing, 0)
    left = missing - (read - known.hbm_read_bytes)
    return replace(known, hbm_read_bytes=read, hbm_write_bytes=max(known.hbm_write_bytes + left, 0))
