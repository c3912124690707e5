"""One instruction as a line of HLO text, ``%add.1 = f32[8]{0} add(f32[8]{0} %x, f32[8]{0} %y)``, with its source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain

from fastprof.errors import CaptureError
from fastprof.hlo.module import HloModule
from fastprof.hlo.shapes import NO_SHAPE, PRED
from fastprof.hlo.text.attribute_text import format_attributes
from fastprof.hlo.text.shape_text import (
    UNKNOWN,
    escape_bytes,
    escape_to_one_line,
    format_sharding,
    join_numbers,
    mark_index,
    omit_metadata,
    quote_unless_json,
)
from fastprof.inputs.message import Message
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import compile_late

_FRAMES = 17
_PLACE_NAMES = ("file_name_id", "function_name_id", "line", "end_line", "column", "end_column")
_PLACE_FIELDS = (1, 2, 3, 5, 4, 6)
_OP_TYPE, _OP_NAME, _FILE, _LINE, _PROFILES, _DEDUPLICATED, _FRAME, _SCHEDULING = 1, 2, 3, 4, 5, 12, 15, 16
_END_LINE, _COLUMN, _END_COLUMN = 17, 18, 19
_SHOWN = (_OP_TYPE, _OP_NAME, _FILE, _FRAME, _SCHEDULING)
"""Fields that make an instruction's text show its metadata."""


def format_metadata(metadata: Message, frames: Mapping[int, int] | None = None) -> str:
    """Format an OpMetadata. ``frames``: the printed number of each stack frame."""
    parts = [_quote_field(metadata, number, name) for number, name in ((_OP_TYPE, "op_type"), (_OP_NAME, "op_name"))]
    parts.append(_quote_field(metadata, _FILE, "source_file"))
    numbers = ((_LINE, "source_line"), (_END_LINE, "source_end_line"), (_COLUMN, "source_column"))
    numbered = (*numbers, (_END_COLUMN, "source_end_column"))
    parts += [f"{name}={value}" for number, name in numbered if (value := metadata.integer(number))]
    profiles = metadata.integers(_PROFILES)
    parts.append(f"profile_type={{{join_numbers(profiles)}}}" if profiles else "")
    parts.append(_quote_field(metadata, _DEDUPLICATED, "deduplicated_name"))
    parts.append(_quote_field(metadata, _SCHEDULING, "scheduling_name"))
    frame = metadata.integer(_FRAME)
    frame = frame if frames is None else frames.get(frame, 0)
    parts.append(f"stack_frame_id={frame}" if frame else "")
    return " ".join(part for part in parts if part)


def has_metadata(metadata: Message) -> bool:
    """Return whether an instruction's text shows its metadata."""
    return any(len(metadata.data(number)) or metadata.integer(number) for number in _SHOWN)


def _quote_field(metadata: Message, number: int, name: str) -> str:
    text = metadata.data(number)
    return f'{name}="{escape_bytes(text)}"' if len(text) else ""


class FrameIndex:
    """Stack frames numbered as XLA numbers them when it prints a module: by first use, callers before what they call,
    without unused ones. ``numbers``: the printed number of each stored frame that is used."""

    def __init__(self, module: HloModule) -> None:
        self._index = Message(Message(module.proto).data(_FRAMES))
        self._stored = [(frame.integer(1), frame.integer(2)) for frame in self._index.messages(4)]
        self._places = self._index.messages(3)
        self.numbers: dict[int, int] = {}
        self._files: dict[bytes, int] = {}
        self._functions: dict[bytes, int] = {}
        self._used_places: dict[tuple[int, ...], int] = {}
        self._used_frames: dict[tuple[int, int], int] = {}
        for used in module.frame_ids if self._stored else ():
            chain: dict[int, None] = {}  # the frame and its callers, except those that are known
            frame = used
            while 0 < frame <= len(self._stored) and frame not in chain and frame not in self.numbers:
                chain[frame] = None
                frame = self._stored[frame - 1][1]
            for frame in reversed(chain):
                self.numbers[frame] = self._number_frame(*self._stored[frame - 1])

    def _number_frame(self, number: int, parent: int) -> int:
        place = 0
        if 0 < number <= len(self._places):
            file, function, *numbers = (self._places[number - 1].integer(field) for field in _PLACE_FIELDS)
            files, functions = self._names
            names = _number_used(self._files, files, file), _number_used(self._functions, functions, function)
            place = self._used_places.setdefault((*names, *numbers), len(self._used_places) + 1)
        return self._used_frames.setdefault((place, self.numbers.get(parent, 0)), len(self._used_frames) + 1)

    @cached_property
    def _names(self) -> list[list[memoryview]]:
        return [self._index.parts(1), self._index.parts(2)]

    def text(self) -> str:
        """Return the tables behind the header of a module; "" if no frames."""
        if not self._used_frames:
            return ""
        places = [_brace_values(_PLACE_NAMES, place) for place in self._used_places]
        frames = [
            _brace_values(("file_location_id", "parent_frame_id"), (place, parent + 1))
            for place, parent in self._used_frames
        ]
        return (
            "\n\nFileNames\n"
            + _list_lines(f'"{escape_bytes(name)}"' for name in self._files)
            + "\nFunctionNames\n"
            + _list_lines(f'"{escape_bytes(name)}"' for name in self._functions)
            + f"\nFileLocations\n{_list_lines(places)}\nStackFrames\n{_list_lines(frames)}"
        )


def _number_used(used: dict[bytes, int], names: list[memoryview], number: int) -> int:
    if not 0 < number <= len(names):
        return 0
    return used.setdefault(bytes(names[number - 1]), len(used) + 1)


def _brace_values(names: Iterable[str], values: Iterable[int]) -> str:
    return "{" + " ".join(f"{name}={value}" for name, value in zip(names, values, strict=True)) + "}"


def _list_lines(lines: Iterable[str]) -> str:
    return "".join(f"{number} {line}\n" for number, line in enumerate(lines, 1))


_METADATA, _LITERAL, _CONTROL, _SHARDING, _CONFIG, _FRONTEND = 7, 8, 37, 40, 43, 68
_THREAD, _STATISTICS, _ORIGIN, _COMPOSITE, _ACCURACY = 79, 82, 88, 89, 91
_EMPTY_QUEUES = compile_late(rb'"wait_on_operation_queues"\s*:\s*\[\s*\]\s*,')
"""What older compilers wrote into configurations; XLA leaves it out since it dropped the field."""
_ELIDED = "{...}"
_ELLIPSIS = "…"
_LONGEST = 1 << 20
"""Letters of a line that is wanted as one text."""
_SHORT_CONSTANT = 10
"""Elements of the largest constant that is always written out."""
_REMARKS = frozenset({_SHARDING, _FRONTEND, _CONTROL, _STATISTICS, _ACCURACY})
_APPLIED = frozenset(("call", "map", "reduce-window", "reduce", "all-reduce", "reduce-scatter", "all-reduce-start",
                      "scatter", "sort", "scan"))  # fmt: skip
"""Opcodes whose computation is what they apply."""

Part = str | Iterable[str]
"""Part of a line: a text, or pieces of one. Names are not joined, as they may be long and repeat."""


@dataclass(frozen=True, slots=True)
class Form:
    """What a text shows. XLA prints ``SHORT`` and ``LONG``; ``EXPRESSION`` is what profiles call an op's expression."""

    percent: bool = False
    """Write ``%`` before names."""
    operand_shapes: bool = False
    signatures: bool = False
    """Computations have their parameters and result."""
    index_marks: bool = False
    """Comments count operands."""
    large_constants: bool = False
    """Constants of more than ten elements are written out."""
    backend_config: bool = False
    """Also the configurations of infeeds and outfeeds."""
    control: bool = False
    """What must run before, in addition to operands."""
    metadata: bool = False
    """Where instructions come from."""


SHORT = Form(backend_config=True)
LONG = Form(True, signatures=True, index_marks=True, large_constants=True, backend_config=True, control=True)
EXPRESSION = Form(True, operand_shapes=True, index_marks=True, control=True)


def format_expression(module: HloModule, row: int) -> str:
    """Return an instruction as profiles show it: operands with their shapes, neither metadata nor backend
    configuration, large constants as ``{...}``. What a damaged module lacks is ``?``."""
    return InstructionText(module, EXPRESSION).line(row)


class InstructionText:
    """Writes instructions of a program in one form. What does not decode is ``?``."""

    def __init__(self, module: HloModule, form: Form) -> None:
        self.module = module
        self.form = form
        self._percent = "%" if form.percent else ""
        self._ahead: tuple[range, Callable[[int], Message]] | None = None

    @cached_property
    def frames(self) -> FrameIndex:
        return FrameIndex(self.module)

    def read_ahead(self, rows: range) -> None:
        """Find the fields of these instructions in one pass, which is faster if most of them will be written."""
        optional = (_METADATA, self.form.metadata), (_CONFIG, self.form.backend_config), (_CONTROL, self.form.control)
        left_out = [field for field, is_shown in optional if not is_shown]
        self._ahead = rows, self.module.messages_of(rows, left_out)

    def line(self, row: int) -> str:
        """Return the line as one text; only its beginning where a damaged program would make it too long."""
        taken: list[str] = []
        left = _LONGEST
        for piece in self.pieces(row):
            taken.append(piece if len(piece) <= left else piece[:left] + _ELLIPSIS)
            left -= len(piece)
            if left < 0:
                break
        return "".join(taken)

    def pieces(self, row: int) -> Iterator[str]:
        """Yield the line in pieces: a constant may be large."""
        module = self.module
        if self._ahead is not None and row in self._ahead[0]:
            fields = self._ahead[1](row - self._ahead[0].start)
        else:
            fields = Message(module.proto_of(row))
        opcode = module.opcodes[row]
        wrapped = module.wrapped(row)
        shown = opcode if wrapped < 0 else module.opcodes[wrapped] + opcode.removeprefix("async")
        shape = module.shape_text(module.shape_rows[row])
        yield f"{self._percent}{module.printed_names[row]} = {shape} {escape_to_one_line(shown)}("
        if opcode == "constant":
            yield from self._constant(row, fields)
        elif opcode == "parameter":
            yield str(module.parameter_numbers[row])
        else:
            for k, operand in enumerate(module.operands_of(row)):
                text = "" if not k else mark_index(k) if self.form.index_marks else ", "
                if self.form.operand_shapes:
                    text += f"{module.shape_text(module.shape_rows[operand] if operand >= 0 else -1)} "
                yield text + self._name(operand)
        yield ")"
        try:
            parts = self._tail(row, fields, opcode, wrapped)
        except CaptureError:
            parts = [UNKNOWN]
        for part in parts:
            yield ", "
            yield from [part] if isinstance(part, str) else part

    # ---- operands

    def _constant(self, row: int, fields: Message) -> Iterator[str]:
        shape = self.module.shape(self.module.shape_rows[row])
        large = shape is NO_SHAPE or shape.is_tuple or shape.count > _SHORT_CONSTANT
        if _LITERAL not in fields or (large and not self.form.large_constants):
            yield _ELIDED
            return
        from fastprof.hlo.text.literal_text import format_literal  # few instructions have one

        try:
            yield from format_literal(fields.message(_LITERAL))
        except CaptureError:
            yield UNKNOWN

    def _name(self, row: int) -> str:
        return self._percent + self.module.printed_names[row] if row >= 0 else UNKNOWN

    # ---- attributes

    def _tail(self, row: int, fields: Message, opcode: str, wrapped: int) -> list[Part]:
        """Return all behind the operands; for async instructions also the attributes of the one that they wrap."""
        parts: list[Part] = []
        if opcode == "async-start" and len(fields.data(_THREAD)):
            parts.append(f'async_execution_thread="{escape_to_one_line(fields.text(_THREAD))}"')
        if opcode == "async-start" and wrapped >= 0:
            parts += self._attributes(wrapped, Message(self.module.proto_of(wrapped)))
        parts += self._attributes(row, fields, wrapped)
        if _ORIGIN in fields:
            parts.append(f"origin={{{self._origin(row, fields.message(_ORIGIN))}}}")
        if self.form.metadata and has_metadata(fields.message(_METADATA)):
            parts.append(f"metadata={{{format_metadata(fields.message(_METADATA), self.frames.numbers)}}}")
        if self.form.backend_config and len(fields.data(_CONFIG)):
            parts.append(f"backend_config={quote_unless_json(_EMPTY_QUEUES.sub(b'', bytes(fields.data(_CONFIG))))}")
        return parts

    def _origin(self, row: int, origin: Message) -> str:
        """Return an OriginalValueProto: the name of each array before the compiler changed the program."""
        if origin.flag(2):
            return "[synthetic_call]"
        known = {}
        for message in origin.messages(1):
            place, array = tuple(message.integers(1)), message.message(2)
            if len(array.data(1)):
                place_before = array.integers(2)
                index = f" {{{join_numbers(place_before)}}}" if place_before else ""
                known[place] = f'{{"{escape_to_one_line(array.text(1))}"{index}}}'
        tree = self.module.arrays_of(self.module.shape_rows[row])
        return "".join(part if isinstance(part, str) else known.get(part, "{}") for part in tree)

    def _attributes(self, row: int, fields: Message, wrapped: int = -1) -> list[Part]:
        opcode = self.module.opcodes[row]
        parts: list[Part] = [*format_attributes(opcode, fields, self.module.shape_texts, self.form.backend_config)]
        if self.module.calls_of(row):
            parts += self._calls(row, opcode, wrapped)
            if opcode == "call" and fields.flag(_COMPOSITE):
                parts.append("is_composite=true")
        return parts + self._remarks(row, fields) if fields.has_any(_REMARKS) else parts

    def _remarks(self, row: int, fields: Message) -> list[Part]:
        """Attributes that any instruction may have."""
        parts: list[Part] = []
        if _SHARDING in fields:
            writer = format_metadata if self.form.metadata else omit_metadata
            parts.append(f"sharding={format_sharding(fields.data(_SHARDING), writer)}")
        if len(fields.data(_FRONTEND)):
            parts.append(f"frontend_attributes={format_frontend(fields.message(_FRONTEND))}")
        before = self.module.control_predecessors(row, fields) if self.form.control else []
        if before:
            parts.append(_format_named("control-predecessors={", map(self._name, before), "}"))
        if len(fields.data(_STATISTICS)) and 2 in fields.message(_STATISTICS):
            statistics = fields.message(_STATISTICS)
            texts = [f"visualizing_index={statistics.integer(1)}"]
            texts += [f"{escape_to_one_line(entry.text(1))}={entry.double(2):.6g}" for entry in statistics.messages(2)]
            parts.append(f"statistics={{{','.join(texts)}}}")
        return [*parts, *(_format_accuracy(fields.message(_ACCURACY)) if _ACCURACY in fields else [])]

    def _calls(self, row: int, opcode: str, wrapped: int) -> list[Part]:
        """Return the computations that an instruction calls, by role."""
        printed = self.module.printed_computations
        names = [self._percent + printed[call] if call >= 0 else UNKNOWN for call in self.module.calls_of(row)]
        if not names or opcode in ("async-update", "async-done"):
            return []
        if opcode == "async-start":
            return [] if wrapped >= 0 else [f"calls={names[0]}"]
        if opcode == "while" and len(names) == 2:
            return [f"condition={names[1]}", f"body={names[0]}"]
        if opcode == "select-and-scatter" and len(names) == 2:
            return [f"select={names[0]}", f"scatter={names[1]}"]
        if opcode == "conditional":
            chosen_by = next(iter(self.module.operands_of(row)), -1)
            shape_row = self.module.shape_rows[chosen_by] if chosen_by >= 0 else -1
            if len(names) == 2 and chosen_by >= 0 and self.module.shape(shape_row).element_type == PRED:
                return [f"true_computation={names[0]}", f"false_computation={names[1]}"]
            return [_format_named("branch_computations={", names, "}")]
        if opcode in _APPLIED:
            return [f"to_apply={names[0]}"]
        if opcode == "custom-call":
            return [_format_named("called_computations={", names, "}")]
        return [_format_named("calls=", names)]


def _format_named(before: str, names: Iterable[str], behind: str = "") -> Iterator[str]:
    """Names between two texts, in pieces."""
    separated = (name if k == 0 else f", {name}" for k, name in enumerate(names))
    return chain([before], separated, [behind])


def format_frontend(attributes: Message) -> str:
    """Format a FrontendAttributes: ``{name="value",other={"a":1}}``, by name."""
    pairs = sorted((bytes(pair.data(1)), bytes(pair.data(2))) for pair in attributes.messages(1))
    return (
        "{"
        + ",".join(f"{escape_to_one_line(name.decode('utf-8', 'replace'))}={quote_unless_json(v)}" for name, v in pairs)
        + "}"
    )


def _format_accuracy(accuracy: Message) -> list[str]:
    if accuracy.integer(1):
        return [f"result_accuracy={{mode={'highest' if accuracy.integer(1) == 1 else accuracy.integer(1)}}}"]
    if 2 not in accuracy:
        return []
    tolerance = accuracy.message(2)
    bounds = f"atol={tolerance.double(1):.6g},rtol={tolerance.double(2):.6g},ulps={tolerance.integer(3)}"
    return [f"result_accuracy={{tolerance={{{bounds}}}}}"]
