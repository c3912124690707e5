"""The op profile as a flame graph: time by program, category or scope, and by scopes of the model; how much of the time
of an op was needed is a dark line in its box."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastprof.render.svg.drawing import COLOURS, LEFT, Drawing, duration_text, fitted
from fastprof.schema.array_types import Int64s
from fastprof.wording.quantities import counted

if TYPE_CHECKING:
    from fastprof.analyses.contract import Report

Row = dict[str, Any]

WIDTH: Final = 1180
MOST_LEVELS: Final = 24
NARROWEST: Final = 1.5
MOST_BOXES: Final = 2_000
"""Per tree. Narrower boxes, and all but the largest ones, are not drawn."""
_RIGHT, _ROW, _BOX = WIDTH - LEFT, 21, 19
_NEEDED: Final = "#1f2328"
_HINT: Final = 900


def draw(report: Report) -> str:
    """An SVG document of the tree and, if the model has scopes, of their tree below it."""
    drawing = Drawing(WIDTH)
    tree = report.tables["tree"]
    drawing.text(LEFT, 36, "Op profile", "title")
    if tree.num_rows < 2:
        why = report.notices[0].text if report.notices else "There are no ops."
        return drawing.document(drawing.paragraph(60, why, 140) + 12, "Op profile: none")
    colours = _colours(tree)
    heading = f"Device time {tree['name'][0].as_py()}: {duration_text(tree['self_ps'][0].as_py())}"
    y = _flames(drawing, tree, heading, 66, colours)
    scopes = report.tables["scopes"]
    if scopes.num_rows > 1:
        heading = f"Time of ops by scope of the model: {duration_text(scopes['self_ps'][0].as_py())}"
        y = _flames(drawing, scopes, heading, y + 30, colours)
    return drawing.document(_legend(drawing, colours, y + 16), "Op profile")


def _colours(tree: pa.Table) -> dict[str, str]:
    """The colours of the categories of ops that took most time."""
    ops = tree.filter(pc.equal(pc.cast(tree["kind"], pa.string()), "op")).select(["category", "self_ps"])
    ops = pa.table({"category": pc.cast(ops["category"], pa.string()), "self_ps": ops["self_ps"]})
    summed = ops.group_by("category").aggregate([("self_ps", "sum")]).to_pylist()
    largest = sorted(summed, key=lambda one: (-(one["self_ps_sum"] or 0), one["category"] or ""))
    named = [one["category"] for one in largest if one["category"] and one["self_ps_sum"]]
    return dict(zip(named, COLOURS, strict=False))


def _flames(drawing: Drawing, table: pa.Table, heading: str, y: float, colours: dict[str, str]) -> float:
    """Draws a tree below ``y``, its root at the top. Returns where it ends."""
    drawing.text(LEFT, y, fitted(heading, _RIGHT - LEFT, 14), "head")
    y += 14
    nodes, begins, total_ps = _places(table)
    rows: list[Row] = table.take(nodes).to_pylist()
    scale = (_RIGHT - LEFT) / max(total_ps, 1)
    for row, begin in zip(rows, begins.tolist(), strict=True):
        place = (LEFT + begin * scale, y + _ROW * row["depth"], row["self_ps"] * scale)
        _box(drawing, row, place, total_ps, colours)
    return y + _ROW * (max((row["depth"] for row in rows), default=0) + 1) + 8


def _places(table: pa.Table) -> tuple[Int64s, Int64s, int]:
    """The nodes that are wide enough and not too deep, in preorder; the time at which each begins, which is that of its
    parent or the end of the sibling before it; and the time of the root."""
    size = np.asarray(pc.fill_null(table["self_ps"], 0)).astype(np.int64)
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


def _box(drawing: Drawing, row: Row, place: tuple[float, float, float], total_ps: int, colours: dict[str, str]) -> None:
    x, y, wide = place
    colour, needed = _colour(row, colours), _needed(row)
    with drawing.hint(_hint(row, total_ps)):
        drawing.rect(x, y, max(wide - 0.5, 0.4), _BOX, colour, round_by=2 if wide > 6 else 0)
        if needed is not None and wide > 4:
            drawing.rect(x + 1, y + _BOX - 3, max((wide - 2.5) * needed, 0), 2, _NEEDED)
        if wide > 34:
            kind = "name small" if colour in ("box", "track") else "name inside small"
            drawing.text(x + 4, y + 13, fitted(row["name"], wide - 9, 11), kind)


def _colour(row: Row, colours: dict[str, str]) -> str:
    """Large ops and categories have colours; groups have none."""
    kind = _kind(row)
    if kind in ("op", "category"):
        return colours.get(row.get("category") or "", "rest")
    return "track" if kind == "idle" else "box"


def _kind(row: Row) -> str:
    """Scopes without others in them are ops."""
    kind: str = row.get("kind") or ("scope" if row["children"] else "op")
    return kind


def _needed(row: Row) -> float | None:
    """The part of an op's time that it would take at the peak of the device; None: unknown, or not an op."""
    if _kind(row) != "op" or row["lost_ps"] is None or not row["self_ps"]:
        return None
    return float(min(max(1 - row["lost_ps"] / row["self_ps"], 0.0), 1.0))


def _hint(row: Row, total_ps: int) -> str:
    lines = [
        fitted(row["name"], _HINT),
        f"{duration_text(row['self_ps'])}, {100 * row['self_ps'] / max(total_ps, 1):.1f} %",
    ]
    if row["occurrences"]:
        lines.append(f"{counted(row['ops'], 'op', 'ops')}, {row['occurrences']:,} times")
    for title, column in (("flops", "compute_peak_percent"), ("HBM", "hbm_peak_percent")):
        if row[column] is not None:
            lines.append(f"{row[column]:,.1f} % of the peak of {title}")
    if row["lost_ps"] is not None:
        lines.append(f"{duration_text(row['lost_ps'])} lost")
    lines += [fitted(row[column], _HINT) for column in ("framework_op", "source", "expression") if row.get(column)]
    return "\n".join(lines)


def _legend(drawing: Drawing, colours: dict[str, str], y: float) -> float:
    drawing.rule(y)
    x: float = LEFT
    for name, colour in [*colours.items(), ("other", "rest")]:
        label = fitted(name, 130, 11)
        drawing.rect(x, y + 10, 12, 12, colour, round_by=2)
        drawing.text(x + 18, y + 20, label, "name small quiet")
        x += 18 + 7 * len(label) + 18
    drawing.rect(LEFT, y + 32, 40, 12, "rest", round_by=2)
    drawing.rect(LEFT + 1, y + 41, 26, 2, _NEEDED)
    drawing.text(LEFT + 48, y + 42, "part of an op's time that it would take at the peak of the device", "small quiet")
    return y + 58
