"""Shapes of HLO values, from programs and from HLO text (``bf16[8,128]{1,0:T(8,128)(2,1)}``): types, element counts,
and bytes, also in tiles."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from operator import attrgetter

from fastprof.inputs.message import Message as Message
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import compile_late

Tile = tuple[int, ...]
Index = tuple[int, ...]
"""The place of a leaf in nested tuples."""

_TYPES = (
    "INVALID PRED S8 S16 S32 S64 U8 U16 U32 U64 F16 F32 F64 TUPLE OPAQUE C64 BF16 TOKEN C128 F8E5M2 F8E4M3FN S4 U4 "
    "F8E4M3B11FNUZ F8E5M2FNUZ F8E4M3FNUZ S2 U2 F8E4M3 F8E3M4 S1 U1 F4E2M1FN F8E8M0FNU BUFFER"
)
TYPE_NAMES = tuple(_TYPES.split())
"""Type names by xla.PrimitiveType."""
PRED, TUPLE, OPAQUE, TOKEN = (TYPE_NAMES.index(name) for name in ("PRED", "TUPLE", "OPAQUE", "TOKEN"))
_SIZES = {8: "PRED S8 U8", 16: "S16 U16 F16 BF16", 32: "S32 U32 F32", 64: "S64 U64 F64 C64", 128: "C128"}
_SIZES |= {4: "S4 U4 F4E2M1FN", 2: "S2 U2", 1: "S1 U1"}
BITS = {TYPE_NAMES.index(name): bits for bits, names in _SIZES.items() for name in names.split()}
BITS |= {number: 8 for number, name in enumerate(TYPE_NAMES) if name.startswith("F8")}
"""Bits of an element, by type, except types without elements."""
_BITS_OF = {TYPE_NAMES[number].lower(): bits for number, bits in BITS.items()}
"""Bits of an element by type name, as XLA writes it."""

POINTER_BYTES = 8
COMBINE = -(2**63)
"""Size of a tile: the dimension is first combined with the next more minor one."""
UNBOUNDED = -1
"""Size of a dimension: unknown."""
MOST_TILES = 64
"""Layouts of more tiles in tiles are damaged; the size of their arrays is unknown."""
MOST = 1 << 62
"""Elements and bytes of damaged shapes may exceed this; then they are not known."""


def multiply_sizes(sizes: Sequence[int]) -> int:
    """Return the product, at most 2**62, which damaged shapes may exceed; 0 if a size is not positive."""
    count = 1
    if any(size <= 0 for size in sizes):
        return 0
    for size in sizes:
        count *= size
        if count > MOST:
            return MOST
    return count


def _count_bytes(count: int, bits: int, element_bits: int) -> int:
    """Return the bytes of elements of a type of ``bits``. Types of less than a byte take one, unless a layout packs
    them in ``element_bits``."""
    return (count * element_bits + 7) // 8 if element_bits > 0 else count * max(1, (bits + 7) // 8)


def format_tile(tile: Sequence[int]) -> str:
    """``(8,128)``"""
    return "(" + ",".join("*" if size == COMBINE else str(size) for size in tile) + ")"


# ---- arrays in tiles


@dataclasses.dataclass(frozen=True)
class ArrayLayout:
    """An array and its layout in memory. Sizes that depend on something unknown, or are 2**62 or more, are None."""

    element_type: str
    """Name as XLA writes it: ``bf16``."""
    dimensions: tuple[int, ...]
    """Upper bounds where they are dynamic; UNBOUNDED: unknown."""
    minor_to_major: tuple[int, ...] = ()
    tiles: tuple[Tile, ...] = ()
    element_bits: int = 0
    """Bits that the layout gives each element; 0: those of its type."""
    memory_space: int = 0
    """Memory space of HLO: 0 HBM, 1 VMEM, 5 host, …"""
    alignment: int = 1
    """The number of elements is padded to a multiple of this."""

    @cached_property
    def bytes(self) -> int | None:
        """Bytes of its elements alone. Types of less than a byte take one, unless the layout packs them."""
        return self._bytes_of(multiply_sizes(self.dimensions))

    @cached_property
    def padded_bytes(self) -> int | None:
        """Bytes that it takes in memory, in full tiles."""
        if not self.dimensions and not self.tiles:
            return self.bytes
        if 0 in self.dimensions:
            return self._bytes_of(0)
        if len(self.tiles) > MOST_TILES:
            return None
        sizes = [self.dimensions[dimension] for dimension in reversed(self._order)]
        for tile in self.tiles:
            sizes = _apply_tile(sizes, tile)
        count = multiply_sizes(sizes)
        return self._bytes_of(_round_up(count, self.alignment) if self.alignment > 1 else count)

    @cached_property
    def padded_dimensions(self) -> tuple[int, ...] | None:
        """Each dimension in full first tiles, in the order of ``dimensions``. None: the first tile combines dimensions,
        or one does not fit 64 bits. Tiles in tiles, and tiles of more dimensions than the array has, may pad more."""
        if not self.tiles or not self.dimensions:
            return self.dimensions
        tile = self.tiles[0]
        if COMBINE in tile:
            return None
        padded = list(self.dimensions)
        for dimension, size in zip(self._order, reversed(tile), strict=False):
            if padded[dimension] > 0:
                padded[dimension] = _round_up(padded[dimension], size)
        return tuple(padded) if max(padded) < 1 << 63 else None

    @cached_property
    def wasted_share(self) -> float | None:
        """Share of its bytes that hold no element; None where it takes none."""
        if self.bytes is None or not self.padded_bytes:
            return None
        return 1 - self.bytes / self.padded_bytes

    @property
    def tile_text(self) -> str:
        """``(8,128)(2,1)``; "" without tiles."""
        return "".join(map(format_tile, self.tiles))

    @cached_property
    def _order(self) -> tuple[int, ...]:
        """Dimensions minor to major; the usual order if the layout has none that fits this array."""
        count = len(self.dimensions)
        if sorted(self.minor_to_major) == list(range(count)):
            return self.minor_to_major
        return tuple(range(count - 1, -1, -1))

    def _bytes_of(self, count: int) -> int | None:
        bits = _BITS_OF.get(self.element_type)
        if bits is None or any(size < 0 for size in self.dimensions):
            return None
        size = _count_bytes(count, bits, self.element_bits)
        return size if max(count, size) < MOST else None


def _round_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit if unit > 0 else size


def _apply_tile(sizes: Sequence[int], tile: Tile) -> list[int]:
    """Return the dimensions, most major first, that a tile makes of these: those outside, the counts of tiles, the
    tile."""
    sizes = [1] * (len(tile) - len(sizes)) + list(sizes)
    outside, inside = sizes[: len(sizes) - len(tile)], sizes[len(sizes) - len(tile) :]
    counts: list[int] = []
    within: list[int] = []
    so_far = 1
    for size, unit in zip(inside, tile, strict=True):
        so_far = min(so_far * size, MOST)
        if unit != COMBINE:
            counts.append(-(-so_far // unit) if unit > 0 else so_far)
            within.append(unit if unit > 0 else 1)
            so_far = 1
    return [*outside, *counts, *within, *([so_far] if so_far > 1 else [])]


# ---- values of a module


@dataclasses.dataclass(frozen=True)
class Shape:
    """An array, a tuple of shapes, a token or something opaque. Figures of all its leaves are cached: many instructions
    may refer to one large shape."""

    element_type: int
    dimensions: tuple[int, ...]
    elements: tuple[Shape, ...]
    """Shapes of a tuple."""
    has_layout: bool
    memory_space: int
    element_bits: int
    """Bits that the layout gives each element; 0: those of its type."""
    minor_to_major: tuple[int, ...] = ()
    """Dimensions in the order of memory, the innermost first."""
    tiles: tuple[Tile, ...] = ()
    alignment: int = 0
    """The number of elements is padded to a multiple of this; 0 if it is not recorded."""
    is_dynamic: bool = False
    """True if any dimension is only a bound."""
    proto: tuple[int, int] = (0, 0)
    """Offset and length of the ShapeProto."""

    @property
    def is_tuple(self) -> bool:
        return self.element_type == TUPLE

    @property
    def is_array(self) -> bool:
        return not self.is_tuple and self.element_type not in (0, TOKEN, OPAQUE)

    @property
    def type_name(self) -> str:
        return TYPE_NAMES[self.element_type] if 0 <= self.element_type < len(TYPE_NAMES) else "INVALID"

    @cached_property
    def count(self) -> int:
        """Elements of an array; otherwise 1."""
        return multiply_sizes(self.dimensions)

    @cached_property
    def leaf_count(self) -> int:
        """Elements of all arrays in it."""
        return sum(leaf.count for _, leaf in self.leaves())

    @cached_property
    def bytes(self) -> int:
        """Bytes of its own buffer, for a tuple the table of pointers. 0 without a layout."""
        if not self.laid_out() or self.element_type in (TOKEN, OPAQUE):
            return 0
        if self.is_tuple:
            return POINTER_BYTES * len(self.elements)
        return _count_bytes(self.count, BITS.get(self.element_type, 0), self.element_bits)

    @cached_property
    def leaf_bytes(self) -> int:
        """Bytes of all arrays in it."""
        return sum(leaf.bytes for _, leaf in self.leaves())

    @cached_property
    def is_cut(self) -> bool:
        """Return whether any of these sizes is too large to be known; see MOST."""
        return self.leaf_bytes >= MOST or any(leaf.count >= MOST for _, leaf in self.leaves())

    @cached_property
    def array(self) -> ArrayLayout:
        """An array with its layout."""
        return ArrayLayout(
            self.type_name.lower(), self.dimensions, self.minor_to_major, self.tiles, self.element_bits,
            self.memory_space, max(self.alignment, 1),
        )  # fmt: skip

    @cached_property
    def padded_bytes(self) -> int | None:
        """Bytes of all arrays in it, in full tiles; None if it is unknown, or 2**62 or more."""
        sizes = [
            leaf.array.padded_bytes if leaf.is_array and leaf.has_layout else None
            for _, leaf in self.leaves()
            if leaf.element_type not in (TOKEN, OPAQUE)
        ]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) and sum(known) < MOST else None

    def laid_out(self) -> bool:
        return all(leaf.has_layout or leaf.element_type in (TOKEN, OPAQUE) for _, leaf in self.leaves())

    @cached_property
    def places(self) -> dict[Index, Shape]:
        """Its leaves by place."""
        return dict(self.leaves())

    def leaves(self) -> Iterator[tuple[Index, Shape]]:
        """Its parts that are not tuples, with their places, in order."""
        waiting: list[tuple[Index, Shape]] = [((), self)]
        while waiting:
            index, child = waiting.pop()
            if not child.is_tuple:
                yield index, child
                continue
            waiting.extend(((*index, place), child.elements[place]) for place in range(len(child.elements) - 1, -1, -1))


NO_SHAPE = Shape(0, (), (), False, 0, 0)
"""Shape of instructions without one in a damaged module."""


ARRAY = compile_late(r"(?<![a-z0-9])([a-z][a-z0-9]*)\[([^\[\]]*)\](\{[^{}]*\})?")
"""Type, dimensions and layout of an array, a token or something opaque."""
_TOKEN = compile_late(r"\s+|/\*[^*]*\*/|[(),]|" + ARRAY.pattern)
_OPCODE = compile_late(r"\s*([a-zA-Z][\w\-]*)\(")
_NAME = compile_late(r"\s*%?([\w.\-]+)")
_PIECE = compile_late(r"((?<![A-Z])[A-Z]+|[#*])((?:\([^()]*\))+)")
_PARENTHESES = compile_late(r"\(([^()]*)\)")
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
    """Return an instruction given as text; None if the text is not an instruction, or cut off."""
    name, equals, _ = text.partition(" = ")
    if not equals:
        return None
    read = _read_shape(text, len(name) + len(equals))
    if read is None:
        return None
    leaves, at = read
    opcode = _OPCODE.match(text, at)
    if opcode is None:
        return None
    output = Value(name.strip().removeprefix("ROOT ").removeprefix("%"), leaves)
    if opcode[1] in _NO_OPERANDS:
        return Expression(output, opcode[1], (), text[opcode.end() :])
    operands, at = _read_operands(text, opcode.end())
    return Expression(output, opcode[1], operands, text[at:])


def _read_operands(text: str, at: int) -> tuple[tuple[Value, ...], int]:
    """Return the operands from ``at`` to the closing parenthesis, and where that is."""
    operands: list[Value] = []
    while True:
        while (blank := _TOKEN.match(text, at)) is not None and text[at] in " \t/\n":
            at = blank.end()
        if at >= len(text) or text[at] == ")":
            return tuple(operands), at + 1
        if text[at] == ",":
            at += 1
            continue
        read = _read_shape(text, at)
        leaves, at = read if read is not None else ((), at)
        name = _NAME.match(text, at)
        if name is None:
            return tuple(operands), at
        operands.append(Value(name[1], leaves))
        at = name.end()


def _read_shape(text: str, at: int) -> tuple[tuple[Leaf, ...], int] | None:
    """Return the arrays of a shape, and where it ends. None: no shape, or one cut off or nested too deep."""
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
        elif token[1] not in ("token", "opaque"):
            kind, dimensions, layout = token[1], token[2], token[3] or ""
            array = read_array(kind, dimensions, layout)
            leaves.append(Leaf(tuple(place), f"{kind}[{dimensions}]", layout, array))
        if not place:
            return tuple(leaves), at
    return None


@lru_cache(65536)
def read_array(kind: str, dimensions: str, layout: str) -> ArrayLayout:
    """Parse ``read_array("bf16", "8,<=128", "{1,0:T(8,128)}")``. Unknown parts of a layout are left out."""
    texts = dimensions.split(",") if dimensions else ()
    sizes = tuple(parse_number(text.strip().removeprefix("<="), UNBOUNDED) for text in texts)
    order, _, rest = layout.strip("{}").partition(":")
    tiles: tuple[Tile, ...] = ()
    numbers = {"E": 0, "S": 0, "L": 1}
    for name, arguments in _PIECE.findall(rest):
        if name == "T":
            tiles = tuple(_parse_tile(text) for text in _PARENTHESES.findall(arguments))
        elif name in numbers:
            numbers[name] = parse_number(arguments[1:-1], numbers[name])
    minor_to_major = tuple(parse_number(text, -1) for text in order.split(",")) if order else ()
    return ArrayLayout(kind, sizes, minor_to_major, tiles, numbers["E"], numbers["S"], max(numbers["L"], 1))


def _parse_tile(text: str) -> Tile:
    return tuple(COMBINE if tile.strip() == "*" else parse_number(tile, 1) for tile in text.split(","))


def parse_number(text: str, otherwise: int) -> int:
    """Return a number that fits 64 bits, or ``otherwise``."""
    text = text.strip()
    value = int(text) if text.isdecimal() and len(text) < 20 else -1
    return value if 0 <= value < 1 << 63 else otherwise


# ---- the arrays of an op, and what their tiles pad

OUTPUT = -1
"""The ``position`` of the output."""
BATCH, FEATURE, SPATIAL, CONTRACTING = "batch", "feature", "spatial", "contracting"
Semantics = tuple[str | None, ...]

_LABELS = compile_late(r"\bdim_labels=([0-9a-z?]+)_([0-9a-z?]+)->([0-9a-z?]+)")
_DOT = {
    position: ((BATCH, compile_late(rf"\b{side}_batch_dims={{([\d, ]*)}}")),
               (CONTRACTING, compile_late(rf"\b{side}_contracting_dims={{([\d, ]*)}}")))
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


def read_layouts(expression: str) -> list[OperandLayout]:
    """Return the arrays of an instruction, given as text: of its output, then of its operands, in order. Empty if the
    text is not an instruction; operands without shapes are left out."""
    read = read_expression(expression)
    if read is None:
        return []
    values = [("output", OUTPUT, read.output)]
    values += [(operand.name, position, operand) for position, operand in enumerate(read.operands)]
    return [
        OperandLayout(name, position, leaf, _find_semantics(read, position, leaf))
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


_OPERANDS_END = compile_late(r"\)(?=, [a-z][\w\-]*=|\s*$)")
"""Attributes follow, or nothing."""
_NO_VALUES = tuple(f" {opcode}(" for opcode in _NO_OPERANDS)


def measure_padding(expression: str) -> Padding:
    """Return the padding of the output and of all operands of an instruction, repeated ones each time."""
    _, equals, rest = expression.partition(" = ")
    end = _OPERANDS_END.search(rest)
    shaped = rest.startswith("(") or ARRAY.match(rest)
    if not equals or not shaped or end is None or any(opcode in rest for opcode in _NO_VALUES):
        return _measure_unusual_padding(expression)
    total = padded = arrays = 0
    for kind, dimensions, layout in ARRAY.findall(rest, 0, end.start()):
        if kind not in ("token", "opaque"):
            plain, in_tiles = _measure_array(kind, dimensions, layout)
            if plain is None or in_tiles is None:
                return Padding(None, None)
            arrays, total, padded = arrays + 1, total + plain, padded + in_tiles
    return Padding(total, padded) if arrays else Padding(None, None)


@lru_cache(65536)
def _measure_array(kind: str, dimensions: str, layout: str) -> tuple[int | None, int | None]:
    array = read_array(kind, dimensions, layout)
    return array.bytes, array.padded_bytes


def _measure_unusual_padding(expression: str) -> Padding:
    """``measure_padding`` for an instruction of unusual form, or without operands."""
    read = read_expression(expression)
    leaves = [] if read is None else [leaf for value in (read.output, *read.operands) for leaf in value.leaves]
    sizes = [(leaf.array.bytes, leaf.array.padded_bytes) for leaf in leaves]
    known = [(plain, padded) for plain, padded in sizes if plain is not None and padded is not None]
    if not sizes or len(known) < len(sizes):
        return Padding(None, None)
    return Padding(sum(plain for plain, _ in known), sum(padded for _, padded in known))


def _find_semantics(read: Expression, position: int, leaf: Leaf) -> Semantics:
    """Return what dimensions mean, from a convolution's labels and a dot's dimension numbers; unknown for other ops."""
    count = len(leaf.array.dimensions)
    if read.opcode == "convolution" and (labels := _LABELS.search(read.attributes)):
        text = labels[3] if position == OUTPUT else labels[position + 1] if position < 2 else ""
        if len(text) == count:
            return tuple(SPATIAL if label.isdecimal() else _ROLES.get(label) for label in text)
    roles: list[str | None] = [None] * count
    if read.opcode == "dot" and position in _DOT:
        for role, pattern in _DOT[position]:
            listed = pattern.search(read.attributes)
            for axis in listed[1].split(",") if listed else ():
                if 0 <= (dimension := parse_number(axis, -1)) < count:
                    roles[dimension] = role
    return tuple(roles)
