"""Rows that stand for all that ran, for programs and for steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hand_made import generic_db
from trace_builder import Event, Metadata, Plane, event, int_field, len_field, line, plane, u64, xspace

import fastprof
from fastprof.derive.ops import roofline_tables
from fastprof.derive.steps.step_database import StepDatabase
from fastprof.errors import CaptureError
from fastprof.profile.report import Report

US = 1_000_000


def moved(*accesses: tuple[int, int, int]) -> bytes:
    """A breakdown: direction, space, bytes."""
    parts = (int_field(1, way) + int_field(2, space) + int_field(3, size) for way, space, size in accesses)
    return b"".join(len_field(1, part) for part in parts)


def described(name: str, symbol: int, category: str, program: int = 7, **stats: Any) -> Metadata:
    known = {"program_id": u64(program), "symbol_id": u64(symbol), "hlo_category": category, **stats}
    return Metadata(name, display_name=name, stats=known)


OPS = [
    described("dot", 1, "convolution", flops=u64(4_000_000), bytes_accessed=u64(100), memory_access_breakdown=moved(
        (1, 1, 60), (2, 3, 40))),
    described("silent", 2, "loop fusion", flops=u64(1_000_000), bytes_accessed=u64(1_000)),
    described("feed", 3, "infeed", flops=u64(0), bytes_accessed=u64(500)),
    described("loop", 4, "while", flops=u64(9_000_000), bytes_accessed=u64(9_000)),
    described("other", 5, "convolution", program=8, flops=u64(2_000_000), bytes_accessed=u64(10)),
]  # fmt: skip
PEAKS = {
    "peak_teraflops_per_second": 10.0,
    "peak_hbm_bw_gigabytes_per_second": 10.0,
    "device_type_string": "TPU v6 Lite",
}


def ran(name: str, start: float, duration: float, group: int) -> Event:
    return event(name, round(start * US), round(duration * US), {"group_id": group})


def core(number: int, *events: Event, steps: tuple[tuple[int, float, float], ...] = ()) -> Plane:
    marks = [event(str(group), round(a * US), round(d * US), {"group_id": group}) for group, a, d in steps]
    lines = [line("Steps", marks, id=1), line("XLA Ops", list(events), id=3)]
    return plane(f"/device:TPU:{number}", lines, event_metadata=OPS, stats=PEAKS, id=number)


def capture() -> bytes:
    """Two cores and two steps of 10 and 12 microseconds; in the second an infeed, and a loop around an op."""
    steps = ((4, 0, 10), (5, 10, 12))
    first = [ran("dot", 0, 4, 4), ran("feed", 10, 3, 5), ran("loop", 13, 6, 5), ran("silent", 14, 2, 5)]
    second = [ran("dot", 1, 4, 4), ran("other", 12, 5, 5)]
    return xspace(core(0, *first, steps=steps), core(1, *second, steps=steps))


def report_of(given: bytes, **params: Any) -> Report:
    return fastprof.load(given).roofline(**params)


def totals(report: Report, *columns: str) -> list[tuple[Any, ...]]:
    found = report.tables["totals"].to_pydict()
    return list(zip(*(found[name] for name in ("scope", "step", "program_id", "with_feeds", *columns)), strict=True))


def test_all_together_programs_and_steps_with_infeed_and_without() -> None:
    assert totals(report_of(capture()), "total_ps", "busy_ps", "flops") == [
        ("session", None, None, True, 44 * US, 22 * US, 11e6),
        ("average step", None, None, True, 22 * US, 11 * US, 5.5e6),
        ("step", 4, None, True, 20 * US, 8 * US, 8e6),
        ("step", 5, None, True, 24 * US, 14 * US, 3e6),
        ("program", None, 7, True, 17 * US, 17 * US, 9e6),
        ("program", None, 8, True, 5 * US, 5 * US, 2e6),
        ("session", None, None, False, 41 * US, 19 * US, 11e6),
        ("average step", None, None, False, 41 * US // 2, 19 * US // 2, 5.5e6),
        ("step", 4, None, False, 20 * US, 8 * US, 8e6),
        ("step", 5, None, False, 21 * US, 11 * US, 3e6),
        ("program", None, 7, False, 14 * US, 14 * US, 9e6),
        ("program", None, 8, False, 5 * US, 5 * US, 2e6),
    ]


def test_rates_of_steps_are_over_the_time_observed_and_a_mean_is_not_a_sum() -> None:
    found = {
        row[:2]: row[4:] for row in totals(report_of(capture()), "flops_per_s", "hbm_bytes", "per_core_ps") if row[3]
    }
    assert found["step", 4] == (pytest.approx(8e6 / 20e-6), 120.0, 10 * US)
    assert found["average step", None] == (pytest.approx(11e6 / 44e-6), (120 + 1_500 + 10) / 2, 11 * US)


def test_bytes_of_ops_that_do_not_say_where_they_go_are_those_of_hbm() -> None:
    found = {row[:2]: row[4:] for row in totals(report_of(capture()), "hbm_bytes", "vmem_write_bytes") if not row[3]}
    assert found["step", 4] == (120.0, 80.0)
    assert found["step", 5] == (1_010.0, 0.0)


def test_steps_are_beneath_the_roofline_too() -> None:
    found = {row[:2]: row[4:] for row in totals(report_of(capture()), "bound_by", "roofline_percent") if row[3]}
    bound, efficiency = found["step", 4]
    assert bound == "Compute" and efficiency == pytest.approx(100 * 8e6 / 20e-6 / 1e13)


def test_what_never_ran_is_not_a_row_of_totals() -> None:
    report = report_of(xspace(plane("/host:CPU")))
    assert report.tables["totals"].num_rows == 0
    unknown = [figure for name, figure in report.scalars.items() if name != "device_count"]
    assert all(figure.value is None and figure.reason for figure in unknown)


def test_feeds_within_others_are_left_out_once() -> None:
    ops = [described("feed", 1, "infeed"), described("inner", 2, "infeed fusion"), described("dot", 3, "convolution")]
    events = [event("feed", 0, 100 * US), event("inner", 10 * US, 80 * US), event("dot", 100 * US, 10 * US)]
    given = xspace(plane("/device:TPU:0", [line("XLA Ops", events, id=3)], event_metadata=ops, stats=PEAKS, id=1))
    found = {row[3]: row[4:] for row in totals(report_of(given), "total_ps", "busy_ps") if row[0] == "session"}
    assert found == {True: (110 * US, 110 * US), False: (10 * US, 10 * US)}


def test_each_of_many_programs_has_its_own_sums() -> None:
    count = 3_000
    ops = [described(f"op{one}", 1, "loop fusion", program=one, flops=u64(one)) for one in range(1, count + 1)]
    events = [event(f"op{one}", one * US, one) for one in range(1, count + 1)]
    given = xspace(plane("/device:TPU:0", [line("XLA Ops", events, id=3)], event_metadata=ops, stats=PEAKS, id=1))
    found = [row[2:] for row in totals(report_of(given), "total_ps", "flops") if row[0] == "program"]
    assert found == [(one, True, one, float(one)) for one in range(count, 0, -1)]


def test_steps_of_several_gpus_that_64_bits_do_not_hold_are_refused() -> None:
    def steps(duration: int) -> StepDatabase:
        return replace(generic_db([{"host_compute": 1}]), duration_ps=np.array([[duration]]))

    assert roofline_tables.measure_observed_time(steps(2**62 - 1), [2]).tolist() == [2**63 - 2]
    with pytest.raises(CaptureError, match="do not add up in 64 bits"):
        roofline_tables.measure_observed_time(steps(2**62), [2])
