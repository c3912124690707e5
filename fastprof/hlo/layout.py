"""Layouts of arrays: the order of their dimensions in memory, the sizes of tiles, and what tiles pad.

Tiles are stored in full: an array of 5 x 130 elements in tiles of 8 x 128 takes 8 x 256. XLA writes the tiles of
``bf16[8,128]{1,0:T(8,128)(2,1)}`` after its minor-to-major order: the first tiles the most minor dimensions, the next
tiles the dimensions that the first one made, and so on. https://openxla.org/xla/tiled_layout has the rules; the size of
an array is xla::ShapeUtil::ArraySize of public XLA.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from fastprof.hlo.message import Message
from fastprof.hlo.shapes import BITS, TYPE_NAMES, Shape, product

Tile = tuple[int, ...]
Layout = tuple[tuple[int, ...], tuple[Tile, ...], int, int, int]
"""Minor-to-major order, tiles, bits of an element (0: those of its type), memory space, alignment of the end."""

COMBINE = -(2**63)
"""As the size of a tile: the dimension is first combined with the next more minor one."""
UNBOUNDED = -1
"""As the size of a dimension: unknown."""
MOST_TILES = 64
"""Layouts of more tiles in tiles are damaged; the size of their arrays is unknown."""
MOST = 1 << 62
"""No array counts as larger: sizes of damaged ones fit 64 bits, too."""

BITS_OF = {TYPE_NAMES[number].lower(): bits for number, bits in BITS.items()}
"""Bits of an element, by the name of its type as XLA writes it."""

_MINOR_TO_MAJOR, _TILES, _ELEMENT_BITS, _SPACE, _ALIGNMENT = 1, 6, 7, 8, 16


@dataclass(frozen=True)
class ArrayLayout:
    """An array and its layout in memory. Sizes that depend on something unknown are None."""

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
        """Each dimension in full first tiles, in the order of ``dimensions``. None: the first tile combines dimensions.
        Tiles in tiles, and tiles of more dimensions than the array has, may pad more than this."""
        if not self.tiles or not self.dimensions:
            return self.dimensions
        tile = self.tiles[0]
        if COMBINE in tile:
            return None
        padded = list(self.dimensions)
        for dimension, size in zip(self._order, reversed(tile), strict=False):
            if padded[dimension] > 0:
                padded[dimension] = min(_rounded_up(padded[dimension], size), (1 << 63) - 1)
        return tuple(padded)

    @cached_property
    def wasted_share(self) -> float | None:
        """Share of its bytes that hold no element; None where it takes none."""
        if self.bytes is None or not self.padded_bytes:
            return None
        return 1 - self.bytes / self.padded_bytes

    @property
    def tile_text(self) -> str:
        """``(8,128)(2,1)``; "" without tiles."""
        return "".join(f"({','.join('*' if n == COMBINE else str(n) for n in tile)})" for tile in self.tiles)

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
        bits = BITS_OF.get(self.element_type)
        if bits is None or any(size < 0 for size in self.dimensions):
            return None
        if self.element_bits > 0:
            return min((count * self.element_bits + 7) // 8, MOST)
        return min(count * max(1, (bits + 7) // 8), MOST)


def _rounded_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit if unit > 0 else size


def _tiled(sizes: Sequence[int], tile: Tile) -> list[int]:
    """The dimensions, most major first, that a tile makes of these: those outside, the counts of tiles, the tile."""
    sizes = [1] * (len(tile) - len(sizes)) + list(sizes)
    outside, inside = sizes[: len(sizes) - len(tile)], sizes[len(sizes) - len(tile) :]
    counts: list[int] = []
    kept: list[int] = []
    so_far = 1
    for size, unit in zip(inside, tile, strict=True):
        so_far = min(so_far * size, MOST)
        if unit != COMBINE:
            counts.append(-(-so_far // unit) if unit > 0 else so_far)
            kept.append(unit if unit > 0 else 1)
            so_far = 1
    return [*outside, *counts, *kept, *([so_far] if so_far > 1 else [])]


def layout_of_proto(data: memoryview) -> Layout:
    """The layout of a LayoutProto. CaptureError: it does not decode."""
    layout = Message(data)
    tiles = tuple(tuple(tile.integers(1)) for tile in layout.messages(_TILES))
    bits, space, alignment = layout.integer(_ELEMENT_BITS), layout.integer(_SPACE), layout.integer(_ALIGNMENT, 1)
    return tuple(layout.integers(_MINOR_TO_MAJOR)), tiles, bits, space, max(alignment, 1)


@lru_cache(4096)
def _layout_of_bytes(data: bytes) -> Layout:
    return layout_of_proto(memoryview(data))


def array_of(shape: Shape, data: memoryview) -> ArrayLayout:
    """The layout of an array of a module; ``data``: the module's, in which ``shape`` says where its layout lies.
    CaptureError: the layout does not decode."""
    at, length = shape.layout
    layout = _layout_of_bytes(bytes(data[at : at + length]))
    return ArrayLayout(shape.type_name.lower(), shape.dimensions, *layout)
