"""Communication of a GPU: kernels of collectives and copies, which are in flight while kernels on other
streams compute; and collectives that host threads run, on the device that waits for them.

Kernel names do not always show the collective. Many builds of NCCL run everything in one kernel: all of ten kernels may
be called ``ncclKernel_SendRecv``, though four of them are all_to_all. The library call shows it::

    nccl:all_to_all        |------------------|    an annotation; gloo:…, c10d::allgather_ likewise
      record_param_comms     |------------|
        cudaLaunchKernel        |--|
    GPU                              |---- ncclKernel_SendRecv… ----|

The arguments of ``record_param_comms`` show it too, and what is sent; newer versions copy them to the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from fastprof._native import records
from fastprof._native.grouping import parents
from fastprof._native.op_kernels import extent
from fastprof.derive.communication.collectives import MOST_DEVICES
from fastprof.derive.communication.flights import (
    NO_BYTES,
    CoreActivity,
    Direct,
    Flights,
    Operation,
    Operations,
    make_span_rows,
)
from fastprof.derive.devices.communication_kinds import (
    OF_CATEGORY,
    CommunicationKind,
    find_collective_kind,
    parse_kind,
    split_opcode,
)
from fastprof.derive.devices.device_events import join_arrays
from fastprof.derive.devices.op_names import ARGUMENTS, RECORD, is_kineto
from fastprof.derive.ops.gpu_kernels import classify_copy, parse_copy_bytes
from fastprof.derive.ops.launches import find_launchers
from fastprof.derive.ops.op_table import compute_span
from fastprof.derive.ops.torch_calls import TorchCall, sum_argument_bytes
from fastprof.derive.steps.event_graph import STRETCH
from fastprof.derive.steps.step_database import EventType
from fastprof.derive.steps.step_events import classify_gpu_name, find_only_gpu_collectives
from fastprof.schema.columns import (
    Bools,
    Int32s,
    Int64s,
    add_durations,
    join_values,
    merge_spans,
    number_distinct_rows,
    number_values,
)
from fastprof.tables.host_events import HOST_THREADS, HostEvents, Plane, compute_once
from fastprof.wording.patterns import compile_late

if TYPE_CHECKING:
    from fastprof.derive.ops.gpu_ops import GpuOp, GpuOpEvents
    from fastprof.hlo.programs import Modules


_COPIES: Final = {
    "copy (H2D)": CommunicationKind.HOST_TO_DEVICE_COPY,
    "copy (D2H)": CommunicationKind.DEVICE_TO_HOST_COPY,
    "copy (D2D)": CommunicationKind.LOCAL_COPY,
    "copy (P2P)": CommunicationKind.PEER_COPY,
    "copy": CommunicationKind.LOCAL_COPY,
}
"""Kinds by category of device ops; copies that do not record their direction are within the device."""


def classify_kernel(name: str, category: str) -> CommunicationKind | None:
    """Return the kind of a kernel or copy of a GPU, or None if it computes. ``category``: of its op, or "" without one:
    if the name of a copy does not have its direction, the category may."""
    base = split_opcode(category)[0]
    known = OF_CATEGORY.get(base)
    if known is None and (collective := find_collective_kind(name)) is not None:
        return collective
    way = category if category.startswith("copy (") else classify_copy(name)
    return known or _COPIES.get(way)


def classify_call(name: str) -> CommunicationKind:
    """Return the kind of a call of a collective library: ``nccl:all_reduce``, ``c10d::allgather_``."""
    lowered = name.lower().rpartition(":")[2]
    return CommunicationKind.SEND_RECV if lowered.startswith(("send", "recv")) else parse_kind(lowered)


_CALL: Final = compile_late(r"(?:\w*ccl|gloo|mpi|ucc):\w+|c10d::\w+", re.ASCII)
NOT_NAMED: Final = -1


COLLECTIVE_STATS: Final = (
    "Collective name",
    "In msg nelems",
    "Out msg nelems",
    "dtype",
    "Src Rank",
    "Dst Rank",
    "Group size",
)
"""Stats that process groups record of a collective. The ranks, of a send or a recv only, are numbers in the program."""
_NAMED, _SENT, _RECEIVED, _TYPE, _SOURCE, _TARGET, _GROUP_SIZE = COLLECTIVE_STATS
_SIZES: Final = {
    "complexdouble": 16, "double": 8, "long": 8, "uint64": 8, "complexfloat": 8, "float": 4, "int": 4, "uint32": 4,
    "complexhalf": 4, "qint32": 4, "half": 2, "bfloat16": 2, "short": 2, "uint16": 2, "byte": 1, "char": 1, "bool": 1,
    "qint8": 1, "quint8": 1,
}  # fmt: skip
"""Bytes of an element, by type."""
_MOST_ELEMENTS: Final = 1 << 59


def is_collective(events: HostEvents) -> Bools:
    """Return, by row of event metadata, whether kernels of this name are collectives."""
    return np.array([classify_gpu_name(name) == EventType.DEVICE_COLLECTIVES for name in events.names], bool)


@compute_once
def _is_call(events: HostEvents) -> Bools:
    """Return, by row of event metadata, whether it is the call of a collective."""
    return np.array([_CALL.fullmatch(name) is not None for name in events.names], bool)


@compute_once
def _is_record(events: HostEvents) -> Bools:
    """Return, by row of event metadata, whether it holds the arguments of a collective."""
    return np.array([name == RECORD for name in events.names], bool)


def find_collective_calls(events: HostEvents, rows: Int64s) -> Int64s:
    """Return the event metadata of the collective call around each row's launch, or NOT_NAMED."""
    above = _find_above(events, rows, _is_call(events))
    return np.where(above < 0, NOT_NAMED, events.meta[above])


def find_collective_arguments(events: HostEvents, rows: Int64s) -> Int64s:
    """Return the event with the arguments of each collective: the kernel itself, or the record around its launch, or
    -1."""
    if _TYPE not in events.stats or not len(events.texts(_TYPE)[0]):
        return np.full(len(rows), -1, np.int64)
    record = _find_above(events, rows, _is_record(events))
    own = np.isin(rows, events.texts(_TYPE)[0]) & is_collective(events)[events.meta[rows]]
    return np.where(own, rows, record)


def read_collective_names(events: HostEvents, arguments: Int64s) -> Int64s:
    """Return the number of the text of each collective's name, or -1 if it is not recorded."""
    if _NAMED not in events.stats:
        return np.full(len(arguments), -1, np.int64)
    return np.where(arguments < 0, -1, join_values(*events.texts(_NAMED), np.maximum(arguments, 0)))


def read_payload_bytes(events: HostEvents, arguments: Int64s) -> Int64s:
    """Return the bytes of each collective, or NO_BYTES if they are not recorded: what each device receives in an
    all-gather, and what it sends in all others."""
    payload = np.full(len(arguments), NO_BYTES, np.int64)
    at = np.flatnonzero(arguments >= 0)
    if not len(at):
        return payload
    rows = arguments[at]
    sent, received = (join_values(*events.ints(name), rows) for name in (_SENT, _RECEIVED))
    types, named = join_values(*events.texts(_TYPE), rows), read_collective_names(events, rows)
    sizes, gathers = {-1: 0}, {-1: False}
    for number in np.unique(types[types >= 0]).tolist():
        type_name = events.text(number).lower()
        sizes[number] = 1 if type_name.startswith(("float8", "float4_")) else _SIZES.get(type_name, 0)
    for number in np.unique(named[named >= 0]).tolist():
        gathers[number] = "allgather" in events.text(number).lower().replace("_", "")
    elements = np.where([gathers[number] for number in named.tolist()], received, sent)
    size = np.array([sizes[number] for number in types.tolist()], np.int64)
    known = (elements >= 0) & (elements < _MOST_ELEMENTS) & (size > 0)
    payload[at] = np.where(known, np.where(known, elements, 0) * size, NO_BYTES)
    return payload


def read_group_sizes(events: HostEvents, arguments: Int64s) -> Int64s:
    """Return how many devices take part in each collective, or 0 if that is not recorded."""
    if _GROUP_SIZE not in events.stats:
        return np.zeros(len(arguments), np.int64)
    size = np.where(arguments < 0, 0, join_values(*events.ints(_GROUP_SIZE), np.maximum(arguments, 0)))
    return np.where((size > 0) & (size <= MOST_DEVICES), size, 0)


def read_other_ranks(events: HostEvents, arguments: Int64s) -> tuple[Int64s, Bools]:
    """Return the rank that each send or recv names, or -1, and whether it receives."""
    rows = np.maximum(arguments, 0)
    source, target = (
        np.where(arguments < 0, -1, join_values(*events.ints(name), rows)) if name in events.stats else rows * 0 - 1
        for name in (_SOURCE, _TARGET)
    )
    return np.where(target >= 0, target, source), target >= 0


@compute_once
def _find_parents(events: HostEvents) -> Int32s:
    """Return the enclosing event of each event in its thread, or -1."""
    plane, parent = events.plane_named(HOST_THREADS), np.full(len(events), -1, np.int32)
    lines = plane.lines if plane is not None else ()
    bounds = np.array([(line.first, line.last) for line in lines], np.int64).reshape(-1, 2)
    parents(events.start_ps, events.duration_ps, None, np.zeros((0, 3), np.int64), bounds, parent, events.slack_ps)
    return parent


def _find_above(events: HostEvents, rows: Int64s, wanted: Bools) -> Int64s:
    """Return the nearest event around the launch of each collective whose metadata is wanted, or -1."""
    nearest = np.full(len(rows), -1, np.int64)
    if events.plane_named(HOST_THREADS) is None or not wanted.any() or not is_kineto(events):
        return nearest
    at = np.flatnonzero(is_collective(events)[events.meta[rows]])
    if not len(at):
        return nearest
    parent = _find_parents(events)
    above = find_launchers(events, rows[at])
    while (further := (above >= 0) & ~wanted[events.meta[above]]).any():
        above[further] = parent[above[further]]
    nearest[at] = above
    return nearest


_KEEPS_SIZE: Final = (
    CommunicationKind.ALL_REDUCE,
    CommunicationKind.ALL_TO_ALL,
    CommunicationKind.BROADCAST,
    CommunicationKind.REDUCE,
    CommunicationKind.SEND_RECV,
)
"""Kinds whose payload is the argument of the call."""


def add_host_collectives(
    events: HostEvents, activity: CoreActivity, rows: Int64s, operations: Operations
) -> CoreActivity:
    """Add collectives of the host to what its only device did, with bytes by the shapes of their arguments if these are
    recorded."""
    names = {meta: events.names[meta] for meta in np.unique(events.meta[rows]).tolist()}
    kinds = {meta: classify_call(name) for meta, name in names.items()}
    ops = {meta: operations.number(Operation(0, name, kinds[meta], "", "")) for meta, name in names.items()}
    op = np.array([ops[meta] for meta in events.meta[rows].tolist()], np.int32)
    start, duration = events.start_ps[rows], np.maximum(events.duration_ps[rows], 0)
    end = add_durations(start, duration)
    columns = [join_values(*events.texts(name), rows) for name in ARGUMENTS[:3]]
    first, place = number_distinct_rows([*columns, events.meta[rows].astype(np.int64)])
    sizes = []
    for at in first.tolist():
        meta = int(events.meta[rows[at]])
        dims, old, types = (int(column[at]) for column in columns)
        shapes, element_types = (events.text(number) if number >= 0 else "" for number in (max(dims, old), types))
        call = TorchCall(names[meta], shapes, element_types, "")
        sizes.append((sum_argument_bytes(call) if kinds[meta] in _KEEPS_SIZE else 0) or NO_BYTES)
    moved = np.array(sizes, np.int64)[place]
    aloft, done = np.ones(len(rows), np.bool_), np.zeros(len(rows), np.int64)
    more = Flights(op, start, end, start, end, duration, aloft, moved, done)
    both = (
        np.concatenate([getattr(flights, name) for flights in (activity.flights, more)]) for name in Flights.__slots__
    )
    begin_ps, end_ps = min(activity.begin_ps, int(start.min())), max(activity.end_ps, int(end.max()))
    return replace(activity, flights=Flights(*both), begin_ps=begin_ps, end_ps=end_ps)


EVENT_STATS: Final = ("memcpy_details", *COLLECTIVE_STATS)
"""Stats that are read beyond those of ops."""

_DESTINATION: Final = compile_late(r"(?:^|\s)dest:(\d{1,9})(?!\d)", re.ASCII)


def find_gpu_flights(
    events: HostEvents, planes: Sequence[Plane], modules: Modules, operations: Operations
) -> list[CoreActivity | None]:
    """Find the activity of each GPU, or None if it has none."""
    from fastprof.derive.ops import gpu_attribution  # it takes long to import

    ops = gpu_attribution.find_op_events(events, modules)
    each = [_find_flights(events, plane, ops, operations) for plane in planes]
    rows = find_only_gpu_collectives(events)
    if not len(rows):
        return each
    return [activity and add_host_collectives(events, activity, rows, operations) for activity in each]


def _find_flights(events: HostEvents, plane: Plane, ops: GpuOpEvents, operations: Operations) -> CoreActivity | None:
    lines = [line for line in plane.lines if not line.is_derived and line.last > line.first]
    if not lines:
        return None
    rows = join_arrays([np.arange(line.first, line.last) for line in lines])
    start, duration = events.start_ps[rows], np.maximum(events.duration_ps[rows], 0)
    span = extent(start, duration)
    begin, end = span if span is not None else (int(start.min()), 2**63 - 1)
    compute_span(events.host, plane.name, begin, end)
    op, moved, other = _find_operations(events, plane, rows, ops, operations)
    moves = op >= 0
    took = np.minimum(duration, (2**63 - 1) - np.maximum(start, 0))  # no end exceeds 64 bits
    work = make_span_rows(*merge_spans(start[~moves], took[~moves]))
    first, last, wait = start[moves], (start + took)[moves], took[moves]
    none = np.zeros(len(first), np.int64)
    flights = Flights(op[moves], first, last, first, last, wait, moves[moves], moved[moves], none)
    known = np.flatnonzero(other.peer[moves] >= 0)
    at = np.flatnonzero(moves)[known]
    direct = Direct(known, other.peer[at], other.sends[at], other.is_rank[at])
    return CoreActivity(work, np.zeros(0, STRETCH), flights, begin, end, direct)


def _find_operations(
    events: HostEvents, plane: Plane, rows: Int64s, ops: GpuOpEvents, operations: Operations
) -> tuple[Int32s, Int64s, Direct]:
    """Return the operation of each event, or -1 if it computes; the bytes that it records; and the device at its other
    end. Each kernel is looked up once with its op and the collective call that launched it."""
    called = find_collective_calls(events, rows)
    arguments = find_collective_arguments(events, rows)
    named = read_collective_names(events, arguments)
    sizes = read_group_sizes(events, arguments)
    moved, elsewhere, target, way = _read_copies(events, plane, rows)
    first, place = number_distinct_rows([ops.op[rows], events.meta[rows], called, named, sizes, way])
    of_pair, to_peer = (np.full(len(first), -1, np.int32) for _ in range(2))
    for at, row in enumerate(first.tolist()):
        number = int(ops.op[rows[row]])
        op = ops.ops[number] if number >= 0 else None
        kernel = events.names[events.meta[rows[row]]]
        kind = classify_kernel(kernel, op.category if op is not None else "")
        if kind is CommunicationKind.LOCAL_COPY:  # names of copies may lack the direction
            kind = _WAYS[int(way[row])][1]
        if kind is not None and (called[row] != NOT_NAMED or named[row] >= 0):
            recorded = events.text(int(named[row])) if named[row] >= 0 else ""
            call = events.names[called[row]] if called[row] != NOT_NAMED else recorded
            said = classify_call(recorded or call)
            kind = kind if said is CommunicationKind.OTHER_COLLECTIVE else said  # of several that were called at once
            of_pair[at] = operations.number(Operation(0, call, kind, kernel, call, int(sizes[row])))
        elif kind is not None:
            of_pair[at] = to_peer[at] = operations.number(_make_operation(kernel, op, kind))
        if kind is CommunicationKind.LOCAL_COPY:
            to_peer[at] = operations.number(_make_operation(kernel, op, CommunicationKind.PEER_COPY))
    moved = np.where(moved == NO_BYTES, read_payload_bytes(events, arguments), moved)
    rank, receives = read_other_ranks(events, arguments)
    other = Direct(rows, np.where(rank >= 0, rank, target), receives | (rank < 0), rank >= 0)
    return np.where(elsewhere, to_peer[place], of_pair[place]), np.where(of_pair[place] >= 0, moved, NO_BYTES), other


def _make_operation(kernel: str, op: GpuOp | None, kind: CommunicationKind) -> Operation:
    if op is None:
        return Operation(0, kernel, kind, "", "")
    return Operation(op.program_id, op.name, kind, op.long_name, op.provenance)


_WAYS: Final = (
    ("", CommunicationKind.LOCAL_COPY), ("kind:HtoD", CommunicationKind.HOST_TO_DEVICE_COPY),
    ("kind:DtoH", CommunicationKind.DEVICE_TO_HOST_COPY)
)  # fmt: skip
"""Prefixes of the details of copies that leave or reach the device."""


def _read_copies(events: HostEvents, plane: Plane, rows: Int64s) -> tuple[Int64s, Bools, Int64s, Int64s]:
    """Return the bytes of copies, or NO_BYTES; whether they go to another device; its number among those of the host,
    or -1; and the place of their direction in _WAYS."""
    moved, elsewhere = np.full(len(rows), NO_BYTES, np.int64), np.zeros(len(rows), np.bool_)
    target, way = np.full(len(rows), -1, np.int64), np.zeros(len(rows), np.int64)
    details = events.stat("memcpy_details").at(rows)
    has = np.flatnonzero((details.kind == records.STR) | (details.kind == records.REF))
    if len(has):
        distinct, inverse = number_values(details.value[has])
        texts = events.all_texts(distinct)
        targets = []  # device numbers, or -1 if a copy stays on its device
        for text in texts:
            destination = _DESTINATION.search(text)
            to = -1 if destination is None or plane.ordinal is None else int(destination[1])
            targets.append(-1 if to == plane.ordinal else to)
        moved[has] = np.array([parse_copy_bytes(text) or NO_BYTES for text in texts], np.int64)[inverse]
        elsewhere[has] = np.array([target >= 0 for target in targets], np.bool_)[inverse]
        counted = [_OTHER_NUMBERS not in text for text in texts]
        target[has] = np.where(counted, np.array(targets, np.int64), -1)[inverse]
        ways = [max(place for place, (begin, _) in enumerate(_WAYS) if text.startswith(begin)) for text in texts]
        way[has] = np.array(ways, np.int64)[inverse]
    return moved, elsewhere, target, way


_OTHER_NUMBERS: Final = "kind:Unknown"
"""Marker of details that count devices of ROCm, processors among them, differently from planes."""
