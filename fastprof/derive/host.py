"""One host, as analyses receive it: its events, and what several analyses compute of them, computed once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

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
"""Tells of the group of each event, -1: none, whether it is wanted."""

CPU_ONLY, GPU, TPU = "CPU_ONLY", "GPU", "TPU"


class Host:
    """``raw``: the events as they were read. All else is computed when it is first asked for."""

    GROUPING: ClassVar[Needs] = Needs(stats=STATS)
    """What ``groups`` and ``events`` read: planes of all kinds."""

    def __init__(self, raw: HostEvents, workers: Workers, groups: Groups | None = None) -> None:
        self.executions: Groups | None = None  # of chosen events, where executions of programs were chosen
        self.missed: str | None = None  # where steps were chosen that are not there: which ones are, in words
        self.raw = raw
        self.workers = workers
        self._whole: Host | None = None
        if groups is not None:
            self.__dict__["groups"] = groups

    @property
    def name(self) -> str:
        return self.raw.host

    @property
    def hostname(self) -> str:
        """As the capture itself calls the host, else localhost; XProf shows this one."""
        return self.raw.hostnames[0] if self.raw.hostnames else "localhost"

    @property
    def whole(self) -> Host:
        """The host with all that was read of it, of which this one may be some steps: for what goes on over their
        bounds, as memory that is held and input that is fetched ahead."""
        return self._whole or self

    @cached_property
    def hardware(self) -> str:
        """What computes: GPU where the host has GPU planes, else TPU, else CPU_ONLY."""
        for kind in (GPU, TPU):
            if self.raw.planes_of(kind):
                return kind
        return CPU_ONLY

    @cached_property
    def forest(self) -> Forest:
        """What encloses each event and what it waits for: groups are made from it."""
        return Forest(self.raw, self.workers)

    @cached_property
    def groups(self) -> Groups:
        """The group of each event: which step, batch or request it belongs to."""
        return groups_of(self.forest)

    @property
    def events(self) -> HostEvents:
        """The events that ``groups`` and ``is_eager`` are about: those read, and regions of thread pools."""
        return self.groups.events if "groups" in self.__dict__ else self.forest.events

    @property
    def is_eager(self) -> npt.NDArray[np.uint8]:
        """1 for ops and kernels that were executed eagerly, by row of ``events``; takes no grouping."""
        return self.groups.is_eager if "groups" in self.__dict__ else self.forest.is_eager

    @cached_property
    def modules(self) -> Modules:
        """The compiled programs that the capture carries."""
        from fastprof.hlo.modules import Modules

        return Modules(self.raw.programs, self.raw.log)

    @cached_property
    def device_ops(self) -> HostDeviceOps:
        """The ops of its devices."""
        from fastprof.derive.ops.device_ops import host_device_ops

        return host_device_ops(self)

    @cached_property
    def steps(self) -> HostSteps:
        return self.steps_from(modules=False)

    def steps_from(self, *, modules: bool) -> HostSteps:
        """The steps that markers make, or executions of programs."""
        from fastprof.derive.steps.of_host import steps_of_host

        if not modules:
            return steps_of_host(self.events, self.groups, self.hardware, self.workers)
        groups = self.groups_from(modules=True)
        return steps_of_host(groups.events, groups, self.hardware, self.workers, from_modules=True)

    def groups_from(self, *, modules: bool) -> Groups:
        """The groups that markers make, or executions of programs."""
        return self._by_execution() if modules else self.groups

    def _by_execution(self) -> Groups:
        from fastprof.derive.steps.module_steps import grouped_by_execution

        return self.executions or grouped_by_execution(self.events, self.groups)

    def of_steps(self, choice: Choice, asked: str | None, *, modules: bool = False) -> Host:
        """The events of some groups: those that markers make, or executions of programs. ``asked``: which, in words,
        to tell where there are none; None: what steps read was not read."""
        by = self.groups_from(modules=modules)
        keep = choice(by.group_id)
        groups = self.groups.subset(keep)
        found = Host(groups.events, self.workers, groups)
        found._whole = self.whole
        if modules:
            found.executions = by.subset(keep)
        if asked is not None and not keep.any():
            there = self.steps_from(modules=modules).database.step
            found.missed = f"no {asked}; there are {there.min()} to {there.max()}" if len(there) else None
        return found
