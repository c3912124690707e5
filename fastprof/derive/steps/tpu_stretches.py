"""What cores of TPUs do in stretches of time that are no steps, by category of step time."""

from __future__ import annotations

from functools import partial

import numpy as np

from fastprof._native.communication_kernels import innermost_stretches
from fastprof.decode.nesting import line_rows
from fastprof.decode.workers import Workers
from fastprof.derive.devices.device_events import OpEvents, op_events
from fastprof.derive.steps.step_figures import place_of
from fastprof.derive.steps.step_time import OFF_DUTY, OWN_CATEGORIES
from fastprof.derive.steps.stretches import STRETCH, Stretches, filled
from fastprof.derive.steps.tpu_steps import FEEDS, op_categories, ops_of
from fastprof.schema.array_types import Bools, Int64s, Records, UInt8s
from fastprof.tables.host_events import HostEvents


def times_within(events: HostEvents, devices: list[str | None], stretches: Stretches, workers: Workers) -> Int64s:
    """[c, 10] time of the ops of cores, called ``devices``, within the stretches, by category of step time. An op
    counts where it is the innermost of its line."""
    planes = {plane.name: plane for plane in events.planes if plane.kind in ("TPU", "SPARSECORE")}
    cores = [planes[name] for name in devices if name is not None]
    ops = workers.run(None, [partial(op_events, events, plane) for plane in cores])
    category, names = op_categories(events, ops)
    is_op = ops_of(events)
    place = np.array([*map(place_of, names), -1], np.int64)
    waits = np.array([name in OFF_DUTY and name not in FEEDS for name in names] + [False], np.bool_)
    times = np.zeros((len(cores), len(OWN_CATEGORIES)), np.int64)
    for at, (plane, found) in enumerate(zip(cores, ops, strict=True)):
        of = category[found.meta]
        counts = is_op[found.meta] & (of >= 0)
        if plane.kind == "SPARSECORE":
            counts &= ~waits[of]
        pieces = _innermost(found, counts)
        inside = filled(stretches, pieces["begin"], pieces["end"] - pieces["begin"])
        np.add.at(times[at], place[of[pieces["row"]]], inside)
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
