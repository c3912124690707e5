"""The op profile as a flame graph: time by program, category or scope, and by scopes of the model; how much of the time
of an op was needed is a dark line in its box."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastprof.render.svg.drawing import COLOURS, Drawing, fitted
from fastprof.schema.array_types import Int64s
from fastprof.wording.quantities import time_text
from fastprof.wording.screen import wrapped

if TYPE_CHECKING:
    from fastprof.analyses.contract import Report


WIDTH: Final = 1180
MOST_LEVELS: Final = 24
NARROWEST: Final = 1.5
MOST_BOXES: Final = 2_000
"""Of a tree; those that are narrower, or smaller than these, are not drawn."""
_LEFT, _RIGHT, _ROW, _BOX = 24, WIDTH - 24, 21, 19
_NEEDED: Final = "#1f2328"
_HINT: Final = 900


@dataclass(frozen=True, slots=True, eq=False)
class _Flames:
    """The nodes to draw: in preorder, with where they begin, of the root's time."""

    nodes: Int64s
    begin_ps: Int64s
    whole_ps: int


def draw(report: Report) -> str:
    """The tree, and below it that of scopes where the model has some; an SVG document."""
    drawing = Drawing(WIDTH)
    tree = report.tables["tree"]
    drawing.text(_LEFT, 36, "Op profile", "title")
    if tree.num_rows < 2:
        y = 60.0
        for line in wrapped(report.notices[0].text if report.notices else "There are no ops.", 140):
            drawing.text(_LEFT, y, line, "quiet")
            y += 18
        return drawing.document(y + 12, "Op profile: none")
    colours = _colours(tree)
    heading = f"Device time {tree['name'][0].as_py()}: {_time(tree['self_ps'][0].as_py())}"
    y = _flames(drawing, tree, heading, 66, colours)
    scopes = report.tables["scopes"]
    if scopes.num_rows > 1:
        heading = f"Time of ops by scope of the model: {_time(scopes['self_ps'][0].as_py())}"
        y = _flames(drawing, scopes, heading, y + 30, colours)
    return drawing.document(_legend(drawing, colours, y + 16), "Op profile")


def _colours(tree: pa.Table) -> dict[str, str]:
    """Of the categories of ops that took most time."""
    ops = tree.filter(pc.equal(pc.cast(tree["kind"], pa.string()), "op")).select(["category", "self_ps"])
    ops = pa.table({"category": pc.cast(ops["category"], pa.string()), "self_ps": ops["self_ps"]})
    summed = ops.group_by("category").aggregate([("self_ps", "sum")]).to_pylist()
    largest = sorted(summed, key=lambda one: (-(one["self_ps_sum"] or 0), one["category"] or ""))
    named = [one["category"] for one in largest if one["category"] and one["self_ps_sum"]]
    return dict(zip(named, COLOURS, strict=False))


def _flames(drawing: Drawing, table: pa.Table, heading: str, y: float, colours: dict[str, str]) -> float:
    """Draws a tree below ``y``, its root at the top; where it ends."""
    drawing.text(_LEFT, y, fitted(heading, _RIGHT - _LEFT, 14), "head")
    y += 14
    flames = _places(table)
    rows: list[dict[str, Any]] = table.take(flames.nodes).to_pylist()
    scale = (_RIGHT - _LEFT) / max(flames.whole_ps, 1)
    deepest = 0
    for row, begin in zip(rows, flames.begin_ps.tolist(), strict=True):
        wide = row["self_ps"] * scale
        deepest = max(deepest, row["depth"])
        _box(drawing, row, (_LEFT + begin * scale, y + _ROW * row["depth"], wide), flames.whole_ps, colours)
    return y + _ROW * (deepest + 1) + 8


def _places(table: pa.Table) -> _Flames:
    """The nodes that are wide enough and not too deep; each begins where its parent does, after those before it."""
    size = np.asarray(pc.fill_null(table["self_ps"], 0)).astype(np.int64)
    parent = np.asarray(pc.fill_null(table["parent"], 0)).astype(np.int64)
    depth = np.asarray(table["depth"])
    whole = int(size[0])
    largest = np.zeros(len(size), bool)
    largest[np.argsort(-size, kind="stable")[:MOST_BOXES]] = True  # with a node its parent, which comes before it
    wide = size * ((_RIGHT - _LEFT) / max(whole, 1)) >= NARROWEST
    chosen = np.flatnonzero(largest & wide & (depth < MOST_LEVELS))
    begin = np.zeros(len(size), np.int64)
    taken = np.zeros(len(size), np.int64)  # of each node, by its children so far, the larger ones first
    for node, above, own in zip(chosen.tolist(), parent[chosen].tolist(), size[chosen].tolist(), strict=True):
        if node:
            begin[node] = begin[above] + taken[above]
            taken[above] += own
    return _Flames(chosen, begin[chosen], whole)


def _box(
    drawing: Drawing, row: dict[str, Any], place: tuple[float, float, float], whole_ps: int, colours: dict[str, str]
) -> None:
    x, y, wide = place
    drawing.begin(_hint(row, whole_ps))
    colour = _colour(row, colours)
    drawing.rect(x, y, max(wide - 0.5, 0.4), _BOX, colour, round_by=2 if wide > 6 else 0)
    needed = _needed(row)
    if needed is not None and wide > 4:
        drawing.rect(x + 1, y + _BOX - 3, max((wide - 2.5) * needed, 0), 2, _NEEDED)
    if wide > 34:
        kind = "name small" if colour in ("box", "track") else "name inside small"
        drawing.text(x + 4, y + 13, fitted(row["name"], wide - 9, 11), kind)
    drawing.done()


def _colour(row: dict[str, Any], colours: dict[str, str]) -> str:
    """Ops and categories have colours, where they are large; groups have none."""
    kind = _kind(row)
    if kind in ("op", "category"):
        return colours.get(row.get("category") or "", "rest")
    return "track" if kind == "idle" else "box"


def _kind(row: dict[str, Any]) -> str:
    """Of scopes those without others in them are ops."""
    kind: str = row.get("kind") or ("scope" if row["children"] else "op")
    return kind


def _needed(row: dict[str, Any]) -> float | None:
    """Which part of an op's time it would take at the peak of the device; None: that is unknown, or it is no op."""
    if _kind(row) != "op" or row["lost_ps"] is None or not row["self_ps"]:
        return None
    return float(min(max(1 - row["lost_ps"] / row["self_ps"], 0.0), 1.0))


def _hint(row: dict[str, Any], whole_ps: int) -> str:
    lines = [fitted(row["name"], _HINT), f"{_time(row['self_ps'])}, {100 * row['self_ps'] / max(whole_ps, 1):.1f} %"]
    if row["occurrences"]:
        lines.append(f"{row['ops']:,} op{'s' * (row['ops'] != 1)}, {row['occurrences']:,} times")
    for title, column in (("flops", "compute_peak_percent"), ("HBM", "hbm_peak_percent")):
        if row[column] is not None:
            lines.append(f"{row[column]:,.1f} % of the peak of {title}")
    if row["lost_ps"] is not None:
        lines.append(f"{_time(row['lost_ps'])} lost")
    lines += [fitted(row[column], _HINT) for column in ("framework_op", "source", "expression") if row.get(column)]
    return "\n".join(lines)


def _legend(drawing: Drawing, colours: dict[str, str], y: float) -> float:
    drawing.line([(_LEFT, y), (_RIGHT, y)], "rule")
    x: float = _LEFT
    for name, colour in [*colours.items(), ("other", "rest")]:
        label = fitted(name, 130, 11)
        drawing.rect(x, y + 10, 12, 12, colour, round_by=2)
        drawing.text(x + 18, y + 20, label, "name small quiet")
        x += 18 + 7 * len(label) + 18
    drawing.rect(_LEFT, y + 32, 40, 12, "rest", round_by=2)
    drawing.rect(_LEFT + 1, y + 41, 26, 2, _NEEDED)
    drawing.text(_LEFT + 48, y + 42, "part of an op's time that it would take at the peak of the device", "small quiet")
    return y + 58


def _time(ps: int) -> str:
    return time_text(ps) if ps else "0"
