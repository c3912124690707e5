"""Who wrote each event of a host's threads, by its name, its stats, what encloses it and what its thread runs."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from gate import few, typical_captures
from trace_builder import Event, Value, event, line, plane, ref, xspace

import fastprof
from fastprof.derive.steps.event_origin import (
    STATS,
    NameKind,
    Origin,
    classify_name,
    find_event_origins,
    is_python_thread,
    is_thread,
)
from fastprof.tables.host_events import HostEvents, Line
from fastprof.tables.host_reader import read_host


def read(capture: bytes | Path) -> HostEvents:
    return read_host(fastprof.load(capture).table_set, 0, (), STATS, ())


def origins(capture: bytes | Path) -> list[tuple[str, str]]:
    events = read(capture)
    found = find_event_origins(events).origin
    return [(events.names[meta], Origin(code).name) for meta, code in zip(events.meta.tolist(), found, strict=True)]


def thread(*events: Event, name: str = "python") -> bytes:
    return xspace(plane("/host:CPU", [line(name, events)]))


def users(capture: bytes | Path) -> set[str]:
    return {name for name, origin in origins(capture) if origin == "USER"}


def test_each_writer_of_a_thread() -> None:
    assert origins(thread(
        event("train", 0, 100, {"step_num": 1, "_r": 1}),
        event("$train.py:3 step", 1, 98),
        event("load", 2, 10),
        event("PjitFunction(step)", 20, 30),
        event("Wait for donation holds", 21, 5),
        event("dense/MatMul:MatMul", 60, 5),
        event("Iterator::Prefetch", 70, 5),
        event("fusion.3", 80, 5, {"hlo_op": ref("fusion.3")}),
    )) == [
        ("train", "USER"), ("$train.py:3 step", "PYTHON"), ("load", "USER"), ("PjitFunction(step)", "FRAMEWORK"),
        ("Wait for donation holds", "FRAMEWORK"), ("dense/MatMul:MatMul", "OP"), ("Iterator::Prefetch", "INPUT"),
        ("fusion.3", "OP"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("stats", "origin"),
    [
        ({}, "USER"), ({"kind": "fast"}, "USER"), ({"step_num": 3}, "USER"), ({"_r": 1}, "USER"),
        ({"hlo_op": ref("dot.1")}, "OP"), ({"hlo_op": ref("dot.1"), "_p": 4}, "OP"), ({"tf_op": ref("a:B")}, "OP"),
        ({"_ipl_stage_id": 3}, "INPUT"), ({"_ipl_stage_cat": ref("map")}, "INPUT"),
        ({"correlation_id": 7}, "FRAMEWORK"), ({"_p": 7, "_pt": 2}, "FRAMEWORK"), ({"_c": 7, "_ct": 2}, "FRAMEWORK"),
        ({"tf_function_call": ref("eager")}, "FRAMEWORK"), ({"tracing_count": 1}, "FRAMEWORK"),
    ],
)  # fmt: skip
def test_stats_say_who_wrote_an_event_whose_name_does_not(stats: dict[str | int, Value], origin: str) -> None:
    assert origins(thread(event("something", 0, 10, stats))) == [("something", origin)]


@pytest.mark.parametrize("name", ["$own_profiler.py:417 __call__", "fastprof/inputs/own_profiler.py(417): __call__"])
def test_frames_of_fastprof_are_no_functions_of_the_program(name: str) -> None:
    assert classify_name(name) == NameKind.OWN
    called = thread(event(name, 0, 90), event("load", 1, 9), event("$train.py:3 step", 20, 9))
    assert origins(called) == [(name, "FRAMEWORK"), ("load", "USER"), ("$train.py:3 step", "PYTHON")]


def test_stats_do_not_overrule_a_name() -> None:
    assert origins(thread(event("cuLaunchKernel", 0, 10, {"hlo_op": ref("dot.1"), "step_num": 1}))) == [
        ("cuLaunchKernel", "FRAMEWORK")
    ]


def test_what_lies_in_native_code_is_the_frameworks() -> None:
    """The passes of a compiler have any name; a function that is traced or called back has annotations."""
    assert users(thread(
        event("PjitFunction(f)", 0, 900),
        event("trace_to_jaxpr_dynamic", 1, 100), event("layer", 2, 50), event("inner layer", 3, 10),
        event("PjRtCpuClient::Compile", 200, 300), event("simplification", 201, 200), event("dce", 202, 100),
        event("ThunkExecutor::Execute", 600, 100), event("copy.1", 610, 5),
        event("pure_callback.2", 620, 20, {"hlo_op": ref("pure_callback.2")}), event("on the host", 621, 10),
        event("CpuExecutable::Execute", 750, 50), event("$cb.py:1 called", 751, 40), event("by a frame", 752, 30),
    )) == {"layer", "inner layer", "on the host", "by a frame"}  # fmt: skip


def test_a_callback_of_tensorflow_runs_in_its_executor() -> None:
    assert users(thread(
        event("EagerLocalExecute: EagerPyFunc", 0, 90), event("KernelAndDeviceFunc::Run", 1, 80),
        event("in a callback", 2, 10), event("EagerCopyToDevice", 20, 20), event("copies", 21, 5),
        event("EagerLocalExecute: MatMul", 100, 90), event("KernelAndDeviceFunc::Run", 101, 80), event("product", 102,
        10),
    )) == {"in a callback"}  # fmt: skip


def test_a_user_writes_on_threads_that_run_python() -> None:
    data = xspace(plane("/host:CPU", [
        line("python/1", [event("PjitFunction(f)", 0, 10)]),
        line("python/2", [event("loader", 0, 10)]),
        line("trainer/3", [event("TFE_Py_Execute", 0, 10), event("forward", 20, 10)]),
        line("trainer/4", [event("fetch", 0, 10)]),
        line("evaluator/5", [event("evaluate", 0, 10)]),
        line("tf_Compute/6", [event("$f.py:1 called", 0, 10), event("in a frame", 1, 5), event("callback", 20, 5)]),
        line("tf_Compute/7", [event("a:Mul", 0, 10), event("EagerPyFunc:EagerPyFunc", 20, 9), event("in an op", 21, 3),
                              event("fill", 40, 3)]),
        line("server/8", [event("step", 0, 10, {"step_num": 1}), event("request", 20, 5)]),
    ]))  # fmt: skip
    assert users(data) == {"loader", "forward", "fetch", "in a frame", "callback", "in an op", "step", "request"}
    assert [one.name for one in find_event_origins(read(data)).python_lines] == [
        "python/1", "python/2", "trainer/3", "trainer/4", "tf_Compute/6", "server/8",
    ]  # fmt: skip


def test_threads_are_not_compared_with_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0

    def counted(one: Line, other: object) -> bool:
        nonlocal compared
        compared += 1
        return one is other

    lines = [line(f"worker{k}", [event("$a.py:1 f", 0, 5)]) for k in range(60)]
    events = read(xspace(plane("/host:CPU", lines)))
    monkeypatch.setattr(Line, "__eq__", counted)
    assert len(find_event_origins(events).python_lines) == 60
    assert compared <= 60


def test_ranges_of_nvtx_are_a_users_but_those_of_libraries() -> None:
    data = xspace(plane("/host:CPU", [
        line("Host Threads/3/NVTX", [
            event("NVTX:epoch", 0, 90), event("NVTX:mine:forward", 1, 50), event("NVTX:TSL:Op", 2, 9),
            event("NVTX:NCCL:ncclAllReduce", 20, 9), event("cuLaunchKernel", 40, 1), event("plain", 42, 3),
        ]),
    ]))  # fmt: skip
    assert users(data) == {"NVTX:epoch", "NVTX:mine:forward", "plain"}


def test_asynchronous_events_enclose_nothing() -> None:
    assert users(thread(event("Compiler::Run", 0, 90, {"_a": 1}), event("beside", 5, 10))) == {"beside"}


def test_events_of_devices_and_derived_lines_have_no_writer() -> None:
    data = xspace(
        plane("/device:GPU:0", [line("Stream #1", [event("kernel", 0, 5)])]),
        plane("/host:metadata", [line("python", [event("text", 0, 5)])]),
        plane("/host:CPU", [line("python", [event("mine", 0, 5)]), line("Steps", [event("1", 0, 5)], id=0xDEADBEEF)]),
        plane("/host:python-tracer", [line("3", [event("$f.py:1 g", 0, 5)])]),
    )
    assert sorted(origins(data)) == [
        ("$f.py:1 g", "PYTHON"), ("1", "NONE"), ("kernel", "NONE"), ("mine", "USER"), ("text", "NONE"),
    ]  # fmt: skip


def test_a_deep_nest_of_unknown_names() -> None:
    depth = 3000
    nest = [event(f"level {i}", i, 2 * (depth - i)) for i in range(depth)]
    assert len(users(thread(*nest))) == depth
    assert users(thread(event("Compiler::Run", 0, 2 * depth), *nest)) == set()


NAMES = (
    "$f.py:1 g", "mine", "other", "Compiler::Run", "PjitFunction(f)", "EagerPyFunc:EagerPyFunc", "a:Mul", "FunctionRun",
    "Iterator::Map", "NVTX:range",
)  # fmt: skip


def _slowly(events: HostEvents) -> list[Origin]:
    """Walks up from each event, one at a time."""
    found = []
    lines = [one for one in events.lines if is_thread(one)]
    known = {NameKind.PYTHON: Origin.PYTHON, NameKind.OP: Origin.OP, NameKind.INPUT: Origin.INPUT,
             NameKind.CALLBACK: Origin.OP, NameKind.ANNOTATION: Origin.USER}  # fmt: skip
    for one in lines:
        rows = range(one.first, one.last)
        kinds = {row: classify_name(events.names[events.meta[row]]) for row in rows}
        speaks = {NameKind.PYTHON, NameKind.DISPATCH, NameKind.ANNOTATION}
        runs_python = is_python_thread(one.name) or bool(speaks & set(kinds.values()))
        for row in rows:
            if kinds[row] is not NameKind.UNKNOWN:
                found.append(known.get(kinds[row], Origin.FRAMEWORK))
                continue
            start, end = events.start_ps[row], events.start_ps[row] + events.duration_ps[row]
            above = [kinds[i] for i in range(row - 1, one.first - 1, -1)
                     if events.start_ps[i] <= start and end <= events.start_ps[i] + events.duration_ps[i]]  # fmt: skip
            above = [kind for kind in above if kind is not NameKind.UNKNOWN]
            beyond = [kind for kind in above if kind is not NameKind.PASSING]
            if beyond and beyond[0] is NameKind.CALLBACK:
                found.append(Origin.USER)
            elif above:
                found.append(Origin.USER if above[0] in speaks else Origin.FRAMEWORK)
            else:
                found.append(Origin.USER if runs_python else Origin.FRAMEWORK)
    return found


def _nest(random_: random.Random, start: int, end: int, depth: int) -> list[Event]:
    made: list[Event] = []
    while start < end and depth:
        first = random_.randint(start, end)
        last = random_.randint(first, end)
        made.append(event(random_.choice(NAMES), first, last - first))
        made += _nest(random_, first, last, depth - 1)
        start = last + 1
    return made


@pytest.mark.parametrize("seed", few(range(40), 12))
def test_random_nestings_agree_with_a_walk(seed: int) -> None:
    random_ = random.Random(seed)
    names = random_.sample(["pool", "python", "tf_Compute/1", "worker"], 3)
    events = read(xspace(plane("/host:CPU", [line(name, _nest(random_, 0, 60, 6)) for name in names])))
    found = [Origin(code) for code in find_event_origins(events).origin]
    assert found == _slowly(events)


USERS = {
    "cpu-jax-train": {"train": 10}, "cpu-tf214-train": {"train": 12}, "cpu-tf221-train": {"train": 12},
}  # fmt: skip


@typical_captures
def test_no_event_of_a_framework_is_a_users(capture: Path) -> None:
    """The programs of the captures annotate nothing but steps."""
    events = read(capture)
    found = find_event_origins(events)
    rows = np.flatnonzero(found.of(Origin.USER))
    names = [events.names[meta] for meta in events.meta[rows].tolist()]
    assert {name: names.count(name) for name in set(names)} == USERS.get(capture.parent.name, {})
    on_threads = sum(one.last - one.first for one in found.lines)
    assert int((found.origin > 0).sum()) == on_threads
