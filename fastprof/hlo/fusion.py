"""The work of a fusion: for each fused instruction as much as the output of the fusion uses."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

import numpy as np

from fastprof.hlo.module import HloModule, Instruction
from fastprof.hlo.opcodes import ELEMENTWISE, Costs
from fastprof.hlo.shapes import Index, Shape
from fastprof.hlo.work import ONE, ZERO, Float, Work, nearest
from fastprof.schema.value_classes import dataclass

_SMALL_CONSTANT = 8
"""Constants of up to this many elements cost nothing to read."""
_TRANSPARENT = ELEMENTWISE | {"tuple", "get-tuple-element"}
_MANY_ROOTS = 64
"""Above this, the roots of an instruction share the list of its users; and no more are visited per instruction on
average."""
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
        self._update_in_place()
        self.used = self._used()
        self.flops = self._flops()
        self.is_known = all(works[row].is_known for row in self.rows)
        self.parameters = {one.parameter_number: one for one in self.fused if one.opcode == "parameter"}
        self.elements = self._elements()
        self._reads: dict[int, dict[Index, int]] = {}
        self._moved: dict[tuple[float, int], Work] = {}

    def measure(self, one: Instruction, work: Work) -> None:
        """Sets the work of a fusion that calls this computation."""
        output = dict(self._outputs(one.shape))
        written = sum(output.values(), ZERO)
        if one.shape.is_tuple:
            output[()] = Float(written)
        moved = self._moving(written, len(one.operands))
        work.becomes(moved)
        work.share, work.output = moved.share, output

    # ---- bytes

    def _update_in_place(self) -> None:
        """Marks what an output updates in place as not read."""
        outputs = self.root.operands if self.root.opcode == "tuple" else (self.root.row,)
        for row in outputs:
            if row in self.works and self.module.instruction(row).opcode == "dynamic-update-slice":
                self.works[row].share[0] = 0.0

    def _outputs(self, shape: Shape) -> Iterator[tuple[Index, Float]]:
        """Bytes written, by leaf."""
        if not shape.is_tuple:
            yield (), Float(self._written(self.root, shape))
            return
        for index, leaf in shape.leaves():
            source = None
            if len(index) == 1 and self.root.opcode == "tuple":
                source = self.module.instruction(self.root.operands[index[0]])
            yield index, Float(self._written(source, leaf))

    def _written(self, source: Instruction | None, shape: Shape) -> int:
        """Bytes of an output; for an update in place those of the update."""
        if source is None or source.opcode != "dynamic-update-slice":
            return shape.bytes
        return self.module.instruction(source.operands[1]).shape.bytes

    def _moving(self, written: Float, operands: int) -> Work:
        """The work of a fusion of this many operands that writes this many bytes. The order of additions matters."""
        known = self._moved.get((float(written), operands))
        if known is not None:
            return known
        self.effort.spend(len(self.fused))
        work = Work(self.flops, written, is_known=self.is_known)
        for one in self.fused:
            if one.opcode == "constant" and one.shape.count > _SMALL_CONSTANT:
                work.bytes = Float(work.bytes + Float(one.shape.bytes) * min(self.used[one.row], ONE))
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
        """Bytes that are read of the leaves of a parameter."""
        if k not in self._reads:
            parameter = self.parameters[k]
            elements = {index: self._element(parameter, index) for index, _ in parameter.shape.leaves()}
            self._reads[k] = {
                index: nearest(Float(element.shape.bytes) * min(self.used[element.row], ONE))
                for index, element in elements.items()
            }
        return self._reads[k]

    def _elements(self) -> dict[tuple[int, int], Instruction]:
        """The first instruction that selects an element of a tuple, by row of the tuple and place."""
        elements: dict[tuple[int, int], Instruction] = {}
        for one in self.fused:
            if one.opcode == "get-tuple-element" and one.operands:
                elements.setdefault((one.operands[0], one.tuple_index), one)
        return elements

    def _element(self, parameter: Instruction, index: Index) -> Instruction:
        """The instruction that selects a leaf of a tuple, or the closest enclosing element that one selects."""
        element = parameter
        for place in index:
            element = self.elements.get((element.row, place), element)
        return element

    # ---- how much of each instruction is used

    def _used(self) -> dict[int, Float]:
        """By row: how many times an element is computed on average. Users come before their operands; a value that is
        not computed element by element becomes a root of its own, to which its operands refer."""
        of_root: dict[int, Float] = {self.root.row: ONE}
        from_users: dict[int, dict[int, _Roots | None]] = {self.root.row: {_ITSELF: None}}
        used: dict[int, Float] = {}
        left = _MANY_ROOTS * len(self.rows)
        for one in reversed(self._operands_first()):
            of_users = from_users.pop(one.row, {})
            roots = _joined(one.row, of_users, of_root)
            if roots is None:
                left -= sum(1 if users is None else users.size for users in of_users.values())
                if left < 0:
                    raise LookupError("the instructions of a fusion have too many roots")
                roots = _united(one.row, of_users.values(), of_root)
            used[one.row] = roots.share
            for k, operand in enumerate(one.operands):
                if operand not in self.rows:
                    raise LookupError("a fused instruction has an operand outside of its fusion")
                of_operand = from_users.setdefault(operand, {})
                if one.opcode in _TRANSPARENT:
                    of_operand[id(roots)] = roots  # those of one user are often those of many
                    continue
                of_operand[_ITSELF] = None
                of_root[operand] = Float(of_root.get(operand, ZERO) + self._share_of(one, k, operand, roots.share))
        return used

    def _share_of(self, one: Instruction, k: int, operand: int, share: Float) -> Float:
        count = self.module.instruction(operand).shape.leaf_count
        if not count:
            return ZERO
        part = Float(share * Float(self.works[one.row].share.get(k, 1.0)))
        elements = Float(part * Float(count))
        return Float(math.ceil(elements) / count) if np.isfinite(elements) else elements

    def _flops(self) -> Float:
        """The sum over its instructions, each as often as it is computed, or once: see ``Counting``."""
        flops = ZERO
        for row, share in self.used.items():
            times = share if self.as_used else ONE
            flops = Float(flops + times * self.works[row].flops)
        return flops

    def _operands_first(self) -> Sequence[Instruction]:
        """Each fused instruction after its operands."""
        done: dict[int, Instruction] = {}
        begun: set[int] = set()
        for start in self.fused:
            stack = [(start, 0)]
            while stack:
                one, k = stack.pop()
                if k == 0 and one.row in begun:
                    continue
                begun.add(one.row)
                if k == len(one.operands):
                    done[one.row] = one
                    continue
                stack.append((one, k + 1))
                if one.operands[k] in self.rows and one.operands[k] not in begun:
                    stack.append((self.module.instruction(one.operands[k]), 0))
        return list(done.values())


def _joined(row: int, of_users: Mapping[int, _Roots | None], of_root: Mapping[int, Float]) -> _Roots | None:
    """The roots of an instruction, sharing the list of one of its users; None: that is not possible."""
    users = [roots for roots in of_users.values() if roots is not None]
    if len(users) == len(of_users) == 1:
        return users[0]
    if len(users) == 1 and users[0].size >= _MANY_ROOTS:
        return _Roots((row,), Float(users[0].share + of_root[row]), users[0].size + 1, users[0])
    return None


def _united(row: int, of_users: Iterable[_Roots | None], of_root: Mapping[int, Float]) -> _Roots:
    """The roots of an instruction, from those of its users, each once; None among them: the instruction itself."""
    rows = tuple(dict.fromkeys(chain.from_iterable((row,) if one is None else one for one in of_users)))
    share = ZERO
    for root in rows:
        share = Float(share + of_root[root])
    return _Roots(rows, share, len(rows))
