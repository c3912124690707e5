"""A module as HLO text, in pieces: all of it, or the instructions around one; callees before callers, operands before
users.

A module as JSON has its entire content, in a stable form of our own: docs/hlo.md describes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from fastprof.errors import CaptureError
from fastprof.hlo.module import HloModule
from fastprof.hlo.text.attribute_text import format_attributes
from fastprof.hlo.text.instruction_text import Form, InstructionText, format_frontend
from fastprof.hlo.text.literal_text import format_literal
from fastprof.hlo.text.shape_text import (
    UNKNOWN,
    ShapeTexts,
    escape_to_one_line,
    format_sharding,
    join_numbers,
    mark_index,
    print_name,
)
from fastprof.inputs.message import Message

_CHANNEL = 26
_DEVICE_ASSIGNMENT, _COMPUTATION_COUNT = 15, 2
_PARTITIONED = frozenset(("all-reduce", "all-gather", "all-to-all", "collective-broadcast", "collective-permute",
                          "ragged-all-to-all", "reduce-scatter"))  # fmt: skip
"""Opcodes whose instructions of one channel keep their order."""
_NEW, _OPEN, _DONE = range(3)


# ---- computations


def order_computations(module: HloModule) -> list[int]:
    """Return rows of computations: those that no other calls, in the order of their ids, each behind those that it
    calls. Computations that call each other in a circle, in damaged modules, come last."""
    by_id = sorted(range(len(module.computation_ids)), key=module.computation_ids.__getitem__)
    called = _list_called(module)
    inner = {call for calls in called for together in calls for call in together}
    order: dict[int, None] = {}
    for computation in by_id:
        if computation not in inner:
            order |= dict.fromkeys(_list_embedded(called, computation, order))
            order[computation] = None
    return [*order, *(computation for computation in by_id if computation not in order)]


def _list_called(module: HloModule) -> list[list[list[int]]]:
    """Return, per computation and calling instruction, the called computations."""
    called: list[list[list[int]]] = []
    ignored = ("async-update", "async-done")
    for computation in range(len(module.computation_ids)):
        rows = [row for row in module.rows_of(computation) if module.opcodes[row] not in ignored]
        of_rows = ([call for call in module.calls_of(row) if call >= 0] for row in rows)
        called.append([calls for calls in of_rows if calls])
    return called


def _list_embedded(called: list[list[list[int]]], root: int, known: dict[int, None]) -> list[int]:
    """Return what a computation calls, directly or not, callees first, without what is ``known``. Without recursion.
    The calls of one instruction are visited together, so that none comes earlier because of what the others call."""
    order: list[int] = []
    met = {root}
    stack = [(root, iter(called[root]))]
    while stack:
        computation, calls = stack[-1]
        together = next(calls, None)
        if together is None:
            order.append(computation)
            stack.pop()
            continue
        for call in reversed(together):
            if call not in met and call not in known:
                met.add(call)
                stack.append((call, iter(called[call])))
    return order[:-1]


# ---- instructions


def order_instructions(module: HloModule, computation: int) -> list[int]:
    """Return rows of a computation's instructions: as scheduled, else operands first. Instructions in a circle, in
    damaged modules, come anywhere, each once."""
    scheduled = module.schedule_of(computation)
    if scheduled is not None:
        return scheduled
    rows = module.rows_of(computation)
    before = _find_earlier_of_channel(module, rows)
    used = {operand for row in rows for operand in module.operands_of(row)}
    states = bytearray(len(rows))
    order: list[int] = []
    for start in (*(row for row in rows if row not in used), *rows):
        if states[start - rows.start] == _NEW:
            _walk_needed(module, rows, start, before, states, order)
    return order


def _walk_needed(
    module: HloModule, rows: range, start: int, before: dict[int, int], states: bytearray, order: list[int]
) -> None:
    """Append what ``start`` needs, and then itself."""
    first = rows.start
    stack = [start]
    while stack:
        row = stack[-1]
        state = states[row - first]
        if state != _NEW:
            stack.pop()
            if state == _OPEN:
                states[row - first] = _DONE
                order.append(row)
            continue
        states[row - first] = _OPEN
        waiting = [before[row]] if row != start and row in before else []
        waiting += reversed(module.operands_of(row))
        waiting += module.control_predecessors(row)
        stack += [needed for needed in waiting if needed in rows and states[needed - first] != _DONE]


def _find_earlier_of_channel(module: HloModule, rows: range) -> dict[int, int]:
    """Return the previous collective of the channel of each; empty where the module is for one partition."""
    collectives = [row for row in rows if module.opcodes[row] in _PARTITIONED]
    if len(collectives) < 2 or _is_one_partition(module):
        return {}
    before: dict[int, int] = {}
    last: dict[int, int] = {}
    for row in collectives:
        channel = Message(module.proto_of(row)).integer(_CHANNEL)
        if channel > 0:
            if channel in last:
                before[row] = last[channel]
            last[channel] = row
    return before


def _is_one_partition(module: HloModule) -> bool:
    proto = Message(module.proto)
    return _DEVICE_ASSIGNMENT in proto and proto.message(_DEVICE_ASSIGNMENT).integer(_COMPUTATION_COUNT) == 1


SCHEMA = pa.schema(
    [pa.field("distance", pa.int64(), False)]
    + [
        pa.field(name, pa.string(), False)
        for name in ("relation", "name", "opcode", "shape", "computation", "instruction")
    ]
)


class Neighbourhood:
    """What lies within ``width`` uses of an instruction, in either direction. ``distances``: by row. ``entire``: its
    entire computation, whatever the width."""

    def __init__(self, module: HloModule, centre: int, width: int, entire: bool = False) -> None:
        self.module = module
        self.centre = centre
        self.computation = module.computation_rows[centre]
        rows = module.rows_of(self.computation)
        users = _list_users(module, rows)
        width = len(rows) if entire else width
        self.distances = _find_reached(centre, width, lambda row: [*module.operands_of(row), *users.get(row, ())])
        if entire:
            self.distances = {row: self.distances.get(row, width) for row in rows}
        self._before = _find_reached(centre, width, module.operands_of)
        self._after = _find_reached(centre, width, lambda row: users.get(row, []))

    def relation(self, row: int) -> str:
        """``itself``; ``operand`` or ``user``, direct or not; ``beside``: reached only back and forth."""
        if row == self.centre:
            return "itself"
        return "operand" if row in self._before else "user" if row in self._after else "beside"

    def rows(self) -> list[int]:
        """Return the rows in the order of the program."""
        return [row for row in order_instructions(self.module, self.computation) if row in self.distances]

    def edges(self) -> Iterator[tuple[int, int]]:
        """Yield (operand, user) of all that is in it."""
        for row in self.rows():
            for operand in dict.fromkeys(self.module.operands_of(row)):
                if operand in self.distances:
                    yield operand, row

    def table(self, writer: InstructionText) -> pa.Table:
        """One row per instruction; ``distance``: the number of uses in between."""
        module = self.module
        rows = self.rows()
        columns = {
            "distance": [self.distances[row] for row in rows],
            "relation": [self.relation(row) for row in rows],
            "name": [module.names[row] for row in rows],
            "opcode": [module.opcodes[row] for row in rows],
            "shape": [module.shape_text(module.shape_rows[row]) for row in rows],
            "computation": [module.computation_names[self.computation]] * len(rows),
            "instruction": [writer.line(row) for row in rows],
        }
        return pa.table(columns, SCHEMA)


def _find_reached(centre: int, width: int, step: Callable[[int], list[int]]) -> dict[int, int]:
    """Distances of what at most ``width`` steps reach."""
    distances = {centre: 0}
    edge = [centre]
    for distance in range(1, width + 1):
        reached = dict.fromkeys(near for row in edge for near in step(row) if near >= 0)
        edge = [row for row in reached if row not in distances]
        if not edge:
            break
        distances |= dict.fromkeys(edge, distance)
    return distances


def _list_users(module: HloModule, rows: range) -> dict[int, list[int]]:
    """Return the instructions that use each."""
    users: dict[int, list[int]] = {}
    for row in rows:
        for operand in dict.fromkeys(module.operands_of(row)):
            users.setdefault(operand, []).append(row)
    return users


# ---- as a graph in the language of Graphviz: a node per instruction, an edge per use

_COLOURS = {
    "#90caf9": "async-start async-update async-done",
    "#bcaaa4": "all-gather all-gather-start all-gather-done all-reduce all-reduce-start all-reduce-done reduce-scatter "
    "all-to-all ragged-all-to-all collective-broadcast collective-permute collective-permute-start "
    "collective-permute-done infeed outfeed send send-done recv recv-done partition-id replica-id",
    "#5c6bc0": "convolution dot ragged-dot scaled-dot fft triangular-solve cholesky",
    "#66bb6a": "call conditional custom-call while",
    "#e0e0e0": "domain fusion map get-dimension-size set-dimension-size",
    "#c8e6c9": "concatenate dynamic-slice reshape dynamic-reshape reverse transpose copy copy-start copy-done",
    "#ffcc80": "parameter",
    "#ce93d8": "batch-norm-grad batch-norm-inference batch-norm-training reduce reduce-window scatter "
    "select-and-scatter gather",
    "#fff59d": "broadcast dynamic-update-slice",
}
_COLOUR_OF = {opcode: colour for colour, opcodes in _COLOURS.items() for opcode in opcodes.split()}
_OTHER = "#ffffff"


def draw_dot(around: Neighbourhood) -> Iterator[str]:
    """Draw operands above their users."""
    module = around.module
    yield "digraph neighbourhood {\n"
    title = f"{module.names[around.centre]} in {module.computation_names[around.computation]} of {module.name}"
    yield f'  label="{_quote_label(title)}";\n  node [shape=box, style=filled, fontname="sans-serif"];\n'
    for row in around.rows():
        label = f"{module.names[row]}\n{module.opcodes[row]}\n{module.shape_text(module.shape_rows[row])}"
        colour = _COLOUR_OF.get(module.opcodes[row], _OTHER)
        edge = ", penwidth=3" if row == around.centre else ""
        yield f'  n{row} [label="{_quote_label(label)}", fillcolor="{colour}"{edge}];\n'
    for operand, user in around.edges():
        yield f"  n{operand} -> n{user};\n"
    yield "}\n"


def _quote_label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


_PROGRAM_SHAPE, _ALIASES, _DONORS, _FRONTEND = 4, 8, 18, 19
_PARAMETERS, _RESULT, _NAMES = 1, 2, 3
_ALIAS_KINDS = ("undefined-alias", "may-alias", "must-alias")


def format_module(module: HloModule, form: Form) -> Iterator[str]:
    """Yield the text of a module, in pieces that lines may run over."""
    writer = InstructionText(module, form)
    yield f"HloModule {print_name(module.name)}" + _wrap_errors(lambda: _format_header(module))
    yield (_wrap_errors(writer.frames.text) if form.metadata else "") + "\n\n"
    for computation in order_computations(module):
        if computation not in module.sugared:
            writer.read_ahead(module.rows_of(computation))
            yield from _format_computation(module, writer, computation, order_instructions(module, computation))
            yield "\n\n"


def _wrap_errors(write: Callable[[], str]) -> str:
    try:
        return write()
    except CaptureError:
        return f", {UNKNOWN}"


# ---- the header


def _format_header(module: HloModule) -> str:
    proto = Message(module.proto)
    parts = ["is_scheduled=true"] if module.is_scheduled else []
    if _ALIASES in proto and 1 in proto.message(_ALIASES):
        parts.append(f"input_output_alias={{ {_format_aliases(proto.message(_ALIASES))} }}")
    if _DONORS in proto and 1 in proto.message(_DONORS):
        parts.append(f"buffer_donor={{ {_format_donors(proto.message(_DONORS))} }}")
    if _PROGRAM_SHAPE in proto:
        parts.append(
            f"entry_computation_layout={{{_format_entry_layout(proto.message(_PROGRAM_SHAPE), module.shape_texts)}}}"
        )
    if _FRONTEND in proto and 1 in proto.message(_FRONTEND):
        parts.append(f"frontend_attributes={format_frontend(proto.message(_FRONTEND))}")
    return "".join(f", {part}" for part in parts)


def _format_aliases(aliases: Message) -> str:
    texts = []
    for message in aliases.messages(1):
        kind = message.integer(4)
        word = _ALIAS_KINDS[kind] if 0 <= kind < len(_ALIAS_KINDS) else str(kind)
        output, parameter = join_numbers(message.integers(1)), join_numbers(message.integers(3))
        texts.append(f"{{{output}}}: ({message.integer(2)}, {{{parameter}}}, {word})")
    return ", ".join(texts)


def _format_donors(donors: Message) -> str:
    return ", ".join(
        f"({message.integer(1)}, {{{join_numbers(message.integers(2))}}})" for message in donors.messages(1)
    )


def _format_entry_layout(shape: Message, texts: ShapeTexts) -> str:
    parameters = [texts.text(part) for part in shape.parts(_PARAMETERS)]
    taken = "".join((mark_index(k) if k else "") + text for k, text in enumerate(parameters))
    return f"({taken})->{texts.text(shape.data(_RESULT))}"


# ---- computations


def format_part(near: Neighbourhood, writer: InstructionText) -> Iterator[str]:
    """Yield the instructions around one, as a computation with nothing else in it."""
    yield from _format_computation(near.module, writer, near.computation, near.rows())
    yield "\n"


def _format_computation(
    module: HloModule, writer: InstructionText, computation: int, rows: Iterable[int]
) -> Iterator[str]:
    entry = "ENTRY " if computation == module.entry else ""
    name = ("%" if writer.form.percent else "") + module.printed_computations[computation]
    signature = f" {_wrap_errors(lambda: _format_signature(module, computation))}" if writer.form.signatures else ""
    yield f"{entry}{name}{signature} {{\n"
    root = module.roots[computation]
    for row in rows:
        yield "  ROOT " if row == root else "  "
        yield from writer.pieces(row)
        yield "\n"
    thread = escape_to_one_line(module.execution_thread(computation))
    yield f'}}, execution_thread="{thread}"' if thread and thread != "main" else "}"


def _format_signature(module: HloModule, computation: int) -> str:
    """``(x: f32[8], y: f32[8]) -> f32[8]``"""
    parameters = [row for row in module.rows_of(computation) if module.opcodes[row] == "parameter"]
    parameters.sort(key=module.parameter_numbers.__getitem__)
    taken = [f"{module.printed_names[row]}: {module.plain_shape_text(row)}" for row in parameters]
    root = module.roots[computation]
    return f"({', '.join(taken)}) -> {module.plain_shape_text(root) if root >= 0 else UNKNOWN}"


_LITERAL, _SHARDING, _CONFIG, _JSON_FRONTEND = 8, 40, 43, 68
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
            "frontend_attributes": {pair.text(1): pair.text(2) for pair in fields.message(_JSON_FRONTEND).messages(1)},
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
