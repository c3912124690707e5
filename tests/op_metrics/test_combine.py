"""Ops of several cores and hosts as one table, by framework op, ranked, and measured against the device."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from fastprof.derive.devices.device_peaks import Peaks
from fastprof.derive.ops.op_columns import (
    find_ops_without_work,
    group_by_framework_op,
    is_training_op,
    list_names_without_work,
)
from fastprof.derive.ops.op_table import (
    CMEM,
    HBM,
    IDLE,
    READ,
    VMEM,
    WRITE,
    MemoryAccess,
    Ops,
    OpTable,
    merge_ops,
    rank_with_idle,
)
from fastprof.derive.ops.roofline_model import compute_rates
from fastprof.errors import CaptureError
from fastprof.xprof import counted_ops


def moved(*rows: tuple[int, int, int, float]) -> MemoryAccess:
    """row, operation, space, bytes."""
    columns = zip(*rows, strict=True)
    types = (np.int32, np.uint8, np.int64, np.float64)
    return MemoryAccess(*(np.array(column, dtype) for column, dtype in zip(columns, types, strict=True)))


def named(name: str, time: int = 0, **columns: Any) -> Ops:
    table = OpTable.of([name], time_ps=[time], self_ps=[time], **{key: [value] for key, value in columns.items()})
    return Ops(table, total_ps=time + 1, op_ps=time)


# ---- several as one


def test_figures_of_one_op_add_up() -> None:
    first = named("a", 10, program_id=1, occurrences=2, flops=3.0, min_ps=4, cores=1, category="x", is_eager=False)
    second = named("a", 5, program_id=1, occurrences=1, flops=1.0, min_ps=2, cores=1, category="y", is_eager=True)
    ops = merge_ops([first, second])
    table = ops.table
    assert (ops.total_ps, ops.op_ps, ops.parts) == (17, 15, 2)
    assert (table.time_ps.tolist(), table.occurrences.tolist(), table.flops.tolist()) == ([15], [3], [4])
    assert (table.min_ps.tolist(), table.cores.tolist(), table.is_eager.tolist()) == ([2], [2], [True])
    assert table.category == ["x"]


def test_ops_of_other_programs_or_names_stay_apart_in_the_order_met() -> None:
    ops = merge_ops([named("b", 1, program_id=1), named("a", 1, program_id=1), named("b", 1, program_id=2)])
    assert list(zip(ops.table.program_id.tolist(), ops.table.name, strict=True)) == [(1, "b"), (1, "a"), (2, "b")]


def test_of_texts_the_first_that_is_there_counts_and_a_source_is_whole() -> None:
    first = named("a", provenance="", source_line=3)
    second = named("a", provenance="p:T", source_file="f.py", source_line=12)
    third = named("a", provenance="q:T", source_file="g.py", source_line=1)
    table = merge_ops([first, second, third]).table
    assert (table.provenance, table.source_file, table.source_line.tolist()) == (["p:T"], ["f.py"], [12])


def test_nothing_observed_adds_nothing_and_one_alone_is_itself() -> None:
    alone = named("a", 5)
    assert merge_ops([Ops.none(), alone, Ops.none()]) is alone
    assert merge_ops([]).parts == 0 and merge_ops([Ops.none()]).total_ps == 0


def test_cores_of_hosts_need_not_add_up() -> None:
    assert merge_ops([named("a", cores=2), named("a", cores=3)], add_cores=False).table.cores.tolist() == [3]


def test_children_go_where_their_parents_go() -> None:
    def with_child(parent: str, child: str) -> Ops:
        table = OpTable.of(["other", parent])
        return Ops(table, children=OpTable.of([child], time_ps=[5]), parent=np.array([1], np.int32))

    ops = merge_ops([with_child("a", "x"), with_child("b", "x"), with_child("a", "x")])
    assert ops.children is not None and ops.parent is not None
    parents = [ops.table.name[row] for row in ops.parent.tolist()]
    assert list(zip(parents, ops.children.name, ops.children.time_ps.tolist(), strict=True)) == [
        ("a", "x", 10),
        ("b", "x", 5),
    ]


def test_to_xprof_children_are_those_of_the_first_part_with_any() -> None:
    def with_child(parent: str, child: str, time: int) -> Ops:
        return Ops(OpTable.of([parent]), children=OpTable.of([child], time_ps=[time]), parent=np.array([0], np.int32))

    parts = [named("a"), with_child("a", "x", 1), with_child("a", "y", 2), with_child("b", "x", 4)]
    ops = counted_ops.combine_ops(parts)
    assert ops.children is not None
    assert list(zip(ops.children.name, ops.children.time_ps.tolist(), strict=True)) == [("x", 1), ("x", 4)]


def test_bytes_that_are_not_divided_are_those_of_hbm_beside_some_that_are() -> None:
    divided = Ops(OpTable.of(["a"], bytes_accessed=[100.0], memory=moved((0, READ, CMEM, 70.0), (0, READ, HBM, 30.0))))
    silent = named("a", bytes_accessed=11.0)
    assert merge_ops([divided, silent]).table.hbm_bytes().tolist() == [41]
    assert merge_ops([silent, named("b", bytes_accessed=2.0)]).table.hbm_bytes().tolist() == [11, 2]


def test_totals_that_do_not_fit_are_refused() -> None:
    with pytest.raises(CaptureError, match="do not add up in 64 bits"):
        merge_ops([named("a", 2**62), named("a", 2**62)])
    with pytest.raises(CaptureError, match="do not add up in 64 bits"):
        merge_ops([named("a", 2**62), named("b", 2**62)])


# ---- by framework op


def instructions() -> OpTable:
    return OpTable.of(
        ["fusion.1", "fusion.2", "copy.1", "odd"],
        provenance=["jit(f)/dot:", "jit(f)/dot:dot_general", "", "no colon"],
        occurrences=[4, 9, 2, 1],
        time_ps=[10, 20, 5, 1],
        self_ps=[10, 15, 5, 1],
        flops=[1, 2, 0, 0],
        is_eager=[True, False, False, False],
    )


def test_an_op_that_records_no_type_takes_the_category_of_its_first_instruction() -> None:
    """Those of TPUs often name only the path of the framework op. XProf calls them Unknown."""
    table = OpTable.of(
        ["fusion.1", "copy.2", "all-reduce.3", "fusion.4"],
        provenance=["jit(f)/layer/dot", "jit(f)/layer/dot", "", "jit(f)/add:"],
        category=["convolution fusion", "copy-done", "all-reduce", "loop fusion"],
        occurrences=[1, 1, 1, 1],
        time_ps=[1, 1, 1, 1],
        self_ps=[1, 1, 1, 1],
    )
    assert group_by_framework_op(table).category == ["convolution fusion", "all-reduce", "add"]
    assert counted_ops.merge_framework_ops(table).category == ["Unknown", "Unknown", "add"]


def test_instructions_of_one_framework_op_are_one_row() -> None:
    table = group_by_framework_op(instructions())
    assert list(zip(table.name, table.category, strict=True)) == [
        ("jit(f)/dot", "dot"),
        ("copy.1", "Unknown"),
        ("no colon", "Unknown"),
    ]
    assert (table.time_ps.tolist(), table.self_ps.tolist()) == ([30, 5, 1], [25, 5, 1])
    assert table.occurrences.tolist() == [13, 2, 1]
    assert table.is_eager.tolist() == [True, False, False]
    assert counted_ops.merge_framework_ops(instructions()).occurrences.tolist() == [9, 2, 1]


def test_the_work_of_a_library_call_without_any_is_not_known() -> None:
    table = OpTable.of(
        ["dot.1", "call.2", "call.3", "infeed.4"],
        category=["dot", "custom-call", "custom-call", "infeed"],
        provenance=["jit(f)/dot:dot", "jit(f)/dot:dot", "", ""],
        self_ps=[5, 5, 5, 5],
        flops=[8.0, 0.0, 7.0, 0.0],
    )
    assert find_ops_without_work(table).tolist() == [False, True, False, False]
    assert list_names_without_work(table) == {"jit(f)/dot"}


def test_the_work_of_a_kernel_of_an_unknown_op_is_not_known() -> None:
    table = OpTable.of(["sgemm", "MemcpyH2D", "relu"], category=["kernel", "copy", "kernel"], self_ps=[5, 5, 0],
                       bytes_accessed=[0, 8, 0])  # fmt: skip
    assert find_ops_without_work(table).tolist() == [True, False, False]


def test_to_xprof_the_last_instruction_says_whether_an_op_is_eager() -> None:
    assert counted_ops.find_eager(instructions()) == {"jit(f)/dot": False, "copy.1": False, "no colon": False}


@pytest.mark.parametrize(
    ("name", "kind", "training"),
    [
        ("gradient_tape/model/dense/MatMul", "MatMul", True),
        ("gradients_1/dense/MatMul_grad", "MatMul", True),
        ("model/dense/gradient_tape", "MatMul", False),  # the last component is the op itself
        ("model/dense/MatMul", "MatMul", False),
        ("jit(f)/transpose(jvp(g))/mul", "mul", True),
        ("jit(f)/jvp(g)/mul", "mul", False),
        ("jit(f)/transpose(jvp(g))/fusion", "mul", False),  # the type is not that of the last component
        ("jit(f)/transpose(jvp(g))/mul", "", True),
        ("jit(f)/mul/transpose", "transpose", False),
    ],
)
def test_ops_of_backpropagation_report_training(name: str, kind: str, training: bool) -> None:
    assert is_training_op(name, kind) is training


# ---- ranks and shares


def some() -> Ops:
    table = OpTable.of(["b", "a", "c"], self_ps=[20, 20, 60], time_ps=[20, 20, 60])
    return Ops(table, total_ps=200, op_ps=100)


def test_the_most_expensive_comes_first_then_by_name_idle_time_among_them() -> None:
    ops = rank_with_idle(some())
    assert ops.table.name == [IDLE, "c", "a", "b"]
    assert ops.table.self_ps.tolist() == [100, 60, 20, 20]
    assert ops.is_idle.tolist() == [True, False, False, False]


def test_shares_are_of_all_time_and_of_the_time_of_ops() -> None:
    ops = rank_with_idle(some())
    assert ops.self_share.tolist() == [0.5, 0.3, 0.1, 0.1]
    assert ops.cumulative_self_share.tolist() == pytest.approx([0.5, 0.8, 0.9, 1.0])
    assert math.isnan(ops.busy_share[0]) and ops.busy_share[1:].tolist() == [0.6, 0.2, 0.2]
    assert ops.cumulative_busy_share[1:].tolist() == pytest.approx([0.6, 0.8, 1.0])


def test_where_nothing_was_observed_nothing_idles() -> None:
    assert len(rank_with_idle(Ops.none())) == 0


def test_an_idle_thread_without_time_has_no_shares() -> None:
    ops = rank_with_idle(Ops(OpTable.empty()))
    assert ops.table.name == [IDLE] and math.isnan(ops.self_share[0])


# ---- against the device

TPU = Peaks("TPU", "TPU", 1.0, (1000.0, 0.0, 0.0, 500.0, 0.0, 100.0, 50.0))
GPU = Peaks("GPU", "GPU", 1.0, (1000.0, 500.0, 500.0))


def bound(peaks: Peaks | None, *accesses: tuple[int, int, int, float], flops: float = 0, size: float = 0) -> str:
    memory = moved(*accesses) if accesses else None
    table = OpTable.of(["a"], time_ps=[1_000_000], flops=[flops], bytes_accessed=[size], memory=memory)
    return compute_rates(table, peaks).bound_by[0]


def test_rates_are_over_total_time() -> None:
    table = OpTable.of(["a"], time_ps=[2_000], self_ps=[1], flops=[6.0], model_flops=[8.0], bytes_accessed=[3.0])
    by_kind = compute_rates(table, None)
    assert [part.tolist() for part in (by_kind.gflops, by_kind.model_gflops, by_kind.gigabytes, by_kind.intensity)] == [
        [3.0],
        [4.0],
        [1.5],
        [2.0],
    ]


def test_without_time_or_bytes_rates_are_0() -> None:
    by_kind = compute_rates(OpTable.of(["a"], flops=[6.0]), TPU)
    assert (by_kind.gflops.tolist(), by_kind.intensity.tolist(), by_kind.bound_by) == ([0.0], [0.0], ["Unknown"])


def test_an_op_is_bound_by_what_it_comes_nearest_to_exhaust() -> None:
    assert bound(TPU, flops=600e3, size=500e3) == "Compute"
    assert bound(TPU, flops=400e3, size=500e3) == "HBM"
    assert bound(TPU, flops=500e3, size=500e3) == "Compute"  # the first of equal ones
    assert bound(TPU) == "Unknown" and bound(None, flops=1.0) == "Unknown"


def test_memories_of_a_tpu_count_by_direction_where_their_peak_is_known() -> None:
    assert bound(TPU, (0, READ, CMEM, 400e3), (0, READ, HBM, 100e3)) == "CMEM Read"
    assert bound(TPU, (0, WRITE, CMEM, 400e3), (0, READ, HBM, 100e3)) == "HBM"
    assert bound(TPU, (0, READ, VMEM, 40e3), (0, WRITE, VMEM, 30e3)) == "VMEM Write"
    assert bound(GPU, (0, READ, CMEM, 400e3)) == "Unknown"


def test_shared_memory_of_a_gpu_is_taken_to_move_what_hbm_does() -> None:
    assert bound(GPU, size=100e3) == "Shm/L1"
    fast = Peaks("GPU", "GPU", 1.0, (1000.0, 0.0, 2000.0))
    assert bound(fast, size=100e3) == "HBM"


# ---- the table itself


def test_a_column_that_is_none_is_refused() -> None:
    with pytest.raises(TypeError, match="no column speed"):
        OpTable.of(["a"], speed=[1])


def test_taken_rows_take_their_memory_along() -> None:
    table = OpTable.of(["a", "b", "c"], memory=moved((0, READ, HBM, 1.0), (2, READ, HBM, 3.0)))
    assert table.take(np.array([2, 1])).moved_bytes(HBM).tolist() == [3.0, 0.0]
