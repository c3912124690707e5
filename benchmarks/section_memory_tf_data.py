"""The memory profile and tf.data on captures that are full of them, against XProf and TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import rivals
from captures import Capture, as_run, capture, scratch
from measure import Job, JobFailedError, Outcome
from section import MB, Plan, Section, at_least, at_most, mebibytes, run, seconds
from section_analyses import FILE_SIZES, FRESH, HOW, WHOLE, Outcomes, ours


@dataclass(frozen=True, slots=True)
class Contest:
    """An analysis, the captures it is measured on, what a rival does with the same, and how much faster it is to be."""

    title: str
    verb: str
    captures: tuple[str, ...]
    rival: str
    job: Callable[[Path], Job]
    times: float
    form: str
    others: Callable[[Path], list[Job]] = lambda _run: []


MEMORY = Contest(
    "memory profile", "memory-profile", ("memory-1m", "memory-2m"), "XProf",
    lambda folder: rivals.xprof(folder, "memory_profile"), 10.0, "xprof",
    lambda folder: [rivals.get_memory_profile(folder)],
)  # fmt: skip
TF_DATA = Contest("tf.data", "tf-data", ("pipelines-4m",), "TensorFlow 2.14", rivals.tf_data, 15.0, "table")
HEADER = ("what", "fastprof", "rival", "ratio", "asked")


def memory_profile(plan: Plan) -> Section:
    """A million and two million memory events."""
    section = Section(
        "Memory profile",
        "In process, in a fresh process and as a whole process, as in the analyses above; whole processes print the"
        " JSON of XProf's page. Both have found the same allocators and the same peaks. fastprof's report holds every"
        " snapshot and every allocation with its lifetime; XProf keeps a thousand snapshots of an allocator. What"
        " xprof-rs answers is the peak alone.",
        HEADER,
    )
    _measure(section, MEMORY, plan)
    return section


def tf_data(plan: Plan) -> Section:
    """Four million events of a host that reads from tf.data."""
    section = Section(
        "tf.data",
        "As the memory profile; whole processes of fastprof print the report. TensorFlow is timed inside its process,"
        " which prints nothing: TensorBoard made the page. Its whole process imports TensorFlow. Both have found as"
        " many pipelines and calls.",
        HEADER,
    )
    _measure(section, TF_DATA, plan)
    return section


def _measure(section: Section, contest: Contest, plan: Plan) -> None:
    for name in contest.captures:
        taken = capture(name)
        with scratch() as folder:
            directory = as_run(folder, taken.files)
            rival = replace(contest.job(directory), every=max(1, plan.slow_every // 2))
            others = contest.others(directory)
            jobs = [*ours(taken, contest.verb, contest.form), rival, *others]
            done = run(jobs, plan.part(2, 3), taken)
        _add(section, contest, taken, done, done[rival.name])
        for other in others:
            section.add(f"`{name}`: `xprof-rs {other.name}`", "", seconds(done[other.name]), "", "")


def _add(section: Section, contest: Contest, taken: Capture, done: Outcomes, rival: Outcome) -> None:
    for how in HOW:
        mine = done[f"{contest.verb} {how}"]
        agree(mine, rival)
        theirs = rival.whole if how == WHOLE else rival.median
        ratio = theirs / mine.median
        title = f"`{taken.name}`: {contest.title}, {how}: times faster than {contest.rival}"
        section.add(title, seconds(mine), f"{theirs:.1f} s", f"{ratio:.1f}", at_least(ratio, contest.times))
    for how in (FRESH, WHOLE):
        mine = done[f"{contest.verb} {how}"]
        ratio = mine.peak / taken.bytes
        title = f"`{taken.name}`: peak memory over the file's size, {how}"
        section.add(title, mebibytes(mine), mebibytes(rival), f"{ratio:.2f}", at_most(ratio, FILE_SIZES))
    counted = ", ".join(f"{what.replace('_', ' ')} {n:,}" for what, n in done[f"{contest.verb} {FRESH}"].facts.items())
    section.remarks.append(
        f"`{taken.name}`: {taken.bytes / MB:.0f} MB, {taken.events:,} events, {taken.stats:,} stats. The report has"
        f" counted: {counted}."
    )


def agree(mine: Outcome, rival: Outcome) -> None:
    """A fast answer must also be right, and that of a rival must not be empty."""
    if not rival.facts or not all(rival.facts.values()):
        raise JobFailedError(f"{rival.name} has found nothing: {rival.facts}")
    for what, counted in rival.facts.items():
        if mine.facts and mine.facts[what] != counted:
            raise JobFailedError(f"{mine.name} counts {mine.facts[what]} {what}, {rival.name} {counted}")
