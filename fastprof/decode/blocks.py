"""The events of a selection as blocks of rows, in table order: what one thread fills at a time; sorted where the file
is not."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import IO

import numpy as np
import numpy.typing as npt

from fastprof._native import records
from fastprof._native.xspace import Filter, Memory, Picks, Sink, XSpace
from fastprof.decode.index import CaptureIndex, Index, KnownEvents, find_unsorted_lines
from fastprof.decode.selection import Wanted
from fastprof.decode.text_pools import MergedTexts
from fastprof.decode.workers import group_sizes
from fastprof.schema.columns import Int32s, Int64s, Records
from fastprof.schema.value_classes import dataclass

RUN_EVENTS = 1 << 20


def sort_keys(
    part: CaptureIndex, segments: Records, wanted: Filter | None, run_events: int = RUN_EVENTS
) -> Iterator[Records]:
    """Yield the keys of all events of a line's segments, sorted, in arrays of at most about ``run_events``."""
    if int(segments["event_count"].sum()) <= run_events:
        yield _sort_in_place(part, _read_keys(part, segments, wanted))
        return
    import tempfile

    with tempfile.TemporaryFile() as spill:
        lengths = _write_runs(part, segments, wanted, run_events, spill)
        yield from _merge_runs(part, spill, lengths, max(1024, run_events // len(lengths)))


def find_key(part: CaptureIndex, segments: Records, place: int) -> Records:
    """Return the key that ``sort_keys`` has at a place, found in the time of reading the line, without sorting it."""
    segments = segments[np.argsort(segments["offset"], kind="stable")]
    known: dict[str, int] = {}

    def alike() -> Iterator[Records]:
        """Yield the keys of each segment that match what is known of the wanted key."""
        for i in range(len(segments)):
            keys = _read_keys(part, segments[i : i + 1], None)
            for column, value in known.items():
                keys = keys[keys[column] == value]
            yield keys

    for column in ("start", "reversed_duration"):
        values = [keys[column].copy() for keys in alike()]
        known[column] = int(np.partition(np.concatenate(values), place)[place])
        place -= sum(int((column_values < known[column]).sum()) for column_values in values)
        segments = segments[[bool((column_values == known[column]).any()) for column_values in values]]
    for keys in alike():
        if place < len(keys):
            return np.ascontiguousarray(keys[np.argsort(keys["offset"], kind="stable")][place : place + 1])
        place -= len(keys)
    raise IndexError("no event at this place of the line")


def _read_keys(part: CaptureIndex, segments: Records, wanted: Filter | None) -> Records:
    """Return the keys of segments, concatenated."""
    ends = np.cumsum(segments["event_count"]).tolist()
    keys = np.empty(ends[-1], records.EVENT_KEY)
    for i, (begin, end) in enumerate(pairwise([0, *ends])):
        segment = np.ascontiguousarray(segments[i : i + 1])
        part.capture.xspace.event_keys(part.pieces, segment, keys[begin:end], wanted)
    return keys


def _sort_in_place(part: CaptureIndex, keys: Records) -> Records:
    """Sort keys in place; equal events stay in the order of the file."""
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
            run = _sort_in_place(part, _read_keys(part, segments[first : i + 1], wanted))
            spill.write(run.view(np.uint8).data)
            lengths.append(count)
            first, count = i + 1, 0
    return lengths


class _SortedRun:
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
        """Take what does not come after the bound; None: all."""
        count = len(self.head) if bound is None else bisect_right(self.head, bound, key=_get_rank)
        taken, self.head = self.head[:count], self.head[count:]
        self.fill()
        return taken


def _get_rank(key: Records) -> tuple[int, int, int]:
    return int(key["start"]), int(key["reversed_duration"]), int(key["offset"])


def _merge_runs(part: CaptureIndex, spill: IO[bytes], lengths: list[int], block: int) -> Iterator[Records]:
    """Merge all runs into one order: each round takes what precedes the first block end, from every run."""
    starts = np.cumsum([0, *lengths[:-1]]).tolist()
    runs = [_SortedRun(spill, start, length, block) for start, length in zip(starts, lengths, strict=True)]
    while True:
        runs = [run for run in runs if not run.finished]
        if not runs:
            return
        ends = [_get_rank(run.head[-1]) for run in runs if run.more_to_come]
        bound = min(ends) if ends else None
        yield _sort_in_place(part, np.concatenate([run.take_through(bound) for run in runs]))


BLOCK_BYTES = 4 << 20
BLOCK_SEGMENTS = 4096
BLOCK_KEYS = 1 << 16


@dataclass(frozen=True, slots=True)
class Block:
    """Rows that lie together: whole segments in the order of the file, or events by their keys.

    ``rows`` and ``stats`` count what the filter keeps.
    """

    capture: int
    rows: int
    stats: int
    own_texts: bool
    segments: Records | None = None
    keys: Records | None = None
    event_ids: Int64s | None = None

    @property
    def events(self) -> int:
        """The events that it was made from, where that is known: those it keeps may be fewer."""
        return self.rows if self.segments is None else int(self.segments["event_count"].sum())

    def fill(self, part: CaptureIndex, xspace: XSpace, sink: Sink, row: int, stat_row: int) -> None:
        """Fill the sink's columns from ``row`` and ``stat_row`` on. ``xspace``: the view of the capture whose stats the
        sink's tables know."""
        pieces = part.pieces
        part.capture.source.check_unchanged()
        if self.keys is not None and self.event_ids is not None:
            xspace.fill_keys(pieces, self.keys, self.event_ids, row, stat_row, stat_row + self.stats, sink)
            return
        assert self.segments is not None
        segments = self.segments.copy()
        for name in ("row", "row_end"):
            segments[name] += row
        for name in ("stat_row", "stat_row_end"):
            segments[name] += stat_row
        xspace.fill(pieces, segments, sink)


def make_blocks(
    wanted: Wanted, known: Sequence[KnownEvents], filters: Sequence[Filter | None], stats: bool
) -> Iterator[Block]:
    """Yield the blocks of all wanted events, lazily. ``known``: what is known of each capture, indexed deep enough."""
    index, pieces = wanted.index, wanted.pieces()
    for number in wanted.captures():
        part, segments = index.captures[number], known[number].segments
        if pieces is not None:
            segments = segments[pieces[number][segments["piece"]]]
        out_of_order = find_unsorted_lines(part.pieces, known[number].segments)
        segments = _drop_outside_time(part, segments, out_of_order, wanted.selection.window(part.capture.host))
        if not len(segments):
            continue
        line = part.pieces["line_id"][segments["piece"]]
        unsorted = np.isin(line, out_of_order)
        cuts = np.flatnonzero((unsorted[1:] != unsorted[:-1]) | (unsorted[1:] & (line[1:] != line[:-1]))) + 1
        runs = list(zip(np.split(segments, cuts), unsorted[[0, *cuts]].tolist(), strict=True))
        orders = _sort_lines(index, part, [run for run, is_unsorted in runs if is_unsorted], filters[number])
        for run, is_unsorted in runs:
            if is_unsorted:
                yield from _make_sorted_blocks(index, number, run, next(orders))
            else:
                yield from _make_straight_blocks(number, part, run, filters[number], stats)


def _drop_outside_time(
    part: CaptureIndex, segments: Records, out_of_order: Int64s, time_ps: tuple[int, int] | None
) -> Records:
    """Leave out segments that surely have no event in the interval. Lines out of order are kept whole: their event ids
    come from all of their events."""
    if time_ps is None or not len(segments):
        return segments
    base = part.pieces["base_ps"][segments["piece"]].astype(np.float64)
    slack = 1 << 12  # floats are near enough to leave out what is far away
    misses = base + segments["min_start"] >= float(time_ps[1]) + slack
    latest = np.maximum(segments["max_start"], segments["max_end"])  # durations may be negative
    misses |= base + latest < float(time_ps[0]) - slack
    line = part.pieces["line_id"][segments["piece"]]
    kept: Records = segments[~misses | np.isin(line, out_of_order)]
    return kept


def _make_straight_blocks(
    number: int, part: CaptureIndex, segments: Records, wanted: Filter | None, stats: bool
) -> Iterator[Block]:
    sizes = np.maximum((segments["end"] - segments["offset"]).astype(np.int64), BLOCK_BYTES // BLOCK_SEGMENTS)
    for first, last in group_sizes(sizes.tolist(), BLOCK_BYTES):
        share = segments[first:last].copy()
        share["kept_events"], share["kept_stats"] = share["event_count"], share["stat_count"]
        if wanted is not None:
            part.capture.xspace.count_kept(part.pieces, share, wanted, stats)
        share["row_end"] = np.cumsum(share["kept_events"])
        share["row"] = share["row_end"] - share["kept_events"]
        share["stat_row_end"] = np.cumsum(share["kept_stats"])
        share["stat_row"] = share["stat_row_end"] - share["kept_stats"]
        rows = int(share["row_end"][-1])
        if rows:
            texts = bool(share["text_count"].any())
            yield Block(number, rows, int(share["stat_row_end"][-1]), texts, segments=share)


def _sort_lines(
    index: Index, part: CaptureIndex, lines: Sequence[Records], wanted: Filter | None
) -> Iterator[Iterator[Records]]:
    """Yield the sorted keys of each line. Lines are sorted in parallel, as long as together they are no longer than a
    long line."""
    counts = [int(segments["event_count"].sum()) for segments in lines]
    for first, last in group_sizes(counts, RUN_EVENTS):
        orders = [sort_keys(part, segments, wanted) for segments in lines[first:last]]
        if len(orders) > 1:
            orders = list(map(iter, index.workers.run(None, [partial(list, order) for order in orders])))
        yield from orders


def _make_sorted_blocks(index: Index, number: int, segments: Records, order: Iterator[Records]) -> Iterator[Block]:
    part = index.captures[number]
    line = int(part.pieces["line_id"][segments["piece"][0]])
    event_id = int(index.headers["first_event_id"][line])
    texts = bool(segments["text_count"].any())
    for keys in order:
        ids = np.arange(event_id, event_id + len(keys), dtype=np.int64)
        event_id += len(keys)
        kept = (keys["flags"] & records.KEPT) != 0
        if not kept.all():
            keys, ids = np.ascontiguousarray(keys[kept]), ids[kept]
        for at in range(0, len(keys), BLOCK_KEYS):
            some = slice(at, at + BLOCK_KEYS)
            counts = (len(ids[some]), int(keys["stat_count"][some].sum()))
            yield Block(number, *counts, texts, keys=keys[some], event_ids=ids[some])


Columns = tuple[Int32s, npt.NDArray[np.uint8], Int64s]
"""Rows, ascending, each once; what the values are; the values."""


@dataclass(slots=True)
class _Chunk:
    columns: Columns
    count: int = 0

    @property
    def room(self) -> int:
        return len(self.columns[0]) - self.count

    def written(self) -> Columns:
        """Return the columns without their unwritten end, whose memory goes back to the system."""
        for column in self.columns:
            column.resize(self.count, refcheck=False)
        return self.columns


class PickedStats:
    """``stat_count`` stats of ``rows`` events; each block adds some."""

    def __init__(self, stat_count: int, rows: int, texts: MergedTexts) -> None:
        self.own_numbers: list[Int32s | None] = []
        """Numbers, among all texts, of the texts of each block."""
        self._stat_count = stat_count
        self._to_come = rows
        self._texts = texts
        self._chunks: list[list[_Chunk]] = [[] for _ in range(stat_count)]
        self._waiting: dict[int, tuple[int, Sink]] = {}
        self._unused: list[Picks] = []
        self._lock = threading.Lock()

    def unused(self, memory: Memory) -> Picks:
        """Columns for a block to write into."""
        with self._lock:
            for i, picks in enumerate(self._unused):
                if picks.memory is memory:
                    return self._unused.pop(i)
        return Picks(memory, self._stat_count)

    def add(self, number: int, rows: int, sink: Sink) -> None:
        """Take the picks of block ``number``, which has ``rows`` events; blocks may come in any order."""
        places = []
        with self._lock:
            self._waiting[number] = (rows, sink)
            while (following := len(self.own_numbers)) in self._waiting:
                places.append(self._place(*self._waiting.pop(following)))
        for picks, own_numbers, chunks in places:
            for stat, (columns, at) in chunks.items():
                picks.copy(stat, at, *columns, own_numbers, self._texts.base)
            picks.clear()
            with self._lock:
                self._unused.append(picks)

    def _place(self, rows: int, sink: Sink) -> tuple[Picks, Int32s | None, dict[int, tuple[Columns, int]]]:
        """Place the picks of the next block: return them, the numbers of their own texts, and columns and row by
        stat."""
        assert sink.picks is not None
        self._to_come -= rows
        self.own_numbers.append(self._texts.add(sink))
        places = {}
        for stat, count in enumerate(sink.picks.counts()):
            if not count:
                continue
            chunks = self._chunks[stat]
            if not chunks or chunks[-1].room < count:
                # Leave room for the stats to come, if these events are similar.
                likely = min(self._to_come, self._to_come * count * 9 // (rows * 8))
                try:
                    chunk = _Chunk(_make_empty(count + likely))
                except MemoryError:
                    chunk = _Chunk(_make_empty(count))
                chunks.append(chunk)
            places[stat] = (chunks[-1].columns, chunks[-1].count)
            chunks[-1].count += count
        return sink.picks, self.own_numbers[-1], places

    def columns(self) -> list[Columns]:
        """Return all values by stat, once all blocks are there."""
        assert not self._waiting
        return [_join_chunks(chunks) for chunks in self._chunks]


def _make_empty(count: int) -> Columns:
    return np.empty(count, np.int32), np.empty(count, np.uint8), np.empty(count, np.int64)


def _join_chunks(chunks: list[_Chunk]) -> Columns:
    parts = [chunk.written() for chunk in chunks] or [_make_empty(0)]
    if len(parts) == 1:
        return parts[0]
    rows, kinds, values = zip(*parts, strict=True)
    return np.concatenate(rows), np.concatenate(kinds), np.concatenate(values)
