"""Stores: what the viewer asks of a host's events, compared with the definitions; derived events; damaged files."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from slow_lod import Event, SlowStore, inputs

from fastprof._native import lod
from fastprof.decode.workers import Workers
from fastprof.viewer.cache_folder import DamagedFileError
from fastprof.viewer.host_files import LANE, LEVEL, SLICE, build_store
from fastprof.viewer.store import HostStore, NameSums, Store, TilePart, make_tile

NAMES = ["a", "b", "c", "d"]


def stored(folder: Path, tracks: Sequence[Sequence[Event]], names: Sequence[str] = NAMES, row: int = 0) -> Store:
    path = folder / f"store-{time.perf_counter_ns()}"
    build_store(path, inputs(tracks, row), names, {"host": "h"}, Workers(2))
    return Store(path)


def random_tracks(chance: random.Random, count: int = 70) -> list[list[Event]]:
    """Tracks in which events nest, cross and coincide."""
    return [
        [
            (chance.randrange(300), chance.randrange(-1, 120), chance.randrange(4))
            for _ in range(chance.choice([0, count]))
        ]
        for _ in range(4)
    ]


def rows_of(sums: NameSums) -> dict[int, tuple[int, ...]]:
    columns = (sums.count, sums.total_ps, sums.clipped_ps, sums.min_ps, sums.max_ps, sums.longest)
    return dict(zip(sums.name.tolist(), zip(*(column.tolist() for column in columns), strict=True), strict=True))


# ---- what is there


def test_events_lie_by_track_lane_and_start(tmp_path: Path) -> None:
    store = HostStore(stored(tmp_path, [[(0, 9, 1), (2, 3, 2), (9, 1, 3)], [], [(4, 1, 0)]]))
    assert [(t.number, t.about, t.derived, t.events, t.lanes, t.first_at) for t in store.tracks] == [
        (0, {"name": "track 0"}, False, 3, 2, 0),
        (1, {"name": "track 1"}, False, 0, 0, 3),
        (2, {"name": "track 2"}, False, 1, 1, 3),
    ]
    found = [store.event(at) for at in range(4)]
    assert [(e.track, e.lane, e.start_ps, e.duration_ps, e.name, e.row) for e in found] == [
        (0, 0, 0, 9, 1, 0),
        (0, 0, 9, 1, 3, 2),
        (0, 1, 2, 3, 2, 1),
        (2, 0, 4, 1, 0, 3),
    ]
    assert (store.events, store.first_ps, store.last_ps, store.about) == (4, 0, 10, {"host": "h"})
    for at in (-1, 4):
        with pytest.raises(IndexError):
            store.event(at)


def test_a_host_without_events(tmp_path: Path) -> None:
    for tracks in ([], [[]]):
        store = HostStore(stored(tmp_path, tracks, names=[]))
        assert (store.events, store.first_ps, store.last_ps, store.name_count) == (0, 0, 0, 0)
        assert len(make_tile([TilePart(store, [], [], 0)], 3, 0)) == 32
        assert len(store.range_sums(None, 0, 10)) == 0
        assert store.next_hit(np.zeros(0, bool), 0) is None
        assert store.hits(np.zeros(0, bool)).tolist() == [0] * len(tracks)
        assert store.place(0) is None


def test_names_are_any_text(tmp_path: Path) -> None:
    names = ["", "<b>&\x00\x1b", "日本語 🦊", "x" * 3_000_000]
    store = HostStore(stored(tmp_path, [[(0, 1, 3)]], names))
    assert [store.name(number) for number in range(4)] == names
    assert store.name_array[0].to_pylist() == names
    sliced = pa.array(["left out", *names]).slice(1)
    build_store(tmp_path / "of-arrow", inputs([[(0, 1, 3)]]), sliced, {}, Workers(1))
    assert Store(tmp_path / "of-arrow").names.to_pylist() == names


@pytest.mark.parametrize("seed", range(4))
def test_rows_and_numbers_of_events_lead_to_each_other(tmp_path: Path, seed: int) -> None:
    tracks = random_tracks(random.Random(seed))
    store, slow = HostStore(stored(tmp_path, tracks)), SlowStore(tracks)
    assert [store.event(at).row for at in range(store.events)] == [one.row for one in slow.kept]
    assert [store.place(one.row) for one in slow.kept] == list(range(store.events))
    assert store.place(store.events) is None


# ---- around an event


@pytest.mark.parametrize("seed", range(4))
def test_the_innermost_event_around_another_is_its_parent(tmp_path: Path, seed: int) -> None:
    tracks = random_tracks(random.Random(seed))
    store, slow = HostStore(stored(tmp_path, tracks)), SlowStore(tracks)
    parents = [slow.parent(at) for at in range(store.events)]
    assert [store.parent(at) for at in range(store.events)] == parents
    for at in range(store.events):
        around = store.enclosing(at, 1000)
        assert around[:1] == ([] if parents[at] is None else [parents[at]])
        assert around[1:] == (store.enclosing(around[0], 1000) if around else [])
        children = [child for child in range(store.events) if parents[child] == at]
        assert store.children(at, 1000) == (len(children), children)
        assert store.children(at, 2) == (len(children), children[:2])


def test_too_many_children_are_not_counted_but_the_first_are_reported(tmp_path: Path) -> None:
    count = (1 << 20) + 5
    start, name = np.arange(count + 1, dtype=np.int64) * 2, np.zeros(count + 1, np.int32)
    start[0], duration = -1, np.ones(count + 1, np.int64)
    duration[0] = 3 * count
    of = inputs([[]])[0].__class__
    build_store(tmp_path / "s", [of(start, duration, name, 0, {})], NAMES, {}, Workers(1))
    begun = time.process_time()
    assert HostStore(Store(tmp_path / "s")).children(0, 3) == (None, [1, 2, 3])
    assert time.process_time() - begun < 1


# ---- sums and search


@pytest.mark.parametrize("seed", range(4))
def test_sums_of_a_range_are_those_of_the_events_that_reach_into_it(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    tracks = random_tracks(chance)
    store, slow = HostStore(stored(tmp_path, tracks)), SlowStore(tracks)
    for _ in range(40):
        first = chance.randrange(-20, 330)
        to = first + chance.randrange(1, 200)
        chosen = chance.choice([None, [2], [3, 0], []])
        found = store.range_sums(chosen, first, to)
        assert rows_of(found) == slow.sums(chosen, first, to - 1)
        assert found.clipped_ps.tolist() == sorted(found.clipped_ps.tolist(), reverse=True)
        assert found.events == sum(row[0] for row in slow.sums(chosen, first, to - 1).values())
    assert len(store.range_sums(None, 50, 50)) == 0
    everything = slow.sums(None, -(2**70), 2**70)
    assert rows_of(store.range_sums(None, -(2**70), 2**70)) == everything


def test_sums_of_many_lanes_are_made_side_by_side(tmp_path: Path) -> None:
    """More events than one task takes; the result is that of one."""
    count = 1 << 19
    starts = np.arange(count, dtype=np.int64) * 10
    of = inputs([[]])[0].__class__
    tracks = [
        of(starts, np.full(count, 3 + k, np.int64), np.full(count, k % 3, np.int32), k * count, {}) for k in range(5)
    ]
    build_store(tmp_path / "s", tracks, NAMES, {}, Workers(2))
    found = HostStore(Store(tmp_path / "s"), threads=2).range_sums(None, 0, 10 * count)
    assert rows_of(found) == {
        0: (2 * count, 9 * count, 9 * count, 3, 6, 3 * count),
        1: (2 * count, 11 * count, 11 * count, 4, 7, 4 * count),
        2: (count, 5 * count, 5 * count, 5, 5, 2 * count),
    }


def test_sums_of_a_slice_are_those_of_its_events(tmp_path: Path) -> None:
    store = HostStore(stored(tmp_path, [[(0, 2, 1), (3, 1, 0), (5, 2, 1)]]))
    assert rows_of(store.slice_sums(0, 2)) == {1: (1, 2, 2, 2, 2, 0), 0: (1, 1, 1, 1, 1, 1)}
    assert rows_of(store.slice_sums(1, 99)) == {0: (1, 1, 1, 1, 1, 1), 1: (1, 2, 2, 2, 2, 2)}
    assert len(store.slice_sums(1, 0)) == 0
    with pytest.raises(IndexError):
        store.slice_sums(3, 1)


def test_sums_past_64_bits_are_the_largest_number(tmp_path: Path) -> None:
    most = 2**63 - 1
    store = HostStore(stored(tmp_path, [[(0, most, 0)], [(0, most, 0)]]))
    assert rows_of(store.range_sums(None, 0, 2**63)) == {0: (2, most, most, most, most, 0)}


@pytest.mark.parametrize("seed", range(4))
def test_hits_are_found_in_the_order_of_start_track_and_lane(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    tracks = random_tracks(chance)
    store, slow = HostStore(stored(tmp_path, tracks)), SlowStore(tracks)
    wanted = np.array([False, True, False, True])
    hits = slow.hits(wanted.tolist())
    by_track = [sum(slow.kept[at].track == track for at in hits) for track in range(4)]
    assert store.hits(wanted).tolist() == by_track
    places = [slow.place(at) for at in hits] + [
        (chance.randrange(-5, 310), chance.randrange(-1, 5), chance.randrange(-1, 9)) for _ in range(60)
    ]
    for place in [*places, (-(2**70), -1, -1), (2**70, 9, 9)]:
        later = [at for at in hits if slow.place(at) > place]
        before = [at for at in hits if slow.place(at) < place]
        assert store.next_hit(wanted, *place) == (later[0] if later else None)
        assert store.next_hit(wanted, *place, forward=False) == (before[-1] if before else None)
    assert [store.hit_number(wanted, at) for at in hits] == list(range(len(hits)))
    assert store.next_hit(np.zeros(4, bool), -100) is None


# ---- derived events


def both(folder: Path) -> HostStore:
    raw = stored(folder, [[(0, 10, 0), (2, 3, 1)], [(5, 1, 2)]])
    return HostStore(raw, stored(folder, [[(1, 4, 1), (5, 4, 0)]], names=["one", "two"]))


def test_derived_events_follow_those_of_the_capture(tmp_path: Path) -> None:
    store = both(tmp_path)
    assert (store.events, store.name_count, len(store.tracks)) == (5, 6, 3)
    assert [(t.number, t.derived, t.first_at, t.events) for t in store.tracks] == [
        (0, False, 0, 2), (1, False, 2, 1), (2, True, 3, 2)
    ]  # fmt: skip
    event = store.event(4)
    assert (event.track, event.start_ps, event.row, event.derived, store.name(event.name)) == (2, 5, 1, True, "one")
    assert store.place(1) == 1
    assert store.parent(4) is None and store.parent(1) == 0 and store.children(0, 5) == (1, [1])


def test_sums_hits_and_tiles_are_of_both(tmp_path: Path) -> None:
    store = both(tmp_path)
    assert {name: row[0] for name, row in rows_of(store.range_sums(None, 0, 100)).items()} == {
        0: 1,
        1: 1,
        2: 1,
        4: 1,
        5: 1,
    }
    assert list(rows_of(store.range_sums([2], 0, 100))) == [4, 5]
    wanted = np.array([False, True, True, False, True, True])
    assert store.hits(wanted).tolist() == [1, 1, 2]
    order = []
    at = store.next_hit(wanted, -1)
    while at is not None:
        order.append(at)
        event = store.event(at)
        assert store.hit_number(wanted, at) == len(order) - 1
        at = store.next_hit(wanted, event.start_ps, event.track, event.lane)
    assert order == [3, 1, 2, 4]  # 2 and 4 begin at once: tracks 1 and 2
    event = store.event(4)
    assert store.next_hit(wanted, event.start_ps, event.track, event.lane, forward=False) == 2
    drawn = make_tile([TilePart(store, [2, 0], [7, 8], 0)], 0, 0)
    rows = np.frombuffer(drawn, "<u4", 3, 32).tolist()
    assert rows == [8, 8, 7]
    assert np.frombuffer(drawn, "<u4", 4, len(drawn) - 16).tolist() == [0, 1, 3, 4]


# ---- files


def test_a_damaged_file_is_reported(tmp_path: Path) -> None:
    """Cut anywhere, or with any bit of its head, tables and header changed, it is refused or is a store."""
    chance = random.Random(7)
    events = [(i * 9, 1 + i % 7, i % 4) for i in range(3000)]
    build_store(tmp_path / "s", inputs([events, [(5, 400, 0), (9, 2, 1)]]), NAMES, {}, Workers(1))
    data = (tmp_path / "s").read_bytes()
    for size in (0, 5, 31, 32, len(data) // 2, len(data) - 1):
        (tmp_path / "cut").write_bytes(data[:size])
        with pytest.raises(DamagedFileError):
            Store(tmp_path / "cut")
    refused = 0
    for _ in range(300):
        damaged = bytearray(data)
        where = chance.choice([range(32), range(len(data) - 3000, len(data))])
        damaged[chance.choice(where)] ^= 1 << chance.randrange(8)
        (tmp_path / "damaged").write_bytes(damaged)
        try:
            store = HostStore(Store(tmp_path / "damaged"))
            numbers = list(range(len(store.tracks)))
            make_tile([TilePart(store, numbers, numbers, 0)], 6, 0)
            store.range_sums(None, 0, 9000)
        except DamagedFileError:
            refused += 1
    assert refused > 50


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_bytes(b"fastprof" + (99).to_bytes(4, "little") + bytes(100))
    with pytest.raises(DamagedFileError):
        Store(path)
    with pytest.raises(FileNotFoundError):
        Store(tmp_path / "absent")


def test_a_store_that_is_open_outlives_its_file(tmp_path: Path) -> None:
    build_store(tmp_path / "s", inputs([[(0, 1, 0)]]), NAMES, {}, Workers(1))
    store = HostStore(Store(tmp_path / "s"))
    (tmp_path / "s").unlink()
    assert store.event(0).duration_ps == 1


def test_many_threads_read_one_store(tmp_path: Path) -> None:
    chance = random.Random(3)
    tracks = random_tracks(chance, 500)
    store = HostStore(stored(tmp_path, tracks))
    wanted = [make_tile([TilePart(store, [0, 1, 2, 3], [0, 1, 2, 3], 0)], level, 0) for level in range(8)]
    failed = []

    def ask() -> None:
        for _ in range(20):
            for level in range(8):
                found = make_tile([TilePart(store, [0, 1, 2, 3], [0, 1, 2, 3], 0)], level, 0)
                if found != wanted[level]:
                    failed.append(level)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_as_many_threads_build_the_same(tmp_path: Path) -> None:
    tracks = random_tracks(random.Random(9), 400)
    stores = []
    for threads in (1, 2, 4):
        build_store(tmp_path / str(threads), inputs(tracks), NAMES, {}, Workers(threads))
        stores.append(Store(tmp_path / str(threads)))
    for other in stores[1:]:
        for column in ("start", "duration", "name", "event", "lanes", "levels"):
            np.testing.assert_array_equal(getattr(stores[0], column), getattr(other, column))


def test_records_are_those_of_the_kernels() -> None:
    """Sizes that differ from C's would give other numbers of lanes, levels and slices."""
    events = [(i * 5, 4, 0) for i in range(5000)]
    out = [np.zeros(5000, dtype) for dtype in (np.int64, np.int64, np.uint32, np.uint32)]
    group = lod.Group(0, 1, *out)
    (track,) = inputs([events])
    assert group.add(0, track.start, track.duration, track.name, 0) == 0
    lanes, levels = np.frombuffer(group.lanes(), LANE), np.frombuffer(group.levels(), LEVEL)
    slices = np.frombuffer(group.slices(), SLICE)
    assert lanes.tolist() == [(0, 5000, 0, 0, 0, len(levels))]
    assert int(levels["count"].sum()) == len(slices) and levels["first"].tolist()[:1] == [0]
    assert int(slices["busy"][: int(levels["count"][0])].sum()) == 4 * 5000


def test_what_does_not_fit_is_refused() -> None:
    eight, four = np.zeros(2, np.int64), np.zeros(2, np.uint32)
    with pytest.raises(ValueError, match="differ in length"):
        lod.Group(0, 1, eight, eight[:1], four, four)
    group = lod.Group(0, 1, eight[:1], eight[:1], four[:1], four[:1])
    with pytest.raises(ValueError, match="more events"):
        group.add(0, eight, eight, four.view(np.int32), 0)
    store = lod.Lod(eight[:0], eight[:0], four[:0], four[:0], b"", b"", b"", 0)
    with pytest.raises(IndexError):
        store.sums(four, 0, 1)
    with pytest.raises(IndexError):
        store.parent(0)
    with pytest.raises(ValueError, match="differ in length"):
        lod.Lod(eight, eight, four, four[:1], b"", b"", b"", 0)
    with pytest.raises(ValueError, match="damaged"):
        lod.Lod(eight, eight, four, four, b"", b"", b"", 0)
