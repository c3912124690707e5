"""Protobufs as text, as ``print(message)`` and ``text_format`` write them, made into bytes.

The fields of a message are a table: of each its number and its kind. What is in no table is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Final

import numpy as np

from fastprof.inputs.message_bytes import BadMessageError
from fastprof.schema.message_fields import FIXED32, FIXED64, put, varint
from fastprof.schema.tensor_types import NAMES
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import pattern_of

_DEEPEST: Final = 64
_WIDTHS: Final = {4: FIXED32, 8: FIXED64}

Kind = int | str | float | Mapping[str, tuple[int, "Kind"]]
"""Of a field: an integer, a text, a float or a message with these fields."""
Fields = Mapping[str, tuple[int, Kind]]
INT, TEXT, FLOAT, DOUBLE = 0, "", 0.0, 1.0


def numbered(first: int, *names: str) -> dict[str, tuple[int, Kind]]:
    """Integers of numbers that follow each other."""
    return {name: (number, INT) for number, name in enumerate(names, first)}


_WORDS: Final = {
    "true": 1, "false": 0, **{f"DT_{name.upper()}": number for number, name in enumerate(NAMES)},
    **{f"DT_{name.upper()}_REF": number + 100 for number, name in enumerate(NAMES)},
}  # fmt: skip
_TOKEN: Final = pattern_of(
    rb"(?:\s|\#[^\n]*)*(?P<token>[A-Za-z_][\w.]*|[-+]?[\d.]+[eE][-+]?\d+|[-+]?[\w.]+|[{}<>\[\]:,;]"
    rb"|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')?",
    re.DOTALL,
)
_ESCAPE: Final = pattern_of(rb"\\([0-7]{1,3}|x[0-9a-fA-F]{1,2}|.)", re.DOTALL)
_OCTAL: Final = pattern_of(r"-?0[0-7]+")
_LONGEST: Final = 24
"""Digits of a number of 64 bits, with room for signs."""
_LETTERS: Final = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


@dataclass(slots=True)
class _Open:
    """A message whose end has not come. ``number``: of its field in the one around; 0: nobody reads it."""

    number: int
    fields: Fields
    close: bytes
    parts: list[bytes] = field(default_factory=list)


Usual = Callable[[bytes, int], tuple[bytes, int] | None]


def as_bytes(text: bytes, of: Fields, usual: Usual | None = None) -> Iterator[bytes]:
    """The fields of a message, a few at a time. BadMessageError: the text is damaged; what was read before that has
    been given.

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
                _close(stack)
                if len(stack) == 1:
                    yield b"".join(stack[0].parts)
                    stack[0].parts.clear()
            elif name not in (b",", b";"):
                _field(tokens, stack, name)
    except BadMessageError:
        while len(stack) > 1:
            _close(stack)
        yield b"".join(stack[0].parts)
        raise


def _close(stack: list[_Open]) -> None:
    """Puts the innermost message into the one around it."""
    top = stack.pop()
    if top.number:
        stack[-1].parts.append(put(top.number, b"".join(top.parts)))


def _field(tokens: _Tokens, stack: list[_Open], name: bytes) -> None:
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
    values = [value]
    if value == b"[":
        values = []
        while (value := tokens.take()) not in (b"]", b""):
            values += [value] if value != b"," else []
    for one in values:
        scalar = _scalar(tokens, one, kind)
        if number and scalar is not None:
            stack[-1].parts.append(_fixed(number, scalar) if isinstance(kind, float) else put(number, scalar))


def _fixed(number: int, scalar: int | bytes) -> bytes:
    """A field of the bytes of a float or a double."""
    data = scalar if isinstance(scalar, bytes) else b""
    return varint(number << 3 | _WIDTHS[len(data)]) + data


def _scalar(tokens: _Tokens, value: bytes, kind: Kind) -> int | bytes | None:
    """None: the field is of another kind, or not of 64 bits."""
    if value[:1] in (b'"', b"'"):
        found = _unescaped(value)
        while tokens.next()[:1] in (b'"', b"'"):
            found += _unescaped(tokens.take())
        return found if isinstance(kind, str) else None
    if not value or value[:1] in b"{}<>[]:,;":
        raise BadMessageError("a field has no value", tokens.at)
    if isinstance(kind, float):
        return _float(value, kind)
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


def _float(value: bytes, kind: float) -> bytes | None:
    """The bytes of a float, or a double if that is the kind."""
    digits = value.decode().lower()
    try:
        number = float(digits if digits.endswith("inf") else digits.rstrip("f"))
    except ValueError:
        return None
    with np.errstate(over="ignore"):
        return np.float64(number).tobytes() if kind == DOUBLE else np.float32(number).tobytes()


def _unescaped(quoted: bytes) -> bytes:
    def of(match: re.Match[bytes]) -> bytes:
        found = match[1]
        if found[:1].isdigit():
            return bytes([int(found, 8) & 255])
        return bytes([int(found[1:], 16)]) if found[:1] == b"x" and len(found) > 1 else _LETTERS.get(found, found)

    return _ESCAPE.sub(of, quoted[1:-1])


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
        """Whether the last one has not been taken."""
        return self._token is not None

    def next(self) -> bytes:
        """The next one, which stays; empty: there is none."""
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
        found = self.next()
        self._token = None
        return found
