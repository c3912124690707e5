"""Flows, steps and counters as the page receives them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from served import Served, written
from trace_builder import Plane, event, line, plane, xspace


def launches() -> list[Plane]:
    """Two launches on a thread, and the kernels that they led to, of two steps."""
    calls, kernels, steps = [], [], []
    for number in range(2):
        begin = number * 1000
        steps.append(event("train", begin, 900, stats={"step_num": number, "_r": 1}))
        calls.append(event("cuLaunchKernel", begin + 100, 50, stats={"correlation_id": number + 7}))
        kernels.append(event("gemm", begin + 300, 200, stats={"correlation_id": number + 7}))
    main = line("python", [one for pair in zip(steps, calls, strict=True) for one in pair], id=1)
    return [plane("/host:CPU", [main]), plane("/device:GPU:0", [line("Stream #1(Compute)", kernels, id=1)], id=1)]


def shown(*planes: Plane) -> Served:
    served = Served(xspace(*planes))
    served.timeline()
    return served


def test_flows_go_from_launches_to_kernels() -> None:
    served = shown(*launches())
    answer = served.get("/api/flows", start_ps=0, end_ps=5000)
    flows = answer["flows"]
    assert (answer["more"], len(flows["kind"])) == (0, 2)
    assert (flows["from_ps"], flows["to_ps"]) == (["150", "1150"], ["300", "1300"])
    tracks = served.tracks()
    assert set(flows["from_track"]) == {tracks["python"]}
    assert [served.get("/api/event", at=at)["name"] for at in flows["to_at"]] == ["gemm", "gemm"]


def test_flows_are_those_seen_in_a_window_and_between_tracks() -> None:
    served = shown(*launches())
    assert len(served.get("/api/flows", start_ps=900, end_ps=5000)["flows"]["kind"]) == 1
    assert served.get("/api/flows", start_ps=400, end_ps=900)["flows"]["kind"] == []
    only = str(served.tracks()["python"])
    assert served.get("/api/flows", start_ps=0, end_ps=5000, tracks=only)["flows"]["kind"] == []
    some = served.get("/api/flows", start_ps=0, end_ps=5000, limit=1)
    assert (len(some["flows"]["kind"]), some["more"]) == (1, 1)
    none = served.get("/api/flows", start_ps=0, end_ps=5000, limit=0)
    assert (none["flows"]["kind"], none["more"]) == ([], 2)


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 4, 5])
def test_flows_of_several_hosts_are_not_more_than_the_limit(tmp_path: Path, limit: int) -> None:
    served = Served(written(tmp_path, xspace(*launches()), xspace(*launches())))
    served.timeline()
    answer = served.get("/api/flows", limit=limit)
    shown = len(answer["flows"]["kind"])
    assert min(limit, 1) <= shown <= limit
    assert shown + answer["more"] == 4


def test_an_event_records_its_flows_its_step_and_its_group() -> None:
    served = shown(*launches())
    flows = served.get("/api/flows")["flows"]
    kernel = served.get("/api/event", at=flows["to_at"][1])
    assert [(one["direction"], one["other"]["name"]) for one in kernel["flows"]] == [("in", "cuLaunchKernel")]
    launch = served.get("/api/event", at=kernel["flows"][0]["other"]["at"])
    assert [(one["direction"], one["other"]["at"]) for one in launch["flows"]] == [("out", kernel["at"])]
    assert (kernel["step"], kernel["group"]) == (launch["step"], launch["group"])
    assert kernel["step"] is not None
    assert kernel["step"].endswith("1")


def test_steps_are_bands_in_order_of_time() -> None:
    bands = shown(*launches()).get("/api/steps")["bands"]
    of_host = [band for band in bands if band["process"] is None]
    assert [(band["start_ps"], band["duration_ps"]) for band in of_host] == [("0", "900"), ("1000", "900")]
    assert [band["name"].rpartition(" ")[2] for band in of_host] == ["0", "1"]


def test_derived_events_record_what_they_are_of() -> None:
    served = shown(*launches())
    derived = [
        (name, id)
        for process in served.timeline()["processes"]
        for name, id, flag in zip(*(process["tracks"][key] for key in ("name", "id", "derived")), strict=True)
        if flag
    ]
    assert derived
    tile = served.tile(0, tracks=",".join(str(id) for _, id in derived))
    for at in tile.at.tolist():
        answer = served.get("/api/event", at=at)
        assert answer["derived"] is True
        assert answer["event_id"] is None


def counting(values: list[float]) -> Plane:
    """A counter that has each value for ten picoseconds."""
    events = [event("load (util %)", n * 10, 0, stats={"load (util %)": value}) for n, value in enumerate(values)]
    return plane("/device:GPU:0", [line("_counters_", events, id=9), line("Stream #1", [event("k", 0, 5)], id=1)], id=1)


def counter(served: Served) -> int:
    for process in served.timeline()["processes"]:
        for id, kind in zip(process["tracks"]["id"], process["tracks"]["kind"], strict=True):
            if kind == "counter":
                return int(id)
    raise AssertionError("there is no counter")


def test_a_counter_is_reported_at_the_width_of_the_window() -> None:
    values = [float(n % 17) for n in range(1000)]
    served = shown(counting(values))
    track = counter(served)
    everything = served.get("/api/counters", track=track)
    assert (everything["unit"], everything["most"], everything["least"]) == ("%", 16.0, 0.0)
    assert everything["last"] == values
    coarse = served.get("/api/counters", track=track, start_ps=0, end_ps=10_000, width=10)
    assert len(coarse["t"]) <= 10
    assert (max(coarse["max"]), min(coarse["min"])) == (16.0, 0.0)
    window = served.get("/api/counters", track=track, start_ps=105, end_ps=125, width=100)
    assert (window["t"], window["last"]) == (["105", "110", "120"], values[10:13])


def test_values_that_are_no_numbers_are_null() -> None:
    served = shown(counting([1.0, float("nan"), float("inf")]))
    assert served.get("/api/counters", track=counter(served))["last"] == [1.0, None, None]


@pytest.mark.parametrize(
    ("params", "status"), [({}, 400), ({"track": 0}, 404), ({"track": 99}, 404), ({"track": 0, "width": 0}, 400)]
)
def test_counters_that_are_none_are_refused(params: dict[str, Any], status: int) -> None:
    assert shown(counting([1.0])).refused("/api/counters", **params)[0] == status


def test_counters_are_never_in_tiles_and_may_be_asked_for_with_others() -> None:
    served = shown(counting([1.0, 2.0]))
    track = counter(served)
    tile = served.tile(0, tracks=f"0-{track}")
    assert track not in tile.track.tolist()
