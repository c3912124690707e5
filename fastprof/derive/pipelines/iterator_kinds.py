"""What the name of an iterator says of it, and what TensorFlow says of it beside its events."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from fastprof._native import records
from fastprof.derive.pipelines.host_lines import HostLines
from fastprof.derive.pipelines.reading import (
    FILE_READ,
    OTHER,
    WAITING,
    Value,
)
from fastprof.schema.array_types import Bools, Int32s

ATTRIBUTES = ("parallelism", "buffer_limit", "buffer_size", "autotune", "batch_size", "cycle_length", "deterministic",
              "cpu_budget", "threadpool_size")  # fmt: skip
"""Stats of iterator events that say how the iterator is set up; the last two are those of whole pipelines."""
_UNAVAILABLE = "unavailable"

ASYNCHRONOUS = {
    "Prefetch", "ParallelInterleave", "ParallelMap", "ParseExample", "MapAndBatch", "DataService",
    "LegacyParallelInterleave", "ParallelBatch",
}  # fmt: skip
"""Iterators that work ahead on threads of their own, as XProf lists them."""
_MORE_ASYNCHRONOUS = {"ParallelFilter"}
_READERS = {
    "TFRecord", "TextLine", "FixedLengthRecord", "CSV", "LMDB", "Sql", "MatchingFiles", "SSTable", "RecordIO",
    "TFColumn", "CapacitorProto", "Spanner",
}  # fmt: skip
"""Iterators that read files in their own time."""
_SUFFIX = re.compile(r"(V\d+)?(\[\d+\])?$", re.ASCII)


def short_name(long_name: str) -> str:
    """The iterator's own name: the last part of the name of its events."""
    return long_name.split("::")[-1]


def kind_name(name: str) -> str:
    """A short name without the version of the implementation and the place among its siblings."""
    return _SUFFIX.sub("", name)


def is_asynchronous(name: str) -> bool:
    """Whether the iterator of a short name works ahead on threads of its own, in whatever version."""
    return kind_name(name) in ASYNCHRONOUS or kind_name(name) in _MORE_ASYNCHRONOUS


def own_part(name: str, asynchronous: bool) -> int:
    """What an iterator of a short name does while nothing is known to go on in it."""
    if asynchronous:
        return WAITING
    return FILE_READ if kind_name(name) in _READERS else OTHER


def own_parts(names: list[str], asynchronous: Bools) -> npt.NDArray[np.uint8]:
    """The same of many."""
    known: dict[tuple[str, bool], int] = {}
    keys = list(zip(names, asynchronous.tolist(), strict=True))
    for key in set(keys):
        known[key] = own_part(*key)
    return np.array([known[key] for key in keys], np.uint8)


def recorded_attributes(lines: HostLines, iterator: Int32s, count: int) -> dict[str, list[Value]]:
    """By attribute that the capture has, what it says of each iterator last, in the order of its events. ``iterator``:
    by iterator event, -1: it does not say which."""
    found: dict[str, list[Value]] = {}
    for name in ATTRIBUTES:
        stat = lines.stat(name)
        event = lines.number[stat.rows]
        own = np.where(event >= 0, iterator[event], -1) if len(iterator) else event
        last = np.full(count + 1, -1, np.int64)  # of equal indices the last assignment stays; the last for -1
        last[own] = np.arange(len(stat))
        has = np.flatnonzero(last[:-1] >= 0)
        if not len(has):
            continue
        kinds, values = stat.kind[last[has]], stat.value[last[has]]
        keys = list(zip(kinds.tolist(), values.tolist(), strict=True))
        by_key = {key: _value(lines, *key) for key in set(keys)}
        shown: list[Value] = [None] * count
        for number, key in zip(has.tolist(), keys, strict=True):
            shown[number] = by_key[key]
        found[name] = shown
    return found


def _value(lines: HostLines, kind: int, value: int) -> Value:
    if kind == records.INT64:
        return value
    if kind == records.UINT64:
        return value % 2**64
    if kind == records.DOUBLE:
        return float(np.int64(value).view(np.float64))
    if kind in (records.STR, records.REF):
        text = lines.events.text(value)
        return None if text == _UNAVAILABLE else text
    return None
