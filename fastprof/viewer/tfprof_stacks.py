"""The stacks of the view code, as a flame graph draws them, and the lines that take most: what pprof would show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from fastprof.derive.tfprof.forest import Ints
from fastprof.derive.tfprof.recorded import FIGURES
from fastprof.errors import UsageError
from fastprof.viewer.tfprof_texts import cut
from fastprof.viewer.tfprof_tree import amounts

if TYPE_CHECKING:
    from fastprof.profile.tfprof_views import TfprofView

_BOXES: Final = 4_000
_DEEPEST: Final = 100
_LINES: Final = 100
"""As many as the picture of profiler-ui has."""


def document(view: TfprofView, select: Sequence[str]) -> dict[str, Any]:
    """Of one figure, the first one selected. ``boxes``: the rows that have most of it; ``left_out``: the number of
    others. ``lines``: sums of rows of one name, wherever they are called."""
    figure = next((name for name in select if name in FIGURES), None)
    if figure is None:
        raise UsageError("stacks show one figure: select micros, bytes, params or another that is a number")
    if figure in view.recorded.unknown:
        raise UsageError(f"{figure}: {view.recorded.unknown[figure]}")
    shown = view.shown
    own, total = (amounts(shown, figure, sums=sums) for sums in (False, True))
    kept = np.zeros(len(total), np.bool_)
    kept[np.argsort(-total, kind="stable")[:_BOXES]] = True
    kept &= (total > 0) & (shown.forest.depth <= _DEEPEST)
    kept[0] = True
    forest, rows = shown.forest.only(kept), np.flatnonzero(kept)
    return {
        "figure": figure,
        "unit": _unit(view, figure),
        "total": str(total[0]),
        "left_out": int(np.count_nonzero(total > 0) - np.count_nonzero(total[rows] > 0)),
        "boxes": _columns(
            ("parent", forest.parent), ("depth", forest.depth), ("name", _names(shown.names, rows)),
            ("value", total[rows]), ("own", own[rows]),
        ),
        "lines": _lines(shown.names, shown.forest.end, own, total),
    }  # fmt: skip


def _unit(view: TfprofView, figure: str) -> str | None:
    if figure.endswith("micros"):
        return "ps" if view.recorded.is_capture else "us"
    return "bytes" if figure.endswith("bytes") else None


def _lines(names: pa.Array, end: Ints, own: Ints, total: Ints) -> dict[str, Any]:
    """A line that is called by itself counts once in the sum of what it calls."""
    encoded = names.slice(1).dictionary_encode()
    name = np.asarray(encoded.indices).astype(np.int64)
    order = np.argsort(name, kind="stable")
    rows, size = order + 1, len(names) + 1
    reached = np.maximum.accumulate(end[rows] + name[order] * size) - name[order] * size  # the end of an outer one
    outer = np.r_[True, (name[order][1:] != name[order][:-1]) | (rows[1:] >= reached[:-1])] if len(rows) else rows > 0
    own_sums, sums = (np.zeros(len(encoded.dictionary), np.int64) for _ in range(2))
    np.add.at(own_sums, name, own[1:])
    np.add.at(sums, name[order][outer], total[rows][outer])
    most = np.lexsort((-sums, -own_sums))[:_LINES]
    most = most[(own_sums[most] > 0) | (sums[most] > 0)]
    listed = _names(encoded.dictionary, most)
    return _columns(("name", listed), ("own", own_sums[most]), ("total", sums[most]))


def _names(names: pa.Array, rows: Ints) -> list[str]:
    return [cut(names, row) for row in rows.tolist()]


def _columns(*columns: tuple[str, Any]) -> dict[str, Any]:
    return {name: values if isinstance(values, list) else values.tolist() for name, values in columns}
