"""The pipelines of a host as XProf's tool read them, which was last in TensorFlow 2.14.

The tool reads ids that were not recorded as int64 as 0, so that iterators whose ids are uint64 are one. It follows
every path from a call to the events right below it, to the takers of its contexts and to events that were made for it.
Events that several paths lead to count several times. It goes no deeper than 100 levels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import numpy as np

from fastprof._native import records
from fastprof._native.kernels import rank_order
from fastprof._native.pipeline_kernels import pipeline_paths
from fastprof.analyses import tf_data
from fastprof.analyses.contract import AnalysisReport, Keeper
from fastprof.decode.workers import Workers
from fastprof.derive.host import Host
from fastprof.derive.pipelines.iterator_events import (
    CONSUME,
    ITERATES,
    PRODUCE,
    HostLines,
    IteratorEvents,
    Origins,
    is_integer,
    read_iterator_events,
)
from fastprof.derive.pipelines.iterators import find_calls
from fastprof.derive.pipelines.recorded_pipelines import (
    GENERATOR,
    ITERATOR,
    InputPipelines,
    IteratorRecords,
    Iterators,
    list_pipelines,
    shorten_iterator_name,
    unpack_records,
)
from fastprof.derive.steps.event_graph import CROWD
from fastprof.errors import CaptureError
from fastprof.schema.columns import (
    Bools,
    Int32s,
    Int64s,
    UInt8s,
    UInt32s,
    count_bounds,
    find_first_rows,
    find_group_bounds,
    number_keys,
    number_values,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents

MOST_VISITS = 50_000_000
SOME_RECORDS = 1 << 17
"""Number of call records that are in memory at once, unless the last call has more."""

_BUFFERS = ("Prefetch", "ParallelInterleave", "ParallelMap", "MapAndBatch", "ParseExample", "ParallelBatch")
"""Buffers whose events XProf knows, in the order in which it goes through them."""
_ASYNCHRONOUS = {
    "Prefetch", "ParallelInterleave", "ParallelMap", "ParseExample", "MapAndBatch", "DataService",
    "LegacyParallelInterleave", "ParallelBatch",
}  # fmt: skip
"""Iterators that work ahead on threads of their own, by their exact names."""


@dataclass(frozen=True, slots=True, eq=False)
class _Ends:
    """Events that make contexts, or run in them, and the number of the context of each. ``node``: number of the
    iterator event, or that of the buffer event plus the number of iterator events, or -1 for another event."""

    node: Int32s
    context: Int32s

    def of_iterators(self, count: int) -> _Ends:
        keep = (self.node >= 0) & (self.node < count)
        return _Ends(self.node[keep], self.context[keep])

    def of_buffers(self, links: ThreadLinks, count: int) -> Int32s:
        """Return the context of each buffer event, or -1."""
        numbers = np.full(len(links.name), -1, np.int32)
        buffers = self.node >= count
        numbers[self.node[buffers] - count] = self.context[buffers]
        return numbers

    def first_nodes(self, context_count: int, count: int) -> Int32s:
        """Return the first node of each context if that is an iterator event, else -1; one more is for context -1."""
        events = np.full(context_count + 1, -1, np.int32)
        events[self.context[::-1]] = np.where(self.node < count, self.node, -1)[::-1]  # the last assignment stays
        events[-1] = -1
        return events


@dataclass(frozen=True, slots=True, eq=False)
class ThreadLinks:
    """Links of iterator events to events of other threads: through the elements of buffers, a row for each event that
    puts one in or takes one out, and through contexts.

    ``name``: place in ``names``; ``kind``, ``element``: how the element's id was recorded, and its value; ``around``:
    the iterator event right around, or -1 if there is no event around, -2 if it is another event; ``inside``: the first
    iterator event right inside, or -1. ``makes`` and ``takes``: the ends of contexts that some event makes and some
    event takes, except for crowds on both sides; empty if no iterator or buffer event runs in a context."""

    is_produce: Bools
    name: Int32s
    names: list[str]
    kind: UInt8s
    element: Int64s
    around: Int32s
    inside: Int32s
    makes: _Ends
    takes: _Ends
    context_count: int


@dataclass(frozen=True, slots=True, eq=False)
class IteratorLinks:
    """Source of XProf's reading of a host. ``recorded_host``: its name in the capture; ``roots``: the events that are
    calls, in the order of the capture; ``root_groups``: the group of each, or -1."""

    host: str
    recorded_host: str | None
    events: IteratorEvents
    links: ThreadLinks
    roots: Int64s
    root_groups: Int32s


def record_links(
    events: HostEvents, workers: Workers, group_id: Int32s | None = None, wanted: Bools | None = None
) -> IteratorLinks:
    """Read the links. ``group_id``: by row of the events, or None if none has a group; ``wanted``: which rows may be
    calls, or None for all."""
    lines = HostLines(events, workers)
    iterator_events = read_iterator_events(lines, kept=True)
    roots, rows = find_calls(lines, iterator_events, wanted)
    groups = np.full(len(rows), -1, np.int32) if group_id is None else group_id[rows]
    name = events.capture.hostnames[0] if events.capture.hostnames else None
    return IteratorLinks(events.host, name, iterator_events, find_thread_links(lines), roots, groups)


def find_thread_links(lines: HostLines) -> ThreadLinks:
    rows = lines.having(PRODUCE | CONSUME)
    kind, element = lines.beside("element_id", rows)
    metas, name = number_values(lines.meta[rows])
    outer = lines.around[rows]
    around = np.where(outer == -1, -1, np.where(lines.number[np.maximum(outer, -1)] < 0, -2, lines.number[outer]))
    inside = np.full(len(lines) + 1, -1, np.int32)  # the last for -1
    iterators = lines.iterator_rows
    inside[np.maximum(lines.around[iterators], -1)[::-1]] = lines.number[iterators][::-1]  # the last assignment stays
    node = lines.number.copy()
    node[rows] = len(iterators) + np.arange(len(rows), dtype=np.int32)
    in_contexts = len(lines.all_having(ITERATES | CONSUME, "_c")) > 0
    pairs = [_list_context_ends(lines, node, *stats, in_contexts) for stats in (("_pt", "_p"), ("_ct", "_c"))]
    return ThreadLinks(
        (lines.roles[rows] & PRODUCE) != 0, name.astype(np.int32),
        [lines.events.names[meta] for meta in metas.tolist()],
        kind, element, around.astype(np.int32), inside[rows], *_match_contexts(*pairs),
    )  # fmt: skip


def _list_context_ends(
    lines: HostLines, node: Int32s, type_: str, number: str, wanted: bool
) -> tuple[Int32s, Int64s, Int64s]:
    """List the events of the plane that have both stats: their nodes, and types and ids of contexts as XProf reads
    them. ``node``: by kept row, and one more for -1."""
    ids, types = lines.all_stat(number), lines.all_stat(type_)
    _, at, beside = np.intersect1d(ids.rows, types.rows, assume_unique=True, return_indices=True)
    at, beside = (at, beside) if wanted else (at[:0], beside[:0])
    type_value = _cut_ids(types.kind[beside], types.value[beside] & 0xFFFFFFFF)
    id_value = np.where(is_integer(ids.kind[at]), ids.value[at], 0)
    return node[lines.kept(ids.rows[at])], type_value, id_value


def _match_contexts(
    made: tuple[Int32s, Int64s, Int64s], taken: tuple[Int32s, Int64s, Int64s]
) -> tuple[_Ends, _Ends, int]:
    """Return the ends of contexts, see ThreadLinks, and the number of these contexts."""
    count = len(made[0])
    link, contexts = number_keys([np.concatenate(pair) for pair in zip(made[1:], taken[1:], strict=True)])
    makes, takes = (np.bincount(part, minlength=contexts) for part in (link[:count], link[count:]))
    wanted = (makes > 0) & (takes > 0) & ((makes < CROWD) | (takes < CROWD))
    place = (np.cumsum(wanted) - 1).astype(np.int32)
    making, taking = (
        _Ends(nodes[wanted[own]], place[own[wanted[own]]])
        for nodes, own in ((made[0], link[:count]), (taken[0], link[count:]))
    )
    return making, taking, int(wanted.sum())


def _get_links(host: Host, _params: Mapping[str, Any]) -> IteratorLinks:
    if not tf_data.has_iterators(host.raw):
        return record_links(host.raw, host.workers)
    return record_links(host.entire.raw, host.workers, host.entire.groups.group_id, tf_data.find_chosen_calls(host))


_NAME: Final = "iterator events"
KEEPS: Final = {_NAME: Keeper(tf_data.READS, _get_links)}


def get_recorded(report: AnalysisReport) -> Sequence[IteratorLinks]:
    """Return the links of the hosts of the report tf_data, which its page needs."""
    recorded: Sequence[IteratorLinks] = report.kept[_NAME]
    return recorded


@dataclass(frozen=True, slots=True, eq=False)
class XprofReading:
    """XProf's reading of a host. Calls are in the order of ranks; iterators in the order of their first event,
    generators after all others. ``roots``: the event of each call. ``events``, ``links``: graph that the walk of the
    calls follows, as in csrc/kernels/pipeline_paths.h."""

    host: str
    iterators: Iterators
    pipelines: InputPipelines
    roots: Int32s
    duration_ps: Int64s
    group_id: Int32s
    events: tuple[Int64s, Int64s, Int32s, Int32s]
    links: tuple[UInt32s, UInt32s, Int32s, Int32s]

    def records(self, first: int = 0, last: int | None = None, some: int = SOME_RECORDS) -> Iterator[IteratorRecords]:
        """Yield what calls ``first`` to ``last`` reach, call by call: whole calls, about ``some`` records at a time,
        because a chain of thousands of iterators has a hundred for each. CaptureError: the paths have more than
        MOST_VISITS steps."""
        last, left, count = len(self.roots) if last is None else last, MOST_VISITS, len(self.iterators)
        while first < last:
            walked = pipeline_paths(self.events, count, self.links, self.roots[first:last], left, some)
            if walked is None:
                raise CaptureError(
                    f"XProf's walk of the input pipelines of {self.host} would take more than {MOST_VISITS:,} steps: "
                    "events have too many links to follow"
                )
            packed, calls, left = walked
            records = unpack_records(packed)
            yield replace(records, call=records.call + np.int32(first))
            first += calls


def read_as_xprof(kept: IteratorLinks) -> XprofReading:
    events, origins = kept.events, kept.events.origins
    iterators, of_origin, is_device = _list_iterators(origins)
    known = of_origin[events.origin[kept.roots]] >= 0
    roots, groups = kept.roots[known], kept.root_groups[known]
    iterator = of_origin[events.origin]
    pipelines, pipeline = list_pipelines(iterator[roots], is_device)
    order = _rank_calls(events.duration_ps[roots], pipeline, len(pipelines))
    roots, groups = roots[order], groups[order]
    is_named = origins.is_named[events.origin]
    parent = np.where(is_named, events.parent, -1).astype(np.int32)
    links = _join_links(kept.links, events, is_named)
    columns = (events.start_ps, events.duration_ps, parent, iterator)
    durations = events.duration_ps[roots]
    return XprofReading(kept.host, iterators, pipelines, roots.astype(np.int32), durations, groups, columns, links)


def _list_iterators(origins: Origins) -> tuple[Iterators, Int32s, Bools]:
    """List the iterators; return also the number of each origin's iterator, or -1 if it has no id, and which iterators
    devices call."""
    ids, parents = (
        _cut_ids(kind, value)
        for kind, value in ((origins.id_kind, origins.iterator_id), (origins.parent_kind, origins.parent_id))
    )
    known = np.flatnonzero(origins.id_kind != records.NONE)
    known = known[np.argsort(origins.is_generator[known], kind="stable")]
    of_origin = np.full(len(origins), -1, np.int32)
    of_origin[known], count = number_keys([ids[known]])
    first = known[find_first_rows(of_origin[known], count)]
    has_parent = origins.parent_kind[first] != records.NONE
    kind = np.where(origins.is_generator[first], GENERATOR, ITERATOR).astype(np.uint8)
    asks = parents[first][(kind == GENERATOR) & has_parent]
    long_names = np.array(origins.names, object)[origins.name[first]]
    names = [shorten_iterator_name(name) for name in long_names.tolist()]
    none = np.zeros(count, np.int64)
    ahead = np.array([name in _ASYNCHRONOUS for name in names], np.bool_)
    iterators = Iterators(
        ids[first], np.zeros(count, np.bool_), np.where(has_parent, parents[first], 0), has_parent, names,
        long_names.tolist(), ahead, kind, none, none, none, none,
    )  # fmt: skip
    return iterators, of_origin, np.isin(iterators.iterator_id, asks)


def _rank_calls(duration_ps: Int64s, pipeline: Int32s, count: int) -> Int64s:
    """Sort calls by pipeline, then as the tool ranks them. Its sort is not stable, so equal ones are not in order."""
    order = np.argsort(pipeline, kind="stable").astype(np.int32)
    bounds = find_group_bounds(pipeline[order], count).tolist()
    for first, last in pairwise(bounds):
        rank_order(duration_ps, order[first:last])
    return order.astype(np.int64)


def _cut_ids(kind: UInt8s, value: Int64s) -> Int64s:
    return np.where(kind == records.INT64, value, 0)


def _join_links(links: ThreadLinks, events: IteratorEvents, is_named: Bools) -> tuple[UInt32s, UInt32s, Int32s, Int32s]:
    """Join the links that lead each event beyond its line, as in csrc/kernels/pipeline_paths.h: contexts before
    elements."""
    makes, takes, context_count = links.makes, links.takes, links.context_count
    product, produced = _find_products(links, makes, takes, context_count, len(events))
    consumer, consumed = _find_consumers(links, makes, takes, context_count, len(events))
    origins = events.origins
    parent_kind = origins.parent_kind[events.origin[product]]
    known = parent_kind != records.NONE
    product, produced = product[known], produced[known]
    asked = _cut_ids(parent_kind[known], origins.parent_id[events.origin[product]])
    id_kind = origins.id_kind[events.origin[consumer]]
    known = id_kind != records.NONE
    consumer, consumed = consumer[known], consumed[known]
    asking = _cut_ids(id_kind[known], origins.iterator_id[events.origin[consumer]])
    keys = ((asked, asking), (produced, consumed))
    key, count = number_keys([np.concatenate(pair) for pair in keys])
    made, taken = key[: len(asked)] + context_count, key[len(asked) :] + context_count
    making, taking = (ends.of_iterators(len(events)) for ends in (makes, takes))
    number = np.concatenate([making.node, consumer]), np.concatenate([making.context, taken])
    asks, link = _sort_by_number(number[0], number[1], len(events))
    given = np.concatenate([taking.context, made]), np.concatenate([taking.node, product])
    keep = is_named[given[1]]
    gives, rows = _sort_by_number(given[0][keep], given[1][keep], context_count + count)
    return asks, gives, link, rows


def _find_products(links: ThreadLinks, makes: _Ends, takes: _Ends, contexts: int, count: int) -> tuple[Int32s, Int64s]:
    """Return the first iterator event that each element put into a buffer leads to, and the element's id."""
    rows = _list_known_buffers(links, produce=True)
    taker = takes.of_iterators(count).first_nodes(contexts, count)[makes.of_buffers(links, count)[rows]]
    first = np.where(links.inside[rows] < 0, taker, links.inside[rows])
    keep = (links.kind[rows] != records.NONE) & (first >= 0)
    return first[keep], _cut_ids(links.kind[rows], links.element[rows])[keep]


def _find_consumers(links: ThreadLinks, makes: _Ends, takes: _Ends, contexts: int, count: int) -> tuple[Int32s, Int64s]:
    """Return the iterator event around each event that takes an element, or that made its context, and the element's
    id."""
    rows = _list_known_buffers(links, produce=False)
    maker = makes.first_nodes(contexts, count)[takes.of_buffers(links, count)[rows]]
    by = np.where(links.around[rows] == -1, maker, links.around[rows])
    keep = (links.kind[rows] != records.NONE) & (by >= 0)
    return by[keep], _cut_ids(links.kind[rows], links.element[rows])[keep]


def _list_known_buffers(links: ThreadLinks, *, produce: bool) -> Int32s:
    """List buffer events whose names XProf knows, in the order in which it goes through them: buffer by buffer."""
    buffers = [name.removesuffix("Produce").removesuffix("Consume") for name in links.names]
    places = [_BUFFERS.index(buffer) if buffer in _BUFFERS else -1 for buffer in buffers]
    place = np.array(places, np.int64)[links.name]
    known = np.flatnonzero((place >= 0) & (links.is_produce == produce))
    return known[np.argsort(place[known], kind="stable")].astype(np.int32)


def _sort_by_number(number: Int32s, value: Int32s, count: int) -> tuple[UInt32s, Int32s]:
    """Sort values by number, keeping their order, and return where those of each number begin."""
    order = np.argsort(number, kind="stable")
    first = count_bounds(np.bincount(number, minlength=count))
    return first.astype(np.uint32), np.ascontiguousarray(value[order], np.int32)
