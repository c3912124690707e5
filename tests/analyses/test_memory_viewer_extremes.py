"""The memory viewer on programs whose sizes contradict each other, or are more than 64 bits count."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from gate import left_to_test_all
from hlo_builder import Op, Program, f32, tuple_of
from plan_builder import Plan
from reports import notices, rows
from trace_builder import Metadata, event, line, plane, xspace

import fastprof
from fastprof.analyses.contract import AnalysisReport
from fastprof.hlo.module import HloModule
from fastprof.hlo.program_memory import Heap, ProgramMemory

TPU = plane("/device:TPU:0", lines=[line("XLA Ops", [event("e", 0, 10)])])
MOST = 2**63 - 1
TOO_LARGE = "the sizes in its plan of memory add up to more than 64 bits can count"


def capture(*protos: bytes) -> bytes:
    entries = [Metadata(f"jit_f({n})", n, stats={"Hlo Proto": proto}) for n, proto in enumerate(protos, 1)]
    return xspace(TPU, plane("/host:metadata", event_metadata=entries))


def viewed(data: bytes | Path, **params: Any) -> AnalysisReport:
    return fastprof.load(data).report("memory_viewer", **params).answer


def a_heap(allocation: int, *sizes: int, parameter: int = 8) -> bytes:
    """A parameter, and buffers that are allocated one after another in one allocation of temporaries."""
    program = Program("jit_f")
    program.entry(Op("x", "parameter", f32(2)), *(Op(f"y.{n}", "add", f32(2)) for n in range(len(sizes))))
    plan = Plan(program)
    plan.allocation(parameter, [plan.buffer("x", parameter)], parameter=0)
    buffers = [plan.buffer(f"y.{n}", size) for n, size in enumerate(sizes)]
    plan.allocation(allocation, buffers)
    plan.trace(*(("alloc", one, "y.0") for one in buffers), *(("free", one, "y.0") for one in buffers))
    return program.proto(plan.proto())


def forms(data: bytes) -> None:
    """Each form of the report can be written."""
    report = fastprof.load(data).memory_viewer()
    assert report.to_text() and report.to_json() and report.to_svg()
    report.to_xprof()


@pytest.mark.parametrize(
    "proto",
    [a_heap(64, *[2**62 + 5] * 4), a_heap(MOST, 8), a_heap(8, 8, parameter=MOST), a_heap(8, MOST - 10, 4)],
    ids=["heap", "allocations", "parameter", "peak"],
)
def test_a_program_of_more_than_64_bits_is_refused_and_the_others_are_reported(proto: bytes) -> None:
    report = viewed(capture(proto, a_heap(64, 40)))
    assert report.scalars["module"].value == "jit_f(2)" and report.scalars["peak_bytes"].value == 48
    columns = "module", "peak_bytes", "allocated_bytes", "fragmentation_bytes", "reason"
    assert rows(report, "modules", *columns) == [
        ("jit_f(2)", 48, 72, 24, None),
        ("jit_f(1)", None, None, None, TOO_LARGE),
    ]
    assert f"The memory of the program jit_f(1) is unknown: {TOO_LARGE}." in notices(report)
    forms(capture(proto, a_heap(64, 40)))


def test_alone_such_a_program_records_its_parameters_and_why_there_is_no_more() -> None:
    data = capture(a_heap(64, *[2**62 + 5] * 4))
    report = viewed(data)
    assert report.scalars["peak_bytes"].value is None and report.scalars["peak_bytes"].reason == TOO_LARGE
    assert rows(report, "allocations", "category", "bytes") == [("Parameter", 8), ("Output", 8)]
    assert fastprof.load(data).memory_viewer().to_xprof() == "{}"
    forms(data)


def test_what_64_bits_just_count_is_exact() -> None:
    report = viewed(capture(a_heap(MOST // 2 - 8, MOST // 2 - 100, 92)))
    assert report.scalars["peak_bytes"].value == MOST // 2
    assert report.scalars["allocated_bytes"].value == MOST // 2


def test_a_large_buffer_that_is_named_often_counts_once_in_a_heap() -> None:
    program = Program("jit_f")
    program.entry(Op("y", "add", f32(2)))
    plan = Plan(program)
    y = plan.buffer("y", 2**60)
    plan.allocation(2**60, [y])
    plan.trace(*[("alloc", y, "y"), ("free", y, "y")] * 8)
    assert viewed(capture(program.proto(plan.proto()))).scalars["peak_bytes"].value == 2**60


def test_parameters_without_a_plan_that_64_bits_cannot_count_are_not_reported() -> None:
    program = Program("jit_f")
    program.entry(Op("x", "parameter", f32(2)), Op("y", "tuple", tuple_of(*[f32(2**60)] * 4)))
    data = capture(program.proto())
    assert rows(viewed(data), "allocations", "category", "bytes") == [("Parameter", 8), ("Output", None)]
    forms(data)


def test_sizes_below_0_count_as_0() -> None:
    data = capture(a_heap(-100 + 2**64, -100 + 2**64, 40, parameter=500))
    report = viewed(data)
    assert report.scalars["temporary_bytes"].value == 0 and report.scalars["parameter_bytes"].value == 500
    assert report.scalars["peak_bytes"].value == 540
    assert all(0 <= share <= 1 for (share,) in rows(report, "buffers_at_peak", "share"))
    assert "2 sizes in the plan of memory are below 0 and count as 0." in notices(report)
    tables = fastprof.load(data).tables
    assert tables["hlo_allocations"]["size_bytes"].to_pylist() == [500, None]
    assert tables["hlo_buffers"]["size_bytes"].to_pylist() == [500, None, 40]
    forms(data)


def test_buffers_that_do_not_fit_their_allocation_are_reported() -> None:
    report = viewed(capture(a_heap(64, 60, 70)))
    assert "1 buffer does not fit into its allocation: the plan contradicts itself." in notices(report)
    assert report.scalars["peak_bytes"].value == 8 + 130
    assert report.scalars["fragmentation_bytes"].value is None
    assert "more is in use at the peak than is allocated" in str(report.scalars["fragmentation_bytes"].reason)
    assert rows(report, "allocations", "peak_bytes", "fragmentation_bytes") == [(None, None), (130, None)]
    assert not [text for text in notices(viewed(capture(a_heap(64, 60, 64)))) if "not fit" in text]


# ---- many heaps


def many_heaps(count: int) -> bytes:
    """As many allocations of temporaries as buffers, each with a trace."""
    program = Program("jit_f")
    program.entry(*(Op(f"y.{n}", "add", f32(2)) for n in range(count)))
    plan = Plan(program)
    for n in range(count):
        buffer = plan.buffer(f"y.{n}", 8)
        plan.allocation(8, [buffer])
        plan.trace(("alloc", buffer, f"y.{n}"), ("free", buffer, f"y.{n}"))
    return program.proto(plan.proto())


def test_a_heap_keeps_what_its_trace_names_alone() -> None:
    memory = ProgramMemory(HloModule(memoryview(many_heaps(50))))
    heap = Heap(memory.buffers, 7, memory.at_least)
    assert heap.rows.tolist() == [7] and heap.owners.tolist() == [7] and heap.shown.tolist() == [7]
    assert heap.held.tolist() == [0] and heap.freed.tolist() == [1]
    assert heap.places(memory.instruction[[6, 7, 8]]).tolist() == [-1, 0, -1]
    assert [column.tolist() for column in heap.spans(memory.instruction[[7, 8]])] == [[0, -1], [1, -1]]


@left_to_test_all
def test_memory_grows_with_the_traces_and_not_with_their_square() -> None:
    taken = []
    for count in (400, 1600):
        data = capture(many_heaps(count))
        tracemalloc.start()
        report = viewed(data)
        taken.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert report.tables["heap"].num_rows == 2 * count and report.tables["lifetimes"].num_rows == count
        assert report.tables["lifetimes"]["start"].to_pylist() == [0] * count
    assert taken[1] < 6 * taken[0]
