"""The pod viewer: steps by core, collective operations, and XProf's page."""

from __future__ import annotations

import json
from typing import Any

import pytest
from reports import rows, session_of
from step_captures import US, host, ran, spaces, sparse_core, step, tpu
from trace_builder import line, plane

import fastprof


def report_of(*captures: bytes, **params: Any) -> fastprof.Report:
    return session_of(*captures).report("pod_viewer", **params)


def page(report: fastprof.Report) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(report.to_xprof())
    return answer


def cpu(count: int) -> bytes:
    events = [one for k in range(count) for one in (step(k, 10 * k, 8), ran("op", 10 * k + 1, 5))]
    return spaces(host(events))


def pod(name: str, late: float = 0) -> bytes:
    """Two cores with an all-reduce in their step, the second of them late; one SparseCore; one core not described."""
    stats = {"ar": {"all_reduce_unique_id": 7}}

    def core(ordinal: int, late: float, details: bool = True) -> Any:
        ops = [("f", "fusion", 10, 20 + late), ("ar", "all-reduce", 30 + late, 30 - late), ("in", "infeed", 80, 5)]
        return tpu(ordinal, [ran("0", 0, 100)], ops, stats=stats, details=details)

    cores = [core(0, 0), core(1, 10 + late), core(2, 0, details=False)]
    return spaces(*cores, sparse_core(0, [("s", "fusion", 20, 60)]), hostnames=[name])


def test_steps_are_reported_core_by_core() -> None:
    assert rows(
        report_of(pod("a")), "cores", "step", "core_name", "core_id", "sparse_core", "duration_ps", "device_compute_ps",
        "device_collectives_ps", "input_ps", "all_others_ps", "bottleneck", "bottleneck_share",
    ) == [
        (0, "a:0", 2, False, 100 * US, 20 * US, 30 * US, 5 * US, 45 * US, "All others", 0.45),
        (0, "a:1", 3, False, 100 * US, 30 * US, 20 * US, 5 * US, 45 * US, "All others", 0.45),
        (0, "a", 4, False, 100 * US, 20 * US, 30 * US, 5 * US, 45 * US, "All others", 0.45),
        (0, "a", 1_000_020, True, 100 * US, 60 * US, 0, 0, 40 * US, "Device compute", 0.6),
    ]  # fmt: skip


def test_collectives_record_who_waits() -> None:
    report = report_of(pod("a"), pod("b", 5))
    assert report.tables["collectives"].to_pylist() == [{
        "step": 0, "collective_id": 7, "core_count": 6, "occurrences": 6, "moved_bytes": 0, "fastest_ps": 15 * US,
        "slowest_ps": 30 * US, "wait_ps": (4 * 15 + 5) * US,
    }]  # fmt: skip
    assert report.scalars["collective_wait_ps"].value == 65 * US


def test_collectives_without_ids_record_no_wait() -> None:
    space = spaces(tpu(0, [ran("0", 0, 100)], [("f", "fusion", 10, 20), ("ar", "all-reduce", 30, 30)]))
    wait = report_of(space).scalars["collective_wait_ps"]
    assert wait.value is None and "no ids" in (wait.reason or "")


def test_gpus_do_not_record_which_collectives_belong_together() -> None:
    main = [step(0, 0, 100), ran("launch", 1, 1, correlation_id=1)]
    kernels = [ran("gemm", 5, 50, correlation_id=1), ran("ncclReduce", 60, 5, correlation_id=1)]
    report = report_of(spaces(host(main), plane("/device:GPU:0", [line("Stream #1", kernels)])))
    assert rows(report, "collectives", "collective_id", "core_count", "slowest_ps", "wait_ps") == [(0, 1, 5 * US, None)]
    assert report.scalars["collective_wait_ps"].value is None


def test_cores_have_the_keys_that_they_have_in_steps() -> None:
    report = report_of(pod("a"), pod("b"))
    assert rows(report, "cores", "core_id", "hostname", "pod_core_id") == [
        (2, "a", 2), (3, "a", 3), (4, "a", 4), (1_000_020, "a", 1_000_020),
        (2, "b", 1002), (3, "b", 1003), (4, "b", 1004), (1_000_020, "b", 1_001_020),
    ]  # fmt: skip
    steps = fastprof.load([pod("a"), pod("b")]).steps()
    assert rows(steps, "steps", "host", "core_id") == rows(report, "cores", "host", "core_id")


def late_host(first: int, at: float) -> bytes:
    numbers = range(first, first + 3)
    events = [one for k in numbers for one in (step(k, at + 10 * k, 8), ran("op", at + 10 * k + 1, 5))]
    return spaces(host(events), hostnames=[f"h{first}"])


def test_xprofs_page_has_steps_by_when_they_ran_and_the_tables_by_name() -> None:
    report = report_of(late_host(0, 0), late_host(1, -10))  # the second began at train 1
    assert sorted(set(rows(report, "cores", "step"))) == [(1,), (2,)]
    assert [one["stepNum"] for one in page(report)["podStatsSequence"]["podStatsMap"]] == [0, 1, 2]
    assert [notice.text for notice in report.notices] == [
        "Steps of hosts are paired by name. XProf pairs them by time, with h1 shifted by -1.",
        "Step 2 may be cut off by the recording: averages leave it out.",
    ]


def test_figures_of_a_pod() -> None:
    report = report_of(pod("a"), pod("b"))
    assert {name: scalar.value for name, scalar in report.scalars.items()} == {
        "step_count": 1,
        "host_count": 2,
        "core_count": 8,
        "device_type": "TPU",
        "slowest_core_step_ps": 100 * US,
        "collective_wait_ps": 40 * US,
    }


def test_without_steps_a_sentence_says_why() -> None:
    report = report_of(spaces(host([ran("op", 0, 5)])))
    assert [notice.text for notice in report.notices] == [
        "no step markers in this capture, and no repetition can replace them"
    ]
    assert report.scalars["slowest_core_step_ps"].value is None
    assert report.scalars["slowest_core_step_ps"].reason.startswith("no steps: no step markers in this capture")
    assert report.tables["cores"].num_rows == 0


# ---- XProf's page


def test_xprofs_page_shows_every_step() -> None:
    answer = page(report_of(cpu(8)))
    steps = answer["podStatsSequence"]["podStatsMap"]
    assert [one["stepNum"] for one in steps] == list(range(8))
    assert steps[2] == {
        "stepNum": 2,
        "podStatsPerCore": {
            "1": {
                "hostName": "vm",
                "chipId": 0,
                "nodeId": 0,
                "stepNum": 2,
                "totalDurationUs": 8.0,
                "bottleneck": "Host compute",
                "stepBreakdownUs": {**dict.fromkeys("12356789", 0.0), "4": 5.0, "9": 3.0},
            }
        },
        "channelDb": [],
        "coreIdToReplicaIdMap": {},
        "allReduceOpDb": [],
    }
    assert answer["deviceType"] == "CPU"
    assert answer["diagnostics"] == {"errors": [], "info": [], "warnings": []}
    assert answer["stepBreakdownEvents"][6] == {"id": 7, "name": "Output"}


def test_xprofs_page_leaves_out_sparse_cores_and_cores_that_are_not_described() -> None:
    (one,) = page(report_of(pod("a"), pod("b")))["podStatsSequence"]["podStatsMap"]
    assert sorted(one["podStatsPerCore"]) == ["1002", "1003", "2", "3"]
    assert one["podStatsPerCore"]["1002"]["stepBreakdownUs"]["3"] == 30.0
    assert one["podStatsPerCore"]["1002"]["hostName"] == "b"


@pytest.mark.parametrize(
    ("waits", "ours", "xprofs"),
    [(2, "Host compute", "Host compute"), (3, "Host compute", "Input"), (4, "Input", "Input")],
)
def test_of_equal_categories_xprofs_bottleneck_is_the_last_by_name(waits: float, ours: str, xprofs: str) -> None:
    report = report_of(spaces(host([step(0, 0, 8), ran("op", 0, 3), ran("IteratorGetNext", 3, waits)])))
    (one,) = page(report)["podStatsSequence"]["podStatsMap"]
    assert one["podStatsPerCore"]["1"]["bottleneck"] == xprofs
    assert rows(report, "cores", "bottleneck") == [(ours,)]


def test_without_steps_xprofs_page_warns() -> None:
    answer = page(report_of(spaces(host([ran("op", 0, 5)]))))
    assert answer["podStatsSequence"] == {"podStatsMap": []}
    (warning,) = answer["diagnostics"]["warnings"]
    assert warning.startswith("No step marker observed")
