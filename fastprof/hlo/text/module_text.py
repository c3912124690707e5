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
from fastprof.hlo.text.program import Program, program_of
from fastprof.hlo.text.shape_text import UNKNOWN, ShapeTexts, index_mark

_PROGRAM_SHAPE, _ALIASES, _DONORS, _FRONTEND = 4, 8, 18, 19
_PARAMETERS, _RESULT, _NAMES = 1, 2, 3
_ALIAS_KINDS = ("undefined-alias", "may-alias", "must-alias")


def module_text(module: HloModule, form: Form) -> Iterator[str]:
    """The text of a module, in pieces that lines may run over."""
    program = program_of(module)
    writer = InstructionText(program, form)
    yield f"HloModule {printed(program.name)}" + _decoded(lambda: _header(program))
    yield (_decoded(writer.frames.text) if form.metadata else "") + "\n\n"
    for computation in computation_order(program):
        if computation not in program.sugared:
            writer.read_ahead(program.rows_of(computation))
            yield from _computation(program, writer, computation, instruction_order(program, computation))
            yield "\n\n"


def _decoded(write: Callable[[], str]) -> str:
    try:
        return write()
    except CaptureError:
        return f", {UNKNOWN}"


# ---- the header


def _header(program: Program) -> str:
    module = Message(program.proto)
    parts = ["is_scheduled=true"] if program.is_scheduled else []
    if _ALIASES in module and 1 in module.message(_ALIASES):
        parts.append(f"input_output_alias={{ {_aliases(module.message(_ALIASES))} }}")
    if _DONORS in module and 1 in module.message(_DONORS):
        parts.append(f"buffer_donor={{ {_donors(module.message(_DONORS))} }}")
    if _PROGRAM_SHAPE in module:
        parts.append(f"entry_computation_layout={{{_entry_layout(module.message(_PROGRAM_SHAPE))}}}")
    if _FRONTEND in module and 1 in module.message(_FRONTEND):
        parts.append(f"frontend_attributes={frontend_text(module.message(_FRONTEND))}")
    return "".join(f", {part}" for part in parts)


def _index(numbers: list[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"


def _aliases(aliases: Message) -> str:
    texts = []
    for one in aliases.messages(1):
        kind = one.integer(4)
        word = _ALIAS_KINDS[kind] if 0 <= kind < len(_ALIAS_KINDS) else str(kind)
        texts.append(f"{_index(one.integers(1))}: ({one.integer(2)}, {_index(one.integers(3))}, {word})")
    return ", ".join(texts)


def _donors(donors: Message) -> str:
    return ", ".join(f"({one.integer(1)}, {_index(one.integers(2))})" for one in donors.messages(1))


def _entry_layout(shape: Message) -> str:
    texts = ShapeTexts()
    parameters = [texts.text(part) for part in shape.parts(_PARAMETERS)]
    taken = "".join((index_mark(k) if k else "") + text for k, text in enumerate(parameters))
    return f"({taken})->{texts.text(shape.data(_RESULT))}"


# ---- computations


def part_text(near: Neighbourhood, writer: InstructionText) -> Iterator[str]:
    """The instructions around one, as a computation with nothing else in it."""
    yield from _computation(near.program, writer, near.computation, near.rows())
    yield "\n"


def _computation(program: Program, writer: InstructionText, computation: int, rows: Iterable[int]) -> Iterator[str]:
    entry = "ENTRY " if computation == program.entry else ""
    name = ("%" if writer.form.percent else "") + program.printed_computations[computation]
    signature = f" {_decoded(lambda: _signature(program, computation))}" if writer.form.signatures else ""
    yield f"{entry}{name}{signature} {{\n"
    root = program.roots[computation]
    for row in rows:
        yield "  ROOT " if row == root else "  "
        yield from writer.pieces(row)
        yield "\n"
    thread = one_line(program.execution_thread(computation))
    yield f'}}, execution_thread="{thread}"' if thread and thread != "main" else "}"


def _signature(program: Program, computation: int) -> str:
    """``(x: f32[8], y: f32[8]) -> f32[8]``"""
    parameters = [row for row in program.rows_of(computation) if program.opcodes[row] == "parameter"]
    parameters.sort(key=program.parameter_numbers.__getitem__)
    taken = [f"{program.printed_names[row]}: {program.plain_shape_text(row)}" for row in parameters]
    root = program.roots[computation]
    return f"({', '.join(taken)}) -> {program.plain_shape_text(root) if root >= 0 else UNKNOWN}"
