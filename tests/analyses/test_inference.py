"""Inference: latencies, their parts and percentiles, batches, and XProf's page of them.

Figures of XProf's page in this file are what XProf 2.24.2 answered for the same captures.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from reports import column, rows
from serving_builder import US, Server
from trace_builder import event, line, plane, ref, u64, xspace

import fastprof

PARTS = (
    "host_preprocess",
    "host_batch_formation",
    "host_runtime",
    "write_to_device",
    "device_compute",
    "read_from_device",
)
PARTS += ("host_postprocess", "idle", "other")


def parts(row: dict[str, Any]) -> dict[str, float]:
    """In µs, those that are not 0."""
    return {part: row[f"{part}_ps"] / US for part in PARTS if row[f"{part}_ps"]}


def page(report: fastprof.Report) -> list[list[list[Any]]]:
    return [[[cell["v"] for cell in row["c"]] for row in table["rows"]] for table in json.loads(report.to_xprof())]


def properties(report: fastprof.Report) -> list[dict[str, str]]:
    return [table.get("p", {}) for table in json.loads(report.to_xprof())]


def two_models(requests: int) -> Server:
    server = Server()
    for i in range(requests):
        server.request(10 + 200 * i, 100 + i * 37 % 50 + i / 1000, i + 1, f"m{i % 2}:1")
    return server


# ---- without batching


def test_a_request_is_taken_apart() -> None:
    server = Server()
    server.request(10, 100, 1, "m0:1")
    report = fastprof.load(server.capture()).inference()
    (row,) = report.tables["requests"].to_pylist()
    assert (row["model"], row["start_ps"], row["latency_ps"], row["batch_ids"]) == ("m0:1", 10 * US, 100 * US, [])
    assert parts(row) == {
        "host_preprocess": 10, "host_runtime": 5, "write_to_device": 10, "device_compute": 40, "read_from_device": 10,
        "host_postprocess": 10, "idle": 15,
    }  # fmt: skip
    assert page(report)[1][0] == ["0.000", "0", 0.1, 0.01, 0.005, 0.01, 0.01, 0.04, 0.01, 0.015, ""]


def test_three_hundred_requests_of_two_models_are_sampled_as_by_xprof() -> None:
    report = fastprof.load(two_models(300).capture()).inference()
    meta, first, second = page(report)
    assert meta == [["m0:1"], ["m1:1"]]
    sampled = ["50.000", "50.667", "75.333", "90.000", "90.667", "99.333", "Average"]
    assert [row[0] for row in first] == sampled
    assert [row[0] for row in second] == sampled
    assert [row[2] for row in second] == [0.125175, 0.125225, 0.137251, 0.145185, 0.145235, 0.149277, 0.12515]
    assert properties(report)[2] == {"throughput": "2512.0", "averageLatencyMs": "0.125"}


def test_sixty_requests_are_shown_one_by_one() -> None:
    (_, rows) = page(fastprof.load(Server().capture()).inference())
    assert [row[0] for row in rows] == ["Average"]
    server = Server()
    for i in range(60):
        server.request(10 + 200 * i, 150 - i, i + 1)
    (meta, rows) = page(fastprof.load(server.capture()).inference())
    assert meta == [["ALL"]]
    assert [row[:2] for row in rows[:2]] == [["0.000", "59"], ["1.667", "58"]]
    assert len(rows) == 61


def test_percentiles_are_latencies_that_were_seen() -> None:
    report = fastprof.load(two_models(40).capture()).inference()
    latencies = sorted(column(report, "requests", "latency_ps"))
    wanted = {
        "p50": latencies[19],
        "p75": latencies[29],
        "p90": latencies[35],
        "p99": latencies[39],
        "p999": latencies[39],
    }
    assert {name: report.scalars[f"{name}_latency_ps"].value for name in wanted} == wanted
    assert report.scalars["mean_latency_ps"].value == sum(latencies) // 40
    assert rows(report, "latency", "percentile", "total_ps")[:3] == [
        ("Average", sum(latencies) // 40),
        ("50.0%", latencies[19]),
        ("75.0%", latencies[29]),
    ]
    assert column(report, "requests", "latency_ps") == latencies[::-1]
    for row in report.tables["latency"].to_pylist():
        assert row["host_ps"] + row["device_ps"] + row["communication_ps"] == row["total_ps"]
        assert (row["device_ps"], row["communication_ps"]) == (40 * US, 20 * US)


def test_parts_of_a_breakdown_add_up_to_the_latency() -> None:
    report = fastprof.load(two_models(10).capture()).inference()
    rows = report.tables["breakdown"].to_pylist()
    assert [row["part"] for row in rows] == list(PARTS) * 2
    assert sum(row["latency_share"] for row in rows[: len(PARTS)]) == pytest.approx(1)
    for row in report.tables["requests"].to_pylist():
        assert sum(row[f"{part}_ps"] for part in PARTS) == row["latency_ps"]


def test_rates_are_of_the_time_from_the_first_to_the_last() -> None:
    server = Server()
    server.request(10, 100, 1, "a")
    server.request(1_000_010 - 100, 100, 2, "a")
    report = fastprof.load(server.capture()).inference()
    assert rows(report, "models", "model", "request_count", "requests_per_second") == [("a", 2, 2.0)]


@pytest.mark.parametrize(
    ("value", "name"),
    [("m:1", "m:1"), (ref("m"), "m"), (7, "7"), (u64(2**64 - 1), "18446744073709551615"), ("", None), (2.5, "2.5")],
)
def test_models_are_named_by_values_of_any_kind(value: Any, name: str | None) -> None:
    server = Server()
    server.request(10, 100, 1, value)
    assert column(fastprof.load(server.capture()).inference(), "models", "model") == [name]


def test_what_names_no_model_has_a_row_of_its_own_and_is_not_on_the_page() -> None:
    server = Server()
    server.request(10, 100, 1, "z")
    server.request(200, 130, 2)
    server.request(400, 110, 3, "a")
    report = fastprof.load(server.capture()).inference()
    assert rows(report, "models", "model", "max_ps") == [("a", 110 * US), ("z", 100 * US), (None, 130 * US)]
    assert page(report)[0] == [["a"], ["z"]]
    assert report.scalars["model_count"].value == 2


# ---- batches


def batching() -> Server:
    """Three requests in two batches; the second is split over both."""
    server = Server()
    server.batched(10, 400, [1], "a", size=3)
    server.batched(20, 450, [1, 2], "b", size=5)
    server.batched(30, 500, [2], "c", size=2)
    server.batch(70, 150, 1, "x", padding=1, size=8)
    server.batch(270, 180, 2, "y", padding=0, size=4)
    return server


def test_batches_and_their_requests_know_each_other() -> None:
    report = fastprof.load(batching().capture()).inference()
    columns = (
        "batch_id",
        "model",
        "duration_ps",
        "delay_ps",
        "padded_size",
        "padding",
        "efficiency_share",
        "request_ids",
    )
    assert rows(report, "batches", *columns) == [
        (1, "m", 180 * US, 250 * US, 4, 0, 1.0, [3, 4]),
        (0, "m", 150 * US, 60 * US, 8, 1, 0.875, [2, 3]),
    ]
    columns = ("request_id", "model", "batching_delay_ps", "size", "batch_ids")
    assert rows(report, "requests", *columns) == [
        (4, "m", 240 * US, 2, [1]),
        (3, "m", 50 * US, 5, [0, 1]),
        (2, "m", 60 * US, 3, [0]),
    ]
    assert rows(report, "batches", "device_compute_ps", "program_ids") == [(30 * US, [7])] * 2


def test_a_request_has_the_parts_of_its_batches() -> None:
    rows = fastprof.load(batching().capture()).inference().tables["requests"].to_pylist()
    assert parts(rows[1]) == {
        "host_preprocess": 11, "host_batch_formation": 49, "host_runtime": 4, "device_compute": 60,
        "host_postprocess": 150, "idle": 176,
    }  # fmt: skip


def test_sizes_of_batches_are_averaged_with_the_requests_that_had_them() -> None:
    report = fastprof.load(batching().capture()).inference()
    columns = (
        "padded_size",
        "batch_count",
        "mean_ps",
        "mean_delay_ps",
        "mean_padding",
        "request_count",
        "mean_latency_ps",
    )
    assert rows(report, "batch_sizes", *columns) == [
        (4, 1, 180 * US, 250 * US, 0.0, 2, 475 * US),
        (8, 1, 150 * US, 60 * US, 1.0, 2, 425 * US),
    ]
    assert rows(report, "models", "batch_count", "batch_padded_size", "batch_efficiency_share") == [(2, 6.0, 11 / 12)]


def test_the_page_has_a_table_of_batches_for_each_model() -> None:
    report = fastprof.load(batching().capture()).inference()
    _, requests, batches = page(report)
    assert properties(report)[0] == {"hasBatching": "true", "hasTensorPattern": "false"}
    assert [row[:6] for row in requests] == [
        ["0.000", "2", 0.4, 3.0, 0.06, "N/A"],
        ["33.333", "3", 0.45, 5.0, 0.05, "N/A"],
        ["66.667", "4", 0.5, 2.0, 0.24, "N/A"],
        ["Batch size 4", "N/A", 0.475, 3.0, 0.145, "3846.2"],
        ["Batch size 8", "N/A", 0.425, 4.0, 0.055, "3846.2"],
        ["Average", "N/A", 0.45, 3.0, 0.116666666, "5769.2"],
    ]
    assert batches == [
        ["0.000", "0", 0.15, 1.0, 8.0, 0.875, 0.06, "N/A", 0.03, "7", ""],
        ["50.000", "1", 0.18, 0.0, 4.0, 1.0, 0.25, "N/A", 0.03, "7", ""],
        ["Batch size 4", "N/A", 0.18, 0.0, 4.0, 1.0, 0.25, "2631.6", 0.03, "7", ""],
        ["Batch size 8", "N/A", 0.15, 1.0, 8.0, 0.875, 0.06, "2631.6", 0.03, "7", ""],
        ["Aggregated", "N/A", 0.165, 0.0, 6.0, 11 / 12, 0.155, "5263.2", 0.03, "N/A", "N/A"],
    ]


def test_the_page_is_sampled_by_the_order_that_is_asked_for() -> None:
    p = fastprof.load(batching().capture())
    by_size = p.report("inference", request_order="size", batch_order="efficiency")
    assert [row[1] for row in page(by_size)[1][:3]] == ["4", "2", "3"]
    assert [row[1] for row in page(by_size)[2][:2]] == ["0", "1"]
    by_idle = p.report("inference", request_order="idle")
    idle = [row[12] for row in page(by_idle)[1][:3]]
    assert idle == sorted(idle)


def test_a_request_lasts_until_its_last_batch_and_on_the_page_until_its_first() -> None:
    server = Server()
    server.batched(10, 100, [1, 2], "a")
    server.batch(70, 150, 1, "x")
    server.batch(270, 180, 2, "y")
    report = fastprof.load(server.capture()).inference()
    assert column(report, "requests", "latency_ps") == [440 * US]
    assert page(report)[1][0][2] == 0.21


# ---- where XProf's page differs


def test_a_part_of_no_length_takes_no_time_but_on_the_page() -> None:
    server = Server()
    server.add("SessionRun", 10, 100, _r=1, model_id="m")
    server.add("WriteHbm", 20, 0)
    server.add("tpu::System::Execute", 40, 5)
    report = fastprof.load(server.capture()).inference()
    assert parts(report.tables["requests"].to_pylist()[0]) == {"host_preprocess": 30, "other": 70}
    assert page(report)[1][0][3:8] == [0.01, 0.0, 0.02, 0.0, 0.0]


def test_a_request_that_led_to_no_batch_has_no_model_but_on_the_page() -> None:
    server = batching()
    server.batched(1_000, 50, [], "a")
    report = fastprof.load(server.capture()).inference()
    assert ("m" in column(report, "models", "model"), column(report, "requests", "model")[-1]) == (True, None)
    assert len(page(report)[1]) == 4 + 2 + 1


# ---- hosts


def test_hosts_are_put_together_and_keep_their_ids_apart(tmp_path: Path) -> None:
    for name, model in (("alpha", "m1"), ("beta", "m0")):
        server = Server()
        server.batched(10, 400 if name == "alpha" else 300, [1], "a")
        server.batch(70, 150, 1, "x", model=model)
        (tmp_path / f"{name}.xplane.pb").write_bytes(server.capture())
    report = fastprof.load(tmp_path).inference()
    assert rows(report, "requests", "host", "model", "request_id", "batch_ids") == [
        ("alpha", "m1", 1, [0]),
        ("beta", "m0", 1, [0]),
    ]
    assert rows(report, "batch_sizes", "model", "request_count", "mean_latency_ps") == [
        ("m0", 1, 300 * US),
        ("m1", 1, 400 * US),
    ]
    assert page(report)[0] == [["m0"], ["m1"]]


# ---- tensors and parameters


def test_tensor_patterns_are_of_batches_and_timed() -> None:
    server = batching()
    for context, (thread, at) in enumerate((("x", 110), ("y", 310)), 1):
        server.add("Linearize", at, 3 * context, thread, shape="f32[8]", layout="{0}")
        server.add("Delinearize", at + 10, 1, thread, shape=ref("f32[2]"), layout=ref("{0}"))
    report = fastprof.load(server.capture()).inference()
    pattern = "Delinearize f32[2] {0}; Linearize f32[8] {0}"
    assert rows(report, "tensor_patterns", "model", "pattern", "count", "p50_ps", "p999_ps") == [
        ("m", pattern, 2, 4 * US, 7 * US)
    ]
    (row,) = page(report)[3]
    assert row[:3] == [0.0, pattern.replace("; ", "<br>"), 2.0]
    assert row[3].startswith("50.00%: 0.007000ms<br>75.00%: 0.007000ms<br>")


def test_parameters_of_batching_are_those_of_the_second_snapshot() -> None:
    prefix = "/tensorflow/serving/batching/"
    before = event("snapshot", 0, 1, {prefix + "max_batch_size{model_name=m}": 1})
    after = event("snapshot", 9, 1, {
        prefix + "max_batch_size{model_name=m, op_name=o}": 64, prefix + "allowed_batch_sizes{model_name=m}": "4,8",
        prefix + "batch_timeout_micros{model_name=m}": 1000, prefix + "num_batch_threads{model_name=other}": 3,
    })  # fmt: skip
    server = batching()
    report = fastprof.load(server.capture(plane("/host:tfstreamz", [line("", [before, after])]))).inference()
    columns = ("max_batch_size", "allowed_batch_sizes", "batch_timeout_us", "num_batch_threads")
    assert rows(report, "models", *columns) == [(64, "4,8", 1000, None)]
    assert properties(report)[2] | {"throughput": "", "averageLatencyMs": ""} == {
        "hasBatchingParam": "true", "batchingParamAllowedBatchSizes": "4,8", "batchingParamBatchTimeoutMicros": "1000",
        "batchingParamMaxBatchSize": "64", "batchingParamMaxEnqueuedBatches": "0", "batchingParamNumBatchThreads": "0",
        "throughput": "", "averageLatencyMs": "",
    }  # fmt: skip


# ---- without requests


def test_without_requests_the_reason_is_reported_and_the_page_has_one_row_of_zeros() -> None:
    report = fastprof.load(xspace(plane("/host:CPU", [line("main", [event("work", 0, 5)])]))).inference()
    assert report.scalars["p99_latency_ps"].value is None
    assert "BatchingSessionRun" in (report.scalars["p99_latency_ps"].reason or "")
    assert [len(report.tables[name]) for name in report.tables] == [0] * 7
    assert page(report) == [[["ALL"]], [["Average", "N/A", *[0.0] * 8, ""]]]
    assert properties(report) == [
        {"hasBatching": "false", "hasTensorPattern": "false"},
        {"throughput": "0.0", "averageLatencyMs": "0.000"},
    ]


def test_loops_that_veto_grouping_are_the_reason() -> None:
    server = Server()
    server.request(10, 100, 1, "m")
    server.add("ForOp", 300, 1)
    report = fastprof.load(server.capture()).inference()
    assert "loops" in (report.scalars["mean_latency_ps"].reason or "")


def test_the_synthetic_server_has_its_figures(captures: Path) -> None:
    report = fastprof.load(captures / "xspace" / "synthetic-serving").inference()
    assert report.scalars["request_count"].value == 200
    assert rows(report, "models", "model", "request_count", "p50_ps") == [
        ("model0:1", 100, 30_941_408),
        ("model1:1", 100, 29_477_021),
    ]
    assert page(report)[1][-1] == [
        "Average", "N/A", 0.03878621, 0.00387862, 0.0, 0.002424137, 0.002424137, 0.0, 0.0, 0.013090346, "",
    ]  # fmt: skip
