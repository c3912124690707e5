"""Which events lead to which: joins by key, over threads and devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from host_groups import groups_of, members, read
from trace_builder import Event, event, line, plane, u64, xspace

from fastprof.derive.steps.event_graph import (
    CODES,
    ITERATOR,
    KERNEL_EXECUTE,
    KERNEL_LAUNCH,
    TF_OP,
    UNKNOWN,
    EventLinks,
    LinkEnds,
    classify_events,
    find_common_rows,
    find_events_with_stats,
    find_links,
    get_type_code,
    is_one_of,
)
from fastprof.schema.columns import number_keys

Pairs = list[tuple[int, int]]


def host(*threads: Sequence[Event]) -> bytes:
    return xspace(plane("/host:CPU", [line(f"thread {i}", events) for i, events in enumerate(threads)]))


def pairs_of(links: EventLinks, node: Any = None) -> Pairs:
    """Each producer with each consumer, by row."""
    producers, consumers = (part.tolist() for part in links.members(node))
    return sorted((row, other) for row, link in producers for other, same in consumers if link == same)


def linked(data: bytes) -> Pairs:
    events = read(data)
    return pairs_of(find_links(events, classify_events(events)))


def ends(*rows: tuple[int, int]) -> LinkEnds:
    return LinkEnds(np.array([row for row, _ in rows], np.int32), (np.array([key for _, key in rows], np.int64),))


# ---- joins -------------------------------------------------------------------------------------------


def test_keys_are_numbered_as_they_are_met() -> None:
    numbers, count = number_keys([np.array([7, 7, -1, 7]), np.array([1, 2, 1, 1])])
    assert numbers.tolist() == [0, 1, 2, 0] and count == 3
    assert number_keys([np.zeros(0, np.int64)])[1] == 0


def test_all_of_a_key_are_joined() -> None:
    links = EventLinks()
    links.join(ends((0, 5), (1, 6), (2, 5)), ends((7, 5), (8, 9), (9, 5)))
    assert pairs_of(links) == [(0, 7), (0, 9), (2, 7), (2, 9)] and links.count == 1
    links.join(ends((1, 6)), ends((3, 6)))
    assert pairs_of(links)[-3:] == [(1, 3), (2, 7), (2, 9)] and links.count == 2


def test_the_last_of_a_key_is_joined() -> None:
    links = EventLinks()
    links.join_last(ends((0, 5), (4, 6), (2, 5)), ends((7, 5), (8, 9), (9, 5)))
    assert pairs_of(links) == [(2, 7), (2, 9)]


def test_nothing_joins_nothing() -> None:
    for join in (EventLinks.join, EventLinks.join_last):
        for pair in ((ends(), ends((1, 1))), (ends((1, 1)), ends()), (ends((1, 1)), ends((2, 2)))):
            links = EventLinks()
            join(links, *pair)
            assert links.count == 0 and pairs_of(links) == []


def test_members_are_sorted_by_the_row_that_represents_them() -> None:
    links = EventLinks()
    links.join(ends((5, 1), (0, 2)), ends((3, 1), (3, 2)))
    producers, consumers = links.members(np.array([9, 1, 2, 8, 4, -1]))
    assert producers.tolist() == [(9, 1)] and consumers.tolist() == [(8, 0), (8, 1)]
    assert [part.tolist() for part in links.members(None)] == [[(0, 1), (5, 0)], [(3, 0), (3, 1)]]


@pytest.mark.parametrize(("producers", "consumers", "joined"), [(64, 64, False), (63, 200, True), (200, 63, True)])
def test_too_many_of_both_are_left_out(producers: int, consumers: int, joined: bool) -> None:
    gives = [event("x", i, 1, {"_pt": 1, "_p": 5}) for i in range(producers)]
    takes = [event("y", i, 1, {"_ct": 1, "_c": 5}) for i in range(consumers)]
    assert len(linked(host(gives, takes))) == (producers * consumers if joined else 0)


def test_events_that_have_all_of_some_stats() -> None:
    stats: list[dict[str | int, Any]] = [
        {"a": 1, "b": 2}, {"a": 3}, {"b": 4}, {"a": "text", "b": 5}, {"b": u64(1 << 63), "a": 6},
    ]  # fmt: skip
    data = host([event("e", i, 1, {"id": one.get("a"), "iter_num": one.get("b")}) for i, one in enumerate(stats)])
    both = find_events_with_stats(read(data), "id", "iter_num")
    assert both.rows.tolist() == [0, 4] and [key.tolist() for key in both.keys] == [[1, 6], [2, -(1 << 63)]]
    assert find_events_with_stats(read(data), "id").rows.tolist() == [0, 1, 4]
    assert find_events_with_stats(read(data), "id", "run_id").rows.tolist() == []


# ---- contexts ----------------------------------------------------------------------------------------


def test_contexts_are_distinguished_by_type_and_number() -> None:
    gives = [event("x", i, 1, {"_pt": kind, "_p": number}) for i, (kind, number) in enumerate([(1, 5), (2, 5), (1, 6)])]
    takes = [
        event("y", 10, 1, {"_ct": 1, "_c": 5}),
        event("y", 20, 1, {"_ct": 2, "_c": 5}),
        event("y", 30, 1, {"_c": 5}),
    ]
    assert linked(host(gives, takes)) == [(0, 3), (1, 4)]


def test_numbers_of_both_signs_are_one() -> None:
    gives = [event("x", 0, 1, {"_pt": 1, "_p": u64((1 << 64) - 1)})]
    assert linked(host(gives, [event("y", 5, 1, {"_ct": u64(1), "_c": -1})])) == [(0, 1)]


# ---- requests and programs ---------------------------------------------------------------------------


def test_executors_lead_to_tpu_executions() -> None:
    executors = [event("ExecutorState::Process", i, 1, {"id": 4, "iter_num": 0}) for i in range(2)]
    runs = [
        event("TpuExecuteOp", 10, 1, {"id": 4, "iter_num": 0}),
        event("TpuExecuteOp", 20, 1, {"id": 4, "iter_num": 1}),
    ]
    assert linked(host(executors, runs)) == [(0, 2), (1, 2)]


@pytest.mark.parametrize(
    "name",
    [
        "RunProgramRequest", "HostCallbackRequest", "TransferH2DRequest", "TransferPreprocessedH2DRequest",
        "TransferD2HRequest", "OnDeviceSendRequest", "OnDeviceRecvRequest", "OnDeviceSendRecvLocalRequest",
        "OnDeviceSendRequestMulti", "OnDeviceRecvRequestMulti", "CustomWait", "PjrtAsyncWait",
    ],
)  # fmt: skip
def test_requests_that_are_enqueued_lead_to_what_the_device_does(name: str) -> None:
    enqueued = [event("EnqueueRequestLocked", i, 1, {"request_id": i, "queue_addr": 9}) for i in range(2)]
    done = [
        event(name, 10, 1, {"request_id": 1, "queue_addr": 9}),
        event(name, 20, 1, {"request_id": 1, "queue_addr": 8}),
        event("Other", 30, 1, {"request_id": 1, "queue_addr": 9}),
    ]
    assert linked(host(enqueued, done)) == [(1, 2)]


def program(name: str, start: int, run: int, queue: int = 2, ordinal: int | None = 1, core: int | None = None) -> Event:
    stats: dict[str | int, Any] = {"run_id": run, "queue_id": queue, "device_ordinal": ordinal, "core_type": core}
    return event(name, start, 1, {stat: value for stat, value in stats.items() if value is not None})


def test_programs_lead_to_their_callbacks() -> None:
    """Of the run's number the lower 27 bits count; the type of core is 0 if it is not recorded."""
    enqueued = [program("DoEnqueueProgram", 0, (5 << 27) + 3)]
    done = [
        program("CompleteCallbacks", 10, 3), program("CompleteCallbacks", 11, (1 << 27) + 3, core=0),
        program("CompleteCallbacks", 12, 4), program("CompleteCallbacks", 13, 3, queue=3),
        program("CompleteCallbacks", 14, 3, ordinal=0), program("CompleteCallbacks", 15, 3, core=1),
        program("CompleteCallbacks", 16, 3, ordinal=None),
    ]  # fmt: skip
    assert linked(host(enqueued, done)) == [(0, 1), (0, 2)]


@pytest.mark.parametrize(
    ("name", "of_line", "run", "joined"),
    [
        ("/device:TPU:1", "XLA Modules", 3, True),
        ("/device:TPU:1", "XLA Modules", (1 << 27) + 3, False),  # the device's number is taken as it stands
        ("/device:TPU:0", "XLA Modules", 3, False),
        ("/device:TPU:1", "XLA Ops", 3, False),
        ("/device:TPU:1 SparseCore 1", "XLA Modules", 3, False),
        ("/device:GPU:1", "XLA Modules", 3, False),
    ],
)
def test_programs_lead_to_their_modules(name: str, of_line: str, run: int, joined: bool) -> None:
    enqueued = program("DoEnqueueProgram", 0, (5 << 27) + 3)
    module = program("jit_f", 10, run, ordinal=None)
    data = xspace(plane("/host:CPU", [line("t", [enqueued])]), plane(name, [line(of_line, [module])]))
    assert linked(data) == ([(0, 1)] if joined else [])


def test_a_module_is_in_the_group_of_the_step_that_enqueued_it() -> None:
    steps = [event(name, start, 50, {"_r": 1}) for name, start in (("a", 0), ("b", 100))]
    enqueued = [program("DoEnqueueProgram", start + 10, run) for start, run in ((0, 3), (100, 4))]
    modules = [program("jit_f", 20 * run, run, ordinal=None) for run in (4, 3)]
    ops = [event("fusion", 61, 0), event("fusion", 80, 1), event("late", 95, 1)]
    tpu = plane("/device:TPU:1", [line("XLA Modules", modules), line("XLA Ops", ops)])
    data = xspace(plane("/host:CPU", [line("t", [steps[0], enqueued[0], steps[1], enqueued[1]])]), tpu)
    assert members(groups_of(data)) == {
        "a 0": ["a", "DoEnqueueProgram", "jit_f", "fusion"],
        "b 1": ["b", "DoEnqueueProgram", "jit_f", "fusion"],
        "-": ["late"],
    }


# ---- kinds of events ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("TraceContext", CODES["TraceContext"]), ("EagerExecute", CODES["EagerExecute"]),
        ("tpu::System::Execute", CODES["tpu::System::Execute"]), ("Iterator", ITERATOR),
        ("Iterator::Prefetch::Generator", CODES["Iterator::Prefetch::Generator"]), ("Iterator::Root::Map", ITERATOR),
        ("dense/MatMul:MatMul", TF_OP), ("jit(f)/mul:mul", UNKNOWN), ("MEMCPYHtoD", UNKNOWN), ("", UNKNOWN),
    ],
)  # fmt: skip
def test_names_record_what_an_event_is(name: str, code: int) -> None:
    assert get_type_code(name) == code


def test_events_with_a_correlation_are_launches_on_the_host_and_kernels_elsewhere() -> None:
    events = [event("x", 0, 1, {"correlation_id": 1}), event("a:Add", 5, 1, {"correlation_id": 1}), event("y", 9, 1)]
    names = ("/host:CPU", "/host:CUPTI", "/device:GPU:0")
    found = classify_events(read(xspace(*[plane(name, [line("l", events)]) for name in names]))).tolist()
    assert found == [KERNEL_LAUNCH, TF_OP, UNKNOWN, KERNEL_EXECUTE, TF_OP, UNKNOWN, KERNEL_EXECUTE, TF_OP, UNKNOWN]


def test_what_both_have_is_found_whichever_is_the_longer() -> None:
    rng = np.random.default_rng(3)
    for _ in range(300):
        rows, others = (
            np.flatnonzero(rng.random(int(rng.integers(0, 40))) < rng.random()).astype(np.int32) for _ in range(2)
        )
        mine, its = find_common_rows(rows, others)
        common = sorted(set(rows.tolist()) & set(others.tolist()))
        assert rows[mine].tolist() == others[its].tolist() == common


def test_keys_are_known_or_not() -> None:
    keys, known = np.array([5, -(2**63), 7, 5, 0]), np.array([5, 5, 2**63 - 1, -(2**63)])
    assert is_one_of(keys, known).tolist() == [True, True, False, True, False]
    assert is_one_of(keys, known[:0]).tolist() == [False] * 5
    assert is_one_of(keys[:0], known).tolist() == []
