"""How near ops come to what a device can do, and what they could win."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hand_made import ops

from fastprof.derive.devices.device_peaks import Peaks
from fastprof.derive.ops.op_table import CMEM, FROM_CAPTURE, FROM_HLO, HBM, READ, VMEM, WRITE, MemoryAccess, OpTable
from fastprof.derive.ops.roofline_model import get_known_flops, list_ceilings, measure_efficiency

US = 1_000_000
TPU = Peaks("TPU", "TPU v6 Lite", 1.0, (100.0, 0.0, 0.0, 0.0, 0.0, 400.0, 200.0))
"""10**12 flops, 10**11 bytes of HBM, 4 * 10**11 read from VMEM, 2 * 10**11 written to it, a second."""


def table(*rows: dict[str, Any], memory: list[tuple[int, int, int, float]] | None = None) -> OpTable:
    given = [{"time_ps": US, "self_ps": US} | row for row in rows]
    accesses = MemoryAccess.none()
    if memory:
        row, way, space, size = zip(*memory, strict=True)
        accesses = MemoryAccess(np.array(row, np.int32), np.array(way, np.uint8), np.array(space), np.array(size))
    columns = sorted({name for row in given for name in row})
    return OpTable.of(
        [str(place) for place in range(len(given))],
        **{name: [row.get(name, "" if name == "category" else 0) for row in given] for name in columns},
        memory=accesses,
    )


def test_an_op_is_bound_by_what_it_comes_nearest_to_exhaust() -> None:
    bounds = measure_efficiency(
        table({"flops": 5e5, "bytes_accessed": 8e4}, {"flops": 5e5, "bytes_accessed": 1e4}), list_ceilings(TPU)
    )
    assert bounds.bound_by == ["HBM", "Compute"]
    assert bounds.efficiency.tolist() == pytest.approx([0.8, 0.5])


def test_what_could_be_won_is_the_time_beyond_that_at_the_roofline() -> None:
    bounds = measure_efficiency(table({"flops": 5e5, "bytes_accessed": 8e4, "self_ps": 900_000}), list_ceilings(TPU))
    assert bounds.least_ps.tolist() == pytest.approx([800_000])
    assert bounds.lost_ps.tolist() == pytest.approx([100_000])


def test_memories_on_the_chip_count_by_direction() -> None:
    rows = table(
        {"bytes_accessed": 1e5, "flops": 1.0},
        {"bytes_accessed": 1e5, "flops": 1.0},
        memory=[(0, READ, VMEM, 3e5), (0, WRITE, VMEM, 1e4), (1, WRITE, VMEM, 1.5e5), (1, READ, HBM, 1e4)],
    )
    bounds = measure_efficiency(rows, list_ceilings(TPU))
    assert bounds.bound_by == ["VMEM Read", "VMEM Write"]
    assert bounds.efficiency.tolist() == pytest.approx([0.75, 0.75])


def test_memories_of_unknown_peak_are_no_ceilings() -> None:
    assert [one.name for one in list_ceilings(TPU)] == ["Compute", "HBM", "VMEM Read", "VMEM Write"]
    bounds = measure_efficiency(
        table({"bytes_accessed": 1.0, "flops": 1.0}, memory=[(0, READ, CMEM, 1e9)]), list_ceilings(TPU)
    )
    assert bounds.bound_by == ["Compute"]


@pytest.mark.parametrize("peaks", [None, Peaks("TPU", "", 0.0, (100.0,)), Peaks("GPU", "", 1.0, (0.0, 1e9, 1e9))])
def test_without_a_peak_of_arithmetic_or_of_memory_nothing_is_known(peaks: Peaks | None) -> None:
    bounds = measure_efficiency(table({"flops": 5e5, "bytes_accessed": 8e4}), list_ceilings(peaks))
    assert bounds.bound_by == [None]
    assert np.isnan(bounds.efficiency).all() and np.isnan(bounds.least_ps).all() and np.isnan(bounds.lost_ps).all()


def test_work_that_nobody_records_is_not_taken_for_none() -> None:
    rows = table({"bytes_accessed": 8e4, "category": "custom-call"}, {"flops": 5e5}, {})
    assert measure_efficiency(rows, list_ceilings(TPU)).bound_by == [None, None, None]
    sources = {"flops_source": FROM_HLO, "bytes_source": FROM_CAPTURE}
    assert measure_efficiency(table({"bytes_accessed": 8e4, **sources}), list_ceilings(TPU)).bound_by == ["HBM"]


def test_ops_that_move_data_do_no_flops_where_their_bytes_are_reported() -> None:
    rows = table({"bytes_accessed": 8e4, "category": "copy"}, {"category": "copy"}, {"category": "fusion"})
    assert get_known_flops(rows).tolist() == [True, False, False]
    assert measure_efficiency(rows, list_ceilings(TPU)).efficiency[0] == pytest.approx(0.8)


def test_no_work_at_all_is_bound_by_nothing() -> None:
    sources = {"flops_source": FROM_CAPTURE, "bytes_source": FROM_CAPTURE}
    bounds = measure_efficiency(table(sources), list_ceilings(TPU))
    assert (bounds.bound_by, bounds.efficiency.tolist(), bounds.lost_ps.tolist()) == ([None], [0.0], [US])


def test_ops_around_others_lose_nothing_of_their_own() -> None:
    rows = table({"flops": 5e5, "bytes_accessed": 1.0, "category": "while"})
    assert np.isnan(measure_efficiency(rows, list_ceilings(TPU)).lost_ps).all()


def test_what_is_done_in_no_time_and_in_too_little() -> None:
    rows = table({"flops": 5e5, "bytes_accessed": 1.0, "time_ps": 0}, {"flops": 5e6, "bytes_accessed": 1.0})
    bounds = measure_efficiency(rows, list_ceilings(TPU))
    assert np.isnan(bounds.efficiency[0])
    assert bounds.efficiency[1] == pytest.approx(5) and bounds.lost_ps[1] == 0


def test_an_empty_table_has_no_rows() -> None:
    assert measure_efficiency(ops().table, list_ceilings(TPU)).bound_by == []
