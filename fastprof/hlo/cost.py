"""What an instruction costs, by XLA's cost models: operations, and bytes by memory space; for a fusion as much of each
fused instruction as its output uses."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Final

import numpy as np

from fastprof.errors import CaptureError
from fastprof.hlo.module import HloModule, Instruction
from fastprof.hlo.opcodes import (
    CUBLAS_LT,
    ELEMENTWISE,
    RULES,
    Costs,
    Measuring,
    WindowDimension,
    count_dot_flops,
    count_valid_positions,
    find_gemm_contracting,
)
from fastprof.hlo.shapes import BITS, MOST, OPAQUE, PRED, TOKEN, TUPLE, TYPE_NAMES, Index, Shape
from fastprof.hlo.work import (
    NOT_VISITED,
    NOTHING,
    OF_GPUS,
    ONE,
    ZERO,
    Cost,
    Counting,
    Effort,
    Float,
    Place,
    Work,
    is_in_range,
    round_nearest,
    truncate_float,
)
from fastprof.schema.value_classes import dataclass

_SMALL_CONSTANT = 8
"""Constants of up to this many elements cost nothing to read."""
_TRANSPARENT = ELEMENTWISE | {"tuple", "get-tuple-element"}
_MANY_ROOTS = 64
"""Number of roots from which an instruction shares its users' list; the most visited per instruction on average."""
_ITSELF = 0


@dataclass(frozen=True, slots=True)
class _Roots:
    """What an instruction is computed for: ``rows`` and those ``before``. ``share``: how often, all together."""

    rows: tuple[int, ...]
    share: Float
    size: int
    before: _Roots | None = None

    def __iter__(self) -> Iterator[int]:
        part: _Roots | None = self
        while part is not None:
            yield from part.rows
            part = part.before


class Fusion:
    """A fused computation, and the work of each of its instructions by itself. Many fusions may call it.
    LookupError: it is damaged."""

    def __init__(self, costs: Costs, works: Mapping[int, Work], computation: int) -> None:
        self.effort = costs.effort
        self.as_used = costs.counting.for_gpus
        self.module: HloModule = costs.module
        self.works = works
        self.rows = self.module.rows_of(computation)
        self.fused = [self.module.instruction(row) for row in self.rows]
        self.root = self.module.root_of(computation)
        for row in self.root.operands if self.root.opcode == "tuple" else (self.root.row,):
            if row in works and self.module.instruction(row).opcode == "dynamic-update-slice":
                works[row].share[0] = 0.0  # an output that is updated in place is not read
        self.used = self._used()
        self.flops = ZERO  # each instruction as often as it is computed, or once: see ``Counting``
        for row, share in self.used.items():
            self.flops = Float(self.flops + (share if self.as_used else ONE) * works[row].flops)
        self.is_known = all(works[row].is_known for row in self.rows)
        self.parameters = {inner.parameter_number: inner for inner in self.fused if inner.opcode == "parameter"}
        self.elements: dict[tuple[int, int], Instruction] = {}
        """The first instruction that selects an element of a tuple, by row of the tuple and place."""
        for inner in self.fused:
            if inner.opcode == "get-tuple-element" and inner.operands:
                self.elements.setdefault((inner.operands[0], inner.tuple_index), inner)
        self._reads: dict[int, dict[Index, int]] = {}
        self._moved: dict[tuple[float, int], Work] = {}

    def measure(self, instruction: Instruction, work: Work) -> None:
        """Set the work of a fusion that calls this computation."""
        output = dict(self._outputs(instruction.shape))
        written = sum(output.values(), ZERO)
        if instruction.shape.is_tuple:
            output[()] = Float(written)
        moved = self._moving(written, len(instruction.operands))
        work.becomes(moved)
        work.share, work.output = moved.share, output

    # ---- bytes

    def _outputs(self, shape: Shape) -> Iterator[tuple[Index, Float]]:
        """Yield bytes written, by leaf."""
        if not shape.is_tuple:
            yield (), Float(self._written(self.root, shape))
            return
        for index, leaf in shape.leaves():
            source = None
            if len(index) == 1 and self.root.opcode == "tuple":
                source = self.module.instruction(self.root.operands[index[0]])
            yield index, Float(self._written(source, leaf))

    def _written(self, source: Instruction | None, shape: Shape) -> int:
        """Return bytes of an output; for an update in place those of the update."""
        if source is None or source.opcode != "dynamic-update-slice":
            return shape.bytes
        return self.module.instruction(source.operands[1]).shape.bytes

    def _moving(self, written: Float, operands: int) -> Work:
        """Return the work of a fusion of this many operands that writes this many bytes. The order of additions
        matters."""
        known = self._moved.get((float(written), operands))
        if known is not None:
            return known
        self.effort.spend(len(self.fused))
        work = Work(self.flops, written, is_known=self.is_known)
        for inner in self.fused:
            if inner.opcode == "constant" and inner.shape.count > _SMALL_CONSTANT:
                work.bytes = Float(work.bytes + Float(inner.shape.bytes) * min(self.used[inner.row], ONE))
        for k in range(operands):
            sizes = self._read(k)
            self.effort.spend(len(sizes))
            total = sum(sizes.values())
            work.operand |= {(k, index): Float(size) for index, size in sizes.items()} | {(k, ()): Float(total)}
            work.bytes = Float(work.bytes + total)
            work.share[k] = float(self.used[self.parameters[k].row])
        self._moved[float(written), operands] = work
        return work

    def _read(self, k: int) -> dict[Index, int]:
        """Return bytes that are read of the leaves of a parameter."""
        if k not in self._reads:
            parameter = self.parameters[k]
            reads: dict[Index, int] = {}
            for index, _ in parameter.shape.leaves():
                element = parameter
                for place in index:  # the closest enclosing element that an instruction selects
                    element = self.elements.get((element.row, place), element)
                reads[index] = round_nearest(Float(element.shape.bytes) * min(self.used[element.row], ONE))
            self._reads[k] = reads
        return self._reads[k]

    # ---- how much of each instruction is used

    def _used(self) -> dict[int, Float]:
        """Return, per row, how many times an element is computed on average. Users come before their operands; a value
        that is not computed element by element becomes a root of its own, to which its operands refer."""
        of_root: dict[int, Float] = {self.root.row: ONE}
        from_users: dict[int, dict[int, _Roots | None]] = {self.root.row: {_ITSELF: None}}
        used: dict[int, Float] = {}
        left = _MANY_ROOTS * len(self.rows)
        for inner in reversed(self._operands_first()):
            of_users = from_users.pop(inner.row, {})
            roots = _join_roots(inner.row, of_users, of_root)
            if roots is None:
                left -= sum(1 if users is None else users.size for users in of_users.values())
                if left < 0:
                    raise LookupError("the instructions of a fusion have too many roots")
                each = ((inner.row,) if users is None else users for users in of_users.values())  # None: the row itself
                rows = tuple(dict.fromkeys(chain.from_iterable(each)))
                share = ZERO
                for row in rows:
                    share = Float(share + of_root[row])
                roots = _Roots(rows, share, len(rows))
            used[inner.row] = roots.share
            for k, operand in enumerate(inner.operands):
                if operand not in self.rows:
                    raise LookupError("a fused instruction has an operand outside of its fusion")
                of_operand = from_users.setdefault(operand, {})
                if inner.opcode in _TRANSPARENT:
                    of_operand[id(roots)] = roots  # those of one user are often those of many
                    continue
                of_operand[_ITSELF] = None
                of_root[operand] = Float(of_root.get(operand, ZERO) + self._share_of(inner, k, operand, roots.share))
        return used

    def _share_of(self, inner: Instruction, k: int, operand: int, share: Float) -> Float:
        count = self.module.instruction(operand).shape.leaf_count
        if not count:
            return ZERO
        part = Float(share * Float(self.works[inner.row].share.get(k, 1.0)))
        elements = Float(part * Float(count))
        return Float(math.ceil(elements) / count) if np.isfinite(elements) else elements

    def _operands_first(self) -> Sequence[Instruction]:
        """Return each fused instruction after its operands."""
        done: dict[int, Instruction] = {}
        begun: set[int] = set()
        for start in self.fused:
            stack = [(start, 0)]
            while stack:
                inner, k = stack.pop()
                if k == 0 and inner.row in begun:
                    continue
                begun.add(inner.row)
                if k == len(inner.operands):
                    done[inner.row] = inner
                    continue
                stack.append((inner, k + 1))
                if inner.operands[k] in self.rows and inner.operands[k] not in begun:
                    stack.append((self.module.instruction(inner.operands[k]), 0))
        return list(done.values())


def _join_roots(row: int, of_users: Mapping[int, _Roots | None], of_root: Mapping[int, Float]) -> _Roots | None:
    """Return the roots of an instruction, sharing the list of one of its users; None if that is not possible."""
    users = [roots for roots in of_users.values() if roots is not None]
    if len(users) == len(of_users) == 1:
        return users[0]
    if len(users) == 1 and users[0].size >= _MANY_ROOTS:
        return _Roots((row,), Float(users[0].share + of_root[row]), users[0].size + 1, users[0])
    return None


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
        """Return the cost of an instruction; NOTHING for a damaged one."""
        if row not in self._costs:
            computation = self.module.computation_rows[row] if row >= 0 else -1
            if self.counting.for_gpus and computation not in self._visited:
                return NOTHING
            try:
                with np.errstate(all="ignore"):
                    instruction = self.module.instruction(row)
                    self._costs[row] = self._answer(instruction, self._work(instruction))
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

    def _work(self, instruction: Instruction) -> Work:
        if instruction.row not in self._works:
            for computation in instruction.calls:
                self._run_through(computation)
            self._works[instruction.row] = self._measured(instruction)
        return self._works[instruction.row]

    def of_computation(self, computation: int) -> Work:
        """Return the sum of its instructions, once each. LookupError: no such computation, or it calls itself."""
        return self._computations[computation]

    def valid_positions(self, window: WindowDimension) -> int:
        if window not in self._windows:
            self._window_effort.spend(max(min(window.kernel, window.output, _PLACES), 0))
            self._windows[window] = count_valid_positions(window)
        return self._windows[window]

    def _run_through(self, start: int) -> None:
        """Compute a computation after those that it calls. A failure is remembered, also for those that wait."""
        stack, begun = [start], set[int]()
        try:
            self._run_stack(stack, begun)
        except _FAILURES:
            self._failed |= begun - self._computations.keys()
            raise

    def _run_stack(self, stack: list[int], begun: set[int]) -> None:
        """Compute the stack without recursion: captures may nest computations at will. ``begun``: those visited."""
        while stack:
            computation = stack[-1]
            if computation < 0 or computation in self._computations:
                stack.pop()
                continue
            if computation in self._failed:
                raise LookupError("an instruction calls a computation that fails")
            instructions = [self.module.instruction(row) for row in self.module.rows_of(computation)]
            calls = chain.from_iterable(instruction.calls for instruction in instructions)
            waiting = [call for call in calls if call not in self._computations and call not in begun]
            first = computation not in begun
            begun.add(computation)
            if first and waiting:
                stack += waiting
                continue
            stack.pop()
            total = Work()
            for instruction in instructions:
                if instruction.row not in self._works:
                    self._works[instruction.row] = self._measured(instruction)
                self.effort.spend(len(self._works[instruction.row]))
                total.add(self._works[instruction.row])
            self._computations[computation] = total

    def _measured(self, instruction: Instruction) -> Work:
        operands = [self.module.instruction(row) for row in instruction.operands]
        work = Work(bytes=Float(instruction.shape.leaf_bytes))
        work.output[()] = work.bytes
        for k, operand in enumerate(operands):
            work.operand[k, ()] = Float(operand.shape.bytes)
            work.bytes = Float(work.bytes + work.operand[k, ()])
        if instruction.opcode == "fusion":
            self._measure_fusion(instruction, work)
        elif instruction.opcode in RULES:
            RULES[instruction.opcode](Measuring(self, instruction, [operand.shape for operand in operands], work))
        return work

    def _measure_fusion(self, caller: Instruction, work: Work) -> None:
        computation = caller.calls[0]
        if caller.fusion_kind == "kCustom":
            if computation not in self._movers:
                inner = map(self.module.instruction, self.module.rows_of(computation))
                rows = (instruction.row for instruction in inner if instruction.opcode in ("gather", "scatter"))
                self._movers[computation] = next(rows, None)
            mover = self._movers[computation]
            if mover is not None:
                work.becomes(self._works[mover])
                return
        if computation not in self._fusions:
            self._fusions[computation] = None
            self._fusions[computation] = Fusion(self, self._works, computation)
        fusion = self._fusions[computation]
        if fusion is None:
            raise LookupError("a fusion calls a computation that fails")
        fusion.measure(caller, work)

    # ---- the answer

    def _answer(self, instruction: Instruction, work: Work) -> Cost:
        total = truncate_float(work.bytes)
        moved = self._moved(instruction, work) if total > 0 else {}
        read, written = moved.pop(_HBM, (0, 0))
        flops = truncate_float(work.flops)
        is_cut = not (is_in_range(work.flops) and is_in_range(work.bytes) and max(read, written) < MOST)
        operands = map(self.module.instruction, instruction.operands)
        is_cut |= total > 0 and (instruction.shape.is_cut or any(operand.shape.is_cut for operand in operands))
        return Cost(
            flops=_replace_unknown(flops - self._saved(instruction, work.flops)),
            model_flops=_replace_unknown(flops),
            bytes_accessed=_replace_unknown(total),
            hbm_read_bytes=_fit_size(read),
            hbm_write_bytes=_fit_size(written),
            is_known=work.is_known and not is_cut,
            is_cut=is_cut,
            elsewhere=tuple(
                (space, _fit_size(a), _fit_size(b)) for space, (a, b) in sorted(moved.items()) if max(a, b) > 0
            ),
        )

    def _saved(self, instruction: Instruction, flops: Float) -> int:
        """Operations that narrow operands save."""
        if flops == ZERO or not self.counting.for_gpus:
            return 0
        types = [self.module.instruction(row).shape.element_type for row in instruction.operands]
        widths = [1 if t == PRED else BITS.get(t, 0) for t in types if t not in (0, TUPLE, OPAQUE, TOKEN)]
        if instruction.opcode == "custom-call":
            widths = widths[:1] if instruction.custom_call_target in CUBLAS_LT else []
        if not widths:
            return 0
        return truncate_float(Float(flops - flops / Float(_FASTER.get(max(widths), 1))))

    def _moved(self, instruction: Instruction, work: Work) -> dict[int, tuple[int, int]]:
        """Return bytes read and written, by the memory space of the leaves that have a layout."""
        inputs = [self.module.instruction(row).shape for row in instruction.operands]
        moved = {space: (size, 0) for space, size in self._read(inputs, work.operand).items()}
        for index, leaf in instruction.shape.leaves():
            if leaf.has_layout:
                read, written = moved.get(leaf.memory_space, (0, 0))
                moved[leaf.memory_space] = read, written + truncate_float(work.output.get(index, ZERO))
        return moved

    def _read(self, inputs: list[Shape], sizes: Mapping[Place, Float]) -> dict[int, int]:
        """Return bytes of leaves by memory space, by the shorter of two loops."""
        leaves = sum([len(shape.places) for shape in inputs])
        places: Iterable[Place] = sizes
        if leaves <= len(sizes):
            places = ((k, index) for k, shape in enumerate(inputs) for index in shape.places)
        self.effort.spend(max(min(leaves, len(sizes)) - 2 * len(inputs), 0))
        read: dict[int, int] = {}
        for k, index in places:
            leaf = inputs[k].places.get(index) if k < len(inputs) else None
            if leaf is not None and leaf.has_layout:
                read[leaf.memory_space] = read.get(leaf.memory_space, 0) + truncate_float(sizes.get((k, index), ZERO))
        return read


def _replace_unknown(figure: int) -> int:
    """Map unknown (-1) to 0."""
    return 0 if figure == -1 else figure


def _fit_size(size: int) -> int:
    return min(max(size, 0), MOST)


# ---- devices: where XLA's model leaves something out

# Matrix products of libraries (cuBLAS, hipBLASLt) have their dimensions in their configuration: two operations per
# product that is added, and the bytes of operands and result. Scratch space, a last array of bytes in the result, is no
# work. All bytes are in the device's memory unless a layout says otherwise, also those of results that are tuples.


def find_device_cost(model: CostModel, row: int) -> Cost:
    """Return the cost of one execution; XLA's cost if that is complete, or if the instruction is damaged."""
    known = model.cost(row)
    try:
        instruction = model.module.instruction(row)
        is_call = not known.is_known and instruction.opcode == "custom-call"
        if is_call and instruction.custom_call_target.startswith(_GEMMS):
            return _measure_product(model, instruction)
        return _place_all(known, has_tuple=instruction.shape.is_tuple)
    except _FAILURES:
        return known


def _measure_product(model: CostModel, instruction: Instruction) -> Cost:
    inputs = [model.module.instruction(row).shape for row in instruction.operands]
    outputs = [instruction.shape]
    if instruction.shape.is_tuple:
        outputs = list(instruction.shape.elements)
        last = outputs[-1]
        if len(outputs) > 1 and last.element_type in _BYTES and len(last.dimensions) == 1:
            outputs.pop()  # scratch space
    flops = count_dot_flops(inputs[0], find_gemm_contracting(instruction), outputs[0])
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


def _place_all(known: Cost, *, has_tuple: bool) -> Cost:
    """Place all bytes in HBM that are nowhere else. Missing bytes were written if the result is a tuple, whose parts
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
