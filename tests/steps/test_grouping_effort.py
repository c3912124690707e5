"""Grouping takes time in proportion to what it is given, also where a capture is made to drive it to its worst. What
grows with the square of these sizes takes minutes; the limit leaves room for slow machines."""

from __future__ import annotations

import time
from typing import Any

import pytest
from gate import few
from host_groups import read
from trace_builder import Event, event, line, plane, xspace

from fastprof.decode.workers import Workers
from fastprof.derive.steps.event_graph import REGION_START, REGION_STOP
from fastprof.derive.steps.grouping import group_events

MOST_SECONDS = 3
MANY = 30_000


def thread(events: list[Event]) -> bytes:
    return xspace(plane("/host:CPU", [line("main", events)]))


def e(name: str, start: int, duration: int, **stats: Any) -> Event:
    return event(name, start, duration, stats)


def a_level_for_each_of_nested_roots() -> bytes:
    return thread([e("train", i, 2 * (MANY - i), _r=i) for i in range(MANY)])


def regions_that_begin_together() -> bytes:
    begun = [e("as long", 10, MANY) for _ in range(MANY)] + [e(REGION_START, 10, 0, _c=1) for _ in range(MANY)]
    return thread(begun + [e(REGION_STOP, 20 + i, 0) for i in range(MANY)])


def a_crowd_of_groups_that_lead_to_all_others() -> bytes:
    gives = [e("gives", i, 0, _pt=1, _p=1, _r=1) for i in range(63)]
    return thread(gives + [e("takes", 100 + i, 0, _ct=1, _c=1, _r=2) for i in range(MANY)])


def a_chain_of_contexts() -> bytes:
    return thread([e("link", i, 0, _pt=1, _p=i, _ct=1, _c=i - 1, _r=1 + i % 3) for i in range(MANY)])


def iterations_of_a_loop() -> bytes:
    return thread([e("ExecutorState::Process", i, 0, id=i % 7, iter_num=i // 7) for i in range(MANY)])


def lines_that_are_called_steps() -> bytes:
    lines = [line("Steps", [e("train", 5, 5, _r=1)]) for _ in range(MANY // 3)]
    return xspace(plane("/host:CPU", lines))


def cores_that_have_a_step() -> bytes:
    lines = [line("Steps", [e("s", 5, 5, step_idle_time_ps=1)]), line("XLA Ops", [e("op", 6, 1)])]
    return xspace(*[plane(f"/device:TPU:{i}", lines, id=i) for i in range(MANY // 10)])


def ops_that_are_placed_among_steps() -> bytes:
    steps, ops = ([e(name, i, 1) for i in range(MANY)] for name in ("s", "op"))
    return xspace(plane("/device:TPU:0", [line("Steps", steps), line("XLA Ops", ops)]))


@pytest.mark.parametrize(
    "attack",
    few([
        a_level_for_each_of_nested_roots, regions_that_begin_together, a_crowd_of_groups_that_lead_to_all_others,
        a_chain_of_contexts, iterations_of_a_loop, lines_that_are_called_steps, cores_that_have_a_step,
        ops_that_are_placed_among_steps,
    ], 3),
)  # fmt: skip
def test_attacks(attack: Any) -> None:
    events = read(attack())
    begun = time.process_time()
    groups = group_events(events, Workers(1))
    assert len(groups.names) == groups.count
    assert time.process_time() - begun < MOST_SECONDS
