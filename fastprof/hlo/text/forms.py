"""The forms of HLO text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Form:
    """What a text shows. Those that XLA prints: ``SHORT`` and ``LONG``; ``EXPRESSION`` is what profiles call an op's
    expression."""

    percent: bool
    """Names have ``%`` before them."""
    operand_shapes: bool
    signatures: bool
    """Computations say what they take and give."""
    index_marks: bool
    """Comments count operands."""
    large_constants: bool
    """Constants of more than ten elements are written out."""
    backend_config: bool
    """And the configurations of infeeds and outfeeds."""
    control: bool
    """What must run before, beside operands."""
    metadata: bool = False
    """Where instructions come from."""


SHORT = Form(
    percent=False,
    operand_shapes=False,
    signatures=False,
    index_marks=False,
    large_constants=False,
    backend_config=True,
    control=False,
)
LONG = Form(
    percent=True,
    operand_shapes=False,
    signatures=True,
    index_marks=True,
    large_constants=True,
    backend_config=True,
    control=True,
)
EXPRESSION = Form(
    percent=True,
    operand_shapes=True,
    signatures=False,
    index_marks=True,
    large_constants=False,
    backend_config=False,
    control=True,
)
