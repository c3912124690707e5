"""Which iterator requested the work of another: across threads, by the elements of buffers and by contexts.

An asynchronous iterator fills its buffer on a thread of its own. There, ``…Produce`` encloses what made an element; on
the thread of whoever asked, ``…Consume`` lies in the iterator that hands the element on. Both name the element.
"""

from __future__ import annotations

import numpy as np

from fastprof.derive.pipelines.host_lines import CONSUME, PRODUCE, HostLines
from fastprof.derive.pipelines.iterator_events import IteratorEvents, is_integer
from fastprof.derive.steps.links import Ends, contexts, numbered
from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.schema.value_classes import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Askers:
    """``parent``: by iterator event, the one that asked for its element; -1: none, or unknown. ``produce_rows``:
    ascending rows of Produce events in which something was made, with the iterator event that took it, -1: none, and
    the first iterator event that was made, which has its parent."""

    parent: Int32s
    produce_rows: Int32s
    taker: Int32s
    made: Int32s


def askers(lines: HostLines, events: IteratorEvents, owner: Int32s) -> Askers:
    """``owner``: the nearest identified iterator event at or above each row; one more at the end, for row -1.

    Each event has one asker: the iterator that its own lies in, else the one that took the element, else the one that
    made the context in which it ran. Who calls a pipeline is no iterator."""
    asks = (events.origins.is_identified & ~events.origins.is_root)[events.origin]
    outer = lines.parent[lines.iterator_rows]
    parent = np.where(asks, owner[outer], -1).astype(np.int32)
    lost = np.flatnonzero(asks & (parent < 0) & (outer >= 0)).astype(np.int32)
    produce = lines.nearest_of(PRODUCE)[outer[lost]] if len(lost) else lost
    made, under = lost[produce >= 0], produce[produce >= 0]
    taker = _takers(lines, events, owner, made, under)
    parent[made] = taker
    _by_context(lines, owner, np.flatnonzero(asks & (parent < 0)), parent)
    order = np.argsort(under, kind="stable")
    first = np.append(True, under[order[1:]] != under[order[:-1]])[: len(order)]
    once = order[first]
    return Askers(parent, under[once], taker[once], made[once])


def _takers(lines: HostLines, events: IteratorEvents, owner: Int32s, made: Int32s, under: Int32s) -> Int32s:
    """For events made below Produce events, by their numbers: the iterator event that took the element, -1: none."""
    taker = np.full(len(made), -1, np.int32)
    takes = lines.having(CONSUME)
    taken_kind, taken = lines.beside("element_id", takes)
    by = owner[lines.parent[takes]]
    known = is_integer(taken_kind) & (by >= 0)
    makes = lines.having(PRODUCE)
    made_kind, element = lines.beside("element_id", makes)
    place = np.searchsorted(makes, under)
    asked_kind = events.origins.parent_kind[events.origin[made]]
    asks = np.flatnonzero(is_integer(made_kind[place]) & is_integer(asked_kind))
    if not known.any() or not len(asks):
        return taker
    takes, taken, by = takes[known], taken[known], by[known]
    asked = events.origins.parent_id[events.origin[made[asks]]]
    asking = events.origins.iterator_id[events.origin[by]]
    wanted, offered = element[place[asks]], lines.start_ps[under[asks]]
    best = _next_of_key((asking, taken), lines.start_ps[takes], (asked, wanted), offered)
    taker[asks] = np.where(best >= 0, by[best], -1)
    return taker


def _next_of_key(keys: tuple[Int64s, Int64s], times: Int64s, wanted: tuple[Int64s, Int64s], since: Int64s) -> Int64s:
    """For each wanted key the place of the first of that key at or after a time, else of its last; -1: none."""
    both, _ = numbered([np.concatenate(pair) for pair in zip(keys, wanted, strict=True)])
    own, asked = both[: len(times)], both[len(times) :]
    order = np.lexsort((times, own))
    # Both ordered by key, then time, wanted ones first: what follows is the first at or after them.
    key = np.concatenate([asked, own[order]])
    time = np.concatenate([since, times[order]])
    merged = np.lexsort((np.arange(len(key)) >= len(asked), time, key))
    is_own = merged >= len(asked)
    upto = np.cumsum(is_own)
    place = np.empty(len(asked), np.int64)
    place[merged[~is_own]] = upto[~is_own]  # those before: the number of the next
    first, last = np.searchsorted(own[order], asked), np.searchsorted(own[order], asked, side="right")
    chosen = np.minimum(place, last - 1)
    return np.where(last > first, order[chosen], -1)


def _by_context(lines: HostLines, owner: Int32s, lost: Int64s, parent: Int32s) -> None:
    """Sets the parents of lost events within consumers of a context that an iterator made: of several iterators the
    last one that began before, else the first."""
    rows = lines.rows[lines.iterator_rows[lost]]
    may_take = lines.all_stat("_c").rows
    if not len(may_take) or not (_is_among(rows, may_take) | (lines.all_parents[rows] >= 0)).any():
        return
    takes = _in_plane(lines, contexts(lines.events, "_ct", "_c"))
    nearest = lines.all_nearest(takes.rows)[rows]
    lost, nearest = lost[nearest >= 0], nearest[nearest >= 0]
    makes = _in_plane(lines, contexts(lines.events, "_pt", "_p"))
    maker = owner[lines.all_numbers[makes.rows]]
    known = maker >= 0
    makes = makes.where(known)
    if not len(makes.rows) or not len(lost):
        return
    number, _ = numbered([np.concatenate(pair) for pair in zip(makes.keys, takes.keys, strict=True)])
    given, asked = number[: len(makes.rows)], number[len(makes.rows) :][np.searchsorted(takes.rows, nearest)]
    best = _last_before(given, lines.all_starts[makes.rows], asked, lines.all_starts[nearest])
    lost, best = lost[best >= 0], best[best >= 0]
    giver = maker[known][best]
    parent[lost] = np.where(giver == lost, -1, giver)


def _is_among(rows: Int32s, known: Int32s) -> Bools:
    """Which of the rows are among others, which ascend."""
    return np.asarray(known[np.minimum(np.searchsorted(known, rows), len(known) - 1)] == rows)


def _in_plane(lines: HostLines, ends: Ends) -> Ends:
    """Those of the plane, by its rows."""
    here = (ends.rows >= lines.first) & (ends.rows < lines.first + len(lines.all_roles))
    ends = ends.where(here)
    return Ends(ends.rows - np.int32(lines.first), ends.keys)


def _last_before(key: Int32s, time: Int64s, asked: Int32s, before: Int64s) -> Int64s:
    """For each wanted key the place of its last at or before a time, else of its first; -1: none."""
    none, nothing = np.zeros_like(time), np.zeros_like(before)
    return _next_of_key((key.astype(np.int64), none), ~time, (asked.astype(np.int64), nothing), ~before)
