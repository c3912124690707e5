"""Texts in CSV that spreadsheets read as texts.

A spreadsheet computes a cell that begins with ``=``, ``+``, ``-`` or ``@``, even if the cell is quoted, and some skip
blanks of any kind, tabs and line ends before these. A trace may contain any names, so opening its CSV could run a
formula. A text with such a beginning gets an apostrophe before it, and so does one that begins with an apostrophe:
removing one apostrophe from each text that begins with one gives back the texts. Numbers are written as they are.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from fastprof.wording.patterns import pattern_of

_MARK = "'"
_SIGNS = "=+\\-@\uff1d\uff0b\uff0d\uff20"  # the last four: the full-width forms of the others
_BLANKS = "\t-\r \x85\xa0\xad\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff"
"""Spaces of all widths, line ends, and what takes no width."""
_BEGINNINGS = f"^(?:['\t\r\n]|[{_BLANKS}]*[{_SIGNS}])"
_TAKEN_FOR_FORMULAS = pattern_of(_BEGINNINGS)


def marked(text: str) -> str:
    """``text``, with an apostrophe before it if it could be taken for a formula, or begins with an apostrophe."""
    return _MARK + text if _TAKEN_FOR_FORMULAS.match(text) else text


def marked_texts(texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """``marked`` for each text of an array."""
    return pc.replace_substring_regex(texts, f"({_BEGINNINGS})", rf"{_MARK}\1")
