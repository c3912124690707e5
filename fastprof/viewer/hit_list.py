"""The hits of a search as a list: in order of time, duration or track.

The list is sorted once for a search and kept. Of more than ``MOST`` hits it has the first ones, so that its memory is
bounded however many there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof.schema.array_types import Bools, Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.viewer.snapshot import SeenHost

START, DURATION, TRACK = "start", "duration", "track"
ORDERS: Final = (START, DURATION, TRACK)
MOST: Final = 1 << 20
"""The most hits that a list has."""

Keys = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class HitList:
    """``host``, ``at``: the hits in order. ``total``: how many there are; these are the first."""

    host: Int64s
    at: Int64s
    total: int

    def __len__(self) -> int:
        return len(self.at)


def hit_list(hosts: Sequence[SeenHost], wanted: Mapping[int, Bools], order: str, down: bool) -> HitList:
    """The hits of these hosts by the numbers of the hosts: the first ``MOST`` of them. Equal ones are in the order of
    host, track, lane and start, whether ``down`` or not."""
    kept = _First(MOST)
    for host in hosts:
        for at, start, duration in host.store.named(wanted[host.number]):
            key = _keys(host, order, start, duration)
            kept.add(~key if down else key, np.full(len(at), host.number, np.int64), at)
    host_number, at = kept.sorted()
    return HitList(host_number, at, kept.total)


def _keys(host: SeenHost, order: str, start: Int64s, duration: Int64s) -> Keys:
    """Numbers in the order that is wanted. Times of a session are from 0 to 2**64."""
    if order == START:
        return start.view(np.uint64) + np.uint64(host.shift_ps % 2**64)
    if order == DURATION:
        return duration.view(np.uint64) ^ np.uint64(2**63)
    return np.zeros(len(start), np.uint64)


class _First:
    """Keeps the first ``most`` of the rows that it gets; never more than twice as many and a part at once."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.total = 0
        self._rows: tuple[npt.NDArray[Any], ...] = (
            np.zeros(0, np.uint64),
            np.zeros(0, np.int64),
            np.zeros(0, np.int64),
        )
        self._last: np.uint64 | None = None

    def add(self, key: Keys, host: Int64s, at: Int64s) -> None:
        self.total += len(key)
        part: tuple[npt.NDArray[Any], ...] = (key, host, at)
        if self._last is not None:
            part = tuple(column[key <= self._last] for column in part)
        self._rows = tuple(np.concatenate(pair) for pair in zip(self._rows, part, strict=True))
        if len(self._rows[0]) > 2 * self.most:
            self._cut()

    def _cut(self) -> None:
        order = np.lexsort(self._rows[::-1])[: self.most]
        self._rows = tuple(column[order] for column in self._rows)
        if len(order) == self.most:
            self._last = self._rows[0][-1]

    def sorted(self) -> tuple[Int64s, Int64s]:
        self._cut()
        return self._rows[1], self._rows[2]
