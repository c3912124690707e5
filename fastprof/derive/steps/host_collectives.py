"""Collectives that threads of the host run, as Gloo and MPI do: the device is idle, or computes meanwhile.

main thread    |--aten::mm--|  |--aten::mm--|
gloo thread                 |--gloo:all_reduce--|
GPU               |--sgemm--|             |--sgemm--|
                            '--exposed----'hidden'
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fastprof.derive.devices.kineto_categories import is_kineto
from fastprof.derive.steps.device_steps import is_derived
from fastprof.schema.array_types import Int64s
from fastprof.schema.time_sums import ends_of
from fastprof.tables.host_events import HOST_THREADS, HostEvents, Plane
from fastprof.tables.once import once

_ON_HOST: Final = ("gloo:", "mpi:")


@once
def host_collectives(events: HostEvents) -> Int64s:
    """Return the rows of collectives that host threads run, by start. An op in its annotation counts once."""
    plane = events.plane_named(HOST_THREADS)
    if plane is None or not is_kineto(events):
        return np.zeros(0, np.int64)
    wanted = np.array([name.startswith(_ON_HOST) for name in events.names], bool)
    if not wanted.any():
        return np.zeros(0, np.int64)
    threads = (line.first + np.flatnonzero(wanted[events.meta[line.first : line.last]]) for line in plane.lines)
    rows = np.concatenate([np.zeros(0, np.int64), *(_outermost(events, rows) for rows in threads)])
    return rows[np.argsort(events.start_ps[rows], kind="stable")]


def collectives_of_only_gpu(events: HostEvents) -> Int64s:
    """Return the rows of host collectives that the only GPU waits for; none if no GPU ran anything, or several did."""
    ran = [plane for plane in events.planes_of("GPU") if _ran(plane)]
    return host_collectives(events) if len(ran) == 1 else np.zeros(0, np.int64)


def _ran(plane: Plane) -> bool:
    return any(line.last > line.first and not is_derived(line) for line in plane.lines)


def _outermost(events: HostEvents, rows: Int64s) -> Int64s:
    """Drop rows that end within an earlier one. The rows are of one thread, by start."""
    ends = ends_of(events.start_ps[rows], np.maximum(events.duration_ps[rows], 0))
    reached = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(ends))[: len(rows)]
    return rows[ends > reached]
