"""What the iterator events of a host record: its iterators, its pipelines, their calls, and what ran in each call.

Columns are NumPy arrays; those of one class are equally long. Iterators, pipelines and calls are known by their number,
which is their row.
"""

from __future__ import annotations

from dataclasses import field

import numpy as np

from fastprof._native.pipeline_kernels import SELF_PARTS, pipeline_calls
from fastprof.derive.steps.links import first_of, numbered
from fastprof.schema.array_types import Bools, Int32s, Int64s, UInt8s
from fastprof.schema.array_types import Records as Structs
from fastprof.schema.value_classes import dataclass

Value = int | float | str | None
_RECORD = np.dtype([
    ("start_ps", "i8"), ("total_ps", "i8"), ("self_ps", "i8"), ("critical_ps", "i8"), ("call", "i4"),
    ("iterator", "i4"), ("count", "i4"), ("is_blocking", "i4"),
])  # fmt: skip
_SEGMENT = np.dtype([("start_ps", "i8"), ("duration_ps", "i8"), ("call", "i4"), ("iterator", "i4")])
_PARTS = np.dtype([("time", "i8", (SELF_PARTS,)), ("pipeline", "i4"), ("iterator", "i4")])
"""The structs of csrc/kernels/pipeline_calls.h."""

FILE_READ, USER_FUNCTION, TAKING, WAITING, OTHER = range(5)
PARTS = ("file read", "user function", "taking from the buffer", "waiting for a buffer", "other")
"""What an iterator does in its own time. If it does several at once, the first of these has the time."""
ITERATOR, GENERATOR = 0, 1
"""Kinds of iterators: all others, and the source of a device's prefetch (``Iterator::Prefetch::Generator``)."""


@dataclass(frozen=True, slots=True, eq=False)
class Iterators:
    """Ids are 64 bits; ``is_unsigned``: recorded as uint64. ``long_name``: of the iterator's first event, after the
    names of all iterators that take its elements; ``name``: the last part of that.

    ``event_*``: over all events of the host, whether or not a call reached them: how many, their durations, those less
    the time of iterators inside them, and the time of the user functions that the iterator ran, each by itself.
    ``attributes``: the last value that TensorFlow records of the iterator; None: none."""

    iterator_id: Int64s
    is_unsigned: Bools
    parent_id: Int64s
    has_parent: Bools
    name: list[str]
    long_name: list[str]
    is_async: Bools
    kind: UInt8s
    event_count: Int64s
    event_total_ps: Int64s
    event_self_ps: Int64s
    event_function_ps: Int64s
    attributes: dict[str, list[Value]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.iterator_id)

    def shown_id(self, iterator: int) -> str:
        """The id in decimal, as it was recorded."""
        value = int(self.iterator_id[iterator])
        return str(value % 2**64 if self.is_unsigned[iterator] else value)


@dataclass(frozen=True, slots=True, eq=False)
class InputPipelines:
    """In the order of their first call. ``root``: number of the iterator that is called; ``first``: [n + 1], calls
    first[p] to first[p + 1] are those of pipeline p."""

    name: list[str]
    is_device: Bools
    root: Int32s
    first: Int64s

    def __len__(self) -> int:
        return len(self.root)


@dataclass(frozen=True, slots=True, eq=False)
class Calls:
    """By pipeline, slowest first. ``group_id``: -1: none. ``first``: [n + 1], where the records of each begin."""

    pipeline: Int32s
    start_ps: Int64s
    duration_ps: Int64s
    group_id: Int32s
    first: Int64s

    def __len__(self) -> int:
        return len(self.pipeline)


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """An iterator in a call; those of a call in the order in which they are reached from its root. ``total_ps``: of its
    events; ``self_ps``: that less the time in which their children run; ``critical_ps``: its share of the call's
    duration; these add up to it; ``count``: of its events."""

    call: Int32s
    iterator: Int32s
    start_ps: Int64s
    total_ps: Int64s
    self_ps: Int64s
    critical_ps: Int64s
    count: Int32s
    is_blocking: Bools

    def __len__(self) -> int:
        return len(self.call)


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """The iterators of each pipeline, each before its inputs. ``parent``: number of an iterator, -1: none."""

    pipeline: Int32s
    iterator: Int32s
    parent: Int32s
    depth: Int32s


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """The critical path of the slowest call of each pipeline, in order of time."""

    pipeline: Int32s
    iterator: Int32s
    start_ps: Int64s
    duration_ps: Int64s


@dataclass(frozen=True, slots=True, eq=False)
class SelfParts:
    """What the critical time of an iterator is made of, over all calls of a pipeline; ``part``: place in PARTS."""

    pipeline: Int32s
    iterator: Int32s
    part: UInt8s
    time_ps: Int64s


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """All that is read of a host. ``tree``, ``segments`` and ``parts`` are empty in XProf's reading."""

    iterators: Iterators
    pipelines: InputPipelines
    calls: Calls
    records: Records
    tree: Tree
    segments: Segments
    parts: SelfParts


def nothing_read() -> Reading:
    """The reading of a host that calls no pipeline."""
    longs, ints, flags = np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.bool_)
    kinds, first = np.zeros(0, np.uint8), np.zeros(1, np.int64)
    return Reading(
        Iterators(longs, flags, longs, flags, [], [], flags, kinds, longs, longs, longs, longs),
        InputPipelines([], flags, ints, first),
        Calls(ints, longs, longs, ints, first),
        Records(ints, ints, longs, longs, longs, longs, ints, flags),
        Tree(ints, ints, ints, ints),
        Segments(ints, ints, longs, longs),
        SelfParts(ints, ints, kinds, longs),
    )


def pipelines_of(iterator: Int32s, is_device: Bools) -> tuple[InputPipelines, Int32s]:
    """The pipelines that programs call, numbered in the order of the calls, and the pipeline of each call.
    ``iterator``: of each call; ``is_device``: by iterator."""
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
    events: tuple[Int64s, Int64s, Int32s, Int32s], own_part: UInt8s, activities: Structs, root: Int32s, pipeline: Int32s
) -> tuple[Records, Segments, SelfParts]:
    """What the calls ran. ``events``: start, duration, parent and iterator of each; ``root``: the event of each call,
    ``pipeline``: of each call, ascending, slowest first."""
    traced = np.zeros(len(root), np.uint8)
    traced[:1] = 1
    traced[1:] = pipeline[1:] != pipeline[:-1]
    records, segments, parts = pipeline_calls(events, own_part, activities, (root, pipeline, traced))
    return records_of(records), _segments(segments, pipeline), _parts(parts)


def records_of(packed: bytes) -> Records:
    """The columns of packed records."""
    rows = np.frombuffer(packed, _RECORD)
    names = ("call", "iterator", "start_ps", "total_ps", "self_ps", "critical_ps", "count")
    call, iterator, start, total, own, critical, count = (np.ascontiguousarray(rows[name]) for name in names)
    return Records(call, iterator, start, total, own, critical, count, rows["is_blocking"] != 0)


def _segments(packed: bytes, pipeline: Int32s) -> Segments:
    rows = np.frombuffer(packed, _SEGMENT)
    of = pipeline[rows["call"]]
    order = np.lexsort((rows["start_ps"], of))
    rows = rows[order]
    return Segments(of[order], *(np.ascontiguousarray(rows[name]) for name in ("iterator", "start_ps", "duration_ps")))


def _parts(packed: bytes) -> SelfParts:
    rows = np.frombuffer(packed, _PARTS)
    row, part = np.nonzero(rows["time"])
    return SelfParts(rows["pipeline"][row], rows["iterator"][row], part.astype(np.uint8), rows["time"][row, part])
