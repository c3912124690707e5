"""Compiled programs: a million device events against XProf and xprof-rs, and programs of up to 100,000 instructions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import captures
import rivals
from ab import reading
from captures import PROGRAMS_GROWING, Capture, as_run, capture, scratch
from measure import Job, JobFailedError, Outcome, interleave
from section import MB, Plan, Section, at_least, at_most, mebibytes, run, seconds
from section_analyses import HOW, WHOLE, Outcomes, agree, ours
from section_growth import farthest

FASTER_THAN_XPROF = 30.0
OVER_XPROF_RS = 1.0
OFF_THE_LINE = 0.25


@dataclass(frozen=True, slots=True)
class Compared:
    """An analysis: its verb, xprof-rs's command, XProf's page."""

    verb: str
    command: str
    tool: str


COMPARED = (
    Compared("op-profile", "get_hlo_op_profile", "op_profile"),
    Compared("hlo-stats", "get_hlo_stats", "hlo_stats"),
)
WORK = ("programs", "program-text", "memory-viewer", "hlo-stats", "op-profile", "roofline")


def xla(plan: Plan) -> Section:
    """Op profile and HLO stats of a million device events."""
    section = Section(
        "Compiled programs",
        "A million device events. In process: from `load` to the report, after a warm-up. In a fresh process: the same,"
        " the first and only time, imports included. The whole process: `fastprof VERB --format json`. xprof-rs is"
        " always a whole process, of a compiled program that imports nothing; XProf is timed inside its process. The"
        " ops of fastprof's HLO stats are as many as XProf's.",
        ("what", "fastprof", "rival", "ratio", "asked"),
    )
    for name in captures.devices():
        _add_devices(section, capture(name), plan)
    return section


def _add_devices(section: Section, taken: Capture, plan: Plan) -> None:
    with scratch() as folder:
        directory = as_run(folder, taken.files)
        done = run(_jobs(taken, directory, plan), plan.part(2, 3), taken)
    for one in COMPARED:
        for how in HOW:
            mine, rival, slow = done[f"{one.verb} {how}"], done[one.command], done[one.tool]
            agree_where_both_count(mine, slow)
            ratio = mine.median / rival.median
            title = f"`{taken.name}`: {one.verb}, {how}"
            what = f"{title}: time over that of one `xprof-rs {one.command}`"
            section.add(what, seconds(mine), seconds(rival), f"{ratio:.2f}", at_most(ratio, OVER_XPROF_RS))
            theirs = slow.whole if how == WHOLE else slow.median
            faster = theirs / mine.median
            cells = (seconds(mine), f"{theirs:.1f} s", f"{faster:.1f}", at_least(faster, FASTER_THAN_XPROF))
            section.add(f"{title}: times faster than XProf", *cells)
    section.remarks.append(_peaks(taken, done))


def _jobs(taken: Capture, directory: Path, plan: Plan) -> list[Job]:
    jobs: list[Job] = []
    makers = {"get_hlo_op_profile": rivals.get_hlo_op_profile, "get_hlo_stats": rivals.get_hlo_stats}
    for one in COMPARED:
        jobs += [*ours(taken, one.verb), makers[one.command](directory)]
        jobs.append(replace(rivals.xprof(directory, one.tool), every=max(1, plan.slow_every // 2)))
    return jobs


def agree_where_both_count(mine: Outcome, rival: Outcome) -> None:
    if set(mine.facts) <= set(rival.facts):
        agree(mine, rival)


def _peaks(taken: Capture, done: Outcomes) -> str:
    mine = ", ".join(f"{one.verb} {mebibytes(done[f'{one.verb} {WHOLE}'])}" for one in COMPARED)
    theirs = ", ".join(f"{one.command} {mebibytes(done[one.command])}" for one in COMPARED)
    return (
        f"`{taken.name}`: {taken.bytes / MB:.0f} MB, {taken.events:,} events, {taken.stats:,} stats; peak memory of the"
        f" whole processes: {mine}; of xprof-rs: {theirs}."
    )


def programs(plan: Plan) -> Section:
    """One program of up to 100,000 instructions: read, printed, analysed."""
    taken = [capture(name) for name in PROGRAMS_GROWING]
    section = Section(
        "Large programs",
        "Made captures of one program, in which a TPU core runs every instruction of the entry once; each instruction"
        " has a buffer. In process, from `load` to the tables, the text or the report, after a warm-up; in brackets,"
        " microseconds an instruction. Off the line is the largest distance of a median from the line of least squares,"
        " as a share of the line's time.",
        ("what", *(f"{_instructions(one):,} instructions" for one in taken), "peak memory", "off the line", "asked"),
    )
    jobs = []
    for one in taken:
        one.warm()
        jobs += [replace(reading(one.path, work, repeat=2), name=f"{work} {one.name}") for work in WORK]
    done = interleave(jobs, plan.part(3, 2))
    for work in WORK:
        _add_work(section, work, taken, done)
    return section


def _instructions(taken: Capture) -> int:
    """The number in its name, in thousands."""
    return int(taken.name.partition("-")[2].removesuffix("k")) * 1000


def _add_work(section: Section, work: str, taken: list[Capture], done: Outcomes) -> None:
    outcomes = [done[f"{work} {one.name}"] for one in taken]
    sizes = [_instructions(one) for one in taken]
    counted = [next(iter(outcome.facts.values())) for outcome in outcomes]
    if sorted(counted) != counted or not counted[0]:
        raise JobFailedError(f"{work} counts {counted} in programs of {sizes} instructions")
    cells = [
        f"{seconds(outcome)} ({outcome.median / size * 1e6:.0f})" for outcome, size in zip(outcomes, sizes, strict=True)
    ]
    off = farthest(sizes, [outcome.median for outcome in outcomes])
    section.add(work, *cells, mebibytes(outcomes[-1]), f"{off:.2f}", at_most(off, OFF_THE_LINE))
