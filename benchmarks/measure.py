"""Runs jobs as processes of their own, one after another in turn, and notes time and peak memory.

This process stays small and imports nothing large: a child's peak memory cannot be read below that of
the process it was forked from.
"""

from __future__ import annotations

import compileall
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

MIB = 1 << 20
PACKAGE = Path(__file__).parent.parent / "fastprof"
SAMPLED_EVERY_S = 0.02


@dataclass(frozen=True, slots=True)
class Job:
    """A command. One that ``reports`` times itself, and prints seconds and facts as JSON on its last line.

    It takes part in every ``every``-th round only, where it is slow. ``samples``: its anonymous memory is sampled.
    """

    name: str
    command: tuple[str, ...]
    reports: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    every: int = 1
    samples: bool = False


@dataclass(slots=True)
class Outcome:
    """All runs of a job: seconds of each repetition, and of the first of each process if that is measured separately;
    processor seconds as reported, else of each process; seconds from start to end of each process, and its peak
    resident bytes; the highest sample of its anonymous memory; its counts."""

    name: str
    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    firsts: list[float] = field(default_factory=list)
    wholes: list[float] = field(default_factory=list)
    peaks: list[int] = field(default_factory=list)
    anonymous: int = 0
    facts: dict[str, int] = field(default_factory=dict)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def whole(self) -> float:
        return statistics.median(self.wholes)

    @property
    def peak(self) -> int:
        return max(self.peaks)

    def __str__(self) -> str:
        spread = f"{min(self.seconds):.3f} to {max(self.seconds):.3f} s over {len(self.seconds)}"
        facts = "".join(f", {key} {value}" for key, value in self.facts.items())
        return f"{self.name:36} {self.median:9.3f} s ({spread}), {self.peak / MIB:7.0f} MiB{facts}"


class JobFailedError(Exception):
    """A job ended with an error; says which and what it printed last."""


def run(job: Job, outcome: Outcome) -> None:
    """Runs a job once and adds to its outcome."""
    environment = {**os.environ, **job.environment}
    stdout = subprocess.PIPE if job.reports else subprocess.DEVNULL
    began = time.perf_counter()
    with tempfile.TemporaryFile() as complaints:
        with subprocess.Popen(job.command, stdout=stdout, stderr=complaints, env=environment) as child:
            said = child.stdout.read() if child.stdout else b""
            if job.samples:
                outcome.anonymous = max(outcome.anonymous, sample_anonymous(child.pid))
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - began
        if child.returncode != 0:
            complaints.seek(0)
            lines = complaints.read().decode(errors="replace").strip().splitlines()
            raise JobFailedError(f"{job.name} ended with {child.returncode}: {' '.join(lines[-3:])}")
    outcome.peaks.append(usage.ru_maxrss * 1024)
    outcome.wholes.append(wall)
    if job.reports:
        report = json.loads(said.splitlines()[-1])
        outcome.seconds += report["seconds"]
        outcome.processor += report.get("processor", [])
        outcome.firsts += [report["first"]] if "first" in report else []
        outcome.facts = report.get("facts", {})
    else:
        outcome.seconds.append(wall)
        outcome.processor.append(usage.ru_utime + usage.ru_stime)


def sample_anonymous(process: int) -> int:
    """Waits until a child ends, and returns the highest of the sampled sizes of its anonymous memory, in bytes."""
    status, peak = Path(f"/proc/{process}/status"), 0
    while "RssAnon:" in (text := status.read_text()):  # a process that has ended has no memory
        peak = max(peak, int(text.partition("RssAnon:")[2].split()[0]) * 1024)
        time.sleep(SAMPLED_EVERY_S)
    return peak


def interleave(jobs: Sequence[Job], rounds: int, *, quiet: bool = False) -> dict[str, Outcome]:
    """Runs the jobs in turn, ``rounds`` times over, so that a noisy moment hits all of them."""
    compileall.compile_dir(PACKAGE, quiet=2)  # as pip does; Python may be set to keep nothing that it compiles
    outcomes = {job.name: Outcome(job.name) for job in jobs}
    for number in range(rounds):
        for job in jobs:
            if number % job.every == 0:
                run(job, outcomes[job.name])
    if not quiet:
        report(outcomes.values())
    return outcomes


def report(outcomes: Iterable[Outcome]) -> None:
    for outcome in outcomes:
        print(outcome, file=sys.stderr, flush=True)
