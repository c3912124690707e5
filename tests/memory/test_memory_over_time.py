"""Memory over time: every snapshot is in a stretch, and no stretch hides a peak."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from allocator_calls import Call, alloc, capture, free, made_up

import fastprof
from fastprof.derive.memory.allocation_history import MOST_INTERVALS

COLUMNS = ("least_in_use_bytes", "most_in_use_bytes", "last_in_use_bytes")


def report_of(calls: Sequence[Call]) -> fastprof.Report:
    return fastprof.load(capture(calls)).memory_profile()


def test_few_snapshots_are_a_stretch_each() -> None:
    report = report_of([alloc(10, 1, 100, heap=100), free(30, 1, 100, heap=0)])
    assert report.tables["timeline"].select(["start_ps", "duration_ps", "snapshot_count", *COLUMNS]).to_pylist() == [
        {"start_ps": 10, "duration_ps": 0, "snapshot_count": 1} | dict.fromkeys(COLUMNS, 100),
        {"start_ps": 30, "duration_ps": 0, "snapshot_count": 1} | dict.fromkeys(COLUMNS, 0),
    ]


def test_many_snapshots_share_stretches_of_equal_time_and_keep_the_peak() -> None:
    calls = [alloc(place * 7, place + 1, 1, heap=5 if place == 3210 else 1) for place in range(5 * MOST_INTERVALS)]
    rows = report_of(calls).tables["timeline"].to_pylist()
    assert len(rows) == MOST_INTERVALS
    assert sum(row["snapshot_count"] for row in rows) == len(calls)
    assert {row["snapshot_count"] for row in rows} == {4, 5, 6} or {row["snapshot_count"] for row in rows} == {5}
    assert [row["most_ps"] for row in rows if row["most_in_use_bytes"] == 5] == [3210 * 7]
    assert all(row["start_ps"] // 7 == row["first_snapshot"] for row in rows)


@pytest.mark.parametrize("seed", range(8))
def test_stretches_are_those_of_the_snapshots(seed: int) -> None:
    chance = random.Random(seed)
    report = report_of(made_up(chance, 3 * MOST_INTERVALS if seed % 2 else 200))
    snapshots, timeline = report.tables["snapshots"].to_pylist(), report.tables["timeline"].to_pylist()
    seen = 0
    for row in timeline:
        assert row["first_snapshot"] == seen
        part = snapshots[seen : seen + row["snapshot_count"]]
        seen += len(part)
        assert {one["allocator"] for one in part} == {row["allocator"]}
        assert (part[0]["start_ps"], part[-1]["start_ps"]) == (row["start_ps"], row["start_ps"] + row["duration_ps"])
        known = [one["in_use_bytes"] for one in part if one["in_use_bytes"] is not None]
        assert row["least_in_use_bytes"] == min(known, default=None)
        assert row["most_in_use_bytes"] == max(known, default=None)
        assert row["last_in_use_bytes"] == part[-1]["in_use_bytes"]
        most = next((one for one in part if known and one["in_use_bytes"] == max(known)), part[0])
        for column in ("stack_bytes", "heap_bytes", "free_bytes", "fragmentation"):
            assert row[column] == most[column]
    assert seen == len(snapshots)


def test_times_of_all_64_bits_are_parted() -> None:
    times = np.linspace(0, 2**62, 3 * MOST_INTERVALS).astype(np.int64).tolist()
    rows = report_of([alloc(time, number + 1, 1, heap=1) for number, time in enumerate(times)]).tables["timeline"]
    assert sum(rows["snapshot_count"].to_pylist()) == len(times)
    assert rows.num_rows <= MOST_INTERVALS
