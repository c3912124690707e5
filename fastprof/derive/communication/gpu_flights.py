"""Communication of a GPU: kernels of collectives and copies, each aloft while kernels on other streams compute."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from fastprof._native import records
from fastprof._native.op_kernels import extent
from fastprof.derive.communication import torch_collectives
from fastprof.derive.communication.flights import (
    NO_BYTES,
    STRETCH,
    CoreActivity,
    Direct,
    Flights,
    Operation,
    Operations,
    as_stretches,
)
from fastprof.derive.communication.host_flights import with_host_collectives
from fastprof.derive.communication.kernel_kinds import kind_of_call, kind_of_kernel
from fastprof.derive.communication.torch_collectives import NOT_NAMED
from fastprof.derive.devices.communication_kinds import Kind
from fastprof.derive.devices.device_events import joined
from fastprof.derive.ops.kernel_names import num_bytes
from fastprof.derive.ops.stat_values import distinct_rows
from fastprof.derive.ops.tables import span_ps
from fastprof.derive.steps import stretches
from fastprof.derive.steps.device_steps import is_derived
from fastprof.derive.steps.host_collectives import collectives_of_only_gpu
from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.tables.host_events import HostEvents, Plane
from fastprof.wording.patterns import pattern_of

if TYPE_CHECKING:
    from fastprof.derive.ops.gpu_ops import GpuOp, GpuOpEvents
    from fastprof.hlo.modules import Modules

EVENT_STATS: Final = ("memcpy_details", *torch_collectives.STATS)
"""Stats that are read beyond those of ops."""

_DESTINATION: Final = pattern_of(r"(?:^|\s)dest:(\d{1,9})(?!\d)", re.ASCII)


def activities(
    events: HostEvents, planes: Sequence[Plane], modules: Modules, operations: Operations
) -> list[CoreActivity | None]:
    """What each GPU did; None: nothing."""
    from fastprof.derive.ops import gpu  # it takes long to import

    found = gpu.op_events(events, modules)
    each = [_activity(events, plane, found, operations) for plane in planes]
    rows = collectives_of_only_gpu(events)
    return [one and with_host_collectives(events, one, rows, operations) for one in each] if len(rows) else each


def _activity(events: HostEvents, plane: Plane, found: GpuOpEvents, operations: Operations) -> CoreActivity | None:
    lines = [line for line in plane.lines if not is_derived(line) and line.last > line.first]
    if not lines:
        return None
    rows = joined([np.arange(line.first, line.last) for line in lines])
    start, duration = events.start_ps[rows], np.maximum(events.duration_ps[rows], 0)
    span = extent(start, duration)
    begin, end = span if span is not None else (int(start.min()), 2**63 - 1)
    span_ps(events.host, plane.name, begin, end)
    op, moved, other = _operations_of(events, plane, rows, found, operations)
    moves = op >= 0
    took = np.minimum(duration, (2**63 - 1) - np.maximum(start, 0))  # no end exceeds 64 bits
    work = as_stretches(*stretches.union(start[~moves], took[~moves]))
    first, last, wait = start[moves], (start + took)[moves], took[moves]
    none = np.zeros(len(first), np.int64)
    flights = Flights(op[moves], first, last, first, last, wait, moves[moves], moved[moves], none)
    known = np.flatnonzero(other.peer[moves] >= 0)
    at = np.flatnonzero(moves)[known]
    direct = Direct(known, other.peer[at], other.sends[at], other.is_rank[at])
    return CoreActivity(work, np.zeros(0, STRETCH), flights, begin, end, direct)


def _operations_of(
    events: HostEvents, plane: Plane, rows: Int64s, found: GpuOpEvents, operations: Operations
) -> tuple[Int32s, Int64s, Direct]:
    """The operation of each event, -1: it computes; the bytes that it records, and the device at its other end. Looks
    once at each kernel with its op and the call of a collective that launched it."""
    called = torch_collectives.collective_calls(events, rows)
    arguments = torch_collectives.collective_arguments(events, rows)
    named = torch_collectives.collective_names(events, arguments)
    sizes = torch_collectives.group_sizes(events, arguments)
    moved, elsewhere, target, way = _copies(events, plane, rows)
    first, place = distinct_rows([found.op[rows], events.meta[rows], called, named, sizes, way])
    of_pair, to_peer = (np.full(len(first), -1, np.int32) for _ in range(2))
    for at, row in enumerate(first.tolist()):
        number = int(found.op[rows[row]])
        op = found.ops[number] if number >= 0 else None
        kernel = events.names[events.meta[rows[row]]]
        kind = kind_of_kernel(kernel, op.category if op is not None else "")
        if kind is Kind.LOCAL_COPY:  # names of copies may lack the direction
            kind = _WAYS[int(way[row])][1]
        if kind is not None and (called[row] != NOT_NAMED or named[row] >= 0):
            recorded = events.text(int(named[row])) if named[row] >= 0 else ""
            call = events.names[called[row]] if called[row] != NOT_NAMED else recorded
            said = kind_of_call(recorded or call)
            kind = kind if said is Kind.OTHER_COLLECTIVE else said  # of several that were called at once
            of_pair[at] = operations.number(Operation(0, call, kind, kernel, call, int(sizes[row])))
        elif kind is not None:
            of_pair[at] = to_peer[at] = operations.number(_operation(kernel, op, kind))
        if kind is Kind.LOCAL_COPY:
            to_peer[at] = operations.number(_operation(kernel, op, Kind.PEER_COPY))
    moved = np.where(moved == NO_BYTES, torch_collectives.payload_bytes(events, arguments), moved)
    rank, receives = torch_collectives.other_ranks(events, arguments)
    other = Direct(rows, np.where(rank >= 0, rank, target), receives | (rank < 0), rank >= 0)
    return np.where(elsewhere, to_peer[place], of_pair[place]), np.where(of_pair[place] >= 0, moved, NO_BYTES), other


def _operation(kernel: str, op: GpuOp | None, kind: Kind) -> Operation:
    if op is None:
        return Operation(0, kernel, kind, "", "")
    return Operation(op.program_id, op.name, kind, op.long_name, op.provenance)


_WAYS: Final = (
    ("", Kind.LOCAL_COPY), ("kind:HtoD", Kind.HOST_TO_DEVICE_COPY), ("kind:DtoH", Kind.DEVICE_TO_HOST_COPY)
)  # fmt: skip
"""How details of copies begin that leave or reach the device."""


def _copies(events: HostEvents, plane: Plane, rows: Int64s) -> tuple[Int64s, Bools, Int64s, Int64s]:
    """Return for copies their bytes, NO_BYTES if not recorded, whether they go to another device, its number
    among those of the host, -1: unknown, and the place of their direction in _WAYS."""
    moved, elsewhere = np.full(len(rows), NO_BYTES, np.int64), np.zeros(len(rows), np.bool_)
    target, way = np.full(len(rows), -1, np.int64), np.zeros(len(rows), np.int64)
    details = events.stat("memcpy_details").at(rows)
    has = np.flatnonzero((details.kind == records.STR) | (details.kind == records.REF))
    if len(has):
        distinct, inverse = np.unique(details.value[has], return_inverse=True)
        texts, inverse = events.all_texts(distinct), inverse.reshape(-1)
        targets = [_target(text, plane) for text in texts]
        moved[has] = np.array([num_bytes(text) or NO_BYTES for text in texts], np.int64)[inverse]
        elsewhere[has] = np.array([one >= 0 for one in targets], np.bool_)[inverse]
        counted = [_OTHER_NUMBERS not in text for text in texts]
        target[has] = np.where(counted, np.array(targets, np.int64), -1)[inverse]
        ways = [max(place for place, (begin, _) in enumerate(_WAYS) if text.startswith(begin)) for text in texts]
        way[has] = np.array(ways, np.int64)[inverse]
    return moved, elsewhere, target, way


_OTHER_NUMBERS: Final = "kind:Unknown"
"""Details of copies that count devices of ROCm, processors among them, not as planes do."""


def _target(details: str, plane: Plane) -> int:
    """The device that a copy goes to; -1: it does not leave this one."""
    found = _DESTINATION.search(details)
    away = found is not None and plane.ordinal is not None and int(found[1]) != plane.ordinal
    return int(found[1]) if found is not None and away else -1
