"""Calls of tf.functions: their modes, their self times, and which are expensive."""

from __future__ import annotations

from trace_builder import Event, event, line, plane, xspace

import fastprof
from fastprof.derive.ops import host_op_stats
from fastprof.derive.ops.host_op_stats import CONCRETE, EAGER, INVALID, MIXED, NOT_TRACED, TRACED, XLA, TfFunction
from fastprof.tables.host_reader import read_host


def found(*threads: list[Event], plane_name: str = "/host:CPU") -> dict[str, TfFunction]:
    space = xspace(plane(plane_name, [line(f"thread {n}", thread) for n, thread in enumerate(threads)]))
    tables = fastprof.load(space)._tables
    events = read_host(tables, 0, (), host_op_stats.EVENT_STATS, ())
    return {one.name: one for one in host_op_stats.sum_tf_functions(events, tables.session.workers)}


def call(name: str, start: int, duration: int, mode: str, tracings: int = 0) -> Event:
    return event(name, start, duration, stats={"tf_function_call": mode, "tracing_count": tracings})


def test_calls_are_counted_by_mode_with_the_time_of_functions_within_left_out() -> None:
    thread = [
        call("outer", 0, 100, "traced-nonXla", 3),
        event("not a call", 5, 60),
        call("inner", 10, 40, "eager"),
        call("outer", 200, 10, "notTraced-nonXla", 2),
    ]
    functions = found(thread)
    assert functions["outer"].count == {TRACED: 1, NOT_TRACED: 1}
    assert functions["outer"].self_ps == {TRACED: 60, NOT_TRACED: 10}
    assert functions["outer"].tracings == 3
    assert functions["inner"].self_ps == {EAGER: 40}


def test_a_function_is_as_expensive_as_its_share_of_tracing_and_eager_time() -> None:
    thread = [call("f", 0, 30, "traced-xla"), call("f", 40, 20, "eager"), call("f", 70, 50, "concrete")]
    assert found(thread)["f"].expensive_percent == 50.0
    assert TfFunction("f", {}, {}).expensive_percent == 0.0


def test_calls_on_several_threads_are_one_function_and_its_compilers_mix() -> None:
    functions = found([call("f", 0, 5, "traced-xla", 1)], [call("f", 0, 7, "notTraced-nonXla", 9)])
    assert functions["f"].self_ps == {TRACED: 5, NOT_TRACED: 7}
    assert functions["f"].tracings == 9
    assert functions["f"].compiler == MIXED
    assert found([call("f", 0, 5, "traced-xla"), call("f", 9, 5, "concrete")])["f"].compiler == XLA


def test_a_mode_that_is_not_known_is_invalid() -> None:
    assert found([call("f", 0, 5, "by magic")])["f"].count == {INVALID: 1}


def test_functions_of_several_hosts_add_up_and_leave_the_parts_as_they_were() -> None:
    one, other = found([call("f", 0, 5, "concrete", 4)])["f"], found([call("f", 0, 7, "concrete", 1)])["f"]
    (both,) = host_op_stats.merge_tf_functions([one, other])
    assert (both.count, both.self_ps, both.tracings) == ({CONCRETE: 2}, {CONCRETE: 12}, 4)
    assert one.self_ps == {CONCRETE: 5}


def test_only_threads_of_the_host_call_functions() -> None:
    assert found([call("f", 0, 5, "eager")], plane_name="/device:GPU:0") == {}
    assert found([event("f", 0, 5)]) == {}
