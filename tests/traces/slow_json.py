"""JSON read slowly, by Python's own parser, with the source text of every number: what traces say, exactly.

Only documents that are JSON, but for bare NaN and infinities. Texts of invalid UTF-8 become U+FFFD byte by byte.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

INT64 = range(-(2**63), 2**63)
UINT64 = range(2**64)


@dataclass(frozen=True)
class Number:
    """A number as it is written."""

    text: str

    @property
    def is_integer(self) -> bool:
        return self.text.lstrip("-").isdigit()

    @property
    def is_finite(self) -> bool:
        return "n" not in self.text.lower()  # NaN, Infinity

    def exact(self) -> Fraction:
        return Fraction(self.text)


class Pairs(dict[str, Any]):
    """An object; of a key that repeats the last value stands at the first place. ``repeated``: how many did."""

    repeated = 0


def _pairs(pairs: list[tuple[str, Any]]) -> Pairs:
    made = Pairs(pairs)
    made.repeated = len(pairs) - len(made)
    return made


def decoded(data: bytes) -> tuple[str, int]:
    """The text, and how many bytes are no part of a character."""
    bad = 0
    parts: list[str] = []
    while data:
        try:
            parts.append(data.decode())
            break
        except UnicodeDecodeError as fault:
            parts += [data[: fault.start].decode(), "\ufffd"]
            data = data[fault.start + 1 :]
            bad += 1
    return "".join(parts), bad


def read(data: bytes) -> list[Any]:
    """The documents that follow each other."""
    text, _ = decoded(data.removeprefix(b"\xef\xbb\xbf").strip(b" \t\r\n\f\0"))
    parser = json.JSONDecoder(
        strict=False, object_pairs_hook=_pairs, parse_int=Number, parse_float=Number, parse_constant=Number
    )
    documents, at = [], 0
    while at < len(text):
        parsed, at = parser.raw_decode(text, at)
        documents.append(_mended(parsed))
        at += len(text[at:]) - len(text[at:].lstrip(" \t\r\n\f"))
    return documents


def _mended(value: Any) -> Any:
    """Lone surrogates, which Python keeps, become U+FFFD."""
    if isinstance(value, str):
        return "".join("\ufffd" if 0xD800 <= ord(c) < 0xE000 else c for c in value)
    if isinstance(value, list):
        return [_mended(item) for item in value]
    if isinstance(value, Pairs):
        made = Pairs({_mended(key): _mended(item) for key, item in value.items()})
        made.repeated = value.repeated
        return made
    return value


def compact(value: Any) -> str:
    """The source without blanks, its texts escaped as little as JSON allows."""
    if isinstance(value, Number):
        return value.text
    if isinstance(value, list):
        return "[" + ",".join(map(compact, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{compact(key)}:{compact(item)}" for key, item in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)


def stat(value: Any) -> tuple[str, Any]:
    """Kind and value of an arg (M8, J3, J4)."""
    if value is None:
        return "none", None
    if isinstance(value, bool):
        return "int64", int(value)
    if isinstance(value, str):
        return "str", value
    if isinstance(value, Number):
        return _number(value)
    return "str", compact(value)


def _number(value: Number) -> tuple[str, Any]:
    if not value.is_integer:
        return "double", float(value.text)
    whole = int(value.text)
    if whole in INT64:
        return "int64", whole
    return ("uint64", whole) if whole in UINT64 else ("str", value.text)


def is_number(text: str) -> bool:
    """Whether a text is a number as JSON has it."""
    return re.fullmatch(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", text) is not None


def picoseconds(value: Any) -> int | None:
    """Microseconds, a number or text that is one, as the nearest picosecond, halves to even (T1); None: no time."""
    if isinstance(value, str):
        value = Number(value)
    return round(value.exact() * 10**6) if isinstance(value, Number) and is_number(value.text) else None


def identity(value: Any) -> int | str:
    """The canonical form of a pid, tid or id (J7)."""
    if isinstance(value, Number):
        if not value.is_finite:
            return value.text
        exact = value.exact()
        return int(exact) if exact.denominator == 1 else value.text
    text = str(value) if not isinstance(value, str) else value
    digits = text.removeprefix("-")
    is_whole = digits.isascii() and digits.isdigit() and (digits == "0" or digits[0] != "0") and text != "-0"
    return int(text) if is_whole else text
