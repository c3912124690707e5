"""Events by name: count, total time and self time; or the events themselves.

Self time is an event's duration minus the time of the events inside it on the same line. Names with the most self time
come first. Some lines record the same time twice, for example modules and steps that contain ops: select one
line with --line '^XLA Ops$'. --list shows events in the order of the capture's lines, then of time. The list is
streamed, so it takes no memory.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from fastprof.cli import arguments, output
from fastprof.errors import UsageError
from fastprof.render.table_forms import render_table
from fastprof.wording.spelling import suggest_name

if TYPE_CHECKING:
    import pyarrow as pa

    from fastprof.profile.profile import Profile

LIST_COLUMNS = ("host", "plane", "line", "name", "start_ps", "duration_ps", "num_occurrences")
_TABLE_COLUMNS = ("host", "plane", "line", "start_ps", "duration_ps", "name")

_MOST_BATCH_ROWS = 1 << 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.add_session(parser)
    group = parser.add_argument_group("what to show")
    group.add_argument("--list", action="store_true", help="show the events themselves, not sums by name")
    group.add_argument(
        "--stats",
        metavar="A,B",
        type=arguments.split_names,
        action="extend",
        help="with --list: add a column for each of these stats; repeatable",
    )
    group.add_argument(
        "--columns",
        metavar="A,B",
        type=arguments.split_names,
        action="extend",
        help=f"with --list: columns of the events table (default: {', '.join(LIST_COLUMNS)}; "
        "fewer in a text table); repeatable",
    )
    arguments.add_filters(parser)
    arguments.add_output(parser, limited="names, or events with --list")
    arguments.add_talk(parser)


def run(args: argparse.Namespace) -> None:
    if not args.list and (args.stats or args.columns):
        raise UsageError("--stats and --columns need --list")
    form = output.choose_format(args.format, args.output)
    _check_columns(args.columns or ())
    session = arguments.open_session(args)
    profile = arguments.select_events(session, args)
    limit = arguments.get_row_limit(args.limit, form)
    with output.open_sink(args, form) as sink:
        if args.list:
            shown = _write_list(profile, args, sink, form, limit)
        else:
            sums = profile.event_summary()
            shown = sums.num_rows
            if form == "table":
                sums = sums.select([*(name for name in sums.column_names if name != "name"), "name"])
            output.send_table(args, sink, sums, "event_summary", form, "names")
    arguments.note_log(profile, args)
    if not shown and limit != 0:
        arguments.explain_empty(session, args)
    output.note_written(args)


def _check_columns(requested: Iterable[str]) -> None:
    from fastprof.schema.capture_tables import CAPTURE_TABLES, RUN

    known = CAPTURE_TABLES["events"].names()
    for column in requested:
        if column not in known and column != RUN.name:
            raise UsageError(
                f"--columns: events have no column {column!r}; there are: "
                f"{', '.join(known)}{suggest_name(column, known)}"
            )


def _write_list(profile: Profile, args: argparse.Namespace, sink: output.Sink, form: str, limit: int | None) -> int:
    """Write the events themselves, and return their number."""
    progress, talk, stats = args.talk.progress, args.talk, args.stats or []
    progress.hidden.add("decoding")
    all_events = not (args.name or args.time or args.steps)
    total = sum(profile.lines["event_count"].to_pylist()) if all_events else 0  # 0: unknown
    rows = _MOST_BATCH_ROWS if limit is None else max(1, min(limit + 1, _MOST_BATCH_ROWS))
    columns = args.columns or _choose_columns(form, profile)
    batches = profile.scan(columns=columns, stats=stats, batch_rows=rows)
    if form == output.BRIEF:
        return _write_brief(batches, total, args, sink)
    passage = _CountedBatches(batches, limit, stats, lambda done: progress("writing events", done, total))
    hidden: list[str] = []
    sink.send(render_table(form, passage, name="events", look=sink.look, left_out=hidden))
    output.flush_standard_output()
    output.note_hidden(args, hidden)
    if passage.more:
        talk.note(f"showing the first {passage.rows:,} events; --limit all shows the others")
    absent = [stat for stat, values in passage.values.items() if not values] if passage.rows else []
    known = profile.stat_names() if absent else []
    for stat in absent:
        if not passage.more or stat not in known:  # if not all events were read, the others may have it
            talk.note(f"none of these events has the stat {stat!r}; {arguments.find_nearest([stat], known)}")
    return passage.rows


def _write_brief(batches: Iterator[pa.RecordBatch], total: int, args: argparse.Namespace, sink: output.Sink) -> int:
    """Write the first events, and return their number. ``total``: the number of all, or 0 if they were not counted."""
    import pyarrow as pa

    from fastprof.render import brief

    head = pa.Table.from_batches([next(batches)])
    document = brief.summarise_table("events", head, output.make_question(args), total or None)
    sink.send(brief.write_document(document))
    return int(head.num_rows)


class _CountedBatches:
    """Batches on their way to the output: counts rows and values of stats, stops at the limit, reports progress."""

    def __init__(
        self, batches: Iterator[pa.RecordBatch], limit: int | None, stats: list[str], report: Callable[[int], None]
    ) -> None:
        self.rows = 0
        self.more = False
        self.values = dict.fromkeys(stats, 0)
        self._batches = batches
        self._limit = limit
        self._report = report

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            if self._limit is not None and self.rows + batch.num_rows > self._limit:
                self.more = True
                batch = batch.slice(0, self._limit - self.rows)
            self.rows += batch.num_rows
            for stat in self.values:
                self.values[stat] += batch.num_rows - batch[stat].null_count
            yield batch
            self._report(self.rows)
            if self.more:
                return


def _choose_columns(form: str, profile: Profile) -> list[str]:
    """Return all columns for machines, and for people the useful ones: the host and the run only if there are
    several."""
    runs = ["run"] if profile.has_runs else []
    if form != "table":
        return [*runs, *LIST_COLUMNS]
    several = any(len(run.sources) > 1 for run in profile.runs.values())
    return [*runs, *(_TABLE_COLUMNS if several else _TABLE_COLUMNS[1:])]
