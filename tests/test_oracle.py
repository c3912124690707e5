"""Odd captures, one idea each: fastprof gives the tables that the slow reader gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from gate import rounds
from slow_reader import parse
from slow_tables import Source, Tables, tables
from small_cuts import cut_small
from trace_builder import (
    MAPS_FIRST,
    UNKNOWN_FIELDS,
    Entry,
    Event,
    Metadata,
    Plane,
    StatMetadata,
    Value,
    Wire,
    aggregated,
    event,
    int_field,
    line,
    plane,
    ref,
    several,
    stat,
    task_environment,
    u64,
    xspace,
)

import fastprof

START = 1_700_000_000_000_000_000
LARGEST, SMALLEST = (1 << 63) - 1, -(1 << 63)


def oracle(data: bytes, profile: Any) -> Tables:
    """The slow reader's tables, under the host and path that fastprof has given the bytes."""
    host, path = (profile.hosts[name][0].as_py() for name in ("host", "path"))
    return tables([Source(host, path, len(data), parse(data))])


def on_line(*events: Event | bytes, **rest: Any) -> Plane:
    return plane("/host:CPU", [line("t", events)], **rest)


def nested(depth: int) -> list[Event]:
    return [event("n", at, 2 * (depth - at)) for at in range(depth)]


MANY_TEXTS: dict[str | int, Value] = {f"stat {number}": ref(f"text {number}") for number in range(400)}

CAPTURES: dict[str, bytes] = {
    "one unnamed plane": xspace(plane("")),
    "only errors": xspace(errors=["boom"]),
    "only hostnames": xspace(hostnames=["vm", "vm2"]),
    "planes of one name": xspace(plane("p", id=1), plane("p", id=2), plane("p", id=1)),
    "lines without events": xspace(plane("p", [line("a"), line("b")])),
    "an event of no bytes": xspace(on_line(b"", b"")),
    "metadata id 0": xspace(on_line(event("zero"), event("one"), event_ids={"zero": 0})),
    "negative ids": xspace(
        plane(
            "p",
            [line("t", [event("a")], id=-1), line("u", [event("b")], id=SMALLEST)],
            id=-7,
            event_ids={"a": -1, "b": SMALLEST},
            stat_ids={"x": -3},
            stats={"x": -1},
        )
    ),
    "largest ids": xspace(
        plane(
            "p",
            [line("t", [event("a", stats={"x": 1})], id=LARGEST)],
            id=LARGEST,
            event_ids={"a": LARGEST},
            stat_ids={"x": LARGEST},
        )
    ),
    "sparse ids": xspace(on_line(event("a"), event("b"), event_ids={"a": 1 << 40, "b": 1 << 50})),
    "unknown metadata": xspace(on_line(event(5), event("a"), event(-5), event_ids={"a": 3})),
    "unknown stats": xspace(on_line(event("a", stats=[stat(5, 1), stat(-5, "x")]), stats=[stat(9, 1)])),
    "names used twice": xspace(
        on_line(event(1), event(2), event_metadata=[Metadata("a", 1), Metadata("a", 2, "other")])
    ),
    "all kinds": xspace(
        on_line(
            event("a", stats={"i": SMALLEST, "u": u64((1 << 64) - 1), "d": float("nan"), "z": -0.0}),
            event("a", stats={"s": "", "t": "größe", "b": b"", "c": b"\0\xff", "r": ref("s"), "n": None}),
        )
    ),
    "one name, many kinds": xspace(
        on_line(*(event("a", at, stats={"x": value}) for at, value in enumerate((1, u64(2), 0.5, "s", b"b", None))))
    ),
    "several values in a stat": xspace(
        on_line(event("a", stats={"x": several((1, "text", b"raw", 2.5)), "y": several(("text", u64(7)))}))
    ),
    "refs that lead nowhere": xspace(on_line(event("a", stats=[stat("x", ref(99)), stat("y", ref((1 << 64) - 1))]))),
    "a ref to an empty text": xspace(on_line(event("a", stats={"x": ref("")}))),
    "a stat named nothing": xspace(on_line(event("a", stats={"": 1, "#2": 2}))),
    "stats of metadata and planes": xspace(
        on_line(
            event("a"),
            event_metadata=[Metadata("a", stats={"x": ref("t"), "b": b"1"}), Metadata("b", stats={"x": 2})],
            stats={"x": "own", "y": 1.5},
        )
    ),
    "metadata of one plane alone": xspace(plane("p", event_metadata=[Metadata("a")]), on_line(event(1))),
    "refs stay in their plane": xspace(
        on_line(event("a", stats={"x": ref("one")})),
        plane("q", [line("t", [event("a", stats={"x": ref("two")})])]),
    ),
    "events out of order": xspace(on_line(*(event("e", (at * 37) % 100, at % 7) for at in range(100)))),
    "equal starts": xspace(on_line(event("a", 5, 1), event("b", 5, 9), event("c", 5, 9), event("d", 5, 0))),
    "aggregated": xspace(on_line(aggregated("a", 0), event("b", 3, 1), aggregated("c", -1, 5), event("d", 1, 1))),
    "negative offsets": xspace(on_line(event("a", -5, 3), event("b", -9, 30), event("c", -1000))),
    "negative durations": xspace(on_line(event("a", 5, -3), event("b", 5, 3), event("c", 5, -9))),
    "a start of more than 64 bits": xspace(
        plane(
            "p",
            [line("t", [event("a", 7, 2), event("b", 3)], timestamp_ns=10**17), line("u", [event("c", 1)])],
        )
    ),
    "deep nesting": xspace(on_line(*nested(300))),
    "crossing": xspace(on_line(event("a", 0, 10), event("b", 5, 10), event("c", 7, 2), event("d", 12, 3))),
    "crossing children": xspace(
        on_line(event("r", 0, 100), event("a", 10, 30), event("b", 30, 30), event("c", 90, 20))
    ),
    "zero durations": xspace(on_line(event("a", 5), event("b", 5), event("c", 5, 2), event("d", 7), event("e", 8))),
    "async by own stat": xspace(
        on_line(event("a", 0, 50), event("b", 5, 90, {"_a": 1}), event("c", 6, 2), event("d", 7, 1, {"_a": 0}))
    ),
    "async by metadata": xspace(
        on_line(
            event("a", 0, 50),
            event("b", 5, 9, {"_a": 0}),
            event("b", 6, 2),
            event("c", 6, 1, {"_a": "1"}),
            event_metadata=[Metadata("b", stats={"_a": u64(1)})],
        )
    ),
    "async, recorded in several ways": xspace(
        on_line(
            event("a", 0, 50),
            event("b", 5, 90, {"_a": "text"}),
            event("c", 6, 80, {"_a": 1.5}),
            event("d", 7, 70, {"_a": ref(999)}),
            event("e", 8, 60, {"_a": u64(2)}),
            event("f", 9, 50, {"_a": None}),
            event("g", 10, 40, {"_a": -1}),
            event("h", 11, 30, [stat("_a", 0), stat("_a", 1)]),
        )
    ),
    "lines joined": xspace(
        plane(
            "p",
            [
                line("a", [event("x", 9), event("y", 1)], id=3, timestamp_ns=1),
                line("b", [event("z")], id=4),
                line("c", [event("w", 3)], id=3, duration_ps=5, display_id=9, display_name="d"),
            ],
        )
    ),
    "a line named later": xspace(
        plane("p", [line("", [event("x")], id=3), line("named", [event("x")], id=3, timestamp_ns=5)])
    ),
    "planes joined": xspace(
        plane("p", [line("t", [event("a", stats={"x": ref("one")}), event("b")], id=1)], stats={"n": 1}),
        plane("q", [line("t", [event("z")], id=1)]),
        plane(
            "p",
            [
                line("t", [event("c", stats={"y": ref("two")}), event("b"), event(7)], id=1),
                line("u", [event("a")], id=2),
            ],
            stats={"m": 2},
        ),
    ),
    "planes joined, children and stats": xspace(
        plane("p", event_metadata=[Metadata("a", 1, child_ids=[2]), Metadata("b", 2, stats={"x": 1})]),
        plane("p", event_metadata=[Metadata("c", 1, child_ids=[2, 9]), Metadata("a", 2, stats={"y": 1})]),
        plane("p", event_metadata=[Metadata("d", 1), Metadata("c", 2), Metadata("b", 3)]),
    ),
    "unix time, recorded": xspace(
        plane(
            "p",
            [line("t", [event("a", 5)], timestamp_ns=START + 3), line("u", [event("b", 7)], timestamp_ns=4)],
        ),
        task_environment(START, START + 10**9),
    ),
    "unix time, before the start": xspace(
        task_environment(START), plane("p", [line("t", [event("a", 5)], timestamp_ns=START - 3)])
    ),
    "a clock of a hundred days": xspace(
        plane("p", [line("t", [event("a", 5)], timestamp_ns=9 * 10**15), line("u", [event("b", -5)])])
    ),
    "unix time, not recorded": xspace(
        plane(
            "p",
            [line("t", [event("a", 5)], timestamp_ns=START + 3), line("u", [event("b")], timestamp_ns=START)],
        )
    ),
    "task environment": xspace(task_environment(START, None, text="t", number=-4, real=0.5, r=ref("text"))),
    "more than 128 names": xspace(on_line(*(event(f"name {at}", at) for at in range(200)))),
    "more than 128 texts": xspace(on_line(event("a", stats=MANY_TEXTS))),
    "own texts of stats": xspace(on_line(*(event("a", at, 1, {"s": f"text {at % 300}"}) for at in range(1000)))),
    "unknown fields everywhere": xspace(
        on_line(
            event("a", 1, 2, [stat("x", 1, Wire(after=UNKNOWN_FIELDS))], wire=Wire(before=UNKNOWN_FIELDS)),
            wire=Wire(before=UNKNOWN_FIELDS, order=MAPS_FIRST.order),
        ),
        wire=Wire(after=UNKNOWN_FIELDS),
    ),
    "odd map entries": xspace(
        on_line(
            event(0),
            event(5),
            event(6),
            event_metadata=[
                Metadata("a", 5, entry=Entry(omit_key=True)),
                Metadata("b", 5, entry=Entry(omit_value=True)),
                Metadata("c", 6, inner_id=False),
                Metadata("d", 8, entry=Entry(key=9)),
                Metadata("e", 9),
            ],
            stat_metadata=[StatMetadata("s", 2, entry=Entry(first=int_field(1, 5))), StatMetadata("t", 2)],
        )
    ),
    "device planes": xspace(
        *(
            plane(name)
            for name in (
                "/device:GPU:0",
                "/device:GPU:12",
                "/device:TPU:3",
                "/device:TPU:3 SparseCore 1",
                "/device:TPU:0 SparseCore Dense 2",
                "/device:CUSTOM:Megascale Trace",
                "/device:CUSTOM:MOSAIC:1",
                "#Chip TPU Non-Core HBM",
                "/host:CPU",
                "/host:metadata",
                "Task Environment",
                "/device:CPU:0",
            )
        )
    ),
}


@pytest.mark.parametrize("case", CAPTURES)
def test_as_the_slow_reader_reads_it(case: str, check_tables: Callable[..., None]) -> None:
    check_threads(CAPTURES[case], check_tables)


def check_threads(data: bytes, check_tables: Callable[..., None]) -> None:
    """One thread and several read it as the slow reader does."""
    alone, shared = (fastprof.load(data, threads=threads) for threads in (1, 4))
    expected = oracle(data, alone)
    for profile in (alone, shared):
        check_tables(profile.tables, expected)


def test_more_than_32768_names(check_tables: Callable[..., None]) -> None:
    check_threads(xspace(on_line(*(event(f"{at:x}", at) for at in range(33_000)))), check_tables)


def long_lines(part: int) -> bytes:
    """Some megabytes by ``part``; lines are cut and threads share them: in order and not, odd events in between."""

    def events(count: int, step: int, first: int = 0) -> list[Event | bytes]:
        listed: list[Event | bytes] = []
        for at in range(first, first + count):
            stats = [stat("x", at), stat("s", f"text {at % 50}"), stat("_a", int(at % 11 == 0))]
            wire = Wire(after=UNKNOWN_FIELDS) if at % 5000 == 7 else Wire()
            listed.append(event(f"e{at % 9}", at * step % 1_000_003, at % 40, stats[: at % 4], wire=wire))
        return listed

    sums = [aggregated("sum", 2, 7, {"x": 1})]
    lines = [
        line("in order", events(20_000 // part, 10), id=1),
        line("out of order", events(12_000 // part, 7919), id=2),
        line("two pieces", events(5_000 // part, 20), id=3),
        line("with sums", [*events(6_000 // part, 10), *sums, *events(6_000 // part, 10, 6_000 // part)], id=4),
        line("two pieces", events(5_000 // part, 20, 1), id=3, timestamp_ns=1),
        line("one after the other", events(6_000 // part, 10), id=5),
        line("one after the other", events(6_000 // part, 10), id=5, timestamp_ns=1000),
    ]
    return xspace(plane("p", lines), plane("q", [line("t", events(6_000 // part, 3))]))


def test_long_lines(
    check_tables: Callable[..., None], check_same: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    part = rounds(1, 5)
    cut_small(monkeypatch, segment_bytes=(1 << 18) // part, block_bytes=(4 << 20) // part)
    data = long_lines(part)
    profile = fastprof.load(data, threads=4)
    expected = oracle(data, profile)
    check_tables(profile.tables, expected)
    check_same(fastprof.load(data, threads=1).tables, profile.tables, ())
    for name in ("event_stats", "nesting", "events"):
        check_tables({name: fastprof.load(data, threads=3).tables[name]}, expected, only=[name])
    batches = list(fastprof.scan(data, columns=["event_id", "start_ps"], batch_rows=1000))
    assert [row for batch in batches for row in batch["event_id"].to_pylist()] == expected["events"]["event_id"]
    assert [row for batch in batches for row in batch["start_ps"].to_pylist()] == expected["events"]["start_ps"]


@pytest.mark.parametrize("case", ["planes joined", "events out of order", "all kinds", "aggregated"])
def test_one_table_at_a_time(case: str, check_tables: Callable[..., None]) -> None:
    """A table is the same whether it is decoded alone or with others."""
    data = CAPTURES[case]
    for name in oracle(data, fastprof.load(data)):
        profile = fastprof.load(data)
        found = {name: profile.tables[name]}
        check_tables(found, oracle(data, profile), only=[name])


def test_joined_files_are_read_as_one(check_tables: Callable[..., None]) -> None:
    data = CAPTURES["planes joined"] + CAPTURES["task environment"] + CAPTURES["planes joined"]
    profile = fastprof.load(data)
    check_tables(profile.tables, oracle(data, profile))
