"""Captures of one job: PyTorch traces that cannot be, the order of ranks, and files with several hosts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np

from fastprof.decode.flow_records import list_top_fields
from fastprof.decode.import_log import ImportLog
from fastprof.decode.span_stats import (
    EVENT_FILE,
    KINETO,
    RUN_METADATA,
    TFPROF,
    XPROF,
    CaptureTexts,
    TaskEnvironment,
    list_environment_parts,
    own_spans,
    read_recorded_environment,
    read_span_stats,
)
from fastprof.decode.text_pools import TextTable
from fastprof.decode.xspace_capture import Capture
from fastprof.inputs.directory_content import OTHER_PHASE as OTHER_PHASE
from fastprof.inputs.open_files import PartsOfFile
from fastprof.inputs.resolve import CaptureFile
from fastprof.inputs.source import CaptureSource
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import compile_late
from fastprof.wording.quantities import list_few

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
    rank = parse_count(info.get("rank"))
    return JobFacts(
        rank, parse_count(info.get("world_size")), _list_groups(info.get("pg_config"), rank), _list_models(capture),
        environment.start_unix_ns, environment.stop_unix_ns,
    )  # fmt: skip


def parse_distributed_info(text: str | None) -> dict[str, Any]:
    """Return the member distributedInfo of a trace; empty: it is absent or damaged."""
    try:
        info = json.loads(text or "null")
    except (ValueError, RecursionError):
        return {}
    return info if isinstance(info, dict) else {}


def parse_count(value: object) -> int | None:
    """Return a number of ranks or a rank; None: it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _list_groups(config: object, own: int | None) -> tuple[tuple[int, ...], ...]:
    """Return the first ranks of each process group, and the own one: thousands of traces may list all ranks each."""
    listed = list(config.values()) if isinstance(config, dict) else config if isinstance(config, list) else []
    ranks = [group.get("ranks") for group in listed if isinstance(group, dict)]
    lists = [
        group for group in ranks if isinstance(group, list) and all(parse_count(rank) is not None for rank in group)
    ]
    return tuple((*group[:_MOST_RANKS], *([own] if own in group else [])) for group in lists)


def _list_models(capture: Capture) -> frozenset[str]:
    table = TextTable(capture.memory)
    spans = capture.plane_stat_spans
    stats = read_span_stats(CaptureTexts(capture, table), own_spans(spans), spans["part"].copy())
    texts: list[str] = table.array().to_pylist()
    pairs = zip(stats.stat.tolist(), stats.text.tolist(), strict=True)
    return frozenset(texts[text] for stat, text in pairs if text >= 0 and texts[text] and texts[stat] in _MODELS)


def split_jobs(facts: Sequence[JobFacts | None]) -> tuple[Jobs, list[str]]:
    """Return the jobs that these traces are of, the earliest first, and why they are several."""
    jobs, reasons = [list(range(len(facts)))], list[str]()
    known = [host for host in facts if host is not None]
    if len(known) < max(2, len(facts)):
        return jobs, reasons
    splits: tuple[tuple[Callable[[Sequence[JobFacts]], list[Hashable]], str], ...] = (
        (lambda of: [host.size for host in of], "their numbers of ranks differ"),
        (_list_model_keys, "their devices differ"),
        (_list_time_keys, "they were recorded at different times"),
        (_list_group_keys, "no process group has ranks of both"),
        (_list_rank_keys, "ranks are recorded twice"),
    )
    for keys_of, reason in splits:
        parts = [part for job in jobs for part in _split_by_key(job, keys_of([known[trace] for trace in job]))]
        if len(parts) > len(jobs):
            jobs = parts
            reasons.append(reason)
    jobs.sort(key=lambda job: (min(known[trace].begin_ns or 0 for trace in job), job))
    return jobs, reasons


def _split_by_key(job: Sequence[int], keys: Sequence[Hashable]) -> Jobs:
    """Return the traces of a job by key. Those without a key (None) go with the most frequent one."""
    parts: dict[Hashable, list[int]] = {}
    counted = [key for key in keys if key is not None]
    usual = max(dict.fromkeys(counted), key=counted.count, default=None)
    for trace, key in zip(job, keys, strict=True):
        parts.setdefault(usual if key is None else key, []).append(trace)
    return list(parts.values())


def _join_sets(sets: Iterable[Iterable[Hashable]]) -> dict[Hashable, Hashable]:
    """Return a representative of each element; elements that are in one set have the same."""
    above: dict[Hashable, Hashable] = {}

    def top(member: Hashable) -> Hashable:
        while above.setdefault(member, member) != member:
            above[member] = above[above[member]]
            member = above[member]
        return member

    for members in sets:
        first, *rest = members
        for other in rest:
            above[top(other)] = top(first)
        top(first)
    return {element: top(element) for element in list(above)}


def _list_model_keys(facts: Sequence[JobFacts]) -> list[Hashable]:
    of_model = _join_sets(host.models for host in facts if host.models)
    return [of_model[min(host.models)] if host.models else None for host in facts]


def _list_time_keys(facts: Sequence[JobFacts]) -> list[Hashable]:
    """Traces without a time of day are of another job than those with one: one profiler writes all of a job."""
    keys: list[Hashable] = ["unknown"] * len(facts)
    number, latest = 0, None
    for begin, trace in sorted((host.begin_ns, trace) for trace, host in enumerate(facts) if host.begin_ns is not None):
        number += latest is not None and begin > latest + _APART_NS
        latest = max(latest or begin, facts[trace].end_ns or begin)
        keys[trace] = number
    return keys


def _list_group_keys(facts: Sequence[JobFacts]) -> list[Hashable]:
    """Ranks that are not in one group may be of groups that share a third rank."""
    if any(host.rank is None or not any(host.rank in group for group in host.groups) for host in facts):
        return [None] * len(facts)
    of_rank = _join_sets(group for host in facts for group in host.groups if group)
    return [of_rank[host.rank] for host in facts]


def _list_rank_keys(facts: Sequence[JobFacts]) -> list[Hashable]:
    """Number the traces of each rank in the order of their times: jobs are the first traces, the second, …"""
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
        named = [f"{name}: {list_few(hosts[trace] for trace in job)}" for name, job in name_jobs(jobs).items()]
        more = f"; and {len(named) - _MOST_LISTED} more jobs" if len(named) > _MOST_LISTED else ""
        why, listed = " and ".join(reasons), "; ".join(named[:_MOST_LISTED])
        log.add("notice", SEVERAL_JOBS, f"the traces are not of one job, because {why}: {listed}{more}", None)
    return jobs


def is_job_name(name: str) -> bool:
    """Return whether a name is a job name."""
    return name.startswith("job ") and name[4:].isdecimal()


def name_jobs(jobs: Jobs) -> dict[str, list[int]]:
    return {f"job {number}": job for number, job in enumerate(jobs, 1)}


def sort_by_rank(captures: Sequence[Capture], log: ImportLog) -> list[Capture]:
    """Sort captures by the ranks of their processes if all captures record a rank; otherwise keep their order. Equal
    ranks keep their order. Captures of a directory are in the order of their names."""
    if len(captures) < 2:
        return list(captures)
    return [captures[place] for place in order_ranks(((read_rank(capture), capture.path) for capture in captures), log)]


def order_ranks(ranks: Iterable[tuple[int | None, str]], log: ImportLog) -> list[int]:
    """Return the places of captures with these ranks and paths, in the order of the ranks."""
    known: dict[int, str] = {}
    listed: list[int] = []
    every = list(ranks)
    for rank, path in every:
        if rank is None:
            return list(range(len(every)))
        if rank in known:
            log.add("notice", "duplicate_rank", f"{known[rank]} and this file record the same rank, {rank}", path)
        known.setdefault(rank, path)
        listed.append(rank)
    return sorted(range(len(listed)), key=lambda place: listed[place])


def read_rank(capture: Capture) -> int | None:
    """Return the rank of the process that was profiled, of ``distributedInfo``; None: not recorded."""
    return parse_count(parse_distributed_info(read_recorded_environment(capture).get("distributedInfo")).get("rank"))


_NAME: Final = compile_late(r"(?P<host>\S.*) /(?:host|device|job):[^ ].*", re.DOTALL)
_PLANES: Final = 1
_Range: TypeAlias = tuple[int, int]


def split_by_host(capture: Capture, file: CaptureFile) -> list[Capture]:
    """Return the capture itself, or one of each host whose planes it has. ``file``: what it was opened from."""
    hosts = list(dict.fromkeys(match["host"] for name in capture.part_names if (match := _NAME.fullmatch(name))))
    if not hosts or read_recorded_environment(capture).get("transcribed_from") not in (
        XPROF,
        RUN_METADATA,
        EVENT_FILE,
        TFPROF,
    ):
        return [capture]
    longest_first = sorted(hosts, key=len, reverse=True)
    owner = [_find_owner(name, longest_first) for name in capture.part_names]
    shared = np.isin(np.arange(len(owner)), list_environment_parts(capture)).tolist()
    own = {None: file.host or capture.host, **{host: host for host in hosts}}
    owning = {sole_owner for sole_owner, all_ in zip(owner, shared, strict=True) if not all_}
    used = [host for host in own if host in owning]
    if len(used) == 1:
        own[used[0]] = file.host or used[0]
    ranges = _find_ranges(capture, used, owner, shared)
    return [_make_host_part(capture, replace(file, host=own[host]), host, ranges[host]) for host in used]


def _find_owner(name: str, hosts: Sequence[str]) -> str | None:
    """Return the host that a plane's name begins with. ``hosts``: the longest names first."""
    return next((host for host in hosts if name.startswith(f"{host} ")), None)


def _make_host_part(capture: Capture, file: CaptureFile, host: str | None, ranges: Sequence[_Range]) -> Capture:
    """Return the part of the capture that is of one host."""
    entire = capture.source
    if entire.memory is not None:
        joined = b"".join(entire.memory[at : at + length] for at, length in ranges)
        source = CaptureSource(entire.path, memory=memoryview(joined))
    else:
        assert entire.stored is not None
        places = [place for span in ranges for place in entire.stored.places(*span)]
        source = CaptureSource(entire.path, stored=PartsOfFile(entire.stored, np.array(places, np.uint64).tobytes()))
    source.file, source.read_size = entire.file, entire.read_size
    begin = f"{host} " if host is not None else ""
    trace = Capture(replace(file, source=source, before_planes=begin), capture.memory, ImportLog(), capture.salvage)
    trace.log = capture.log  # of the file itself, it has all rows already
    if host is not None:
        trace.hostnames = [host]
    return trace


def _find_ranges(
    capture: Capture, hosts: Sequence[str | None], owner: Sequence[str | None], shared: Sequence[bool]
) -> dict[str | None, list[_Range]]:
    """Return, per host, offset and length of the parts of the file that belong to its planes, in order, from one
    pass."""
    of_end = dict(zip(capture.parts["end"].tolist(), zip(owner, shared, strict=True), strict=True))
    of_all: list[_Range] = []
    of_host: dict[str | None, list[_Range]] = {host: [] for host in hosts}
    for number, at, _, end in list_top_fields(capture):
        if number != _PLANES:
            of_all.append((at, end - at))
        elif end in of_end:
            host, is_shared = of_end[end]
            (of_all if is_shared else of_host[host]).append((at, end - at))
    return {host: sorted([*of_all, *ranges]) for host, ranges in of_host.items()}
