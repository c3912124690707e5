"""What TPU cores do between the extents of steps, by category of op."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from fastprof._native.communication_kernels import innermost_stretches
from fastprof.decode.nesting import line_rows
from fastprof.decode.workers import Workers
from fastprof.derive.devices.device_events import OpEvents, op_events
from fastprof.derive.steps.database import StepDatabase
from fastprof.derive.steps.host_reasons import meetings
from fastprof.derive.steps.step_time import OFF_DUTY, Markers, TypedEvents
from fastprof.derive.steps.stretches import STRETCH, filled, union
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
    for core, plane, found in zip(some, cores, ops, strict=True):
        of = category[found.meta]
        counts = is_op[found.meta] & (of >= 0) & (column[of] >= 0)
        if plane.kind == "SPARSECORE":
            counts &= ~waits[of]
        ends = ends_of(found.start_ps, found.duration_ps)
        near = filled(union(spans[core].start_ps, spans[core].duration_ps), found.start_ps, ends - found.start_ps) > 0
        if not (counts & near).any():
            continue
        pieces = _innermost(found, counts)
        none, type_ = np.full(len(pieces), -1, np.int32), np.zeros(len(pieces), np.uint8)
        met, place = meetings(TypedEvents(none, type_, pieces["begin"], pieces["end"] - pieces["begin"]), spans[core])
        begin, end = np.zeros((2, len(database)), np.int64)
        begin[spans[core].group] = spans[core].start_ps
        end[spans[core].group] = ends_of(spans[core].start_ps, spans[core].duration_ps)
        until = np.minimum(ends_of(met.start_ps, met.duration_ps), end[met.group])
        inside = np.maximum(until - np.maximum(met.start_ps, begin[met.group]), 0)
        np.add.at(times[:, core], (met.group, column[of[pieces["row"][place]]]), inside)
    return times


def _innermost(ops: OpEvents, counts: Bools) -> Records:
    """STRETCH: when an op that ``counts`` is the innermost of its line; ``row``: its place among the ops."""
    sizes = ops.lines["last"] - ops.lines["first"]
    line = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((-ops.duration_ps, ops.start_ps, line))
    marks: UInt8s = np.where(counts[order], 2, 0).astype(np.uint8)
    lines = line_rows(sizes, np.cumsum(sizes) - sizes)
    _, found = innermost_stretches(ops.start_ps[order], ops.duration_ps[order], marks, lines)
    pieces = np.frombuffer(found, STRETCH).copy()
    pieces["row"] = order[pieces["row"]]
    return pieces
