"""Names of new runs, and of captures in them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count
from typing import Final

_TIMESTAMP: Final = "%Y_%m_%d_%H_%M_%S"


def suggest_run_names() -> Iterator[str]:
    """Yield the local time, as XProf names runs; then the seconds that follow."""
    for second in count(int(time.time())):
        yield time.strftime(_TIMESTAMP, time.localtime(second))


def number_name(name: str) -> Iterator[str]:
    """Yield the name of a capture, then names with a number for when it is taken."""
    stem, dot, rest = name.partition(".")
    yield name
    for number in count(2):
        yield f"{stem}#{number}{dot}{rest}"


def is_run_name(name: str) -> bool:
    """Return whether the name is one directory's, here and on a server, that a log directory shows as a run."""
    return bool(name) and not name.startswith(".") and name.isprintable() and not {"/", "\\", ":"} & set(name)
