"""Add runs to a dataset of Parquet files, or write Parquet, Arrow or CSV files.

OUT is a dataset that runs are added to: OUT/TABLE/run=RUN/…, with columns run and host in the files. A run is added in
full or not at all, and adding it again changes nothing. With --layout paths, OUT is a directory with the files
TABLE/host=HOST/part-0.parquet. The export is streamed: memory is bounded for captures of any size.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from fastprof.cli import arguments
from fastprof.errors import UsageError
from fastprof.wording.quantities import count_noun
from fastprof.wording.spelling import suggest_name

if TYPE_CHECKING:
    from fastprof.profile.profile import Profile

FORMATS = ("parquet", "arrow", "csv")
LAYOUTS = ("dataset", "paths")
DIALECTS = ("bigquery", "snowflake", "athena", "spark", "duckdb")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.add_session(parser, nargs="*")
    arguments.add_filters(parser)
    group = parser.add_argument_group("output")
    where = group.add_mutually_exclusive_group(required=True)
    where.add_argument("-o", "--output", metavar="OUT", help="dataset to add to, or directory to write")
    where.add_argument(
        "--to", metavar="TABLES", help="add to tables of Delta (delta:URL) or Iceberg (iceberg:CATALOG.NAMESPACE)"
    )
    group.add_argument("--layout", choices=LAYOUTS, help="layout of OUT (default: dataset; paths for arrow and csv)")
    group.add_argument("--format", choices=FORMATS, default="parquet", help="file format (default: parquet)")
    group.add_argument(
        "--tables",
        metavar="A,B",
        type=arguments.split_names,
        action="extend",
        help="tables to write (default: all tables that come from a capture); repeatable",
    )
    group.add_argument(
        "--reports",
        metavar="A,B",
        type=arguments.split_names,
        action="extend",
        help="add tables, figures and notices of these reports, or all; repeatable",
    )
    group.add_argument("--flat", action="store_true", help="write lists and maps as JSON text")
    group.add_argument("--replace", action="store_true", help="replace a run that OUT has with other content")
    group.add_argument("--all-runs", action="store_true", help="add the runs of a log directory that OUT does not have")
    group.add_argument("--force", action="store_true", help="with --layout paths: replace an existing OUT")
    group.add_argument("--ddl", choices=DIALECTS, help="print statements that define the tables of OUT for an engine")
    arguments.add_jobs(parser)
    arguments.add_talk(parser)


def run(args: argparse.Namespace) -> None:
    from fastprof.tables.table_set import TABLES

    for table in args.tables or ():
        if table not in TABLES:
            raise UsageError(
                f"--tables: there is no table {table!r}; there are: {', '.join(TABLES)}{suggest_name(table, TABLES)}"
            )
    if args.output == "-":
        raise UsageError("export writes a directory; give its name with -o")
    if args.ddl:
        _print_ddl(args)
        return
    if not args.session:
        raise UsageError("give the SESSION to export")
    layout = args.layout or ("dataset" if args.format == "parquet" else "paths")
    if layout == "dataset" and args.format != "parquet":
        raise UsageError(f"a dataset has Parquet files; --format {args.format} needs --layout paths")
    if layout == "paths":
        _write_folders(args)
    elif args.to:
        _add_to_tables(args)
    elif args.all_runs:
        _add_all_runs(args)
    else:
        _add_to_dataset(args)


def _print_ddl(args: argparse.Namespace) -> None:
    from fastprof.export import exports, table_formats
    from fastprof.profile.exported_reports import list_report_schemas

    if args.session or args.output is None:
        raise UsageError("--ddl takes no SESSION, and -o OUT: the path or URL of the dataset")
    schemas = exports.make_schemas(args.tables, list_report_schemas(args.reports or ()), args.flat)
    for statement in table_formats.write_ddl(args.ddl, args.output, schemas):
        sys.stdout.write(f"{statement}\n\n")


def _write_folders(args: argparse.Namespace) -> None:
    from fastprof.export import folders

    for flag in ("reports", "flat", "replace", "all_runs", "to"):
        if getattr(args, flag):
            raise UsageError(f"--{flag.replace('_', '-')} needs --layout dataset")
    session, profile = _open_selected(args)
    progress = args.talk.progress if args.talk.progress.wanted else None
    folders.write(profile, args.output, format=args.format, tables=args.tables, force=args.force, progress=progress)
    _note_remarks(session, profile, args)
    args.talk.note(f"Wrote {args.output}")


def _add_to_dataset(args: argparse.Namespace) -> None:
    from fastprof.export import exports

    session, profile = _open_selected(args)
    progress = args.talk.progress if args.talk.progress.wanted else None
    added = exports.write_dataset(profile, args.output, progress=progress, **_get_settings(args))
    _note_remarks(session, profile, args)
    for run in added:
        if not run.is_new:
            args.talk.note(f"{args.output} has the run {run.run} already; nothing to do")
    if any(run.is_new for run in added):
        args.talk.note(f"Wrote {args.output}")


def _add_to_tables(args: argparse.Namespace) -> None:
    from fastprof.export import exports, table_formats

    if args.all_runs:
        raise UsageError("--all-runs adds to a dataset: give -o OUT instead of --to")
    session, profile = _open_selected(args)
    settings = _get_settings(args) | {"replace": True}
    table_formats.write_to_tables(
        args.to, lambda folder: [run.run for run in exports.write_dataset(profile, folder, **settings)]
    )
    _note_remarks(session, profile, args)
    args.talk.note(f"Wrote {args.to}")


def _add_all_runs(args: argparse.Namespace) -> None:
    from fastprof.decode.array_memory import share_limit
    from fastprof.profile import run_exports

    if len(args.session) != 1 or args.session == ["-"]:
        raise UsageError("--all-runs takes one log directory")
    progress = args.talk.progress if args.talk.progress.wanted else None
    reading = arguments.get_reading(args)
    if reading.pop("run") or reading.pop("as_hosts"):
        raise UsageError("--all-runs adds each run by itself; leave out --run and --as-hosts")
    outcome = run_exports.add_all_runs(
        args.session[0],
        args.output,
        reading=reading | {"memory": share_limit(args.memory, args.jobs or 1)},
        filters=arguments.get_filters(args),
        settings=_get_settings(args),
        jobs=args.jobs,
        progress=progress,
    )
    for name, error in outcome.failures:
        args.talk.error(f"{name}: {error}")
    args.talk.note(
        f"added {count_noun(outcome.added, 'run', 'runs')} to {args.output}; it had {outcome.known:,} already"
    )
    if outcome.failures:
        raise outcome.failures[0][1]


def _get_settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of a dataset, as parameters of ``write_dataset``."""
    replace = args.replace or args.force
    return {"tables": args.tables, "reports": args.reports or (), "flat": args.flat, "replace": replace}


def _open_selected(args: argparse.Namespace) -> tuple[Profile, Profile]:
    session = arguments.open_session(args)
    return session, arguments.select_events(session, args)


def _note_remarks(session: Profile, profile: Profile, args: argparse.Namespace) -> None:
    arguments.note_log(profile, args)
    if arguments.get_filters(args) and not any(batch.num_rows for batch in profile.scan(columns=["event_id"])):
        arguments.explain_empty(session, args)
