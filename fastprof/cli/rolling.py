"""Captures again and again; the newest stay."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from fastprof.cli import arguments, servers, signals
from fastprof.errors import UsageError

if TYPE_CHECKING:
    from fastprof.profile.captured_run import CapturedRun

_PERIOD_S: Final = 0.1
_NOT_WRITTEN: Final = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("again and again")
    group.add_argument(
        "--every",
        metavar="TIME",
        type=servers.waiting_time,
        help="capture again, each this long after the one before began, until --count or Ctrl-C",
    )
    group.add_argument("--count", metavar="N", type=arguments.positive, help="how often (default: 1, or no end)")
    group.add_argument(
        "--keep", metavar="N", type=arguments.positive, help="keep the newest N runs of this command, and delete others"
    )


def check(args: argparse.Namespace) -> None:
    is_repeated = args.every is not None or (args.count or 1) > 1
    if args.keep is not None and not is_repeated:
        raise UsageError("--keep is for captures again and again: with --every or --count")
    if is_repeated and args.run is not None:
        raise UsageError("--run names one run: without --every and --count")
    if args.then is not None and args.every is not None and args.count is None:
        raise UsageError("--then shows the last capture: with --count")
    if is_repeated and args.on_server:
        raise UsageError("with --on-server there is one capture: without --every and --count")


def captures(args: argparse.Namespace, capture: Callable[[bool], tuple[int, CapturedRun | None]]) -> int:
    """The exit code of all. ``capture``: takes one; whether it is the last is known before if ``--count`` is given."""
    from fastprof.profile.captured_run import NewestRuns

    runs = NewestRuns(args.keep)
    codes: set[int] = set()
    for is_last in _rounds(args):
        code, run = capture(is_last)
        codes.add(code)
        if run is not None:
            runs.add(run)
    if len(codes) == 1:
        return codes.pop()
    return _NOT_WRITTEN if _NOT_WRITTEN in codes else servers.SOME


def _rounds(args: argparse.Namespace) -> Iterator[bool]:
    """When it is time for the next, whether it is the last."""
    count = args.count or (1 if args.every is None else None)
    begin, number = time.monotonic(), 1
    while True:
        yield number == count
        number += 1
        begin = max(begin + (args.every or 0.0), time.monotonic())
        if (count is not None and number > count) or not _waited(args, begin):
            return


def _waited(args: argparse.Namespace, until: float) -> bool:
    """Whether nobody has pressed Ctrl-C, which ends it between captures."""
    start = time.monotonic()
    with signals.counted() as stops:
        while not stops and (left := until - time.monotonic()) > 0:
            total = max(1, int(until - start))
            args.talk.progress("until the next capture", min(total, int(time.monotonic() - start)), total)
            time.sleep(min(left, _PERIOD_S))
    args.talk.progress.clear()
    return not stops
