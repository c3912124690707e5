"""The hits of a search as a list, in parts."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from served import Served, written
from trace_builder import Event, event, line, plane, xspace

from fastprof.viewer import snapshot
from fastprof.viewer.snapshot import ORDERS, _FirstHits


def threads(*lines: list[Event]) -> bytes:
    return xspace(plane("/host:CPU", [line(f"thread {n}", events, id=n) for n, events in enumerate(lines, 1)]))


@pytest.fixture
def served(tmp_path: Path) -> Served:
    """Three hosts of three threads, some of whose events overlap or are equal."""
    draw = random.Random(5)
    names = ["hit one", "hit two", "miss"]
    captures = [
        threads(*([event(draw.choice(names), draw.randrange(60), draw.randrange(9)) for _ in range(30)] for _ in "abc"))
        for _ in "abc"
    ]
    found = Served(written(tmp_path, *captures, names=["h0", "h1", "h2"]))
    found.timeline()
    return found


def listed(served: Served, part: int = 1000, **asked: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    while True:
        answer = served.get("/api/search/hits", q="hit", first=len(rows), rows=part, **asked)
        assert answer["first"] == len(rows)
        rows += answer["rows"]
        if len(rows) == answer["listed"]:
            assert answer["events"] == served.get("/api/search", q="hit")["events"] == len(rows)
            return rows


def place(row: dict[str, Any]) -> tuple[str, int]:
    return row["host"], row["at"]


def test_all_hits_are_listed_in_order_of_time_as_the_search_goes(served: Served) -> None:
    rows = listed(served)
    assert [int(row["start_ps"]) for row in rows] == sorted(int(row["start_ps"]) for row in rows)
    assert {row["name"] for row in rows} == {"hit one", "hit two"}
    found: list[tuple[str, int]] = []
    asked: dict[str, Any] = {"q": "hit"}
    while hit := served.get("/api/search/next", **asked)["hit"]:
        found.append(place(hit))
        asked |= {"from_ps": hit["start_ps"], "track": hit["track"], "lane": hit["lane"]}
    assert [place(row) for row in rows] == found


def test_a_list_in_parts_is_the_same_list(served: Served) -> None:
    for order in ORDERS:
        assert listed(served, part=7, order=order, down=1) == listed(served, order=order, down=1)


def test_hits_are_listed_by_duration_or_by_track_either_way(served: Served) -> None:
    up, down = (listed(served, order="duration", down=down) for down in (0, 1))
    durations = [int(row["duration_ps"]) for row in up]
    assert durations == sorted(durations) == [int(row["duration_ps"]) for row in down][::-1]
    tracks = listed(served, order="track")
    assert [place(row) for row in tracks] == sorted(place(row) for row in tracks)
    assert sorted(map(place, up)) == sorted(map(place, tracks))


def test_a_list_of_very_many_hits_has_the_first_ones(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    every = listed(served, order="duration", down=1)
    monkeypatch.setattr(snapshot, "MOST_HITS", 10)
    answer = served.get("/api/search/hits", q="hi", order="duration", down=1)
    assert (answer["events"], answer["listed"]) == (len(every), 10)
    assert answer["rows"] == every[:10]


def test_the_first_rows_are_kept_in_bounded_memory() -> None:
    """Never more than twice as many as are wanted, and a part."""
    draw = np.random.default_rng(7)
    kept, keys = _FirstHits(100), draw.integers(0, 50, 20_000).astype(np.uint64)
    most = 0
    for first in range(0, len(keys), 64):
        rows = np.arange(first, min(first + 64, len(keys)))
        kept.add(keys[rows], np.zeros(len(rows), np.int64), rows)
        most = max(most, len(kept._rows[0]))
    assert most <= 2 * 100 + 64
    host, at = kept.sorted()
    assert at.tolist() == np.lexsort((np.arange(len(keys)), keys))[:100].tolist()
    assert (kept.total, len(host)) == (len(keys), 100)


def test_lists_that_make_no_sense_are_refused(served: Served) -> None:
    assert served.refused("/api/search/hits")[0] == 400
    assert served.refused("/api/search/hits", q="x", order="name") == (
        400, "order is one of start, duration, track, not 'name'",
    )  # fmt: skip
    assert served.refused("/api/search/hits", q="x", rows=0)[0] == 400
    assert served.get("/api/search/hits", q="nothing") == {"events": 0, "listed": 0, "first": 0, "rows": []}
