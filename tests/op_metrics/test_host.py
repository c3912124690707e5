"""Ops of host threads: which events are ops, and what they add up to."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pytest
from trace_builder import Event, Line, event, line, plane, ref, xspace

import fastprof
from fastprof._native.op_kernels import SIZES
from fastprof.decode.workers import Workers
from fastprof.derive.ops import host_ops as ops_module
from fastprof.derive.ops.host_ops import HostOps, ThreadOps, sum_host_ops
from fastprof.derive.ops.op_table import Ops
from fastprof.errors import CaptureError
from fastprof.tables.host_events import HostEvents
from fastprof.tables.host_reader import read_host

Row = tuple[str, str, int, int, int]
"""name, type, occurrences, time and self time."""


def read(*lines: Line, name: str = "/host:CPU") -> HostEvents:
    tables = fastprof.load(xspace(plane(name, lines)))._tables
    return read_host(tables, 0, (), ops_module.EVENT_STATS, ())


def found(*lines: Line, threads: int = 2, eager: Sequence[int] = (), name: str = "/host:CPU") -> HostOps:
    events = read(*lines, name=name)
    is_eager = np.zeros(len(events), np.uint8)
    is_eager[list(eager)] = 1
    return sum_host_ops(events, is_eager, Workers(threads))


def to_xprof(*lines: Line, threads: int = 2) -> Ops:
    events = read(*lines)
    return ThreadOps(events, np.zeros(len(events), np.uint8), Workers(threads)).stacked()[0]


def rows(ops: Ops) -> list[Row]:
    """In the order in which ops are first counted, which is when their first occurrence ends."""
    table = ops.table
    columns = (table.occurrences.tolist(), table.time_ps.tolist(), table.self_ps.tolist())
    return list(zip(table.name, table.category, *columns, strict=True))


def thread(*events: Event, number: int = 1) -> Line:
    return line(f"thread {number}", list(events), id=number)


# ---- which events are ops


def test_the_name_of_an_event_records_its_op() -> None:
    ops = found(
        thread(
            event("a/MatMul_1:MatMul", 0, 10),
            event("a/MatMul_1:", 20, 10),
            event("Iterator::Prefetch", 40, 10),
            event("jit(f)/dot:dot_general[dims=1]", 60, 10),
            event("MEMCPYHtoD", 80, 10),
            event("$main.py:12 run", 100, 10),
            event("ThreadpoolListener::Region", 120, 10),
        )
    )
    assert rows(ops.ops) == [
        ("a/MatMul_1", "MatMul", 2, 20, 20),
        ("Iterator::Prefetch", "Dataset", 1, 10, 10),
        ("jit(f)/dot", "dot_general", 1, 10, 10),
        ("MEMCPYHtoD", "MemcpyHToD", 1, 10, 10),
    ]


def test_the_first_type_of_an_op_counts() -> None:
    ops = found(thread(event("a:Mul", 0, 5), event("a:Add", 10, 5)), thread(event("a:Sub", 0, 1), number=2))
    assert rows(ops.ops) == [("a", "Mul", 3, 11, 11)]


def test_a_stage_of_an_input_pipeline_is_an_op_by_its_id() -> None:
    stage = {"_ipl_stage_id": 7, "_ipl_stage_cat": "read"}
    ops = found(
        thread(
            event("Read::File", 0, 10, stage),
            event("MatMul:MatMul", 20, 10, {"_ipl_stage_id": 7}),  # of the same stage, whatever it is called
            event("MatMul:MatMul", 40, 10, {"_ipl_stage_id": 8}),  # of a stage without a category
        )
    )
    assert rows(ops.ops) == [("Read::File", "read", 2, 20, 20)]
    assert ops.ops.table.program_id.tolist() == [7]


def test_the_stat_tf_op_names_a_second_op() -> None:
    ops = found(thread(event("cuLaunch", 0, 10, {"tf_op": ref("m:MatMul")}), event("x:Mul", 20, 10, {"tf_op": "odd"})))
    assert rows(ops.ops) == [("m", "MatMul", 1, 10, 10), ("x", "Mul", 1, 10, 0), ("odd", "", 1, 10, 10)]


def test_an_empty_tf_op_names_none() -> None:
    assert rows(found(thread(event("x:Mul", 0, 10, {"tf_op": ""}))).ops) == [("x", "Mul", 1, 10, 10)]


def test_other_planes_and_derived_lines_are_no_threads() -> None:
    assert found(thread(event("x:Mul", 0, 10)), name="/host:CUPTI").ops.parts == 0
    assert found(line("Steps", [event("x:Mul", 0, 10)], id=0xDEADBEEF + 3)).ops.parts == 0
    ops = found(thread(event("x:Mul", 0, 10)), line("Steps", [event("x:Mul", 0, 99)], id=0xDEADBEEF))
    assert rows(ops.ops) == [("x", "Mul", 1, 10, 10)] and ops.ops.parts == 1


def test_an_op_is_eager_where_one_occurrence_is() -> None:
    ops = found(thread(event("a:Mul", 0, 5), event("a:Mul", 10, 5), event("b:Mul", 20, 5)), eager=[1])
    assert ops.ops.table.is_eager.tolist() == [True, False]


# ---- what they add up to


def test_self_time_leaves_out_the_ops_within() -> None:
    ops = found(thread(event("a:A", 0, 100), event("b:B", 10, 50), event("c:C", 20, 10), event("b:B", 70, 5)))
    assert rows(ops.ops) == [("c", "C", 1, 10, 10), ("b", "B", 2, 55, 45), ("a", "A", 1, 100, 45)]
    assert ops.ops.table.min_ps.tolist() == [10, 5, 100]


def test_a_thread_is_observed_from_its_first_op_to_its_last() -> None:
    ops = found(
        thread(event("a:A", 100, 10), event("other", 0, 500), event("a:A", 200, 30)),
        thread(event("a:A", 0, 7), number=2),
        thread(event("nothing", 0, 1000), number=3),
    )
    assert (ops.ops.total_ps, ops.ops.op_ps, ops.ops.idle_ps, ops.ops.parts) == (137, 47, 90, 3)


def test_ops_beside_each_other_on_a_thread_are_at_least_its_time() -> None:
    ops = found(thread(event("a:A", 0, 100), event("b:B", 50, 100))).ops
    assert (ops.total_ps, ops.op_ps, ops.idle_ps) == (200, 200, 0)


def test_infeed_enqueues_are_timed_but_for_the_last_of_a_thread() -> None:
    def enqueue(start: int, duration: int) -> Event:
        return event("q:InfeedEnqueueTuple", start, duration)

    ops = found(thread(enqueue(0, 10), enqueue(50, 20), enqueue(90, 40)), thread(enqueue(0, 5), number=2)).ops
    assert (ops.infeed_enqueue_ps, ops.infeed_enqueue_start_diff_ps) == (30, 90)


def test_xprof_loses_an_op_that_ends_with_the_one_around_it() -> None:
    lines = [thread(event("a:A", 0, 100), event("b:B", 10, 90), event("c:C", 200, 5))]
    ops = found(*lines)
    assert rows(ops.ops) == [("a", "A", 1, 100, 10), ("b", "B", 1, 90, 90), ("c", "C", 1, 5, 5)]
    assert rows(to_xprof(*lines)) == [("a", "A", 1, 100, 100), ("c", "C", 1, 5, 5)]
    assert ops.crossing == 1


def test_where_xprof_loses_nothing_there_is_one_count() -> None:
    lines = [thread(event("a:A", 0, 100), event("b:B", 10, 20))]
    ops = found(*lines)
    assert rows(to_xprof(*lines)) == rows(ops.ops) and ops.crossing == 0


def test_negative_durations_count_as_none() -> None:
    assert rows(found(thread(event("a:A", 10, -5))).ops) == [("a", "A", 1, 0, 0)]


def test_times_that_do_not_add_up_are_refused() -> None:
    far = 2**62
    with pytest.raises(CaptureError, match="do not add up in 64 bits"):
        found(*(thread(event("a:A", 0, far + n), number=n + 1) for n in range(3)))
    with pytest.raises(CaptureError, match="do not add up in 64 bits"):
        found(thread(event("a:A", 0, far), event("a:A", 1, far + 1)))


# ---- against the definitions, one event at a time


def slowly(lines: Sequence[Sequence[Event]]) -> dict[str, list[int]]:
    """XProf's count: begins and ends in a stable order of time, and a stack."""
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for events in lines:
        marks = []
        for one in sorted(events, key=lambda e: (e.offset_ps, -e.duration_ps)):
            marks += [(one.offset_ps, "begin", one), (one.offset_ps + one.duration_ps, "end", one)]
        stack: list[list[object]] = []
        for time, side, one in sorted(marks, key=lambda mark: mark[0]):
            if side == "begin":
                stack.append([one, 0])
                continue
            inner = None
            while stack and inner is None:
                top = stack.pop()
                inner = top if top[0] is one else None
            if inner is not None:
                took = time - one.offset_ps
                sums[one.name][0] += 1
                sums[one.name][1] += took
                sums[one.name][2] += took - inner[1]
                if stack:
                    stack[-1][1] += took
    return sums


@pytest.mark.parametrize("threads", [1, 3])
def test_random_threads_are_counted_as_by_the_definition(threads: int) -> None:
    dice = random.Random(threads)
    for _ in range(60):
        lines = [
            [
                event(dice.choice(("a:A", "b:B", "c:C")), dice.randrange(80), dice.choice((0, 1, 5, 30, 60)))
                for _ in range(dice.randrange(25))
            ]
            for _ in range(dice.randrange(1, 5))
        ]
        made = [
            thread(*sorted(events, key=lambda e: (e.offset_ps, -e.duration_ps)), number=n + 1)
            for n, events in enumerate(lines)
        ]
        ops, stacked = found(*made, threads=threads), to_xprof(*made, threads=threads)
        wanted = {name.partition(":")[0]: sums for name, sums in slowly(lines).items()}
        assert {name: numbers for name, _, *numbers in rows(stacked)} == wanted
        every = sum(len(events) for events in lines)
        assert int(ops.ops.table.occurrences.sum()) == every
        assert int(stacked.table.occurrences.sum()) + ops.crossing == every


def test_one_thread_or_several_give_the_same() -> None:
    lines = [thread(*(event(f"op{n}:T", 10 * n, 5) for n in range(40)), number=k) for k in range(1, 9)]
    assert rows(found(*lines, threads=1).ops) == rows(found(*lines, threads=5).ops)


# ---- the structs that Python and C share


def test_structs_are_as_large_as_those_of_c() -> None:
    assert {name: getattr(ops_module, name).itemsize for name in SIZES} == SIZES and len(SIZES) == 3
