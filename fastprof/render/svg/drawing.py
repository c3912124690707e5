"""SVG by hand: shapes and escaped texts, in colours for light and dark screens.

Lengths are in units of the view box: pixels, if the drawing is shown in its own size. Widths of texts are not measured.
Names are in a fixed-width font, whose cells are at most ``CELL`` of its size wide, and are cut to the cells that fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from fastprof.wording.quantities import time_text
from fastprof.wording.screen import cut, printable, printable_lines, wrapped

CELL: Final = 0.62
"""Width of a cell of a fixed-width font, as a part of its size; that of usual fonts is 0.55 to 0.61."""

SIZE: Final = 12
"""Of texts, by default."""
LEFT: Final = 24
"""Where texts and rules begin."""

COLOURS: Final = ("#c8441b", "#2f6db5", "#a96e00", "#138a68", "#a8558c", "#3b82ab")
"""Distinct also for those who see few colours, and on light and dark ground."""
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


class Drawing:
    """An SVG document as it grows. ``width``: of the view box; its height follows from what is drawn."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._parts: list[str] = []

    def rect(self, x: float, y: float, width: float, height: float, kind: str, *, round_by: float = 0) -> None:
        """``kind``: a class of the style, or a colour."""
        corner = f' rx="{_number(round_by)}"' if round_by else ""
        place = f'x="{_number(x)}" y="{_number(y)}" width="{_number(max(width, 0))}" height="{_number(height)}"'
        self._parts.append(f"<rect {place}{corner} {_paint(kind)}/>")

    def line(self, points: list[tuple[float, float]], kind: str) -> None:
        path = "M" + "L".join(f"{_number(x)} {_number(y)}" for x, y in points)
        self._parts.append(f'<path d="{path}" class="{kind}"/>')

    def tip(self, x: float, y: float) -> None:
        """The head of an arrow that points up, with its point at (x, y)."""
        self._parts.append(f'<path d="M{_number(x - 4)} {_number(y + 6)}h8l-4 -6z" class="tip"/>')

    def text(self, x: float, y: float, text: str, kind: str = "", *, end: bool = False, middle: bool = False) -> None:
        """``y``: of the line that letters stand on; ``end``: they end at x; ``middle``: x is their middle."""
        anchor = ' text-anchor="end"' if end else ' text-anchor="middle"' if middle else ""
        style = f' class="{kind}"' if kind else ""
        self._parts.append(f'<text x="{_number(x)}" y="{_number(y)}"{anchor}{style}>{_escaped(text)}</text>')

    def paragraph(self, y: float, text: str, cells: int = 120) -> float:
        """Writes a text in lines of at most ``cells`` letters. Returns where the next line would be."""
        for line in wrapped(text, cells):
            self.text(LEFT, y, line, "quiet")
            y += 18
        return y

    def rule(self, y: float) -> None:
        """A line from side to side."""
        self.line([(LEFT, y), (self.width - LEFT, y)], "rule")

    @contextmanager
    def hint(self, text: str) -> Iterator[None]:
        """What is drawn within shows the text, of one or more lines, under the mouse."""
        self._parts.append(f"<g><title>{escape(printable_lines(text))}</title>")
        yield
        self._parts.append("</g>")

    def document(self, height: float, title: str) -> str:
        tall = _number(height)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {tall}" width="{self.width}" '
            f'height="{tall}" role="img" aria-label={quoteattr(printable(title))}>\n'
            f"<title>{_escaped(title)}</title>\n<style>\n{_STYLE}</style>\n"
            f'<rect width="{self.width}" height="{tall}" class="ground"/>\n' + "\n".join(self._parts) + "\n</svg>\n"
        )


def duration_text(ps: int) -> str:
    return time_text(ps) if ps else "0"


def fitted(text: str, width: float, size: float = SIZE) -> str:
    """The text, cut in its middle to fit in a fixed-width font of this size; empty if nothing fits."""
    cells = int(width / (size * CELL))
    return cut(printable(text), cells) if cells > 1 else ""


def _escaped(text: str) -> str:
    return escape(printable(text))


def _paint(kind: str) -> str:
    return f'fill="{kind}"' if kind.startswith("#") else f'class="{kind}"'


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
