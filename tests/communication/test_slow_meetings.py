"""Which collectives are one meeting, and what it was, against a slow search among random ones."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from fastprof.derive.communication.meetings import MeetingBlock, Occurrences, match_occurrences

Row = tuple[int, int, int, int, int, int, int, int, bool]
"""host, device, op, team, step, begin, end, duration, blocks"""


def random_rows(rng: np.random.Generator) -> list[Row]:
    """By host, op, step and device; those of no step are last."""
    rows: list[Row] = []
    hosts, devices = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    for host in range(hosts):
        for op in range(2):
            for step in (0, 1, -1):
                for device in range(host * devices, (host + 1) * devices):
                    count, begin = int(rng.integers(0, 4)), int(rng.integers(0, 4))
                    for _ in range(count):
                        took = int(rng.integers(0, 9))
                        team = 0 if op else device % 2
                        end = begin + took + int(rng.integers(0, 2))
                        rows.append((host, device, op, team, step, begin, end, took, bool(rng.random() < 0.9)))
                        begin += int(rng.integers(6, 12))
    return [row for row in rows if row[4] >= 0] + sorted(
        (row for row in rows if row[4] < 0), key=lambda row: (row[0], row[2], row[1])
    )


def slow_meetings(rows: list[Row]) -> tuple[dict[Any, list[Row]], int]:
    """By series and number, who met; and how many have the number of others, but were not at the same time."""
    runs = defaultdict(list)
    for row in rows:
        runs[row[1], row[2], row[4]].append(row)
    series: dict[Any, list[list[tuple[int, Row]]]] = defaultdict(lambda: [[], []])
    for run in runs.values():
        for place, row in enumerate(run):
            own = series[row[2], row[3], row[4], row[0] if row[4] < 0 else -1]
            own[0].append((place, row))
            own[1].append((place - len(run), row))
    met: dict[Any, list[Row]] = {}
    apart = 0
    for key, ways in series.items():
        found = []
        for numbered in ways:
            groups = defaultdict(list)
            for number, row in numbered:
                groups[number].append(row)
            several = {number: group for number, group in groups.items() if len(group) > 1}
            found.append(({number: group for number, group in several.items() if together(group)}, several))
        met_by = [sum(map(len, good.values())) for good, _ in found]
        good, several = found[1] if met_by[1] > met_by[0] else found[0]
        met |= {(*key, number): group for number, group in good.items()}
        apart += sum(map(len, several.values())) - sum(map(len, good.values()))
    return met, apart


def together(group: list[Row]) -> bool:
    return all(
        max(row[5] for row in group if row[0] == host) <= min(row[6] for row in group if row[0] == host)
        for host in {row[0] for row in group}
    )


def slow_block(group: list[Row]) -> tuple[int, ...]:
    """Hosts, devices, shortest and longest, first and last device, skew and waiting."""
    hosts, shortest = {row[0] for row in group}, min(row[7] for row in group)
    first, last = min(row[5] for row in group), max(row[5] for row in group)
    blocks, alone = all(row[8] for row in group), len(hosts) == 1
    fastest = min(row[1] for row in group if row[7] == shortest)
    return (
        len(hosts), len(group), shortest, max(row[7] for row in group),
        min(row[1] for row in group if row[5] == first) if alone else -1,
        min(row[1] for row in group if row[5] == last) if alone else fastest if blocks else -1,
        last - first if alone else -1,
        sum(row[7] - shortest for row in group) if blocks else -1,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_meetings_are_those_of_a_slow_search(seed: int) -> None:
    rng = np.random.default_rng(seed)
    meetings = 0
    for _ in range(60):
        rows = random_rows(rng)
        if not rows:
            continue
        kinds = ("i4", "i4", "i4", "i4", "i8", "i8", "i8", "i8", "?")
        columns = [np.array(column, kind) for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
        found = match_occurrences(Occurrences(*columns, np.zeros(0, np.int64)))
        expected, apart = slow_meetings(rows)
        assert found.apart == apart
        block = MeetingBlock(found)
        names = ("host_count", "device_count", "shortest_ps", "longest_ps", "first", "last", "skew_ps", "wait_ps")
        seen = list(zip(*(getattr(block, name).tolist() for name in names), strict=True))
        host = np.where(block.step < 0, found.rows.host[found.first], -1)
        keys = zip(*(column.tolist() for column in (block.op, block.team, block.step, host, block.number)), strict=True)
        assert dict(zip(keys, seen, strict=True)) == {key: slow_block(group) for key, group in expected.items()}
        several = sum(len({row[0] for row in group}) for group in expected.values() if len({r[0] for r in group}) > 1)
        assert len(block.of_hosts.meeting) == several
        meetings += len(expected)
    assert meetings > 100
