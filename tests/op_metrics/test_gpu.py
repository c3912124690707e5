"""Ops of GPUs: which op a kernel belongs to, and what the ops of a device add up to."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hlo_builder import Op, Program, f32
from trace_builder import Event, Line, Metadata, Plane, Value, event, line, plane, u64, xspace

import fastprof
from fastprof.derive.host import Host
from fastprof.derive.ops.device_ops import GPU_STATS
from fastprof.derive.ops.gpu_attribution import sum_gpu_ops
from fastprof.derive.ops.op_table import FROM_HLO, HBM, READ, WRITE, Ops
from fastprof.errors import CaptureError
from fastprof.hlo import METADATA_STATS
from fastprof.tables.host_reader import read_host
from fastprof.xprof import gpu_ops

STATS = tuple(dict.fromkeys(Host.GROUPING.stats + GPU_STATS))


def program() -> bytes:
    """negate.1: 30 flops, 80 bytes; free.1 costs nothing."""
    made = Program("jit_f")
    made.entry(
        Op("x", "parameter", f32(10)),
        Op("negate.1", "negate", f32(10), ["x"], op_name="jit(f)/neg"),
        Op("free.1", "custom-call", f32(10), ["x"], target="mystery"),
    )
    return made.proto()


def programs(*ids: int) -> Plane:
    entries = [Metadata(f"jit_f({id})", id, stats={"Hlo Proto": program()}) for id in ids]
    return plane("/host:metadata", event_metadata=entries)


def kernel(
    start: int, duration: int, hlo_op: str | None = None, program_id: int | None = None, **stats: Value
) -> Event:
    known: dict[str | int, Value] = dict(stats.items())
    if hlo_op is not None:
        known["hlo_op"] = hlo_op
    if program_id is not None:
        known["program_id"] = u64(program_id)
    return event(str(known.pop("kernel", "kernel")), start, duration, known)


def gpu(*lines: Line, number: int = 0) -> Plane:
    return plane(f"/device:GPU:{number}", lines, id=number + 1)


def ops_of(*planes: Plane, as_xprof: bool = False) -> list[Ops]:
    profile = fastprof.load(xspace(*planes))
    host = Host(read_host(profile.table_set, 0, (), STATS, METADATA_STATS), profile.table_set.session.workers)
    if as_xprof:
        return gpu_ops.list_gpu_ops(host.events, host.groups, host.modules)
    return sum_gpu_ops(host.events, host.is_eager, host.modules)


def one_gpu(*events: Event, as_xprof: bool = False) -> Ops:
    (found,) = ops_of(programs(3, 4), gpu(line("Stream #1", events)), as_xprof=as_xprof)
    return found


def rows(ops: Ops, *columns: str) -> list[tuple[Any, ...]]:
    values = [getattr(ops.table, column) for column in ("program_id", "name", *columns)]
    return list(zip(*(v if isinstance(v, list) else v.tolist() for v in values), strict=True))


# ---- kernels of compiled programs


def test_kernels_of_an_instruction_are_one_op() -> None:
    ops = one_gpu(kernel(0, 5, "negate.1", 3), kernel(10, 7, "negate.1", 3), kernel(20, 1, "negate.1", 4))
    assert rows(ops, "occurrences", "time_ps", "self_ps") == [(3, "negate.1", 2, 12, 12), (4, "negate.1", 1, 1, 1)]
    assert ops.table.category == ["non-fusion elementwise"] * 2 and ops.table.provenance == ["jit(f)/neg:"] * 2
    assert ops.table.cores.tolist() == [1, 1]


def test_work_is_that_of_all_kernels() -> None:
    ops = one_gpu(kernel(0, 5, "negate.1", 3), kernel(10, 7, "negate.1", 3))
    assert rows(ops, "flops", "model_flops", "bytes_accessed") == [(3, "negate.1", 60.0, 60.0, 160.0)]
    assert ops.table.moved_bytes(HBM, READ).tolist() == [80.0] == ops.table.moved_bytes(HBM, WRITE).tolist()


def test_of_several_names_the_last_is_the_instruction() -> None:
    ops = one_gpu(kernel(0, 5, "a::b::negate.1", 3), kernel(9, 1, "negate.1", 3), kernel(20, 1, "negate.1::", 3))
    assert rows(ops, "occurrences") == [(3, "negate.1", 2), (3, "kernel", 1)]  # the last name of three is empty


def test_what_events_report_work_counts_where_the_program_records_nothing() -> None:
    recorded = {"flops": 100, "bytes_accessed": u64(7)}
    ops = one_gpu(
        kernel(0, 5, "negate.1", 3, **recorded),
        kernel(10, 5, "free.1", 3, **recorded),
        kernel(20, 5, "free.1", 3),
        kernel(30, 5, "free.1", 3, flops=11, bytes_accessed=2.5),  # a double is not a count
    )
    assert rows(ops, "flops", "model_flops", "bytes_accessed") == [
        (3, "negate.1", 30.0, 30.0, 80.0),
        (3, "free.1", 111.0, 111.0, 7.0),
    ]
    assert ops.table.has_breakdown().tolist() == [True, False]


def test_program_ids_are_64_bits_wide() -> None:
    large = 2**64 - 5
    (found,) = ops_of(
        plane("/host:metadata", event_metadata=[Metadata(f"f({large})", 1, stats={"Hlo Proto": program()})]),
        gpu(line("Stream #1", [kernel(0, 5, "negate.1", large)])),
    )
    assert rows(found) == [(-5, "negate.1")]


@pytest.mark.parametrize(
    "unknown",
    [
        kernel(0, 5, "negate.1", 9),
        kernel(0, 5, "missing", 3),
        kernel(0, 5, "negate.1"),
        kernel(0, 5, "negate.1", 9, tf_op="a:B"),
    ],
    ids=["program", "instruction", "no program id", "with a framework op"],
)
def test_kernels_of_unknown_instructions_are_ops_without_known_work(unknown: Event) -> None:
    ops = one_gpu(unknown, kernel(10, 5, "negate.1", 3))
    assert isinstance(unknown.stats, Mapping)
    stats: Mapping[Any, Any] = unknown.stats
    program_id = stats["program_id"].value if "program_id" in stats else 0
    assert rows(ops) == [(program_id, stats["hlo_op"]), (3, "negate.1")]
    assert (ops.total_ps, ops.op_ps) == (15, 10)
    assert ops.table.category == ["", "non-fusion elementwise"] and ops.table.unattributed == ["", ""]
    assert ops.table.flops_source.tolist() == [0, FROM_HLO] == ops.table.bytes_source.tolist()


def test_to_xprof_they_are_no_ops_but_part_of_the_span() -> None:
    ops = one_gpu(kernel(0, 5, "missing", 3), kernel(10, 5, "negate.1", 3), as_xprof=True)
    assert rows(ops) == [(3, "negate.1")] and (ops.total_ps, ops.op_ps) == (15, 5)


# ---- kernels of frameworks


def test_kernels_of_a_framework_op_are_ops_by_kernel() -> None:
    ops = one_gpu(
        kernel(0, 5, tf_op="a/b:MatMul", kernel="gemm"),
        kernel(10, 7, tf_op="a/b:MatMul", kernel="gemm"),
        kernel(20, 1, tf_op="a/b:MatMul", kernel="reduce"),
        kernel(30, 2, "", tf_op="what is this", kernel="k"),
        kernel(40, 2, tf_op=""),
        kernel(50, 2),
    )
    assert rows(ops, "occurrences", "time_ps", "flops") == [
        (0, "a/b/gemm", 2, 12, 0.0),
        (0, "a/b/reduce", 1, 1, 0.0),
        (0, "what is this/k", 1, 2, 0.0),
        (0, "kernel", 2, 4, 0.0),
    ]
    assert ops.table.category == ["MatMul", "MatMul", "unknown", "kernel"]
    assert ops.table.provenance == ["a/b:MatMul", "a/b:MatMul", "what is this", ""]


def test_an_op_is_eager_where_one_of_its_kernels_is() -> None:
    stats = {"group_id": 0, "is_eager": 1}
    ops = one_gpu(
        kernel(0, 5, tf_op="a:A"),
        kernel(9, 5, tf_op="a:A", **stats),
        kernel(20, 5, tf_op="b:B", group_id=0, is_eager=0),
    )
    assert rows(ops, "is_eager") == [(0, "a/kernel", True), (0, "b/kernel", False)]


def test_energy_adds_up() -> None:
    ops = one_gpu(kernel(0, 5, "negate.1", 3, vdd_energy_j=0.5), kernel(9, 5, "negate.1", 3, vdd_energy_j=1.25))
    assert ops.table.energy_j.tolist() == [1.75]


# ---- as XProf counts


def test_to_xprof_a_run_of_one_name_in_one_group_is_of_the_first_kernels_program() -> None:
    kernels = [kernel(10 * i, 5, "negate.1", program, group_id=0) for i, program in enumerate([3, 4, 4, 3])]
    assert rows(one_gpu(*kernels), "occurrences") == [(3, "negate.1", 2), (4, "negate.1", 2)]
    assert rows(one_gpu(*kernels, as_xprof=True), "occurrences") == [(3, "negate.1", 4)]


@pytest.mark.parametrize(
    "between",
    [kernel(15, 1, "free.1", 3, group_id=0), kernel(15, 1, tf_op="a:A", group_id=0), None],
    ids=["another instruction", "a framework op", "another group"],
)
def test_to_xprof_such_a_run_ends_where_anything_else_runs(between: Event | None) -> None:
    first, second = kernel(10, 5, "negate.1", 3, group_id=0), kernel(20, 5, "negate.1", 4, group_id=0 if between else 1)
    ops = one_gpu(*(one for one in (first, between, second) if one), as_xprof=True)
    wanted = [(3, "negate.1", 1), (4, "negate.1", 1)]
    assert [row for row in rows(ops, "occurrences") if row[1] == "negate.1"] == wanted


def test_to_xprof_kernels_without_a_group_make_no_run_and_unknown_ones_end_none() -> None:
    apart = [kernel(10 * i, 5, "negate.1", program) for i, program in enumerate([3, 4])]
    assert rows(one_gpu(*apart, as_xprof=True), "occurrences") == [(3, "negate.1", 1), (4, "negate.1", 1)]
    kernels = [
        kernel(0, 5, "negate.1", 3, group_id=0),
        kernel(9, 1, "gone", 3),
        kernel(20, 5, "negate.1", 4, group_id=0),
    ]
    assert rows(one_gpu(*kernels, as_xprof=True), "occurrences") == [(3, "negate.1", 2)]


def test_to_xprof_the_last_kernel_that_reports_work_speaks_for_its_run() -> None:
    recorded = [(100, 0), (None, 0), (7, 0), (None, 0), (50, 1)]  # flops and group
    kernels = [
        kernel(10 * i, 5, "free.1", 3, group_id=group, **({} if flops is None else {"flops": flops}))
        for i, (flops, group) in enumerate(recorded)
    ]
    assert one_gpu(*kernels).table.flops.tolist() == [157.0]
    assert one_gpu(*kernels, as_xprof=True).table.flops.tolist() == [4 * 7 + 50.0]


def test_to_xprof_an_op_is_eager_where_its_first_kernel_is() -> None:
    kernels = [kernel(10 * i, 5, "negate.1", 3, group_id=i, is_eager=eager) for i, eager in enumerate([0, 1])]
    assert one_gpu(*kernels).table.is_eager.tolist() == [True]
    assert one_gpu(*kernels, as_xprof=True).table.is_eager.tolist() == [False]


def test_xprof_counts_a_gpu_without_ops_as_we_do() -> None:
    (found,) = ops_of(programs(3), gpu(line("Stream", [kernel(0, 5)])), as_xprof=True)
    assert len(found.table) == 0 and found.total_ps == 5


# ---- totals


def test_each_gpu_is_measured_against_its_own_span() -> None:
    first = gpu(line("a", [kernel(100, 5, "negate.1", 3)]), line("b", [kernel(150, 10)]))
    second = gpu(line("a", [kernel(0, 9, "negate.1", 3), kernel(5, 9, "free.1", 3)]), number=1)
    third = gpu(number=2)
    found = ops_of(programs(3), first, second, third)
    assert [(ops.total_ps, ops.op_ps, ops.idle_ps) for ops in found] == [(60, 15, 45), (14, 18, 0), (0, 0, 0)]
    assert [len(ops.table) for ops in found] == [2, 2, 0]
    counted = ops_of(programs(3), first, second, third, as_xprof=True)
    assert [(ops.total_ps, ops.op_ps, ops.idle_ps) for ops in counted] == [(60, 5, 55), (18, 18, 0), (0, 0, 0)]


def test_time_of_lines_that_run_at_once_counts_once_as_busy() -> None:
    lines = [line("a", [kernel(0, 10, "negate.1", 3)]), line("b", [kernel(5, 10), kernel(40, 1)])]
    (found,) = ops_of(programs(3), gpu(*lines))
    assert (found.total_ps, found.op_ps, found.overlapped_ps) == (41, 21, 5)
    assert (found.busy_ps, found.idle_ps) == (16, 25)


def test_a_kernel_within_another_of_its_line_takes_from_its_time() -> None:
    ops = one_gpu(kernel(0, 10, "negate.1", 3), kernel(2, 3, "free.1", 3))
    assert rows(ops, "time_ps", "self_ps") == [(3, "negate.1", 10, 7), (3, "free.1", 3, 3)]
    assert (ops.op_ps, ops.overlapped_ps, ops.total_ps) == (10, 0, 10)


def test_lines_that_were_derived_count_for_nothing() -> None:
    derived = [line("Steps", [kernel(0, 999, "negate.1", 3)], id=0xDEADBEEF + k) for k in (0, 388)]
    (found,) = ops_of(programs(3), gpu(*derived, line("Stream", [kernel(5, 6, "negate.1", 3)], id=0xDEADBEEF + 389)))
    assert rows(found, "time_ps") == [(3, "negate.1", 6)] and found.total_ps == 6


def test_a_host_without_gpus_has_no_device_ops() -> None:
    assert ops_of(programs(3), plane("/host:CPU", [line("t", [kernel(0, 5, "negate.1", 3)])])) == []


def test_durations_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(CaptureError, match="64 bits"):
        one_gpu(*(kernel(0, 2**62, "negate.1", 3) for _ in range(3)))


# ---- executions of several kernels


def launched(*names: str, op: str = "negate.1") -> list[Event]:
    return [kernel(10 * place, 5, op, 3, kernel=name) for place, name in enumerate(names)]


@pytest.mark.parametrize(
    ("names", "executions"),
    [
        (["a"], 1),
        (["a", "a", "a"], 3),  # of one name each is an execution
        (["a", "b"], 1),
        (["a", "b", "a", "b"], 2),
        (["a", "a", "b", "a", "a", "b"], 2),  # one launches a twice
        (["b", "a", "b"], 1),  # the capture began within the first
    ],
)
def test_an_execution_may_be_several_kernels(names: list[str], executions: int) -> None:
    ops = one_gpu(*launched(*names))
    assert rows(ops, "occurrences", "executions") == [(3, "negate.1", len(names), executions)]
    assert (ops.table.flops[0], ops.table.bytes_accessed[0]) == (30 * executions, 80 * executions)
    assert ops.table.hbm_bytes()[0] == 80 * executions
    assert one_gpu(*launched(*names), as_xprof=True).table.flops[0] == 30 * len(names)


def test_what_runs_between_kernels_of_an_op_ends_its_execution() -> None:
    other = kernel(15, 1, "free.1", 3)
    ops = one_gpu(
        *launched("a"), other, *(kernel(20 + i, 1, "negate.1", 3, kernel=name) for i, name in enumerate("ab"))
    )
    assert rows(ops, "occurrences", "executions") == [(3, "negate.1", 3, 2), (3, "free.1", 1, 1)]


def test_each_line_has_executions_of_its_own() -> None:
    (found,) = ops_of(programs(3), gpu(line("Stream #1", launched("a")), line("Stream #2", launched("b"))))
    assert rows(found, "executions") == [(3, "negate.1", 2)]


# ---- against a slow model


NEGATIONS = {(3, "negate.1"), (4, "negate.1")}


@dataclass
class Sum:
    occurrences: int = 0
    executions: int = 0
    time_ps: int = 0
    recorded_flops: int = 0
    eager: bool = False
    kernels: set[str] = field(default_factory=set)


def in_order(events: list[Event]) -> list[Event]:
    return sorted(events, key=lambda one: (one.offset_ps, -one.duration_ps))


def slow_ops(lines: list[list[Event]]) -> dict[tuple[int, str], Sum]:
    found: dict[tuple[int, str], Sum] = {}
    runs: list[tuple[tuple[int, tuple[int, str]], list[str]]] = []
    for number, one in ((number, one) for number, events in enumerate(lines) for one in in_order(events)):
        assert isinstance(one.stats, Mapping)
        stats: Mapping[Any, Any] = one.stats
        hlo, op = stats.get("hlo_op"), stats.get("tf_op")
        if hlo:
            key = (stats["program_id"].value if "program_id" in stats else 0, hlo.split("::")[-1])
        elif op:
            key = (0, f"{op.partition(':')[0]}/{one.name}")
        else:
            key = (stats["program_id"].value if "program_id" in stats else 0, one.name)
        total = found.setdefault(key, Sum())
        if not runs or runs[-1][0] != (number, key):
            runs.append(((number, key), []))
        runs[-1][1].append(one.name)
        total.occurrences += 1
        total.time_ps += one.duration_ps
        total.recorded_flops += stats.get("flops", 0) if hlo else 0  # of kernels of frameworks none are read
    for (_, key), names in runs:
        found[key].executions += min(names.count(name) for name in names)
    return found


def random_kernels(dice: random.Random, start: int) -> list[Event]:
    events = []
    for _ in range(dice.randint(0, 60)):
        stats: dict[str, Any] = {"kernel": dice.choice(["k1", "k2"])}
        if dice.random() < 0.5:
            stats["tf_op"] = dice.choice(["a/b:MatMul", "c:Add", ""])
        if dice.random() < 0.3:
            stats["flops"] = dice.randint(0, 1000)
        hlo = dice.choice([None, "", "negate.1", "free.1", "q::negate.1", "x", "gone"])
        events.append(kernel(start, dice.randint(0, 50), hlo, dice.choice([None, 3, 4, 5]), **stats))
        start += dice.randint(0, 60)
    return events


def test_random_kernels_add_up_as_one_by_one() -> None:
    dice = random.Random(11)
    for _ in range(40):
        lines = [random_kernels(dice, dice.randint(0, 500)) for _ in range(dice.randint(1, 3))]
        (found,) = ops_of(programs(3, 4), gpu(*(line(f"Stream #{i}", events) for i, events in enumerate(lines))))
        wanted = slow_ops(lines)
        table = found.table
        assert set(zip(table.program_id.tolist(), table.name, strict=True)) == set(wanted)
        for i, key in enumerate(zip(table.program_id.tolist(), table.name, strict=True)):
            one = wanted[key]
            assert (table.occurrences[i], table.time_ps[i]) == (one.occurrences, one.time_ps)
            assert table.executions[i] == one.executions
            assert table.flops[i] == (30 * one.executions if key in NEGATIONS else one.recorded_flops)
        every = [one for events in lines for one in events]
        span = max(e.offset_ps + e.duration_ps for e in every) - min(e.offset_ps for e in every) if every else 0
        assert found.op_ps == int(table.self_ps.sum())
        assert found.total_ps == span
        assert found.busy_ps == len({t for e in every for t in range(e.offset_ps, e.offset_ps + e.duration_ps)})


# ---- real captures


def test_ops_of_an_mi300x(captures: Path) -> None:
    profile = fastprof.load(captures / "xspace" / "gpu-mi300x-jax-conv-minimal-08")
    host = Host(read_host(profile.table_set, 0, (), STATS, METADATA_STATS), profile.table_set.session.workers)
    found = sum_gpu_ops(host.events, host.is_eager, host.modules)
    assert len(found) == 8 and sum(ops.total_ps for ops in found) == 832_149_873_000
    assert sum(ops.op_ps for ops in found) == 28_137_077_000
    counted = gpu_ops.list_gpu_ops(host.events, host.groups, host.modules)
    assert sum(ops.op_ps for ops in counted) == 27_550_676_000
