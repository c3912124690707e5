"""Events of one step by name, as HolisticTraceAnalysis counts them for its comparison of two traces."""

from __future__ import annotations

from typing import Final

import numpy as np

from fastprof.derive.host import Host
from fastprof.errors import UsageError
from fastprof.schema.columns import sum_by
from fastprof.tables.host_reader import read_host
from fastprof.tables.table_set import TableSet
from fastprof.wording.patterns import compile_late

DEVICES: Final = ("all", "cpu", "gpu")
_MARKER: Final = compile_late(r".*#(\d{1,18})")
_STREAM: Final = "stream"
_NOT_COUNTED: Final = ("", "trace", "Trace", "cpu_instant_event")
"""Categories of records that are not events with a duration: counters, the extent of the trace, instants."""


def count_step_events(tables: TableSet, step: int | None, device: str) -> dict[str, tuple[int, int]]:
    """Return count and total duration in ps of the events of a step, by name, on the first host. ``step``: number of
    the step; None: the first one. ``device``: one of DEVICES; events with a stream are of the GPU. UsageError: no such
    step."""
    events = read_host(tables, 0, (), (*Host.GROUPING.stats, _STREAM), Host.GROUPING.metadata_stats)
    groups = Host(events, tables.session.workers).groups
    ids = np.unique(groups.group_id[groups.group_id >= 0])
    markers = zip(map(_MARKER.fullmatch, groups.names_of(ids)), ids.tolist(), strict=True)
    numbers = {int(marker[1]): group for marker, group in markers if marker is not None}
    wanted = min(numbers, default=-1) if step is None else step
    if wanted not in numbers:
        there = ", ".join(map(str, sorted(numbers))) or "none"
        raise UsageError(f"no step{'' if step is None else f' {step}'}; steps: {there}")
    counted = groups.group_id == numbers[wanted]
    counted &= ~np.isin(np.array(events.categories), _NOT_COUNTED)[events.meta]
    if device != DEVICES[0]:
        has_stream = np.zeros(len(events), np.bool_)
        if _STREAM in events.stats:
            at, streams = events.ints(_STREAM)
            has_stream[at] = streams != -1
        counted &= has_stream == (device == "gpu")
    rows = np.flatnonzero(counted)
    numbers_of = events.meta[rows] % len(events.names)
    counts = np.bincount(numbers_of, minlength=len(events.names))
    times = sum_by(numbers_of, events.duration_ps[rows], len(events.names))
    return {events.names[name]: (int(counts[name]), int(times[name])) for name in np.flatnonzero(counts).tolist()}
