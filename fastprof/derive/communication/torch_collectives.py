"""Which collective a kernel of PyTorch's process groups runs.

Many builds of NCCL run everything in one kernel, so that its name is the weakest sign: all of ten kernels may be called
``ncclKernel_SendRecv``, though four of them are all_to_all. What calls the library says it::

    nccl:all_to_all        |------------------|    an annotation; gloo:…, c10d::allgather_ likewise
      record_param_comms     |------------|
        cudaLaunchKernel        |--|
    GPU                              |---- ncclKernel_SendRecv… ----|
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from fastprof._native.grouping import parents
from fastprof.derive.devices.kineto_categories import is_kineto
from fastprof.derive.ops.launches import launches
from fastprof.derive.steps.gpu_step_events import type_of_name
from fastprof.derive.steps.step_time import EventType
from fastprof.schema.array_types import Int64s
from fastprof.tables.host_events import HOST_THREADS, HostEvents

_CALL: Final = re.compile(r"(?:nccl|gloo|mpi|ucc):\w+|c10d::\w+", re.ASCII)
NOT_NAMED: Final = -1


def collective_calls(events: HostEvents, rows: Int64s) -> Int64s:
    """By row the event metadata of the call of a collective around its launch, NOT_NAMED for all that is none."""
    found = np.full(len(rows), NOT_NAMED, np.int64)
    plane = events.plane_named(HOST_THREADS)
    if plane is None or not is_kineto(events):
        return found
    names = events.names
    collective = np.array([type_of_name(name) == EventType.DEVICE_COLLECTIVES for name in names], bool)
    at = np.flatnonzero(collective[events.meta[rows]])
    if not len(at):
        return found
    calls = np.array([_CALL.fullmatch(name) is not None for name in names], bool)
    parent = np.full(len(events), -1, np.int32)
    bounds = np.array([(line.first, line.last) for line in plane.lines], np.int64).reshape(-1, 2)
    parents(events.start_ps, events.duration_ps, None, np.zeros((0, 3), np.int64), bounds, parent)
    above = launches(events, rows[at]).row
    while (further := (above >= 0) & ~calls[events.meta[above]]).any():
        above[further] = parent[above[further]]
    found[at] = np.where(above < 0, NOT_NAMED, events.meta[above])
    return found
