"""Which events belong together: steps, batches, requests, runs of programs."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from gate import few
from grouping_spaces import grouping_space
from host_groups import groups_of, members, pairs
from slow_grouping import Grouped, grouped
from trace_builder import Event, event, line, plane, ref, u64, xspace

from fastprof.derive.steps.grouping import Groups

CONTEXT = 7
GOLDENS = Path(__file__).resolve().parents[3] / "shared" / "conformance" / "xprof"


def host(*threads: Sequence[Event], **stats: Any) -> bytes:
    return xspace(plane("/host:CPU", [line(f"thread {i}", events) for i, events in enumerate(threads)], stats=stats))


def root(name: str, start: int, duration: int, level: int = 1, **stats: Any) -> Event:
    return event(name, start, duration, {"_r": level, **stats})


def gives(name: str, start: int, number: int, **stats: Any) -> Event:
    return event(name, start, 1, {"_pt": CONTEXT, "_p": number, **stats})


def takes(name: str, start: int, number: int, duration: int = 1, **stats: Any) -> Event:
    return event(name, start, duration, {"_ct": CONTEXT, "_c": number, **stats})


def grouped_as(data: bytes) -> dict[str, list[str]]:
    return members(groups_of(data))


# ---- against the rules, applied slowly ---------------------------------------------------------------


def check_against_rules(groups: Groups, wanted: Grouped) -> None:
    assert groups.vetoed == wanted.vetoed
    assert groups.root_rows[: len(wanted.roots)].tolist() == [one.row for one in wanted.roots]
    assert groups.group_id.tolist() == [-1 if one.group is None else one.group for one in wanted.events]
    assert groups.count == len(groups.root_rows) == len(wanted.names) and groups.names == wanted.names
    assert groups.is_eager.tolist() == [int(one.is_eager) for one in wanted.events]
    assert {(one, other) for one, other in groups.relations.tolist()} == wanted.relations
    carriers = [(one.row, number) for number, one in enumerate(wanted.roots) if one.step_name]
    assert list(zip(groups.step_rows.tolist(), groups.step_groups.tolist(), strict=True)) == carriers
    for number, steps in groups.device_steps.items():
        columns = (steps.group_id, steps.device_start_ps, steps.device_duration_ps)
        listed = list(zip(*(column.tolist() for column in columns), strict=True))
        assert listed == [(step.group, step.start, step.duration) for step in wanted.steps[number]], number
    assert list(groups.device_steps) == list(wanted.steps)


@pytest.mark.parametrize("block", few(range(8), 2))
def test_captures_by_lot(block: int) -> None:
    for seed in range(block * 60, block * 60 + 60):
        data = grouping_space(seed)
        try:
            check_against_rules(groups_of(data, threads=1 + seed % 3), grouped(data))
        except AssertionError as fault:
            raise AssertionError(f"seed {seed}: {fault}") from None


def test_real_captures(captures: Path) -> None:
    """Those that the slow oracle reads within seconds, and that were not grouped when they were written."""
    checked = 0
    for capture in sorted((captures / "xspace").rglob("*.xplane.pb")):
        if capture.stat().st_size < 500_000:
            groups = groups_of(capture)
            if not len(groups.events.stat("group_id")):
                check_against_rules(groups, grouped(capture.read_bytes()))
                checked += 1
    assert checked >= 7


# ---- against XProf -----------------------------------------------------------------------------------

Place = tuple[str, int, int]
"""The plane, the line's id as the trace viewer shows it, and the start in picoseconds."""


def ours(groups: Groups) -> tuple[dict[Place, Counter[int]], set[Place]]:
    """Groups by place; and modules of TPUs that begin where the one before ends: XProf shows the group of that one."""
    events, found, touching = groups.events, {}, set()
    for one in events.lines:
        for row in range(one.first, one.last):
            place = (one.plane.name, one.xline_id % (1 << 32), int(events.start_ps[row]))
            found.setdefault(place, Counter())[int(groups.group_id[row])] += 1
            before = events.start_ps[row - 1] + events.duration_ps[row - 1] if row > one.first else -1
            if one.name == "XLA Modules" and before == events.start_ps[row]:
                touching.add(place)
    return found, touching


def test_groups_are_those_that_xprof_shows(captures: Path) -> None:
    answers = sorted(GOLDENS.glob("*/trace_viewer.json.gz"))
    assert len(answers) >= 9
    for answer in answers:
        for capture in sorted((captures / "xspace" / answer.parent.name).glob("*.xplane.pb")):
            check_against_xprof(capture, answer)


def check_against_xprof(capture: Path, answer: Path) -> None:
    trace = json.loads(gzip.decompress(answer.read_bytes()))["traceEvents"]
    processes = {one["pid"]: one["args"]["name"] for one in trace if one.get("name") == "process_name"}
    groups = groups_of(capture)
    found, touching = ours(groups)
    derived = {one.xline_id % (1 << 32) for one in groups.events.lines if one.is_derived}
    known: dict[Place, Counter[int]] = {}
    for one in trace:
        if one.get("ph") != "X" or one["name"] == "ThreadpoolListener::Region":
            continue
        stats = one.get("args", {})
        number = int(stats.get("group_id", -1))
        place = (processes[one["pid"]], one["tid"], round(one["ts"] * 1e6))
        made_by_xprof = 0xDEADBEEF <= one["tid"] <= 0xDEADBEEF + 388 and one["tid"] not in derived
        if place in touching or made_by_xprof or (number < 0 and place not in found):
            continue
        known.setdefault(place, Counter())[number] += 1
        if "step_name" in stats:
            assert groups.names[number] == stats["step_name"]
    wrong = [place for place, numbers in known.items() if numbers - found.get(place, Counter())]
    assert not wrong
    if groups.count:
        assert sum(sum(numbers.values()) for numbers in known.values()) > 500


# ---- what is in a group ------------------------------------------------------------------------------


def test_a_group_is_its_root_and_what_that_encloses() -> None:
    data = host(
        [event("before", 0, 5), root("train", 10, 50, step_num=7), event("inside", 20, 5), event("after", 70, 5)]
    )
    assert grouped_as(data) == {"train 7": ["train", "inside"], "-": ["before", "after"]}


def test_spans_include_their_ends_and_equal_ones_nest() -> None:
    data = host([root("train", 10, 50), event("same", 10, 50), event("first", 10, 0), event("sticks out", 40, 21),
                 event("last", 60, 0)], [event("elsewhere", 20, 5)])  # fmt: skip
    expected = {"train 0": ["train", "same", "first"], "-": ["sticks out", "last", "elsewhere"]}
    assert grouped_as(data) == expected  # what sticks out takes the last one with it


def test_groups_are_numbered_by_time_over_all_threads() -> None:
    data = host([root("b", 20, 5), root("d", 40, 5)], [root("a", 10, 5), root("c", 30, 5)])
    assert groups_of(data).names == ["a 0", "b 1", "c 2", "d 3"]


def test_a_root_in_a_root_of_its_level_is_not_a_group_of_its_own() -> None:
    data = host([root("train", 0, 100), root("inner", 10, 50), event("op", 20, 5)])
    assert grouped_as(data) == {"train 0": ["train", "inner", "op"]}


def test_higher_levels_are_groups_within_groups() -> None:
    """The inner group is made first; the outer one leads into it and takes what is left."""
    data = host([root("request", 0, 100), root("batch", 10, 50, level=2), event("op", 20, 5), event("rest", 80, 5)])
    groups = groups_of(data)
    assert members(groups) == {"batch 0": ["batch", "op"], "request 1": ["request", "rest"]}
    assert pairs(groups) == [("request 1", "batch 0")]
    assert (groups.parents.tolist(), groups.children.tolist()) == ([1], [0])


def test_any_level_makes_a_root() -> None:
    data = host(
        [root("zero", 0, 5, level=0), root("less", 10, 5, level=-(1 << 63)), root("most", 20, 5, (1 << 63) - 1)]
    )
    assert groups_of(data).names == ["most 0", "zero 1", "less 2"]


@pytest.mark.parametrize(
    ("name", "level"),
    [("TraceContext", 1), ("BatchingSessionRun", 1), ("ProcessBatch", 2), ("OrbaxServing::ProcessBatch", 2)],
)
def test_some_names_are_roots_by_themselves(name: str, level: int) -> None:
    data = host([event(name, 0, 100), root("inner", 10, 5, level), root("other", 20, 5, level=3)])
    groups = groups_of(data)
    assert groups.names == ["other 0", f"{name} 1"] and groups.group_id.tolist() == [1, 1, 0]


def test_names_of_roots_have_their_level_whatever_they_say_themselves() -> None:
    names = groups_of(
        host([root("ProcessBatch", 10, 5, level=0), root("other", 0, 5), root("TraceContext", 5, 1, level=3)])
    )
    assert names.names == ["TraceContext 0", "ProcessBatch 1", "other 2"]


def test_asynchronous_events_neither_enclose_nor_lie_in_another() -> None:
    apart = [
        root("async", 0, 100, _a=1),
        event("under it", 10, 5),
        root("train", 20, 50),
        event("inside", 30, 10, {"_a": 1}),
        event("below that", 31, 5),
        event("not async", 40, 5, {"_a": 0}),
    ]
    assert grouped_as(host(apart)) == {
        "async 0": ["async"],
        "train 1": ["train", "below that", "not async"],
        "-": ["under it", "inside"],
    }


# ---- across threads ----------------------------------------------------------------------------------


def test_what_an_event_produces_is_in_its_group() -> None:
    data = host([root("train", 0, 50), gives("schedule", 10, 1)], [takes("run", 60, 1, 20), event("op", 65, 5)])
    assert grouped_as(data) == {"train 0": ["train", "schedule", "run", "op"]}


def test_all_producers_of_a_context_lead_to_all_its_consumers() -> None:
    data = host([root("a", 0, 10), gives("x", 1, 5), root("b", 20, 10), gives("y", 21, 5)],
                [takes("r", 60, 5), takes("s", 70, 5), takes("other", 80, 6)])  # fmt: skip
    groups = groups_of(data)
    assert members(groups) == {"a 0": ["a", "x", "r", "s"], "b 1": ["b", "y"], "-": ["other"]}
    assert pairs(groups) == [("b 1", "a 0")]


def test_processes_have_contexts_of_their_own() -> None:
    """By the event's _pid, else the plane's process_id, else none."""
    threads = [[root("train", 0, 10), gives("x", 1, 5)], [takes("here", 20, 5), takes("there", 30, 5, _pid=8)]]
    assert grouped_as(host(*threads)) == {"train 0": ["train", "x", "here"], "-": ["there"]}
    assert grouped_as(host(*threads, process_id=u64(8))) == {"train 0": ["train", "x", "here", "there"]}
    assert grouped_as(host(*threads, process_id=0)) == {"train 0": ["train", "x", "here"], "-": ["there"]}


def test_a_circle_of_contexts_ends() -> None:
    circle = [takes("x", 0, 2, _pt=CONTEXT, _p=1), takes("y", 10, 1, _pt=CONTEXT, _p=2)]
    assert grouped_as(host(circle, [takes("root", 20, 2, _r=1)])) == {"root 0": ["root"], "-": ["x", "y"]}
    both = [takes("x", 0, 2, _pt=CONTEXT, _p=1, _r=1), takes("y", 10, 1, _pt=CONTEXT, _p=2, _r=1)]
    assert grouped_as(host(both)) == {"-": ["x", "y"]}  # each is above the other
    assert grouped_as(host([takes("self", 0, 1, _pt=CONTEXT, _p=1, _r=1)])) == {"self 0": ["self"]}


def test_launches_lead_to_their_kernels() -> None:
    cpu = plane("/host:CPU", [line("t", [root("train", 0, 50), event("launch", 10, 5, {"correlation_id": 3})])])
    gpu = plane("/device:GPU:0", [line("s", [event("kernel", 60, 9, {"correlation_id": 3}),
                                             event("other", 80, 9, {"correlation_id": 4})])])  # fmt: skip
    groups = groups_of(xspace(cpu, gpu))
    assert members(groups) == {"train 0": ["train", "launch", "kernel", "other"]}
    assert groups.group_id.tolist() == [0, 0, 0, 0]  # on a GPU the group of the event before goes on


def test_a_kernel_that_is_called_like_an_op_is_not_linked() -> None:
    cpu = plane("/host:CPU", [line("t", [root("train", 0, 50), event("launch", 10, 5, {"correlation_id": 3})])])
    gpu = plane("/device:GPU:0", [line("s", [event("dense/MatMul:MatMul", 60, 9, {"correlation_id": 3})])])
    assert grouped_as(xspace(cpu, gpu)) == {"train 0": ["train", "launch"], "-": ["dense/MatMul:MatMul"]}


def test_the_last_executor_of_an_iteration_leads_to_its_iterators() -> None:
    def executor(start: int, number: int, level: int) -> Event:
        return root("ExecutorState::Process", start, 5, level, id=number, iter_num=0, graph_type=ref(f"run{start}"))

    get = event("IteratorGetNextOp::DoCompute", 50, 5, {"id": 1, "iter_num": 0})
    groups = groups_of(host([executor(0, 1, 1), executor(10, 1, 2), executor(20, 2, 1)], [get]))
    assert members(groups)["run10 0"] == ["ExecutorState::Process", "IteratorGetNextOp::DoCompute"]


# ---- loops -------------------------------------------------------------------------------------------


def execution(start: int, number: int, iteration: int) -> Event:
    return event("ExecutorState::Process", start, 5, {"id": number, "iter_num": iteration})


def test_where_executors_loop_only_iterations_are_groups() -> None:
    data = host(
        [root("train", 0, 1000), execution(10, 1, 0), execution(20, 1, 1)], [execution(15, 1, 1), event("op", 16, 1)]
    )
    groups = groups_of(data)
    assert groups.names == ["0", "1"] and groups.step_rows.tolist() == []
    assert groups.group_id.tolist() == [-1, 0, 1, 1, 1]
    assert groups.root_rows.tolist() == [1, 3]


def test_an_executor_that_only_ran_iteration_0_is_not_a_loop() -> None:
    data = host([root("train", 0, 1000), execution(10, 1, 0), execution(20, 1, 0), execution(30, 2, 0)])
    assert list(grouped_as(data)) == ["train 0"]
    assert groups_of(host([execution(10, 1, 5)])).names == ["5"]  # but one that only ran another iteration is


def test_executors_of_tf_data_are_no_loops_and_no_steps() -> None:
    runs = [event("InstantiatedCapturedFunction::Run", 0, 9, {"id": 1})]
    data = host(
        runs,
        [
            execution(10, 1, 0),
            execution(20, 1, 1),
            root("FunctionRun", 30, 50, id=1),
            root("inner", 40, 5),
            root("own", 100, 5, id=2),
        ],
    )
    assert grouped_as(data) == {
        "-": [
            "InstantiatedCapturedFunction::Run",
            "ExecutorState::Process",
            "ExecutorState::Process",
            "FunctionRun",
            "inner",
        ],
        "own 0": ["own"],
    }


@pytest.mark.parametrize("name", ["WhileOp-EvalCond", "WhileOp-StartBody", "ForOp", "ParallelForOp", "ForeverOp"])
def test_some_loops_forbid_any_group(name: str) -> None:
    groups = groups_of(xspace(plane("/host:CPU", [line("t", [root("train", 0, 5)])]), plane("x", event_ids={name: 1})))
    assert groups.vetoed and groups.count == 0 and groups.names == [] and groups.group_id.tolist() == [-1]


# ---- names -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stats", "name"),
    [
        ({}, "train 0"),
        ({"step_num": 12}, "train 12"),
        ({"step_num": 12, "iter_num": -3}, "train -3"),
        ({"step_num": u64((1 << 64) - 1)}, "train -1"),
        ({"graph_type": "eval"}, "eval 0"),
        ({"graph_type": ref("fit"), "step_num": 4}, "fit 4"),
        ({"graph_type": ""}, "0"),
        ({"step_num": "twelve", "iter_num": 2.5, "graph_type": 5}, "train 0"),  # which are no numbers, and no text
        ({"step_num": b"\x01", "graph_type": b"\x01"}, "train 0"),
    ],
)
def test_a_group_is_called_by_its_root(stats: dict[str, Any], name: str) -> None:
    groups = groups_of(host([root("train", 0, 5, **stats)]))
    assert groups.names == [name] and groups.step_rows.tolist() == [0]


@pytest.mark.parametrize("name", ["FunctionRun", "SessionRun", "RunGraph", "ExecutorState::Process"])
def test_roots_that_nobody_named_are_called_by_a_number(name: str) -> None:
    groups = groups_of(host([root("a", 0, 5), root(name, 10, 5)]))
    assert groups.names == ["a 0", "1"] and groups.step_rows.tolist() == [0] and groups.step_groups.tolist() == [0]


def test_names_are_made_of_the_nearest_above() -> None:
    outer = event("outer", 0, 100, {"step_num": 5, "iter_num": 6, "graph_type": "outer"})
    data = host([outer, event("near", 10, 50, {"step_num": 7}), root("train", 20, 5)])
    assert groups_of(data).names == ["outer 6"]
    linked = host([event("far", 0, 100, {"step_num": 1}), takes("train", 10, 1, 20, _r=1)],
                  [gives("near", 0, 1, step_num=2)])  # fmt: skip
    assert groups_of(linked).names == ["train 1"]  # of what is equally near, the enclosing event


# ---- eager ops ---------------------------------------------------------------------------------------


def test_ops_below_the_eager_execution_of_an_op_are_eager() -> None:
    ops = [
        event("EagerExecute", 0, 30, {"is_func": 0}),
        event("a:Add", 5, 2),
        event("launch", 10, 2, {"correlation_id": 1}),
        event("EagerExecute", 40, 30, {"is_func": 1}),
        event("b:Add", 45, 2),
        event("EagerExecute", 80, 30),
        event("c:Add", 85, 2),
        event("d:Add", 120, 2),
    ]
    gpu = plane("/device:GPU:0", [line("s", [event("kernel", 60, 9, {"correlation_id": 1})])])
    groups = groups_of(xspace(plane("/host:CPU", [line("t", ops)]), gpu))
    events = groups.events
    eager = [events.names[events.meta[row]] for row in groups.is_eager.nonzero()[0].tolist()]
    assert eager == ["a:Add", "kernel"]


# ---- captures that were grouped when they were written -----------------------------------------------


def recorded(*planes: Any) -> Groups:
    return groups_of(xspace(*planes))


def test_groups_that_were_recorded_are_taken_over() -> None:
    events = [
        event("train", 0, 50, {"group_id": 4, "step_name": "train 9"}),
        event("op:Add", 5, 2, {"group_id": 4, "is_eager": 1}),
        event("late", 60, 2),
    ]
    groups = recorded(plane("/host:CPU", [line("t", events)]))
    assert groups.group_id.tolist() == [4, 4, -1] and groups.is_eager.tolist() == [0, 1, 0]
    assert groups.count == 5 and groups.names == ["", "", "", "", "train 9"]
    assert groups.names_of(groups.group_id[:1]) == ["train 9"]
    assert (groups.step_rows.tolist(), groups.step_groups.tolist()) == ([0], [4])


def test_where_only_some_planes_were_grouped_all_are_grouped_again() -> None:
    cpu = plane("/host:CPU", [line("t", [root("train", 0, 50), event("late", 60, 2)])])
    gpu = plane("/device:GPU:0", [line("s", [event("kernel", 5, 2, {"group_id": 3})])])
    groups = recorded(cpu, gpu)
    assert groups.group_id.tolist() == [0, -1, 3] and groups.count == 4 and groups.names[0] == "train 0"
    elsewhere = plane("Task Environment", [line("l", [event("e")])])  # which is of no host and no device
    assert recorded(gpu, elsewhere).names == [""] * 4


@pytest.mark.parametrize("number", [-1, 1 << 31, (1 << 63) - 1])
def test_groups_that_cannot_be_are_none(number: int) -> None:
    groups = recorded(
        plane("/host:CPU", [line("t", [event("a", 0, 5, {"group_id": number}), event("b", 9, 5, {"group_id": 0})])])
    )
    assert groups.group_id.tolist() == [-1, 0] and groups.count == 1


# ---- parts -------------------------------------------------------------------------------------------


def test_a_part_keeps_the_numbers_and_names_of_groups() -> None:
    data = host(
        [root("a", 0, 10), event("x", 1, 2), root("b", 20, 30), root("deep", 25, 5, level=2), event("none", 90, 1)]
    )
    grouped = groups_of(data)
    part = grouped.subset(grouped.group_id != grouped.names.index("a 1"))
    assert members(part) == {"deep 0": ["deep"], "b 2": ["b"], "-": ["none"]}
    assert part.names == grouped.names and part.count == grouped.count
    assert part.root_rows.tolist() == [1, -1, 0] and part.step_rows.tolist() == [1, 0]
    assert pairs(part) == [("b 2", "deep 0")]
    none = grouped.subset(grouped.group_id == 99)
    assert len(none.events) == 0 and none.names == grouped.names and none.relations.tolist() == []


def test_an_empty_host_has_no_groups() -> None:
    for data in (xspace(hostnames=["vm"]), host(), host([]), xspace(plane("/device:TPU:0", [line("Steps")]))):
        groups = groups_of(data)
        assert (groups.count, groups.names, len(groups.group_id), len(groups.relations)) == (0, [], 0, 0)
