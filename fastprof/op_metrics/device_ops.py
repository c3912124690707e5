"""The ops of a host's devices, and of a session's: what every analysis of ops starts from, so that all tell the same.

Devices are the TensorCores of TPUs, or else GPUs, or else, where a host has neither, the threads that ran what XLA
compiled for the CPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from fastprof import hlo
from fastprof.devices import Peaks, peaks
from fastprof.op_metrics import gpu_stats, tpu
from fastprof.op_metrics.combine import combined
from fastprof.op_metrics.sparse_core import with_sparse_cores
from fastprof.op_metrics.tables import Ops

if TYPE_CHECKING:
    from fastprof.hlo.modules import Modules
    from fastprof.host_events import HostEvents, Plane
    from fastprof.steps.forest import Forest
    from fastprof.steps.grouping import Groups
    from fastprof.workers import Workers

EVENT_STATS: Final = tuple(dict.fromkeys((*tpu.EVENT_STATS, *gpu_stats.EVENT_STATS)))
METADATA_STATS: Final = tuple(dict.fromkeys((*tpu.METADATA_STATS, *hlo.METADATA_STATS)))
"""What is read."""

CPU_ONLY: Final = "CPU_ONLY"


class OpHost(Protocol):
    """A host, as far as its ops need it; analyses.host.Host is one."""

    @property
    def name(self) -> str: ...
    @property
    def raw(self) -> HostEvents: ...
    @property
    def events(self) -> HostEvents: ...
    @property
    def groups(self) -> Groups: ...
    @property
    def forest(self) -> Forest: ...
    @property
    def modules(self) -> Modules: ...
    @property
    def workers(self) -> Workers: ...


@dataclass(frozen=True, slots=True)
class HostDeviceOps:
    """The ops of one host's devices. ``hardware``: TPU, GPU or CPU_ONLY."""

    name: str
    hardware: str
    ops: Ops
    """Of all devices."""
    xprof: Ops
    """The same as XProf counts."""
    by_device: tuple[tuple[str, Ops], ...]
    """By the name of its plane."""
    peaks: Peaks | None
    """Of the first device."""
    titles: Mapping[int, str]
    """By program id how the capture lists the program: ``jit_f(12)``."""
    problems: tuple[str, ...] = ()
    """Programs that could not be read, in words."""


def device_planes(events: HostEvents) -> list[Plane]:
    """TensorCores, or else GPUs."""
    return events.planes_of("TPU") or events.planes_of("GPU")


def host_device_ops(host: OpHost) -> HostDeviceOps:
    planes = device_planes(host.raw)
    own, xprof = _by_device(host, planes)
    titles = {number: title for number in host.modules.program_ids if (title := host.modules.title(number))}
    return HostDeviceOps(
        host.name,
        (planes[0].kind or CPU_ONLY) if planes else CPU_ONLY,
        combined(own) if own else Ops.none(),
        combined(xprof) if xprof else Ops.none(),
        tuple((plane.name, ops) for plane, ops in zip(planes, own, strict=True)),
        peaks(planes),
        titles,
        tuple(host.modules.problems),
    )


def _by_device(host: OpHost, planes: Sequence[Plane]) -> tuple[list[Ops], list[Ops]]:
    """The ops of each device, and as XProf counts them."""
    if not planes:
        return [], []
    if planes[0].kind == "TPU":
        return _of_tpus(host)
    from fastprof.op_metrics import gpu  # it takes long to import

    own = gpu.device_ops(host.events, host.groups, host.modules)
    return own, gpu.xprof_device_ops(host.events, host.groups, host.modules)


def _of_tpus(host: OpHost) -> tuple[list[Ops], list[Ops]]:
    """Takes groups, which take long, only where steps may be of the host's groups."""
    regrouped = tpu.host_leads_steps(host.raw) and not host.forest.recorded
    group_id = host.groups.group_id if regrouped else None
    events = host.events if regrouped else host.raw
    planes = events.planes_of("TPU")
    cores = host.workers.run(None, [partial(tpu.core_ops, events, plane, group_id) for plane in planes])
    return with_sparse_cores(events, planes, [ops for ops, _ in cores]), [xprof for _, xprof in cores]


@dataclass(frozen=True, slots=True)
class SessionOps:
    """The ops of all devices of a session."""

    ops: Ops
    xprof: Ops
    """The same as XProf counts."""
    peaks: Peaks | None
    """What they are measured against: of the last host that tells its arithmetic, with the bandwidths of the first that
    tells any."""
    xprof_peaks: Peaks | None
    """With the bandwidths of the first host that has devices, known or not."""
    titles: Mapping[int, str]
    """By program id; of the first host that has it."""
    hosts: tuple[HostDeviceOps, ...]

    @classmethod
    def of(cls, hosts: Sequence[HostDeviceOps]) -> SessionOps:
        best, shown = _best_known([host.peaks for host in hosts if host.peaks is not None])
        return cls(
            combined([host.ops for host in hosts]),
            combined([host.xprof for host in hosts]),
            best,
            shown,
            {number: title for host in reversed(hosts) for number, title in host.titles.items()},
            tuple(hosts),
        )

    @property
    def hardware(self) -> str:
        """Of the first host that has devices: TPU or GPU; CPU_ONLY where none has."""
        return next((host.hardware for host in self.hosts if host.hardware != CPU_ONLY), CPU_ONLY)

    def title(self, program_id: int) -> str | None:
        """How the capture lists a program; None: it does not carry it."""
        return self.titles.get(program_id)


def _best_known(all_peaks: Sequence[Peaks]) -> tuple[Peaks | None, Peaks | None]:
    if not all_peaks:
        return None, None
    computing = [one for one in all_peaks if one.teraflops_per_s > 0] or list(all_peaks)
    moving = [one for one in all_peaks if any(one.bandwidths_gb_per_s)] or list(all_peaks)
    best = replace(computing[-1], bandwidths_gb_per_s=moving[0].bandwidths_gb_per_s)
    return best, replace(best, bandwidths_gb_per_s=all_peaks[0].bandwidths_gb_per_s)
