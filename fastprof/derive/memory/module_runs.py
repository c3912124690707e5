"""When programs ran on TPUs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fastprof.schema.array_types import Int32s, Int64s
from fastprof.tables.host_events import HostEvents

LINE = "XLA Modules"
_DEVICE = "/device:"
_PREFIX = _DEVICE + "TPU:"


@dataclass(frozen=True, slots=True)
class ModuleRuns:
    """Runs of programs, by plane, line and time. ``name``, ``plane``: int32, numbers of ``names`` and ``planes``;
    ``offset_ps``: int64, start within the line, as recorded; ``start_ps``: since the start of the capture; ``planes``:
    without /device:."""

    name: Int32s
    plane: Int32s
    offset_ps: Int64s
    start_ps: Int64s
    duration_ps: Int64s
    names: list[str]
    planes: list[str]

    def __len__(self) -> int:
        return len(self.name)

    def at(self, plane: str, time_ps: int) -> tuple[str, int] | None:
        """The program that ran on a plane at a time, else the next one that did, and since when; of several the one
        that began last. None: neither."""
        mine = self.plane == (self.planes.index(plane) if plane in self.planes else -1)
        running = np.flatnonzero(mine & (self.start_ps <= time_ps) & (time_ps < self.start_ps + self.duration_ps))
        to_come = np.flatnonzero(mine & (self.start_ps > time_ps))
        if not len(running) + len(to_come):
            return None
        start = self.start_ps
        row = running[start[running].argmax()] if len(running) else to_come[start[to_come].argmin()]
        return self.names[self.name[row]], int(start[row])


def module_runs(events: HostEvents) -> ModuleRuns:
    """All events of the lines of modules of a host's TPUs, SparseCores among them."""
    planes = [plane for plane in events.planes if plane.name.startswith(_PREFIX)]
    lines = [(i, line) for i, plane in enumerate(planes) for line in plane.lines if line.name == LINE]
    counts = [line.last - line.first for _, line in lines]
    rows = _joined([np.arange(line.first, line.last) for _, line in lines])
    starts = np.repeat(np.array([line.base_ps for _, line in lines], np.int64), counts)
    metas, name = np.unique(events.meta[rows], return_inverse=True)
    return ModuleRuns(
        name.astype(np.int32),
        np.repeat(np.array([i for i, _ in lines], np.int32), counts),
        events.start_ps[rows] - starts,
        events.start_ps[rows],
        events.duration_ps[rows].copy(),
        [events.names[meta] for meta in metas.tolist()],
        [plane.name.removeprefix(_DEVICE) for plane in planes],
    )


def _joined(parts: list[npt.NDArray[np.intp]]) -> npt.NDArray[np.intp]:
    return np.concatenate(parts) if parts else np.zeros(0, np.intp)
