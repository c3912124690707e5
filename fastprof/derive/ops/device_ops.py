"""The ops of a host's devices, and of a session's: what every analysis of ops starts from, so that all agree.

Devices are the TensorCores of TPUs, or else GPUs, or else, if a host has neither, the threads that ran what XLA
compiled for the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from fastprof import hlo
from fastprof.derive.devices.chosen_peaks import NOTHING, Chosen, with_chosen
from fastprof.derive.devices.device_count import NO_DEVICES, HostDevices
from fastprof.derive.devices.device_events import OP_LINES
from fastprof.derive.devices.devices import COMPUTE, HBM, Peaks, likely_peaks, peaks, with_published, with_remedy
from fastprof.derive.devices.kineto_categories import ARGUMENTS
from fastprof.derive.ops import tpu
from fastprof.derive.ops.combine import combined, combined_once
from fastprof.derive.ops.sparse_core import SparseCores
from fastprof.derive.ops.tables import Ops, is_work
from fastprof.derive.ops.transfers import placed
from fastprof.derive.ops.work_sources import with_work_of_programs
from fastprof.derive.steps.forest import STATS as FOREST_STATS
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HOST_THREADS
from fastprof.tables.needs import Needs

if TYPE_CHECKING:
    from fastprof.decode.workers import Workers
    from fastprof.hlo.modules import Modules
    from fastprof.tables.host_events import HostEvents, Plane

GPU_STATS: Final = (
    "hlo_op", "hlo_module", "program_id", "tf_op", "annotation", "correlation_id", "cuda_graph_node_id",
    "flops", "bytes_accessed", "vdd_energy_j", *ARGUMENTS,
)  # fmt: skip
"""The stats of events that ops of GPUs are read from."""
READS: Final = Needs(
    stats=(*tpu.EVENT_STATS, "hlo_op", "program_id"),
    metadata_stats=tuple(dict.fromkeys((*tpu.METADATA_STATS, *hlo.METADATA_STATS))),
    stats_with_gpus=(*GPU_STATS, *FOREST_STATS),
)

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
    def is_eager(self) -> npt.NDArray[np.uint8]: ...
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
    """Those of all devices together."""
    by_device: tuple[tuple[str, Ops], ...]
    """By the name of its plane."""
    peaks: Peaks | None
    """Of the first device, as recorded."""
    titles: Mapping[int, str]
    """By program id how the capture lists the program: ``jit_f(12)``."""
    problems: tuple[str, ...] = ()
    """In words: programs that could not be read, events that could not be counted, figures that cannot be true."""
    present: HostDevices = NO_DEVICES
    """The devices of the capture."""
    likely_peaks: Peaks | None = None
    """Those of the likeliest maker, if the maker is not recorded; None: the recorded ones are used."""

    @property
    def best_peaks(self) -> Peaks | None:
        return self.likely_peaks or self.peaks

    @property
    def hosts(self) -> tuple[DeviceFacts, ...]:
        """The host, as one of several."""
        ran = bool(len(self.ops.table))
        return (
            DeviceFacts(self.name, self.hardware, ran, self.peaks, self.best_peaks, self.problems, self.present),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What is known of a host's devices beside their ops. ``has_ops``: whether any ran."""

    name: str
    hardware: str
    has_ops: bool
    peaks: Peaks | None
    best_peaks: Peaks | None
    problems: tuple[str, ...]
    present: HostDevices


@dataclass(frozen=True, slots=True)
class OpsOfHosts:
    """The ops of the devices of several hosts that follow each other, for that of each. ``titles``: of the first host
    that has the program."""

    ops: Ops
    titles: Mapping[int, str]
    hosts: tuple[DeviceFacts, ...]

    @classmethod
    def of(cls, parts: Sequence[HostDeviceOps | OpsOfHosts], shared: dict[Any, Any]) -> OpsOfHosts:
        """``shared``: what was made of these hosts before."""
        known: dict[Any, Any] = {}

        def once(value: Any) -> Any:
            return known.setdefault(value, value)

        hosts = [
            replace(one, peaks=once(one.peaks), best_peaks=once(one.best_peaks), present=once(one.present))
            for part in parts
            for one in part.hosts
        ]
        return cls(combined_once([part.ops for part in parts], shared), _first_titles(parts), tuple(hosts))


def _first_titles(parts: Sequence[HostDeviceOps | OpsOfHosts]) -> dict[int, str]:
    """By program id; of the first host that has it."""
    return {number: title for part in reversed(parts) for number, title in part.titles.items()}


def device_planes(events: HostEvents) -> list[Plane]:
    """TensorCores, or else GPUs, or else the threads of the host if they ran compiled programs."""
    return events.planes_of("TPU") or events.planes_of("GPU") or _threads(events)


def _threads(events: HostEvents) -> list[Plane]:
    """The threads of the host, if any of them ran instructions of compiled programs."""
    at, _ = events.texts("hlo_op")
    planes = [plane for plane in events.planes if plane.name == HOST_THREADS]
    return [plane for plane in planes if np.diff(np.searchsorted(at, [plane.first, plane.last]))[0]]


def host_device_ops(host: OpHost) -> HostDeviceOps:
    planes = device_planes(host.raw)
    by_device = _by_device(host, planes)
    host.modules.look_into()
    titles = {number: title for number in host.modules.program_ids if (title := host.modules.title(number))}
    return HostDeviceOps(
        host.name,
        _hardware(planes),
        combined(by_device) if by_device else Ops.none(),
        tuple((plane.name, ops) for plane, ops in zip(planes, by_device, strict=True)),
        peaks(planes) if _hardware(planes) != CPU_ONLY else None,
        titles,
        (*host.modules.problems, *_untimed(host.raw, planes), *_odd_figures(host.raw, planes)),
        HostDevices.of(host.raw),
        likely_peaks(planes, host.raw.names) if _hardware(planes) == "GPU" else None,
    )


def _untimed(events: HostEvents, planes: Sequence[Plane]) -> Iterator[str]:
    """Events on lines of ops that are not counted, in words."""
    for plane in planes:
        lines = [line for line in plane.lines if plane.kind != "TPU" or line.name in OP_LINES]
        count = sum(events.untimed.get(line.line_id, 0) for line in lines)
        if count:
            yield (
                f"{count:,} events of {plane.name} record how often an op occurred, but not when (aggregated events): "
                "they are not counted"
            )


def _odd_figures(events: HostEvents, planes: Sequence[Plane]) -> Iterator[str]:
    """Recorded figures that cannot be true, and so count as not recorded."""
    if not planes or planes[0].name == HOST_THREADS:
        return
    if planes[0].kind != "TPU":
        yield from _odd_work(sum(int((events.ints(stat)[1] < 0).sum()) for stat in ("flops", "bytes_accessed")))
        return
    work = (events.meta_stat(stat).numbers for stat in ("flops", "model_flops", "bytes_accessed"))
    yield from _odd_work(sum(int((~is_work(numbers)).sum()) for numbers in work))
    times = sum(int((events.ints(stat)[1] < 0).sum()) for stat in ("min_duration_ps", "dma_stall_duration_ps"))
    if times:
        yield (
            f"a time below 0 is recorded {_times(times)} (min_duration_ps, dma_stall_duration_ps): it counts as not "
            "recorded"
        )
    ratios = events.stat("Time Scale Multiplier").numbers
    odd = int((~((ratios >= 0) & (ratios <= tpu.MOST_TIMES))).sum())
    if odd:
        yield f"an impossible ratio of clocks is recorded {_times(odd)} (Time Scale Multiplier): it counts as 1"


def _odd_work(count: int) -> Iterator[str]:
    if count:
        yield f"impossible work, below 0 or beyond measure, is recorded {_times(count)}: it counts as not known"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _hardware(planes: Sequence[Plane]) -> str:
    return planes[0].kind or CPU_ONLY if planes and planes[0].name != HOST_THREADS else CPU_ONLY


def _by_device(host: OpHost, planes: Sequence[Plane]) -> list[Ops]:
    """The ops of each device."""
    if not planes:
        return []
    if planes[0].kind == "TPU":
        cores = host.workers.run(None, [partial(tpu.core_ops, host.raw, plane) for plane in planes])
        return [
            replace(ops, table=placed(with_work_of_programs(ops.table, host.modules, on_tpu=True)))
            for ops in SparseCores(host.raw).children_of(planes, cores)
        ]
    if planes[0].name == HOST_THREADS:
        from fastprof.derive.ops import cpu  # it takes long to import, as gpu does

        return [cpu.plane_ops(host.raw, host.modules, plane)[0] for plane in planes]
    from fastprof.derive.ops import gpu

    return gpu.device_ops(host.events, host.is_eager, host.modules)


@dataclass(frozen=True, slots=True)
class SessionOps:
    """The ops of all devices of a session."""

    ops: Ops
    peaks: Peaks | None
    """What ops are compared with: those that the user chose; else those that hosts record; else the published ones. All
    others are unknown if hosts have different devices."""
    titles: Mapping[int, str]
    """By program id; of the first host that has it."""
    hosts: tuple[DeviceFacts, ...]

    @classmethod
    def of(cls, parts: Sequence[HostDeviceOps | OpsOfHosts], chosen: Chosen = NOTHING) -> SessionOps:
        hosts = tuple(host for part in parts for host in part.hosts)
        best, ran = _own_peaks(hosts), any(host.has_ops for host in hosts)
        final = best if best is None and not ran else with_chosen(best and with_published(best), chosen)
        ops = combined([part.ops for part in parts])
        return cls(ops, final and with_remedy(final), _first_titles(parts), hosts)

    @property
    def hardware(self) -> str:
        """Of the first host that has devices: TPU or GPU; CPU_ONLY if none has."""
        return next((host.hardware for host in self.hosts if host.hardware != CPU_ONLY), CPU_ONLY)

    def title(self, program_id: int) -> str | None:
        """How the capture lists a program; None: it does not carry it."""
        return self.titles.get(program_id)


def _own_peaks(hosts: Sequence[DeviceFacts]) -> Peaks | None:
    """Of the device that all hosts have: as the first host records them, and what it leaves out as others do."""
    known = [host.best_peaks for host in hosts if host.best_peaks is not None]
    if not known:
        return None
    kinds = dict.fromkeys((one.hardware, f"{one.name} {one.model}".rstrip()) for one in known)
    if any(host.peaks is None and host.has_ops for host in hosts):
        kinds[CPU_ONLY, "CPU"] = None
    if len(kinds) > 1:
        names = ", ".join(name for _, name in kinds)
        reason = (
            f"hosts have different devices ({names}), so ops are compared with no peaks: choose hosts that have the "
            "same"
        )
        return Peaks(known[0].hardware, "", 0.0, (0.0,) * len(known[0].bandwidths_gb_per_s), reasons=(reason,))
    computing = next((one for one in known if one.teraflops_per_s), known[0])
    every = zip(*(one.bandwidths_gb_per_s for one in known), strict=True)
    bandwidths = tuple(next((rate for rate in rates if rate), 0.0) for rates in every)
    reasons = computing.reasons if any(one.bandwidths_gb_per_s[HBM] for one in known) else known[0].reasons
    found = replace(computing, bandwidths_gb_per_s=bandwidths, reasons=reasons)
    return replace(found, reasons=(*found.reasons, *_at_odds(known)))


def _at_odds(known: Sequence[Peaks]) -> Iterator[str]:
    """That hosts record different peaks of the same device."""
    for what, place in (("arithmetic", COMPUTE), ("HBM", HBM)):
        figures = {one.peak(place) for one in known} - {0.0}
        if len(figures) > 1:
            yield f"hosts record different peaks of {what} for {known[0].name}: those of the first host are used"
