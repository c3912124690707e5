"""Regular expressions as tfprof takes them: RE2's, and the entire text must match."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastprof.derive.tfprof.forest import Flags
from fastprof.errors import UsageError

EVERYTHING = (".*",)


def full_matches(texts: pa.Array, regexes: Sequence[str]) -> Flags:
    """Which texts any of ``regexes`` matches entirely. ``.*`` does not match the end of a line. UsageError: one is not
    a regular expression."""
    found = np.zeros(len(texts), np.bool_)
    for regex in regexes:
        found |= matches(texts, regex)
    return found


def matches(texts: pa.Array, regex: str) -> Flags:
    """Which texts one regular expression matches entirely."""
    _check(regex)
    found = pc.match_substring_regex(texts, rf"\A(?:{regex}{_end_of_quote(regex)})\z")
    return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)


def _check(regex: str) -> None:
    """An expression such as ``a)(b`` would be valid inside the parentheses that it gets."""
    try:
        pc.match_substring_regex(pa.array([""]), regex)
    except pa.ArrowInvalid as error:
        raise UsageError(f"{regex!r} is not a regular expression: {str(error).partition(': ')[2]}") from None


def _end_of_quote(regex: str) -> str:
    r"""``\E`` if a quote ``\Q…`` reaches the end."""
    place, quoted = 0, False
    while 0 <= place < len(regex):
        if quoted:
            place = regex.find(r"\E", place)
            quoted = place < 0
            place += 2 if place >= 0 else 0
        elif regex[place] == "\\":
            quoted = regex.startswith(r"\Q", place)
            place += 2
        else:
            place += 1
    return r"\E" if quoted else ""
