"""What the iterator events of a host say: its iterators, its pipelines, their calls, and what ran in each call.

Columns are NumPy arrays; those of one class are equally long. Iterators, pipelines and calls are known by their number,
which is their row.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fastprof.schema.array_types import Bools, Int32s, Int64s

Value = int | float | str | None

FILE_READ, USER_FUNCTION, TAKING, WAITING, OTHER = range(5)
PARTS = ("file read", "user function", "taking from the buffer", "waiting for a buffer", "other")
"""What an iterator does in its own time. Of several at once, the first one here has the time."""
ITERATOR, GENERATOR = 0, 1
"""Kinds of iterators: all others, and what a device's prefetch asks (``Iterator::Prefetch::Generator``)."""


@dataclass(frozen=True, slots=True, eq=False)
class Iterators:
    """Ids are 64 bits; ``is_unsigned``: they were recorded as uint64. ``long_name``: of the iterator's first event,
    with the names of all that ask for its elements; ``name``: the last part of that.

    ``event_*``: over all events of the host, whether or not a call reached them: how many, their durations, those less
    the time of iterators inside them, and of the user functions that the iterator ran, each by itself.
    ``attributes``: what TensorFlow records of the iterator, the last value; None: it records none."""

    iterator_id: Int64s
    is_unsigned: Bools
    parent_id: Int64s
    has_parent: Bools
    name: list[str]
    long_name: list[str]
    is_async: Bools
    kind: npt.NDArray[np.uint8]
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
    """In the order of the first call that the host recorded. ``root``: number of the iterator that is called;
    ``first``: int64[n + 1], calls first[p] to first[p + 1] are those of pipeline p."""

    name: list[str]
    is_device: Bools
    root: Int32s
    first: Int64s

    def __len__(self) -> int:
        return len(self.root)


@dataclass(frozen=True, slots=True, eq=False)
class Calls:
    """By pipeline, slowest first. ``group_id``: -1: none. ``first``: int64[n + 1], where the records of each begin."""

    pipeline: Int32s
    start_ps: Int64s
    duration_ps: Int64s
    group_id: Int32s
    first: Int64s

    def __len__(self) -> int:
        return len(self.pipeline)


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """An iterator in a call; of a call in the order in which they are reached from its root. ``total_ps``: of its
    events; ``self_ps``: those less the time in which their children run; ``critical_ps``: its share of the call's
    duration, so that those of a call add up to that; ``count``: of its events."""

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
    """The iterators of each pipeline, each before those that it asks. ``parent``: number of an iterator, -1: none."""

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
    part: npt.NDArray[np.uint8]
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
