"""Flags of the command line as parameters of Python, for advice that readers of both get."""

from __future__ import annotations

from fastprof.wording.patterns import pattern_of

_FLAG = pattern_of(r"(?<![\w-])--([a-z][a-z-]*)(?: (NAME|FILE|N|A:B|all|modules|vmem))?(?![\w-])")
_SWITCHES = ("wide", "force")
_OF_CAPTURE = ("python-level", "host-level")
"""Of ``fastprof capture``, which is a command for all readers."""
_OF_SELECT = {"host": "hosts", "steps": "steps"}


def in_python(text: str) -> str:
    """``text`` with ``--run NAME`` as ``run=NAME``, and so on."""
    return _FLAG.sub(lambda found: _parameter(found[1], found[2]), text) if "--" in text else text


def _parameter(flag: str, value: str | None) -> str:
    if flag in _OF_CAPTURE:
        return f"--{flag}"
    name = flag.replace("-", "_")
    if flag in _OF_SELECT:
        chosen = "(a, b)" if value == "A:B" else value or "..."
        return f"select({_OF_SELECT[flag]}={chosen})"
    if value is None:
        return f"{name}=True" if flag in _SWITCHES else name
    return f"{name}={value}" if value.isupper() else f'{name}="{value}"'
