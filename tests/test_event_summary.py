"""Events by name: how many, how long, how much of it their own; largest self time first."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from gate import rounds, typical_captures
from random_spaces import random_space
from slow_reader import Space, parse
from slow_tables import Source, Tables, tables
from small_cuts import cut_small
from trace_builder import Event, aggregated, event, line, plane, xspace

import fastprof
from fastprof.schema.tables import VERSION

COLUMNS = ("name", "count", "total_ps", "self_ps", "mean_ps", "min_ps", "max_ps")
Summary = list[tuple[Any, ...]]


def summary_of(source: Any, **conditions: Any) -> Summary:
    return rows_of(fastprof.load(source).select(**conditions).event_summary())


def rows_of(table: pa.Table) -> Summary:
    table.validate(full=True)
    assert table.column_names == list(COLUMNS)
    return list(zip(*table.to_pydict().values(), strict=True))


def capture_of(*events: Event) -> bytes:
    return xspace(plane("p", [line("l", list(events))]))


# ---- sums -------------------------------------------------------------------------------------------


def test_events_of_a_name_are_one_row() -> None:
    data = capture_of(event("step", 0, 100), event("op", 10, 20), event("op", 40, 31), event("step", 200, 7))
    assert summary_of(data) == [
        ("step", 2, 107, 56, 53, 7, 100),
        ("op", 2, 51, 51, 25, 20, 31),
    ]


def test_a_name_is_one_row_whatever_its_line_plane_and_host() -> None:
    """And whatever its id there."""
    lines = [line("l", [event("a", 0, 5), event("b", 1, 1)]), line("m", [event("a", 0, 7)])]
    planes = [plane("p", lines, event_ids={"a": 3}), plane("q", lines, event_ids={"b": 3})]
    assert summary_of([xspace(*planes, hostnames=["x"]), xspace(plane("r", lines))]) == [
        ("a", 6, 36, 33, 6, 5, 7),
        ("b", 3, 3, 3, 1, 1, 1),
    ]


def test_largest_self_time_first_then_by_name() -> None:
    """Names in the order of their code points, the event without a name last among equals."""
    names: list[str | int] = ["b", 99, "größer", "a\0b", "ab", "a", "", "日本", "a\0", "Z", "🎉", "\uffff"]
    events = [event(name, 100 * i, 5) for i, name in enumerate(names)]
    found = [row[0] for row in summary_of(capture_of(*events, event("most", 10_000, 6), event("least", 20_000, -1)))]
    assert found == ["most", *sorted(name for name in names if isinstance(name, str)), None, "least"]


def test_the_order_is_that_of_self_time_not_of_all_time() -> None:
    data = capture_of(event("outer", 0, 100), event("inner", 0, 60))
    assert [(row[0], row[2], row[3]) for row in summary_of(data)] == [("inner", 60, 60), ("outer", 100, 40)]


def test_means_are_rounded_down() -> None:
    data = capture_of(event("a", 0, 2), event("a", 10, 3), event("b", 20, -1), event("b", 30, -2), event("c", 40, 0))
    assert [(row[0], row[4]) for row in summary_of(data)] == [("a", 2), ("c", 0), ("b", -2)]


def test_a_long_name_widens_no_other() -> None:
    """Names on TPUs are texts of instructions, of any length."""
    names = [f"{i:05}" for i in range(1000)] + ["x" * 200_000]
    profile = fastprof.load(capture_of(*[event(name, 10 * i, 5) for i, name in enumerate(names)]))
    profile.read("nesting")
    tracemalloc.start()
    try:
        found = profile.event_summary()
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
    assert found["name"].to_pylist() == names


# ---- what lacks something ---------------------------------------------------------------------------


def test_aggregated_events_count_their_occurrences() -> None:
    """They have no self time, and how long each took is not known."""
    data = capture_of(aggregated("a", 5, 100), aggregated("a", 2, 41), aggregated("b", 3, 9), event("b", 0, 4))
    assert summary_of(data) == [
        ("b", 4, 13, 4, 3, 4, 4),
        ("a", 7, 141, 0, 20, None, None),
    ]


def test_events_without_a_name_are_one_row() -> None:
    """Those whose plane has no metadata for them; an empty name is a name."""
    data = capture_of(event(98, 0, 5), event(99, 10, 6), event("", 20, 1), aggregated(97, 2, 8))
    assert summary_of(data) == [(None, 4, 19, 11, 4, 5, 6), ("", 1, 1, 1, 1, 1, 1)]


def test_names_that_no_event_has_are_no_rows() -> None:
    data = xspace(plane("p", [line("l", [event("a", 0, 1)])], event_ids={"a": 1, "unused": 2}))
    assert [row[0] for row in summary_of(data)] == ["a"]


@pytest.mark.parametrize("data", [xspace(plane("p")), xspace(plane("p", [line("l")])), xspace(hostnames=["vm"])])
def test_without_events_there_are_no_rows(data: bytes) -> None:
    table = fastprof.load(data).event_summary()
    assert rows_of(table) == []
    assert table.schema.equals(fastprof.load(capture_of(event("a", 0, 1))).event_summary().schema)


def test_columns_say_what_they_are() -> None:
    schema = fastprof.load(capture_of(event("a", 0, 1))).event_summary().schema
    assert [field.type for field in schema] == [pa.string()] + [pa.int64()] * 6
    assert {field.name for field in schema if field.nullable} == {"name", "mean_ps", "min_ps", "max_ps"}
    assert {field.name for field in schema if field.metadata.get(b"unit") == b"ps"} == set(COLUMNS[2:])
    assert all(field.metadata[b"description"] for field in schema)
    assert schema.metadata[b"fastprof.schema_version"] == VERSION.encode()


# ---- large sums -------------------------------------------------------------------------------------


def test_sums_are_exact_up_to_the_last_picosecond() -> None:
    half = 2**62
    assert summary_of(capture_of(event("a", 0, half), event("a", half, half - 1))) == [
        ("a", 2, 2**63 - 1, 2**63 - 1, 2**62 - 1, half - 1, half)
    ]
    assert summary_of(capture_of(event("a", 0, -half), event("a", 1, -half))) == [
        ("a", 2, -(2**63), -(2**63), -half, -half, -half)
    ]


@pytest.mark.parametrize(
    ("events", "what"),
    [
        ([event("a", 0, 2**62), event("a", 0, 2**62)], "durations"),
        ([event("a", 0, -(2**62)), event("a", 0, -(2**62)), event("a", 0, -1)], "durations"),
        ([aggregated("a", 2, 2**63 - 1), event("a", 0, 1)], "durations"),
        ([aggregated("a", 2**63 - 1), event("a", 0, 1)], "occurrences"),
    ],
)
def test_sums_past_64_bits_are_an_error_and_never_wrap(events: Sequence[Event], what: str) -> None:
    """The events themselves can be read, and so can what is known of other names."""
    profile = fastprof.load(xspace(plane("p", [line("l", events), line("m", [event("b", 0, 7)])])))
    assert profile.events["name"].to_pylist() == ["a"] * len(events) + ["b"]
    with pytest.raises(fastprof.CaptureError, match=f"the {what} of the events of one name do not add up in 64 bits"):
        profile.event_summary()
    assert rows_of(profile.select(names="b").event_summary()) == [("b", 1, 7, 7, 7, 7, 7)]


def test_sums_of_different_names_do_not_meet() -> None:
    large = 2**63 - 1
    found = summary_of(capture_of(event("a", 0, large), event("b", 5, large - 9), event("c", 7, large - 20)))
    assert [row[:4] for row in found] == [("c", 1, large - 20, large - 20), ("b", 1, large - 9, 11), ("a", 1, large, 9)]


# ---- selections -------------------------------------------------------------------------------------


def test_a_selection_counts_its_events_with_the_self_times_of_whole_lines() -> None:
    events = [event("step", 100 * i, 90) for i in range(3)] + [event("op", 100 * i + 10, 30) for i in range(3)]
    data = xspace(plane("p", [line("l", events), line("m", [event("op", 0, 500)])]))
    assert summary_of(data, names="step") == [("step", 3, 270, 180, 90, 90, 90)]
    assert summary_of(data, time_ps=(110, 111)) == [
        ("op", 2, 530, 530, 265, 30, 500),
        ("step", 1, 90, 60, 90, 90, 90),
    ]
    assert summary_of(data, lines="l", names="op") == [("op", 3, 90, 90, 30, 30, 30)]
    assert summary_of(data, names="nothing") == []


# ---- against a slow computation ---------------------------------------------------------------------


def slow_summary(expected: Tables) -> Summary:
    by_name: dict[str | None, list[tuple[int, int | None, int | None]]] = {}
    events = expected["events"]
    rows = zip(events["duration_ps"], events["num_occurrences"], expected["nesting"]["self_time_ps"], strict=True)
    for name, row in zip(events["name"], rows, strict=True):
        by_name.setdefault(name, []).append(row)
    summary: Summary = []
    for name, found in by_name.items():
        count = sum(1 if times is None else times for _, times, _ in found)
        total = sum(duration for duration, _, _ in found)
        single = [duration for duration, times, _ in found if times is None]
        own = sum(self_time or 0 for _, _, self_time in found)
        mean = total // count if count > 0 else None
        summary.append((name, count, total, own, mean, min(single, default=None), max(single, default=None)))
    return sorted(summary, key=lambda row: (-row[3], row[0] is None, row[0] or ""))


def known(summary: Summary) -> Summary:
    """Without the mean of names that occurred no time or fewer."""
    return [(*row[:4], row[4] if row[1] > 0 else None, *row[5:]) for row in summary]


def test_captures_drawn_by_lot(monkeypatch: pytest.MonkeyPatch) -> None:
    names = 0
    for seed in range(rounds(120, 40)):
        data = random_space(seed, well_written=seed % 3 == 0)
        space = parse(data)
        if space == Space():
            continue
        with monkeypatch.context() as patch:
            if seed % 2:
                cut_small(patch, run_events=3)
            found = rows_of(fastprof.load(data, threads=1 + seed % 3).event_summary())
        wanted = slow_summary(tables([Source("vm", "path", len(data), space)]))
        assert known(found) == wanted, seed
        names += len(wanted)
    assert names > rounds(300, 100)


@typical_captures
def test_real_captures(capture: Path) -> None:
    data = capture.read_bytes()
    wanted = slow_summary(tables([Source("vm", str(capture), len(data), parse(data))]))
    assert rows_of(fastprof.load(capture).event_summary()) == wanted
