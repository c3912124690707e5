"""Fields of protobuf messages, as they are written."""

from __future__ import annotations

from collections.abc import Iterable

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
