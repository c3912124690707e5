"""Write the tables as Parquet, Arrow or CSV files.

OUT is a directory with the files TABLE/host=HOST/part-0.parquet. The export is streamed: memory is bounded for captures
of any size. OUT is written in full or not at all.
"""

from __future__ import annotations

import argparse

from fastprof.cli import arguments
from fastprof.errors import UsageError
from fastprof.wording.spelling import suggest_name

FORMATS = ("parquet", "arrow", "csv")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.add_session(parser)
    arguments.add_filters(parser)
    group = parser.add_argument_group("output")
    group.add_argument("-o", "--output", metavar="OUT", required=True, help="directory to write")
    group.add_argument("--format", choices=FORMATS, default="parquet", help="file format (default: parquet)")
    group.add_argument(
        "--tables",
        metavar="A,B",
        type=arguments.split_names,
        action="extend",
        help="tables to write (default: all tables that come from a capture); repeatable",
    )
    group.add_argument("--force", action="store_true", help="replace an existing OUT")
    arguments.add_jobs(parser)
    arguments.add_talk(parser)


def run(args: argparse.Namespace) -> None:
    from fastprof.export import folders
    from fastprof.tables.table_set import TABLES

    for table in args.tables or ():
        if table not in TABLES:
            raise UsageError(
                f"--tables: there is no table {table!r}; there are: {', '.join(TABLES)}{suggest_name(table, TABLES)}"
            )
    if args.output == "-":
        raise UsageError("export writes a directory; give its name with -o")
    session = arguments.open_session(args)
    profile = arguments.select_events(session, args)
    progress = args.talk.progress if args.talk.progress.wanted else None
    folders.write(profile, args.output, format=args.format, tables=args.tables, force=args.force, progress=progress)
    arguments.note_log(profile, args)
    if arguments.get_filters(args) and not any(batch.num_rows for batch in profile.scan(columns=["event_id"])):
        arguments.explain_empty(session, args)
    args.talk.note(f"Wrote {args.output}")
