"""Findings as a drawing: a bar for each, as long as its share of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fastprof.render.svg.drawing import COLOURS, LEFT, SvgDrawing, fit_label
from fastprof.wording.quantities import format_cost

if TYPE_CHECKING:
    from fastprof.analyses.contract import AnalysisReport

WIDTH: Final = 980
_TITLE: Final = "What costs the time"
_ROW, _BAR_HEIGHT = 44, 10
_VALUE_END = WIDTH - LEFT


def draw(report: AnalysisReport) -> str:
    """Draw the findings of a diagnosis or an overview as an SVG document. Bars are shares of the run."""
    drawing = SvgDrawing(WIDTH)
    drawing.text(LEFT, 36, _TITLE, "title")
    rows = report.tables["findings"].to_pylist()
    y = 62.0
    if not rows:
        drawing.text(LEFT, y, "No cause takes 1 % of the run or more.", "quiet")
    for row in rows:
        with drawing.hint("\n".join(filter(None, (row["title"], row["detail"], row["advice"])))):
            drawing.text(LEFT, y, fit_label(f"{row['rank']}. {row['title']}", 0.8 * WIDTH), "strong")
            if row["cost_ps"] is not None:
                cost = format_cost(row["cost_ps"], row["share"], is_bound=row["is_bound"])
                drawing.text(_VALUE_END, y, cost, end=True)
                drawing.rect(LEFT, y + 8, WIDTH - 2 * LEFT, _BAR_HEIGHT, "track", round_by=3)
                drawing.rect(
                    LEFT, y + 8, (WIDTH - 2 * LEFT) * min(row["share"], 1.0), _BAR_HEIGHT, COLOURS[0], round_by=3
                )
        y += _ROW
    return drawing.document(y + (0 if rows else 24), _TITLE)
