"""A report as HTML for notebooks: notices, figures and tables as `report_text` chooses them, and the drawing.

Texts of a trace are escaped. Styles stand on the elements, so that the page around is not affected; the drawing is an
image for the same reason. Names are cut; pointing at one shows more of it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from fastprof.analyses import runner
from fastprof.render import as_text, report_svg, report_text, rows_in_words
from fastprof.render.look import Look
from fastprof.wording.screen import cut, printable

if TYPE_CHECKING:
    import pyarrow as pa

    from fastprof.analyses.contract import Analysis, Report, Scalar, Section

_LOOK = Look(width=400, python=True)
_NAME_CELLS = 90
_HINT_LETTERS = 1_000
_CELL = "padding: 1px 10px 1px 0; vertical-align: top; white-space: pre;"
_LEFT, _RIGHT = f"{_CELL} text-align: left;", f"{_CELL} text-align: right;"
_MONO = "font-family: monospace;"
_TITLES = {"recommendation": "Recommendations", "info": "Remarks", "warning": "Warnings", "error": "Errors"}


def html(report: Report) -> str:
    """The report as one element."""
    analysis = runner.module(report.analysis)
    parts = [heading(runner.title(analysis), 3), *_strong(report_text.headline(report))]
    parts += _notices(report, ["recommendation"])
    for section in report_text.sections(report, analysis):
        parts += [heading(section.title), *_section(section, report, analysis)]
    parts += _notices(report, ["info", "warning", "error"])
    if report.analysis in report_svg.DRAWN:
        drawing = b64encode(report_svg.text(report).encode()).decode("ascii")
        source = f"data:image/svg+xml;base64,{drawing}"
        parts.append(f'<img alt="the drawing" style="max-width: 100%" src="{source}">')
    return element(parts)


def element(parts: Iterable[str]) -> str:
    return f'<div style="overflow-x: auto">{"".join(parts)}</div>'


def heading(text: str, level: int = 4) -> str:
    return f'<h{level} style="margin: 0.8em 0 0.3em">{escape(printable(text))}</h{level}>'


def table(data: pa.Table, *, null: str = "", bar: str | None = None) -> str:
    """A small table, with values as in text."""
    titles, numbers, rows = as_text.grid(data, _LOOK, null=null, bar=bar)
    return table_of(titles, numbers, rows)


def table_of(titles: Sequence[str], numbers: Sequence[bool], rows: Iterable[Sequence[str]]) -> str:
    """Texts as a table. ``numbers``: columns aligned right. Without titles, there are rows only."""
    head = "".join(_cell("th", title, right) for title, right in zip(titles, numbers, strict=True))
    body = "".join(
        f"<tr>{''.join(_cell('td', text, right) for text, right in zip(row, numbers, strict=True))}</tr>"
        for row in rows
    )
    head = f"<thead><tr>{head}</tr></thead>" if any(titles) else ""
    return f'<table style="{_MONO} border-spacing: 0">{head}<tbody>{body}</tbody></table>'


def facts(rows: Iterable[Sequence[str]]) -> str:
    """Names and what they are, as text that may take several lines."""
    style = "padding: 1px 10px 1px 0; vertical-align: top; text-align: left;"
    lines = "".join(
        f'<tr><th style="{style}">{escape(name)}</th><td style="{style}"><bdi>{escape(printable(text))}</bdi></td></tr>'
        for name, text in rows
    )
    return f'<table style="{_MONO} border-spacing: 0"><tbody>{lines}</tbody></table>'


def paragraph(text: str) -> str:
    return f'<p style="margin: 0.2em 0">{escape(printable(_LOOK.advised(text)))}</p>'


def _cell(tag: str, text: str, right: bool) -> str:
    shown = cut(text, _NAME_CELLS)
    hint = "" if shown == text else f' title="{escape(text[:_HINT_LETTERS])}"'
    return f'<{tag} style="{_RIGHT if right else _LEFT}"{hint}>{escape(shown)}</{tag}>'


def _section(section: Section, report: Report, analysis: Analysis) -> Iterator[str]:
    if section.scalars:
        names = [report_text.figure_name(name, analysis) for name in section.scalars]
        rows = [_figure(name, report.scalars[key]) for name, key in zip(names, section.scalars, strict=True)]
        yield table_of(["", "", ""], [False, True, False], rows)
    if section.table is not None:
        rows_shown, notes = report_text.table_of(section, report, _LOOK, None)
        if section.in_words and rows_shown.num_rows:
            yield _in_words(rows_shown)
        elif rows_shown.num_rows or notes:
            yield table(rows_shown, null=report_text.UNKNOWN, bar=section.bar)
        else:
            yield paragraph("none")
        yield from map(paragraph, notes)


def _in_words(rows: pa.Table) -> str:
    """Rows as a numbered list: what each says, then its texts."""
    items = (
        f"<li><b>{escape(printable(head))}</b>{''.join(paragraph(f'{name}: {words}') for name, words in texts)}</li>"
        for head, texts in rows_in_words.paragraphs(rows, _LOOK)
    )
    return f'<ol style="max-width: 70em; margin: 0">{"".join(items)}</ol>'


def _strong(text: str) -> list[str]:
    return [f'<p style="margin: 0.2em 0"><b>{escape(printable(text))}</b></p>'] if text else []


def _figure(name: str, scalar: Scalar) -> list[str]:
    reason = "" if scalar.reason is None else printable(_LOOK.advised(scalar.reason))
    return [name, report_text.value_text(scalar), reason]


def _notices(report: Report, severities: Sequence[str]) -> Iterator[str]:
    for severity in severities:
        texts = [notice.text for notice in report.notices if notice.severity == severity]
        if texts:
            yield heading(_TITLES[severity])
            yield from (paragraph(line) for text in texts for line in text.splitlines() or [""])
