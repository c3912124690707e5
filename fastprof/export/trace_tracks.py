"""Processes and tracks of trace files: what XProf calls them, with ids that are unique where XProf's are not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof._native.trace_writers import Texts
from fastprof.derive.timeline.track_order import Process, Track
from fastprof.schema.value_classes import dataclass

TRACK = np.dtype([("pid", "i8"), ("tid", "i8"), ("sort", "i8"), ("process", "i8"), ("name", "i4"), ("told", "i4")])
"""The struct of csrc/formats/trace_batch.h; a test compares their sizes."""

_TIDS, _ROOM = 2**32, 2**24
_SPARE_PID = 1 << 28
_MOST_PID = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Titled:
    """A track of a file: the plane_id of its plane, its id and name; ``sort``: its rank among its siblings."""

    plane_id: int
    tid: int
    name: str
    sort: int


def titled(track: Track) -> Titled:
    return Titled(track.process.plane.plane_id, track.tid, track.name, track.tid)


def host_tracks(
    processes: Sequence[Process], tracks: Sequence[Titled], taken: set[int], ranked: bool
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], Texts, int, int]:
    """What the ``host`` of a writer takes: processes, tracks in their order, all names, the first unused tid and the
    end of those.

    Every process has a pid that is not ``taken``, and every track of a process a tid of its own. ``ranked``: tracks are
    sorted by their rank in the process, which is a small number, instead of XProf's sort index.
    """
    owners = np.zeros(len(processes), TRACK)
    place = {process.plane.plane_id: number for number, process in enumerate(processes)}
    owners["pid"] = [_free_pid(process.pid, taken) for process in processes]
    owners["sort"] = [process.pid for process in processes]
    owners["name"] = np.arange(len(processes))
    rows = np.zeros(len(tracks), TRACK)
    rows["process"] = [place[track.plane_id] for track in tracks]
    rows["pid"] = owners["pid"][rows["process"]]
    rows["sort"] = [track.tid for track in tracks]
    if ranked and len(rows):
        rows["sort"] = _ranks(rows["process"], rows["sort"])
    rows["name"] = len(processes) + np.arange(len(tracks))
    first, last = _spare([track.tid for track in tracks])
    rows["tid"], first = _own_tids(rows["process"], [track.tid for track in tracks], first)
    names = [process.name for process in processes] + [track.name for track in tracks]
    return owners, rows, texts_of(names), first, last


def texts_of(texts: Sequence[str] | pa.Array) -> Texts:
    """Texts as the writers take them."""
    array = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.large_string())
    if not len(array):
        return Texts(np.zeros(1, np.int64), b"")
    _, offsets, data = array.buffers()
    wide = pa.types.is_large_string(array.type)
    places = np.frombuffer(offsets, np.int64 if wide else np.int32)[array.offset : array.offset + len(array) + 1]
    return Texts(np.ascontiguousarray(places, np.int64), b"" if data is None else data)


def _free_pid(pid: int, taken: set[int]) -> int:
    if pid in taken or pid > _MOST_PID:
        pid = _SPARE_PID
        while pid in taken:
            pid += 1
    taken.add(pid)
    return pid


def _ranks(process: npt.NDArray[np.int64], sort: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The place of each among those of its process, from 1."""
    order = np.lexsort((sort, process))
    in_order = process[order]
    starts = np.flatnonzero(np.append(True, in_order[1:] != in_order[:-1]))
    counts = np.diff(np.append(starts, len(order)))
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order)) - np.repeat(starts, counts) + 1
    return ranks


def _spare(tids: Sequence[int]) -> tuple[int, int]:
    """Ids that no track has: those behind the last, or where that leaves few the widest gap."""
    known = np.unique(np.array([*tids, 0], np.int64))
    if known[-1] < _TIDS - _ROOM:
        return int(known[-1]) + 1, _TIDS
    gaps = np.diff(np.append(known, _TIDS))
    widest = int(gaps.argmax())
    return int(known[widest]) + 1, int(known[widest] + gaps[widest])


def _own_tids(process: npt.NDArray[np.int64], tids: Sequence[int], spare: int) -> tuple[list[int], int]:
    """The ids, each the first time that a process has it, else one that is spare; and the next of these."""
    met: set[tuple[int, int]] = set()
    own = []
    for owner, tid in zip(process.tolist(), tids, strict=True):
        if (owner, tid) in met:
            own.append(spare)
            spare += 1
        else:
            met.add((owner, tid))
            own.append(tid)
    return own, spare
