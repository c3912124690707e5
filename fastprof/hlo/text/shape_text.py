"""Shapes as HLO text has them: ``f32[8,128]{1,0:T(8,128)S(1)}``, ``(s32[], /*index=5*/ …)``."""

from __future__ import annotations

from collections.abc import Iterable

from fastprof.errors import CaptureError
from fastprof.hlo.message import Message
from fastprof.hlo.shapes import OPAQUE, TOKEN, TUPLE, TYPE_NAMES, tile_text

UNKNOWN = "?"
"""Printed for what a damaged module lacks."""
EVERY = 5
"""A comment numbers every fifth element of a tuple, or operand."""

_ELEMENT_TYPE, _DIMENSIONS, _ELEMENTS, _LAYOUT, _DYNAMIC = 2, 3, 4, 5, 6
_MINOR_TO_MAJOR, _TILES, _ELEMENT_BITS, _MEMORY_SPACE, _LEVELS, _PHYSICAL = 1, 6, 7, 8, 9, 10
_INDEX_TYPE, _POINTER_TYPE, _UNIQUE, _ORDERED, _PREFIX_BYTES, _TAIL_PADDING, _SPLITS = 11, 12, 13, 14, 15, 16, 17
_BUFFER = TYPE_NAMES.index("BUFFER")
_LEVEL_LETTERS = "DCSH"
_UNBOUNDED = -(1 << 63)
_MOST_PHYSICAL = 8
"""Physical shapes inside physical shapes that are followed."""


class ShapeTexts:
    """Texts of ShapeProtos, each written once: many instructions have equal shapes. ``layouts``: with their layouts."""

    def __init__(self, layouts: bool = True) -> None:
        self.layouts = layouts
        self._known: dict[bytes, str] = {}

    def text(self, proto: memoryview) -> str:
        """``?`` for one that does not decode."""
        key = bytes(proto)
        if key not in self._known:
            try:
                self._known[key] = self._written(proto)
            except CaptureError:
                self._known[key] = UNKNOWN
        return self._known[key]

    def _written(self, proto: memoryview) -> str:
        """Without recursion: tuples may nest at will."""
        pieces: list[str] = []
        waiting: list[memoryview | str] = [proto]
        while waiting:
            one = waiting.pop()
            if isinstance(one, str):
                pieces.append(one)
                continue
            shape = Message(one)
            kind = shape.integer(_ELEMENT_TYPE)
            if kind == TUPLE:
                waiting += reversed(_tuple(shape.parts(_ELEMENTS)))
            elif kind == _BUFFER:
                waiting += reversed(["b(", *shape.parts(_ELEMENTS)[:1], ")"])
            else:
                pieces.append(_array(shape, kind, self.layouts))
        return "".join(pieces)


def _tuple(elements: list[memoryview]) -> list[memoryview | str]:
    """A tuple's elements, and what stands between them."""
    written: list[memoryview | str] = ["("]
    for k, element in enumerate(elements):
        written += [index_mark(k), element] if k else [element]
    return [*written, ")"]


def joined(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))


def index_mark(k: int) -> str:
    """What stands before element or operand k."""
    return f", /*index={k}*/" if k % EVERY == 0 else ", "


def type_name(kind: int) -> str:
    """``f32``; ``invalid`` for a type that is not known."""
    return TYPE_NAMES[kind].lower() if 0 <= kind < len(TYPE_NAMES) else "invalid"


def _array(shape: Message, kind: int, with_layout: bool) -> str:
    if kind in (TOKEN, OPAQUE):
        return f"{type_name(kind)}[]"
    sizes = shape.integers(_DIMENSIONS)
    dynamic = shape.integers(_DYNAMIC)
    if any(dynamic):
        dimensions = ",".join(_size(size, k < len(dynamic) and dynamic[k] != 0) for k, size in enumerate(sizes))
    else:
        dimensions = joined(sizes)
    text = f"{type_name(kind)}[{dimensions}]"
    if with_layout and _LAYOUT in shape:
        layout = layout_text(shape.message(_LAYOUT))
        if sizes or layout != "{}":
            text += layout
    return text


def _size(size: int, dynamic: bool) -> str:
    if not dynamic:
        return str(size)
    return "?" if size == _UNBOUNDED else f"<={size}"


def layout_text(layout: Message, inside: int = 0) -> str:
    """``{1,0:T(8,128)(2,1)S(1)}``. ``inside``: how many physical shapes are around it."""
    order = joined(layout.integers(_MINOR_TO_MAJOR))
    tiles = "".join(tile_text(tile.integers(1)) for tile in layout.messages(_TILES))
    splits = "".join(_split(split) for split in layout.messages(_SPLITS))
    parts = [
        _levels(layout),
        f"T{tiles}" if tiles else "",
        _number("L", layout.integer(_TAIL_PADDING, 1), (0, 1)),
        _primitive("#", layout.integer(_INDEX_TYPE)),
        _primitive("*", layout.integer(_POINTER_TYPE)),
        _number("E", layout.integer(_ELEMENT_BITS)),
        _number("S", layout.integer(_MEMORY_SPACE)),
        f"SC{splits}" if splits else "",
        _physical(layout, inside),
        _number("M", layout.integer(_PREFIX_BYTES)),
    ]
    rest = "".join(parts)
    return f"{{{order}:{rest}}}" if rest else f"{{{order}}}"


def _number(letter: str, value: int, silent: tuple[int, ...] = (0,)) -> str:
    return "" if value in silent else f"{letter}({value})"


def _primitive(mark: str, kind: int) -> str:
    return f"{mark}({type_name(kind)})" if kind else ""


def _split(split: Message) -> str:
    return f"({split.integer(1)}:{joined(split.integers(2))})"


def _levels(layout: Message) -> str:
    """How each dimension is stored: dense, compressed, singleton, loosely compressed."""
    levels, unique, ordered = (layout.integers(number) for number in (_LEVELS, _UNIQUE, _ORDERED))
    if not levels:
        return ""
    texts = []
    for k, level in enumerate(levels):
        letter = _LEVEL_LETTERS[level] if 0 <= level < len(_LEVEL_LETTERS) else UNKNOWN
        letter += "+" if k < len(unique) and not unique[k] else ""
        texts.append(letter + ("~" if k < len(ordered) and not ordered[k] else ""))
    return f"D({','.join(texts)})"


def _physical(layout: Message, inside: int) -> str:
    if _PHYSICAL not in layout or inside >= _MOST_PHYSICAL:
        return ""
    shape = layout.message(_PHYSICAL)
    kind = shape.integer(_ELEMENT_TYPE)
    if kind != TUPLE:
        return f"P({_physical_array(shape, inside)})"
    elements = [_physical_array(Message(part), inside) for part in shape.parts(_ELEMENTS)]
    return "P((" + "".join((index_mark(k) if k else "") + one for k, one in enumerate(elements)) + "))"


def _physical_array(shape: Message, inside: int) -> str:
    text = _array(shape, shape.integer(_ELEMENT_TYPE), with_layout=False)
    layout = layout_text(shape.message(_LAYOUT), inside + 1) if _LAYOUT in shape else ""
    return text if layout == "{}" and text.endswith("[]") else text + layout
