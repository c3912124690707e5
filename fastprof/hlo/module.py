"""One compiled program: its computations and instructions, looked up by name and by row, their texts and their source
locations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from fastprof._native.hlo import read_hlo
from fastprof.hlo.shapes import NO_SHAPE, TUPLE, Shape
from fastprof.hlo.text.shape_text import UNKNOWN, ShapeTexts, print_name
from fastprof.inputs.message import Message, scan_messages
from fastprof.schema.columns import Int32s, Int64s, Records
from fastprof.schema.tables import build_texts
from fastprof.schema.value_classes import dataclass

MOST_FRAMES = 1000
"""Most frames of one stack; outer ones beyond this are left out."""
_STEPS, _FEW = 16, 16
"""Frames that all stacks of a module may have together, per frame of the module; later stacks have few."""
_LETTERS = 1 << 24
"""Letters that all texts of stacks of a module may have together, plus 16 per byte of it; later texts are empty."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A place in the source. A frame without a recorded place has file "" and line -1."""

    file: str
    line: int
    column: int
    function: str
    end_line: int = -1
    end_column: int = -1
    has_location: bool = True

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class SourceLine:
    """Where an instruction comes from; ``file`` "" and ``line`` -1: unknown. Columns and last lines are 0 where
    unknown. ``frames``: innermost first."""

    file: str
    line: int
    end_line: int
    column: int
    end_column: int
    frames: tuple[Frame, ...]
    stack: str
    """``file:line:column`` of each frame up to the first of unknown place, each line ended by a line feed."""


NO_SOURCE = SourceLine("", -1, 0, 0, 0, (), "")


class StackFrames:
    """The frames of one module, as csrc/formats/hlo.h has them. Stacks share their outer frames, as a tree; damaged
    ones may form cycles, which end where they close."""

    def __init__(self, records: Records, text: Callable[[int], str], module_bytes: int) -> None:
        self._records = records
        self._text = text
        self._frames: dict[int, Frame] = {}
        self._stacks: dict[int, tuple[Frame, ...]] = {0: ()}
        self._texts: dict[int, str] = {}
        self._left = _STEPS * (len(records) + MOST_FRAMES)
        self._letters = _LETTERS + 16 * module_bytes

    def __len__(self) -> int:
        return len(self._records)

    @cached_property
    def _parents(self) -> list[int]:
        parents: list[int] = self._records["parent"].tolist()
        return parents

    def stack(self, frame_id: int) -> tuple[Frame, ...]:
        """Return the frame of an id, from 1, and its callers; empty for an unknown id."""
        stack = self._stacks.get(frame_id)
        if stack is None:
            parents, most = self._parents, MOST_FRAMES if self._left > 0 else _FEW
            rows: dict[int, None] = {}
            row = frame_id - 1
            while 0 <= row < len(parents) and row not in rows and len(rows) < most:
                rows[row] = None
                row = parents[row]
            stack = self._stacks[frame_id] = tuple(self._frame(row) for row in rows)
            self._left -= len(stack)
        return stack

    def text(self, frame_id: int) -> str:
        """Return the text of ``Source.stack``."""
        text = self._texts.get(frame_id)
        if text is None:
            text = self._texts[frame_id] = self._written(self.stack(frame_id))
            self._letters -= len(text)
        return text

    def _written(self, frames: tuple[Frame, ...]) -> str:
        lines: list[str] = []
        left = self._letters
        for frame in frames:
            if not frame.has_location:
                break
            lines.append(f"{frame}\n")
            left -= len(lines[-1])
            if left < 0:
                return ""
        return "".join(lines)

    def _frame(self, row: int) -> Frame:
        frame = self._frames.get(row)
        if frame is None:
            file, function, line, column, end_line, end_column, _, has_location, _ = self._records[row].item()
            frame = self._frames[row] = Frame(
                self._text(file), line, column, self._text(function), end_line, end_column, bool(has_location)
            )
        return frame


# The structs of csrc/formats/hlo.h; a test compares their sizes with C's.
COMPUTATION = np.dtype(
    [("offset", "u8"), ("length", "u8"), ("program_shape_offset", "u8"), ("program_shape_length", "u8")]
    + [("id", "i8"), ("root_id", "i8"), ("name", "i4"), ("root", "i4")]
    + [("first_instruction", "i4"), ("last_instruction", "i4"), ("execution_thread", "i4")]
    + [("first_scheduled", "i4"), ("scheduled_count", "i4"), ("is_fusion", "u1"), ("unused", "u1", 3)]
)
INSTRUCTION = np.dtype(
    [("offset", "u8"), ("length", "u8"), ("backend_config_offset", "u8"), ("backend_config_length", "u8")]
    + [("sharding_offset", "u8"), ("sharding_length", "u8")]
    + [("id", "i8"), ("parameter_number", "i8"), ("tuple_index", "i8"), ("channel_id", "i8")]
    + [("computation", "i4"), ("shape", "i4"), ("first_operand", "i4"), ("operand_count", "i4")]
    + [("first_call", "i4"), ("call_count", "i4"), ("name", "i4"), ("opcode", "i4"), ("fusion_kind", "i4")]
    + [("custom_call_target", "i4"), ("op_name", "i4"), ("op_type", "i4"), ("source_file", "i4")]
    + [("deduplicated_name", "i4"), ("scheduling_name", "i4"), ("source_line", "i4"), ("source_end_line", "i4")]
    + [("source_column", "i4"), ("source_end_column", "i4"), ("stack_frame_id", "i4"), ("flags", "u4")]
    + [("unused", "i4")]
)
SHAPE = np.dtype(
    [("offset", "u8"), ("length", "u8"), ("memory_space", "i8"), ("element_bits", "i8"), ("alignment", "i8")]
    + [("first_dimension", "i4"), ("dimension_count", "i4")]
    + [("first_minor", "i4"), ("minor_count", "i4"), ("first_tile", "i4"), ("tile_count", "i4"), ("last", "i4")]
    + [("element_type", "i2"), ("has_layout", "u1"), ("is_dynamic", "u1")]
)
TILE = np.dtype([("first_dimension", "i4"), ("dimension_count", "i4")])
FRAME = np.dtype(
    [("file", "i4"), ("function", "i4"), ("line", "i4"), ("column", "i4"), ("end_line", "i4"), ("end_column", "i4")]
    + [("parent", "i4"), ("has_location", "u1"), ("unused", "u1", 3)]
)

HAS_SHARDING, HAS_REPLICA_GROUPS, HAS_LITERAL, HAS_BACKEND_CONFIG = 1, 2, 4, 8
HAS_FRONTEND_ATTRIBUTES, HAS_CONTROL_PREDECESSORS, HAS_SOURCE_TARGET_PAIRS = 16, 32, 64
"""Bits of an instruction's ``flags``: which of the fields that few have are in its HloInstructionProto."""

_CONTROL = 37
_IN_COLUMNS = (1, 2, 3, 9, 35, 36, 38)
"""Fields of an HloInstructionProto: name, opcode, shape, number of a parameter, ids of itself and what it refers to."""
_ASYNC = ("async-start", "async-update", "async-done")
_ARGUMENTS = ("XLA_Args", "XLA_Retvals")
_READ = (
    *("offset", "length", "shape", "first_operand", "operand_count", "first_call", "call_count", "name", "opcode"),
    *("parameter_number", "tuple_index", "fusion_kind", "custom_call_target"),
)
_LAST = SHAPE.names.index("last") if SHAPE.names else 0
_PLACE = ("source_file", "source_line", "source_end_line", "source_column", "source_end_column", "stack_frame_id")


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction as the cost model and its users need it. ``row``: its row in the module."""

    row: int
    name: str
    opcode: str
    shape: Shape
    operands: tuple[int, ...]
    """Rows of instructions; -1 if the module has no such instruction."""
    calls: tuple[int, ...]
    """Rows of computations; -1 if the module has no such computation."""
    parameter_number: int
    tuple_index: int
    fusion_kind: str
    custom_call_target: str
    proto: memoryview
    """The HloInstructionProto."""

    def fields(self) -> Message:
        """Return the fields of ``proto``. CaptureError: it does not decode."""
        return Message(self.proto)


def _get_texts(table: str, column: str) -> cached_property[list[str]]:
    def read(module: HloModule) -> list[str]:
        texts = module._all_texts
        return [texts[number] for number in getattr(module, table)[column].tolist()]

    return cached_property(read)


def _get_numbers(table: str, column: str) -> cached_property[list[int]]:
    return cached_property(lambda module: getattr(module, table)[column].tolist())


def _make_spans(first: str, count: str) -> cached_property[list[tuple[int, int]]]:
    return cached_property(lambda module: module.instructions[[first, count]].tolist())


class HloModule:
    """The columns of csrc/formats/hlo.h, and look-ups in them. CaptureError, with the offset in ``data``: the bytes are
    not an HloProto.

    ``computations``, ``instructions``, ``shapes``, ``tiles``, ``frames``   records, of the types above
    ``operands``, ``calls``, ``scheduled``                          rows that they refer to, -1: none
    ``dimensions``, ``minor_to_major``, ``tile_dimensions``         of shapes, layouts and tiles
    """

    def __init__(self, data: Any) -> None:
        self.data = memoryview(data)
        raw = read_hlo(data)
        offset, length = raw["module"]
        self.proto = self.data[offset : offset + length]
        """The HloModuleProto."""
        self.id: int = raw["id"]
        self.entry: int = raw["entry"]
        self.is_scheduled: bool = raw["is_scheduled"]
        self.computations: Records = np.frombuffer(raw["computations"], COMPUTATION)
        self.instructions: Records = np.frombuffer(raw["instructions"], INSTRUCTION)
        self.shapes: Records = np.frombuffer(raw["shapes"], SHAPE)
        self.tiles: Records = np.frombuffer(raw["tiles"], TILE)
        self.frames: Records = np.frombuffer(raw["frames"], FRAME)
        self.operands: Int32s = np.frombuffer(raw["operands"], np.int32)
        self.calls: Int32s = np.frombuffer(raw["calls"], np.int32)
        self.scheduled: Int32s = np.frombuffer(raw["scheduled"], np.int32)
        self.dimensions: Int64s = np.frombuffer(raw["dimensions"], np.int64)
        self.minor_to_major: Int64s = np.frombuffer(raw["minor_to_major"], np.int64)
        self.tile_dimensions: Int64s = np.frombuffer(raw["tile_dimensions"], np.int64)
        self.text_pool = raw["texts"]
        """Offsets and bytes of all texts."""
        self.texts = build_texts(*self.text_pool)
        self.name: str = self.text(raw["name"])
        self.stack_frames = StackFrames(self.frames, self.text, len(self.data))
        self._read_fields = self.instructions[list(_READ)]
        self._place_fields = self.instructions[list(_PLACE)]
        self._met: dict[int, Instruction] = {}
        self._shapes: dict[int, Shape] = {-1: NO_SHAPE}
        self.shape_texts, self._plain_shape_texts = ShapeTexts(), ShapeTexts(layouts=False)
        self._shape_texts: dict[int, str] = {-1: UNKNOWN}

    def __len__(self) -> int:
        return len(self.instructions)

    @cached_property
    def _all_texts(self) -> list[str]:
        texts: list[str] = self.texts.to_pylist()
        return texts

    def text(self, number: int) -> str:
        return self._all_texts[number]

    # ---- instructions

    @cached_property
    def _named(self) -> dict[str, int]:
        """The row of the first instruction of each name."""
        named = dict(zip(reversed(self.names), reversed(range(len(self))), strict=True))
        named.pop("", None)
        return named

    def find(self, names: Sequence[str]) -> Int32s:
        """Return rows of the instructions of these names, in any computation; -1 if there is none."""
        return np.array([self._named.get(name, -1) for name in names], np.int32)

    def instruction(self, row: int) -> Instruction:
        """Return the instruction of a row. LookupError: no such row."""
        if row < 0:
            raise LookupError("an instruction refers to a missing instruction")
        instruction = self._met.get(row)
        if instruction is None:
            at, length, shape, first, count, call, calls, name, opcode, parameter, place, kind, target = (
                self._read_fields[row].item()
            )
            instruction = self._met[row] = Instruction(
                row=row,
                name=self.text(name),
                opcode=self.text(opcode),
                shape=self.shape(shape),
                operands=tuple(self.operands[first : first + count].tolist()),
                calls=tuple(self.calls[call : call + calls].tolist()),
                parameter_number=parameter,
                tuple_index=place,
                fusion_kind=self.text(kind),
                custom_call_target=self.text(target),
                proto=self.data[at : at + length],
            )
        return instruction

    @property
    def entry_name(self) -> str:
        """Name of the computation that runs first; "" if none does."""
        return self.text(self.computations["name"][self.entry]) if self.entry >= 0 else ""

    def rows_of(self, computation: int) -> range:
        """Return rows of a computation's instructions. LookupError: no such computation."""
        if computation < 0:
            raise LookupError("an instruction calls a missing computation")
        raw = self.computations[computation]
        return range(int(raw["first_instruction"]), int(raw["last_instruction"]))

    def root_of(self, computation: int) -> Instruction:
        if computation < 0:
            raise LookupError("an instruction calls a missing computation")
        return self.instruction(int(self.computations[computation]["root"]))

    def shape(self, row: int) -> Shape:
        """Return the shape of a row of ``shapes``; -1 if there is none."""
        shape = self._shapes.get(row)
        if shape is None:
            shape = self._shapes[row] = self._read_shape(row)
        return shape

    def _read_shape(self, row: int) -> Shape:
        """Build elements before the tuples that hold them, without recursion: tuples may nest deep."""
        raws = self.shapes[row : int(self.shapes["last"][row])].tolist()
        built: list[Shape] = []
        lasts = [raw[_LAST] - row for raw in raws]
        for place in range(len(raws) - 1, -1, -1):
            elements = []
            inner = place + 1
            while inner < lasts[place]:
                elements.append(built[len(raws) - 1 - inner])
                inner = lasts[inner]
            built.append(self._shape_of(raws[place], tuple(elements)))
        return built[-1]

    def _shape_of(self, raw: tuple[int, ...], elements: tuple[Shape, ...]) -> Shape:
        offset, length, space, bits, alignment, first, count, minor, minors, tile, tile_count = raw[:_LAST]
        tiles = (self.tiles[number].item() for number in range(tile, tile + tile_count))
        return Shape(
            element_type=raw[_LAST + 1],
            dimensions=tuple(self.dimensions[first : first + count].tolist()),
            elements=elements,
            has_layout=bool(raw[_LAST + 2]),
            memory_space=space,
            element_bits=bits,
            minor_to_major=tuple(self.minor_to_major[minor : minor + minors].tolist()),
            tiles=tuple(tuple(self.tile_dimensions[at : at + sizes].tolist()) for at, sizes in tiles),
            alignment=alignment,
            is_dynamic=bool(raw[_LAST + 3]),
            proto=(offset, length),
        )

    # ---- where instructions come from

    def op_name(self, row: int) -> str:
        """Return the framework's name of the op that an instruction comes from: ``jit(f)/dot_general``; "" if it is
        unknown."""
        return self.text(self.instructions[row]["op_name"])

    def framework_op(self, row: int) -> str:
        """``op_name:op_type``; "" where both are unknown."""
        name, kind = self.op_name(row), self.text(self.instructions[row]["op_type"])
        if not kind and name in _ARGUMENTS:
            kind = name
        return f"{name}:{kind}" if name or kind else ""

    def full_op_name(self, row: int) -> str:
        """``op_name:op_type`` as traces of events have it, ``:`` where both are unknown."""
        return f"{self.op_name(row)}:{self.text(self.instructions[row]['op_type'])}"

    def source_place(self, row: int) -> tuple[str, int]:
        """File and line in the metadata of an instruction; "" if it is unknown."""
        file, line = self._place_fields[row].item()[:2]
        return self.text(file) if file else "", line

    def framework_ops(self) -> list[tuple[str, str]]:
        """Return each distinct (op_name, op_type) of its instructions."""
        pairs = np.unique(self.instructions[["op_name", "op_type"]])
        return [(self.text(name), self.text(kind)) for name, kind in pairs.tolist()]

    def source_of(self, row: int) -> SourceLine:
        """Where in the source an instruction comes from: by its metadata, else by its innermost stack frame."""
        file, line, end_line, column, end_column, frame = self._place_fields[row].item()
        frames, stack = self.stack_frames.stack(frame), self.stack_frames.text(frame)
        if file:
            return SourceLine(self.text(file), line, end_line, column, end_column, frames, stack)
        if frames:
            inner = frames[0]
            return SourceLine(inner.file, inner.line, inner.end_line, inner.column, inner.end_column, frames, stack)
        return NO_SOURCE

    # ---- columns as lists, for text, which reads values one by one

    names = _get_texts("instructions", "name")
    opcodes = _get_texts("instructions", "opcode")
    ids = _get_numbers("instructions", "id")
    shape_rows = _get_numbers("instructions", "shape")
    parameter_numbers = _get_numbers("instructions", "parameter_number")
    computation_rows = _get_numbers("instructions", "computation")
    """The computation of each instruction."""
    frame_ids = _get_numbers("instructions", "stack_frame_id")
    """The stack frame of each instruction, by its number in the module; 0 if it is not recorded."""
    computation_names = _get_texts("computations", "name")
    computation_ids = _get_numbers("computations", "id")
    roots = _get_numbers("computations", "root")
    """Root of each computation, or -1."""
    _places = _make_spans("offset", "length")
    _operand_spans = _make_spans("first_operand", "operand_count")
    _call_spans = _make_spans("first_call", "call_count")
    _operand_rows = cached_property[list[int]](lambda module: module.operands.tolist())
    _call_rows = cached_property[list[int]](lambda module: module.calls.tolist())

    @cached_property
    def printed_names(self) -> list[str]:
        """Names of instructions as strings have them."""
        return list(map(print_name, self.names))

    @cached_property
    def printed_computations(self) -> list[str]:
        return list(map(print_name, self.computation_names))

    # ---- what rows say

    def proto_of(self, row: int) -> memoryview:
        """Return an instruction's HloInstructionProto."""
        at, length = self._places[row]
        return self.data[at : at + length]

    def messages_of(self, rows: range, left_out: Iterable[int] = ()) -> Callable[[int], Message]:
        """Return a function that gives the fields of each of these instructions, by place, except those with columns
        and ``left_out`` ones. CaptureError: one does not decode."""
        places = self.instructions[rows.start : rows.stop]
        return scan_messages(self.data, places["offset"], places["length"], (*_IN_COLUMNS, *left_out))

    def operands_of(self, row: int) -> list[int]:
        """Return the rows of an instruction's operands; -1 for unknown ones."""
        first, count = self._operand_spans[row]
        return self._operand_rows[first : first + count]

    def calls_of(self, row: int) -> list[int]:
        """Return the rows of the computations that an instruction calls; -1 for unknown ones."""
        first, count = self._call_spans[row]
        return self._call_rows[first : first + count]

    def schedule_of(self, computation: int) -> list[int] | None:
        """Its instructions in scheduled order, last those that a broken schedule lacks; None if no schedule."""
        raw = self.computations[computation]
        first, count = int(raw["first_scheduled"]), int(raw["scheduled_count"])
        if count < 0:
            return None
        own = self.rows_of(computation)
        rows = dict.fromkeys(row for row in self.scheduled[first : first + count].tolist() if row in own)
        return [*rows, *(row for row in own if row not in rows)] if len(rows) < len(own) else list(rows)

    def execution_thread(self, computation: int) -> str:
        """Return the thread of a computation; "" for the main thread."""
        return self.text(self.computations["execution_thread"][computation])

    def arrays_of(self, shape: int) -> list[str | tuple[int, ...]]:
        """Return a shape as a tree: the place of each array in it, and the brackets and commas of the tuples around
        them."""
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
        return self.shapes["last"].tolist(), self.shapes["element_type"].tolist()

    def shape_text(self, shape: int) -> str:
        """Return the text of a row of shapes; UNKNOWN for -1."""
        text = self._shape_texts.get(shape)
        if text is None:
            text = self._shape_texts[shape] = self.shape_texts.text(self._shape_proto(shape))
        return text

    def plain_shape_text(self, row: int) -> str:
        """Return the text of an instruction's shape, without layouts."""
        shape = self.shape_rows[row]
        return UNKNOWN if shape < 0 else self._plain_shape_texts.text(self._shape_proto(shape))

    def _shape_proto(self, shape: int) -> memoryview:
        raw = self.shapes[shape]
        at = int(raw["offset"])
        return self.data[at : at + int(raw["length"])]

    # ---- what instructions wait for, and what they wrap

    @cached_property
    def _rows_by_id(self) -> dict[int, int]:
        return dict(zip(reversed(self.ids), reversed(range(len(self.ids))), strict=True))

    def control_predecessors(self, row: int, fields: Message | None = None) -> list[int]:
        """Return rows of instructions, or -1 if it is unknown. ``fields``: those of its proto, where they are read
        already."""
        if not self._waits[row]:
            return []
        if fields is None:
            fields = Message(self.proto_of(row))
        return [self._rows_by_id.get(integer, -1) for integer in fields.integers(_CONTROL)]

    @cached_property
    def _waits(self) -> list[bool]:
        waits: list[bool] = (self.instructions["flags"] & HAS_CONTROL_PREDECESSORS != 0).tolist()
        return waits

    def wrapped(self, row: int) -> int:
        """Return the instruction that an async one wraps, where its computation has nothing else except parameters, so
        that one text shows both. -1: none."""
        if self.opcodes[row] not in _ASYNC:
            return -1
        start = self._starts.get(row, row)
        called = self.calls_of(start)[:1] if self.opcodes[start] == "async-start" else []
        return self.single(called[0]) if called and called[0] >= 0 else -1

    def single(self, computation: int) -> int:
        """Return the root of a computation that has nothing else except parameters; -1 if it has."""
        root = self.roots[computation]
        alone = all(row == root or self.opcodes[row] == "parameter" for row in self.rows_of(computation))
        return root if alone else -1

    @cached_property
    def _starts(self) -> dict[int, int]:
        """The async-start that each async-update and async-done goes back to; operands come before their users."""
        starts: dict[int, int] = {}
        for row, opcode in enumerate(self.opcodes):
            if opcode in _ASYNC[1:]:
                operands = self.operands_of(row)
                first = operands[0] if operands else -1
                starts[row] = starts.get(first, first) if 0 <= first < row else row
        return starts

    @cached_property
    def sugared(self) -> frozenset[int]:
        """Computations that async instructions wrap, which texts leave out."""
        starts = [row for row, opcode in enumerate(self.opcodes) if opcode == "async-start"]
        called = {call for row in starts for call in self.calls_of(row)[:1] if call >= 0}
        return frozenset(call for call in called if self.single(call) >= 0)
