"""Peak memory of reading a capture."""

from __future__ import annotations

import rivals
from ab import reading
from captures import MAIN, capture
from measure import MIB
from section import Plan, Section, at_most, mebibytes, run

TITLES = {
    "all-tables": "fastprof: all tables but `nesting`, held together",
    "everything": "fastprof: `events` and `event_stats`",
    "names": "fastprof: name, start, duration",
    "scan": "fastprof: name, start, duration in batches that are not kept",
    "nesting": "fastprof: `nesting`",
    "xprof-rs": "xprof-rs: `aggregate_xplane_events`",
    "jax-stats": "JAX: `ProfileData`, events walked one by one",
    "protobuf": "protobuf: all messages parsed",
}
OURS = ("all-tables", "everything", "names", "scan", "nesting")


def memory(plan: Plan) -> Section:
    taken = capture(MAIN)
    jobs = [
        *(reading(taken.path, what, warm_up=0, repeat=1) for what in OURS),
        rivals.aggregate(taken.path),
        rivals.profile_data(taken.path, stats=True),
        rivals.protobuf(taken.path),
    ]
    done = run(jobs, plan.part(3, 2), taken)
    section = Section(
        "Memory",
        f"Peak resident memory of whole processes on `{taken.name}` ({taken.bytes / MIB:.0f} MiB), libraries"
        " and mapped pages of the file included; each process reads the capture once.",
        ("what", "peak", "over the file's size", "asked"),
    )
    for name, outcome in done.items():
        ratio = outcome.peak / taken.bytes
        verdict = at_most(ratio, 6) if name == "all-tables" else ""
        section.add(TITLES[name], mebibytes(outcome), f"{ratio:.2f}", verdict)
    return section
