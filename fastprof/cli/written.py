"""Where captures of servers go, and what is shown of them: the table of servers, remarks, the exit code, --then."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from fastprof.cli import arguments, output, servers, signals
from fastprof.errors import UsageError
from fastprof.inputs.profiler_client import statuses
from fastprof.render.table_forms import FORMATS

if TYPE_CHECKING:
    import pyarrow as pa

    from fastprof.inputs.profiler_client.workers import Outcome
    from fastprof.profile.capture_checks import Check
    from fastprof.profile.captured_run import CapturedRun

_NO_SESSION: Final = ("run", "capture", "snapshot", "monitor")
"""Verbs that read no run."""
_NOT_WRITTEN: Final = 3
"""The exit code of paths that cannot be written."""
_BAD_DATA: Final = 4
"""That of captures that are damaged."""


@arguments.reader
def _hosts(text: str) -> list[str]:
    every = arguments.names(text)
    if not all(name.isprintable() and "/" not in name for name in every):
        raise ValueError(f"{text!r} has a name that no file can have")
    return every


def add_destination(parser: argparse.ArgumentParser, *, is_required: bool) -> argparse._ArgumentGroup:
    """The flags for where captures go and what is shown of them; returns their group."""
    group = add_run(parser, is_required=is_required)
    hosts = group.add_mutually_exclusive_group()
    hosts.add_argument(
        "--hosts", metavar="A,B", type=_hosts, help="name hosts so, one for each address (default: the addresses)"
    )
    hosts.add_argument("--recorded-hosts", action="store_true", help="name hosts as their captures do")
    group.add_argument("--format", choices=FORMATS, default="table", help="format of the table of servers")
    group.add_argument("--wide", action="store_true", help="show full names and all columns of the table")
    parser.set_defaults(output=None, limit=arguments.ALL, interrupted=False)
    return group


def add_run(parser: argparse.ArgumentParser, *, is_required: bool) -> argparse._ArgumentGroup:
    """The flags for the run that is written; returns their group."""
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o", "--logdir", metavar="LOGDIR", required=is_required, help="log directory; made if it is absent"
    )
    group.add_argument("--run", metavar="NAME", help="name of the run (default: the time, as XProf names it)")
    group.add_argument(
        "--then", metavar="VERB", help="then show the run: 'overview', 'diagnosis', or any verb with its flags"
    )
    return group


def checked_name(args: argparse.Namespace, servers_count: int) -> str | None:
    """The name of the run, if it is given. Raises UsageError also for other flags that do not fit."""
    if args.then is not None and args.format != "table":
        raise UsageError(
            "--format is of the table of servers, and with --then that verb writes: --then 'VERB --format …'"
        )
    if args.hosts is not None and len(args.hosts) != servers_count:
        raise UsageError(f"--hosts has {len(args.hosts)} names for {servers_count} addresses")
    return run_name(args)


def run_name(args: argparse.Namespace) -> str | None:
    """The name of the run, if it is given. Raises UsageError."""
    with signals.held():
        from fastprof.profile.captured_run import is_run_name
    args.run, name = None, args.run  # of a session: which run to read
    if name is not None and not is_run_name(name):
        raise UsageError(f"{name[:200]!r} cannot be the name of a run: it is the name of one directory")
    return str(name) if name is not None else None


def time_name() -> str:
    from fastprof.profile.captured_run import run_names

    return next(run_names())


def then_verb(args: argparse.Namespace) -> argparse.Namespace | None:
    """The verb of --then, ready but for its session."""
    if args.then is None:
        return None
    import shlex

    from fastprof.cli import main

    try:
        verb, *flags = shlex.split(args.then)
        if verb not in main.VERBS or verb in _NO_SESSION:
            raise ValueError(f"{verb!r} does not show a run")
        return main.parsed([verb, args.logdir, *flags])
    except ValueError as error:
        raise UsageError(f"--then: {error}") from None
    except SystemExit:
        raise UsageError(f"--then {args.then!r} is not a verb with its flags") from None


@contextlib.contextmanager
def new_run(args: argparse.Namespace, name: str | None) -> Iterator[CapturedRun]:
    """The directory of a new run; it goes if nothing was written to it."""
    from fastprof.profile.captured_run import CapturedRun

    directory = CapturedRun(args.logdir, name)
    try:
        yield directory
    finally:
        directory.remove_if_empty()


def finish(
    args: argparse.Namespace,
    outcomes: Sequence[Outcome],
    directory: CapturedRun | None,
    then: argparse.Namespace | None,
    checks: Callable[[str], Sequence[Check]],
) -> int:
    """Writes the table, remarks, and what --then wants; returns the exit code. ``checks``: of the run at this path."""
    is_there = directory is not None and any(one.file for one in outcomes)
    path = str(directory.path) if directory is not None and is_there else None
    if args.format != "json":  # before the captures are read, which may take long, or be interrupted
        _write(args, outcomes)
    remarks = checks(path) if path is not None else []
    if args.format == "json":
        _write_json(args, outcomes, remarks, path)
    note_remarks(args, remarks)
    if path is not None:
        args.talk.note(f"wrote {path}")
    if args.interrupted:
        output.flush_standard_output()
        raise KeyboardInterrupt
    code = _exit_code(outcomes)
    after = 0 if path is None else shown(args, then, path)
    from fastprof.profile.capture_checks import DAMAGED  # late: it needs dataclasses, which --help does without

    return code or (_BAD_DATA if any(one.code == DAMAGED for one in remarks) else 0) or after


def shown(args: argparse.Namespace, then: argparse.Namespace | None, path: str) -> int:
    """The exit code of --then."""
    if then is None:
        return 0
    then.session, then.talk = [path], args.talk
    return int(then.verb_module.run(then) or 0)


def checks(args: argparse.Namespace, path: str, duration_ps: int, verb: str) -> list[Check]:
    """What a run lacks: see ``capture_checks``."""
    with signals.held():
        from fastprof import load
        from fastprof.profile import capture_checks

    try:
        progress = args.talk.progress if args.talk.progress.wanted else None
        profile = load(path, progress=progress, on_error="salvage")
        return capture_checks.checks(profile, duration_ps, int(args.host_level), int(args.device_level), verb)
    except Exception as error:  # noqa: BLE001  whatever a profiler wrote, it is there
        args.talk.traceback(error)
        args.talk.note(f"the captures cannot be checked: {error}")
        return []


def note_remarks(args: argparse.Namespace, remarks: Sequence[Check]) -> None:
    for one in remarks:
        where = f"{one.host}: " if one.host else ""
        args.talk.note(f"{where}{one.text}" + (f"; {one.advice}" if one.advice else ""))


def _exit_code(outcomes: Sequence[Outcome]) -> int:
    failed = [one for one in outcomes if not one.delivered]
    if any(one.status == statuses.UNWRITTEN for one in failed):
        return _NOT_WRITTEN
    return servers.exit_code(len(failed), len(outcomes))


def _write(args: argparse.Namespace, outcomes: Sequence[Outcome]) -> None:
    """The table, and a line for each server that delivered nothing. With --then standard output is of that verb."""
    if args.then is None:
        with output.opened(args, args.format) as sink:
            output.send_table(args, sink, _workers(outcomes), "workers", args.format, "servers")
    else:
        for one in outcomes:
            if one.delivered:
                args.talk.note(f"{one.address}: {one.file}")
    _report(args, outcomes)


def _write_json(
    args: argparse.Namespace, outcomes: Sequence[Outcome], remarks: Sequence[Check], path: str | None
) -> None:
    """One document with the table, and that of remarks. ``path``: of the run."""
    from fastprof.render import as_json

    failed = sum(not one.delivered for one in outcomes)
    summary = {"run": path, "servers": len(outcomes), "failed": failed}
    with output.opened(args, "json") as sink:
        sink.send(as_json.sections(summary, {"workers": _workers(outcomes), "remarks": _remarks(remarks)}))
    _report(args, outcomes)


def _report(args: argparse.Namespace, outcomes: Sequence[Outcome]) -> None:
    failed = [one for one in outcomes if not one.delivered]
    servers.report_failures(args.talk, [(one.address, one.status, one.reason) for one in failed])


def _workers(outcomes: Sequence[Outcome]) -> pa.Table:
    from types import SimpleNamespace

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


def _remarks(remarks: Sequence[Check]) -> pa.Table:
    from types import SimpleNamespace

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
