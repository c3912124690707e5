"""Tiles: what is drawn of a window at each level, compared with the definition, and how little it costs."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from slow_lod import Event, SlowStore, inputs, unpacked

from fastprof.decode.workers import Workers
from fastprof.viewer.host_files import TrackInput, build_store
from fastprof.viewer.store import COARSEST, HostStore, Store, TilePart, make_tile

NAMES = ["a", "b", "c", "d"]


def built(folder: Path, tracks: Sequence[Sequence[Event]], threads: int = 1) -> HostStore:
    path = folder / f"store-{time.perf_counter_ns()}"
    build_store(path, inputs(tracks), NAMES, {}, Workers(threads))
    return HostStore(Store(path))


def drawn(store: HostStore, level: int, index: int, origin: int = 0) -> dict[tuple[int, int], list[tuple[Any, ...]]]:
    numbers = list(range(len(store.tracks)))
    header, slices = unpacked(make_tile([TilePart(store, numbers, numbers, origin)], level, index))
    assert (header["magic"], header["version"], header["zero"]) == (0x31545046, 1, 0)
    assert (header["level"], header["low"] | header["high"] << 32) == (level, index)
    return slices


def test_short_neighbours_of_a_bucket_are_one_slice(tmp_path: Path) -> None:
    """Buckets of 8 ps: the first three events are in one, with 2 + 1 + 2 of 7 ps busy, most of it with b; the fourth
    is as long as a bucket and stays alone."""
    store = built(tmp_path, [[(0, 2, 1), (3, 1, 0), (5, 2, 1), (8, 8, 2), (17, 0, 3)]])
    assert drawn(store, 3, 0) == {
        (0, 0): [
            (0.0, 7.0, float(np.float32(5 / 7)), 3, 1, 0),
            (8.0, 8.0, 1.0, 1, 2, 3),
            (17.0, 0.0, 1.0, 1, 3, 4),
        ]
    }
    assert [slice[3] for slice in drawn(store, 0, 0)[0, 0]] == [1] * 5


def test_of_names_with_equal_time_the_smaller_number_is_reported(tmp_path: Path) -> None:
    store = built(tmp_path, [[(0, 2, 3), (2, 2, 1), (4, 1, 0)]])
    assert drawn(store, 4, 0)[0, 0] == [(0.0, 5.0, 1.0, 3, 1, 0)]


def test_a_window_has_what_reaches_into_it_from_before(tmp_path: Path) -> None:
    store = built(tmp_path, [[(0, 5000, 0), (10, 20, 1), (2000, 1, 2)]])
    assert drawn(store, 0, 1) == {(0, 0): [(0.0, 5000.0, 1.0, 1, 0, 0)], (0, 1): [(2000.0, 1.0, 1.0, 1, 2, 2)]}
    assert drawn(store, 0, 3) == {(0, 0): [(0.0, 5000.0, 1.0, 1, 0, 0)]}
    assert drawn(store, 0, 5) == {}
    assert drawn(store, 0, 2**60) == {}


def random_tracks(chance: random.Random) -> list[list[Event]]:
    """Bursts of short events with long ones between, and in some tracks events that nest and cross."""
    tracks: list[list[Event]] = []
    for _ in range(chance.randrange(1, 4)):
        events: list[Event] = []
        at = chance.choice([0, -50_000, 10**12])
        for _ in range(chance.choice([0, 30, 900])):
            length = chance.choice([0, 0, chance.randrange(4), chance.randrange(60), chance.randrange(9000)])
            events.append((at, length - chance.randrange(2), chance.randrange(len(NAMES))))
            at += chance.choice([0, 1, length, length, length + 3, chance.randrange(1 << chance.randrange(1, 14))])
        tracks.append(events)
    return tracks


@pytest.mark.parametrize("seed", range(8))
def test_random_tiles_are_what_the_definition_says(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(5):
        tracks = random_tracks(chance)
        store, slow = built(tmp_path, tracks, threads=2), SlowStore(tracks)
        starts = [event[0] for events in tracks for event in events] or [0]
        for level in range(0, 44, chance.randrange(1, 5)):
            origin = chance.choice([0, min(starts), min(starts) - chance.randrange(5000)])
            width = 1 << (level + 10)
            index = max(chance.choice(starts) - origin, 0) // width
            first = origin + index * width
            assert drawn(store, level, index, origin) == slow.slices(level, first, first + width - 1, origin)


def test_levels_that_are_kept_change_nothing(tmp_path: Path) -> None:
    """A lane of many events has levels, whose slices are the same as those that are found of the events."""
    chance = random.Random(5)
    events, at = [], 0
    for _ in range(6000):
        events.append((at, chance.randrange(1 << chance.randrange(1, 9)), chance.randrange(4)))
        at += events[-1][1] + chance.randrange(1 << chance.randrange(1, 12))
    store, slow = built(tmp_path, [events]), SlowStore([events])
    kept = store.raw.levels["level"].tolist()
    assert len(kept) > 6 and kept == sorted(kept)
    assert len(store.raw.levels) and int(store.raw.levels["count"].sum()) < 6000 // 2
    for level in range(24):
        assert drawn(store, level, 0) == slow.slices(level, 0, (1 << level + 10) - 1, 0), level


def test_a_tile_has_at_most_about_two_slices_a_bucket_and_lane(tmp_path: Path) -> None:
    """Whatever is crowded where: half of the events spread out, half of them in one millisecond, and a crowd in one
    instant."""
    chance = random.Random(6)
    spread = [(i * 10**9, 10**6, 0) for i in range(20_000)]
    burst = [(5 * 10**12 + 10**7 + i * 40_000, 30_000, 1) for i in range(20_000)]
    crowd = [(7 * 10**12, 10**6, 2)] * 9000
    store = built(tmp_path, [spread + burst, crowd])
    for level in range(36):
        for start in (0, 5 * 10**12, 7 * 10**12, chance.randrange(2 * 10**13)):
            for slices in drawn(store, level, start >> (level + 10)).values():
                assert len(slices) <= 2 * 1024 + 2


def test_only_the_first_lanes_are_drawn_where_that_many_are_asked_for(tmp_path: Path) -> None:
    tracks = [[(0, 9, 0), (1, 7, 1), (2, 5, 2)], [(3, 1, 3)]]
    store = built(tmp_path, tracks)
    for lanes in (0, 1, 2, 4096):
        _, slices = unpacked(make_tile([TilePart(store, [0, 1], [0, 1], 0, range(lanes))], 0, 0))
        assert list(slices) == [place for place in ((0, 0), (0, 1), (0, 2), (1, 0)) if place[1] < lanes]


def test_several_hosts_share_a_tile(tmp_path: Path) -> None:
    """Each has its own origin and its own names of tracks; numbers of events and names are of each host."""
    one, other = built(tmp_path, [[(100, 5, 1)], [(100, 7, 2)]]), built(tmp_path, [[(-50, 5, 3)]])
    parts = [TilePart(one, [1], [40], 100), TilePart(other, [0], [7], -60)]
    header, slices = unpacked(make_tile(parts, 0, 0))
    assert header["rows"] == 2
    assert slices == {(40, 0): [(0.0, 7.0, 1.0, 1, 2, 1)], (7, 0): [(10.0, 5.0, 1.0, 1, 3, 0)]}
    assert list(slices) == [(40, 0), (7, 0)]


def test_tiles_that_are_not_there_are_refused(tmp_path: Path) -> None:
    store = built(tmp_path, [[(0, 1, 0)]])
    part = TilePart(store, [0], [0], 0)
    for level, index in ((-1, 0), (COARSEST + 1, 0), (0, -1), (0, 2**64)):
        with pytest.raises(ValueError, match="no such tile"):
            make_tile([part], level, index)


def test_times_at_the_ends_of_64_bits_are_drawn(tmp_path: Path) -> None:
    least, most = -(2**63), 2**63 - 1
    events = [(least, most, 0), (-3, 1, 1), (0, most, 2), (most - 5, 2, 1), (most, most, 3)]
    store, slow = built(tmp_path, [events]), SlowStore([events])
    assert (store.first_ps, store.last_ps) == (least, most)
    for level in (0, 20, 40, COARSEST):
        for origin in (least, -10, 0, most - 100):
            for index in (0, 1, 2**9, (2**64 - 1) >> (level + 10)):
                first = origin + (index << level + 10)
                wanted = slow.slices(level, first, first + (1 << level + 10) - 1, origin)
                assert drawn(store, level, index, origin) == wanted, (level, origin, index)


def test_an_origin_past_64_bits_only_shifts(tmp_path: Path) -> None:
    """Hosts whose clocks are years apart: the origin of the session may be a time that no event can have."""
    store = built(tmp_path, [[(5, 1 << 40, 1)]])
    origin = -(2**70)
    header, slices = unpacked(make_tile([TilePart(store, [0], [0], origin)], 54, 2**70 >> 64))
    assert header["rows"] == 1
    assert slices[0, 0] == [(float(2**70), float(1 << 40), 1.0, 1, 1, 0)]


def test_unsorted_tracks_are_sorted(tmp_path: Path) -> None:
    path = tmp_path / "store"
    start, duration = np.array([9, 0, 0, -(2**63)], np.int64), np.array([1, 2, 7, -(2**63)], np.int64)
    build_store(path, [TrackInput(start, duration, np.arange(4, dtype=np.int32), 10, {})], NAMES, {}, Workers(1))
    store = HostStore(Store(path))
    events = [store.event(at) for at in range(4)]
    assert [(e.start_ps, e.lane, e.name, e.row) for e in events] == [
        (-(2**63), 0, 3, 13), (0, 0, 2, 12), (9, 0, 0, 10), (0, 1, 1, 11)
    ]  # fmt: skip
    assert [store.place(row) for row in (10, 11, 12, 13, 14)] == [2, 3, 1, 0, None]
    assert len(store.tracks) == 1


def test_a_name_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for name in (-1, 4):
        columns = np.zeros(1, np.int64), np.zeros(1, np.int64), np.array([name], np.int32)
        with pytest.raises(ValueError, match="name that is not there"):
            build_store(tmp_path / "store", [TrackInput(*columns, 0, {})], NAMES, {}, Workers(1))
