"""Calls of Python as a flame graph: threads, functions, and the ops in them, each as wide as its time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fastprof.render.svg.drawing import COLOURS, LEFT, Drawing, duration_text, fitted
from fastprof.render.svg.flames import WIDTH, Place, Row, flames, named_box

if TYPE_CHECKING:
    from fastprof.analyses.contract import Report

_COLOURS: Final = dict(zip(("function", "op", "framework", "input", "annotation", "kernel"), COLOURS, strict=True))
_HINT: Final = 900


def draw(report: Report) -> str:
    """An SVG document."""
    drawing = Drawing(WIDTH)
    stacks = report.tables["stacks"]
    drawing.text(LEFT, 36, "Python time", "title")
    if stacks.num_rows < 2:
        why = report.notices[0].text if report.notices else "There are no calls."
        return drawing.document(drawing.paragraph(60, why, 140) + 12, "Python time: none")

    def box(row: Row, place: Place, total_ps: int) -> None:
        with drawing.hint(_hint(row, total_ps)):
            named_box(drawing, row["name"], place, _COLOURS.get(row["kind"], "box"))

    heading = f"Time of threads: {duration_text(stacks['total_ps'][0].as_py())}"
    y = flames(drawing, stacks, "total_ps", heading, 66, box)
    return drawing.document(_legend(drawing, y + 16), "Python time")


def _hint(row: Row, total_ps: int) -> str:
    lines = [
        fitted(row["name"], _HINT),
        f"{duration_text(row['total_ps'])}, {100 * row['total_ps'] / max(total_ps, 1):.1f} %",
        f"{duration_text(row['self_ps'])} itself, {row['calls']:,} times",
    ]
    if row["device_ps"]:
        lines.append(f"{duration_text(row['device_ps'])} on devices and other threads")
    if row["source"]:
        lines.append(fitted(row["source"], _HINT))
    return "\n".join(lines)


def _legend(drawing: Drawing, y: float) -> float:
    drawing.rule(y)
    x: float = LEFT
    for kind, colour in _COLOURS.items():
        drawing.rect(x, y + 10, 12, 12, colour, round_by=2)
        drawing.text(x + 18, y + 20, kind, "name small quiet")
        x += 36 + 7 * len(kind)
    return y + 32
