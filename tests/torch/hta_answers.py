"""What HolisticTraceAnalysis answers on streams, cell by cell, beside what fastprof computes: time by kind, idle time,
queues, launches, copies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from hta_events import events, stragglers
from hta_names import annotations, names
from hta_ranks import DIGITS, LAST_BIT, MICRO, Cell, Rank, answers, by_kind, number_of, ranks_of, summary

from fastprof.analyses.streams import Params
from fastprof.derive.ops.streams.stream_copies import copies_of
from fastprof.derive.ops.streams.stream_events import COMMUNICATION, COMPUTE
from fastprof.derive.ops.streams.stream_queues import Series, launch_delays, queue_lengths
from fastprof.derive.ops.streams.stream_sums import launches_of
from fastprof.derive.ops.streams.stream_times import WAITS, DeviceTimes, breaks, device_times

_OF_KERNELS = ("cudaLaunchKernel", "cudaLaunchKernelExC")
_LAUNCHES = (*_OF_KERNELS, "cudaMemcpyAsync", "cudaMemsetAsync")
_LIMITS = Params().limits


def cells(captures: Path, folder: Path) -> Iterator[Cell]:
    """Every figure that both compute."""
    ranks = ranks_of(captures, folder)
    for rank in ranks:
        yield from _times(folder, rank)
        yield from _idle(folder, rank)
        yield from _queues(folder, rank)
        yield from _queue_series(folder, rank)
        yield from _launches(folder, rank)
        yield from _bandwidth(folder, rank)
        yield from names(folder, rank)
        yield from annotations(folder, rank)
        yield from events(folder, rank)
    yield from stragglers(captures, folder)
    if not folder.name.endswith("-exact"):  # there HTA cuts each stretch of time to whole microseconds
        yield from _kinds(folder, ranks)


def _times(folder: Path, rank: Rank) -> Iterator[Cell]:
    times = _device_times(rank)
    compute, idle = times.kinds[COMPUTE], times.window - times.busy
    for row in answers(folder, "temporal_breakdown", rank.number):
        amounts = {
            "idle_time": idle, "compute_time": compute, "non_compute_time": times.busy - compute,
            "kernel_time": times.window,
        }  # fmt: skip
        for name, ps in amounts.items():
            yield Cell("temporal_breakdown", name, ps / MICRO, float(row[f"{name}(us)"]))
            if f"{name}_pctg" in row:
                share = round(100 * ps / times.window, 2)
                yield Cell("temporal_breakdown", f"{name} share", share, float(row[f"{name}_pctg"]), DIGITS)
    for row in answers(folder, "comm_comp_overlap", rank.number):
        whole = times.kinds[COMMUNICATION]
        share_hidden = round(100 * times.hidden / whole, 2) if whole else None
        yield Cell("comm_comp_overlap", "share", share_hidden, number_of(row["comp_comm_overlap_pctg"]), DIGITS)


def _device_times(rank: Rank) -> DeviceTimes:
    if not len(rank.gpu):
        return DeviceTimes(0, 0, (0, 0, 0), 0, {})
    return device_times(rank.gpu.start_ps, rank.gpu.end_ps, rank.gpu.kind)


def _kinds(folder: Path, ranks: list[Rank]) -> Iterator[Cell]:
    words = {1: "COMPUTATION", 2: "COMMUNICATION", 4: "MEMORY"}
    sums = {False: dict.fromkeys(range(1, 8), 0), True: dict.fromkeys(range(1, 8), 0)}
    for rank in ranks:
        for kinds, ps in _device_times(rank).sets.items():
            sums[True][kinds] += ps
            if kinds & 3:
                sums[False][kinds & 3] += ps
    for with_memory, report in ((False, "kernel_type_breakdown"), (True, "kernel_type_breakdown_with_memory")):
        here, whole = sums[with_memory], sum(sums[with_memory].values())
        rows = answers(folder, report)
        yield Cell(report, "rows", sum(ps > 0 for ps in here.values()), len(rows))
        for row in rows:
            together = row["kernel_type"].split(" overlapping ")
            key = sum(bit for bit, name in words.items() if name in together)
            yield Cell(report, row["kernel_type"], here[key] / MICRO, float(row["sum"]))
            share = round(100 * here[key] / whole, 1)
            yield Cell(report, f"{row['kernel_type']} share", share, float(row["percentage"]), 10 * DIGITS)


def _idle(folder: Path, rank: Rank) -> Iterator[Cell]:
    found = breaks(rank.gpu, _LIMITS.short_break)
    for row in answers(folder, "idle_time_breakdown", rank.number):
        stream, here = rank.streams.index(int(float(row["stream"]))), found.wait == _wait(row)
        what = f"{row['stream']} {row['idle_category']}"
        mine = found.idle_ps[(found.stream == stream) & here].sum()
        yield Cell("idle_time_breakdown", what, mine / MICRO, float(row["idle_time"]))
        whole = found.idle_ps[found.stream == stream].sum()
        share = round(mine / whole, 2) if whole else None
        yield Cell("idle_time_breakdown", f"{what} share", share, number_of(row["idle_time_ratio"]), DIGITS)
    for row in answers(folder, "idle_interval_stats", rank.number):
        stream, here = rank.streams.index(int(float(row["stream"]))), found.wait == _wait(row)
        idle = found.idle_ps[(found.stream == stream) & here] / MICRO
        what = f"{row['stream']} {row['idle_category']}"
        yield from summary("idle_interval_stats", what, idle, row)


def _wait(row: dict[str, str]) -> int:
    return WAITS.index(row["idle_category"].replace("_", " "))


def _queues(folder: Path, rank: Rank) -> Iterator[Cell]:
    series = queue_lengths(rank.gpu)
    for name, row in by_kind(folder, "queue_length_summary", rank.number):
        stream = rank.streams.index(int(float(name)))
        yield from summary("queue_length_summary", f"stream {name}", series.value[series.part(stream)], row)
    for row in answers(folder, "blocked_on_full_queue_4", rank.number):
        part = series.part(rank.streams.index(int(float(row["stream"]))))
        full = int(series.lasted_ps(part)[series.value[part] >= 4].sum())
        theirs = float(row["duration_at_max_queue_length"])
        yield Cell("blocked_on_full_queue_4", row["stream"], full / MICRO, theirs)


def _launches(folder: Path, rank: Rank) -> Iterator[Cell]:
    """Launches one by one, with and without copies and fills, and how many are out of line."""
    known = rank.gpu[rank.gpu.call >= 0]
    correlation = rank.host.stat("correlation_id").at(known.row).value.tolist()
    calls = rank.names(known.call)
    rows = zip(known.call_end_ps - known.call_ps, known.end_ps - known.start_ps, launch_delays(known), strict=True)
    every = list(zip(correlation, calls, rows, strict=True))
    sums = list(launches_of(rank.host, rank.gpu, _LIMITS))
    for report, launches in (("launch_stats", _LAUNCHES), ("launch_stats_no_memory", _OF_KERNELS)):
        theirs = answers(folder, report.replace("stats", f"stats_rank{rank.number}"))
        ours = {number: [ps / MICRO for ps in row] for number, name, row in every if name in launches}
        yield Cell(report, "rows", len(ours), len(theirs))
        for row in theirs:
            found = ours.get(int(row["correlation"]), (None, None, None))
            for name, value in zip(("cpu_duration", "gpu_duration", "launch_delay"), found, strict=True):
                yield Cell(report, f"{row['correlation']} {name}", value, float(row[name]), LAST_BIT)
        times = np.array([[float(row[name]) for name in ("cpu_duration", "gpu_duration", "launch_delay")]
                          for row in theirs]).reshape(-1, 3)  # fmt: skip
        outliers = {
            "short_count": times[:, 0] > times[:, 1], "long_call_count": times[:, 0] > 50,
            "long_delay_count": times[:, 2] > 100,
        }  # fmt: skip
        for name, chosen in outliers.items():
            mine = sum(getattr(row, name) for row in sums if row.call in launches)
            yield Cell(report, name, mine, int(chosen.sum()))


def _queue_series(folder: Path, rank: Rank) -> Iterator[Cell]:
    theirs = answers(folder, f"queue_length_series_rank{rank.number}")
    series = queue_lengths(rank.gpu)
    numbers = sorted({row["stream"] for row in theirs})
    yield Cell("queue_length_series", "streams", len(np.unique(series.of)), len(numbers))
    for stream in numbers:
        part = series.part(rank.streams.index(int(float(stream))))
        rows = [row for row in theirs if row["stream"] == stream]
        points = [(float(row["ts"]), float(row["queue_length"])) for row in rows]
        yield from _points("queue_length_series", stream, rank, series, part, points)


def _points(
    report: str, what: str, rank: Rank, series: Series, part: slice, theirs: list[tuple[float, float]]
) -> Iterator[Cell]:
    """Times, and the value from each time on: HTA has points of one time in any order."""
    times = rank.since_first_us(series.time_ps[part]).tolist()
    values = series.value[part].tolist()
    yield Cell(report, f"{what} points", len(times), len(theirs))
    theirs = sorted(theirs, key=lambda point: point[0])
    for place, (time, value) in enumerate(theirs[: len(times)]):
        yield Cell(report, f"{what} time {place}", times[place], time, LAST_BIT)
        if place + 1 == len(theirs) or theirs[place + 1][0] > time:
            yield Cell(report, f"{what} value {place}", values[place], value, LAST_BIT)


def _bandwidth(folder: Path, rank: Rank) -> Iterator[Cell]:
    copies = copies_of(rank.host, rank.gpu)
    series = copies.bandwidths()
    for name, row in by_kind(folder, "memory_bw_summary", rank.number):
        value = series.value[series.part(copies.kinds.index(name))]
        yield from summary("memory_bw_summary", name, value[value > 0], row)
    theirs = answers(folder, f"memory_bw_series_rank{rank.number}")
    names_of_kinds = sorted({row["name"] for row in theirs})
    yield Cell("memory_bw_series", "kinds", len(copies.kinds), len(names_of_kinds))
    for name in names_of_kinds:
        points = [(float(row["ts"]), float(row["memory_bw_gbps"])) for row in theirs if row["name"] == name]
        part = series.part(copies.kinds.index(name))
        yield from _points("memory_bw_series", name, rank, series, part, points)
