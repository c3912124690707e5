"""Traces of PyTorch's profiler that cannot be of one job, by what each of them records.

    rank 0 of 2   A100   10:00        job 1
    rank 1 of 2   A100   10:00        job 1
    rank 0 of 2   A100   10:07        job 2: a job has each rank once, and its ranks are profiled at one time
    rank 0 of 1   H100   10:00        job 3: a job has one number of ranks, and devices of one model

What a trace does not record rules nothing out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final

from fastprof.decode.import_log import ImportLog
from fastprof.decode.span_stats import CaptureTexts, owned_spans, read_span_stats
from fastprof.decode.task_environment import KINETO, TaskEnvironment
from fastprof.decode.text_pools import TextTable
from fastprof.decode.xspace_capture import Capture
from fastprof.inputs.chosen_traces import OTHER_PHASE as OTHER_PHASE
from fastprof.schema.value_classes import dataclass
from fastprof.wording.quantities import few

SEVERAL_JOBS: Final = "several_jobs"
_MODELS: Final = ("gpu_device_name", "device_name", "gpu_model")
_APART_NS: Final = 60 * 10**9
"""Ranks of one job are profiled in the same steps. Clocks of their machines differ by less than this."""
_MOST_RANKS: Final = 64
_MOST_LISTED: Final = 5
Jobs = list[list[int]]
"""Numbers of traces, by job."""


@dataclass(frozen=True, slots=True)
class JobFacts:
    """Facts of a trace on its job. ``rank``, ``size`` (the number of ranks): None: not recorded; ``groups``: the
    first ranks of each process group; ``models``: of its devices; ``begin_ns``, ``end_ns``: Unix time, None: not
    recorded."""

    rank: int | None
    size: int | None
    groups: tuple[tuple[int, ...], ...]
    models: frozenset[str]
    begin_ns: int | None
    end_ns: int | None


def read_job_facts(capture: Capture, environment: TaskEnvironment) -> JobFacts | None:
    """Return what the capture records of its job; None: PyTorch's profiler did not write it."""
    if environment.transcribed_from != KINETO:
        return None
    info = parse_distributed_info(dict(environment.stats).get("distributedInfo"))
    rank = as_count(info.get("rank"))
    return JobFacts(
        rank, as_count(info.get("world_size")), _groups(info.get("pg_config"), rank), _models(capture),
        environment.start_unix_ns, environment.stop_unix_ns,
    )  # fmt: skip


def parse_distributed_info(text: str | None) -> dict[str, Any]:
    """Return the member distributedInfo of a trace; empty: it is absent or damaged."""
    try:
        info = json.loads(text or "null")
    except (ValueError, RecursionError):
        return {}
    return info if isinstance(info, dict) else {}


def as_count(value: object) -> int | None:
    """Return a number of ranks or a rank; None: it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _groups(config: object, own: int | None) -> tuple[tuple[int, ...], ...]:
    """Return the first ranks of each process group, and the own one: thousands of traces may list all ranks each."""
    listed = list(config.values()) if isinstance(config, dict) else config if isinstance(config, list) else []
    ranks = [one.get("ranks") for one in listed if isinstance(one, dict)]
    lists = [one for one in ranks if isinstance(one, list) and all(as_count(rank) is not None for rank in one)]
    return tuple((*one[:_MOST_RANKS], *([own] if own in one else [])) for one in lists)


def _models(capture: Capture) -> frozenset[str]:
    table = TextTable(capture.memory)
    spans = capture.plane_stat_spans
    stats = read_span_stats(CaptureTexts(capture, table), owned_spans(spans), spans["part"].copy())
    texts: list[str] = table.array().to_pylist()
    pairs = zip(stats.stat.tolist(), stats.text.tolist(), strict=True)
    return frozenset(texts[text] for stat, text in pairs if text >= 0 and texts[text] and texts[stat] in _MODELS)


def split_jobs(facts: Sequence[JobFacts | None]) -> tuple[Jobs, list[str]]:
    """Return the jobs that these traces are of, the earliest first, and why they are several."""
    jobs, reasons = [list(range(len(facts)))], list[str]()
    known = [one for one in facts if one is not None]
    if len(known) < max(2, len(facts)):
        return jobs, reasons
    splits: tuple[tuple[Callable[[Sequence[JobFacts]], list[Hashable]], str], ...] = (
        (lambda of: [one.size for one in of], "their numbers of ranks differ"),
        (_by_model, "their devices differ"),
        (_by_time, "they were recorded at different times"),
        (_by_group, "no process group has ranks of both"),
        (_by_rank, "ranks are recorded twice"),
    )
    for keys_of, reason in splits:
        parts = [part for job in jobs for part in _parts(job, keys_of([known[trace] for trace in job]))]
        if len(parts) > len(jobs):
            jobs = parts
            reasons.append(reason)
    jobs.sort(key=lambda job: (min(known[trace].begin_ns or 0 for trace in job), job))
    return jobs, reasons


def _parts(job: Sequence[int], keys: Sequence[Hashable]) -> Jobs:
    """Return the traces of a job by key. Those without a key (None) go with the most frequent one."""
    parts: dict[Hashable, list[int]] = {}
    counted = [key for key in keys if key is not None]
    usual = max(dict.fromkeys(counted), key=counted.count, default=None)
    for trace, key in zip(job, keys, strict=True):
        parts.setdefault(usual if key is None else key, []).append(trace)
    return list(parts.values())


def _joined(sets: Iterable[Iterable[Hashable]]) -> dict[Hashable, Hashable]:
    """Return a representative of each element; elements that are in one set have the same."""
    above: dict[Hashable, Hashable] = {}

    def top(one: Hashable) -> Hashable:
        while above.setdefault(one, one) != one:
            above[one] = above[above[one]]
            one = above[one]
        return one

    for members in sets:
        first, *rest = members
        for other in rest:
            above[top(other)] = top(first)
        top(first)
    return {one: top(one) for one in list(above)}


def _by_model(facts: Sequence[JobFacts]) -> list[Hashable]:
    of_model = _joined(one.models for one in facts if one.models)
    return [of_model[min(one.models)] if one.models else None for one in facts]


def _by_time(facts: Sequence[JobFacts]) -> list[Hashable]:
    """Traces without a time of day are of another job than those with one: one profiler writes all of a job."""
    keys: list[Hashable] = ["unknown"] * len(facts)
    number, latest = 0, None
    for begin, trace in sorted((one.begin_ns, trace) for trace, one in enumerate(facts) if one.begin_ns is not None):
        number += latest is not None and begin > latest + _APART_NS
        latest = max(latest or begin, facts[trace].end_ns or begin)
        keys[trace] = number
    return keys


def _by_group(facts: Sequence[JobFacts]) -> list[Hashable]:
    """Ranks that are not in one group may be of groups that share a third rank."""
    if any(one.rank is None or not any(one.rank in group for group in one.groups) for one in facts):
        return [None] * len(facts)
    of_rank = _joined(group for one in facts for group in one.groups if group)
    return [of_rank[one.rank] for one in facts]


def _by_rank(facts: Sequence[JobFacts]) -> list[Hashable]:
    """The first trace of each rank, the second, …, in the order of their times."""
    keys: list[Hashable] = [None] * len(facts)
    seen: dict[int, int] = {}
    for trace in sorted(range(len(facts)), key=lambda trace: facts[trace].begin_ns or 0):
        rank = facts[trace].rank
        if rank is not None:
            keys[trace] = seen[rank] = seen.get(rank, 0) + 1
    return keys


def note_jobs(hosts: Sequence[str], facts: Sequence[JobFacts | None], log: ImportLog) -> Jobs:
    """Return the jobs that these hosts are of, with a row of the log if they are several."""
    jobs, reasons = split_jobs(facts)
    if len(jobs) > 1:
        named = [f"{name}: {few(hosts[trace] for trace in job)}" for name, job in name_jobs(jobs).items()]
        more = f"; and {len(named) - _MOST_LISTED} more jobs" if len(named) > _MOST_LISTED else ""
        why, listed = " and ".join(reasons), "; ".join(named[:_MOST_LISTED])
        log.add("notice", SEVERAL_JOBS, f"the traces are not of one job, because {why}: {listed}{more}", None)
    return jobs


def is_job_name(name: str) -> bool:
    """Return whether a name is one that jobs get."""
    return name.startswith("job ") and name[4:].isdecimal()


def name_jobs(jobs: Jobs) -> dict[str, list[int]]:
    return {f"job {number}": job for number, job in enumerate(jobs, 1)}
