"""Streams: time by kinds that run at once, what idle streams wait for, queues, launches, copies."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch_captures import MICRO, Recorded, kernel, launch, op, torch_capture

import fastprof


def streams(host: list[Recorded], gpu: dict[str, list[Recorded]], **params: int) -> fastprof.Report:
    return torch_capture({"main": host}, gpu).streams(**params)


def micros(report: fastprof.Report, table: str, *columns: str) -> list[tuple[object, ...]]:
    """Rows of these columns, times in microseconds."""
    rows = report.tables[table].to_pylist()
    return [
        tuple(row[c] // MICRO if c.endswith("_ps") and row[c] is not None else row[c] for c in columns) for row in rows
    ]


def test_kinds_that_run_at_once() -> None:
    gpu = {
        "stream 7": [kernel("gemm", 0, 40, 1), kernel("gemm", 60, 40, 2)],
        "stream 20": [kernel("ncclDevKernel_AllReduce_Sum_f32", 30, 40, 3)],
        "stream 21": [kernel("Memcpy HtoD (Pinned -> Device)", 65, 10, 4, "gpu_memcpy")],
    }
    report = streams([], gpu)
    # 0-30 and 75-100 compute; 30-40, 60-65 with the collective; 40-60 it alone; 65-70 all; 70-75 compute and copy
    assert micros(report, "kinds", "kinds", "time_ps") == [
        ("compute", 55), ("communication", 20), ("compute and communication", 15),
        ("compute and copy", 5), ("compute and communication and copy", 5),
    ]  # fmt: skip
    columns = ("window_ps", "busy_ps", "idle_ps", "compute_ps", "communication_ps", "copy_ps", "other_ps")
    assert micros(report, "devices", *columns) == [(100, 100, 0, 80, 40, 10, 20)]
    assert report.scalars["hidden_share"].value == 0.5


def test_kernels_and_copies_by_kind_and_name() -> None:
    gpu = {
        "stream 7": [
            kernel("gemm", 0, 4, 1),
            kernel("gemm", 10, 6, 2),
            kernel("add", 20, 7, 3),
            kernel("relu", 30, 3, 4),
        ],
        "stream 8": [kernel("gemm", 0, 11, 5), kernel("Memset (Device)", 40, 5, 6, "gpu_memset")],
    }
    report = streams([], gpu)
    columns = ("kind", "name", "count", "time_ps", "min_ps", "max_ps", "mean_ps")
    assert micros(report, "names", *columns) == [
        ("compute", "gemm", 3, 21, 4, 11, 7), ("compute", "add", 1, 7, 7, 7, 7),
        ("copy", "Memset (Device)", 1, 5, 5, 5, 5), ("compute", "relu", 1, 3, 3, 3, 3),
    ]  # fmt: skip
    names = report.tables["names"]
    # gemm: (3² + 1² + 4²) / 2 = 13, whose root is 3.605551…
    assert names["stdev_ps"].to_pylist() == [3_605_551, None, None, None]
    assert names["share"].to_pylist() == [21 / 31, 7 / 31, 1.0, 3 / 31]


def test_what_an_idle_stream_waits_for() -> None:
    host = [launch(0, 1), launch(5, 2), launch(200, 3), launch(210, 4)]
    gpu = {"stream 7": [kernel("a", 10, 10, 1), kernel("b", 25, 10, 2), kernel("c", 215, 5, 3), kernel("d", 300, 5, 4)]}
    report = streams(host, gpu)
    # a-b: 5 µs, b was launched before. b-c: 180 µs, launched later. c-d: 80 µs, launched before.
    assert micros(report, "idle", "waits_for", "time_ps", "count") == [
        ("host wait", 180, 1), ("kernel wait", 5, 1), ("other", 80, 1),
    ]  # fmt: skip
    other = streams(host, gpu, kernel_wait_us=100)
    columns = ("waits_for", "time_ps", "mean_ps", "min_ps", "p25_ps", "p50_ps", "p75_ps", "max_ps")
    assert micros(other, "idle", *columns) == [
        ("host wait", 180, 180, 180, 180, 180, 180, 180), ("kernel wait", 85, 42, 5, 23, 42, 61, 80),
    ]  # fmt: skip
    assert other.tables["idle"]["stdev_ps"].to_pylist() == [None, 53_033_008]  # 75 / sqrt(2)


def test_time_is_that_of_the_stream_that_computes_longest() -> None:
    """Others are mostly idle: their breaks do not count."""
    host = [launch(1, 1), launch(11, 2), launch(2, 3), launch(90, 4)]
    gpu = {
        "stream 20": [kernel("ncclDevKernel_AllReduce_Sum_f32", 4, 50, 3), kernel("add", 95, 1, 4)],
        "stream 7": [kernel("gemm", 5, 20, 1), kernel("gemm", 60, 40, 2)],
    }
    report = streams(host, gpu)
    assert micros(report, "streams", "stream", "count", "compute_ps", "communication_ps", "copy_ps") == [
        ("stream 20", 2, 1, 50, 0), ("stream 7", 2, 60, 0, 0),
    ]  # fmt: skip
    values = {name: one.value for name, one in report.scalars.items()}
    assert values["main_stream"] == "stream 7"
    assert (values["break_ps"], values["host_wait_ps"], values["host_wait_share"]) == (35 * MICRO, 0, 0)


def test_launches_and_queues() -> None:
    host = [launch(0, 1), launch(3, 2), launch(6, 3)]
    gpu = {"stream 7": [kernel("a", 10, 1, 1), kernel("a", 12, 4, 2), kernel("b", 20, 5, 3), kernel("old", 1, 2, 99)]}
    report = streams(host, gpu, queue_length=3)
    columns = ("name", "count", "call_ps", "kernel_ps", "delay_ps", "max_delay_ps", "short_count")
    # a: called 0-2 and 3-5, begun 10 and 12: 8 and 7; b: called 6-8, begun 20: 12
    assert micros(report, "launches", *columns) == [("a", 2, 4, 5, 15, 8, 1), ("b", 1, 2, 5, 12, 12, 0)]
    long = streams(host, gpu, long_call_us=1, long_delay_us=7)
    assert micros(long, "launches", "long_call_count", "long_delay_count") == [(2, 1), (1, 1)]
    assert [long.scalars[name].value for name in ("long_call_count", "long_delay_count")] == [3, 2]
    assert [report.scalars[name].value for name in ("long_call_count", "long_delay_count")] == [0, 0]
    # lengths: 1 from 0, 2 from 3, 3 from 6, 2 from 10, 1 from 12, 0 from 20
    assert micros(report, "queues", "points", "max_length", "full_ps", "mean_at_points") == [(6, 3, 4, 1.5)]
    at_points = ("stdev_at_points", "p25_at_points", "p50_at_points", "p75_at_points")  # of 0, 1, 1, 2, 2, 3
    assert micros(report, "queues", *at_points) == [(1.1**0.5, 1.0, 1.5, 2.0)]
    assert report.tables["queues"].column("mean_length").to_pylist() == [(1 * 3 + 2 * 3 + 3 * 4 + 2 * 2 + 1 * 8) / 20]
    assert report.scalars["unlaunched_count"].value == 1


def test_kernels_that_did_not_wait_from_their_call_on_are_in_no_queue() -> None:
    """The first kernel begins before its call; the ids of the calls of others are not their own."""
    gpu = {"stream 7": [kernel("early", 1, 2, 1), kernel("late", 10, 2, 2)]}
    report = streams([launch(3, 1), launch(6, 2)], gpu)
    assert micros(report, "queues", "points", "max_length", "mean_length") == [(2, 1, 1.0)]
    assert [one.text for one in report.notices if "call" in one.text] == [
        "1 event of GPUs begins before the call with the same correlation id, or several calls have that id: queues "
        "exclude them."
    ]
    shared = torch_capture(
        {"main": [launch(3, 1), launch(6, 1)]}, {"stream 7": [kernel("a", 5, 1, 1), kernel("b", 9, 1, 1)]}
    )
    assert shared.streams().tables["queues"].num_rows == 0
    longest = shared.streams().scalars["longest_queue"]
    assert longest.value is None and str(longest.reason).startswith("2 events of GPUs begin before the call")
    assert [row["count"] for row in shared.import_log.to_pylist() if row["code"] == "call_mismatch"] == [2]


def copy(start: int, duration: int, number: int, size: int) -> Recorded:
    category, name, *times, stats = kernel("Memcpy HtoD (Pinned -> Device)", start, duration, number, "gpu_memcpy")
    return category, name, times[0], times[1], {**stats, "bytes": size}  # type: ignore[return-value]


def test_copies_add_their_bandwidths() -> None:
    gpu = {"stream 7": [copy(0, 10, 1, 20_000)], "stream 8": [copy(5, 10, 2, 10_000)]}
    report = streams([], gpu)
    columns = ("kind", "count", "time_ps", "bytes", "mean_gbps", "peak_gbps")
    assert micros(report, "copies", *columns) == [("Memcpy HtoD", 2, 20, 30_000, 1.5, 3.0)]
    # from 0 to 5 µs 2, to 10 3, to 15 1
    figures = ("mean", "stdev", "min", "p25", "p50", "p75")
    assert micros(report, "copies", *(f"{one}_at_points_gbps" for one in figures)) == [(2.0, 1.0, 1.0, 1.5, 2.0, 2.5)]


def test_copies_one_after_the_other_do_not_add_up() -> None:
    gpu = {"stream 7": [copy(0, 10, 1, 1_000), copy(10, 10, 2, 2_000), copy(20, 10, 3, 3_000)]}
    report = streams([], gpu)
    # 0.1, 0.2, 0.3 and then exactly 0
    assert micros(report, "copies", "peak_gbps", "min_at_points_gbps") == [(pytest.approx(0.3), pytest.approx(0.1))]


def test_a_capture_without_gpus_says_so() -> None:
    report = torch_capture({"main": [op("aten::mm", 0, 1)]}, {}).streams()
    assert [notice.text for notice in report.notices] == ["No streams: the capture has no GPU planes."]


def test_calls_are_grouped_by_op_and_the_kernels_that_they_launch() -> None:
    host = [
        op("linear", 0, 50), op("addmm", 5, 40), launch(10, 1), launch(20, 2),
        op("linear", 100, 40), op("addmm", 110, 20), launch(113, 3), launch(120, 4),
        op("linear", 200, 30), op("addmm", 205, 20), launch(210, 5),
        op("relu", 300, 30), op("relu", 305, 20), launch(310, 6),
    ]  # fmt: skip
    gpu = {
        "stream 7": [kernel("gemm", 30, 10, 1), kernel("gemm", 150, 20, 3), kernel("gemm", 250, 7, 5)],
        "stream 8": [kernel("bias", 40, 1, 2), kernel("bias", 170, 2, 4), kernel("relu_kernel", 320, 3, 6)],
    }
    columns = ("op", "kernels", "count", "kernel_ps", "op_ps", "mean_op_delay_ps", "mean_launch_delay_ps")
    report = streams(host, gpu)
    assert micros(report, "sequences", *columns) == [
        ("addmm", "gemm -> bias", 2, 33, 60, 4, 28),  # 10 - 5 and 113 - 110; 30 - 10 and 150 - 113
        ("linear", "gemm -> bias", 2, 33, 90, 11, 28),
        ("addmm", "gemm", 1, 7, 20, 5, 40),
        ("linear", "gemm", 1, 7, 30, 10, 40),
        ("relu", "relu_kernel", 1, 3, 30, 10, 10),  # the relu within is the same call
    ]
    assert report.tables["sequences"]["kernel_count"].to_pylist() == [2, 2, 1, 1, 1]
    assert micros(streams(host, gpu, sequence_length=1), "sequences", "op", "count") == [
        ("addmm", 1), ("linear", 1), ("relu", 1),
    ]  # fmt: skip


def test_sequences_differ_if_any_kernel_does() -> None:
    """Calls of 1 to 13 kernels named by the bits of a number: equal sequences, and only those, are one row."""
    words = [f"{number:b}" for number in (1, 2, 3, 5, 5, 9, 18, 85, 86, 2, 4095, 4094, 2048 + 4095, 4095, 5461, 5461)]
    host: list[Recorded] = []
    run: list[Recorded] = []
    for place, word in enumerate(words):
        host.append(op("layer", 100 * place, 90))
        for bit, name in enumerate(word):
            number = 20 * place + bit + 1
            host.append(launch(100 * place + 5 * bit + 1, number))
            run.append(kernel(name, 5_000 + 20 * number, 3, number))
    table = streams(host, {"stream 7": run}).tables["sequences"].to_pylist()
    expected = {" -> ".join(word): words.count(word) for word in words}
    assert {row["kernels"]: row["count"] for row in table} == expected and len(table) == len(expected)


def test_sequences_of_a_real_trace_are_those_found_call_by_call(captures: Path) -> None:
    """HolisticTraceAnalysis has the same counts, and the same delays of the deepest ops around launches."""
    profile = fastprof.load(captures / "chrome" / "kineto" / "h100_qwen.json.gz")
    table = profile.streams().tables["sequences"].to_pylist()
    linear = [row for row in table if row["op"] == "aten::linear"]
    assert [(row["count"], row["kernel_count"], row["kernel_ps"], row["op_ps"]) for row in linear] == [
        (168, 2, 8_997_754_000, 9_746_082_000)
    ]
    silu = next(row for row in table if row["op"] == "aten::silu")
    delays = [round(silu[name] / MICRO, 3) for name in ("mean_op_delay_ps", "mean_launch_delay_ps")]
    assert (silu["count"], delays) == (24, [7.056, 1416.684])
