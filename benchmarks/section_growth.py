"""How time and memory grow: with the events of a host, and with the hosts of a pod."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from ab import reading
from captures import GROWING, MEMORY_GROWING, PIPELINES_GROWING, POD, POD_STEPS, Capture, as_run, capture, scratch
from measure import MIB, JobFailedError, Outcome, interleave
from pod_shape import CHIPS
from section import MB, Plan, Section, at_most, mebibytes, seconds

OFF_THE_LINE = 0.25
A_HOST_MORE_MIB = 2.0
"""What is combined of a host takes less than this; its tables and its file take more."""
POD_SIZES = (8, 16, 32, 64)
POD_VERBS = ("overview", "pod-viewer")
VERBS = ("overview", "op-stats", "input-pipeline")


def line_through(sizes: Sequence[float], times: Sequence[float]) -> list[float]:
    """For each size the time on the line of least squares."""
    slope, start = statistics.linear_regression(sizes, times)
    return [start + slope * size for size in sizes]


def farthest(sizes: Sequence[float], times: Sequence[float]) -> float:
    """The largest distance of a time from the line, as a share of the line's."""
    return max(abs(time / on_line - 1) for time, on_line in zip(times, line_through(sizes, times), strict=True))


def growth(plan: Plan) -> Section:
    """From half a million host events to four million."""
    return _growth(plan, "Growth with events", GROWING, VERBS)


def memory_growth(plan: Plan) -> Section:
    """From a quarter of a million memory events to two million."""
    return _growth(plan, "Growth with allocations", MEMORY_GROWING, ("memory-profile",))


def pipelines_growth(plan: Plan) -> Section:
    """From half a million events of a host that reads from tf.data to four million."""
    return _growth(plan, "Growth with calls of tf.data", PIPELINES_GROWING, ("tf-data",))


def _growth(plan: Plan, title: str, names: Sequence[str], verbs: Sequence[str]) -> Section:
    taken = [capture(name) for name in names]
    section = Section(
        title,
        "In process, from `load` to the report, after a warm-up; in brackets, nanoseconds an event. The last column is"
        " the largest distance of a median from the line of least squares through the medians, as a share of the"
        " line's time.",
        ("what", *(f"{one.events:,} events" for one in taken), "off the line", "asked"),
    )
    jobs = []
    for one in taken:
        one.warm()
        jobs += [replace(reading(one.path, verb, repeat=3), name=f"{verb} {one.name}") for verb in verbs]
    done = interleave(jobs, plan.part(2, 3))
    for verb in verbs:
        outcomes = [done[f"{verb} {one.name}"] for one in taken]
        cells = [
            f"{seconds(outcome)} ({outcome.median / one.events * 1e9:.0f})"
            for outcome, one in zip(outcomes, taken, strict=True)
        ]
        section.add(verb, *cells, *_verdict([one.events for one in taken], outcomes))
    return section


def _verdict(sizes: Sequence[float], outcomes: Sequence[Outcome]) -> tuple[str, str]:
    off = farthest(sizes, [outcome.median for outcome in outcomes])
    return f"{off:.2f}", at_most(off, OFF_THE_LINE)


def pod(plan: Plan) -> Section:
    """Up to 64 hosts of the synthetic pod."""
    whole = capture(POD)
    whole.warm()
    done: dict[str, Outcome] = {}
    with scratch() as folder:
        runs = {size: as_run(folder / str(size), whole.files[:size]) for size in POD_SIZES}
        jobs = [
            replace(reading(run, verb, warm_up=0, repeat=1), name=f"{verb} {size}")
            for size, run in runs.items()
            for verb in POD_VERBS
        ]
        done = interleave(jobs, plan.part(3, 2))
    section = _pod_table(whole)
    for verb in POD_VERBS:
        outcomes = [done[f"{verb} {size}"] for size in POD_SIZES]
        check_steps(verb, outcomes)
        for size, outcome in zip(POD_SIZES, outcomes, strict=True):
            a_host = f"{outcome.median / size * 1000:.0f} ms"
            verdict = ("", "") if size != POD_SIZES[-1] else _verdict(POD_SIZES, outcomes)
            section.add(f"{verb}, {size} hosts", seconds(outcome), a_host, mebibytes(outcome), *verdict)
        section.remarks.append(_remark(verb, outcomes, whole))
    return section


def _pod_table(whole: Capture) -> Section:
    hosts = len(whole.files)
    return Section(
        "A pod",
        f"`{whole.name}`: {hosts} hosts of {CHIPS} TPU cores, each of {whole.events / hosts:,.0f} events in"
        f" {whole.bytes / hosts / MB:.1f} MB, {POD_STEPS} steps from infeed to outfeed. Such hosts were not measured"
        " anywhere: they are made. Every row is a fresh process, from `load` to the report, of the first hosts; the"
        " peak is that of the process, mapped pages included. Off the line is as above.",
        ("what", "seconds", "a host", "peak memory", "off the line", "asked"),
    )


def check_steps(verb: str, outcomes: Sequence[Outcome]) -> None:
    """Every step of every core is present: a fast answer must also be right."""
    for size, outcome in zip(POD_SIZES, outcomes, strict=False):
        expected = {"steps": POD_STEPS, "rows": POD_STEPS * CHIPS * size}
        for what, counted in outcome.facts.items():
            if counted != expected[what]:
                raise JobFailedError(f"{verb} of {size} hosts counts {counted} {what}, not {expected[what]}")


def _remark(verb: str, outcomes: Sequence[Outcome], whole: Capture) -> str:
    """What a host more costs in memory."""
    added = (outcomes[-1].peak - outcomes[0].peak) / (POD_SIZES[-1] - POD_SIZES[0])
    return (
        f"`{verb}`: each host beyond {POD_SIZES[0]}, {whole.bytes / len(whole.files) / MIB:.1f} MiB on disk, adds"
        f" {added / MIB:.2f} MiB to the peak, {at_most(added / MIB, A_HOST_MORE_MIB)}."
    )
