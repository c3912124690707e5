"""Ops of TPU cores: how events nest, which op they are of, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from trace_builder import Event, Line, Metadata, Value, event, int_field, len_field, line, plane, u64, xspace

import fastprof
from fastprof.derive.devices.device_events import list_op_events
from fastprof.derive.ops import tpu_cores
from fastprof.derive.ops.op_table import CMEM, HBM, READ, SPARSE_CORE, TENSOR_CORE, WRITE, Ops, OpTable
from fastprof.derive.ops.tpu_cores import SparseCores
from fastprof.errors import CaptureError
from fastprof.tables.host_events import HostEvents
from fastprof.tables.host_reader import read_host
from fastprof.xprof import counted_ops
from fastprof.xprof.counted_ops import XprofSparseCores


def op(name: str, symbol: int = 1, program: int = 7, display: str = "", **stats: Value) -> Metadata:
    known: Mapping[str | int, Value] = {"program_id": u64(program), "symbol_id": u64(symbol), **stats}
    return Metadata(name, display_name=display, stats=known)


FUSION = op("%fusion = f32[]", 1, display="fusion", hlo_category="loop fusion", flops=u64(10), bytes_accessed=u64(4))
WHILE = op("%while = f32[]", 2, display="while", hlo_category="while")
COPY = op("%copy = f32[]", 3, display="copy", hlo_category="copy")


def on_device(name: str, start: int, duration: int, late: int, **stats: Any) -> Event:
    """An event that the host saw ``late`` after the device."""
    times = {"device_offset_ps": start, "device_duration_ps": duration}
    return event(name, start + late, duration, times | stats)


def core(*lines: Line, metadata: tuple[Metadata, ...] = (FUSION, WHILE, COPY), name: str = "/device:TPU:0") -> Any:
    return plane(name, lines, event_metadata=metadata)


def ops_line(*events: Event) -> Line:
    return line("XLA Ops", list(events), id=3)


def read(*planes: Any) -> HostEvents:
    tables = fastprof.load(xspace(*planes))._tables
    return read_host(tables, 0, (), ("group_id", *tpu_cores.EVENT_STATS), tpu_cores.METADATA_STATS)


def found(*planes: Any) -> tuple[Ops, Ops]:
    """The ops of the first core, ours and as XProf counts them."""
    events = read(*planes)
    core = events.planes_of("TPU")[0]
    return tpu_cores.sum_core_ops(events, core), counted_ops.count_core_ops(events, core)


def times(table: OpTable) -> dict[str, tuple[int, int, int]]:
    """Occurrences, time and self time by name."""
    columns = (table.occurrences.tolist(), table.time_ps.tolist(), table.self_ps.tolist())
    return dict(zip(table.name, zip(*columns, strict=True), strict=True))


# ---- nesting and time


def test_an_op_takes_its_time_from_the_one_around_it() -> None:
    ops, _ = found(core(ops_line(event(WHILE.name, 0, 100), event(FUSION.name, 10, 20), event(FUSION.name, 30, 20))))
    assert times(ops.table) == {"while": (1, 100, 60), "fusion": (2, 40, 40)}
    assert (ops.total_ps, ops.op_ps, ops.idle_ps, ops.parts) == (100, 100, 0, 1)


def test_the_device_s_clock_counts() -> None:
    ops, _ = found(
        core(ops_line(on_device(FUSION.name, 100, 10, 5), event(COPY.name, 200, 10, {"device_offset_ps": 1})))
    )
    assert times(ops.table) == {"fusion": (1, 10, 10), "copy": (1, 10, 10)}
    assert ops.total_ps == 110


def test_events_nest_in_the_order_of_the_device_whatever_the_host_s_is() -> None:
    ops, _ = found(core(ops_line(on_device(FUSION.name, 20, 10, -19), on_device(WHILE.name, 0, 100, 2))))
    assert times(ops.table) == {"fusion": (1, 10, 10), "while": (1, 100, 90)}


def test_of_equal_starts_on_the_device_the_longer_op_is_around_the_shorter() -> None:
    first = on_device(COPY.name, 200, 5, -199)
    same = (on_device(FUSION.name, 10, 10, 0), on_device(WHILE.name, 10, 100, 1))
    ops, _ = found(core(ops_line(first, *same)))
    assert times(ops.table) == {"copy": (1, 5, 5), "fusion": (1, 10, 10), "while": (1, 100, 90)}


def test_xprof_takes_overlapping_ops_twice_from_the_one_around_them() -> None:
    events = (event(WHILE.name, 0, 100), event(FUSION.name, 10, 30), event(COPY.name, 30, 30))
    ops, xprof = found(core(ops_line(*events)))
    assert times(ops.table)["while"] == (1, 100, 50)
    assert times(xprof.table)["while"] == (1, 100, 40)


def test_steps_belong_to_the_span_of_a_core_and_other_lines_do_not() -> None:
    steps, modules = line("Steps", [event("0", 5, 200)], id=1), line("XLA Modules", [event("m", 0, 999)], id=2)
    ops, _ = found(core(ops_line(event(FUSION.name, 50, 10)), steps, modules))
    assert (ops.total_ps, ops.op_ps) == (200, 10)


def test_a_core_that_recorded_nothing_idles_for_a_picosecond_with_xprof() -> None:
    ops, xprof = found(core(line("XLA Modules", [event("m", 0, 999)], id=2)))
    assert (ops.total_ps, xprof.total_ps, ops.parts) == (0, 1, 1)


def test_to_xprof_the_host_s_times_of_framework_ops_belong_to_the_span() -> None:
    named = op("%dot = f32[]", 4, display="dot", tf_op="jit(f)/dot:")
    ops, xprof = found(core(ops_line(on_device("%dot = f32[]", 100, 10, 7)), metadata=(named,)))
    assert (ops.total_ps, xprof.total_ps) == (10, 17)
    ops, xprof = found(core(ops_line(on_device(FUSION.name, 100, 10, 7))))
    assert (ops.total_ps, xprof.total_ps) == (10, 10)


def test_negative_durations_count_as_none() -> None:
    ops, _ = found(core(ops_line(event(FUSION.name, 10, -5), event(COPY.name, 20, 5))))
    assert times(ops.table) == {"fusion": (1, 0, 0), "copy": (1, 5, 5)}


def test_times_that_do_not_add_up_are_refused() -> None:
    far = 2**62
    with pytest.raises(CaptureError, match="do not add up in 64 bits"):
        found(core(ops_line(*(event(FUSION.name, n, far + n) for n in range(3)))))


# ---- what an op is


def test_an_op_is_what_program_and_symbol_of_its_metadata_say() -> None:
    metadata = (
        op("%a = f32[]", 1, display="a"),
        op("%b = f32[]", 1, display="never shown"),  # the same symbol
        op("%c", 2, program=2**64 - 1),  # without a display name
        op("%d", 0, display="no symbol"),
        Metadata("%e", display_name="no ids"),
    )
    ops, _ = found(core(ops_line(*(event(one.name, 10 * n, 5) for n, one in enumerate(metadata))), metadata=metadata))
    assert times(ops.table) == {"a": (2, 10, 10), "%c": (1, 5, 5)}
    assert ops.table.long_name == ["%a = f32[]", ""]
    assert ops.table.program_id.tolist() == [7, -1]


def test_work_is_that_of_the_metadata_times_occurrences() -> None:
    model = op("%m", 5, display="m", flops=u64(3), model_flops=u64(8))
    ops, _ = found(core(ops_line(event(FUSION.name, 0, 5), event(FUSION.name, 10, 5), event("%m", 20, 5)),
                        metadata=(FUSION, model)))  # fmt: skip
    assert ops.table.flops.tolist() == [20, 3]
    assert ops.table.model_flops.tolist() == [20, 8]
    assert ops.table.bytes_accessed.tolist() == [8, 0]


def access(operation: int, space: int, count: int) -> bytes:
    return len_field(1, int_field(1, operation) + int_field(2, space) + int_field(3, count))


def test_bytes_divide_over_memories_as_the_metadata_says() -> None:
    breakdown = access(1, HBM, 100) + access(2, HBM, 10) + access(1, CMEM, 5) + access(1, CMEM, 1) + access(9, 77, 2)
    ops, _ = found(
        core(
            ops_line(event("%a", 0, 5), event("%a", 10, 5), event(FUSION.name, 20, 5)),
            metadata=(op("%a", 9, memory_access_breakdown=breakdown), FUSION),
        )
    )
    table = ops.table
    assert table.hbm_bytes().tolist() == [220, 4]  # the fusion records no memories: all its bytes
    assert table.moved_bytes(CMEM, READ).tolist() == [12, 0]
    assert table.moved_bytes(HBM, WRITE).tolist() == [20, 0]
    assert table.moved_bytes(77).tolist() == [4, 0]
    assert table.has_breakdown().tolist() == [True, False]


@pytest.mark.parametrize("cut", range(1, 9))
def test_a_breakdown_that_is_cut_off_records_what_comes_before(cut: int) -> None:
    whole, second = access(1, HBM, 100), access(2, HBM, 10)
    breakdown = whole + second[:-cut]
    ops, _ = found(core(ops_line(event("%a", 0, 5)), metadata=(op("%a", 9, memory_access_breakdown=breakdown),)))
    assert ops.table.hbm_bytes().tolist() == [100]


def test_what_else_metadata_record() -> None:
    metadata = op("%a", 1, display="a", tf_op="x:Mul", deduplicated_name="b", source="f.py:12", source_stack="f\ng")
    ops, _ = found(core(ops_line(event("%a", 0, 5)), metadata=(metadata,)))
    table = ops.table
    assert (table.provenance, table.deduplicated_name, table.source_stack) == (["x:Mul"], ["b"], ["f\ng"])
    assert (table.source_file, table.source_line.tolist()) == (["f.py"], [12])


@pytest.mark.parametrize("source", ["f.py", "f.py:", "f.py:x", "f.py:1:2", ":3²", "f.py:99999999999"])
def test_a_source_without_a_line_is_not_known(source: str) -> None:
    ops, _ = found(core(ops_line(event("%a", 0, 5)), metadata=(op("%a", 1, source=source),)))
    assert (ops.table.source_file, ops.table.source_line.tolist()) == ([""], [-1])


def test_stats_of_events_add_up() -> None:
    ops, _ = found(
        core(
            ops_line(
                event(FUSION.name, 0, 10, {"Time Scale Multiplier": 0.55, "dma_stall_duration_ps": 3}),
                event(FUSION.name, 20, 10, {"min_duration_ps": 2, "vdd_energy_j": 0.5}),
                event(FUSION.name, 40, 10, {"vdd_energy_j": float("nan")}),
            )
        )
    )
    table = ops.table
    assert table.normalized_ps.tolist() == [25]  # 5 + 10 + 10
    assert (table.dma_stall_ps.tolist(), table.min_ps.tolist(), table.energy_j.tolist()) == ([3], [2], [0.5])
    assert ops.normalized_op_ps == 25
    assert table.core_type.tolist() == [TENSOR_CORE]


# ---- SparseCores


def offloaded(core_id: int, start_id: int) -> dict[str | int, Value]:
    return {"offload_core_id": u64(core_id), "tc_offload_start_id": u64(start_id)}


def test_what_a_sparse_core_runs_for_an_op_is_its_child() -> None:
    gather = op("%gather = f32[]", 5, display="gather", hlo_category="custom-call", flops=u64(6))
    sparse = core(
        line("Sparse Core Modules", [event("m", 0, 50, offloaded(4, 1)), event("m", 60, 40, offloaded(4, 2)),
                                     event("m", 200, 50)], id=1),
        line("Sparse Core Ops", [event(gather.name, 0, 10), event(gather.name, 30, 30), event(gather.name, 70, 20),
                                 event(gather.name, 210, 5)], id=2),
        metadata=(gather,), name="/device:TPU:0 SparseCore 0",
    )  # fmt: skip
    tensor = core(
        ops_line(
            event(COPY.name, 0, 5),
            event(WHILE.name, 10, 20, offloaded(4, 1)),
            event(WHILE.name, 40, 20, offloaded(4, 2)),
            event(FUSION.name, 70, 20, offloaded(5, 2)),
        )
    )
    events = read(tensor, sparse)
    planes = events.planes_of("TPU")
    own = [tpu_cores.sum_core_ops(events, one) for one in planes]
    (ops,) = SparseCores(events).children_of(planes, own)
    assert ops.children is not None and ops.parent is not None
    # the second gather crosses the end of its module, the last is in one that serves nobody
    assert times(ops.children) == {"gather": (2, 30, 30)}
    assert [ops.table.name[row] for row in ops.parent.tolist()] == ["while"]
    assert (ops.children.core_type.tolist(), ops.children.flops.tolist()) == ([SPARSE_CORE], [12])
    assert ops.total_ps == own[0].total_ps


def test_to_xprof_only_the_first_occurrence_counts_and_the_time_between_is_a_child() -> None:
    moved = len_field(1, int_field(1, READ) + int_field(2, HBM) + int_field(3, 8))
    gather = op("%gather = f32[]", 5, display="gather", hlo_category="gather", memory_access_breakdown=moved)
    sparse = core(
        line("Sparse Core Modules", [event("m", 0, 50, offloaded(4, 1)), event("m", 50, 50, offloaded(4, 2))], id=1),
        line(
            "Sparse Core Ops", [event(gather.name, 0, 10), event(gather.name, 20, 5), event(gather.name, 60, 20)], id=2
        ),
        metadata=(gather,),
        name="/device:TPU:0 SparseCore 0",
    )
    twice = [event(WHILE.name, start, 20, offloaded(4, key)) for start, key in ((10, 1), (40, 2))]
    events = read(core(ops_line(*twice)), sparse)
    planes = events.planes_of("TPU")
    own = [tpu_cores.sum_core_ops(events, one) for one in planes]
    (ops,) = XprofSparseCores(events).children_of(planes, own)
    assert ops.children is not None
    assert times(ops.children) == {"gather": (2, 15, 15), "IDLE": (0, 35, 35)}
    assert ops.children.moved_bytes(HBM, READ).tolist() == [16, 0]
    (ours,) = SparseCores(events).children_of(planes, own)
    assert ours.children is not None and times(ours.children) == {"gather": (3, 35, 35)}


def test_to_xprof_what_begins_as_one_module_ends_and_the_next_begins_is_in_none() -> None:
    gather = op("%gather = f32[]", 5, display="gather", hlo_category="gather")
    sparse = core(
        line("Sparse Core Modules", [event("m", 0, 50, offloaded(4, 1)), event("m", 50, 50, offloaded(4, 2))], id=1),
        line("Sparse Core Ops", [event(gather.name, 50, 10), event(gather.name, 70, 5)], id=2),
        metadata=(gather,),
        name="/device:TPU:0 SparseCore 0",
    )
    events = read(core(ops_line(event(WHILE.name, 0, 20, offloaded(4, 2)))), sparse)
    planes = events.planes_of("TPU")
    own = [tpu_cores.sum_core_ops(events, one) for one in planes]
    for kind, occurrences in ((XprofSparseCores, 1), (SparseCores, 2)):
        (ops,) = kind(events).children_of(planes, own)
        assert ops.children is not None and times(ops.children)["gather"][0] == occurrences


def test_without_sparse_cores_there_are_no_children() -> None:
    events = read(core(ops_line(event(FUSION.name, 0, 5, offloaded(1, 1)))))
    planes = events.planes_of("TPU")
    own = [tpu_cores.sum_core_ops(events, one) for one in planes]
    assert SparseCores(events).children_of(planes, own) == own


# ---- events, as the steps take them


def test_op_events_are_computed_once_and_in_the_order_of_rows() -> None:
    events = read(
        core(ops_line(event(WHILE.name, 0, 100), event(FUSION.name, 10, 20)), line("Steps", [event("0", 0, 9)]))
    )
    (only,) = events.planes_of("TPU")
    ops = list_op_events(events, only)
    assert list_op_events(events, only) is ops
    assert np.array_equal(ops.rows, np.sort(ops.rows)) and len(ops) == 2
    assert (ops.duration_ps.tolist(), ops.self_ps.tolist()) == ([100, 20], [80, 20])
    assert [events.names[row] for row in ops.meta.tolist()] == [WHILE.name, FUSION.name]
