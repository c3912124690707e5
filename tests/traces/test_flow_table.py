"""The table flows: arrows as the slow reader finds them, in real traces and at the edges of slices."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from loaded_traces import arrows, log
from slow_flows import arrows_of
from slow_trace import read_trace

import fastprof
from fastprof.cli.main import main
from fastprof.derive.host import Host
from fastprof.derive.timeline.derived_lines import NEEDS
from fastprof.derive.timeline.flows import pair_flows
from fastprof.tables.host_reader import read_host

CAPTURES = Path(__file__).resolve().parents[3] / "shared" / "captures"
PATTERNS = ("chrome/*/*.json*", "tf1/timeline-*.json")
TRACES = sorted(path for pattern in PATTERNS for path in CAPTURES.glob(pattern))
KINETO = CAPTURES / "chrome" / "kineto"
MICRO = 1_000_000


@pytest.mark.captures
def test_18_arrows_of_launches_have_the_correlation_of_both_events() -> None:
    """The specification counts 1,198 pairs in this trace, 1,230 ends and 3 begins alone."""
    profile = fastprof.load(KINETO / "h100_qwen.json.gz")
    correlation = profile.event_table(["event_id"], ["correlation_id"]).column("correlation_id").to_pylist()
    flows = profile.flows.to_pylist()

    assert len(flows) == 1198
    assert log(profile)["unmatched_flow"] == 1230 + 3
    assert {row["category"] for row in flows} == {"ac2g"}
    for row in flows:
        assert correlation[row["from_event_id"]] == correlation[row["to_event_id"]] == int(row["id"])
        assert profile.events["plane"][row["from_event_id"]].as_py() == "/host:CPU"
        assert profile.events["plane"][row["to_event_id"]].as_py() == "/device:GPU:0"


def trace(*rows: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({**more, "traceEvents": rows}).encode()


def x(name: str, ts: int, dur: int, tid: int = 1) -> dict[str, Any]:
    return {"ph": "X", "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "cat": "any"}


def end(phase: str, ts: int, id: Any = 7, tid: int = 1, **more: Any) -> dict[str, Any]:
    return {"ph": phase, "name": "flow", "cat": "c", "id": id, "pid": 1, "tid": tid, "ts": ts, **more}


def shown(data: bytes) -> list[str]:
    """FLOW: NAME > NAME, one row an arrow; the slow reader agrees."""
    profile = fastprof.load(data)
    assert arrows(profile) == arrows_of(read_trace(data))[0]
    names = [*profile.events.column("name").to_pylist(), None]
    return [
        f"{row['flow']}: {names[_at(row['from_event_id'])]} > {names[_at(row['to_event_id'])]}"
        for row in profile.flows.to_pylist()
    ]


def _at(event: int | None) -> int:
    return -1 if event is None else event


ROWS = (x("a", 0, 100), x("b", 10, 20), x("c", 30, 20), x("z", 100, 5))
OTHER = x("other", 200, 50, 2)


@pytest.mark.parametrize(
    ("ends", "wanted"),
    [
        ((end("s", 20), end("f", 210, tid=2, bp="e")), ["0: b > other"]),
        ((end("s", 60), end("f", 190, tid=2)), ["0: a > other"]),
        ((end("s", 30), end("t", 210, tid=2)), ["0: b > other"]),
        ((end("s", 210, tid=2), end("t", 30, tid=1)), []),
        ((end("t", 30), end("s", 5), end("f", 40, bp="e")), ["1: a > c", "1: c > c"]),
        (
            (end("s", 20), end("t", 60), end("f", 210, tid=2, bp="e"), end("f", 220, tid=2)),
            ["0: b > a", "0: a > other"],
        ),
        ((end("s", 20), end("s", 40), end("t", 210, tid=2)), ["1: c > other"]),
        ((end("s", 20), end("t", 300, tid=2), end("f", 210, tid=2)), ["0: b > None"]),
        ((end("s", 300, tid=2), end("f", 310, tid=2)), []),
        ((end("s", 20, tid=9), end("f", 30)), []),
        ((end("s", 20, id="7"), end("f", 210, id=7, tid=2, bp="e")), ["0: b > other"]),
        ((end("s", 20, id="07"), end("f", 210, id=7, tid=2, bp="e")), []),
        ((end("s", 105), end("t", 250, tid=2)), ["0: z > other"]),
    ],
)
def test_ends_that_belong_together(ends: tuple[dict[str, Any], ...], wanted: list[str]) -> None:
    assert shown(trace(*ROWS, OTHER, *ends)) == wanted


def test_18_ids_that_are_used_again_are_other_flows() -> None:
    again = [
        end(phase, ts, tid=tid)
        for start in (0, 300)
        for phase, ts, tid in (("s", start + 20, 1), ("t", start + 210, 2))
    ]
    rows = [dict(one, ts=one["ts"] + shift) for shift in (0, 300) for one in (*ROWS, OTHER)]
    assert shown(trace(*rows, *reversed(again))) == ["1: b > other", "3: b > other"]


def test_kineto_writes_ends_at_the_start_of_ops() -> None:
    """Where one op ends as the next begins, PyTorch means the next."""
    data = trace(x("a", 0, 10), x("b", 10, 10), end("s", 10), OTHER, end("f", 200, tid=2, bp="e"), schemaVersion=1)
    assert shown(data) == ["0: b > other"]
    assert shown(data.replace(b'"schemaVersion": 1, ', b"")) == ["0: a > other"]


def test_instants_are_no_slices() -> None:
    instant = {"ph": "i", "name": "i", "pid": 1, "tid": 1, "ts": 20, "s": "t"}
    assert shown(trace(*ROWS, OTHER, instant, end("s", 20), end("f", 210, tid=2, bp="e"))) == ["0: b > other"]


OUT, IN = {"flow_out": True}, {"flow_in": True}


@pytest.mark.parametrize(
    ("rows", "wanted", "alone"),
    [
        (({**x("a", 0, 10), **OUT}, {**x("b", 20, 10, 2), **IN}), ["0: a > b"], 0),
        (({**x("b", 20, 10, 2), **IN}, {**x("a", 0, 10), **OUT}), ["1: a > b"], 0),
        (({**x("a", 0, 10), **OUT}, {**x("b", 5, 10, 2), **IN}), ["0: a > b"], 0),
        (
            (
                {**x("a", 0, 10), **OUT},
                {**x("b", 20, 1, 2), **IN, **OUT},
                {**x("c", 30, 1), **IN},
                {**x("d", 40, 1), **IN},
            ),
            ["0: a > b", "0: b > c", "0: b > d"],
            0,
        ),
        (
            ({**x("a", 0, 10), **OUT}, {**x("b", 20, 1, 2), **IN}, {**x("c", 30, 1), **OUT}, {**x("d", 40, 1), **IN}),
            ["0: a > b", "2: c > d"],
            0,
        ),
        (({**x("b", 0, 10), **IN}, {**x("a", 20, 10, 2), **OUT}), [], 2),
        (({**x("a", 0, 10), **OUT, "flow_out": False}, {**x("b", 20, 10, 2), "flow_in": 1}), [], 1),
        (({**x("a", 0, 10), **OUT, "bind_id": "7"}, {**x("b", 20, 10, 2), **IN}), ["0: a > b"], 0),
        (({**x("a", 0, 10), **OUT, "bind_id": "0x7"}, {**x("b", 20, 10, 2), **IN}), [], 2),
        (({**x("a", 0, 10), **OUT, "bind_id": 8}, {**x("b", 20, 10, 2), **IN}), [], 2),
    ],
)
def test_flows_of_events_with_bind_id(rows: tuple[dict[str, Any], ...], wanted: list[str], alone: int) -> None:
    data = trace(*({"bind_id": 7, **row} for row in rows))
    assert shown(data) == wanted
    assert log(fastprof.load(data)).get("unmatched_flow", 0) == alone == arrows_of(read_trace(data))[1]


def test_a_flow_by_bind_id_is_of_its_own_event() -> None:
    """Not of those that begin or end with it; and from its end to a start."""
    around = [x("around", 0, 10), x("inside", 5, 5), x("other", 20, 5, 2)]
    data = trace(
        *around, {**x("a", 0, 10), "bind_id": 1, **OUT}, {**x("b", 20, 5, 2), "bind_id": 1, **IN},
        {"ph": "B", "name": "begun", "pid": 1, "tid": 3, "ts": 30, "bind_id": 2, **OUT},
        {**x("c", 50, 1), "bind_id": 2, **IN}, {"ph": "E", "pid": 1, "tid": 3, "ts": 45},
    )  # fmt: skip
    assert shown(data) == ["0: a > b", "3: begun > c"]
    rows = fastprof.load(data).flows.to_pylist()
    assert [(row["from_ps"], row["to_ps"]) for row in rows] == [(10 * MICRO, 20 * MICRO), (45 * MICRO, 50 * MICRO)]
    assert [(row["name"], row["category"], row["id"]) for row in rows] == [("a", "any", "1"), ("begun", None, "2")]


def test_bind_ids_that_say_no_direction_are_remarked() -> None:
    data = trace({**x("a", 0, 10), "bind_id": 7}, {"ph": "i", "name": "i", "pid": 1, "ts": 1, "bind_id": 7, **OUT})
    assert log(fastprof.load(data)) == {"not_read": 2}


def test_a_selection_has_the_arrows_of_its_events() -> None:
    profile = fastprof.load(
        trace(*ROWS, OTHER, end("s", 20), end("f", 210, tid=2, bp="e"), end("s", 5, 8), end("f", 40, 8))
    )
    assert profile.flows.num_rows == 2
    assert profile.select(names="^other$").flows["id"].to_pylist() == ["7"]
    assert profile.select(names="^z$").flows["id"].to_pylist() == ["8"]
    assert profile.select(names="^c$").flows.num_rows == 0


def drawn(profile: fastprof.Profile) -> Counter[tuple[int, int]]:
    """The flows that the timeline has, as ids of events: all events of these traces have a start."""
    tables = profile.table_set
    events = read_host(tables, 0, NEEDS.planes, NEEDS.stats, NEEDS.metadata_stats)
    found = pair_flows(Host(events, tables.session.workers))
    return Counter(zip(found.producer.tolist(), found.consumer.tolist(), strict=True))


@pytest.mark.captures
@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name)
def test_the_timeline_draws_each_arrow_once(path: Path) -> None:
    """Arrows of launches are those of correlation ids (rule F6)."""
    profile = fastprof.load(path)
    rows = profile.flows.to_pylist()
    pairs = {(row["from_event_id"], row["to_event_id"]) for row in rows if row["to_event_id"] is not None}
    found = drawn(profile)
    assert set(found) >= {(begin, end) for begin, end in pairs if begin != end}
    assert set(found.values()) <= {1}


def test_hosts_and_runs_count_on(tmp_path: Path) -> None:
    data = trace(*ROWS, OTHER, end("s", 20), end("f", 210, tid=2, bp="e"))
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
        for host in ("a", "b"):
            (folder / f"{host}.trace.json").write_bytes(data)
    run = fastprof.load(folders[0])
    assert [(row["host"], row["flow"], row["from_event_id"], row["to_line_id"]) for row in run.flows.to_pylist()] == [
        ("a", 0, 1, 1),
        ("b", 2, 6, 3),
    ]
    assert run.select(hosts="b").flows.to_pylist() == run.flows.to_pylist()[1:]
    both = fastprof.load(folders).flows
    assert both.column("flow").to_pylist() == [0, 2, 4, 6]
    assert both.column("from_event_id").to_pylist() == [1, 6, 11, 16]
    assert both.column("to_line_id").to_pylist() == [1, 3, 5, 7]


def test_captures_without_flows_have_an_empty_table(tmp_path: Path) -> None:
    assert fastprof.load(trace(*ROWS)).flows.num_rows == 0
    path, out = tmp_path / "a.json", tmp_path / "a.xplane.pb"
    path.write_bytes(trace(*ROWS, OTHER, end("s", 20), end("f", 210, tid=2, bp="e")))
    assert main(["convert", str(path), "-o", str(out)]) == 0
    assert fastprof.load(out).flows.to_pylist() == fastprof.load(path).flows.to_pylist()


def test_damaged_ends_are_an_error_or_a_row_of_import_log(tmp_path: Path) -> None:
    path, out = tmp_path / "a.json", tmp_path / "a.xplane.pb"
    path.write_bytes(trace(*ROWS, OTHER, end("s", 20), end("f", 210, tid=2, bp="e")))
    assert main(["convert", str(path), "-o", str(out)]) == 0
    whole = out.read_bytes()
    place = whole.index(b"\x0a\x60", whole.rindex(b"\x22")) + 2
    damaged = whole[: place + 16] + b"\xff\xff\xff\x7f" + whole[place + 20 :]
    with pytest.raises(fastprof.CaptureError, match="a number that leads nowhere"):
        fastprof.load(damaged).flows  # noqa: B018
    salvaged = fastprof.load(damaged, on_error="salvage")
    assert salvaged.flows.num_rows == 0
    assert log(salvaged)["damaged_flows"] == 1
    assert salvaged.events.num_rows == 5
