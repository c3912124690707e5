"""Waits for Python's global lock: a call has done its work and cannot return while another thread runs Python. The
function of that thread then says what the host does.

    driver    |-train--------------------------------|
      call      |-TFE_Py_Execute---------------|
        work      |-EagerExecute-|
    worker           |-__getitem__-------------|
    host      |-P-|--launch------|-__getitem__-|--P--|        P: Python
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fastprof._native.cause_kernels import foremost
from fastprof.derive.ops.device_time import make_span_records
from fastprof.derive.steps.event_graph import PIECE
from fastprof.derive.steps.event_origin import is_idle, mark_frames
from fastprof.derive.steps.host_calls import find_late_returns
from fastprof.derive.steps.host_causes import DRIVER, LOADS, Code, HostCauses
from fastprof.schema.columns import Bools, Int64s, Records, add_durations, find_last_started
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, Line

_GIVES_WAY: Final = np.isin(np.arange(256), (Code.LOCK, Code.LAUNCH, Code.FIRST_CALL, Code.PYTHON, Code.ANNOTATION))
"""Codes of calls that may wait for the lock."""
_FIXED, _WAITS, _WEAK = range(3)


@dataclass(frozen=True, slots=True)
class LockWaits:
    """Waits for the lock. ``row``: the function that runs meanwhile."""

    begin_ps: Int64s
    end_ps: Int64s
    row: Int64s


def explain_lock_waits(events: HostEvents, causes: HostCauses, pieces: Records) -> Records:
    """Return what the host does at any time (PIECE), with the running function where a thread waits for the lock."""
    waits = find_lock_waits(events, causes)
    if not len(waits.row) or not len(pieces):
        return pieces
    known = pieces[pieces["label"] >= 0]
    rank = np.where(_GIVES_WAY[causes.code[known["label"]]], _WEAK, _FIXED).astype(np.int32)
    spans = np.concatenate([
        make_span_records(known["begin"], known["end"], rank, known["label"].astype(np.int32)),
        make_span_records(waits.begin_ps, waits.end_ps, _WAITS, waits.row.astype(np.int32)),
    ])  # fmt: skip
    return np.frombuffer(foremost(spans, int(pieces["begin"][0]), int(pieces["end"][-1])), PIECE)


def find_lock_waits(events: HostEvents, causes: HostCauses) -> LockWaits:
    """Find the waits of the threads that drive devices."""
    parts = [np.zeros((3, 0), np.int64)]
    if len(causes.origins.python_lines) < 2:
        return LockWaits(*parts[0])
    idle = np.array([is_idle(name) for name in events.names], np.bool_)
    runs, passes = (frames & ~idle for frames in mark_frames(events))
    for line, role in zip(causes.lines, causes.role, strict=True):
        if role != DRIVER:
            continue
        late, begin = find_late_returns(events, causes.origins.parent, line)
        end = add_durations(events.start_ps[late], events.duration_ps[late])
        row = np.full(len(begin), -1, np.int64)
        for other in causes.origins.python_lines if len(begin) else ():
            if other.number == line.number:
                continue
            at = _find_running(events, causes, other, begin + (end - begin) // 2, runs, passes)
            loads = LOADS[causes.code[at]] & ~LOADS[causes.code[row]]
            row = np.where((at >= 0) & ((row < 0) | loads), at, row)
        parts.append(np.stack([begin, end, row])[:, row >= 0])
    return LockWaits(*np.concatenate(parts, axis=1))


def _find_running(
    events: HostEvents, causes: HostCauses, line: Line, times: Int64s, runs: Bools, passes: Bools
) -> Int64s:
    """Return the innermost function of a thread with a source line at each time, or what loads input around it; -1 if
    the thread runs no Python. ``runs``, ``passes``: rows of metadata of working functions with a source line, and of
    compiled ones."""
    parent = causes.origins.parent
    place = find_last_started(events.start_ps[line.first : line.last], times)
    at = np.where(place < 0, -1, line.first + place)
    while True:
        over = add_durations(events.start_ps[at], np.maximum(events.duration_ps[at], 0)) <= times
        up = (at >= 0) & (over | passes[events.meta[at]])
        if not up.any():
            break
        at[up] = parent[at[up]]
    at = np.where((at >= 0) & runs[events.meta[at]], at, -1)
    around = at.copy()
    while (up := (around >= 0) & ~LOADS[causes.code[around]]).any():
        around[up] = parent[around[up]]
    return np.where(around >= 0, around, at)
