"""What a trace viewer shows of a host: processes and tracks in XProf's order, their events as columns, and when the
traced program ran."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from fastprof._native.kernels import rank_order
from fastprof.decode.plane_kinds import is_gpu_plane
from fastprof.decode.span_stats import XPROF
from fastprof.derive.devices.op_names import has_category, is_frame, is_kineto
from fastprof.derive.host import Host
from fastprof.derive.steps.event_graph import has_declared_groups
from fastprof.derive.steps.grouping import find_profiler_marks
from fastprof.schema.columns import Int32s, Int64s, add_durations
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import COUNTER_LINE, HOST_THREADS, STEP_LINES, HostEvents, Line, Plane, compute_once

EVENTS, COUNTER, STEPS, DERIVED, FRAMES = "events", "counter", "steps", "derived", "frames"
"""Kinds of tracks: slices, values over time, steps, slices that the profiler derived from others, calls of Python."""

PIDS_OF_A_HOST: Final = 1000
_DEVICES, _LAST_DEVICE, _CUSTOM, _THREADS, _OTHERS = 1, 500, 501, 701, 1 << 20
_TPU, _CUSTOM_PLANES = "/device:TPU:", "/device:CUSTOM:"
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
    ``line``: the line that it shows, None if it is derived. Viewers order tracks by tid."""

    number: int
    process: Process
    tid: int
    name: str
    kind: str
    first: int
    last: int
    line: Line | None = None


def list_processes(events: HostEvents) -> list[Process]:
    """Return the processes of a host in the order in which XProf shows them: by pid."""
    threads = sorted((p for p in events.planes if p.name.startswith(HOST_THREADS)), key=lambda plane: plane.name)
    gpus = [plane for plane in events.planes if is_gpu_plane(plane.name)]
    devices = gpus or [plane for plane in events.planes if plane.name.startswith(_TPU)]
    custom = [plane for plane in events.planes if plane.name.startswith(_CUSTOM_PLANES)]
    pids = [(_get_device_pid(events, plane), plane) for plane in devices]
    pids += [(_get_pid_number(events, plane, _CUSTOM), plane) for plane in custom]
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


def _get_device_pid(events: HostEvents, plane: Plane) -> int:
    pid = _get_pid_number(events, plane, _DEVICES)
    return pid if pid <= _LAST_DEVICE else _DEVICES


def _get_pid_number(events: HostEvents, plane: Plane, first: int) -> int:
    """Return what the pid of a plane is beyond the thousands of its host. A trace may be of one of several hosts."""
    pid = get_own_pid(events, plane, first)
    return pid % PIDS_OF_A_HOST if events.transcribed_from == XPROF else pid


def get_own_pid(events: HostEvents, plane: Plane, first: int) -> int:
    """Return the pid of a plane of the only host: ``first`` and its id, which in a trace of XProf is the pid that it
    had."""
    return (plane.xplane_id + (first if events.transcribed_from != XPROF else 0)) % 2**32


def list_raw_tracks(events: HostEvents, processes: Iterable[Process]) -> list[Track]:
    """Return the tracks of lines that have events, by process, then tid."""
    derives = not is_grouped(events)
    tracks: list[Track] = []
    for process in processes:
        lines = [line for line in process.plane.lines if line.last > line.first]
        tids = number_stream_tids(process.plane) if derives and is_gpu_plane(process.plane.name) else {}
        for tid, line in sorted(((tids.get(line.number, get_tid(line)), line) for line in lines), key=lambda at: at[0]):
            name = line.display_name or line.name
            tracks.append(Track(len(tracks), process, tid, name, _find_line_kind(line), line.first, line.last, line))
    return tracks


def _find_line_kind(line: Line) -> str:
    if line.name == COUNTER_LINE:
        return COUNTER
    if line.name in STEP_LINES:
        return STEPS
    return DERIVED if line.is_derived else EVENTS


def get_tid(line: Line) -> int:
    """Return the display id, else the id, cut to 32 bits."""
    return (line.display_id or line.xline_id) % 2**32


def is_grouped(events: HostEvents) -> bool:
    """Return whether XProf takes the capture for grouped: then it derives nothing."""
    return has_declared_groups(events)


# ---- streams of GPUs


def list_derived_streams(plane: Plane) -> list[Line]:
    """Return the lines of a GPU that lines are derived from, in the order of XProf: those that compute first, then
    those with the most events."""
    lines = [line for line in plane.lines if not line.is_derived]
    counts = [line.last - line.first + ("Compute" in line.name) * 2**40 for line in lines]
    order = np.arange(len(lines), dtype=np.int32)
    rank_order(np.array(counts, np.int64), order)
    return [lines[place] for place in order[:_MOST_STREAMS].tolist()]


def number_stream_tids(plane: Plane) -> dict[int, int]:
    """Return the tid of each stream, by the number of its line: each leaves room for the lines derived of it."""
    return {line.number: 1 + _TIDS_A_STREAM * place for place, line in enumerate(list_derived_streams(plane))}


@dataclass(slots=True, eq=False)
class HostTimeline:
    """Columns by row. ``start_ps``, ``duration_ps``: int64. ``name``: int32, the place in ``names``; equal names have
    equal numbers. ``tracks`` name their rows; rows of a raw timeline are those of the host's events."""

    host: str
    processes: list[Process]
    tracks: list[Track]
    start_ps: Int64s
    duration_ps: Int64s
    name: Int32s
    names: list[str]

    def __len__(self) -> int:
        return len(self.start_ps)


def make_raw_timeline(host: Host) -> HostTimeline:
    """Return the lines of the capture. Takes no stats and no groups; rows are those of ``host.raw``."""
    events = host.raw
    processes = list_processes(events)
    of_meta, names = number_shown_names(events)
    name: Int32s = of_meta[events.meta]
    tracks = list_raw_tracks(events, processes)
    is_python = np.array([*map(is_frame, names)], bool)
    for track in tracks:
        if track.kind == EVENTS and is_python[name[track.first : track.last]].all():
            track.kind = FRAMES
    return HostTimeline(events.host, processes, tracks, events.start_ps, events.duration_ps, name, names)


@compute_once
def number_shown_names(events: HostEvents) -> tuple[Int32s, list[str]]:
    """Return the number of the event name of each row of metadata, the last for -1, no metadata; and the distinct names
    by number."""
    number: dict[str, int] = {}
    pairs = zip(events.display_names, events.names, strict=True)
    return number_names((shown or name for shown, name in pairs), number), list(number)


def number_names(names: Iterable[str], number: dict[str, int]) -> Int32s:
    """Return the number of each name; new ones are numbered in the order in which they come."""
    return np.array([number.setdefault(name, len(number)) for name in names], np.int32)


_OF_PROFILER: Final = frozenset({"trace"})
"""The category of the profiler's own events."""


def find_run_range(events: HostEvents) -> tuple[int, int] | None:
    """Return the first begin and the last end of the marked steps and of what devices ran; without either, of all
    events but the profiler's own. None if the trace is not PyTorch's, or nothing ran. Takes no stats."""
    if not is_kineto(events):
        return None
    lines = [line for plane in events.planes_of("GPU") for line in plane.lines if not line.is_derived]
    rows = np.concatenate([find_profiler_marks(events), *(np.arange(line.first, line.last) for line in lines)]).astype(
        np.int64
    )
    if not len(rows):
        rows = np.flatnonzero(~has_category(events, _OF_PROFILER)[events.meta])
    if not len(rows):
        return None
    start = events.start_ps[rows]
    return int(start.min()), int(add_durations(start, np.maximum(events.duration_ps[rows], 0)).max())
