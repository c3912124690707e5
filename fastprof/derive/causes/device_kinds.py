"""When devices compute, communicate and copy, by the clock of their host: disjoint stretches, the first counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from fastprof.derive.devices.device_events import order_of_starts
from fastprof.derive.ops.device_time import COMMUNICATION, COMPUTE, COPY, Spans, device_time, extent
from fastprof.derive.steps.stretches import Stretches, union
from fastprof.schema.array_types import Int64s
from fastprof.schema.ascending_rows import values_at
from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from fastprof.tables.host_events import HostEvents

KINDS: Final = ("compute", "communication", "copy")
_CODES: Final = (COMPUTE, COMMUNICATION, COPY)


@dataclass(frozen=True, slots=True)
class DeviceKinds:
    """``stretches``: of each of KINDS."""

    name: str
    stretches: tuple[Stretches, ...]


def device_kinds(events: HostEvents, ran: Sequence[Spans]) -> list[DeviceKinds]:
    """Of each device that ran anything. CaptureError: its times are more than 64 bits can count."""
    found = []
    for spans in ran:
        bounds = extent([spans])
        if bounds is not None:
            time = device_time(events.host, spans, *bounds)
            start = time.start_ps + _ahead(events, spans, time.start_ps)
            chosen = [time.kind == code for code in _CODES]
            kinds = tuple(union(start[one], time.duration_ps[one]) for one in chosen)
            found.append(DeviceKinds(spans.name, kinds))
    return found


def _ahead(events: HostEvents, spans: Spans, times: Int64s) -> Int64s:
    """By how much the host's clock is ahead of that of the device, at times of the latter."""
    own = spans.events
    ahead = values_at(events.start_ps, own.rows) - own.start_ps
    if not ahead.any():
        return np.zeros(len(times), np.int64)
    order = order_of_starts(events, spans.plane)  # only cores of TPUs have a clock of their own
    place = np.maximum(np.searchsorted(own.start_ps[order], times, side="right") - 1, 0)
    found: Int64s = ahead[order][place]
    return found
