"""Arguments of PyTorch's ops, as its profiler records them: shapes, types, and values of others than arrays."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import prod
from typing import Any, Final, NamedTuple

from fastprof.schema.value_classes import dataclass

Dims = tuple[int, ...]
_MOST_LETTERS: Final = 10_000
"""Longer texts of arguments are damage."""
_MOST: Final = 1 << 60
"""Larger arrays are damage."""

NO_SHAPES: Final = "the shapes of its arguments are not recorded (record_shapes=True)"
OTHER_SHAPES: Final = "the shapes of its arguments are not those of such an op"


class Call(NamedTuple):
    """An op and its arguments, as texts of JSON; "": not recorded."""

    op: str
    dims: str
    types: str
    values: str


@dataclass(frozen=True, slots=True)
class Work:
    """Of one call: ``products`` of equal size, each with ``flops`` and ``bytes``; 0 bytes: types are not recorded."""

    flops: int
    bytes: int
    products: int = 1


class Unknown(Exception):  # noqa: N818 - a reason, not a failure
    """Why the work of a call is not known."""


def checked_work(flops: int, moved: int) -> Work:
    """Return the work of one product, or raise Unknown if no array is that large."""
    if max(flops, moved) > _MOST:
        raise Unknown(OTHER_SHAPES)
    return Work(flops, moved)


def all_dims(call: Call) -> Sequence[Any]:
    """Return what is recorded for each argument as its shape: [] for scalars and absent arrays."""
    dims = _parsed(call.dims)
    if not isinstance(dims, list) or not any(dims):
        raise Unknown(NO_SHAPES)
    return dims


def shape_at(dims: Sequence[Any], place: int) -> Dims:
    """Return the shape of an argument that must be an array."""
    if place >= len(dims) or not dims[place] or not is_shape(dims[place]):
        raise Unknown(OTHER_SHAPES)
    return tuple(dims[place])


def is_shape(dims: Any) -> bool:
    """Whether a parsed value is a list of sizes."""
    return isinstance(dims, list) and all(isinstance(one, int) and 0 <= one <= _MOST for one in dims)


def value_at(call: Call, place: int) -> Any:
    """Return an argument other than an array; None if it is not recorded."""
    values = _parsed(call.values)
    text = values[place] if place >= 0 and isinstance(values, list) and place < len(values) else None
    return _parsed(text.lower()) if isinstance(text, str) else None


def type_at(call: Call, place: int) -> str:
    """Return the type of an argument, without its namespace; "" if it is not recorded."""
    types = _parsed(call.types)
    text = types[place] if isinstance(types, list) and place < len(types) else None
    return text.removeprefix("c10::") if isinstance(text, str) else ""


def size_at(call: Call, place: int) -> int:
    """Return the bytes of an element of an argument; 0 if they are unknown."""
    return _BYTES.get(type_at(call, place), 0)


def argument_bytes(call: Call) -> int:
    """Return the bytes of all arrays that a call is given; 0 if a shape or a type is not recorded."""
    dims = _parsed(call.dims)
    given = [(place, one) for place, one in enumerate(dims if isinstance(dims, list) else ()) if one]
    sizes = [prod(one) * size_at(call, place) if is_shape(one) else 0 for place, one in given]
    total = sum(sizes) if all(sizes) else 0
    return total if total <= _MOST else 0


_BYTES: Final = {
    "double": 8, "float": 4, "Half": 2, "BFloat16": 2, "Float8_e4m3fn": 1, "Float8_e5m2": 1, "Float8_e4m3fnuz": 1,
    "Float8_e5m2fnuz": 1, "Float8_e8m0fnu": 1, "Float4_e2m1fn_x2": 1, "signed char": 1, "unsigned char": 1,
    "complex<float>": 8, "complex<double>": 16, "int": 4, "long int": 8, "long": 8,
}  # fmt: skip


def _parsed(text: str) -> Any:
    """The value of a text of JSON; None: it is none."""
    try:
        return json.loads(text) if text and len(text) <= _MOST_LETTERS else None
    except (ValueError, RecursionError):
        return None
