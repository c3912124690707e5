"""Op stats: the tables, figures and notices, and the page as XProf has it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from reports import data_table, figures, rows, session_of
from trace_builder import Event, Metadata, Plane, event, line, plane, u64, xspace

import fastprof
from fastprof.profile.report import Report

MATMUL, DATASET = "model/dense/MatMul:MatMul", "Iterator::Map"


def threads(*lines: list[Event]) -> Plane:
    return plane("/host:CPU", [line(f"thread {n}", events, id=n) for n, events in enumerate(lines, 1)])


def tpu(*events: Event, peaks: bool = True) -> Plane:
    stats = {"program_id": u64(3), "hlo_category": "convolution"}
    metadata = [
        Metadata("%dot.1", display_name="dot.1", stats=stats | {
            "symbol_id": u64(1), "tf_op": "jit(f)/dot:", "flops": u64(10**9), "bytes_accessed": u64(10**6)}),
        Metadata("%copy.2", display_name="copy.2", stats=stats | {"symbol_id": u64(2)}),
    ]  # fmt: skip
    of_plane = {"peak_teraflops_per_second": 100.0, "peak_hbm_bw_gigabytes_per_second": 1000.0} if peaks else {}
    return plane("/device:TPU:0", [line("XLA Ops", list(events), id=3)], event_metadata=metadata, stats=of_plane)


def dot(start: int, duration: int) -> Event:
    return event("%dot.1", start * 1000, duration * 1000)


def compiled(name: str, at: int, duration: int) -> Event:
    return event(name, at, duration, {"hlo_op": name, "hlo_module": "jit_f", "run_id": u64(1)})


def copy(start: int, duration: int) -> Event:
    return event("%copy.2", start * 1000, duration * 1000)


def report_of(*captures: bytes) -> Report:
    return session_of(*captures).op_stats()


def page(report: Report) -> list[list[dict[str, Any]]]:
    """The two tables of XProf's page, with and without idle time, a dict a row."""
    return [data_table(table) for table in json.loads(report.to_xprof())]


HOST = threads([event(MATMUL, 0, 30_000), event(DATASET, 10_000, 10_000)], [event(MATMUL, 0, 60_000)])
BOTH = xspace(HOST, tpu(dot(0, 10), dot(20, 10), copy(70, 10)))


# ---- tables and figures


def test_devices_come_before_hosts_each_with_its_idle_time() -> None:
    assert rows(report_of(BOTH), "ops", "rank", "host_or_device", "type", "name", "occurrences", "self_ps") == [
        (1, "Device", "IDLE", "IDLE", 0, 50_000),
        (2, "Device", "dot", "jit(f)/dot", 2, 20_000),
        (3, "Device", "convolution", "copy.2", 1, 10_000),
        (1, "Host", "MatMul", "model/dense/MatMul", 2, 80_000),
        (2, "Host", "Dataset", "Iterator::Map", 1, 10_000),
        (3, "Host", "IDLE", "IDLE", 0, 0),
    ]


def test_time_in_which_several_streams_ran_ops_counts_once_in_the_share() -> None:
    streams = [
        line(f"Stream #{one}", [event("k", at, took, {"correlation_id": one})], id=one)
        for one, at, took in ((1, 0, 60), (2, 20, 60), (3, 90, 10))
    ]
    report = report_of(xspace(plane("/device:GPU:0", streams)))
    assert rows(report, "hosts", "device_op_ps", "device_total_ps", "device_op_share") == [(130, 100, 0.9)]


def test_figures_are_sums_over_devices_and_threads() -> None:
    values = figures(report_of(BOTH))
    assert (values["device_total_ps"], values["device_op_ps"], values["device_idle_ps"]) == (80_000, 30_000, 50_000)
    assert (values["host_total_ps"], values["host_op_ps"], values["host_idle_ps"]) == (90_000, 90_000, 0)


def test_device_ops_record_their_work_and_hosts_have_none() -> None:
    report = report_of(BOTH)
    name, flops, rate, bound = rows(report, "device_ops", "name", "flops", "flops_per_s", "bound_by")[1]
    assert (name, flops, rate, bound) == ("dot.1", 2e9, 1e17, "Compute")
    assert rows(report, "ops", "flops", "flops_per_byte", "bound_by")[-1] == (None, None, None)
    assert rows(report, "device_ops", "framework_op")[1:] == [("jit(f)/dot",), (None,)]


def test_without_peaks_nothing_is_known_to_be_bound() -> None:
    report = report_of(xspace(tpu(dot(0, 10), peaks=False)))
    assert rows(report, "ops", "bound_by") == [(None,), (None,)]
    assert any("peak" in notice.text for notice in report.notices)


def test_shares_of_a_side_add_up_to_1_with_and_without_idle_time() -> None:
    report = report_of(BOTH)
    for side in ("Device", "Host"):
        of_side = [
            row[1:] for row in rows(report, "ops", "host_or_device", "self_share", "busy_share") if row[0] == side
        ]
        assert sum(share for share, _ in of_side) == pytest.approx(1)
        assert sum(share for _, share in of_side if share is not None) == pytest.approx(1)


def test_a_capture_without_devices_says_so_and_invents_nothing() -> None:
    report = report_of(xspace(HOST))
    assert figures(report)["device_total_ps"] is None
    assert report.scalars["device_total_ps"].reason == "the capture has no planes of devices"
    assert {side for (side,) in rows(report, "ops", "host_or_device")} == {"Host"}
    assert figures(report)["is_training"] is None


@pytest.mark.parametrize(
    ("space", "why"),
    [
        (xspace(plane("/host:metadata")), "neither threads of a host (plane /host:CPU) nor planes of devices"),
        (xspace(threads([event("$main.py:1 run", 0, 5)])), "no thread event has the name of a framework op"),
    ],
)
def test_where_there_are_no_ops_it_says_why(space: bytes, why: str) -> None:
    (notice,) = report_of(space).notices
    assert notice.severity == "warning" and why in notice.text


def test_events_that_grouping_adds_do_not_shift_the_others() -> None:
    stops = [event("ThreadpoolListener::StopRegion", time, 0) for time in (200, 300)]
    pool = [event("ThreadpoolListener::StartRegion", 10, 0, {"_c": 5}), event(MATMUL, 20, 100), *stops]
    report = report_of(xspace(threads(pool), tpu(dot(0, 10), copy(20, 7))))
    assert rows(report, "device_ops", "name", "self_ps") == [("IDLE", 10_000), ("dot.1", 10_000), ("copy.2", 7_000)]


# ---- several hosts


def test_hosts_add_up_and_stay_visible(tmp_path: Path) -> None:
    for name, time in (("a", 10), ("b", 30)):
        space = xspace(threads([event(MATMUL, 0, time)]), tpu(dot(0, time)))
        (tmp_path / f"{name}.xplane.pb").write_bytes(space)
    report = fastprof.load(tmp_path).op_stats()
    assert rows(report, "ops", "name", "occurrences", "self_ps")[0] == ("jit(f)/dot", 2, 40_000)
    assert rows(report, "hosts", "host", "host_op_ps", "device_op_ps") == [("a", 10, 10_000), ("b", 30, 30_000)]
    by_host = rows(report, "ops_by_host", "host", "host_or_device", "name", "self_ps")
    assert ("b", "Device", "jit(f)/dot", 30_000) in by_host and ("a", "Host", "model/dense/MatMul", 10) in by_host


# ---- XProf's page


def test_the_page_has_both_tables_ranked_through() -> None:
    with_idle, without = page(report_of(BOTH))
    assert [(row["rank"], row["operation"]) for row in with_idle] == [
        (1, "IDLE"),
        (2, "jit(f)/dot"),
        (3, "copy.2"),
        (4, "model/dense/MatMul"),
        (5, "Iterator::Map"),
        (6, "IDLE"),
    ]
    assert [row["operation"] for row in without] == ["jit(f)/dot", "copy.2", "model/dense/MatMul", "Iterator::Map"]
    assert without[0]["device_total_self_time_percent"] == pytest.approx(2 / 3)
    assert with_idle[1]["device_total_self_time_percent"] == 0.25
    assert (with_idle[1]["total_time"], with_idle[1]["avg_time"]) == (0.02, 0.01)


def test_the_page_shows_500_of_a_side_idle_time_among_them() -> None:
    ops = [event(f"op{n}:T", 10 * n, 5) for n in range(600)]
    with_idle, without = page(report_of(xspace(threads(ops))))
    assert (len(with_idle), len(without)) == (500, 499)
    assert len(report_of(xspace(threads(ops))).tables["ops"]) == 601


def test_the_page_says_whether_its_ops_are_of_training() -> None:
    def task(name: str) -> str:
        report = report_of(xspace(threads([event(name, 0, 5)])))
        return str(json.loads(report.to_xprof())[0]["p"]["task_type"])

    assert task("gradient_tape/model/MatMul:MatMul") == "Training"
    assert task("model/MatMul:MatMul") == "Inference"


def test_the_page_leaves_out_what_xprof_loses_and_the_report_says_so() -> None:
    report = report_of(xspace(threads([event("a:A", 0, 100), event("b:B", 10, 90)])))
    assert [row["operation"] for row in page(report)[1]] == ["a"]
    assert [name for (name,) in rows(report, "host_ops", "name")] == ["b", "a", "IDLE"]
    assert report.notices[0].text.startswith("1 occurrences of host ops cross another op of their thread")


def test_only_pages_of_gpus_have_the_column_of_tensor_cores() -> None:
    kernel = {"kernel_details": "regs:32", "tf_op": "model/MatMul:MatMul"}
    kernels = [event("volta_h884gemm", 0, 30_000, kernel), event("other", 40_000, 10_000, kernel)]
    gpu = plane("/device:GPU:0", [line("Stream #1", kernels, id=1)], stats={"device_vendor": "Nvidia"})
    report = report_of(xspace(gpu))
    assert [(row["operation"], row["gpu_tensorcore_utilization"]) for row in page(report)[1]] == [
        ("model/MatMul", 0.75)
    ]
    assert rows(report, "ops", "name", "tensor_core_share")[0] == ("model/MatMul", 0.75)
    assert "gpu_tensorcore_utilization" not in page(report_of(BOTH))[0][0]


# ---- real captures


def test_tables_of_a_real_capture_agree_with_its_figures(captures: Path) -> None:
    for session in sorted((captures / "xspace").iterdir()):
        report = fastprof.load(session).op_stats()
        scalars, tables = figures(report), report.tables
        for side, name in (("host", "host_ops"), ("device", "device_ops")):
            if scalars[f"{side}_total_ps"] is None:
                assert set(tables[name]["name"].to_pylist()) <= {"IDLE"}
                continue
            overlapped = scalars["device_overlapped_ps"] if side == "device" else 0
            assert sum(tables[name]["self_ps"].to_pylist()) == scalars[f"{side}_total_ps"] + overlapped, session.name
            assert sum(tables["hosts"][f"{side}_op_ps"].to_pylist()) == scalars[f"{side}_op_ps"], session.name
            ranks = tables[name]["rank"].to_pylist()
            assert ranks == list(range(1, len(ranks) + 1))


def test_on_a_host_without_devices_instructions_of_programs_are_ops_and_to_xprof_none() -> None:
    report = report_of(xspace(threads([event("a:MatMul", 0, 50), compiled("dot.3", 10, 30), compiled("tanh", 60, 5)])))
    assert rows(report, "host_ops", "name", "type", "self_ps")[:3] == [
        ("dot.3", "XLA op on host", 30),
        ("a", "MatMul", 20),
        ("IDLE", "IDLE", 10),
    ]
    assert [row["operation"] for row in page(report)[0] if row["operation"] != "IDLE"] == ["a"]


def test_beside_devices_they_are_not() -> None:
    report = report_of(xspace(threads([compiled("dot.3", 10, 30)]), tpu(dot(0, 5))))
    assert rows(report, "host_ops", "name") == []


def test_devices_that_record_no_op_are_reported() -> None:
    gpu = plane("/device:GPU:0", [line("Stream #1", [event("gemm", 0, 5)])])
    report = report_of(xspace(threads([event("a:MatMul", 0, 5)]), gpu))
    assert report.notices[0].text.startswith(
        "100.0 % of the time of devices is listed by kernel or copy, not by op. Why:\n"
    )
