"""Protobuf messages: read whole by C and looked up by field number, or, of formats whose files are small, field by
field with the place of each fault; what a protobuf is, by its fields, as it has no magic number; and messages as text,
as ``print(message)`` and ``text_format`` write them, made into bytes.

A kind lists the fields of a message: NUMBER, TEXT_OR_MESSAGE, NUMBERS (packed or not), or the kind of a message in it.

The fields of a message are a table: of each its number and its kind. What is in no table is left out.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from itertools import takewhile
from typing import ClassVar, Final, NamedTuple, Self

import numpy as np

from fastprof._native.messages import read_message, read_message_fields
from fastprof.errors import CaptureError
from fastprof.schema.columns import UInt64s
from fastprof.schema.message_fields import BYTES, FIXED32, FIXED64, NAMES, VARINT, encode_varint, put
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import compile_late

_MOST_BITS = 70
_MOST_LOOKED_AT = 4_000
CUT = "the message ends within a field"


Readable = bytes | bytearray | memoryview


class Field(NamedTuple):
    """``value``: an unsigned integer, or the bytes of a text or message; ``at``: where the value begins in the file."""

    number: int
    value: int | memoryview
    at: int


class BadMessageError(Exception):
    """``at``: where in the file."""

    def __init__(self, text: str, at: int) -> None:
        super().__init__(text)
        self.text = text
        self.at = at


def read_fields(data: memoryview, begin: int = 0) -> Iterator[Field]:
    """Yield the fields of a message, which begins there in the file. BadMessageError: it ends within a field, or a
    field is of no kind that proto3 writes."""
    at, end = 0, len(data)
    while at < end:
        start = at
        tag, at = _read_varint(data, at, begin)
        kind = tag & 7
        if kind == VARINT:
            number, after = _read_varint(data, at, begin)
            yield Field(tag >> 3, number, begin + at)
            at = after
            continue
        if kind == BYTES:
            length, at = _read_varint(data, at, begin)
        elif kind in (FIXED32, FIXED64):
            length = 4 if kind == FIXED32 else 8
        else:
            raise BadMessageError("a field of an unknown wire type", begin + start)
        if length > end - at:
            raise BadMessageError(CUT, begin + start)
        value = data[at : at + length]
        yield Field(tag >> 3, value if kind == BYTES else int.from_bytes(value, "little"), begin + at)
        at += length


def read_sound_fields(data: memoryview, begin: int, salvage: bool) -> Iterator[Field]:
    """Yield the fields of a message. ``salvage``: of a message that is cut, the last one is what is there of it, and
    what comes after a fault is left out."""
    if not salvage:
        yield from read_fields(data, begin)
        return
    try:
        yield from read_fields(data, begin)
    except BadMessageError as fault:
        rest = data[fault.at - begin :]
        if fault.text != CUT or rest[0] & 7 != BYTES or rest[0] >= 0x80:
            return
        length = next((place for place, byte in enumerate(rest[1:11], 1) if byte < 0x80), 0)
        if length:
            yield Field(rest[0] >> 3, rest[length + 1 :], fault.at + length + 1)


class BegunField(NamedTuple):
    """``kind``: its wire type; ``value``: 0 for fixed widths; ``is_cut``: the data end within the value."""

    number: int
    kind: int
    value: int | memoryview
    is_cut: bool


def read_begun_fields(data: memoryview, is_cut: bool) -> Iterator[BegunField]:
    """Yield the fields of a message whose end may be missing (``is_cut``), to find out what it is: the first few
    thousand. BadMessageError: the bytes are not a message."""
    at, size = 0, len(data)
    for _ in range(_MOST_LOOKED_AT):
        if at >= size:
            return
        start = at
        tag, at = _read_varint_or_end(data, at, start)
        number, kind = tag >> 3, tag & 7
        value = 0
        if at and kind in (VARINT, BYTES):
            value, at = _read_varint_or_end(data, at, start)
        elif at and kind in (FIXED32, FIXED64):
            at += 4 if kind == FIXED32 else 8
        elif at:
            raise BadMessageError("a field of an unknown wire type", start)
        ends_early = kind == BYTES and value > size - at
        if (not at or ends_early) and not is_cut:
            raise BadMessageError(CUT, start)
        if not at:
            return
        if kind == BYTES:
            yield BegunField(number, kind, data[at : at + value], ends_early)
            at += value
        else:
            yield BegunField(number, kind, value, False)


def find_complete_end(data: Readable, at: int, base: int) -> tuple[int, int]:
    """Return where the last complete field ends, from the field at ``at`` on, and how many bytes the next one needs at
    least."""
    size = len(data)
    while at < size:
        tag, after = _read_varint_or_end(data, at, base + at)
        kind = tag & 7
        if kind == BYTES and after:
            length, after = _read_varint_or_end(data, after, base + at)
            after += length if after else 0
        elif kind == VARINT and after:
            after = _read_varint_or_end(data, after, base + at)[1]
        elif after and kind in (FIXED32, FIXED64):
            after += 4 if kind == FIXED32 else 8
        elif after:
            raise BadMessageError("a field of an unknown wire type", base + at)
        if not after:
            return at, size + 1
        if after > size:
            return at, after
        at = after
    return at, size + 1


def _read_varint_or_end(data: Readable, at: int, field: int) -> tuple[int, int]:
    """Return the number and where it ends, or 0 if that is not in the data. ``field``: where its field begins in the
    file."""
    if at < len(data) and data[at] < 0x80:
        return data[at], at + 1
    value = 0
    for place, byte in enumerate(data[at : at + 10]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    if len(data) - at >= 10:
        raise BadMessageError("an integer has no end", field)
    return 0, 0


def _read_varint(data: memoryview, at: int, begin: int) -> tuple[int, int]:
    value, shift = 0, 0
    while at < len(data) and shift < _MOST_BITS:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, at
        shift += 7
    raise BadMessageError("an integer has no end", begin + at)


def decode_signed(value: int | memoryview) -> int:
    """Return an integer of 64 bits with its sign; 0 if it is none."""
    if not isinstance(value, int):
        return 0
    return value - (1 << 64) if value >> 63 else value


def decode_text(value: int | memoryview) -> str:
    """Return the value as text; bytes that are not UTF-8 are replaced."""
    return "" if isinstance(value, int) else bytes(value).decode("utf-8", "replace")


def get_message(value: int | memoryview) -> memoryview:
    return memoryview(b"") if isinstance(value, int) else value


NUMBER, TEXT_OR_MESSAGE, NUMBERS = "number", "bytes", "numbers"
MessageKind = Mapping[int, "str | MessageKind"]
_TEXTS: Final[MessageKind] = {1: NUMBER, 2: TEXT_OR_MESSAGE}
_NUMBERS: Final[MessageKind] = {1: NUMBER, 2: NUMBER}
_NODE: Final[MessageKind] = {
    1: TEXT_OR_MESSAGE, 2: _NUMBERS, 3: _NUMBERS, 4: NUMBERS, 5: TEXT_OR_MESSAGE, 6: TEXT_OR_MESSAGE,
    7: TEXT_OR_MESSAGE, 8: NUMBER, 9: TEXT_OR_MESSAGE, 10: {1: TEXT_OR_MESSAGE},
    11: {1: TEXT_OR_MESSAGE, 2: TEXT_OR_MESSAGE}, 12: _TEXTS, 13: NUMBER, 14: _NUMBERS, 15: _TEXTS, 16: _TEXTS,
}  # fmt: skip
PROFILE: Final[MessageKind] = {1: {1: NUMBER, 2: _NODE}, 2: NUMBER, 3: NUMBERS, 4: _TEXTS, 5: NUMBER}
"""A ProfileProto of tfprof: its nodes by number."""
_CODE: Final[MessageKind] = {
    1: {
        1: TEXT_OR_MESSAGE,
        2: NUMBER,
        3: TEXT_OR_MESSAGE,
        4: TEXT_OR_MESSAGE,
        5: NUMBER,
        6: NUMBER,
        7: NUMBER,
        8: NUMBER,
    }
}
OP_LOG: Final[MessageKind] = {1: {1: TEXT_OR_MESSAGE, 2: NUMBER, 3: TEXT_OR_MESSAGE, 4: _CODE}, 2: _TEXTS}
"""An OpLogProto of tfprof: nodes by name, and texts by number."""


def begins_with_kind(head: bytes, kind: MessageKind, named: tuple[int, ...]) -> bool:
    """Return whether bytes that may be cut begin with fields of a message of this kind, one of them a sound message in
    which a name is not empty: ``named`` lists the numbers of fields that lead to it. Others may be damaged."""
    try:
        for number, _, value, is_cut in read_begun_fields(memoryview(head), True):
            what = kind.get(number)
            if what is None:
                return False
            if number == named[0] and not isinstance(what, str) and not isinstance(value, int):
                with suppress(BadMessageError):
                    if _has_named_field(value, what, named[1:], is_cut):
                        return True
    except BadMessageError:
        return False
    return False


def has_only_fields(data: bytes, numbers: Container[int]) -> bool:
    """Return whether the bytes are a message with fields of these numbers only."""
    try:
        return all(number in numbers for number, *_ in read_begun_fields(memoryview(data), False))
    except BadMessageError:
        return False


def _has_named_field(data: memoryview, kind: MessageKind, named: tuple[int, ...], is_cut: bool) -> bool:
    """Return whether the named field is present. BadMessageError: another field is of the wrong kind."""
    met = False
    for number, _, value, value_is_cut in read_begun_fields(data, is_cut):
        what = kind.get(number)
        is_next = named[:1] == (number,)
        if isinstance(value, int):
            if what not in (NUMBER, NUMBERS):
                raise BadMessageError("a field of another kind", 0)
        elif isinstance(what, str) or what is None:
            if what not in (TEXT_OR_MESSAGE, NUMBERS):
                raise BadMessageError("a field of another kind", 0)
            met |= is_next and len(named) == 1 and len(value) > 0
        else:
            met |= _has_named_field(value, what, named[1:] if is_next else (), value_is_cut)
    return met


_DEEPEST: Final = 64
_WIDTHS: Final = {4: FIXED32, 8: FIXED64}

TextKind = int | str | float | Mapping[str, tuple[int, "TextKind"]]
"""The kind of a field: an integer, a text, a float or a message with these fields."""
TextFields = Mapping[str, tuple[int, TextKind]]
INT, TEXT, FLOAT, DOUBLE = 0, "", 0.0, 1.0


def number_fields(first: int, *names: str) -> dict[str, tuple[int, TextKind]]:
    """Integers of numbers that follow each other."""
    return {name: (number, INT) for number, name in enumerate(names, first)}


_WORDS: Final = {
    "true": 1, "false": 0, **{f"DT_{name.upper()}": number for number, name in enumerate(NAMES)},
    **{f"DT_{name.upper()}_REF": number + 100 for number, name in enumerate(NAMES)},
}  # fmt: skip
_TOKEN: Final = compile_late(
    rb"(?:\s++|\#[^\n]*+)*+(?P<token>[A-Za-z_][\w.]*|[-+]?[\d.]+[eE][-+]?\d+|[-+]?[\w.]+|[{}<>\[\]:,;]"
    rb"|\"(?:[^\"\\\n]++|\\.)*+\"|'(?:[^'\\\n]++|\\.)*+')?",
    re.DOTALL,
)
_ESCAPE: Final = compile_late(rb"\\([0-7]{1,3}|x[0-9a-fA-F]{1,2}|.)", re.DOTALL)
_OCTAL: Final = compile_late(r"-?0[0-7]+")
_LONGEST: Final = 24
"""Digits of a number of 64 bits, with room for signs."""
_LETTERS: Final = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


@dataclass(slots=True)
class _Open:
    """A message whose end has not come. ``number``: of its field in the one around; 0: nobody reads it."""

    number: int
    fields: TextFields
    close: bytes
    content: bytearray = field(default_factory=bytearray)


Usual = Callable[[bytes, int], tuple[bytes, int] | None]


def encode_text_proto(text: bytes, of: TextFields, usual: Usual | None = None) -> Iterator[bytes]:
    """Yield the fields of a message, a few at a time. BadMessageError: the text is damaged; what was read before that
    has been given.

    ``usual``: reads a field faster that begins at a place, if it can; returns its bytes and where it ends."""
    tokens = _Tokens(text)
    stack = [_Open(0, of, b"")]
    try:
        while True:
            if usual and len(stack) == 1 and not tokens.is_ahead:
                while fast := usual(text, tokens.end):
                    yield fast[0]
                    tokens.end = fast[1]
            name = tokens.take()
            if not name and len(stack) == 1:
                return
            if not name:
                raise BadMessageError("the text ends within a message", tokens.at)
            if name == stack[-1].close:
                _close_message(stack)
                if len(stack) == 1:
                    yield bytes(stack[0].content)
                    stack[0].content.clear()
            elif name not in (b",", b";"):
                _read_field(tokens, stack, name)
    except BadMessageError:
        while len(stack) > 1:
            _close_message(stack)
        yield bytes(stack[0].content)
        raise


def _close_message(stack: list[_Open]) -> None:
    """Put the innermost message into the one around it."""
    top = stack.pop()
    if top.number:
        stack[-1].content += put(top.number, bytes(top.content))


def _read_field(tokens: _Tokens, stack: list[_Open], name: bytes) -> None:
    if not (name[:1].isalpha() or name[:1] in b"_["):
        raise BadMessageError("a field has no name", tokens.at)
    number, kind = stack[-1].fields.get(name.decode(), (0, INT))
    if name == b"[":  # an extension
        while tokens.take() not in (b"]", b""):
            continue
    value = tokens.take()
    if value == b":":
        value = tokens.take()
    if value in (b"{", b"<"):
        if len(stack) > _DEEPEST:
            raise BadMessageError(f"messages lie deeper than {_DEEPEST}", tokens.at)
        inner = kind if isinstance(kind, Mapping) else {}
        stack.append(_Open(number if inner else 0, inner, b"}" if value == b"{" else b">"))
        return
    values = iter([value])
    if value == b"[":
        listed = takewhile(lambda word: word not in (b"]", b""), iter(tokens.take, None))
        values = (word for word in listed if word != b",")
    for word in values:
        scalar = _encode_scalar(tokens, word, kind)
        if number and scalar is not None:
            stack[-1].content += _encode_fixed(number, scalar) if isinstance(kind, float) else put(number, scalar)


def _encode_fixed(number: int, scalar: int | bytes) -> bytes:
    """Return a field of the bytes of a float or a double."""
    data = scalar if isinstance(scalar, bytes) else b""
    return encode_varint(number << 3 | _WIDTHS[len(data)]) + data


def _encode_scalar(tokens: _Tokens, value: bytes, kind: TextKind) -> int | bytes | None:
    """None: the field is of another kind, or not of 64 bits."""
    if value[:1] in (b'"', b"'"):
        text = bytearray(_unescape(value))
        while tokens.next()[:1] in (b'"', b"'"):
            text += _unescape(tokens.take())
        return bytes(text) if isinstance(kind, str) else None
    if not value or value[:1] in b"{}<>[]:,;":
        raise BadMessageError("a field has no value", tokens.at)
    if isinstance(kind, float):
        digits = value.decode().lower()
        try:
            number = float(digits if digits.endswith("inf") else digits.rstrip("f"))
        except ValueError:
            return None
        with np.errstate(over="ignore"):
            return np.float64(number).tobytes() if kind == DOUBLE else np.float32(number).tobytes()
    if not isinstance(kind, int):
        return None
    word = value.decode()
    if word in _WORDS:
        return _WORDS[word]
    octal = _OCTAL.fullmatch(word) is not None
    try:
        return int(word, 8 if octal else 0) if len(word) <= _LONGEST else None
    except ValueError:
        return None


def _unescape(quoted: bytes) -> bytes:
    text, at = bytearray(), 1
    for match in _ESCAPE.finditer(quoted, 1, len(quoted) - 1):
        text += quoted[at : match.start()]
        at, number = match.end(), match[1]
        if number[:1].isdigit():
            text.append(int(number, 8) & 255)
        elif number[:1] == b"x" and len(number) > 1:
            text.append(int(number[1:], 16))
        else:
            text += _LETTERS.get(number, number)
    return bytes(text + quoted[at:-1])


class _Tokens:
    """The words, numbers, texts and signs of a document; ``at``: where the last one begins."""

    def __init__(self, text: bytes) -> None:
        self.at = 0
        self.end = 0
        """Where the last one ends."""
        self._text = text
        self._token: bytes | None = None

    @property
    def is_ahead(self) -> bool:
        """Return whether the last one has not been taken."""
        return self._token is not None

    def next(self) -> bytes:
        """Return the next token, which stays; empty if there is none."""
        if self._token is None:
            match = _TOKEN.match(self._text, self.end)
            assert match is not None
            self._token = match["token"] or b""
            self.at = self.end = match.end()
            self.at -= len(self._token)
            if not self._token and self.end < len(self._text):
                raise BadMessageError("a sign that texts of protobufs do not have", self.at)
        return self._token

    def take(self) -> bytes:
        token = self.next()
        self._token = None
        return token


Value = int | memoryview
"""The value of a varint or fixed-size field, or the bytes of a length-delimited one."""

_OFTEN_EMPTY = (68, 82)
"""Fields of instructions that compilers write without content: frontend attributes and statistics."""


class Message:
    """The fields of a message. CaptureError: it does not decode. ``DOING``: what is being read, for errors."""

    DOING: ClassVar = "reading HLO"
    __slots__ = ("_values",)

    def __init__(self, data: memoryview) -> None:
        self._values: dict[int, list[Value]] = read_message(data, self.DOING) if len(data) else {}

    @classmethod
    def of(cls, values: dict[int, list[Value]]) -> Message:
        """Return a message whose fields have been read already."""
        message = cls.__new__(cls)
        message._values = values
        return message

    def __contains__(self, number: int) -> bool:
        return number in self._values

    def values(self, number: int) -> Sequence[Value]:
        """Return all values of a field, of whatever wire type."""
        return self._values.get(number, ())

    def numbers(self) -> list[int]:
        """Return the numbers of the fields, by first occurrence."""
        return list(self._values)

    def has_any(self, numbers: frozenset[int]) -> bool:
        return not numbers.isdisjoint(self._values)

    def integer(self, number: int, default: int = 0) -> int:
        """Return the last value of an int64 field."""
        values = self._values.get(number)
        return _make_signed(values[-1]) if values and isinstance(values[-1], int) else default

    def integers(self, number: int) -> list[int]:
        """Return all values of a repeated int64 field, packed or not."""
        values: list[int] = []
        for value in self._values.get(number, ()):
            values += [_make_signed(value)] if isinstance(value, int) else _unpack_integers(value)
        return values

    def flag(self, number: int) -> bool:
        return self.integer(number) != 0

    def data(self, number: int) -> memoryview:
        """Return the last value of a message, string or bytes field; empty where there is none."""
        values = self._values.get(number)
        return values[-1] if values and isinstance(values[-1], memoryview) else memoryview(b"")

    def text(self, number: int) -> str:
        """``data`` as text, with replacements for what is not UTF-8."""
        return bytes(self.data(number)).decode("utf-8", "replace")

    def parts(self, number: int) -> list[memoryview]:
        """Return all values of a repeated message, string or bytes field."""
        return [value for value in self._values.get(number, ()) if isinstance(value, memoryview)]

    def message(self, number: int) -> Self:
        """Return the last value of a message field; an empty message where there is none."""
        return type(self)(self.data(number))

    def messages(self, number: int) -> list[Self]:
        return [type(self)(part) for part in self.parts(number)]

    def double(self, number: int) -> float:
        """Return the last value of a double field, or 0.0."""
        return float(struct.unpack("<d", struct.pack("<Q", self.integer(number) & (1 << 64) - 1))[0])

    def single(self, number: int) -> float:
        """Return the last value of a float field, or 0.0."""
        return float(struct.unpack("<f", struct.pack("<I", self.integer(number) & (1 << 32) - 1))[0])


def scan_messages(
    data: memoryview, offsets: UInt64s, lengths: UInt64s, left_out: Iterable[int]
) -> Callable[[int], Message]:
    """Find the fields of many messages in one pass, and return a function that gives the message of a place among
    ``offsets``. Fields in ``left_out`` are treated as absent. CaptureError: one does not decode."""
    spans = np.ascontiguousarray(np.column_stack([offsets, lengths]), np.uint64)
    raw = read_message_fields(data, spans, left_out, Message.DOING)
    first, numbers, sizes = (np.frombuffer(raw[place], np.int64).tolist() for place in (0, 1, 3))
    values: list[int] = np.frombuffer(raw[2], np.uint64).tolist()

    def message(place: int) -> Message:
        fields: dict[int, list[Value]] = {}
        for at in range(first[place], first[place + 1]):
            value, size, number = values[at], sizes[at], numbers[at]
            if size or number not in _OFTEN_EMPTY:
                fields.setdefault(number, []).append(value if size < 0 else data[value : value + size])
        return Message.of(fields)

    return message


def read_varint(data: memoryview, at: int) -> tuple[int, int]:
    """Return the number at a byte, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
    raise CaptureError("a number has no end, reading HLO")


def _make_signed(value: int) -> int:
    """Return an int64 from the bits of a varint."""
    return value - (1 << 64) if value >> 63 else value


def _unpack_integers(data: memoryview) -> list[int]:
    """Return the int64 values of a packed field."""
    raw = bytes(data)
    if raw.isascii():  # one byte each
        return list(raw)
    values: list[int] = []
    at = 0
    while at < len(data):
        value, at = read_varint(data, at)
        values.append(_make_signed(value))
    return values
