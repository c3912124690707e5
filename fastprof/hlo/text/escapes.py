"""Names and text inside HLO text: names changed to fit its grammar, text escaped as in C, JSON left as it is."""

from __future__ import annotations

import re

from fastprof.hlo.shapes import TYPE_NAMES
from fastprof.wording.patterns import pattern_of

_SHORT = {ord(char): "\\" + letter for char, letter in (("\n", "n"), ("\r", "r"), ("\t", "t"))}
_SHORT |= {ord(char): "\\" + char for char in "\"'\\"}
_ESCAPED = [_SHORT.get(byte, chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in range(256)]
_PLAIN = pattern_of(rb"[ !#-&(-\[\]-~]*")

_TOKEN = pattern_of(r'[^"{}]+|"(?:[^"\\]|\\.)*"|[{}"]')
_COMMENT = pattern_of(r"\s+|/\*.*?\*/|//[^\n\r]*", re.DOTALL)
_PLAIN_NAME = pattern_of(r"[A-Za-z][A-Za-z0-9_.-]*|_(?!_)[A-Za-z0-9_.-]*")
_NOT_ALLOWED = pattern_of(rb"[^A-Za-z0-9_.-]")
_TYPES = frozenset(name.lower() for name in TYPE_NAMES[1:]) - {"tuple", "buffer"}
_OWN = "__xla_"


def escaped(data: bytes | memoryview) -> str:
    """Bytes as C writes them in a literal, in octal where not printable."""
    raw = bytes(data)
    if _PLAIN.fullmatch(raw):
        return raw.decode("ascii")
    return "".join([_ESCAPED[byte] for byte in raw])


def one_line(text: str) -> str:
    """A text with what does not print in octal: a name can neither begin a line nor steer a terminal."""
    if text.isprintable():
        return text
    return "".join([one if one.isprintable() else escaped(one.encode("utf-8", "replace")) for one in text])


def reads_as_json(text: str) -> bool:
    """Whether a text is one pair of braces with content, perhaps followed by blanks and comments. Braces in quotes do
    not count."""
    if not text.startswith("{"):
        return False
    end = _closing_brace(text)
    return end > 0 and _only_comments(text, end)


def _closing_brace(text: str) -> int:
    """Behind the brace that closes the first one; 0: none, or a quote without end before it."""
    depth = 0
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token == "{":
            depth += 1
        elif token == "}":
            depth -= 1
            if depth == 0:
                return match.end()
        elif token == '"':
            return 0
    return 0


def _only_comments(text: str, at: int) -> bool:
    while at < len(text):
        comment = _COMMENT.match(text, at)
        if comment is None:
            return False
        at = comment.end()
    return True


def quoted_or_json(data: bytes | memoryview) -> str:
    """A value as HLO text has it: unchanged where it reads as JSON, else in quotes."""
    text = bytes(data).decode("utf-8", "replace")
    return text if reads_as_json(text) else f'"{escaped(data)}"'


def printed(name: str) -> str:
    """A name as XLA changes it when it reads a module: each byte other than letters, digits, ``_``, ``.`` and ``-``
    becomes ``_``, and so does a first character that is not a letter. Names of types get a ``_`` behind them; the first
    of two leading ``_`` becomes ``a``."""
    if _PLAIN_NAME.fullmatch(name):
        return name + "_" if name in _TYPES else name
    changed = _NOT_ALLOWED.sub(b"_", name.encode()).decode()
    if changed and not (changed[0].isalpha() or changed[0] == "_"):
        changed = "_" + changed[1:]
    if changed.startswith("__") and not changed.startswith(_OWN):
        changed = "a" + changed[1:]
    return changed
