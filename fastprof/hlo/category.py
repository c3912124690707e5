"""The category of an HLO instruction, as op tables show it."""

from __future__ import annotations

from fastprof.errors import CaptureError
from fastprof.hlo.module import Instruction

FUSIONS = {
    "kLoop": "loop fusion",
    "kInput": "input fusion",
    "kOutput": "output fusion",
    "kCustom": "custom fusion",
}
DATA_FORMATTING = frozenset({"transpose", "copy", "reshape", "dynamic-reshape"})
_ELEMENTWISE = (
    "abs acos acosh add and asin asinh atan2 atanh bitcast-convert cbrt ceil clamp clz compare complex constant "
    "convert copy cosh cosine divide erf exponential exponential-minus-one floor imag is-finite log log-plus-one "
    "logistic map maximum minimum multiply negate not or popcnt power real reduce-precision remainder "
    "round-nearest-afz round-nearest-even rsqrt select shift-left shift-right-arithmetic shift-right-logical sign sine "
    "sinh sqrt stochastic-convert subtract tan tanh xor"
)
ELEMENTWISE = frozenset(_ELEMENTWISE.split())
"""Opcodes that compute element by element."""

_WINDOW, _WINDOW_DILATION, _BASE_DILATION = 15, 5, 6


def category(instruction: Instruction) -> str:
    """``loop fusion``, ``convolution``, ``data formatting``, …; of most instructions their opcode."""
    opcode = instruction.opcode
    if opcode == "fusion":
        return FUSIONS.get(instruction.fusion_kind, "unknown fusion")
    if opcode == "convolution":
        return opcode + _dilations(instruction)
    if opcode in DATA_FORMATTING:
        return "data formatting"
    return "non-fusion elementwise" if opcode in ELEMENTWISE else opcode


def _dilations(instruction: Instruction) -> str:
    try:
        dimensions = instruction.fields().message(_WINDOW).messages(1)
    except CaptureError:  # a damaged window counts as none
        return ""
    base = any(one.integer(_BASE_DILATION) not in (0, 1) for one in dimensions)
    window = any(one.integer(_WINDOW_DILATION) not in (0, 1) for one in dimensions)
    return " base-dilated" * base + " window-dilated" * window
