"""What HolisticTraceAnalysis answers, cell by cell, beside what fastprof's streams compute.

HTA drops the last of several steps by default: events of the host that begin before it count, and what these launched.
Sessions named ``-lastStep`` keep it. All times are whole microseconds, or HTA did not round (``-exact``).
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import fastprof
from fastprof.derive.ops.streams.stream_events import COMMUNICATION, COMPUTE, StreamEvents, kind_of_name
from fastprof.derive.ops.streams.stream_queues import Series, bandwidths, launch_delays, queue_lengths
from fastprof.derive.ops.streams.stream_times import WAITS, breaks, device_times

SESSIONS = {
    "a100": ("a100_rank-0", "a100_rank-1"),
    "a100-lastStep": ("a100_rank-0", "a100_rank-1"),
    "alexnet": ("alexnet",),
    "h100_qwen-exact": ("h100_qwen",),
    "resnet50_worker0": ("resnet50_worker0",),
    "resnet50_worker0-lastStep": ("resnet50_worker0",),
}
MICRO = 1_000_000
_DIGITS, _LAST_BIT = 5.001e-3, 5e-4
_LAUNCHES = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync")


@dataclass(frozen=True)
class Cell:
    """A figure of HTA, and ours."""

    report: str
    what: str
    ours: float | None
    theirs: float | None
    rounded: float = 0.0
    """By how much HTA's own figure may be off: two digits, or the last bit of a double of microseconds since 1970."""

    @property
    def agrees(self) -> bool:
        if self.ours is None or self.theirs is None:
            return self.ours is self.theirs
        return abs(self.ours - self.theirs) <= 1e-6 * max(1.0, abs(self.theirs)) + self.rounded


@dataclass(frozen=True)
class Rank:
    """What a rank's GPU ran, and names of the events, of their calls, and of streams."""

    events: StreamEvents
    names: list[str]
    calls: list[str]
    streams: list[int]
    correlation: list[int]
    gbps: np.ndarray


def answers(folder: Path, report: str) -> list[dict[str, str]]:
    """Rows of a table of HTA's."""
    for path, opened in ((folder / f"{report}.csv", open), (folder / f"{report}.csv.gz", gzip.open)):
        if path.exists():
            with opened(path, "rt") as file:  # type: ignore[operator]
                return list(csv.DictReader(file))
    return []


def rank_of(path: Path, include_last: bool) -> Rank:
    """The events that HTA counts, but for waits (cuda_sync), which it takes for kernels."""
    stats = ["correlation_id", "stream", "memory bandwidth (GB/s)"]
    table = fastprof.load(path).event_table(columns=["plane", "line", "name", "start_ps", "duration_ps"], stats=stats)
    planes, lines, names = (table[name].cast(pa.string()).to_pylist() for name in ("plane", "line", "name"))
    start, duration = (table[name].to_numpy() for name in ("start_ps", "duration_ps"))
    number = [None if one is None else int(one) for one in table["correlation_id"].to_pylist()]
    on_gpu = [
        p.startswith("/device:") and not x.endswith((" annotations", "(sync)"))
        for p, x in zip(planes, lines, strict=True)
    ]
    steps = [i for i, name in enumerate(names) if name.startswith("ProfilerStep") and planes[i] == "/host:CPU"]
    several = len({names[i] for i in steps}) > 1
    until = max((int(start[i]) + (int(duration[i]) if include_last else 0) for i in steps), default=0)
    call_of: dict[int, int] = {}
    for i, one in enumerate(number):
        kept = not several or start[i] < until or (include_last and start[i] == until)
        if one is not None and planes[i] == "/host:CPU" and kept:
            call_of[one] = i
    stream = [None if one is None else int(one) for one in table["stream"].to_pylist()]
    rows = [
        i for i in range(len(names))
        if on_gpu[i] and (not several or number[i] in call_of)
    ]  # fmt: skip
    streams = sorted({stream[i] for i in rows if stream[i] is not None})
    rows.sort(key=lambda i: (streams.index(stream[i]), start[i]))  # type: ignore[arg-type]
    calls = [call_of.get(number[i], -1) for i in rows]  # type: ignore[arg-type]
    at = np.array(rows, np.int64)
    called = np.array(calls, np.int64)
    known = called >= 0
    begun = np.where(known, start[called], 0).astype(np.int64)
    events = StreamEvents(
        at,
        np.array([streams.index(stream[i]) for i in rows], np.int32),  # type: ignore[arg-type]
        start[at].astype(np.int64),
        (start[at] + duration[at]).astype(np.int64),
        np.array([kind_of_name(names[i]) for i in rows], np.uint8),
        called.astype(np.int32),
        begun,
        np.where(known, begun + duration[called], 0).astype(np.int64),
    )
    gbps = pc.fill_null(table["memory bandwidth (GB/s)"].cast(pa.float64()), 0.0).to_numpy()[at]
    of_calls = [names[i] if i >= 0 else "" for i in calls]
    return Rank(events, [names[i] for i in rows], of_calls, streams, [number[i] or 0 for i in rows], gbps)  # type: ignore[misc]


def cells(captures: Path, folder: Path, session: str) -> Iterator[Cell]:
    """Every figure that both compute."""
    ranks = [rank_of(captures / f"{name}.json.gz", session.endswith("-lastStep")) for name in SESSIONS[session]]
    for number, rank in enumerate(ranks):
        yield from _times(folder, number, rank)
        yield from _idle(folder, number, rank)
        yield from _queues(folder, number, rank)
        yield from _launches(folder, number, rank)
        yield from _bandwidth(folder, number, rank)
    if not session.endswith("-exact"):  # there HTA cuts each stretch of time to whole microseconds
        yield from _kinds(folder, ranks)


def _number(text: str) -> float | None:
    return None if text in ("", "nan") else float(text)


def _times(folder: Path, number: int, rank: Rank) -> Iterator[Cell]:
    times = device_times(rank.events.start_ps, rank.events.end_ps, rank.events.kind)
    compute, idle = times.kinds[COMPUTE], times.window - times.busy
    for row in answers(folder, "temporal_breakdown"):
        if int(row["rank"]) == number:
            amounts = {
                "idle_time": idle, "compute_time": compute, "non_compute_time": times.busy - compute,
                "kernel_time": times.window,
            }  # fmt: skip
            for name, ps in amounts.items():
                yield Cell("temporal_breakdown", name, ps / MICRO, float(row[f"{name}(us)"]))
                if f"{name}_pctg" in row:
                    share = round(100 * ps / times.window, 2)
                    yield Cell("temporal_breakdown", f"{name} share", share, float(row[f"{name}_pctg"]), _DIGITS)
    for row in answers(folder, "comm_comp_overlap"):
        if int(row["rank"]) == number:
            whole = times.kinds[COMMUNICATION]
            share_hidden = round(100 * times.hidden / whole, 2) if whole else None
            yield Cell("comm_comp_overlap", "share", share_hidden, _number(row["comp_comm_overlap_pctg"]), _DIGITS)


def _kinds(folder: Path, ranks: list[Rank]) -> Iterator[Cell]:
    words = {1: "COMPUTATION", 2: "COMMUNICATION", 4: "MEMORY"}
    sums = {False: dict.fromkeys(range(1, 8), 0), True: dict.fromkeys(range(1, 8), 0)}
    for rank in ranks:
        for kinds, ps in device_times(rank.events.start_ps, rank.events.end_ps, rank.events.kind).sets.items():
            sums[True][kinds] += ps
            if kinds & 3:
                sums[False][kinds & 3] += ps
    for with_memory, report in ((False, "kernel_type_breakdown"), (True, "kernel_type_breakdown_with_memory")):
        for row in answers(folder, report):
            names = row["kernel_type"].split(" overlapping ")
            key = sum(bit for bit, name in words.items() if name in names)
            yield Cell(report, row["kernel_type"], sums[with_memory][key] / MICRO, float(row["sum"]))


def _idle(folder: Path, number: int, rank: Rank) -> Iterator[Cell]:
    found = breaks(rank.events, 30 * MICRO)
    for row in answers(folder, "idle_time_breakdown"):
        if int(row["rank"]) == number:
            stream = rank.streams.index(int(float(row["stream"])))
            here = (found.stream == stream) & (found.wait == WAITS.index(row["idle_category"].replace("_", " ")))
            yield Cell("idle_time_breakdown", f"{stream} {row['idle_category']}", found.idle_ps[here].sum() / MICRO,
                       float(row["idle_time"]))  # fmt: skip
    for row in answers(folder, "idle_interval_stats"):
        if int(row["rank"]) == number:
            stream = rank.streams.index(int(float(row["stream"])))
            here = (found.stream == stream) & (found.wait == WAITS.index(row["idle_category"].replace("_", " ")))
            idle = found.idle_ps[here] / MICRO
            what = f"{stream} {row['idle_category']}"
            yield from _summary("idle_interval_stats", what, idle, row, ("count", "mean", "min", "50%", "max"))


_FIGURES = {
    "count": len, "mean": np.mean, "std": lambda values: values.std(ddof=1) if len(values) > 1 else None,
    "min": np.min, "25%": lambda values: np.percentile(values, 25), "50%": np.median,
    "75%": lambda values: np.percentile(values, 75), "max": np.max,
}  # fmt: skip


def _summary(
    report: str, what: str, values: np.ndarray, row: dict[str, str], names: Iterable[str] = tuple(_FIGURES)
) -> Iterator[Cell]:
    for name in names:
        value = _FIGURES[name](values) if len(values) or name == "count" else None
        shown = None if value is None else float(value)
        yield Cell(report, f"{what} {name}", shown, _number(row[name]), _DIGITS)


def _grouped(folder: Path, report: str) -> Iterator[tuple[int, str, dict[str, str]]]:
    """Rows of a summary by rank and name, which has three lines of headings."""
    path = folder / f"{report}.csv"
    if not path.exists():
        return
    with path.open() as file:
        lines = list(csv.reader(file))
    for line in lines[3:]:
        yield int(line[0]), line[1], dict(zip(lines[1][2:], line[2:], strict=True))


def _queues(folder: Path, number: int, rank: Rank) -> Iterator[Cell]:
    series = queue_lengths(rank.events)
    for of, name, row in _grouped(folder, "queue_length_summary"):
        if of == number:
            stream = rank.streams.index(int(float(name)))
            yield from _summary("queue_length_summary", f"stream {name}", series.value[series.part(stream)], row)
    full = [row for row in answers(folder, "blocked_on_full_queue_4") if int(row["rank"]) == number]
    for row in full:
        stream = rank.streams.index(int(float(row["stream"])))
        yield Cell("blocked_on_full_queue_4", str(stream), _full(series, stream) / MICRO,
                   float(row["duration_at_max_queue_length"]))  # fmt: skip


def _full(series: Series, stream: int) -> int:
    part = series.part(stream)
    return int(series.lasted_ps(part)[series.value[part] >= 4].sum())


def _launches(folder: Path, number: int, rank: Rank) -> Iterator[Cell]:
    known = np.flatnonzero(rank.events.call >= 0).tolist()
    delays = launch_delays(rank.events).tolist()
    ours = {}
    for place, delay in zip(known, delays, strict=True):
        if rank.calls[place] in _LAUNCHES:
            one = rank.events
            call = int(one.call_end_ps[place] - one.call_ps[place])
            kernel = int(one.end_ps[place] - one.start_ps[place])
            ours[rank.correlation[place]] = (call / MICRO, kernel / MICRO, delay / MICRO)
    report = f"launch_stats_rank{number}"
    rows = answers(folder, report)
    yield Cell("launch_stats", "rows", len(ours), len(rows)) if rows else Cell("launch_stats", "rows", 0, 0)
    for row in rows:
        found = ours.get(int(row["correlation"]), (None, None, None))
        for name, value in zip(("cpu_duration", "gpu_duration", "launch_delay"), found, strict=True):
            yield Cell("launch_stats", f"{row['correlation']} {name}", value, float(row[name]), _LAST_BIT)


def _bandwidth(folder: Path, number: int, rank: Rank) -> Iterator[Cell]:
    kinds = ["Memset" if name.startswith("Memset") else name[:11] for name in rank.names]
    for of, name, row in _grouped(folder, "memory_bw_summary"):
        if of == number:
            mine = np.array([one == name for one in kinds], bool)
            events = rank.events[mine]
            start = events.start_ps // MICRO * MICRO if not folder.name.endswith("-exact") else events.start_ps
            series = bandwidths(np.zeros(len(events), np.int64), start, events.end_ps, rank.gbps[mine])
            yield from _summary("memory_bw_summary", name, series.value[series.value > 0], row)
