"""Stats as typed columns beside the events: which value counts, and what type the column gets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from random_spaces import random_space
from slow_reader import Event, EventMetadata, Plane, Space, Stat, parse
from trace_builder import (
    Metadata,
    StatMetadata,
    Stats,
    Value,
    aggregated,
    event,
    line,
    plane,
    ref,
    several,
    stat,
    u64,
    xspace,
)

import fastprof
from fastprof.decode.decoder import EVENT_COLUMNS
from fastprof.tables import table_set

TEXT = pa.dictionary(pa.int8(), pa.string())
NOWHERE = ref(999)


def capture_of(stats: Sequence[Stats], shared: Stats = ()) -> bytes:
    """One line; event i has the i-th stats, and all have the stats of their one metadata."""
    events = [event("e", i, 1, own) for i, own in enumerate(stats)]
    return xspace(plane("p", [line("l", events)], event_metadata=[Metadata("e", 1, stats=shared)]))


def column_of(data: Any, name: str = "s") -> pa.Array:
    table = fastprof.load(data).event_table(["event_id"], [name])
    table.validate(full=True)
    assert table.column_names == ["event_id", name] and table.schema.field(name).nullable
    return table[name].combine_chunks()


def same(found: list[Any], wanted: list[Any]) -> bool:
    """NaN is NaN, -0.0 is not 0.0, and 1 is not 1.0."""
    return repr(found) == repr(wanted)


# ---- types ------------------------------------------------------------------------------------------

TYPES: dict[str, tuple[list[Value], pa.DataType, list[Any]]] = {
    "integers": ([1, 0, -(2**63), 2**63 - 1], pa.int64(), [1, 0, -(2**63), 2**63 - 1]),
    "uint64 as two's complement": ([u64(5), u64(2**63 + 1), u64(2**64 - 1)], pa.int64(), [5, -(2**63) + 1, -1]),
    "both integers": ([-3, u64(2**64 - 2)], pa.int64(), [-3, -2]),
    "doubles": ([0.5, -0.0, math.nan, math.inf], pa.float64(), [0.5, -0.0, math.nan, math.inf]),
    "texts": (["a", "größer", "a", ""], TEXT, ["a", "größer", "a", ""]),
    "refs": ([ref("a"), ref("b"), ref("a")], TEXT, ["a", "b", "a"]),
    "texts and refs": (["a", ref("a"), ref("b"), "c"], TEXT, ["a", "a", "b", "c"]),
    "bytes": ([b"", b"\xff\0", b"ok"], pa.large_binary(), [b"", b"\xff\0", b"ok"]),
    "stats without a value": ([None, None], pa.int64(), [None, None]),
    "a value here and there": ([None, "a", None], TEXT, [None, "a", None]),
    "doubles and exact integers": (
        [2.5, 2**53, -(2**53), u64(7), math.nan],
        pa.float64(),
        [2.5, 2.0**53, -(2.0**53), 7.0, math.nan],
    ),
    "doubles and an inexact integer": ([0.1, 2**53 + 1], TEXT, ["0.1", "9007199254740993"]),
    "doubles and an inexact negative integer": ([1e300, -(2**53) - 1], TEXT, ["1e+300", "-9007199254740993"]),
    "doubles and a large uint64": ([math.nan, u64(2**64 - 1)], TEXT, ["nan", "18446744073709551615"]),
    "integers and texts": ([-1, u64(2**63), "a", ref("b")], TEXT, ["-1", "9223372036854775808", "a", "b"]),
    "doubles and texts": ([-0.0, 0.0, "a", math.inf], TEXT, ["-0.0", "0.0", "a", "inf"]),
    "bytes and texts": ([b"ok", "a", b"\xff\0", "a"], TEXT, ["ok", "a", "\\xff\0", "a"]),
    "bytes and integers": ([b"", 5, b"a"], TEXT, ["", "5", "a"]),
    "all kinds": ([1, u64(2), 0.5, "a", ref("b"), b"c"], TEXT, ["1", "2", "0.5", "a", "b", "c"]),
    "equal texts of several kinds": (["1", 1, u64(1), b"1", ref("1")], TEXT, ["1"] * 5),
    "refs to nothing": ([NOWHERE, ref(2**64 - 1), ref(0)], TEXT, ["999", "18446744073709551615", "0"]),
    "refs, some of them to nothing": ([ref("a"), NOWHERE, "b"], TEXT, ["a", "999", "b"]),
    "integers and a ref to nothing": ([-7, NOWHERE], TEXT, ["-7", "999"]),
}


@pytest.mark.parametrize("case", TYPES)
def test_the_type_follows_from_the_kinds_of_value(case: str) -> None:
    """Whether the values are the events' own or their metadata's."""
    values, kind, wanted = TYPES[case]
    own = column_of(capture_of([{"s": value} for value in values]))
    assert own.type == kind and same(own.to_pylist(), wanted)
    events = [event(f"e{i}", i, 1) for i in range(len(values))]
    metadata = [Metadata(f"e{i}", stats={"s": value}) for i, value in enumerate(values)]
    shared = column_of(xspace(plane("p", [line("l", events)], event_metadata=metadata)))
    assert shared.type == kind and same(shared.to_pylist(), wanted)


def test_events_without_the_stat_are_null_and_change_no_type() -> None:
    for values, kind, wanted in TYPES.values():
        stats: list[Stats] = []
        for value in values:
            stats += [{"s": value}, {"other": 1}]
        column = column_of(capture_of(stats))
        assert column.type == kind
        assert same(column.to_pylist(), [value for pair in wanted for value in (pair, None)])


def test_the_type_is_that_of_the_selected_events() -> None:
    """Not that of all events: what is left out has no say."""
    stats: list[Stats] = [{"s": 1}, {"s": 0.5}, {"s": "a"}]
    profile = fastprof.load(xspace(plane("p", [line("l", [event(f"e{i}", i, 1, s) for i, s in enumerate(stats)])])))
    profile.read("event_stats")
    for names, kind, wanted in (("0", pa.int64(), [1]), ("[01]", pa.float64(), [1.0, 0.5]), ("2", TEXT, ["a"])):
        found = profile.select(names=names).event_table(["name"], ["s"])["s"]
        assert found.type == kind and same(found.to_pylist(), wanted)


@pytest.mark.parametrize(("texts", "width"), [(128, pa.int8()), (129, pa.int16())])
def test_a_dictionary_holds_the_texts_that_occur_with_indices_that_fit(texts: int, width: pa.DataType) -> None:
    stats: list[Stats] = [{"s": f"t{i}", "other": f"o{i}"} for i in range(texts)]
    column = column_of(capture_of(stats))
    assert column.type == pa.dictionary(width, pa.string())
    assert column.dictionary.to_pylist() == [f"t{i}" for i in range(texts)]
    mixed = column_of(capture_of([*stats[1:], {"s": 5}]))
    assert mixed.type == pa.dictionary(width, pa.string()) and len(mixed.dictionary) == texts


# ---- which value counts -----------------------------------------------------------------------------


def test_an_event_s_own_stat_beats_its_metadata_s() -> None:
    assert column_of(capture_of([{"s": 1}, {}, {"s": 0}, {"t": 5}], {"s": 9})).to_pylist() == [1, 9, 0, 9]


def test_a_stat_without_value_is_not_a_stat() -> None:
    """The next of the name counts, then the metadata's."""
    stats: list[Stats] = [{"s": None}, [stat("s", None), stat("s", 3)], [stat("s", 4), stat("s", None)]]
    assert column_of(capture_of(stats, [stat("s", None), stat("s", 9)])).to_pylist() == [9, 3, 4]


def test_the_first_of_several_counts() -> None:
    own: list[Stats] = [[stat("s", 1), stat("t", 7), stat("s", "later")], []]
    column = column_of(capture_of(own, [stat("s", 5), stat("s", b"later"), stat("s", 6)]))
    assert column.type == pa.int64() and column.to_pylist() == [1, 5]


def test_the_last_value_in_one_stat_counts() -> None:
    assert column_of(capture_of([{"s": several((1, "x", 2.5))}, {"s": several(("x", 7))}])).to_pylist() == [2.5, 7.0]


def test_own_and_shared_values_share_a_type() -> None:
    for own, shared, wanted in (
        (2.5, 3, [2.5, 3.0]),
        ("a", ref("b"), ["a", "b"]),
        (b"a", b"\0", [b"a", b"\0"]),
        (b"a", "b", ["a", "b"]),
        ("a", b"\xff", ["a", "\\xff"]),
        (u64(2**63), NOWHERE, ["9223372036854775808", "999"]),
    ):
        assert same(column_of(capture_of([{"s": own}, {}], {"s": shared})).to_pylist(), wanted)


def test_two_stats_of_one_name_are_one_column() -> None:
    """A plane may declare a name twice; the first stat that an event has counts."""
    texts = [StatMetadata("s", 5), StatMetadata("s", 6)]
    events = [event("e", 0, 1, {5: 1}), event("e", 1, 1, {6: 2}), event("e", 2, 1, {6: 3, 5: 4})]
    assert column_of(xspace(plane("p", [line("l", events)], stat_metadata=texts))).to_pylist() == [1, 2, 3]


def test_events_without_metadata_have_only_their_own_stats() -> None:
    events = [event(77, 0, 1, {"s": 1}), event(77, 1, 1), event("e", 2, 1), aggregated("e", 3), aggregated(77, 3)]
    data = xspace(plane("p", [line("l", events)], event_metadata=[Metadata("e", 1, stats={"s": 9})]))
    assert column_of(data).to_pylist() == [1, None, 9, 9, None]


def test_stats_stay_with_their_events_when_a_line_is_sorted() -> None:
    own = [event("e", 30 - i, 1, {"s": f"t{i}"} if i % 3 else {}) for i in range(30)]
    data = xspace(plane("p", [line("l", own)], event_metadata=[Metadata("e", 1, stats={"s": "m"})]))
    assert column_of(data).to_pylist() == [f"t{i}" if i % 3 else "m" for i in reversed(range(30))]


# ---- names and ids ----------------------------------------------------------------------------------


def host_of(number: int, id: int, other: int) -> bytes:
    """A host whose planes give the name s different ids; another stat has the id that s has elsewhere."""
    return xspace(
        *[
            plane(
                name,
                [line("l", [event("e", 0, 1, {"s": f"{name}{number}", "t": "no"}), event("e", 1, 1)])],
                stat_ids=ids,
                event_metadata=[Metadata("e", 1, stats={"t": "never", "s": f"meta {name}{number}"})],
            )
            for name, ids in (("a", {"s": id, "t": other}), ("b", {"s": other, "t": id}))
        ]
    )


def test_a_name_means_the_same_on_every_plane_and_host() -> None:
    column = column_of([host_of(0, 3, 9), host_of(1, 9, 3), host_of(2, -1, 2**40)])
    assert column.to_pylist() == [text for i in range(3) for p in "ab" for text in (f"{p}{i}", f"meta {p}{i}")]


def test_bytes_of_metadata_are_those_of_their_host() -> None:
    hosts = [capture_of([{}, {"s": b"own"}], {"s": b"x%d" % i}) for i in range(3)]
    assert column_of(hosts).to_pylist() == [b"x0", b"own", b"x1", b"own", b"x2", b"own"]


def test_hosts_of_different_kinds_share_one_column() -> None:
    hosts = [
        capture_of([{"s": 1}, {}], {"s": b"x"}),
        capture_of([{"s": 0.5}, {}]),
        capture_of([{"s": "a"}, {}], {"s": 2}),
    ]
    assert column_of(hosts).to_pylist() == ["1", "x", "0.5", None, "a", "2"]


def test_metadata_of_joined_planes_keep_their_own_stats() -> None:
    """Planes of equal name and id are one; ids that clash in it mean what they mean in their own part."""
    parts = [
        plane("p", [line("l", [event(1, i, 1)], id=i)], event_metadata=[Metadata(f"e{i}", 1, stats={"s": f"m{i}"})])
        for i in range(3)
    ]
    assert column_of(xspace(*parts)).to_pylist() == ["m0", "m1", "m2"]


def test_a_stat_without_a_name_is_called_by_its_id() -> None:
    planes = [plane(name, [line("l", [event("e", 0, 1, {77: i}), event("e", 1, 1)])]) for i, name in enumerate("ab")]
    assert column_of(xspace(*planes), "#77").to_pylist() == [0, None, 1, None]
    declared = plane("c", [line("l", [event("e", 0, 1, {"#77": 2, 77: 3})])])
    assert column_of(xspace(*planes, declared), "#77").to_pylist() == [0, None, 1, None, 2]
    assert column_of(xspace(plane("p", [line("l", [event("e", 0, 1, {-5: "x"})])])), "#-5").to_pylist() == ["x"]
    assert column_of(capture_of([{}], {77: "m"}), "#77").to_pylist() == ["m"]


def test_a_stat_that_no_event_has_is_null_all_over() -> None:
    """Other hosts may have it, or it is declared and not used, or has no name."""
    data = [capture_of([{"s": "text", "r": ref("a text of a ref")}, {}]), capture_of([{"other": 1}])]
    profile = fastprof.load(data).select(hosts="unknown")
    for name in ("other", "#12", "a text of a ref"):
        assert profile.event_table(["event_id"], [name])[name].to_pylist() == [None, None], name
        assert [batch[name].to_pylist() for batch in profile.scan([], [name])] == [[None, None]]


def test_a_stat_that_no_capture_declares_is_an_error() -> None:
    profile = fastprof.load([capture_of([{"hlo_op": "text"}]), capture_of([{"other": 1}])])
    for name, likely in (("hlo_opp", "; did you mean 'hlo_op'?"), ("HLO-op", "; did you mean 'hlo_op'?"), ("zzz", "")):
        message = f"no capture has a stat {name!r}; the table stat_metadata lists all{likely}"
        for ask in (
            lambda name=name: profile.event_table(stats=["other", name]),
            lambda name=name: profile.scan(stats=[name]),
            lambda name=name: profile.select(names="no such event").event_table([], [name]),
            lambda name=name: fastprof.scan(capture_of([{"hlo_op": 1}]), stats=[name]),
        ):
            with pytest.raises(fastprof.UsageError) as caught:
                ask()
            assert str(caught.value) == message
    with pytest.raises(fastprof.UsageError, match="no capture has a stat ''"):
        profile.event_table(stats=[""])


def test_a_suggestion_among_many_stats_takes_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not all names are compared: a capture may declare a hundred thousand."""
    compared = []
    monkeypatch.setattr(table_set, "suggest_name", lambda _, known: compared.append(list(known)) or "")
    names = [StatMetadata(f"stat {number}" + "x" * (number % 2 * 200)) for number in range(5_000)]
    profile = fastprof.load(xspace(plane("p", [line("l", [event("e")])], stat_metadata=names)))
    with pytest.raises(fastprof.UsageError):
        profile.event_table(stats=["stat"])
    assert [len(names) for names in compared] == [1_000]


# ---- columns ----------------------------------------------------------------------------------------


def test_columns_come_as_they_are_asked_for() -> None:
    profile = fastprof.load(capture_of([{"a": 1, "b": "x"}, {"b": "y"}]))
    assert profile.event_table().equals(profile.events)
    assert profile.event_table(stats=["b", "a"]).column_names == [*EVENT_COLUMNS, "b", "a"]
    some = profile.event_table(("duration_ps", "name"), ("b", "a"))
    assert some.to_pydict() == {"duration_ps": [1, 1], "name": ["e", "e"], "b": ["x", "y"], "a": [1, None]}
    assert profile.event_table([], ["a"]).to_pydict() == {"a": [1, None]}


def test_each_column_is_the_same_whatever_else_is_decoded() -> None:
    for seed in range(0, 30, 3):
        profile = fastprof.load([random_space(seed, well_written=True), capture_of([{"bytes": 1}])])
        declared = profile.stat_metadata["name"].to_pylist()
        stats = [name for name in ("bytes", "_a", "hlo_op") if name in declared]
        whole = profile.event_table(stats=stats)
        for name in EVENT_COLUMNS:
            assert profile.event_table([name]).equals(whole.select([name])), (seed, name)
        for name in stats:
            alone = profile.event_table([], [name])[name]
            assert alone.type == whole[name].type and same(alone.to_pylist(), whole[name].to_pylist()), (seed, name)


def test_columns_that_make_no_sense() -> None:
    profile = fastprof.load(capture_of([{"s": 1}]))
    for columns, stats, message in (
        (["nam"], (), "events have no column 'nam'; there are: event_id, host"),
        (["name", "name"], (), "requested twice"),
        (None, ["name"], "requested twice: name"),
        (["name"], ["s", "t", "s"], "requested twice: s"),
        (None, "s", "stats takes a list of names"),
    ):
        with pytest.raises(fastprof.UsageError, match=message):
            profile.event_table(columns, stats)


def test_a_stat_says_what_it_is() -> None:
    field = fastprof.load(capture_of([{"s": 1}])).event_table([], ["s"]).schema.field("s")
    assert field.metadata == {b"description": b"stat s: the event's own, else its metadata's"}


# ---- captures drawn by lot --------------------------------------------------------------------------


def lookup(part: Plane, own: Event, name: str) -> Stat | None:
    """The stat of this name that counts, as the file has it."""
    names = {id: meta.name for id, meta in part.stat_metadata.items()}
    stats = own.stats + part.event_metadata.get(own.metadata_id, EventMetadata()).stats
    return next(
        (s for s in stats if s.kind != "none" and names.get(s.metadata_id, f"#{s.metadata_id}") == name),
        None,
    )


def slow_column(found: list[tuple[str, Any]]) -> tuple[str, list[Any]]:
    """Kind of column and values, from (kind, value) of each event; ("", None) where it has no such stat."""
    kinds = {kind for kind, _ in found if kind}
    values = [value for _, value in found]
    if kinds <= {"int64", "uint64"}:
        return "int64", [value if value is None or value < 2**63 else value - 2**64 for value in values]
    if kinds == {"double"}:
        return "double", values
    if kinds <= {"int64", "uint64", "double"} and all(k == "double" or abs(v or 0) <= 2**53 for k, v in found):
        return "double", [None if value is None else float(value) for value in values]
    if kinds == {"bytes"}:
        return "large_binary", values
    return "string", [
        value.decode("utf-8", "backslashreplace") if kind == "bytes" else None if value is None else str(value)
        for kind, value in found
    ]


def slow_values(space: Space, name: str) -> list[tuple[str, Any]]:
    """Kind and value of each event in the order of the file; a ref has its text, else its number."""
    found: list[tuple[str, Any]] = []
    for part in space.planes:
        texts = {id % 2**64: meta.name for id, meta in part.stat_metadata.items()}
        for own in [one for row in part.lines for one in row.events]:
            one = lookup(part, own, name)
            value = None if one is None else texts.get(one.value, one.value) if one.kind == "ref" else one.value
            found.append((one.kind if one else "", value))
    return found


def in_order(events: list[Event]) -> bool:
    """Whether the events stand in the file as they do in the table."""
    keys = [(one.num_occurrences is not None, one.offset_ps, -one.duration_ps) for one in events]
    return keys == sorted(keys)


def test_mixtures_drawn_by_lot() -> None:
    met: dict[str, int] = {}
    for seed in range(0, 900, 3):
        data = random_space(seed, well_written=True)
        space = parse(data)
        lines = [(part.name, part.id, line.id) for part in space.planes for line in part.lines]
        unsorted = any(not in_order(line.events) for part in space.planes for line in part.lines)
        if len(set(lines)) < len(lines) or not lines or unsorted:
            continue
        names = {name for part in space.planes for name in (m.name for m in part.stat_metadata.values())}
        table = fastprof.load(data).event_table(["event_id"], sorted(names))
        for name in names:
            kind, wanted = slow_column(slow_values(space, name))
            column = table[name].combine_chunks()
            value_type = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
            assert (str(value_type), repr(column.to_pylist())) == (kind, repr(wanted)), (seed, name)
            met[kind] = met.get(kind, 0) + 1
    assert min(met.get(kind, 0) for kind in ("int64", "double", "large_binary", "string")) > 5, met


def test_names_of_stats_are_what_can_be_asked_for() -> None:
    """Those of events and of their metadata, of the lines that are selected."""
    data = xspace(
        plane(
            "p",
            [line("l", [event("e", 0, 1, {"of events": ref("text")})])],
            event_metadata=[Metadata("e", 1, stats={"of metadata": 1})],
        ),
        plane("q", [line("m", [event("f", 0, 1, [stat(7, 1)])])]),
    )
    profile = fastprof.load(data)
    assert profile.stat_names() == ["#7", "of events", "of metadata"]
    assert profile.select(planes="p").stat_names() == ["of events", "of metadata"]
