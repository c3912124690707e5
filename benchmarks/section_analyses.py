"""The analyses on four million host events and on a million device events, against XProf and xprof-rs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import captures
import rivals
from ab import analysing, reading
from captures import MAIN, Capture, as_run, capture, scratch
from measure import MIB, Job, JobFailedError, Outcome
from section import MB, Plan, Section, at_least, at_most, mebibytes, run, seconds

Outcomes = dict[str, Outcome]

OVER_XPROF_RS = 0.5
FASTER_THAN_XPROF = 15.0
FILE_SIZES = 5.0
OVER_XPROF_RS_ON_DEVICES = 1.0


@dataclass(frozen=True, slots=True)
class Compared:
    """An analysis: what people call it, its verb, and XProf's page of it."""

    title: str
    verb: str
    tool: str


COMPARED = (
    Compared("overview", "overview", "overview_page"),
    Compared("op stats", "op-stats", "framework_op_stats"),
    Compared("input pipeline", "input-pipeline", "input_pipeline_analyzer"),
)

ON_DEVICES = ("overview", "op-stats")

IN_PROCESS, FRESH, WHOLE = "in process", "in a fresh process", "the whole process"
HOW = (IN_PROCESS, FRESH, WHOLE)


def ours(taken: Capture, verb: str, form: str = "json") -> list[Job]:
    """An analysis warmed up and repeated in a process, once in a fresh process, and as a command that prints it."""
    again = replace(reading(taken.path, verb, repeat=2), name=f"{verb} {IN_PROCESS}")
    once = replace(reading(taken.path, verb, warm_up=0, repeat=1), name=f"{verb} {FRESH}")
    return [again, once, replace(analysing(taken.path, verb, form), name=f"{verb} {WHOLE}")]


def analyses(plan: Plan) -> Section:
    """Every analysis that a rival has too, on the main capture."""
    taken = capture(MAIN)
    section = Section(
        "Analyses",
        f"On `{taken.name}` ({taken.events:,} events). In process: from `load` to the report, after a warm-up. In a"
        " fresh process: the same, the first and only time, imports included. The whole process: `fastprof VERB"
        " --format json`, against a whole process of the rival. XProf is timed inside its process, from a capture to"
        " the JSON of its page, with nothing saved from earlier; `xprof-rs get_overview` is a whole process. The"
        " steps, ops and input ops of fastprof's reports are as many as XProf's.",
        ("what", "fastprof", "rival", "ratio", "asked"),
    )
    with scratch() as folder:
        done = run(_jobs(taken, as_run(folder, taken.files), plan), plan.part(2, 3), taken)
    for how in HOW:
        _over_xprof_rs(section, "overview", how, done, OVER_XPROF_RS)
    for compared in COMPARED:
        for how in HOW:
            _faster_than_xprof(section, compared, how, done)
    return section


def _jobs(taken: Capture, folder: Path, plan: Plan) -> list[Job]:
    """fastprof's and xprof-rs's in all rounds, XProf's in every other."""
    jobs = [rivals.get_overview(folder)]
    for compared in COMPARED:
        jobs += ours(taken, compared.verb)
        jobs.append(replace(rivals.xprof(folder, compared.tool), every=max(1, plan.slow_every // 2)))
    return jobs


def _over_xprof_rs(section: Section, verb: str, how: str, done: Outcomes, asked: float, where: str = "") -> None:
    mine, rival = done[f"{verb} {how}"], done["get_overview"]
    ratio = mine.median / rival.median
    title = f"{where}{verb.replace('-', ' ')}, {how}: time over that of one `xprof-rs get_overview`"
    section.add(title, seconds(mine), seconds(rival), f"{ratio:.2f}", at_most(ratio, asked))


def _faster_than_xprof(section: Section, compared: Compared, how: str, done: Outcomes) -> None:
    mine, rival = done[f"{compared.verb} {how}"], done[compared.tool]
    agree(mine, rival)
    theirs = rival.whole if how == WHOLE else rival.median
    ratio = theirs / mine.median
    title = f"{compared.title}, {how}: times faster than XProf"
    section.add(title, seconds(mine), f"{theirs:.1f} s", f"{ratio:.1f}", at_least(ratio, FASTER_THAN_XPROF))


def agree(mine: Outcome, rival: Outcome) -> None:
    """A fast answer must also be right."""
    for what, counted in mine.facts.items():
        if rival.facts[what] != counted:
            raise JobFailedError(f"{mine.name} counts {counted} {what}, {rival.name} {rival.facts[what]}")


def analyses_memory(plan: Plan) -> Section:
    """Peak memory of every analysis on the main capture."""
    taken = capture(MAIN)
    section = Section(
        "Memory of analyses",
        f"Peak resident memory of whole processes on `{taken.name}` ({taken.bytes / MIB:.0f} MiB), libraries and mapped"
        " pages of the file included; each process computes one report.",
        ("what", "peak", "over the file's size", "asked"),
    )
    with scratch() as folder:
        directory = as_run(folder, taken.files)
        jobs = [job for compared in COMPARED for job in ours(taken, compared.verb)[1:]]
        slow = [replace(rivals.xprof(directory, compared.tool), every=plan.rounds) for compared in COMPARED]
        done = run([*jobs, rivals.get_overview(directory), *slow], plan.part(3, 2), taken)
    for compared in COMPARED:
        for how, title in ((FRESH, "from `load` to the report"), (WHOLE, f"`fastprof {compared.verb}`")):
            _peak(section, f"{compared.title}: {title}", done[f"{compared.verb} {how}"], taken, FILE_SIZES)
    _peak(section, "`xprof-rs get_overview`", done["get_overview"], taken)
    for compared in COMPARED:
        _peak(section, f"XProf `{compared.tool}`", done[compared.tool], taken)
    return section


def _peak(section: Section, title: str, outcome: Outcome, taken: Capture, asked: float | None = None) -> None:
    ratio = outcome.peak / taken.bytes
    section.add(title, mebibytes(outcome), f"{ratio:.2f}", "" if asked is None else at_most(ratio, asked))


def million_device_events(plan: Plan) -> Section:
    """Overview and op stats of a million device events."""
    real = len(captures.devices()) > 1
    what = "the real one of four TPU v6e chips was not at hand"
    if real:
        times = captures.RECIPES["tpu-1m"][4]
        what = f"`tpu-1m` is a real one of four TPU v6e chips, its device planes {times} times over"
    section = Section(
        "A million device events",
        f"`device-1m` is a made capture; {what}. Both analyses are compared with `xprof-rs get_overview`, a whole"
        " process.",
        ("what", "fastprof", "rival", "ratio", "asked"),
    )
    for name in captures.devices():
        _add_devices(section, capture(name), plan)
    return section


def _add_devices(section: Section, taken: Capture, plan: Plan) -> None:
    with scratch() as folder:
        jobs = [job for verb in ON_DEVICES for job in ours(taken, verb)]
        done = run([rivals.get_overview(as_run(folder, taken.files)), *jobs], plan.part(2, 3), taken)
    for verb in ON_DEVICES:
        for how in HOW:
            _over_xprof_rs(section, verb, how, done, OVER_XPROF_RS_ON_DEVICES, f"`{taken.name}`: ")
    peaks = ", ".join(f"{verb} {mebibytes(done[f'{verb} {WHOLE}'])}" for verb in ON_DEVICES)
    section.remarks.append(
        f"`{taken.name}`: {taken.bytes / MB:.0f} MB, {taken.events:,} events, {taken.stats:,} stats; peak memory of the"
        f" whole processes: {peaks}, xprof-rs {mebibytes(done['get_overview'])}."
    )
