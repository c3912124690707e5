"""Show what running TPU programs report of themselves: step times, idle time, use of the matrix units.

Only the runtime of Cloud TPUs answers; servers of other programs say that they do not offer this.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final, NamedTuple

from fastprof.cli import arguments, output, servers
from fastprof.wording.screen import printable_lines

if TYPE_CHECKING:
    import pyarrow as pa

    from fastprof.inputs.profiler_client.addresses import Address

_GRACE_S: Final = 60.0


class _Answer(NamedTuple):
    address: str
    status: str
    reason: str
    text: str
    figures: dict[str, float]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    servers.add_addresses(parser)
    group = parser.add_argument_group("what to show")
    group.add_argument(
        "--duration", metavar="TIME", type=servers.milliseconds, default=1000, help="how long to look (default: 1s)"
    )
    group.add_argument("--level", choices=("1", "2"), default="2", help="1 little, 2 all (default: 2)")
    group.add_argument("--count", metavar="N", type=arguments.positive, default=1, help="how often (default: 1)")
    group.add_argument(
        "--timeout", metavar="TIME", type=servers.waiting_time, default=_GRACE_S,
        help="how long after that an answer may take (default: 60s)",
    )  # fmt: skip
    arguments.add_output(parser, limited="rows")
    arguments.add_talk(parser)
    parser.set_defaults(run=None)


def run(args: argparse.Namespace) -> int:
    from concurrent.futures import ThreadPoolExecutor

    addresses = servers.named(args)
    form = output.format_for(args.format, args.output)
    every: list[_Answer] = []
    with output.opened(args, form) as sink, ThreadPoolExecutor(len(addresses)) as threads:
        for _ in range(args.count):
            answers = list(threads.map(lambda one: _monitored(one, args), addresses))
            every += answers
            if form == "table":
                lines = "".join(
                    f"{one.address}\n{printable_lines(one.text.rstrip())}\n\n" for one in answers if not one.status
                )
                sink.send([lines.encode(sink.look.encoding, "backslashreplace")])
                output.flush_standard_output()
        if form != "table":
            output.send_table(args, sink, _table(every), "monitor", form, "answers")
    failed = [one for one in every if one.status]
    servers.report_failures(args.talk, list(dict.fromkeys((one.address, one.status, one.reason) for one in failed)))
    output.note_written(args)
    return servers.exit_code(len(failed), len(every))


def _monitored(address: Address, args: argparse.Namespace) -> _Answer:
    from fastprof.inputs.profiler_client import calls, workers

    try:
        text, figures = workers.monitored(address, args.duration, int(args.level), args.timeout)
    except calls.CallError as error:
        return _Answer(str(address), error.status, error.reason, "", {})
    return _Answer(str(address), "", "", text, figures)


def _table(answers: list[_Answer]) -> pa.Table:
    from types import SimpleNamespace

    from fastprof.inputs.profiler_client import service_messages
    from fastprof.schema.column_kinds import Number, String
    from fastprof.schema.tables import TableSchema

    names = service_messages.FIGURES
    columns = (
        String("address", "address that was called"),
        String("status", "answered, or why not"),
        *(Number(name, "as the server reports it; null: not reported") for name in names),
        String("text", "what the server says to people; null: it did not answer"),
        String("reason", "why it did not answer; null: it answered"),
    )
    rows = SimpleNamespace(
        address=[one.address for one in answers],
        status=[one.status or "answered" for one in answers],
        text=[None if one.status else one.text for one in answers],
        reason=[one.reason or None for one in answers],
        **{name: [one.figures.get(name) for one in answers] for name in names},
    )
    return TableSchema("monitor", "an answer", columns, derived=True).of(rows)
