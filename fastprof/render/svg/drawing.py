"""SVG by hand: shapes and escaped texts, in colours for light and dark screens, and trees as flame graphs.

Lengths are in units of the view box: pixels, if the drawing is shown in its own size. Widths of texts are not measured.
Names are in a fixed-width font, whose cells are at most ``CELL`` of its size wide, and are cut to that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastprof.schema.columns import Int64s, mark_largest
from fastprof.wording.quantities import format_time
from fastprof.wording.screen import escape_lines, escape_text, fit_text, wrap_text

CELL: Final = 0.62
"""Width of a cell of a fixed-width font, as a part of its size, which is 0.55 to 0.61 for common fonts."""

SIZE: Final = 12
"""Default font size."""
LEFT: Final = 24
"""Left end of texts and rules."""

COLOURS: Final = ("#c8441b", "#2f6db5", "#a96e00", "#138a68", "#a8558c", "#3b82ab")
"""Colours that are distinct for colour-blind readers and on light and dark backgrounds."""
_STYLE: Final = """\
text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: #1f2328 }
.name { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace }
.strong { font-weight: 600 }
.title { font-size: 17px; font-weight: 600 }
.head { font-size: 14px; font-weight: 600 }
.small { font-size: 11px }
.quiet { fill: #59636e }
.inside { fill: #ffffff }
.ground { fill: #ffffff }
.box { fill: #f6f8fa; stroke: #c5ced8 }
.track { fill: #eaeef2 }
.rest { fill: #737c86 }
.line { fill: none; stroke: #8b949e; stroke-width: 1.5 }
.buffered { stroke-dasharray: 3 3 }
.tip { fill: #8b949e }
.marked { fill: none; stroke: #c8441b; stroke-width: 2 }
.rule { stroke: #d1d9e0 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.quiet { fill: #9198a1 }
.inside { fill: #ffffff }
.ground { fill: #0d1117 }
.box { fill: #161b22; stroke: #3d444d }
.track { fill: #21262d }
.marked { stroke: #f0703f }
.rule { stroke: #30363d }
}
"""


class SvgDrawing:
    """Growing SVG document. ``width``: width of the view box; its height follows from what is drawn."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._parts: list[str] = []

    def rect(self, x: float, y: float, width: float, height: float, kind: str, *, round_by: float = 0) -> None:
        """Draw a rectangle. ``kind``: a class of the style, or a colour."""
        corner = f' rx="{_format_number(round_by)}"' if round_by else ""
        place = (
            f'x="{_format_number(x)}" y="{_format_number(y)}" width="{_format_number(max(width, 0))}" '
            f'height="{_format_number(height)}"'
        )
        self._parts.append(f"<rect {place}{corner} {_get_paint(kind)}/>")

    def line(self, points: list[tuple[float, float]], kind: str) -> None:
        path = "M" + "L".join(f"{_format_number(x)} {_format_number(y)}" for x, y in points)
        self._parts.append(f'<path d="{path}" class="{kind}"/>')

    def tip(self, x: float, y: float) -> None:
        """Draw the head of an arrow that points up to (x, y)."""
        self._parts.append(f'<path d="M{_format_number(x - 4)} {_format_number(y + 6)}h8l-4 -6z" class="tip"/>')

    def text(self, x: float, y: float, text: str, kind: str = "", *, end: bool = False, middle: bool = False) -> None:
        """Write a text with its baseline at ``y``. ``end``: it ends at x; ``middle``: x is its middle."""
        anchor = ' text-anchor="end"' if end else ' text-anchor="middle"' if middle else ""
        style = f' class="{kind}"' if kind else ""
        self._parts.append(
            f'<text x="{_format_number(x)}" y="{_format_number(y)}"{anchor}{style}>{_escape_text(text)}</text>'
        )

    def paragraph(self, y: float, text: str, cells: int = 120) -> float:
        """Write a text in lines of at most ``cells`` letters. Return where the next line would be."""
        for line in wrap_text(text, cells):
            self.text(LEFT, y, line, "quiet")
            y += 18
        return y

    def rule(self, y: float) -> None:
        """Draw a line from side to side."""
        self.line([(LEFT, y), (self.width - LEFT, y)], "rule")

    @contextmanager
    def hint(self, text: str) -> Iterator[None]:
        """Show the text, which may have several lines, when the mouse is over what is drawn within."""
        self._parts.append(f"<g><title>{escape(escape_lines(text))}</title>")
        yield
        self._parts.append("</g>")

    def document(self, height: float, title: str) -> str:
        tall = _format_number(height)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {tall}" width="{self.width}" '
            f'height="{tall}" role="img" aria-label={quoteattr(escape_text(title))}>\n'
            f"<title>{_escape_text(title)}</title>\n<style>\n{_STYLE}</style>\n"
            f'<rect width="{self.width}" height="{tall}" class="ground"/>\n' + "\n".join(self._parts) + "\n</svg>\n"
        )


def format_duration(ps: int) -> str:
    return format_time(ps) if ps else "0"


def fit_label(text: str, width: float, size: float = SIZE) -> str:
    """Cut the middle of a text to fit in a fixed-width font of this size; return "" if nothing fits."""
    cells = int(width / (size * CELL))
    return fit_text(escape_text(text), cells) if cells > 1 else ""


def _escape_text(text: str) -> str:
    return escape(escape_text(text))


def _get_paint(kind: str) -> str:
    return f'fill="{kind}"' if kind.startswith("#") else f'class="{kind}"'


def _format_number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


Row = dict[str, Any]
Place = tuple[float, float, float]
"""Place of a box: x, y and width."""

WIDTH: Final = 1180
MOST_LEVELS: Final = 24
NARROWEST: Final = 1.5
MOST_BOXES: Final = 2_000
"""Most boxes of a tree: narrower boxes, and all but the largest ones, are not drawn."""
BOX: Final = 19
_RIGHT, _ROW = WIDTH - LEFT, 21


def draw_flames(
    drawing: SvgDrawing, table: pa.Table, column: str, heading: str, y: float, box: Callable[[Row, Place, int], None]
) -> float:
    """Draw a tree below ``y``, its root at the top. Return where it ends. ``column``: time of a node with all below it;
    ``box``: draws a row of the table in its place, given the time of the root."""
    drawing.text(LEFT, y, fit_label(heading, _RIGHT - LEFT, 14), "head")
    y += 14
    nodes, begins, total_ps = _find_places(table, column)
    rows: list[Row] = table.take(nodes).to_pylist()
    scale = (_RIGHT - LEFT) / max(total_ps, 1)
    for row, begin in zip(rows, begins.tolist(), strict=True):
        box(row, (LEFT + begin * scale, y + _ROW * row["depth"], row[column] * scale), total_ps)
    return y + _ROW * (max((row["depth"] for row in rows), default=0) + 1) + 8


def draw_named_box(drawing: SvgDrawing, name: str, place: Place, colour: str) -> None:
    """Draw a box with its name, as far as that fits."""
    x, y, wide = place
    drawing.rect(x, y, max(wide - 0.5, 0.4), BOX, colour, round_by=2 if wide > 6 else 0)
    if wide > 34:
        kind = "name small" if colour in ("box", "track") else "name inside small"
        drawing.text(x + 4, y + 13, fit_label(name, wide - 9, 11), kind)


def _find_places(table: pa.Table, column: str) -> tuple[Int64s, Int64s, int]:
    """Return the nodes that are wide enough and not too deep, in preorder; the begin of each, which is that of its
    parent or the end of its last sibling; and the time of the root."""
    size = np.asarray(pc.fill_null(table[column], 0)).astype(np.int64)
    parent = np.asarray(pc.fill_null(table["parent"], 0)).astype(np.int64)
    depth = np.asarray(table["depth"])
    total_ps = int(size[0])
    largest = mark_largest(size, MOST_BOXES)  # with a node its parent, which comes before it
    wide = size * ((_RIGHT - LEFT) / max(total_ps, 1)) >= NARROWEST
    chosen = np.flatnonzero(largest & wide & (depth < MOST_LEVELS))
    begin = np.zeros(len(size), np.int64)
    taken = np.zeros(len(size), np.int64)  # by the children of each node so far, the larger ones first
    for node, above, own in zip(chosen.tolist(), parent[chosen].tolist(), size[chosen].tolist(), strict=True):
        if node:
            begin[node] = begin[above] + taken[above]
            taken[above] += own
    return chosen, begin[chosen], total_ps
