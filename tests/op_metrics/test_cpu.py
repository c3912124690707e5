"""Ops of what XLA compiled for the CPU: which thread ran which instruction, for how long, and what it did."""

from __future__ import annotations

from pathlib import Path

from hlo_builder import Op, Program, f32
from trace_builder import Event, Metadata, Plane, Value, event, line, plane, u64, xspace

import fastprof
from fastprof.derive.host import Host
from fastprof.derive.ops.device_ops import READS, HostDeviceOps, sum_host_device_ops
from fastprof.derive.ops.op_table import FROM_HLO, HBM, READ, WRITE
from fastprof.derive.ops.roofline_tables import find_event_ops
from fastprof.hlo import METADATA_STATS
from fastprof.tables.host_reader import read_host

STATS = tuple(dict.fromkeys(Host.GROUPING.stats + READS.stats + READS.stats_with_gpus))


def program() -> bytes:
    made = Program("jit_f")
    body = made.computation("body", Op("p", "parameter", f32(10)), Op("neg.1", "negate", f32(10), ["p"]))
    made.entry(
        Op("x", "parameter", f32(10)),
        Op("while.1", "while", f32(10), ["x"], calls=[body, body]),
        Op("tanh.2", "tanh", f32(10), ["x"], op_name="jit(f)/tanh"),
        Op("mystery.3", "custom-call", f32(10), ["x"], target="?"),
    )
    return made.proto()


PROGRAMS = plane("/host:metadata", event_metadata=[Metadata("jit_f(3)", 3, stats={"Hlo Proto": program()})])


def thunk(name: str, begin: int, end: int, program_id: int | None = 3) -> Event:
    known: dict[str | int, Value] = {"hlo_op": name, "hlo_module": "jit_f"}
    if program_id is not None:
        known["program_id"] = u64(program_id)
    return event(name, begin, end - begin, known)


def host_of(*planes: Plane) -> Host:
    profile = fastprof.load(xspace(PROGRAMS, *planes))
    return Host(read_host(profile.table_set, 0, (), STATS, METADATA_STATS), profile.table_set.session.workers)


def ops_of(*threads: list[Event]) -> HostDeviceOps:
    lines = [line(f"pool/{i}", events, id=i + 1) for i, events in enumerate(threads)]
    return sum_host_device_ops(host_of(plane("/host:CPU", lines)))


def test_what_runs_within_another_takes_from_its_time() -> None:
    ops = ops_of([thunk("while.1", 0, 100), thunk("neg.1", 10, 30), thunk("neg.1", 40, 60), event("end: neg.1", 65, 1)])
    table = ops.ops.table
    assert table.name == ["while.1", "neg.1"] and table.program_id.tolist() == [3, 3]
    assert table.time_ps.tolist() == [100, 40] and table.self_ps.tolist() == [60, 40]
    assert table.occurrences.tolist() == [1, 2] and table.min_ps.tolist() == [100, 20]
    assert (ops.hardware, ops.ops.total_ps, ops.ops.idle_ps) == ("CPU_ONLY", 100, 0)
    assert [name for name, _ in ops.by_device] == ["/host:CPU"] and ops.titles == {3: "jit_f(3)"}


def test_threads_are_lines_of_one_device() -> None:
    found = ops_of([thunk("tanh.2", 0, 10)], [thunk("neg.1", 5, 15), thunk("neg.1", 30, 40)])
    ops = found.ops
    assert (ops.op_ps, ops.overlapped_ps, ops.busy_ps, ops.idle_ps, ops.total_ps) == (30, 5, 25, 15, 40)


def test_programs_record_what_instructions_are_and_what_they_do() -> None:
    table = ops_of(
        [thunk(name, 10 * i, 10 * i + 5) for i, name in enumerate(("tanh.2", "while.1", "mystery.3", "gone"))]
    )
    table = table.ops.table
    assert table.category == ["non-fusion elementwise", "while", "custom-call", ""]
    assert table.provenance == ["jit(f)/tanh:", "", "", ""]
    assert table.long_name[0] == "%tanh.2 = f32[10]{0} tanh(f32[10]{0} %x)"
    assert table.flops.tolist() == [10, 0, 0, 0] and table.flops_source.tolist() == [FROM_HLO, 0, 0, 0]
    assert table.bytes_accessed.tolist() == [80, 0, 0, 0] and table.bytes_source.tolist() == [FROM_HLO, 0, 0, 0]
    assert table.moved_bytes(HBM, READ).tolist() == table.moved_bytes(HBM, WRITE).tolist() == [40, 0, 0, 0]
    assert table.attribution == table.unattributed == [""] * 4


def test_an_instruction_of_no_program_is_an_op_by_itself() -> None:
    table = ops_of([thunk("tanh.2", 0, 5, None), thunk("tanh.2", 10, 15)]).ops.table
    assert list(zip(table.program_id.tolist(), table.name, strict=True)) == [(0, "tanh.2"), (3, "tanh.2")]


def test_threads_that_ran_no_programs_are_no_device() -> None:
    ops = ops_of([event("main", 0, 10)])
    assert ops.ops.parts == 0 and ops.by_device == ()


def test_on_a_host_with_a_gpu_the_gpu_is_the_device() -> None:
    gpu = plane("/device:GPU:0", [line("Stream", [event("k", 0, 10)])], id=2)
    ops = sum_host_device_ops(host_of(gpu, plane("/host:CPU", [line("t", [thunk("tanh.2", 0, 5)])])))
    assert ops.hardware == "GPU" and ops.ops.table.name == ["k"]


def test_each_event_leads_to_its_op() -> None:
    host = host_of(plane("/host:CPU", [line("t", [event("e", 0, 1), thunk("while.1", 2, 50), thunk("neg.1", 10, 30)])]))
    (threads,) = (one for one in host.raw.planes if one.name == "/host:CPU")
    events, times, op, table = find_event_ops(host, threads)
    assert [table.name[row] for row in op.tolist()] == ["while.1", "neg.1"]
    assert events.start_ps[times.rows].tolist() == times.start_ps.tolist() == [2, 10]
    assert times.duration_ps.tolist() == [48, 20] and times.self_ps.tolist() == [28, 20]


def test_a_training_on_the_cpu(captures: Path) -> None:
    profile = fastprof.load(captures / "xspace" / "cpu-jax-train")
    host = Host(read_host(profile.table_set, 0, (), STATS, METADATA_STATS), profile.table_set.session.workers)
    found = sum_host_device_ops(host).ops
    assert (len(found.table), found.op_ps, found.overlapped_ps) == (22, 42_287_136_000, 0)
    dots = dict(zip(found.table.name, found.table.flops.tolist(), strict=True))
    assert dots["dot.3"] == 11 * 2 * 64 * 128 * 128
    assert found.table.flops_source.tolist().count(FROM_HLO) == 22
