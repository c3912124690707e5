"""Processes and tracks of a host: what XProf's trace viewer calls them, and in which order it shows them.

A process is a plane, a track a line of it. XProf shows the planes of host threads, of GPUs or, without GPUs, of
TPUs, and custom ones; here others that have events follow, as ``shown`` says. A process is known by its pid: 1000 for
each host up to this one, 1 and the id of the plane for devices, 501 and that of custom planes, 701 and on for the
threads of the host. In a trace of XProf the ids of planes are pids already. A track is known by its tid: the display id
of the line, cut to 32 bits as in XProf.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from fastprof._native.kernels import rank_order
from fastprof.decode.plane_kinds import is_gpu_plane
from fastprof.decode.task_environment import XPROF
from fastprof.derive.steps.device_steps import is_derived
from fastprof.derive.steps.forest import all_declare_groups
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import COUNTER_LINE, HOST_THREADS, HostEvents, Line, Plane

EVENTS, COUNTER, STEPS = "events", "counter", "steps"
"""Kinds of tracks: slices, values over time, and slices that are steps."""

PIDS_OF_A_HOST: Final = 1000
_DEVICES, _LAST_DEVICE, _CUSTOM, _THREADS, _OTHERS = 1, 500, 501, 701, 1 << 20
_TPU, _CUSTOM_PLANES = "/device:TPU:", "/device:CUSTOM:"
_STEP_LINES: Final = frozenset({"Steps", "Sparse Core Steps"})
_TIDS_A_STREAM: Final = 7
_MOST_STREAMS: Final = 16
"""The number of streams that have derived lines; the others keep their own tids."""


@dataclass(slots=True, eq=False)
class Process:
    """``number``: its place in the order of a host's processes. ``name``: as XProf shows it, the host and the plane.
    ``shown``: whether XProf shows the plane. Viewers order processes by pid."""

    number: int
    pid: int
    name: str
    plane: Plane
    shown: bool


@dataclass(slots=True, eq=False)
class Track:
    """``number``: its place in the order of a host's tracks. Rows ``first`` to ``last`` of the timeline are its events.
    ``line``: the line that it shows, None: it is derived. Viewers order tracks by tid."""

    number: int
    process: Process
    tid: int
    name: str
    kind: str
    first: int
    last: int
    line: Line | None = None


def processes_of(events: HostEvents) -> list[Process]:
    """The processes of a host in the order in which XProf shows them: by pid."""
    threads = sorted((p for p in events.planes if p.name.startswith(HOST_THREADS)), key=lambda plane: plane.name)
    gpus = [plane for plane in events.planes if is_gpu_plane(plane.name)]
    devices = gpus or [plane for plane in events.planes if plane.name.startswith(_TPU)]
    custom = [plane for plane in events.planes if plane.name.startswith(_CUSTOM_PLANES)]
    pids = [(_device_pid(events, plane), plane) for plane in devices]
    pids += [(_number(events, plane, _CUSTOM), plane) for plane in custom]
    pids += [(_THREADS + number, plane) for number, plane in enumerate(threads)]
    shown = {plane.number for _, plane in pids}
    others = [plane for plane in events.planes if plane.number not in shown and plane.last > plane.first]
    pids += [(_OTHERS + plane.number, plane) for plane in others]
    pids = sorted((pair for pair in pids if pair[1].lines), key=lambda pair: pair[0])
    before = PIDS_OF_A_HOST * (events.number + 1)
    return [
        Process(number, before + pid, f"{events.host} {plane.name}", plane, plane.number in shown)
        for number, (pid, plane) in enumerate(pids)
    ]


def _device_pid(events: HostEvents, plane: Plane) -> int:
    pid = _number(events, plane, _DEVICES)
    return pid if pid <= _LAST_DEVICE else _DEVICES


def _number(events: HostEvents, plane: Plane, first: int) -> int:
    """What the pid of a plane is beyond the thousands of its host. A trace may be of one of several hosts."""
    pid = own_pid(events, plane, first)
    return pid % PIDS_OF_A_HOST if events.transcribed_from == XPROF else pid


def own_pid(events: HostEvents, plane: Plane, first: int) -> int:
    """The pid of a plane of the only host: ``first`` and its id, which in a trace of XProf is the pid that it had."""
    return (plane.xplane_id + (first if events.transcribed_from != XPROF else 0)) % 2**32


def raw_tracks(events: HostEvents, processes: Iterable[Process]) -> list[Track]:
    """The tracks of lines that have events, by process, then tid."""
    derives = not is_grouped(events)
    found: list[Track] = []
    for process in processes:
        lines = [line for line in process.plane.lines if line.last > line.first]
        tids = stream_tids(process.plane) if derives and is_gpu_plane(process.plane.name) else {}
        for tid, line in sorted(((tids.get(line.number, tid_of(line)), line) for line in lines), key=lambda at: at[0]):
            name = line.display_name or line.name
            found.append(Track(len(found), process, tid, name, _kind(line), line.first, line.last, line))
    return found


def _kind(line: Line) -> str:
    if line.name == COUNTER_LINE:
        return COUNTER
    return STEPS if line.name in _STEP_LINES else EVENTS


def tid_of(line: Line) -> int:
    """The display id, else the id, cut to 32 bits."""
    return (line.display_id or line.xline_id) % 2**32


def is_grouped(events: HostEvents) -> bool:
    """Whether XProf takes the capture for grouped: then it derives nothing."""
    return all_declare_groups(events)


# ---- streams of GPUs


def derived_streams(plane: Plane) -> list[Line]:
    """The lines of a GPU that lines are derived from, in the order of XProf: those that compute first, then those with
    the most events."""
    lines = [line for line in plane.lines if not is_derived(line)]
    counts = [line.last - line.first + ("Compute" in line.name) * 2**40 for line in lines]
    order = np.arange(len(lines), dtype=np.int32)
    rank_order(np.array(counts, np.int64), order)
    return [lines[place] for place in order[:_MOST_STREAMS].tolist()]


def stream_tids(plane: Plane) -> dict[int, int]:
    """The tid of each stream, by the number of its line: each leaves room for the lines derived of it."""
    return {line.number: 1 + _TIDS_A_STREAM * place for place, line in enumerate(derived_streams(plane))}
