"""The calls of pipelines: which there are, and what each of them ran."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fastprof._native.pipeline_kernels import SELF_PARTS, pipeline_calls
from fastprof.derive.pipelines.reading import (
    Calls,
    InputPipelines,
    Records,
    Segments,
    SelfParts,
)
from fastprof.derive.steps.links import first_of, numbered
from fastprof.schema.array_types import Bools, Int32s, Int64s

RECORD = np.dtype([
    ("start_ps", "i8"), ("total_ps", "i8"), ("self_ps", "i8"), ("critical_ps", "i8"), ("call", "i4"),
    ("iterator", "i4"), ("count", "i4"), ("is_blocking", "i4"),
])  # fmt: skip
SEGMENT = np.dtype([("start_ps", "i8"), ("duration_ps", "i8"), ("call", "i4"), ("iterator", "i4")])
PARTS = np.dtype([("time", "i8", (SELF_PARTS,)), ("pipeline", "i4"), ("iterator", "i4")])


@dataclass(frozen=True, slots=True, eq=False)
class Walked:
    """Iterator events as the walk takes them: ``parent``: which asked for each, ``iterator``: number of each one's."""

    start_ps: Int64s
    duration_ps: Int64s
    parent: Int32s
    iterator: Int32s


def pipelines_of(iterator: Int32s, is_device: Bools) -> tuple[InputPipelines, Int32s]:
    """The pipelines that programs call, from the iterator of each call, and the pipeline of each call. They are
    numbered in the order of the calls. ``is_device``: by iterator."""
    of_call, count = numbered([iterator.astype(np.int64)])
    root = iterator[first_of(of_call, count)]
    on_device = is_device[root]
    place = np.where(on_device, np.cumsum(on_device), np.cumsum(~on_device)) - 1
    kinds = np.where(on_device, "Device", "Host").tolist()
    names = [f"{kind}:{i}" for kind, i in zip(kinds, place.tolist(), strict=True)]
    first = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(of_call, minlength=count))])
    return InputPipelines(names, on_device, root, first), of_call


def calls_of(pipeline: Int32s, start_ps: Int64s, duration_ps: Int64s, group_id: Int32s, records: Records) -> Calls:
    """Calls that are in order, with the place of their records."""
    first = np.searchsorted(records.call, np.arange(len(pipeline) + 1))
    return Calls(pipeline, start_ps, duration_ps, group_id, first.astype(np.int64))


def walk(
    events: Walked, own_part: npt.NDArray[np.uint8], activities: npt.NDArray[np.void], root: Int32s, pipeline: Int32s
) -> tuple[Records, Segments, SelfParts]:
    """What the calls ran; ``root``: the event of each call, ``pipeline``: of each call, ascending, slowest first."""
    traced = np.zeros(len(root), np.uint8)
    traced[:1] = 1
    traced[1:] = pipeline[1:] != pipeline[:-1]
    columns = (events.start_ps, events.duration_ps, events.parent, events.iterator)
    found = pipeline_calls(columns, own_part, activities, (root, pipeline, traced))
    return records_of(found[0]), _segments(found[1], pipeline), _parts(found[2])


def records_of(packed: bytes) -> Records:
    """The columns of packed records."""
    rows = np.frombuffer(packed, RECORD)
    names = ("call", "iterator", "start_ps", "total_ps", "self_ps", "critical_ps", "count")
    call, iterator, start, total, own, critical, count = (np.ascontiguousarray(rows[name]) for name in names)
    return Records(call, iterator, start, total, own, critical, count, rows["is_blocking"] != 0)


def _segments(packed: bytes, pipeline: Int32s) -> Segments:
    rows = np.frombuffer(packed, SEGMENT)
    of = pipeline[rows["call"]]
    order = np.lexsort((rows["start_ps"], of))
    rows = rows[order]
    return Segments(of[order], *(np.ascontiguousarray(rows[name]) for name in ("iterator", "start_ps", "duration_ps")))


def _parts(packed: bytes) -> SelfParts:
    rows = np.frombuffer(packed, PARTS)
    row, part = np.nonzero(rows["time"])
    time: npt.NDArray[Any] = rows["time"][row, part]
    return SelfParts(rows["pipeline"][row], rows["iterator"][row], part.astype(np.uint8), time)
