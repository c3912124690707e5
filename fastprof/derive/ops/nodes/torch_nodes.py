"""The ops of PyTorch as nodes: what each took on the host, and the kernels that it launched itself.

Kernels whose op is known by name only, because no call of it is recorded, are a node of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from fastprof.derive.ops.ceilings import against, ceilings
from fastprof.derive.ops.framework import framework_name
from fastprof.derive.ops.gpu import op_events
from fastprof.derive.ops.gpu_ops import op_lines
from fastprof.derive.ops.line_times import line_times
from fastprof.derive.ops.nodes.host_nodes import HostNodes, Stack
from fastprof.derive.ops.tables import DURATIONS, OpTable, sums_by
from fastprof.derive.ops.torch_calls import OpsAround
from fastprof.derive.ops.torch_products import with_work_of_calls
from fastprof.derive.ops.tree.scope_trees import UNSCOPED
from fastprof.schema.array_types import Bools, Float64s, Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HOST_THREADS

if TYPE_CHECKING:
    from fastprof.derive.devices.devices import Peaks
    from fastprof.derive.ops.device_ops import OpHost

Keyed = tuple[tuple[str, str, Stack], dict[str, Any]]
"""Name, program and stack of a node, and its fields."""


def nodes(host: OpHost, called: HostNodes, peaks: Peaks | None) -> Iterator[Keyed]:
    """``called``: the ops of the host. CaptureError: times do not add up in 64 bits."""
    kernels = _Kernels(host, called)
    work = _Work.of(kernels.table, peaks)
    for place, one in enumerate(called.each):
        devices = {HOST_THREADS, *kernels.devices[place]}
        fields = {
            "type": one.name, "types": {one.name, one.type, *devices, *kernels.categories[place]}, "devices": devices,
            "cpu_ps": one.self_ps, "accelerator_ps": int(kernels.table.self_ps[place]), "calls": one.calls,
            "flops": work.flops[place], "bytes": work.bytes[place], "bound_by": work.bound_by[place],
            "stack": one.stack,
        }  # fmt: skip
        yield ("/".join((*one.modules, one.name)), "", one.stack), fields
    yield from kernels.others()


class _Kernels:
    """What GPUs ran, by node of the ops that launched it: ``table``, categories and devices."""

    def __init__(self, host: OpHost, called: HostNodes) -> None:
        events, count = host.events, len(called.each)
        self.categories: list[set[str]] = [set() for _ in range(count)]
        self.devices: list[set[str]] = [set() for _ in range(count)]
        self._others: dict[int, dict[str, Any]] = {}
        gpus = events.planes_of("GPU")
        found = op_events(events, host.modules) if gpus else None
        around = OpsAround(events)
        self._ops = found.ops if found is not None else []
        rows, nodes, own, whole = ([np.zeros(0, np.int64)] for _ in range(4))
        for plane in gpus:
            assert found is not None
            times = line_times(events, op_lines(plane))
            op = around.launching(times.rows.astype(np.int64))
            node = np.where(op >= 0, called.of_row[op], -1)
            kind = found.op[times.rows].astype(np.int64)
            self._note(plane.name, node, kind)
            self._rest(plane.name, kind[node < 0], times.self_ps[node < 0])
            known = node >= 0
            for parts, values in ((rows, times.rows), (nodes, node), (own, times.self_ps), (whole, times.duration_ps)):
                parts.append(values[known].astype(np.int64))
        every = np.concatenate(nodes)
        table = OpTable.of(
            [one.name for one in called.each],
            category=[one.name for one in called.each],
            self_ps=sums_by(every, np.concatenate(own), count, DURATIONS),
            time_ps=sums_by(every, np.concatenate(whole), count, DURATIONS),
        )
        self.table = (
            table
            if found is None
            else (with_work_of_calls(table, events, found, np.concatenate(rows), every.astype(np.int32)))
        )

    def _note(self, device: str, node: Int64s, kind: Int64s) -> None:
        for place, number in np.unique(np.stack([node, kind])[:, node >= 0], axis=1).T.tolist():
            self.devices[place].add(device)
            self.categories[place].add(self._ops[number].category)

    def _rest(self, device: str, kind: Int64s, self_ps: Int64s) -> None:
        numbers, place = np.unique(kind, return_inverse=True)
        counts = np.bincount(place.reshape(-1), minlength=len(numbers)).tolist()
        sums = sums_by(place.reshape(-1), self_ps, len(numbers), DURATIONS).tolist()
        for number, count, time in zip(numbers.tolist(), counts, sums, strict=True):
            one = self._others.setdefault(number, {"accelerator_ps": 0, "device_runs": 0, "devices": set()})
            one["accelerator_ps"] += time
            one["device_runs"] += count
            one["devices"].add(device)

    def others(self) -> Iterator[Keyed]:
        """What no recorded op launched, by the name of its op, else by its own."""
        for number, fields in self._others.items():
            op = self._ops[number]
            kind = framework_name(op.provenance) or op.category
            types = {kind, op.category, *fields["devices"]}
            name = framework_name(op.provenance) or f"{UNSCOPED}/{op.name}"
            yield (name, "", ()), {**fields, "type": kind, "types": types}


@dataclass(frozen=True, slots=True)
class _Work:
    """Operations, bytes and bound of each node; None: unknown."""

    flops: list[int | None]
    bytes: list[int | None]
    bound_by: list[str | None]

    @classmethod
    def of(cls, table: OpTable, peaks: Peaks | None) -> _Work:
        has_bytes = table.bytes_source > 0
        bounds = against(table, ceilings(peaks)).bound_by
        return cls(
            _integers(table.flops, table.flops_source > 0),
            _integers(table.bytes_accessed, has_bytes),
            [bound if there else None for bound, there in zip(bounds, has_bytes.tolist(), strict=True)],
        )


def _integers(values: Float64s, known: Bools) -> list[int | None]:
    return [round(value) if there else None for value, there in zip(values.tolist(), known.tolist(), strict=True)]
