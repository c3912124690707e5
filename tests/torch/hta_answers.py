"""What HolisticTraceAnalysis answers on streams, cell by cell, beside what fastprof computes: time by kind, idle time,
queues, launches, copies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from hta_events import events, stragglers
from hta_names import annotations, names
from hta_ranks import DIGITS, LAST_BIT, MICRO, Cell, Rank, answers, by_kind, number_of, ranks_of, summary

from fastprof.derive.ops.stream_events import StreamSeries, count_queued, measure_launch_delays, select_copies

_OF_KERNELS = ("cudaLaunchKernel", "cudaLaunchKernelExC")
_LAUNCHES = (*_OF_KERNELS, "cudaMemcpyAsync", "cudaMemsetAsync")
_KINDS = {"compute": "COMPUTATION", "communication": "COMMUNICATION", "copy": "MEMORY"}


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
    yield from _kinds(folder, ranks)


def _times(folder: Path, rank: Rank) -> Iterator[Cell]:
    (device,) = rank.sums.devices or (None,)
    for row in answers(folder, "temporal_breakdown", rank.number):
        for name, column in (
            ("idle_time", "idle_ps"), ("compute_time", "compute_ps"), ("non_compute_time", "other_ps"),
            ("kernel_time", "window_ps"),
        ):  # fmt: skip
            ps = getattr(device, column)
            yield Cell("temporal_breakdown", name, ps / MICRO, float(row[f"{name}(us)"]))
            if f"{name}_pctg" in row:
                share = round(100 * ps / device.window_ps, 2)
                yield Cell("temporal_breakdown", f"{name} share", share, float(row[f"{name}_pctg"]), DIGITS)
    for row in answers(folder, "comm_comp_overlap", rank.number):
        whole = device.communication_ps if device else 0
        share_hidden = round(100 * device.hidden_ps / whole, 2) if device and whole else None
        yield Cell("comm_comp_overlap", "share", share_hidden, number_of(row["comp_comm_overlap_pctg"]), DIGITS)


def _kinds(folder: Path, ranks: list[Rank]) -> Iterator[Cell]:
    """Summed over ranks. Without copies, a set of kinds is what is left of it."""
    for with_copies, report in ((False, "kernel_type_breakdown"), (True, "kernel_type_breakdown_with_memory")):
        sums: dict[str, int] = {}
        for row in (row for rank in ranks for row in rank.sums.kinds):
            kinds = [_KINDS[one] for one in row.kinds.split(" and ") if with_copies or one != "copy"]
            if kinds:
                together = " overlapping ".join(kinds)
                sums[together] = sums.get(together, 0) + row.time_ps
        rows = answers(folder, report)
        yield Cell(report, "rows", len(sums), len(rows))
        for row in rows:
            ours = sums.get(row["kernel_type"], 0)
            yield Cell(report, row["kernel_type"], ours / MICRO, float(row["sum"]))
            share = round(100 * ours / sum(sums.values()), 1)
            yield Cell(report, f"{row['kernel_type']} share", share, float(row["percentage"]), 10 * DIGITS)


def _of_stream(rows: list[SimpleNamespace], number: str) -> list[SimpleNamespace]:
    return [row for row in rows if int(row.stream.split()[-1]) == int(float(number))]


def _idle(folder: Path, rank: Rank) -> Iterator[Cell]:
    def waits(row: dict[str, str]) -> SimpleNamespace | None:
        kind = row["idle_category"].replace("_", " ")
        return next((one for one in _of_stream(rank.sums.idle, row["stream"]) if one.waits_for == kind), None)

    report = "idle_time_breakdown"
    for row in answers(folder, report, rank.number):
        mine, what = waits(row), f"{row['stream']} {row['idle_category']}"
        yield Cell(report, what, mine.time_ps / MICRO if mine else 0.0, float(row["idle_time"]))
        of_stream = sum(one.time_ps for one in _of_stream(rank.sums.idle, row["stream"]))
        share = round((mine.time_ps if mine else 0) / of_stream, 2) if of_stream else None
        yield Cell(report, f"{what} share", share, number_of(row["idle_time_ratio"]), DIGITS)
    for row in answers(folder, "idle_interval_stats", rank.number):
        found, what = waits(row), f"{row['stream']} {row['idle_category']}"
        columns = {
            "mean": "mean_ps", "std": "stdev_ps", "min": "min_ps", "25%": "p25_ps", "50%": "p50_ps", "75%": "p75_ps",
            "max": "max_ps",
        }  # fmt: skip
        ps = {name: getattr(found, column, None) for name, column in columns.items()}
        ours = {name: None if one is None else one / MICRO for name, one in ps.items()}
        yield from summary("idle_interval_stats", what, {"count": found.count if found else 0, **ours}, row)


def _queues(folder: Path, rank: Rank) -> Iterator[Cell]:
    for number, row in by_kind(folder, "queue_length_summary", rank.number):
        (mine,) = _of_stream(rank.sums.queues, number)
        ours = {"count": mine.points, **_at_points(mine)}
        yield from summary("queue_length_summary", f"stream {number}", ours, row)
    for row in answers(folder, "blocked_on_full_queue_4", rank.number):
        (mine,) = _of_stream(rank.sums.queues, row["stream"])
        theirs = float(row["duration_at_max_queue_length"])
        yield Cell("blocked_on_full_queue_4", row["stream"], mine.full_ps / MICRO, theirs)


def _at_points(mine: SimpleNamespace) -> dict[str, float | None]:
    return {
        "mean": mine.mean_at_points, "std": mine.stdev_at_points, "min": mine.min_at_points, "25%": mine.p25_at_points,
        "50%": mine.p50_at_points, "75%": mine.p75_at_points, "max": mine.max_at_points,
    }  # fmt: skip


def _queue_series(folder: Path, rank: Rank) -> Iterator[Cell]:
    theirs = answers(folder, f"queue_length_series_rank{rank.number}")
    series = count_queued(rank.gpu)
    numbers = sorted({row["stream"] for row in theirs})
    yield Cell("queue_length_series", "streams", len(np.unique(series.of)), len(numbers))
    for stream in numbers:
        part = series.part(rank.streams.index(int(float(stream))))
        rows = [row for row in theirs if row["stream"] == stream]
        points = [(float(row["ts"]), float(row["queue_length"])) for row in rows]
        yield from _points("queue_length_series", stream, rank, series, part, points)


def _points(
    report: str, what: str, rank: Rank, series: StreamSeries, part: slice, theirs: list[tuple[float, float]]
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


def _launches(folder: Path, rank: Rank) -> Iterator[Cell]:
    """Launches one by one, with and without copies and fills, and how many are out of line."""
    known = rank.gpu[rank.gpu.call >= 0]
    correlation = rank.host.stat("correlation_id").at(known.row).value.tolist()
    calls = rank.names(known.call)
    rows = zip(
        known.call_end_ps - known.call_ps, known.end_ps - known.start_ps, measure_launch_delays(known), strict=True
    )
    every = list(zip(correlation, calls, rows, strict=True))
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
            mine = sum(getattr(row, name) for row in rank.sums.launches if row.call in launches)
            yield Cell(report, name, mine, int(chosen.sum()))


def _bandwidth(folder: Path, rank: Rank) -> Iterator[Cell]:
    copies = select_copies(rank.host, rank.gpu)
    series = copies.bandwidths()
    for kind, row in by_kind(folder, "memory_bw_summary", rank.number):
        (mine,) = (one for one in rank.sums.copies if one.kind == kind)
        gbps = series.value[series.part(copies.kinds.index(kind))]
        yield from summary("memory_bw_summary", kind, {"count": int((gbps > 0).sum()), **_at_points(mine)}, row)
    theirs = answers(folder, f"memory_bw_series_rank{rank.number}")
    kinds = sorted({row["name"] for row in theirs})
    yield Cell("memory_bw_series", "kinds", len(copies.kinds), len(kinds))
    for kind in kinds:
        points = [(float(row["ts"]), float(row["memory_bw_gbps"])) for row in theirs if row["name"] == kind]
        yield from _points("memory_bw_series", kind, rank, series, series.part(copies.kinds.index(kind)), points)
