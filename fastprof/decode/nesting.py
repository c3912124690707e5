"""The table nesting: depth, parent and self time of every event, line by line."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof._native import records
from fastprof._native.kernels import bitmap_of_codes, nesting_lines
from fastprof.decode.workers import Workers, group_sizes
from fastprof.schema.columns import Bools, Int64s, Records
from fastprof.schema.tables import mark_nulls

ASYNC_STAT = "_a"
"""Events with this stat, not zero, run beside their line: they neither enclose others nor lie in them."""

NESTS, APART, TIMELESS = range(3)
_TASK_EVENTS = 1 << 18


def get_int64s(column: pa.ChunkedArray | pa.Array) -> Int64s:
    """Return the values of an int64 column; where it is null they are what the decoder left, zero."""
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    values: Int64s = np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + len(column)]
    return values


def find_placement(start: pa.Array, asynchronous: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.uint8] | None:
    """Return how events take part in nesting, by their start column and a mask of asynchronous events (None: there are
    none)."""
    if not start.null_count and asynchronous is None:
        return None
    places = np.zeros(len(start), np.uint8)
    if asynchronous is not None:
        places[asynchronous] = APART
    if start.null_count:
        places[mark_nulls(start)] = TIMELESS
    return places


def number_lines(counts: Int64s, event_ids: Int64s) -> Records:
    """Lines that follow each other in a table: their numbers of events, and the id of each one's first."""
    lines = np.zeros(len(counts), records.LINE_ROWS)
    lines["last"] = np.cumsum(counts)
    lines["first"] = lines["last"] - counts
    lines["event_id"] = event_ids
    return lines


def nest_events(
    start: Int64s,
    duration: Int64s,
    places: npt.NDArray[np.uint8] | None,
    lines: Records,
    workers: Workers,
    slack_ps: Int64s | int = 0,
) -> tuple[npt.NDArray[np.int32], Int64s, Int64s]:
    """Return depth, parent_id (-1 if there is none) and self time of the events of complete lines. ``slack_ps`` is by
    line."""
    count = len(start)
    depth, parent, self_time = np.zeros(count, np.int32), np.full(count, -1, np.int64), np.zeros(count, np.int64)
    slacks = np.broadcast_to(slack_ps, len(lines))
    tasks = []
    for slack in np.unique(slacks).tolist():
        alike = lines[slacks == slack]
        for first, last in group_sizes((alike["last"] - alike["first"]).tolist(), _TASK_EVENTS):
            few = np.ascontiguousarray(alike[first:last])
            tasks.append(partial(nesting_lines, start, duration, places, few, depth, parent, self_time, slack))
    workers.run("nesting", tasks)
    return depth, parent, self_time


def nest_line(start: Int64s, duration: Int64s) -> tuple[Int64s, Int64s]:
    """Return the depth of each event of a line, and the row of the innermost event around it, or -1. Events are in
    order of time, longer first."""
    n = len(start)
    depth, parent, self_time = np.zeros(n, np.int32), np.full(n, -1, np.int64), np.zeros(n, np.int64)
    line = number_lines(np.array([n]), np.zeros(1, np.int64))
    nesting_lines(start, duration, None, line, depth, parent, self_time)
    return depth.astype(np.int64), parent


def make_nesting_arrays(
    event_id: pa.Array,
    depth: npt.NDArray[np.int32],
    parent: Int64s,
    self_time: Int64s,
    places: npt.NDArray[np.uint8] | None,
) -> list[pa.Array]:
    """Return the columns of the table; of timeless events only the id is known."""
    timeless = None if places is None or not (places == TIMELESS).any() else places == TIMELESS
    return [
        event_id,
        _mask_values(depth, timeless),
        _mask_values(parent, parent < 0 if timeless is None else (parent < 0) | timeless),
        _mask_values(self_time, timeless),
    ]


def _mask_values(values: npt.NDArray[Any], nulls: Bools | None) -> pa.Array:
    validity, valid = (None, len(values)) if nulls is None else bitmap_of_codes(nulls.view(np.uint8), 1 << 0)
    buffers = [None if validity is None else pa.py_buffer(validity), pa.py_buffer(values)]
    return pa.Array.from_buffers(
        pa.from_numpy_dtype(values.dtype), len(values), buffers, null_count=len(values) - valid
    )
