"""A module's columns as the writers of its text walk them: lists, since values are read one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from math import prod
from weakref import WeakKeyDictionary

from fastprof.hlo.message import Message, messages_at
from fastprof.hlo.module import HAS_CONTROL_PREDECESSORS, HloModule
from fastprof.hlo.shapes import PRED, TUPLE
from fastprof.hlo.text.escapes import printed
from fastprof.hlo.text.shape_text import UNKNOWN, ShapeTexts

_CONTROL = 37
_IN_COLUMNS = (1, 2, 3, 9, 35, 36, 38)
"""Fields of an HloInstructionProto: name, opcode, shape, number of a parameter, ids of itself and what it refers to."""
_ASYNC = ("async-start", "async-update", "async-done")


def _texts(table: str, column: str) -> cached_property[list[str]]:
    return cached_property(lambda program: [program.texts[n] for n in getattr(program, table)[column].tolist()])


def _numbers(table: str, column: str) -> cached_property[list[int]]:
    return cached_property(lambda program: getattr(program, table)[column].tolist())


def _spans(first: str, count: str) -> cached_property[list[tuple[int, int]]]:
    return cached_property(lambda program: program._instructions[[first, count]].tolist())


class Program:
    """Rows are those of ``HloModule``'s instructions, computations and shapes. Columns are lists, made at first
    use. Holds all that a text needs of a module, but not the module itself."""

    names = _texts("_instructions", "name")
    opcodes = _texts("_instructions", "opcode")
    ids = _numbers("_instructions", "id")
    shape_rows = _numbers("_instructions", "shape")
    parameter_numbers = _numbers("_instructions", "parameter_number")
    computations = _numbers("_instructions", "computation")
    """The computation of each instruction."""
    frames = _numbers("_instructions", "stack_frame_id")
    """The stack frame of each instruction, by its number in the module; 0: not recorded."""
    computation_names = _texts("_computations", "name")
    computation_ids = _numbers("_computations", "id")
    roots = _numbers("_computations", "root")
    """Of each computation; -1: none."""
    _places = _spans("offset", "length")
    _operand_spans = _spans("first_operand", "operand_count")
    _call_spans = _spans("first_call", "call_count")

    def __init__(self, module: HloModule) -> None:
        self.data = module.data
        self.proto = module.proto
        self.name = module.name
        self.entry = module.entry
        self.is_scheduled = module.is_scheduled
        self._instructions, self._computations, self._shapes = module.instructions, module.computations, module.shapes
        self._operands, self._calls, self._scheduled = module.operands, module.calls, module.scheduled
        self.texts: list[str] = module.texts.to_pylist()
        self._written, self._plainly_written = ShapeTexts(), ShapeTexts(layouts=False)
        self._shape_texts: dict[int, str] = {-1: UNKNOWN}

    @cached_property
    def printed_names(self) -> list[str]:
        """Names of instructions as texts have them."""
        return list(map(printed, self.names))

    @cached_property
    def printed_computations(self) -> list[str]:
        return list(map(printed, self.computation_names))

    @cached_property
    def _operand_rows(self) -> list[int]:
        rows: list[int] = self._operands.tolist()
        return rows

    @cached_property
    def _call_rows(self) -> list[int]:
        rows: list[int] = self._calls.tolist()
        return rows

    # ---- what rows say

    def proto_of(self, row: int) -> memoryview:
        """The HloInstructionProto."""
        at, length = self._places[row]
        return self.data[at : at + length]

    def messages_of(self, rows: range, left_out: Iterable[int] = ()) -> Callable[[int], Message]:
        """Gives the fields of each of these instructions, by place, except those with columns and ``left_out`` ones.
        CaptureError: one does not decode."""
        places = self._instructions[rows.start : rows.stop]
        return messages_at(self.data, places["offset"], places["length"], (*_IN_COLUMNS, *left_out))

    def operands(self, row: int) -> list[int]:
        """Rows of instructions; -1: none."""
        first, count = self._operand_spans[row]
        return self._operand_rows[first : first + count]

    def calls(self, row: int) -> list[int]:
        """Rows of computations; -1: none."""
        first, count = self._call_spans[row]
        return self._call_rows[first : first + count]

    def rows_of(self, computation: int) -> range:
        raw = self._computations[computation]
        return range(int(raw["first_instruction"]), int(raw["last_instruction"]))

    def scheduled(self, computation: int) -> list[int] | None:
        """Its instructions in scheduled order, last those that a broken schedule lacks; None: no schedule."""
        raw = self._computations[computation]
        first, count = int(raw["first_scheduled"]), int(raw["scheduled_count"])
        if count < 0:
            return None
        own = self.rows_of(computation)
        rows = dict.fromkeys(row for row in self._scheduled[first : first + count].tolist() if row in own)
        return [*rows, *(row for row in own if row not in rows)] if len(rows) < len(own) else list(rows)

    def is_fusion(self, computation: int) -> bool:
        """Whether a fusion computes it, as the module records."""
        return bool(self._computations[computation]["is_fusion"])

    def execution_thread(self, computation: int) -> str:
        """ "" for the main thread."""
        return self.texts[int(self._computations[computation]["execution_thread"])]

    def is_predicate(self, row: int) -> bool:
        """Whether the result of an instruction is a boolean."""
        shape = self.shape_rows[row] if row >= 0 else -1
        return shape >= 0 and int(self._shapes[shape]["element_type"]) == PRED

    def element_count(self, row: int) -> int | None:
        """Of an instruction's array; None: the result is a tuple."""
        shape = self.shape_rows[row]
        if shape < 0 or int(self._shapes[shape]["element_type"]) == TUPLE:
            return None
        return prod(max(size, 0) for size in Message(self._shape_proto(shape)).integers(3))

    def arrays_of(self, shape: int) -> list[str | tuple[int, ...]]:
        """A shape as a tree: the place of each array in it, and the brackets and commas of the tuples around them."""
        if shape < 0:
            return [()]
        lasts, kinds = self._shape_ends
        tree: list[str | tuple[int, ...]] = []
        open_tuples: list[tuple[int, list[int]]] = []
        for row in range(shape, lasts[shape]):
            while open_tuples and row >= open_tuples[-1][0]:
                open_tuples.pop()
                tree.append(")")
            place = open_tuples[-1][1] if open_tuples else []
            if open_tuples:
                tree += [", "] * (place[-1] >= 0)
                place[-1] += 1
            if kinds[row] == TUPLE:
                tree.append("(")
                open_tuples.append((lasts[row], [*place, -1]))
            else:
                tree.append(tuple(place))
        return tree + [")"] * len(open_tuples)

    @cached_property
    def _shape_ends(self) -> tuple[list[int], list[int]]:
        return self._shapes["last"].tolist(), self._shapes["element_type"].tolist()

    def shape_text(self, shape: int) -> str:
        """Of a row of shapes, -1: none."""
        text = self._shape_texts.get(shape)
        if text is None:
            text = self._shape_texts[shape] = self._written.text(self._shape_proto(shape))
        return text

    def plain_shape_text(self, row: int) -> str:
        """Of an instruction, without layouts."""
        shape = self.shape_rows[row]
        return UNKNOWN if shape < 0 else self._plainly_written.text(self._shape_proto(shape))

    def _shape_proto(self, shape: int) -> memoryview:
        raw = self._shapes[shape]
        at = int(raw["offset"])
        return self.data[at : at + int(raw["length"])]

    # ---- what instructions wait for, and what they wrap

    @cached_property
    def _rows_by_id(self) -> dict[int, int]:
        return dict(zip(reversed(self.ids), reversed(range(len(self.ids))), strict=True))

    def control_predecessors(self, row: int, fields: Message | None = None) -> list[int]:
        """Rows of instructions, -1: unknown. ``fields``: those of its proto, where they are read already."""
        if not self._waits[row]:
            return []
        if fields is None:
            fields = Message(self.proto_of(row))
        return [self._rows_by_id.get(one, -1) for one in fields.integers(_CONTROL)]

    @cached_property
    def _waits(self) -> list[bool]:
        waits: list[bool] = (self._instructions["flags"] & HAS_CONTROL_PREDECESSORS != 0).tolist()
        return waits

    def wrapped(self, row: int) -> int:
        """The instruction that an async one wraps, where its computation has nothing else except parameters, so that
        one text shows both. -1: none."""
        if self.opcodes[row] not in _ASYNC:
            return -1
        start = self._starts.get(row, row)
        called = self.calls(start)[:1] if self.opcodes[start] == "async-start" else []
        return self.single(called[0]) if called and called[0] >= 0 else -1

    def single(self, computation: int) -> int:
        """The root of a computation that has nothing else except parameters; -1: it has."""
        root = self.roots[computation]
        alone = all(row == root or self.opcodes[row] == "parameter" for row in self.rows_of(computation))
        return root if alone else -1

    @cached_property
    def _starts(self) -> dict[int, int]:
        """The async-start that each async-update and async-done goes back to; operands come before their users."""
        starts: dict[int, int] = {}
        for row, opcode in enumerate(self.opcodes):
            if opcode in _ASYNC[1:]:
                operands = self.operands(row)
                first = operands[0] if operands else -1
                starts[row] = starts.get(first, first) if 0 <= first < row else row
        return starts

    @cached_property
    def sugared(self) -> frozenset[int]:
        """Computations that async instructions wrap, which texts leave out."""
        starts = [row for row, opcode in enumerate(self.opcodes) if opcode == "async-start"]
        called = {call for row in starts for call in self.calls(row)[:1] if call >= 0}
        return frozenset(call for call in called if self.single(call) >= 0)


_PROGRAMS: WeakKeyDictionary[HloModule, Program] = WeakKeyDictionary()


def program_of(module: HloModule) -> Program:
    """The program of a module, one for as long as the module lives."""
    program = _PROGRAMS.get(module)
    if program is None:
        program = _PROGRAMS[module] = Program(module)
    return program
