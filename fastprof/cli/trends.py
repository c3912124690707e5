"""Show the runs of a log directory as a table: step time, compute, what costs most, memory.

One row per run, newest first. Each run is analysed once: its row is kept in the cache folder of fastprof serve.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from fastprof.cli import arguments, output
from fastprof.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from fastprof.inputs.resolve import Run
    from fastprof.profile.profile import Profile

_BAD_DATA = 4
_BY_WORTH = (
    "run", "step_time_p50_ps", "input_share", "finding_share", "finding", "not_computing_share", "step_time_max_ps",
    "memory_peak_bytes", "step_count", "start_unix_ns",
)  # fmt: skip
"""Columns that people read, those hidden first at the end."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.add_session(parser)
    group = parser.add_argument_group("runs")
    group.add_argument("--since", metavar="DATE", help="runs from this time on: 2026-11-01, or 2026_11_01_12_30_00")
    arguments.add_jobs(parser)
    arguments.add_output(parser, limited="runs, the newest")
    arguments.add_talk(parser)


def run(args: argparse.Namespace) -> int:
    from fastprof.profile.batch import make_trends_table
    from fastprof.viewer.cache_folder import CacheFolder
    from fastprof.viewer.run_list import RunTrends

    form = output.choose_format(args.format, args.output)
    chosen = _choose_runs(args)
    shown = chosen[: arguments.get_row_limit(args.limit, form)]
    reading = arguments.get_reading(args)

    def load(run: Run) -> Profile:
        from fastprof import load

        profile: Profile = load(run, **reading | {"run": None}, **arguments.get_jobs(args))
        return profile

    trends = RunTrends(load, CacheFolder(), reading=reading["on_error"])
    rows: list[dict[str, Any]] = []
    for run in shown:
        args.talk.progress("analysing runs", len(rows), len(shown))
        rows.append(trends.row(run))
    args.talk.progress.clear()
    troubled = [row for row in rows if row.get("problem")]
    unread = [row for row in troubled if "step_count" not in row]
    table = make_trends_table(rows)
    if form == "table":
        table = table.select([*_BY_WORTH, *(["problem"] if troubled else [])])
    with output.open_sink(args, form) as sink:
        output.send_table(args, sink, table, "trends", form, "runs", by_worth=True, wraps="finding")
    if len(shown) < len(chosen):
        args.talk.note(f"showing {len(shown):,} of {len(chosen):,} runs; --limit all shows the others")
    for row in troubled:
        args.talk.error(f"{row['run']}: {row['problem']}")
    output.note_written(args)
    return _BAD_DATA if len(unread) == len(rows) else 0


def _choose_runs(args: argparse.Namespace) -> list[Run]:
    """Return the runs, newest first. Raises UsageError, NotFoundError."""
    import fastprof

    if len(args.session) > 1 or "-" in args.session or args.as_hosts:
        raise UsageError("trends are of the runs of one log directory: give one path, without --as-hosts")
    runs = fastprof.runs(args.session[0], since=args.since)
    if not runs:
        raise NotFoundError(f"no run since {args.since}", path=args.session[0])
    names = arguments.get_reading(args)["run"]
    if names is None:
        return runs
    wanted = {names} if isinstance(names, str) else set(names)
    missing = wanted - {run.name for run in runs}
    if missing:
        raise NotFoundError(f"no run {min(missing)!r}", path=args.session[0])
    return [run for run in runs if run.name in wanted]
