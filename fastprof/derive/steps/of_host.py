"""The steps of one host: from its threads where it has no devices, else from its GPUs or TPU cores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fastprof.decode.workers import Workers
from fastprof.derive.steps import gpu_step_events, host_step_events, module_steps, tpu_step_events
from fastprof.derive.steps.database import StepDatabase, empty_database
from fastprof.derive.steps.generic_steps import of_gpus, of_threads, one_core
from fastprof.derive.steps.gpu_input_waits import with_input_waits
from fastprof.derive.steps.grouping import Groups
from fastprof.derive.steps.host_step_events import HostStepEvents
from fastprof.derive.steps.tpu_steps import of_tpus
from fastprof.tables.host_events import HostEvents

STATS: Final = (
    *host_step_events.STATS,
    *gpu_step_events.STATS,
    *tpu_step_events.STATS,
    *module_steps.STATS,
)
METADATA_STATS: Final = tpu_step_events.METADATA_STATS
"""What is read for steps beyond what grouping reads."""


@dataclass(frozen=True, slots=True)
class HostSteps:
    """What is kept of one host. ``groups``: how many groups of events it has; ``unfit``: markers of steps that are left
    out, as nothing was computed in them; ``module_executions``: how many runs of compiled programs it has;
    ``vetoed``: whether grouping was given up; ``xprof_database``: what XProf makes of copies and of waiting for input,
    else ``database`` itself; ``outside``: of a host without devices, runs of compiled programs during no step;
    ``missed``: that it does not have the steps that were asked for, in words."""

    host: str
    hostname: str
    number: int
    accelerated: bool
    database: StepDatabase
    groups: int
    unfit: int
    module_executions: int
    vetoed: bool
    xprof_database: StepDatabase
    outside: int
    missed: str | None = None


def steps_of_host(
    events: HostEvents, groups: Groups, hardware: str, workers: Workers | None = None, from_modules: bool = False
) -> HostSteps:
    """The steps of a host. ``from_modules``: ``groups`` are executions of compiled programs: each is a step."""
    executions = module_steps.count(events)
    hostname = events.hostnames[0] if events.hostnames else "localhost"
    database, unfit, xprof_database = _database(events, groups, hardware, hostname, workers or Workers(1), from_modules)
    accelerated = bool(events.planes_of("TPU") or events.planes_of("GPU"))
    return HostSteps(
        host=events.host,
        hostname=hostname,
        number=events.number,
        accelerated=accelerated,
        database=database,
        groups=groups.count,
        unfit=unfit,
        module_executions=executions,
        vetoed=groups.vetoed,
        xprof_database=xprof_database,
        outside=0 if accelerated else module_steps.count_outside(events, database.begin_ps, database.duration_ps),
    )


def _database(
    events: HostEvents, groups: Groups, hardware: str, hostname: str, workers: Workers, from_modules: bool
) -> tuple[StepDatabase, int, StepDatabase]:
    """The steps, how many markers are of none, and the steps as in XProf. TPUs go before GPUs."""

    def on_host() -> HostStepEvents | None:
        if from_modules:
            return module_steps.on_threads(events, groups)
        return host_step_events.host_step_events(events, groups)

    if events.planes_of("TPU"):
        found = tpu_step_events.tpu_step_events(events, groups, workers)
        database, unfit = of_tpus(events.host, hostname, found, groups, on_host)
    elif events.planes_of("GPU"):
        kernels = gpu_step_events.gpu_step_events(events, groups)
        database, unfit = of_gpus(events.host, hostname, kernels, groups)
        in_xprof = kernels.as_in_xprof()
        shown = database if in_xprof is kernels else of_gpus(events.host, hostname, in_xprof, groups)[0]
        return with_input_waits(database, kernels, events, groups), unfit, shown
    elif (threads := on_host()) is None:
        database, unfit = empty_database(hardware, [events.host], one_core(hostname)), 0
    else:
        database, unfit = of_threads(events.host, hostname, threads, groups)
    return database, unfit, database
