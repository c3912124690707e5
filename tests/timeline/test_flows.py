"""Flows as pairs of events, steps as bands, and the names of groups."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from timelines import host_of
from trace_builder import Event, Value, event, line, plane, u64, xspace

from fastprof.derive.timeline import event_groups
from fastprof.derive.timeline.event_groups import find_name_overrides, list_step_bands
from fastprof.derive.timeline.flows import SHOWN_KINDS, pair_flows


def threads(*lines: list[Event], **stats: Value) -> bytes:
    return plane("/host:CPU", [line(f"thread {i}", events, id=i + 1) for i, events in enumerate(lines)], stats=stats)


def pairs(*planes: bytes) -> list[tuple[str, str, str]]:
    host = host_of(xspace(*planes))
    linked = pair_flows(host)
    names = [host.raw.names[meta] for meta in host.raw.meta]
    columns = zip(linked.producer.tolist(), linked.consumer.tolist(), linked.kind.tolist(), strict=True)
    return [(names[producer], names[consumer], SHOWN_KINDS[kind]) for producer, consumer, kind in columns]


def made(number: int, kind: int = 2) -> dict[str | int, Value]:
    return {"_pt": kind, "_p": u64(number)}


def used(number: int, kind: int = 2) -> dict[str | int, Value]:
    return {"_ct": kind, "_c": u64(number)}


def test_each_producer_leads_to_each_consumer_of_its_context() -> None:
    linked = pairs(
        threads(
            [event("a", 0, 1, made(1)), event("b", 5, 1, made(1))],
            [event("x", 9, 1, used(1)), event("y", 10, 1, used(2))],
        )
    )
    assert linked == [("a", "x", "tf_exec"), ("b", "x", "tf_exec")]


def test_a_launch_leads_to_its_kernels() -> None:
    kernels = [event("k1", 9, 1, {"correlation_id": u64(4)}), event("k2", 19, 1, {"correlation_id": u64(4)})]
    host = threads([event("launch", 0, 1, {"correlation_id": 4})])  # however the id is written
    assert pairs(host, plane("/device:GPU:0", [line("Stream #1", kernels)])) == [
        ("launch", "k1", "gpu_launch"), ("launch", "k2", "gpu_launch"),
    ]  # fmt: skip


def test_contexts_of_another_process_are_others() -> None:
    one = plane("/host:CPU [1]", [line("t", [event("a", 0, 1, made(1))])], stats={"process_id": 1})
    other = plane(
        "/host:CPU [2]",
        [line("t", [event("x", 5, 1, used(1)), event("y", 6, 1, used(1) | {"_pid": 1})])],
        stats={"process_id": 2},
    )
    assert pairs(one, other) == [("a", "y", "tf_exec")]


def test_in_a_crowd_each_consumer_follows_the_last_producer_before_it() -> None:
    producers = [event(f"p{i}", 10 * i, 1, made(1)) for i in range(9)]
    consumers = [event(f"c{i}", 10 * i - 5, 1, used(1)) for i in range(1, 9)] + [event("first", 0, 1, used(1))]
    linked = pairs(threads(producers, consumers))
    assert len(linked) == 9
    assert (
        ("p0", "c1", "tf_exec") in linked and ("p7", "c8", "tf_exec") in linked and ("p0", "first", "tf_exec") in linked
    )


def test_a_crowd_costs_no_more_than_its_ends() -> None:
    count = 20_000
    producers = [event("p", i, 1, made(1)) for i in range(count)]
    consumers = [event("c", i, 1, used(1)) for i in range(count)]
    assert len(pair_flows(host_of(xspace(threads(producers, consumers))))) == count


def test_flows_that_a_capture_records_go_from_event_to_event() -> None:
    def flow(direction: int, number: int) -> dict[str | int, Value]:
        return {"flow": u64(direction | number << 2 | 5 << 58)}

    linked = pairs(
        threads(
            [event("a", 0, 1, flow(2, 7)), event("b", 10, 1, flow(3, 7))],
            [event("c", 20, 1, flow(1, 7)), event("d", 30, 1, flow(1, 8))],
        )
    )
    assert linked == [("a", "b", "PjRt"), ("b", "c", "PjRt")]


def test_an_event_does_not_lead_to_itself_and_pairs_come_once() -> None:
    own = made(1) | used(1)
    assert pairs(threads([event("a", 0, 1, own)])) == []
    twice = made(1) | {"correlation_id": u64(1)}
    kernel = plane("/device:GPU:0", [line("Stream #1", [event("k", 9, 1, used(1) | {"correlation_id": u64(1)})])])
    assert [pair[:2] for pair in pairs(threads([event("a", 0, 1, twice)]), kernel)] == [("a", "k")]


def test_real_flows_lead_forward_in_time(captures: Path) -> None:
    host = host_of(captures / "xspace" / "gpu-mi300x-jax08-gemm" / "tw003.xplane.pb")
    linked = pair_flows(host)
    counts = zip(*np.unique(linked.kind, return_counts=True), strict=True)
    kinds = {SHOWN_KINDS[kind]: int(count) for kind, count in counts}
    assert kinds == {"gpu_launch": 54, "threadpool_event": 30, "pjrt_library_call": 42, "PjRt": 60}
    assert (host.raw.start_ps[linked.producer] <= host.raw.start_ps[linked.consumer]).mean() > 0.95


# ---- steps and groups


def test_bands_are_of_the_host_and_of_each_device_that_has_steps(captures: Path) -> None:
    roots = [event("train", 0, 100, {"_r": 1, "step_num": 4}), event("eval", 200, 50, {"_r": 1, "step_num": 5})]
    launches = [event("launch", 10, 1, {"correlation_id": u64(1)})]
    kernels = [event("kernel", 120, 30, {"correlation_id": u64(1)}), event("kernel", 170, 10)]
    threads_plane = plane("/host:CPU", [line("python", [roots[0], *launches, roots[1]])])
    bands = list_step_bands(host_of(xspace(threads_plane, plane("/device:GPU:0", [line("Stream #1", kernels)]))))
    listed = []
    for band in bands:
        owner = None if band.process is None else band.process.plane.name
        names = band.names.take(pa.array(band.name)).to_pylist()
        listed.append((owner, names, band.start_ps.tolist(), band.duration_ps.tolist()))
    assert listed == [
        (None, ["train 4", "eval 5"], [0, 200], [100, 50]), ("/device:GPU:0", ["train 4"], [120], [60]),
    ]  # fmt: skip
    assert bands[0].group.tolist() == [0, 1]
    assert [
        len(band) for band in list_step_bands(host_of(captures / "xspace" / "cpu-tf221-train" / "vm.xplane.pb"))
    ] == [12]


def test_of_steps_in_each_other_the_band_has_the_outer_ones() -> None:
    roots = [event("outer", 0, 100, {"_r": 1}), event("inner", 10, 20, {"_r": 2}), event("next", 150, 20, {"_r": 2})]
    (band,) = list_step_bands(host_of(xspace(threads(roots))))
    assert [band.names[int(i)].as_py().partition(" ")[0] for i in band.name] == ["outer", "next"]


def test_a_host_without_steps_has_no_band() -> None:
    assert list_step_bands(host_of(xspace(threads([event("a", 0, 1)])))) == []


def test_groups_and_roots_are_called_by_the_names_of_steps() -> None:
    host = host_of(
        xspace(threads([event("train", 0, 9, {"_r": 1, "step_num": 3}), event("op", 1, 2), event("x", 20, 1)]))
    )
    groups = host.groups.group_id
    assert groups.tolist() == [0, 0, -1] and host.groups.names_of(groups[:2]) == ["train 3", "train 3"]
    rows, names = find_name_overrides(host)
    assert (rows.tolist(), names.to_pylist()) == ([0], ["train 3"])


def test_groups_named_in_pieces_have_the_names_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    host = host_of(xspace(threads([event(f"train {place}", 20 * place, 9, {"_r": 1}) for place in range(5)])))
    monkeypatch.setattr(event_groups, "_NAMES_AT_ONCE", 2)
    monkeypatch.setattr(event_groups, "_MOST_PIECES", 4)
    assert event_groups.name_groups(host.groups, np.arange(5)).to_pylist() == host.groups.names
    assert event_groups.name_groups(host.groups, np.arange(0)).to_pylist() == []


def test_a_grouped_capture_records_its_steps_itself() -> None:
    steps = [event("train", 0, 9, {"group_id": 2, "step_name": "step two"})]
    host = host_of(xspace(threads(steps)))
    (band,) = list_step_bands(host)
    assert band.names.take(pa.array(band.name)).to_pylist() == ["step two"]
    assert find_name_overrides(host)[1].to_pylist() == ["step two"]
