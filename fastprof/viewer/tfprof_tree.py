"""The rows of a tfprof view as a tree whose rows open and close: which of them show, in which order, with which texts.

Rows are open down to a depth, and those of ``flipped`` the other way round, so a short text says what is open::

    depth 0  a              open=1: b is closed          shown: a, b, e
          1    b            open=1&flip=b: it is open    shown: a, b, c, d, e
          2      c
          2      d
          1    e

Names may be megabytes long; they are cut where they are stored, so a long one is never copied.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastprof.derive.tfprof.forest import Flags, Ints, NodeForest, get_text_buffers
from fastprof.derive.tfprof.recorded import BEYOND, FIGURES
from fastprof.derive.tfprof.views import VisibleTree, rank_names
from fastprof.errors import UsageError
from fastprof.render import as_json
from fastprof.schema.value_classes import dataclass
from fastprof.viewer.query import RequestError
from fastprof.wording.spelling import suggest_name

_SUM: Final = "total_"
_BEYOND: Final = (*FIGURES[:3], *BEYOND)
"""The rows of Shown.beyond."""
_OPENED_ROWS: Final = 40
_OPENED_DEPTH: Final = 8
_FEW_ROWS: Final = 8
_AMOUNTS: Final = (*FIGURES, BEYOND[0])
SORT_COLUMNS: Final = ("name", *_AMOUNTS, *(_SUM + name for name in _AMOUNTS))


def get_amounts(shown: VisibleTree, figure: str, *, sums: bool) -> Ints:
    """A figure of each row, or its sums; times of captures in picoseconds."""
    if shown.beyond is not None and figure in _BEYOND:
        exact: Ints = (shown.beyond.totals if sums else shown.beyond.own)[_BEYOND.index(figure), shown.row]
        return exact
    if figure not in FIGURES:
        raise UsageError(f"profiles of tfprof do not record {figure}")
    values: Ints = (shown.totals if sums else shown.figures)[FIGURES.index(figure)]
    return values


@dataclass(frozen=True, slots=True)
class RowOrder:
    """``by``: a column, with a minus before it if the largest come first; empty: the order of the view. ``holds``: only
    rows whose names hold this text, and the rows above them."""

    by: str = ""
    holds: str = ""


class RowTree:
    """The rows in an order. Each has its place among the rows of ``shown`` (``place``), and an id that does not depend
    on options (``ids``)."""

    def __init__(self, shown: VisibleTree, view: str, order: RowOrder) -> None:
        self.shown = shown
        depth = np.minimum(shown.forest.depth, 1) if view == "op" else shown.forest.depth
        self.place = np.arange(len(depth))
        self.forest = NodeForest(depth)
        self.matches: int | None = None
        if order.holds:
            self._filter(order.holds)
        if order.by:
            self._sort(order.by)
        self.is_filtered = bool(order.holds)
        self.ids = shown.row[self.place]

    def _filter(self, text: str) -> None:
        held = self._holding(text)
        held[0] = False
        self.matches = int(np.count_nonzero(held))
        kept = self.forest.below(held.astype(np.int64)) > 0
        kept[0] = True
        self.place, self.forest = np.flatnonzero(kept), self.forest.only(kept)

    def _sort(self, by: str) -> None:
        name, largest_first = by.removeprefix("-"), by.startswith("-")
        if name not in SORT_COLUMNS:
            raise UsageError(f"rows are not sorted by {name!r}{suggest_name(name, SORT_COLUMNS)}")
        shown = self.shown
        if name == "name":
            key = rank_names(shown.names)
        else:
            key = get_amounts(shown, name.removeprefix(_SUM), sums=name.startswith(_SUM))
        key = key[self.place]
        rows = self.forest.sorted(~key if largest_first else key)
        self.place, self.forest = self.place[rows], NodeForest(self.forest.depth[rows])

    def _holding(self, text: str) -> Flags:
        holds = pc.match_substring(self.shown.names, text, ignore_case=True)
        return np.asarray(holds.to_numpy(zero_copy_only=False), np.bool_).copy()

    @cached_property
    def usual_depth(self) -> int:
        """The depth down to which rows are open at first: a screenful, more where that would be a few rows only, or all
        that a filter leaves."""
        if self.is_filtered:
            return len(self.place)
        reached = np.cumsum(np.bincount(self.forest.depth, minlength=_OPENED_DEPTH + 1))[1 : _OPENED_DEPTH + 1]
        depth = max(1, int(np.searchsorted(reached, _OPENED_ROWS, "right")))
        return depth if reached[depth - 1] >= _FEW_ROWS else depth + 1

    def is_open(self, depth: int, flipped: Ints | None) -> Flags:
        """Which rows are open, if they have rows below them. The root always is."""
        is_open: Flags = self.forest.depth < depth
        if flipped is not None and len(flipped):
            is_open ^= np.isin(self.ids, flipped)
        is_open[0] = True
        return is_open

    def lines(self, is_open: Flags) -> Ints:
        """The rows of the tree that show: all above them are open."""
        return np.flatnonzero(~self.forest.under(~is_open)).astype(np.int32)

    def is_leaf(self, rows: Ints) -> Flags:
        leaf: Flags = self.forest.end[rows] == rows + 1
        return leaf

    def row_of(self, id_: int) -> int:
        """RequestError 404: no row has this id."""
        rows = np.flatnonzero(self.ids == id_)
        if not len(rows):
            raise RequestError(404, f"the view has no row {id_} under these options")
        return int(rows[0])

    def above(self, row: int) -> Ints:
        """The rows above one, the root first."""
        return np.flatnonzero(self.forest.end[:row] > row)

    def holding(self, text: str) -> Ints:
        """The rows whose names hold a text, but the root."""
        rows = np.flatnonzero(self._holding(text)[self.place])
        return rows[rows > 0]


_LETTERS: Final = 300
_LISTED: Final = 20
_LETTER_BYTES: Final = 4
_SLASH: Final = ord("/")


def cut_text(texts: pa.Array, place: int, begin: int = 0) -> str:
    """The text at a place from its byte ``begin`` on, at most 300 letters of it."""
    offsets, data = get_text_buffers(texts.slice(place, 1))
    text = data[begin : min(int(offsets[1]), begin + _LETTERS * _LETTER_BYTES)].tobytes().decode(errors="ignore")
    rest = offsets[1] - begin > _LETTERS * _LETTER_BYTES or len(text) > _LETTERS
    return f"{text[: _LETTERS - 1]}…" if rest else text


def make_label(view: str, tree: RowTree, row: int) -> str:
    """The name of a row of the tree; of the view scope without the name of the row above, which it continues."""
    names, place = tree.shown.names, int(tree.place[row])
    if view == "scope" and tree.forest.depth[row] > 1:
        above = int(tree.place[tree.forest.parent[row]])
        (_, end), before = get_text_buffers(names.slice(above, 1))
        (_, own_end), own = get_text_buffers(names.slice(place, 1))
        if own_end > end and own[end] == _SLASH and bytes(own[:end]) == bytes(before):
            return cut_text(names, place, int(end) + 1)
    return cut_text(names, place)


def describe_columns(table: pa.Table) -> list[dict[str, Any]]:
    """The columns of a small table, as the page takes them; lists are texts."""
    columns = []
    for name, field in zip(table.column_names, table.schema, strict=True):
        values = table[name].to_pylist()
        described = as_json.describe_column(name, field)
        if pa.types.is_list(field.type):
            described["type"], values = "string", [_join_values(value) for value in values]
        elif pa.types.is_string(field.type):
            values = [value and _shorten_text(value) for value in values]
        columns.append({**described, "values": values})
    return columns


def _join_values(values: list[Any] | None) -> str | None:
    if values is None:
        return None
    more = [f"{len(values) - _LISTED:,} more"] if len(values) > _LISTED else []
    if values and isinstance(values[0], int):
        return _shorten_text("×".join(map(str, values[:_LISTED])))
    return _shorten_text(", ".join([*map(_format_value, values[:_LISTED]), *more]))


def _format_value(value: Any) -> str:
    """A text; or an input by number, with its shape."""
    if isinstance(value, str):
        return _shorten_text(value)
    return f"{value['slot']}: {'×'.join(map(str, value['shape'][:_LISTED])) or 'unknown'}"


def _shorten_text(text: str) -> str:
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"
