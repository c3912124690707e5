"""Names that people type: suggestions for misspelt ones, and command-line flags as Python parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from fastprof.wording.patterns import compile_late


def suggest_name(
    requested: str, known: Iterable[str], full: Mapping[str, str] = MappingProxyType({}), most: int = 1
) -> str:
    """Return ``; did you mean 'op-stats'?`` with the most similar known names, at most ``most``, ignoring case and
    ``-`` against ``_``; "" if none is similar. ``full``: what to suggest for a name instead of the name itself."""
    from difflib import get_close_matches

    names = {_normalise_name(name): name for name in known}
    close = [names[name] for name in get_close_matches(_normalise_name(requested)[:100], names, most)]
    *others, last = [repr(full.get(name, name)) for name in close] or [""]
    return f"; did you mean {', '.join(others)}{' or ' * bool(others)}{last}?" if last else ""


def _normalise_name(name: str) -> str:
    return name.casefold().replace("_", "-")


_FLAG = compile_late(r"(?<![\w-])--([a-z][a-z-]*)(?: (NAME|FILE|N|A:B|all|modules|vmem))?(?![\w-])")
_SWITCHES = ("wide", "force", "verbose")
_OF_CAPTURE = ("python-level", "host-level")
"""Flags of ``fastprof capture``, which is a command for all readers."""
_OF_SELECT = {"host": "hosts", "steps": "steps"}


def translate_flags(text: str) -> str:
    """Write flags in a text as parameters: ``--run NAME`` as ``run=NAME``."""
    return _FLAG.sub(lambda match: _format_parameter(match[1], match[2]), text) if "--" in text else text


def _format_parameter(flag: str, value: str | None) -> str:
    if flag in _OF_CAPTURE:
        return f"--{flag}"
    name = flag.replace("-", "_")
    if flag in _OF_SELECT:
        chosen = "(a, b)" if value == "A:B" else value or "..."
        return f"select({_OF_SELECT[flag]}={chosen})"
    if value is None:
        return f"{name}=True" if flag in _SWITCHES else name
    return f"{name}={value}" if value.isupper() else f'{name}="{value}"'
