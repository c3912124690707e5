"""What an iterator of tf.data does, by its name, and how to make it faster, in words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum
from functools import lru_cache
from typing import Final

import numpy as np

from fastprof.derive.pipelines.reading import FILE_READ, OTHER, WAITING, Value
from fastprof.schema.array_types import Bools, UInt8s
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import pattern_of


class Kind(IntEnum):
    """What an iterator does, as far as it decides how it can be made faster."""

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
    Kind.WRAPPER: "Root Model",
    Kind.SOURCE: "TFRecord SSTable RecordIO Spanner TFColumn SleepwalkRemoteDataset TextLine StitchedTimelineDataset "
    "DateKeyDataset CapacitorProto LMDB ExternalDataset PearModel FixedLengthRecord FromTensor TensorSlice Generator "
    "SyntheticDatasetOp Range ArrayRecord CSV Sql MatchingFiles",
    Kind.SERVICE: "DataService",
    Kind.REMOTE: "GuzzlerDataGuzzlerRemoteDataset ReverbDataset DatasetSampleGame Courier ReverbEpisodeDataset",
    Kind.FUNCTION: "Map Batch PaddedBatch",
    Kind.INTERLEAVING: "Interleave FlatMap",
    Kind.SEQUENTIAL: "Filter Unbatch Shuffle ShuffleAndRepeat Scan TakeWhile Window GroupByWindow GroupByReducer",
    Kind.BUFFER: "Prefetch",
    Kind.PARALLEL: "ParallelMap ParallelFilter MapAndBatch ParallelBatch ParseExample",
    Kind.PARALLEL_INTERLEAVING: "ParallelInterleave LegacyParallelInterleave",
}
_KINDS: Final = {name: kind for kind, names in _NAMES.items() for name in names.split()}
_SUFFIX: Final = pattern_of(r"(V\d+)?(\[\d+\])?$", re.ASCII)
"""The version of the implementation, and the place among several inputs."""
_ASYNCHRONOUS: Final = (Kind.SERVICE, Kind.BUFFER, Kind.PARALLEL, Kind.PARALLEL_INTERLEAVING)
_READERS: Final = {
    "TFRecord", "TextLine", "FixedLengthRecord", "CSV", "LMDB", "Sql", "MatchingFiles", "SSTable", "RecordIO",
    "TFColumn", "CapacitorProto", "Spanner",
}  # fmt: skip
"""Iterators that read files in their own time."""


def short_name(long_name: str) -> str:
    """The iterator's own name: the last part of the name of its events."""
    return long_name.split("::")[-1]


@lru_cache(maxsize=1 << 12)
def kind_of(name: str) -> Kind:
    """What an iterator of this short name does, in whatever version and as whatever input."""
    return _KINDS.get(_SUFFIX.sub("", name), Kind.OTHER)


def is_asynchronous(name: str) -> bool:
    """Whether the iterator of a short name works ahead on threads of its own."""
    return kind_of(name) in _ASYNCHRONOUS


def own_parts(names: list[str], asynchronous: Bools) -> UInt8s:
    """What iterators of these short names do in time in which nothing else is known to go on in them."""
    reads = {name: FILE_READ if _SUFFIX.sub("", name) in _READERS else OTHER for name in set(names)}
    return np.where(asynchronous, WAITING, np.array([reads[name] for name in names], np.int64)).astype(np.uint8)


# ---- suggestions

_PREFETCH = "end the pipeline with prefetch(tf.data.AUTOTUNE)"
_ADVICE: Final = {
    Kind.SOURCE: "Reading is slow: read several files at a time with interleave(..., num_parallel_calls=tf.data."
    "AUTOTUNE), keep the data close to the host, in few large files, and cache() it if it fits into memory.",
    Kind.SERVICE: "The workers of the tf.data service are slow: profile one of them, or add workers.",
    Kind.REMOTE: "The remote source is slow: profile its host.",
    Kind.FUNCTION: "Run it in parallel: num_parallel_calls=tf.data.AUTOTUNE. If its results fit into memory and are "
    "the same every time, put cache() after it.",
    Kind.INTERLEAVING: "Read several inputs at a time: interleave(..., num_parallel_calls=tf.data.AUTOTUNE), also "
    "in place of flat_map.",
    Kind.SEQUENTIAL: "It takes its elements one after another: give it less to do (filter or map earlier, batch "
    "before it), cache() after it, or run several copies of the pipeline over shards and interleave them.",
    Kind.BUFFER: "Its buffer was empty: what fills it is slower than what takes from it. Make that faster; a larger "
    "buffer helps only if single elements are slow.",
    Kind.PARALLEL: "Its function is slow. Make it cheaper, or look whether all cores are busy.",
    Kind.PARALLEL_INTERLEAVING: "Reading is slow although several inputs are read at a time: read more at a time "
    "(cycle_length, num_parallel_calls), or look at the storage.",
    Kind.WRAPPER: "tf.data puts it around a pipeline to tune it: what calls waited for inside it left no events. If "
    f"the pipeline does not do so yet, {_PREFETCH}.",
    Kind.OTHER: f"Do less in it or do it less often (batch before it), cache() after it, and {_PREFETCH}.",
}
_GENERATOR: Final = (
    "It brings elements from the host's pipeline to the device: make that pipeline faster, and copy ahead with "
    "prefetch_to_device(..., buffer_size=2) or more."
)
_PYTHON: Final = "A generator in Python runs one element at a time: let it give batches, or read with tf.data itself."
_BATCH: Final = (
    "It copies elements into batches: batch(..., num_parallel_calls=tf.data.AUTOTUNE) copies several batches at a time."
)
_READS: Final = (
    "Most of it is reading files: read several at a time with interleave(..., num_parallel_calls=tf.data.AUTOTUNE)."
)
_MOSTLY = 0.5
_LATE: Final = (
    "No change of one iterator makes batches faster: what makes its elements takes less time than there is, by what "
    "its events record. They came late for another reason, such as threads that wait for a core or a lock: look at its "
    "slowest calls on the timeline."
)
_NOTHING: Final = "No change of one iterator makes batches faster."
_ELSEWHERE: Final = "To change it alone makes batches no faster: other iterators set the pace (table what_if)."
_CHEAPER: Final = (
    "Make what it does cheaper, or cache() after it if the results are the same every time: to run more of it "
)


@dataclass(frozen=True, slots=True)
class Helps:
    """Whether a change of an iterator makes batches faster; None: not predicted. ``faster``: less work in it,
    ``several``: several of its calls at a time; ``any_change``: of any iterator of the pipeline; ``cores``: of the
    host, if they keep several calls from helping, else 0."""

    faster: bool | None = None
    several: bool | None = None
    any_change: bool | None = None
    cores: int = 0


_UNPREDICTED: Final = Helps()


def suggestion(
    name: str,
    long_name: str,
    recorded: Mapping[str, Value],
    *,
    to_device: bool = False,
    reading: float = 0.0,
    helps: Helps = _UNPREDICTED,
) -> str:
    """What to do about an iterator that takes the time. ``recorded``: its attributes; ``to_device``: it brings elements
    to a device; ``reading``: share of its time that is reading files; ``helps``: predictions: no change is proposed
    that saves nothing."""
    kind = kind_of(name)
    if kind is not Kind.WRAPPER and helps.any_change is False:
        ahead = kind in (Kind.BUFFER, Kind.PARALLEL, Kind.PARALLEL_INTERLEAVING)
        return _LATE if ahead else _NOTHING
    if helps.faster is False and not helps.several:
        return _ELSEWHERE
    if helps.faster and helps.several is False:
        cores = f", as there {'is 1 core' if helps.cores == 1 else f'are {helps.cores:,} cores'}" if helps.cores else ""
        return f"{_CHEAPER}at a time saves nothing{cores}."
    if to_device:
        return _GENERATOR
    if kind is Kind.SOURCE and name.partition("[")[0] == "Generator":
        return _PYTHON
    if kind is Kind.SOURCE and "::ParallelInterleave" in long_name:
        return _ADVICE[Kind.PARALLEL_INTERLEAVING]
    if name.startswith(("Batch", "PaddedBatch")):
        return _BATCH
    text = _ADVICE[kind]
    if kind in (Kind.PARALLEL, Kind.PARALLEL_INTERLEAVING):
        text = _more_at_a_time(recorded) or text
    if reading >= _MOSTLY and kind not in (Kind.SOURCE, Kind.INTERLEAVING, Kind.PARALLEL_INTERLEAVING):
        text = _READS
    return text


def _more_at_a_time(recorded: Mapping[str, Value]) -> str | None:
    """To raise the parallelism, if it is recorded and fixed."""
    count, autotune = recorded.get("parallelism"), recorded.get("autotune")
    if not isinstance(count, int) or count < 1 or is_true(autotune):
        return None
    calls = "1 call" if count == 1 else f"{count:,} calls"
    return f"It runs {calls} at a time: raise num_parallel_calls, or let tf.data choose with tf.data.AUTOTUNE."


def is_true(value: Value) -> bool | None:
    """A truth as TensorFlow writes it; None: unknown."""
    if isinstance(value, str):
        return {"true": True, "false": False, "1": True, "0": False}.get(value.lower())
    return None if value is None else bool(value)
