"""Answer an SQL query about a session, or about runs that 'fastprof export' wrote.

Tables are those of the capture (events, lines, hlo_instructions, …) and of all reports (op_stats.ops, steps.steps,
overview.figures, …); --tables lists them with their columns. The dialect is DuckDB's. A query is one statement, and
only reads: it reaches neither files nor the network. With several runs, tables begin with the column run.

  fastprof sql RUN "select name, sum(duration_ps) / 1e9 as ms from events group by name order by ms desc limit 5"
  fastprof sql RUN-A RUN-B "select run, value from overview.figures where name = 'step_time_p50_ps'"
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastprof.cli import arguments, output
from fastprof.errors import FastprofError, UnreadableError, UsageError
from fastprof.export.new_files import Write, open_new_file
from fastprof.render.table_forms import FORMATS, render_table
from fastprof.wording.patterns import compile_late

if TYPE_CHECKING:
    import pyarrow as pa

    from fastprof.profile.profile import Profile
    from fastprof.profile.sql_tables import SqlSource

_QUERY = compile_late(r"(?i)\s*(--|/\*|\(|(select|with|from|values|explain|describe|show|summarize)\s)")
_EXPLAINED = ["explain_key", "explain_value"]
_PS = 10**12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.add_session(parser, limits_memory=False)
    text = "the query: the last word, unless --file is given; - reads it from standard input"
    parser.add_argument("query", metavar="QUERY", nargs="?", help=text)
    group = parser.add_argument_group("the query")
    group.add_argument("--file", metavar="FILE", help="read the query from FILE; - is standard input")
    group.add_argument(
        "--param",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        type=parse_param,
        help="value of $NAME in the query: a number, true, false, null, or else a text; repeatable",
    )
    group.add_argument("--tables", action="store_true", help="list tables and columns, with units and descriptions")
    text = "most memory (default: 2GiB)"
    group.add_argument("--memory", metavar="SIZE", dest="query_memory", type=arguments.parse_size, help=text)
    parser.set_defaults(memory=None)  # --memory is that of the query
    group.add_argument("--timeout", metavar="TIME", type=arguments.parse_time, help="most time (default: 60s)")
    arguments.add_filters(parser)
    shown = arguments.add_output(parser, "rows", formats=(*FORMATS, "parquet"))
    text = "leave out the first N rows"
    shown.add_argument("--offset", metavar="N", type=arguments.parse_positive, default=0, help=text)
    arguments.add_jobs(parser)
    arguments.add_talk(parser)


@arguments.make_reader
def parse_param(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise ValueError(f"{text!r} is not NAME=VALUE")
    try:
        parsed = json.loads(value)
    except ValueError:
        return name, value
    return name, parsed if parsed is None or isinstance(parsed, bool | int | float) else value


def separate_query(args: argparse.Namespace) -> None:
    """Take the query from the words after the verb: it is the last of several, unless a flag stands for it."""
    has_query = args.file is None and not args.tables
    if len(args.session) > 1 and (has_query or _QUERY.match(args.session[-1])):
        args.query = args.session.pop()


def run(args: argparse.Namespace) -> None:
    from fastprof.profile import sql, sql_tables

    suffix = "" if args.output is None else Path(args.output).suffix.lower()
    is_parquet = args.format == "parquet" or (args.format is None and suffix in (".parquet", ".pq"))
    if is_parquet and args.output in (None, "-"):
        raise UsageError("Parquet is written to a file: give -o FILE")
    form = "parquet" if is_parquet else output.choose_format(args.format, args.output)
    query = None if args.tables else _read_query(args)
    exported = next((path for path in args.session if sql_tables.is_export(path)), None)
    profile: Profile | None = None
    sources: Mapping[str, SqlSource]
    if exported is not None:
        from fastprof.decode.workers import count_cpus

        if len(args.session) > 1:
            raise UsageError(f"give only {exported}: exported runs are not queried together with others")
        if arguments.get_filters(args) or args.run:
            raise UsageError("exported runs are selected in the query: where run = 'NAME'")
        sources, threads = sql_tables.ExportedTables(exported), args.threads or count_cpus()
    else:
        profile = arguments.select_events(arguments.open_session(args), args)
        sources, threads = sql_tables.ProfileTables(profile), profile.threads
    memory = args.query_memory or sql.MEMORY
    if query is None:
        batches = iter(sql_tables.list_columns(sources).to_batches())
    else:
        timeout = args.timeout / _PS if args.timeout else sql.TIMEOUT
        params = dict(args.param) or None
        batches = sql.query_tables(
            sources, query, params, memory, timeout, threads, is_confined=True, give_up=_end_process
        )
    _write_answer(args, form, batches, memory, profile, query or "")
    if profile is not None:
        arguments.note_log(profile, args)
    output.note_written(args)


def _end_process(error: FastprofError) -> None:
    """End the process, whose query does not stop."""
    sys.stderr.write(f"fastprof: {error}\n")
    sys.stderr.flush()
    os._exit(70)


def _read_query(args: argparse.Namespace) -> str:
    """Return the text of the query. UsageError: there is none, or there are two."""
    if args.query is not None and args.file is not None:
        raise UsageError("give the query, or --file, not both")
    source: str | None = args.file or ("-" if args.query == "-" else None)
    if source is None:
        if args.query is None:
            raise UsageError("give a query, --file FILE, or --tables to list the tables")
        if not _QUERY.match(args.query) and os.path.exists(args.query):  # noqa: PTH110  Path.exists raises for long texts
            raise UsageError(f"give a query after the sessions: {args.query} is a path")
        return str(args.query)
    try:
        if source != "-":
            return Path(source).read_text(encoding="utf-8")
        if sys.stdin is None or sys.stdin.closed or "-" in args.session:
            raise UsageError("standard input holds no query")
        return sys.stdin.read()
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableError(f"cannot read the query: {error}", path=None if source == "-" else source) from error


def _write_answer(
    args: argparse.Namespace,
    form: str,
    batches: Iterator[pa.RecordBatch],
    memory: int,
    profile: Profile | None,
    query: str,
) -> None:
    from fastprof.profile.sql import collect_table, explain_no_rows

    first = next(batches)  # errors come before the output is opened

    def all_batches() -> Iterator[pa.RecordBatch]:
        left_out = args.offset
        for batch in itertools.chain([first], batches):
            shown = batch.slice(min(left_out, batch.num_rows))
            left_out -= batch.num_rows - shown.num_rows
            yield shown

    if form == "parquet":
        with open_new_file(args.output, args.force) as write:
            _write_parquet(write, first.schema, all_batches())
        return
    if form not in ("table", output.BRIEF) and args.limit is None:
        with output.open_sink(args, form) as sink:
            sink.send(render_table(form, all_batches(), name="sql", look=sink.look))
            output.flush_standard_output()
        return
    table = collect_table(all_batches(), memory)
    with output.open_sink(args, form) as sink:
        if form == "table" and table.column_names == _EXPLAINED:
            texts = table["explain_value"].to_pylist()
            sink.send(f"{text.rstrip()}\n".encode(sink.look.encoding, "backslashreplace") for text in texts)
            output.flush_standard_output()
            return
        why = [] if table.num_rows or profile is None else explain_no_rows(profile, query)
        output.send_table(args, sink, table, "sql", form, "rows", by_worth=True, caveats=why)
    for reason in why:
        args.talk.note(reason)


def _write_parquet(write: Write, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
    import pyarrow as pa

    from fastprof.export.writers import CountedSink, ParquetWriter

    with pa.PythonFile(CountedSink(write), mode="w") as file:
        writer = ParquetWriter(file, schema)
        try:
            for batch in batches:
                writer.write(pa.Table.from_batches([batch]))
        finally:
            writer.close()  # while its file is open, also after an error, when the file gets no name
