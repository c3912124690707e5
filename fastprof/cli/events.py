"""Events by name: count, total time and self time; or the events themselves.

Self time is an event's duration minus the time of the events inside it on the same line. Names with the most self time
come first. Some lines record the same time twice, for example modules and steps that contain ops: select one
line with --line '^XLA Ops$'. --list shows events in the order of the capture's lines, then of time. The list is
streamed, so it takes no memory.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
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
    group.add_argument(
        "--percentiles",
        metavar="A,B",
        type=_parse_percentiles,
        default=(),
        help="add percentiles of the durations to the sums by name, such as 50,90,99",
    )
    group.add_argument("--sort", metavar="COLUMN[:asc]", help="sort by a column, largest first, or smallest with :asc")
    group.add_argument(
        "--offset", metavar="N", type=arguments.parse_positive, default=0, help="leave out the first N rows"
    )
    for which, what in (("min", "shortest"), ("max", "longest")):
        group.add_argument(
            f"--{which}-duration",
            metavar="TIME",
            type=arguments.parse_duration,
            help=f"with --list: {what} duration of the events, with its unit: 10us",
        )
    arguments.add_filters(parser)
    arguments.add_output(parser, limited="names, or events with --list")
    arguments.add_talk(parser)


def run(args: argparse.Namespace) -> None:
    of_list = (args.stats, args.columns, args.min_duration, args.max_duration)
    if not args.list and any(value is not None for value in of_list):
        raise UsageError("--stats, --columns, --min-duration and --max-duration need --list")
    if args.list and args.percentiles:
        raise UsageError("--percentiles applies to sums by name; leave out --list")
    form = output.choose_format(args.format, args.output)
    _check_columns(args.columns or ())
    session = arguments.open_session(args)
    profile = arguments.select_events(session, args)
    limit = arguments.get_row_limit(args.limit, form)
    with output.open_sink(args, form) as sink:
        if args.list:
            total = _write_list(profile, args, sink, form, limit)
        else:
            sums = profile.event_summary(args.percentiles)
            if args.sort is not None:
                from fastprof.profile.event_page import parse_order, sort_rows

                sums = sort_rows(sums, *parse_order(args.sort, sums.column_names))
            total = sums.num_rows
            if form == "table":
                sums = sums.select([*(name for name in sums.column_names if name != "name"), "name"])
            output.send_table(args, sink, sums, "event_summary", form, "names", first_row=args.offset)
    arguments.note_log(profile, args)
    if 0 < total <= args.offset:
        args.talk.note(f"no rows after the first {args.offset:,}: there are {total:,}")
    elif not total and limit != 0:
        of_length = args.min_duration is not None or args.max_duration is not None
        arguments.explain_empty(session, args, "no event has this duration" if of_length else "")
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
    """Write the events themselves, and return the number of those that were read."""
    progress, talk, stats = args.talk.progress, args.talk, args.stats or []
    progress.hidden.add("decoding")
    all_events = not (args.name or args.time or args.steps)
    total = sum(profile.lines["event_count"].to_pylist()) if all_events else 0  # 0: unknown
    rows = _MOST_BATCH_ROWS if limit is None else max(1, min(limit + 1, _MOST_BATCH_ROWS))
    columns = args.columns or _choose_columns(form, profile)
    chosen = (args.sort, args.min_duration, args.max_duration)
    if any(choice is not None for choice in chosen) or args.offset or form == output.BRIEF:
        return _write_page(profile, columns, args, sink, form, limit)
    batches = profile.scan(columns=columns, stats=stats, batch_rows=rows)
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


def _write_page(
    profile: Profile, columns: Sequence[str], args: argparse.Namespace, sink: output.Sink, form: str, limit: int | None
) -> int:
    """Write the events of a page, and return the number of those that it is a page of."""
    from fastprof.profile.event_page import list_events
    from fastprof.render import brief

    is_brief = form == output.BRIEF
    page = list_events(
        profile,
        columns=columns,
        stats=args.stats or (),
        sort=args.sort,
        offset=0 if is_brief else args.offset,  # brief rows have keys, which depend on those before them
        limit=args.offset + brief.LARGEST_LIMIT if is_brief else limit,
        min_duration_ps=args.min_duration,
        max_duration_ps=args.max_duration,
    )
    args.talk.progress.clear()
    if is_brief:
        question = output.make_question(args)
        document = brief.summarise_table("events", page.rows, question, page.total, first_row=args.offset)
        sink.send(brief.write_document(document))
        return page.total
    output.send_table(args, sink, page.rows, "events", form, "events")
    output.note_left_out(args, len(page.rows), args.offset, page.total, "events")
    return page.total


@arguments.make_reader
def _parse_percentiles(text: str) -> list[int]:
    """Parse percentiles, such as 50,99. ValueError: one is not an integer from 1 to 100."""
    names = arguments.split_names(text)
    if not all(name.isascii() and name.isdigit() and 1 <= int(name) <= 100 for name in names):
        raise ValueError(f"{text!r} is not a list of integers from 1 to 100")
    return [int(name) for name in names]


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
