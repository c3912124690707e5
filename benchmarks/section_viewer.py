"""The trace viewer: how soon there is a picture, how long windows take, what it keeps."""

from __future__ import annotations

import sys

from captures import HERE, MAIN, TEN_TIMES, capture
from measure import MIB, Job, Outcome, interleave
from section import MB, Plan, Section, at_least, at_most

PROBE = str(HERE / "viewer_probe.py")
FRAMES = str(HERE / "frame_times.py")


def viewer(plan: Plan) -> Section:
    main = capture(MAIN)
    main.warm()
    jobs = [
        Job("ours", (sys.executable, PROBE, "fastprof", str(main.path)), reports=True),
        Job("xprof-rs", (sys.executable, PROBE, "xprof-rs", str(main.path)), reports=True),
    ]
    done = interleave(jobs, plan.part(of=2, least=3))
    ours, theirs = done["ours"], done["xprof-rs"]
    section = Section(
        "Trace viewer",
        f"`{main.name}`: {main.events:,} events on {main.lines} lines, nothing cached. The first picture is that of the"
        " whole session, as a client has it that starts its clock with the server's process. Windows are 60 of all"
        " widths all over the session, all lines at 1,600 pixels (xprof-rs: `trace_viewer@` at resolution 8,000), as"
        " the client waits for them on loopback: medians.",
        ("what", "fastprof", "xprof-rs", "asked"),
    )
    sooner = theirs.median / ours.median
    section.add(
        "first picture",
        f"{ours.median:.2f} s",
        f"{theirs.median:.2f} s",
        f"{sooner:.1f} times sooner; {at_least(sooner, 3)}",
    )
    _windows(section, ours, theirs)
    if plan.huge:
        _ten_times(section, plan, ours)
    _frames(section, str(main.path))
    return section


def _milliseconds(outcome: Outcome, fact: str) -> float:
    return outcome.facts[fact] / 1000


def _windows(section: Section, ours: Outcome, theirs: Outcome) -> None:
    for title, fact, asked in (("a new window", "new_us", 20), ("a window seen before", "again_us", 5)):
        here, there = _milliseconds(ours, fact), _milliseconds(theirs, fact)
        section.add(title, f"{here:.1f} ms", f"{there:.1f} ms", at_most(here, asked))
    here, there = _milliseconds(ours, "new_p90_us"), _milliseconds(theirs, "new_p90_us")
    section.add("of ten new windows the slowest but one", f"{here:.1f} ms", f"{there:.1f} ms", "")
    section.add(
        "peak memory", f"{ours.facts['peak_bytes'] / MIB:,.0f} MiB", f"{theirs.facts['peak_bytes'] / MIB:,.0f} MiB", ""
    )
    section.add("cache", f"{ours.facts['cache_bytes'] / MB:,.0f} MB", "none on disk", "")


def _ten_times(section: Section, plan: Plan, small: Outcome) -> None:
    large = capture(TEN_TIMES)
    large.warm()
    job = Job("ours, ten times", (sys.executable, PROBE, "fastprof", str(large.path)), reports=True)
    ours = interleave([job], plan.part(of=4, least=2))["ours, ten times"]
    section.add(f"{large.events:,} events: first picture", f"{ours.median:.2f} s", "", "")
    for title, fact in (("a new window", "new_us"), ("a window seen before", "again_us")):
        here, before = _milliseconds(ours, fact), _milliseconds(small, fact)
        verdict = f"{here / before:.2f} times that of the smaller; {at_most(here / before, 2)}"
        section.add(f"{large.events:,} events: {title}", f"{here:.1f} ms", "", verdict)
    section.add(f"{large.events:,} events: peak memory", f"{ours.facts['peak_bytes'] / MIB:,.0f} MiB", "", "")
    section.add(f"{large.events:,} events: cache", f"{ours.facts['cache_bytes'] / MB:,.0f} MB", "", "")


def _frames(section: Section, path: str) -> None:
    job = Job("frames", (sys.executable, FRAMES, path), reports=True)
    facts = interleave([job], 1)["frames"].facts
    section.remarks.append(
        f"Frames while panning the {MAIN} capture in headless Chromium on the same two cores, without a GPU:"
        f" {facts['frames']} gaps of requestAnimationFrame, median {facts['median_us'] / 1000:.1f} ms, 99th percentile"
        f" {facts['p99_us'] / 1000:.1f} ms, longest {facts['longest_us'] / 1000:.1f} ms."
    )
