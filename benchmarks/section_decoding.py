"""Decoding four million events with their stats, against every rival; then programs from start to end."""

from __future__ import annotations

import statistics
from dataclasses import replace

import rivals
from ab import reading, summing_up
from captures import MAIN, Capture, capture
from measure import MIB, Job, Outcome
from section import MB, Plan, Section, at_least, at_most, run, seconds, speed

Outcomes = dict[str, Outcome]

NAMES = "name, start, duration of every event"
EVERYTHING = "every event and every stat, typed"


def decoding(plan: Plan) -> Section:
    taken = capture(MAIN)
    done = run(_jobs(taken, plan), plan.rounds, taken)
    section = Section(
        "Decoding",
        f"`{taken.name}`: {taken.bytes / MB:.0f} MB, {taken.events:,} events, {taken.stats:,} stats on"
        f" {taken.lines} lines. fastprof is timed inside its process after a warm-up, from `load` to Arrow"
        " tables. A run of `xprof-rs aggregate_xplane_events` is a whole process; it groups events by name"
        " and reads no stat. JAX (`jax.profiler.ProfileData`) and the protobuf runtime are timed inside"
        " their processes, while Python walks all events.",
        ("what", "fastprof", "rival", "ratio", "asked"),
    )
    _against_rivals(section, done)
    _threads(section, done, taken)
    return section


def _jobs(taken: Capture, plan: Plan) -> list[Job]:
    slow = (
        rivals.profile_data(taken.path, stats=False),
        rivals.profile_data(taken.path, stats=True),
        rivals.protobuf(taken.path),
    )
    return [
        reading(taken.path, "names", repeat=2),
        rivals.aggregate(taken.path),
        reading(taken.path, "everything", repeat=2),
        *(reading(taken.path, what, threads=n, repeat=2) for what in ("names", "everything") for n in (1, 2)),
        *(replace(job, every=plan.slow_every) for job in slow),
    ]


def _against_rivals(section: Section, done: Outcomes) -> None:
    names, everything, aggregate = done["names"], done["everything"], done["xprof-rs"]
    for what, ours, asked in ((NAMES, names, 1.0), (EVERYTHING, everything, 1.5)):
        ratio = ours.median / aggregate.median
        title = f"{what}: time over that of one xprof-rs run"
        section.add(title, seconds(ours), seconds(aggregate), f"{ratio:.2f}", at_most(ratio, asked))
    for what, ours in ((NAMES, names), (EVERYTHING, everything)):
        first = statistics.median(ours.firsts)
        title = f"{what}: the first call of a process, imports included, over one xprof-rs run"
        section.add(title, f"{first:.3f} s", seconds(aggregate), f"{first / aggregate.median:.2f}", "")
    for what, ours, key, rival, bar in (
        (EVERYTHING, everything, "jax-stats", "JAX", 30.0),
        (NAMES, names, "jax-names", "JAX", None),
        (EVERYTHING, everything, "protobuf", "protobuf", None),
    ):
        ratio = done[key].median / ours.median
        verdict = "" if bar is None else at_least(ratio, bar)
        title = f"{what}: times faster than {rival}"
        section.add(title, seconds(ours), seconds(done[key]), f"{ratio:.1f}", verdict)


def _threads(section: Section, done: Outcomes, taken: Capture) -> None:
    for what, key, slowest, least in ((EVERYTHING, "everything", 300.0, 1.4), (NAMES, "names", None, None)):
        one, two = done[f"{key}@1"], done[f"{key}@2"]
        rate, gain = speed(taken, one), one.median / two.median
        verdict = "" if slowest is None else at_least(rate, slowest)
        section.add(f"{what}: MB/s on one thread", seconds(one), "", f"{rate:.0f}", verdict)
        verdict = "" if least is None else at_least(gain, least)
        section.add(f"{what}: one thread's time over that of two", seconds(two), "", f"{gain:.2f}", verdict)


def whole_programs(plan: Plan) -> Section:
    taken = capture(MAIN)
    done = run([summing_up(taken.path), rivals.aggregate(taken.path)], plan.rounds, taken)
    ours, rival = done["events"], done["xprof-rs"]
    section = Section(
        "Whole programs",
        "From start to end of a process, the start of Python included. `fastprof events` computes self times"
        " as well, which needs the nesting of every event.",
        ("what", "fastprof", "xprof-rs", "ratio", "peak memory"),
    )
    peaks = f"{ours.peak / MIB:.0f} and {rival.peak / MIB:.0f} MiB"
    section.add("events by name", seconds(ours), seconds(rival), f"{ours.median / rival.median:.2f}", peaks)
    return section
