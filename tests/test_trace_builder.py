"""The builder, the slow reader and the protobuf runtime agree on what bytes say; fastprof is not asked."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import xspace_descriptor
from gate import few, typical_captures
from google.protobuf.message import DecodeError
from random_spaces import random_space
from slow_reader import Event, Space, Stat, WireError, parse
from slow_tables import Source, tables
from trace_builder import (
    MAPS_FIRST,
    REVERSED,
    UNKNOWN_FIELDS,
    Entry,
    Metadata,
    Plane,
    StatMetadata,
    Wire,
    aggregated,
    event,
    int_field,
    len_field,
    line,
    plane,
    ref,
    several,
    stat,
    u64,
    varint,
    xspace,
)


def plain_form(message: Any) -> Any:
    """What two readers must agree on: NaN equals NaN, metadata is in no order, empty bytes are no bytes."""
    if dataclasses.is_dataclass(message):
        return [plain_form(getattr(message, item.name)) for item in dataclasses.fields(message)]
    if isinstance(message, list):
        return [plain_form(item) for item in message]
    if isinstance(message, dict):
        return {key: plain_form(message[key]) for key in sorted(message)}
    return repr(message or None) if isinstance(message, bytes) else repr(message)


def agreed(data: bytes) -> Space:
    """What the bytes say, when both readers say the same."""
    space, other = parse(data), xspace_descriptor.read(data)
    assert space == other or plain_form(space) == plain_form(other)
    return space


def test_the_common_case() -> None:
    events = [event("a", 0, 10, stats={"x": 1, "r": ref("text")}), event("a", 20)]
    space = agreed(xspace(plane("/host:CPU", lines=[line("t", events)]), hostnames=["vm"]))
    [host] = space.planes
    assert (host.name, host.lines[0].name, host.lines[0].id, space.hostnames) == ("/host:CPU", "t", 1, ["vm"])
    assert {id: meta.name for id, meta in host.event_metadata.items()} == {1: "a"}
    assert {id: meta.name for id, meta in host.stat_metadata.items()} == {1: "x", 2: "r", 3: "text"}
    assert host.lines[0].events == [
        Event(1, 0, None, 10, [Stat(1, "int64", 1), Stat(2, "ref", 3)]),
        Event(1, 20, None, 0, []),
    ]


def one_event(**wire: Any) -> bytes:
    stats = [stat("x", 1, Wire(**wire)), stat("y", several((1, "two", b"three", 4.0, u64(5), ref("six"))))]
    inner = event("a", 7, 10, stats, wire=Wire(**wire))
    return xspace(
        plane(
            "p",
            [line("t", [inner, aggregated("b", 3, 9)], timestamp_ns=-5, display_name="d", wire=Wire(**wire))],
            id=3,
            stats={"n": None, "negative": -1, "d": -0.0},
            event_metadata=[Metadata("a", 0, "A", b"raw", {"k": 1}, (1, -2), wire=Wire(**wire))],
            stat_metadata=[StatMetadata("x", 9, "what x is", wire=Wire(**wire))],
            wire=Wire(**wire),
        ),
        errors=["e"],
        warnings=["w"],
        wire=Wire(**wire),
    )


FREEDOMS: dict[str, dict[str, Any]] = {
    "metadata before lines": {"order": MAPS_FIRST.order},
    "all fields reversed": {"order": REVERSED.order},
    "any order": {"shuffle": 5},
    "zeros written": {"explicit": True},
    "varints of ten bytes": {"pad": 9},
    "unknown fields first": {"before": UNKNOWN_FIELDS},
    "unknown fields last": {"after": UNKNOWN_FIELDS},
    "an id written twice": {"before": int_field(1, -77)},
}


@pytest.mark.parametrize("freedom", FREEDOMS)
def test_freedoms_of_the_wire_change_bytes_and_not_what_they_say(freedom: str) -> None:
    plain, free = one_event(), one_event(**FREEDOMS[freedom])
    assert plain != free
    if freedom in ("an id written twice", "any order"):  # the last one counts, which these change
        agreed(free)
    else:
        assert plain_form(agreed(free)) == plain_form(agreed(plain))


def metadata_of(*metadata: Metadata, **rest: Any) -> Plane:
    return plane("p", [line("t", [event(1), event(0)])], event_metadata=metadata, **rest)


CHILDREN = (0, 3, -1, 1 << 40)
ENTRIES: dict[str, tuple[Plane, dict[int, str]]] = {
    "key missing": (metadata_of(Metadata("a", 5, entry=Entry(omit_key=True))), {0: "a"}),
    "value missing": (metadata_of(Metadata("a", 5, entry=Entry(omit_value=True))), {5: ""}),
    "value first": (metadata_of(Metadata("a", 5, entry=Entry(wire=REVERSED))), {5: "a"}),
    "value twice": (metadata_of(Metadata("a", 5, entry=Entry(first=len_field(2, "b")))), {5: "a"}),
    "key twice": (metadata_of(Metadata("a", 5, entry=Entry(wire=Wire(before=int_field(1, 8))))), {5: "a"}),
    "key is not the id": (metadata_of(Metadata("a", 5, entry=Entry(key=6))), {6: "a"}),
    "no id within": (metadata_of(Metadata("a", 5, inner_id=False)), {5: "a"}),
    "duplicate key": (metadata_of(Metadata("a", 5), Metadata("b", 6), Metadata("c", 5)), {6: "b", 5: "c"}),
    "packed children": (metadata_of(Metadata("a", 5, child_ids=CHILDREN)), {5: "a"}),
    "children one by one": (metadata_of(Metadata("a", 5, child_ids=CHILDREN, packed=False)), {5: "a"}),
}


@pytest.mark.parametrize("case", ENTRIES)
def test_map_entries(case: str) -> None:
    built, names = ENTRIES[case]
    [read] = agreed(xspace(built)).planes
    assert [(id, meta.name) for id, meta in read.event_metadata.items()] == list(names.items())
    if "children" in case:
        assert read.event_metadata[5].child_ids == list(CHILDREN)


def test_a_value_that_comes_twice_is_merged() -> None:
    first = len_field(2, "b") + len_field(4, "shown") + int_field(6, 4) + len_field(5, int_field(1, 1))
    meta = Metadata("a", 5, child_ids=[9], stats={"x": 2}, entry=Entry(first=first), inner_id=False)
    [read] = agreed(xspace(metadata_of(meta))).planes
    merged = read.event_metadata[5]
    assert (merged.name, merged.display_name, merged.child_ids) == ("a", "shown", [4, 9])
    assert merged.stats == [Stat(1), Stat(1, "int64", 2)]


def test_the_last_member_of_a_oneof_counts() -> None:
    offset_last = event("a", 5, 1, wire=Wire(before=int_field(5, 3)))
    both = event("a", 5, 1, num_occurrences=2)
    neither = event("a", None, 1)
    [read] = agreed(xspace(plane("p", [line("t", [offset_last, both, neither])]))).planes
    found = [(one.offset_ps, one.num_occurrences) for one in read.lines[0].events]
    assert found == [(5, None), (0, 2), (0, None)]


def test_varints() -> None:
    assert varint(-1) == b"\xff" * 9 + b"\x01"
    assert varint(1, pad=2) == b"\x81\x80\x00"
    assert len(varint(1, pad=50)) == 10
    assert varint(300) == b"\xac\x02"


def test_same_description_same_bytes() -> None:
    assert one_event(shuffle=3) == one_event(shuffle=3)
    assert random_space(11) == random_space(11)
    assert random_space(11) != random_space(12)


@pytest.mark.parametrize("block", few(range(8), 3))
def test_random_spaces_read_the_same(block: int) -> None:
    for seed in range(block * 40, block * 40 + 40):
        agreed(random_space(seed, well_written=seed % 3 == 0))


def test_every_cut_and_flip_reads_the_same_or_fails_in_both() -> None:
    data = one_event(after=UNKNOWN_FIELDS)
    places = [(at, bit) for at in range(0, len(data), 3) for bit in range(8)]
    flipped = [data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :] for at, bit in places]
    agreements = 0
    for bad in [data[:size] for size in range(len(data))] + flipped:
        try:
            expected: Any = plain_form(xspace_descriptor.read(bad))
        except DecodeError:
            expected = None
        try:
            found: Any = plain_form(parse(bad))
        except (WireError, UnicodeDecodeError):
            found = None
        agreements += found == expected
    # The runtime drops map entries with unknown fields, and refuses tags and lengths of too many bytes.
    assert agreements > 0.97 * (len(data) + len(flipped))


@typical_captures
def test_real_captures_read_the_same(capture: Path) -> None:
    data = capture.read_bytes()
    space = agreed(data)
    assert sum(len(line.events) for plane in space.planes for line in plane.lines) > 0


@typical_captures
def test_real_captures_read_the_same_with_tensorflow(capture: Path) -> None:
    data = capture.read_bytes()
    space = xspace_descriptor.read_tensorflow(data)
    if space is None:
        pytest.skip("tensorflow is not installed: its xplane_pb2 is not asked")
    assert space == parse(data)


# ---- the rules of the oracle's tables, by hand ----------------------------------------------------


def rows(data: bytes) -> dict[str, dict[str, list[Any]]]:
    return tables([Source("h", "h.xplane.pb", len(data), parse(data))])


def test_nesting_by_hand() -> None:
    events = [
        event("root", 0, 100),
        event("left", 10, 30),
        event("leaf", 10, 30),
        event("async", 15, 500, {"_a": 1}),
        event("crossing", 35, 30),
        event("right", 60, 10),
        event("late", 100, 0),
        event("after", 101, 5),
        aggregated("sum", 3, 50),
    ]
    nesting = rows(xspace(plane("p", [line("t", events)])))["nesting"]
    assert nesting["depth"] == [0, 1, 2, 0, 1, 1, 1, 0, None]
    assert nesting["parent_id"] == [None, 0, 1, None, 0, 0, 0, None, None]
    assert nesting["self_time_ps"] == [100 - 60, 0, 30, 500, 30, 10, 0, 5, None]


def test_merging_by_hand() -> None:
    first = plane("p", [line("t", [event("a"), event("b", stats={"x": ref("one")})], id=7)], id=1)
    second = plane("p", [line("u", [event("c"), event("b")], id=7), line("v", id=8)], id=1)
    other = plane("p", [line("t", id=7)], id=2)
    listed = rows(xspace(first, other, second))
    assert listed["planes"]["xplane_id"] == [1, 2]
    assert listed["planes"]["line_count"] == [2, 1]
    assert listed["lines"]["name"] == ["t", "v", "t"]
    assert listed["events"]["name"] == ["a", "b", "c", "b"]
    assert listed["events"]["metadata_id"] == [1, 2, 3, 2]
    assert listed["event_metadata"]["name"] == ["a", "b", "c"]
