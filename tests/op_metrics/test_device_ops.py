"""What the ops of a session are compared with, figures that cannot be true, and what is said of them."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hlo_builder import Op, Program, f32
from trace_builder import Metadata, Plane, event, line, plane, u64, xspace

import fastprof
from fastprof.derive.devices.device_peaks import Peaks
from fastprof.derive.ops.device_ops import CPU_ONLY, READS, HostDeviceOps, SessionOps
from fastprof.derive.ops.op_table import Ops, OpTable
from fastprof.profile.report import Report
from fastprof.tables.needs import Needs, unite_needs

OP_TOOLS = ("op_profile", "hlo_stats", "roofline", "op_stats")


def host(name: str, teraflops: float, hbm: float, hardware: str = "TPU", device: str = "TPU v4") -> HostDeviceOps:
    none = Ops.none()
    rates = (hbm, *[0.0] * (6 if hardware == "TPU" else 2))
    return HostDeviceOps(name, hardware, none, (), Peaks(hardware, device, teraflops, rates), {})


def peaks_of(*hosts: HostDeviceOps) -> tuple[float, float, str]:
    peaks = SessionOps.of(hosts).peaks
    assert peaks is not None
    return peaks.teraflops_per_s, peaks.bandwidths_gb_per_s[0], "; ".join(peaks.reasons)


# ---- peaks


def test_what_one_host_leaves_out_is_as_another_of_the_same_device_records() -> None:
    assert peaks_of(host("a", 0.0, 1200.0), host("b", 275.0, 0.0)) == (275.0, 1200.0, "")


def test_of_different_devices_no_peaks_are_known() -> None:
    teraflops, hbm, why = peaks_of(host("a", 275.0, 1200.0), host("b", 919.0, 2000.0, "GPU", "Nvidia GPU (Hopper)"))
    assert (teraflops, hbm) == (0.0, 0.0)
    assert "different devices (TPU v4, Nvidia GPU (Hopper))" in why


def test_ops_of_a_cpu_are_not_held_against_the_peaks_of_another_host() -> None:
    ran = Ops(OpTable.of(["dot"]), 1, 1)
    cpu = HostDeviceOps("c", CPU_ONLY, ran, (), None, {})
    assert peaks_of(host("a", 275.0, 1200.0), cpu)[:2] == (0.0, 0.0)
    assert peaks_of(host("a", 275.0, 1200.0), HostDeviceOps("c", CPU_ONLY, Ops.none(), (), None, {}))[0] == 275


def test_hosts_that_record_different_peaks_of_one_device_are_reported() -> None:
    teraflops, hbm, why = peaks_of(host("a", 275.0, 1200.0), host("b", 200.0, 1200.0))
    assert (teraflops, hbm) == (275.0, 1200.0)
    assert why == "hosts record different peaks of arithmetic for TPU v4: those of the first host are used"


# ---- figures that can be none


def core(count: int = 2, peak: float = 100.0, at: dict[str, Any] | None = None, **stats: Any) -> Plane:
    known = {"program_id": u64(1), "symbol_id": u64(2), "hlo_category": "loop fusion", **stats}
    events = [event("f", 10 * one, 10, dict(at or {})) for one in range(count)]
    peaks = {"peak_teraflops_per_second": peak, "peak_hbm_bw_gigabytes_per_second": peak}
    return plane("/device:TPU:0", [line("XLA Ops", events, id=3)], event_metadata=[Metadata("f", stats=known)],
                 stats=peaks, id=2)  # fmt: skip


def finite(report: Report) -> bool:
    return all(
        math.isfinite(one)
        for table in report.tables.values()
        for column in table.itercolumns()
        for one in column.to_pylist()
        if isinstance(one, float)
    )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("flops", [-1, -(2**63), 1.7e308, -1e308, float("inf")])
@pytest.mark.parametrize("tool", OP_TOOLS)
def test_work_that_can_be_none_is_not_known(tool: str, flops: float) -> None:
    report = fastprof.load(xspace(core(flops=flops, bytes_accessed=u64(8)))).report(tool)
    assert finite(report)
    if tool != "op_stats":
        assert any("is recorded once: it counts as unknown" in notice.text for notice in report.notices)
    if tool == "hlo_stats":
        assert report.tables["ops"].select(["flops", "accessed_bytes"]).to_pylist() == [
            {"flops": None, "accessed_bytes": 16.0}
        ]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("peak", [5e-324, 1e308, -1.0])
def test_peaks_that_can_be_none_are_unknown(peak: float) -> None:
    report = fastprof.load(xspace(core(peak=peak, flops=u64(1000), bytes_accessed=u64(8)))).roofline()
    assert finite(report) and report.scalars["peak_flops_per_s"].value is None
    assert report.to_svg()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("ratio", [1e300, -1e300, -0.5])
def test_ratios_of_clocks_that_can_be_none_are_1(ratio: float) -> None:
    report = fastprof.load(xspace(core(at={"Time Scale Multiplier": ratio}))).roofline()
    assert report.scalars["clock_share"].value == 1.0
    assert any("recorded 2 times (Time Scale Multiplier)" in notice.text for notice in report.notices)


def test_times_below_0_are_not_shown() -> None:
    given = xspace(core(at={"dma_stall_duration_ps": -(2**62), "min_duration_ps": -5}))
    table = fastprof.load(given).hlo_stats().tables["ops"]
    assert (table["dma_stall_ps"].to_pylist(), table["min_ps"].to_pylist()) == ([0], [10])


def test_negative_work_of_kernels_takes_nothing_from_that_of_others() -> None:
    known = {"hlo_op": "neg", "program_id": u64(1)}
    events = [event("k", 0, 5, known | {"flops": 40}), event("k", 9, 5, known | {"flops": -(2**63)})]
    report = fastprof.load(xspace(plane("/device:GPU:0", [line("Stream #1", events)], id=1))).op_profile()
    assert finite(report) and min(one or 0 for one in report.tables["tree"]["flops"].to_pylist()) >= 0


# ---- programs


@pytest.mark.parametrize("tool", [*OP_TOOLS, "communication"])
def test_a_program_that_does_not_decode_is_reported_where_nobody_needs_it(tool: str) -> None:
    made = Program("jit_f")
    made.entry(Op("x", "parameter", f32(10)))
    broken = b"\x0a\xff\xff\xff" + made.proto()[4:]
    programs = plane("/host:metadata", event_metadata=[Metadata("jit_f(1)", 1, stats={"Hlo Proto": broken})])
    report = fastprof.load(xspace(core(flops=u64(8), bytes_accessed=u64(8)), programs)).report(tool)
    assert any("jit_f(1) does not decode" in notice.text for notice in report.notices)


@pytest.mark.parametrize("tool", OP_TOOLS)
def test_a_capture_without_programs_says_so(tool: str) -> None:
    report = fastprof.load(xspace(core(flops=u64(8)))).report(tool)
    assert any("carries no compiled programs" in notice.text for notice in report.notices)


@pytest.mark.parametrize("tool", OP_TOOLS)
def test_how_much_is_placed_by_names_of_kernels_is_reported(tool: str) -> None:
    made = Program("jit_f")
    made.entry(Op("x", "parameter", f32(10)), Op("loop_add_fusion", "negate", f32(10), ["x"]))
    programs = plane("/host:metadata", event_metadata=[Metadata("jit_f(3)", 3, stats={"Hlo Proto": made.proto()})])
    events = [event("loop_add_fusion", 0, 6), event("elsewhere", 6, 2)]
    report = fastprof.load(xspace(programs, plane("/device:GPU:0", [line("Stream #1", events)], id=1))).report(tool)
    assert any(text.startswith("75.0 % of the time of devices belongs to ops only by the names")
               for text in (notice.text for notice in report.notices))  # fmt: skip


# ---- what is read


def test_what_kernels_are_attributed_by_is_read_of_hosts_with_gpus_alone() -> None:
    together = unite_needs([READS, Needs(stats=("mine",))])
    assert "correlation_id" not in together.stats_of([("/host:CPU", 0), ("/device:TPU:0", 1)])
    with_gpus = together.stats_of([("/host:CPU", 0), ("/device:GPU:0", 1)])
    assert {"mine", "hlo_op", "correlation_id", "is_eager"} <= set(with_gpus)
    assert len(with_gpus) == len(set(with_gpus))
