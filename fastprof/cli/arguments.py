"""The flags that verbs share, and the readers of their values."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TypeVar

from fastprof.cli.progress import MODES
from fastprof.render.table_forms import FORMATS
from fastprof.wording import amounts

T = TypeVar("T")

ALL = -1
"""``--limit all``."""

TABLE_LIMIT = 30
"""Rows of a text table, unless --limit says otherwise."""


def add_session(parser: argparse.ArgumentParser, nargs: str = "+") -> None:
    """SESSION and the flags for reading it."""
    parser.add_argument(
        "session",
        metavar="SESSION",
        nargs=nargs,
        help="capture file, run or log directory, glob, or - for standard input; several runs are shown one by one, "
        "several captures as hosts of one run",
    )
    group = parser.add_argument_group("reading")
    group.add_argument(
        "--run", metavar="NAME", action="append", help="run of a log directory (default: the newest); A,B or repeatable"
    )
    group.add_argument("--as-hosts", action="store_true", help="read the captures of several runs as hosts of one run")
    group.add_argument(
        "--on-error",
        choices=("raise", "skip", "salvage"),
        default="raise",
        help="for a damaged or missing file: stop with an error (raise, the default), leave it out (skip), "
        "or keep what can be decoded (salvage)",
    )
    group.add_argument("--threads", metavar="N", type=positive, help="decoding threads (default: one per processor)")
    group.add_argument(
        "--max-unpacked",
        metavar="SIZE",
        type=size,
        help="largest size that a compressed capture may unpack to, for example 40GiB (default: 16GiB)",
    )


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """The flag of verbs that run analyses."""
    group = parser.add_argument_group("processes")
    text = "read hosts in N processes of this machine (default: one after the other in this one)"
    group.add_argument("--jobs", metavar="N", type=positive, help=text)


def add_filters(parser: argparse.ArgumentParser) -> None:
    """The flags that select events. Values of a repeated flag are alternatives."""
    group = parser.add_argument_group("selecting events")
    group.add_argument("--host", metavar="NAME", action="append", help="only the host of this exact name; repeatable")
    for what in ("plane", "line", "name"):
        group.add_argument(
            f"--{what}",
            metavar="REGEX",
            action="append",
            type=regular_expression,
            help=f"only {'events' if what == 'name' else what + 's'} whose name contains a match; "
            "(?i)REGEX ignores case; repeatable",
        )
    group.add_argument(
        "--time",
        metavar="A:B",
        type=time_range,
        action=_Once,
        help="only events that overlap this time, counted from the start of profiling on their host: 1.5s:2s, :300ms "
        "(ps, ns, us, ms, s; a bare number is ps; write --time=-1ms:1ms if A is negative)",
    )
    add_steps(group)


def add_steps(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--steps",
        metavar="A:B",
        type=step_range,
        help="only steps from number A up to, but without, B: 3:5, 3:, :5; 3 alone means 3:4; train=3:5: steps called "
        "train",
    )


class _Once(argparse.Action):
    """A flag that may be given only once: a second one is a mistake, not a correction."""

    def __call__(
        self, _parser: object, namespace: argparse.Namespace, values: object, _option: str | None = None
    ) -> None:
        if getattr(namespace, self.dest, None) is not None:
            raise argparse.ArgumentError(self, "may be given only once")
        setattr(namespace, self.dest, values)


def add_output(
    parser: argparse.ArgumentParser, limited: str, formats: Sequence[str] = FORMATS, usual: str = str(TABLE_LIMIT)
) -> argparse._ArgumentGroup:
    """The flags for format and destination; returns their group.

    ``limited``: what ``--limit`` counts; ``usual``: its default for text tables.
    """
    group = parser.add_argument_group("output")
    group.add_argument(
        "--format",
        choices=formats,
        help="output format (default: by the suffix of -o FILE, else table)",
    )
    group.add_argument("-o", "--output", metavar="FILE", help="write to FILE instead of standard output")
    group.add_argument("--force", action="store_true", help="overwrite an existing FILE")
    group.add_argument(
        "--limit",
        metavar="N",
        type=limit,
        help=f"show at most N {limited}, or all (default: {usual} in a table, all in other formats)",
    )
    group.add_argument("--wide", action="store_true", help="show full names and all columns of a table")
    return group


def add_talk(parser: argparse.ArgumentParser) -> None:
    """The flags for messages on standard error."""
    group = parser.add_argument_group("messages")
    loudness = group.add_mutually_exclusive_group()
    loudness.add_argument("-q", "--quiet", action="store_true", help="show only errors")
    loudness.add_argument("-v", "--verbose", action="store_true", help="show more messages, and tracebacks of errors")
    group.add_argument(
        "--progress",
        choices=MODES,
        default="auto",
        help="progress on a terminal (auto, the default), as lines (plain), or none",
    )


def row_limit(requested: int | None, form: str) -> int | None:
    """Rows to show, None for all."""
    if requested is None:
        return TABLE_LIMIT if form == "table" else None
    return None if requested == ALL else requested


def reader(read: Callable[[str], T]) -> Callable[[str], T]:
    """The function as a reader of a flag's value: the text of its ValueError becomes the message."""

    @wraps(read)
    def read_value(text: str) -> T:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read_value


time = reader(amounts.picoseconds)
size = reader(amounts.byte_count)
step_range = reader(amounts.step_range)


@reader
def regular_expression(text: str) -> str:
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{text!r} is not a regular expression: {error}") from None
    return text


@reader
def positive(text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII) or int(text) < 1:
        raise ValueError(f"{text!r} is not a whole number above 0")
    return int(text)


@reader
def limit(text: str) -> int:
    if text == "all":
        return ALL
    if not re.fullmatch(r"\d{1,18}", text, re.ASCII):
        raise ValueError(f"{text!r} is neither a number nor 'all'")
    return int(text)


@reader
def names(text: str) -> list[str]:
    """Names separated by commas, without the blanks around them."""
    separated = [name.strip() for name in text.split(",")]
    if not all(separated):
        raise ValueError(f"{text!r} has an empty name; separate names by commas: a,b")
    return separated


@reader
def time_range(text: str) -> tuple[int | None, int | None]:
    """``A:B`` in picoseconds; None for an open end."""
    start, colon, end = text.partition(":")
    if not colon or not (start.strip() or end.strip()):
        raise ValueError(f"{text!r} is not a time range; write A:B, A: or :B, as in 1.5s:2s")
    first, last = (amounts.picoseconds(bound) if bound.strip() else None for bound in (start, end))
    if first is not None and last is not None and last <= first:
        raise ValueError(f"{text!r} ends before it starts")
    return first, last
