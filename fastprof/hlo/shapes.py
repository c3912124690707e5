"""Shapes of values in HLO: their types, how many elements they have, and how many bytes they take, also in tiles.

Tiles are stored in full: an array of 5 x 130 elements in tiles of 8 x 128 takes 8 x 256. XLA writes the tiles of
``bf16[8,128]{1,0:T(8,128)(2,1)}`` after its minor-to-major order: the first tiles the most minor dimensions, the next
tiles the dimensions that the first one made, and so on. https://openxla.org/xla/tiled_layout has the rules; the size of
an array is xla::ShapeUtil::ArraySize of public XLA.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

Tile = tuple[int, ...]
Index = tuple[int, ...]
"""The place of a leaf in nested tuples."""

_TYPES = (
    "INVALID PRED S8 S16 S32 S64 U8 U16 U32 U64 F16 F32 F64 TUPLE OPAQUE C64 BF16 TOKEN C128 F8E5M2 F8E4M3FN S4 U4 "
    "F8E4M3B11FNUZ F8E5M2FNUZ F8E4M3FNUZ S2 U2 F8E4M3 F8E3M4 S1 U1 F4E2M1FN F8E8M0FNU BUFFER"
)
TYPE_NAMES = tuple(_TYPES.split())
"""By xla.PrimitiveType."""
PRED, TUPLE, OPAQUE, TOKEN = (TYPE_NAMES.index(name) for name in ("PRED", "TUPLE", "OPAQUE", "TOKEN"))
_SIZES = {8: "PRED S8 U8", 16: "S16 U16 F16 BF16", 32: "S32 U32 F32", 64: "S64 U64 F64 C64", 128: "C128"}
_SIZES |= {4: "S4 U4 F4E2M1FN", 2: "S2 U2", 1: "S1 U1"}
BITS = {TYPE_NAMES.index(name): bits for bits, names in _SIZES.items() for name in names.split()}
BITS |= {number: 8 for number, name in enumerate(TYPE_NAMES) if name.startswith("F8")}
"""Bits of an element, by type, except types without elements."""
_BITS_OF = {TYPE_NAMES[number].lower(): bits for number, bits in BITS.items()}
"""The same by name, as XLA writes it."""

POINTER_BYTES = 8
COMBINE = -(2**63)
"""As the size of a tile: the dimension is first combined with the next more minor one."""
UNBOUNDED = -1
"""As the size of a dimension: unknown."""
MOST_TILES = 64
"""Layouts of more tiles in tiles are damaged; the size of their arrays is unknown."""
MOST = 1 << 62
"""Elements and bytes of damaged shapes may exceed this; then they are not known."""


def product(sizes: Sequence[int]) -> int:
    """At most 2**62, which damaged shapes may exceed; 0 where a size is not positive."""
    count = 1
    if any(size <= 0 for size in sizes):
        return 0
    for size in sizes:
        count *= size
        if count > MOST:
            return MOST
    return count


def _bytes(count: int, bits: int, element_bits: int) -> int:
    """Of elements of a type of ``bits``. Types of less than a byte take one, unless a layout packs them in
    ``element_bits``."""
    return (count * element_bits + 7) // 8 if element_bits > 0 else count * max(1, (bits + 7) // 8)


def tile_text(tile: Sequence[int]) -> str:
    """``(8,128)``"""
    return "(" + ",".join("*" if size == COMBINE else str(size) for size in tile) + ")"


# ---- arrays in tiles


@dataclass(frozen=True)
class ArrayLayout:
    """An array and its layout in memory. Sizes that depend on something unknown, or are 2**62 or more, are None."""

    element_type: str
    """As XLA writes it: ``bf16``."""
    dimensions: tuple[int, ...]
    """Upper bounds where they are dynamic; UNBOUNDED: unknown."""
    minor_to_major: tuple[int, ...] = ()
    tiles: tuple[Tile, ...] = ()
    element_bits: int = 0
    """Bits that the layout gives each element; 0: those of its type."""
    memory_space: int = 0
    """Of HLO: 0 HBM, 1 VMEM, 5 host, …"""
    alignment: int = 1
    """The number of elements is padded to a multiple of this."""

    @cached_property
    def bytes(self) -> int | None:
        """Bytes of its elements alone. Types of less than a byte take one, unless the layout packs them."""
        return self._bytes_of(product(self.dimensions))

    @cached_property
    def padded_bytes(self) -> int | None:
        """Bytes that it takes in memory, in full tiles."""
        if not self.dimensions and not self.tiles:
            return self.bytes
        if 0 in self.dimensions:
            return self._bytes_of(0)
        if len(self.tiles) > MOST_TILES:
            return None
        sizes = self._major_to_minor(self.dimensions)
        for tile in self.tiles:
            sizes = _tiled(sizes, tile)
        count = product(sizes)
        return self._bytes_of(_rounded_up(count, self.alignment) if self.alignment > 1 else count)

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
                padded[dimension] = _rounded_up(padded[dimension], size)
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
        return "".join(map(tile_text, self.tiles))

    @cached_property
    def _order(self) -> tuple[int, ...]:
        """Minor to major; the usual order where the layout has none that fits this array."""
        count = len(self.dimensions)
        if sorted(self.minor_to_major) == list(range(count)):
            return self.minor_to_major
        return tuple(range(count - 1, -1, -1))

    def _major_to_minor(self, sizes: Sequence[int]) -> list[int]:
        return [sizes[dimension] for dimension in reversed(self._order)]

    def _bytes_of(self, count: int) -> int | None:
        bits = _BITS_OF.get(self.element_type)
        if bits is None or any(size < 0 for size in self.dimensions):
            return None
        size = _bytes(count, bits, self.element_bits)
        return size if max(count, size) < MOST else None


def _rounded_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit if unit > 0 else size


def _tiled(sizes: Sequence[int], tile: Tile) -> list[int]:
    """The dimensions, most major first, that a tile makes of these: those outside, the counts of tiles, the tile."""
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


@dataclass(frozen=True)
class Shape:
    """An array, a tuple of shapes, a token or something opaque. Figures of all its leaves are cached: many instructions
    may refer to one large shape."""

    element_type: int
    dimensions: tuple[int, ...]
    elements: tuple[Shape, ...]
    """Of a tuple."""
    has_layout: bool
    memory_space: int
    element_bits: int
    """Bits that the layout gives each element; 0: those of its type."""
    minor_to_major: tuple[int, ...] = ()
    """Dimensions in the order of memory, the innermost first."""
    tiles: tuple[Tile, ...] = ()
    alignment: int = 0
    """The number of elements is padded to a multiple of this; 0: not recorded."""
    is_dynamic: bool = False
    """Whether any dimension is only a bound."""
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
        return product(self.dimensions)

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
        return _bytes(self.count, BITS.get(self.element_type, 0), self.element_bits)

    @cached_property
    def leaf_bytes(self) -> int:
        """Bytes of all arrays in it."""
        return sum(leaf.bytes for _, leaf in self.leaves())

    @cached_property
    def is_cut(self) -> bool:
        """Whether any of these sizes is too large to be known; see MOST."""
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
        """Bytes of all arrays in it, in full tiles; None: unknown, or 2**62 or more."""
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
            index, one = waiting.pop()
            if not one.is_tuple:
                yield index, one
                continue
            waiting.extend(((*index, place), one.elements[place]) for place in range(len(one.elements) - 1, -1, -1))


NO_SHAPE = Shape(0, (), (), False, 0, 0)
"""Of instructions without a shape in a damaged module."""
