"""The time of steps: which span a group's markers give it, and what its events spent that span on: the event types, and
the nine categories that pages show."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from fastprof._native.step_kernels import step_time
from fastprof.schema.array_rows import ArrayRows
from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.schema.time_sums import ends_of
from fastprof.schema.value_classes import dataclass

Types = npt.NDArray[np.uint8]


class EventType(IntEnum):
    """Their order is their priority: if events overlap, time counts for the last of their types. In XProf they are ten
    times as large."""

    UNKNOWN_TIME = 0
    HOST_COMPUTE = 1
    HOST_PREPROCESS = 2
    HOST_POSTPROCESS = 3
    HOST_BATCH_FORMATION = 4
    HOST_RUNTIME = 5
    HOST_COMPILE = 6
    HOST_TO_HOST = 7
    HOST_TO_DEVICE = 8
    HOST_PREPARE = 9
    DEVICE_COLLECTIVES = 10
    HOST_WAIT_INPUT = 11
    DEVICE_TO_DEVICE = 12
    DEVICE_TO_HOST = 13
    DEVICE_COMPUTE_32 = 14
    DEVICE_COMPUTE_16 = 15
    DEVICE_WAIT_DEVICE = 16
    DEVICE_WAIT_HOST = 17


TYPES: Final = tuple(one.name.lower() for one in EventType)
NO_TYPE: Final = 255
"""The type of an event that takes no part in step time."""


@dataclass(frozen=True, slots=True)
class Category:
    """A category of step time: what it is called, and the event types whose time it adds up."""

    number: int
    name: str
    label: str
    types: tuple[int, ...]


CATEGORIES: Final = (
    Category(1, "device_compute", "Device compute", (EventType.DEVICE_COMPUTE_16, EventType.DEVICE_COMPUTE_32)),
    Category(2, "device_to_device", "Device to device", (EventType.DEVICE_TO_DEVICE, EventType.DEVICE_WAIT_DEVICE)),
    Category(3, "device_collectives", "Device collective communication", (EventType.DEVICE_COLLECTIVES,)),
    Category(4, "host_compute", "Host compute", (EventType.HOST_COMPUTE,)),
    Category(5, "kernel_launch", "Kernel launch", (EventType.HOST_PREPARE,)),
    Category(6, "input", "Input", (EventType.HOST_WAIT_INPUT, EventType.HOST_TO_DEVICE, EventType.DEVICE_WAIT_HOST)),
    Category(7, "output", "Output", (EventType.DEVICE_TO_HOST,)),
    Category(8, "compilation", "Compilation", (EventType.HOST_COMPILE,)),
    Category(9, "all_others", "All others", (EventType.UNKNOWN_TIME,)),
)
"""The categories of XProf, by their number less one. Host-to-host copies are in none of them."""

OWN_CATEGORIES: Final = (
    *CATEGORIES,
    Category(10, "copies", "Copies", ()),
    Category(11, "not_training", "Evaluation, logging and saving", (EventType.HOST_BATCH_FORMATION,)),
)
"""With copies: on TPUs those between host and device, and within the device, which XProf counts as compute; on GPUs
those to the device, which XProf counts as input. Others are in categories by their direction there. And with work that
is not training, compute included, which has the place of a type that XProf does not count."""


HOST_TRANSFERS: Final = ("host send", "host send-done", "host recv", "host recv-done")
OFF_DUTY: Final = ("infeed", "outfeed", *HOST_TRANSFERS, "async-done", "megacore fusion")
"""Categories of ops in which a TPU core waits: for the host, for a transfer, or for the other core of the chip."""


def category_times(type_ps: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The times of the nine categories in ps, from times by type: [..., 18] to [..., 9]."""
    return np.stack([type_ps[..., list(category.types)].sum(axis=-1) for category in CATEGORIES], axis=-1)


@dataclass(frozen=True, slots=True)
class Markers(ArrayRows):
    """Events that mark when a step was: the group, start and duration of each, in the order in which they count."""

    group: Int32s
    start_ps: Int64s
    duration_ps: Int64s


def longest(markers: Markers) -> Markers:
    """The longest marker of each group that has one longer than nothing, by group; of equals the first."""
    some = np.flatnonzero(markers.duration_ps > 0)
    order = some[np.lexsort((-markers.duration_ps[some], markers.group[some]))]
    group = markers.group[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = group[1:] != group[:-1]
    return markers[order[first]]


@dataclass(frozen=True, slots=True)
class TypedEvents(ArrayRows):
    """Events that take part in step time."""

    group: Int32s
    type: Types
    start_ps: Int64s
    duration_ps: Int64s


@dataclass(frozen=True, slots=True)
class TimeByType:
    """By group, then event type: the time within the step, with what is unknown of it, and the time in all."""

    within_ps: Int64s  # [n, 18]
    seen: Bools  # [n, 18]: the type occurs, if only for no time
    total_ps: Int64s  # [n, 18]


def time_by_type(events: TypedEvents, lines: Int64s | None, begin_ps: Int64s, duration_ps: Int64s) -> TimeByType:
    """What steps were spent on: groups 0 to n - 1, which lasted ``duration_ps`` from ``begin_ps`` on.
    ``lines``: the events at which lines begin, and the end of the last; None: in any order.

    Overlapping events count for the highest type. What no event of a type fills is UNKNOWN_TIME.
    """
    n = len(begin_ps)
    total, within = np.zeros((n, len(TYPES)), np.int64), np.zeros((n, len(TYPES)), np.int64)
    seen = np.zeros((n, len(TYPES)), np.uint8)
    clip = np.stack([begin_ps, ends_of(begin_ps, duration_ps)], axis=1)
    step_time(
        np.ascontiguousarray(events.group),
        np.ascontiguousarray(events.type),
        np.ascontiguousarray(events.start_ps),
        np.ascontiguousarray(events.duration_ps),
        None if lines is None else np.ascontiguousarray(lines),
        clip,
        total,
        within,
        seen,
    )
    missing = duration_ps - within.sum(axis=1)
    within[:, EventType.UNKNOWN_TIME] += np.maximum(missing, 0)
    occurs = seen.astype(np.bool_)
    occurs[:, EventType.UNKNOWN_TIME] = within[:, EventType.UNKNOWN_TIME] > 0
    return TimeByType(within, occurs, total)
