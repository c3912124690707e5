"""Lanes: rows of a track such that the events of a row do not overlap, and what nests lies under what encloses it."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest
from slow_lod import MOST_LANES, Event, end_of, lanes_of, sorted_events

from fastprof._native import lod


def lanes(events: list[Event]) -> list[int]:
    start, duration = (np.array([event[i] for event in events], np.int64) for i in range(2))
    lane = np.zeros(len(events), np.uint16)
    count = lod.lanes(start, duration, lane)
    assert count == (lane.max() + 1 if len(lane) else 0)
    found: list[int] = lane.tolist()
    return found


def spans(*times: tuple[int, int]) -> list[Event]:
    return [(start, duration, 0) for start, duration in times]


def test_lanes_of_nested_events_are_their_depths() -> None:
    assert lanes(spans((0, 100), (10, 20), (12, 5), (40, 30), (100, 1))) == [0, 1, 2, 1, 0]


def test_an_event_that_crosses_another_gets_a_lane_of_its_own() -> None:
    assert lanes(spans((0, 10), (5, 10), (9, 10), (12, 1), (15, 10))) == [0, 1, 2, 3, 0]


def test_events_without_a_duration_count_as_a_picosecond() -> None:
    assert lanes(spans((5, 0), (5, 0), (5, -3), (6, 0))) == [0, 1, 2, 0]


def test_no_events_need_no_lanes() -> None:
    assert lanes([]) == []


def test_what_is_not_sorted_is_refused() -> None:
    with pytest.raises(ValueError, match="not sorted"):
        lanes(spans((1, 0), (0, 0)))
    with pytest.raises(ValueError, match="differ in length"):
        lod.lanes(np.zeros(2, np.int64), np.zeros(1, np.int64), np.zeros(2, np.uint16))


@pytest.mark.parametrize("seed", range(6))
def test_random_events_lie_as_the_definition_says(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(150):
        width = chance.choice([5, 60, 2000])
        count = chance.randrange(120)
        longest = chance.choice([0, 3, width])
        events = sorted_events([(chance.randrange(width), chance.randrange(-2, longest + 1), 0) for _ in range(count)])
        found = lanes(events)
        assert found == lanes_of(events)
        until: dict[int, int] = {}
        for (start, duration, _), lane in zip(events, found, strict=True):
            assert until.get(lane, start) <= start  # events of a lane never overlap
            until[lane] = end_of(start, duration)


CROWD = 100_000


@pytest.mark.parametrize(
    "start, duration",
    [
        pytest.param(np.zeros(CROWD), np.full(CROWD, 10), id="all coincide"),
        pytest.param(np.arange(CROWD), 2 * (CROWD - np.arange(CROWD)), id="nested 100,000 deep"),
        pytest.param(np.arange(CROWD), np.full(CROWD, CROWD), id="each crosses the one before"),
    ],
)
def test_crowds_share_the_last_lane_and_take_no_long(start: np.ndarray, duration: np.ndarray) -> None:
    lane = np.zeros(CROWD, np.uint16)
    begun = time.process_time()
    assert lod.lanes(start.astype(np.int64), duration.astype(np.int64), lane) == MOST_LANES
    assert time.process_time() - begun < 1
    np.testing.assert_array_equal(lane, np.minimum(np.arange(CROWD), MOST_LANES - 1))


def test_times_at_the_ends_of_64_bits() -> None:
    least, most = -(2**63), 2**63 - 1
    events = spans((least, most), (least, 0), (0, most), (most - 1, 5), (most - 1, 0), (most, most), (most, 0))
    assert lanes(events) == lanes_of(events) == [0, 1, 0, 1, 2, 0, 0]
