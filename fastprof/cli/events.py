"""Events by name: count, total time and self time; or the events themselves.

Self time is the duration of an event minus the time that events inside it on the same line cover. Names with the most
self time come first. Some lines record the same time twice, for example modules and steps that contain ops: select one
line with --line '^XLA Ops$'. --list shows events in the order of the capture's lines, then of time. The list is
written while it is read and takes no memory.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fastprof.cli import arguments, opening, output
from fastprof.cli.progress import Progress
from fastprof.errors import UsageError
from fastprof.render.table_forms import chunks

if TYPE_CHECKING:
    import pyarrow as pa

    from fastprof.cli.talk import Talk
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
        type=arguments.names,
        action="extend",
        help="with --list: add a column for each of these stats; repeatable",
    )
    group.add_argument(
        "--columns",
        metavar="A,B",
        type=arguments.names,
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
    form = output.format_for(args.format, args.output)
    columns = _checked_columns(args.columns)
    whole = opening.open_session(args)
    profile = opening.selected(whole, args)
    with output.opened(args, form) as sink:
        limit = arguments.row_limit(args.limit, form)
        if args.list:
            columns = columns or _usual_columns(form, len(profile.sources))
            shown = _write_list(profile, args, sink, form, limit, columns)
        else:
            shown = _write_summary(profile, args, sink, form, limit)
    opening.note_log(profile, args.talk)
    if not shown and limit != 0:
        for line in opening.explain_nothing(whole, args):
            args.talk.note(line)
    output.note_written(args)


def _write_summary(profile: Profile, args: argparse.Namespace, sink: output.Sink, form: str, limit: int | None) -> int:
    """Write the sums; returns the number of names."""
    table = profile.event_summary()
    names: int = table.num_rows
    shown = table if limit is None else table.slice(0, limit)
    if form == "table":
        shown = shown.select([*(name for name in shown.column_names if name != "name"), "name"])
    left_out: list[str] = []
    sink.send(chunks(form, shown, name="event_summary", look=sink.look, left_out=left_out))
    output.note_left_out(args, left_out)
    if limit is not None and names > limit:
        output.flush_standard_output()
        args.talk.note(f"showing {limit:,} of {names:,} names; --limit all shows the others")
    return names


def _write_list(
    profile: Profile,
    args: argparse.Namespace,
    sink: output.Sink,
    form: str,
    limit: int | None,
    columns: list[str],
) -> int:
    """Write the events themselves; returns their number."""
    stats = args.stats or []
    rows = _MOST_BATCH_ROWS if limit is None else max(1, min(limit + 1, _MOST_BATCH_ROWS))
    batches = profile.scan(columns=columns, stats=stats, batch_rows=rows)
    passage = _Passage(batches, limit, stats)
    passage.progress = args.talk.progress
    passage.progress.hidden.add("decoding")
    if not (args.name or args.time or args.steps):
        passage.total = sum(profile.lines.column("event_count").to_pylist())
    left_out: list[str] = []
    sink.send(chunks(form, passage, name="events", look=sink.look, left_out=left_out))
    output.flush_standard_output()
    output.note_left_out(args, left_out)
    if passage.more:
        args.talk.note(f"showing the first {passage.rows:,} events; --limit all shows the others")
    _note_absent_stats(profile, passage, args.talk)
    return passage.rows


class _Passage:
    """Batches on their way to the output: counts them, stops at the limit, reports progress."""

    def __init__(self, batches: Iterator[pa.RecordBatch], limit: int | None, stats: list[str]) -> None:
        self.rows = 0
        self.total = 0  # unknown
        self.more = False
        self.values = dict.fromkeys(stats, 0)
        self.progress = Progress(None)
        self._batches = batches
        self._limit = limit

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            if self._limit is not None and self.rows + batch.num_rows > self._limit:
                self.more = True
                batch = batch.slice(0, self._limit - self.rows)
            self.rows += batch.num_rows
            self._count_values(batch)
            yield batch
            self.progress("writing events", self.rows, self.total)
            if self.more:
                return

    def _count_values(self, batch: Any) -> None:
        first = batch.num_columns - len(self.values)
        for position, stat in enumerate(self.values, first):
            self.values[stat] += batch.num_rows - batch.column(position).null_count


def _note_absent_stats(profile: Profile, passage: _Passage, talk: Talk) -> None:
    """Note the requested stats that no event has. If not all events were read, note only names that do not exist."""
    absent = [stat for stat, values in passage.values.items() if not values]
    if absent and passage.rows:
        known = profile.stat_names()
        for stat in absent:
            if not passage.more or stat not in known:
                talk.note(f"none of these events has the stat {stat!r}; {opening.nearest([stat], known)}")


def _usual_columns(form: str, hosts: int) -> list[str]:
    """All columns for machines; for people the useful ones: the host if there are several, no rare counts."""
    if form != "table":
        return list(LIST_COLUMNS)
    return list(_TABLE_COLUMNS if hosts > 1 else _TABLE_COLUMNS[1:])


def _checked_columns(requested: list[str] | None) -> list[str]:
    if not requested:
        return []
    from fastprof.schema.capture_tables import CAPTURE_TABLES

    known = CAPTURE_TABLES["events"].names()
    for column in requested:
        if column not in known:
            raise UsageError(f"--columns: events have no column {column!r}; there are: {', '.join(known)}")
    return requested
