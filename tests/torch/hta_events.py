"""The events that HolisticTraceAnalysis reads, cell by cell, beside those that fastprof reads; steps and stragglers."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from hta_ranks import LAST_BIT, MICRO, SESSIONS, Cell, Rank, answers

import fastprof
from fastprof.derive.host import Host
from fastprof.tables.host_events import HostEvents
from fastprof.tables.host_reader import read_host

Key = tuple[str, str, int, int, int]
"""Category, name, stream, correlation and step; -1: it has none."""
_MARKER = "ProfilerStep#"
_NO_EVENTS = ("", "trace", "Trace", "cpu_instant_event")
"""Categories of what HTA does not read: counters, the whole of the trace, moments."""


def events(folder: Path, rank: Rank) -> Iterator[Cell]:
    """How many there are of each kind, and their times."""
    ours, theirs = defaultdict(list), defaultdict(list)
    for key, times in _rows(rank):
        ours[key].append(times)
    of_session = sorted({key[-1] for key in ours} - {-1})
    yield from _sums(folder, rank, ours)
    yield Cell(
        "profiler_steps", "steps", str(of_session), str(json.loads((folder / "profiler_steps.json").read_text()))
    )
    answered = answers(folder, f"events_rank{rank.number}")
    for row in answered:
        numbers = (int(row[name]) for name in ("stream", "correlation", "iteration"))
        theirs[row["s_cat"], row["s_name"], *numbers].append((float(row["ts"]), float(row["dur"])))
    for key in sorted({*ours, *theirs}) if answered else ():
        yield Cell("events", f"{key} count", len(ours[key]), len(theirs[key]))
        for mine, one in zip(sorted(ours[key]), sorted(theirs[key]), strict=False):
            yield Cell("events", f"{key} ts", mine[0], one[0], LAST_BIT)
            yield Cell("events", f"{key} dur", mine[1], one[1], LAST_BIT)


def _sums(folder: Path, rank: Rank, ours: dict[Key, list[tuple[float, float]]]) -> Iterator[Cell]:
    """How many events there are, the time from the begin of the first to that of the last, and its share in which a
    queue is full."""
    answer, number = json.loads((folder / "summary.json").read_text()), str(rank.number)
    begins = [begin for times in ours.values() for begin, _ in times]
    on_gpu = sum(len(times) for key, times in ours.items() if key[2] >= 0)
    lasted = max(begins) - min(begins)
    yield Cell("summary", "rows", len(begins), answer["rows"][number])
    yield Cell("summary", "gpu_rows", on_gpu, answer["gpu_rows"][number])
    yield Cell("summary", "trace_duration", lasted, answer["trace_duration"][number], LAST_BIT)
    for row in answers(folder, "blocked_on_full_queue_4", rank.number):
        (mine,) = (one for one in rank.sums.queues if int(one.stream.split()[-1]) == int(float(row["stream"])))
        share = mine.full_ps / MICRO / lasted
        yield Cell("blocked_on_full_queue_4", "relative", share, float(row["relative_duration_at_max_queue_length"]))


def _rows(rank: Rank) -> Iterator[tuple[Key, tuple[float, float]]]:
    """Of those that count; an event of a step is what its group says."""
    tables = rank.profile.table_set
    stats = (*Host.GROUPING.stats, "stream", "correlation")
    read = read_host(tables, 0, (), stats, Host.GROUPING.metadata_stats)
    groups = Host(read, tables.session.workers).groups
    ids = np.unique(groups.group_id[groups.group_id >= 0])
    names = dict(zip(ids.tolist(), groups.names_of(ids), strict=True))
    step = {group: int(name.removeprefix(_MARKER)) for group, name in names.items() if name.startswith(_MARKER)}
    numbers = [_ints(read, "stream"), _ints(read, "correlation"), groups.group_id.tolist()]
    start, duration = rank.since_first_us(read.start_ps).tolist(), (read.duration_ps / MICRO).tolist()
    for row in np.flatnonzero(_counts(rank, read)).tolist():
        meta = read.meta[row]
        stream, correlation, group = (of[row] for of in numbers)
        key = (read.categories[meta], read.names[meta][:60], stream, correlation, step.get(group, -1))
        yield key, (start[row], duration[row])


def _ints(read: HostEvents, stat: str) -> list[int]:
    column = np.full(len(read), -1, np.int64)
    if stat in read.stats:
        at, values = read.ints(stat)
        column[at] = values
    return column.tolist()


def _counts(rank: Rank, read: HostEvents) -> np.ndarray:
    known = ~np.isin(np.array(read.categories), _NO_EVENTS)[read.meta]
    if rank.until is None:
        return known
    on_gpu = np.zeros(len(read), bool)
    for plane in read.planes_of("GPU"):
        on_gpu[plane.first : plane.last] = True
    launched = np.zeros(len(read), bool)
    launched[rank.gpu.row] = True
    found: np.ndarray = known & np.where(on_gpu, launched, read.start_ps < rank.until)
    return found


def stragglers(captures: Path, folder: Path) -> Iterator[Cell]:
    """HTA has the ranks that come last to the collective whose time varies most: all of ours, as there are two."""
    path = folder / "stragglers.json"
    if path.exists():
        files = [captures / f"{name}.json.gz" for name in SESSIONS[folder.name]]
        table = fastprof.load(files).communication().tables["stragglers"]
        last = [
            host
            for host, count in zip(table["host"].to_pylist(), table["last_count"].to_pylist(), strict=True)
            if count
        ]
        ranks = sorted(SESSIONS[folder.name].index(host) for host in last)
        for mine, theirs in zip(ranks, sorted(json.loads(path.read_text())), strict=True):
            yield Cell("stragglers", "rank", mine, theirs)
