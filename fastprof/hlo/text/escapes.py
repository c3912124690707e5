"""Text inside HLO text: escaped as in C, and left as it is where it reads as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator

_SHORT = {ord(char): "\\" + letter for char, letter in (("\n", "n"), ("\r", "r"), ("\t", "t"))}
_SHORT |= {ord(char): "\\" + char for char in "\"'\\"}
_ESCAPED = [_SHORT.get(byte, chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in range(256)]
_PLAIN = re.compile(rb"[ !#-&(-\[\]-~]*")

_TOKEN = re.compile(r'[^"{}]+|"(?:[^"\\]|\\.)*"|[{}"]')
_COMMENT = re.compile(r"\s+|/\*.*?\*/|//[^\n\r]*", re.DOTALL)


def escaped(data: bytes | memoryview) -> str:
    """Bytes as C writes them in a literal: what is not printable in octal."""
    raw = bytes(data)
    if _PLAIN.fullmatch(raw):
        return raw.decode("ascii")
    return "".join([_ESCAPED[byte] for byte in raw])


def one_line(text: str) -> str:
    """A text as it is, but for what does not print, in octal: a name can neither begin a line nor steer a terminal."""
    if text.isprintable():
        return text
    return "".join([one if one.isprintable() else escaped(one.encode("utf-8", "replace")) for one in text])


def reads_as_json(text: str) -> bool:
    """Whether a text is one pair of braces, with what is between them, and perhaps blanks and comments behind them.
    Braces in quotes do not count."""
    if not text.startswith("{"):
        return False
    end = _closing_brace(text)
    return end > 0 and _only_comments(text, end)


def _closing_brace(text: str) -> int:
    """Behind the brace that closes the first one; 0 where there is none, or a quote that has no end before it."""
    depth = 0
    for token, end in _tokens(text):
        if token == "{":
            depth += 1
        elif token == "}":
            depth -= 1
            if depth == 0:
                return end
        elif token == '"':
            return 0
    return 0


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    return ((found.group(), found.end()) for found in _TOKEN.finditer(text))


def _only_comments(text: str, at: int) -> bool:
    while at < len(text):
        found = _COMMENT.match(text, at)
        if found is None:
            return False
        at = found.end()
    return True


def quoted_or_json(data: bytes | memoryview) -> str:
    """A value as HLO text has it: as it is where it reads as JSON, else in quotes."""
    text = bytes(data).decode("utf-8", "replace")
    return text if reads_as_json(text) else f'"{escaped(data)}"'
