"""Stores of captures: every event has its place, files of the cache are used again, and damaged ones are made again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gate import typical_captures
from slow_lod import lanes_of
from trace_builder import event, line, plane, xspace

import fastprof
from fastprof.errors import CaptureError
from fastprof.tables.host_reader import read_host
from fastprof.viewer.cache_folder import CacheFolder
from fastprof.viewer.store import HostStore, TilePart, make_tile
from fastprof.viewer.viewed_run import DerivedHost, open_derived_facts, open_derived_store, open_raw_store

CAPTURE = xspace(
    plane(
        "/host:CPU",
        [
            line("late", [event("step", 0, 100), event("op", 10, 20), event("other", 25, 30)], id=9),
            line("early", [event("op", 5, 0)], id=2),
            line("empty", [], id=3),
        ],
    )
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "h.xplane.pb"
    file.write_bytes(CAPTURE)
    return file


@typical_captures
def test_every_event_of_every_real_capture_has_its_place(capture: Path) -> None:
    """Of each line that has events: start, duration and name of each of its rows, on lanes as the definition says."""
    tables = fastprof.load(capture).table_set
    events = read_host(tables, 0, (), (), ())
    derived = open_derived_store(DerivedHost(tables, 0))
    store = HostStore(open_raw_store(tables, 0), derived)
    raw = [track for track in store.tracks if not track.derived]
    lines = {line.number: line for line in events.lines if line.last > line.first}
    assert sorted(track.about["line"] for track in raw) == sorted(lines)
    for track in raw:
        line = lines[track.about["line"]]
        first, last = track.first_at, track.first_at + track.events
        rows = store.raw.event[first:last]
        np.testing.assert_array_equal(np.sort(rows), np.arange(line.first, line.last))
        np.testing.assert_array_equal(store.raw.start[first:last], events.start_ps[rows])
        np.testing.assert_array_equal(store.raw.duration[first:last], events.duration_ps[rows])
        shown = [events.display_names[meta] or events.names[meta] for meta in events.meta[rows[:50]].tolist()]
        assert [store.name(name) for name in store.raw.name[first:last][:50].tolist()] == shown
        assert store.about["processes"][track.about["process"]]["plane"] == line.plane.name
        if track.events <= 3000:
            of_line = slice(line.first, line.last)
            pairs = zip(events.start_ps[of_line].tolist(), events.duration_ps[of_line].tolist(), strict=True)
            lanes = np.zeros(track.events, int)
            at_lane = np.repeat(store.raw.lanes["lane"], store.raw.lanes["count"])[first:last]
            lanes[rows - line.first] = at_lane
            assert lanes.tolist() == lanes_of([(*pair, 0) for pair in pairs])
    numbers = [track.number for track in store.tracks]
    level = max(((store.last_ps - store.first_ps) // 1024).bit_length(), 0)
    drawn = make_tile([TilePart(store, numbers, numbers, store.first_ps)], level, 0)
    count, slices = (int(np.frombuffer(drawn, "<u4", 1, offset)[0]) for offset in (8, 12))
    lanes_there = sum(len(one.lanes) for one in (store.raw, derived))
    assert count == lanes_there
    at = (32 + 12 * count + 7) // 8 * 8 + 20 * slices
    assert int(np.frombuffer(drawn, "<u4", slices, at).sum()) == store.events


def test_a_store_says_what_its_tracks_are(path: Path) -> None:
    store = open_raw_store(fastprof.load(path).table_set, 0)
    (process,) = store.about["processes"]
    assert (process["plane"], process["kind"], process["shown"]) == ("/host:CPU", "CPU", True)
    tracks = [(track.about["name"], track.about["tid"], track.about["line"], track.events) for track in store.tracks()]
    assert tracks == [("early", 2, 1, 1), ("late", 9, 0, 3)]
    assert [HostStore(store).name(name) for name in store.name.tolist()] == ["op", "step", "op", "other"]


def test_the_cache_is_used_again(path: Path, tmp_path: Path) -> None:
    cache = CacheFolder(tmp_path / "cache")
    first = open_raw_store(fastprof.load(path).table_set, 0, cache)
    files = {file: file.stat().st_ino for file in cache.path.iterdir()}
    again = open_raw_store(fastprof.load(path).table_set, 0, cache)
    assert {file: file.stat().st_ino for file in cache.path.iterdir()} == files
    assert len(files) == 1 and len(first) == len(again) == 4
    open_derived_store(DerivedHost(fastprof.load(path).table_set, 0), cache)
    assert len(list(cache.path.iterdir())) == 2


def test_a_changed_capture_or_another_selection_has_a_store_of_its_own(path: Path, tmp_path: Path) -> None:
    cache = CacheFolder(tmp_path / "cache")
    open_raw_store(fastprof.load(path).table_set, 0, cache)
    some = open_raw_store(fastprof.load(path).select(lines="early").table_set, 0, cache)
    assert len(some) == 1
    path.write_bytes(CAPTURE + xspace(plane("/host:CPU", [line("new", [event("op", 1, 1)], id=77)])))
    assert len(open_raw_store(fastprof.load(path).table_set, 0, cache)) == 5
    assert len(list(cache.path.iterdir())) == 3


@pytest.mark.parametrize("left", [0, 40, -1])
def test_a_damaged_file_of_the_cache_is_made_again(path: Path, tmp_path: Path, left: int) -> None:
    cache = CacheFolder(tmp_path / "cache")
    open_raw_store(fastprof.load(path).table_set, 0, cache)
    (file,) = cache.path.iterdir()
    file.write_bytes(file.read_bytes()[:left])
    assert len(open_raw_store(fastprof.load(path).table_set, 0, cache)) == 4
    assert len(list(cache.path.iterdir())) == 1


def test_a_file_that_another_process_removes_before_it_is_open_is_made_again(path: Path, tmp_path: Path) -> None:
    class Hasty(CacheFolder):
        calls = 0

        def file(self, key, build):  # type: ignore[no-untyped-def]
            found = super().file(key, build)
            self.calls += 1
            if self.calls == 1:
                found.unlink()
            return found

    assert len(open_raw_store(fastprof.load(path).table_set, 0, Hasty(tmp_path / "cache"))) == 4


def test_bytes_have_a_store_that_leaves_nothing_behind(tmp_path: Path) -> None:
    cache = CacheFolder(tmp_path / "cache")
    assert len(open_raw_store(fastprof.load(CAPTURE).table_set, 0, cache)) == 4
    assert not list(cache.path.iterdir())
    assert len(open_raw_store(fastprof.load(CAPTURE).table_set, 0)) == 4


def test_progress_is_reported(path: Path) -> None:
    calls: list[tuple[str, int, int]] = []
    tables = fastprof.load(path, threads=1).table_set
    open_raw_store(tables, 0, progress=lambda *at: calls.append(at))
    assert ("levels of detail", 1, 1) in calls
    open_raw_store(tables, 0)
    assert calls.count(("levels of detail", 1, 1)) == 1


def test_a_broken_capture_says_so_and_leaves_no_file(tmp_path: Path) -> None:
    whole = xspace(plane("/host:CPU", [line("l", [event("op", n, 1) for n in range(50)])]))
    broken = tmp_path / "h.xplane.pb"
    at = len(whole) // 2
    broken.write_bytes(whole[:at] + b"\xff" * 12 + whole[at + 12 :])
    cache = CacheFolder(tmp_path / "cache")
    with pytest.raises(CaptureError):
        open_raw_store(fastprof.load(broken).table_set, 0, cache)
    assert not [file for file in cache.path.iterdir() if file.suffix == ".fastprof"]
    salvaged = fastprof.load(broken, on_error="salvage")
    assert len(open_raw_store(salvaged.table_set, 0, cache)) == salvaged.events.num_rows


def test_the_cache_takes_at_most_24_bytes_an_event(tmp_path: Path) -> None:
    """Events here have no pattern in times, durations and names. Real events take fewer bytes."""
    rng = np.random.default_rng(11)
    lines = []
    for thread in range(4):
        steps = rng.integers(1, 10**9, (30_000, 2)).tolist()
        at, events = 0, []
        for gap, duration in steps:
            events.append(event(f"op {(gap ^ duration) % 500}", at + gap, duration))
            at += gap + duration
        lines.append(line(f"thread {thread}", events, id=thread + 1))
    file = tmp_path / "h.xplane.pb"
    file.write_bytes(xspace(plane("/host:CPU", lines)))
    served, cache = fastprof.load(file), CacheFolder(tmp_path / "cache")
    host = DerivedHost(served.table_set, 0)
    store = open_raw_store(served.table_set, 0, cache)
    open_derived_store(host, cache)
    open_derived_facts(host, cache)
    sizes = [path.stat().st_size for path in cache.path.iterdir()]
    assert len(store) == 120_000 and len(sizes) == 3
    assert 10 * len(store) < sum(sizes) <= 24 * len(store)
