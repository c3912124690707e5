"""Capture what programs have recorded since continuous profiling began, or since the last snapshot.

--start makes programs record all the time, into a buffer that drops the oldest records; --stop ends that. Without these
flags, the buffers are written to LOGDIR/plugins/profile/RUN/HOST.xplane.pb, and recording continues: the time before an
event can still be captured once the event has happened. Meanwhile, 'fastprof capture' finds the servers busy.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from fastprof.cli import arguments, servers
from fastprof.errors import UsageError
from fastprof.export.new_files import LOGDIR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastprof.inputs.profiler_client.profiler_servers import Address
    from fastprof.inputs.profiler_client.workers import Outcome, Save

_FORMALITY_MS: Final = 2000
"""Duration in the request that starts it, as XProf sends it; it has no effect."""
_PERIOD_S: Final = 0.1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    servers.add_addresses(parser)
    group = parser.add_argument_group("continuous profiling")
    which = group.add_mutually_exclusive_group()
    which.add_argument("--start", action="store_true", help="start recording")
    which.add_argument("--stop", action="store_true", help="stop recording, and drop the records")
    servers.add_levels(parser.add_argument_group("what to record, with --start"), python=0)
    servers.add_destination(parser)
    group = parser.add_argument_group("calling")
    group.add_argument(
        "--timeout",
        metavar="TIME",
        type=servers.parse_waiting_time,
        help="maximum wait for an answer (default: five minutes)",
    )
    arguments.add_talk(parser)


def run(args: argparse.Namespace) -> int:
    from fastprof.inputs.profiler_client import service_messages

    addresses = servers.list_named(args)
    name = servers.check_name(args, len(addresses))
    if args.start or args.stop:
        if args.logdir != LOGDIR or args.then is not None:
            raise UsageError("--start and --stop return no capture, so they do not accept -o or --then")
        methods = service_messages.START if args.start else service_messages.STOP
        outcomes = _call_servers(args, addresses, methods, servers.make_time_name(), None)
        return servers.finish_capture(args, outcomes, None, None, lambda _path: [])
    then = servers.parse_then_verb(args)
    with servers.stage_runs(args, name):
        with servers.make_run(args, name) as directory:
            outcomes = _call_servers(args, addresses, service_messages.SNAPSHOT, directory.name, directory.save)
        return servers.finish_capture(args, outcomes, directory, then, lambda _path: [])


def _call_servers(
    args: argparse.Namespace, addresses: Sequence[Address], methods: tuple[str, ...], session: str, save: Save | None
) -> list[Outcome]:
    from fastprof.inputs.profiler_client.workers import CapturePlan, Crew, Worker

    requests = servers.make_requests(args, addresses, servers.make_options(args, _FORMALITY_MS), session)
    plan = CapturePlan(attempts=1, grace_s=args.timeout, recorded_hosts=args.recorded_hosts)
    every = [
        Worker(address, request, plan, save, methods) for address, request in zip(addresses, requests, strict=True)
    ]
    with Crew(every) as crew:
        while not crew.wait(_PERIOD_S):
            args.talk.progress("waiting for answers", crew.answered, len(every))
    args.talk.progress.clear()
    return crew.outcomes()
