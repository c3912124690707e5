"""From flags to a profile: opens the session, applies selections, explains empty selections."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastprof.cli import signals
from fastprof.errors import FastprofError, OutputError, UnreadableError, UsageError

if TYPE_CHECKING:
    from fastprof.cli.talk import Talk
    from fastprof.profile.profile import Profile

_LOSSES = ("error", "data_loss")
_CHOICES = ("cut_texts", "search_ended", "newest_run", "runs_below", "several_runs", "other_phase", "several_jobs")
_OFFERED = {
    "newest_run": "showing the newest run; choose another on the page",
    "runs_below": "showing the captures of the directory itself; choose a run below it on the page",
}
_FILTERS = {"host": "hosts", "plane": "planes", "line": "lines", "name": "names", "time": "time_ps", "steps": "steps"}
"""Flags that select events, and the parameters of Profile.select that they set."""
_MOST_FILES = 5  # files with notes of their own

_NEAREST = 5
_ALIKE = 0.6
_LIKENED, _LIKENABLE = 2_000, 100  # names, and characters of a name: the cost of likeness grows with the square
_NAMES_COMPARED = 100_000  # for a suggestion; a capture may hold millions of names


def open_session(args: argparse.Namespace) -> Profile:
    """The profile of SESSION, opened as the reading flags say."""
    sources = [_standard_input() if path == "-" else path for path in args.session]
    if args.session.count("-") > 1:
        raise UsageError("standard input (-) can be read only once")
    with signals.held():
        from fastprof import load

    source = sources[0] if len(sources) == 1 else sources
    progress = args.talk.progress if args.talk.progress.wanted else None
    profile: Profile = load(source, progress=progress, **reading(args), **on_processes(args))
    output = getattr(args, "output", None)
    named = [path for one in args.session for path in getattr(one, "paths", ())]
    if output not in (None, "-") and any(_is_same(output, source) for source in (*profile.sources, *named)):
        raise OutputError("is one of the captures; a capture is never overwritten", path=output)
    return profile


def on_processes(args: argparse.Namespace) -> dict[str, Any]:
    """--jobs as a parameter of ``load``, if it is given."""
    if getattr(args, "jobs", None) is None:
        return {}
    from fastprof.engines.process_pool import processes

    return {"executor": processes(args.jobs)}


def reading(args: argparse.Namespace) -> dict[str, Any]:
    """The reading flags as parameters of ``load``."""
    names = None if args.run is None else _names_of_runs(args)
    run = names[0] if names is not None and len(names) == 1 else names
    return {"run": run} | {name: getattr(args, name) for name in ("as_hosts", "on_error", "threads", "max_unpacked")}


def _names_of_runs(args: argparse.Namespace) -> list[str]:
    """The values of --run, each one name or several with commas between them. The name of a run may have commas."""
    if not any("," in text for text in args.run):
        return list(args.run)
    from fastprof.inputs.resolve import runs

    known: set[str] = set()
    for path in args.session:
        with suppress(FastprofError):
            known.update(run.name for run in runs(path))
    names = ([text] if text in known or not text.strip(",") else text.split(",") for text in args.run)
    return [name.strip() or name for several in names for name in several]


def check_one_run(profile: Profile, what: str) -> None:
    """Raise UsageError if several runs are open. ``what``: what can hold only one."""
    if profile.has_runs:
        runs = list(profile.runs)
        names = ", ".join(runs[:_NEAREST]) + (f" and {len(runs) - _NEAREST} more" if len(runs) > _NEAREST else "")
        raise UsageError(
            f"{what} is of one run, and {len(runs)} are given: {names}; give one directory, choose one run with "
            "--run NAME, or read them as hosts of one run with --as-hosts"
        )


def _is_same(output: str, source: str) -> bool:
    try:
        return Path(output).samefile(source)
    except OSError:  # the output does not exist yet
        return False


def _standard_input() -> Any:
    if sys.stdin is None or sys.stdin.closed:
        raise UnreadableError("standard input is closed")
    if sys.stdin.isatty():
        raise UsageError("standard input is a terminal; redirect a capture to it: fastprof info - < FILE")
    return sys.stdin.buffer


def selected(profile: Profile, args: argparse.Namespace) -> Profile:
    """The part of the profile that the filters of the verb select. Raises NotFoundError if a host does not exist."""
    filters = _filters(args)
    return profile.select(**filters) if filters else profile


def filtered(args: argparse.Namespace) -> bool:
    return bool(_filters(args))


def _filters(args: argparse.Namespace) -> dict[str, Any]:
    """The filters that are given, as parameters of ``Profile.select``."""
    values = {parameter: getattr(args, flag, None) for flag, parameter in _FILTERS.items()}
    return {parameter: value for parameter, value in values.items() if value is not None}


def explain_nothing(profile: Profile, args: argparse.Namespace) -> None:
    """Note why a selection is empty: each filter that matches nothing, with similar names."""
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
            args.talk.note(f"no {what} matches {expressions}; {nearest(patterns, names)}")
    if not explained:
        args.talk.note("no event matches all filters" if filtered(args) else "the session has no events")


def note_log(profile: Profile, talk: Talk, *, offers_runs: bool = False, all_rows: bool = False) -> None:
    """Note every loss while reading, and the choice of a run; with ``-v`` or ``all_rows``, every row of the import log.
    ``offers_runs``: other runs of the directory can be chosen later."""
    rows = [row for run in profile.runs.values() for row in run.remarks().to_pylist()]  # so far: this reads no capture
    if offers_runs:
        rows = [row | {"example": _OFFERED.get(row["code"], row["example"])} for row in rows]
    if not (talk.verbose or all_rows):
        rows = [row for row in rows if row["severity"] in _LOSSES or row["code"] in _CHOICES]
    files: dict[tuple[str, str | None], list[dict[str, Any]]] = {}
    for row in rows:
        files.setdefault((row["severity"], row["path"]), []).append(row)
    for (severity, path), remarks in list(files.items())[:_MOST_FILES]:
        lead = f"{severity.replace('_', ' ')}: " if severity in _LOSSES else ""
        say = talk.error if severity == "error" else talk.note
        say(f"{lead}{f'{path}: ' if path else ''}{_in_words(remarks)}")
    if len(files) > _MOST_FILES:
        from fastprof.wording.quantities import counted

        more = counted(len(files) - _MOST_FILES, "more file", "more files")
        lost = sum(severity == "error" for severity, _ in list(files)[_MOST_FILES:])
        what = f", {lost:,} of them lost" if lost else ""
        talk.note(f"there are remarks on {more}{what}; 'fastprof info' lists them")


def _in_words(remarks: list[dict[str, Any]]) -> str:
    """Remarks of one severity on one file, on one line."""
    if len(remarks) > 1:
        counts = ", ".join(f"{row['count']:,} {row['code']}" for row in remarks)
        return f"{counts}; for details run 'fastprof info' with the same --on-error"
    (row,) = remarks
    times = f" ({row['count']:,} times)" if row["count"] > 1 else ""
    at = "" if row["first_offset"] is None else f" (at byte {row['first_offset']:,})"
    return f"{row['example']}{at}{times}"


def nearest(requested: Iterable[str], names: list[str]) -> str:
    """The names most similar to the requested ones, as text: ``similar names: a, b (of 12)``."""
    if not names:
        return "the session has none"
    short = [name for name in names if len(name) <= _LIKENABLE][:_LIKENED]
    likeness = {name: max(_likeness(text, name) for text in requested) for name in short}
    close = [name for name in sorted(short, key=lambda name: -likeness[name]) if likeness[name] >= _ALIKE]
    if close:
        close = close[:_NEAREST]
        return f"similar names: {', '.join(close)} (of {len(names):,})"
    more = f" and {len(names) - _NEAREST:,} more" if len(names) > _NEAREST else ""
    return f"available: {', '.join(names[:_NEAREST])}{more}"


def _likeness(requested: str, name: str) -> float:
    """The share of ``requested`` that ``name`` contains in pieces of two characters or more."""
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(None, requested.casefold(), name.casefold(), autojunk=False)
    matched = sum(block.size for block in matcher.get_matching_blocks() if block.size > 1)
    return matched / max(1, len(requested)) + matcher.ratio() / 100
