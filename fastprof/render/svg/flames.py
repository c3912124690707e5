"""A tree as a flame graph: the boxes of a node's children are below it, each as wide as its part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastprof.render.svg.drawing import LEFT, Drawing, fitted
from fastprof.schema.array_types import Int64s

Row = dict[str, Any]
Place = tuple[float, float, float]
"""Where a box lies: x, y and width."""

WIDTH: Final = 1180
MOST_LEVELS: Final = 24
NARROWEST: Final = 1.5
MOST_BOXES: Final = 2_000
"""Per tree. Narrower boxes, and all but the largest ones, are not drawn."""
BOX: Final = 19
_RIGHT, _ROW = WIDTH - LEFT, 21


def flames(
    drawing: Drawing, table: pa.Table, column: str, heading: str, y: float, box: Callable[[Row, Place, int], None]
) -> float:
    """Draws a tree below ``y``, its root at the top; returns where it ends. ``column``: the time of a node with all
    below it; ``box``: draws a row of the table in its place, given the time of the root."""
    drawing.text(LEFT, y, fitted(heading, _RIGHT - LEFT, 14), "head")
    y += 14
    nodes, begins, total_ps = _places(table, column)
    rows: list[Row] = table.take(nodes).to_pylist()
    scale = (_RIGHT - LEFT) / max(total_ps, 1)
    for row, begin in zip(rows, begins.tolist(), strict=True):
        box(row, (LEFT + begin * scale, y + _ROW * row["depth"], row[column] * scale), total_ps)
    return y + _ROW * (max((row["depth"] for row in rows), default=0) + 1) + 8


def named_box(drawing: Drawing, name: str, place: Place, colour: str) -> None:
    """A box with its name, as far as that fits."""
    x, y, wide = place
    drawing.rect(x, y, max(wide - 0.5, 0.4), BOX, colour, round_by=2 if wide > 6 else 0)
    if wide > 34:
        kind = "name small" if colour in ("box", "track") else "name inside small"
        drawing.text(x + 4, y + 13, fitted(name, wide - 9, 11), kind)


def _places(table: pa.Table, column: str) -> tuple[Int64s, Int64s, int]:
    """The nodes that are wide enough and not too deep, in preorder; the time at which each begins, which is that of its
    parent or the end of the sibling before it; and the time of the root."""
    size = np.asarray(pc.fill_null(table[column], 0)).astype(np.int64)
    parent = np.asarray(pc.fill_null(table["parent"], 0)).astype(np.int64)
    depth = np.asarray(table["depth"])
    total_ps = int(size[0])
    largest = np.zeros(len(size), bool)
    largest[np.argsort(-size, kind="stable")[:MOST_BOXES]] = True  # with a node its parent, which comes before it
    wide = size * ((_RIGHT - LEFT) / max(total_ps, 1)) >= NARROWEST
    chosen = np.flatnonzero(largest & wide & (depth < MOST_LEVELS))
    begin = np.zeros(len(size), np.int64)
    taken = np.zeros(len(size), np.int64)  # by the children of each node so far, the larger ones first
    for node, above, own in zip(chosen.tolist(), parent[chosen].tolist(), size[chosen].tolist(), strict=True):
        if node:
            begin[node] = begin[above] + taken[above]
            taken[above] += own
    return chosen, begin[chosen], total_ps
