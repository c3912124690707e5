"""HLO as text, the way XLA prints it.

expression(module, row)                     one instruction: ``%add.1 = f32[8]{0} add(f32[8]{0} %x, f32[8]{0} %y)``
module_text(module, SHORT)                  the whole module in pieces; LONG: with signatures and large constants
shape_text(module, shape_row)               ``f32[8,128]{1,0:T(8,128)S(1)}``
"""

from __future__ import annotations

from fastprof.hlo.message import Message
from fastprof.hlo.module import HloModule
from fastprof.hlo.text.forms import EXPRESSION, LONG, SHORT, Form
from fastprof.hlo.text.instruction_text import InstructionText
from fastprof.hlo.text.module_text import module_text
from fastprof.hlo.text.program import program_of
from fastprof.hlo.text.sharding_text import replica_groups_text as _replica_groups
from fastprof.hlo.text.sharding_text import sharding_text

__all__ = [
    "EXPRESSION", "LONG", "SHORT", "Form", "dot_graph", "expression", "forms", "instruction_text", "json_form",
    "module_text", "neighbourhood", "program", "replica_groups_text", "shape_text", "sharding_text",
]  # fmt: skip


def expression(module: HloModule, row: int) -> str:
    """An instruction as profiles show it: operands with their shapes, neither metadata nor backend configuration, large
    constants as ``{...}``. What a damaged module does not say is ``?``."""
    return InstructionText(program_of(module), EXPRESSION).line(row)


def shape_text(module: HloModule, shape: int) -> str:
    """A row of the module's shapes, with layouts, tiles and memory spaces; ``?`` for none, -1."""
    return program_of(module).shape_text(shape)


def replica_groups_text(instruction: memoryview) -> str:
    """The groups of devices of an HloInstructionProto: ``{{0,1},{2,3}}`` or ``[2,4]<=[8]``. CaptureError: it does not
    decode."""
    return _replica_groups(Message(instruction))
