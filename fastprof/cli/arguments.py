"""The flags that verbs share, the readers of their values, and what becomes of them: the session is opened, selections
are applied, empty selections are explained."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fastprof.cli import process
from fastprof.errors import FastprofError, OutputError, UnreadableError, UsageError
from fastprof.render.table_forms import FORMATS
from fastprof.wording import amounts

if TYPE_CHECKING:
    from fastprof.profile.profile import Profile


T = TypeVar("T")

ALL = -1
"""Value of ``--limit all``."""

TABLE_LIMIT = 30
"""Rows of a text table, unless --limit says otherwise."""


def _mark_common(group: argparse._ArgumentGroup) -> None:
    """Mark the flags of a group as common: 'fastprof help flags' explains them, not the help of each verb."""
    for action in group._group_actions:
        action.is_common = True  # type: ignore[attr-defined]


def is_common(action: argparse.Action) -> bool:
    return getattr(action, "is_common", False)


def add_session(parser: argparse.ArgumentParser, nargs: str | int = "+", *, limits_memory: bool = True) -> None:
    """Add SESSION and the flags for reading it."""
    parser.add_argument(
        "session",
        metavar="SESSION",
        nargs=nargs,
        help="capture file, run or log directory, glob, or - for standard input; several runs are shown one by one, "
        "several captures as hosts of one run",
    )
    add_reading(parser, limits_memory=limits_memory)


def add_reading(parser: argparse.ArgumentParser, *, limits_memory: bool = True) -> None:
    """Add the flags for reading sessions. ``limits_memory``: --memory is one of them."""
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
    group.add_argument(
        "--threads",
        metavar="N",
        type=parse_positive,
        help="decoding threads (default: one per processor; small sessions: 1)",
    )
    group.add_argument(
        "--max-unpacked",
        metavar="SIZE",
        type=parse_size,
        help="maximum unpacked size of a compressed capture, for example 40GiB (default: 16GiB)",
    )
    if limits_memory:
        group.add_argument(
            "--memory",
            metavar="SIZE",
            type=parse_size,
            help="memory of this process, and of all --jobs together; larger arrays are temporary files (default: "
            "size of captures above 200MB, at most 2GiB and a quarter of the machine)",
        )
    _mark_common(group)


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add the flag of verbs that run analyses."""
    group = parser.add_argument_group("processes")
    text = "read hosts in N processes of this machine (default: one after the other in this one)"
    group.add_argument("--jobs", metavar="N", type=parse_positive, help=text)
    _mark_common(group)


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Add the flags that select events. Values of a repeated flag are alternatives."""
    group = parser.add_argument_group("selecting events")
    group.add_argument("--host", metavar="NAME", action="append", help="only the host of this exact name; repeatable")
    for what in ("plane", "line", "name"):
        group.add_argument(
            f"--{what}",
            metavar="REGEX",
            action="append",
            type=check_expression,
            help=f"only {'events' if what == 'name' else what + 's'} whose name contains a match; "
            "(?i)REGEX ignores case; repeatable",
        )
    group.add_argument(
        "--time",
        metavar="A:B",
        type=parse_time_range,
        action=_SingleFlag,
        help="only events that overlap this time, counted from the start of profiling on their host: 1.5s:2s, :300ms "
        "(ps, ns, us, ms, s; a bare number is ps; write --time=-1ms:1ms if A is negative)",
    )
    add_steps(group)


def add_choice(parser: argparse.ArgumentParser) -> None:
    """Add the flags that select hosts and steps."""
    group = parser.add_argument_group("selecting hosts and steps")
    group.add_argument("--host", metavar="NAME", action="append", help="only the host of this exact name; repeatable")
    add_steps(group)


def add_steps(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--steps",
        metavar="A:B",
        type=parse_step_range,
        help="only steps from number A to B (exclusive): 3:5, 3:, :5; 3 alone means 3:4; train=3:5: steps called train",
    )
    _mark_common(group)


class _SingleFlag(argparse.Action):
    """Flag that may be given only once: a second one is a mistake, not a correction."""

    def __call__(
        self, _parser: object, namespace: argparse.Namespace, values: object, _option: str | None = None
    ) -> None:
        if getattr(namespace, self.dest, None) is not None:
            raise argparse.ArgumentError(self, "may be given only once")
        setattr(namespace, self.dest, values)


def add_output(
    parser: argparse.ArgumentParser, limited: str, formats: Sequence[str] = FORMATS, usual: str = str(TABLE_LIMIT)
) -> argparse._ArgumentGroup:
    """Add the flags for format and destination, and return their group.

    ``limited``: what ``--limit`` counts; ``usual``: its default for text tables.
    """
    group = parser.add_argument_group("output")
    group.add_argument(
        "--format",
        choices=formats,
        help="output format (default: by the suffix of -o FILE, else table)",
    )
    add_brief(group)
    group.add_argument("-o", "--output", metavar="FILE", help="write to FILE instead of standard output")
    group.add_argument("--force", action="store_true", help="overwrite an existing FILE")
    group.add_argument(
        "--limit",
        metavar="N",
        type=parse_limit,
        help=f"show at most N {limited}, or all (default: {usual} in a table, all in other formats)",
    )
    group.add_argument("--wide", action="store_true", help="show full names and all columns of a table")
    _mark_common(group)
    return group


def add_brief(group: argparse._ArgumentGroup) -> None:
    text = "write short JSON for programs: the answer in at most 4,096 bytes"
    group.add_argument("--brief", action="store_true", help=text)


def add_talk(parser: argparse.ArgumentParser) -> None:
    """Add the flags for messages on standard error."""
    group = parser.add_argument_group("messages")
    loudness = group.add_mutually_exclusive_group()
    loudness.add_argument("-q", "--quiet", action="store_true", help="show only errors")
    loudness.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="show reports with all details, more messages, and tracebacks",
    )
    group.add_argument(
        "--progress",
        choices=("auto", "plain", "none"),
        default="auto",
        help="progress on a terminal (auto, the default), as lines (plain), or none",
    )
    _mark_common(group)


def get_row_limit(requested: int | None, form: str) -> int | None:
    """Return the number of rows to show, None for all."""
    if requested is None:
        return TABLE_LIMIT if form == "table" else None
    return None if requested == ALL else requested


def make_reader(read: Callable[[str], T]) -> Callable[[str], T]:
    """Turn a function into a reader of a flag's value: the text of its ValueError becomes the message."""

    @wraps(read)
    def read_value(text: str) -> T:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read_value


parse_time = make_reader(amounts.parse_time)
parse_duration = make_reader(amounts.parse_duration)
parse_size = make_reader(amounts.parse_size)
parse_step_range = make_reader(amounts.parse_step_range)


@make_reader
def check_expression(text: str) -> str:
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{text!r} is not a regular expression: {error}") from None
    return text


@make_reader
def parse_positive(text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII) or int(text) < 1:
        raise ValueError(f"{text!r} is not an integer above 0")
    return int(text)


@make_reader
def parse_limit(text: str) -> int:
    if text == "all":
        return ALL
    if not re.fullmatch(r"\d{1,18}", text, re.ASCII):
        raise ValueError(f"{text!r} is neither a number nor 'all'")
    return int(text)


@make_reader
def split_names(text: str) -> list[str]:
    """Split names at commas, without the blanks around them."""
    separated = [name.strip() for name in text.split(",")]
    if not all(separated):
        raise ValueError(f"{text!r} has an empty name; separate names by commas: a,b")
    return separated


@make_reader
def parse_time_range(text: str) -> tuple[int | None, int | None]:
    """Parse ``A:B`` as picoseconds; an open end is None."""
    start, colon, end = text.partition(":")
    if not colon or not (start.strip() or end.strip()):
        raise ValueError(f"{text!r} is not a time range; write A:B, A: or :B, as in 1.5s:2s")
    first, last = (amounts.parse_time(bound) if bound.strip() else None for bound in (start, end))
    if first is not None and last is not None and last <= first:
        raise ValueError(f"{text!r} ends before it starts")
    return first, last


_LOSSES = ("error", "data_loss")
_CHOICES = (
    "cut_texts", "search_ended", "newest_run", "runs_below", "second_window", "several_runs", "other_phase",
    "several_jobs",
)  # fmt: skip
_OFFERED = {
    "newest_run": "showing the newest run; choose another on the page",
    "runs_below": "showing the captures of the directory itself; choose a run below it on the page",
}
_FILTERS = {"host": "hosts", "plane": "planes", "line": "lines", "name": "names", "time": "time_ps", "steps": "steps"}
"""Flags that select events, and the parameters of Profile.select that they set."""
_SMALL = 64 << 20
"""Bytes of captures whose analyses need less memory than the lowest limit."""
_MOST_FILES = 5  # files with notes of their own

_NEAREST = 5
_MOST_LETTERS = 60  # of a suggested name
_ALIKE = 0.6
_LIKENED, _LIKENABLE = 2_000, 100  # names, and characters of a name: the cost of likeness grows with the square
_NAMES_COMPARED = 100_000  # for a suggestion; a capture may hold millions of names


def bind_urls(args: argparse.Namespace) -> None:
    """Replace URLs of sessions by paths in their stores, whose text has no secrets. UsageError: a URL is invalid."""
    for name in ("session", "base", "against"):
        given = getattr(args, name, None)
        if any(":/" in word for word in ([given] if isinstance(given, str) else given or ()) if isinstance(word, str)):
            from fastprof.inputs.stores.store_path import bind_paths

            setattr(args, name, bind_paths(given))


def open_session(args: argparse.Namespace) -> Profile:
    """Return the profile of SESSION, opened as the reading flags say."""
    sources = [_get_standard_input() if path == "-" else path for path in args.session]
    if args.session.count("-") > 1:
        raise UsageError("standard input (-) can be read only once")
    with process.hold_signals():
        from fastprof import load
        from fastprof.decode.array_memory import limit_by_default

    source = sources[0] if len(sources) == 1 else sources
    progress = args.talk.progress if args.talk.progress.wanted else None
    profile: Profile = load(source, progress=progress, **get_reading(args), **get_jobs(args))
    args.opened = profile
    size = sum(run.size_bytes for run in profile.runs.values())
    if args.memory is None and size > _SMALL:
        limit_by_default(size)
    output = getattr(args, "output", None)
    named = [path for name in args.session for path in getattr(name, "paths", ())]
    if output not in (None, "-") and any(_is_same(output, source) for source in (*profile.sources, *named)):
        raise OutputError("is one of the captures; a capture is never overwritten", path=output)
    return profile


def get_jobs(args: argparse.Namespace) -> dict[str, Any]:
    """Return --jobs as a parameter of ``load``, if it is given."""
    if getattr(args, "jobs", None) is None:
        return {}
    from fastprof.decode.array_memory import share_limit
    from fastprof.engines.executors import processes

    return {"executor": processes(args.jobs, memory=share_limit(args.memory, args.jobs))}


def get_reading(args: argparse.Namespace) -> dict[str, Any]:
    """Return the reading flags as parameters of ``load``."""
    names = None if args.run is None else _list_run_names(args)
    run = names[0] if names is not None and len(names) == 1 else names
    return {"run": run} | {name: getattr(args, name) for name in ("as_hosts", "on_error", "threads", "max_unpacked")}


def _list_run_names(args: argparse.Namespace) -> list[str]:
    """Return the names in --run, split at commas unless a run has that name."""
    if not any("," in text for text in args.run):
        return list(args.run)
    from fastprof.inputs.resolve import list_runs

    known: set[str] = set()
    for path in args.session:
        with suppress(FastprofError):
            known.update(run.name for run in list_runs(path))
    names = ([text] if text in known or not text.strip(",") else text.split(",") for text in args.run)
    return [name.strip() or name for several in names for name in several]


def check_one_run(profile: Profile, what: str) -> None:
    """Raise UsageError if several runs are open. ``what``: what can hold only one."""
    if profile.has_runs:
        runs = list(profile.runs)
        names = ", ".join(runs[:_NEAREST]) + (f" and {len(runs) - _NEAREST} more" if len(runs) > _NEAREST else "")
        raise UsageError(
            f"{what} shows one run, and {len(runs)} are given: {names}; give one directory, choose one run with "
            f"--run NAME, or read them as hosts of one run with --as-hosts"
        )


def _is_same(output: str, source: str) -> bool:
    try:
        return Path(output).samefile(source)
    except OSError:  # the output does not exist yet
        return False


def _get_standard_input() -> Any:
    if sys.stdin is None or sys.stdin.closed:
        raise UnreadableError("standard input is closed")
    if sys.stdin.isatty():
        raise UsageError("standard input is a terminal; redirect a capture to it: fastprof info - < FILE")
    return sys.stdin.buffer


def select_events(profile: Profile, args: argparse.Namespace) -> Profile:
    """Return the part of the profile that the filters of the verb select. NotFoundError: a host does not exist."""
    filters = get_filters(args)
    return profile.select(**filters) if filters else profile


def get_filters(args: argparse.Namespace) -> dict[str, Any]:
    """Return the filters that are given, as parameters of ``Profile.select``."""
    values = {parameter: getattr(args, flag, None) for flag, parameter in _FILTERS.items()}
    return {parameter: value for parameter, value in values.items() if value is not None}


def explain_empty(profile: Profile, args: argparse.Namespace, otherwise: str = "") -> None:
    """Note why a selection is empty: each filter that matches nothing, with similar names; else ``otherwise``."""
    explained = False
    for what, patterns, table in (
        ("plane", args.plane, "planes"),
        ("line", args.line, "lines"),
        ("event", args.name, "event_metadata"),
    ):
        if patterns is None:
            continue
        values = profile.tables[table]["name"].unique().slice(0, _NAMES_COMPARED).to_pylist()
        names = sorted(name for name in values if name)
        if not any(re.search(pattern, name) for pattern in patterns for name in names):
            explained = True
            expressions = " or ".join(repr(pattern) for pattern in patterns)
            args.talk.note(f"no {what} matches {expressions}; {find_nearest(patterns, names)}")
    if not explained:
        args.talk.note(
            otherwise or ("no event matches all filters" if get_filters(args) else "the session has no events")
        )


def note_log(profile: Profile, args: argparse.Namespace, *, offers_runs: bool = False, all_rows: bool = False) -> None:
    """Note every loss while reading, and the choice of a run; with ``-v`` or ``all_rows``, every row of the import log.
    ``offers_runs``: other runs of the directory can be chosen later."""
    talk = args.talk
    files = list_remarks(profile, all_rows=talk.verbose or all_rows)
    for (severity, path), remarks in list(files.items())[:_MOST_FILES]:
        if offers_runs:
            remarks = [row | {"example": _OFFERED.get(row["code"], row["example"])} for row in remarks]
        lead = f"{severity.replace('_', ' ')}: " if severity in _LOSSES else ""
        say = talk.error if severity == "error" else talk.note
        say(f"{lead}{f'{path}: ' if path else ''}{_join_remarks(remarks)}")
    if len(files) > _MOST_FILES:
        from fastprof.wording.quantities import count_noun

        more = count_noun(len(files) - _MOST_FILES, "more file", "more files")
        lost = sum(severity == "error" for severity, _ in list(files)[_MOST_FILES:])
        what = f", {lost:,} of them lost" if lost else ""
        talk.note(f"there are remarks on {more}{what}; 'fastprof info' lists them")


def list_remarks(profile: Profile, *, all_rows: bool = False) -> dict[tuple[str, str | None], list[dict[str, Any]]]:
    """Return the losses while reading and the choice of a run, or all rows of the import log, by severity and file."""
    files: dict[tuple[str, str | None], list[dict[str, Any]]] = {}
    for run in profile.runs.values():
        for row in run.remarks().to_pylist():  # so far: this reads no capture
            if all_rows or row["severity"] in _LOSSES or row["code"] in _CHOICES:
                files.setdefault((row["severity"], row["path"]), []).append(row)
    return files


def _join_remarks(remarks: list[dict[str, Any]]) -> str:
    """Join the remarks of one severity on one file to one line."""
    if len(remarks) > 1:
        counts = ", ".join(f"{row['count']:,} {row['code']}" for row in remarks)
        return f"{counts}; for details run 'fastprof info' with the same --on-error"
    (row,) = remarks
    times = f" ({row['count']:,} times)" if row["count"] > 1 else ""
    at = "" if row["first_offset"] is None else f" (at byte {row['first_offset']:,})"
    return f"{row['example']}{at}{times}"


def find_nearest(requested: Iterable[str], names: list[str]) -> str:
    """Name the most similar of ``names``, as in ``similar names: a, b (of 12)``."""
    from fastprof.wording.quantities import shorten_name

    if not names:
        return "the session has none"
    shorten = partial(shorten_name, limit=_MOST_LETTERS)
    short = [name for name in names if len(name) <= _LIKENABLE][:_LIKENED]
    likeness = {name: max(_measure_likeness(text, name) for text in requested) for name in short}
    close = [name for name in sorted(short, key=lambda name: -likeness[name]) if likeness[name] >= _ALIKE]
    if close:
        return f"similar names: {', '.join(map(shorten, close[:_NEAREST]))} (of {len(names):,})"
    more = f" and {len(names) - _NEAREST:,} more" if len(names) > _NEAREST else ""
    return f"available: {', '.join(map(shorten, names[:_NEAREST]))}{more}"


def _measure_likeness(requested: str, name: str) -> float:
    """Return the share of ``requested`` that ``name`` contains in pieces of two characters or more."""
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(None, requested.casefold(), name.casefold(), autojunk=False)
    matched = sum(block.size for block in matcher.get_matching_blocks() if block.size > 1)
    return matched / max(1, len(requested)) + matcher.ratio() / 100
