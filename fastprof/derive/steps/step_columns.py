"""Columns of tables of steps: which step on which core, when, and its time by category."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fastprof.derive.steps.database import NO_HOSTNAME, StepDatabase
from fastprof.derive.steps.step_figures import core_breakdown, fitted
from fastprof.derive.steps.step_time import OWN_CATEGORIES
from fastprof.schema.array_types import Bools, Int64s
from fastprof.schema.arrow_columns import texts
from fastprof.schema.column_kinds import Count, Flag, Picoseconds, Text
from fastprof.schema.tables import Formula
from fastprof.schema.value_classes import dataclass


@dataclass(frozen=True, slots=True)
class OnCores:
    """Steps on the cores that took part: places of steps and cores in a database, a row each. ``number``: of the step
    in the session, -1: none; ``times_ps``: [n, 11] by category."""

    database: StepDatabase
    step: npt.NDArray[np.intp]
    core: npt.NDArray[np.intp]
    number: Int64s
    times_ps: Int64s

    @classmethod
    def of(cls, database: StepDatabase, numbers: Int64s) -> OnCores:
        """``numbers``: of the steps of the database."""
        step, core = np.nonzero(database.present)
        times = fitted(core_breakdown(database)[step, core], database.duration_ps[step, core])
        return cls(database, step, core, numbers[step], times)

    @property
    def duration_ps(self) -> Int64s:
        """[n] the time that is divided: periods, or extents."""
        return self.database.duration_ps[self.step, self.core]

    @property
    def has_devices(self) -> Bools:
        """[n] whether work of a device is recorded in any step of the core."""
        shown = np.bincount(self.core, show_devices(self.times_ps))[self.core]
        return np.asarray(shown > 0)


HOST = Text("host", "host, as the capture's file is named",
            lambda rows: texts(rows.database.hosts, rows.database.cores.host_number[rows.core]))  # fmt: skip
CORE_ID = Count("core_id", "id of the core on its host; on a host without TPUs 1, for all of its devices",
                lambda rows: rows.database.cores.local_id[rows.core])  # fmt: skip


def _core_names(database: StepDatabase) -> list[str]:
    """A host that its capture does not name, such as a rank of PyTorch, is called as its file."""
    hosts = database.cores.host_number.tolist()
    return [
        database.hosts[host] if name == NO_HOSTNAME else name
        for host, name in zip(hosts, database.cores.name, strict=True)
    ]


CORE = (
    HOST,
    Text("core_name", "core as host:ordinal; only the host if the capture does not describe its cores",
         lambda rows: texts(_core_names(rows.database), rows.core)),
    CORE_ID,
    Text("device", "device, as in the other tables: plane of the core, or CPU for the threads of a host; null: all "
         "GPUs of the host together", lambda rows: texts(rows.database.cores.device, rows.core)),
)  # fmt: skip
STEP = Count("step", "number of the step, as in the analysis steps", lambda rows: rows.database.number[rows.step])
SPAN = (
    Flag("sparse_core", "the core is a SparseCore", lambda rows: rows.database.cores.sparse[rows.core]),
    Flag("complete", "false if the step does not count for averages: it may be cut off (the first and the last of more "
         "than five steps of a host, except on TPUs and of PyTorch's profiler), or its end is not recorded",
         lambda rows: rows.database.complete[rows.step]),
    Picoseconds("start_ps", "start of the step's marker or of its work on the core, from the start of the host's "
                "capture; on TPUs by the clock of the device if it is recorded",
                lambda rows: rows.database.extent_begin_ps[rows.step, rows.core]),
    Picoseconds("duration_ps", "extent of the step: its longest marker or interval on a device; cores of a TPU host "
                "share it", lambda rows: rows.database.extent_ps[rows.step, rows.core]),
    Picoseconds("period_ps", "time until the next step begins, to which categories add up; of the last step its "
                "duration_ps; null: no steps are recorded after it, or steps are markers alone, and categories add up "
                "to duration_ps",
                lambda rows: rows.database.duration_ps[rows.step, rows.core],
                lambda rows: ~rows.database.has_period[rows.step]),
)  # fmt: skip
"""What kind of step it is on the core, and when."""


def _in_category(place: int) -> Formula:
    return lambda rows: rows.times_ps[:, place]


def _without_devices(rows: Any) -> Bools:
    unknown: Bools = ~rows.has_devices
    return unknown


def show_devices(times_ps: Int64s) -> Bools:
    """Whether each row of times by category shows work of devices."""
    return np.asarray(times_ps[:, _OF_DEVICES].any(axis=1))


_OF_DEVICES = [
    place
    for place, category in enumerate(OWN_CATEGORIES)
    if category.name.startswith("device_") or category.name in ("output", "copies")
]
_NO_DEVICE = "; null: no work of a device is recorded on the core"


_CATEGORIES = (
    "time that devices computed: ops and kernels, without copies",
    "time of copies between devices; on TPUs time of send, recv, asynchronous ops of unknown kind and "
    "megacore fusion, which wait for others",
    "time of collectives: kernels of libraries such as NCCL; on TPUs all-reduce, all-gather, reduce-scatter, "
    "all-to-all, collective-permute",
    "time that host threads ran ops, or events of no other category; only of hosts without devices",
    "time to prepare kernels on the host; always 0, because it is not distinguished at present",
    "time to wait for input, or to load it while nothing computes; on TPUs infeed, and idle time that the host's input "
    "explains",
    "time of copies from devices; on TPUs time of outfeed and host send",
    "time to trace and compile while nothing computes",
    "rest of the step, in which no event ran; on TPUs idle time",
    "time of copies between host and device, or within the device; on GPUs of copies to the device",
    "time of evaluation, logging and saving, with what devices compute for them; on TPUs always 0",
)
IN_CATEGORIES = tuple(
    Picoseconds(f"{category.name}_ps", what + _NO_DEVICE, _in_category(place), _without_devices)
    if place in _OF_DEVICES
    else Picoseconds(f"{category.name}_ps", what, _in_category(place))
    for place, (category, what) in enumerate(zip(OWN_CATEGORIES, _CATEGORIES, strict=True))
)
"""Time of a step on a core by category."""
