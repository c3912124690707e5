"""A module's columns as the writers of its text walk them: lists, since each is asked for one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from weakref import WeakKeyDictionary

from fastprof.hlo.message import Message, messages_at
from fastprof.hlo.module import HloModule
from fastprof.hlo.shapes import PRED, TUPLE
from fastprof.hlo.text.escapes import printed
from fastprof.hlo.text.shape_text import UNKNOWN, ShapeTexts
from fastprof.schema.array_types import Records

_CONTROL = 37
_IN_COLUMNS = (1, 2, 3, 9, 35, 36, 38)
"""Fields of an HloInstructionProto: name, opcode, shape, number of a parameter, ids of itself and what it refers to."""
_ASYNC = ("async-start", "async-update", "async-done")


class Program:
    """Rows are those of ``HloModule``'s instructions, computations and shapes. Holds all that a text needs of a module,
    but not the module itself."""

    def __init__(self, module: HloModule) -> None:
        self.data = module.data
        self.proto = module.proto
        self.name = module.name
        self.entry = module.entry
        self.is_scheduled = module.is_scheduled
        self.texts: list[str] = module.texts.to_pylist()
        self._instructions, self._computations, self._shapes = module.instructions, module.computations, module.shapes
        self._operands, self._calls, self._scheduled = module.operands, module.calls, module.scheduled
        self._written, self._plainly_written = ShapeTexts(), ShapeTexts(layouts=False)
        self._shape_texts: dict[int, str] = {-1: UNKNOWN}

    def __len__(self) -> int:
        return len(self._instructions)

    # ---- columns

    @cached_property
    def names(self) -> list[str]:
        return self._text_column(self._instructions, "name")

    @cached_property
    def printed_names(self) -> list[str]:
        """As text has them."""
        return list(map(printed, self.names))

    @cached_property
    def printed_computations(self) -> list[str]:
        return list(map(printed, self.computation_names))

    @cached_property
    def opcodes(self) -> list[str]:
        return self._text_column(self._instructions, "opcode")

    @cached_property
    def computation_names(self) -> list[str]:
        return self._text_column(self._computations, "name")

    @cached_property
    def shape_rows(self) -> list[int]:
        return self._numbers(self._instructions, "shape")

    @cached_property
    def ids(self) -> list[int]:
        return self._numbers(self._instructions, "id")

    @cached_property
    def parameter_numbers(self) -> list[int]:
        return self._numbers(self._instructions, "parameter_number")

    @cached_property
    def frames(self) -> list[int]:
        """The stack frame that each instruction comes from, by its number in the module; 0 where it is not told."""
        return self._numbers(self._instructions, "stack_frame_id")

    @cached_property
    def computations(self) -> list[int]:
        """The computation that each instruction is in."""
        return self._numbers(self._instructions, "computation")

    @cached_property
    def roots(self) -> list[int]:
        """Of each computation, -1 where it has none."""
        return self._numbers(self._computations, "root")

    @cached_property
    def computation_ids(self) -> list[int]:
        return self._numbers(self._computations, "id")

    @cached_property
    def _places(self) -> list[tuple[int, int]]:
        return self._spans(self._instructions, "offset", "length")

    @cached_property
    def _operand_spans(self) -> list[tuple[int, int]]:
        return self._spans(self._instructions, "first_operand", "operand_count")

    @cached_property
    def _call_spans(self) -> list[tuple[int, int]]:
        return self._spans(self._instructions, "first_call", "call_count")

    @cached_property
    def _operand_rows(self) -> list[int]:
        rows: list[int] = self._operands.tolist()
        return rows

    @cached_property
    def _call_rows(self) -> list[int]:
        rows: list[int] = self._calls.tolist()
        return rows

    def _text_column(self, table: Records, column: str) -> list[str]:
        texts = self.texts
        return [texts[number] for number in table[column].tolist()]

    @staticmethod
    def _numbers(table: Records, column: str) -> list[int]:
        numbers: list[int] = table[column].tolist()
        return numbers

    def _spans(self, table: Records, first: str, count: str) -> list[tuple[int, int]]:
        return list(zip(self._numbers(table, first), self._numbers(table, count), strict=True))

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
        """Rows of instructions, -1 where there is none."""
        first, count = self._operand_spans[row]
        return self._operand_rows[first : first + count]

    def calls(self, row: int) -> list[int]:
        """Rows of computations, likewise."""
        first, count = self._call_spans[row]
        return self._call_rows[first : first + count]

    def rows_of(self, computation: int) -> range:
        raw = self._computations[computation]
        return range(int(raw["first_instruction"]), int(raw["last_instruction"]))

    def scheduled(self, computation: int) -> list[int] | None:
        """Its instructions in the order of the schedule, those that a broken one lacks last; None: it has none."""
        raw = self._computations[computation]
        first, count = int(raw["first_scheduled"]), int(raw["scheduled_count"])
        if count < 0:
            return None
        own = self.rows_of(computation)
        rows = dict.fromkeys(row for row in self._scheduled[first : first + count].tolist() if row in own)
        return [*rows, *(row for row in own if row not in rows)] if len(rows) < len(own) else list(rows)

    def is_fusion(self, computation: int) -> bool:
        """Whether it is what a fusion computes, as the module says."""
        return bool(self._computations[computation]["is_fusion"])

    def execution_thread(self, computation: int) -> str:
        """``main`` is told as ""."""
        return self.texts[int(self._computations[computation]["execution_thread"])]

    def is_predicate(self, row: int) -> bool:
        """Whether an instruction gives a boolean."""
        shape = self.shape_rows[row] if row >= 0 else -1
        return shape >= 0 and int(self._shapes[shape]["element_type"]) == PRED

    def element_count(self, row: int) -> int | None:
        """Of the array that an instruction gives; None: of a tuple."""
        shape = self.shape_rows[row]
        if shape < 0 or int(self._shapes[shape]["element_type"]) == TUPLE:
            return None
        sizes = Message(self._shape_proto(shape)).integers(3)
        count = 1
        for size in sizes:
            count *= max(size, 0)
        return count

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
        return self._numbers(self._shapes, "last"), self._numbers(self._shapes, "element_type")

    def shape_text(self, shape: int) -> str:
        """Of a row of shapes, -1: none."""
        found = self._shape_texts.get(shape)
        if found is None:
            found = self._shape_texts[shape] = self._written.text(self._shape_proto(shape))
        return found

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
        """Rows of instructions, -1 where there is none. ``fields``: those of its proto, where they are read already."""
        if not self._waits[row]:
            return []
        if fields is None:
            fields = Message(self.proto_of(row))
        return [self._rows_by_id.get(one, -1) for one in fields.integers(_CONTROL)]

    @cached_property
    def _waits(self) -> list[bool]:
        from fastprof.hlo.columns import HAS_CONTROL_PREDECESSORS

        waits: list[bool] = (self._instructions["flags"] & HAS_CONTROL_PREDECESSORS != 0).tolist()
        return waits

    def wrapped(self, row: int) -> int:
        """The instruction that an async one stands for, where its text may do so too: it is all of its computation but
        for parameters. -1: there is none."""
        if self.opcodes[row] not in _ASYNC:
            return -1
        start = self._starts.get(row, row)
        called = self.calls(start)[:1] if self.opcodes[start] == "async-start" else []
        return self.single(called[0]) if called and called[0] >= 0 else -1

    def single(self, computation: int) -> int:
        """The root of a computation that is all of it but for parameters; -1: it has more."""
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
        """Computations that async instructions stand for, which texts leave out."""
        starts = [row for row, opcode in enumerate(self.opcodes) if opcode == "async-start"]
        called = {call for row in starts for call in self.calls(row)[:1] if call >= 0}
        return frozenset(call for call in called if self.single(call) >= 0)


_PROGRAMS: WeakKeyDictionary[HloModule, Program] = WeakKeyDictionary()


def program_of(module: HloModule) -> Program:
    """The same for each module for as long as there is the module."""
    found = _PROGRAMS.get(module)
    if found is None:
        found = _PROGRAMS[module] = Program(module)
    return found
