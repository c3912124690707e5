"""Compare two runs: is the mean step slower, by how much, and what changed.

The changes table has one row per op or cause, largest first; all rows add up to the change of the mean step. With
--against, the earlier runs of a log directory show the usual spread between runs.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any, Final

from fastprof.cli import analysis, arguments, output
from fastprof.errors import UsageError
from fastprof.render.table_forms import FORMATS

NAME: Final = "compare"
FORMS: Final = ("markdown", "html")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from fastprof.analyses import runner
    from fastprof.derive.comparison.event_counts import DEVICES

    parser.add_argument("base", metavar="BASE", help="run to compare with: capture file, run or log directory, or glob")
    parser.add_argument("session", metavar="NEW", nargs=1, help="run to judge")
    arguments.add_reading(parser)
    group = parser.add_argument_group("comparison")
    group.add_argument(
        "--against", metavar="LOGDIR", help="judge by the spread of the newest 20 runs of this directory"
    )
    group.add_argument("--steps-from", metavar="SOURCE", default="auto", help="step source (default: auto)")
    group.add_argument("--hta", choices=DEVICES, help="compare events by name in one step, like HTA's TraceDiff")
    group.add_argument("--hta-steps", metavar="A,B", type=parse_steps, help="numbers of the steps in BASE and NEW")
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
    reading: dict[str, Any] = arguments.get_reading(args)
    if args.hta_steps is not None and args.hta is None:
        raise UsageError("--hta-steps needs --hta")
    with output.open_sink(args, form) as sink:
        from fastprof.profile.comparison import compare, compare_events

        if args.hta is not None:
            steps = args.hta_steps or (None, None)
            events = compare_events(args.base, args.session[0], device=args.hta, steps=steps, **reading)
            output.send_table(args, sink, events, "hta", form, "names", by_worth=True)
            return
        report = compare(args.base, args.session[0], against=args.against, steps_from=args.steps_from, **reading).answer
        args.talk.progress.clear()
        table = args.table or (analysis.TableChoice("changes") if form in ("csv", "arrow") else None)
        if form in FORMS:
            from fastprof.render import gate_forms

            sink.send([gate_forms.FORMS[NAME][form](report).encode(sink.look.encoding, "backslashreplace")])
        elif table is not None:
            analysis.send_table(sink, report, table, form, args)
        else:
            sink.send(analysis.write_run({NAME: report}, form, sink.look, args.limit, several=False))
    output.note_written(args)


@arguments.make_reader
def parse_steps(text: str) -> tuple[int, int]:
    """Parse two numbers of steps. ValueError: not two numbers."""
    numbers = text.split(",")
    if len(numbers) != 2 or not all(number.strip().isascii() and number.strip().isdigit() for number in numbers):
        raise ValueError(f"{text!r} is not two numbers of steps; write A,B, as in 6,8")
    return int(numbers[0]), int(numbers[1])
