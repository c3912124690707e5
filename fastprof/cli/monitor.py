"""Show the status that running TPU programs report: step times, idle time, matrix unit utilization.

Only the Cloud TPU runtime answers; servers of other programs answer that they do not offer this.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final, NamedTuple

from fastprof.cli import arguments, output, servers
from fastprof.wording.screen import escape_lines

if TYPE_CHECKING:
    import pyarrow as pa

    from fastprof.inputs.profiler_client.profiler_servers import Address

_GRACE_S: Final = 60.0


class _MonitorAnswer(NamedTuple):
    address: str
    status: str
    reason: str
    text: str
    figures: dict[str, float]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    servers.add_addresses(parser)
    group = parser.add_argument_group("what to show")
    group.add_argument(
        "--duration",
        metavar="TIME",
        type=servers.parse_milliseconds,
        default=1000,
        help="observation time (default: 1s)",
    )
    group.add_argument("--level", choices=("1", "2"), default="2", help="level of detail: 1 little, 2 all (default: 2)")
    group.add_argument(
        "--count", metavar="N", type=arguments.parse_positive, default=1, help="number of observations (default: 1)"
    )
    group.add_argument(
        "--timeout", metavar="TIME", type=servers.parse_waiting_time, default=_GRACE_S,
        help="maximum wait for an answer after that (default: 60s)",
    )  # fmt: skip
    arguments.add_output(parser, limited="rows")
    arguments.add_talk(parser)
    parser.set_defaults(run=None)


def run(args: argparse.Namespace) -> int:
    from concurrent.futures import ThreadPoolExecutor

    addresses = servers.list_named(args)
    form = output.choose_format(args.format, args.output)
    every: list[_MonitorAnswer] = []
    with output.open_sink(args, form) as sink, ThreadPoolExecutor(len(addresses)) as threads:
        for _ in range(args.count):
            answers = list(threads.map(lambda address: _monitor_server(address, args), addresses))
            every += answers
            if form == "table":
                lines = "".join(
                    f"{answer.address}\n{escape_lines(answer.text.rstrip())}\n\n"
                    for answer in answers
                    if not answer.status
                )
                sink.send([lines.encode(sink.look.encoding, "backslashreplace")])
                output.flush_standard_output()
        if form != "table":
            output.send_table(args, sink, _make_table(every), "monitor", form, "answers")
    failed = [answer for answer in every if answer.status]
    servers.report_failures(
        args.talk, list(dict.fromkeys((answer.address, answer.status, answer.reason) for answer in failed))
    )
    output.note_written(args)
    return servers.get_exit_code(len(failed), len(every))


def _monitor_server(address: Address, args: argparse.Namespace) -> _MonitorAnswer:
    from fastprof.inputs.profiler_client import workers

    try:
        text, figures = workers.monitor_server(address, args.duration, int(args.level), args.timeout)
    except workers.CallError as error:
        return _MonitorAnswer(str(address), error.status, error.reason, "", {})
    return _MonitorAnswer(str(address), "", "", text, figures)


def _make_table(answers: list[_MonitorAnswer]) -> pa.Table:
    from types import SimpleNamespace

    from fastprof.inputs.profiler_client import service_messages
    from fastprof.schema.tables import Number, String, TableSchema

    names = service_messages.FIGURES
    columns = (
        String("address", "address that was called"),
        String("status", "answered, or why not"),
        *(Number(name, "as the server reports it; null: not reported") for name in names),
        String("text", "status text of the server; null: it did not answer"),
        String("reason", "reason without an answer; null: the server answered"),
    )
    rows = SimpleNamespace(
        address=[answer.address for answer in answers],
        status=[answer.status or "answered" for answer in answers],
        text=[None if answer.status else answer.text for answer in answers],
        reason=[answer.reason or None for answer in answers],
        **{name: [answer.figures.get(name) for answer in answers] for name in names},
    )
    return TableSchema("monitor", "an answer", columns, derived=True).of(rows)
