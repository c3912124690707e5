"""What each device of a host does at each time of its window: it computes, communicates, copies, waits for its host, or
does nothing. If several of these go on at once, the first counts.

    stream 1     |==compute==|        |=compute=|
    stream 2          |--all-reduce--|          |..copy..|
    kinds    idle|  compute  |comm.  | compute  | copy   |idle
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from fastprof._native.cause_kernels import foremost
from fastprof.derive.devices.communication_kinds import BETWEEN_DEVICES, Kind
from fastprof.derive.devices.device_count import CPU as CPU
from fastprof.derive.ops.tables import span_ps
from fastprof.derive.steps.stretches import PIECE as PIECE
from fastprof.schema.array_types import Int32s, Int64s, Records, UInt8s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import Plane

KINDS: Final = ("compute", "communication", "copy", "wait", "idle")
COMPUTE, COMMUNICATION, COPY, WAIT, IDLE = range(len(KINDS))
"""Kinds of time, in the order in which they count."""

SPAN: Final = np.dtype([("begin", "i8"), ("end", "i8"), ("rank", "i4"), ("label", "i4")])
"""The struct of csrc/kernels/foremost.h; a test compares its size with C's."""

INFEED, OUTFEED, HOST, CORE = "infeed", "outfeed", "host", "core"


@dataclass(frozen=True, slots=True)
class Transfer:
    """What moves data: its name, the kind of the time in which a device waits for it, and, if that is WAIT, what the
    device waits for: INFEED, OUTFEED, HOST or another CORE."""

    name: str
    kind: int
    waits_for: str = ""


_WAITS: Final = {Kind.INFEED: INFEED, Kind.OUTFEED: OUTFEED, Kind.HOST_SEND_RECV: HOST, Kind.OFFLOAD: CORE}


def transfer(name: str, kind: Kind) -> Transfer:
    """Return how a device that waits for a transfer of a kind spends its time."""
    if kind.scope == BETWEEN_DEVICES:
        return Transfer(name, COMMUNICATION)
    return Transfer(name, WAIT, _WAITS[kind]) if kind in _WAITS else Transfer(name, COPY)


@dataclass(frozen=True, slots=True)
class DeviceEvents:
    """The events of a device: their rows, ascending, and their times by the clock of its ops."""

    rows: Int32s
    start_ps: Int64s
    end_ps: Int64s


@dataclass(frozen=True, slots=True)
class Spans:
    """What a device ran: ``spans``, SPAN, that may overlap, in any order. ``rank``: of those at once, the lowest
    counts; ``label``: 0: it computes; 1 and above: the place in ``transfers``, plus 1."""

    name: str
    plane: Plane
    spans: Records
    transfers: Sequence[Transfer]
    events: DeviceEvents


IS_IDLE, COMPUTES = -2, -1
"""States of a device; from 0 on: the place in its transfers of what it waits for."""


@dataclass(frozen=True, slots=True)
class DeviceTime:
    """Stretches of time, in order and without holes, that add up to the window: from the first of ``start_ps`` to
    ``last_ps``, by the clock of the device's ops. ``state``: see IS_IDLE; neighbours differ in it."""

    ran: Spans
    start_ps: Int64s
    state: Int32s
    last_ps: int

    def __len__(self) -> int:
        return len(self.start_ps)

    @property
    def end_ps(self) -> Int64s:
        return np.append(self.start_ps, self.last_ps)[1:]

    @property
    def duration_ps(self) -> Int64s:
        return self.end_ps - self.start_ps

    @property
    def kind(self) -> UInt8s:
        """See KINDS."""
        kinds: UInt8s = np.array([*(one.kind for one in self.ran.transfers), IDLE, COMPUTE], np.uint8)[self.state]
        return kinds


def device_time(host: str, ran: Spans, begin_ps: int, end_ps: int) -> DeviceTime:
    """The stretches of a device from ``begin_ps`` to ``end_ps``. CaptureError: 64 bits cannot count the time
    between."""
    span_ps(host, ran.name, begin_ps, end_ps)
    pieces = np.frombuffer(foremost(ran.spans, begin_ps, end_ps), PIECE)
    state = pieces["label"].astype(np.int32)
    state -= 1
    return DeviceTime(ran, np.ascontiguousarray(pieces["begin"]), state, end_ps)


def spans_of(begin: Int64s, end: Int64s, rank: Int32s | int, label: Int32s | int) -> Records:
    """SPAN."""
    spans = np.empty(len(begin), SPAN)
    spans["begin"], spans["end"], spans["rank"], spans["label"] = begin, end, rank, label
    return spans


def extent(spans: Sequence[Spans]) -> tuple[int, int] | None:
    """From the first begin to the last end of anything that the devices ran; None: they ran nothing."""
    some = [one.spans for one in spans if len(one.spans)]
    if not some:
        return None
    return min(int(one["begin"].min()) for one in some), max(int(one["end"].max()) for one in some)
