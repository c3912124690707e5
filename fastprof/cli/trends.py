"""Show the runs of log directories as a table: step time, compute, what costs most; or chosen figures.

One row per run, newest first. Each run is analysed once: its row and figures are kept in the cache folder of fastprof
serve. With --figure, one row per run and figure, with the change points of its mean.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from typing import TYPE_CHECKING, TypeVar

from fastprof.cli import arguments, output
from fastprof.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from fastprof.inputs.resolve import Run
    from fastprof.profile.profile import Profile
    from fastprof.viewer.run_list import RunTrends

T = TypeVar("T")

_BAD_DATA = 4
_BY_WORTH = (
    "run", "step_time_p50_ps", "step_time_change_share", "input_share", "finding_share", "finding",
    "not_computing_share", "step_time_max_ps", "memory_peak_bytes", "step_count", "start_unix_ns",
)  # fmt: skip
"""Columns that people read, those hidden first at the end."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.add_session(parser)
    group = parser.add_argument_group("runs")
    group.add_argument("--since", metavar="DATE", help="runs from this time on: 2026-11-01, or 2026_11_01_12_30_00")
    group = parser.add_argument_group("figures")
    group.add_argument(
        "--figure",
        metavar="NAME",
        action="append",
        help="show this figure of each run, and where it changed: step_time_p50, peak_memory, gaps.idle_share, or "
        "another one of 'fastprof check'; repeatable",
    )
    group.add_argument(
        "--publish",
        metavar="FILE",
        help="write the figures: JSON lines to FILE.jsonl or - (standard output), Prometheus format to FILE.prom",
    )
    arguments.add_jobs(parser)
    arguments.add_output(parser, limited="runs, the newest")
    arguments.add_talk(parser)


def run(args: argparse.Namespace) -> int:
    from fastprof.viewer.cache_folder import CacheFolder
    from fastprof.viewer.run_list import RunTrends

    form = output.choose_format(args.format, args.output)
    reading = arguments.get_reading(args)

    def load(run: Run) -> Profile:
        from fastprof import load

        profile: Profile = load(run, **reading | {"run": None}, **arguments.get_jobs(args))
        return profile

    trends = RunTrends(load, CacheFolder(), reading=reading["on_error"])
    if args.figure:
        return _show_figures(args, form, trends)
    if args.publish is not None:
        raise UsageError("--publish writes figures: give --figure step_time_p50, or another one; it is repeatable")
    return _show_runs(args, form, trends)


def _show_runs(args: argparse.Namespace, form: str, trends: RunTrends) -> int:
    import pyarrow.compute as pc

    from fastprof.profile.batch import make_runs_table
    from fastprof.wording.quantities import format_measure

    chosen = _choose_runs(args)
    shown = chosen[: arguments.get_row_limit(args.limit, form)]
    rows = _analyse(args, shown, lambda logdir, run: {"logdir": logdir, **trends.row(run)})
    troubled = [row for row in rows if row.get("problem")]
    unread = [row for row in troubled if "step_count" not in row]
    table = make_runs_table(rows)
    if form == "table":
        several = ["logdir"] if len(args.session) > 1 else []
        table = table.select([*several, *_BY_WORTH, *(["problem"] if troubled else [])])
    with output.open_sink(args, form) as sink:
        output.send_table(args, sink, table, "runs", form, "runs", by_worth=True, wraps="finding")
    _note_hidden_runs(args, len(shown), len(chosen))
    for row in table.filter(pc.is_valid(table["step_time_change_share"])).to_pylist():
        share = row["step_time_change_share"]
        size = f"{'+' if share > 0 else '-'}{format_measure(abs(share), 'share')}"
        args.talk.note(f"step time changed at run {row['run']}: mean {size}")
    for row in troubled:
        args.talk.error(f"{row['run']}: {row['problem']}")
    output.note_written(args)
    return _BAD_DATA if len(unread) == len(rows) else 0


def _show_figures(args: argparse.Namespace, form: str, trends: RunTrends) -> int:
    """Show all figures in a table, or, for people, each figure in its own after a sentence."""
    from fastprof.profile.batch import list_figure_reports, make_figures_table

    reports = list_figure_reports(args.figure)
    if args.publish == "-" and args.output not in (None, "-"):
        raise UsageError("--publish - writes the figures instead of the table: without -o")
    publish = None if args.publish is None else _choose_feed(args.publish)
    chosen = _choose_runs(args)
    runs = _analyse(args, chosen, lambda logdir, run: trends.figures(run, logdir, reports))
    table = make_figures_table(runs, args.figure)
    limit = arguments.get_row_limit(args.limit, form)
    shown = _take_newest(table, limit)
    if publish is not None:
        with output.open_sink(argparse.Namespace(**vars(args) | {"output": args.publish}), "json") as sink:
            sink.send(publish(table))
        if args.publish != "-":
            args.talk.note(f"Wrote {args.publish}")
    if args.publish != "-":
        with output.open_sink(args, form) as sink:
            if form == "table":
                _send_series(args, sink, table, shown)
            else:
                output.send_table(args, sink, shown, "figures", form, "rows")
        of_logdir = Counter(run.logdir for run in runs)
        most = len(runs) if limit is None else limit
        _note_hidden_runs(args, sum(min(count, most) for count in of_logdir.values()), len(runs))
    for run in runs:
        if run.problem:
            args.talk.error(f"{run.run}: {run.problem}")
    output.note_written(args)
    return _BAD_DATA if all(run.error for run in runs) else 0


def _analyse(args: argparse.Namespace, chosen: Sequence[tuple[str, Run]], analyse: Callable[[str, Run], T]) -> list[T]:
    results: list[T] = []
    for logdir, run in chosen:
        args.talk.progress("analysing runs", len(results), len(chosen))
        results.append(analyse(logdir, run))
    args.talk.progress.clear()
    return results


def _take_newest(figures: pa.Table, limit: int | None) -> pa.Table:
    """Return the first rows of each figure and log directory."""
    import pyarrow as pa

    counts: Counter[tuple[str, str]] = Counter()
    rows = []
    for at, series in enumerate(zip(figures["figure"].to_pylist(), figures["logdir"].to_pylist(), strict=True)):
        counts[series] += 1
        if limit is None or counts[series] <= limit:
            rows.append(at)
    return figures.take(pa.array(rows, pa.int64()))


def _send_series(args: argparse.Namespace, sink: output.Sink, figures: pa.Table, shown: pa.Table) -> None:
    """Write, for each figure, a sentence per log directory, and the rows that are shown."""
    import pyarrow.compute as pc

    from fastprof.analyses.check import resolve_figure
    from fastprof.profile.batch import describe_series, make_readable_table
    from fastprof.wording.screen import escape_text

    several = len(args.session) > 1
    names = {resolve_figure(name): name for name in reversed(args.figure)}
    for at, figure in enumerate(dict.fromkeys(figures["figure"].to_pylist())):
        rows = figures.filter(pc.equal(figures["figure"], figure)).to_pylist()
        lines = [""] if at else []
        for logdir in dict.fromkeys(row["logdir"] for row in rows):
            place = f" in {logdir}" if several else ""
            text = f"{names[figure]}{place}: {describe_series([row for row in rows if row['logdir'] == logdir])}"
            lines.append(sink.look.strong(escape_text(sink.look.fit(text))))
        sink.send(f"{line}\n".encode(sink.look.encoding, "backslashreplace") for line in [*lines, ""])
        of_figure = shown.filter(pc.equal(shown["figure"], figure))
        if of_figure.num_rows:
            table = make_readable_table(of_figure)
            table = table if several else table.drop_columns(["logdir"])
            output.send_table(args, sink, table, "figures", "table", "runs")


def _choose_feed(path: str) -> Callable[[pa.Table], Iterator[bytes]]:
    """Return the writer of a file of figures. UsageError: its suffix has none."""
    from fastprof.render.figure_feeds import FEEDS

    suffix = ".jsonl" if path == "-" else os.path.splitext(path)[1].lower()  # noqa: PTH122
    if suffix not in FEEDS:
        raise UsageError(f"--publish {path}: the name of the file ends in {' or '.join(FEEDS)}, or is -")
    return FEEDS[suffix]


def _note_hidden_runs(args: argparse.Namespace, shown: int, total: int) -> None:
    if shown < total:
        args.talk.note(f"showing {shown:,} of {total:,} runs; --limit all shows the others")


def _choose_runs(args: argparse.Namespace) -> list[tuple[str, Run]]:
    """Return log directories and their runs, newest first. Raises UsageError, NotFoundError."""
    import fastprof
    from fastprof.inputs.paths import show_path
    from fastprof.inputs.resolve import choose_for_times

    if "-" in args.session or args.as_hosts:
        raise UsageError("trends are of the runs of log directories: give their paths, without --as-hosts")
    names = arguments.get_reading(args)["run"]
    chosen = []
    for logdir in dict.fromkeys(args.session):
        runs = fastprof.runs(logdir, since=args.since)
        chosen += [(show_path(logdir), run) for run in (choose_for_times(runs) if names is None else runs)]
    if not chosen:
        raise NotFoundError(f"no run since {args.since}", path=args.session[0])
    if names is None:
        return chosen
    wanted = {names} if isinstance(names, str) else set(names)
    missing = wanted - {run.name for _, run in chosen}
    if missing:
        raise NotFoundError(f"no run {min(missing)!r}", path=args.session[0])
    return [(logdir, run) for logdir, run in chosen if run.name in wanted]
