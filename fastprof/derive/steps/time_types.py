"""What a stretch of step time was spent on: the event types, and the nine categories that pages show.

The order of the types is their priority: where events overlap, the time counts for the highest one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

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
"""Event types by code; XProf's EventType is ten times the code."""

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
