"""The padding of an op's output and operands: for each array its tile, padded shape and wasted share."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter

from fastprof.hlo.shape_reader import ARRAY, Expression, Leaf, number, read_array, read_expression

OUTPUT = -1
"""The ``position`` of the output."""
BATCH, FEATURE, SPATIAL, CONTRACTING = "batch", "feature", "spatial", "contracting"
Semantics = tuple[str | None, ...]

_LABELS = re.compile(r"\bdim_labels=([0-9a-z?]+)_([0-9a-z?]+)->([0-9a-z?]+)")
_DOT = {
    position: ((BATCH, re.compile(rf"\b{side}_batch_dims={{([\d, ]*)}}")),
               (CONTRACTING, re.compile(rf"\b{side}_contracting_dims={{([\d, ]*)}}")))
    for position, side in ((0, "lhs"), (1, "rhs"))
}  # fmt: skip
_ROLES = {"b": BATCH, "f": FEATURE, "i": FEATURE, "o": FEATURE}


@dataclass(frozen=True, slots=True)
class OperandLayout:
    """An array that an op reads or writes. ``operand``: ``output``, or the name of the instruction that makes it;
    ``position``: of the operand, or OUTPUT; ``semantics``: what each dimension is, batch, feature, spatial or
    contracting, None where the text of the op does not say."""

    operand: str
    position: int
    leaf: Leaf
    semantics: Semantics

    index = property(attrgetter("leaf.index"))
    """Its place in nested tuples; () where the value is not a tuple."""
    shape = property(attrgetter("leaf.text"))
    layout = property(attrgetter("leaf.layout"))
    tile = property(attrgetter("leaf.array.tile_text"))
    dimensions = property(attrgetter("leaf.array.dimensions"))
    padded_dimensions = property(attrgetter("leaf.array.padded_dimensions"))
    memory_space = property(attrgetter("leaf.array.memory_space"))
    bytes = property(attrgetter("leaf.array.bytes"))
    padded_bytes = property(attrgetter("leaf.array.padded_bytes"))
    wasted_share = property(attrgetter("leaf.array.wasted_share"))


def layouts_of(expression: str) -> list[OperandLayout]:
    """The arrays of an instruction, given as text: of its output, then of its operands, in order. Empty where the text
    is not an instruction; operands without shapes are left out."""
    read = read_expression(expression)
    if read is None:
        return []
    values = [("output", OUTPUT, read.output)]
    values += [(operand.name, position, operand) for position, operand in enumerate(read.operands)]
    return [
        OperandLayout(name, position, leaf, _semantics(read, position, leaf))
        for name, position, value in values
        for leaf in value.leaves
    ]


@dataclass(frozen=True, slots=True)
class Padding:
    """Bytes of all arrays of an op, and what they take in memory. None: an array has no known size, or there is
    none."""

    bytes: int | None
    padded_bytes: int | None

    @property
    def wasted_share(self) -> float | None:
        return 1 - self.bytes / self.padded_bytes if self.bytes is not None and self.padded_bytes else None


_OPERANDS_END = re.compile(r"\)(?=, [a-z][\w\-]*=|\s*$)")
"""Attributes follow, or nothing."""
_NO_VALUES = (" parameter(", " constant(", " iota(", " partition-id(", " replica-id(")


def padding_of(expression: str) -> Padding:
    """The padding of the output and of all operands of an instruction, repeated ones each time."""
    _, equals, rest = expression.partition(" = ")
    end = _OPERANDS_END.search(rest)
    shaped = rest.startswith("(") or ARRAY.match(rest)
    if not equals or not shaped or end is None or any(opcode in rest for opcode in _NO_VALUES):
        return _padding_read(expression)
    total = padded = arrays = 0
    for kind, dimensions, layout in ARRAY.findall(rest, 0, end.start()):
        if kind not in ("token", "opaque"):
            plain, in_tiles = _array_bytes(kind, dimensions, layout)
            if plain is None or in_tiles is None:
                return Padding(None, None)
            arrays, total, padded = arrays + 1, total + plain, padded + in_tiles
    return Padding(total, padded) if arrays else Padding(None, None)


@lru_cache(65536)
def _array_bytes(kind: str, dimensions: str, layout: str) -> tuple[int | None, int | None]:
    array = read_array(kind, dimensions, layout)
    return array.bytes, array.padded_bytes


def _padding_read(expression: str) -> Padding:
    """``padding_of`` for an instruction of unusual form, or without operands."""
    read = read_expression(expression)
    leaves = [] if read is None else [leaf for value in (read.output, *read.operands) for leaf in value.leaves]
    sizes = [(leaf.array.bytes, leaf.array.padded_bytes) for leaf in leaves]
    known = [(plain, padded) for plain, padded in sizes if plain is not None and padded is not None]
    if not sizes or len(known) < len(sizes):
        return Padding(None, None)
    return Padding(sum(plain for plain, _ in known), sum(padded for _, padded in known))


def _semantics(read: Expression, position: int, leaf: Leaf) -> Semantics:
    """From a convolution's labels and a dot's dimension numbers; unknown for other ops."""
    count = len(leaf.array.dimensions)
    if read.opcode == "convolution" and (labels := _LABELS.search(read.attributes)):
        text = labels[3] if position == OUTPUT else labels[position + 1] if position < 2 else ""
        if len(text) == count:
            return tuple(SPATIAL if label.isdecimal() else _ROLES.get(label) for label in text)
    roles: list[str | None] = [None] * count
    if read.opcode == "dot" and position in _DOT:
        for role, pattern in _DOT[position]:
            listed = pattern.search(read.attributes)
            for one in listed[1].split(",") if listed else ():
                if 0 <= (dimension := number(one, -1)) < count:
                    roles[dimension] = role
    return tuple(roles)
