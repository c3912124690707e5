"""Calls of Python as a flame graph: threads, functions, and the ops in them, each as wide as its time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fastprof.render.svg.drawing import (
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

if TYPE_CHECKING:
    from fastprof.analyses.contract import AnalysisReport

_COLOURS: Final = dict(zip(("function", "op", "framework", "input", "annotation", "kernel"), COLOURS, strict=True))
_HINT: Final = 900


def draw(report: AnalysisReport) -> str:
    """Draw a report as an SVG document."""
    drawing = SvgDrawing(WIDTH)
    stacks = report.tables["stacks"]
    drawing.text(LEFT, 36, "Python time", "title")
    if stacks.num_rows < 2:
        why = report.notices[0].text if report.notices else "There are no calls."
        return drawing.document(drawing.paragraph(60, why, 140) + 12, "Python time: none")

    def box(row: Row, place: Place, total_ps: int) -> None:
        with drawing.hint(_make_hint(row, total_ps)):
            draw_named_box(drawing, row["name"], place, _COLOURS.get(row["kind"], "box"))

    heading = f"Time of threads: {format_duration(stacks['total_ps'][0].as_py())}"
    y = draw_flames(drawing, stacks, "total_ps", heading, 66, box)
    return drawing.document(_draw_legend(drawing, y + 16), "Python time")


def _make_hint(row: Row, total_ps: int) -> str:
    lines = [
        fit_label(row["name"], _HINT),
        f"{format_duration(row['total_ps'])}, {100 * row['total_ps'] / max(total_ps, 1):.1f} %",
        f"{format_duration(row['self_ps'])} itself, {row['calls']:,} times",
    ]
    if row["device_ps"]:
        lines.append(f"{format_duration(row['device_ps'])} on devices and other threads")
    if row["source"]:
        lines.append(fit_label(row["source"], _HINT))
    return "\n".join(lines)


def _draw_legend(drawing: SvgDrawing, y: float) -> float:
    drawing.rule(y)
    x: float = LEFT
    for kind, colour in _COLOURS.items():
        drawing.rect(x, y + 10, 12, 12, colour, round_by=2)
        drawing.text(x + 18, y + 20, kind, "name small quiet")
        x += 36 + 7 * len(kind)
    return y + 32
