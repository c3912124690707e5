"""The entire content of a module as JSON, in a stable form of our own: docs/hlo.md describes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from fastprof.errors import CaptureError
from fastprof.hlo.module import HloModule
from fastprof.hlo.text.attribute_text import format_attributes
from fastprof.hlo.text.literal_text import format_literal
from fastprof.hlo.text.module_text import order_computations, order_instructions
from fastprof.hlo.text.shape_text import UNKNOWN, format_sharding
from fastprof.inputs.message import Message

_LITERAL, _SHARDING, _CONFIG, _FRONTEND = 8, 40, 43, 68
_OP_TYPE, _OP_NAME, _SIZE_OF_CODE, _DEDUPLICATED, _SCHEDULING = 1, 2, 8, 12, 16
_METADATA = 7
_PLACE = ("source_file", "source_line", "source_end_line", "source_column", "source_end_column")
_MOST_NESTED = 100
_LISTS_OF_NAMES = ("operands", "called_computations", "control_predecessors")
_MANY_LETTERS = 1 << 20


def format_module_json(module: HloModule, title: str, program_id: int) -> Iterator[str]:
    """Yield the text of one JSON object, instruction by instruction."""
    writer = _InstructionJson(module)
    head = {
        "title": title,
        "program_id": program_id % 2**64,
        "module": module.name,
        "module_id": module.id,
        "is_scheduled": module.is_scheduled,
        "entry_computation": module.entry_name if module.entry >= 0 else None,
    }
    yield _write_value(head)[:-1] + ', "computations": ['
    for k, computation in enumerate(order_computations(module)):
        yield (
            (",\n" if k else "\n") + _write_value(_write_computation(module, computation))[:-1] + ', "instructions": ['
        )
        rows = module.rows_of(computation)
        fields = module.messages_of(rows)
        for n, row in enumerate(order_instructions(module, computation)):
            yield ",\n  " if n else "\n  "
            yield from _write_instruction(writer.of(row, fields(row - rows.start)))
        yield "]}"
    yield "]}\n"


def _write_value(value: Any) -> str:
    """Write JSON in ASCII, like all our JSON: nothing in it steers a terminal."""
    return _escape_delete(json.dumps(value))


def _escape_delete(text: str) -> str:
    return text.replace("\x7f", "\\u007f")


def _write_instruction(instruction: dict[str, Any]) -> Iterator[str]:
    """Write like ``_write_value``, in pieces if names have many letters: those of a damaged program may be long and
    repeat."""
    letters = sum(len(name) for key in _LISTS_OF_NAMES for name in instruction.get(key, ()) if name is not None)
    if letters < _MANY_LETTERS:
        yield _write_value(instruction)
    else:
        yield from map(_escape_delete, json.JSONEncoder().iterencode(instruction))


def _write_computation(module: HloModule, computation: int) -> dict[str, Any]:
    root = module.roots[computation]
    return {
        "name": module.computation_names[computation],
        "id": module.computation_ids[computation],
        "is_entry": computation == module.entry,
        "is_fusion": bool(module.computations["is_fusion"][computation]),
        "execution_thread": module.execution_thread(computation) or None,
        "is_scheduled": module.schedule_of(computation) is not None,
        "root": module.names[root] if root >= 0 else None,
    }


class _InstructionJson:
    """Instructions of a module as what JSON is made of, without empty entries."""

    def __init__(self, module: HloModule) -> None:
        self.module = module

    def of(self, row: int, fields: Message) -> dict[str, Any]:
        module = self.module
        answer: dict[str, Any] = {
            "name": module.names[row],
            "id": module.ids[row],
            "opcode": module.opcodes[row],
            "shape": module.shape_text(module.shape_rows[row]),
            "operands": self._names(module.operands_of(row)),
        }
        if module.opcodes[row] == "parameter":
            answer["parameter_number"] = module.parameter_numbers[row]
        try:
            answer |= _drop_unknown(self._rest(row, fields))
        except CaptureError as error:
            answer["problem"] = error.message
        return answer

    def _names(self, rows: list[int]) -> list[str | None]:
        return [self.module.names[row] if row >= 0 else None for row in rows]

    def _rest(self, row: int, fields: Message) -> dict[str, Any]:
        module = self.module
        attributes = format_attributes(module.opcodes[row], fields, module.shape_texts, True)
        return {
            "literal": "".join(format_literal(fields.message(_LITERAL))) if _LITERAL in fields else None,
            "attributes": {name: value for name, _, value in (text.partition("=") for text in attributes)},
            "called_computations": [module.computation_names[call] if call >= 0 else UNKNOWN
                                    for call in module.calls_of(row)],
            "control_predecessors": self._names(module.control_predecessors(row, fields)),
            "sharding": format_sharding(fields.data(_SHARDING)) if _SHARDING in fields else None,
            "frontend_attributes": {pair.text(1): pair.text(2) for pair in fields.message(_FRONTEND).messages(1)},
            "metadata": self._metadata(row, fields.message(_METADATA)),
            "backend_config": _parse_configuration(fields.data(_CONFIG)),
        }  # fmt: skip

    def _metadata(self, row: int, metadata: Message) -> dict[str, Any]:
        source = self.module.source_of(row)
        place = {name: getattr(source, name.removeprefix("source_")) for name in _PLACE} if source.file else {}
        frames = [
            {"file": frame.file, "line": frame.line, "column": frame.column, "function": frame.function}
            for frame in source.frames
        ]
        return _drop_unknown({
            "op_type": metadata.text(_OP_TYPE),
            "op_name": metadata.text(_OP_NAME),
            "deduplicated_name": metadata.text(_DEDUPLICATED),
            "scheduling_name": metadata.text(_SCHEDULING),
            "generated_code_bytes": metadata.integer(_SIZE_OF_CODE),
            **place,
            "stack": frames,
        })  # fmt: skip


def _drop_unknown(entries: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entries.items() if value}


def _parse_configuration(data: memoryview) -> Any:
    """Parse a backend configuration: as JSON if it parses, else as text."""
    text = bytes(data).decode("utf-8", "replace")
    if not text.startswith("{") or _is_deep(text):
        return text
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except ValueError:
        return text


def _is_deep(text: str) -> bool:
    """Return whether brackets may nest deeper than JSON is read and written without trouble."""
    if text.count("{") + text.count("[") <= _MOST_NESTED:
        return False
    depth = deepest = 0
    for char in text:
        depth += (char in "{[") - (char in "}]")
        deepest = max(deepest, depth)
    return deepest > _MOST_NESTED


def _refuse_constant(name: str) -> Any:
    """Refuse NaN and infinities, which JSON does not have."""
    raise ValueError(name)
