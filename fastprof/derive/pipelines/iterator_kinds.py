"""What an iterator of tf.data does, by its name."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from typing import Final

import numpy as np

from fastprof.derive.pipelines.reading import FILE_READ, OTHER, WAITING
from fastprof.schema.array_types import Bools, UInt8s


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
_SUFFIX: Final = re.compile(r"(V\d+)?(\[\d+\])?$", re.ASCII)
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
