"""A report as text for people: recommendations, then figures and tables in the layout of the analysis, then remarks.

Figures are aligned with their units. The unknown ones come after them, with the reason.
Tables show the columns that the analysis selects for reading. A line says which columns do not fit, and how many rows
are not shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from fastprof.analyses import runner
from fastprof.render import alike_rows, as_text, kernel_names, rows_in_words
from fastprof.schema.capture_tables import RUN
from fastprof.schema.tables import REASON
from fastprof.wording import quantities
from fastprof.wording.screen import cut, pad, printable, width
from fastprof.wording.step_categories import in_words

if TYPE_CHECKING:
    from fastprof.analyses.contract import Alike, Analysis, Notice, Report, Scalar, Section
    from fastprof.render.look import Look

UNKNOWN = "-"
HEADLINE = "headline"
"""The figure that a report begins with."""
ALL = -1
"""As ``limit``: every row."""

_INDENT = 2
_STEP, _GROUP = "step", "group_id"
_CATEGORY = "category"
"""The column of sections without zeros that has categories of step time."""
_TREE_CELLS = 40  # least cells of the column with a tree, if the tree is that wide
_NAME_CELLS = 26  # least cells of the first column, which names the rows
_DEEPEST = 40  # deeper levels of a tree are drawn on one level
_MEASURED = {measure.ending for unit, measure in quantities.MEASURES.items() if unit != "share"}
_ENDINGS = sorted({"_ps", "_bytes", *_MEASURED}, key=len, reverse=True)
_TITLES = {"info": "Remarks", "warning": "Warnings", "error": "Errors"}


def lines(report: Report, look: Look, limit: int | None = None) -> Iterator[str]:
    """The lines of a report. ``limit``: rows per table; None: as the analysis lays it out."""
    if report.inapplicable is not None:
        yield from as_text.paragraph(report.inapplicable, look)
        return
    analysis = runner.module(report.analysis)
    yield look.strong(runner.title(analysis))
    if headline(report):
        yield from ("", *as_text.paragraph(headline(report), look))
    yield from _notices("Recommendations", [n for n in report.notices if n.severity == "recommendation"], look)
    for section in sections(report, analysis):
        yield from _section(section, report, analysis, look, limit)
    for severity, heading in _TITLES.items():
        yield from _notices(heading, [n for n in report.notices if n.severity == severity], look)


def headline(report: Report) -> str:
    """What the report says first, if it computes that; else nothing."""
    value = report.scalars[HEADLINE].value if HEADLINE in report.scalars else None
    return value if isinstance(value, str) else ""


def label(name: str) -> str:
    """The name of a figure as words, without its unit: ``step_time_ps`` is "step time". "share" stays in the name."""
    bare = next((name.removesuffix(ending) for ending in _ENDINGS if name.endswith(ending)), name)
    return printable(bare or name).replace("_", " ")


def figure_name(name: str, analysis: Analysis) -> str:
    """The name of a figure as people read it."""
    return analysis.SCALARS[name].label or label(name)


def value_text(scalar: Scalar) -> str:
    """A figure with its unit; ``-`` if it is unknown."""
    value = scalar.value
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    return printable(value) if isinstance(value, str) else quantities.measured(value, scalar.unit)


def sections(report: Report, analysis: Analysis) -> list[Section]:
    """The sections that have something to show in this report."""
    every = analysis.SECTIONS or _plain_sections(report, analysis)
    return [section for section in every if section.shown is None or section.shown(report)]


def _plain_sections(report: Report, analysis: Analysis) -> list[Section]:
    """All figures, then all tables: the layout of an analysis that defines none."""
    from fastprof.analyses.contract import Section

    figures = Section("Figures", scalars=tuple(report.scalars))
    return [figures, *(Section(label(name).capitalize(), name) for name in analysis.TABLES)]


def _section(section: Section, report: Report, analysis: Analysis, look: Look, limit: int | None) -> Iterator[str]:
    yield ""
    yield look.strong(cut(printable(section.title), look.width or len(section.title)))
    inner = look.narrower(_INDENT)
    if section.scalars:
        yield from _scalars({figure_name(name, analysis): report.scalars[name] for name in section.scalars}, inner)
    if section.table is not None:
        yield from _table(section, report, inner, limit)


def _scalars(scalars: Mapping[str, Scalar], look: Look) -> Iterator[str]:
    """One line per figure: name, number, unit. Then the names of unknown figures, by reason."""
    known = {name: scalar for name, scalar in scalars.items() if scalar.reason is None}
    values = [_number_and_unit(scalar, look) for scalar in known.values()]
    column = max(map(width, known), default=0)
    right = max((width(number) for number, _ in values), default=0)
    for (name, scalar), (number, unit) in zip(known.items(), values, strict=True):
        lead = " " * _INDENT + pad(name, column) + "  "
        if isinstance(scalar.value, str):
            yield from as_text.paragraph(value_text(scalar), look.narrower(-_INDENT), lead)
        else:
            yield (lead + pad(number, right, right=True) + f" {unit}").rstrip()
    for text in _unknown((name, scalar.reason) for name, scalar in scalars.items()):
        yield from as_text.paragraph(text, look.narrower(-_INDENT), " " * _INDENT)


def _unknown(names: Iterable[tuple[str, str | None]]) -> list[str]:
    """What is not known, a sentence for each reason. ``names``: with the reason; None: known."""
    unknown: dict[str, list[str]] = {}
    for name, reason in names:
        if reason is not None:
            unknown.setdefault(reason, []).append(name)
    return [f"Not known: {', '.join(names)} ({reason})" for reason, names in unknown.items()]


def _number_and_unit(scalar: Scalar, look: Look) -> tuple[str, str]:
    """Number and unit separately, for alignment; both empty for a text."""
    if isinstance(scalar.value, str):
        return "", ""
    number, _, unit = look.fit(value_text(scalar)).partition(" ")
    return number, unit


def _table(section: Section, report: Report, look: Look, limit: int | None) -> Iterator[str]:
    rows, notes = table_of(section, report, look, limit)
    if not rows.num_rows and not notes:
        yield " " * _INDENT + ("none" if report.steps is None else f"none in the chosen steps ({report.steps})")
        return
    if section.in_words:
        yield from rows_in_words.lines(rows, look)
        for note in notes:
            yield from as_text.paragraph(note, look.narrower(-_INDENT))
        return
    left_out: list[str] = []
    first = min(_NAME_CELLS, (look.width or 0) // 3)
    keeps = _TREE_CELLS if section.depth is not None else first
    laid_out = as_text.lines(
        rows,
        look,
        null=UNKNOWN,
        bar=section.bar,
        left_out=left_out,
        by_worth=section.by_worth,
        first_keeps=keeps,
        stays=_title_of_sizes(section.alike),
        wraps=section.wraps,
    )
    for line in laid_out:
        yield " " * _INDENT + line
    if left_out:
        names = ", ".join(reversed([name for name in dict.fromkeys(left_out) if name]))
        notes.append(f"Hidden columns: {names}; --wide shows all")
    for note in notes:
        yield from as_text.paragraph(note, look.narrower(-_INDENT))


def table_of(section: Section, report: Report, look: Look, limit: int | None) -> tuple[pa.Table, list[str]]:
    """The rows and columns that a section shows, in the order of the layout, and notes on what it does not show."""
    assert section.table is not None
    every = report.tables[section.table]
    columns, program = _without_the_same(_columns(section, every), every)
    table = every.select(columns)
    depths = None if section.depth is None else every[section.depth].to_numpy()
    most = section.rows if limit is None else limit
    if section.only is not None and limit != ALL:
        chosen = np.flatnonzero(section.only(every))
        if section.alike is None and section.nonzero is None and most != ALL:
            chosen = chosen[: max(most, 1)]  # no row past these is looked at
        table = _taken(table, chosen.tolist())
        depths = None if depths is None else depths[chosen]
    zeros: list[str] = []
    if section.nonzero is not None and limit != ALL:
        table, zeros = _without_zeros(table, section.nonzero)
    if section.nonzero is not None and _CATEGORY in table.column_names:
        table, zeros = _categories_in_words(table), [in_words(name) for name in zeros]
    if not table.num_rows:
        return table, []
    ungrouped = table.num_rows
    sizes = [1] * table.num_rows
    if section.alike is not None and most > 0 and look.width is not None:
        compared = every.select(section.alike.names + section.alike.by) if section.alike.by else None
        if compared is not None and compared.num_rows != table.num_rows:
            compared = None  # only some rows are shown
        table, sizes = alike_rows.joined(table, section.alike, section.bar, compared)
    rows = table if most == ALL else table.slice(0, most)
    sizes = sizes[: rows.num_rows]
    if section.kernels is not None:
        rows = _with_short_names(rows, section.kernels)
    if depths is not None:
        rows = _as_tree(rows, depths[: rows.num_rows].tolist(), look)
    reasons = {field.name: (field.metadata or {}).get(REASON) for field in rows.schema}
    notes = _unknown((label(name), reason and reason.decode()) for name, reason in reasons.items())
    total = every.num_rows
    shown = sum(sizes) + (0 if section.only is not None else total - ungrouped)
    if rows.num_rows < table.num_rows or (section.only is not None and shown < total):
        notes.append(f"showing {shown:,} of {total:,}; --limit all shows the others")
    if section.alike is not None and max(sizes, default=1) > 1:
        rows = _with_sizes(rows, section.alike, sizes)
        notes.append(_about_alike(section.alike, table.column_names))
    if program is not None:
        notes.append(f"All in program {printable(program)}")
    if zeros:
        notes.append(f"Always 0: {', '.join(zeros)}")
    return rows, notes


def _columns(section: Section, table: pa.Table) -> list[str]:
    """The columns that a section shows. If there are several hosts, the host is added: first, in a tree second."""
    columns = list(section.columns or table.column_names)
    columns = [name for name in columns if name not in section.parts or any(table[name].to_pylist())]
    if "host" in columns or "host" not in table.column_names or len(set(table["host"].to_pylist())) < 2:
        return columns
    columns.insert(0 if section.depth is None else 1, "host")
    return columns


def _without_the_same(columns: list[str], table: pa.Table) -> tuple[list[str], str | None]:
    """The columns without ``program`` if all rows have the same program, and its name; else None."""
    if "program" not in columns or len(columns) < 2 or table.num_rows < 2:
        return columns, None
    programs = set(table["program"].to_pylist())
    if len(programs) != 1 or not (program := programs.pop()):
        return columns, None
    return [name for name in columns if name != "program"], program


def by_worth(report: Report, table: str, *, wide: bool = False) -> list[str]:
    """The columns of a table; the run, if there are several, and those that the report shows come first. Beside the
    number of a step, that of its group is left out unless the text is ``wide``."""
    sections = [section for section in runner.module(report.analysis).SECTIONS if section.table == table]
    names = report.tables[table].column_names
    shown = [name for section in sections for name in _columns(section, report.tables[table]) if name in names]
    runs = [name for name in names[:1] if name == RUN.name]
    every = dict.fromkeys([*runs, *shown, *names])
    return [name for name in every if wide or name != _GROUP or _STEP not in every]


def _without_zeros(table: pa.Table, column: str) -> tuple[pa.Table, list[str]]:
    """The table without names (in the column before ``column``) that have 0 in all their rows, and these names. If all
    are 0, the table is unchanged."""
    names = table[table.column_names.index(column) - 1].to_pylist()
    values = table[column].to_pylist()
    nonzero = {name for name, value in zip(names, values, strict=True) if value != 0}
    if not nonzero:
        return table, []
    rows = [row for row, name in enumerate(names) if name in nonzero]
    return _taken(table, rows), [printable(str(name)) for name in dict.fromkeys(names) if name not in nonzero]


def _categories_in_words(table: pa.Table) -> pa.Table:
    place = table.column_names.index(_CATEGORY)
    words = [name if name is None else in_words(name) for name in table[_CATEGORY].to_pylist()]
    return table.set_column(place, _CATEGORY, pa.array(words, pa.string()))


def _taken(table: pa.Table, rows: Iterable[int]) -> pa.Table:
    """A few rows of a table. Table.take would import pyarrow.compute, which takes longer than most questions."""
    columns = [pa.array([column[row].as_py() for row in rows], column.type) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _with_short_names(table: pa.Table, column: str) -> pa.Table:
    return _with_texts(table, column, [name and kernel_names.short(name) for name in table[column].to_pylist()])


def _with_sizes(table: pa.Table, alike: Alike, sizes: Sequence[int]) -> pa.Table:
    """The table with the number of rows that each one adds up, after the names."""
    after = table.column_names.index(alike.names[0]) + 1
    texts = [f"{size:,} alike" if size > 1 else "" for size in sizes]
    return table.add_column(after, _title_of_sizes(alike), pa.array(texts, pa.string()))


def _about_alike(alike: Alike, columns: Sequence[str]) -> str:
    names = ", ".join(label(name) for name in columns if name in alike.summed)
    sums = f"summed: {names}; " if names else ""
    return f"Alike but for numbers in names and a tenth in values; {sums}others: the first's; --limit all shows each"


def _title_of_sizes(alike: Alike | None) -> str:
    """The title of the column that counts the rows that each one adds up; empty without one."""
    return "" if alike is None else "sum of" if alike.summed else "rows"


def _as_tree(table: pa.Table, depths: Sequence[int], look: Look) -> pa.Table:
    """The table with the branches of a tree before the texts of its first column."""
    lines = zip(branches(depths, look.unicode), table.column(0).to_pylist(), strict=True)
    return _with_texts(table, table.column_names[0], [branch + (name or "") for branch, name in lines])


def _with_texts(table: pa.Table, column: str, texts: list[str | None]) -> pa.Table:
    return table.set_column(table.column_names.index(column), column, pa.array(texts, pa.string()))


def branches(depths: Sequence[int], unicode: bool) -> list[str]:
    """The branches from the parent to each row of a tree. ``depths``: depth of the rows in preorder; a row of depth 0
    begins a tree."""
    passing, fork, end = ("\u2502  ", "\u251c\u2500 ", "\u2514\u2500 ") if unicode else ("|  ", "|- ", "`- ")
    drawn = []
    depths = [min(depth, _DEEPEST) for depth in depths]
    open_levels: list[bool] = []  # by level: whether another row of the level follows below before the level ends
    for depth in reversed(depths):
        follows = len(open_levels) > depth and open_levels[depth]
        open_levels = [*open_levels[: depth + 1], *[False] * (depth + 1 - len(open_levels))]
        open_levels[depth] = True
        above = "".join(passing if is_open else "   " for is_open in open_levels[1:depth])
        drawn.append(above + (fork if follows else end) if depth else "")
    return drawn[::-1]


def _notices(title: str, notices: Sequence[Notice], look: Look) -> Iterator[str]:
    if not notices:
        return
    yield ""
    yield look.strong(title if len(notices) > 1 else title.removesuffix("s"))
    for notice in notices:
        for line in notice.text.splitlines() or [""]:
            yield from as_text.paragraph(line, look, "  ")
