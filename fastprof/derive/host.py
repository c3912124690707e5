"""One host as analyses receive it: its events, and what several analyses need of them, computed once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from fastprof.decode.selection import absent_steps
from fastprof.decode.workers import Workers
from fastprof.derive.steps.forest import STATS, Forest
from fastprof.derive.steps.grouping import Groups, groups_of
from fastprof.tables.host_events import HostEvents
from fastprof.tables.needs import Needs

if TYPE_CHECKING:
    from fastprof.derive.ops.device_ops import HostDeviceOps
    from fastprof.derive.steps.of_host import HostSteps
    from fastprof.hlo.modules import Modules

Choice = Callable[[npt.NDArray[np.int32]], npt.NDArray[np.bool_]]
"""From the group of each event, -1: none, to whether the event is wanted."""

CPU_ONLY, GPU, TPU = "CPU_ONLY", "GPU", "TPU"
MARKERS: Final = "markers"
MODULES: Final = "modules"
STEPS_FROM: Final[dict[str, Any]] = {
    "help": "what is a step: a marker set by the program or its framework, or an execution of a compiled program",
    "choices": (MARKERS, MODULES),
}
"""Metadata of the field ``steps_from`` of parameters; the default is MARKERS."""


class Host:
    """``raw``: the events as they were read; everything else is computed on first use. Where steps were chosen,
    ``executions`` groups the events by executions of programs, if steps were chosen by these, and ``missed`` names in
    words which steps the host lacks."""

    GROUPING: ClassVar[Needs] = Needs(stats=STATS)
    """What ``groups`` and ``events`` read: planes of all kinds."""

    def __init__(self, raw: HostEvents, workers: Workers, groups: Groups | None = None) -> None:
        """``groups``: of ``raw``; None: they are made when they are needed."""
        self.raw = raw
        self.workers = workers
        self.executions: Groups | None = None
        self.missed: str | None = None
        self._groups = groups
        self._entire: Host | None = None

    @property
    def name(self) -> str:
        return self.raw.host

    @property
    def hostname(self) -> str:
        """The name of the host in the capture, else localhost."""
        return self.raw.capture.hostnames[0] if self.raw.capture.hostnames else "localhost"

    @property
    def entire(self) -> Host:
        """The host with all events that were read, where this one has those of chosen steps: for what crosses the
        bounds of steps, such as memory in use and input fetched ahead."""
        return self._entire or self

    @cached_property
    def hardware(self) -> str:
        """GPU where the host has GPU planes, else TPU where it has TPU planes, else CPU_ONLY."""
        for kind in (GPU, TPU):
            if self.raw.planes_of(kind):
                return kind
        return CPU_ONLY

    @cached_property
    def forest(self) -> Forest:
        """What encloses each event and what it waits for; groups are made from it. TypeError: what it takes was not
        read."""
        missing = [stat for stat in self.GROUPING.stats if stat not in self.raw.stats]
        if missing:
            raise TypeError(
                "host.events, host.groups and host.steps take groups: declare READS = union([Host.GROUPING, Needs(…)]) "
                f"or use host.raw, the events as they were read (not read: {', '.join(missing[:3])}, …)"
            )
        return Forest(self.raw, self.workers)

    @property
    def groups(self) -> Groups:
        """The group of each event: the step, batch or request that it belongs to."""
        if self._groups is None:
            self._groups = groups_of(self.forest)
        return self._groups

    @property
    def events(self) -> HostEvents:
        """The events that ``groups`` and ``is_eager`` describe: those read, and regions of thread pools."""
        return self.forest.events if self._groups is None else self._groups.events

    @property
    def is_eager(self) -> npt.NDArray[np.uint8]:
        """1 for ops and kernels that were executed eagerly, by row of ``events``; takes no grouping."""
        return self.forest.is_eager if self._groups is None else self._groups.is_eager

    @cached_property
    def modules(self) -> Modules:
        """The compiled programs in the capture."""
        from fastprof.hlo.modules import Modules

        return Modules(self.raw.programs, self.raw.capture.log)

    @cached_property
    def device_ops(self) -> HostDeviceOps:
        """The ops of the host's devices."""
        from fastprof.derive.ops.device_ops import host_device_ops

        return host_device_ops(self)

    @cached_property
    def steps(self) -> HostSteps:
        """The steps that markers make."""
        from fastprof.derive.steps.of_host import steps_of_host

        return steps_of_host(self.events, self.groups, self.hardware, self.workers)

    def steps_from(self, *, modules: bool) -> HostSteps:
        """The steps, each made by a marker or by an execution of a program."""
        from fastprof.derive.steps.of_host import steps_of_host

        if not modules:
            return self.steps
        groups = self.groups_from(modules=True)
        return steps_of_host(groups.events, groups, self.hardware, self.workers, from_modules=True)

    def groups_from(self, *, modules: bool) -> Groups:
        """The groups, each made by a marker or by an execution of a program."""
        return self._by_execution() if modules else self.groups

    def _by_execution(self) -> Groups:
        from fastprof.derive.steps.module_steps import grouped_by_execution

        return self.executions or grouped_by_execution(self.events, self.groups)

    def of_steps(self, choice: Choice, steps: str | None, *, modules: bool = False) -> Host:
        """The events of some groups, made by markers or, with ``modules``, by executions of programs. ``steps``: the
        chosen ones in words, for a message where the host has none of them; None: steps cannot be listed, since what
        they are made from was not read."""
        by = self.groups_from(modules=modules)
        keep = choice(by.group_id)
        groups = self.groups.subset(keep)
        chosen = Host(groups.events, self.workers, groups)
        chosen._entire = self.entire
        if modules:
            chosen.executions = by.subset(keep)
        if steps is not None and not keep.any():
            known = np.unique(self.steps_from(modules=modules).database.step).tolist()
            chosen.missed = absent_steps(steps, known) if known else None
        return chosen
