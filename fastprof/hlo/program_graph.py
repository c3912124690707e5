"""A compiled program as a graph: instructions are nodes; an instruction uses its operands, and calls computations.

    walk      what an instruction needs, or what needs it, up to some number of uses away, into called computations
    path      the shortest chain of uses between two instructions
    calls     the computations as a tree, each below the instruction that calls it
    blockers  instructions that stand between fusible ones and cannot be fused, with the reason
    opcodes   instructions by opcode

Every answer is a table. Damaged modules may have cycles and missing operands: each node is visited once, and what is
missing is left out.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pyarrow as pa

from fastprof.errors import UsageError
from fastprof.hlo.module import HloModule
from fastprof.hlo.opcodes import DATA_FORMATTING, ELEMENTWISE
from fastprof.wording.spelling import suggest_name

DIRECTIONS: Final = ("operands", "users", "both")
_FUSIBLE: Final = (ELEMENTWISE | DATA_FORMATTING | {
    "broadcast", "bitcast", "slice", "pad", "concatenate", "reduce", "iota", "fusion", "gather",
}) - {"copy"}  # fmt: skip
_OWN_KERNEL: Final = "compiled as a kernel of its own"
_TRANSFER: Final = "transfer to or from the host or another device"
_MATRIX: Final = "matrix unit op: few compilers fuse its neighbours with it"
_BLOCKERS: Final = {
    "while": "control flow", "conditional": "control flow", "call": "control flow", "all-reduce": "collective",
    "all-gather": "collective", "reduce-scatter": "collective", "all-to-all": "collective",
    "ragged-all-to-all": "collective", "collective-permute": "collective", "collective-broadcast": "collective",
    "custom-call": "custom call: XLA does not know its computation", "send": _TRANSFER, "recv": _TRANSFER,
    "infeed": _TRANSFER, "outfeed": _TRANSFER, "copy": "copy: changes the layout or the memory", "sort": _OWN_KERNEL,
    "rng": _OWN_KERNEL, "rng-bit-generator": _OWN_KERNEL, "fft": _OWN_KERNEL, "cholesky": _OWN_KERNEL,
    "triangular-solve": _OWN_KERNEL, "dot": _MATRIX, "convolution": _MATRIX,
}  # fmt: skip
"""Why instructions of an opcode are not fused."""
_ASYNC_ENDS: Final = ("-start", "-update", "-done")
_COLUMNS: Final = ("name", "opcode", "shape", "computation", "op_name")


class ProgramGraph:
    """The graph of one program."""

    def __init__(self, module: HloModule) -> None:
        self.module = module
        self._uses: dict[int, list[tuple[int, int]]] = defaultdict(list)
        """Users of an instruction, with the number of the operand that it is."""
        self._arguments: dict[tuple[int, int], int] = {}
        """Operands of instructions with calls, by instruction and number."""
        self._callers: dict[int, list[int]] = defaultdict(list)
        self._calls: list[list[int]] = []
        """Distinct computations that each instruction calls."""
        self._parameters: dict[tuple[int, int], list[int]] = defaultdict(list)
        """Parameters by computation and number."""
        for row in range(len(module)):
            called = [call for call in dict.fromkeys(module.calls_of(row)) if call >= 0]
            for number, operand in enumerate(module.operands_of(row)):
                if operand >= 0:
                    self._uses[operand].append((row, number))
                    if called:
                        self._arguments[row, number] = operand
            self._calls.append(called)
            for computation in called:
                self._callers[computation].append(row)
            if module.opcodes[row] == "parameter":
                self._parameters[module.computation_rows[row], module.parameter_numbers[row]].append(row)

    def find(self, name: str) -> int:
        """Return the row of the first instruction of a name. UsageError: there is none."""
        plain = name.removeprefix("%")
        row = int(self.module.find([plain])[0])
        if row < 0:
            raise UsageError(f"no instruction {plain!r} in {self.module.name}{suggest_name(plain, self.module.names)}")
        return row

    # ---- walks

    def walk(
        self,
        name: str,
        *,
        direction: str = "both",
        width: int = 3,
        follow_calls: bool = False,
        opcodes: Sequence[str] = (),
    ) -> pa.Table:
        """Return what at most ``width`` uses lie between: distance, relation (itself, operand, user), name, opcode,
        shape, computation, op_name; nearest first. ``direction``: operands, users or both, each followed by itself.
        ``follow_calls``: a computation that an instruction calls is one step away, at its root as operand, at its
        parameters as user; a computation of several callers is not left again. ``opcodes``: show only these.
        UsageError: no such instruction or direction."""
        if direction not in DIRECTIONS:
            raise UsageError(f"direction {direction!r} is none of {', '.join(DIRECTIONS)}")
        start = self.find(name)
        reached = {start: (0, "itself")}
        for relation in ("operand", "user"):
            if direction in (f"{relation}s", "both"):
                for row, distance in self._reach(start, width, relation, follow_calls).items():
                    reached.setdefault(row, (distance, relation))
        rows = [row for row in reached if not opcodes or self.module.opcodes[row] in opcodes]
        rows.sort(key=lambda row: (reached[row][0], row))
        places = zip(*(reached[row] for row in rows), strict=True) if rows else ((), ())
        distances, relations = places
        return pa.table({"distance": pa.array(distances, pa.int64()), "relation": pa.array(relations, pa.string())}
                        | self._describe(rows))  # fmt: skip

    def _reach(self, start: int, width: int, relation: str, follow_calls: bool) -> dict[int, int]:
        step = self._needed if relation == "operand" else self._needing
        distances = {start: 0}
        waiting = deque([start])
        while waiting:
            row = waiting.popleft()
            if distances[row] < width:
                for near in step(row, follow_calls):
                    if near not in distances:
                        distances[near] = distances[row] + 1
                        waiting.append(near)
        return distances

    def _needed(self, row: int, follow_calls: bool) -> Iterator[int]:
        """Yield the operands of an instruction, the roots of its calls, and the caller's operand for a parameter."""
        module = self.module
        yield from (operand for operand in module.operands_of(row) if operand >= 0)
        if follow_calls:
            yield from (module.roots[call] for call in module.calls_of(row) if call >= 0 and module.roots[call] >= 0)
            caller = self._find_only_caller(module.computation_rows[row])
            if module.opcodes[row] == "parameter" and caller >= 0:
                argument = self._arguments.get((caller, module.parameter_numbers[row]))
                if argument is not None:
                    yield argument

    def _needing(self, row: int, follow_calls: bool) -> Iterator[int]:
        """Yield the users of an instruction, the parameters that it becomes, and for a root the callers."""
        module = self.module
        uses = self._uses.get(row, ())
        yield from dict.fromkeys(user for user, _ in uses)
        if follow_calls:
            computation = module.computation_rows[row]
            if module.roots[computation] == row and self._find_only_caller(computation) >= 0:
                yield from self._callers[computation]
            for user, number in uses:
                for call in self._calls[user]:
                    yield from self._parameters.get((call, number), ())

    def _find_only_caller(self, computation: int) -> int:
        """Return the row of the only caller of a computation, or -1. A walk does not leave a computation that several
        instructions call, such as the sum of all-reduces: it would return to another caller than it came from."""
        callers = self._callers.get(computation, ())
        return callers[0] if len(callers) == 1 else -1

    def find_path(self, source: str, target: str, *, follow_calls: bool = True) -> pa.Table:
        """Return a shortest chain of uses between two instructions, in the direction of the data, which may be from
        target to source: position, name, …. It has no rows if neither needs the other. UsageError: no such
        instruction."""
        start, end = self.find(source), self.find(target)
        rows = self._find_chain(start, end, follow_calls) or self._find_chain(end, start, follow_calls)
        return pa.table({"position": pa.array(range(len(rows)), pa.int64())} | self._describe(rows))

    def _find_chain(self, start: int, end: int, follow_calls: bool) -> list[int]:
        before = {start: -1}
        waiting = deque([start])
        while waiting and end not in before:
            row = waiting.popleft()
            for near in self._needing(row, follow_calls):
                if near not in before:
                    before[near] = row
                    waiting.append(near)
        chain = []
        row = end if end in before else -1
        while row >= 0:
            chain.append(row)
            row = before[row]
        return chain[::-1]

    # ---- wholes

    def list_calls(self) -> pa.Table:
        """Return the computations as a tree in preorder: depth, computation, caller, opcode of the caller, instruction
        count, other_caller_count. A computation that several instructions call is below the first one."""
        module = self.module
        rows: list[tuple[int, int, int]] = []
        met = set[int]()
        inner = {call for row in range(len(module)) for call in module.calls_of(row)}
        inner.add(module.entry)
        tops = [module.entry] if module.entry >= 0 else []
        tops += [computation for computation in range(len(module.roots)) if computation not in inner]
        waiting = [(0, computation, -1) for computation in reversed(tops)]
        while waiting:
            depth, computation, caller = waiting.pop()
            if computation in met:
                continue
            met.add(computation)
            rows.append((depth, computation, caller))
            below = [(depth + 1, call, row) for row in module.rows_of(computation) for call in module.calls_of(row)]
            waiting += [entry for entry in reversed(below) if entry[1] >= 0]
        return pa.table({
            "depth": pa.array([depth for depth, _, _ in rows], pa.int64()),
            "computation": pa.array([module.computation_names[computation] for _, computation, _ in rows], pa.string()),
            "caller": pa.array([None if row < 0 else module.names[row] for _, _, row in rows], pa.string()),
            "opcode": pa.array([None if row < 0 else module.opcodes[row] for _, _, row in rows], pa.string()),
            "instruction_count": pa.array([len(module.rows_of(place)) for _, place, _ in rows], pa.int64()),
            "other_caller_count": pa.array([max(len(self._callers[place]) - 1, 0) for _, place, _ in rows], pa.int64()),
        })  # fmt: skip

    def list_blockers(self) -> pa.Table:
        """Return the instructions outside of fusions that have fusible neighbours and cannot be fused with them: name,
        opcode, …, reason, and how many fusible operands and users each separates; most first."""
        module = self.module
        fused = {call for row in range(len(module)) if module.opcodes[row] == "fusion" for call in module.calls_of(row)}
        blockers = []
        for row in range(len(module)):
            opcode = module.opcodes[row]
            for end in _ASYNC_ENDS:
                opcode = opcode.removesuffix(end)
            reason = _BLOCKERS.get(opcode)
            if reason is None or module.computation_rows[row] in fused:
                continue
            before = sum(self._is_fusible(operand) for operand in dict.fromkeys(module.operands_of(row)))
            after = sum(self._is_fusible(user) for user in dict.fromkeys(user for user, _ in self._uses.get(row, ())))
            if before or after:
                blockers.append((row, reason, before, after))
        blockers.sort(key=lambda entry: (-(entry[2] > 0 and entry[3] > 0), -(entry[2] + entry[3]), entry[0]))
        return pa.table(self._describe([row for row, *_ in blockers]) | {
            "reason": pa.array([reason for _, reason, _, _ in blockers], pa.string()),
            "fusible_operand_count": pa.array([before for _, _, before, _ in blockers], pa.int64()),
            "fusible_user_count": pa.array([after for _, _, _, after in blockers], pa.int64()),
        })  # fmt: skip

    def _is_fusible(self, row: int) -> bool:
        return row >= 0 and self.module.opcodes[row] in _FUSIBLE

    def count_opcodes(self) -> pa.Table:
        """Return for each opcode the number of instructions, and of those outside of fusions; most first."""
        module = self.module
        fused = {call for row in range(len(module)) if module.opcodes[row] == "fusion" for call in module.calls_of(row)}
        every = Counter(module.opcodes)
        outside = Counter(
            opcode for opcode, place in zip(module.opcodes, module.computation_rows, strict=True) if place not in fused
        )
        names = sorted(every, key=lambda opcode: (-every[opcode], opcode))
        return pa.table({
            "opcode": pa.array(names, pa.string()),
            "instruction_count": pa.array([every[opcode] for opcode in names], pa.int64()),
            "unfused_count": pa.array([outside[opcode] for opcode in names], pa.int64()),
        })  # fmt: skip

    def _describe(self, rows: Sequence[int]) -> dict[str, pa.Array]:
        module = self.module
        values: dict[str, Callable[[int], str]] = {
            "name": lambda row: module.names[row],
            "opcode": lambda row: module.opcodes[row],
            "shape": lambda row: module.shape_text(module.shape_rows[row]),
            "computation": lambda row: module.computation_names[module.computation_rows[row]],
            "op_name": module.op_name,
        }
        return {name: pa.array([values[name](row) for row in rows], pa.string()) for name in _COLUMNS}
