"""Columns as JSON and CSV text. Works on arrays, not on single values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from fastprof.wording.json_values import encode_base64, format_json, json_quote
from fastprof.wording.patterns import compile_late

_MARK = "'"
_SIGNS = "=+\\-@\uff1d\uff0b\uff0d\uff20"  # the last four: the full-width forms of the others
_BLANKS = "\t-\r \x85\xa0\xad\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff"
"""Spaces of all widths, line ends, and characters without width."""
_BEGINNINGS = f"^(?:['\t\r\n]|[{_BLANKS}]*[{_SIGNS}])"
_TAKEN_FOR_FORMULAS = compile_late(_BEGINNINGS)


def escape_formula(text: str) -> str:
    """Put an apostrophe before a text that could be taken for a formula, or begins with an apostrophe."""
    return _MARK + text if _TAKEN_FOR_FORMULAS.match(text) else text


def escape_formulas(texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Apply ``escape_formula`` to each string of an array."""
    return pc.replace_substring_regex(texts, f"({_BEGINNINGS})", rf"{_MARK}\1")


TEXT = pa.large_string()


class ColumnCells:
    """Values of a column as text, batch after batch.

    ``quote`` writes a string in the notation of the format; ``null`` is its notation of a null. The last dictionary and
    its strings are cached, so that batches that share a dictionary quote it once.
    """

    def __init__(self, *, quote: Callable[[str], str], null: str) -> None:
        self._quote = quote
        self._null = pa.scalar(null, TEXT)
        self._dictionary: pa.Array | None = None
        self._quoted: pa.Array | None = None

    def texts(self, array: pa.Array) -> pa.Array:
        """Return the values of an array as large_string without nulls."""
        return pc.fill_null(self._nullable_texts(array), self._null)

    def _nullable_texts(self, array: pa.Array) -> pa.Array:
        kind = array.type
        if pa.types.is_dictionary(kind):
            return self._quoted_dictionary(array.dictionary).take(array.indices)
        if is_text(kind):
            encoded = array.dictionary_encode()
            return self._quote_each(encoded.dictionary.to_pylist()).take(encoded.indices)
        if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
            return pc.cast(array, TEXT)
        if pa.types.is_floating(kind):
            return self._floats(array)
        if pa.types.is_null(kind):
            return pa.nulls(len(array), TEXT)
        if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            return self._quote_each(pc.cast(array, pa.string()).to_pylist())
        if _is_bytes(kind):
            return self._quote_each(None if value is None else encode_base64(value) for value in array.to_pylist())
        return self._nested(array)

    def _quoted_dictionary(self, dictionary: pa.Array) -> pa.Array:
        if self._quoted is None or not _is_same_memory(self._dictionary, dictionary):
            self._dictionary, self._quoted = dictionary, self._nullable_texts(dictionary)
        return self._quoted

    def _floats(self, array: pa.Array) -> pa.Array:
        """Write the shortest digits that read back as the same float. NaN and infinities are strings in JSON."""
        texts = pc.cast(array, TEXT)
        for spelt, odd in (
            ("NaN", pc.is_nan(array)),
            ("Infinity", pc.equal(array, pa.scalar(float("inf"), array.type))),
            ("-Infinity", pc.equal(array, pa.scalar(float("-inf"), array.type))),
        ):
            texts = pc.if_else(odd, pa.scalar(json_quote(spelt) if self._quote is json_quote else spelt, TEXT), texts)
        return texts

    def _nested(self, array: pa.Array) -> pa.Array:
        """Write lists, maps and structs as JSON text: unquoted in JSON, quoted in CSV."""
        raw = self._quote is json_quote
        is_map = pa.types.is_map(array.type)
        texts = (None if value is None else format_json(value, pairs=is_map) for value in array.to_pylist())
        return pa.array(texts, TEXT) if raw else self._quote_each(texts)

    def _quote_each(self, texts: Iterable[str | None]) -> pa.Array:
        return pa.array((None if text is None else self._quote(text) for text in texts), TEXT)


def join_cells(batch: pa.RecordBatch, cells: Sequence[ColumnCells], leads: Sequence[str], end: str) -> bytes:
    """Return the text of all rows: each cell after its lead, then ``end``; also without columns."""
    if not cells or not batch.num_rows:
        return b"".join([(leads[0] + end).encode()] * batch.num_rows)
    pieces: list[pa.Array | pa.Scalar] = []
    for lead, column, values in zip(leads, cells, batch.columns, strict=True):
        pieces += [pa.scalar(lead, TEXT), column.texts(values)] if lead else [column.texts(values)]
    rows = pc.binary_join_element_wise(*pieces, pa.scalar(end, TEXT), pa.scalar("", TEXT))
    one_list = pa.LargeListArray.from_arrays(pa.array([0, len(rows)], pa.int64()), rows)
    text: bytes = pc.binary_join(one_list, pa.scalar("", TEXT))[0].as_buffer().to_pybytes()
    return text


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _is_same_memory(first: pa.Array | None, other: pa.Array) -> bool:
    """Return whether two arrays are the same memory. The caller holds ``first``, so its addresses cannot be reused."""
    if first is None or len(first) != len(other) or first.offset != other.offset or first.type != other.type:
        return False
    return _get_addresses(first) == _get_addresses(other)


def _get_addresses(array: pa.Array) -> list[int]:
    return [0 if buffer is None else buffer.address for buffer in array.buffers()]
