"""Work of TPU ops that the capture does not record, from the programs that it carries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hlo_builder import Op, Program, f32, shape, tuple_of
from trace_builder import Metadata, Value, aggregated, event, line, plane, u64, xspace

import fastprof
from fastprof.derive.host import Host
from fastprof.derive.ops.device_ops import READS, sum_host_device_ops
from fastprof.derive.ops.op_table import FROM_CAPTURE, FROM_HLO, HBM, OTHER_SPACES, READ, VMEM, WRITE, OpTable
from fastprof.derive.ops.roofline_model import fill_missing_work, parse_instruction_name
from fastprof.derive.ops.roofline_tables import find_event_ops
from fastprof.hlo import METADATA_STATS as HLO_STATS
from fastprof.hlo.programs import Modules
from fastprof.tables.host_reader import read_host

STATS = tuple(dict.fromkeys(Host.GROUPING.stats + READS.stats + READS.stats_with_gpus))


def program() -> bytes:
    made = Program("jit_f")
    near, smem = shape("f32", 10, space=1), shape("f32", 10, space=3)
    made.entry(
        Op("x", "parameter", f32(10)),
        Op("tanh.2", "tanh", near, ["x"]),
        Op("copy.3", "copy", smem, ["tanh.2"]),
        Op("call.4", "custom-call", f32(10), ["x"], target="?"),
        Op("copy-start.5", "copy-start", tuple_of(f32(10), f32(10)), ["x"]),
        Op("copy-done.5", "copy-done", f32(10), ["copy-start.5"]),
        Op("send.6", "send", f32(10), ["x"]),
    )
    return made.proto()


PROGRAMS = plane("/host:metadata", event_metadata=[Metadata("jit_f(7)", 7, stats={"Hlo Proto": program()})])


def op(name: str, symbol: int, **stats: Value) -> Metadata:
    return Metadata(
        f"%{name} = f32[10]", display_name=name, stats={"program_id": u64(7), "symbol_id": u64(symbol), **stats}
    )


def host_of(*metadata: Metadata, times: int = 2) -> Host:
    events = [event(one.name, 10 * i + 100 * k, 5) for k in range(times) for i, one in enumerate(metadata)]
    core = plane("/device:TPU:0", [line("XLA Ops", events)], event_metadata=list(metadata), id=1)
    profile = fastprof.load(xspace(core, PROGRAMS))
    stats = tuple(dict.fromkeys(READS.metadata_stats + HLO_STATS))
    return Host(read_host(profile.table_set, 0, (), STATS, stats), profile.table_set.session.workers)


def table_of(*metadata: Metadata) -> OpTable:
    return sum_host_device_ops(host_of(*metadata)).ops.table


def test_what_the_capture_does_not_record_the_program_does() -> None:
    table = table_of(op("tanh.2", 1), op("copy.3", 2, flops=u64(0)), op("gone.9", 3))
    assert table.flops.tolist() == table.model_flops.tolist() == [20, 0, 0]
    assert table.flops_source.tolist() == [FROM_HLO, FROM_CAPTURE, 0]
    assert table.bytes_accessed.tolist() == [160, 160, 0] and table.bytes_source.tolist() == [FROM_HLO, FROM_HLO, 0]


def test_bytes_of_programs_divide_over_memory_spaces() -> None:
    table = table_of(op("tanh.2", 1), op("copy.3", 2))
    assert table.moved_bytes(HBM, READ).tolist() == [80, 0] and table.moved_bytes(VMEM, WRITE).tolist() == [80, 0]
    assert table.moved_bytes(VMEM, READ).tolist() == [0, 80]
    assert table.moved_bytes(OTHER_SPACES + 3, WRITE).tolist() == [0, 80]


def test_what_the_capture_records_counts_even_where_it_is_0() -> None:
    table = table_of(op("tanh.2", 1, flops=u64(0), bytes_accessed=u64(0)))
    assert table.flops.tolist() == table.bytes_accessed.tolist() == [0]
    assert table.flops_source.tolist() == table.bytes_source.tolist() == [FROM_CAPTURE]
    assert len(table.memory.row) == 0


def test_a_custom_call_that_records_nothing_is_not_known() -> None:
    silent = op("call.4", 1, hlo_category="custom-call", flops=u64(0), bytes_accessed=u64(0))
    recording = op("call.5", 2, hlo_category="custom-call", flops=u64(3), bytes_accessed=u64(4))
    table = table_of(silent, recording, op("call.6", 3))
    assert table.flops_source.tolist() == table.bytes_source.tolist() == [0, FROM_CAPTURE, 0]


def test_the_parts_of_asynchronous_instructions_have_no_work_of_their_own() -> None:
    table = table_of(*(op(name, i) for i, name in enumerate(("copy-start.5", "copy-done.5", "send.6", "tanh.2"), 1)))
    assert table.bytes_source.tolist() == [0, 0, 0, FROM_HLO]


class Unread(Modules):
    def __init__(self) -> None:
        pass

    def __len__(self) -> int:
        return 1

    def module(self, program_id: int) -> Any:
        raise AssertionError(f"program {program_id} is read")


def test_no_program_is_read_where_nothing_is_missing() -> None:
    sources = np.full(3, FROM_CAPTURE)
    table = OpTable.of(["a", "b", "c"], flops_source=sources, bytes_source=sources)
    assert fill_missing_work(table, Unread()) is table
    call = OpTable.of(["a"], category=["custom-call"])
    assert fill_missing_work(call, Unread()) is call
    with pytest.raises(AssertionError, match="program 0 is read"):
        fill_missing_work(OpTable.of(["a"], bytes_source=[FROM_CAPTURE]), Unread())


def test_an_op_may_be_called_by_all_the_text_of_its_instruction() -> None:
    assert [parse_instruction_name(one) for one in ("%a.1 = f32[] b(%c)", "a.1", "%a")] == ["a.1", "a.1", "a"]


def test_each_event_of_a_core_leads_to_its_op() -> None:
    host = host_of(op("tanh.2", 1), Metadata("no op"), op("copy.3", 2))
    events, times, ops, table = find_event_ops(host, host.raw.planes_of("TPU")[0])
    names = [None if one < 0 else table.name[one] for one in ops.tolist()]
    assert names == ["tanh.2", None, "copy.3"] * 2
    assert times.start_ps.tolist() == [0, 10, 20, 100, 110, 120] == events.start_ps[times.rows].tolist()


def test_events_that_record_no_time_are_reported() -> None:
    metadata = op("tanh.2", 1)
    events = [event(metadata.name, 0, 5), aggregated(metadata.name, 7, 30), aggregated(metadata.name, 2, 9)]
    steps = line("Steps", [aggregated("0", 1, 5)], id=2)
    core = plane("/device:TPU:0", [line("XLA Ops", events, id=1), steps], event_metadata=[metadata], id=1)
    profile = fastprof.load(xspace(core, PROGRAMS))
    stats = tuple(dict.fromkeys(READS.metadata_stats + HLO_STATS))
    ops = sum_host_device_ops(
        Host(read_host(profile.table_set, 0, (), STATS, stats), profile.table_set.session.workers)
    )
    assert ops.ops.table.occurrences.tolist() == [1]
    assert ops.problems == (
        "2 events of /device:TPU:0 record how often an op occurred, but not when (aggregated events): "
        "they are not counted",
    )
