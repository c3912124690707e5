"""What XProf adds to events before it shows them: each expected table is what XProf 2.24.2 shows of the capture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from timelines import host_of
from trace_builder import Event, Value, event, line, plane, u64, xspace

from fastprof.derive.host import Host
from fastprof.derive.timeline.event_groups import read_group_ids
from fastprof.derive.timeline.flows import IN, KINDS, OUT
from fastprof.xprof.trace.trace_host import Preprocessed, preprocess


def threads(*lines: list[Event]) -> bytes:
    return plane("/host:CPU", [line(f"thread {i}", events, id=i + 1) for i, events in enumerate(lines)])


def preprocessed_of(*planes: bytes) -> tuple[Host, Preprocessed]:
    host = host_of(xspace(*planes))
    return host, preprocess(host)


def flows_of(host: Host, found: Preprocessed) -> list[tuple[str, str, str, int]]:
    """Name, direction, kind, and the number of the flow as they are met."""
    numbers: dict[int, int] = {}
    ends = zip(*(getattr(found.flow, name).tolist() for name in ("rows", "direction", "kind", "number")), strict=True)
    listed = []
    for row, direction, kind, number in ends:
        name, place = host.raw.names[host.raw.meta[row]], numbers.setdefault(number, len(numbers))
        listed.append((name, {IN: "in", OUT: "out"}[direction], KINDS[kind], place))
    return listed


def test_events_get_their_group_and_roots_are_called_by_the_name_of_the_step() -> None:
    host, found = preprocessed_of(
        threads([event("train", 0, 100, {"_r": 1, "step_num": 7}), event("op", 10, 10), event("after", 200, 1)])
    )
    assert found.group_id.tolist() == read_group_ids(host).tolist() == [0, 0, -1]
    assert (found.step_rows.tolist(), found.step_names) == ([0], ["train 7"])


def test_ops_and_kernels_say_whether_they_were_executed_eagerly() -> None:
    eager = event("EagerExecute", 0, 100, {"is_func": 0})
    ops = [event("a/MatMul:MatMul", 10, 10), event("plain", 30, 10)]
    kernels = plane("/device:GPU:0", [line("Stream #1", [event("kernel", 15, 1, {"correlation_id": u64(9)})])])
    _, found = preprocessed_of(threads([eager, *ops, event("b/Add:Add", 200, 5)]), kernels)
    assert found.is_eager.tolist() == [-1, 1, -1, 0, 0]


def test_launches_and_kernels_are_the_ends_of_a_flow() -> None:
    kernels = plane("/device:GPU:0", [line("Stream #1", [event("kernel", 15, 1, {"correlation_id": u64(9)})])])
    host, found = preprocessed_of(threads([event("launch", 0, 5, {"correlation_id": u64(9)})]), kernels)
    assert flows_of(host, found) == [("launch", "out", "gpu_launch", 0), ("kernel", "in", "gpu_launch", 0)]


def test_producers_and_consumers_of_a_context_are_connected_and_what_an_event_consumes_is_shown() -> None:
    made: dict[str, Value] = {"_pt": 2, "_p": u64(5)}
    both: dict[str, Value] = {"_ct": 2, "_c": u64(5), "_pt": 99, "_p": u64(6)}
    host, found = preprocessed_of(
        threads([event("a", 0, 5, made)], [event("b", 10, 5, both)], [event("c", 20, 5, {"_ct": 0, "_c": u64(6)})])
    )
    assert flows_of(host, found) == [("a", "out", "tf_exec", 0), ("b", "in", "tf_exec", 0), ("c", "in", "generic", 1)]


def test_programs_of_tpus_are_connected_with_what_runs_them_whatever_else_their_events_say() -> None:
    enqueue = event("DoEnqueueProgram", 0, 5, {"run_id": 3 + (1 << 27), "queue_id": 0, "device_ordinal": 1})
    module = event("jit_f(1)", 10, 5, {"run_id": u64(3), "queue_id": u64(0), "_ct": 5, "_c": u64(1)})
    host, found = preprocessed_of(threads([enqueue]), plane("/device:TPU:1", [line("XLA Modules", [module])], id=10))
    assert flows_of(host, found) == [("DoEnqueueProgram", "out", "tpu_launch", 0), ("jit_f(1)", "in", "tpu_launch", 0)]
    assert (found.run_rows.tolist(), found.run_ids.tolist()) == ([0], [3])


def test_requests_are_connected_by_their_queue() -> None:
    of: dict[str, Value] = {"request_id": 4, "queue_addr": 77}
    host, found = preprocessed_of(
        threads([event("EnqueueRequestLocked", 0, 5, of)], [event("RunProgramRequest", 9, 5, of)])
    )
    assert flows_of(host, found) == [
        ("EnqueueRequestLocked", "out", "tpu_stream", 0),
        ("RunProgramRequest", "in", "tpu_stream", 0),
    ]


def test_regions_of_thread_pools_are_added_in_the_group_of_what_includes_them() -> None:
    start: dict[str, Value] = {"_ct": 15, "_c": u64(1)}
    pool = [
        event("train", 0, 50, {"_r": 1}), event("ThreadpoolListener::StartRegion", 10, 0, start),
        event("ThreadpoolListener::StopRegion", 30, 0), event("ThreadpoolListener::StartRegion", 100, 0, start),
        event("ThreadpoolListener::StopRegion", 100, 0),
    ]  # fmt: skip
    host, found = preprocessed_of(threads([event("other", 0, 1)], pool))
    regions = found.regions
    assert [host.raw.lines[number].name for number in regions.line] == ["thread 1", "thread 1"]
    assert (regions.start_ps.tolist(), regions.duration_ps.tolist()) == ([10, 100], [20, 0])
    assert regions.group.tolist() == [0, -1]


def test_steps_of_a_tpu_that_are_of_one_group_are_one_and_those_of_none_are_not_shown() -> None:
    def step(name: str, start: int, context: int | None, **stats: Value) -> Event:
        consumed: dict[str, Value] = {} if context is None else {"_ct": 5, "_c": u64(context)}
        return event(name, start, 10, consumed | stats)

    clock: dict[str, Value] = {"device_offset_ps": u64(1000), "device_duration_ps": u64(9)}
    later: dict[str, Value] = {"device_offset_ps": u64(1020), "device_duration_ps": u64(7)}
    steps = [
        step("a", 100, None), step("b", 120, 1, step_idle_time_ps=u64(3), **clock),
        step("c", 140, 1, step_idle_time_ps=u64(4), **later), step("d", 160, 2),
    ]  # fmt: skip
    roots = [event("train", 10 * i, 5, {"_r": 1, "_pt": 5, "_p": u64(i), "step_num": i}) for i in (1, 2)]
    host, found = preprocessed_of(threads(roots), plane("/device:TPU:0", [line("Steps", steps)], id=2))
    assert host.raw.names[host.raw.meta[2]] == "a"
    assert found.steps.removed.tolist() == [2, 4]
    assert (found.steps.rows.tolist(), found.steps.duration_ps.tolist(), found.steps.group.tolist()) == (
        [3, 5],
        [30, 10],
        [0, 1],
    )
    args = {name: (rows.tolist(), values.tolist()) for name, (rows, values) in found.steps.args.items()}
    assert args == {
        "step_idle_time_ps": ([3, 5], [7, 7]), "device_offset_ps": ([3], [1000]), "device_duration_ps": ([3], [27]),
    }  # fmt: skip
    assert dict(zip(found.step_rows.tolist(), found.step_names, strict=True)) == {
        0: "train 1",
        1: "train 2",
        3: "train 1",
        5: "train 2",
    }


def test_an_execution_that_begins_as_the_one_before_ends_is_shown_in_that_ones_group() -> None:
    modules = [event("jit_f", 0, 10), event("jit_f", 10, 10), event("jit_f", 30, 10)]
    host, found = preprocessed_of(plane("/device:TPU:0", [line("XLA Modules", modules)], id=2))
    assert host.groups.group_id.tolist() == [0, 1, 2]
    assert found.group_id.tolist() == [0, 0, 2]


def test_nothing_is_added_to_a_capture_that_is_grouped() -> None:
    _, found = preprocessed_of(
        threads([event("train", 0, 9, {"_r": 1, "group_id": 3}), event("launch", 1, 1, {"correlation_id": u64(1)})])
    )
    assert found.grouped and not len(found.flow) and not found.step_names
    assert found.group_id.tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("session", "flows", "regions", "groups"),
    [("cpu-jax-train", 502, 10, 10), ("gpu-mi300x-jax08-gemm", 372, 30, 0), ("cpu-tf221-train", 4306, 1369, 12)],
)
def test_real_captures(captures: Path, session: str, flows: int, regions: int, groups: int) -> None:
    (path,) = (captures / "xspace" / session).glob("*.xplane.pb")
    found = preprocess(host_of(path))
    assert (len(found.regions.line), int(found.group_id.max()) + 1) == (regions, groups)
    assert len(found.flow) == flows and (np.diff(found.flow.rows) > 0).all()
