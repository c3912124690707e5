"""Decoding captures of every shape and size."""

from __future__ import annotations

import rivals
from ab import reading
from captures import HUGE, SHAPES, SMALL, Capture, capture
from section import MB, Plan, Section, mebibytes, run, seconds, speed

BIG = 500 * MB


def shapes(plan: Plan) -> Section:
    section = Section(
        "Shapes and sizes",
        "All threads. MB/s of capture for name, start and duration of every event, and for every event with"
        " every stat. Ratios are to the time of one run of `xprof-rs aggregate_xplane_events`, in the last"
        " column; there is none where it stops after five million events.",
        ("capture", "MB", "events", "lines", "names MB/s", "ratio", "all stats MB/s", "ratio", "xprof-rs"),
    )
    for name in SHAPES:
        if name != HUGE and (plan.huge or name in SMALL):
            _add(section, capture(name), plan.part(3, 3))
    if plan.huge:
        section.remarks.append(_scan(capture(HUGE)))
    return section


def _add(section: Section, taken: Capture, rounds: int) -> None:
    repeat = 1 if taken.bytes > BIG else 3
    jobs = [
        reading(taken.path, "names", repeat=repeat),
        rivals.aggregate(taken.path),
        reading(taken.path, "everything", repeat=repeat),
    ]
    done = run(jobs, rounds, taken)
    cells = [f"`{taken.name}`", f"{taken.bytes / MB:,.0f}", f"{taken.events:,}", f"{taken.lines:,}"]
    rival = done["xprof-rs"]
    whole = taken.events < rivals.XPROF_RS_EVENTS
    for key in ("names", "everything"):
        ratio = f"{done[key].median / rival.median:.2f}" if whole else ""
        cells += [f"{speed(taken, done[key]):,.0f}", ratio]
    section.add(*cells, seconds(rival) if whole else f"{seconds(rival)}, stops")


def _scan(taken: Capture) -> str:
    outcome = run([reading(taken.path, "scan", warm_up=0, repeat=1)], 2, taken)["scan"]
    return (
        f"`{taken.name}` ({taken.bytes / (1 << 30):.2f} GiB, {taken.events:,} events), scanned in batches of"
        f" name, start and duration that are not kept: {seconds(outcome)}, {speed(taken, outcome):,.0f} MB/s,"
        f" at a peak of {mebibytes(outcome)}."
    )
