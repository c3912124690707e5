"""Processes and tracks: what they are called, and in which order they come."""

from __future__ import annotations

from pathlib import Path

import pytest
from timelines import host_of
from trace_builder import Metadata, event, line, plane, xspace

from fastprof.derive.timeline.host_timeline import is_grouped, make_raw_timeline


def processes(*planes: bytes) -> list[tuple[int, str, bool]]:
    host = host_of(xspace(*planes, hostnames=["vm"]))
    return [(one.pid, one.plane.name, one.shown) for one in make_raw_timeline(host).processes]


def tracks(*planes: bytes) -> list[tuple[int, str, str]]:
    return [(one.tid, one.name, one.kind) for one in make_raw_timeline(host_of(xspace(*planes))).tracks]


def with_event(name: str, id: int = 0) -> bytes:
    return plane(name, [line("x", [event("e", 0, 1)])], id=id)


def test_devices_come_before_custom_planes_and_threads_and_planes_that_xprof_leaves_out_last() -> None:
    names = ["/host:CPU", "/host:CUPTI", "/device:CUSTOM:x", "/device:GPU:1", "/device:TPU:0", "/device:GPU:0"]
    ids = [0, 0, 3, 1, 2, 0]
    found = processes(*(with_event(name, id) for name, id in zip(names, ids, strict=True)))
    assert found == [
        (1001, "/device:GPU:0", True), (1002, "/device:GPU:1", True), (1504, "/device:CUSTOM:x", True),
        (1701, "/host:CPU", True), (1000 + 2**20 + 1, "/host:CUPTI", False), (1000 + 2**20 + 4, "/device:TPU:0", False),
    ]  # fmt: skip


def test_tpus_are_known_by_their_ids_and_planes_of_threads_by_their_order() -> None:
    names = processes(
        with_event("/host:CPU [9]"), with_event("/host:CPU [10]"), with_event("/device:TPU:1", 10),
        with_event("/device:TPU:0", 2), with_event("/device:TPU:2", 500),
    )  # fmt: skip
    assert names == [
        (1001, "/device:TPU:2", True), (1003, "/device:TPU:0", True), (1011, "/device:TPU:1", True),
        (1701, "/host:CPU [10]", True), (1702, "/host:CPU [9]", True),
    ]  # fmt: skip


def test_a_process_is_called_by_its_host_and_plane(captures: Path) -> None:
    capture = captures / "xspace" / "cpu-jax-train" / "vm.xplane.pb"
    (process,) = make_raw_timeline(host_of(capture)).processes
    assert (process.name, process.pid) == ("vm /host:CPU", 1701)


def test_a_process_with_lines_is_shown_though_they_are_empty() -> None:
    assert processes(plane("/host:CPU", [line("x")])) == [(1701, "/host:CPU", True)]
    assert processes(plane("/host:CPU", [])) == []


def test_tracks_are_ordered_by_the_32_bits_of_their_display_ids() -> None:
    lines = [
        line("big", [event("e")], id=(5 << 32) + 7),
        line("negative", [event("e")], id=-1),
        line("shown by another", [event("e")], id=9, display_id=3, display_name="shown"),
        line("empty", [], id=1),
    ]
    assert tracks(plane("/host:CPU", lines)) == [
        (3, "shown", "events"),
        (7, "big", "events"),
        (2**32 - 1, "negative", "events"),
    ]


def test_lines_of_steps_and_counters_are_reported() -> None:
    lines = [line(name, [event("e")]) for name in ("Steps", "_counters_", "XLA Ops")]
    assert [kind for _, _, kind in tracks(plane("/device:TPU:0", lines))] == ["steps", "counter", "events"]


def test_streams_that_compute_come_first_then_those_with_the_most_events_with_room_for_derived_lines() -> None:
    few, many = [event("e")], [event("e", i) for i in range(3)]
    lines = [
        line("Stream #14(MemcpyH2D)", few, id=14), line("Stream #15(MemcpyD2H)", many, id=15),
        line("Stream #16(Compute)", few, id=16), line("Steps", few, id=0xDEADBEEF),
    ]  # fmt: skip
    assert tracks(plane("/device:GPU:0", lines)) == [
        (1, "Stream #16(Compute)", "events"), (8, "Stream #15(MemcpyD2H)", "events"),
        (15, "Stream #14(MemcpyH2D)", "events"), (0xDEADBEEF, "Steps", "steps"),
    ]  # fmt: skip


def test_streams_past_the_sixteenth_keep_their_ids() -> None:
    lines = [line(f"Stream #{i}", [event("e", j) for j in range(40 - i)], id=i) for i in range(20)]
    found = tracks(plane("/device:GPU:0", lines))
    assert [tid for tid, _, _ in found] == sorted([*range(1, 107, 7), 16, 17, 18, 19])


def test_streams_of_a_capture_that_is_grouped_keep_their_ids() -> None:
    space = xspace(plane("/device:GPU:0", [line("Stream #14(Compute)", [event("e", 0, 1, {"group_id": 0})], id=14)]))
    host = host_of(space)
    assert is_grouped(host.raw)
    assert [track.tid for track in make_raw_timeline(host).tracks] == [14]


def test_names_are_those_that_are_displayed_and_equal_ones_have_one_number() -> None:
    metas = [Metadata("long", 1, display_name="short"), Metadata("short", 2), Metadata("", 3)]
    timeline = make_raw_timeline(
        host_of(xspace(plane("/host:CPU", [line("t", [event(i, i) for i in (1, 2, 3, 9)])], event_metadata=metas)))
    )
    assert [timeline.names[number] for number in timeline.name] == ["short", "short", "", ""]
    assert timeline.name.tolist() == [0, 0, 1, 1] and timeline.name.dtype == "int32"


@pytest.mark.parametrize(("session", "count"), [("gpu-mi300x-jax-conv-minimal-08", 43), ("tpu-v6e-jax-inference", 135)])
def test_all_events_of_real_captures_are_on_tracks(captures: Path, session: str, count: int) -> None:
    (path,) = (captures / "xspace" / session).glob("*.xplane.pb")
    timeline = make_raw_timeline(host_of(path))
    assert len(timeline.tracks) == count
    assert sum(track.last - track.first for track in timeline.tracks) == len(timeline)
