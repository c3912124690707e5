"""How many devices a host and a session have: the rule of the figure device_count, in every analysis.

Devices are the TensorCores of TPUs; if a host has none, its GPUs; if it has neither, its threads are one device, CPU.
The threads of hosts count only if no host of the session has TPUs or GPUs: a coordinator beside these does not count.
SparseCores belong to the chips of TensorCores and are not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from fastprof.decode.plane_kinds import device_of
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
        """Counts planes of the capture, chosen or not."""
        kinds = [device_of(name)[0] for name in events.plane_names]
        for kind in ("TPU", "GPU"):
            if kind in kinds:
                return cls(kind, kinds.count(kind))
        return cls(CPU, int(CPU in kinds))

    @property
    def is_cpu(self) -> bool:
        return self.kind == CPU


NO_DEVICES: Final = HostDevices(CPU, 0)


def counts(hosts: Sequence[HostDevices]) -> list[int]:
    """How many devices each host of a session adds to it."""
    only_cpus = all(host.is_cpu for host in hosts)
    return [host.count if only_cpus or not host.is_cpu else 0 for host in hosts]


def device_count(hosts: Sequence[HostDevices]) -> int:
    return sum(counts(hosts))
