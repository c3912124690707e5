"""Annotations as GPUs run them: PyTorch's profiler records for each stream the time from the first kernel that an
annotation of a thread launches to the last.

thread     |-- forward --|
stream 7        |------ forward -----|
            kernel  kernel      kernel
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from fastprof.derive.devices.kineto_categories import GPU_ANNOTATIONS, is_of
from fastprof.derive.ops.stat_values import distinct_rows
from fastprof.derive.ops.tables import deviations_by, summed_by
from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.schema.column_kinds import Count, Picoseconds, Text
from fastprof.schema.tables import Formula, TableSchema
from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastprof.tables.host_events import HostEvents

_TIMES: Final = "the durations of annotations on GPUs"


@dataclass(frozen=True, slots=True)
class GpuAnnotation:
    """Of a GPU. ``device``: its plane; ``streams``: how many run it; times are of its ``count`` durations."""

    host: str
    device: str
    name: str
    streams: int
    count: int
    total_ps: int
    min_ps: int
    max_ps: int
    stdev_ps: int | None

    @property
    def mean_ps(self) -> int:
        return self.total_ps // self.count


def gpu_annotations(
    events: HostEvents, group_id: Int32s | None = None, steps: Int64s | None = None
) -> list[GpuAnnotation]:
    """Return the annotations on the GPUs of a host, the longest of each GPU first. With ``steps``, groups of events,
    only annotations that begin with work of these steps. ``group_id``: of each event. CaptureError: 64 bits cannot
    count their times."""
    planes = events.planes_of("GPU")
    known = is_of(events, GPU_ANNOTATIONS)
    lines = [line for plane in planes for line in plane.lines if line.last > line.first]
    rows = np.concatenate([np.zeros(0, np.int64), *(np.arange(line.first, line.last) for line in lines)])
    stream = np.repeat(np.arange(len(lines)), [line.last - line.first for line in lines])
    chosen = known[events.meta[rows]]
    if group_id is not None and steps is not None:
        chosen[chosen] = np.isin(_groups_of_work(events, group_id, rows[chosen], known), steps)
    rows, stream = rows[chosen], stream[chosen]
    plane = np.array([line.plane.number for line in lines], np.int64)[stream]
    first, row = distinct_rows([plane, events.meta[rows]])
    duration = np.maximum(events.duration_ps[rows], 0)
    sums = summed_by(row, duration, len(first), _TIMES)
    streams = np.bincount(np.unique(np.stack([row, stream]), axis=1)[0], minlength=len(first))
    names = [(events.planes[device].name, events.names[meta]) for device, meta in zip(
        plane[first].tolist(), events.meta[rows[first]].tolist(), strict=True,
    )]  # fmt: skip
    columns = zip(names, streams.tolist(), sums.tolist(), deviations_by(row, duration, sums), strict=True)
    found = [
        GpuAnnotation(events.host, device, name, on, count, total, shortest, longest, deviation)
        for (device, name), on, (count, total, shortest, longest), deviation in columns
    ]
    order = {one.name: place for place, one in enumerate(planes)}
    return sorted(found, key=lambda one: (order[one.device], -one.total_ps, one.name))


def _groups_of_work(events: HostEvents, group_id: Int32s, rows: Int64s, known: Bools) -> Int32s:
    """For each annotation the group of the work that it begins with: the first that its GPU starts from then on; -1:
    none. Annotations themselves have no group, because nothing launches them."""
    found = np.full(len(rows), -1, np.int32)
    for plane in events.planes_of("GPU"):
        work = np.arange(plane.first, plane.last)
        work = work[(group_id[work] >= 0) & ~known[events.meta[work]]]
        work = work[np.argsort(events.start_ps[work], kind="stable")]
        here = (rows >= plane.first) & (rows < plane.last)
        at = np.searchsorted(events.start_ps[work], events.start_ps[rows[here]])
        found[here] = np.append(group_id[work], np.int32(-1))[at]
    return found


def _of(name: str) -> Formula:
    return lambda rows: [getattr(row, name) for row in rows.each]


TABLE: Final = TableSchema("gpu_annotations", "an annotation as a GPU runs it, longest first", (
    Text("host", "host of the GPU", _of("host")),
    Text("device", "plane of the GPU", _of("device")),
    Text("name", "name of the annotation", _of("name")),
    Count("streams", "streams that run it", _of("streams")),
    Count("count", "how often streams run it", _of("count")),
    Picoseconds("total_ps", "sum of its durations on streams, each from its first kernel to its last", _of("total_ps")),
    Picoseconds("mean_ps", "total_ps / count, rounded down", _of("mean_ps")),
    Picoseconds("min_ps", "shortest duration", _of("min_ps")),
    Picoseconds("max_ps", "longest duration", _of("max_ps")),
    Picoseconds("stdev_ps", "standard deviation (sample) of its durations, rounded down; null: it ran once",
                _of("stdev_ps")),
), derived=True)  # fmt: skip


def gpu_annotations_table(hosts: Sequence[Sequence[GpuAnnotation]]) -> pa.Table:
    return TABLE.of(SimpleNamespace(each=[row for host in hosts for row in host]))
