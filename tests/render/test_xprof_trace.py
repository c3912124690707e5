"""The JSON of XProf's trace viewers: all events with their stats, and the streaming form."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from trace_builder import Metadata, Plane, event, line, plane, ref, stat, u64, xspace

import fastprof
from fastprof.errors import UsageError
from fastprof.xprof.trace import streamed_form
from fastprof.xprof.trace.trace_forms import write_trace


def document(data: bytes | list[bytes], form: str, **options: Any) -> dict[str, Any]:
    tables = fastprof.load(data).tables
    document: dict[str, Any] = json.loads(b"".join(write_trace(tables, form, **options)))  # type: ignore[arg-type]
    return document


def whole(*planes: Plane, **options: Any) -> list[dict[str, Any]]:
    """Events of the form that has all, without metadata and the empty one at the end."""
    events = document(xspace(*planes), "xprof", **options)["traceEvents"]
    assert events[-1] == {}
    return [one for one in events[:-1] if one["ph"] != "M"]


def streamed(*planes: Plane, **options: Any) -> list[dict[str, Any]]:
    events = document(xspace(*planes), "xprof-streaming", **options)["traceEvents"]
    return [one for one in events if one["ph"] != "M"]


def threads(*events: Any, **rest: Any) -> Plane:
    return plane("/host:CPU", [line("main", list(events), id=7)], **rest)


# ---- all events


def test_an_event_is_reported_with_its_stats_as_texts() -> None:
    stats = [
        stat("whole", -3), stat("natural", u64(2**64 - 1)), stat("real", 1234567.0), stat("text", "<b>"),
        stat("reference", ref("what it says")), stat("bytes", b"\1"), stat("nothing", None),
    ]  # fmt: skip
    (found,) = whole(threads(event("f", 1_500_000, 47_186, stats)))
    assert found == {
        "args": {
            "bytes": "<opaque bytes>", "natural": "18446744073709551615", "real": "1.23457e+06",
            "reference": "what it says", "text": "<b>", "whole": "-3",
        },
        "dur": 0.047186, "name": "f", "ph": "X", "pid": 701, "tid": 7, "ts": 1.5,
    }  # fmt: skip


def test_internal_stats_and_events_are_left_out() -> None:
    stats = dict.fromkeys(("flops", "program_id", "symbol_id", "_r", "shown"), 1)
    found = whole(threads(event("f", 0, 1, stats), event("MemoryAllocation", 5, 1)))
    assert [set(one["args"]) & {"flops", "program_id", "symbol_id", "_r", "shown"} for one in found] == [{"shown"}]


def test_what_an_event_says_goes_before_what_its_metadata_says() -> None:
    metadata = [Metadata("f", stats={"a": 1, "b": 1}, display_name="short")]
    (found,) = whole(threads(event("f", 0, 1, {"b": 2}), event_metadata=metadata))
    assert (found["name"], found["args"]) == ("short", {"a": "1", "b": "2", "long_name": "f"})


def test_what_takes_no_time_is_an_instant() -> None:
    (found,) = whole(threads(event("f", 5, 0)))
    assert found == {"name": "f", "ph": "i", "pid": 701, "s": "t", "tid": 7, "ts": 0.000005}


def test_the_earliest_events_are_kept() -> None:
    found = whole(threads(*(event("f", at, 1) for at in (0, 10, 20, 30))), max_events=2)
    assert [one["ts"] for one in found] == [0, 0.00001]


def test_of_several_hosts_one_has_to_be_chosen() -> None:
    hosts = [xspace(threads(event("f", 0, 1)), hostnames=[name]) for name in ("a", "b")]
    profile = fastprof.load(hosts)
    with pytest.raises(UsageError, match="one host"):
        write_trace(profile.tables, "xprof")  # type: ignore[arg-type]
    assert b"".join(write_trace(profile.select(hosts="a").tables, "xprof"))  # type: ignore[arg-type]


# ---- the streaming form


def test_a_streamed_event_says_only_its_group_and_what_records_it_apart() -> None:
    found = streamed(threads(event("f", 0, 5, {"a": 1}), event("g", 0, 2)))
    assert found == [
        {"pid": 1701, "tid": 7, "name": "f", "ts": 0, "dur": 0.000005, "ph": "X", "args": {"uid": 0}},
        {"pid": 1701, "tid": 7, "name": "g", "ts": 0, "dur": 0.000002, "ph": "X", "args": {"uid": 1}, "z": 1},
    ]


def test_ends_of_a_flow_are_bound_to_each_other() -> None:
    given, taken = {"_pt": 5, "_p": 77}, {"_ct": 5, "_c": 77}
    first, last = streamed(threads(event("give", 0, 5, given), event("take", 10, 5, taken)))
    assert first["bind_id"] == last["bind_id"]
    assert (first["cat"], last["cat"]) == ("PjRt", "PjRt")
    assert (first.get("flow_out"), first.get("flow_in")) == (True, None)
    assert (last.get("flow_out"), last.get("flow_in")) == (None, True)


def test_tids_are_32_bits() -> None:
    names = plane("/host:CPU", [line("a", [event("f", 0, 1)], id=-1), line("b", [event("f", 0, 1)], id=2**33 + 5)])
    assert sorted(one["tid"] for one in streamed(names)) == [5, 2**32 - 1]


def test_asynchronous_events_have_a_beginning_and_an_end() -> None:
    flight = event("copy", 10, 30, {"_a": 1, "flow": u64(9 << 2 | 3)})
    first, last = streamed(plane("/device:GPU:0", [line("Stream #1", [flight])], id=0))
    assert (first["ph"], first["ts"], last["ph"], last["ts"]) == ("b", 0.00001, "e", 0.00004)
    assert first["id"] == last["id"]
    assert "tid" not in first


def test_counters_are_lists_of_points() -> None:
    points = [event("power", at, 0, {"power": value}) for at, value in ((0, 1.5), (10, 2.25))]
    points += [event("heat", 5, 0, {"x (util %)": 33.3333})]
    document_ = document(xspace(plane("/device:GPU:0", [line("_counters_", points)])), "xprof-streaming")
    found = {one["name"]: one for one in document_["traceEvents"] if one["ph"] == "C"}
    assert found["power"]["entries"] == [[0, 1.5], [0.00001, 2.25]]
    assert found["power"]["event_stats"] == "power"
    assert found["heat"]["entries"] == [[0.000005, 33.33]]
    assert (document_["totalCounterEvents"], document_["returnedEventsSize"]) == (3, 3)


def test_long_names_are_stack_frames_in_the_order_of_their_hashes() -> None:
    names = ["a name that is long enough", "another name that is long enough"]
    metadata = [Metadata(name, display_name=name[:5]) for name in names]
    space = xspace(threads(*(event(name, 0, 1) for name in names), event_metadata=metadata))
    frames = document(space, "xprof-streaming")["stackFrames"]
    assert sorted(frames) == ["1", "2"]
    assert {one["name"] for one in frames.values()} == set(names)


def test_a_window_shows_what_overlaps_it() -> None:
    second = 10**12
    slices = [event(name, at * second, second // 2) for name, at in (("a", 0), ("b", 1), ("c", 2), ("d", 4))]
    assert [one["name"] for one in streamed(threads(*slices), start_ms=1200, end_ms=2000)] == ["b", "c"]


def test_more_events_of_one_start_than_xprof_distinguishes_are_left_out() -> None:
    assert len(streamed(threads(*(event("f", 0, 1) for _ in range(300))))) == 256


def test_middles_of_flows_on_tpus_are_shown_when_they_are_asked_for() -> None:
    flight = event("copy", 10, 30, {"_a": 1, "flow": u64(9 << 2 | 3)})
    tpu = plane("/device:TPU:0", [line("XLA Ops", [event("op", 0, 5)]), line("Async XLA Ops", [flight])], id=2)
    assert "copy" not in [one["name"] for one in streamed(tpu)]
    assert "copy" in [one["name"] for one in streamed(tpu, full_dma=True)]
    details = document(xspace(tpu), "xprof-streaming", full_dma=True)["details"]
    assert {"name": "full_dma", "value": True} in details


def test_hosts_come_one_after_the_other() -> None:
    hosts = [xspace(threads(event("f", 10, 1)), hostnames=[name]) for name in ("a", "b")]
    parsed = document(hosts, "xprof-streaming")
    assert [one["pid"] for one in parsed["traceEvents"] if one["ph"] == "X"] == [1701, 2701]
    assert parsed["returnedEventsSize"] == 2


def test_a_session_without_events_is_a_document() -> None:
    empty = xspace(hostnames=["a"])
    assert document(empty, "xprof-streaming")["traceEvents"] == []
    assert document(empty, "xprof")["traceEvents"] == [{}]


@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("svg", {}),
        ("xprof", {"max_events": 0}),
        ("xprof-streaming", {"resolution": -1}),
        ("xprof-streaming", {"resolution": float("nan")}),
        ("xprof-streaming", {"start_ms": 5, "end_ms": 4}),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_read(form: str, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        write_trace(fastprof.load(xspace(hostnames=["a"])).tables, form, **options)  # type: ignore[arg-type]


def test_rows_of_tracks_are_put_in_the_order_of_time() -> None:
    random = np.random.default_rng(6)
    for count in (0, 1, 2, 40, 300):
        track = np.sort(random.integers(0, 4, count))
        start = np.sort(random.integers(0, count + 1, count)).astype(np.uint64)
        start[track == 1] = random.permutation(start[track == 1])
        duration = random.integers(0, 4, count).astype(np.uint64)
        duration[track == 3] = 9
        rows = random.permutation(count)
        trace: Any = SimpleNamespace(start=np.empty(count, np.uint64), duration=np.empty(count, np.uint64))
        trace.start[rows], trace.duration[rows] = start, duration
        longer_first = np.lexsort((np.arange(count), -duration.astype(np.int64), start, track))
        assert streamed_form._sort_by_time(trace, rows, track).tolist() == rows[longer_first].tolist()
