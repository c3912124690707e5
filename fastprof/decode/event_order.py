"""Events of a line in order of time, where the file has them otherwise.

Each event becomes a key: its start, its duration reversed, and where it lies. Keys are sorted in runs. One run
is sorted in memory; several go to a temporary file and are merged from there, so that a line of any length takes
the memory of a few runs.
"""

from __future__ import annotations

import tempfile
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import IO

import numpy as np

from fastprof._native import records
from fastprof._native.xspace import Filter
from fastprof.decode.index import CaptureIndex
from fastprof.schema.array_types import Records

RUN_EVENTS = 1 << 20


def ordered_keys(
    part: CaptureIndex, segments: Records, wanted: Filter | None, run_events: int = RUN_EVENTS
) -> Iterator[Records]:
    """The keys of all events of a line's segments, sorted, in arrays of at most about ``run_events``."""
    if int(segments["event_count"].sum()) <= run_events:
        yield _sorted(part, _read(part, segments, wanted))
        return
    with tempfile.TemporaryFile() as spill:
        lengths = _write_runs(part, segments, wanted, run_events, spill)
        yield from _merge(part, spill, lengths, max(1024, run_events // len(lengths)))


def key_in_order(part: CaptureIndex, segments: Records, place: int) -> Records:
    """The one key that ``ordered_keys`` has at a place, found in the time of reading the line, without sorting it."""
    segments = segments[np.argsort(segments["offset"], kind="stable")]
    known: dict[str, int] = {}

    def alike() -> Iterator[Records]:
        """By segment the keys that have what is known of the one."""
        for i in range(len(segments)):
            keys = _read(part, segments[i : i + 1], None)
            for column, value in known.items():
                keys = keys[keys[column] == value]
            yield keys

    for column in ("start", "reversed_duration"):
        values = [keys[column].copy() for keys in alike()]
        known[column] = int(np.partition(np.concatenate(values), place)[place])
        place -= sum(int((one < known[column]).sum()) for one in values)
        segments = segments[[bool((one == known[column]).any()) for one in values]]
    for keys in alike():
        if place < len(keys):
            return np.ascontiguousarray(keys[np.argsort(keys["offset"], kind="stable")][place : place + 1])
        place -= len(keys)
    raise IndexError("no event at this place of the line")


def _read(part: CaptureIndex, segments: Records, wanted: Filter | None) -> Records:
    """The keys of segments, one behind the other."""
    ends = np.cumsum(segments["event_count"]).tolist()
    keys = np.empty(ends[-1], records.EVENT_KEY)
    for i, (begin, end) in enumerate(pairwise([0, *ends])):
        segment = np.ascontiguousarray(segments[i : i + 1])
        part.capture.xspace.event_keys(part.pieces, segment, keys[begin:end], wanted)
    return keys


def _sorted(part: CaptureIndex, keys: Records) -> Records:
    """The same keys, sorted where they are; equal events stay in the order of the file."""
    part.capture.xspace.order_keys(keys)
    return keys


def _write_runs(
    part: CaptureIndex, segments: Records, wanted: Filter | None, run_events: int, spill: IO[bytes]
) -> list[int]:
    lengths: list[int] = []
    first = count = 0
    for i, events in enumerate(segments["event_count"].tolist()):
        count += events
        if count >= run_events or i == len(segments) - 1:
            run = _sorted(part, _read(part, segments[first : i + 1], wanted))
            spill.write(run.view(np.uint8).data)
            lengths.append(count)
            first, count = i + 1, 0
    return lengths


class _Run:
    """A sorted run in the temporary file, read a block at a time."""

    def __init__(self, spill: IO[bytes], first: int, length: int, block: int) -> None:
        self._spill, self._at, self._end, self._block = spill, first, first + length, block
        self.head = np.zeros(0, records.EVENT_KEY)
        self.fill()

    def fill(self) -> None:
        if len(self.head) or self._at == self._end:
            return
        count = min(self._block, self._end - self._at)
        self._spill.seek(self._at * records.EVENT_KEY.itemsize)
        self.head = np.frombuffer(self._spill.read(count * records.EVENT_KEY.itemsize), records.EVENT_KEY)
        self._at += count

    @property
    def finished(self) -> bool:
        return not len(self.head)

    @property
    def more_to_come(self) -> bool:
        return self._at < self._end

    def take_through(self, bound: tuple[int, int, int] | None) -> Records:
        """Takes what does not come after the bound; None: all."""
        count = len(self.head) if bound is None else bisect_right(self.head, bound, key=_rank)
        taken, self.head = self.head[:count], self.head[count:]
        self.fill()
        return taken


def _rank(key: Records) -> tuple[int, int, int]:
    return int(key["start"]), int(key["reversed_duration"]), int(key["offset"])


def _merge(part: CaptureIndex, spill: IO[bytes], lengths: list[int], block: int) -> Iterator[Records]:
    """All runs in one order: each round takes what precedes the first block end, from every run."""
    starts = np.cumsum([0, *lengths[:-1]]).tolist()
    runs = [_Run(spill, start, length, block) for start, length in zip(starts, lengths, strict=True)]
    while True:
        runs = [run for run in runs if not run.finished]
        if not runs:
            return
        ends = [_rank(run.head[-1]) for run in runs if run.more_to_come]
        bound = min(ends) if ends else None
        yield _sorted(part, np.concatenate([run.take_through(bound) for run in runs]))
