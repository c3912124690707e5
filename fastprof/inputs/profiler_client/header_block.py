"""Header fields of HTTP/2 as bytes (RFC 7541): those of a request are written as plain texts; those of an answer are
read without a dynamic table, because the connection asks for one of size 0.

A text may be in Huffman's code, where the codes of printable ASCII are known here. They are assigned in the order of
their lengths, and of the characters that share one, so the lengths are all there is to know:

    length 5: 0 1 2 a c e i o s t    00000 00001 00010 … 01001
    length 6: space % - . / 3 … u    010100 010101 …
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

STATUS: Final = ":status"
_STATUS_CODES: Final = ("200", "204", "206", "304", "400", "404", "500")
_FIRST_STATUS: Final = 8
"""The place of ``:status: 200`` in the static table. Nothing else of that table says anything of a call."""
_STATIC: Final = 61
_LENGTHS: Final[Mapping[int, str]] = {
    5: "012aceiost",
    6: " %-./3456789=A_bdfghlmnpru",
    7: ":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz",
    8: "&*,;XZ",
    10: '!"()?',
    11: "'+|",
    12: "#>",
    13: "\0$@[]~",
    14: "^}",
    15: "<`{",
    19: "\\",
}
_LONGEST_CODE: Final = 30


class BadHeadersError(Exception):
    """A block of header fields that is damaged, or that needs a dynamic table."""


def written(fields: Mapping[str, str]) -> bytes:
    return b"".join(b"\0" + _text(name) + _text(value) for name, value in fields.items())


def _text(value: str) -> bytes:
    data = value.encode("utf-8", "surrogateescape")
    return _integer(len(data), 7) + data


def _integer(value: int, bits: int) -> bytes:
    most = (1 << bits) - 1
    if value < most:
        return bytes([value])
    out, value = bytearray([most]), value - most
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read(block: bytes) -> dict[str, str]:
    """The last value of each name. Raises BadHeadersError."""
    return dict(_fields(_Reader(block)))


def _fields(block: _Reader) -> Iterator[tuple[str, str]]:
    while block.is_left:
        first = block.peek()
        if first & 0x80:  # a field of the static table
            yield _static(block.integer(7))
        elif first & 0xE0 == 0x20:  # a new size of the dynamic table
            block.integer(5)
        else:  # a name, of the static table or a text, and a value, which is to be kept or not
            place = block.integer(6 if first & 0x40 else 4)
            name = _static(place)[0] if place else block.text()
            yield name, block.text()


def _static(place: int) -> tuple[str, str]:
    if not 0 < place <= _STATIC:
        raise BadHeadersError("a header field of a table that was not agreed on")
    number = place - _FIRST_STATUS
    return (STATUS, _STATUS_CODES[number]) if 0 <= number < len(_STATUS_CODES) else ("", "")


class _Reader:
    def __init__(self, block: bytes) -> None:
        self._block = block
        self._at = 0

    @property
    def is_left(self) -> bool:
        return self._at < len(self._block)

    def peek(self) -> int:
        if not self.is_left:
            raise BadHeadersError("header fields that end too soon")
        return self._block[self._at]

    def integer(self, bits: int) -> int:
        """In the low bits of a byte, and if these are all set, in the bytes that follow."""
        most = (1 << bits) - 1
        value = self.peek() & most
        self._at += 1
        if value < most:
            return value
        for shift in range(0, 28, 7):
            byte = self.peek()
            self._at += 1
            value += (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise BadHeadersError("an integer of header fields that is too large")

    def text(self) -> str:
        in_code = self.peek() & 0x80
        length = self.integer(7)
        data = self._block[self._at : self._at + length]
        if len(data) < length:
            raise BadHeadersError("header fields that end too soon")
        self._at += length
        return decoded(data) if in_code else data.decode("utf-8", "replace")


def decoded(data: bytes) -> str:
    """A text in Huffman's code. Where a character is not printable ASCII, it ends with a question mark."""
    codes, out = _codes(), []
    code = length = 0
    for byte in data:
        for bit in range(7, -1, -1):
            code, length = code << 1 | byte >> bit & 1, length + 1
            letter = codes.get((length, code))
            if letter is not None:
                out.append(letter)
                code = length = 0
            elif length > _LONGEST_CODE:
                return "".join(out) + "?"
    return "".join(out)


@cache
def _codes() -> dict[tuple[int, int], str]:
    found: dict[tuple[int, int], str] = {}
    code = before = 0
    for length, letters in _LENGTHS.items():
        code <<= length - before
        for letter in letters:
            found[length, code] = letter
            code += 1
        before = length
    return found
