"""Fields of protobuf messages, as they are written; and the types of TensorFlow's tensors, by the number that messages
have for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""What follows a tag."""
_SHORT = tuple(bytes([value]) for value in range(128))


def encode_varint(value: int) -> bytes:
    if 0 <= value < len(_SHORT):
        return _SHORT[value]
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def put(number: int, value: int | str | bytes) -> bytes:
    """Encode a field."""
    if isinstance(value, int):
        return encode_varint(number << 3 | VARINT) + encode_varint(value)
    data = value.encode("utf-8", "replace") if isinstance(value, str) else value
    return put_prefix(number, len(data)) + data


def put_prefix(number: int, length: int) -> bytes:
    """Encode what precedes a text, bytes or a message of this length."""
    return encode_varint(number << 3 | BYTES) + encode_varint(length)


def put_all(number: int, values: Iterable[bytes]) -> bytes:
    return b"".join(put(number, value) for value in values)


NAMES: Final = (
    "invalid", "float", "double", "int32", "uint8", "int16", "int8", "string", "complex64", "int64", "bool", "qint8",
    "quint8", "qint32", "bfloat16", "qint16", "quint16", "uint16", "complex128", "half", "resource", "variant",
    "uint32", "uint64", "float8_e5m2", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2fnuz",
    "int4", "uint4",
)  # fmt: skip
_WIDTHS: Final = (0, 4, 8, 4, 1, 2, 1, 0, 8, 8, 1, 1, 1, 4, 2, 2, 2, 2, 16, 2, 0, 0, 4, 8, 1, 1, 1, 1, 1, 1, 1)
_REFERENCE: Final = 100
"""References to tensors have the numbers of the types, and this."""


def get_tensor_type_name(number: int) -> str:
    if 0 <= number < len(NAMES):
        return NAMES[number]
    if 0 < number - _REFERENCE < len(NAMES):
        return f"{NAMES[number - _REFERENCE]}_ref"
    return f"type {number}"


def get_tensor_type_bytes(number: int) -> int:
    """Return the bytes of an element in memory; 0 if they vary or are unknown."""
    return _WIDTHS[number] if 0 <= number < len(_WIDTHS) else 0
