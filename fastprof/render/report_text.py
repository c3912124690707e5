"""A report as text for people: what to do first, then figures and tables as the analysis lays them out, then remarks.

Figures stand in columns with their units; a figure that is not known is a dash with a number, and the line of that
number below says why. Tables show the columns that the analysis chose for reading; what finds no room or goes
beyond the limit is told of, never dropped in silence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from fastprof.analyses import runner
from fastprof.render import as_text, kernel_names
from fastprof.wording import quantities
from fastprof.wording.screen import cut, pad, printable, width

if TYPE_CHECKING:
    from fastprof.analyses.contract import Analysis, Notice, Report, Scalar, Section
    from fastprof.render.look import Look

UNKNOWN = "-"
ALL = -1
"""As ``limit``: every row."""

_INDENT = 2
_TREE_CELLS = 40  # of the column that a tree is drawn in, where it needs them
_NAME_CELLS = 26  # of the first column of a section of which the last columns may go
_DEEPEST = 40  # levels of a tree that are drawn apart
_MEASURED = {measure.ending for unit, measure in quantities.MEASURES.items() if unit != "share"}
_ENDINGS = sorted({"_ps", "_bytes", *_MEASURED}, key=len, reverse=True)
_TITLES = {"info": "Remarks", "warning": "Warnings", "error": "Errors"}


def lines(report: Report, look: Look, limit: int | None = None) -> Iterator[str]:
    """The lines of a report. ``limit``: rows of each table; None: as the analysis has it."""
    analysis = runner.module(report.analysis)
    yield look.strong(runner.title(analysis))
    yield from _notices("Recommendations", [n for n in report.notices if n.severity == "recommendation"], look)
    footnotes = _Footnotes()
    for section in analysis.SECTIONS or _plain_sections(report, analysis):
        if section.shown is None or section.shown(report):
            yield from _section(section, report, analysis, look, limit, footnotes)
    for severity, heading in _TITLES.items():
        yield from _notices(heading, [n for n in report.notices if n.severity == severity], look)


def label(name: str) -> str:
    """The name of a figure as words, without its unit: ``step_time_ps`` is "step time"; but a share is called so."""
    bare = next((name.removesuffix(ending) for ending in _ENDINGS if name.endswith(ending)), name)
    return printable(bare or name).replace("_", " ")


def value_text(scalar: Scalar) -> str:
    """A figure with its unit, ``-`` where it is not known."""
    value = scalar.value
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    return printable(value) if isinstance(value, str) else quantities.measured(value, scalar.unit)


class _Footnotes:
    """Reasons, each with the number that it got where it was met first."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, reason: str) -> int:
        return self._numbers.setdefault(reason, len(self._numbers) + 1)


def _plain_sections(report: Report, analysis: Analysis) -> list[Section]:
    """All figures, then all tables, for an analysis that says nothing of its layout."""
    from fastprof.analyses.contract import Section

    figures = Section("Figures", scalars=tuple(report.scalars))
    return [figures, *(Section(label(name).capitalize(), name) for name in analysis.TABLES)]


def _section(
    section: Section, report: Report, analysis: Analysis, look: Look, limit: int | None, footnotes: _Footnotes
) -> Iterator[str]:
    yield ""
    yield look.strong(cut(printable(section.title), look.width or len(section.title)))
    inner = look.narrower(_INDENT)
    if section.scalars:
        names = [analysis.SCALARS[name].label or label(name) for name in section.scalars]
        yield from _scalars(names, [report.scalars[name] for name in section.scalars], inner, footnotes)
    if section.table is not None:
        yield from _table(section, report, inner, limit)


def _scalars(names: Sequence[str], scalars: Sequence[Scalar], look: Look, footnotes: _Footnotes) -> Iterator[str]:
    """A line each: name, number, unit; then the reasons of those unknown, each once."""
    values = [_number_and_unit(scalar, look) for scalar in scalars]
    column = max(map(width, names), default=0)
    right = max((width(number) for number, _ in values), default=0)
    reasons: dict[int, str] = {}
    for name, (number, unit), scalar in zip(names, values, scalars, strict=True):
        lead = " " * _INDENT + pad(name, column) + "  "
        mark = ""
        if scalar.reason is not None:
            footnote = footnotes.number(scalar.reason)
            reasons[footnote] = scalar.reason
            mark = f" [{footnote}]"
        if isinstance(scalar.value, str):
            yield from as_text.paragraph(value_text(scalar) + mark, look.narrower(-_INDENT), lead)
        else:
            yield (lead + pad(number, right, right=True) + f" {unit}").rstrip() + mark
    for footnote, reason in reasons.items():
        yield from as_text.paragraph(reason, look.narrower(-_INDENT), f"  [{footnote}] ")


def _number_and_unit(scalar: Scalar, look: Look) -> tuple[str, str]:
    """The two apart, to stand below those of other figures; nothing of a text."""
    if isinstance(scalar.value, str):
        return "", ""
    text = value_text(scalar)
    number, _, unit = (text if look.unicode else text.replace("µ", "u")).partition(" ")
    return number, unit


def _table(section: Section, report: Report, look: Look, limit: int | None) -> Iterator[str]:
    assert section.table is not None
    whole = report.tables[section.table]
    columns, program = _without_the_same(_columns(section, whole), whole)
    table = whole.select(columns)
    every = whole.num_rows
    depths = None if section.depth is None else whole[section.depth]
    if section.only is not None and limit != ALL:
        chosen = section.only(whole)
        table = table.filter(chosen)
        depths = None if depths is None else depths.filter(chosen)
    zeros: list[str] = []
    if section.nonzero is not None and limit != ALL:
        table, zeros = _without_zeros(table, section.nonzero)
    if not table.num_rows:
        yield " " * _INDENT + "none"
        return
    most = section.rows if limit is None else limit
    kept = table if most == ALL else table.slice(0, most)
    if section.kernels is not None:
        kept = _with_short_names(kept, section.kernels)
    if depths is not None:
        kept = _as_tree(kept, depths.slice(0, kept.num_rows).to_pylist(), look)
    left_out: list[str] = []
    keeps = _TREE_CELLS if section.depth is not None else _NAME_CELLS if section.by_worth else 0
    laid_out = as_text.lines(
        kept, look, null=UNKNOWN, bar=section.bar, left_out=left_out, by_worth=section.by_worth, first_keeps=keeps
    )
    for line in laid_out:
        yield " " * _INDENT + line
    shown = kept.num_rows + (0 if section.only is not None else every - table.num_rows)
    if kept.num_rows < table.num_rows or (section.only is not None and shown < every):
        yield f"  and {every - shown:,} more of {every:,}; --limit all shows them"
    if program is not None:
        yield from as_text.paragraph(f"of program {printable(program)}", look.narrower(-_INDENT), "  ")
    if zeros:
        yield from as_text.paragraph(f"0 throughout: {', '.join(zeros)}", look.narrower(-_INDENT), "  ")
    if left_out:
        names = ", ".join(reversed([name for name in dict.fromkeys(left_out) if name]))
        yield from as_text.paragraph(f"no room for {names}; --wide shows all", look.narrower(-_INDENT))


def _columns(section: Section, table: pa.Table) -> list[str]:
    """The columns that a section shows; with the host where there are several, first, but for the names of a tree."""
    columns = list(section.columns or table.column_names)
    columns = [name for name in columns if name not in section.parts or any(table[name].to_pylist())]
    if "host" in columns or "host" not in table.column_names or len(table["host"].unique()) < 2:
        return columns
    columns.insert(0 if section.depth is None else 1, "host")
    return columns


def _without_the_same(columns: list[str], table: pa.Table) -> tuple[list[str], str | None]:
    """Without the program where all rows are of the same one, and which; None: they are not."""
    if "program" not in columns or len(columns) < 2 or table.num_rows < 2:
        return columns, None
    programs = table["program"].unique().to_pylist()
    if len(programs) != 1 or not programs[0]:
        return columns, None
    return [name for name in columns if name != "program"], programs[0]


def by_worth(report: Report, table: str) -> list[str]:
    """The columns of a table, those first that the report shows of it."""
    sections = [section for section in runner.module(report.analysis).SECTIONS if section.table == table]
    there = report.tables[table].column_names
    shown = [name for section in sections for name in _columns(section, report.tables[table]) if name in there]
    return list(dict.fromkeys([*shown, *there]))


def _without_zeros(table: pa.Table, column: str) -> tuple[pa.Table, list[str]]:
    """Without what is 0 in all its rows, and its names, which the column before has; all, if nothing would be left."""
    names = table[table.column_names.index(column) - 1].to_pylist()
    values = table[column].to_pylist()
    found = {name for name, value in zip(names, values, strict=True) if value != 0}
    if not found:
        return table, []
    rows = [row for row, name in enumerate(names) if name in found]
    return table.take(rows), [printable(str(name)) for name in dict.fromkeys(names) if name not in found]


def _with_short_names(table: pa.Table, column: str) -> pa.Table:
    names = [None if name is None else kernel_names.short(name) for name in table[column].to_pylist()]
    return table.set_column(table.column_names.index(column), column, pa.array(names, pa.string()))


def _as_tree(table: pa.Table, depths: Sequence[int], look: Look) -> pa.Table:
    """The table with branches before its first column, which is a text."""
    names = ["" if name is None else name for name in table.column(0).to_pylist()]
    drawn = [branch + name for branch, name in zip(branches(depths, look.unicode), names, strict=True)]
    return table.set_column(0, table.column_names[0], pa.array(drawn, pa.string()))


def branches(depths: Sequence[int], unicode: bool) -> list[str]:
    """What leads from the parent of each row of a tree to it. ``depths``: of the rows in preorder; a row of depth 0
    begins a tree."""
    passing, fork, end = ("\u2502  ", "\u251c\u2500 ", "\u2514\u2500 ") if unicode else ("|  ", "|- ", "`- ")
    found = []
    depths = [min(depth, _DEEPEST) for depth in depths]
    open_levels: list[bool] = []  # whether, below the row, another row of each level follows before that level ends
    for depth in reversed(depths):
        follows = len(open_levels) > depth and open_levels[depth]
        open_levels = [*open_levels[: depth + 1], *[False] * (depth + 1 - len(open_levels))]
        open_levels[depth] = True
        above = "".join(passing if there else "   " for there in open_levels[1:depth])
        found.append(above + (fork if follows else end) if depth else "")
    return found[::-1]


def _notices(title: str, notices: Sequence[Notice], look: Look) -> Iterator[str]:
    if not notices:
        return
    yield ""
    yield look.strong(title if len(notices) > 1 else title.removesuffix("s"))
    for notice in notices:
        for line in notice.text.splitlines() or [""]:
            yield from as_text.paragraph(line, look, "  ")
