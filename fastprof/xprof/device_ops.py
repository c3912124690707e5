"""The ops of devices as XProf counts them, and as it adds them up: over cores, devices and hosts, and by framework op.

XProf counts no ops of compiled programs on threads of the host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fastprof.analyses.contract import Keeper, Report, union
from fastprof.derive.devices.op_names import parse
from fastprof.derive.host import GPU, TPU, Host
from fastprof.derive.ops import combine, device_ops, framework
from fastprof.derive.ops.combine import is_distinct, keyed_rows, merged_memory
from fastprof.derive.ops.tables import Ops, OpTable
from fastprof.xprof import tpu_ops

if TYPE_CHECKING:
    from fastprof.derive.devices.devices import Peaks
    from fastprof.derive.ops.device_ops import SessionOps

_NAME: Final = "device ops"


def _of_host(host: Host, _params: Mapping[str, Any]) -> Ops:
    if host.raw.planes_of(TPU):
        ops = tpu_ops.device_ops(host)
    elif host.raw.planes_of(GPU):
        from fastprof.xprof import gpu_ops  # it takes long to import

        ops = gpu_ops.device_ops(host.events, host.groups, host.modules)
    else:
        ops = []
    return combined(ops) if ops else Ops.none()


KEEPS: Final = {_NAME: Keeper(union([Host.GROUPING, device_ops.READS]), _of_host)}


def of_session(report: Report) -> Ops:
    """The ops of all devices."""
    found: Sequence[Ops] = report.kept[_NAME]
    return combined(found)


def peaks_of(session: SessionOps) -> Peaks | None:
    """Arithmetic of the last host that records it, bandwidths of the first host that has devices, known or not."""
    recorded = [host.peaks for host in session.hosts if host.peaks is not None]
    computing = [one for one in recorded if one.teraflops_per_s > 0] or recorded
    return replace(computing[-1], bandwidths_gb_per_s=recorded[0].bandwidths_gb_per_s) if recorded else None


# ---- sums


def combined(parts: Sequence[Ops]) -> Ops:
    """The ops of all parts. What some parts record of where an op's bytes went is all that is known of it, and of its
    children those count that the first part with any has."""
    parts = [part for part in parts if part.parts]
    if len(parts) == 1 and is_distinct(parts[0].table):
        return parts[0]
    tables = [part.table for part in parts]
    memory = merged_memory(tables, keyed_rows(tables)[0], others_to_hbm=False)
    found = combine.combined(_with_first_children(parts))
    return replace(found, table=replace(found.table, memory=memory))


def _with_first_children(parts: Sequence[Ops]) -> list[Ops]:
    seen: set[tuple[int, str]] = set()
    found = []
    for part in parts:
        if part.children is not None and part.parent is not None:
            parents = [(int(part.table.program_id[row]), part.table.name[row]) for row in part.parent.tolist()]
            rows = np.array([row for row, parent in enumerate(parents) if parent not in seen], np.int64)
            seen.update(parents)
            part = replace(part, children=part.children.take(rows), parent=part.parent[rows])
        found.append(part)
    return found


def by_framework_op(table: OpTable) -> OpTable:
    """A row for each framework op, which ran as often as the most frequent of its device ops. Without a type, it is
    Unknown."""
    found = framework.by_framework_op(table, [framework.UNKNOWN] * len(table))
    place = {name: row for row, name in enumerate(found.name)}
    most = np.zeros(len(found), np.int64)
    np.maximum.at(most, [place[name] for name in _names(table)], table.occurrences)
    return replace(found, occurrences=most)


def last_is_eager(table: OpTable) -> dict[str, bool]:
    """By framework op: whether the last of its device ops is eager."""
    return dict(zip(_names(table), table.is_eager.tolist(), strict=True))


def _names(table: OpTable) -> list[str]:
    """The framework op of each device op; one without provenance stands for itself."""
    return [
        parse(provenance).name if provenance else name
        for name, provenance in zip(table.name, table.provenance, strict=True)
    ]
