"""Pipelines take time in proportion to their events, also where a capture is made to drive it to its worst. What grows
with the square of these sizes takes minutes; the limit leaves room for slow machines."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from gate import few
from kept import kept_of, read_by_xprof
from trace_builder import Event, event, line, plane, xspace

from fastprof.errors import CaptureError

MOST_SECONDS = 2
MANY = 15_000


def e(name: str, start: int, duration: int, **stats: Any) -> Event:
    return event(name, start, duration, stats)


def capture(*threads: list[Event]) -> bytes:
    return xspace(plane("/host:CPU", [line(f"thread {i}", events, id=i) for i, events in enumerate(threads)]))


def iterators_in_iterators() -> bytes:
    name = "Iterator::Root::Map"
    nest = [e(name if i else "Iterator::Root", i, 2 * (MANY - i), id=i, parent_id=i - 1) for i in range(MANY)]
    return capture(nest)


def calls_in_calls() -> bytes:
    return capture([e("Iterator::Root", i, 2 * (MANY - i), id=i % 5) for i in range(MANY)])


def an_element_that_all_make_and_all_take() -> bytes:
    takes, makes = [e("Iterator::Root", 0, 8 * MANY, id=1)], []
    for i in range(MANY // 2):
        takes.append(e("Iterator::Root::Prefetch", 4 * i, 3, id=2, parent_id=1))
        takes.append(e("PrefetchConsume", 4 * i + 2, 1, element_id=7))
        makes.append(e("PrefetchProduce", 4 * i, 2, element_id=7))
        makes.append(e("Iterator::Root::Prefetch::Map", 4 * i, 2, id=3, parent_id=2))
    return capture(takes, makes)


def a_context_that_all_make_and_all_take() -> bytes:
    makes = [e("Iterator::Root", 0, 2 * MANY, id=1)]
    makes += [e("Iterator::Root::Map", 2 * i, 1, id=2, _pt=1, _p=1) for i in range(MANY)]
    return capture(makes, [e("Iterator::Root::Map::Range", 2 * i, 1, id=3, _ct=1, _c=1) for i in range(MANY)])


def a_circle_of_contexts() -> bytes:
    turns = [e("Iterator::Root::Map", 2 * i, 1, id=i, _pt=1, _p=(i + 1) % MANY, _ct=1, _c=i) for i in range(MANY)]
    return capture([e("Iterator::Root", 0, MANY, id=MANY)], turns)


def functions_of_one_run() -> bytes:
    inside = [e("InstantiatedCapturedFunction::RunAsync", i, 1, id=5) for i in range(MANY)]
    return capture(
        [e("Iterator::Root", 0, 2 * MANY, id=1), *inside],
        [e("ExecutorState::Process", i, 3, id=5) for i in range(MANY)],
    )


def much_that_goes_on_while_much_is_asked_for() -> bytes:
    within = [e("Iterator::Root::Prefetch", 0, 8 * MANY, id=2, parent_id=1), e("PrefetchConsume", 1, 1, element_id=7)]
    asks = [e("Iterator::Root::Prefetch::Map", 8 * i, 3, id=3, parent_id=2) for i in range(MANY)]
    runs = [e("InstantiatedCapturedFunction::Run", 8 * i + 2, 4, id=i) for i in range(MANY)]
    made = e("PrefetchProduce", 0, 9 * MANY, element_id=7)
    return capture([e("Iterator::Root", 0, 8 * MANY, id=1), *within], [made, *asks], [made, asks[0], *runs])


def a_pipeline_each() -> bytes:
    return capture([e("Iterator::Root", 2 * i, 1, id=i) for i in range(MANY)])


def calls_that_share_one_producer() -> bytes:
    calls = []
    for i in range(MANY // 3):
        calls += [
            e("Iterator::Root", 9 * i, 9, id=1), e("Iterator::Root::Prefetch", 9 * i, 8, id=2, parent_id=1),
            e("PrefetchConsume", 9 * i + 1, 1, element_id=7),
        ]  # fmt: skip
    nest = [e("Iterator::Root::Map", i, 2 * (MANY - i), id=3 + i, parent_id=2 + i) for i in range(MANY)]
    return capture(calls, [e("PrefetchProduce", 0, 2 * MANY, element_id=7), *nest])


@pytest.mark.parametrize(
    "attack",
    few([
        iterators_in_iterators, calls_in_calls, an_element_that_all_make_and_all_take, functions_of_one_run,
        a_context_that_all_make_and_all_take, a_circle_of_contexts, much_that_goes_on_while_much_is_asked_for,
        a_pipeline_each, calls_that_share_one_producer,
    ], 3),
)  # fmt: skip
def test_attacks(attack: Any) -> None:
    data = attack()
    begun = time.process_time()
    kept = kept_of(data)
    found = kept.exact
    shares = np.zeros(len(found.calls), np.int64)
    np.add.at(shares, found.records.call, found.records.critical_ps)
    assert len(found.calls) and (shares == found.calls.duration_ps).all()
    assert len(found.records) <= kept.iterator_event_count
    assert time.process_time() - begun < MOST_SECONDS
    try:
        read_by_xprof(data)
    except CaptureError as error:
        assert "50,000,000 steps" in str(error)
    assert time.process_time() - begun < 2 * MOST_SECONDS
