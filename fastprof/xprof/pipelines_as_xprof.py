"""The pipelines of a host as XProf's tool read them, which was last in TensorFlow 2.14.

It takes ids that were recorded as anything but int64 as 0, so that iterators whose ids are uint64 are one. It follows
every path from a call to the events right below it, to the takers of its contexts and to what was made for it: what
several paths lead to counts several times. It goes no deeper than 100 levels.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from fastprof._native import records
from fastprof._native.kernels import rank_order
from fastprof._native.pipeline_kernels import pipeline_paths
from fastprof.derive.pipelines.call_walk import calls_of, pipelines_of, records_of
from fastprof.derive.pipelines.iterator_events import IteratorEvents, Origins
from fastprof.derive.pipelines.iterator_kinds import ASYNCHRONOUS, short_name
from fastprof.derive.pipelines.iterators import KeptPipelines
from fastprof.derive.pipelines.reading import (
    GENERATOR,
    ITERATOR,
    Iterators,
    Reading,
    Segments,
    SelfParts,
    Tree,
)
from fastprof.derive.pipelines.xprof_links import XprofLinks, as_xprof_reads
from fastprof.derive.steps.links import first_of, numbered
from fastprof.errors import CaptureError
from fastprof.schema.array_types import Bools, Int32s, Int64s

MOST_VISITS = 50_000_000


def as_in_xprof(kept: KeptPipelines, most_visits: int = MOST_VISITS) -> Reading:
    """Calls are in the order of ranks; iterators in the order of their first event, generators after all others. Raises
    CaptureError where paths have more than ``most_visits`` steps."""
    events, origins = kept.events, kept.events.origins
    iterators, of_origin, is_device = _iterators(origins)
    known = of_origin[events.origin[kept.roots]] >= 0
    roots, groups = kept.roots[known], kept.root_groups[known]
    iterator = of_origin[events.origin]
    pipelines, pipeline = pipelines_of(iterator[roots], is_device)
    order = _ranked(events.duration_ps[roots], pipeline, len(pipelines))
    roots, pipeline, groups = roots[order].astype(np.int32), pipeline[order], groups[order]
    is_named = origins.is_named[events.origin]
    parent = np.where(is_named, events.parent, -1).astype(np.int32)
    links = _links(kept.links, events, is_named)
    columns = (events.start_ps, events.duration_ps, parent, iterator)
    packed = pipeline_paths(columns, len(iterators), links, roots, most_visits)
    if packed is None:
        raise CaptureError(
            f"XProf's walk of the input pipelines of {kept.host} would take more than {most_visits:,} steps: events "
            "are linked in so many ways that it cannot be followed"
        )
    found = records_of(packed)
    calls = calls_of(pipeline, events.start_ps[roots], events.duration_ps[roots], groups, found)
    return Reading(iterators, pipelines, calls, found, *_nothing())


def _nothing() -> tuple[Tree, Segments, SelfParts]:
    i4, i8 = np.empty(0, np.int32), np.empty(0, np.int64)
    return Tree(i4, i4, i4, i4), Segments(i4, i4, i8, i8), SelfParts(i4, i4, np.empty(0, np.uint8), i8)


def _iterators(origins: Origins) -> tuple[Iterators, Int32s, Bools]:
    """The iterators, the number of that of each origin, -1: it has no id, and which of them devices call."""
    ids, parents = (
        as_xprof_reads(kind, value)
        for kind, value in ((origins.id_kind, origins.iterator_id), (origins.parent_kind, origins.parent_id))
    )
    known = np.flatnonzero(origins.id_kind != records.NONE)
    known = known[np.argsort(origins.is_generator[known], kind="stable")]
    of_origin = np.full(len(origins), -1, np.int32)
    of_origin[known], count = numbered([ids[known]])
    first = known[first_of(of_origin[known], count)]
    has_parent = origins.parent_kind[first] != records.NONE
    kind = np.where(origins.is_generator[first], GENERATOR, ITERATOR).astype(np.uint8)
    asks = parents[first][(kind == GENERATOR) & has_parent]
    long_names = np.array(origins.names, object)[origins.name[first]]
    names = [short_name(name) for name in long_names.tolist()]
    none = np.zeros(count, np.int64)
    found = Iterators(
        ids[first], np.zeros(count, np.bool_), np.where(has_parent, parents[first], 0), has_parent, names,
        long_names.tolist(), np.array([name in ASYNCHRONOUS for name in names], np.bool_), kind, none, none, none, none,
    )  # fmt: skip
    return found, of_origin, np.isin(found.iterator_id, asks)


def _ranked(duration_ps: Int64s, pipeline: Int32s, count: int) -> Int64s:
    """Calls by pipeline, then as the tool ranks them: its sort is not stable, so equal ones are not in order."""
    order = np.argsort(pipeline, kind="stable").astype(np.int32)
    bounds = np.searchsorted(pipeline[order], np.arange(count + 1)).tolist()
    for first, last in pairwise(bounds):
        rank_order(duration_ps, order[first:last])
    return order.astype(np.int64)


Places = npt.NDArray[np.uint32]


def _links(kept: XprofLinks, events: IteratorEvents, is_named: Bools) -> tuple[Places, Places, Int32s, Int32s]:
    """Where each event leads beyond its line, as csrc/kernels/pipeline_paths.h has it: contexts before elements."""
    origins = events.origins
    asked = origins.parent_id[events.origin[kept.product]]
    asked = as_xprof_reads(origins.parent_kind[events.origin[kept.product]], asked)
    has_id = origins.id_kind[events.origin[kept.consumer]] != records.NONE
    consumer, consumed = kept.consumer[has_id], kept.consumed[has_id]
    asking = origins.iterator_id[events.origin[consumer]]
    asking = as_xprof_reads(origins.id_kind[events.origin[consumer]], asking)
    keys = ((asked, asking), (kept.produced, consumed))
    key, count = numbered([np.concatenate(pair) for pair in keys])
    made, taken = key[: len(asked)] + kept.context_count, key[len(asked) :] + kept.context_count
    asks, link = _by_number(np.concatenate([kept.maker, consumer]), np.concatenate([kept.made, taken]), len(events))
    given = np.concatenate([kept.taken, made]), np.concatenate([kept.taker, kept.product])
    keep = is_named[given[1]]
    gives, rows = _by_number(given[0][keep], given[1][keep], kept.context_count + count)
    return asks, gives, link, rows


def _by_number(number: Int32s, value: Int32s, count: int) -> tuple[Places, Int32s]:
    """Values by number, in their order, and where those of each number begin."""
    order = np.argsort(number, kind="stable")
    first = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(number, minlength=count))])
    return first.astype(np.uint32), np.ascontiguousarray(value[order], np.int32)
