"""What a TPU plane records of its core: the stat ``core_details``, a small protobuf message (XProf's CoreDetails)."""

from __future__ import annotations

from typing import Any

from fastprof.errors import CaptureError
from fastprof.hlo.message import Message
from fastprof.schema.value_classes import dataclass


@dataclass(frozen=True, slots=True)
class CoreDetails:
    """Numbers of a core: its own on the host, its chip's on the host, its own in the system; 0 where not recorded."""

    device_ordinal: int = 0
    local_chip_id: int = 0
    global_core_id: int = 0


def core_details(stats: dict[str, Any]) -> CoreDetails | None:
    """From the stats of a plane; None if the plane has none, or none that can be read."""
    recorded = stats.get("core_details")
    if not isinstance(recorded, bytes | memoryview):
        return None
    try:
        message = Message(memoryview(recorded))
    except CaptureError:
        return None
    return CoreDetails(*(message.integer(field) & 0xFFFFFFFF for field in (2, 4, 6)))
