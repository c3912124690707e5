"""Reports and tables as short JSON documents, for programs that pay by the byte: at most 4,096 bytes.

    {"status": "ok", "verb": "steps",
     "session": {"paths": ["logs"], "run": "2026_…", "hosts": 2, "files": 2, "remarks": ["read the run …"]},
     "answer": "Steps take 5.937 ms on average; the longest takes 6.679 ms.",
     "figures": {"step_time_mean_ps": 5937000000, …}, "unknown": {"why …": ["infeed_ps", …]}, "caveats": ["…"],
     "tables": {"steps": {"total": 300, "rows": [{"key": "3f9a01c2", "step": 4, …}, …]}, "slow_steps": {"total": 1}},
     "more": ["fastprof steps logs --format json --table steps --limit 100"]}

``status`` is "ok", "cannot_answer" (with ``reason`` and ``remedy``) or "error". Keys without content are left out, but
for ``answer``, which is null if the capture has none. If the document is too long, rows are
left out first, then tables, then further figures, reasons and caveats; the answer and its figures stay. ``total`` is
the number of rows of the table, before any limit. Cells that are null are left out of rows. The ``key`` of a row
depends on what the row is about, not on its amounts or its place.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from fastprof.analyses import runner
from fastprof.render.report_text import format_value, get_figure_name, list_sections
from fastprof.render.rows import number_names
from fastprof.wording.cells import is_text
from fastprof.wording.json_values import format_json
from fastprof.wording.patterns import compile_late
from fastprof.wording.quantities import count_noun

if TYPE_CHECKING:
    from fastprof.analyses.contract import AnalysisReport, Opening, Scalar

MOST_BYTES: Final = 4096
MOST_ROWS: Final = 10
LARGEST_LIMIT: Final = 50
"""Rows of a table, at most and on request."""
_ROWS: Final = (10, 8, 6, 5, 4, 3, 2, 1)
"""Rows of the main table, tried in this order."""
_MOST_LETTERS: Final = 160
"""Letters of a cell; a sentence has up to ``_MOST_SENTENCE``."""
_MOST_SENTENCE: Final = 400
_SENTENCES: Final = ("advice", "detail")
"""Columns of sentences. The first row of a table has them uncut, because cut advice loses the code to write."""
_MOST_PATHS: Final = 3
_MOST_CAVEATS: Final = 4
_FIGURE: Final = compile_late(r"\{(\w+)\}")
_ADVICE: Final = compile_late(
    r"(?<=\.) (?=[A-Z`])|(?<=[;:]) (?=(?:add|choose|copy|did you mean|enable|give|install|pass|profile|record|run|"
    r"select|set|use|write)\b)",
    re.ASCII,
)
"""Where advice may begin: at the next sentence, or at a clause that begins with what to do."""
_SIGNIFICANT: Final = 7
"""Digits of the floats in rows; integers, also those of floats, are exact."""
_EXACT: Final = 2.0**53
_MOST_WORDED: Final = 3
_IDENTIFIERS: Final = ("step", "depth", "ordinal")
_UNNAMED: Final = ("rows", "sql")
"""Tables that have no name, because a query made them."""

Document = dict[str, Any]


class Question(NamedTuple):
    """The question that a document answers. ``words``: the session and the flags of the command; ``paths``: as the user
    gave it; ``remarks``: sentences on what was chosen or lost while reading; ``limit``: rows that are shown, at most;
    ``rest``: the flags that show more rows, with ``{first}`` for the first one; ``tool``, ``given``: a tool of the
    server and its arguments, if calls show more in place of commands."""

    verb: str
    words: str = ""
    paths: Sequence[str] = ()
    run: str | None = None
    hosts: int | None = None
    files: int | None = None
    remarks: Sequence[str] = ()
    limit: int = MOST_ROWS
    rest: str = "--format json --limit 100"
    tool: str = ""
    given: Mapping[str, Any] = MappingProxyType({})

    def describe(self) -> Document:
        return leave_out_empty({
            "paths": [shorten(path) for path in self.paths[:_MOST_PATHS]],
            "run": self.run,
            "hosts": self.hosts,
            "files": self.files,
            "remarks": [shorten(remark, _MOST_SENTENCE) for remark in self.remarks[:_MOST_PATHS]],
        })  # fmt: skip

    def ask_for_rows(self, table: str | None, first: int) -> str:
        """Return the command or the call that shows the rows from ``first`` on. ``table``: of a report."""
        if self.tool:
            return self.call(self.tool, **({} if table is None else {"table": table}), offset=first)
        chosen = [] if table is None else ["--table", shlex.quote(table)]
        rest = self.rest.replace("{first}", str(first))
        return " ".join(word for word in ("fastprof", self.verb, self.words, *chosen, rest) if word)

    def call(self, tool: str, **changes: Any) -> str:
        """Return a call of a tool with the given arguments, and with these in their place."""
        given = {name: shorten(value) if name == "query" else value for name, value in self.given.items()}
        words = ", ".join(f"{name}={format_json(value)}" for name, value in {**given, **changes}.items())
        return f"{tool}({words})"


def shorten(text: str, letters: int = _MOST_LETTERS) -> str:
    return text if len(text) <= letters else text[: letters - 1] + "…"


def split_advice(text: str) -> tuple[str, str | None]:
    """Return the reason that a text begins with, and the advice after it, or None; code and parentheses stay whole."""
    for end in _ADVICE.finditer(text):
        before = text[: end.start()]
        if before.count("`") % 2 == 0 and before.count("(") == before.count(")"):
            return before.rstrip(";:"), text[end.end() :]
    return text, None


def leave_out_empty(document: Document) -> Document:
    """Return the document without keys that have no content; ``answer`` stays."""
    return {key: value for key, value in document.items() if key == "answer" or value not in (None, {}, [])}


# ---- reports


def summarise_report(
    report: AnalysisReport,
    question: Question,
    most: int = MOST_BYTES,
    *,
    tables: Mapping[str, pa.Table] | None = None,
    chosen: Mapping[str, Scalar] | None = None,
    more: Sequence[str] = (),
    first_row: int = 0,
    choice: str = "",
) -> Document:
    """Return the document of a report, in at most ``most`` bytes. ``tables``, ``chosen``: tables and figures to show in
    place of those of the report; ``more``: commands in place of those that show its tables; ``first_row``: the first
    row that is shown of each table; ``choice``: the choice of the only table, such as ``ops?bound_by=HBM``."""
    opening = get_opening(report)
    scalars = report.scalars if chosen is None else chosen
    first = [name for name in opening.figures if name in scalars] if chosen is None else list(chosen)
    sentence = write_headline(report, opening) or write_substitute(report, opening)
    silence = explain_silence(report)
    reason, remedy = split_advice(silence or "")
    if silence and remedy is None:
        advice = (notice.text for notice in report.notices if notice.severity == "recommendation")
        remedy = next(advice, getattr(runner.get_analysis(report.analysis), "REMEDY", None))
    document = {
        "status": "cannot_answer" if silence else "ok",
        "reason": shorten(reason, _MOST_SENTENCE) or None,
        "remedy": remedy and shorten(remedy, _MOST_SENTENCE),
        "verb": question.verb,
        "session": question.describe(),
        "answer": None if silence else shorten(sentence, _MOST_SENTENCE),
    }
    known = {name: figure.value for name, figure in scalars.items() if figure.value is not None}
    figures = {name: known[name] for name in (*first, *known) if name in known}
    every = report.tables if tables is None else tables
    main = next(iter(every), "")
    caveats = [f"The table {name} has no such row." for name in tables or {} if not len(every[name])]
    caveats += [notice.text for notice in report.notices if notice.text not in (sentence, silence)]

    def build(rows: tuple[int, int], names: Sequence[str], all_figures: bool, reasons: int) -> Document:
        chosen_figures = figures if all_figures else {name: value for name, value in figures.items() if name in first}
        shown = {
            name: cut_table(every[name], rows[name != main], _list_columns(report, name), first_row) for name in names
        }
        ends = {name: first_row + len(table.get("rows", ())) for name, table in shown.items()}
        return document | {
            "figures": {
                name: shorten(value) if isinstance(value, str) else value for name, value in chosen_figures.items()
            },
            "unknown": _group_reasons(scalars, reasons),
            "caveats": [shorten(text, _MOST_SENTENCE) for text in caveats[:reasons]],
            "tables": shown,
            "more": more
            or [question.ask_for_rows(choice or name, end) for name, end in ends.items() if end < len(every[name])][:3],
        }

    return fit(build, list(every), most, question.limit)


def fit(
    build: Callable[[tuple[int, int], Sequence[str], bool, int], Document],
    tables: Sequence[str],
    most: int,
    limit: int = MOST_ROWS,
) -> Document:
    """Return the longest document of at most ``most`` bytes: with fewer rows, then fewer tables, then less beside the
    answer. ``limit``: rows of the main table, at most."""
    none = (0, 0)
    rows_tried = [(limit, min(limit, others)) for others in (3, 1)]
    rows_tried += [(count, 0) for count in (limit, 40, 30, 20, 15, *_ROWS) if count <= limit]
    attempts = [(rows, tables, True, _MOST_CAVEATS) for rows in (*rows_tried, none)]
    attempts += [(none, tables[:count], True, _MOST_CAVEATS) for count in (8, 4, 1) if count < len(tables)]
    attempts += [(none, tables[:count], False, caveats) for count, caveats in ((4, _MOST_CAVEATS), (2, 2), (0, 0))]
    document: Document = {}
    for attempt in attempts:
        document = leave_out_empty(build(*attempt))
        if len(format_json(document)) < most:
            return document
    return {name: value for name, value in document.items() if name != "figures"}


def get_opening(report: AnalysisReport) -> Opening:
    from fastprof.analyses.contract import Opening

    analysis = runner.get_analysis(report.analysis)
    return getattr(analysis, "OPENING", Opening((), tuple(report.scalars)[:6]))


def write_headline(report: AnalysisReport, opening: Opening) -> str:
    """Return the first sentence whose figures are all known and whose first figure is not 0; without one, ""."""
    for sentence in opening.headlines:
        names = _FIGURE.findall(sentence)
        values = [report.scalars[name].value for name in names]
        if values[0] and None not in values:
            for name, value in zip(names, values, strict=True):
                written = value if isinstance(value, str) else format_value(report.scalars[name])
                sentence = sentence.replace(f"{{{name}}}", written)
            return sentence
    return ""


def write_substitute(report: AnalysisReport, opening: Opening) -> str:
    """Return the answer of a report whose headlines lack figures: a warning or advice, missing records, the first
    figures in words, or any remark."""
    remarks = [notice.text for notice in report.notices if notice.severity != "info"]
    remarks += [notice.text for notice in report.notices if notice.text.startswith("No")]
    if remarks:
        return remarks[0]
    analysis = runner.get_analysis(report.analysis)
    known = [report.scalars[name] for name in opening.figures if report.scalars[name].value]
    words = [f"{get_figure_name(figure.name, analysis)}: {format_value(figure)}" for figure in known[:_MOST_WORDED]]
    return "; ".join(words) or next((notice.text for notice in report.notices), "")


def explain_silence(report: AnalysisReport) -> str | None:
    """Return why a report has no answer, or None if it has one."""
    if report.failure is not None:
        return str(report.failure)
    if report.inapplicable is not None:
        return report.inapplicable
    known = [name for name, figure in report.scalars.items() if figure.value]
    has_rows = any(table.num_rows for table in report.tables.values())
    if has_rows or not all(name.endswith("_count") for name in known):  # counts of devices and steps are no answer
        return None
    loudest = sorted(report.notices, key=lambda notice: notice.severity == "info")
    notices = [notice.text for notice in loudest]
    reasons = [figure.reason for figure in report.scalars.values() if figure.reason]
    return next(iter((*notices, *reasons)), "the capture has no records for this question")


def _group_reasons(scalars: Mapping[str, Scalar], most: int) -> dict[str, list[str]]:
    """Return the unknown figures by reason, for the ``most`` commonest reasons."""
    reasons: dict[str, list[str]] = {}
    for name, figure in scalars.items():
        if figure.value is None and figure.reason:
            reasons.setdefault(shorten(figure.reason, _MOST_SENTENCE), []).append(name)
    commonest = sorted(reasons, key=lambda reason: -len(reasons[reason]))[:most]
    return {reason: reasons[reason][:MOST_ROWS] for reason in commonest}


def _list_columns(report: AnalysisReport, table: str) -> list[str] | None:
    """Return the columns that the text of the report shows, or None for all."""
    for section in list_sections(report, runner.get_analysis(report.analysis)):
        if section.table == table and section.columns:
            names = [*section.columns, *([section.bar] if section.bar else [])]
            return list(dict.fromkeys(name for name in names if name in report.tables[table].column_names))
    return None


# ---- tables


def summarise_table(
    name: str,
    table: pa.Table,
    question: Question,
    total: int,
    figures: Mapping[str, Any] | None = None,
    first_row: int = 0,
    caveats: Sequence[str] = (),
    *,
    answer: str = "",
    absent: str = "",
) -> Document:
    """Return the document of a table that belongs to no report. ``table``: the first rows of ``total``; ``first_row``:
    the first row to show; ``answer``: in place of the number of rows; ``absent``: why a capture has no rows, and what
    to do."""
    reason, remedy = split_advice("" if total else absent)
    head = {
        "status": "cannot_answer" if reason else "ok",
        "reason": reason or None,
        "remedy": remedy,
        "verb": question.verb,
        "session": question.describe(),
    }
    sentence = answer or (_write_row(table) if total == 1 else "")
    sentence = sentence or count_noun(total, "row", "rows") + ("" if name in _UNNAMED else f" of {name}")

    def build(rows: tuple[int, int], tables: Sequence[str], _all_figures: bool, _reasons: int) -> Document:
        shown = {name: cut_table(table, rows[0], None, first_row) | {"total": total}} if tables else {}
        own = shown.get(name, {}).get("rows", ())
        end = first_row + len(own)
        columns = zip(table.column_names, table.slice(first_row, len(own)).columns, strict=True)
        long = (name if name.isidentifier() else f'"{name}"' for name, column in columns
                if any(isinstance(cell, str) and len(cell) > _MOST_LETTERS for cell in column.to_pylist()))  # fmt: skip
        remarks = [*caveats]
        if question.verb == "sql" and (cut := next(long, "")):
            remarks.append(
                f"Texts are cut after {_MOST_LETTERS - 1} letters: substr({cut}, {_MOST_LETTERS}) is the rest."
            )
        return head | {
            "answer": None if reason else sentence,
            "figures": {
                name: value if isinstance(value, float) else _cut_cell(value)
                for name, value in (figures or {}).items()
                if value is not None
            },
            "caveats": [shorten(text, _MOST_SENTENCE) for text in remarks],
            "tables": shown,
            "more": [question.ask_for_rows(None, end)] if end < total else [],
        }

    names = _list_names(table)
    if names is not None:
        document = build((0, 0), [name], True, 0) | {"tables": {name: {"total": total, **names}}, "more": []}
        if len(format_json(document)) < MOST_BYTES:
            return leave_out_empty(document)
    return fit(build, [name], MOST_BYTES, question.limit)


def _list_names(table: pa.Table) -> dict[str, list[str]] | None:
    """Return the names in a table of SQL that describes columns or lists tables, in few bytes, or None if it is another
    one. Tables of a report stand behind its name: ``steps: steps, slow_steps``."""
    if not all(is_text(column.type) and not column.null_count for column in table.columns[:1]):
        return None
    if table.column_names[:2] == ["column_name", "column_type"]:
        described = zip(table["column_name"].to_pylist(), table["column_type"].to_pylist(), strict=True)
        return {"columns": [f"{name} {kind}" for name, kind in described]}
    if table.column_names != ["table", "row", "columns"]:
        return None
    of_reports: dict[str, list[str]] = {}
    for name in table["table"].to_pylist():
        report, _, of_report = name.rpartition(".")
        of_reports.setdefault(report, []).append(of_report)
    return {
        "names": [
            f"{report}: {', '.join(names)}" if report else ", ".join(names) for report, names in of_reports.items()
        ]
    }


def _write_row(table: pa.Table) -> str:
    """Return the cells of the only row in words; "" if there are many, or long ones."""
    cells = [(name, column[0].as_py()) for name, column in zip(table.column_names, table.columns, strict=True)]
    words = [
        f"{name} = {'null' if cell is None else f'{cell:,}' if type(cell) is int else _cut_cell(cell)}"
        for name, cell in cells
    ]
    sentence = "; ".join(words)
    return sentence if len(cells) <= _MOST_WORDED and len(sentence) <= _MOST_LETTERS else ""


def cut_table(table: pa.Table, rows: int, columns: Sequence[str] | None, first: int = 0) -> Document:
    """Return ``rows`` rows of a table from row ``first`` on, with their keys, without the cells that are null."""
    head = table.slice(first, rows)
    shown = head if columns is None else head.select(columns)
    names = number_names(shown.schema)
    cells = [[_cut_cell(value) for value in column.to_pylist()] for column in shown.columns]
    for name, whole, column in zip(names, shown.columns, cells, strict=True):
        if name in _SENTENCES and column and isinstance(sentence := whole[0].as_py(), str):
            column[0] = shorten(sentence, _MOST_SENTENCE)
    keys = list_keys(table.slice(0, first + rows))[first:]
    listed = [
        {"key": key, **{name: cell for name, cell in zip(names, row, strict=True) if cell is not None}}
        for key, row in zip(keys, zip(*cells, strict=True), strict=True)
    ]
    return {"total": table.num_rows, **({"rows": listed} if listed else {})}


def _cut_cell(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return value
    if isinstance(value, float):
        return float(f"{value:.{_SIGNIFICANT}g}")
    if isinstance(value, str):
        return shorten(value)
    if isinstance(value, bytes | list | dict):
        return shorten(format_json(value) if not isinstance(value, bytes) else value.hex())
    return value


def list_keys(table: pa.Table) -> list[str]:
    """Return a key for each row: a digest of its strings and identifiers, and the place among rows that share them."""
    named = []
    for place, field in enumerate(table.schema):
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        is_id = field.name.endswith("_id") or field.name in _IDENTIFIERS
        if (pa.types.is_integer(kind) and is_id) or (is_text(kind) and not (field.metadata or {}).get(b"unit")):
            named.append(place)
    columns = [table.column(place).to_pylist() for place in named]  # a query may give two columns one name
    seen: Counter[str] = Counter()
    keys = []
    for row in zip(*columns, strict=True) if columns else [()] * table.num_rows:
        digest = blake2b(repr(row).encode(), digest_size=4).hexdigest()
        seen[digest] += 1
        keys.append(digest if seen[digest] == 1 else f"{digest}.{seen[digest]}")
    return keys


def summarise_columns(report: AnalysisReport, question: Question, table: str | None) -> Document:
    """Return the document of the columns of each table of a report, or of one table with their types."""
    names = list(report.tables) if table is None else [table]
    schemas = {name: report.tables[name].schema for name in names}
    head = {"status": "ok", "verb": question.verb, "session": question.describe()}

    def build(_rows: tuple[int, int], tables: Sequence[str], _all_figures: bool, _reasons: int) -> Document:
        typed = {name: [f"{field.name} {field.type}" for field in schemas[name]] for name in tables}
        listed = typed if table is not None else {name: schemas[name].names for name in tables}
        described = {name: {"total": len(report.tables[name]), "columns": listed[name]} for name in tables}
        answer = f"{report.analysis} has {count_noun(len(report.tables), 'table', 'tables')}"
        left_out = [f"the table {name} has no room: choose it alone" for name in names if name not in described]
        return head | {"answer": answer, "tables": described, "caveats": left_out}

    return fit(build, names, MOST_BYTES)


# ---- several answers, and none


def summarise_several(
    documents: Mapping[str, Callable[[int], Document]], kind: str, most: int = MOST_BYTES
) -> Document:
    """Return one document of several, by name: each gets an equal share of ``most`` bytes, and those that have no room
    are counted. ``kind``: "runs" or "reports"."""
    room = most - 200
    share = max(room // max(len(documents), 1), 350)
    answered: dict[str, Document] = {}
    silent: list[str] = []
    for name, make in documents.items():
        document = make(share)
        if document["status"] == "cannot_answer" and kind == "reports":
            silent.append(name)
            continue
        document = {key: value for key, value in document.items() if key not in ("session", "verb", "more")}
        if len(format_json(answered)) + len(format_json(document)) + len(name) > room - len(format_json(silent)):
            break
        answered[name] = document
    left_out = len(documents) - len(answered) - len(silent)
    return {"status": "ok", kind: answered, "cannot_answer": silent, f"{kind}_left_out": left_out}


def summarise_error(message: str, advice: Sequence[str], verb: str | None) -> Document:
    """Return the document of a command that failed."""
    reason, remedy = (message, "; ".join(advice)) if advice else split_advice(message)
    return leave_out_empty({
        "status": "error",
        "reason": shorten(reason, 2 * _MOST_SENTENCE),
        "remedy": remedy and shorten(remedy, _MOST_SENTENCE),
        "verb": verb,
    })  # fmt: skip


def write_document(document: Document) -> Iterator[bytes]:
    """Yield a document in at most ``MOST_BYTES``, with its line end. If names of unusual length leave it too long, it
    loses runs or reports, then commands, remarks and tables, then letters."""
    text = format_json(document)
    for kind in ("runs", "reports"):
        while len(text) >= MOST_BYTES and document.get(kind):
            parts = dict(list(document[kind].items())[:-1])
            document = document | {kind: parts, f"{kind}_left_out": document.get(f"{kind}_left_out", 0) + 1}
            text = format_json(document)
    for key in ("more", "unknown", "caveats", "tables", "session"):
        if len(text) >= MOST_BYTES and key in document:
            document = {name: value for name, value in document.items() if name != key}
            text = format_json(document)
    for letters in (200, 60, 15):
        if len(text) >= MOST_BYTES:
            short = {name: _cut_strings(value, letters) for name, value in document.items()}
            text = format_json(short)
    yield text.encode("ascii") + b"\n"


def _cut_strings(value: Any, letters: int) -> Any:
    """Return a value with its strings shortened, those of its items too."""
    if isinstance(value, str):
        return shorten(value, letters)
    if isinstance(value, list):
        return [_cut_strings(item, letters) for item in value]
    if isinstance(value, dict):
        return {shorten(key, letters): _cut_strings(item, letters) for key, item in value.items()}
    return value
