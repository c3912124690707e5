"""All analyses of a session, from one pass over the capture.

Text shows one report after the other. JSON and xprof are one object with the reports by name. CSV and Arrow write one
file per table, ANALYSIS.TABLE.csv, to the -o directory; with --table ANALYSIS.TABLE they write only that table. --html
FILE writes browser pages, with a timeline of reduced detail, as one file.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fastprof.analyses import ANALYSES
from fastprof.cli import analysis, arguments, output
from fastprof.cli.analysis import TableChoice, parse_table_choice
from fastprof.errors import OutputError, UsageError
from fastprof.export.new_files import make_hidden_folder, wrap_output_errors
from fastprof.inputs.paths import show_path
from fastprof.render.table_forms import Look, render_table
from fastprof.wording.screen import escape_text
from fastprof.wording.spelling import suggest_name

if TYPE_CHECKING:
    from fastprof.analyses.contract import AnalysisReport

_TABLE_FORMATS = ("csv", "arrow")


@arguments.make_reader
def _parse_analyses(text: str) -> list[str]:
    """Parse names of analyses, written as verbs or as methods, with commas between them."""
    names = [name.replace("-", "_") for name in arguments.split_names(text)]
    for name in names:
        if name not in ANALYSES:
            raise ValueError(
                f"there is no analysis {name!r}; there are: {', '.join(ANALYSES)}{suggest_name(name, ANALYSES)}"
            )
    return names


def add_arguments(parser: argparse.ArgumentParser) -> None:
    analysis.import_analyses(ANALYSES)
    arguments.add_session(parser)
    group = parser.add_argument_group("what to show")
    group.add_argument(
        "--only",
        metavar="A,B",
        type=_parse_analyses,
        action="extend",
        help=f"run only these analyses (default: all: {', '.join(ANALYSES)}); repeatable",
    )
    analysis.add_choice(parser)
    analysis.add_params(parser, ANALYSES)
    group = analysis.add_output(parser)
    group.add_argument(
        "--table",
        metavar="ANALYSIS.TABLE[?COLUMN=VALUE]",
        type=arguments.make_reader(parse_table_choice),
        help="show only this table, or only its rows where COLUMN is VALUE, as in the evidence of findings",
    )
    group.add_argument(
        "--html", metavar="FILE", help="write browser pages with a timeline, as one file that needs no server"
    )
    arguments.add_talk(parser)


def run(args: argparse.Namespace) -> None:
    suffix = "" if args.output is None else Path(args.output).suffix.lower()
    if args.html is not None or (args.format is None and suffix in (".html", ".htm")):
        _write_html(args)
        return
    form = output.choose_format(args.format, args.output)
    names = tuple(dict.fromkeys(args.only or ANALYSES))
    chosen = _find_table(args.table, names)
    if chosen is not None and form == "xprof":
        raise UsageError("--table cannot be combined with --format xprof, because a document has all tables")
    folder = form in _TABLE_FORMATS and chosen is None
    if folder and args.output in (None, "-"):
        raise UsageError(
            f"--format {form} writes one file per table; give a directory with -o DIR, or one table with --table"
        )
    if folder:
        _check_folder(Path(args.output), args.force)
    session = arguments.select_events(arguments.open_session(args), args)
    profile = session if form in analysis.DOCUMENTS else session.by_job
    wanted = names if chosen is None else (chosen[0],)
    if folder:
        reports = analysis.make_reports(profile, wanted, args, form)
        _write_folder(analysis.merge_runs(profile, reports, args), form, Path(args.output), args)
    else:
        with output.open_sink(args, form) as sink:
            reports = analysis.make_reports(profile, wanted, args, form)
            if form == output.BRIEF:
                analysis.send_brief(sink, reports, args, chosen and chosen[1])
            elif chosen is None:
                sink.send(analysis.write_reports(profile, reports, form, sink.look, args.limit, several=True))
            else:
                analysis.send_table(sink, analysis.merge_runs(profile, reports, args)[chosen[0]], chosen[1], form, args)
    arguments.note_log(session, args)
    output.note_written(args)


def _write_html(args: argparse.Namespace) -> None:
    """Write the pages of the analyses and a timeline as one file."""
    if args.html is not None and (args.output is not None or args.format is not None):
        raise UsageError("--html FILE cannot be combined with -o or --format")
    if args.table is not None:
        raise UsageError("--table cannot be combined with --html, because the pages have all tables")
    from fastprof.viewer import html_report

    args.output = args.html or args.output
    whole = arguments.open_session(args)
    arguments.check_one_run(whole, "--html")
    profile = arguments.select_events(whole, args)
    names = [Path(path).absolute().name for path in args.session if path != "-"]
    title = f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else "".join(names) or "standard input"
    title = f"{title} · {whole.run}" if whole.run and whole.run != title else title
    with output.open_sink(args, "html") as sink:
        (answers,) = analysis.make_reports(profile, tuple(dict.fromkeys(args.only or ANALYSES)), args, "html").values()
        reports = dict(answers)
        del answers  # the timeline needs the memory of reports
        rows = html_report.MOST_ROWS if args.limit is None else arguments.get_row_limit(args.limit, "html")
        sink.send(html_report.write_html_report(whole, reports, title=title, hosts=args.host, rows=rows))
    arguments.note_log(profile, args)
    output.note_written(args)


def _find_table(requested: TableChoice | None, names: tuple[str, ...]) -> tuple[str, TableChoice] | None:
    """Return the analysis and the table that --table names."""
    if requested is None:
        return None
    analyses = analysis.import_analyses(names)
    name, _, table = requested.name.partition(".")
    name = name.replace("-", "_")
    there = [f"{known}.{table}" for known in names for table in analyses[known].TABLES]
    if f"{name}.{table}" not in there:
        of_tables = {full.partition(".")[2]: full for full in reversed(there)}  # for a table without its analysis
        close = suggest_name(requested.name, there) or suggest_name(requested.name, of_tables, of_tables)
        known = ", ".join(there) + close
        raise UsageError(f"--table: there is no table {requested.name!r}; there are: {known}")
    return name, requested._replace(name=table)


def _check_folder(target: Path, force: bool) -> None:
    from fastprof.inputs.log_directory import split_name  # late: other verbs do not need it

    capture = next((name for name in _list_names(target) if split_name(name)), None)
    if capture is not None:
        text = f"has captures, such as {escape_text(show_path(capture))}; a report is never mixed with them: "
        raise OutputError(text + "give a new directory with -o DIR", path=show_path(str(target)))
    if target.is_dir() and not force:
        raise OutputError("already exists; use --force to replace files in it", path=str(target))
    if target.exists() and not target.is_dir():
        raise OutputError("already exists and is not a directory", path=str(target))


def _list_names(folder: Path) -> list[str]:
    """Sorted; none if the folder does not exist."""
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names alone
    except OSError:
        return []


def _write_folder(reports: Mapping[str, AnalysisReport], form: str, target: Path, args: argparse.Namespace) -> None:
    """Write one file per table. A new directory appears complete or not at all; into an existing one, files move
    last."""
    limit = arguments.get_row_limit(args.limit, form)
    with wrap_output_errors(str(target)), make_hidden_folder(target) as temporary:
        for name, report in reports.items():
            for table in report.tables:
                with (temporary / f"{name}.{table}.{form}").open("xb") as file:
                    rows = report.tables[table].slice(0, limit)
                    file.writelines(render_table(form, rows, name=table, look=Look(file=True)))
        _check_folder(target, args.force)
        if target.is_dir():
            for path in sorted(temporary.iterdir()):
                path.replace(target / path.name)
        else:
            temporary.rename(target)
