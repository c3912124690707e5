"""Analyses that captures have nothing for are known without reading events, and none that they have something for."""

from __future__ import annotations

from pathlib import Path

import pytest
from trace_builder import event, line, plane, xspace

import fastprof
from fastprof.analyses.runner import explain_empty, find_declared_empty

ROOT = Path(__file__).resolve().parents[2]
DEMOS = ("kernel", "memory", "pod", "serving", "tf-data", "xla")


def of(capture: bytes | Path) -> dict[str, str]:
    return find_declared_empty(fastprof.load(capture).table_set.session.captures)


def host(*names: str, **stats: int | str) -> bytes:
    return xspace(plane("/host:CPU", [line("main", [event(name, 0, 5, stats) for name in names])]))


def test_a_capture_of_a_host_alone_has_nothing_of_devices_or_servers() -> None:
    empty = of(host("f"))
    assert set(empty) == {
        "kernel_stats", "op_profile", "hlo_stats", "roofline", "memory_viewer", "communication", "memory_profile",
        "tf_data", "inference", "hardware_units", "python_time", "streams", "critical_path",
    }  # fmt: skip
    assert empty["kernel_stats"] == "No kernels: the capture has no GPU planes."


@pytest.mark.parametrize(
    ("data", "has"),
    [
        (
            xspace(plane("/device:GPU:0")),
            {"kernel_stats", "streams", "critical_path", "op_profile", "hlo_stats", "roofline", "communication"},
        ),
        (xspace(plane("/device:TPU:3")), {"op_profile", "hlo_stats", "roofline", "communication"}),
        (host("dot", hlo_op="dot.1"), {"op_profile", "hlo_stats", "roofline"}),
        (host("MemoryDeallocation"), {"memory_profile"}),
        (host("MXU", **{"% util": 1}), {"hardware_units"}),
        (host("CYCLES", counter_value=1), {"hardware_units"}),
        (host("Iterator::Map"), {"tf_data"}),
        (host("iterator::Map"), {"tf_data"}),
        (host("$a.py:1 f"), {"python_time"}),
        (host("ProcessBatch"), {"inference"}),
        (host("ModelServerRequest_f"), {"inference"}),
        (host("f", _r=-1), {"inference"}),
    ],
)
def test_what_a_capture_declares_is_not_called_empty(data: bytes, has: set[str]) -> None:
    assert not has & set(of(data))
    assert set(of(data)) | has == set(of(host("f")))


def test_a_damaged_capture_may_have_lost_what_declares_it() -> None:
    profile = fastprof.load(host("f")[:-1], on_error="salvage")
    assert find_declared_empty(profile.table_set.session.captures) == {}


@pytest.mark.parametrize("demo", DEMOS)
def test_what_is_called_empty_has_no_rows(demo: str) -> None:
    profile = fastprof.load(ROOT / "demo" / demo)
    for name in find_declared_empty(profile.table_set.session.captures):
        report = profile.report(name)
        if name == "op_profile":
            assert report.tables["tree"].num_rows == 1  # a root without time
        else:
            assert explain_empty(report.answer), name


def test_a_report_that_would_have_rows_with_another_parameter_is_not_called_empty() -> None:
    capture = xspace(plane("/device:TPU:0", [line("XLA Modules", [event("jit_f(1)", 0, 5)])]))
    report = fastprof.load(capture).steps(steps_from="markers")
    assert "could serve as a step" in report.notices[0].text
    assert explain_empty(report.answer) is None
