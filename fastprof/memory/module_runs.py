"""When programs ran on TPUs: what XProf's memory profile draws beside the memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fastprof.capture import Int64s
from fastprof.host_events import HostEvents
from fastprof.names import Int32s

LINE = "XLA Modules"
_DEVICE = "/device:"
_PREFIX = _DEVICE + "TPU:"


@dataclass(frozen=True, slots=True)
class ModuleRuns:
    """Runs of programs, by plane, line and time. ``name``, ``plane``: int32, numbers of ``names`` and ``planes``;
    ``offset_ps``: int64, start within the line, as recorded; ``planes``: without /device:."""

    name: Int32s
    plane: Int32s
    offset_ps: Int64s
    duration_ps: Int64s
    names: list[str]
    planes: list[str]

    def __len__(self) -> int:
        return len(self.name)


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
        events.duration_ps[rows].copy(),
        [events.names[meta] for meta in metas.tolist()],
        [plane.name.removeprefix(_DEVICE) for plane in planes],
    )


def _joined(parts: list[npt.NDArray[np.intp]]) -> npt.NDArray[np.intp]:
    return np.concatenate(parts) if parts else np.zeros(0, np.intp)
