"""Capture profiles from running programs, from many at once.

The programs must have a profiler server: jax.profiler.start_server(PORT), tf.profiler.experimental.server.start(PORT),
xp.start_server(PORT), or a TPU runtime. All start at the same time. Each capture is written to
LOGDIR/plugins/profile/RUN/HOST.xplane.pb as it arrives, in full or not at all; a failing server does not affect the
others. Ctrl-C ends the capture early and keeps what was recorded; a second Ctrl-C gives up.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from fastprof.cli import arguments, process, servers
from fastprof.errors import UsageError

if TYPE_CHECKING:
    from fastprof.inputs.profiler_client.profiler_servers import Address
    from fastprof.inputs.profiler_client.workers import Crew, Outcome, Save
    from fastprof.profile.captured_run import CapturedRun


_LISTEN_S: Final = 0.1
_NOT_WRITTEN: Final = 3


def add_rolling(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("repeated captures")
    group.add_argument(
        "--every",
        metavar="TIME",
        type=servers.parse_waiting_time,
        help="repeat the capture at this interval, from start to start, until --count or Ctrl-C",
    )
    group.add_argument(
        "--count", metavar="N", type=arguments.parse_positive, help="number of captures (default: 1, or endless)"
    )
    group.add_argument(
        "--keep",
        metavar="N",
        type=arguments.parse_positive,
        help="keep this command's newest N runs, and delete its other runs",
    )


def check_rolling(args: argparse.Namespace) -> None:
    from fastprof.inputs.stores.store_path import is_url

    is_repeated = args.every is not None or (args.count or 1) > 1
    if args.keep is not None and not is_repeated:
        raise UsageError("--keep is for repeated captures: with --every or --count")
    if args.keep is not None and is_url(args.logdir):
        raise UsageError("--keep deletes local runs; in a store, a lifecycle rule of the bucket deletes old ones")
    if is_repeated and args.run is not None:
        raise UsageError("--run names one run: without --every and --count")
    if args.then is not None and args.every is not None and args.count is None:
        raise UsageError("--then shows the last capture: with --count")
    if is_repeated and args.on_server:
        raise UsageError("with --on-server there is one capture: without --every and --count")


def capture_repeatedly(args: argparse.Namespace, capture: Callable[[bool], tuple[int, CapturedRun | None]]) -> int:
    """Take captures until --count or Ctrl-C, and return the exit code of all. ``capture`` takes one; its argument says
    whether it is known to be the last."""
    from fastprof.profile.captured_run import NewestRuns

    runs = NewestRuns(args.keep)
    codes: set[int] = set()
    for is_last in _wait_for_rounds(args):
        code, run = capture(is_last)
        codes.add(code)
        if run is not None:
            runs.add(run)
    if len(codes) == 1:
        return codes.pop()
    return _NOT_WRITTEN if _NOT_WRITTEN in codes else servers.SOME


def _wait_for_rounds(args: argparse.Namespace) -> Iterator[bool]:
    """Yield when it is time for the next capture, with whether it is the last."""
    count = args.count or (1 if args.every is None else None)
    begin, number = time.monotonic(), 1
    while True:
        yield number == count
        number += 1
        begin = max(begin + (args.every or 0.0), time.monotonic())
        if (count is not None and number > count) or not _wait_until(args, begin):
            return


def _wait_until(args: argparse.Namespace, until: float) -> bool:
    """Wait, and return False if Ctrl-C ended the wait."""
    start = time.monotonic()
    with process.count_interrupts() as stops:
        while not stops and (left := until - time.monotonic()) > 0:
            total = max(1, int(until - start))
            args.talk.progress("until the next capture", min(total, int(time.monotonic() - start)), total)
            time.sleep(min(left, _LISTEN_S))
    args.talk.progress.clear()
    return not stops


_COMMON_DELAY_S: Final = 3.0
"""Delay before several servers begin at once: all have to be reached until then."""
_WAIT_S: Final = 0.1
_PYTHON_MS: Final = 5000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    servers.add_addresses(parser)
    group = parser.add_argument_group("what to record")
    group.add_argument(
        "--duration", metavar="TIME", type=servers.parse_milliseconds, default=2000, help="duration (default: 2s)"
    )
    group.add_argument(
        "--delay",
        metavar="TIME",
        type=servers.parse_waiting_time,
        help="delay before the start, on each server's clock (default: 0s, at once; 3s for several servers)",
    )
    servers.add_levels(group)
    group = servers.add_destination(parser)
    group.add_argument(
        "--on-server", action="store_true", help="let the servers write the captures to LOGDIR, a path on the servers"
    )
    group.add_argument("--no-checks", action="store_true", help="do not check the captures for missing records")
    group = parser.add_argument_group("calling")
    group.add_argument(
        "--attempts",
        metavar="N",
        type=arguments.parse_positive,
        default=3,
        help="maximum number of calls to a busy or unreachable server (default: 3)",
    )
    group.add_argument(
        "--timeout",
        metavar="TIME",
        type=servers.parse_waiting_time,
        help="maximum wait for an answer after the end of the capture (default: five minutes, or the duration if "
        "longer)",
    )
    add_rolling(parser)
    arguments.add_talk(parser)


def run(args: argparse.Namespace) -> int:
    check_rolling(args)
    addresses = servers.list_named(args)
    name = servers.check_name(args, len(addresses))
    if args.on_server:
        if not (args.logdir.startswith("/") or "://" in args.logdir):
            raise UsageError(
                "with --on-server LOGDIR is a path on the servers: give it from the root, or as gs://BUCKET/…"
            )
        if args.then or args.recorded_hosts:
            raise UsageError("with --on-server the captures are not here: without --then and --recorded-hosts")
        outcomes = _capture_servers(args, addresses, name or servers.make_time_name(), None)
        return servers.finish_capture(args, outcomes, None, None, lambda _path: [])
    then = servers.parse_then_verb(args)

    def capture(is_last: bool) -> tuple[int, CapturedRun | None]:
        with servers.stage_runs(args, name):
            with servers.make_run(args, name) as directory:
                outcomes = _capture_servers(args, addresses, directory.name, directory.save)
            code = servers.finish_capture(
                args,
                outcomes,
                directory,
                then if is_last else None,
                lambda path: [] if args.no_checks else servers.check_run(args, path, args.duration * 10**9, "capture"),
            )
        return code, directory if any(outcome.file for outcome in outcomes) else None

    return capture_repeatedly(args, capture)


def _capture_servers(
    args: argparse.Namespace, addresses: Sequence[Address], session: str, save: Save | None
) -> list[Outcome]:
    from fastprof.inputs.profiler_client import workers

    options = servers.make_options(args, args.duration)
    delay = args.delay if args.delay is not None else _COMMON_DELAY_S if len(addresses) > 1 else 0.0
    if delay and args.delay is None:
        args.talk.note(f"all begin in {delay:g} s, at the same time by their clocks; --delay changes that")
    if options.python_level and args.duration > _PYTHON_MS:
        args.talk.note(
            "the Python tracer writes tens of megabytes per second, and slows the program; use a shorter --duration"
        )
    root = f"{args.logdir.rstrip('/')}/plugins/profile" if save is None else ""
    start = time.time_ns() + int(delay * 10**9) if delay else 0
    plan = workers.CapturePlan(args.attempts, start, args.timeout, args.recorded_hosts)
    requests = servers.make_requests(args, addresses, options, session, root)
    every = [workers.Worker(address, request, plan, save) for address, request in zip(addresses, requests, strict=True)]
    crew = workers.Crew(every)
    with process.count_interrupts() as stops, crew:
        _wait_for_captures(args, crew, delay, stops)
    args.talk.progress.clear()
    return crew.outcomes()


def _wait_for_captures(args: argparse.Namespace, crew: Crew, delay: float, stops: list[int]) -> None:
    begin, seconds, servers_count = time.monotonic() + delay, args.duration / 1000, len(crew.workers)
    known = 0
    while not crew.wait(_WAIT_S):
        passed = time.monotonic() - begin
        if len(stops) > known:
            known = len(stops)
            if known > 1:
                crew.cancel()
            else:
                crew.terminate()
                args.talk.note("ending the capture; recorded data is saved; Ctrl-C again gives up")
        elif passed < 0:
            args.talk.progress("until all begin", int(1000 * (delay + passed)), int(1000 * delay))
        elif passed < seconds and not stops:
            args.talk.progress("capturing", int(1000 * passed), args.duration)
        else:
            args.talk.progress("waiting for captures", crew.answered, servers_count)
    args.interrupted = bool(stops)
