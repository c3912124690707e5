"""Stats that are picked by their name are those of the table event_stats: of each event the first that has a value."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from gate import few, typical_captures
from random_spaces import random_space
from slow_reader import Space, parse
from trace_builder import StatMetadata as StatName
from trace_builder import aggregated, event, len_field, line, plane, ref, several, stat, u64, xspace

import fastprof
from fastprof._native import records
from fastprof.schema.capture_tables import KINDS
from fastprof.tables.host_events import HostEvents
from fastprof.tables.host_reader import read_host

ABSENT = "no capture has a stat of this name"
Pick = tuple[int, str, Any]
"""A row, a kind, and the value: the text itself, or of bytes how many they are."""


def read(profile: fastprof.Profile, names: Sequence[str], number: int = 0, planes: tuple[str, ...] = ()) -> HostEvents:
    return read_host(profile.table_set, number, planes, tuple(names), ())


def value_of(events: HostEvents, kind: int, value: int) -> Any:
    if kind in (records.STR, records.REF):
        return events.text(value)
    return value


def picked(events: HostEvents, name: str) -> list[Pick]:
    found = events.stat(name)
    assert found.rows.dtype == "int32" and found.kind.dtype == "uint8" and found.value.dtype == "int64"
    kinds = [*KINDS, "lost ref"]
    columns = (found.rows.tolist(), found.kind.tolist(), found.value.tolist())
    return [(row, kinds[kind], value_of(events, kind, value)) for row, kind, value in zip(*columns, strict=True)]


def from_tables(profile: fastprof.Profile, host: str) -> dict[str, list[Pick]]:
    """What event_stats says of a host's events that have a start. Stats that nobody declares are called by their id."""
    listed = profile.events.select(["event_id", "host", "start_ps"]).to_pylist()
    timed = [one["event_id"] for one in listed if one["host"] == host and one["start_ps"] is not None]
    rows = {event_id: row for row, event_id in enumerate(timed)}
    found: dict[str, dict[int, Pick]] = {}
    for one in profile.event_stats.to_pylist():
        row, kind = rows.get(one["event_id"]), one["kind"]
        if row is None or kind == "none" or one["stat"].startswith("#"):
            continue
        value: Any = one["int_value"]
        if kind == "double":
            value = struct.unpack("<q", struct.pack("<d", one["double_value"]))[0]
        elif kind == "bytes":
            value = len(one["bytes_value"])
        elif kind in ("str", "ref"):
            kind, value = ("lost ref", value) if one["str_value"] is None else (kind, one["str_value"])
        found.setdefault(one["stat"], {}).setdefault(row, (row, kind, value))
    return {name: list(picks.values()) for name, picks in found.items()}


def check(profile: fastprof.Profile) -> None:
    for number, host in enumerate(profile.hosts["host"].to_pylist()):
        wanted = from_tables(profile, host)
        events = read(profile, [*wanted, ABSENT], number)
        assert [*events.stats] == [*wanted, ABSENT]
        for name, picks in wanted.items():
            assert picked(events, name) == picks, (host, name)
        assert len(events.stat(ABSENT)) == 0


def load(*planes: Any, **options: Any) -> fastprof.Profile:
    return fastprof.load(xspace(*planes), **options)


# ---- all stats of many captures --------------------------------------------------------------------


@typical_captures
def test_real_captures(capture: Path) -> None:
    check(fastprof.load(capture))


@pytest.mark.parametrize("block", few(range(5), 2))
def test_random_captures(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if block % 2:
        monkeypatch.setattr("fastprof.decode.blocks.BLOCK_BYTES", 200)
    for seed in range(block * 40, block * 40 + 40):
        data = random_space(seed, well_written=seed % 3 == 0)
        if parse(data) != Space():
            check(fastprof.load(data, threads=1 + seed % 4))


def test_sessions_of_several_captures(tmp_path: Path) -> None:
    for seed in range(6):
        (tmp_path / f"h{seed}.xplane.pb").write_bytes(random_space(seed, well_written=True))
    check(fastprof.load(tmp_path))


# ---- one by one ------------------------------------------------------------------------------------


def test_every_kind() -> None:
    stats = {"i": -5, "u": u64((1 << 64) - 1), "d": -0.0, "s": "own", "r": ref("shared"), "b": b"abc", "lost": ref(999)}
    profile = load(plane("/host:CPU", [line("main", [event("step", 0, 9, stats)])]))
    events = read(profile, list(stats))
    assert {name: picked(events, name) for name in stats} == {
        "i": [(0, "int64", -5)],
        "u": [(0, "uint64", -1)],
        "d": [(0, "double", -(1 << 63))],
        "s": [(0, "str", "own")],
        "r": [(0, "ref", "shared")],
        "b": [(0, "bytes", 3)],
        "lost": [(0, "lost ref", 999)],
    }
    rows, values = events.ints("u")
    assert rows.tolist() == [0] and values.tolist() == [-1]
    assert [len(events.ints(name)[0]) for name in ("d", "s", "b", "lost")] == [0, 0, 0, 0]
    assert [len(events.texts(name)[0]) for name in ("s", "r", "lost", "i")] == [1, 1, 0, 0]


def test_the_first_of_a_name_counts_and_one_without_a_value_is_none() -> None:
    events = [
        event("a", 0, 1, [stat("x", 1), stat("x", "later")]),
        event("b", 5, 1, [stat("x", None), stat("x", 2), stat("x", 3)]),
        event("c", 9, 1, [stat("x", several((7, "last of one message")))]),
        event("d", 12, 1, [stat("x", None)]),
    ]
    profile = load(plane("/host:CPU", [line("main", events)]))
    wanted = [(0, "int64", 1), (1, "int64", 2), (2, "str", "last of one message")]
    assert picked(read(profile, ["x"]), "x") == wanted


def test_two_ids_of_one_name_are_one_stat() -> None:
    twice = plane("/host:CPU", [line("main", [event("a", 0, 1, {1: 5, 2: 6}), event("a", 5, 1, {2: 7})])],
                  stat_metadata=[StatName("x", 1), StatName("x", 2)])  # fmt: skip
    assert picked(read(load(twice), ["x"]), "x") == [(0, "int64", 5), (1, "int64", 7)]


def test_stats_that_nobody_declares_have_no_name_to_be_picked_by() -> None:
    profile = load(plane("/host:CPU", [line("main", [event("a", 0, 1, {77: 1, "x": 2})])]))
    events = read(profile, [ABSENT, "x", "#77", ""])
    assert {name: len(stat) for name, stat in events.stats.items()} == {ABSENT: 0, "x": 1, "#77": 0, "": 0}


def test_own_texts_of_many_lines_are_distinguished(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block has strings of its own; together they get other numbers."""
    monkeypatch.setattr("fastprof.decode.blocks.BLOCK_BYTES", 100)
    lines = [
        line(f"thread {i}", [event("e", j, 1, {"s": f"text {i * j}", "r": ref(f"shared {j}")}) for j in range(20)])
        for i in range(20)
    ]
    profile = load(plane("/host:CPU", lines), threads=4)
    events = read(profile, ["r", "s"])
    wanted = [f"text {i * j}" for i in range(20) for j in range(20)]
    rows, numbers = events.texts("s")
    assert events.all_texts(numbers) == wanted and rows.tolist() == list(range(400))
    assert len(set(numbers.tolist())) == len(set(wanted))
    assert events.all_texts(events.texts("r")[1]) == [f"shared {j}" for j in range(20)] * 20


def test_rows_are_in_order_of_time_and_aggregated_events_are_none() -> None:
    late_first = [event("b", 50, 1, {"x": 2}), event("a", 10, 1, {"x": 1}), aggregated("sum", 3, 9, {"x": 9}),
                  event("c", 50, 4, {"x": 3})]  # fmt: skip
    profile = load(plane("/host:CPU", [line("main", late_first)]))
    events = read(profile, ["x"])
    assert picked(events, "x") == [(0, "int64", 1), (1, "int64", 3), (2, "int64", 2)]
    assert [events.names[meta] for meta in events.meta.tolist()] == ["a", "c", "b"]


def test_planes_that_are_one_keep_their_own_ids_of_stats() -> None:
    first = plane("/host:CPU", [line("main", [event("a", 0, 1, {"x": 1})], id=1)], stat_ids={"x": 4, "y": 5})
    second = plane("/host:CPU", [line("main", [event("a", 5, 1, {"x": 2, "y": 3})], id=1)], stat_ids={"y": 4, "x": 5})
    other = plane("/device:GPU:0", [line("s", [event("k", 0, 1, {"y": 8})])])
    profile = load(first, other, second)
    events = read(profile, ["x", "y"])
    assert picked(events, "x") == [(0, "int64", 1), (1, "int64", 2)]
    assert picked(events, "y") == [(1, "int64", 3), (2, "int64", 8)]


def test_only_the_planes_asked_for_are_read() -> None:
    planes = [plane(name, [line("l", [event("e", 0, 1, {"x": i})])]) for i, name in enumerate(("/host:CPU", "a", "b"))]
    events = read(load(*planes), ["x"], planes=("^a$", "CPU"))
    assert picked(events, "x") == [(0, "int64", 0), (1, "int64", 1)]
    assert [one.name for one in events.planes] == ["/host:CPU", "a"]


def test_selected_events_only() -> None:
    profile = load(plane("/host:CPU", [line("l", [event("e", 10 * i, 5, {"x": i}) for i in range(6)])]))
    assert picked(read(profile.select(time_ps=(12, 35)), ["x"]), "x") == [
        (0, "int64", 1),
        (1, "int64", 2),
        (2, "int64", 3),
    ]
    assert picked(read(profile.select(names="nothing"), ["x"]), "x") == []


@pytest.mark.parametrize("damage", [b"\x22\x03\x0a\x7f\x00", b"\x22\x04\x08\x01\x2a\x7f"])
def test_damaged_stats_are_salvaged(damage: bytes) -> None:
    """An event whose stats do not decode is lost, or its stats are; the tables and the picks agree on it."""
    good = [event("a", 0, 1, {"x": 1, "s": "one"}), event("c", 9, 1, {"x": 3, "s": "three"})]
    bad = b"\x08\x01\x10\x05" + damage
    data = xspace(plane("/host:CPU", [line("main", [good[0], bad, good[1]])]))
    with pytest.raises(fastprof.FastprofError):
        read(fastprof.load(data), ["x", "s"])
    profile = fastprof.load(data, on_error="salvage")
    check(profile)
    events = read(profile, ["x", "s"])
    assert events.ints("x")[1].tolist() == [1, 3]


def test_texts_that_are_no_utf8() -> None:
    raw = event("a", 0, 1, [stat("s", "x"), len_field(4, b"\x08\x01\x2a\x02\xff\xfe")[2:]])
    data = xspace(plane("/host:CPU", [line("main", [raw, event("b", 5, 1, {"s": "fine"})])]))
    with pytest.raises(fastprof.FastprofError):
        read(fastprof.load(data), ["s"])
    check(fastprof.load(data, on_error="salvage"))
