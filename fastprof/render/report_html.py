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
from fastprof.render import as_text, report_graphics, report_text
from fastprof.render.table_forms import Look
from fastprof.wording.screen import escape_text, fit_text

if TYPE_CHECKING:
    import pyarrow as pa

    from fastprof.analyses.contract import Analysis, AnalysisReport, Scalar, Section

_LOOK = Look(width=400, python=True, verbose=True)
_NAME_CELLS = 90
_HINT_LETTERS = 1_000
_CELL = "padding: 1px 10px 1px 0; vertical-align: top; white-space: pre;"
_LEFT, _RIGHT = f"{_CELL} text-align: left;", f"{_CELL} text-align: right;"
_MONO = "font-family: monospace;"
_TITLES = {"recommendation": "Recommendations", "info": "Remarks", "warning": "Warnings", "error": "Errors"}


def render_html(report: AnalysisReport) -> str:
    """Render a report as one element."""
    analysis = runner.get_analysis(report.analysis)
    parts = [make_heading(runner.get_title(analysis), 3), *_make_bold(report_text.get_headline(report))]
    parts += _render_notices(report, ["recommendation"])
    for section in report_text.list_sections(report, analysis):
        parts += [make_heading(section.title), *_render_section(section, report, analysis)]
    parts += _render_notices(report, ["info", "warning", "error"])
    if report.analysis in report_graphics.DRAWN:
        drawing = b64encode(report_graphics.draw_report(report).encode()).decode("ascii")
        source = f"data:image/svg+xml;base64,{drawing}"
        parts.append(f'<img alt="the drawing" style="max-width: 100%" src="{source}">')
    return make_element(parts)


def make_element(parts: Iterable[str]) -> str:
    return f'<div style="overflow-x: auto">{"".join(parts)}</div>'


def make_heading(text: str, level: int = 4) -> str:
    return f'<h{level} style="margin: 0.8em 0 0.3em">{escape(escape_text(text))}</h{level}>'


def make_table(data: pa.Table, *, null: str = "", bar: str | None = None) -> str:
    """Render a small table, with values as in text."""
    return make_text_table(*as_text.make_grid(data, _LOOK, null=null, bar=bar))


def make_text_table(titles: Sequence[str], numbers: Sequence[bool], rows: Iterable[Sequence[str]]) -> str:
    """Render strings as a table. ``numbers``: columns to align right. Without titles, there are rows only."""
    head = "".join(_make_cell("th", title, right) for title, right in zip(titles, numbers, strict=True))
    body = "".join(
        f"<tr>{''.join(_make_cell('td', text, right) for text, right in zip(row, numbers, strict=True))}</tr>"
        for row in rows
    )
    head = f"<thead><tr>{head}</tr></thead>" if any(titles) else ""
    return f'<table style="{_MONO} border-spacing: 0">{head}<tbody>{body}</tbody></table>'


def make_fact_list(rows: Iterable[Sequence[str]]) -> str:
    """Render names and descriptions, which may take several lines."""
    style = "padding: 1px 10px 1px 0; vertical-align: top; text-align: left;"
    lines = "".join(
        f'<tr><th style="{style}">{escape(name)}</th><td '
        f'style="{style}"><bdi>{escape(escape_text(text))}</bdi></td></tr>'
        for name, text in rows
    )
    return f'<table style="{_MONO} border-spacing: 0"><tbody>{lines}</tbody></table>'


def make_para(text: str) -> str:
    return f'<p style="margin: 0.2em 0">{escape(escape_text(_LOOK.advised(text)))}</p>'


def _make_cell(tag: str, text: str, right: bool) -> str:
    shown = fit_text(text, _NAME_CELLS)
    hint = "" if shown == text else f' title="{escape(text[:_HINT_LETTERS])}"'
    return f'<{tag} style="{_RIGHT if right else _LEFT}"{hint}>{escape(shown)}</{tag}>'


def _render_section(section: Section, report: AnalysisReport, analysis: Analysis) -> Iterator[str]:
    if section.scalars:
        figures = report_text.get_figures(section, report, analysis)
        rows = [_format_figure(name, figure) for name, figure in figures.items()]
        yield make_text_table(["", "", ""], [False, True, False], rows)
    if section.table is not None:
        rows_shown, notes = report_text.select_rows(section, report, _LOOK, None)
        if section.in_words and rows_shown.num_rows:
            yield '<ol style="max-width: 70em; margin: 0">'
            for head, texts in report_text.list_paragraphs(rows_shown, _LOOK):
                paragraphs = "".join(make_para(f"{name}: {words}") for name, words in texts)
                yield f"<li><b>{escape(escape_text(head))}</b>{paragraphs}</li>"
            yield "</ol>"
        elif rows_shown.num_rows or notes:
            yield make_table(rows_shown, null=report_text.UNKNOWN, bar=section.bar)
        else:
            yield make_para("none")
        yield from map(make_para, notes)


def _make_bold(text: str) -> list[str]:
    return [f'<p style="margin: 0.2em 0"><b>{escape(escape_text(text))}</b></p>'] if text else []


def _format_figure(name: str, scalar: Scalar) -> list[str]:
    reason = "" if scalar.reason is None else escape_text(_LOOK.advised(scalar.reason))
    return [name, report_text.format_value(scalar), reason]


def _render_notices(report: AnalysisReport, severities: Sequence[str]) -> Iterator[str]:
    for severity in severities:
        texts = [notice.text for notice in report.notices if notice.severity == severity]
        if texts:
            yield make_heading(_TITLES[severity])
            yield from (make_para(line) for text in texts for line in text.splitlines() or [""])
