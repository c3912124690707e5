"""Shapes read from HLO text, ``bf16[8,128]{1,0:T(8,128)(2,1)}``: captures of TPUs have only the text of ops."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from fastprof.hlo.shapes import COMBINE, UNBOUNDED, ArrayLayout, Index, Tile

ARRAY = re.compile(r"(?<![a-z0-9])([a-z][a-z0-9]*)\[([^\[\]]*)\](\{[^{}]*\})?")
"""Type, dimensions and layout of an array, a token or something opaque."""
_TOKEN = re.compile(r"\s+|/\*[^*]*\*/|[(),]|" + ARRAY.pattern)
_OPCODE = re.compile(r"\s*([a-zA-Z][\w\-]*)\(")
_NAME = re.compile(r"\s*%?([\w.\-]+)")
_PIECE = re.compile(r"((?<![A-Z])[A-Z]+|[#*])((?:\([^()]*\))+)")
_PARENTHESES = re.compile(r"\(([^()]*)\)")
_NO_OPERANDS = frozenset(("parameter", "constant", "iota", "partition-id", "replica-id"))
"""Opcodes whose parentheses hold no values."""

DEEPEST = 256
"""Tuples nested deeper than this are not read: places of arrays would take the square of the depth."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """An array in the shape of a value."""

    index: Index
    """Its place in nested tuples; () where the value is not a tuple."""
    text: str
    """``bf16[8,128]``."""
    layout: str
    """``{1,0:T(8,128)(2,1)}``; "" where the text has none."""
    array: ArrayLayout


@dataclass(frozen=True, slots=True)
class Value:
    """The output or an operand of an instruction: its arrays."""

    name: str
    leaves: tuple[Leaf, ...]
    """Empty for tokens, for opaque values, and where the text has no shapes of operands."""


@dataclass(frozen=True, slots=True)
class Expression:
    """An instruction as text: ``%name = shape opcode(operands), attributes``."""

    output: Value
    opcode: str
    operands: tuple[Value, ...]
    attributes: str


def read_expression(text: str) -> Expression | None:
    """None: the text is not an instruction, or it is cut off."""
    name, equals, _ = text.partition(" = ")
    if not equals:
        return None
    read = _shape_at(text, len(name) + len(equals))
    if read is None:
        return None
    leaves, at = read
    opcode = _OPCODE.match(text, at)
    if opcode is None:
        return None
    output = Value(name.strip().removeprefix("ROOT ").removeprefix("%"), leaves)
    if opcode[1] in _NO_OPERANDS:
        return Expression(output, opcode[1], (), text[opcode.end() :])
    operands, at = _operands_at(text, opcode.end())
    return Expression(output, opcode[1], operands, text[at:])


def _operands_at(text: str, at: int) -> tuple[tuple[Value, ...], int]:
    """The operands from ``at`` to the closing parenthesis, and where that is."""
    operands: list[Value] = []
    while True:
        at = _past_blanks(text, at)
        if at >= len(text) or text[at] == ")":
            return tuple(operands), at + 1
        if text[at] == ",":
            at += 1
            continue
        read = _shape_at(text, at)
        leaves, at = read if read is not None else ((), at)
        name = _NAME.match(text, at)
        if name is None:
            return tuple(operands), at
        operands.append(Value(name[1], leaves))
        at = name.end()


def _past_blanks(text: str, at: int) -> int:
    while (blank := _TOKEN.match(text, at)) is not None and text[at] in " \t/\n":
        at = blank.end()
    return at


def _shape_at(text: str, at: int) -> tuple[tuple[Leaf, ...], int] | None:
    """The arrays of a shape, and where it ends. None: no shape, or one cut off or nested too deep."""
    leaves: list[Leaf] = []
    place: list[int] = []
    while (token := _TOKEN.match(text, at)) is not None:
        at = token.end()
        kind = text[token.start()]
        if kind == "(":
            if len(place) == DEEPEST:
                return None
            place.append(0)
        elif kind == ")":
            if not place:
                return None
            place.pop()
        elif kind == ",":
            if not place:
                return None
            place[-1] += 1
            continue
        elif kind.isspace() or kind == "/":
            continue
        elif (leaf := _leaf(tuple(place), token[1], token[2], token[3] or "")) is not None:
            leaves.append(leaf)
        if not place:
            return tuple(leaves), at
    return None


def _leaf(index: Index, kind: str, dimensions: str, layout: str) -> Leaf | None:
    if kind in ("token", "opaque"):
        return None
    return Leaf(index, f"{kind}[{dimensions}]", layout, read_array(kind, dimensions, layout))


@lru_cache(65536)
def read_array(kind: str, dimensions: str, layout: str) -> ArrayLayout:
    """``read_array("bf16", "8,<=128", "{1,0:T(8,128)}")``. Unknown parts of a layout are left out."""
    sizes = tuple(_size(text) for text in dimensions.split(",")) if dimensions else ()
    order, _, rest = layout.strip("{}").partition(":")
    tiles: tuple[Tile, ...] = ()
    numbers = {"E": 0, "S": 0, "L": 1}
    for name, arguments in _PIECE.findall(rest):
        if name == "T":
            tiles = tuple(_tile(text) for text in _PARENTHESES.findall(arguments))
        elif name in numbers:
            numbers[name] = number(arguments[1:-1], numbers[name])
    minor_to_major = tuple(number(text, -1) for text in order.split(",")) if order else ()
    return ArrayLayout(kind, sizes, minor_to_major, tiles, numbers["E"], numbers["S"], max(numbers["L"], 1))


def _size(text: str) -> int:
    return number(text.strip().removeprefix("<="), UNBOUNDED)


def _tile(text: str) -> Tile:
    return tuple(COMBINE if one.strip() == "*" else number(one, 1) for one in text.split(","))


def number(text: str, otherwise: int) -> int:
    """A number that fits 64 bits, or ``otherwise``."""
    text = text.strip()
    value = int(text) if text.isdecimal() and len(text) < 20 else -1
    return value if 0 <= value < 1 << 63 else otherwise
