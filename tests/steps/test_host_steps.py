"""Steps of hosts without devices by their markers alone: the time of each marker by the names of events."""

from __future__ import annotations

import random

import pytest
from gate import few
from slow_step_time import Typed, times
from step_captures import HOST, US, host, in_order, marked, ran, rows, spaces, step
from trace_builder import Event, event, line, plane

from fastprof.derive.steps.step_database import NO_TYPE, TYPES
from fastprof.derive.steps.step_database import EventType as Kind
from fastprof.derive.steps.step_events import classify_host_name


def test_a_step_is_its_marker_and_what_runs_in_it() -> None:
    events = []
    for number in range(3):
        at = 1000 * number
        events += [step(number, at, 900), ran("IteratorGetNext", at + 100, 200), ran("matmul:MatMul", at + 250, 300)]
    assert rows(marked(spaces(host(events)))) == [
        (number, 1, 1000.0 * number, 900.0, {"unknown_time": 450.0, "host_compute": 250.0, "host_wait_input": 200.0})
        for number in range(3)
    ]


def test_steps_are_called_by_their_markers() -> None:
    events = [step(7, 0, 10), ran("op", 1, 5), step(3, 20, 10, "eval"), ran("op", 21, 5)]
    database = marked(spaces(host(events)))
    assert database.name == database.label == ["train 7", "eval 3"]
    assert database.step.tolist() == [0, 1]
    assert database.cores.name == database.cores.host == ["vm"]


def test_what_no_marker_names_is_a_step_if_a_framework_names_it() -> None:
    """A session's run has no name: its group has no marker, so it is not a step. A marker by another name makes one."""
    runs = [event("SessionRun", 1000 * US * k, 900 * US, {"_r": 1, "id": k}) for k in range(2)]
    named = [event("decode", 5000 * US, 100 * US, {"_r": 1, "step_num": 1}), ran("op", 5010, 50)]
    database = marked(spaces(host([*runs, ran("op", 10, 5), *named])))
    assert database.label == ["decode 1"]


@pytest.mark.parametrize(
    ("name", "type_"),
    [
        ("op", Kind.HOST_COMPUTE),
        ("dense/MatMul:MatMul", Kind.HOST_COMPUTE),
        ("", Kind.HOST_COMPUTE),
        ("IteratorGetNext", Kind.HOST_WAIT_INPUT),
        ("ITERATORGETNEXTOp::DoCompute", Kind.HOST_WAIT_INPUT),
        ("Iterator::Model", Kind.HOST_COMPUTE),
        ("MEMCPYHtoD", Kind.HOST_TO_DEVICE),
        ("memcpyhtoh_1", Kind.HOST_TO_HOST),
        ("MEMCPYDtoH", Kind.HOST_COMPUTE),
        ("MEMCPYHtoD:x y", Kind.HOST_COMPUTE),
        ("infeed/InfeedEnqueueTuple:InfeedEnqueueTuple", Kind.HOST_TO_DEVICE),
        ("a/InfeedEnqueue_2:", Kind.HOST_TO_DEVICE),
        ("InfeedEnqueue", Kind.HOST_COMPUTE),
        ("EagerExecute", NO_TYPE),
        ("EagerKernelExecute: Add", NO_TYPE),
        ("FunctionRun", NO_TYPE),
    ],
)
def test_what_an_event_counts_for_follows_from_its_name(name: str, type_: int) -> None:
    assert classify_host_name(name) == type_


def test_markers_are_given_by_their_name_unless_it_is_a_path() -> None:
    """A marker of a group makes its step longer, whoever set it; a path is an op."""
    inside = [step(0, 0, 50), ran("op", 5, 5)]
    assert marked(spaces(host([*inside, ran("TraceContext/x", 10, 5)]))).duration_ps.tolist() == [[50 * US]]
    longer = host([event("train", 0, 80 * US, {"_r": 1, "step_num": 0}), ran("test_step", 10, 60), ran("op", 5, 5)])
    assert rows(marked(spaces(longer))) == [(0, 1, 0.0, 80.0, {"unknown_time": 75.0, "host_compute": 5.0})]


def test_a_step_in_which_nothing_is_computed_is_none() -> None:
    report_of = [step(0, 0, 50), ran("IteratorGetNext", 5, 5), step(1, 100, 50), ran("op", 110, 5)]
    database = marked(spaces(host(report_of)))
    assert database.step.tolist() == [1]


def test_more_than_five_steps_have_incomplete_ends() -> None:
    def capture(count: int) -> bytes:
        return spaces(host([one for k in range(count) for one in (step(k, 10 * k, 8), ran("op", 10 * k + 1, 2))]))

    five, eight = marked(capture(5)), marked(capture(8))
    assert five.complete.all() and five.complete_steps() is five
    assert eight.complete.tolist() == [False, *[True] * 6, False]
    assert eight.complete_steps().step.tolist() == [1, 2, 3, 4, 5, 6]
    assert eight.complete_steps().label == [f"train {k}" for k in range(1, 7)]


def test_events_on_other_threads_count_where_a_context_links_them() -> None:
    main = [step(0, 0, 100), ran("dispatch", 10, 5, _pt=1, _p=77)]
    pool = [ran("work", 30, 40, _ct=1, _c=77), ran("stray", 80, 10)]
    assert rows(marked(spaces(host(main, pool)))) == [
        (0, 1, 0.0, 100.0, {"unknown_time": 55.0, "host_compute": 45.0}),
    ]


def test_only_the_plane_of_host_threads_counts() -> None:
    python = plane("/host:python-tracer", [line("py", [step(0, 0, 100), ran("f", 1, 5)])])
    assert len(marked(spaces(python))) == 0


STAGE = {"_ipl_stage_name": "read"}


def stages() -> list[Event]:
    inner = {"_ipl_stage_name": "parse"}
    return [
        step(0, 0, 100),
        ran("root stage", 10, 20, **STAGE),
        ran("inner stage", 12, 10, **inner),
        ran("wrapper", 40, 30),
        ran("stage in a wrapper", 45, 20, **STAGE),
        ran("unnamed", 80, 5, _ipl_stage_name=""),
    ]


def test_root_stages_of_the_input_pipeline_wait_for_input() -> None:
    (row,) = rows(marked(spaces(host(stages()))))
    # inner stages compute, where nothing covers them: the root stage does
    assert row[4] == {"unknown_time": 45.0, "host_compute": 15.0, "host_wait_input": 40.0}


def test_a_stage_that_consumes_what_others_made_is_not_a_root_nor_are_those_inside() -> None:
    main = [step(0, 0, 100), ran("make", 1, 1, _pt=1, _p=5), ran("op", 90, 5)]
    pool = [
        ran("stage", 10, 30, _ct=1, _c=5, **STAGE),
        ran("deep", 15, 10),
        ran("stage inside", 16, 5, **STAGE),
    ]
    (row,) = rows(marked(spaces(host(main, pool))))
    assert row[4] == {"unknown_time": 64.0, "host_compute": 36.0}


@pytest.mark.parametrize("seed", few(range(25), 8))
def test_random_steps_are_as_the_oracle_has_them(seed: int) -> None:
    """Steps one after the other on a thread, with events on it and on two more that a context links."""
    chance = random.Random(seed)
    names = {
        "op": Kind.HOST_COMPUTE,
        "IteratorGetNext": Kind.HOST_WAIT_INPUT,
        "MEMCPYHtoD": Kind.HOST_TO_DEVICE,
        "EagerExecute": None,
    }
    main: list[Event] = []
    pools: list[list[Event]] = [[], []]
    wanted = []
    for number in range(7):
        at, length = 1000 * number, chance.randint(0, 600)
        main.append(event("train", at, length, {"_r": 1, "step_num": number}))
        typed: list[Typed] = []
        for thread in range(3):
            for k in range(chance.randint(0, 5)):
                name = chance.choice(list(names))
                begin = at + chance.randint(0, length)
                duration = chance.randint(0, at + length - begin if thread == 0 else 300)
                if thread == 0:
                    main.append(event(name, begin, duration))
                else:
                    context = 1000 * number + 10 * thread + k
                    main.append(event("EagerExecute", at, 0, {"_pt": 1, "_p": context}))
                    pools[thread - 1].append(event(name, begin, duration, {"_ct": 1, "_c": context}))
                if names[name] is not None:
                    typed.append((names[name] or 0, begin, begin + duration))
        spent = times(typed, (at, at + length))
        if length and Kind.HOST_COMPUTE in spent.seen:
            spent_on = {TYPES[type_]: time for type_, time in spent.within.items()}
            wanted.append((number, 1, at, length, spent_on))
    threads = [line(f"thread {i}", in_order(events)) for i, events in enumerate([main, *pools])]
    listed = [
        (number, core, round(at * US), round(length * US), {name: round(time * US) for name, time in spent.items()})
        for number, core, at, length, spent in rows(marked(spaces(plane(HOST, threads))))
    ]
    assert listed == wanted
