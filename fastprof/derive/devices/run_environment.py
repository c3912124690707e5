"""What a session ran on: its hosts, their devices, and what the profiler said while recording."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from fastprof.derive.devices.device_count import HostDevices
from fastprof.derive.devices.devices import device_name
from fastprof.derive.devices.framework import framework_of_host, together
from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from fastprof.tables.host_events import HostEvents

CPU: Final = "CPU"
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
        model = device_name(planes[0]) if planes else CPU
        errors, warnings = tuple(events.capture.errors), tuple(events.capture.warnings)
        framework = framework_of_host(events)
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


def combined(hosts: Sequence[HostEnvironment]) -> RunEnvironment:
    """The environment of a session of these hosts; a coordinator without devices does not count as a CPU."""
    with_devices = [host for host in hosts if host.device_type != CPU]
    ranked = max((HARDWARE.index(host.hardware) for host in hosts), default=0)
    return RunEnvironment(
        len({host.hostname for host in hosts}),
        len(hosts),
        HARDWARE[ranked],
        with_devices[-1].device_type if with_devices else CPU,
        sum(host.device_count for host in with_devices),
        together(host.framework for host in hosts),
        tuple(sorted(error for host in hosts for error in set(host.errors))),
        tuple(warning for host in hosts for warning in dict.fromkeys(host.warnings)),
    )
