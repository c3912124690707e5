"""Names as HLO text has them: what its grammar has no room for is changed, as XLA does when it reads a module."""

from __future__ import annotations

import re

from fastprof.hlo.shapes import TYPE_NAMES

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*|_(?!_)[A-Za-z0-9_.-]*")
_NOT_ALLOWED = re.compile(rb"[^A-Za-z0-9_.-]")
_TYPES = frozenset(name.lower() for name in TYPE_NAMES[1:]) - {"tuple", "buffer"}
_OWN = "__xla_"


def printed(name: str) -> str:
    """What is none of letters, digits, ``_``, ``.`` and ``-`` is ``_``, for each of its bytes; so is a first character
    that is no letter. Names of types have a ``_`` behind them; of two ``_`` in front the first is ``a``."""
    if _PLAIN.fullmatch(name):
        return name + "_" if name in _TYPES else name
    changed = _NOT_ALLOWED.sub(b"_", name.encode()).decode()
    if changed and not (changed[0].isalpha() or changed[0] == "_"):
        changed = "_" + changed[1:]
    if changed.startswith("__") and not changed.startswith(_OWN):
        changed = "a" + changed[1:]
    return changed
