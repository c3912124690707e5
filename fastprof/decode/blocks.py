"""The events of a selection as blocks of rows, in the order of the table: what one thread fills at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from fastprof._native import records
from fastprof._native.xspace import Filter, Sink, XSpace
from fastprof.decode.event_order import RUN_EVENTS, ordered_keys
from fastprof.decode.index import CaptureIndex, Index, KnownEvents, unsorted_lines
from fastprof.decode.selection import Wanted
from fastprof.decode.workers import grouped
from fastprof.schema.array_types import Int64s, Records
from fastprof.schema.value_classes import dataclass

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
        """Fills the sink's columns from ``row`` and ``stat_row`` on. ``xspace``: the view of the capture whose stats
        the sink's tables know."""
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


def blocks(
    wanted: Wanted, known: Sequence[KnownEvents], filters: Sequence[Filter | None], stats: bool
) -> Iterator[Block]:
    """The blocks of all wanted events, lazily. ``known``: what is known of each capture, indexed deep enough."""
    index, pieces = wanted.index, wanted.pieces()
    for number in wanted.captures():
        part, segments = index.captures[number], known[number].segments
        if pieces is not None:
            segments = segments[pieces[number][segments["piece"]]]
        out_of_order = unsorted_lines(part.pieces, known[number].segments)
        segments = _in_time(part, segments, out_of_order, wanted.selection.window(part.capture.host))
        if not len(segments):
            continue
        line = part.pieces["line_id"][segments["piece"]]
        unsorted = np.isin(line, out_of_order)
        cuts = np.flatnonzero((unsorted[1:] != unsorted[:-1]) | (unsorted[1:] & (line[1:] != line[:-1]))) + 1
        runs = list(zip(np.split(segments, cuts), unsorted[[0, *cuts]].tolist(), strict=True))
        orders = _orders(index, part, [run for run, is_unsorted in runs if is_unsorted], filters[number])
        for run, is_unsorted in runs:
            if is_unsorted:
                yield from _by_keys(index, number, run, next(orders))
            else:
                yield from _straight(number, part, run, filters[number], stats)


def _in_time(part: CaptureIndex, segments: Records, out_of_order: Int64s, time_ps: tuple[int, int] | None) -> Records:
    """Leaves out segments that surely have no event in the interval. Lines out of order are kept whole: their event
    ids come from all of their events."""
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


def _straight(
    number: int, part: CaptureIndex, segments: Records, wanted: Filter | None, stats: bool
) -> Iterator[Block]:
    sizes = np.maximum((segments["end"] - segments["offset"]).astype(np.int64), BLOCK_BYTES // BLOCK_SEGMENTS)
    for first, last in grouped(sizes.tolist(), BLOCK_BYTES):
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


def _orders(
    index: Index, part: CaptureIndex, lines: Sequence[Records], wanted: Filter | None
) -> Iterator[Iterator[Records]]:
    """Of each line the keys in order. Lines are sorted side by side, as long as all are no more than a long one."""
    counts = [int(segments["event_count"].sum()) for segments in lines]
    for first, last in grouped(counts, RUN_EVENTS):
        orders = [ordered_keys(part, segments, wanted) for segments in lines[first:last]]
        if len(orders) > 1:
            orders = list(map(iter, index.workers.run(None, [partial(list, order) for order in orders])))
        yield from orders


def _by_keys(index: Index, number: int, segments: Records, order: Iterator[Records]) -> Iterator[Block]:
    part = index.captures[number]
    line = int(part.pieces["line_id"][segments["piece"][0]])
    event_id = int(index.lines["first_event_id"][line])
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
