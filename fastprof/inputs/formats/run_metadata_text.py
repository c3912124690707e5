"""RunMetadata in the text form of protobufs, as ``print(run_metadata)`` and ``text_format`` write it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, cast

from fastprof.inputs.formats import run_metadata
from fastprof.inputs.formats.contract import Remark
from fastprof.inputs.message_bytes import BadMessageError
from fastprof.schema.message_fields import put
from fastprof.schema.tensor_types import NAMES

NAME: Final = "run_metadata_text"
_DEEPEST: Final = 64

Kind = int | str | Mapping[str, tuple[int, "Kind"]]
"""Of a field: an integer, a text, or a message with these fields, each with its number."""
_INT, _TEXT = 0, ""


def _numbered(first: int, *names: str) -> dict[str, tuple[int, Kind]]:
    return {name: (number, _INT) for number, name in enumerate(names, first)}


_ALLOCATION: Final[Mapping[str, tuple[int, Kind]]] = {
    **_numbered(1, "requested_bytes", "allocated_bytes"), "allocator_name": (3, _TEXT),
    **_numbered(4, "allocation_id", "has_single_reference", "ptr"),
}  # fmt: skip
_SHAPE: Final[Mapping[str, tuple[int, Kind]]] = {"dim": (2, {"size": (1, _INT)}), "unknown_rank": (3, _INT)}
_TENSOR: Final = {"dtype": (1, _INT), "shape": (2, _SHAPE), "allocation_description": (4, _ALLOCATION)}
_ALLOCATOR: Final[Mapping[str, tuple[int, Kind]]] = {
    "allocator_name": (1, _TEXT),
    **_numbered(2, "total_bytes", "peak_bytes", "live_bytes", "allocator_bytes_in_use"),
    "allocation_records": (6, _numbered(1, "alloc_micros", "alloc_bytes")),
}
_NODE: Final[Mapping[str, tuple[int, Kind]]] = {
    "node_name": (1, _TEXT),
    **_numbered(2, "all_start_micros", "op_start_rel_micros", "op_end_rel_micros", "all_end_rel_micros"),
    "memory": (6, _ALLOCATOR),
    "output": (7, cast(Kind, {"slot": (1, _INT), "tensor_description": (3, _TENSOR)})),
    "timeline_label": (8, _TEXT),
    **_numbered(9, "scheduled_micros", "thread_id"),
    "memory_stats": (12, _numbered(1, "temp_memory_size", "device_temp_memory_size", "persistent_memory_size")),
    **_numbered(13, "all_start_nanos", "op_start_rel_nanos", "op_end_rel_nanos", "all_end_rel_nanos"),
}
_DEVICE: Final[Mapping[str, tuple[int, Kind]]] = {
    "device": (1, _TEXT), "node_stats": (2, _NODE), "thread_names": (3, {"key": (1, _INT), "value": (2, _TEXT)}),
}  # fmt: skip
_RUN: Final[Mapping[str, tuple[int, Kind]]] = {"step_stats": (1, cast(Kind, {"dev_stats": (1, _DEVICE)}))}
_WORDS: Final = {"true": 1, "false": 0, **{f"DT_{name.upper()}": number for number, name in enumerate(NAMES)}}

_BEGINS: Final = re.compile(rb"(?:\s|#[^\n]*\n)*step_stats\s*:?\s*[{<]")
_TOKEN: Final = re.compile(
    rb"(?:\s|\#[^\n]*)*(?P<token>[A-Za-z_][\w.]*|[-+]?[\w.]+|[{}<>\[\]:,;]"
    rb"|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')?",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(rb"\\([0-7]{1,3}|x[0-9a-fA-F]{1,2}|.)", re.DOTALL)
_OCTAL: Final = re.compile(r"-?0[0-7]+")
_LONGEST: Final = 24
"""Digits of a number of 64 bits, with room for signs."""
_LETTERS: Final = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


def begins(head: bytes) -> bool:
    return _BEGINS.match(head) is not None


def scribe(path: str, salvage: bool) -> Scribe:
    return Scribe(path, salvage)


class Scribe(run_metadata.Scribe):
    """Writes the text as bytes, which are then read."""

    def message(self) -> bytes:
        parts = list[bytes]()
        try:
            parts.extend(as_bytes(bytes(self.document)))
        except BadMessageError as fault:
            if not self._salvage:
                raise
            self.remarks.append(Remark("data_loss", "truncated", f"the rest is not read: {fault.text}", 1, fault.at))
        return b"".join(parts)


@dataclass(slots=True)
class _Open:
    """A message whose end has not come. ``number``: of its field in the one around; 0: nobody reads it."""

    number: int
    fields: Mapping[str, tuple[int, Kind]]
    close: bytes
    parts: list[bytes] = field(default_factory=list)


def as_bytes(text: bytes) -> Iterator[bytes]:
    """The fields of a RunMetadata. BadMessageError: the text is damaged; what was read before that has been given."""
    tokens = _Tokens(text)
    stack = [_Open(0, _RUN, b"")]
    try:
        while (name := tokens.take()) or len(stack) > 1:
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
    number, kind = stack[-1].fields.get(name.decode(), (0, _INT))
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
            stack[-1].parts.append(put(number, scalar))


def _scalar(tokens: _Tokens, value: bytes, kind: Kind) -> int | bytes | None:
    """None: the field is of another kind, or not of 64 bits."""
    if value[:1] in (b'"', b"'"):
        found = _unescaped(value)
        while tokens.next()[:1] in (b'"', b"'"):
            found += _unescaped(tokens.take())
        return found if kind == _TEXT and isinstance(kind, str) else None
    if not value or value[:1] in b"{}<>[]:,;":
        raise BadMessageError("a field has no value", tokens.at)
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
        self._text = text
        self._end = 0
        self._token: bytes | None = None

    def next(self) -> bytes:
        """The next one, which stays; empty: there is none."""
        if self._token is None:
            match = _TOKEN.match(self._text, self._end)
            assert match is not None
            self._token = match["token"] or b""
            self.at = self._end = match.end()
            self.at -= len(self._token)
            if not self._token and self._end < len(self._text):
                raise BadMessageError("a sign that texts of protobufs do not have", self.at)
        return self._token

    def take(self) -> bytes:
        found = self.next()
        self._token = None
        return found
