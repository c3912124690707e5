"""Nesting: which event of a line encloses which, and how much of its time is its own.

By definition the parent of an event is the last event before it in its line that includes it, ends included. What is
expected here is worked out from that sentence, looking at every pair of events.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from gate import few, rounds, typical_captures
from random_spaces import random_space
from slow_reader import Space, parse
from small_cuts import cut_small
from trace_builder import (
    Event,
    Line,
    Value,
    Wire,
    aggregated,
    event,
    int_field,
    len_field,
    line,
    plane,
    ref,
    stat,
    u64,
    xspace,
)

import fastprof
from fastprof.decode.nesting import nest_events, number_lines
from fastprof.decode.workers import Workers
from fastprof.tables.nesting_stream import PASSES, stream_nesting

Span = tuple[int, int]
Placed = list[tuple[int | None, int | None, int | None]]
"""depth, parent, self time of each event of a line."""


# ---- the definition ---------------------------------------------------------------------------------


@dataclass
class Row:
    """An event of a line. apart: it runs beside the line; without a start it is aggregated."""

    start: int | None
    duration: int
    apart: bool = False

    @property
    def span(self) -> Span:
        assert self.start is not None
        return self.start, self.start + self.duration


def covered(spans: Sequence[Span]) -> int:
    """How long the union of the spans is; those of negative length are empty."""
    edges = pairwise(sorted({edge for span in spans for edge in span}))
    return sum(b - a for a, b in edges if any(start <= a and b <= end for start, end in spans))


def by_definition(rows: Sequence[Row]) -> Placed:
    """The rows in the order of the table; parents as row numbers."""
    parents: list[int | None] = []
    for at, row in enumerate(rows):
        before = [] if row.apart or row.start is None else rows[:at]
        includes = [
            i
            for i, other in enumerate(before)
            if other.start is not None
            and not other.apart
            and other.span[0] <= row.span[0]
            and row.span[1] <= other.span[1]
        ]
        parents.append(includes[-1] if includes else None)
    placed: Placed = []
    for at, (row, parent) in enumerate(zip(rows, parents, strict=True)):
        if row.start is None:
            placed.append((None, None, None))
            continue
        children = [rows[i].span for i, other in enumerate(parents) if other == at]
        above = None if parent is None else placed[parent][0]
        placed.append((0 if above is None else above + 1, parent, row.duration - covered(children)))
    return placed


def in_order(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row.start is None, row.start or 0, 0 if row.start is None else -row.duration))


# ---- from captures ----------------------------------------------------------------------------------


def event_of(row: Row) -> Event:
    stats: dict[str | int, Value] = {"_a": 1} if row.apart else {}
    if row.start is None:
        return aggregated("e", 2, row.duration, stats)
    return event("e", row.start, row.duration, stats)


def placed_of(table: pa.Table, first_id: int = 0) -> Placed:
    assert table["event_id"].to_pylist() == list(range(first_id, first_id + len(table)))
    parents = [None if parent is None else parent - first_id for parent in table["parent_id"].to_pylist()]
    return list(zip(table["depth"].to_pylist(), parents, table["self_time_ps"].to_pylist(), strict=True))


def nested(*events: Event) -> Placed:
    return placed_of(fastprof.load(xspace(plane("p", [line("l", list(events))]))).nesting)


def spans(*times: Span) -> Placed:
    return nested(*[event("e", start, end - start) for start, end in times])


def test_children_take_their_time_from_their_parent() -> None:
    assert spans((0, 100), (10, 30), (12, 17), (40, 70)) == [(0, None, 50), (1, 0, 15), (2, 1, 5), (1, 0, 30)]


def test_of_equal_spans_the_second_lies_under_the_first() -> None:
    assert spans((5, 15), (5, 15), (5, 15)) == [(0, None, 0), (1, 0, 0), (2, 1, 10)]


def test_spans_may_share_ends() -> None:
    assert spans((0, 10), (0, 4), (4, 10), (10, 12)) == [(0, None, 0), (1, 0, 4), (1, 0, 6), (0, None, 2)]


def test_an_event_that_crosses_an_end_lies_beside() -> None:
    """Under what encloses both, which gives up the time that either covers, once."""
    assert spans((0, 20), (10, 30)) == [(0, None, 20), (0, None, 20)]
    assert spans((0, 100), (10, 30), (20, 40), (22, 28), (35, 45)) == [
        (0, None, 65),
        (1, 0, 20),
        (1, 0, 14),
        (2, 2, 6),
        (1, 0, 10),
    ]


def test_events_of_no_duration() -> None:
    """They lie in what begins or ends there, and in each other; they take no time."""
    assert spans((0, 10), (0, 0), (5, 5), (5, 5), (10, 10), (11, 11)) == [
        (0, None, 10),
        (1, 0, 0),
        (1, 0, 0),
        (2, 2, 0),
        (1, 0, 0),
        (0, None, 0),
    ]


def test_negative_durations() -> None:
    """Such an event includes nothing that starts after its end, and takes nothing from its parent."""
    assert spans((0, -5), (1, 4), (2, 1)) == [(0, None, -5), (0, None, 3), (1, 1, -1)]
    assert spans((0, 10), (3, 2), (3, 1), (4, 5)) == [(0, None, 9), (1, 0, -1), (2, 1, -2), (1, 0, 1)]


def test_times_before_the_start_of_profiling() -> None:
    assert spans((-100, 50), (-50, -20), (-10, 10)) == [(0, None, 100), (1, 0, 30), (1, 0, 20)]


def test_self_times_are_exact_however_long() -> None:
    """Past 2**53, where doubles have gaps."""
    end = 2**62
    assert spans((0, end), (1, end - 1), (2, end // 2), (end // 2 + 1, end - 3)) == [
        (0, None, 2),
        (1, 0, 4),
        (2, 1, end // 2 - 2),
        (2, 1, end // 2 - 4),
    ]


def test_aggregated_events_are_not_placed() -> None:
    placed = nested(aggregated("sum", 5, 100), event("e", 0, 10), aggregated("sum", 1, 3), event("e", 1, 5))
    assert placed == [(0, None, 5), (1, 0, 5), (None, None, None), (None, None, None)]


def test_lines_know_nothing_of_each_other() -> None:
    lines = [line("a", [event("e", 0, 100)]), line("none"), line("b", [event("e", 10, 5), event("e", 11, 1)])]
    table = fastprof.load([xspace(plane(host, lines), plane("p", lines)) for host in "ab"]).nesting
    assert table["parent_id"].to_pylist() == [p for i in range(4) for p in (None, None, 3 * i + 1)]
    assert table["self_time_ps"].to_pylist() == [100, 4, 1] * 4


def test_lines_of_equal_id_are_nested_as_one() -> None:
    outer = line("l", [event("outer", 0, 10_000), event("later", 20_000, 5)], id=3)
    inner = line("l", [event("inner", -1000, 500), event("crossing", 8000, 3000)], id=3, timestamp_ns=1)
    table = fastprof.load(xspace(plane("p", [outer, line("m", [event("x", 0, 1)], id=4), inner]))).nesting
    assert placed_of(table)[:4] == [(0, None, 9500), (1, 0, 500), (0, None, 3000), (0, None, 5)]


# ---- asynchronous events ----------------------------------------------------------------------------


@pytest.mark.parametrize("value", [1, -1, u64(1), u64(2**64 - 1), 2**40])
def test_asynchronous_events_run_beside_their_line(value: Value) -> None:
    """They neither enclose nor lie in others, and keep their time."""
    placed = nested(
        event("e", 0, 10), event("async", 1, 8, {"_a": value}), event("e", 2, 4), event("e", 3, 1, {"_a": 0})
    )
    assert placed == [(0, None, 6), (0, None, 8), (1, 0, 3), (2, 2, 1)]


@pytest.mark.parametrize("value", [0, u64(0), 1.0, "1", b"1", ref("1"), None])
def test_other_values_of_the_stat_mean_nothing(value: Value) -> None:
    assert nested(event("e", 0, 10), event("e", 1, 8, {"_a": value}), event("e", 2, 4)) == [
        (0, None, 2),
        (1, 0, 4),
        (2, 1, 4),
    ]


def test_the_first_of_several_says_whether_an_event_is_asynchronous() -> None:
    values = ([1, 0], [0, 1], [None, 1])
    placed = nested(event("e", 0, 99), *[event("e", 1, 9, [stat("_a", v) for v in pair]) for pair in values])
    assert placed == [(0, None, 90), (0, None, 9), (1, 0, 9), (0, None, 9)]


# ---- spans drawn by lot -----------------------------------------------------------------------------


def drawn_line(draw: random.Random) -> list[Row]:
    """Few distinct times, so that ends meet and cross; each line has odd rows or has none."""
    width, longest, odd = draw.choice((3, 12, 40)), draw.choice((2, 10, 40)), draw.randrange(2)
    rows = []
    for _ in range(draw.randrange(25)):
        start, duration = draw.randrange(width), draw.randrange(longest)
        if odd and draw.randrange(5) == 0:
            duration = -draw.randrange(5)
        rows.append(Row(start, duration, apart=odd > 0 and draw.randrange(6) == 0))
        if odd and draw.randrange(9) == 0:
            rows[-1].start = None
    return rows


def drawn_lines(seed: int, count: int) -> list[list[Row]]:
    draw = random.Random(seed)
    return [drawn_line(draw) for _ in range(count)]


def capture_of(lines: Sequence[Sequence[Row]]) -> bytes:
    built: list[Line | bytes] = [line(f"l{i}", [event_of(row) for row in rows]) for i, rows in enumerate(lines)]
    return xspace(plane("p", built))


def expected_of(lines: Sequence[Sequence[Row]]) -> Placed:
    """The lines' rows one below the other, parents as row numbers of all."""
    placed: Placed = []
    for rows in lines:
        base = len(placed)
        placed += [(d, None if p is None else p + base, s) for d, p, s in by_definition(in_order(rows))]
    return placed


@pytest.mark.parametrize("seed", range(4))
def test_lines_drawn_by_lot_nest_as_the_definition_says(seed: int) -> None:
    lines = drawn_lines(seed, 100)
    assert placed_of(fastprof.load(capture_of(lines), threads=2).nesting) == expected_of(lines)


def test_any_grouping_of_lines_gives_the_same() -> None:
    """The kernel itself, on lines that are tasks of their own or share one."""
    lines = [in_order([row for row in rows if row.start is not None]) for rows in drawn_lines(9, 60)]
    for rows in lines:
        for row in rows:
            row.apart = False
    start = np.array([row.start for rows in lines for row in rows], np.int64)
    duration = np.array([row.duration for rows in lines for row in rows], np.int64)
    counts = np.array([len(rows) for rows in lines], np.int64)
    ids = 1000 + np.cumsum(counts) - counts
    for threads in (1, 4):
        depth, parent, own = nest_events(start, duration, None, number_lines(counts, ids), Workers(threads))
        parents = [None if p < 0 else p - 1000 for p in parent.tolist()]
        assert list(zip(depth.tolist(), parents, own.tolist(), strict=True)) == expected_of(lines)


# ---- sums of self times -----------------------------------------------------------------------------


def check_sums(events: Mapping[str, Sequence[Any]], nesting: Mapping[str, Sequence[Any]]) -> int:
    """Self times of a line add up to the time it covers, and once more to what siblings that cross share.

    Returns how many lines have no siblings that cross.
    """
    by_line: dict[int, dict[int | None, list[Span]]] = {}
    own: dict[int, int] = {}
    columns = (events["line_id"], events["start_ps"], events["duration_ps"])
    for number, start, duration, parent, self_time in zip(
        *columns, nesting["parent_id"], nesting["self_time_ps"], strict=True
    ):
        if start is not None:
            by_line.setdefault(number, {}).setdefault(parent, []).append((start, start + duration))
            own[number] = own.get(number, 0) + self_time
    tidy = 0
    for number, families in by_line.items():
        shared = {parent: sum(b - a for a, b in family) - merged(family) for parent, family in families.items()}
        assert own[number] == merged(families.get(None, [])) + sum(shared.values()), number
        tidy += not any(shared.values())
    return tidy


def merged(family: Sequence[Span]) -> int:
    """As covered, for many spans."""
    total, reached = 0, min((start for start, _ in family), default=0)
    for start, end in sorted(family):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def test_self_times_of_a_line_add_up_to_what_it_covers() -> None:
    def families(start: int, end: int, draw: random.Random) -> Iterator[Row]:
        """Spans that do not cross."""
        yield Row(start, end - start)
        while end - start > 4 and draw.randrange(4):
            cut = draw.randrange(start, end + 1)
            yield from families(start, cut, draw)
            start = cut

    draw = random.Random(2)
    lines = [[row for i in range(4) for row in families(2000 * i, 2000 * i + 1500, draw)] for _ in range(30)]
    profile = fastprof.load(capture_of(lines))
    assert check_sums(profile.events.to_pydict(), profile.nesting.to_pydict()) == 30
    line_id = profile.events["line_id"].to_numpy()
    sums = [int(profile.nesting["self_time_ps"].to_numpy()[line_id == i].sum()) for i in range(30)]
    assert sums == [6000] * 30


@typical_captures
def test_self_times_of_real_captures_add_up(capture: Path) -> None:
    profile = fastprof.load(capture)
    tidy = check_sums(profile.events.to_pydict(), profile.nesting.to_pydict())
    assert tidy > 0


# ---- streaming --------------------------------------------------------------------------------------


def streamed(profile: Any, rows: int) -> list[dict[str, list[Any]]]:
    tables = list(stream_nesting(profile.table_set, rows, lambda _: None))
    assert all(table.schema.equals(profile.nesting.schema, check_metadata=True) for table in tables)
    return [table.to_pydict() for table in tables]


def joined(parts: Sequence[Mapping[str, list[Any]]]) -> dict[str, list[Any]]:
    names = ("event_id", "depth", "parent_id", "self_time_ps")
    return {name: [value for part in parts for value in part[name]] for name in names}


@pytest.mark.parametrize("rows", [1, 5, 1000])
def test_a_stream_gives_the_table_whatever_its_stretches(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stretches of one event and more, so that most events end in a later one than they begin in."""
    cut_small(monkeypatch, run_events=4)
    for seed in range(8):
        lines = drawn_lines(100 + seed, 12)
        profile = fastprof.load(capture_of(lines))
        parts = streamed(profile, rows)
        assert joined(parts) == profile.nesting.to_pydict()
        assert placed_of(profile.nesting) == expected_of(lines)
        assert len(parts) > 4 or rows == 1000


def test_events_that_stay_open_over_many_stretches() -> None:
    """By the real sizes of segments and blocks; equal spans lie in each other, deeper and deeper."""
    count, longest = 600_000, 10**9
    equal = len_field(4, int_field(1, 2) + int_field(2, 7) + int_field(3, 5))
    outer = [event("outer", 0, longest), event("outer", 1, longest - 2)]
    data = xspace(plane("p", [line("l", outer, wire=Wire(after=equal * count))], event_ids={"equal": 2}))
    profile = fastprof.load(data, threads=1)
    tables = list(stream_nesting(profile.table_set, 10_000, lambda _: None))
    assert len(tables) > 1
    found = pa.concat_tables(tables)
    assert found.equals(profile.nesting)
    assert found["depth"].to_numpy().tolist() == list(range(count + 2))
    assert found["parent_id"][1:].to_numpy().tolist() == list(range(count + 1))
    own = found["self_time_ps"].to_numpy()
    assert own[:2].tolist() == [2, longest - 7] and own[-1] == 5 and not own[2:-1].any()


def test_a_stream_records_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pass goes through all events of the selected lines."""
    cut_small(monkeypatch)
    profile = fastprof.load(capture_of(drawn_lines(7, 12)))
    for chosen in (profile, profile.select(names="no such name"), profile.select(lines="l[0-5]$")):
        counts: list[int] = []
        list(stream_nesting(chosen.table_set, 5, counts.append))
        events = sum(chosen.lines["event_count"].to_pylist())
        assert sum(counts) == PASSES * events and len(counts) > 4


@pytest.mark.parametrize("rows", [1, 50])
def test_streams_of_captures_drawn_by_lot(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cut_small(monkeypatch, run_events=3)
    for seed in range(rounds(50, 15)):
        data = random_space(seed)
        if parse(data) != Space():
            profile = fastprof.load([data, random_space(seed + 1, well_written=True) or data])
            assert joined(streamed(profile, rows)) == profile.nesting.to_pydict(), seed


@pytest.mark.captures
def test_streams_of_real_captures(captures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut_small(monkeypatch, segment_bytes=1000, block_bytes=3000, run_events=1000)
    for path in few(sorted((captures / "xspace").rglob("*.xplane.pb")), 5):
        profile = fastprof.load(path)
        for rows in (100, 3000):
            parts = streamed(profile, rows)
            assert joined(parts) == profile.nesting.to_pydict(), (path, rows)
            assert len(parts) > 1 or profile.nesting.num_rows < rows


SELECTIONS: dict[str, dict[str, Any]] = {
    "line": {"lines": ["l3", "l5"]},
    "names": {"names": "e"},
    "nothing": {"names": "x"},
    "time": {"time_ps": (3, 9)},
    "time of a line": {"time_ps": (None, 5), "lines": "l[12]$"},
    "no line": {"lines": "none"},
}


@pytest.mark.parametrize("case", SELECTIONS)
def test_a_selection_keeps_its_place_in_the_whole_line(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parents may have been left out, children too: they count all the same."""
    cut_small(monkeypatch, run_events=4)
    profile = fastprof.load(capture_of(drawn_lines(50, 12)))
    chosen = profile.select(**SELECTIONS[case])
    ids = set(chosen.events["event_id"].to_pylist())
    wanted = [row for row in profile.nesting.to_pylist() if row["event_id"] in ids]
    assert chosen.nesting.to_pylist() == wanted
    for rows in (1, 7, 1000):
        parts = streamed(chosen, rows)
        assert joined(parts) == chosen.nesting.to_pydict()
