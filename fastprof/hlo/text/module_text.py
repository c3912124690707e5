"""An entire module as HLO text, in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from fastprof.errors import CaptureError
from fastprof.hlo.message import Message
from fastprof.hlo.module import HloModule
from fastprof.hlo.text.escapes import one_line, printed
from fastprof.hlo.text.instruction_text import Form, InstructionText, frontend_text
from fastprof.hlo.text.neighbourhood import Neighbourhood
from fastprof.hlo.text.orders import computation_order, instruction_order
from fastprof.hlo.text.shape_text import UNKNOWN, ShapeTexts, index_mark, joined

_PROGRAM_SHAPE, _ALIASES, _DONORS, _FRONTEND = 4, 8, 18, 19
_PARAMETERS, _RESULT, _NAMES = 1, 2, 3
_ALIAS_KINDS = ("undefined-alias", "may-alias", "must-alias")


def module_text(module: HloModule, form: Form) -> Iterator[str]:
    """The text of a module, in pieces that lines may run over."""
    writer = InstructionText(module, form)
    yield f"HloModule {printed(module.name)}" + _decoded(lambda: _header(module))
    yield (_decoded(writer.frames.text) if form.metadata else "") + "\n\n"
    for computation in computation_order(module):
        if computation not in module.sugared:
            writer.read_ahead(module.rows_of(computation))
            yield from _computation(module, writer, computation, instruction_order(module, computation))
            yield "\n\n"


def _decoded(write: Callable[[], str]) -> str:
    try:
        return write()
    except CaptureError:
        return f", {UNKNOWN}"


# ---- the header


def _header(module: HloModule) -> str:
    proto = Message(module.proto)
    parts = ["is_scheduled=true"] if module.is_scheduled else []
    if _ALIASES in proto and 1 in proto.message(_ALIASES):
        parts.append(f"input_output_alias={{ {_aliases(proto.message(_ALIASES))} }}")
    if _DONORS in proto and 1 in proto.message(_DONORS):
        parts.append(f"buffer_donor={{ {_donors(proto.message(_DONORS))} }}")
    if _PROGRAM_SHAPE in proto:
        parts.append(f"entry_computation_layout={{{_entry_layout(proto.message(_PROGRAM_SHAPE), module.shape_texts)}}}")
    if _FRONTEND in proto and 1 in proto.message(_FRONTEND):
        parts.append(f"frontend_attributes={frontend_text(proto.message(_FRONTEND))}")
    return "".join(f", {part}" for part in parts)


def _aliases(aliases: Message) -> str:
    texts = []
    for one in aliases.messages(1):
        kind = one.integer(4)
        word = _ALIAS_KINDS[kind] if 0 <= kind < len(_ALIAS_KINDS) else str(kind)
        texts.append(f"{{{joined(one.integers(1))}}}: ({one.integer(2)}, {{{joined(one.integers(3))}}}, {word})")
    return ", ".join(texts)


def _donors(donors: Message) -> str:
    return ", ".join(f"({one.integer(1)}, {{{joined(one.integers(2))}}})" for one in donors.messages(1))


def _entry_layout(shape: Message, texts: ShapeTexts) -> str:
    parameters = [texts.text(part) for part in shape.parts(_PARAMETERS)]
    taken = "".join((index_mark(k) if k else "") + text for k, text in enumerate(parameters))
    return f"({taken})->{texts.text(shape.data(_RESULT))}"


# ---- computations


def part_text(near: Neighbourhood, writer: InstructionText) -> Iterator[str]:
    """The instructions around one, as a computation with nothing else in it."""
    yield from _computation(near.module, writer, near.computation, near.rows())
    yield "\n"


def _computation(module: HloModule, writer: InstructionText, computation: int, rows: Iterable[int]) -> Iterator[str]:
    entry = "ENTRY " if computation == module.entry else ""
    name = ("%" if writer.form.percent else "") + module.printed_computations[computation]
    signature = f" {_decoded(lambda: _signature(module, computation))}" if writer.form.signatures else ""
    yield f"{entry}{name}{signature} {{\n"
    root = module.roots[computation]
    for row in rows:
        yield "  ROOT " if row == root else "  "
        yield from writer.pieces(row)
        yield "\n"
    thread = one_line(module.execution_thread(computation))
    yield f'}}, execution_thread="{thread}"' if thread and thread != "main" else "}"


def _signature(module: HloModule, computation: int) -> str:
    """``(x: f32[8], y: f32[8]) -> f32[8]``"""
    parameters = [row for row in module.rows_of(computation) if module.opcodes[row] == "parameter"]
    parameters.sort(key=module.parameter_numbers.__getitem__)
    taken = [f"{module.printed_names[row]}: {module.plain_shape_text(row)}" for row in parameters]
    root = module.roots[computation]
    return f"({', '.join(taken)}) -> {module.plain_shape_text(root) if root >= 0 else UNKNOWN}"
