"""Shapes read from HLO text, ``bf16[8,128]{1,0:T(8,128)(2,1)}``: captures of TPUs have only the text of ops."""

from __future__ import annotations

from functools import lru_cache
from operator import attrgetter

from fastprof.hlo.shapes import COMBINE, UNBOUNDED, ArrayLayout, Index, Tile
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import pattern_of

ARRAY = pattern_of(r"(?<![a-z0-9])([a-z][a-z0-9]*)\[([^\[\]]*)\](\{[^{}]*\})?")
"""Type, dimensions and layout of an array, a token or something opaque."""
_TOKEN = pattern_of(r"\s+|/\*[^*]*\*/|[(),]|" + ARRAY.pattern)
_OPCODE = pattern_of(r"\s*([a-zA-Z][\w\-]*)\(")
_NAME = pattern_of(r"\s*%?([\w.\-]+)")
_PIECE = pattern_of(r"((?<![A-Z])[A-Z]+|[#*])((?:\([^()]*\))+)")
_PARENTHESES = pattern_of(r"\(([^()]*)\)")
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


# ---- the arrays of an op, and what their tiles pad

OUTPUT = -1
"""The ``position`` of the output."""
BATCH, FEATURE, SPATIAL, CONTRACTING = "batch", "feature", "spatial", "contracting"
Semantics = tuple[str | None, ...]

_LABELS = pattern_of(r"\bdim_labels=([0-9a-z?]+)_([0-9a-z?]+)->([0-9a-z?]+)")
_DOT = {
    position: ((BATCH, pattern_of(rf"\b{side}_batch_dims={{([\d, ]*)}}")),
               (CONTRACTING, pattern_of(rf"\b{side}_contracting_dims={{([\d, ]*)}}")))
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


_OPERANDS_END = pattern_of(r"\)(?=, [a-z][\w\-]*=|\s*$)")
"""Attributes follow, or nothing."""
_NO_VALUES = tuple(f" {opcode}(" for opcode in _NO_OPERANDS)


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
