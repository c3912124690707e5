"""Ops that start, await or are transfers: what of their bytes counts, and that no roofline of the device is theirs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fastprof.derive.devices.device_peaks import Peaks
from fastprof.derive.ops.op_table import HBM, HOST, READ, WRITE, MemoryAccess, OpTable
from fastprof.derive.ops.roofline_model import (
    count_transfers_once,
    list_ceilings,
    mark_transfers,
    measure_efficiency,
    place_unknown_bytes,
)

US = 1_000_000
TPU = Peaks("TPU", "TPU v6 Lite", 1.0, (100.0,) * 7)
TO_HOST = "%copy-done.5 = f32[8]{0:T(8,128)S(5)} copy-done((f32[8]{0:T(8,128)S(5)}, f32[8]{0}, u32[]{:S(2)}) %begin.7)"


def table(*names: str, memory: tuple[tuple[int, int, int, float], ...] = (), **columns: Any) -> OpTable:
    row, way, space, size = zip(*memory, strict=True) if memory else ((), (), (), ())
    accesses = MemoryAccess(
        np.array(row, np.int32), np.array(way, np.uint8), np.array(space, np.int64), np.array(size, float)
    )
    return OpTable.of(names, memory=accesses, **columns)


@pytest.mark.parametrize(
    ("category", "name", "wanted"),
    [
        ("copy-start", "copy-start.1", True),
        ("copy-done", "copy-done.1", True),
        ("", "all-reduce-done.3.remat2", True),
        ("send", "send.1", True),
        ("host recv", "recv.1", True),
        ("infeed", "infeed.2", True),
        ("host outfeed", "x", True),
        ("copy", "copy-start-of-day", False),
        ("all-reduce", "all-reduce.1", False),
        ("convolution", "sender.1", False),
    ],
)
def test_starts_ends_sends_and_feeds_wait(category: str, name: str, wanted: bool) -> None:
    assert mark_transfers(table(name, category=[category])).tolist() == [wanted]


def test_copies_to_the_host_wait() -> None:
    there = table("copy.1", "copy.2", category=["copy", "copy"], memory=((1, 0, HOST, 8.0),))
    assert mark_transfers(there).tolist() == [False, True]


def test_what_waits_has_no_time_to_win_at_a_roofline() -> None:
    bounds = measure_efficiency(
        table("copy-done.1", "add.1", category=["copy-done", "loop fusion"], time_ps=[US] * 2, self_ps=[US] * 2,
              bytes_accessed=[1e4] * 2, flops_source=[1] * 2),
        list_ceilings(TPU),
    )  # fmt: skip
    assert bounds.bound_by == [None, "HBM"]
    assert np.isnan(bounds.lost_ps).tolist() == np.isnan(bounds.efficiency).tolist() == [True, False]


# ---- where bytes go


def test_an_op_of_an_empty_breakdown_moved_nothing_of_hbm() -> None:
    ops = table("copy-done.5", "add.1", "dot.1", long_name=[TO_HOST, "", ""], bytes_accessed=[32, 8, 16],
                 tells_memories=[True, True, False])  # fmt: skip
    found = place_unknown_bytes(ops)
    assert found.hbm_bytes().tolist() == [0, 0, 16]
    assert found.moved_bytes(HOST).tolist() == [32, 0, 0]
    assert (found.hbm_bytes() <= found.bytes_accessed).all()


def test_an_op_whose_layouts_are_the_host_s_moved_nothing_of_hbm() -> None:
    assert place_unknown_bytes(table("copy-done.5", long_name=[TO_HOST], bytes_accessed=[32])).hbm_bytes().tolist() == [
        0
    ]


def test_where_a_breakdown_is_reported_it_counts() -> None:
    ops = table("copy-start.5", long_name=[TO_HOST], bytes_accessed=[32], memory=((0, READ, HBM, 32.0),))
    assert place_unknown_bytes(ops) is ops


# ---- start and end


def test_of_a_transfer_that_start_and_end_both_record_bytes_count_once() -> None:
    names, categories = ("begin.7", "copy-done.5", "add"), ["copy-start", "copy-done", "x"]
    ops = table(*names, category=categories, long_name=["", TO_HOST, ""], bytes_accessed=[32, 32, 5])
    assert count_transfers_once(ops).bytes_accessed.tolist() == [0, 32, 5]


def test_of_each_memory_the_larger_figure_counts() -> None:
    memory = ((0, READ, HBM, 32.0), (1, WRITE, HBM, 30.0), (0, WRITE, HOST, 32.0), (1, WRITE, HOST, 30.0))
    names = ("copy-start.5", "copy-done.5")
    ops = table(*names, category=["copy-start", "copy-done"], bytes_accessed=[32, 30], memory=memory)
    found = count_transfers_once(ops)
    assert found.bytes_accessed.sum() == 32
    assert found.memory.bytes.tolist() == [32, 30, 2, 30]


@pytest.mark.parametrize("sizes", [[32, 0], [0, 32]])
def test_where_one_of_both_records_bytes_they_stay(sizes: list[int]) -> None:
    ops = table("copy-start.5", "copy-done.5", category=["copy-start", "copy-done"], bytes_accessed=sizes)
    assert count_transfers_once(ops) is ops


def test_transfers_of_other_programs_are_others() -> None:
    ops = table("copy-start.5", "copy-done.5", program_id=[1, 2], bytes_accessed=[32, 32])
    assert count_transfers_once(ops) is ops
