"""TPU core time between step extents, by op category."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from fastprof._native.communication_kernels import innermost_stretches
from fastprof.decode.nesting import line_rows
from fastprof.decode.workers import Workers
from fastprof.derive.devices.device_events import OpEvents, op_events
from fastprof.derive.steps.database import StepDatabase
from fastprof.derive.steps.host_reasons import meetings
from fastprof.derive.steps.step_time import OFF_DUTY, Markers, TypedEvents
from fastprof.derive.steps.stretches import STRETCH
from fastprof.derive.steps.tpu_steps import FEEDS, op_categories, ops_of
from fastprof.schema.array_types import Bools, Int64s, Records, UInt8s
from fastprof.schema.time_sums import ends_of
from fastprof.tables.host_events import HostEvents


def times_in_spans(events: HostEvents, database: StepDatabase, spans: Sequence[Markers], workers: Workers) -> Int64s:
    """Return [n, c, k] the time of the ops of each core in spans of its own time, by category of the database. The
    group of a span is the row of its step. An op counts where it is the innermost of its line. ``spans``: by core."""
    times = np.zeros_like(database.category_ps)
    planes = {plane.name: plane for plane in events.planes if plane.kind in ("TPU", "SPARSECORE")}
    some = [core for core, own in enumerate(spans) if len(own) and database.cores.device[core] in planes]
    cores = [planes[str(database.cores.device[core])] for core in some]
    ops = workers.run(None, [partial(op_events, events, plane) for plane in cores])
    category, names = op_categories(events, ops)
    is_op = ops_of(events)
    known = {name: place for place, name in enumerate(database.categories)}
    column = np.array([*(known.get(name, -1) for name in names), -1], np.int64)
    waits = np.array([name in OFF_DUTY and name not in FEEDS for name in names] + [False], np.bool_)
    counted = is_op & (category >= 0) & (column[category] >= 0)
    for core, plane, found in zip(some, cores, ops, strict=True):
        own = spans[core]
        begin, end = own.start_ps, ends_of(own.start_ps, own.duration_ps)
        near = _meeting(found, begin, end)
        of = category[found.meta[near]]
        counts = counted[found.meta[near]]
        if plane.kind == "SPARSECORE":
            counts &= ~waits[of]
        if not counts.any():
            continue
        pieces = _innermost(found, near, counts)
        none, type_ = np.full(len(pieces), -1, np.int32), np.zeros(len(pieces), np.uint8)
        spanned = replace(own, group=np.arange(len(own), dtype=np.int32))
        met, place = meetings(TypedEvents(none, type_, pieces["begin"], pieces["end"] - pieces["begin"]), spanned)
        until = np.minimum(ends_of(met.start_ps, met.duration_ps), end[met.group])
        inside = np.maximum(until - np.maximum(met.start_ps, begin[met.group]), 0)
        np.add.at(times[:, core], (own.group[met.group], column[of[pieces["row"][place]]]), inside)
    return times


def _meeting(ops: OpEvents, begin: Int64s, end: Int64s) -> Int64s:
    """Return the places of the ops that overlap one of some spans, which are disjoint and in order."""
    at = np.searchsorted(end, ops.start_ps, side="right")
    found: Int64s = np.flatnonzero(np.append(begin, np.iinfo(np.int64).max)[at] < ops.start_ps + ops.duration_ps)
    return found


def _innermost(ops: OpEvents, near: Int64s, counts: Bools) -> Records:
    """Return as STRETCH when an op that ``counts`` is the innermost of the ops ``near`` on its line; ``row``: its place
    among these."""
    line = np.searchsorted(ops.lines["last"], near, side="right")
    start, duration = ops.start_ps[near], ops.duration_ps[near]
    order = np.lexsort((-duration, start, line))
    marks: UInt8s = np.where(counts[order], 2, 0).astype(np.uint8)
    sizes = np.bincount(line, minlength=len(ops.lines)).astype(np.int64)
    lines = line_rows(sizes, np.cumsum(sizes) - sizes)
    _, found = innermost_stretches(start[order], duration[order], marks, lines)
    pieces = np.frombuffer(found, STRETCH).copy()
    pieces["row"] = order[pieces["row"]]
    return pieces
