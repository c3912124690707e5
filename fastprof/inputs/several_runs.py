"""Which runs the named captures make up, and what each run is called. Hosts of one run are read together; runs are not.

A directory of captures is a run, and so is ``plugins/profile/RUN`` if files in it are named. Other files, bytes and
streams belong to none: they are hosts of the only run, if there are not several to choose between.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from fastprof.errors import FastprofError, UsageError
from fastprof.inputs.log_directory import PROFILE
from fastprof.inputs.paths import shown
from fastprof.inputs.resolve import Named, Session, as_one, named_parts
from fastprof.wording.quantities import few

_ADVICE = "name its directory, or read everything as hosts of one run with as_hosts=True (--as-hosts)"


def resolve_runs(
    what: Named | Sequence[Named],
    runs: str | Sequence[str] | None = None,
    *,
    missing_ok: bool = False,
    as_hosts: bool = False,
) -> dict[str, Session]:
    """The runs that ``what`` names, by name, in the order in which they are named.

    ``runs``: names of runs of a log directory; else, and for ``missing_ok``: as ``resolve`` takes them. A single run
    without a name is called "". ``as_hosts``: read all captures as hosts of one run. Raises as ``resolve`` does;
    UsageError if a capture beside several runs belongs to none.
    """
    names: Sequence[str | None] = [runs] if runs is None or isinstance(runs, str) else list(dict.fromkeys(runs))
    if not names:
        raise UsageError("the list of runs is empty; give at least one name, or omit it for the newest")
    parts: list[Session] = []
    faults: list[FastprofError] = []
    for name in names:
        more, failed = named_parts(what, name, missing_ok)
        parts += more
        faults += failed
    several = not as_hosts and sum(bool(part.files) for part in parts) > 1
    groups = _by_directory(parts) if several else {}
    if len(groups) < 2:
        session = as_one(parts, faults)
        return {session.run or "": session}
    of_all = [part for part in parts if not part.files and part.programs]
    remarks = [part for part in parts if not part.files and not part.programs]
    sessions: dict[str, Session] = {}
    for name, group in zip(_distinct_names(groups), groups.values(), strict=True):
        session = as_one([*remarks, *group, *of_all], [])
        sessions[name] = replace(session, run=name, files=tuple(replace(file, run=name) for file in session.files))
        remarks = []  # what is missing is reported once
    return sessions


def _by_directory(parts: Iterable[Session]) -> dict[str, list[Session]]:
    """The parts with captures, by the directory of their run. UsageError: some belong to none, others to several."""
    groups: dict[str, list[Session]] = {}
    of_no_run: list[str] = []
    for part in parts:
        if not part.files:
            continue
        source = part.files[0].source
        folder = Path(os.fsdecode(source)).parent if isinstance(source, (str, os.PathLike)) else None
        if folder is None or (part.run is None and folder.parts[-3:-1] != PROFILE):
            of_no_run.append(part.files[0].path)
        else:
            groups.setdefault(os.path.realpath(folder), []).append(part)
    if len(groups) > 1 and of_no_run:
        raise UsageError(f"of {len(groups)} runs, none is the directory of {few(of_no_run)}; {_ADVICE}")
    return groups


def _distinct_names(groups: dict[str, list[Session]]) -> list[str]:
    """The names of the runs; equal ones with as many directories above them as make them differ: A/RUN, B/RUN."""
    folders = [Path(os.fsdecode(str(group[0].files[0].source))).parent for group in groups.values()]
    names = [group[0].run or shown(folder.name) for group, folder in zip(groups.values(), folders, strict=True)]
    longest = max(len(folder.parts) for folder in folders)
    for length in range(2, longest + 1):
        repeated = {name for name in names if names.count(name) > 1}
        if not repeated:
            return names
        names = [
            _tail(folder, length) if name in repeated else name for name, folder in zip(names, folders, strict=True)
        ]
    return names if len(set(names)) == len(names) else [shown(str(folder)) for folder in folders]


def _tail(folder: Path, length: int) -> str:
    """The last parts of the path without plugins/profile: train/RUN for train/plugins/profile/RUN."""
    parts = folder.parts
    if parts[-3:-1] == PROFILE:
        parts = (*parts[:-3], parts[-1])
    return shown("/".join(parts[-length:]))
