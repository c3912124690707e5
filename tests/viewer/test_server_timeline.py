"""What there is to show, its tiles, and how often they are sent."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from served import Served, Tile, written
from trace_builder import Event, aggregated, event, line, plane, xspace

from fastprof.viewer.answers import FOREVER, FRESH
from fastprof.viewer.cache_folder import CacheFolder

MS = 10**9


def capture(*lines: list[Event], start_unix_ns: int | None = None, first_ps: int = 0) -> bytes:
    threads = plane(
        "/host:CPU",
        [line(f"thread {n}", events, id=n, timestamp_ns=first_ps // 1000) for n, events in enumerate(lines, 1)],
    )
    if start_unix_ns is None:
        return xspace(threads)
    return xspace(threads, plane("Task Environment", stats={"profile_start_time": start_unix_ns}))


def test_a_timeline_has_hosts_processes_and_tracks() -> None:
    served = Served(xspace(
        plane("/host:CPU", [line("python", [event("a", 5, 10), event("b", 7, 2)], id=3)]),
        plane("/device:GPU:0", [line("Stream #1", [event("k", 20, 1)], id=1), line("empty", [], id=2)], id=1),
    ))  # fmt: skip
    timeline = served.timeline()
    assert (timeline["origin_ps"], timeline["span_ps"]) == ("5", "16")
    (host,) = timeline["hosts"]
    assert (host["state"], host["derived"], host["progress"], host["error"]) == ("ready", "ready", 1.0, None)
    counts = [count for one in timeline["processes"] for count in one["tracks"]["events"]]
    assert host["events"] + host["derived_events"] == sum(counts)
    gpu, threads = timeline["processes"]
    assert threads["name"].endswith("/host:CPU")
    assert threads["tracks"]["name"] == ["python"]
    assert threads["tracks"]["lanes"] == [2]
    assert gpu["tracks"]["name"][0] == "Stream #1"
    assert gpu["tracks"]["derived"][0] == 0
    columns = [len(column) for column in gpu["tracks"].values()]
    assert len(set(columns)) == 1


def test_events_are_counted_as_info_counts_them_derived_ones_separately() -> None:
    """info counts events without a start as well, which no track shows."""
    ops = [event("fusion.1", 0, 10, {"tf_op": "jit/mul"}), event("fusion.2", 20, 5, {"tf_op": "jit/add"})]
    served = Served(
        xspace(
            plane("/host:CPU", [line("python", [event("a", 5, 10)]), line("sums", [aggregated("b", 9, 4)], id=2)]),
            plane("/device:TPU:0", [line("XLA Ops", ops)], id=1),
        )
    )
    (host,) = served.timeline()["hosts"]
    tracks = [(one["tracks"]["derived"], one["tracks"]["events"]) for one in served.timeline()["processes"]]
    derived = sum(count for flags, counts in tracks for flag, count in zip(flags, counts, strict=True) if flag)
    assert (host["events"], host["untimed_events"], host["derived_events"]) == (4, 1, derived)
    assert derived > 0


def test_hosts_that_know_when_they_began_are_on_one_clock(tmp_path: Path) -> None:
    first, second = (
        capture([event("a", 0, 10)], start_unix_ns=10**18 + 5),
        capture([event("b", 1, 10)], start_unix_ns=10**18 + 7),
    )
    served = Served(written(tmp_path, first, second))
    timeline = served.timeline()
    assert [host["offset_ps"] for host in timeline["hosts"]] == ["0", "2000"]
    assert timeline["span_ps"] == "2011"
    hit = served.get("/api/search/next", q="b")["hit"]
    assert (hit["host"], hit["start_ps"]) == ("host1", "2001")


def test_hosts_of_which_one_does_not_know_all_begin_at_once(tmp_path: Path) -> None:
    served = Served(
        written(tmp_path, capture([event("a", 0, 1)], start_unix_ns=10**18 + 5), capture([event("b", 0, 1)]))
    )
    assert [host["offset_ps"] for host in served.timeline()["hosts"]] == ["0", "0"]


def test_tiles_have_what_is_asked_for_of_all_hosts(tmp_path: Path) -> None:
    served = Served(written(tmp_path, capture([event("a", 0, 10), event("b", 20, 5)]), capture([event("c", 7, 1)])))
    tracks = [one["tracks"]["id"][0] for one in served.timeline()["processes"]]
    assert len(set(tracks)) == 2
    tile = served.tile(0)
    assert (tile.magic, tile.version, tile.level, tile.index) == (0x31545046, 1, 0, 0)
    first, second = (tile.row(track) for track in tracks)
    assert tile.start[first].tolist() == [0, 20]
    assert tile.duration[first].tolist() == [10, 5]
    assert tile.start[second].tolist() == [7]
    names = served.get("/api/names", host="host0", ids="0-1,99")["names"]
    assert [names[str(number)] for number in tile.name[first].tolist()] == ["a", "b"]
    one = served.tile(0, tracks=str(tracks[1]))
    assert one.track.tolist() == [tracks[1]]


def test_a_tile_far_out_represents_all_events() -> None:
    events = [event(f"n{place % 3}", place * 100, 60) for place in range(2000)]
    served = Served(capture(events))
    tile = served.tile(20)
    assert int(tile.count.sum()) == 2000
    assert len(tile.count) == 1
    assert tile.busy[0] == pytest.approx(0.6, abs=0.001)
    assert len(served.tile(3, index=1).count) > 50


def test_tracks_of_hosts_come_in_parts(tmp_path: Path) -> None:
    planes = [plane(f"/device:GPU:{at}", [line(f"s{n}", [event("k", n, 1)], id=n) for n in (1, 2, 3)]) for at in (0, 1)]
    served = Served(written(tmp_path, *[xspace(*planes)] * 2))
    whole = served.timeline()
    tracks = [(process["id"], track) for process in whole["processes"] for track in process["tracks"]["id"]]
    assert len(tracks) >= 6 and whole["more_tracks"] == 0
    for most in (1, 2, 4, 100):
        found, first = [], 0
        while first < len(tracks):
            part = served.get("/api/timeline", first=first, tracks=most)
            assert part["more_tracks"] == max(len(tracks) - first - most, 0) and part["hosts"] == whole["hosts"]
            found += [(process["id"], track) for process in part["processes"] for track in process["tracks"]["id"]]
            first += most
        assert found == tracks
    assert served.get("/api/timeline", first=99)["processes"] == []


def test_steps_come_in_parts() -> None:
    steps = [event("train", at * 100, 90, stats={"step_num": at, "_r": 1}) for at in range(7)]
    served = Served(capture(steps))
    served.timeline()
    whole = served.get("/api/steps")
    assert (len(whole["bands"]), whole["more"]) == (7, 0)
    for rows in (1, 3, 7, 50):
        parts = [served.get("/api/steps", first=first, rows=rows) for first in range(0, 7, rows)]
        assert [band for part in parts for band in part["bands"]] == whole["bands"]
        assert [part["more"] for part in parts] == [max(7 - first - rows, 0) for first in range(0, 7, rows)]


def test_a_tile_may_have_some_lanes_alone() -> None:
    served = Served(capture([event("outer", 0, 100), event("inner", 10, 50), event("leaf", 20, 5)]))
    path = f"/api/tiles/{served.timeline()['key']}/0/0"
    expected = {"1": [0], "2": [0, 1], "9": [0, 1, 2], "0-0": [0], "1-2": [1, 2], "2-9": [2], "5-9": [], "2-1": []}
    expected |= {"": [0, 1, 2], "0": [0, 1, 2]}
    drawn = {lanes: Tile(served.client.get(path, {"lanes": lanes}).content).lane.tolist() for lanes in expected}
    assert drawn == expected
    for lanes in ("-1", "1-", "a", "1-2-3", "5000", "0-5000", "99999999", "٣"):
        assert served.refused(path, lanes=lanes)[0] == 400


def test_a_lane_of_a_tile_has_at_most_two_slices_a_bucket() -> None:
    """This bounds the bytes of an answer: the page asks for few lanes at a time."""
    events = [event(*one) for place in range(3000) for one in (("long", 66 * place, 64), ("short", 66 * place + 65, 1))]
    served = Served(capture(events))
    sizes = [len(served.tile(level, index=1).count) for level in range(9)]
    assert 1900 < max(sizes) <= 2048


def test_a_tile_is_sent_once_and_kept_for_good() -> None:
    served = Served(capture([event("a", place * 10, 5) for place in range(500)]))
    path = f"/api/tiles/{served.timeline()['key']}/0/0"
    first = served.client.get(path)
    assert first.headers["cache-control"] == FOREVER
    again = served.client.get(path, headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert served.client.get(path, headers={"if-none-match": '"other"'}).content == first.content


def test_answers_are_compressed_as_the_client_takes_them() -> None:
    served = Served(capture([event("a", place * 10, 5) for place in range(500)]))
    path = f"/api/tiles/{served.timeline()['key']}/0/0"
    plain = served.client.get(path)
    assert "content-encoding" not in plain.headers
    zipped = served.client.get(path, headers={"accept-encoding": "gzip, deflate"})
    assert zipped.headers["content-encoding"] == "gzip"
    assert gzip.decompress(zipped.content) == plain.content
    packed = served.client.get(path, headers={"accept-encoding": "gzip, br, zstd"})
    assert packed.headers["content-encoding"] == "zstd"
    assert pa.Codec("zstd").decompress(packed.content, len(plain.content)).to_pybytes() == plain.content
    assert len({answer.headers["etag"] for answer in (plain, zipped, packed)}) == 3
    assert all(answer.headers["vary"] == "Accept-Encoding" for answer in (plain, zipped, packed))
    refused = served.client.get(path, headers={"accept-encoding": "gzip;q=0, zstd; q=0.0"})
    assert "content-encoding" not in refused.headers


def test_json_is_asked_for_again_and_sent_once() -> None:
    served = Served(capture([event("a", 0, 5)]))
    served.timeline()
    first = served.client.get("/api/timeline")
    assert first.headers["cache-control"] == FRESH
    assert served.client.get("/api/timeline", headers={"if-none-match": first.headers["etag"]}).status_code == 304


def test_the_key_is_that_of_the_files_and_changes_with_them(tmp_path: Path) -> None:
    folder = written(tmp_path, capture([event("a", 0, 5)]))
    key = Served(folder).timeline()["key"]
    assert Served(folder).timeline()["key"] == key
    (path,) = folder.rglob("*.xplane.pb")
    path.write_bytes(capture([event("b", 0, 5)]))
    other = Served(folder)
    assert other.timeline()["key"] != key
    status, sentence = other.refused(f"/api/tiles/{key}/0/0")
    assert status == 410
    assert "changed after this page was loaded; reload the page" in sentence


def test_what_was_built_is_there_the_next_time(tmp_path: Path) -> None:
    folder, cache = written(tmp_path, capture([event("a", 0, 5)])), tmp_path / "cache"
    first = Served(folder, cache=CacheFolder(cache)).timeline()
    files = {path.name: path.stat().st_ino for path in cache.iterdir()}
    assert len(files) == 3
    assert Served(folder, cache=CacheFolder(cache)).timeline() == first
    assert {path.name: path.stat().st_ino for path in cache.iterdir()} == files


@pytest.mark.parametrize("spoilt", [b"", b"garbage", None])
def test_files_of_the_cache_that_are_damaged_are_built_again(tmp_path: Path, spoilt: bytes | None) -> None:
    folder, cache = written(tmp_path, capture([event("a", 0, 5)])), tmp_path / "cache"
    first = Served(folder, cache=CacheFolder(cache)).timeline()
    for path in cache.iterdir():
        path.write_bytes(path.read_bytes()[:-9] if spoilt is None else spoilt)
    assert Served(folder, cache=CacheFolder(cache)).timeline() == first


@pytest.mark.parametrize(("path", "status"), [
    ("{key}/x/0", 400), ("{key}/-1/0", 400), ("{key}/99/0", 400), ("{key}/1/-1", 400), ("{key}/1/1e3", 400),
    ("{key}/1/99999999999999999999999", 400), ("nothing/1/0", 410), ("{key}/0/0?tracks=7", 404),
    ("{key}/0/0?tracks=a", 400), ("{key}/0/0?tracks=5-1", 400), ("{key}/0/0?tracks=0-9999999999", 400),
    ("{key}/0/0?tracks=1,,2", 400), ("{key}/0/0?tracks=4294967296", 404),
])  # fmt: skip
def test_tiles_that_make_no_sense_are_refused(path: str, status: int) -> None:
    served = Served(capture([event("a", 0, 5)]))
    key = served.timeline()["key"]
    assert served.refused("/api/tiles/" + path.format(key=key))[0] == status


def test_a_tile_past_the_end_is_empty() -> None:
    served = Served(capture([event("a", 0, 5)]))
    assert len(served.tile(40, index=2**20).count) == 0


def test_times_at_the_ends_of_64_bits_are_shown() -> None:
    served = Served(capture([event("early", -(2**62), 5), event("late", 2**62, 7)]))
    timeline = served.timeline()
    assert timeline["span_ps"] == str(2**63 + 7)
    tile = served.tile(54)
    assert int(tile.count.sum()) == 2
    late = served.get("/api/search/next", q="late")["hit"]
    assert late["start_ps"] == str(2**63)


def test_a_capture_without_events_has_an_empty_timeline() -> None:
    served = Served(xspace(plane("/host:CPU", [line("idle", [])])))
    timeline = served.timeline()
    assert (timeline["processes"], timeline["span_ps"], timeline["hosts"][0]["events"]) == ([], "0", 0)
    assert len(served.tile(0).track) == 0


def test_names_are_text_whatever_they_hold() -> None:
    names = ["<img src=x onerror=alert(1)>", "a\x00b\x1f\u2028", "é" * 100_000, "\U0001f600", ""]
    events = [event(name, place * 10, 5) for place, name in enumerate(names)]
    served = Served(capture(events))
    served.timeline()
    answer = served.client.get("/api/names", {"ids": f"0-{len(names)}"})
    assert answer.content.isascii()
    found = json.loads(answer.content)["names"]
    assert sorted(found.values()) == sorted(name if len(name) <= 300 else name[:299] + "…" for name in names)
    whole = [served.client.get("/api/event/text", {"at": at, "name": "name"}).text for at in range(len(names))]
    assert sorted(whole) == sorted(names)


def test_hosts_that_cannot_be_read_are_reported_and_the_others_shown(tmp_path: Path) -> None:
    good = capture([event("a", 0, 5)])
    broken = xspace(plane("/host:CPU", [line("main", [event("a", 0, 5), b"\x08\x01\x10"])]))  # half an offset
    served = Served(written(tmp_path, good, broken))
    timeline = served.timeline()
    states = {host["host"]: (host["state"], bool(host["error"])) for host in timeline["hosts"]}
    assert states["host0"] == ("ready", False)
    assert states["host1"] == ("failed", True)
    assert len(timeline["processes"]) == 1
    assert served.refused("/api/event", host="host1", at=0)[0] == 409


def test_runs_of_a_log_directory_are_shown_by_name(tmp_path: Path) -> None:
    for name, event_name in (("2026_01_01_00_00_00", "old"), ("2026_01_02_00_00_00", "new")):
        folder = tmp_path / "plugins" / "profile" / name
        folder.mkdir(parents=True)
        (folder / "host.xplane.pb").write_bytes(capture([event(event_name, 0, 1)]))
    served = Served(tmp_path)
    runs = served.get("/api/runs")
    assert [(run["name"], run["newest"]) for run in runs["runs"]] == [
        ("2026_01_02_00_00_00", True),
        ("2026_01_01_00_00_00", False),
    ]
    served.timeline()
    assert served.get("/api/event", at=0)["name"] == "new"
    while served.get("/api/timeline", run="2026_01_01_00_00_00")["state"] != "ready":
        pass
    assert served.get("/api/event", run="2026_01_01_00_00_00", at=0)["name"] == "old"
    status, sentence = served.refused("/api/timeline", run="../../etc")
    assert (status, sentence) == (404, "no run '../../etc'; there are: 2026_01_02_00_00_00, 2026_01_01_00_00_00")


def test_tiles_of_random_captures_count_every_event_once() -> None:
    draw = np.random.default_rng(5)
    lines: list[Any] = []
    for _ in range(4):
        starts = np.sort(draw.integers(0, 10**6, 300))
        lines.append([event(f"n{draw.integers(5)}", int(s), int(draw.integers(0, 2000))) for s in starts])
    served = Served(capture(*lines))
    for level in (0, 5, 10, 15):
        seen: dict[tuple[int, int, int], int] = {}
        for index in range((10**6 >> (level + 10)) + 1):
            tile = served.tile(level, index)
            for row in range(len(tile.track)):
                place = tile.row(int(tile.track[row]), int(tile.lane[row]))
                for at, count in zip(tile.at[place].tolist(), tile.count[place].tolist(), strict=True):
                    seen[int(tile.track[row]), int(tile.lane[row]), at] = count
        assert sum(seen.values()) == 1200
