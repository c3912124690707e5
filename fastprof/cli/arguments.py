"""The flags that verbs share, and how their values are read."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

from fastprof.cli.progress import MODES
from fastprof.render.table_forms import FORMATS
from fastprof.wording import step_ranges
from fastprof.wording.sizes import byte_count
from fastprof.wording.times import picoseconds

ALL = -1
"""``--limit all``."""

TABLE_LIMIT = 30
"""Rows that a table for people has unless asked otherwise."""


def add_session(parser: argparse.ArgumentParser) -> None:
    """Which capture to read, and how."""
    parser.add_argument(
        "session",
        metavar="SESSION",
        nargs="+",
        help="capture file, run or log directory, glob, or - for standard input; several are one session",
    )
    group = parser.add_argument_group("reading")
    group.add_argument("--run", metavar="NAME", help="run of a log directory (default: the newest)")
    group.add_argument(
        "--on-error",
        choices=("raise", "skip", "salvage"),
        default="raise",
        help="what a broken or missing file does: stop (raise, the default), be left out (skip), "
        "or give all that decodes (salvage)",
    )
    group.add_argument("--threads", metavar="N", type=positive, help="threads that decode (default: one a processor)")


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Which part of the capture to look at. Each may be repeated: a row need match only one of them."""
    group = parser.add_argument_group("choosing events")
    group.add_argument("--host", metavar="NAME", action="append", help="only this host, by its exact name; repeatable")
    for what in ("plane", "line", "name"):
        group.add_argument(
            f"--{what}",
            metavar="REGEX",
            action="append",
            type=regular_expression,
            help=f"only {'events' if what == 'name' else what + 's'} whose name holds a match, "
            "in any case with (?i)REGEX; repeatable",
        )
    group.add_argument(
        "--time",
        metavar="A:B",
        type=time_range,
        action=_Once,
        help="only events that overlap this time, counted from the start of their host: 1.5s:2s, :300ms "
        "(ps, ns, us, ms, s; a bare number is ps; write --time=-1ms:1ms where A is negative)",
    )
    add_steps(group)


def add_steps(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--steps",
        metavar="A:B",
        type=step_range,
        help="only steps numbered from A up to B, B left out: 3:5, 3:, :5; 3 alone is 3:4",
    )


class _Once(argparse.Action):
    """A flag of which a second one is a mistake, not a correction."""

    def __call__(
        self, _parser: object, namespace: argparse.Namespace, values: object, _option: str | None = None
    ) -> None:
        if getattr(namespace, self.dest, None) is not None:
            raise argparse.ArgumentError(self, "given twice")
        setattr(namespace, self.dest, values)


def add_output(
    parser: argparse.ArgumentParser, limited: str, formats: Sequence[str] = FORMATS, usual: str = str(TABLE_LIMIT)
) -> argparse._ArgumentGroup:
    """In which form to write, and where to; the group, for further flags.

    ``limited``: what ``--limit`` counts; ``usual``: how many of them a table for people has.
    """
    group = parser.add_argument_group("output")
    group.add_argument(
        "--format",
        choices=formats,
        help="form of the output (default: what -o FILE is named for, else table)",
    )
    group.add_argument("-o", "--output", metavar="FILE", help="write to FILE instead of standard output")
    group.add_argument("--force", action="store_true", help="overwrite FILE where it exists")
    group.add_argument(
        "--limit",
        metavar="N",
        type=limit,
        help=f"at most N {limited}, or all (default: {usual} in a table, all in other forms)",
    )
    group.add_argument("--wide", action="store_true", help="cut no names and leave out no columns of a table")
    return group


def add_talk(parser: argparse.ArgumentParser) -> None:
    """How much to say on standard error."""
    group = parser.add_argument_group("talk")
    loudness = group.add_mutually_exclusive_group()
    loudness.add_argument("-q", "--quiet", action="store_true", help="say nothing but errors")
    loudness.add_argument("-v", "--verbose", action="store_true", help="say more, with tracebacks of errors")
    group.add_argument(
        "--progress",
        choices=MODES,
        default="auto",
        help="progress: on a terminal (auto, the default), as lines (plain), or none",
    )


def row_limit(asked: int | None, form: str) -> int | None:
    """Rows to show, None for all."""
    if asked is None:
        return TABLE_LIMIT if form == "table" else None
    return None if asked == ALL else asked


def regular_expression(text: str) -> str:
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a regular expression: {error}") from None
    return text


def positive(text: str) -> int:
    number = int(text) if re.fullmatch(r"\d{1,9}", text, re.ASCII) else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1")
    return number


def limit(text: str) -> int:
    if text == "all":
        return ALL
    if not re.fullmatch(r"\d{1,18}", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor 'all'")
    return int(text)


def names(text: str) -> list[str]:
    """Names with commas between them; blanks around a name do not count."""
    found = [name.strip() for name in text.split(",")]
    if not all(found):
        raise argparse.ArgumentTypeError(f"{text!r} has an empty name; write names with commas between: a,b")
    return found


def time_range(text: str) -> tuple[int | None, int | None]:
    """``A:B`` in picoseconds, None for an end left out."""
    start, colon, end = text.partition(":")
    if not colon or not (start.strip() or end.strip()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time range; write A:B, A: or :B, as in 1.5s:2s")
    first, last = (time(bound) if bound.strip() else None for bound in (start, end))
    if first is not None and last is not None and last <= first:
        raise argparse.ArgumentTypeError(f"{text!r} ends before it starts")
    return first, last


def step_range(text: str) -> tuple[int | None, int | None]:
    """``A:B``, ``A:``, ``:B`` or ``A`` alone, B left out."""
    try:
        return step_ranges.step_range(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def time(text: str) -> int:
    """A time in picoseconds."""
    try:
        return picoseconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def size(text: str) -> int:
    """A size in bytes."""
    try:
        return byte_count(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
