"""Ops of host devices and of a session. All analyses of ops start here, so that they agree.

Devices are the TensorCores of TPUs, or else GPUs, or else, if a host has neither, the threads that ran what XLA
compiled for the CPU. Remarks are the sentences on these ops that every analysis of them shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from fastprof import hlo
from fastprof.derive.devices.device_events import OP_LINES, NothingRan
from fastprof.derive.devices.device_peaks import (
    COMPUTE,
    HBM,
    NOTHING,
    ChosenPeaks,
    Peaks,
    add_published_peaks,
    add_remedy,
    apply_chosen_peaks,
    find_peaks,
    guess_peaks,
)
from fastprof.derive.devices.op_names import ARGUMENTS
from fastprof.derive.devices.run_environment import NO_DEVICES, HostDevices
from fastprof.derive.ops import tpu_cores
from fastprof.derive.ops.op_table import Ops, OpTable, is_container, is_work, merge_ops, merge_ops_once
from fastprof.derive.ops.roofline_model import (
    MOST_UNKNOWN,
    fill_missing_work,
    find_unknown_work,
    list_ceilings,
    measure_efficiency,
    measure_self_share,
    place_unknown_bytes,
)
from fastprof.derive.ops.tpu_cores import SparseCores
from fastprof.derive.steps.event_graph import STATS as FOREST_STATS
from fastprof.schema.columns import Int64s, find_rows_within
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HOST_THREADS
from fastprof.tables.needs import Needs

if TYPE_CHECKING:
    from fastprof.decode.workers import Workers
    from fastprof.hlo.programs import Modules
    from fastprof.tables.host_events import HostEvents, Plane


GPU_STATS: Final = (
    "hlo_op", "hlo_module", "program_id", "tf_op", "annotation", "correlation_id", "cuda_graph_node_id",
    "flops", "bytes_accessed", "vdd_energy_j", *ARGUMENTS,
)  # fmt: skip
"""Event stats that GPU ops are read from."""
READS: Final = Needs(
    stats=(*tpu_cores.EVENT_STATS, "hlo_op", "program_id"),
    metadata_stats=tuple(dict.fromkeys((*tpu_cores.METADATA_STATS, *hlo.METADATA_STATS))),
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
    """Ops of all devices together."""
    by_device: tuple[tuple[str, Ops], ...]
    """Ops of each device, with the name of its plane."""
    peaks: Peaks | None
    """Peaks of the first device, as recorded."""
    titles: Mapping[int, str]
    """Program titles by program id, as the capture lists them: ``jit_f(12)``."""
    problems: tuple[str, ...] = ()
    """Sentences: programs that could not be read, events that could not be counted, impossible figures."""
    present: HostDevices = NO_DEVICES
    """Devices of the capture."""
    likely_peaks: Peaks | None = None
    """Peaks of the likeliest maker, if the maker is not recorded; None if the recorded peaks are used."""

    @property
    def best_peaks(self) -> Peaks | None:
        return self.likely_peaks or self.peaks

    @property
    def hosts(self) -> tuple[DeviceFacts, ...]:
        """This host as the only one of several."""
        ran = bool(len(self.ops.table))
        return (
            DeviceFacts(self.name, self.hardware, ran, self.peaks, self.best_peaks, self.problems, self.present),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """Facts about a host's devices beside their ops. ``has_ops``: whether any op ran."""

    name: str
    hardware: str
    has_ops: bool
    peaks: Peaks | None
    best_peaks: Peaks | None
    problems: tuple[str, ...]
    present: HostDevices


@dataclass(frozen=True, slots=True)
class MergedDeviceOps:
    """Device ops of several hosts, merged, and facts about each host. ``titles``: from the first host that has the
    program."""

    ops: Ops
    titles: Mapping[int, str]
    hosts: tuple[DeviceFacts, ...]

    @classmethod
    def of(cls, parts: Sequence[HostDeviceOps | MergedDeviceOps], shared: dict[Any, Any]) -> MergedDeviceOps:
        """Merge hosts. ``shared``: a cache of earlier merges of these hosts."""
        known: dict[Any, Any] = {}

        def once(value: Any) -> Any:
            return known.setdefault(value, value)

        hosts = [
            replace(host, peaks=once(host.peaks), best_peaks=once(host.best_peaks), present=once(host.present))
            for part in parts
            for host in part.hosts
        ]
        return cls(merge_ops_once([part.ops for part in parts], shared), _merge_titles(parts), tuple(hosts))


def _merge_titles(parts: Sequence[HostDeviceOps | MergedDeviceOps]) -> dict[int, str]:
    """Return titles by program id, from the first host that has the program."""
    return {number: title for part in reversed(parts) for number, title in part.titles.items()}


def list_device_planes(events: HostEvents) -> list[Plane]:
    """Return the TensorCores, or else the GPUs, or else the host's threads if any ran compiled programs."""
    if devices := events.planes_of("TPU") or events.planes_of("GPU"):
        return devices
    at, _ = events.texts("hlo_op")
    planes = [plane for plane in events.planes if plane.name == HOST_THREADS]
    return [plane for plane in planes if len(at[find_rows_within(at, plane.first, plane.last)])]


def sum_host_device_ops(host: OpHost) -> HostDeviceOps:
    planes = list_device_planes(host.raw)
    by_device = _sum_ops_by_device(host, planes)
    host.modules.look_into()
    titles = {number: title for number in host.modules.program_ids if (title := host.modules.title(number))}
    untimed = []
    for plane in planes:
        lines = [line for line in plane.lines if plane.kind != "TPU" or line.name in OP_LINES]
        count = sum(host.raw.untimed.get(line.line_id, 0) for line in lines)
        if count:
            untimed.append(
                f"{count:,} events of {plane.name} record how often an op occurred, but not when (aggregated events): "
                "they are not counted"
            )
    return HostDeviceOps(
        host.name,
        _get_hardware(planes),
        merge_ops(by_device) if by_device else Ops.none(),
        tuple((plane.name, ops) for plane, ops in zip(planes, by_device, strict=True)),
        find_peaks(planes) if _get_hardware(planes) != CPU_ONLY else None,
        titles,
        (*host.modules.problems, *untimed, *_describe_odd_figures(host.raw, planes)),
        HostDevices.of(host.raw),
        guess_peaks(planes, host.raw.names) if _get_hardware(planes) == "GPU" else None,
    )


def _describe_odd_figures(events: HostEvents, planes: Sequence[Plane]) -> Iterator[str]:
    """Yield sentences on impossible recorded figures, which count as not recorded."""
    if not planes or planes[0].name == HOST_THREADS:
        return
    if planes[0].kind != "TPU":
        yield from _describe_odd_work(
            sum(int((events.ints(stat)[1] < 0).sum()) for stat in ("flops", "bytes_accessed"))
        )
        return
    work = (events.meta_stat(stat).numbers for stat in ("flops", "model_flops", "bytes_accessed"))
    yield from _describe_odd_work(sum(int((~is_work(numbers)).sum()) for numbers in work))
    times = sum(int((events.ints(stat)[1] < 0).sum()) for stat in ("min_duration_ps", "dma_stall_duration_ps"))
    if times:
        yield (
            f"a time below 0 is recorded {_format_times(times)} (min_duration_ps, dma_stall_duration_ps): "
            "it counts as not recorded"
        )
    ratios = events.stat("Time Scale Multiplier").numbers
    odd = int((~((ratios >= 0) & (ratios <= tpu_cores.MOST_TIMES))).sum())
    if odd:
        yield f"an impossible clock ratio is recorded {_format_times(odd)} (Time Scale Multiplier): it counts as 1"


def _describe_odd_work(count: int) -> Iterator[str]:
    if count:
        yield f"impossible work (negative or far too large) is recorded {_format_times(count)}: it counts as unknown"


def _format_times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _get_hardware(planes: Sequence[Plane]) -> str:
    return planes[0].kind or CPU_ONLY if planes and planes[0].name != HOST_THREADS else CPU_ONLY


def _sum_ops_by_device(host: OpHost, planes: Sequence[Plane]) -> list[Ops]:
    """Return the ops of each device."""
    if not planes:
        return []
    if planes[0].kind == "TPU":
        cores = host.workers.run(None, [partial(tpu_cores.sum_core_ops, host.raw, plane) for plane in planes])
        return [
            replace(ops, table=place_unknown_bytes(fill_missing_work(ops.table, host.modules, on_tpu=True)))
            for ops in SparseCores(host.raw).children_of(planes, cores)
        ]
    if planes[0].name == HOST_THREADS:
        from fastprof.derive.ops import host_ops  # it takes long to import, as gpu does

        return [host_ops.sum_cpu_ops(host.raw, host.modules, plane)[0] for plane in planes]
    from fastprof.derive.ops import gpu_attribution

    return gpu_attribution.sum_gpu_ops(host.events, host.is_eager, host.modules)


@dataclass(frozen=True, slots=True)
class SessionOps:
    """Ops of all devices of a session."""

    ops: Ops
    peaks: Peaks | None
    """Peaks to compare ops with: chosen by the user, else recorded, else published. Peaks that are not chosen are
    unknown if hosts have different devices."""
    titles: Mapping[int, str]
    """Titles by program id, from the first host that has the program."""
    hosts: tuple[DeviceFacts, ...]

    @classmethod
    def of(cls, parts: Sequence[HostDeviceOps | MergedDeviceOps], chosen: ChosenPeaks = NOTHING) -> SessionOps:
        hosts = tuple(host for part in parts for host in part.hosts)
        best, ran = _find_common_peaks(hosts), any(host.has_ops for host in hosts)
        final = best if best is None and not ran else apply_chosen_peaks(best and add_published_peaks(best), chosen)
        ops = merge_ops([part.ops for part in parts])
        return cls(ops, final and add_remedy(final), _merge_titles(parts), hosts)

    @property
    def hardware(self) -> str:
        """TPU or GPU, of the first host with devices; CPU_ONLY if no host has any."""
        return next((host.hardware for host in self.hosts if host.hardware != CPU_ONLY), CPU_ONLY)

    def title(self, program_id: int) -> str | None:
        """Return the title of a program, or None if the capture does not carry the program."""
        return self.titles.get(program_id)


def _find_common_peaks(hosts: Sequence[DeviceFacts]) -> Peaks | None:
    """Return the peaks of the device that all hosts have: the first host's, completed from the others."""
    known = [host.best_peaks for host in hosts if host.best_peaks is not None]
    if not known:
        return None
    kinds = dict.fromkeys((peaks.hardware, f"{peaks.name} {peaks.model}".rstrip()) for peaks in known)
    if any(host.peaks is None and host.has_ops for host in hosts):
        kinds[CPU_ONLY, "CPU"] = None
    if len(kinds) > 1:
        names = ", ".join(name for _, name in kinds)
        reason = f"hosts have different devices ({names}), so ops have no common peaks"
        reason += ": choose hosts that have the same"
        return Peaks(known[0].hardware, "", 0.0, (0.0,) * len(known[0].bandwidths_gb_per_s), reasons=(reason,))
    computing = next((peaks for peaks in known if peaks.teraflops_per_s), known[0])
    every = zip(*(peaks.bandwidths_gb_per_s for peaks in known), strict=True)
    bandwidths = tuple(next((rate for rate in rates if rate), 0.0) for rates in every)
    reasons = computing.reasons if any(peaks.bandwidths_gb_per_s[HBM] for peaks in known) else known[0].reasons
    for what, place in (("arithmetic", COMPUTE), ("HBM", HBM)):
        if len({peaks.peak(place) for peaks in known} - {0.0}) > 1:
            differ = f"hosts record different peaks of {what} for {known[0].name}: those of the first host are used"
            reasons = (*reasons, differ)
    return replace(computing, bandwidths_gb_per_s=bandwidths, reasons=reasons)


Remark = tuple[str, str]
"""Severity, as in notices, and a sentence."""

NO_PROGRAMS: Final = "The capture carries no compiled programs: ops are known from their events only."
KERNEL_NAME: Final = "kernel name"
"""Prefix of the ways of gpu_attribution.py that go by the kernel's name."""

_REASONS_NAMED: Final = 3
_UNKNOWN_NAMED: Final = 2
_OPS_NAMED: Final = 3
_LONGEST_NAME: Final = 60


def list_remarks(devices: SessionOps) -> Iterator[Remark]:
    if not len(devices.ops.table):
        yield "warning", f"No ops: {explain_no_ops(devices)}."
    yield from remark_on_programs(devices)
    yield from remark_on_attribution(devices.ops.table)
    yield from remark_on_unknown_products(devices.ops.table)
    if devices.ops.overlapped_ps:
        yield (
            "info",
            "Ops ran on several lines (streams or threads) of a device in parallel: their times add up to more than "
            "its busy time. Shares are of that sum and idle time.",
        )
    if devices.peaks is not None:
        yield from remark_on_unknown_peaks(devices.ops.table)
    yield from remark_on_excess_work(devices)
    for reason in devices.peaks.reasons if devices.peaks else ():
        yield "info", f"On peaks: {reason}."


def remark_on_programs(devices: SessionOps) -> Iterator[Remark]:
    """Say that the capture carries no programs, and what of programs or op events cannot be read."""
    if len(devices.ops.table) and not devices.titles:
        yield "info", NO_PROGRAMS
    yield from remark_on_problems((host.name, host.problems) for host in devices.hosts)


def remark_on_problems(of_hosts: Iterable[tuple[str, Sequence[str]]]) -> Iterator[Remark]:
    for host, texts in of_hosts:
        for text in texts:
            yield "warning", f"{host}: {text}."


def explain_no_ops(devices: SessionOps) -> str:
    """Return the end of a sentence."""
    if not devices.hosts:
        return "no host is selected"
    if not devices.ops.parts:
        return NothingRan("the capture has no planes of devices, and no thread ran ops of compiled programs")
    return NothingRan("no op of the devices is recorded")


def remark_on_attribution(table: OpTable) -> Iterator[Remark]:
    """Say how much op time is of unknown ops, or of ops known by kernel names alone."""
    yield from remark_on_unattributed(table)
    by_name = np.array([way.startswith(KERNEL_NAME) for way in table.attribution], bool)
    named_ps, total = sum(table.self_ps[by_name].tolist()), sum(table.self_ps.tolist())
    if by_name.any():
        yield (
            "info",
            f"{_format_device_share(named_ps, total)} belongs to ops only by the names of kernels. XLA lets equal "
            f"fusions share a kernel: one fusion then has the time of all of them, so its occurrences, source line "
            f"and layer may be wrong.",
        )


def remark_on_unattributed(table: OpTable) -> Iterator[Remark]:
    """Say how much op time is of events whose op is unknown, and why."""
    time, total = _sum_time_by_reason(table.unattributed, table.self_ps), int(table.self_ps.sum())
    if not time:
        return
    share = _format_device_share(sum(time.values()), total)
    yield "info", f"{share} is listed by kernel or copy, not by op. Why:\n" + "\n".join(_list_reasons(time, total))


def _sum_time_by_reason(reasons: Iterable[str], self_ps: Int64s) -> Counter[str]:
    time: Counter[str] = Counter()
    for reason, time_ps in zip(reasons, self_ps.tolist(), strict=True):
        if reason:
            time[reason] += time_ps
    return time


def _format_device_share(part: int, total: int) -> str:
    return f"{100 * part / total:.1f} % of the time of devices" if total else "Device work"


def _list_reasons(time: Counter[str], total: int) -> Iterator[str]:
    """Yield a line for each of the reasons with the most time."""
    for reason, self_ps in time.most_common(_REASONS_NAMED):
        yield f"{reason} ({100 * self_ps / total:.1f} %)" if total else reason
    if len(time) > _REASONS_NAMED:
        yield f"{len(time) - _REASONS_NAMED} other reasons"


def remark_on_unknown_peaks(table: OpTable) -> Iterator[Remark]:
    """Say why shares of peaks are unknown, if they are."""
    parts = zip(("arithmetic", "memory traffic"), find_unknown_work(table), strict=True)
    large = [
        (name, share, chosen) for name, chosen in parts if (share := measure_self_share(table, chosen)) > MOST_UNKNOWN
    ]
    if not large:
        return
    words = " and ".join(f"the {name} of {100 * share:.1f} %" for name, share, _ in large)
    chosen = np.logical_or.reduce([rows for *_, rows in large])
    order = np.argsort(-np.where(chosen, table.self_ps, -1), kind="stable")[:_UNKNOWN_NAMED].tolist()
    names = ", ".join(_shorten_op_name(table.name[row]) for row in order if chosen[row])
    yield "warning", f"Shares of the peaks are unknown, because {words} of op time is unknown (most of it: {names})."


def remark_on_unknown_products(table: OpTable) -> Iterator[Remark]:
    """Say why the work of PyTorch products is unknown."""
    time = _sum_time_by_reason(table.no_work, table.self_ps)
    if time:
        lines = "\n".join(_list_reasons(time, int(table.self_ps.sum())))
        yield "info", f"The work of some matrix products is unknown. Why:\n{lines}"


def remark_on_excess_work(devices: SessionOps) -> Iterator[Remark]:
    """Name ops whose recorded work exceeds what the device can do. Work of ops that hold others belongs to those."""
    table, beneath = devices.ops.table, list_ceilings(devices.peaks)
    used = np.nan_to_num(measure_efficiency(table, beneath).utilisation)
    used[is_container(table)] = 0.0
    most = used.max(axis=1, initial=0.0)
    over = np.flatnonzero(most > 1)
    if not len(over):
        return
    longest = over[np.argsort(-table.self_ps[over], kind="stable")][:_OPS_NAMED].tolist()
    nearest = used.argmax(axis=1)
    parts = []
    for row in longest:
        multiple = f"{most[row]:,.2f} x" if most[row] < 100 else f"{most[row]:,.0f} x"
        parts.append(f"{_shorten_op_name(table.name[row])} ({multiple} the peak of {beneath[nearest[row]].name})")
    names = ", ".join(parts)
    count = "1 op seems" if len(over) == 1 else f"{len(over):,} ops seem"
    which = "" if len(over) == 1 else ", of most time" if len(over) > len(longest) else ""
    yield (
        "warning",
        f"{count} to have done more than the device can{which}: {names}. The recorded work or the peak is wrong, or "
        f"the work continues after the op ends.",
    )


def _shorten_op_name(name: str) -> str:
    """Return an op's name for a sentence, without its middle if it is long as names of template kernels are."""
    half = _LONGEST_NAME // 2
    return name if len(name) <= _LONGEST_NAME else f"{name[:half]}\u2026{name[-half + 1 :]}"
