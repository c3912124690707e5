"""The op profile as a flame graph: time by program, category or scope, and by scopes of the model; how much of the time
of an op was needed is a dark line in its box."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from fastprof.render.svg.drawing import (
    BOX,
    COLOURS,
    LEFT,
    WIDTH,
    Place,
    Row,
    SvgDrawing,
    draw_flames,
    draw_named_box,
    fit_label,
    format_duration,
)
from fastprof.wording.quantities import count_noun

if TYPE_CHECKING:
    from fastprof.analyses.contract import AnalysisReport

_NEEDED: Final = "#1f2328"
_HINT: Final = 900


def draw(report: AnalysisReport) -> str:
    """Draw the tree and, if the model has scopes, their tree below it."""
    drawing = SvgDrawing(WIDTH)
    tree = report.tables["tree"]
    drawing.text(LEFT, 36, "Op profile", "title")
    if tree.num_rows < 2:
        why = report.notices[0].text if report.notices else "There are no ops."
        return drawing.document(drawing.paragraph(60, why, 140) + 12, "Op profile: none")
    # The op categories with the most time have colours.
    ops = tree.filter(pc.equal(pc.cast(tree["kind"], pa.string()), "op")).select(["category", "self_ps"])
    ops = pa.table({"category": pc.cast(ops["category"], pa.string()), "self_ps": ops["self_ps"]})
    summed = ops.group_by("category").aggregate([("self_ps", "sum")]).to_pylist()
    largest = sorted(summed, key=lambda group: (-(group["self_ps_sum"] or 0), group["category"] or ""))
    named = [group["category"] for group in largest if group["category"] and group["self_ps_sum"]]
    colours = dict(zip(named, COLOURS, strict=False))
    heading = f"Device time {tree['name'][0].as_py()}: {format_duration(tree['self_ps'][0].as_py())}"
    y = _draw_tree(drawing, tree, heading, 66, colours)
    scopes = report.tables["scopes"]
    if scopes.num_rows > 1:
        heading = f"Time of ops by scope of the model: {format_duration(scopes['self_ps'][0].as_py())}"
        y = _draw_tree(drawing, scopes, heading, y + 30, colours)
    return drawing.document(_draw_legend(drawing, colours, y + 16), "Op profile")


def _draw_tree(drawing: SvgDrawing, table: pa.Table, heading: str, y: float, colours: dict[str, str]) -> float:
    """Draw a tree below ``y``, its root at the top. Return where it ends."""

    def box(row: Row, place: Place, total_ps: int) -> None:
        _draw_box(drawing, row, place, total_ps, colours)

    return draw_flames(drawing, table, "self_ps", heading, y, box)


def _draw_box(drawing: SvgDrawing, row: Row, place: Place, total_ps: int, colours: dict[str, str]) -> None:
    x, y, wide = place
    colour, needed = _get_colour(row, colours), _get_needed_share(row)
    with drawing.hint(_make_hint(row, total_ps)):
        draw_named_box(drawing, row["name"], place, colour)
        if needed is not None and wide > 4:
            drawing.rect(x + 1, y + BOX - 3, max((wide - 2.5) * needed, 0), 2, _NEEDED)


def _get_colour(row: Row, colours: dict[str, str]) -> str:
    """Return the colour of a box: large ops and categories have one, groups do not."""
    kind = _get_kind(row)
    if kind in ("op", "category"):
        return colours.get(row.get("category") or "", "rest")
    return "track" if kind == "idle" else "box"


def _get_kind(row: Row) -> str:
    """Return the kind of a node; scopes without children are ops."""
    kind: str = row.get("kind") or ("scope" if row["children"] else "op")
    return kind


def _get_needed_share(row: Row) -> float | None:
    """Return the share of an op's time that it would take at the device peak, or None if unknown or not an op."""
    if _get_kind(row) != "op" or row["lost_ps"] is None or not row["self_ps"]:
        return None
    return float(min(max(1 - row["lost_ps"] / row["self_ps"], 0.0), 1.0))


def _make_hint(row: Row, total_ps: int) -> str:
    lines = [
        fit_label(row["name"], _HINT),
        f"{format_duration(row['self_ps'])}, {100 * row['self_ps'] / max(total_ps, 1):.1f} %",
    ]
    if row["occurrences"]:
        lines.append(f"{count_noun(row['ops'], 'op', 'ops')}, {row['occurrences']:,} times")
    for title, column in (("flops", "compute_peak_percent"), ("HBM", "hbm_peak_percent")):
        if row[column] is not None:
            lines.append(f"{row[column]:,.1f} % of the peak of {title}")
    if row["lost_ps"] is not None:
        lines.append(f"{format_duration(row['lost_ps'])} lost")
    lines += [fit_label(row[column], _HINT) for column in ("framework_op", "source", "expression") if row.get(column)]
    return "\n".join(lines)


def _draw_legend(drawing: SvgDrawing, colours: dict[str, str], y: float) -> float:
    drawing.rule(y)
    x: float = LEFT
    for name, colour in [*colours.items(), ("other", "rest")]:
        label = fit_label(name, 130, 11)
        drawing.rect(x, y + 10, 12, 12, colour, round_by=2)
        drawing.text(x + 18, y + 20, label, "name small quiet")
        x += 18 + 7 * len(label) + 18
    drawing.rect(LEFT, y + 32, 40, 12, "rest", round_by=2)
    drawing.rect(LEFT + 1, y + 41, 26, 2, _NEEDED)
    drawing.text(LEFT + 48, y + 42, "time of an op at the device peak", "small quiet")
    return y + 58
