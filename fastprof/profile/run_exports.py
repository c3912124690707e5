"""Export of all runs of a log directory to a dataset."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any

from fastprof.decode.workers import Progress
from fastprof.engines.executors import processes
from fastprof.errors import FastprofError, OutputError
from fastprof.export import exports
from fastprof.inputs.resolve import Run, list_runs
from fastprof.profile.loading import load
from fastprof.schema.value_classes import dataclass


@dataclass(frozen=True, slots=True)
class Outcome:
    """How many runs were added, and how many were there. ``failures``: the runs that could not be added, and why."""

    added: int
    known: int
    failures: list[tuple[str, FastprofError]]


@dataclass(frozen=True, slots=True)
class _Export:
    """Adds a run, in this process or another one."""

    out: str
    reading: Mapping[str, Any]
    filters: Mapping[str, Any]
    settings: Mapping[str, Any]

    def add(self, run: Run) -> bool:
        """Return whether the run was added; it may be there already."""
        profile = load(run, **self.reading)
        selected = profile.select(**self.filters) if self.filters else profile
        return any(added.is_new for added in exports.write_dataset(selected, self.out, **self.settings))


def add_all_runs(
    logdir: str,
    out: str | os.PathLike[str],
    *,
    reading: Mapping[str, Any],
    filters: Mapping[str, Any],
    settings: Mapping[str, Any],
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Add the runs that the dataset does not have, oldest first. A run that fails does not stop the others.

    ``reading``, ``filters``: parameters of ``load`` and ``select``; ``settings``: of ``write_dataset``; ``jobs``:
    processes that add runs. OutputError: ``out`` cannot be written, or is not a dataset.
    """
    runs = list_runs(logdir)[::-1]
    there = exports.find_known_runs(out, [(run.name, [file.path for file in run.files]) for run in runs])
    missing = [run for run, is_there in zip(runs, there, strict=True) if settings["replace"] or not is_there]
    export = _Export(os.fspath(out), reading, filters, settings)
    added, failures = 0, list[tuple[str, FastprofError]]()
    for done, (run, answer) in enumerate(_add_each(export, missing, jobs), 1):
        if isinstance(answer, OutputError) and "has the run" not in answer.message:
            raise answer
        if isinstance(answer, FastprofError):
            failures.append((run.name, answer))
        else:
            added += answer
        if progress is not None:
            progress("exporting", done, len(missing))
    return Outcome(added, len(runs) - added - len(failures), failures)


def _add_each(export: _Export, runs: list[Run], jobs: int | None) -> Iterator[tuple[Run, bool | FastprofError]]:
    if jobs is None:
        for run in runs:
            try:
                yield run, export.add(run)
            except FastprofError as error:
                yield run, error
        return
    waiting = [*reversed(runs)]
    running: dict[Future[bool], Run] = {}
    with processes(jobs)() as pool:
        while waiting or running:
            while waiting and len(running) < 2 * jobs:
                run = waiting.pop()
                running[pool.submit(export.add, run)] = run
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                failure = future.exception()
                answer = failure if isinstance(failure, FastprofError) else future.result()
                yield running.pop(future), answer
