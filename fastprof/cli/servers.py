"""The flags that name profiler servers, and what verbs say of servers that do not answer."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from fastprof.cli import arguments, signals
from fastprof.errors import UsageError
from fastprof.inputs.profiler_client import statuses
from fastprof.wording.patterns import pattern_of

if TYPE_CHECKING:
    from fastprof.cli.talk import Talk
    from fastprof.inputs.profiler_client.addresses import Address
    from fastprof.inputs.profiler_client.service_messages import Options, Request, Setting

SOME, ALL = 5, 6
"""Exit codes: of some servers, and of all, nothing came."""
_LONG_UNITS: Final = {"m": 60, "h": 3600}
_LONG_TIME: Final = pattern_of(r"([\d.]+)([mh])", re.ASCII)
_LONGEST_PS: Final = 24 * 3600 * 10**12
_ADVICE: Final = {
    statuses.UNREACHABLE: "the program has to start a profiler server: jax.profiler.start_server(PORT), "
    "tf.profiler.experimental.server.start(PORT), xp.start_server(PORT)",
    statuses.LOST: "the program, or the network to it, ended while it was called",
    statuses.BUSY: "the program records another capture; wait for its end, or stop it",
    statuses.LATE: "it may need longer (--timeout), or its clock is behind: --delay 0s uses no clocks",
    statuses.UNSUPPORTED: "the server at this port does not offer this",
    statuses.TOO_LARGE: "--on-server lets the server write captures of any size; or give a shorter --duration",
    statuses.EMPTY: "no event was recorded: the program did nothing then, or its tracers are off",
}


@arguments.reader
def addresses(text: str) -> list[Address]:
    from fastprof.inputs.profiler_client.addresses import listed

    return listed(text)


@arguments.reader
def milliseconds(text: str) -> int:
    """The profiler's service counts in them."""
    from fastprof.wording.amounts import picoseconds

    time = picoseconds(text)
    if time % 10**9 or not 0 < time <= _LONGEST_PS:
        raise ValueError(f"{text!r} is not a whole number of milliseconds, from 1ms to a day: 500ms, 2s")
    return time // 10**9


@arguments.reader
def waiting_time(text: str) -> float:
    """Seconds; may be 0. Minutes and hours, too: 10m, 1h."""
    from fastprof.wording.amounts import picoseconds

    long = _LONG_TIME.fullmatch(text.strip())
    time = picoseconds(text) if long is None else _LONG_UNITS[long[2]] * picoseconds(f"{long[1]}s")
    if not 0 <= time <= _LONGEST_PS:
        raise ValueError(f"{text!r} is not a time from 0s to a day")
    return time / 10**12


@arguments.reader
def _setting(text: str) -> tuple[str, Setting]:
    import json

    name, equals, value = text.partition("=")
    if not (equals and name.strip()):
        raise ValueError(f"{text!r} is not an option; write KEY=VALUE")
    with contextlib.suppress(ValueError):
        read = json.loads(value)
        if isinstance(read, str | bool) or (isinstance(read, int) and -(1 << 63) <= read < 1 << 63):
            return name.strip(), read
    return name.strip(), value


def add_levels(group: argparse._ArgumentGroup) -> None:
    """What the profiler records."""

    def level(highest: int, usual: int) -> dict[str, Any]:
        return {"choices": [str(level) for level in range(highest + 1)], "default": str(usual)}

    group.add_argument("--host-level", **level(3, 2), help="host tracer: 0 off, 1 annotations, 2, 3 all ops")
    group.add_argument("--device-level", **level(1, 1), help="device tracer: 0 off, 1 on (default: 1)")
    group.add_argument("--python-level", **level(1, 0), help="Python tracer: 0 off, 1 on (default: 0)")
    group.add_argument(
        "--set",
        metavar="KEY=VALUE",
        type=_setting,
        action="append",
        default=[],
        help='advanced option of the profiler; true, false and whole numbers are sent as such, others and "5" as '
        "texts; repeatable",
    )


def options(args: argparse.Namespace, duration_ms: int) -> Options:
    from fastprof.inputs.profiler_client.service_messages import Options

    host, device, python = map(int, (args.host_level, args.device_level, args.python_level))
    return Options(duration_ms, host, device, python, dict(args.set))


def requests(
    args: argparse.Namespace, addresses: Sequence[Address], options: Options, session: str, root: str = ""
) -> list[Request]:
    """One for each server; --hosts says what each is called. ``root``: where the servers write; "": they do not."""
    from fastprof.inputs.profiler_client.service_messages import Request

    names = args.hosts or [""] * len(addresses)
    return [
        Request(options, session, one.as_host, root=root, override=name)
        for one, name in zip(addresses, names, strict=True)
    ]


def add_addresses(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "address",
        metavar="ADDR",
        nargs="*",
        type=addresses,
        help="address of a profiler server, HOST:PORT, [IPv6]:PORT, or PORT of this machine; several: A,B or A B",
    )
    group = parser.add_argument_group("servers")
    group.add_argument("--addresses", metavar="FILE", help="a file of addresses, between blanks, commas and line ends")
    group.add_argument(
        "--dns",
        metavar="NAME:PORT",
        action="append",
        help="every address that DNS has for the name, as for a headless service of Kubernetes; repeatable",
    )
    group.add_argument(
        "--job",
        metavar="KIND:PORT",
        help="the machines of the job that this runs in: slurm:PORT, slurm:FIRST-LAST for several processes a machine, "
        "or tpu for a Cloud TPU (its port: 8466)",
    )
    parser.set_defaults(session=(), on_error="raise")


def named(args: argparse.Namespace) -> list[Address]:
    """The servers that the flags name, each once."""
    from fastprof.inputs.profiler_client.addresses import of_file, of_name
    from fastprof.inputs.profiler_client.job_workers import of_job

    every = [one for several in args.address for one in several]
    every += of_file(args.addresses) if args.addresses is not None else []
    for name in args.dns or ():
        every += of_name(name)
    every += of_job(args.job, os.environ) if args.job is not None else []
    if not every:
        raise UsageError("give a server: HOST:PORT, --addresses FILE, --dns NAME:PORT or --job KIND:PORT")
    return reachable(args, every)


def reachable(args: argparse.Namespace, every: Sequence[Address]) -> list[Address]:
    """Each once, and what calls them is there. Raises UsageError."""
    from fastprof.inputs.profiler_client import calls
    from fastprof.inputs.profiler_client.addresses import each_once

    calls.check_installed()
    once = each_once(every)
    if len(once) < len(every):
        args.talk.note("addresses that are given twice are called once")
    with signals.held():
        import h2.connection  # noqa: F401  before threads need it
    return once


def report_failures(talk: Talk, failures: Sequence[tuple[str, str, str]]) -> None:
    """A line for each server that delivered nothing: its address, the status, the reason; advice once a status."""
    advised: set[str] = set()
    for address, status, reason in failures:
        advice = "" if status in advised else _ADVICE.get(status, "")
        advised.add(status)
        talk.error(
            "; ".join(part for part in (f"{address}: {status}" + (f": {reason}" if reason else ""), advice) if part)
        )


def exit_code(failed: int, servers: int) -> int:
    return 0 if not failed else SOME if failed < servers else ALL
