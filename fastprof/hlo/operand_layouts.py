"""What the layouts of an op's output and operands pad: per array its tile, its padded shape and the share wasted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fastprof.hlo.shape_reader import ARRAY, Expression, Leaf, Value, number, read_array, read_expression
from fastprof.hlo.shapes import Index

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
    """An array that an op reads or writes."""

    operand: str
    """``output``, or the name of the instruction that it is the output of."""
    position: int
    """Of the operand; OUTPUT."""
    index: Index
    """Its place in nested tuples; () where the value is no tuple."""
    leaf: Leaf
    semantics: Semantics
    """What each dimension is: batch, feature, spatial or contracting; None where the text of the op does not say."""

    @property
    def shape(self) -> str:
        return self.leaf.text

    @property
    def layout(self) -> str:
        return self.leaf.layout

    @property
    def tile(self) -> str:
        return self.leaf.array.tile_text

    @property
    def dimensions(self) -> tuple[int, ...]:
        return self.leaf.array.dimensions

    @property
    def padded_dimensions(self) -> tuple[int, ...] | None:
        return self.leaf.array.padded_dimensions

    @property
    def memory_space(self) -> int:
        return self.leaf.array.memory_space

    @property
    def bytes(self) -> int | None:
        return self.leaf.array.bytes

    @property
    def padded_bytes(self) -> int | None:
        return self.leaf.array.padded_bytes

    @property
    def wasted_share(self) -> float | None:
        return self.leaf.array.wasted_share


def layouts_of(expression: str) -> list[OperandLayout]:
    """The arrays of an instruction, given as text: of its output, then of its operands, in order. None where the text
    is no instruction; of operands without shapes there is nothing to tell."""
    read = read_expression(expression)
    if read is None:
        return []
    values = [("output", OUTPUT, read.output)]
    values += [(operand.name, position, operand) for position, operand in enumerate(read.operands)]
    return [
        OperandLayout(name, position, leaf.index, leaf, _semantics(read, position, leaf))
        for name, position, value in values
        for leaf in value.leaves
    ]


@dataclass(frozen=True, slots=True)
class Padding:
    """Bytes of all arrays of an op, and what they take in memory. None: the size of an array is not known, or there
    is no array."""

    bytes: int | None
    padded_bytes: int | None

    @property
    def wasted_share(self) -> float | None:
        return 1 - self.bytes / self.padded_bytes if self.bytes is not None and self.padded_bytes else None


_END = re.compile(r"\)(?=, [a-z][\w\-]*=|\s*$)")
"""Of the operands: attributes follow, or nothing."""
_NO_VALUES = (" parameter(", " constant(", " iota(", " partition-id(", " replica-id(")


def padding_of(expression: str) -> Padding:
    """What the output and the operands of an instruction pad together, each as often as the op is given it."""
    _, equals, rest = expression.partition(" = ")
    end = _END.search(rest)
    shaped = rest.startswith("(") or ARRAY.match(rest)
    if not equals or not shaped or end is None or any(opcode in rest for opcode in _NO_VALUES):
        return _padding_read(expression)
    total = padded = 0
    found = False
    for kind, dimensions, layout in ARRAY.findall(rest, 0, end.start()):
        if kind not in ("token", "opaque"):
            plain, whole = _array_bytes(kind, dimensions, layout)
            if plain is None or whole is None:
                return Padding(None, None)
            found, total, padded = True, total + plain, padded + whole
    return Padding(total, padded) if found else Padding(None, None)


@lru_cache(65536)
def _array_bytes(kind: str, dimensions: str, layout: str) -> tuple[int | None, int | None]:
    array = read_array(kind, dimensions, layout)
    return array.bytes, array.padded_bytes


def _padding_read(expression: str) -> Padding:
    """The same of an instruction that is not of the usual form, or has no operands."""
    read = read_expression(expression)
    if read is None:
        return Padding(None, None)
    sizes = [_size(value) for value in (read.output, *read.operands)]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes) or not any(value.leaves for value in (read.output, *read.operands)):
        return Padding(None, None)
    return Padding(sum(size[0] for size in known), sum(size[1] for size in known))


def _size(value: Value) -> tuple[int, int] | None:
    """Bytes and padded bytes of its arrays."""
    total = padded = 0
    for leaf in value.leaves:
        plain, whole = leaf.array.bytes, leaf.array.padded_bytes
        if plain is None or whole is None:
            return None
        total, padded = total + plain, padded + whole
    return total, padded


def layout_columns(expressions: Sequence[str]) -> dict[str, list[Any]]:
    """The arrays of many ops as columns; ``op``: the row of its expression. Null where a size is not known."""
    found = [(row, one) for row, text in enumerate(expressions) for one in layouts_of(text)]
    columns: dict[str, list[Any]] = {"op": [row for row, _ in found]}
    for column in ("operand", "position", "shape", "layout", "tile", "memory_space"):
        columns[column] = [getattr(one, column) for _, one in found]
    columns["index"] = [list(one.index) for _, one in found]
    columns["padded_dimensions"] = [_listed(one.padded_dimensions) for _, one in found]
    columns["semantics"] = [list(one.semantics) for _, one in found]
    for column in ("bytes", "padded_bytes", "wasted_share"):
        columns[column] = [getattr(one, column) for _, one in found]
    return columns


def _listed(sizes: tuple[int, ...] | None) -> list[int] | None:
    return None if sizes is None else list(sizes)


def _semantics(read: Expression, position: int, leaf: Leaf) -> Semantics:
    """What a convolution's labels and a dot's dimension numbers say; of all else nothing is known."""
    count = len(leaf.array.dimensions)
    if read.opcode == "convolution" and (labels := _LABELS.search(read.attributes)):
        text = labels[3] if position == OUTPUT else labels[position + 1] if position < 2 else ""
        if len(text) == count:
            return tuple(SPATIAL if label.isdecimal() else _ROLES.get(label) for label in text)
    found: list[str | None] = [None] * count
    if read.opcode == "dot" and position in _DOT:
        for role, pattern in _DOT[position]:
            listed = pattern.search(read.attributes)
            for one in listed[1].split(",") if listed else ():
                if 0 <= (dimension := number(one, -1)) < count:
                    found[dimension] = role
    return tuple(found)
