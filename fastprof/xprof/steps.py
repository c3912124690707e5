"""The steps of a session as XProf sees them.

XProf pairs steps of hosts by time, numbers them from 0, and first drops each host's incomplete steps. On GPUs it knows
fewer names of copies and collectives, takes the others for kernels, and does not explain the time in which GPUs idle
while the host waits for input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from fastprof.analyses import steps
from fastprof.analyses.contract import AnalysisReport, Keeper
from fastprof.derive.devices import op_names
from fastprof.derive.devices.op_names import Framework
from fastprof.derive.host import Host
from fastprof.derive.steps.host_steps import HostSteps, make_gpu_steps
from fastprof.derive.steps.step_alignment import SessionSteps, align_by_time, list_workers
from fastprof.derive.steps.step_database import StepDatabase
from fastprof.derive.steps.step_events import GpuStepEvents, collect_gpu_step_events
from fastprof.derive.steps.step_source import AUTO, MARKERS
from fastprof.schema.columns import Bools, Int32s

_NO_MARKER = (
    "No step marker observed and hence the step time is unknown. This may happen if (1) training steps are not "
    "instrumented (e.g., if you are not using Keras) or (2) the profiling duration is shorter than the step time. For "
    "(1), you need to add step instrumentation; for (2), you may try to profile longer."
)
_EMPTY_INTERSECTION = (
    "Although there are steps observed on some host(s), the intersection of the steps over all hosts is empty (because "
    "the differences among individual host's step sequences are too big). Consequently, the overall step time is "
    "unknown."
)
_COPIES = (Framework.MEMCPY_H2D, Framework.MEMCPY_D2H, Framework.MEMCPY_D2D)


def _get_gpu_events(host: Host, params: Mapping[str, Any]) -> GpuStepEvents | None:
    """Return the events of GPU steps, if copies or collectives are among them."""
    if host.raw.planes_of("TPU") or not host.raw.planes_of("GPU"):
        return None
    groups = host.groups_from(choose_source(params))
    kernels = collect_gpu_step_events(groups.events, groups)
    return kernels if len(kernels.moves.row) else None


def choose_source(params: Mapping[str, Any]) -> str:
    """Return the source of steps: markers, as XProf knows nothing else, unless another source was requested."""
    source = str(params.get("steps_from", AUTO))
    return MARKERS if source == AUTO else source


_NAME: Final = "kernels of GPU steps"
KEEPS: Final = {_NAME: Keeper(steps.READS, _get_gpu_events)}


def get_shown_steps(report: AnalysisReport, *, complete: bool = False) -> StepDatabase:
    """Return all steps, or the ``complete`` ones. ``report``: of an analysis that comes after steps."""
    session = report.after["steps"].detail_as(SessionSteps)
    hosts = [host.as_xprof for host in session.hosts]
    if not hosts:
        return session.database.complete_steps() if complete else session.database
    kernels: Sequence[GpuStepEvents | None] = report.kept[_NAME]
    databases = [_build_database(hosts[place], kernels[place]) for place in list_workers(hosts)]
    if complete:
        databases = [database.complete_steps() for database in databases]
    return databases[0] if len(hosts) == 1 else align_by_time(hosts, databases)


def list_step_warnings(steps: int, *, empty_intersection: bool) -> list[str]:
    """Return a sentence if a session has no steps, on a host or on all of them."""
    if steps:
        return []
    return [_EMPTY_INTERSECTION if empty_intersection else _NO_MARKER]


def is_known_name(name: str) -> bool:
    """Return whether XProf takes a GPU event of this name for a copy or a collective."""
    return name[:4].lower() == "nccl" or op_names.parse_op_name(name).framework in _COPIES


def _build_database(host: HostSteps, kernels: GpuStepEvents | None) -> StepDatabase:
    if kernels is not None:
        moves = kernels.moves
        unknown = ~np.array([is_known_name(name) for name in moves.names], np.bool_)[moves.name]
        if unknown.any():
            type_ = kernels.events.type.copy()
            type_[moves.row[unknown]] = moves.kernel_type[unknown]
            kernels = replace(kernels, events=replace(kernels.events, type=type_))
            return make_gpu_steps(host.host, host.hostname, kernels, _drop_names)[0]
    return host.database


def _drop_names(groups: Int32s) -> tuple[list[str], Bools]:
    """Return empty names: pages show only the numbers of a GPU's steps."""
    return [""] * len(groups), np.zeros(len(groups), np.bool_)
