"""Time and memory of verbs under a memory limit, on captures of growing size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from ab import program
from captures import HUGE, MAIN, Capture, capture, scratch
from measure import MIB, Job, Outcome, interleave
from section import Plan, Section, at_most, seconds
from section_growth import OFF_THE_LINE

LIMIT = 600 * MIB
VERBS = {
    "overview": (),
    "diagnosis": (),
    "op-stats": (),
    "steps": (),
    "events": (),
    "export": ("-o", "{out}/dataset"),
    "trace": ("-o", "{out}/trace.pftrace", "--force"),
    "report": ("-o", "{out}/report.html", "--force"),
}
"""Verbs, and what they write beside their answer."""
SMALLER = ("trace", "report")
"""Verbs that take minutes at the largest size of three, and so are measured up to the second."""
SIZES = {"host": (MAIN, "host-1gb", HUGE), "device": ("device-100mb", "device-1gb")}
SMALL_SIZES = {"host": ("host-500k", "host-1m"), "device": ("device-10mb", "device-1m")}


def limits(plan: Plan) -> Section:
    """Measure host captures of 0.1 to 4.5 GiB, and device captures of 0.1 and 1 GiB."""
    section = Section(
        "Memory limit",
        f"Whole processes with `--memory {LIMIT // MIB}MiB`: seconds, and in brackets the peak of anonymous memory in"
        " MiB, sampled. Temporary files, which the kernel may evict, do not count. Off the line is the largest"
        " distance of a time from the line of least squares through the times, as a share of the line's. The"
        " squares are those of relative distances.",
        ("capture", "what", "seconds (MiB) by size", "off the line", "asked", "peak", "asked"),
    )
    for shape, names in (SIZES if plan.huge else SMALL_SIZES).items():
        every = [capture(name) for name in names]
        done = _measure(every, plan.part(5, 1))
        for verb in VERBS:
            taken = _choose(every, verb)
            sizes = ", ".join(f"{one.bytes / MIB:,.0f}" for one in taken)
            outcomes = [done[f"{verb} {one.name}"] for one in taken]
            section.add(f"{shape}, {sizes} MiB", f"`{verb}`", *_judge(taken, outcomes))
    return section


def _measure(taken: Sequence[Capture], rounds: int) -> dict[str, Outcome]:
    done: dict[str, Outcome] = {}
    for one in taken:
        one.warm()
        with scratch() as out:
            jobs = [_limited(one, verb, words, out) for verb, words in VERBS.items() if one in _choose(taken, verb)]
            done |= interleave(jobs, rounds)
    return done


def _choose(taken: Sequence[Capture], verb: str) -> Sequence[Capture]:
    return taken[:2] if verb in SMALLER else taken


def _limited(one: Capture, verb: str, words: Sequence[str], out: Path) -> Job:
    own = [word.format(out=out) for word in words]
    command = (program("fastprof"), verb, str(one.path), "--memory", str(LIMIT), "-q", *own)
    return Job(f"{verb} {one.name}", command, samples=True)


def farthest_in_proportion(sizes: Sequence[float], times: Sequence[float]) -> float:
    """Return the largest distance of a time from the line, as a share of the line's. The line has the least squares of
    relative distances: absolute ones would fit the largest size, and ignore the smallest."""
    slope, start = np.polyfit(sizes, times, 1, w=1 / np.asarray(times))
    return float(np.max(np.abs(times / (start + slope * np.asarray(sizes)) - 1)))


def _judge(taken: Sequence[Capture], outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    peak = max(outcome.anonymous for outcome in outcomes)
    cells = [f"{seconds(outcome)} ({outcome.anonymous / MIB:,.0f})" for outcome in outcomes]
    line = ("–", "two sizes")
    if len(taken) > 2:
        off = farthest_in_proportion([one.bytes for one in taken], [outcome.median for outcome in outcomes])
        line = f"{off:.2f}", at_most(off, OFF_THE_LINE)
    return ", ".join(cells), *line, f"{peak / MIB:,.0f} MiB", at_most(peak / MIB, LIMIT // MIB)
