"""Literals and floats as HLO text has them: ``{ { 1, 2 }, { 3, 4 } }``, ``( 1, {2, 3} )``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import accumulate, takewhile
from operator import mul

import numpy as np
import numpy.typing as npt

from fastprof.errors import CaptureError
from fastprof.hlo.shapes import TOKEN, TUPLE, TYPE_NAMES, multiply_sizes
from fastprof.inputs.message import Message
from fastprof.schema.value_classes import dataclass

Numbers = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Small:
    """A float of at most a byte. ``specials``: "ieee" (infinities and NaNs at the largest exponent), "fn" (one NaN, all
    bits of it set), "fnuz" (one NaN, where -0 would be), "none"."""

    exponent: int
    mantissa: int
    bias: int
    specials: str
    signed: bool = True


_SMALL = {
    "F8E5M2": Small(5, 2, 15, "ieee"),
    "F8E4M3": Small(4, 3, 7, "ieee"),
    "F8E3M4": Small(3, 4, 3, "ieee"),
    "F8E4M3FN": Small(4, 3, 7, "fn"),
    "F8E4M3B11FNUZ": Small(4, 3, 11, "fnuz"),
    "F8E5M2FNUZ": Small(5, 2, 16, "fnuz"),
    "F8E4M3FNUZ": Small(4, 3, 8, "fnuz"),
    "F8E8M0FNU": Small(8, 0, 127, "fn", signed=False),
    "F4E2M1FN": Small(2, 1, 1, "none"),
}
SMALL = {TYPE_NAMES.index(name): small for name, small in _SMALL.items()}
"""Small floats by xla.PrimitiveType."""
_DIGITS = {"float16": (5, 5), "bfloat16": (4, 4), "float32": (6, 9), "float64": (15, 17)}
_MANTISSAS = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}


def format_floats(values: Numbers, name: str | None = None) -> list[str]:
    """Format float16, float32 or float64; or bfloat16 given as uint16, with that ``name``."""
    name = name or str(values.dtype)
    bits = values.view(f"u{values.dtype.itemsize}")
    if name == "bfloat16":
        values = (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    few, most = _DIGITS[name]
    numbers: list[float] = values.tolist()
    written = (f"%.{few}g " * len(numbers)) % tuple(numbers)
    texts = written.split()
    if few != most:
        with np.errstate(over="ignore"):
            again = np.fromstring(written, np.float64, sep=" ").astype(values.dtype)
        for place in np.flatnonzero(again != values).tolist():
            texts[place] = f"%.{most}g" % numbers[place]
    for place in np.flatnonzero(np.isnan(values)).tolist():
        texts[place] = _format_nan(int(bits[place]), _MANTISSAS[name], 8 * bits.dtype.itemsize)
    return texts


def format_small_floats(kind: int, values: Sequence[int]) -> list[str]:
    """Format floats of at most a byte, by their bits. KeyError: another ``kind``."""
    table = _make_small_floats(kind)
    return [table[value % len(table)] for value in values]


@cache
def _make_small_floats(kind: int) -> tuple[str, ...]:
    small = SMALL[kind]
    bits = small.exponent + small.mantissa + small.signed
    return tuple(_format_small_float(small, value, bits) for value in range(1 << bits))


def _format_small_float(small: Small, bits: int, width: int) -> str:
    mantissa = bits & (1 << small.mantissa) - 1
    exponent = bits >> small.mantissa & (1 << small.exponent) - 1
    negative = small.signed and bits >> width - 1
    at_top = exponent == (1 << small.exponent) - 1
    if small.specials == "fnuz" and bits == 1 << width - 1:
        return "-nan"
    if small.specials == "fn" and at_top and mantissa == (1 << small.mantissa) - 1:
        return "-nan" if negative else "nan"
    if small.specials == "ieee" and at_top and mantissa:
        return _format_nan(bits, small.mantissa, width)
    if small.specials == "ieee" and at_top:
        size = math.inf
    elif exponent or not small.signed:
        size = math.ldexp((1 << small.mantissa) + mantissa, exponent - small.bias - small.mantissa)
    else:
        size = math.ldexp(mantissa, 1 - small.bias - small.mantissa)
    digits = math.ceil(1 + (small.mantissa + 1) * math.log10(2))
    return f"%.{digits}g" % (-size if negative else size)


def _format_nan(bits: int, mantissa: int, width: int) -> str:
    payload = bits & (1 << mantissa) - 1
    sign = "-" if bits >> width - 1 else ""
    return f"{sign}nan" if payload == 1 << mantissa - 1 else f"{sign}nan(0x{payload:x})"


_SHAPE, _TUPLE_LITERALS = 1, 10
_ELEMENT_TYPE, _DIMENSIONS, _LAYOUT, _MINOR_TO_MAJOR = 2, 3, 5, 1
_BLOCK = 1 << 14
"""Elements written at once."""
_MOST_EMPTY = 1 << 20
"""Braces that may be written for an array without elements, whose other dimensions may be large."""

_VARINTS = {"PRED": (2, "?"), "S32": (4, "i4"), "S64": (5, "i8"), "U32": (6, "u4"), "U64": (7, "u8")}
_FLOATS = {"F32": (8, "f4", 1), "F64": (9, "f8", 1), "C64": (12, "f4", 2), "C128": (18, "f8", 2)}
_BYTES = {
    "U8": (3, "u1"),
    "S8": (15, "i1"),
    "U16": (16, "u2"),
    "S16": (17, "i2"),
    "F16": (11, "f2"),
    "BF16": (13, "u2"),
}
_BYTES |= {"S1": (30, "i1"), "S2": (26, "i1"), "S4": (21, "i1"), "U1": (31, "u1"), "U2": (27, "u1"), "U4": (22, "u1")}
_BYTES |= {"F4E2M1FN": (32, "u1"), "F8E3M4": (29, "u1"), "F8E4M3B11FNUZ": (23, "u1"), "F8E4M3FN": (20, "u1")}
_BYTES |= {"F8E4M3FNUZ": (25, "u1"), "F8E4M3": (28, "u1"), "F8E5M2FNUZ": (24, "u1"), "F8E5M2": (19, "u1")}
_BYTES |= {"F8E8M0FNU": (33, "u1")}
_NARROW = {"S1": 1, "S2": 2, "S4": 4, "U1": 1, "U2": 2, "U4": 4}
_PAIRS = ("C64", "C128")


def format_literal(literal: Message) -> Iterator[str]:
    """Format a LiteralProto, in pieces. CaptureError: it does not decode, or its values do not fill its shape."""
    waiting: list[Message | str] = [literal]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            yield part
            continue
        shape = part.message(_SHAPE)
        kind = shape.integer(_ELEMENT_TYPE)
        if kind == TUPLE:
            elements = part.messages(_TUPLE_LITERALS)
            separated: list[Message | str] = ["( "]
            for k, element in enumerate(elements):
                separated += [", ", element] if k else [element]
            waiting += reversed([*separated, " )"])
        elif kind == TOKEN:
            yield "token"
        else:
            yield from _format_literal_array(part, shape, kind)


def _format_literal_array(literal: Message, shape: Message, kind: int) -> Iterator[str]:
    sizes = shape.integers(_DIMENSIONS)
    if any(size < 0 for size in sizes):
        raise CaptureError("a literal has a negative dimension, reading HLO")
    if 0 in sizes and multiply_sizes([size for size in sizes if size]) > _MOST_EMPTY:
        raise CaptureError("a literal of no elements has too many dimensions to write, reading HLO")
    if 0 in sizes[:-1]:
        outer = sizes[: sizes.index(0)]
        return _nest_rows(outer, len(sizes), _BLOCK, lambda first, last: _format_empty(outer, len(sizes), first, last))
    name = TYPE_NAMES[kind] if 0 <= kind < len(TYPE_NAMES) else ""
    values = _order_values(_read_values(literal, name), sizes, shape.message(_LAYOUT).integers(_MINOR_TO_MAJOR))
    if not sizes:
        return iter([_format_values(name, values, scalar=True)[0]])
    width = sizes[-1] * (2 if name in _PAIRS else 1)

    def rows(first: int, last: int) -> list[str]:
        texts, length = _format_values(name, values[first * width : last * width], scalar=False), sizes[-1]
        blank = " " if len(sizes) > 1 and length > 1 else ""
        parts = (texts[row * length : (row + 1) * length] for row in range(last - first))
        return ["{" + blank + ", ".join(part) + blank + "}" for part in parts]

    return _nest_rows(sizes[:-1], len(sizes), max(1, _BLOCK // max(width, 1)), rows)


def _read_values(literal: Message, name: str) -> Numbers:
    """Return the numbers of a literal, as they are stored."""
    values: list[Numbers]
    if name in _VARINTS:
        number, dtype = _VARINTS[name]
        values = [*map(unpack_packed, literal.parts(number))]
        if not values:
            values = [np.array(literal.integers(number), np.int64)]
        return np.concatenate(values).astype(dtype)
    if name in _FLOATS:
        number, dtype, _ = _FLOATS[name]
        values = [_read_stored(part, dtype) for part in literal.parts(number)]
        if not values:
            bits = np.array([value % (1 << 64) for value in literal.integers(number)], np.uint64)
            values = [bits.astype(f"u{np.dtype(dtype).itemsize}").view(dtype)]
        return np.concatenate(values)
    if name in _BYTES:
        number, dtype = _BYTES[name]
        return _read_stored(literal.data(number), dtype)
    raise CaptureError("a literal of a type that has no values, reading HLO")


def _read_stored(data: memoryview, dtype: str) -> Numbers:
    """Read stored numbers. CaptureError: the bytes end within a number."""
    if len(data) % np.dtype(dtype).itemsize:
        raise CaptureError("a literal ends within a number, reading HLO")
    return np.frombuffer(data, dtype)


def unpack_packed(data: memoryview) -> npt.NDArray[np.int64]:
    """Return the values of a packed field, computed together. CaptureError: the last has no end."""
    raw = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(raw < 0x80)
    if not len(raw) or len(ends) == len(raw):
        return raw.astype(np.int64)
    if not len(ends) or ends[-1] != len(raw) - 1:
        raise CaptureError("a number has no end, reading HLO")
    starts = np.concatenate([[0], ends[:-1] + 1])
    if int((ends - starts).max()) > 9:
        raise CaptureError("a number has no end, reading HLO")
    values = np.zeros(len(ends), np.uint64)
    for place in range(int((ends - starts).max()) + 1):
        there = starts + place <= ends
        part = (raw[(starts + place)[there]] & 0x7F).astype(np.uint64)
        values[there] |= part << np.uint64(7 * place)
    return values.view(np.int64)


def _order_values(values: Numbers, sizes: list[int], minor_to_major: list[int]) -> Numbers:
    """Stored values in the order of their indices, the last index fastest."""
    count = multiply_sizes(sizes)
    pairs = len(values) == 2 * count > 0 and values.dtype.kind == "f"
    if len(values) != count * (1 + pairs):
        raise CaptureError("a literal does not fill its shape, reading HLO")
    if not count or sorted(minor_to_major) != list(range(len(sizes))):
        return values
    major = [k for k in reversed(minor_to_major) if sizes[k] > 1]  # few, as each of them doubles the values
    if major == sorted(major):
        return values
    stored = values.reshape([sizes[k] for k in major] + [2] * pairs)
    return stored.transpose([major.index(k) for k in sorted(major)] + [len(major)] * pairs).reshape(-1)


def _format_values(name: str, values: Numbers, scalar: bool) -> list[str]:
    """Return one text per value, one per pair for complex ones."""
    if name == "PRED":
        return [("false", "true")[value] if scalar else "01"[value] for value in values.tolist()]
    if name == "BF16":
        return format_floats(values, "bfloat16")
    if name in _PAIRS:
        parts = format_floats(values)
        return [f"({real}, {imaginary})" for real, imaginary in zip(parts[::2], parts[1::2], strict=True)]
    if name in _NARROW:
        bits = _NARROW[name]  # integers of less than a byte, which lie in a byte each
        narrow = values.astype(np.int64) & (1 << bits) - 1
        if name[0] == "S":
            narrow -= (narrow >> bits - 1) << bits
        return list(map(str, narrow.tolist()))
    kind = TYPE_NAMES.index(name)
    if kind in SMALL:
        return format_small_floats(kind, values.tolist())
    return format_floats(values) if values.dtype.kind == "f" else list(map(str, values.tolist()))


def _format_empty(outer: list[int], rank: int, first: int, last: int) -> list[str]:
    """Return the text of each dimension without elements, inside ``outer``."""
    level = len(outer)
    return [
        _open_brace(rank, level, row % outer[-1] if outer else 0).rstrip(" " * _is_marked(rank, level)) + " }"
        for row in range(first, last)
    ]


def _is_marked(rank: int, level: int) -> bool:
    """Return whether a brace has a comment with the number of its element."""
    return rank > 3 and level > 0


def _open_brace(rank: int, level: int, index: int) -> str:
    """Return the brace of dimension ``level``, of element ``index`` of the dimension around it."""
    return f"{{ /*i{level - 1}={index}*/ " if _is_marked(rank, level) else "{ "


def _nest_rows(outer: list[int], rank: int, block: int, rows: Callable[[int, int], list[str]]) -> Iterator[str]:
    """Texts of rows with the braces of the dimensions around them, ``block`` rows a piece."""
    spans = list(accumulate(reversed(outer), mul))[::-1]
    count = spans[0] if outer else 1
    sizes = [1, *outer]
    together = outer[-1] if outer else count
    for first in range(0, count, block):
        inner = rows(first, min(first + block, count))
        last = row = first
        while row < first + len(inner):
            last = min(first + len(inner), row - row % together + together)
            level = len(outer) - _count_complete(spans, row)
            begun = [_open_brace(rank, k, row // spans[k] % sizes[k]) for k in range(level, len(outer))]
            ended = " }" * _count_complete(spans, last)
            yield (", " if row else "") + "".join(begun) + ", ".join(inner[row - first : last - first]) + ended
            row = last


def _count_complete(spans: list[int], row: int) -> int:
    """Return the number of dimensions, from the last one, with only complete elements before a row: each span is a
    multiple of the next."""
    return sum(1 for _ in takewhile(lambda span: row % span == 0, reversed(spans)))
