"""The columns that analyses compute on are those of the tables: events, planes, lines, metadata and their stats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gate import few, typical_captures
from random_spaces import random_space
from slow_reader import Space, parse
from trace_builder import Metadata, Stat, aggregated, event, line, plane, ref, stat, task_environment, u64, xspace

import fastprof
from fastprof._native import records
from fastprof.errors import ChangedError, FastprofError
from fastprof.schema.capture_tables import KINDS
from fastprof.tables.host_events import HostEvents, join_stat
from fastprof.tables.host_reader import read_host


def read(profile: fastprof.Profile, number: int = 0, stats: tuple[str, ...] = (), metadata: tuple[str, ...] = (),
         planes: tuple[str, ...] = ()) -> HostEvents:  # fmt: skip
    return read_host(profile.table_set, number, planes, stats, metadata)


def load(*planes: Any, **options: Any) -> fastprof.Profile:
    return fastprof.load(xspace(*planes), **options)


# ---- against the tables ----------------------------------------------------------------------------


def chosen_events(profile: fastprof.Profile, host: str) -> list[tuple[Any, ...]]:
    columns = ("plane_id", "line_id", "name", "start_ps", "duration_ps", "metadata_id", "host")
    rows = zip(*(profile.events[name].to_pylist() for name in columns), strict=True)
    return [one[:-1] for one in rows if one[-1] == host and one[3] is not None]


def events_found(events: HostEvents) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for one in events.lines:
        assert one.first == len(found) and one in one.plane.lines
        for row in range(one.first, one.last):
            meta = int(events.meta[row])
            times = (int(events.start_ps[row]), int(events.duration_ps[row]))
            id = int(events.capture.event_metadata_ids()[meta]) if meta >= 0 else None
            found.append((one.plane.plane_id, one.line_id, events.names[meta], *times, id))
    return found


def check_events(profile: fastprof.Profile, number: int, host: str) -> None:
    events, wanted = read(profile, number), chosen_events(profile, host)
    found = events_found(events)
    assert len(events) == len(found) == len(wanted)
    for row, (one, other) in enumerate(zip(found, wanted, strict=True)):
        assert one[:5] == (*other[:2], other[2] or "", *other[3:5]), row
        assert one[5] is None or one[5] == other[5], row
    assert (events.host, events.number) == (host, number)
    assert (
        events.names[-1] == events.display_names[-1] == ""
        and len(events.names) == len(events.capture.event_metadata_ids()) + 1
    )


def check_planes(profile: fastprof.Profile, number: int, host: str) -> None:
    """Planes and lines are all there, those without events too."""
    events = read(profile, number)
    planes = [one for one in profile.planes.to_pylist() if one["host"] == host]
    assert [(one.plane_id, one.name, one.xplane_id) for one in events.planes] == [
        (one["plane_id"], one["name"], one["xplane_id"]) for one in planes
    ]
    for place, (found, one) in enumerate(zip(events.planes, planes, strict=True)):
        kind = None if one["device_type"] == "CPU" and one["name"] != "/host:CPU" else one["device_type"]
        assert (found.number, found.kind, found.ordinal) == (place, kind, one["device_ordinal"])
    ids = {one.plane_id for one in events.planes}
    lines = [one for one in profile.lines.to_pylist() if one["plane_id"] in ids]
    assert [(one.line_id, one.plane.plane_id, one.xline_id) for one in events.lines] == [
        (one["line_id"], one["plane_id"], one["xline_id"]) for one in lines
    ]
    assert [one.name for one in events.lines] == [one["name"] or one["display_name"] or "" for one in lines]
    assert [one.number for one in events.lines] == list(range(len(lines)))
    for found in events.planes:
        rows = [row for one in found.lines for row in range(one.first, one.last)]
        assert rows == list(range(found.first, found.last)) if rows else found.first == found.last


def value_of(one: dict[str, Any]) -> Any:
    value = next(
        (one[k] for k in ("int_value", "double_value", "str_value", "bytes_value") if one[k] is not None), None
    )
    return value % (1 << 64) if one["kind"] == "uint64" else value


def same(found: Any, wanted: Any) -> bool:
    return repr(found) == repr(wanted)  # NaN is NaN, 1 is not 1.0


def check_stats_of_planes(profile: fastprof.Profile, number: int) -> None:
    wanted: dict[int, dict[str, Any]] = {}
    for one in profile.plane_stats.to_pylist():
        wanted.setdefault(one["plane_id"], {}).setdefault(one["stat"], value_of(one))
    for found in read(profile, number).planes:
        assert same(found.stats, wanted.get(found.plane_id, {})), found.name


def check_stats_of_metadata(profile: fastprof.Profile, number: int) -> None:
    names = tuple(dict.fromkeys(profile.event_metadata_stats["stat"].to_pylist()))
    events = read(profile, number, metadata=names)
    plane_ids = [one.plane_id for one in events.planes]
    by_id: dict[tuple[int, int], int] = {}  # where planes are merged, the first that has an id is the table's
    for row, (number, id) in enumerate(
        zip(events.meta_plane.tolist(), events.capture.event_metadata_ids().tolist(), strict=True)
    ):
        by_id.setdefault((plane_ids[number], id), row)
    stats: dict[tuple[str, int], dict[str, Any]] = {}
    for one in profile.event_metadata_stats.to_pylist():
        row = by_id.get((one["plane_id"], one["metadata_id"]))
        if row is not None and one["kind"] != "none":
            stats.setdefault((one["stat"], row), one)
    for name in names:
        stat, raw = events.meta_stat(name), events.meta_bytes(name, range(len(events.names)))
        wanted = {row: one for (other, row), one in stats.items() if other == name}
        columns = (stat.rows.tolist(), stat.kind.tolist(), stat.value.tolist())
        found = {row: (kind, value) for row, kind, value in zip(*columns, strict=True) if row in by_id.values()}
        assert sorted(found) == sorted(wanted) and columns[0] == sorted(set(columns[0])), name
        for row, (kind, value) in found.items():
            one = wanted[row]
            if one["kind"] == "bytes":
                assert bytes(raw[row]) == one["bytes_value"]
            elif one["kind"] == "ref" and one["str_value"] is None:
                assert kind == records.NONE
            elif one["kind"] in ("str", "ref"):
                assert events.text(value) == one["str_value"]
            elif one["kind"] == "double":
                assert same(float(np.int64(value).view(np.float64)), one["double_value"])
            else:
                assert (KINDS[kind], value) == (one["kind"], one["int_value"])
        assert [row for row in raw if row in by_id.values()] == [row for row in found if found[row][0] == records.BYTES]


def check(profile: fastprof.Profile) -> None:
    for number, host in enumerate(profile.hosts["host"].to_pylist()):
        check_events(profile, number, host)
        check_planes(profile, number, host)
        check_stats_of_planes(profile, number)
        check_stats_of_metadata(profile, number)


@typical_captures
def test_real_captures(capture: Path) -> None:
    check(fastprof.load(capture))


@pytest.mark.parametrize("block", few(range(5), 2))
def test_random_captures(block: int) -> None:
    for seed in range(block * 30, block * 30 + 30):
        data = random_space(seed, well_written=seed % 3 == 0)
        if parse(data) != Space():
            check(fastprof.load(data, threads=1 + seed % 4))


# ---- one by one ------------------------------------------------------------------------------------


def test_columns_of_a_host() -> None:
    stats = {"process_id": u64((1 << 64) - 1), "name": ref("shared"), "share": 0.5}
    threads = [line("main", [event("outer", 0, 9), event("inner", 2, 3)], id=7, timestamp_ns=1), line("idle", id=8)]
    gpu = plane("/device:GPU:3", [line("stream", [event(99, 4, 1), aggregated("sum", 2, 5)])], id=5)
    events = read(load(plane("/host:CPU", threads, id=2, stats=stats), gpu))
    assert [(one.name, one.kind, one.ordinal, one.xplane_id, one.first, one.last) for one in events.planes] == [
        ("/host:CPU", "CPU", None, 2, 0, 2),
        ("/device:GPU:3", "GPU", 3, 5, 2, 3),
    ]
    assert [(one.name, one.xline_id, one.first, one.last) for one in events.lines] == [
        ("main", 7, 0, 2), ("idle", 8, 2, 2), ("stream", 1, 2, 3),
    ]  # fmt: skip
    assert events.planes[0].stats == {"process_id": (1 << 64) - 1, "name": "shared", "share": 0.5}
    assert events.start_ps.tolist() == [1000, 1002, 4] and events.duration_ps.tolist() == [9, 3, 1]
    assert [events.names[meta] for meta in events.meta.tolist()] == ["outer", "inner", ""]
    assert events.meta[2] == -1  # nobody declares metadata 99
    assert events.plane_named("/device:GPU:3") is events.planes_of("GPU")[0] and events.plane_named("GPU") is None


def test_where_the_times_of_a_line_count_from() -> None:
    """Of a line in several pieces the first; lines in Unix time count from the host's start."""
    pieces = [line("a", [event("e", 5, 1)], id=7, timestamp_ns=3), line("", [event("e", 1, 1)], id=7, timestamp_ns=2)]
    start = 1_700_000_000_000_000_000
    unix = line("b", [event("e", 5, 1)], id=8, timestamp_ns=start + 9)
    host = read(load(plane("/host:CPU", [*pieces, unix]), task_environment(start, start + 100)))
    assert [(line.name, line.base_ps) for line in host.lines] == [("a", 3_000), ("b", 9_000)]
    assert host.start_ps.tolist() == [2_001, 3_005, 9_005]


def test_only_the_plane_of_threads_is_the_host() -> None:
    names = ("/host:CPU", "/host:CPU:1", "/host:CUPTI", "/device:TPU:0", "/device:TPU:0 SparseCore 1", "/device:TPU:x")
    events = read(load(*[plane(name, [line("l")]) for name in names]))
    assert [one.kind for one in events.planes] == ["CPU", None, None, "TPU", "SPARSECORE", None]


def test_integers_beside_every_row_and_numbers() -> None:
    values = [5, u64((1 << 64) - 1), 2.5, "text", None]
    profile = load(plane("/host:CPU", [line("l", [event("e", i, 1, {"x": value}) for i, value in enumerate(values)])]))
    events = read(profile, stats=("x", "y"))
    assert events.dense("x", -7).tolist() == [5, -1, -7, -7, -7] and events.dense("y").tolist() == [0] * 5
    assert events.stat("x").numbers.tolist()[:3] == [5.0, float((1 << 64) - 1), 2.5]
    assert np.isnan(events.stat("x").numbers[3])


@pytest.mark.parametrize("spread", [1, 3, 1000, 2**55])
def test_values_beside_rows_that_lie_close_together_and_far_apart(spread: int) -> None:
    rng = np.random.default_rng(spread)
    for at in (-1, 0, 2**63 - 1 - 40 * spread):
        rows = at + spread * rng.integers(0, 40, 60)
        stat_rows = np.sort(at + spread * rng.integers(0, 41, 30))
        values = rng.integers(1, 100, 30)
        first = dict(zip(stat_rows.tolist()[::-1], values.tolist()[::-1], strict=True))
        has, value = join_stat(rows, stat_rows, values)
        assert has.tolist() == [row in first for row in rows.tolist()]
        assert value.tolist() == [first.get(row, 0) for row in rows.tolist()]


def test_a_stat_that_was_not_asked_for_is_an_error() -> None:
    events = read(load(plane("/host:CPU", [line("l", [event("e", 0, 1, {"x": 1})])])), stats=("x",), metadata=("m",))
    for ask in (lambda: events.stat("y"), lambda: events.ints("y"), lambda: events.meta_stat("x"),
                lambda: events.meta_bytes("x", [0])):  # fmt: skip
        with pytest.raises(KeyError):
            ask()
    assert len(events.meta_stat("m")) == 0 and events.meta_bytes("m", [0]) == {}


def test_a_star_represents_all_that_begin_so() -> None:
    stats = {"/batching/a": 1, "/batching/b{model=X}": 2, "batching": 3, "/batching/": 4}
    profile = load(plane("/host:CPU", [line("l", [event("e", 0, 1, stats)])]))
    events = read(profile, stats=("/batching/b{model=X}", "/batching/*", "nothing*"))
    assert sorted(events.stats) == ["/batching/", "/batching/a", "/batching/b{model=X}"]
    assert [events.ints(name)[1].tolist() for name in sorted(events.stats)] == [[4], [1], [2]]
    assert read(profile, stats=("nothing*",)).stats == {}


def test_bytes_of_metadata_are_views_of_the_file_and_the_first_of_a_name_counts() -> None:
    twice = [Stat("proto", None), stat("proto", b"first"), stat("proto", b"second"), stat("flops", u64(7))]
    metadata = [Metadata("kernel", 3, "shown", stats=twice), Metadata("other", 4, stats={"proto": 1})]
    events = read(load(plane("/device:GPU:0", [line("l")], event_metadata=metadata)), metadata=("proto", "flops"))
    assert {row: bytes(raw) for row, raw in events.meta_bytes("proto", [0, 1]).items()} == {0: b"first"}
    assert events.meta_stat("proto").kind.tolist() == [records.BYTES, records.INT64]
    assert events.meta_stat("flops").rows.tolist() == [0] and events.meta_stat("flops").value.tolist() == [7]
    assert events.names == ["kernel", "other", ""] and events.display_names == ["shown", "", ""]
    assert events.capture.event_metadata_ids().tolist() == [3, 4] and events.meta_plane.tolist() == [0, 0]


def test_metadata_of_planes_that_were_not_asked_for_is_of_no_plane() -> None:
    profile = load(plane("a", [line("l", [event("e")])]), plane("b", [line("l", [event("f"), event("g")])]))
    events = read(profile, planes=("b",))
    assert events.meta_plane.tolist() == [-1, 0, 0] and [events.names[m] for m in events.meta.tolist()] == ["f", "g"]
    assert [(one.number, one.plane_id) for one in events.planes] == [(0, 1)]


def test_a_subset_keeps_lines_and_stats_in_their_places() -> None:
    lines = [
        line("a", [event("e", i, 1, {"x": i, "s": f"t{i}"}) for i in range(3)]),
        line("b", [event("f", 0, 1, {"x": 9})]),
    ]
    whole = read(load(plane("/host:CPU", lines), plane("/device:GPU:0", [line("c", [event("g")])])), stats=("x", "s"))
    some = whole.subset(np.array([False, True, True, False, True]))
    assert [(one.name, one.first, one.last) for one in some.lines] == [("a", 0, 2), ("b", 2, 2), ("c", 2, 3)]
    assert [(one.first, one.last, [line.name for line in one.lines]) for one in some.planes] == [
        (0, 2, ["a", "b"]),
        (2, 3, ["c"]),
    ]
    assert all(one.plane is some.planes[one.plane.number] for one in some.lines)
    assert some.ints("x")[0].tolist() == [0, 1] and some.ints("x")[1].tolist() == [1, 2]
    assert some.all_texts(some.texts("s")[1]) == ["t1", "t2"]
    assert len(whole) == 5 and whole.lines[0].last == 3  # which is as it was


def test_an_empty_host() -> None:
    for data in (xspace(hostnames=["vm"]), xspace(plane("/host:CPU")), xspace(plane("p", [line("l")]))):
        events = read(fastprof.load(data), stats=("x",), metadata=("m",))
        assert len(events) == 0 and len(events.stat("x")) == 0
        assert len(events.subset(np.zeros(0, bool))) == 0


def test_what_cannot_be_used_is_given_by_the_log() -> None:
    profile = load(plane("/host:CPU", [line("l", [event("e")])]))
    read(profile).note("data_loss", "bad_group_id", "no group", 3)
    remarks = profile.import_log.to_pylist()
    assert [(one["severity"], one["code"], one["count"]) for one in remarks if one["code"] == "bad_group_id"] == [
        ("data_loss", "bad_group_id", 3)
    ]


def test_a_file_that_was_changed_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "h.xplane.pb"
    path.write_bytes(xspace(plane("/host:CPU", [line("l", [event("e")])])))
    events = read(fastprof.load(path))
    events.capture.source.check_unchanged()
    path.write_bytes(xspace(plane("/host:CPU", [line("another", [event("e")])])))
    with pytest.raises(ChangedError):
        events.capture.source.check_unchanged()


def test_a_broken_file_is_an_error_unless_it_is_salvaged() -> None:
    data = xspace(plane("/host:CPU", [line("l", [event("a", 0, 1), b"\x0a\x7f", event("b", 5, 1)])]))
    with pytest.raises(FastprofError):
        read(fastprof.load(data))
    check(fastprof.load(data, on_error="salvage"))
