"""Capture profiles from running programs, from many at once.

The programs must have a profiler server: jax.profiler.start_server(PORT), tf.profiler.experimental.server.start(PORT),
xp.start_server(PORT), or a TPU runtime. All begin at one moment. Each capture is written to
LOGDIR/plugins/profile/RUN/HOST.xplane.pb when it comes, complete or not at all; a server that fails costs the others
nothing. Ctrl-C ends the capture early and keeps what was recorded; a second one gives up.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from fastprof.cli import arguments, output, servers, signals
from fastprof.errors import FastprofError, UsageError
from fastprof.inputs.profiler_client import statuses
from fastprof.render.table_forms import FORMATS

if TYPE_CHECKING:
    import pyarrow as pa

    from fastprof.inputs.profiler_client.addresses import Address
    from fastprof.inputs.profiler_client.service_messages import Setting
    from fastprof.inputs.profiler_client.workers import Crew, Outcome, Save
    from fastprof.profile.capture_checks import Check
    from fastprof.profile.captured_run import CapturedRun

_COMMON_DELAY_S: Final = 3.0
"""Before several begin at one moment: until then all have to be reached."""
_PERIOD_S: Final = 0.1
_PYTHON_MS: Final = 5000
_NOT_WRITTEN: Final = 3
"""The exit code of paths that cannot be written."""


@arguments.reader
def _setting(text: str) -> tuple[str, Setting]:
    import json

    name, equals, value = text.partition("=")
    if not (equals and name.strip()):
        raise ValueError(f"{text!r} is not an option; write KEY=VALUE")
    with suppress(ValueError):
        read = json.loads(value)
        if isinstance(read, str | bool) or (isinstance(read, int) and -(1 << 63) <= read < 1 << 63):
            return name.strip(), read
    return name.strip(), value


@arguments.reader
def _hosts(text: str) -> list[str]:
    every = arguments.names(text)
    if not all(name.isprintable() and "/" not in name for name in every):
        raise ValueError(f"{text!r} has a name that no file can have")
    return every


def _level(highest: int, usual: int) -> Any:
    return {"choices": [str(level) for level in range(highest + 1)], "default": str(usual)}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    servers.add_addresses(parser)
    group = parser.add_argument_group("what to record")
    group.add_argument(
        "--duration", metavar="TIME", type=servers.milliseconds, default=2000, help="how long (default: 2s)"
    )
    group.add_argument(
        "--delay",
        metavar="TIME",
        type=servers.waiting_time,
        help="begin this much later, on the clock of each server; 0s begins at once (default: 0s, 3s for several)",
    )
    group.add_argument("--host-level", **_level(3, 2), help="host tracer: 0 off, 1 annotations, 2, 3 all ops")
    group.add_argument("--device-level", **_level(1, 1), help="device tracer: 0 off, 1 on (default: 1)")
    group.add_argument("--python-level", **_level(1, 0), help="Python tracer: 0 off, 1 on (default: 0)")
    group.add_argument(
        "--set",
        metavar="KEY=VALUE",
        type=_setting,
        action="append",
        default=[],
        help='advanced option of the profiler; true, false and whole numbers are sent as such, others and "5" as '
        "texts; repeatable",
    )
    _add_destination(parser)
    group = parser.add_argument_group("calling")
    group.add_argument(
        "--attempts",
        metavar="N",
        type=arguments.positive,
        default=3,
        help="how often a server is called that is busy or cannot be reached (default: 3)",
    )
    group.add_argument(
        "--timeout",
        metavar="TIME",
        type=servers.waiting_time,
        help="how long after the end of the capture an answer may take (default: a minute, or the duration if longer)",
    )
    arguments.add_talk(parser)


def _add_destination(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument("-o", "--logdir", metavar="LOGDIR", required=True, help="log directory; made if it is absent")
    group.add_argument("--run", metavar="NAME", help="name of the run (default: the time, as XProf names it)")
    hosts = group.add_mutually_exclusive_group()
    hosts.add_argument(
        "--hosts", metavar="A,B", type=_hosts, help="name hosts so, one for each address (default: the addresses)"
    )
    hosts.add_argument("--recorded-hosts", action="store_true", help="name hosts as their captures do")
    group.add_argument(
        "--on-server", action="store_true", help="the servers write the captures to LOGDIR, which is a path of theirs"
    )
    group.add_argument(
        "--then", metavar="VERB", help="then show the run: 'overview', 'diagnosis', or any verb with its flags"
    )
    group.add_argument("--no-checks", action="store_true", help="do not look into the captures for what they lack")
    group.add_argument("--format", choices=FORMATS, default="table", help="format of the table of servers")
    group.add_argument("--wide", action="store_true", help="show full names and all columns of the table")
    parser.set_defaults(output=None, limit=arguments.ALL)


def run(args: argparse.Namespace) -> int:
    if args.then is not None and args.format != "table":
        raise UsageError(
            "--format is of the table of servers, and with --then that verb writes: --then 'VERB --format …'"
        )
    addresses = servers.named(args)
    if args.hosts is not None and len(args.hosts) != len(addresses):
        raise UsageError(f"--hosts has {len(args.hosts)} names for {len(addresses)} addresses")
    args.run, name = None, args.run  # of a session: which run to read
    with signals.held():
        from fastprof.profile.captured_run import CapturedRun, is_run_name, run_names
    if name is not None and not is_run_name(name):
        raise UsageError(f"{name[:200]!r} cannot be the name of a run: it is the name of one directory")
    if args.on_server:
        _check_on_server(args)
        return _shown(args, _captured(args, addresses, name or next(run_names()), None), None)
    then = _then(args)
    directory = CapturedRun(args.logdir, name)
    try:
        outcomes = _captured(args, addresses, directory.name, directory.save)
    finally:
        directory.remove_if_empty()
    return _shown(args, outcomes, directory, then)


def _check_on_server(args: argparse.Namespace) -> None:
    if not (args.logdir.startswith("/") or "://" in args.logdir):
        raise UsageError("with --on-server LOGDIR is a path on the servers: give it from the root, or as gs://BUCKET/…")
    if args.then or args.recorded_hosts:
        raise UsageError("with --on-server the captures are not here: without --then and --recorded-hosts")


def _then(args: argparse.Namespace) -> argparse.Namespace | None:
    """The verb of --then, ready but for its session."""
    if args.then is None:
        return None
    import shlex

    from fastprof.cli import main

    try:
        verb, *flags = shlex.split(args.then)
        if verb not in main.VERBS or verb in ("capture", "monitor"):
            raise ValueError(f"{verb!r} does not show a run")
        return main.parsed([verb, args.logdir, *flags])
    except ValueError as error:
        raise UsageError(f"--then: {error}") from None
    except SystemExit:
        raise UsageError(f"--then {args.then!r} is not a verb with its flags") from None


def _captured(args: argparse.Namespace, addresses: Sequence[Address], session: str, save: Save | None) -> list[Outcome]:
    from fastprof.inputs.profiler_client import service_messages, workers

    host, device, python = map(int, (args.host_level, args.device_level, args.python_level))
    options = service_messages.Options(args.duration, host, device, python, dict(args.set))
    delay = args.delay if args.delay is not None else _COMMON_DELAY_S if len(addresses) > 1 else 0.0
    if delay and args.delay is None:
        args.talk.note(f"all begin in {delay:g} s, at one moment by their clocks; --delay changes that")
    if options.python_level and args.duration > _PYTHON_MS:
        args.talk.note(
            "the Python tracer writes tens of megabytes a second, and slows the program; a shorter --duration"
        )
    root = f"{args.logdir.rstrip('/')}/plugins/profile" if save is None else ""
    start = time.time_ns() + int(delay * 10**9) if delay else 0
    plan = workers.Plan(args.attempts, start, args.timeout, args.recorded_hosts)
    names = args.hosts or [""] * len(addresses)
    requests = [
        service_messages.Request(options, session, one.as_host, root=root, override=name)
        for one, name in zip(addresses, names, strict=True)
    ]
    every = [workers.Worker(one, request, plan, save) for one, request in zip(addresses, requests, strict=True)]
    crew = workers.Crew(every)
    with signals.counted(lambda times: _stop(args, crew, times)), crew:
        _wait(args, crew, delay)
    args.talk.progress.clear()
    return crew.outcomes()


def _wait(args: argparse.Namespace, crew: Crew, delay: float) -> None:
    begin, seconds, servers_count = time.monotonic() + delay, args.duration / 1000, len(crew.workers)
    while not crew.wait(_PERIOD_S):
        passed = time.monotonic() - begin
        if passed < 0:
            args.talk.progress("until all begin", int(1000 * (delay + passed)), int(1000 * delay))
        elif passed < seconds:
            args.talk.progress("capturing", int(1000 * passed), args.duration)
        else:
            args.talk.progress("waiting for captures", crew.answered, servers_count)


def _stop(args: argparse.Namespace, crew: Crew, times: int) -> None:
    args.interrupted = True
    if times > 1:
        crew.cancel()
        return
    crew.terminate()
    args.talk.note("ending the capture; what was recorded is kept; Ctrl-C again gives up")


def _shown(
    args: argparse.Namespace,
    outcomes: list[Outcome],
    directory: CapturedRun | None,
    then: argparse.Namespace | None = None,
) -> int:
    """Writes the table, remarks, and what --then wants; returns the exit code."""
    failed = [one for one in outcomes if not one.delivered]
    is_there = directory is not None and any(one.file for one in outcomes)
    remarks = _checks(args, str(directory.path)) if is_there and directory and not args.no_checks else []
    _write(args, outcomes, remarks, str(directory.path) if is_there and directory else None)
    servers.report_failures(args.talk, [(one.address, one.status, one.reason) for one in failed])
    for one in remarks:
        where = f"{one.host}: " if one.host else ""
        args.talk.note(f"{where}{one.text}" + (f"; {one.advice}" if one.advice else ""))
    if is_there and directory:
        args.talk.note(f"wrote {directory.path}")
    if getattr(args, "interrupted", False):
        output.flush_standard_output()
        raise KeyboardInterrupt
    code = servers.exit_code(len(failed), len(outcomes))
    if any(one.status == statuses.UNWRITTEN for one in failed):
        code = _NOT_WRITTEN
    if then is not None and is_there and directory:
        then.session, then.talk = [str(directory.path)], args.talk
        shown = then.verb_module.run(then)
        return code or int(shown or 0)
    return code


def _write(args: argparse.Namespace, outcomes: list[Outcome], remarks: list[Check], path: str | None) -> None:
    if args.then is not None:  # standard output is of that verb
        for one in outcomes:
            if one.delivered:
                args.talk.note(f"{one.address}: {one.file}")
        return
    tables = {"workers": _workers(outcomes), "remarks": _remarks(remarks)}
    with output.opened(args, args.format) as sink:
        if args.format != "json":
            output.send_table(args, sink, tables["workers"], "workers", args.format, "servers")
            return
        from fastprof.render import as_json

        failed = sum(not one.delivered for one in outcomes)
        sink.send(as_json.sections({"run": path, "servers": len(outcomes), "failed": failed}, tables))


def _workers(outcomes: list[Outcome]) -> pa.Table:
    from fastprof.schema.column_kinds import Bytes, Count, String
    from fastprof.schema.tables import TableSchema

    columns = (
        String("address", "address that was called"),
        String("status", "written, on the server, or why nothing came"),
        Bytes(
            "size_bytes",
            "size of the capture; null: it is not here",
            null=lambda rows: [not one for one in rows.size_bytes],
        ),
        Count("attempts", "how often the server was called"),
        String("file", "the capture; null: there is none", null=lambda rows: [not one for one in rows.file]),
        String("host", "name of the host"),
        String(
            "reason",
            "what the server, or the network, answered; null: it delivered",
            null=lambda rows: [not one for one in rows.reason],
        ),
    )
    rows = SimpleNamespace(
        **{
            name: [getattr(one, name) for one in outcomes]
            for name in ("address", "status", "attempts", "file", "host", "reason")
        },
        size_bytes=[one.size for one in outcomes],
    )
    return TableSchema("workers", "a server", columns, derived=True).of(rows)


def _remarks(remarks: list[Check]) -> pa.Table:
    from fastprof.schema.column_kinds import String
    from fastprof.schema.tables import TableSchema

    columns = (
        String("code", "what is missing, for programs"),
        String("host", "host; null: all"),
        String("text", "what is missing"),
        String("advice", "how the next capture gets it"),
    )
    rows = SimpleNamespace(**{one.name: [getattr(row, one.name) for row in remarks] for one in columns})
    return TableSchema("remarks", "something that the captures lack", columns, derived=True).of(rows)


def _checks(args: argparse.Namespace, path: str) -> list[Check]:
    with signals.held():
        from fastprof import load
        from fastprof.profile.capture_checks import checks

    try:
        progress = args.talk.progress if args.talk.progress.wanted else None
        profile = load(path, progress=progress, on_error="salvage")
        return checks(profile, args.duration * 10**9, int(args.host_level), int(args.device_level))
    except FastprofError as error:  # whatever the server sent, it is written
        args.talk.note(f"the captures cannot be checked: {error}")
        return []
