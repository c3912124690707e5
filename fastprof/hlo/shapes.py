"""Shapes of values in HLO: their types, how many elements they have and how many bytes they take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

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

POINTER_BYTES = 8
_MOST = 1 << 62


def product(sizes: Sequence[int]) -> int:
    """At most 2**62, which damaged shapes may exceed; 0 where a size is not positive."""
    result = 1
    if any(size <= 0 for size in sizes):
        return 0
    for size in sizes:
        result *= size
        if result > _MOST:
            return _MOST
    return result


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
    layout: tuple[int, int]
    """Offset and length of the LayoutProto."""
    minor_to_major: tuple[int, ...] = ()
    """Dimensions in the order of memory, the innermost first."""
    tiles: tuple[tuple[int, ...], ...] = ()
    is_dynamic: bool = False
    """Whether any dimension is only a bound."""
    proto: tuple[int, int] = (0, 0)
    """Offset and length of the ShapeProto."""

    @property
    def is_tuple(self) -> bool:
        return self.element_type == TUPLE

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
        if self.element_bits > 0:
            return (self.count * self.element_bits + 7) // 8
        return self.count * max(1, (BITS.get(self.element_type, 0) + 7) // 8)

    @cached_property
    def leaf_bytes(self) -> int:
        """Bytes of all arrays in it."""
        return sum(leaf.bytes for _, leaf in self.leaves())

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


NO_SHAPE = Shape(0, (), (), False, 0, 0, (0, 0))
"""Of instructions without a shape in a damaged module."""
