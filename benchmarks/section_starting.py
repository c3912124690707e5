"""Time to start fastprof, and processor time of verbs on small captures."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import rivals
from ab import program
from captures import Capture, as_run, capture, scratch
from measure import Job, Outcome, interleave
from section import Plan, Section, at_most

SIZES = {"host": ("host-1mb", "host-10mb", "host-40mb"), "device": ("device-1mb", "device-10mb", "device-40mb")}
SMALL_SIZES = {"host": ("host-1mb",), "device": ("device-1mb",)}
VERBS = {"info": "host", "events": "host", "diagnosis": "host", "op-profile": "device"}
"""Shape of the captures that a verb is tried on."""
ASKED_MS = 120
"""Processor time of a verb on the smallest capture."""


def starting(plan: Plan) -> Section:
    """Measure imports, and whole processes of verbs on captures of 1, 10 and 40 MB."""
    section = Section(
        "Starting",
        "Processor milliseconds of whole processes, medians, by size of the capture: about 1, 10 and 40 MB. *Warm* is"
        " the same command with `fastprof warm` running, from start to end by the clock. xprof-rs answers `events` with"
        " `aggregate_xplane_events`, `diagnosis` with `get_overview` and `op-profile` with `get_hlo_op_profile`, which"
        " have fewer figures; XProf with its pages `overview_page` and `op_profile`, whose files it writes again.",
        ("what", "fastprof", "warm", "xprof-rs", "XProf", "asked"),
    )
    _time_imports(section, plan)
    sizes = SIZES if plan.huge else SMALL_SIZES
    with scratch() as folder, _warm_helper(folder / "socket") as helper:
        for verb, shape in VERBS.items():
            taken = [capture(name) for name in sizes[shape]]
            done = [_time_verb(verb, one, folder / verb / one.name, helper, plan) for one in taken]
            own = median(done[0]["fastprof"].processor) * 1000
            cells = (_show(done, side) for side in ("fastprof", "warm", "xprof-rs", "xprof"))
            section.add(f"`fastprof {verb}`, {shape} capture", *cells, at_most(own, ASKED_MS))
    return section


def _time_imports(section: Section, plan: Plan) -> None:
    jobs = [
        Job("Python itself", (sys.executable, "-c", "pass")),
        Job("`import fastprof`", (sys.executable, "-c", "import fastprof")),
        Job("`import numpy, pyarrow`, OpenBLAS's threads included", (sys.executable, "-c", "import numpy, pyarrow")),
        Job("`fastprof --version`", (program("fastprof"), "--version")),
    ]
    for name, outcome in interleave(jobs, 4 * plan.rounds).items():
        taken = median(outcome.processor) * 1000
        section.add(name, f"{taken:.0f}", "", "", "", at_most(taken, 30) if "version" in name else "")


def _time_verb(verb: str, one: Capture, folder: Path, helper: Mapping[str, str], plan: Plan) -> dict[str, Outcome]:
    one.warm()
    run = as_run(folder, [one.path])
    command = (program("fastprof"), verb, str(one.path))
    jobs = [
        Job("fastprof", command, environment={"FASTPROF_WARM": "0"}),
        Job("warm", command, environment=helper),
    ]
    rows = {"events": lambda: rivals.aggregate(one.path), "diagnosis": lambda: rivals.get_overview(run),
            "op-profile": lambda: rivals.get_hlo_op_profile(run)}  # fmt: skip
    pages = {"diagnosis": "overview_page", "op-profile": "op_profile"}
    if verb in rows:
        jobs.append(Job("xprof-rs", rows[verb]().command))
    if verb in pages:
        jobs.append(Job("xprof", rivals.xprof(run, pages[verb]).command, every=plan.slow_every))
    return interleave(jobs, plan.rounds)


def _show(done: list[dict[str, Outcome]], side: str) -> str:
    if side not in done[0]:
        return ""
    return ", ".join(
        f"{1000 * median(outcome[side].seconds if side == 'warm' else outcome[side].processor):,.0f}"
        for outcome in done
    )


@contextmanager
def _warm_helper(address: Path) -> Iterator[Mapping[str, str]]:
    """Run ``fastprof warm`` during the block; yields the environment of its commands."""
    environment = {"FASTPROF_WARM": str(address)}
    with subprocess.Popen(
        (program("fastprof"), "warm"), env=os.environ | environment, stderr=subprocess.PIPE, text=True
    ) as helper:
        assert helper.stderr is not None
        helper.stderr.readline()  # it says when it is ready
        try:
            yield environment
        finally:
            helper.terminate()
