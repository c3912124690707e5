"""The time of steps: which span a group's markers give it, and what its events spent that span on: the event types, and
the nine categories that pages show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from fastprof._native.step_kernels import step_time
from fastprof.schema.array_rows import ArrayRows
from fastprof.schema.array_types import Bools, Int32s, Int64s

Types = npt.NDArray[np.uint8]

TYPES: Final = (
    "unknown_time",
    "host_compute",
    "host_preprocess",
    "host_postprocess",
    "host_batch_formation",
    "host_runtime",
    "host_compile",
    "host_to_host",
    "host_to_device",
    "host_prepare",
    "device_collectives",
    "host_wait_input",
    "device_to_device",
    "device_to_host",
    "device_compute_32",
    "device_compute_16",
    "device_wait_device",
    "device_wait_host",
)
"""Event types by code, their priority: if events overlap, time counts for the highest. XProf's EventType is ten times
the code."""

(
    UNKNOWN_TIME,
    HOST_COMPUTE,
    HOST_PREPROCESS,
    HOST_POSTPROCESS,
    HOST_BATCH_FORMATION,
    HOST_RUNTIME,
    HOST_COMPILE,
    HOST_TO_HOST,
    HOST_TO_DEVICE,
    HOST_PREPARE,
    DEVICE_COLLECTIVES,
    HOST_WAIT_INPUT,
    DEVICE_TO_DEVICE,
    DEVICE_TO_HOST,
    DEVICE_COMPUTE_32,
    DEVICE_COMPUTE_16,
    DEVICE_WAIT_DEVICE,
    DEVICE_WAIT_HOST,
) = range(len(TYPES))

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
    Category(1, "device_compute", "Device compute", (DEVICE_COMPUTE_16, DEVICE_COMPUTE_32)),
    Category(2, "device_to_device", "Device to device", (DEVICE_TO_DEVICE, DEVICE_WAIT_DEVICE)),
    Category(3, "device_collectives", "Device collective communication", (DEVICE_COLLECTIVES,)),
    Category(4, "host_compute", "Host compute", (HOST_COMPUTE,)),
    Category(5, "kernel_launch", "Kernel launch", (HOST_PREPARE,)),
    Category(6, "input", "Input", (HOST_WAIT_INPUT, HOST_TO_DEVICE, DEVICE_WAIT_HOST)),
    Category(7, "output", "Output", (DEVICE_TO_HOST,)),
    Category(8, "compilation", "Compilation", (HOST_COMPILE,)),
    Category(9, "all_others", "All others", (UNKNOWN_TIME,)),
)
"""The categories, by their number in XProf less one. Host-to-host copies are in none of them."""


HOST_TRANSFERS: Final = ("host send", "host send-done", "host recv", "host recv-done")
OFF_DUTY: Final = ("infeed", "outfeed", *HOST_TRANSFERS, "async-done", "megacore fusion")
"""Categories of ops in which a TPU core waits: for the host, for a transfer, or for the other core of the chip."""


def category_times(type_ps: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The times of the nine categories in ps, from times by type: [..., 18] to [..., 9]."""
    return np.stack([type_ps[..., list(category.types)].sum(axis=-1) for category in CATEGORIES], axis=-1)


@dataclass(frozen=True, slots=True)
class Markers(ArrayRows):
    """Events that say when a step was: the group, start and duration of each, in the order in which they count."""

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
class TypedEvents:
    """Events that take part in step time; ``lines``: the rows at which lines begin, and the end of the last."""

    group: Int32s
    type: Types
    start_ps: Int64s
    duration_ps: Int64s
    lines: Int64s | None


@dataclass(frozen=True, slots=True)
class TimeByType:
    """By group, then event type: the time within the step, with what is unknown of it, and the time in all."""

    within_ps: Int64s  # [n, 18]
    seen: Bools  # [n, 18]: the type occurs, if only for no time
    total_ps: Int64s  # [n, 18]


def time_by_type(events: TypedEvents, begin_ps: Int64s, duration_ps: Int64s) -> TimeByType:
    """What steps were spent on: groups 0 to n - 1, which lasted ``duration_ps`` from ``begin_ps`` on.

    Overlapping events count for the highest type. What no event of a type fills is UNKNOWN_TIME.
    """
    n = len(begin_ps)
    total, within = np.zeros((n, len(TYPES)), np.int64), np.zeros((n, len(TYPES)), np.int64)
    seen = np.zeros((n, len(TYPES)), np.uint8)
    clip = np.stack([begin_ps, begin_ps + duration_ps], axis=1)
    step_time(
        np.ascontiguousarray(events.group),
        np.ascontiguousarray(events.type),
        np.ascontiguousarray(events.start_ps),
        np.ascontiguousarray(events.duration_ps),
        None if events.lines is None else np.ascontiguousarray(events.lines),
        clip,
        total,
        within,
        seen,
    )
    missing = duration_ps - within.sum(axis=1)
    within[:, UNKNOWN_TIME] += np.maximum(missing, 0)
    occurs = seen.astype(np.bool_)
    occurs[:, UNKNOWN_TIME] = within[:, UNKNOWN_TIME] > 0
    return TimeByType(within, occurs, total)
