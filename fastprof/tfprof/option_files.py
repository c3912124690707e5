r"""Which options does a file have? It is JSON with the names of tfprof's Python interface or of OptionsProto, an
OptionsProto in text format, or flags of tfprof's command line::

    {"max_depth": 5, "select": ["micros"]}    {"maxDepth": 5, "select": ["micros"]}
    max_depth: 5 select: "micros"             -max_depth 5 -select micros,bytes -account_displayed_op_only
"""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any, Final

from fastprof.derive.tfprof.options import find_kind
from fastprof.errors import UsageError
from fastprof.wording.patterns import compile_late

_BLANK: Final = r"(?:\s|\#[^\n]*)*+"
_TEXT: Final = r"""(?:"(?:[^"\\]++|\\.)*+"|'(?:[^'\\]++|\\.)*+')"""
_TEXTS: Final = rf"{_TEXT}(?:{_BLANK}{_TEXT})*+"
_FIELD: Final = compile_late(
    rf"([A-Za-z_]\w*)\s*:{_BLANK}(\[(?:{_BLANK}{_TEXTS}{_BLANK},?)*+{_BLANK}\]|{_TEXTS}|[^\s,;'\"\[\]]+)[,;]?{_BLANK}"
)
_BETWEEN, _ONE_TEXT, _ONE_VALUE = compile_late(_BLANK), compile_late(_TEXT), compile_late(_TEXTS)
_CAPITAL: Final = compile_late("[A-Z]")
_WHOLE: Final = compile_late("-?[0-9]{1,20}")
_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")


def read_option_file(path: str) -> dict[str, Any]:
    """Return the options by name, with unchecked values. UsageError: the file is in none of these formats."""
    text = _read_text(path)
    if text[:1] in ("{", "["):
        named = [(_CAPITAL.sub(r"_\g<0>", name).lower(), value) for name, value in _read_object(path, text)]
        return {name: _read_value(name, value) for name, value in named if value is not None}
    options: dict[str, Any] = {}
    as_flags = text.startswith("-")
    for name, value in _split_flags(path, text) if as_flags else _split_fields(path, text):
        if find_kind(name) in ("int", "str", "bool"):
            options[name] = _read_value(name, value)
        else:
            options.setdefault(name, []).extend(filter(None, value.split(",")) if as_flags else [value])
    return options


def read_checker_file(path: str) -> list[str]:
    """Return the names of checkers: an object with them as keys, as tfprof's Python interface takes it, or with an
    object or list of them as ``checkers``."""
    given = dict(_read_object(path, _read_text(path)))
    checkers = given.get("checkers", given)
    if not isinstance(checkers, dict | list) or not all(isinstance(name, str) for name in checkers):
        raise UsageError(f"{path} does not name checkers: {str(checkers)[:60]!r}")
    return list(checkers)


def _read_text(path: str) -> str:
    return Path(path).read_text(encoding="utf-8", errors="surrogateescape").strip()


def _read_object(path: str, text: str) -> list[tuple[str, Any]]:
    try:
        options = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(options, dict):
        raise UsageError(f"{path} is not a JSON object")
    return list(options.items())


def _read_value(name: str, value: Any) -> Any:
    """Convert a string or a whole number to the integer or boolean that the option takes; return other values
    unchanged."""
    kind = find_kind(name)
    if kind == "int" and isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    if kind == "int" and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind == "bool" and isinstance(value, str) and value.lower() in (*_TRUE, *_FALSE):
        return value.lower() in _TRUE
    return value


def _split_fields(path: str, text: str) -> list[tuple[str, str]]:
    """Return the fields of a message in text format. A list is a field for each of its values."""
    comments = _BETWEEN.match(text)
    fields, place = [], comments.end() if comments else 0
    while place < len(text):
        field = _FIELD.match(text, place)
        if field is None:
            raise UsageError(f"{path} has no options: neither JSON nor fields 'name: value' at {text[place:][:30]!r}")
        name, value = field.groups()
        if value[0] in "\"'[":
            fields += [(name, _join_texts(path, each.group())) for each in _ONE_VALUE.finditer(value)]
        else:
            fields.append((name, value))
        place = field.end()
    return fields


def _join_texts(path: str, texts: str) -> str:
    """Join strings in quotes that follow each other: they are one value."""
    value = b""
    for quoted in _ONE_TEXT.findall(texts):
        try:
            part = ast.literal_eval(f"b{quoted}" if quoted.isascii() else quoted)
        except (SyntaxError, ValueError):
            raise UsageError(f"{path}: {quoted[:60]} is not a string") from None
        value += part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass")
    return value.decode("utf-8", "replace")


def _split_flags(path: str, text: str) -> list[tuple[str, str]]:
    """Return the options of tfprof's command line. Booleans may have no value."""
    words, flags = text.split()[::-1], []
    while words:
        flag, equals, value = words.pop().partition("=")
        name = flag.lstrip("-")
        if not flag.startswith("-"):
            raise UsageError(f"{path}: {flag!r} is not an option; options begin with '-'")
        if not equals and words and not (find_kind(name) == "bool" and words[-1].startswith("-")):
            value = words.pop()
        elif not equals:
            value = "true"
        flags.append((name, value.strip("\"'")))
    return flags
