"""The entire content of a module as JSON, in a stable form of our own: docs/hlo.md describes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from fastprof.errors import CaptureError
from fastprof.hlo.message import Message
from fastprof.hlo.module import HloModule
from fastprof.hlo.text.attribute_text import attribute_texts
from fastprof.hlo.text.literal_text import literal_text
from fastprof.hlo.text.orders import computation_order, instruction_order
from fastprof.hlo.text.program import Program, program_of
from fastprof.hlo.text.shape_text import UNKNOWN, ShapeTexts
from fastprof.hlo.text.sharding_text import sharding_text

_LITERAL, _SHARDING, _CONFIG, _FRONTEND = 8, 40, 43, 68
_OP_TYPE, _OP_NAME, _SIZE_OF_CODE, _DEDUPLICATED, _SCHEDULING = 1, 2, 8, 12, 16
_METADATA = 7
_PLACE = ("source_file", "source_line", "source_end_line", "source_column", "source_end_column")
_MOST_NESTED = 100
_LISTS_OF_NAMES = ("operands", "called_computations", "control_predecessors")
_MANY_LETTERS = 1 << 20


def module_json(module: HloModule, title: str, program_id: int) -> Iterator[str]:
    """The text of one JSON object, instruction by instruction."""
    writer = _InstructionJson(module)
    program = writer.program
    head = {
        "title": title,
        "program_id": program_id % 2**64,
        "module": program.name,
        "module_id": module.id,
        "is_scheduled": program.is_scheduled,
        "entry_computation": program.computation_names[program.entry] if program.entry >= 0 else None,
    }
    yield _written(head)[:-1] + ', "computations": ['
    for k, computation in enumerate(computation_order(program)):
        yield (",\n" if k else "\n") + _written(_computation(program, computation))[:-1] + ', "instructions": ['
        rows = program.rows_of(computation)
        fields = program.messages_of(rows)
        for n, row in enumerate(instruction_order(program, computation)):
            yield ",\n  " if n else "\n  "
            yield from _pieces(writer.of(row, fields(row - rows.start)))
        yield "]}"
    yield "]}\n"


def _written(value: Any) -> str:
    """In ASCII, like all our JSON: nothing in it steers a terminal."""
    return _without_delete(json.dumps(value))


def _without_delete(text: str) -> str:
    return text.replace("\x7f", "\\u007f")


def _pieces(instruction: dict[str, Any]) -> Iterator[str]:
    """``_written``, in pieces where names have many letters: those of a damaged program may be long and repeat."""
    letters = sum(len(name) for key in _LISTS_OF_NAMES for name in instruction.get(key, ()) if name is not None)
    if letters < _MANY_LETTERS:
        yield _written(instruction)
    else:
        yield from map(_without_delete, json.JSONEncoder().iterencode(instruction))


def _computation(program: Program, computation: int) -> dict[str, Any]:
    root = program.roots[computation]
    return {
        "name": program.computation_names[computation],
        "id": program.computation_ids[computation],
        "is_entry": computation == program.entry,
        "is_fusion": program.is_fusion(computation),
        "execution_thread": program.execution_thread(computation) or None,
        "is_scheduled": program.scheduled(computation) is not None,
        "root": program.names[root] if root >= 0 else None,
    }


class _InstructionJson:
    """Instructions of a module as what JSON is made of, without empty entries."""

    def __init__(self, module: HloModule) -> None:
        self.module = module
        self.program = program_of(module)
        self._shapes = ShapeTexts()

    def of(self, row: int, fields: Message) -> dict[str, Any]:
        program = self.program
        answer: dict[str, Any] = {
            "name": program.names[row],
            "id": program.ids[row],
            "opcode": program.opcodes[row],
            "shape": program.shape_text(program.shape_rows[row]),
            "operands": self._names(program.operands(row)),
        }
        if program.opcodes[row] == "parameter":
            answer["parameter_number"] = program.parameter_numbers[row]
        try:
            answer |= _known(self._rest(row, fields))
        except CaptureError as error:
            answer["problem"] = error.message
        return answer

    def _names(self, rows: list[int]) -> list[str | None]:
        return [self.program.names[row] if row >= 0 else None for row in rows]

    def _rest(self, row: int, fields: Message) -> dict[str, Any]:
        program = self.program
        attributes = attribute_texts(program.opcodes[row], fields, self._shapes, True)
        return {
            "literal": "".join(literal_text(fields.message(_LITERAL))) if _LITERAL in fields else None,
            "attributes": {name: value for name, _, value in (text.partition("=") for text in attributes)},
            "called_computations": [program.computation_names[call] if call >= 0 else UNKNOWN
                                    for call in program.calls(row)],
            "control_predecessors": self._names(program.control_predecessors(row, fields)),
            "sharding": sharding_text(fields.data(_SHARDING)) if _SHARDING in fields else None,
            "frontend_attributes": {one.text(1): one.text(2) for one in fields.message(_FRONTEND).messages(1)},
            "metadata": self._metadata(row, fields.message(_METADATA)),
            "backend_config": _configuration(fields.data(_CONFIG)),
        }  # fmt: skip

    def _metadata(self, row: int, metadata: Message) -> dict[str, Any]:
        source = self.module.source_of(row)
        place = {name: getattr(source, name.removeprefix("source_")) for name in _PLACE} if source.file else {}
        frames = [
            {"file": one.file, "line": one.line, "column": one.column, "function": one.function}
            for one in source.frames
        ]
        return _known({
            "op_type": metadata.text(_OP_TYPE),
            "op_name": metadata.text(_OP_NAME),
            "deduplicated_name": metadata.text(_DEDUPLICATED),
            "scheduling_name": metadata.text(_SCHEDULING),
            "generated_code_bytes": metadata.integer(_SIZE_OF_CODE),
            **place,
            "stack": frames,
        })  # fmt: skip


def _known(entries: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entries.items() if value}


def _configuration(data: memoryview) -> Any:
    """A backend configuration: as JSON where it parses, else as text."""
    text = bytes(data).decode("utf-8", "replace")
    if not text.startswith("{") or _is_deep(text):
        return text
    try:
        return json.loads(text, parse_constant=_no_constant)
    except ValueError:
        return text


def _is_deep(text: str) -> bool:
    """Whether brackets may nest deeper than JSON is read and written without trouble."""
    if text.count("{") + text.count("[") <= _MOST_NESTED:
        return False
    depth = deepest = 0
    for char in text:
        depth += (char in "{[") - (char in "}]")
        deepest = max(deepest, depth)
    return deepest > _MOST_NESTED


def _no_constant(name: str) -> Any:
    """JSON has no NaN, and no infinities."""
    raise ValueError(name)
