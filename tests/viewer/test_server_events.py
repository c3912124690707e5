"""Details of events, which are read from the capture when they are asked for, and sums of ranges and slices."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from served import Served, written
from trace_builder import Event, Metadata, event, line, plane, ref, u64, xspace
from xla_spaces import gpu_capture

import fastprof
from fastprof.decode import blocks, single_event
from fastprof.decode.decoder import Decoder
from fastprof.decode.single_event import StatValue, read_event
from fastprof.viewer.store import HostStore


def threads(*lines: list[Event], **rest: Any) -> bytes:
    return xspace(plane("/host:CPU", [line(f"thread {n}", events, id=n) for n, events in enumerate(lines, 1)], **rest))


def stats(found: Any, of: str = "event") -> dict[str, str]:
    return {one["name"]: one["value"] for one in found["stats"] if one["of"] == of}


def test_an_event_has_its_stats_exactly() -> None:
    values = {
        "int": -(2**63),
        "uint": u64(2**64 - 1),
        "double": 0.1 + 0.2,
        "text": "ünï\x00<b>",
        "ref": ref("a name"),
        "bytes": bytes(range(40)),
    }
    served = Served(threads([event("step", 5, 10, stats=values)]))
    served.timeline()
    answer = served.get("/api/event", at=0)
    assert stats(answer) == {
        "int": "-9223372036854775808",
        "uint": "18446744073709551615",
        "double": "0.30000000000000004",
        "text": "ünï\x00<b>",
        "ref": "a name",
        "bytes": " ".join(f"{byte:02x}" for byte in range(32)) + " … of 40 bytes",
    }
    assert [one["kind"] for one in answer["stats"]] == ["int64", "uint64", "double", "str", "ref", "bytes"]
    assert (answer["name"], answer["start_ps"], answer["duration_ps"]) == ("step", "0", "10")
    assert (answer["track_name"], answer["plane"], answer["event_id"]) == ("thread 1", "/host:CPU", "0")


def test_an_event_has_the_stats_of_its_metadata_and_the_op_that_it_is_of() -> None:
    metadata = [
        Metadata("%fusion.1 = f32[] fusion()", display_name="fusion.1", stats={
            "program_id": u64(7), "hlo_category": "loop fusion", "tf_op": "jit(f)/add:", "flops": u64(9),
            "symbol_id": u64(1)}),
    ]  # fmt: skip
    ops = line("XLA Ops", [event("%fusion.1 = f32[] fusion()", 0, 4)], id=3)
    served = Served(xspace(plane("/device:TPU:0", [ops], event_metadata=metadata)))
    served.timeline()
    answer = served.get("/api/event", at=0)
    assert (answer["name"], answer["metadata_name"]) == ("fusion.1", "%fusion.1 = f32[] fusion()")
    assert stats(answer, "metadata")["flops"] == "9"
    assert answer["op"] == {
        "program_id": "7",
        "module": None,
        "instruction": "fusion.1",
        "name": "jit(f)/add",
        "category": "loop fusion",
        "hlo": None,
        "op_stats": {"search": "jit(f)/add", "device_search": "fusion.1"},
    }


@pytest.mark.parametrize("seed", range(4))
def test_details_of_executions_of_programs_read_no_events(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the kernels of a GPU name is known since its lines were derived; and it is what op stats counts."""
    served = Served(gpu_capture(seed, devices=1))
    tracks = [track for name, track in served.tracks().items() if name.startswith("XLA Modules")]
    (host,) = served.runs.run().hosts
    events = [at for at in range(host.store.events) if host.event(at).track in tracks]
    decodes: list[object] = []
    real = Decoder.decode

    def decode(self: Decoder, *given: Any) -> Any:
        decodes.append(given)
        return real(self, *given)

    monkeypatch.setattr(Decoder, "decode", decode)
    answers = [served.get("/api/event", at=at)["op"] for at in events]
    counted = {answer["program_id"]: answer["op_stats"] for answer in answers}
    assert len(counted) == 2 and decodes == []
    report = served.get("/api/report/op_stats")["tables"]["device_ops"]
    programs = {str(int(row["program_id"]) % 2**64) for row in report["rows"] if row["program_id"]}
    assert {program for program, search in counted.items() if search} == programs


def test_a_breakdown_of_memory_accesses_is_described_in_words() -> None:
    reads, writes = b"\x0a\x09\x08\x01\x10\x01\x18\x80\x80\x80\x04", b"\x0a\x06\x08\x02\x10\x03\x18\x20"
    values = {"memory_access_breakdown": reads + writes}
    served = Served(threads([event("copy", 0, 1, stats=values), event("odd", 2, 1, {"memory_access_breakdown": b"a"})]))
    served.timeline()
    text = stats(served.get("/api/event", at=0))["memory_access_breakdown"]
    assert text == "HBM read: 8.000 MiB (8,388,608 bytes)\nVMEM written: 32 B"
    assert stats(served.get("/api/event", at=1))["memory_access_breakdown"] == "61"


def test_stats_that_the_plane_does_not_declare_have_their_number_for_a_name() -> None:
    served = Served(threads([event("a", 0, 1, stats=[(b"\x08\x63\x20\x05")])]))
    served.timeline()
    assert stats(served.get("/api/event", at=0)) == {"#99": "5"}


def test_parents_and_children_and_what_children_leave() -> None:
    outer, inner, leaf = event("outer", 0, 100), event("inner", 10, 30), event("leaf", 20, 5)
    served = Served(threads([outer, inner, leaf, event("later", 60, 10)]))
    served.timeline()
    hits = {name: served.get("/api/search/next", q=name)["hit"] for name in ("outer", "inner", "leaf", "later")}
    found = {name: served.get("/api/event", at=hit["at"]) for name, hit in hits.items()}
    assert found["outer"]["parent"] is None
    assert [one["name"] for one in found["outer"]["children"]["first"]] == ["inner", "later"]
    assert found["outer"]["children"]["count"] == 2
    assert found["outer"]["self_time_ps"] == "60"
    assert found["leaf"]["parent"] == hits["inner"]
    assert [one["name"] for one in found["leaf"]["enclosing"]] == ["inner", "outer"]
    assert (hits["leaf"]["lane"], hits["later"]["lane"]) == (2, 1)


@pytest.mark.parametrize("ordered", [True, False])
def test_details_of_each_event_are_those_of_the_tables(tmp_path: Path, ordered: bool) -> None:
    draw = random.Random(7)
    lines = []
    for _ in range(3):
        starts = [draw.randrange(10**6) for _ in range(40)]
        lines.append([
            event(f"name {draw.randrange(5)}", start, draw.randrange(1000), stats={"number": draw.randrange(10**12)})
            for start in (sorted(starts) if ordered else starts)
        ])  # fmt: skip
    path = written(tmp_path, threads(*lines), threads(*lines[:2]))
    profile = fastprof.load(path)
    wanted = {
        (row["host"], row["event_id"]): row
        for row in profile.event_table(["host", "event_id", "line", "name", "duration_ps"], ["number"]).to_pylist()
    }
    served = Served(path)
    served.timeline()
    met = set()
    for host, count in (("host0", 120), ("host1", 80)):
        for at in range(count):
            answer = served.get("/api/event", host=host, at=at)
            row = wanted[host, int(answer["event_id"])]
            met.add((host, row["event_id"]))
            assert (answer["name"], answer["track_name"]) == (row["name"], row["line"])
            assert answer["duration_ps"] == str(row["duration_ps"])
            assert stats(answer) == {"number": str(row["number"])}
    assert met == set(wanted)


def test_an_event_that_is_not_there_is_refused() -> None:
    served = Served(threads([event("a", 0, 1)]))
    served.timeline()
    assert served.refused("/api/event", at=1) == (404, "host 'unknown' has no event 1: they are numbered up to 0")
    assert served.refused("/api/event")[0] == 400
    assert served.refused("/api/event", at="-1")[0] == 400
    assert served.refused("/api/event", at=0, host="nobody") == (404, "the session has no host 'nobody'")


def test_sums_of_a_range_count_what_overlaps_and_what_lies_within() -> None:
    served = Served(threads([event("a", 0, 10), event("b", 20, 10), event("a", 40, 10)], [event("a", 0, 100)]))
    tracks = served.tracks()
    everything = served.get("/api/range", start_ps=5, end_ps=45)
    assert everything["events"] == 4
    assert everything["rows"][0] == {
        "name": "a",
        "count": 3,
        "total_ps": "120",
        "clipped_ps": "50",
        "mean_ps": "40",
        "min_ps": "10",
        "max_ps": "100",
        "at": everything["rows"][0]["at"],
        "host": "unknown",
    }
    assert served.get("/api/event", at=everything["rows"][0]["at"])["duration_ps"] == "100"
    one = served.get("/api/range", start_ps=5, end_ps=45, tracks=str(tracks["thread 1"]))
    assert {row["name"]: (row["count"], row["clipped_ps"]) for row in one["rows"]} == {"a": (2, "10"), "b": (1, "10")}
    assert served.get("/api/range", start_ps=10, end_ps=20, tracks=str(tracks["thread 1"]))["rows"] == []
    assert served.refused("/api/range", start_ps=5, end_ps=4) == (400, "the range ends before it starts")
    assert served.refused("/api/range", start_ps=0, end_ps=9, tracks="77")[0] == 404


def test_sums_of_a_range_are_whole_and_clipped() -> None:
    served = Served(threads([event("a", 0, 100), event("b", 200, 50)]))
    served.timeline()
    answer = served.get("/api/range", start_ps=90, end_ps=210)
    assert (answer["events"], answer["total_ps"], answer["clipped_ps"]) == (2, "150", "20")


def test_sums_past_64_bits_are_not_wrong() -> None:
    """Of all names exact; of one they stay where int64 ends, and there is no mean."""
    long = 3 * 10**18
    served = Served(threads([event("a", i, long - i) for i in range(4)] + [event("b", 5, long), event("c", 6, long)]))
    served.timeline()
    answer = served.get("/api/range", start_ps=0, end_ps=2**63 - 1)
    rows = {row["name"]: (row["total_ps"], row["mean_ps"]) for row in answer["rows"]}
    assert rows == {"a": (str(2**63 - 1), None), "b": (str(long), str(long)), "c": (str(long), str(long))}
    assert int(answer["total_ps"]) == 2**63 - 1 + 2 * long


def test_a_slice_is_given_by_name() -> None:
    served = Served(threads([event("a", 0, 1), event("b", 2, 5), event("a", 8, 1)]))
    served.timeline()
    answer = served.get("/api/slice", at=0, count=3)
    assert [(row["name"], row["count"], row["total_ps"]) for row in answer["rows"]] == [("b", 1, "5"), ("a", 2, "2")]
    assert served.refused("/api/slice", at=0, count=4)[0] == 400


@pytest.mark.parametrize("count", [500])
def test_ranges_of_random_captures_are_those_of_the_events(count: int) -> None:
    draw = random.Random(3)
    events = [(f"n{draw.randrange(9)}", draw.randrange(10**6), draw.randrange(10**4)) for _ in range(count)]
    served = Served(threads([event(*one) for one in sorted(events, key=lambda one: (one[1], -one[2]))]))
    origin = int(served.timeline()["origin_ps"])
    for _ in range(20):
        first, last = sorted(draw.randrange(10**6) for _ in range(2))
        wanted: dict[str, list[int]] = {}
        for name, start, duration in events:
            start -= origin
            if start < last and max(start + duration, start + 1) > first:
                clipped = max(min(start + duration, last) - max(start, first), 0)
                sums = wanted.setdefault(name, [0, 0, 0])
                wanted[name] = [sums[0] + 1, sums[1] + duration, sums[2] + clipped]
        rows = served.get("/api/range", start_ps=first, end_ps=last)["rows"]
        assert {r["name"]: [r["count"], int(r["total_ps"]), int(r["clipped_ps"])] for r in rows} == wanted


# ---- size in proportion


def long_answer(served: Served, **params: Any) -> tuple[Any, int]:
    served.timeline()
    answer = served.client.get("/api/event", {"at": 0, **params})
    assert answer.status_code == 200
    return answer.json(), len(answer.content)


def whole(served: Served, **params: Any) -> str:
    answer = served.client.get("/api/event/text", {"at": 0, **params})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    return answer.text


def test_many_stats_are_answered_in_pages() -> None:
    values: dict[Any, Any] = {f"s{number}": number for number in range(450)}
    metadata = [Metadata("e", stats={f"m{number}": number for number in range(30)})]
    served = Served(threads([event("e", 0, 10, stats=values)], event_metadata=metadata))
    first, size = long_answer(served)
    assert (len(first["stats"]), first["stats_count"]) == (200, 480) and size < 20_000
    pages = [first, *(long_answer(served, first_stat=number)[0] for number in (200, 400, 480))]
    names = [stat["name"] for page in pages for stat in page["stats"]]
    assert names == [*values, *(f"m{number}" for number in range(30))]
    assert [len(page["stats"]) for page in pages] == [200, 200, 80, 0]


def test_a_long_text_is_cut_and_has_an_address_of_its_own() -> None:
    text = "ä<b>" * 50_000
    served = Served(threads([event("n" * 30_000, 0, 10, stats={"x": 1, "long": text, "short": "y" * 8192})]))
    found, size = long_answer(served)
    assert size < 70_000
    assert found["stats"][1] == {
        "name": "long", "kind": "str", "value": text[:8191] + "…", "of": "event", "letters": 200_000,
    }  # fmt: skip
    assert found["stats"][2] == {"name": "short", "kind": "str", "value": "y" * 8192, "of": "event"}
    assert found["letters"] == {"name": 30_000, "metadata_name": 30_000}
    assert found["metadata_name"] == "n" * 8191 + "…"
    assert whole(served, stat=1) == text
    assert whole(served, stat=0) == "1"
    assert whole(served, name="metadata_name") == "n" * 30_000
    assert served.refused("/api/event/text", at=0, stat=3) == (404, "the event has no stat 3")
    assert served.refused("/api/event/text", at=0) == (400, "the argument name is missing")


def test_stats_that_share_a_long_text_cost_no_more_than_it(monkeypatch: pytest.MonkeyPatch) -> None:
    values: dict[Any, Any] = {f"s{number}": ref("x" * 100_000) for number in range(1000)}
    served = Served(threads([event("e", 0, 10, stats=values)], event_metadata=[Metadata("e", stats=values)]))
    read: list[StatValue] = []
    made = single_event._make_stat_value
    monkeypatch.setattr(single_event, "_make_stat_value", lambda *of: read.append(made(*of)) or read[-1])  # type: ignore[func-returns-value]
    found, size = long_answer(served)
    assert found["stats_count"] == 2000 and size < 1_700_000
    assert len(read) == 200 and len({id(one.value) for one in read}) == 1
    found, _ = long_answer(served, first_stat=1500)
    assert len({id(one.value) for one in read[200:]}) == 1
    assert found["stats"][0] == {
        "name": "s500", "kind": "ref", "value": "x" * 8191 + "…", "of": "metadata", "letters": 100_000,
    }  # fmt: skip


def test_names_of_events_around_are_not_read_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    deep = [event("é" * 500_000, start, 4000 - 2 * start) for start in range(400)]
    served = Served(threads(deep))
    served.timeline()
    names: list[int] = []
    name = HostStore.name
    monkeypatch.setattr(HostStore, "name", lambda *of: names.append(of[1]) or name(*of))  # type: ignore[func-returns-value]
    found = served.get("/api/event", at=399)
    assert len(found["enclosing"]) == 200 and len(names) == 2
    assert found["enclosing"][0]["name"] == "é" * 299 + "…"


def test_an_event_of_a_line_without_order_is_found_without_sorting_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(5)
    events = [event("e", draw.randrange(300), draw.randrange(3), stats={"n": number}) for number in range(3000)]
    served = Served(threads(events))
    served.timeline()
    monkeypatch.setattr(blocks, "_sort_in_place", None)
    order = sorted(range(3000), key=lambda number: (events[number].offset_ps, -events[number].duration_ps, number))
    for place in (0, 1, 700, 2998, 2999):
        facts = read_event(served.runs.run(None).session.index, 0, 0, place)
        assert list(facts.stats.values("n")) == [str(order[place])]
