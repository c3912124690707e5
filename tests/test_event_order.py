"""Events of a line come by start, longer first, then as the file has them; events without a start come last."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from gate import rounds
from random_spaces import random_space
from slow_reader import Space, parse
from slow_tables import Source, tables
from small_cuts import cut_small
from trace_builder import Event, aggregated, event, line, plane, xspace

import fastprof
from fastprof._native import records
from fastprof.decode.blocks import sort_keys
from fastprof.schema.columns import Records

Check = Callable[..., None]
LARGEST = 2**63 - 1
US = 10**6


def names_of(*lines: Any) -> list[str]:
    return list(fastprof.load(xspace(plane("p", list(lines)))).events["name"].to_pylist())


# ---- the rule ---------------------------------------------------------------------------------------


def test_by_start_then_longer_then_as_in_the_file() -> None:
    spans = [
        ("late", 30, 1),
        ("short", 5, 1),
        ("long", 5, 9),
        ("first", 2, 0),
        ("long again", 5, 9),
        ("short too", 5, 1),
    ]
    events = [event(name, start, duration) for name, start, duration in spans]
    assert names_of(line("l", events)) == ["first", "long", "long again", "short", "short too", "late"]


def test_aggregated_events_come_last_as_in_the_file() -> None:
    events = [
        aggregated("a", 3, 5),
        event("late", 9, 1),
        aggregated("b", 3, 7),
        event("early", -9, 1),
        aggregated("c", 1),
    ]
    assert names_of(line("l", events)) == ["early", "late", "a", "b", "c"]
    assert names_of(line("l", [event("x", 1, 1), aggregated("a", 1), aggregated("b", 1, 99)])) == ["x", "a", "b"]


def test_an_event_without_an_offset_starts_with_its_line() -> None:
    events = [event("b", 1, 1), event("a", None, 1), event("c", 1, 0), event("0", -1, 0)]
    assert names_of(line("l", events)) == ["0", "a", "b", "c"]


def test_negative_durations_come_after_longer_ones() -> None:
    events = [event("-5", 0, -5), event("0", 0, 0), event("-9", 0, -9), event("1", 0, 1)]
    assert names_of(line("l", events)) == ["1", "0", "-5", "-9"]


def test_offsets_of_any_size() -> None:
    """Where base and offset pass 64 bits there is no start: such events are last, and they are counted."""
    events = [event(str(offset), offset, 1) for offset in (LARGEST, 0, -LARGEST - 1, LARGEST - 5000, 2**62, -(2**62))]
    for stamp, fitting in (
        (0, [-LARGEST - 1, -(2**62), 0, 2**62, LARGEST - 5000, LARGEST]),
        (5, [-LARGEST - 1, -(2**62), 0, 2**62, LARGEST - 5000]),
        (-1, [-(2**62), 0, 2**62, LARGEST - 5000, LARGEST]),
        (6, [-LARGEST - 1, -(2**62), 0, 2**62]),
    ):
        profile = fastprof.load(xspace(plane("p", [line("l", events, timestamp_ns=stamp)])))
        lost = [str(e.name) for e in events if int(e.name) not in fitting]
        assert profile.events["name"].to_pylist() == [*map(str, fitting), *lost]
        assert profile.events["start_ps"].to_pylist() == [offset + 1000 * stamp for offset in fitting] + [None] * len(
            lost
        )


def test_pieces_of_a_line_are_woven_together() -> None:
    """Lines of equal id are one, each piece with the timestamp of its own."""
    near = line("l", [event("2", 2000, 1), event("0", 0, 1)], id=7)
    far = line("l", [event("1", -1000, 1), event("3", 1000, 1), event("1 long", -1000, 5)], id=7, timestamp_ns=2)
    sorted_far = line("l", [event("3", 1000, 1), event("5", 3000, 1)], id=7, timestamp_ns=2)
    assert names_of(near, far) == ["0", "1 long", "1", "2", "3"]
    assert names_of(line("other", [event("x", 9, 1)], id=1), near, line("m", [event("y", 0, 1)], id=2), far) == [
        "x", "0", "1 long", "1", "2", "3", "y",
    ]  # fmt: skip
    assert names_of(line("l", [event("0", 0, 1), event("6", 6000, 1)], id=7), sorted_far) == ["0", "3", "5", "6"]
    assert names_of(sorted_far, line("l", [event("0", 0, 1), event("6", 6000, 1)], id=7)) == ["0", "3", "5", "6"]
    assert names_of(line("l", [event("a", 9, 1)], id=7), line("l", [aggregated("b", 1)], id=7), sorted_far) == [
        "a", "3", "5", "b",
    ]  # fmt: skip


def test_a_line_in_order_stays_as_it_is_whatever_its_neighbours() -> None:
    tidy = line("tidy", [event(f"t{i}", i, 1) for i in range(5)])
    wild = line("wild", [event(f"w{i}", -i, 1) for i in range(5)])
    profile = fastprof.load(xspace(plane("p", [tidy, wild, tidy, wild])))
    names = [f"t{i}" for i in range(5)] + [f"w{i}" for i in reversed(range(5))]
    assert profile.events["name"].to_pylist() == names * 2
    assert profile.events["event_id"].to_pylist() == list(range(20))


# ---- what belongs to an event stays with it ---------------------------------------------------------


def shuffled(count: int, seed: int = 1) -> list[Event]:
    """Events at 0, 1, 2, … µs in any order, each with stats that say which one it is."""
    places = list(range(count))
    random.Random(seed).shuffle(places)
    return [event(f"e{i % 4}", i * US, US // 2, {"at": i, "text": f"t{i}"} if i % 3 else {}) for i in places]


@pytest.mark.parametrize("run_events", [None, 10, 1100])
def test_stats_follow_their_events(run_events: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    cut_small(monkeypatch, segment_bytes=100, block_bytes=300, run_events=run_events)
    before, after = [event("x", 0, 1)] * 3, [event("y", 0, 1, {"at": -1})]
    lines = [line("before", before), line("wild", shuffled(2500)), line("after", after)]
    profile = fastprof.load(xspace(plane("p", lines)))
    assert profile.events["start_ps"].to_pylist() == [0, 0, 0, *range(0, 2500 * US, US), 0]
    stats = profile.event_stats.to_pylist()
    of_at = [(row["event_id"], row["int_value"]) for row in stats if row["stat"] == "at"]
    assert of_at == [(3 + i, i) for i in range(2500) if i % 3] + [(2503, -1)]
    of_text = [(row["event_id"], row["str_value"]) for row in stats if row["stat"] == "text"]
    assert of_text == [(3 + i, f"t{i}") for i in range(2500) if i % 3]
    assert [row["event_id"] for row in stats] == sorted(row["event_id"] for row in stats)


SELECTIONS: dict[str, tuple[dict[str, Any], Callable[[dict[str, Any]], bool]]] = {
    "names": ({"names": "e[13]"}, lambda e: e["name"] in ("e1", "e3")),
    "time": ({"time_ps": (95 * US, 312 * US)}, lambda e: e["start_ps"] is not None and 94 < e["start_ps"] // US < 312),
    "line": ({"lines": "wilder"}, lambda e: e["line"] == "wilder"),
    "plane, names": ({"planes": "q", "names": "e1"}, lambda e: e["plane"] == "q" and e["name"] == "e1"),
    "line, time": (
        {"lines": "wilder", "time_ps": (48 * US, None)},
        lambda e: e["line"] == "wilder" and (e["start_ps"] or 0) > 47 * US,
    ),
}


@cache
def wild_planes() -> bytes:
    wild = [line("wild", shuffled(2500)), line("wilder", [*shuffled(50, 2), aggregated("e1", 3, 3)])]
    return xspace(plane("p", wild), plane("q", wild[1:]))


@pytest.mark.parametrize("run_events", [None, 10, 1100])
@pytest.mark.parametrize("case", SELECTIONS)
def test_a_selection_keeps_the_ids_of_the_whole(
    case: str, run_events: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ids of a line out of order come from all of its events, also from those that are left out."""
    cut_small(monkeypatch, segment_bytes=100, block_bytes=300, run_events=run_events)
    data = wild_planes()
    conditions, keep = SELECTIONS[case]
    whole = fastprof.load(data).read("events", "event_stats", "nesting")
    ids = [row["event_id"] for row in whole["events"].to_pylist() if keep(row)]
    found = fastprof.load(data).select(**conditions).read("events", "event_stats", "nesting")
    assert found["events"]["event_id"].to_pylist() == ids and ids
    for name, table in found.items():
        kept = pc.is_in(whole[name]["event_id"], pa.array(ids))
        assert table.to_pylist() == whole[name].filter(kept).to_pylist(), name


def test_captures_drawn_by_lot_in_many_pieces(check_tables: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each event is a segment and a block of its own, and lines are sorted a few events at a time."""
    cut_small(monkeypatch, run_events=3)
    for seed in range(rounds(60, 15)):
        data = random_space(seed, well_written=seed % 3 == 0)
        if parse(data) == Space():
            continue
        profile = fastprof.load(data, threads=2)
        (host,), (path,) = (profile.hosts[name].to_pylist() for name in ("host", "path"))
        try:
            check_tables(profile.tables, tables([Source(host, path, len(data), parse(data))]))
        except AssertionError as fault:
            raise AssertionError(f"seed {seed}: {fault}") from None


# ---- sorting outside memory -------------------------------------------------------------------------


class Keys:
    """The one line of a capture, cut in segments of ``segment_bytes``."""

    def __init__(self, data: bytes, segment_bytes: int) -> None:
        index = fastprof.load(data).table_set.session.index
        index.ensure(records.HOP)
        (self.part,) = index.captures
        found = self.part.capture.xspace.index(
            self.part.pieces, 0, len(self.part.pieces), records.EVENTS, segment_bytes
        )
        self.segments = np.frombuffer(found[0], records.SEGMENT)

    def ordered(self, run_events: int) -> list[Records]:
        """Without the flag that says in which form the segment of an event is: that depends on the cuts."""
        found = list(sort_keys(self.part, self.segments, None, run_events))
        for keys in found:
            keys["flags"] &= records.KEPT
        return found


def wild_line(count: int, starts: int, durations: int, seed: int) -> bytes:
    """Events at few times and of few lengths, so that many are equal; some have no start."""
    draw = random.Random(seed)
    events = [
        event("e", draw.randrange(-starts, starts), draw.randrange(durations))
        if draw.randrange(50)
        else aggregated("a", 1)
        for _ in range(count)
    ]
    return xspace(plane("p", [line("l", events)]))


def slowly_sorted(keys: np.ndarray) -> np.ndarray:
    order = sorted(range(len(keys)), key=lambda i: tuple(keys[i][n] for n in ("start", "reversed_duration", "offset")))
    return keys[order]


@pytest.mark.parametrize(
    ("count", "starts", "durations"), [(4000, 2000, 5), (4000, 3, 2), (4000, 1, 1), (9000, 10**12, 10**9)]
)
def test_spilled_runs_merge_to_the_order_in_memory(count: int, starts: int, durations: int) -> None:
    """Whatever the size of segments and runs; a run is read back a thousand keys at a time."""
    data = wild_line(count, starts, durations, seed=count + starts)
    (wanted,) = Keys(data, 1 << 30).ordered(count)
    assert len(wanted) == count and np.array_equal(wanted, slowly_sorted(wanted[np.argsort(wanted["offset"])]))
    for segment_bytes, run_events in ((1, 100), (50, 1), (4000, 1500), (20_000, 2000), (1, count - 1), (1 << 30, 7)):
        keys = Keys(data, segment_bytes)
        assert (len(keys.segments) > 1) == (segment_bytes < 1 << 30)
        merged = keys.ordered(run_events)
        assert np.array_equal(np.concatenate(merged), wanted), (segment_bytes, run_events)
        assert all(len(part) for part in merged)


def test_what_is_merged_comes_in_parts() -> None:
    """Not as one array, which would be the whole line in memory."""
    keys = Keys(wild_line(12_000, 10**9, 9, seed=3), 2000)
    merged = keys.ordered(3000)
    assert len(merged) >= 3 and max(map(len, merged)) < 8000
    assert sum(map(len, merged)) == 12_000


def test_only_long_lines_are_spilled(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, real = [], tempfile.TemporaryFile

    def counted() -> Any:
        opened.append(1)
        return real()

    monkeypatch.setattr(tempfile, "TemporaryFile", counted)
    keys = Keys(wild_line(100, 50, 5, seed=4), 10)
    assert len(keys.ordered(100)) == 1 and opened == []
    keys.ordered(99)
    assert opened == [1]


def test_a_long_line_is_sorted_as_it_is_cut(tmp_path: Path) -> None:
    """A file whose line has several segments, by its real size."""
    order = list(range(40_000))
    random.Random(5).shuffle(order)
    path = tmp_path / "vm.xplane.pb"
    path.write_bytes(xspace(plane("p", [line("l", [event(f"e{i % 7}", i // 2, i % 2) for i in order])])))
    profile = fastprof.load(path)
    events = profile.events
    (part,) = profile.table_set.session.index.captures
    assert len(part.known.segments) > 1
    assert events["start_ps"].to_pylist() == [i // 2 for i in range(40_000)]
    assert events["duration_ps"].to_pylist() == [1, 0] * 20_000
    assert events["name"].to_pylist() == [f"e{i}" for pair in range(20_000) for i in ((2 * pair + 1) % 7, 2 * pair % 7)]
