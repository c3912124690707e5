"""The steps of one host: from its threads where it has no devices, else from its GPUs or TPU cores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fastprof.decode.workers import Workers
from fastprof.derive.steps import gpu_step_events, host_step_events, module_steps, tpu_step_events
from fastprof.derive.steps.database import StepDatabase, empty_database
from fastprof.derive.steps.generic_steps import of_gpus, of_threads, one_core
from fastprof.derive.steps.gpu_input_waits import input_waits, with_input_waits
from fastprof.derive.steps.grouping import Groups
from fastprof.derive.steps.host_step_events import HostStepEvents
from fastprof.derive.steps.tpu_steps import of_tpus
from fastprof.schema.array_types import Int64s
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
    """The steps of one host. ``groups``: the number of its groups of events; ``unfit``: step markers that make no step,
    since nothing was computed in them; ``module_executions``: runs of compiled programs; ``vetoed``: whether grouping
    was given up; ``outside``: on a host without devices, runs of compiled programs during no step; ``input_wait_ps``:
    by step, idle time of GPUs that ``database`` counts as waiting for input, None: none; ``missed``: a sentence, where
    the host lacks the requested steps."""

    host: str
    hostname: str
    number: int
    accelerated: bool
    database: StepDatabase
    groups: int
    unfit: int
    module_executions: int
    vetoed: bool
    outside: int
    input_wait_ps: Int64s | None = None
    missed: str | None = None


def steps_of_host(
    events: HostEvents, groups: Groups, hardware: str, workers: Workers | None = None, from_modules: bool = False
) -> HostSteps:
    """The steps of a host, TPUs before GPUs. ``from_modules``: ``groups`` are executions of compiled programs, each a
    step."""
    hostname = events.capture.hostnames[0] if events.capture.hostnames else "localhost"
    unfit, waited = 0, None

    def on_host() -> HostStepEvents | None:
        if from_modules:
            return module_steps.on_threads(events, groups)
        return host_step_events.host_step_events(events, groups)

    tpus, gpus = bool(events.planes_of("TPU")), bool(events.planes_of("GPU"))
    if tpus:
        cores = tpu_step_events.tpu_step_events(events, groups, workers or Workers(1))
        database, unfit = of_tpus(events.host, hostname, cores, groups, on_host)
    elif gpus:
        kernels = gpu_step_events.gpu_step_events(events, groups)
        database, unfit = of_gpus(events.host, hostname, kernels, groups.step_names)
        waited = input_waits(database, kernels, events, groups)
        database = with_input_waits(database, waited)
    elif (threads := on_host()) is None:
        database = empty_database(hardware, [events.host], one_core(hostname))
    else:
        database, unfit = of_threads(events.host, hostname, threads, groups)
    accelerated = tpus or gpus
    return HostSteps(
        host=events.host,
        hostname=hostname,
        number=events.number,
        accelerated=accelerated,
        database=database,
        groups=groups.count,
        unfit=unfit,
        module_executions=module_steps.count(events),
        vetoed=groups.vetoed,
        input_wait_ps=waited,
        outside=0 if accelerated else module_steps.count_outside(events, database.begin_ps, database.duration_ps),
    )
