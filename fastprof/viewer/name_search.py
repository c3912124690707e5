"""Which names match a search: over distinct names only, in time that grows with their length alone."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from fastprof.schema.array_types import Bools
from fastprof.viewer.query import RequestError

SUBSTRING, REGEX = "substring", "regex"
MODES = (SUBSTRING, REGEX)
_MOST_LETTERS = 1000
_MOST_STATES = 4000
_MOST_OF_A_NAME = 1 << 18
_BLOCK_BYTES = 1 << 18
_MOST_S = 2.0


def matching_names(names: Sequence[pa.Array], sought: str, mode: str, case: bool) -> Bools:
    """Which of the names contain ``sought``; expressions search only the first quarter of a million letters of a name.

    Expressions are RE2's, whose time is linear in the text, times the size of the expression at worst: that is bounded,
    and after some seconds the search is given up. RequestError: it is no expression, or takes too long.
    """
    import pyarrow.compute as pc  # late: the first picture does not wait for it

    if len(sought) > _MOST_LETTERS:
        raise RequestError(400, f"what is searched for has at most {_MOST_LETTERS:,} characters")
    if mode == REGEX and _size(sought) > _MOST_STATES:
        raise RequestError(
            400, f"{_shown(sought)} is not a regular expression that can be searched for: it is too large"
        )
    find = pc.match_substring if mode == SUBSTRING else pc.match_substring_regex
    until = time.monotonic() + _MOST_S
    found = [np.zeros(0, np.bool_)]
    try:
        find(pa.array([""]), sought, ignore_case=not case)
        for block in (block for array in names for block in _blocks(array)):
            if mode == REGEX:
                block = pc.utf8_slice_codeunits(block, 0, _MOST_OF_A_NAME) if len(block) == 1 else block
                if time.monotonic() > until:
                    raise RequestError(400, f"{_shown(sought)} takes too long to search for: make it simpler")
            found.append(np.asarray(find(block, sought, ignore_case=not case).fill_null(False)))
    except pa.ArrowInvalid as error:
        reason = str(error).partition("\n")[0].removeprefix("Invalid regular expression: ")
        raise RequestError(400, f"{_shown(sought)} is not a regular expression: {reason}") from None
    except (UnicodeEncodeError, pa.ArrowException) as error:
        raise RequestError(400, f"{_shown(sought)} cannot be searched for: {error}") from None
    return np.concatenate(found)


def _size(pattern: str) -> int:
    """A lower bound of the size of an expression with its repetitions written out."""
    size = len(pattern)
    for least, most in re.findall(r"\{(\d{1,9})(?:,(\d{0,9}))?\}", pattern):
        size *= max(int(least), int(most or 0), 1)
    return size


def _blocks(names: pa.Array) -> Iterator[pa.Array]:
    """The names in parts of about _BLOCK_BYTES; a longer name is a part of its own."""
    import pyarrow.compute as pc

    ends = np.cumsum(np.asarray(pc.binary_length(names).fill_null(0)), dtype=np.int64)
    first = 0
    while first < len(names):
        before = int(ends[first - 1]) if first else 0
        last = max(int(np.searchsorted(ends, before + _BLOCK_BYTES, side="right")), first + 1)
        yield names[first:last]
        first = last


def _shown(sought: str) -> str:
    return repr(sought if len(sought) <= 100 else sought[:99] + "…")
