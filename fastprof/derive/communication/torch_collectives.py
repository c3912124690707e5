"""Which collective a kernel of PyTorch's process groups runs.

Many builds of NCCL run everything in one kernel, so that its name is the weakest sign: all of ten kernels may be called
``ncclKernel_SendRecv``, though four of them are all_to_all. What calls the library says it::

    nccl:all_to_all        |------------------|    an annotation; gloo:…, c10d::allgather_ likewise
      record_param_comms     |------------|
        cudaLaunchKernel        |--|
    GPU                              |---- ncclKernel_SendRecv… ----|

Arguments of ``record_param_comms`` say it too, and what is sent; newer versions copy them to the kernel.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from fastprof._native.grouping import parents
from fastprof.derive.communication.flights import NO_BYTES
from fastprof.derive.communication.payload import MOST_DEVICES
from fastprof.derive.devices.kineto_categories import RECORD, is_kineto
from fastprof.derive.ops.launches import launchers
from fastprof.derive.ops.stat_values import stat_beside
from fastprof.derive.steps.gpu_step_events import type_of_name
from fastprof.derive.steps.step_time import EventType
from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.tables.host_events import HOST_THREADS, HostEvents
from fastprof.tables.once import once
from fastprof.wording.patterns import pattern_of

_CALL: Final = pattern_of(r"(?:\w*ccl|gloo|mpi|ucc):\w+|c10d::\w+", re.ASCII)
NOT_NAMED: Final = -1


STATS: Final = ("Collective name", "In msg nelems", "Out msg nelems", "dtype", "Src Rank", "Dst Rank", "Group size")
"""What process groups record of a collective; the ranks, of a send or a recv only, are numbers in the program."""
_NAMED, _SENT, _RECEIVED, _TYPE, _SOURCE, _TARGET, _GROUP_SIZE = STATS
_SIZES: Final = {
    "complexdouble": 16, "double": 8, "long": 8, "uint64": 8, "complexfloat": 8, "float": 4, "int": 4, "uint32": 4,
    "complexhalf": 4, "qint32": 4, "half": 2, "bfloat16": 2, "short": 2, "uint16": 2, "byte": 1, "char": 1, "bool": 1,
    "qint8": 1, "quint8": 1,
}  # fmt: skip
"""Bytes of an element, by its type."""
_MOST_ELEMENTS: Final = 1 << 59


def is_collective(events: HostEvents) -> Bools:
    """By row of event metadata, whether kernels of this name are collectives."""
    return np.array([type_of_name(name) == EventType.DEVICE_COLLECTIVES for name in events.names], bool)


@once
def _is_call(events: HostEvents) -> Bools:
    """Return by row of event metadata whether it is the call of a collective."""
    return np.array([_CALL.fullmatch(name) is not None for name in events.names], bool)


@once
def _is_record(events: HostEvents) -> Bools:
    """Return by row of event metadata whether it holds the arguments of a collective."""
    return np.array([name == RECORD for name in events.names], bool)


def collective_calls(events: HostEvents, rows: Int64s) -> Int64s:
    """By row the event metadata of the call of a collective around its launch, NOT_NAMED for all that is none."""
    above = _above(events, rows, _is_call(events))
    return np.where(above < 0, NOT_NAMED, events.meta[above])


def collective_arguments(events: HostEvents, rows: Int64s) -> Int64s:
    """By row the event with the arguments of a collective: the kernel itself, or the record around its launch; -1:
    there is none."""
    if _TYPE not in events.stats or not len(events.texts(_TYPE)[0]):
        return np.full(len(rows), -1, np.int64)
    found = _above(events, rows, _is_record(events))
    own = np.isin(rows, events.texts(_TYPE)[0]) & is_collective(events)[events.meta[rows]]
    return np.where(own, rows, found)


def collective_names(events: HostEvents, arguments: Int64s) -> Int64s:
    """Beside rows of arguments the number of the text of the collective's name; -1: not recorded."""
    if _NAMED not in events.stats:
        return np.full(len(arguments), -1, np.int64)
    return np.where(arguments < 0, -1, stat_beside(*events.texts(_NAMED), np.maximum(arguments, 0)))


def payload_bytes(events: HostEvents, arguments: Int64s) -> Int64s:
    """Beside rows of arguments the bytes of a collective; NO_BYTES: not recorded. Of an all-gather they are what each
    device receives, of all others what it sends."""
    found = np.full(len(arguments), NO_BYTES, np.int64)
    at = np.flatnonzero(arguments >= 0)
    if not len(at):
        return found
    rows = arguments[at]
    sent, received = (stat_beside(*events.ints(name), rows) for name in (_SENT, _RECEIVED))
    types, named = stat_beside(*events.texts(_TYPE), rows), collective_names(events, rows)
    sizes = {number: _size(events.text(number)) for number in np.unique(types[types >= 0]).tolist()} | {-1: 0}
    gathers = {number: _gathers(events.text(number)) for number in np.unique(named[named >= 0]).tolist()} | {-1: False}
    elements = np.where([gathers[number] for number in named.tolist()], received, sent)
    size = np.array([sizes[number] for number in types.tolist()], np.int64)
    known = (elements >= 0) & (elements < _MOST_ELEMENTS) & (size > 0)
    found[at] = np.where(known, np.where(known, elements, 0) * size, NO_BYTES)
    return found


def group_sizes(events: HostEvents, arguments: Int64s) -> Int64s:
    """Beside rows of arguments how many devices take part in a collective; 0: not recorded."""
    if _GROUP_SIZE not in events.stats:
        return np.zeros(len(arguments), np.int64)
    size = np.where(arguments < 0, 0, stat_beside(*events.ints(_GROUP_SIZE), np.maximum(arguments, 0)))
    return np.where((size > 0) & (size <= MOST_DEVICES), size, 0)


def other_ranks(events: HostEvents, arguments: Int64s) -> tuple[Int64s, Bools]:
    """Beside rows of arguments the rank that a send or a recv names, -1: none, and whether it receives."""
    rows = np.maximum(arguments, 0)
    source, target = (
        np.where(arguments < 0, -1, stat_beside(*events.ints(name), rows)) if name in events.stats else rows * 0 - 1
        for name in (_SOURCE, _TARGET)
    )
    return np.where(target >= 0, target, source), target >= 0


def _size(type_name: str) -> int:
    """0: unknown."""
    lowered = type_name.lower()
    return 1 if lowered.startswith(("float8", "float4_")) else _SIZES.get(lowered, 0)


def _gathers(collective: str) -> bool:
    return "allgather" in collective.lower().replace("_", "")


@once
def _parents(events: HostEvents) -> Int32s:
    """Return by row the enclosing event of its thread; -1: none."""
    plane, parent = events.plane_named(HOST_THREADS), np.full(len(events), -1, np.int32)
    lines = plane.lines if plane is not None else ()
    bounds = np.array([(line.first, line.last) for line in lines], np.int64).reshape(-1, 2)
    parents(events.start_ps, events.duration_ps, None, np.zeros((0, 3), np.int64), bounds, parent, events.slack_ps)
    return parent


def _above(events: HostEvents, rows: Int64s, wanted: Bools) -> Int64s:
    """By row of a collective the nearest event around its launch that is wanted, by metadata; -1: none."""
    found = np.full(len(rows), -1, np.int64)
    if events.plane_named(HOST_THREADS) is None or not wanted.any() or not is_kineto(events):
        return found
    at = np.flatnonzero(is_collective(events)[events.meta[rows]])
    if not len(at):
        return found
    parent = _parents(events)
    above = launchers(events, rows[at])
    while (further := (above >= 0) & ~wanted[events.meta[above]]).any():
        above[further] = parent[above[further]]
    found[at] = above
    return found
