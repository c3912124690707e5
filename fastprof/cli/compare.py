"""Compare two runs: is the mean step slower, by how much, and what changed.

The changes table has one row per op or cause, largest first; all rows add up to the change of the mean step. With
--against, the earlier runs of a log directory show the usual spread between runs.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any, Final

from fastprof.cli import analysis, arguments, output
from fastprof.errors import NotFoundError, UsageError
from fastprof.render.table_forms import FORMATS
from fastprof.wording.quantities import list_few

NAME: Final = "compare"
FORMS: Final = ("markdown", "html")
_OF_TRACELENS: Final = [
    "name", "base::total_direct_kernel_time_sum", "new::total_direct_kernel_time_sum",
    "total_direct_kernel_time_sum__new_diff", "total_direct_kernel_time_sum__new_pct", "Input Dims", "Input type",
    "sheet",
]  # fmt: skip
"""Columns that people read, those hidden first at the end."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from fastprof.analyses import runner
    from fastprof.derive.comparison.event_counts import DEVICES

    parser.add_argument("base", metavar="BASE", help="run to compare with: capture file, run or log directory, or glob")
    parser.add_argument(
        "session",
        metavar="NEW",
        nargs="*",
        help="run to judge; without it, --run names two runs of the log directory BASE (default: the newest two)",
    )
    arguments.add_reading(parser)
    group = parser.add_argument_group("comparison")
    group.add_argument(
        "--against", metavar="LOGDIR", help="judge by the spread of the newest 20 runs of this directory"
    )
    group.add_argument("--steps-from", metavar="SOURCE", default="auto", help="step source (default: auto)")
    group.add_argument("--hta", choices=DEVICES, help="compare events by name in one step, like HTA's TraceDiff")
    group.add_argument("--hta-steps", metavar="A,B", type=parse_steps, help="numbers of the steps in BASE and NEW")
    group.add_argument(
        "--tracelens", action="store_true", help="compare ops of PyTorch by name and arguments, in TraceLens's columns"
    )
    tables = tuple(runner.get_analysis(NAME).TABLES)
    arguments.add_output(parser, "rows per table", (*FORMATS, *FORMS), usual="as laid out").add_argument(
        "--table",
        metavar="NAME[?COLUMN=VALUE]",
        type=arguments.make_reader(partial(analysis.parse_choice_among, tables)),
        help=f"show only this table, or only its rows where COLUMN is VALUE; tables: {', '.join(tables)}",
    )
    arguments.add_talk(parser)


def run(args: argparse.Namespace) -> None:
    form = output.choose_format(args.format, args.output, FORMS)
    base, new = _choose_runs(args)
    args.session = [args.base, *args.session]
    reading: dict[str, Any] = {name: getattr(args, name) for name in ("on_error", "threads", "max_unpacked")}
    if args.hta_steps is not None and args.hta is None:
        raise UsageError("--hta-steps needs --hta")
    if args.hta is not None and (form in FORMS or args.against is not None or args.table is not None):
        raise UsageError("--hta gives one table: without --against, --table, markdown and html")
    if args.tracelens and (form in FORMS or args.hta or args.against is not None or args.table is not None):
        raise UsageError("--tracelens gives one table: without --hta, --against, --table, markdown and html")
    with output.open_sink(args, form) as sink:
        from fastprof.profile.comparison import compare, compare_events, compare_ops

        if args.hta is not None:
            steps = args.hta_steps or (None, None)
            events = compare_events(base, new, device=args.hta, steps=steps, **reading)
            output.send_table(args, sink, events, "hta", form, "names", by_worth=True)
            return
        if args.tracelens:
            ops = compare_ops(base, new, **reading)
            ops = ops.select(_OF_TRACELENS) if form == "table" else ops
            output.send_table(args, sink, ops, "tracelens", form, "ops", by_worth=True)
            return
        report = compare(base, new, against=args.against, steps_from=args.steps_from, **reading).answer
        args.talk.progress.clear()
        table = args.table or (analysis.TableChoice("changes") if form in ("csv", "arrow") else None)
        if form in FORMS:
            from fastprof.render import gate_forms

            sink.send([gate_forms.FORMS[NAME][form](report).encode(sink.look.encoding, "backslashreplace")])
        elif form == output.BRIEF:
            analysis.send_brief(sink, {"": {NAME: report}}, args, table)
        elif table is not None:
            analysis.send_table(sink, report, table, form, args)
        else:
            sink.send(analysis.write_run({NAME: report}, form, sink.look, args.limit, several=False))
    output.note_written(args)


def _choose_runs(args: argparse.Namespace) -> tuple[Any, Any]:
    """Return the two runs. UsageError: they are one, or not two."""
    from fastprof import load, runs
    from fastprof.inputs.resolve import choose_for_times

    names = [name for text in args.run or () for name in text.split(",")]
    if args.as_hosts:
        raise UsageError("each side is one run: compare without --as-hosts")
    if args.session:
        if len(args.session) > 1 or len(names) > 1:
            raise UsageError("two runs are compared: give two paths, or one log directory and --run twice")
        return args.base, load(args.session[0], run=names[0]) if names else args.session[0]
    known = {run.name: run for run in runs(args.base)}
    chosen = names or [run.name for run in choose_for_times(known.values())][1::-1]
    missing = [name for name in chosen if name not in known]
    if missing:
        raise NotFoundError(f"no run {missing[0]!r}; runs: {list_few(known)}", path=args.base)
    if len(chosen) != 2 or len(set(chosen)) != 2:
        raise UsageError("two runs are compared: give NEW, or --run twice")
    if not names and len(known) > 2:
        args.talk.note(
            f"comparing {chosen[1]}, the newest of {len(known):,} runs, with the one before; to choose: --run A --run B"
        )
    return known[chosen[0]], known[chosen[1]]


@arguments.make_reader
def parse_steps(text: str) -> tuple[int, int]:
    """Parse two numbers of steps. ValueError: not two numbers."""
    numbers = text.split(",")
    if len(numbers) != 2 or not all(number.strip().isascii() and number.strip().isdigit() for number in numbers):
        raise ValueError(f"{text!r} is not two numbers of steps; write A,B, as in 6,8")
    return int(numbers[0]), int(numbers[1])
