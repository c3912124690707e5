"""Profiler servers: the flags that name them, what is said of those that do not answer, and what their captures become:
the run, the table of servers, remarks, the exit code, --then."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from fastprof.cli import arguments, output, process
from fastprof.errors import OutputError, UsageError
from fastprof.export.new_files import LOGDIR
from fastprof.inputs.profiler_client import statuses
from fastprof.render.table_forms import FORMATS
from fastprof.wording.patterns import compile_late

if TYPE_CHECKING:
    import pyarrow as pa

    from fastprof.cli.output import Messages
    from fastprof.inputs.profiler_client.profiler_servers import Address
    from fastprof.inputs.profiler_client.service_messages import CaptureOptions, CaptureRequest, Setting
    from fastprof.inputs.profiler_client.workers import Outcome
    from fastprof.profile.captured_run import CapturedRun, Check
    from fastprof.profile.run_upload import RunUpload


SOME, ALL = 5, 6
"""Exit codes if nothing came from some servers, and from all."""
_LONG_UNITS: Final = {"m": 60, "h": 3600}
_LONG_TIME: Final = compile_late(r"([\d.]+)([mh])", re.ASCII)
_LONGEST_PS: Final = 24 * 3600 * 10**12
_ADVICE: Final = {
    statuses.UNREACHABLE: "the program has to start a profiler server: jax.profiler.start_server(PORT), "
    "tf.profiler.experimental.server.start(PORT), xp.start_server(PORT)",
    statuses.LOST: "the program, or the network to it, ended while it was called",
    statuses.BUSY: "the program records another capture; wait for its end, or stop it",
    statuses.LATE: "it may need longer (--timeout), or its clock is behind: use --delay 0s",
    statuses.UNSUPPORTED: "the server at this port does not support this",
    statuses.TOO_LARGE: "--on-server lets the server write captures of any size; or give a shorter --duration",
    statuses.EMPTY: "no event was recorded: the program did nothing then, or its tracers are off",
}


@arguments.make_reader
def parse_addresses(text: str) -> list[Address]:
    from fastprof.inputs.profiler_client.profiler_servers import parse_addresses

    return parse_addresses(text)


@arguments.make_reader
def parse_milliseconds(text: str) -> int:
    """Parse a time as whole milliseconds, which the profiler's service counts in."""
    from fastprof.wording.amounts import parse_time

    time = parse_time(text)
    if time % 10**9 or not 0 < time <= _LONGEST_PS:
        raise ValueError(f"{text!r} is not an integer number of milliseconds, from 1ms to a day: 500ms, 2s")
    return time // 10**9


@arguments.make_reader
def parse_waiting_time(text: str) -> float:
    """Parse a time as seconds, from 0 to a day; minutes and hours are allowed: 10m, 1h."""
    from fastprof.wording.amounts import parse_time

    long = _LONG_TIME.fullmatch(text.strip())
    time = parse_time(text) if long is None else _LONG_UNITS[long[2]] * parse_time(f"{long[1]}s")
    if not 0 <= time <= _LONGEST_PS:
        raise ValueError(f"{text!r} is not a time from 0s to a day")
    return time / 10**12


@arguments.make_reader
def _parse_setting(text: str) -> tuple[str, Setting]:
    import json

    name, equals, value = text.partition("=")
    if not (equals and name.strip()):
        raise ValueError(f"{text!r} is not an option; write KEY=VALUE")
    with contextlib.suppress(ValueError):
        read = json.loads(value)
        if isinstance(read, str | bool) or (isinstance(read, int) and -(1 << 63) <= read < 1 << 63):
            return name.strip(), read
    return name.strip(), value


def add_levels(group: argparse._ArgumentGroup, python: int | None = 1) -> None:
    """Add the flags for what the profiler records. ``python``: default level of the Python tracer, or None: 1, with a
    second recording at 0 if that costs too much."""

    def level(highest: int, usual: int) -> dict[str, Any]:
        return {"choices": [str(level) for level in range(highest + 1)], "default": str(usual)}

    group.add_argument("--host-level", **level(3, 2), help="host tracer: 0 off, 1 annotations, 2 default, 3 verbose")
    group.add_argument("--device-level", **level(1, 1), help="device tracer: 0 off, 1 on (default: 1)")
    usual = "1; second recording with 0 if steps take over 5 %% longer" if python is None else str(python)
    group.add_argument(
        "--python-level",
        **level(1, 0) | {"default": None if python is None else str(python)},
        help=f"Python tracer: 0 off, 1 on (default: {usual})",
    )
    group.add_argument(
        "--set",
        metavar="KEY=VALUE",
        type=_parse_setting,
        action="append",
        default=[],
        help="advanced profiler option; true, false and integers keep their type, everything else and "
        '"5" are strings; repeatable',
    )


def make_options(args: argparse.Namespace, duration_ms: int) -> CaptureOptions:
    from fastprof.inputs.profiler_client.service_messages import CaptureOptions

    host, device, python = map(int, (args.host_level, args.device_level, args.python_level or 1))
    return CaptureOptions(duration_ms, host, device, python, dict(args.set))


def make_requests(
    args: argparse.Namespace, addresses: Sequence[Address], options: CaptureOptions, session: str, root: str = ""
) -> list[CaptureRequest]:
    """Return a request for each server, with the host name from --hosts. ``root``: where the servers write; "" if they
    do not."""
    from fastprof.inputs.profiler_client.service_messages import CaptureRequest

    names = args.hosts or [""] * len(addresses)
    return [
        CaptureRequest(options, session, address.as_host, root=root, override=name)
        for address, name in zip(addresses, names, strict=True)
    ]


def add_addresses(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "address",
        metavar="ADDR",
        nargs="*",
        type=parse_addresses,
        help="address of a profiler server, HOST:PORT, [IPv6]:PORT, or PORT of this machine; several: A,B or A B",
    )
    group = parser.add_argument_group("servers")
    group.add_argument(
        "--addresses", metavar="FILE", help="file with addresses, separated by blanks, commas or line ends"
    )
    group.add_argument(
        "--dns",
        metavar="NAME:PORT",
        action="append",
        help="all addresses that this DNS name resolves to, as for a headless Kubernetes service; repeatable",
    )
    group.add_argument(
        "--job",
        metavar="KIND:PORT",
        help="the current job's machines: slurm:PORT; slurm:FIRST-LAST for several processes per machine; tpu for a "
        "Cloud TPU (port 8466)",
    )
    parser.set_defaults(session=(), on_error="raise")


def list_named(args: argparse.Namespace) -> list[Address]:
    """Return the servers that the flags name, each once."""
    from fastprof.inputs.profiler_client.profiler_servers import list_job_addresses, read_addresses, resolve_name

    every = [address for several in args.address for address in several]
    every += read_addresses(args.addresses) if args.addresses is not None else []
    for name in args.dns or ():
        every += resolve_name(name)
    every += list_job_addresses(args.job, os.environ) if args.job is not None else []
    if not every:
        raise UsageError("give a server: HOST:PORT, --addresses FILE, --dns NAME:PORT or --job KIND:PORT")
    return find_reachable(args, every)


def find_reachable(args: argparse.Namespace, every: Sequence[Address]) -> list[Address]:
    """Return each address once. UsageError: what is needed to call servers is not installed."""
    from fastprof.inputs.profiler_client import workers
    from fastprof.inputs.profiler_client.profiler_servers import drop_repeated

    workers.check_installed()
    once = drop_repeated(every)
    if len(once) < len(every):
        args.talk.note("duplicate addresses are called once")
    with process.hold_signals():
        import h2.connection  # noqa: F401  before threads need it
    return once


def report_failures(talk: Messages, failures: Sequence[tuple[str, str, str]]) -> None:
    """Report each server that delivered nothing: address, status, reason, and advice once per status."""
    advised: set[str] = set()
    for address, status, reason in failures:
        advice = "" if status in advised else _ADVICE.get(status, "")
        advised.add(status)
        talk.error(
            "; ".join(part for part in (f"{address}: {status}" + (f": {reason}" if reason else ""), advice) if part)
        )


def get_exit_code(failed: int, servers: int) -> int:
    return 0 if not failed else SOME if failed < servers else ALL


_NO_SESSION: Final = ("run", "capture", "snapshot", "monitor")
"""Verbs that read no run."""
_NOT_WRITTEN: Final = 3
"""Exit code of paths that cannot be written."""
_BAD_DATA: Final = 4
"""Exit code of damaged captures."""


@arguments.make_reader
def _parse_hosts(text: str) -> list[str]:
    every = arguments.split_names(text)
    if not all(name.isprintable() and "/" not in name for name in every):
        raise ValueError(f"{text!r} has a name that no file can have")
    return every


def add_destination(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add the flags for the destination and display of captures, and return their group."""
    group = add_run(parser)
    hosts = group.add_mutually_exclusive_group()
    hosts.add_argument(
        "--hosts", metavar="A,B", type=_parse_hosts, help="host names, one per address (default: the addresses)"
    )
    hosts.add_argument("--recorded-hosts", action="store_true", help="use the host names recorded in the captures")
    group.add_argument("--format", choices=FORMATS, default="table", help="format of the server table")
    arguments.add_brief(group)
    group.add_argument("--wide", action="store_true", help="show full names and all columns of the table")
    parser.set_defaults(output=None, limit=arguments.ALL, interrupted=False, content="")
    return group


def add_run(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add the flags for the run that is written, and return their group."""
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o",
        "--logdir",
        metavar="LOGDIR",
        default=LOGDIR,
        help=f"log directory, a path or URL; each recording becomes a new run in it (default: {LOGDIR})",
    )
    group.add_argument("--run", metavar="NAME", help="run name (default: the time, in XProf's format)")
    parser.set_defaults(upload=None)
    group.add_argument(
        "--then", metavar="VERB", help="then show the run with 'overview', 'diagnosis', or any verb with its flags"
    )
    return group


def check_name(args: argparse.Namespace, servers_count: int) -> str | None:
    """Return the name of the run, if it is given. UsageError: the name or another flag does not fit."""
    if args.then is not None and args.format != "table":
        raise UsageError(
            "--format is of the table of servers, and with --then that verb writes: --then 'VERB --format …'"
        )
    if args.hosts is not None and len(args.hosts) != servers_count:
        raise UsageError(f"--hosts has {len(args.hosts)} names for {servers_count} addresses")
    return get_run_name(args)


def get_run_name(args: argparse.Namespace) -> str | None:
    """Return the name of the run, if it is given, and remove the flag. UsageError: it cannot be a directory's name."""
    with process.hold_signals():
        from fastprof.profile.run_names import is_run_name
    args.run, name = None, args.run  # for a session, the flag names the run to read
    if name is not None and not is_run_name(name):
        raise UsageError(f"{name[:200]!r} cannot be the name of a run: it is the name of one directory")
    return str(name) if name is not None else None


@contextlib.contextmanager
def stage_runs(args: argparse.Namespace, name: str | None, *, is_shared: bool = False) -> Iterator[None]:
    """If LOGDIR is a URL, let it be a temporary folder in this block, from which ``publish_run`` uploads runs.
    ``name``: of the run, if it was given; unless ``is_shared``, the store must not have it. Raises UsageError,
    OutputError."""
    from fastprof.profile.captured_run import open_upload

    upload: RunUpload | None = open_upload(args.logdir, is_named=name is not None)
    url, args.upload = args.logdir, upload
    if upload is None:
        yield
        return
    args.logdir = upload.folder
    try:
        if name is not None and not is_shared and upload.has_run(name):
            raise OutputError(f"already has a run {name!r}; give the run another name", path=url)
        yield
    finally:
        args.upload.discard()
        args.logdir, args.upload = url, None


def publish_run(args: argparse.Namespace, path: str) -> str:
    """Return where the run at a path stays: there, or in the store that it is uploaded to. Raises OutputError."""
    return path if args.upload is None else str(args.upload.send(path))


def make_time_name() -> str:
    from fastprof.profile.run_names import suggest_run_names

    return next(suggest_run_names())


def parse_then_verb(args: argparse.Namespace) -> argparse.Namespace | None:
    """Parse the verb of --then; its session is set later."""
    if args.then is None:
        return None
    import shlex

    from fastprof.cli import main

    try:
        verb, *flags = shlex.split(args.then)
        if verb not in main.VERBS or verb in _NO_SESSION:
            raise ValueError(f"{verb!r} does not show a run")
        return main.parse_arguments([verb, args.logdir, *flags])
    except ValueError as error:
        raise UsageError(f"--then: {error}") from None
    except SystemExit:
        raise UsageError(f"--then {args.then!r} is not a verb with its flags") from None


@contextlib.contextmanager
def make_run(args: argparse.Namespace, name: str | None) -> Iterator[CapturedRun]:
    """Make the directory of a new run, and remove it if nothing was written to it."""
    from fastprof.profile.captured_run import CapturedRun

    directory = CapturedRun(args.logdir, name)
    try:
        yield directory
    finally:
        directory.remove_if_empty()


_COST: Final = "cost not measured: only 'fastprof run' and fastprof.record see steps without recording"


def finish_capture(
    args: argparse.Namespace,
    outcomes: Sequence[Outcome],
    directory: CapturedRun | None,
    then: argparse.Namespace | None,
    checks: Callable[[str], Sequence[Check]],
) -> int:
    """Write the table and remarks, run the verb of --then, and return the exit code. ``checks``: returns the checks of
    the run at a path."""
    is_there = directory is not None and any(outcome.file for outcome in outcomes)
    path = str(directory.path) if directory is not None and is_there else None
    if args.format != "json":  # before the captures are read, which may take long, or be interrupted
        _write_outcomes(args, outcomes)
    remarks = checks(path) if path is not None else []
    place, unsent = path, False
    if path is not None:
        try:
            place = publish_run(args, path)
        except OutputError as error:  # later captures may have better luck
            unsent = True
            args.talk.error(str(error))
    if args.format == "json":
        _write_json(args, outcomes, remarks, place)
    note_remarks(args, remarks)
    if place is not None:
        if args.content:
            args.talk.note(f"recorded {args.content}")
        args.talk.note(_COST + ("; --python-level 0 records less" if args.python_level == "1" else ""))
        args.talk.note(f"wrote {place}")
    if args.interrupted:
        output.flush_standard_output()
        raise KeyboardInterrupt
    failed = [outcome for outcome in outcomes if not outcome.delivered]
    is_unwritten = unsent or any(outcome.status == statuses.UNWRITTEN for outcome in failed)
    code = _NOT_WRITTEN if is_unwritten else get_exit_code(len(failed), len(outcomes))
    after = 0 if path is None else show_run(args, then, path, "capture")
    from fastprof.profile.captured_run import DAMAGED  # late: it needs dataclasses, which --help does without

    return code or (_BAD_DATA if any(remark.code == DAMAGED for remark in remarks) else 0) or after


def show_run(args: argparse.Namespace, then: argparse.Namespace | None, path: str, verb: str) -> int:
    """Run the verb of --then on the run, and return its exit code. ``verb`` recorded the run; hints name its flags."""
    if then is None:
        return 0
    then.session, then.talk = [path], args.talk
    if getattr(then, "recorded_with", verb) == "unknown":
        then.recorded_with = verb
    return int(then.verb_module.run(then) or 0)


def check_run(args: argparse.Namespace, path: str, duration_ps: int, verb: str) -> list[Check]:
    """Check the captures of a run: see ``check_capture``. Sets ``args.content`` to a line about their content."""
    with process.hold_signals():
        from fastprof import load
        from fastprof.profile import captured_run

    try:
        progress = args.talk.progress if args.talk.progress.wanted else None
        profile = load(path, progress=progress, on_error="salvage")
        levels = int(args.host_level), int(args.device_level)
        remarks = captured_run.check_capture(profile, duration_ps, *levels, verb)
        args.content = captured_run.describe_content(profile)
        return remarks
    except Exception as error:  # noqa: BLE001  whatever a profiler wrote, it is there
        args.talk.traceback(error)
        args.talk.note(f"the captures cannot be checked: {error}")
        return []


def note_remarks(args: argparse.Namespace, remarks: Sequence[Check]) -> None:
    for remark in remarks:
        where = f"{remark.host}: " if remark.host else ""
        args.talk.note(f"{where}{remark.text}" + (f"; {remark.advice}" if remark.advice else ""))


def _write_outcomes(args: argparse.Namespace, outcomes: Sequence[Outcome]) -> None:
    """Write the table, and a line for each server that delivered nothing. With --then standard output is of that
    verb."""
    if args.then is None:
        with output.open_sink(args, args.format) as sink:
            output.send_table(args, sink, _make_worker_table(outcomes), "workers", args.format, "servers")
    else:
        for outcome in outcomes:
            if outcome.delivered:
                args.talk.note(f"{outcome.address}: {outcome.file}")
    _report_outcomes(args, outcomes)


def _write_json(
    args: argparse.Namespace, outcomes: Sequence[Outcome], remarks: Sequence[Check], path: str | None
) -> None:
    """Write one document with the table of servers and that of remarks. ``path``: of the run."""
    from fastprof.render import as_json

    failed = sum(not outcome.delivered for outcome in outcomes)
    summary = {"run": path, "servers": len(outcomes), "failed": failed}
    with output.open_sink(args, "json") as sink:
        sink.send(
            as_json.write_sections(
                summary, {"workers": _make_worker_table(outcomes), "remarks": _make_remark_table(remarks)}
            )
        )
    _report_outcomes(args, outcomes)


def _report_outcomes(args: argparse.Namespace, outcomes: Sequence[Outcome]) -> None:
    failed = [outcome for outcome in outcomes if not outcome.delivered]
    report_failures(args.talk, [(outcome.address, outcome.status, outcome.reason) for outcome in failed])


def _make_worker_table(outcomes: Sequence[Outcome]) -> pa.Table:
    from types import SimpleNamespace

    from fastprof.schema.tables import Bytes, Count, String, TableSchema

    columns = (
        String("address", "address that was called"),
        String("status", "result: written, on the server, or why there is no capture"),
        Bytes(
            "size_bytes",
            "size of the capture; null: no capture here",
            null=lambda rows: [not size for size in rows.size_bytes],
        ),
        Count("attempts", "number of calls to the server"),
        String("file", "the capture; null: there is none", null=lambda rows: [not file for file in rows.file]),
        String("host", "name of the host"),
        String(
            "reason",
            "answer of the server or the network; null: a capture was delivered",
            null=lambda rows: [not reason for reason in rows.reason],
        ),
    )
    rows = SimpleNamespace(
        **{
            name: [getattr(outcome, name) for outcome in outcomes]
            for name in ("address", "status", "attempts", "file", "host", "reason")
        },
        size_bytes=[outcome.size for outcome in outcomes],
    )
    return TableSchema("workers", "a server", columns, derived=True).of(rows)


def _make_remark_table(remarks: Sequence[Check]) -> pa.Table:
    from types import SimpleNamespace

    from fastprof.schema.tables import String, TableSchema

    columns = (
        String("code", "missing item, as a code"),
        String("host", "host; null: all"),
        String("text", "missing item"),
        String("advice", "how to record it next time"),
    )
    rows = SimpleNamespace(**{column.name: [getattr(row, column.name) for row in remarks] for column in columns})
    return TableSchema("remarks", "something that the captures lack", columns, derived=True).of(rows)
