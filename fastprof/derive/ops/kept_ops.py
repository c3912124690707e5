"""The ops of a host, or of several hosts that follow each other: what op statistics keep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from fastprof.derive.devices.device_count import HostDevices
from fastprof.derive.ops import tf_functions, torch_calls
from fastprof.derive.ops.combine import combined
from fastprof.derive.ops.device_ops import HostDeviceOps, OpsOfHosts
from fastprof.derive.ops.framework import by_framework_op
from fastprof.derive.ops.ops_by_host import FrameworkTimes, OpsByHost
from fastprof.derive.ops.tables import Ops, OpTable
from fastprof.derive.ops.tf_functions import TfFunction
from fastprof.schema.value_classes import dataclass

_NO_OPS: Final = OpTable.empty()
"""One for all hosts: pickles have it once."""


@dataclass(frozen=True, slots=True)
class OpsOfHost:
    """A host beside its ops: ``threads`` and ``devices`` have only their sums. ``crossing``: as in ``HostOps``."""

    name: str
    threads: Ops
    devices: Ops
    present: HostDevices
    is_training: bool | None
    crossing: int

    def bare(self) -> OpsOfHost:
        """Without ops."""
        threads, devices = (replace(one, table=_NO_OPS, children=None, parent=None) for one in self._sides)
        return replace(self, threads=threads, devices=devices)

    @property
    def _sides(self) -> tuple[Ops, Ops]:
        return self.threads, self.devices


@dataclass(frozen=True, slots=True)
class KeptOps:
    """``by_host``: of each of several hosts the framework ops of its devices, and the ops of its threads. None: these
    are of one host, and here; empty: nobody asks."""

    hosts: tuple[OpsOfHost, ...]
    threads: Ops
    device: HostDeviceOps | OpsOfHosts
    functions: list[TfFunction]
    launched: Mapping[str, torch_calls.Launched] | None
    by_host: tuple[OpsByHost, ...] | None = None

    @classmethod
    def of(cls, parts: Sequence[KeptOps], shared: dict[Any, Any]) -> KeptOps:
        """``shared``: what was made of these hosts before."""
        return cls(
            tuple(host.bare() for one in parts for host in one.hosts),
            combined([one.threads for one in parts], add_cores=False),
            OpsOfHosts.of([one.device for one in parts], shared),
            tf_functions.combined([function for one in parts for function in one.functions]),
            torch_calls.together(one.launched for one in parts),
            _packed(parts),
        )


def _packed(parts: Sequence[KeptOps]) -> tuple[OpsByHost, ...]:
    alone = [one for one in parts if one.by_host is None]
    if len(alone) < len(parts):
        return tuple(some for one in parts for some in one.by_host or ())
    times = FrameworkTimes()
    return (OpsByHost.of(table for one in alone for table in (times.of(one.device.ops.table), one.threads.table)),)


def each_host(parts: Sequence[KeptOps]) -> Iterator[tuple[str, Ops, Ops]]:
    """Of each host its name, the framework ops of its devices and the ops of its threads. None: of merged hosts they
    were not kept."""
    if any(one.by_host == () and len(one.hosts) > 1 for one in parts):
        return
    for part in parts:
        if len(part.hosts) == 1:
            device = part.device.ops
            yield part.hosts[0].name, replace(device, table=by_framework_op(device.table)), part.threads
            continue
        tables = (table for some in part.by_host or () for table in some.tables())
        for one, device_table, thread_table in zip(part.hosts, tables, tables, strict=True):
            yield one.name, replace(one.devices, table=device_table), replace(one.threads, table=thread_table)
