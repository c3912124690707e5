"""The verbs of the analyses, made from the registry: each has one flag per parameter, and writes its report.

An analysis is imported only when its verb is used, because the list of verbs must stay quick. ``--table`` names a table
and which of its rows: ``by_cause?cause=transfer&device=TPU:0``, as findings give their evidence.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from fastprof.analyses import ANALYSES
from fastprof.cli import arguments, output, process
from fastprof.errors import UsageError
from fastprof.render import report_graphics
from fastprof.render.table_forms import FORMATS, Look
from fastprof.wording.spelling import suggest_name

if TYPE_CHECKING:
    import pyarrow as pa


class TableChoice(NamedTuple):
    """A table, and the rows of it that are shown. ``equal``: columns, and the value of each as a string."""

    name: str
    equal: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """Return the text that ``parse_table_choice`` reads."""
        from urllib.parse import quote

        query = "&".join(f"{quote(column, safe='')}={quote(value, safe=':/ ')}" for column, value in self.equal)
        return f"{self.name}?{query}" if query else self.name

    def rows_of(self, table: pa.Table) -> pa.Table:
        """Return the rows in which the columns have these values. UsageError: the table lacks such a column."""
        import pyarrow as pa
        import pyarrow.compute as pc

        for column, value in self.equal:
            if column not in table.column_names:
                known = ", ".join(table.column_names) + suggest_name(column, table.column_names)
                raise UsageError(f"--table: the table {self.name} has no column {column!r}; it has: {known}")
            text = value.encode("utf-8", "surrogateescape")  # bytes of an argument outside of UTF-8
            there = pc.equal(pc.cast(pc.cast(table[column], pa.string()), pa.binary()), pa.scalar(text, pa.binary()))
            table = table.filter(there)  # rows whose value is unknown go, too
        return table


def parse_table_choice(text: str) -> TableChoice:
    """Parse a choice of a table. ValueError: the text is not one."""
    from urllib.parse import parse_qsl  # late: few commands name a table

    name, _, query = text.partition("?")
    try:
        return TableChoice(name, tuple(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))))
    except ValueError:
        raise ValueError(f"{query!r} is not COLUMN=VALUE, or several of these with & between them") from None


def parse_choice_among(names: Collection[str], text: str) -> TableChoice:
    """Parse a choice among the tables ``names``. ValueError: the text is not one."""
    choice = parse_table_choice(text)
    if choice.name not in names:
        close = suggest_name(choice.name, names)
        raise ValueError(f"invalid choice: {choice.name!r}{close} (choose from {', '.join(names)})")
    return choice


if TYPE_CHECKING:
    import dataclasses

    from fastprof.analyses.contract import Analysis, AnalysisReport
    from fastprof.profile.profile import Profile

    Reports: TypeAlias = Mapping[str, Mapping[str, AnalysisReport]]
    """Reports by name of the run, then of the analysis."""

REPORT_FORMATS = (*FORMATS, "xprof")
DOCUMENTS = ("xprof", "svg", "speedscope", "pprof")
"""Formats that hold an entire report in one document, and the report of one run only."""
_RENDERERS = {"json": "render.report_json", "table": "render.report_text", "xprof": "xprof.report_xprof"}


class AnalysisVerb:
    """The verb of one analysis, as cli/main.py takes it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.__doc__ = ANALYSES[name]

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        analysis = import_analyses([self.name])[self.name]
        parser.description = analysis.__doc__
        arguments.add_session(parser)
        add_choice(parser)
        add_params(parser, [self.name])
        group = add_output(parser, list_formats(self.name))
        group.add_argument(
            "--table",
            metavar="NAME[?COLUMN=VALUE]",
            type=arguments.make_reader(partial(parse_choice_among, tuple(analysis.TABLES))),
            help=f"show only this table, or only its rows where COLUMN is VALUE; tables: {', '.join(analysis.TABLES)} "
            "(default for CSV and Arrow: the first)",
        )
        arguments.add_talk(parser)

    def run(self, args: argparse.Namespace) -> None:
        form = output.choose_format(args.format, args.output, list_formats(self.name))
        if form in DOCUMENTS and args.table:
            raise UsageError(f"--table cannot be combined with --format {form}, because a document has all tables")
        session = arguments.select_events(arguments.open_session(args), args)
        profile = session if form in DOCUMENTS else session.by_job
        with output.open_sink(args, form) as sink:
            reports = make_reports(profile, [self.name], args, form)
            tables = next(iter(reports.values()))[self.name].tables
            table = args.table or (TableChoice(next(iter(tables))) if form in ("csv", "arrow") else None)
            if form == output.BRIEF:
                send_brief(sink, reports, args, table)
            elif table is not None:
                send_table(sink, merge_runs(profile, reports, args)[self.name], table, form, args)
            else:
                sink.send(write_reports(profile, reports, form, sink.look, args.limit, several=False))
        if table is not None and args.table is None:
            others = ", ".join(name for name in tables if name != table.name)
            if others:
                args.talk.note(f"showing the table {table.name}; choose another with --table: {others}")
        arguments.note_log(session, args)
        output.note_written(args)


def list_formats(name: str) -> tuple[str, ...]:
    """Return the formats that this report has."""
    drawn = ("svg",) if name in report_graphics.DRAWN else ()
    stacked = ("speedscope", "pprof") if name in report_graphics.STACKED else ()
    return (*REPORT_FORMATS, *drawn, *stacked)


def import_analyses(names: Iterable[str]) -> dict[str, Analysis]:
    """Import these analyses, their prerequisites and all that they need, and return the modules by name."""
    with process.hold_signals():
        from fastprof.analyses import runner

        return runner.add_prerequisites(names)


# ---- flags


def add_choice(parser: argparse.ArgumentParser) -> None:
    """Add the flags that select hosts and steps, and the number of processes that read hosts."""
    arguments.add_choice(parser)
    arguments.add_jobs(parser)


def add_output(parser: argparse.ArgumentParser, formats: Sequence[str] = REPORT_FORMATS) -> Any:
    """Add the flags for format and destination, and return their group."""
    return arguments.add_output(parser, "rows per table", formats, usual="as laid out by the analysis")


def add_params(parser: argparse.ArgumentParser, names: Iterable[str]) -> None:
    """Add a flag for each parameter of the analyses and their prerequisites; analyses share equal parameters."""
    from fastprof.analyses import runner

    fields = runner.list_fields(names)
    if fields:
        group = parser.add_argument_group("parameters")
        for field in fields:
            group.add_argument(get_flag(field.name), dest=f"param_{field.name}", default=None, **_make_reading(field))
    parser.set_defaults(params=tuple(field.name for field in fields))


def get_flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _make_reading(field: dataclasses.Field[Any]) -> dict[str, Any]:
    """Return the arguments of add_argument for a parameter."""
    from fastprof.analyses import parameters

    kind, default = parameters.get_kind(field), field.default
    if isinstance(default, bool):
        default = "yes" if default else "no"
    usual = "" if default is None else f" (default: {default})"
    described = {"help": f"{field.metadata['help']}{usual}".replace("%", "%%")}
    if bool in kind.types:
        return {**described, "action": argparse.BooleanOptionalAction}
    if "choices" in field.metadata and not field.metadata.get("or_name"):
        return {**described, "choices": tuple(field.metadata["choices"])}
    read = arguments.make_reader(partial(parameters.parse_param, field))
    return {**described, "type": read, "metavar": field.metadata.get("metavar", kind.metavar)}


def get_params(args: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters that the command line sets; the others keep their defaults."""
    given = {name: getattr(args, f"param_{name}") for name in args.params}
    return {name: value for name, value in given.items() if value is not None}


# ---- writing


def send_table(
    sink: output.Sink, report: AnalysisReport, choice: TableChoice, form: str, args: argparse.Namespace
) -> None:
    """Write one table of a report, and note the columns that did not fit."""
    every = report.tables[choice.name]
    rows = choice.rows_of(every)
    if form == "table":
        from fastprof.render import report_text

        rows = rows.select(report_text.rank_columns(report, choice.name, wide=sink.look.width is None))
    output.send_table(args, sink, rows, choice.name, form, "rows", by_worth=True)
    if not rows.num_rows:
        why = "" if report.steps is None else f": only steps {report.steps} are selected"
        args.talk.note(f"the table {choice.name} {'has no such row' if every.num_rows else 'is empty'}{why}")
    for notice in report.notices:  # a table cannot hold them
        if notice.severity in ("warning", "error"):
            args.talk.note(notice.text)


def send_brief(
    sink: output.Sink, reports: Reports, args: argparse.Namespace, choice: TableChoice | None = None
) -> None:
    """Write reports as one brief document. ``choice``: the only table to show; its figures stay."""
    from fastprof.render import brief

    question = output.make_question(args)

    def summarise_one(report: AnalysisReport, most: int) -> brief.Document:
        tables = None if choice is None else {choice.name: choice.rows_of(report.tables[choice.name])}
        asked = question._replace(verb=report.analysis.replace("_", "-"))
        import shlex

        if asked.verb != question.verb:  # each report has flags of its own
            words = [*question.paths, *output.list_given(args, common=True)]
            asked = asked._replace(words=" ".join(map(shlex.quote, words)))
        return brief.summarise_report(report, asked, most, tables=tables, choice="" if choice is None else str(choice))

    def summarise_run(of_run: Mapping[str, AnalysisReport], most: int = brief.MOST_BYTES) -> brief.Document:
        if len(of_run) == 1:
            return summarise_one(next(iter(of_run.values())), most)
        return brief.summarise_several(
            {name: partial(summarise_one, report) for name, report in of_run.items()}, "reports", most
        )

    runs = {name: partial(summarise_run, of_run) for name, of_run in reports.items()}
    document = brief.summarise_several(runs, "runs") if len(runs) > 1 else next(iter(runs.values()))()
    sink.send(brief.write_document(document))


def make_reports(profile: Profile, names: Sequence[str], args: argparse.Namespace, form: str) -> Reports:
    """Return the reports of each run, by its name. UsageError: the form cannot hold several runs."""
    if form in DOCUMENTS:
        arguments.check_one_run(profile, f"--format {form}")
    reports = {run: of_run.answers(names, get_params(args), form) for run, of_run in profile.runs.items()}
    args.talk.progress.clear()
    return reports


def merge_runs(profile: Profile, reports: Reports, args: argparse.Namespace) -> Mapping[str, AnalysisReport]:
    """Return the reports with the tables of all runs, by name of the analysis."""
    first = next(iter(reports.values()))
    return profile.answers(list(first), get_params(args), "table") if profile.has_runs else first


def write_reports(
    profile: Profile, reports: Reports, form: str, look: Look, limit: int | None, *, several: bool
) -> Iterator[bytes]:
    """Return the chunks of reports as text, JSON or XProf's JSON, or of one report as a drawing or as stacks.
    ``several``: write JSON as one object of all reports, by name; a text leaves out inapplicable ones. Several runs
    follow each other."""
    if not profile.has_runs:
        return write_run(next(iter(reports.values())), form, look, limit, several=several)
    of_runs = {run: write_run(of_run, form, look, limit, several=several) for run, of_run in reports.items()}
    return output.join_runs(of_runs, form, look)


def write_run(
    reports: Mapping[str, AnalysisReport], form: str, look: Look, limit: int | None, *, several: bool
) -> Iterator[bytes]:
    (first, *_) = reports.values()
    if form == "svg":
        return iter([report_graphics.draw_report(first).encode("utf-8"), b"\n"])
    if form == "speedscope":
        return report_graphics.write_speedscope(first)
    if form == "pprof":
        return report_graphics.encode_pprof(first)
    with process.hold_signals():
        renderer: Any = import_module(f"fastprof.{_RENDERERS[form]}")  # the others are not imported
    if form == "xprof":
        pieces: Iterator[str] = renderer.write_reports(reports) if several else renderer.write_report(first)
        return (piece.encode("ascii") for piece in chain(pieces, ["\n"]))
    if form == "json":
        rows = arguments.get_row_limit(limit, form)
        chunks: Iterator[bytes] = renderer.several(reports, rows) if several else renderer.chunks(first, rows)
        return chunks
    shown = [report for report in reports.values() if report.inapplicable is None or not several]
    texts = ("\n".join(renderer.lines(report, look, limit)) + "\n" for report in shown)
    return iter(["\n\n".join(texts).encode(look.encoding, "backslashreplace")])
