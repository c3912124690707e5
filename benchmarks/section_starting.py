"""How long it takes until fastprof is there."""

from __future__ import annotations

import sys

from ab import program
from measure import Job, interleave
from section import Plan, Section, at_most


def starting(plan: Plan) -> Section:
    jobs = [
        Job("python", (sys.executable, "-c", "pass")),
        Job("import fastprof", (sys.executable, "-c", "import fastprof")),
        Job("version", (program("fastprof"), "--version")),
        Job("import pyarrow", (sys.executable, "-c", "import pyarrow")),
    ]
    done = {name: outcome.median * 1000 for name, outcome in interleave(jobs, 4 * plan.rounds).items()}
    section = Section(
        "Starting",
        f"Medians of whole processes. Python itself takes {done['python']:.0f} ms here to start and end.",
        ("what", "ms", "asked"),
    )
    for name, asked in (("import fastprof", 60), ("import pyarrow", None)):
        beyond = done[name] - done["python"]
        verdict = "" if asked is None else at_most(beyond, asked)
        section.add(f"`{name}`, beyond Python's own start", f"{beyond:.0f}", verdict)
    section.add("`fastprof --version`", f"{done['version']:.0f}", at_most(done["version"], 100))
    return section
