"""Recorded pipelines: iterators and their work, pipelines, calls, and what ran in a call."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from enum import IntEnum
from functools import lru_cache
from typing import Final

import numpy as np

from fastprof._native.pipeline_kernels import SELF_PARTS, pipeline_calls
from fastprof.schema.columns import (
    Bools,
    Int32s,
    Int64s,
    UInt8s,
    count_bounds,
    find_first_rows,
    find_group_bounds,
    number_keys,
    sort_rows,
)
from fastprof.schema.columns import Records as Structs
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import compile_late

Value = int | float | str | None
_RECORD = np.dtype([
    ("start_ps", "i8"), ("total_ps", "i8"), ("self_ps", "i8"), ("critical_ps", "i8"), ("call", "i4"),
    ("iterator", "i4"), ("count", "i4"), ("is_blocking", "i4"),
])  # fmt: skip
_SEGMENT = np.dtype([("start_ps", "i8"), ("duration_ps", "i8"), ("call", "i4"), ("iterator", "i4")])
_PARTS = np.dtype([("time", "i8", (SELF_PARTS,)), ("pipeline", "i4"), ("iterator", "i4")])
"""Structs of csrc/kernels/pipeline_calls.h."""

FILE_READ, USER_FUNCTION, TAKING, WAITING, OTHER = range(5)
PARTS = ("file read", "user function", "taking from the buffer", "waiting for a buffer", "other")
"""Work of an iterator in its own time. If it does several at once, the first of these has the time."""
ITERATOR, GENERATOR = 0, 1
"""Kinds of iterators: all others, and the source of a device's prefetch (``Iterator::Prefetch::Generator``)."""


@dataclass(frozen=True, slots=True, eq=False)
class Iterators:
    """Iterators. Ids are 64 bits; ``is_unsigned``: recorded as uint64. ``long_name``: of the iterator's first event,
    after the names of all iterators that take its elements; ``name``: the last part of that.

    ``event_*``: over all events of the host, whether or not a call reached them: their number, their durations, those
    minus the time of iterators inside them, and the time of the user functions that the iterator ran, each by itself.
    ``attributes``: the last value that TensorFlow records of the iterator, or None."""

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
        """Format the id in decimal, as it was recorded."""
        value = int(self.iterator_id[iterator])
        return str(value % 2**64 if self.is_unsigned[iterator] else value)


@dataclass(frozen=True, slots=True, eq=False)
class InputPipelines:
    """Pipelines in the order of their first call. ``root``: number of the iterator that is called; ``first``: [n + 1],
    calls first[p] to first[p + 1] are those of pipeline p."""

    name: list[str]
    is_device: Bools
    root: Int32s
    first: Int64s

    def __len__(self) -> int:
        return len(self.root)


@dataclass(frozen=True, slots=True, eq=False)
class Calls:
    """Calls by pipeline, slowest first. ``group_id``: -1 if there is none. ``first``: [n + 1], where the records of
    each begin."""

    pipeline: Int32s
    start_ps: Int64s
    duration_ps: Int64s
    group_id: Int32s
    first: Int64s

    def __len__(self) -> int:
        return len(self.pipeline)


@dataclass(frozen=True, slots=True, eq=False)
class IteratorRecords:
    """Iterators in calls; those of a call are in the order in which they are reached from its root. ``total_ps``: of
    its events; ``self_ps``: that minus the time in which their children run; ``critical_ps``: its share of the call's
    duration, to which these add up; ``count``: number of its events."""

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
class IteratorTree:
    """The iterators of each pipeline, each before its inputs. ``parent``: number of an iterator, or -1."""

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
    """Parts of the critical time of an iterator, over all calls of a pipeline; ``part``: place in PARTS."""

    pipeline: Int32s
    iterator: Int32s
    part: UInt8s
    time_ps: Int64s


@dataclass(frozen=True, slots=True, eq=False)
class PipelineReading:
    """All that is read of a host. ``tree``, ``segments`` and ``parts`` are empty in XProf's reading."""

    iterators: Iterators
    pipelines: InputPipelines
    calls: Calls
    records: IteratorRecords
    tree: IteratorTree
    segments: Segments
    parts: SelfParts


def make_empty_reading() -> PipelineReading:
    """The reading of a host that calls no pipeline."""
    longs, ints, flags = np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.bool_)
    kinds, first = np.zeros(0, np.uint8), np.zeros(1, np.int64)
    return PipelineReading(
        Iterators(longs, flags, longs, flags, [], [], flags, kinds, longs, longs, longs, longs),
        InputPipelines([], flags, ints, first),
        Calls(ints, longs, longs, ints, first),
        IteratorRecords(ints, ints, longs, longs, longs, longs, ints, flags),
        IteratorTree(ints, ints, ints, ints),
        Segments(ints, ints, longs, longs),
        SelfParts(ints, ints, kinds, longs),
    )


def list_pipelines(iterator: Int32s, is_device: Bools) -> tuple[InputPipelines, Int32s]:
    """List the pipelines that programs call, numbered in the order of the calls, and the pipeline of each call.
    ``iterator``: of each call; ``is_device``: by iterator."""
    of_call, count = number_keys([iterator.astype(np.int64)])
    root = iterator[find_first_rows(of_call, count)]
    on_device = is_device[root]
    place = np.where(on_device, np.cumsum(on_device), np.cumsum(~on_device)) - 1
    kinds = np.where(on_device, "Device", "Host").tolist()
    names = [f"{kind}:{i}" for kind, i in zip(kinds, place.tolist(), strict=True)]
    first = count_bounds(np.bincount(of_call, minlength=count))
    return InputPipelines(names, on_device, root, first), of_call


def make_calls(
    pipeline: Int32s, start_ps: Int64s, duration_ps: Int64s, group_id: Int32s, records: IteratorRecords
) -> Calls:
    """Make calls, which are in order, with the place of their records."""
    first = find_group_bounds(records.call, len(pipeline))
    return Calls(pipeline, start_ps, duration_ps, group_id, first.astype(np.int64))


def walk_calls(
    events: tuple[Int64s, Int64s, Int32s, Int32s], own_part: UInt8s, activities: Structs, root: Int32s, pipeline: Int32s
) -> tuple[IteratorRecords, Segments, SelfParts]:
    """Find what the calls ran. ``events``: start, duration, parent and iterator of each; ``root``: the event of each
    call; ``pipeline``: of each call, ascending, slowest first."""
    traced = np.zeros(len(root), np.uint8)
    traced[:1] = 1
    traced[1:] = pipeline[1:] != pipeline[:-1]
    records, packed_segments, packed_parts = pipeline_calls(events, own_part, activities, (root, pipeline, traced))
    rows = np.frombuffer(packed_parts, _PARTS)
    row, part = np.nonzero(rows["time"])
    parts = SelfParts(rows["pipeline"][row], rows["iterator"][row], part.astype(np.uint8), rows["time"][row, part])
    rows = np.frombuffer(packed_segments, _SEGMENT)
    of_call = pipeline[rows["call"]]
    order = sort_rows(of_call, rows["start_ps"])
    columns = (np.ascontiguousarray(rows[name][order]) for name in ("iterator", "start_ps", "duration_ps"))
    return unpack_records(records), Segments(of_call[order], *columns), parts


def unpack_records(packed: bytes) -> IteratorRecords:
    """Return the columns of packed records."""
    rows = np.frombuffer(packed, _RECORD)
    names = ("call", "iterator", "start_ps", "total_ps", "self_ps", "critical_ps", "count")
    call, iterator, start, total, own, critical, count = (np.ascontiguousarray(rows[name]) for name in names)
    return IteratorRecords(call, iterator, start, total, own, critical, count, rows["is_blocking"] != 0)


class IteratorKind(IntEnum):
    """Work of an iterator, as far as it decides how it can be made faster."""

    OTHER = 0
    WRAPPER = 1  # put around a pipeline by tf.data itself
    SOURCE = 2  # reads or makes elements
    SERVICE = 3  # takes them from workers of the tf.data service
    REMOTE = 4  # takes them from another remote source
    FUNCTION = 5  # runs a function for each element, and can run several at a time
    INTERLEAVING = 6  # opens inputs of its own, and can read several at a time
    SEQUENTIAL = 7  # takes its elements one after another, by what it is
    BUFFER = 8  # hands over what another thread has made ahead
    PARALLEL = 9  # runs its function on several threads, ahead of its consumer
    PARALLEL_INTERLEAVING = 10  # reads several inputs at a time, ahead of its consumer


_NAMES: Final = {
    IteratorKind.WRAPPER: "Root Model",
    IteratorKind.SOURCE: "TFRecord SSTable RecordIO Spanner TFColumn SleepwalkRemoteDataset TextLine "
    "StitchedTimelineDataset DateKeyDataset CapacitorProto LMDB ExternalDataset PearModel FixedLengthRecord FromTensor "
    "TensorSlice Generator SyntheticDatasetOp Range ArrayRecord CSV Sql MatchingFiles",
    IteratorKind.SERVICE: "DataService",
    IteratorKind.REMOTE: "GuzzlerDataGuzzlerRemoteDataset ReverbDataset DatasetSampleGame Courier ReverbEpisodeDataset",
    IteratorKind.FUNCTION: "Map Batch PaddedBatch",
    IteratorKind.INTERLEAVING: "Interleave FlatMap",
    IteratorKind.SEQUENTIAL: "Filter Unbatch Shuffle ShuffleAndRepeat Scan TakeWhile Window GroupByWindow "
    "GroupByReducer",
    IteratorKind.BUFFER: "Prefetch",
    IteratorKind.PARALLEL: "ParallelMap ParallelFilter MapAndBatch ParallelBatch ParseExample",
    IteratorKind.PARALLEL_INTERLEAVING: "ParallelInterleave LegacyParallelInterleave",
}
_KINDS: Final = {name: kind for kind, names in _NAMES.items() for name in names.split()}
_SUFFIX: Final = compile_late(r"(V\d+)?(\[\d+\])?$", re.ASCII)
"""Pattern of the version of the implementation, and the place among several inputs."""
_ASYNCHRONOUS: Final = (
    IteratorKind.SERVICE,
    IteratorKind.BUFFER,
    IteratorKind.PARALLEL,
    IteratorKind.PARALLEL_INTERLEAVING,
)
_READERS: Final = {
    "TFRecord", "TextLine", "FixedLengthRecord", "CSV", "LMDB", "Sql", "MatchingFiles", "SSTable", "RecordIO",
    "TFColumn", "CapacitorProto", "Spanner",
}  # fmt: skip
"""Iterators that read files in their own time."""


def shorten_iterator_name(long_name: str) -> str:
    """Return the iterator's own name: the last part of the name of its events."""
    return long_name.split("::")[-1]


@lru_cache(maxsize=1 << 12)
def find_iterator_kind(name: str) -> IteratorKind:
    """Return the kind of iterators of this short name, in whatever version and as whatever input."""
    return _KINDS.get(_SUFFIX.sub("", name), IteratorKind.OTHER)


def is_asynchronous(name: str) -> bool:
    """Return whether the iterator of a short name works ahead on threads of its own."""
    return find_iterator_kind(name) in _ASYNCHRONOUS


def find_own_parts(names: list[str], asynchronous: Bools) -> UInt8s:
    """Return the part that iterators of these short names work on if nothing else is known to run in them."""
    reads = {name: FILE_READ if _SUFFIX.sub("", name) in _READERS else OTHER for name in set(names)}
    return np.where(asynchronous, WAITING, np.array([reads[name] for name in names], np.int64)).astype(np.uint8)


# ---- suggestions

_PREFETCH = "end the pipeline with prefetch(tf.data.AUTOTUNE)"
_ADVICE: Final = {
    IteratorKind.SOURCE: "Reading is slow: read several files at a time with interleave(..., num_parallel_calls="
    "tf.data.AUTOTUNE), keep the data close to the host, in few large files, and cache() it if it fits into memory.",
    IteratorKind.SERVICE: "The workers of the tf.data service are slow: profile one of them, or add workers.",
    IteratorKind.REMOTE: "The remote source is slow: profile its host.",
    IteratorKind.FUNCTION: "Run it in parallel: num_parallel_calls=tf.data.AUTOTUNE. If its results fit into memory "
    "and are the same every time, put cache() after it.",
    IteratorKind.INTERLEAVING: "Read several inputs at a time: interleave(..., num_parallel_calls=tf.data.AUTOTUNE), "
    "also in place of flat_map.",
    IteratorKind.SEQUENTIAL: "It processes elements one after another: give it less work (filter or map earlier, "
    "batch before it), cache() after it, or run several copies of the pipeline over shards and interleave them.",
    IteratorKind.BUFFER: "Its buffer was empty: elements are made more slowly than they are taken. Make its inputs "
    "faster; a larger buffer helps only if single elements are slow.",
    IteratorKind.PARALLEL: "Its function is slow. Make it cheaper, or check whether all cores are busy.",
    IteratorKind.PARALLEL_INTERLEAVING: "Reading is slow although several inputs are read at a time: read more at a "
    "time (cycle_length, num_parallel_calls), or check the storage.",
    IteratorKind.WRAPPER: f"tf.data wraps a pipeline in it for tuning: the awaited work inside has no events. If the "
    f"pipeline does not do so yet, {_PREFETCH}.",
    IteratorKind.OTHER: f"Do less in it or do it less often (batch before it), cache() after it, and {_PREFETCH}.",
}
_GENERATOR: Final = (
    "It brings elements from the host's pipeline to the device: make that pipeline faster, and copy ahead with "
    "prefetch_to_device(..., buffer_size=2) or more."
)
_PYTHON: Final = "A Python generator yields one element at a time: let it yield batches, or read with tf.data itself."
_BATCH: Final = (
    "It copies elements into batches: batch(..., num_parallel_calls=tf.data.AUTOTUNE) copies several batches at a time."
)
_READS: Final = (
    "Most of it is reading files: read several at a time with interleave(..., num_parallel_calls=tf.data.AUTOTUNE)."
)
_MOSTLY = 0.5
_LATE: Final = (
    "No change of one iterator makes batches faster: by its events, its elements are made in time. They were late "
    "for another reason, such as threads waiting for a core or a lock: look at its slowest calls on the timeline."
)
_NOTHING: Final = "No change of one iterator makes batches faster."
_ELSEWHERE: Final = "Changing it alone does not make batches faster: other iterators set the pace (table what_if)."
_CHEAPER: Final = "Make its work cheaper, or cache() after it if the results are always the same: to run more of it "


@dataclass(frozen=True, slots=True)
class Helps:
    """Predictions whether a change of an iterator makes batches faster; None if not predicted. ``faster``: less work in
    it; ``several``: several of its calls at a time; ``any_change``: of any iterator of the pipeline; ``cores``: cores
    of the host, if they keep several calls from helping, else 0."""

    faster: bool | None = None
    several: bool | None = None
    any_change: bool | None = None
    cores: int = 0


_UNPREDICTED: Final = Helps()


def suggest_change(
    name: str,
    long_name: str,
    recorded: Mapping[str, Value],
    *,
    to_device: bool = False,
    reading: float = 0.0,
    helps: Helps = _UNPREDICTED,
) -> str:
    """Suggest what to do about an iterator that takes the time. ``recorded``: its attributes; ``to_device``: whether it
    brings elements to a device; ``reading``: share of reading files in its time; ``helps``: predictions, so that no
    change is proposed that saves nothing."""
    kind = find_iterator_kind(name)
    if kind is not IteratorKind.WRAPPER and helps.any_change is False:
        ahead = kind in (IteratorKind.BUFFER, IteratorKind.PARALLEL, IteratorKind.PARALLEL_INTERLEAVING)
        return _LATE if ahead else _NOTHING
    if helps.faster is False and not helps.several:
        return _ELSEWHERE
    if helps.faster and helps.several is False:
        cores = f", as there {'is 1 core' if helps.cores == 1 else f'are {helps.cores:,} cores'}" if helps.cores else ""
        return f"{_CHEAPER}at a time saves nothing{cores}."
    if to_device:
        return _GENERATOR
    if kind is IteratorKind.SOURCE and name.partition("[")[0] == "Generator":
        return _PYTHON
    if kind is IteratorKind.SOURCE and "::ParallelInterleave" in long_name:
        return _ADVICE[IteratorKind.PARALLEL_INTERLEAVING]
    if name.startswith(("Batch", "PaddedBatch")):
        return _BATCH
    text = _ADVICE[kind]
    if kind in (IteratorKind.PARALLEL, IteratorKind.PARALLEL_INTERLEAVING):
        text = _suggest_parallelism(recorded) or text
    if reading >= _MOSTLY and kind not in (
        IteratorKind.SOURCE,
        IteratorKind.INTERLEAVING,
        IteratorKind.PARALLEL_INTERLEAVING,
    ):
        text = _READS
    return text


def _suggest_parallelism(recorded: Mapping[str, Value]) -> str | None:
    """Suggest to raise the parallelism, if it is recorded and fixed."""
    count, autotune = recorded.get("parallelism"), recorded.get("autotune")
    if not isinstance(count, int) or count < 1 or is_true(autotune):
        return None
    calls = "1 call" if count == 1 else f"{count:,} calls"
    return f"It runs {calls} at a time: raise num_parallel_calls, or let tf.data choose with tf.data.AUTOTUNE."


def is_true(value: Value) -> bool | None:
    """Parse a truth value as TensorFlow writes it; None if unknown."""
    if isinstance(value, str):
        return {"true": True, "false": False, "1": True, "0": False}.get(value.lower())
    return None if value is None else bool(value)
