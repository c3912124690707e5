"""Picked stats of many segments, told apart by name in threads: as one look at all of them after the other."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from fastprof import host_events
from fastprof._native import records
from fastprof._native.grouping import count_picks, split_picks
from fastprof.decode import Picks
from fastprof.workers import Workers

Told = dict[str, list[tuple[int, int, int]]]


class Segment:
    """What is picked of a segment."""

    def __init__(self, picks: npt.NDArray[np.void]) -> None:
        self.found = picks

    def picks(self) -> memoryview:
        return memoryview(self.found.tobytes())


def by_name(segments: list[npt.NDArray[np.void]], names: list[str], threads: int) -> Told:
    picks = Picks([Segment(one) for one in segments], [None] * len(segments), 1 << 40)  # type: ignore[misc]
    found = host_events._by_name(picks, names, Workers(threads))
    columns = {name: (stat.rows.tolist(), stat.kind.tolist(), stat.value.tolist()) for name, stat in found.items()}
    return {name: list(zip(*column, strict=True)) for name, column in columns.items()}


def drawn(rng: np.random.Generator, stats: int) -> list[npt.NDArray[np.void]]:
    """A few segments whose events have some stats several times."""
    segments, row = [], 0
    for _ in range(int(rng.integers(0, 6))):
        one = np.zeros(int(rng.integers(0, 30)), records.PICK)
        steps = rng.integers(0, 3, len(one)) // 2
        one["row"] = row + 1 + np.cumsum(steps)
        one["stat"], one["kind"] = rng.integers(0, stats, len(one)), rng.integers(1, 4, len(one))
        one["value"] = rng.integers(-(1 << 62), 1 << 62, len(one))
        row = int(one["row"].max(initial=row))
        segments.append(one)
    return segments


def test_of_several_of_one_event_the_first_is_kept_however_the_work_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    for _ in range(200):
        names = [f"stat{i}" for i in range(int(rng.integers(1, 5)))]
        segments = drawn(rng, len(names))
        expected: Told = {name: [] for name in names}
        for one in segments:
            for row, stat, kind, _, value in one.tolist():
                told = expected[names[stat]]
                if not told or told[-1][0] != row:
                    told.append((row, kind, value))
        monkeypatch.setattr(host_events, "_TASK_PICKS", int(rng.integers(1, 40)))
        assert by_name(segments, names, int(rng.integers(1, 4))) == expected


def test_columns_that_are_too_short_are_refused() -> None:
    picks = np.zeros(3, records.PICK).tobytes()
    counts = count_picks(picks, 1)
    assert np.frombuffer(counts, np.int64).tolist() == [3]
    first = np.zeros(1, np.int64)

    def split(rows: int, kinds: int, values: int, begin: npt.NDArray[np.int64] = first) -> None:
        split_picks(picks, None, 0, begin, counts, np.zeros(rows, np.int32), bytearray(kinds), np.zeros(values))

    split(3, 3, 3)
    for sizes in ((2, 3, 3), (3, 2, 3), (3, 3, 2)):
        with pytest.raises(ValueError, match="columns"):
            split(*sizes)
    for begin in (-1, 1):
        with pytest.raises(ValueError, match="columns are shorter"):
            split(3, 3, 3, np.array([begin]))
    with pytest.raises(ValueError, match="a count for each stat"):
        split(3, 3, 3, np.zeros(2, np.int64))
