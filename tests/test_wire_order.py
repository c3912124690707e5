"""One capture, written in every way that the wire format allows, gives the tables that stand here."""

from __future__ import annotations

import io
from typing import Any

import pytest
from trace_builder import (
    EVENT_METADATA,
    LINES,
    MAPS_FIRST,
    PLANE_STATS,
    REVERSED,
    STAT_METADATA,
    UNKNOWN_FIELDS,
    Entry,
    Metadata,
    StatMetadata,
    Wire,
    aggregated,
    double_field,
    event,
    fixed32_field,
    fixed64_field,
    group_field,
    int_field,
    len_field,
    line,
    plane,
    ref,
    stat,
    task_environment,
    u64,
    xspace,
)

import fastprof


def rows(table: Any, *columns: str) -> list[tuple[Any, ...]]:
    return list(zip(*(table[column].to_pylist() for column in columns), strict=True))


STAT_COLUMNS = ("stat", "kind", "int_value", "double_value", "str_value", "bytes_value")


def capture(space: Wire, top: Wire, inner: Wire) -> bytes:
    """Two events and a sum with all kinds of stats; `space`, `top` and `inner` say how it is written."""
    stats = [
        stat("i", -1, inner),
        stat("u", u64(2**64 - 1), inner),
        stat("d", -0.5, inner),
        stat("s", "größe", inner),
        stat("b", b"\0\xff", inner),
        stat("r", ref("a text"), inner),
        stat("r", ref(999), inner),
        stat("n", None, inner),
        stat(77, 7, inner),
    ]
    events = [
        event("late", 50, 5, stats, wire=inner),
        event("early", 20, 100, wire=inner),
        aggregated("sum", 3, 9),
        event(-4, 20, 200, wire=inner),
    ]
    main = line("main", events, id=-9, timestamp_ns=1, display_id=5, display_name="shown", wire=inner)
    metadata = [
        Metadata("late", 0, "L", b"raw", [stat("i", 6, inner)], (2, -4), entry=Entry(wire=inner), wire=inner),
        Metadata("early", 1 << 40, entry=Entry(wire=inner), wire=inner),
        Metadata("sum", -2, wire=inner),
    ]
    texts = [StatMetadata("i", 0, "described", wire=inner), StatMetadata("a text", -8, wire=inner)]
    built = plane(
        "/device:GPU:3", [main], id=7, stats=[stat("i", 11, inner)],
        event_metadata=metadata, stat_metadata=texts, wire=top,
    )  # fmt: skip
    return xspace(built, plane(""), errors=["e1", "e2"], warnings=["w"], hostnames=["h1", "h2"], wire=space)


WIRES: dict[str, tuple[Wire, Wire, Wire]] = {
    "as profilers write": (Wire(), Wire(), Wire()),
    "maps before lines": (Wire(), MAPS_FIRST, Wire()),
    "maps between lines and stats": (Wire(), Wire(order=(LINES, STAT_METADATA, EVENT_METADATA)), Wire()),
    "stats first, name last": (Wire(), Wire(order=(PLANE_STATS, LINES, 4, 5, 1, 2)), Wire()),
    "planes last": (Wire(order=(4, 3, 2, 1)), Wire(), Wire()),
    "all reversed": (REVERSED, REVERSED, Wire(order=(11, 10, 9, 7, 6, 5, 4, 3, 2, 1))),
    "values before ids": (Wire(), Wire(), Wire(order=(7, 6, 5, 4, 3, 2))),
    "zeros written": (Wire(), Wire(explicit=True), Wire(explicit=True)),
    "long varints": (Wire(pad=3), Wire(pad=9), Wire(pad=9)),
    "varints longer by one": (Wire(pad=1), Wire(pad=1), Wire(pad=1)),
    "unknown fields before": tuple(Wire(before=UNKNOWN_FIELDS) for _ in range(3)),  # type: ignore[dict-item]
    "unknown fields after": tuple(Wire(after=UNKNOWN_FIELDS) for _ in range(3)),  # type: ignore[dict-item]
    "groups": tuple(Wire(before=group_field(9, group_field(1))) for _ in range(3)),  # type: ignore[dict-item]
    "known numbers of unknown type": (
        Wire(before=fixed32_field(1) + int_field(4, 3)),
        Wire(after=double_field(3, 1.0) + int_field(6, 2) + int_field(2, 2)),
        Wire(after=fixed32_field(1) + fixed64_field(3, b"\0" * 8) + len_field(1, b"\xff") + fixed32_field(7)),
    ),
}


@pytest.mark.parametrize("chunk", [None, 1, 13])
@pytest.mark.parametrize("wire", WIRES)
def test_tables_whatever_the_wire(wire: str, chunk: int | None) -> None:
    data = capture(*WIRES[wire])
    profile = fastprof.load(data if chunk is None else ShortReads(data, chunk))
    assert rows(profile.events, "plane", "line", "metadata_id", "name", "start_ps", "duration_ps") == [
        ("/device:GPU:3", "main", -4, None, 1020, 200),
        ("/device:GPU:3", "main", 1 << 40, "early", 1020, 100),
        ("/device:GPU:3", "main", 0, "late", 1050, 5),
        ("/device:GPU:3", "main", -2, "sum", None, 9),
    ]
    assert profile.events["num_occurrences"].to_pylist() == [None, None, None, 3]
    assert rows(profile.event_stats, "event_id", *STAT_COLUMNS) == [
        (2, "i", "int64", -1, None, None, None),
        (2, "u", "uint64", -1, None, None, None),
        (2, "d", "double", None, -0.5, None, None),
        (2, "s", "str", None, None, "größe", None),
        (2, "b", "bytes", None, None, None, b"\0\xff"),
        (2, "r", "ref", None, None, "a text", None),
        (2, "r", "ref", 999, None, None, None),
        (2, "n", "none", None, None, None, None),
        (2, "#77", "int64", 7, None, None, None),
    ]
    assert rows(profile.planes, "plane_id", "xplane_id", "name", "line_count", "event_count") == [
        (0, 7, "/device:GPU:3", 1, 4),
        (1, 0, "", 0, 0),
    ]
    assert rows(profile.lines, "xline_id", "name", "display_name", "display_id", "timestamp_ns") == [
        (-9, "main", "shown", 5, 1)
    ]
    assert rows(profile.event_metadata, "metadata_id", "name", "display_name", "child_ids")[:3] == [
        (0, "late", "L", [2, -4]),
        (1 << 40, "early", None, []),
        (-2, "sum", None, []),
    ]
    assert profile.event_metadata["metadata"][0].as_py() == b"raw"
    assert rows(profile.event_metadata_stats, "plane_id", "metadata_id", "stat_id", *STAT_COLUMNS[:3]) == [
        (0, 0, 0, "i", "int64", 6)
    ]
    assert rows(profile.plane_stats, "plane_id", "stat_id", *STAT_COLUMNS[:3]) == [(0, 0, "i", "int64", 11)]
    assert rows(profile.stat_metadata, "stat_id", "name", "description")[:2] == [
        (0, "i", "described"),
        (-8, "a text", None),
    ]
    assert rows(profile.hosts, "errors", "warnings", "hostnames") == [(["e1", "e2"], ["w"], ["h1", "h2"])]


class ShortReads(io.RawIOBase):
    """A file object that never gives more than a few bytes, however many are asked for."""

    def __init__(self, data: bytes, most: int) -> None:
        self._inner = io.BytesIO(data)
        self._most = most

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._inner.read(self._most if size < 0 else min(size, self._most))


def events_of(data: bytes, *columns: str) -> list[tuple[Any, ...]]:
    return rows(fastprof.load(data).events, *columns)


def test_the_last_of_a_repeated_singular_field_counts() -> None:
    twice = Wire(before=int_field(1, 3) + int_field(2, 99) + int_field(3, 88))
    stats = [stat("x", 1, Wire(before=len_field(5, "first") + int_field(1, 50)))]
    overridden = Wire(before=len_field(2, "no") + int_field(1, 9))
    built = plane(
        "real",
        [line("t", [event("a", 5, 6, stats, wire=twice)], id=4, wire=overridden)],
        id=2,
        wire=Wire(before=int_field(1, 8) + len_field(2, "not")),
    )
    profile = fastprof.load(xspace(built))
    assert rows(profile.planes, "xplane_id", "name") == [(2, "real")]
    assert rows(profile.lines, "xline_id", "name") == [(4, "t")]
    assert rows(profile.events, "name", "start_ps", "duration_ps") == [("a", 5, 6)]
    assert rows(profile.event_stats, "stat", "kind", "int_value", "str_value") == [("x", "int64", 1, None)]


def test_the_last_of_start_and_occurrences_counts() -> None:
    events = [
        event("start", 5, 1, wire=Wire(before=int_field(5, 3))),
        event("sum", 5, 1, num_occurrences=2),
        event("sum of none", None, 1, num_occurrences=0),
        event("neither", None, 1),
    ]
    found = events_of(xspace(plane("p", [line("t", events)])), "name", "start_ps", "num_occurrences")
    assert found == [("neither", 0, None), ("start", 5, None), ("sum", None, 2), ("sum of none", None, 0)]


def names_of(*metadata: Metadata) -> list[tuple[Any, ...]]:
    built = plane("p", [line("t", [event(5), event(0)])], event_metadata=metadata)
    profile = fastprof.load(xspace(built))
    named = rows(profile.events, "metadata_id", "name")
    assert {row for row in named if row[1] is not None} <= set(rows(profile.event_metadata, "metadata_id", "name"))
    return named


def test_tags_longer_than_need_be() -> None:
    tag = bytes([0x22 | 0x80, 0x80, 0])
    inner = int_field(1, 1) + int_field(2, 5) + tag + b"\x04" + int_field(1, 1) + int_field(4, 6)
    events = [event("a", 9, 1, {"x": 1}), inner]
    raw = int_field(1, 3) + b"".join(tag + bytes([len(inner)]) + inner for _ in range(2))
    profile = fastprof.load(xspace(plane("p", [line("t", events), raw])))
    assert rows(profile.events, "line_id", "name", "start_ps") == [
        (0, "a", 5),
        (0, "a", 9),
        (1, "a", 5),
        (1, "a", 5),
    ]
    assert rows(profile.event_stats, "event_id", "stat", "int_value") == [
        (0, "x", 6),
        (1, "x", 1),
        (2, "x", 6),
        (3, "x", 6),
    ]


def test_map_entries() -> None:
    assert names_of(Metadata("a", 5, entry=Entry(omit_key=True))) == [(5, None), (0, "a")]
    assert names_of(Metadata("a", 5, entry=Entry(omit_value=True))) == [(5, ""), (0, None)]
    assert names_of(Metadata("a", 5, entry=Entry(wire=REVERSED))) == [(5, "a"), (0, None)]
    assert names_of(Metadata("a", 5, entry=Entry(wire=Wire(before=int_field(1, 8))))) == [(5, "a"), (0, None)]
    assert names_of(Metadata("a", 5, entry=Entry(key=0))) == [(5, None), (0, "a")]
    assert names_of(Metadata("a", 5, inner_id=False)) == [(5, "a"), (0, None)]
    assert names_of(Metadata("a", 5), Metadata("b", 5)) == [(5, "b"), (0, None)]
    # The C++ runtime keeps such an entry, and so does fastprof; upb, the Python runtime, drops it.
    assert names_of(Metadata("a", 5, entry=Entry(wire=Wire(after=UNKNOWN_FIELDS)))) == [(5, "a"), (0, None)]


def test_a_map_value_that_comes_twice_is_merged() -> None:
    first = len_field(2, "b") + len_field(4, "shown") + int_field(6, 4) + len_field(5, int_field(4, 9))
    meta = Metadata("a", 5, child_ids=[9], stats={"x": 2}, entry=Entry(first=first))
    profile = fastprof.load(xspace(plane("p", event_metadata=[meta])))
    assert rows(profile.event_metadata, "metadata_id", "name", "display_name", "child_ids") == [
        (5, "a", "shown", [4, 9])
    ]
    assert rows(profile.event_metadata_stats, "stat", "int_value") == [("#0", 9), ("x", 2)]


@pytest.mark.parametrize("packed", [True, False])
def test_children_packed_or_not(packed: bool) -> None:
    children = [0, 1, 300, -1, 1 << 62]
    metas = [
        Metadata("a", 1, child_ids=children, packed=packed),
        Metadata("b", 2, child_ids=[5, 6], packed=packed, wire=Wire(pad=1)),
    ]
    profile = fastprof.load(xspace(plane("p", event_metadata=metas)))
    assert profile.event_metadata["child_ids"].to_pylist() == [children, [5, 6]]


def test_children_in_several_pieces() -> None:
    both = Wire(before=int_field(6, 1) + len_field(6, b"\x02\x03"), after=int_field(6, 6))
    meta = Metadata("a", 1, child_ids=[4, 5], wire=both)
    profile = fastprof.load(xspace(plane("p", event_metadata=[meta])))
    assert profile.event_metadata["child_ids"].to_pylist() == [[1, 2, 3, 4, 5, 6]]


def test_lines_of_equal_id_are_one() -> None:
    first = line("t", [event("a", 50), event("b", 10)], id=7, timestamp_ns=1)
    second = line("u", [event("c", 0), aggregated("s", 1)], id=7, timestamp_ns=0, display_name="shown")
    profile = fastprof.load(xspace(plane("p", [first, line("x", [event("d")], id=8), second])))
    assert rows(profile.lines, "line_id", "xline_id", "name", "timestamp_ns", "event_count") == [
        (0, 7, "t", 1, 4),
        (1, 8, "x", 0, 1),
    ]
    assert rows(profile.events, "line_id", "name", "start_ps") == [
        (0, "c", 0),
        (0, "b", 1010),
        (0, "a", 1050),
        (0, "s", None),
        (1, "d", 0),
    ]


def test_planes_of_equal_name_and_id_are_one() -> None:
    """As two files joined end to end give: each event keeps the names and texts of its own plane."""
    one = plane("p", [line("t", [event("a", 1, stats={"x": ref("one")}), event("b", 2)], id=1)], id=1)
    events = [event("c", 3, stats={"y": ref("two")}), event("b", 4), event(9, 5)]
    other = plane("p", [line("t", events, id=1)], id=1)
    profile = fastprof.load(xspace(one) + xspace(plane("p", id=2)) + xspace(other))
    assert rows(profile.planes, "plane_id", "xplane_id", "event_count") == [(0, 1, 5), (1, 2, 0)]
    assert rows(profile.events, "metadata_id", "name") == [(1, "a"), (2, "b"), (3, "c"), (2, "b"), (9, None)]
    assert rows(profile.event_stats, "event_id", "stat", "str_value") == [(0, "x", "one"), (2, "y", "two")]
    assert rows(profile.event_metadata, "plane_id", "metadata_id", "name") == [
        (0, 1, "a"),
        (0, 2, "b"),
        (0, 3, "c"),
    ]


START = 1_700_000_000_000_000_000


def test_lines_in_unix_time_are_rebased() -> None:
    def stamped(*stamps: int) -> list[Any]:
        return [line(f"t{at}", [event("e", 5)], timestamp_ns=stamp) for at, stamp in enumerate(stamps)]

    data = xspace(plane("p", stamped(START + 2, 7, START)), task_environment(START, START + 10))
    profile = fastprof.load(data)
    assert profile.events["start_ps"].to_pylist() == [2005, 7005, 5]
    assert profile.lines["timestamp_ns"].to_pylist() == [START + 2, 7, START]
    assert rows(profile.hosts, "start_unix_ns", "stop_unix_ns") == [(START, START + 10)]
    assert profile.import_log.num_rows > 0

    unrecorded = fastprof.load(xspace(plane("p", stamped(START + 2, 7)), plane("q", stamped(START + 1))))
    assert unrecorded.events["start_ps"].to_pylist() == [1005, 7005, 5]
    assert rows(unrecorded.hosts, "start_unix_ns", "stop_unix_ns") == [(START + 1, None)]

    neither = fastprof.load(xspace(plane("p", stamped(7))))
    assert rows(neither.hosts, "start_unix_ns", "stop_unix_ns") == [(None, None)]
    assert neither.import_log.num_rows == 0


def test_a_plane_says_last_when_profiling_started() -> None:
    built = plane("p", [line("t", [event("e", 5)], timestamp_ns=START + 1)])
    profile = fastprof.load(xspace(task_environment(START, START + 9, note="text", raw=b"1234"), built))
    assert profile.events["start_ps"].to_pylist() == [1005]
    environment = dict(profile.hosts["task_environment"][0].as_py())
    assert environment["profile_start_time"] == str(START)
    assert environment["note"] == "text"
    assert "1234" not in environment["raw"] and "4" in environment["raw"]
