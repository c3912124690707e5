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
from typing import TYPE_CHECKING, Final

from fastprof.cli import arguments, rolling, servers, signals, written
from fastprof.errors import UsageError

if TYPE_CHECKING:
    from fastprof.inputs.profiler_client.addresses import Address
    from fastprof.inputs.profiler_client.workers import Crew, Outcome, Save
    from fastprof.profile.capture_checks import Check
    from fastprof.profile.captured_run import CapturedRun

_COMMON_DELAY_S: Final = 3.0
"""Before several begin at one moment: until then all have to be reached."""
_PERIOD_S: Final = 0.1
_PYTHON_MS: Final = 5000


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
    servers.add_levels(group)
    group = written.add_destination(parser, is_required=True)
    group.add_argument(
        "--on-server", action="store_true", help="the servers write the captures to LOGDIR, which is a path of theirs"
    )
    group.add_argument("--no-checks", action="store_true", help="do not look into the captures for what they lack")
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
        help="how long after its end a capture may take to come (default: five minutes, or the duration if longer)",
    )
    rolling.add_arguments(parser)
    arguments.add_talk(parser)


def run(args: argparse.Namespace) -> int:
    rolling.check(args)
    addresses = servers.named(args)
    name = written.checked_name(args, len(addresses))
    if args.on_server:
        _check_on_server(args)
        outcomes = _captured(args, addresses, name or written.time_name(), None)
        return written.finish(args, outcomes, None, None, lambda _path: [])
    then = written.then_verb(args)

    def capture(is_last: bool) -> tuple[int, CapturedRun | None]:
        with written.new_run(args, name) as directory:
            outcomes = _captured(args, addresses, directory.name, directory.save)
        code = written.finish(args, outcomes, directory, then if is_last else None, lambda path: _checks(args, path))
        return code, directory if any(one.file for one in outcomes) else None

    return rolling.captures(args, capture)


def _checks(args: argparse.Namespace, path: str) -> Sequence[Check]:
    return [] if args.no_checks else written.checks(args, path, args.duration * 10**9, "capture")


def _check_on_server(args: argparse.Namespace) -> None:
    if not (args.logdir.startswith("/") or "://" in args.logdir):
        raise UsageError("with --on-server LOGDIR is a path on the servers: give it from the root, or as gs://BUCKET/…")
    if args.then or args.recorded_hosts:
        raise UsageError("with --on-server the captures are not here: without --then and --recorded-hosts")


def _captured(args: argparse.Namespace, addresses: Sequence[Address], session: str, save: Save | None) -> list[Outcome]:
    from fastprof.inputs.profiler_client import workers

    options = servers.options(args, args.duration)
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
    requests = servers.requests(args, addresses, options, session, root)
    every = [workers.Worker(one, request, plan, save) for one, request in zip(addresses, requests, strict=True)]
    crew = workers.Crew(every)
    with signals.counted() as stops, crew:
        _wait(args, crew, delay, stops)
    args.talk.progress.clear()
    return crew.outcomes()


def _wait(args: argparse.Namespace, crew: Crew, delay: float, stops: list[int]) -> None:
    begin, seconds, servers_count = time.monotonic() + delay, args.duration / 1000, len(crew.workers)
    known = 0
    while not crew.wait(_PERIOD_S):
        passed = time.monotonic() - begin
        if len(stops) > known:
            known = len(stops)
            _stop(args, crew, known)
        elif passed < 0:
            args.talk.progress("until all begin", int(1000 * (delay + passed)), int(1000 * delay))
        elif passed < seconds and not stops:
            args.talk.progress("capturing", int(1000 * passed), args.duration)
        else:
            args.talk.progress("waiting for captures", crew.answered, servers_count)
    args.interrupted = bool(stops)


def _stop(args: argparse.Namespace, crew: Crew, times: int) -> None:
    if times > 1:
        crew.cancel()
        return
    crew.terminate()
    args.talk.note("ending the capture; what was recorded is kept; Ctrl-C again gives up")
