"""What each device of a host does at each time of its window: it computes, communicates, copies, waits for its host, or
does nothing. If several of these go on at once, the first counts.

    stream 1     |==compute==|        |=compute=|
    stream 2          |--all-reduce--|          |..copy..|
    kinds    idle|  compute  |comm.  | compute  | copy   |idle
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from fastprof._native.cause_kernels import foremost
from fastprof.derive.devices.device_count import CPU as CPU
from fastprof.derive.ops.tables import span_ps
from fastprof.schema.array_types import Int32s, Int64s, UInt8s
from fastprof.tables.host_events import Plane

KINDS: Final = ("compute", "communication", "copy", "wait", "idle")
COMPUTE, COMMUNICATION, COPY, WAIT, IDLE = range(len(KINDS))
"""Kinds of time, in the order in which they count."""

PIECE: Final = np.dtype([("begin", "i8"), ("end", "i8"), ("span", "i8")])
"""The struct of csrc/kernels/foremost.h; a test compares its size with C's."""

INFEED, OUTFEED, HOST, CORE = "infeed", "outfeed", "host", "core"


@dataclass(frozen=True, slots=True)
class Transfer:
    """What moves data: its name, the kind of the time in which a device waits for it, and, if that is WAIT, what the
    device waits for: INFEED, OUTFEED, HOST or another CORE."""

    name: str
    kind: int
    waits_for: str = ""


@dataclass(frozen=True, slots=True)
class DeviceEvents:
    """The events of a device: their rows, ascending, and their times by the clock of its ops."""

    rows: Int32s
    start_ps: Int64s
    end_ps: Int64s


@dataclass(frozen=True, slots=True)
class Spans:
    """What a device ran: spans that may overlap, in any order. ``rank``: of those at once, the lowest
    counts; ``kind``: see KINDS; ``transfer``: place in ``transfers``, -1: it computes."""

    name: str
    plane: Plane
    begin_ps: Int64s
    end_ps: Int64s
    rank: Int32s
    kind: UInt8s
    transfer: Int32s
    transfers: Sequence[Transfer]
    events: DeviceEvents


@dataclass(frozen=True, slots=True)
class DeviceTime:
    """Stretches of time, in order and without holes, that add up to the window: from the first of ``start_ps`` to the
    last of ``end_ps``, by the clock of the device's ops. ``kind``: see KINDS. ``transfer``: the place in the transfers
    of ``ran`` of what the device waits for, -1: nothing, as in compute."""

    ran: Spans
    start_ps: Int64s
    end_ps: Int64s
    kind: UInt8s
    transfer: Int32s

    def __len__(self) -> int:
        return len(self.start_ps)

    @property
    def duration_ps(self) -> Int64s:
        return self.end_ps - self.start_ps


def device_time(host: str, spans: Spans, begin_ps: int, end_ps: int) -> DeviceTime:
    """The stretches of a device from ``begin_ps`` to ``end_ps``. CaptureError: 64 bits cannot count the time
    between."""
    span_ps(host, spans.name, begin_ps, end_ps)
    order = np.argsort(spans.begin_ps, kind="stable")
    begin, end = (spans.begin_ps[order], spans.end_ps[order])
    pieces = np.frombuffer(foremost(begin, end, spans.rank[order], begin_ps, end_ps), PIECE)
    busy = pieces["span"] >= 0
    span = order[pieces["span"][busy]]
    kind = np.full(len(pieces), IDLE, np.uint8)
    transfer = np.full(len(pieces), -1, np.int32)
    kind[busy], transfer[busy] = spans.kind[span], spans.transfer[span]
    first = np.ones(len(pieces), np.bool_)
    first[1:] = (kind[1:] != kind[:-1]) | (transfer[1:] != transfer[:-1])
    starts = np.ascontiguousarray(pieces["begin"][first])
    ends = np.append(starts[1:], pieces["end"][-1:])
    return DeviceTime(spans, starts, ends, kind[first], transfer[first])


def extent(spans: Sequence[Spans]) -> tuple[int, int] | None:
    """From the first begin to the last end of anything that the devices ran; None: they ran nothing."""
    some = [one for one in spans if len(one.begin_ps)]
    if not some:
        return None
    return min(int(one.begin_ps.min()) for one in some), max(int(one.end_ps.max()) for one in some)
