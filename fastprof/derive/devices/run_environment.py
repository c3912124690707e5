"""Environment of a session: hosts, their devices and the device count, tracer levels, and profiler messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from fastprof.decode.plane_kinds import find_device_of_plane
from fastprof.decode.span_stats import TASK_ENVIRONMENT
from fastprof.derive.devices.device_peaks import describe_device
from fastprof.derive.devices.op_names import choose_framework, find_host_framework
from fastprof.errors import CaptureError
from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from fastprof.tables.host_events import HostEvents


CPU: Final = "CPU"
"""The name of the device that the threads of a host without devices are, and its kind."""
IN_WORDS: Final = (
    "devices of the capture, whether they ran anything or not: TensorCores of TPUs, or GPUs; if no host has either, "
    "the threads of a host are one device, CPU"
)
"""The definition of the figure."""


@dataclass(frozen=True, slots=True)
class HostDevices:
    """``kind``: TPU, GPU or CPU; ``count``: those that the capture lists."""

    kind: str
    count: int

    @classmethod
    def of(cls, events: HostEvents) -> HostDevices:
        """Count planes of the capture, chosen or not."""
        kinds = [find_device_of_plane(name)[0] for name in events.plane_names]
        for kind in ("TPU", "GPU"):
            if kind in kinds:
                return cls(kind, kinds.count(kind))
        return cls(CPU, int(CPU in kinds))

    @property
    def is_cpu(self) -> bool:
        return self.kind == CPU


NO_DEVICES: Final = HostDevices(CPU, 0)


def count_by_host(hosts: Sequence[HostDevices]) -> list[int]:
    """Return how many devices each host of a session adds to it."""
    only_cpus = all(host.is_cpu for host in hosts)
    return [host.count if only_cpus or not host.is_cpu else 0 for host in hosts]


def count_devices(hosts: Sequence[HostDevices]) -> int:
    return sum(count_by_host(hosts))


STAT: Final = "profile_options"
_HOST, _PYTHON = 2, 4
ALL_OF_HOST: Final = 2
"""The level of the host tracer from which threads are recorded with all that explains a device's idle time."""


@dataclass(frozen=True, slots=True)
class TracerLevels:
    """``host``: 0 off, 1 annotations of users, 2 also expensive ops, 3 also cheap ones; ``python``: 0 off, 1 on."""

    host: int
    python: int

    @property
    def has_all(self) -> bool:
        """Return whether nothing more can be asked for."""
        return self.host >= ALL_OF_HOST and self.python > 0


def read_tracer_levels(events: HostEvents) -> TracerLevels | None:
    """Return the tracer levels of a host, or None if they are not recorded, or damaged."""
    plane = events.plane_named(TASK_ENVIRONMENT)
    data = plane.stats.get(STAT) if plane is not None else None
    if not isinstance(data, bytes):
        return None
    from fastprof._native.messages import read_message  # late: few captures have the stat

    try:
        fields = read_message(memoryview(data), "reading levels of tracers") if data else {}
    except CaptureError:
        return None
    host, python = (fields.get(number, [0])[-1] for number in (_HOST, _PYTHON))
    return TracerLevels(host, python) if isinstance(host, int) and isinstance(python, int) else None


def find_least_levels(levels: Iterable[TracerLevels | None]) -> TracerLevels | None:
    """Return the least levels over all hosts, or None if those of any host are unknown."""
    every = list(levels)
    known = [levels for levels in every if levels is not None]
    if not known or len(known) < len(every):
        return None
    return TracerLevels(min(levels.host for levels in known), min(levels.python for levels in known))


CPU_TYPE: Final = "CPU"
"""The device type of a host without devices."""

HARDWARE: Final = ("UNKNOWN_HARDWARE", "CPU_ONLY", "GPU", "TPU")
"""Kinds of hardware, the one that decides for a session last."""


@dataclass(frozen=True, slots=True)
class HostEnvironment:
    """One capture of the session."""

    host: str  # as the capture's file is named
    hostname: str  # as the capture calls it, else localhost
    hardware: str  # one of HARDWARE
    device_type: str  # model of GPU or TPU, or CPU
    device_count: int  # GPUs, or TensorCores of TPUs; 0 on a CPU, as XProf has it
    framework: str  # one of framework.FRAMEWORKS
    errors: tuple[str, ...]
    warnings: tuple[str, ...]
    devices: HostDevices

    @classmethod
    def of(cls, events: HostEvents, hostname: str, hardware: str) -> HostEnvironment:
        planes = events.planes_of(hardware)
        model = describe_device(planes[0]) if planes else CPU_TYPE
        errors, warnings = tuple(events.capture.errors), tuple(events.capture.warnings)
        framework = find_host_framework(events)
        devices = HostDevices.of(events)
        return cls(events.host, hostname, hardware, model, len(planes), framework, errors, warnings, devices)


@dataclass(frozen=True, slots=True)
class RunEnvironment:
    """All captures of the session together. The type of device is the last one named; devices add up."""

    host_count: int  # hosts of different names
    task_count: int  # captures
    hardware: str
    device_type: str
    device_count: int  # as XProf has it
    framework: str
    errors: tuple[str, ...]  # each once a host, in order
    warnings: tuple[str, ...]  # each once a host, in order of hosts


def merge_environments(hosts: Sequence[HostEnvironment]) -> RunEnvironment:
    """Return the environment of a session of these hosts; a coordinator without devices does not count as a CPU."""
    with_devices = [host for host in hosts if host.device_type != CPU_TYPE]
    ranked = max((HARDWARE.index(host.hardware) for host in hosts), default=0)
    return RunEnvironment(
        len({host.hostname for host in hosts}),
        len(hosts),
        HARDWARE[ranked],
        with_devices[-1].device_type if with_devices else CPU_TYPE,
        sum(host.device_count for host in with_devices),
        choose_framework(host.framework for host in hosts),
        tuple(sorted(error for host in hosts for error in set(host.errors))),
        tuple(warning for host in hosts for warning in dict.fromkeys(host.warnings)),
    )
