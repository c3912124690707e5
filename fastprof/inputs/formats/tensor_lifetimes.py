"""What allocators hold while tensors live, counted as TensorFlow's own timeline counts it.

A tensor lives from the start of the node that makes it to the end of the last node that uses it. Times are those of
TensorFlow's timeline: whole microseconds of nodes, a microsecond before the end of a node that uses it.

    a  |-----|                    float[4], 16 bytes      held   16
    b        |---|   takes a      float[2],  8 bytes             24, and 8 a microsecond before the end of b
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Final

import numpy as np

from fastprof.errors import CaptureError
from fastprof.inputs.formats.step_stats import BATCH, DOING, MICRO, Device, is_tracer, op_of
from fastprof.inputs.message_columns import MessageColumns, Spans, texts
from fastprof.schema.array_types import Int64s
from fastprof.schema.value_classes import dataclass

_NAME, _START, _END, _OUTPUT, _LABEL, _NANOS, _END_NANOS = 1, 2, 5, 7, 8, 13, 16
_NOT_READ: Final = (6, 9, 10, 11, 12)
_RECEIVED: Final = "RecvTensor"
"""A node that uses no tensor of the host."""


@dataclass(frozen=True, slots=True)
class Held:
    """What an allocator holds from each of these times on."""

    allocator: str
    micros: Int64s
    size: Int64s


@dataclass(slots=True)
class _Tensors:
    """Those of one run. ``place``: of the last tensor of each name."""

    place: dict[str, int] = field(default_factory=dict)
    allocator: list[str] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    begin: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)


def held_by_allocators(devices: Sequence[Device]) -> list[Held]:
    """CaptureError: a node does not decode."""
    tensors = _Tensors()
    for device in devices:
        for nodes in _batches(device):
            _make(tensors, device, nodes)
    if any(tensors.allocator):
        for device in devices:
            if not is_tracer(device.name):
                for nodes in _batches(device):
                    _use(tensors, device, nodes)
    return list(_counted(tensors))


def _batches(device: Device) -> Iterator[MessageColumns]:
    for first in range(0, len(device), BATCH):
        at = Spans(device.at.offset[first : first + BATCH], device.at.length[first : first + BATCH])
        try:
            yield MessageColumns(device.data, at, DOING, _NOT_READ)
        except CaptureError as fault:
            raise CaptureError(fault.message, offset=device.base + (fault.offset or 0)) from None


def _micros(nodes: MessageColumns) -> tuple[Int64s, Int64s]:
    """Starts and ends."""
    start, end = nodes.integers(_START), nodes.integers(_END)
    has_none = start == 0
    start = np.where(has_none, nodes.integers(_NANOS) // MICRO, start)
    return start, start + np.where(has_none, nodes.integers(_END_NANOS) // MICRO, end)


def _make(tensors: _Tensors, device: Device, nodes: MessageColumns) -> None:
    start, end = _micros(nodes)
    outputs = nodes.each(_OUTPUT)
    described = MessageColumns(device.data, outputs.at, DOING).spans(3)
    block = MessageColumns(device.data, MessageColumns(device.data, described, DOING).spans(4), DOING)
    number = np.arange(len(outputs.owner)) - np.searchsorted(outputs.owner, outputs.owner)
    names = texts(device.data, nodes.spans(_NAME).taken(outputs.owner))
    rows = zip(
        names, number.tolist(), start[outputs.owner].tolist(), end[outputs.owner].tolist(), block.integers(1).tolist(),
        texts(device.data, block.spans(3)), strict=True,
    )  # fmt: skip
    for name, output, begin, last, size, allocator in rows:
        tensors.place[f"{name}:{output}" if output else name] = len(tensors.size)
        tensors.allocator.append(allocator)
        tensors.size.append(size)
        tensors.begin.append(begin)
        tensors.end.append(last)


def _use(tensors: _Tensors, device: Device, nodes: MessageColumns) -> None:
    names, labels = (texts(device.data, nodes.spans(number)) for number in (_NAME, _LABEL))
    for name, label, end in zip(names, labels, _micros(nodes)[1].tolist(), strict=True):
        if name == _RECEIVED:
            continue
        for one in op_of(name, label, device.name).inputs:
            place = tensors.place.get(one)
            if place is None and (cut := one.rfind("/_")) > 0:  # a copy of it on another device
                place = tensors.place.get(one[:cut])
            if place is not None and end - 1 > tensors.end[place]:
                tensors.end[place] = end - 1


def _counted(tensors: _Tensors) -> Iterator[Held]:
    places = np.array(list(tensors.place.values()), np.int64)
    if not len(places):
        return
    allocators = [tensors.allocator[place] for place in places.tolist()]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(allocators))}
    number = np.array([numbers[name] for name in allocators], np.int64)
    size, begin, end = (np.array(column, np.int64)[places] for column in (tensors.size, tensors.begin, tensors.end))
    for name, own in numbers.items():
        rows = np.flatnonzero(number == own)
        if not name and not size[rows].any():
            continue
        times = np.concatenate([begin[rows], end[rows]])
        change = np.concatenate([size[rows], -size[rows]])
        order = np.lexsort((change, times))
        yield Held(name, times[order], np.cumsum(change[order]))
