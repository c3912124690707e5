"""A report as text for people: recommendations, then figures and tables in the layout of the analysis, then remarks.

Figures are aligned with their units. Unknown figures come last, with the reason. Tables show the columns that the
analysis selects for reading; a line lists the columns that do not fit. Kernel names are shortened, similar rows become
one row, and tables whose cells are sentences become numbered paragraphs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from fastprof.analyses import runner
from fastprof.render import as_text
from fastprof.render.rows import list_rows
from fastprof.schema.capture_tables import RUN
from fastprof.schema.tables import REASON
from fastprof.schema.value_classes import dataclass
from fastprof.wording import quantities
from fastprof.wording.kernel_names import shorten_kernel_name
from fastprof.wording.patterns import compile_late
from fastprof.wording.screen import escape_text, fit_text, measure_width, pad_text

if TYPE_CHECKING:
    from fastprof.analyses.contract import Alike, Analysis, AnalysisReport, Notice, Scalar, Section
    from fastprof.render.table_forms import Look

_NUMBER = compile_late(r"(?:(?<=[._/-])|(?<=layer)|(?<=block))\d+(?![^./:; )\]])")
"""Numbers that count ops and layers, unlike ``128x64`` and ``bf16``, which say what a kernel does."""
_LAST_NUMBER = compile_late(r"\.\d+\Z")  # the first of the ops fusion, fusion.1, fusion.2 has none
_NEAR = 10  # values differ by at most one part in this
_MOST_ROWS = 20_000  # rows after these, which are the smallest, stay single
_MOST_GROUPS = 8  # of one name: a row is compared with the last ones only
_COUNTS_END = 2**63

Comparisons = Sequence[Callable[[Any], Any] | None]
"""Key of values by column, which are equal if their keys are; None if near values are equal."""


@dataclass(slots=True)
class _AlikeGroup:
    first: Sequence[Any]
    key: Sequence[Any]
    sums: list[Any]
    size: int = 1


def merge_alike_rows(
    table: pa.Table, alike: Alike, order: str | None, compared: pa.Table | None = None
) -> tuple[pa.Table, list[int]]:
    """Return the table with one row for each group of similar rows, and the sizes of the groups.

    If the column ``order`` is added up and its largest values come first, so do the largest sums; else a group is where
    its first row is. ``compared``: a table of the same rows whose columns decide what is similar, or None for
    ``table``.
    """
    groups = _group_rows(table, alike, table if compared is None else compared)
    sizes = [group.size for group in groups] + [1] * (table.num_rows - _MOST_ROWS)
    if max(sizes, default=1) == 1:
        return table, sizes
    if order in alike.summed:
        at = table.column_names.index(order)
        firsts = [group.first[at] or 0 for group in groups]
        if firsts == sorted(firsts, reverse=True):
            groups.sort(key=lambda group: -(group.sums[at] or 0))
    rows = [group.sums for group in groups]
    columns = [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(table.schema)]
    head = pa.Table.from_arrays(columns, schema=table.schema)
    sizes[: len(groups)] = [group.size for group in groups]
    return pa.concat_tables([head, table.slice(_MOST_ROWS)]), sizes


def _group_rows(table: pa.Table, alike: Alike, compared: pa.Table) -> list[_AlikeGroup]:
    kinds = [_get_comparison(field, alike) for field in compared.schema]
    summed = [at for at, name in enumerate(table.column_names) if name in alike.summed]
    groups: list[_AlikeGroup] = []
    open_groups: dict[tuple[Any, ...], list[_AlikeGroup]] = {}
    rows, keys = (list_rows(each.slice(0, _MOST_ROWS)) for each in (table, compared))
    for row, known in zip(rows, keys, strict=True):
        key = tuple(kind(value) for kind, value in zip(kinds, known, strict=True) if kind is not None)
        like = open_groups.setdefault(key, [])
        near = (group for group in like[-_MOST_GROUPS:] if _are_near(kinds, group.key, known))
        if not any(_add_to_group(group, row, summed) for group in near):
            groups.append(_AlikeGroup(row, known, list(row)))
            like.append(groups[-1])
    return groups


def _get_comparison(field: pa.Field, alike: Alike) -> Callable[[Any], Any] | None:
    if field.name in alike.names:
        return _drop_numbers
    if field.name in alike.summed or pa.types.is_floating(field.type) or (field.metadata or {}).get(b"unit"):
        return None
    return repr if pa.types.is_nested(field.type) else _keep_value


def _drop_numbers(name: str | None) -> str | None:
    return name and _NUMBER.sub("#", _LAST_NUMBER.sub("", name))


def _keep_value(value: Any) -> Any:
    return value


def _are_near(kinds: Comparisons, first: Sequence[Any], row: Sequence[Any]) -> bool:
    return all(kind is not None or _is_near(*pair) for kind, *pair in zip(kinds, first, row, strict=True))


def _add_to_group(group: _AlikeGroup, row: Sequence[Any], summed: Sequence[int]) -> bool:
    """Add a row to a group if the sums can be written."""
    sums = [None if row[at] is None else group.sums[at] + row[at] for at in summed]
    if any(total is not None and abs(total) >= _COUNTS_END for total in sums):
        return False
    for at, total in zip(summed, sums, strict=True):
        group.sums[at] = total
    group.size += 1
    return True


def _is_near(first: float | None, other: float | None) -> bool:
    if first is None or other is None or not (isfinite(first) and isfinite(other)):
        return first is other
    return abs(first - other) * _NEAR <= abs(first)


def format_paragraphs(table: pa.Table, look: Look, beside: Sequence[str] = ()) -> Iterator[str]:
    """Yield a paragraph per row: the first column and the amounts, then a line for each other known string. The strings
    ``beside`` share a line."""
    for number, (head, texts) in enumerate(list_paragraphs(table, look), 1):
        lead = f"  {number}. "
        yield from as_text.wrap_paragraph(head, look, lead)
        lines: dict[str, list[str]] = {}
        for name, text in texts:
            lines.setdefault("" if name in beside else name, []).append(f"{name}: {text}")
        for parts in lines.values():
            yield from as_text.wrap_paragraph("; ".join(parts), look, " " * measure_width(lead))


def list_paragraphs(table: pa.Table, look: Look) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield the head of each row, with its amounts, and its other strings with the names of their columns."""
    fields = list(table.schema)
    for row in table.to_pylist():
        known = [(field.name, row[field.name]) for field in fields[1:] if isinstance(row[field.name], str)]
        texts = [(name, fit_text(text, _MOST_CELLS)) for name, text in known]
        yield look.fit(_format_head(fields, row)), [(name.replace("_", " "), text) for name, text in texts]


def _format_head(fields: list[pa.Field], row: dict[str, Any]) -> str:
    """Format the first cell with the amounts of the row. The column ``is_bound`` says whether these are upper bounds;
    ``rest_share``, without start-up, is left out if it looks like ``share``."""
    amounts = {
        field.name: quantities.format_measure(row[field.name], _get_unit(field))
        for field in fields[1:]
        if isinstance(row[field.name], int | float) and not isinstance(row[field.name], bool)
    }
    if amounts.get("rest_share") == amounts.get("share"):
        amounts.pop("rest_share", None)
    if not amounts:
        return str(row[fields[0].name])
    bound = "up to " if row.get("is_bound") else ""
    return f"{row[fields[0].name]}: {bound}" + ", ".join(text + _OF.get(name, "") for name, text in amounts.items())


_OF: Final = {"rest_share": " without start-up"}


def _get_unit(field: pa.Field) -> str | None:
    unit = (field.metadata or {}).get(b"unit", b"").decode("utf-8", "replace")
    return unit or None


UNKNOWN = "-"
HEADLINE = "headline"
"""Figure that a report begins with."""
ALL = -1
"""Value of ``limit`` for every row."""

_INDENT = 2
_STEP, _GROUP = "step", "group_id"
_TREE_CELLS = 40  # least cells of the column with a tree, if the tree is that wide
_NAME_CELLS = 26  # least cells of the first column, which names the rows
_DEEPEST = 40  # deeper levels of a tree are drawn on one level
_MEASURED = {measure.ending for unit, measure in quantities.MEASURES.items() if unit != "share"}
_ENDINGS = sorted({"_ps", "_bytes", *_MEASURED}, key=len, reverse=True)
_TITLES = {"info": "Remarks", "warning": "Warnings", "error": "Errors"}


def lines(report: AnalysisReport, look: Look, limit: int | None = None) -> Iterator[str]:
    """Yield the lines of a report. ``limit``: rows per table, or None for the layout of the analysis."""
    if report.inapplicable is not None:
        yield from as_text.wrap_paragraph(report.inapplicable, look)
        return
    analysis = runner.get_analysis(report.analysis)
    yield look.strong(runner.get_title(analysis))
    if get_headline(report):
        yield from ("", *as_text.wrap_paragraph(get_headline(report), look))
    yield from _format_notices("Recommendations", [n for n in report.notices if n.severity == "recommendation"], look)
    summaries: list[str] = []
    for section in list_sections(report, analysis):
        if section.summary is not None and not look.verbose:
            summaries.append(section.summary(report))
        elif look.verbose or section.table or any(report.scalars[name].value is not None for name in section.scalars):
            yield ""
            yield look.strong(fit_text(escape_text(section.title), look.width or len(section.title)))
            inner = look.narrower(_INDENT)
            if section.scalars:
                yield from _format_scalars(get_figures(section, report, analysis), inner)
            if section.table is not None:
                yield from _format_table(section, report, inner, limit)
    if summaries:
        yield ""
        for text in (*summaries, "--verbose shows more"):
            yield from as_text.wrap_paragraph(text, look)
    for severity, heading in _TITLES.items():
        # Remarks of prerequisites are shown only if the text is verbose.
        inherited = set()
        if severity == "info" and not look.verbose:
            inherited = {notice.text for other in report.after.values() for notice in other.notices}
        shown = [notice for notice in report.notices if notice.severity == severity and notice.text not in inherited]
        yield from _format_notices(heading, shown, look)


def get_headline(report: AnalysisReport) -> str:
    """Return the headline of a report, or "" without one."""
    value = report.scalars[HEADLINE].value if HEADLINE in report.scalars else None
    return value if isinstance(value, str) else ""


def get_label(name: str) -> str:
    """Return a figure name as words, without its unit: ``step_time_ps`` is "step time". "share" stays in the name."""
    bare = next((name.removesuffix(ending) for ending in _ENDINGS if name.endswith(ending)), name)
    return escape_text(bare or name).replace("_", " ")


def get_figure_name(name: str, analysis: Analysis) -> str:
    """Return the display name of a figure."""
    return analysis.SCALARS[name].label or get_label(name)


def label_value(value: str, words: Mapping[str, str]) -> str:
    """Return the display name of a value, or of each value of a list; other texts stay unchanged."""
    parts = value.split(", ")
    return ", ".join(words[part] for part in parts) if all(part in words for part in parts) else value


def get_figures(section: Section, report: AnalysisReport, analysis: Analysis) -> dict[str, Scalar]:
    """Return the figures of a section by display name, with display names of values."""
    figures = {name: report.scalars[name] for name in section.scalars}
    for name, words in section.words.items():
        if name in figures and isinstance(figures[name].value, str):
            figures[name] = replace(figures[name], value=label_value(str(figures[name].value), words))
    return {get_figure_name(name, analysis): figure for name, figure in figures.items()}


_MOST_CELLS: Final = 1_000
"""Cells at which figures that are names are cut: a capture may have names of any length."""


def format_value(scalar: Scalar) -> str:
    """Format a figure with its unit, or as ``-`` if it is unknown."""
    value = scalar.value
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return fit_text(escape_text(value), _MOST_CELLS)
    return quantities.format_measure(value, scalar.unit)


def list_sections(report: AnalysisReport, analysis: Analysis) -> list[Section]:
    """Return the sections that have something to show in this report."""
    every = analysis.SECTIONS or _make_plain_sections(report, analysis)
    return [section for section in every if section.shown is None or section.shown(report)]


def _make_plain_sections(report: AnalysisReport, analysis: Analysis) -> list[Section]:
    """Return the layout of an analysis that defines none: all figures, then all tables."""
    from fastprof.analyses.contract import Section

    figures = Section("Figures", scalars=tuple(report.scalars))
    return [figures, *(Section(get_label(name).capitalize(), name) for name in analysis.TABLES)]


def _format_scalars(scalars: Mapping[str, Scalar], look: Look) -> Iterator[str]:
    """Yield a line per figure: name, number, unit. Then the names of unknown figures, by reason."""
    known = {name: scalar for name, scalar in scalars.items() if scalar.reason is None}
    values = [_split_number(scalar, look) for scalar in known.values()]
    column = max(map(measure_width, known), default=0)
    right = max((measure_width(number) for number, _ in values), default=0)
    for (name, scalar), (number, unit) in zip(known.items(), values, strict=True):
        lead = " " * _INDENT + pad_text(name, column) + "  "
        if isinstance(scalar.value, str):
            yield from as_text.wrap_paragraph(format_value(scalar), look.narrower(-_INDENT), lead)
        else:
            yield (lead + pad_text(number, right, right=True) + f" {unit}").rstrip()
    for text in _explain_unknown((name, scalar.reason) for name, scalar in scalars.items()):
        yield from as_text.wrap_paragraph(text, look.narrower(-_INDENT), " " * _INDENT)


def _explain_unknown(names: Iterable[tuple[str, str | None]]) -> list[str]:
    """Return a sentence per reason for unknown figures. ``names``: names with reasons, or None if known."""
    unknown: dict[str, list[str]] = {}
    for name, reason in names:
        if reason is not None:
            unknown.setdefault(reason, []).append(name)
    return [f"Unknown: {', '.join(names)} ({reason})" for reason, names in unknown.items()]


def _split_number(scalar: Scalar, look: Look) -> tuple[str, str]:
    """Return number and unit separately, for alignment; both are empty for a string."""
    if isinstance(scalar.value, str):
        return "", ""
    number, _, unit = look.fit(format_value(scalar)).partition(" ")
    return number, unit


def _format_table(section: Section, report: AnalysisReport, look: Look, limit: int | None) -> Iterator[str]:
    rows, notes = select_rows(section, report, look, limit)
    if not rows.num_rows and not notes:
        yield " " * _INDENT + ("none" if report.steps is None else f"none in the chosen steps ({report.steps})")
        return
    if section.in_words:
        yield from format_paragraphs(rows, look, section.beside)
        for note in notes:
            yield from as_text.wrap_paragraph(note, look.narrower(-_INDENT))
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
        stays=_get_size_title(section.alike),
        wraps=section.wraps,
    )
    for line in laid_out:
        yield " " * _INDENT + line
    if left_out and look.verbose:
        names = ", ".join(reversed([get_label(name) for name in dict.fromkeys(left_out) if name]))
        notes.append(f"Hidden columns: {names}; --wide shows all")
    for note in notes:
        yield from as_text.wrap_paragraph(note, look.narrower(-_INDENT))


def select_rows(section: Section, report: AnalysisReport, look: Look, limit: int | None) -> tuple[pa.Table, list[str]]:
    """Return the rows and columns of a section, in layout order, and notes on what it does not show."""
    assert section.table is not None
    every = report.tables[section.table]
    columns, program = _drop_shared_program(_choose_columns(section, every), every)
    columns = [name for name in columns if look.verbose or name not in section.details]
    table = every.select(columns)
    for column, words in section.words.items():
        if column in columns:
            names = [name and label_value(name, words) for name in table[column].to_pylist()]
            table = _replace_texts(table, column, names)
    depths = None if section.depth is None else every[section.depth].to_numpy()
    most = section.rows if limit is None else limit
    if section.only is not None and limit != ALL:
        chosen = np.flatnonzero(section.only(every))
        if section.alike is None and section.nonzero is None and most != ALL:
            chosen = chosen[: max(most, 1)]  # no row past these is looked at
        table = _take_rows(table, chosen.tolist())
        depths = None if depths is None else depths[chosen]
    zeros: list[str] = []
    if section.nonzero is not None and limit != ALL:
        table, zeros = _drop_zeros(table, section.nonzero)
    if not table.num_rows:
        return table, []
    ungrouped = table.num_rows
    sizes = [1] * table.num_rows
    if section.alike is not None and most > 0 and look.width is not None:
        compared = every.select(section.alike.names + section.alike.by) if section.alike.by else None
        if compared is not None and compared.num_rows != table.num_rows:
            compared = None  # only some rows are shown
        table, sizes = merge_alike_rows(table, section.alike, section.bar, compared)
    rows = table if most == ALL else table.slice(0, most)
    sizes = sizes[: rows.num_rows]
    if section.kernels is not None:
        names = [name and shorten_kernel_name(name) for name in rows[section.kernels].to_pylist()]
        rows = _replace_texts(rows, section.kernels, names)
    if depths is not None:
        rows = _add_branches(rows, depths[: rows.num_rows].tolist(), look)
    reasons = {field.name: (field.metadata or {}).get(REASON) for field in rows.schema}
    notes = _explain_unknown((get_label(name), reason and reason.decode()) for name, reason in reasons.items())
    if not look.verbose and look.width is not None:  # columns without any known value say nothing
        needed = {rows.column_names[0], section.bar, *(section.alike.names if section.alike else ())}
        rows = rows.select([name for name in rows.column_names if name in needed or rows[name].null_count < len(rows)])
    total = every.num_rows
    shown = sum(sizes) + (0 if section.only is not None else total - ungrouped)
    if rows.num_rows < table.num_rows or (section.only is not None and shown < total):
        merged = f" in {quantities.count_noun(rows.num_rows, 'row', 'rows')}" if rows.num_rows < shown else ""
        notes.append(f"showing {shown:,} of {total:,}{merged}; --limit all shows the others")
    if section.alike is not None and max(sizes, default=1) > 1:
        rows = _add_sizes(rows, section.alike, sizes)
        notes.append(_describe_alike(section.alike, table.column_names))
    if program is not None:
        notes.append(f"All in program {escape_text(program)}")
    if zeros and look.verbose:
        notes.append(f"Always 0: {', '.join(zeros)}")
    return rows, notes


def _choose_columns(section: Section, table: pa.Table) -> list[str]:
    """Return the columns of a section, with the host if there are several: first, or second in a tree."""
    columns = list(section.columns or table.column_names)
    columns = [name for name in columns if name not in section.parts or _has_value(table[name])]
    if "host" in columns or "host" not in table.column_names or len(set(table["host"].to_pylist())) < 2:
        return columns
    columns.insert(0 if section.depth is None else 1, "host")
    return columns


def _has_value(column: pa.ChunkedArray) -> bool:
    """Return whether a value is neither null nor 0, false or empty."""
    values = column.to_numpy()  # None becomes NaN among numbers
    return bool((np.nan_to_num(values) != 0).any()) if values.dtype.kind == "f" else bool(values.any())


def _drop_shared_program(columns: list[str], table: pa.Table) -> tuple[list[str], str | None]:
    """Remove the column ``program`` if all rows have the same program, and return that program; else None."""
    if "program" not in columns or len(columns) < 2 or table.num_rows < 2:
        return columns, None
    programs = set(table["program"].to_pylist())
    if len(programs) != 1 or not (program := programs.pop()):
        return columns, None
    return [name for name in columns if name != "program"], program


def rank_columns(report: AnalysisReport, table: str, *, wide: bool = False) -> list[str]:
    """Return the columns of a table: the run, if there are several, then those that the report shows, then the others.
    The group of a step is left out beside its number unless the text is ``wide``."""
    sections = [section for section in runner.get_analysis(report.analysis).SECTIONS if section.table == table]
    names = report.tables[table].column_names
    shown = [name for section in sections for name in _choose_columns(section, report.tables[table]) if name in names]
    runs = [name for name in names[:1] if name == RUN.name]
    every = dict.fromkeys([*runs, *shown, *names])
    return [name for name in every if wide or name != _GROUP or _STEP not in every]


def _drop_zeros(table: pa.Table, column: str) -> tuple[pa.Table, list[str]]:
    """Remove names, in the column before ``column``, that have 0 in all rows, and return them, unless all are 0."""
    names = table[table.column_names.index(column) - 1].to_pylist()
    values = table[column].to_pylist()
    nonzero = {name for name, value in zip(names, values, strict=True) if value != 0}
    if not nonzero:
        return table, []
    rows = [row for row, name in enumerate(names) if name in nonzero]
    return _take_rows(table, rows), [escape_text(str(name)) for name in dict.fromkeys(names) if name not in nonzero]


def _take_rows(table: pa.Table, rows: Iterable[int]) -> pa.Table:
    """Take a few rows. Table.take would import pyarrow.compute, which takes longer than most questions."""
    columns = [pa.array([column[row].as_py() for row in rows], column.type) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _add_sizes(table: pa.Table, alike: Alike, sizes: Sequence[int]) -> pa.Table:
    """Add a column with the number of merged rows, after the names."""
    after = table.column_names.index(alike.names[0]) + 1
    texts = [f"{size:,} alike" if size > 1 else "" for size in sizes]
    return table.add_column(after, _get_size_title(alike), pa.array(texts, pa.string()))


def _describe_alike(alike: Alike, columns: Sequence[str]) -> str:
    names = ", ".join(get_label(name) for name in columns if name in alike.summed)
    sums = f"summed: {names}; " if names else ""
    rest = f"{sums}other columns show the first row"
    return f"Rows with similar names and values within 10 % are merged; {rest}; --limit all shows each"


def _get_size_title(alike: Alike | None) -> str:
    """Return the title of the column with the number of merged rows; empty without one."""
    return "" if alike is None else "sum of" if alike.summed else "rows"


def _add_branches(table: pa.Table, depths: Sequence[int], look: Look) -> pa.Table:
    """Draw the branches of a tree before the strings of the first column."""
    lines = zip(draw_branches(depths, look.unicode), table.column(0).to_pylist(), strict=True)
    return _replace_texts(table, table.column_names[0], [branch + (name or "") for branch, name in lines])


def _replace_texts(table: pa.Table, column: str, texts: list[str | None]) -> pa.Table:
    return table.set_column(table.column_names.index(column), column, pa.array(texts, pa.string()))


def draw_branches(depths: Sequence[int], unicode: bool) -> list[str]:
    """Return the branches from the parent to each row of a tree. ``depths``: depth of the rows in preorder; a row of
    depth 0 begins a tree."""
    passing, fork, end = ("\u2502  ", "\u251c\u2500 ", "\u2514\u2500 ") if unicode else ("|  ", "|- ", "`- ")
    drawn = []
    depths = [min(depth, _DEEPEST) for depth in depths]
    open_levels: list[bool] = []  # by level: whether another row of the level follows before the level ends
    for depth in reversed(depths):
        follows = len(open_levels) > depth and open_levels[depth]
        open_levels = [*open_levels[: depth + 1], *[False] * (depth + 1 - len(open_levels))]
        open_levels[depth] = True
        above = "".join(passing if is_open else "   " for is_open in open_levels[1:depth])
        drawn.append(above + (fork if follows else end) if depth else "")
    return drawn[::-1]


def _format_notices(title: str, notices: Sequence[Notice], look: Look) -> Iterator[str]:
    if not notices:
        return
    yield ""
    yield look.strong(title if len(notices) > 1 else title.removesuffix("s"))
    for notice in notices:
        for line in notice.text.splitlines() or [""]:
            yield from as_text.wrap_paragraph(line, look, "  ")
