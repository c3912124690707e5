"""Where time goes by op, on the host and on devices, most expensive first.

Ops of host threads are what the names of their events tell (fastprof.derive.ops.host_ops), ops of devices the compiled
instructions that ran, by themselves and by the framework op that they come from. Formulas: docs/analyses/op-stats.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from fastprof.analyses.contract import Needs, Notice, Report, ScalarSpec, Section, Value, has_rows, scalars, union
from fastprof.derive.devices.devices import Peaks
from fastprof.derive.host import Host
from fastprof.derive.ops import device_ops, tf_functions
from fastprof.derive.ops import host_ops as host
from fastprof.derive.ops.combine import combined
from fastprof.derive.ops.device_ops import CPU_ONLY, HostDeviceOps, SessionOps
from fastprof.derive.ops.framework import by_framework_op, framework_name, is_training, names_without_work, without_work
from fastprof.derive.ops.hlo_columns import columns_of_tpus, energy, min_ps
from fastprof.derive.ops.op_columns import Columns, no_work, texts, time_columns, work_columns
from fastprof.derive.ops.op_remarks import attribution, of_programs
from fastprof.derive.ops.ranking import Ranked, ranked
from fastprof.derive.ops.schemas import TABLES
from fastprof.derive.ops.tables import Ops, OpTable
from fastprof.derive.ops.tf_functions import TfFunction

NAME = "op_stats"
READS = union([
    Host.GROUPING,
    device_ops.READS,
    Needs(stats=(*host.EVENT_STATS, *tf_functions.EVENT_STATS)),
])  # fmt: skip
AFTER = ("kernel_stats",)

DEVICE, HOST = "Device", "Host"


@dataclass(frozen=True, slots=True)
class Params:
    """There are none."""


SCALARS = {
    "device_total_ps": ScalarSpec("ps", "time observed on devices: of each its ops' or its span, the longer, summed"),
    "device_op_ps": ScalarSpec("ps", "self time of device ops"),
    "device_overlapped_ps": ScalarSpec("ps", "of device_op_ps what ran at once with other ops of the same device"),
    "device_idle_ps": ScalarSpec("ps", "device_total_ps less time in which any op ran on the device"),
    "host_total_ps": ScalarSpec("ps", "time observed on threads: of each its ops' or their span, the longer, summed"),
    "host_op_ps": ScalarSpec("ps", "self time of host ops"),
    "host_idle_ps": ScalarSpec("ps", "host_total_ps less host_op_ps"),
    "infeed_enqueue_ps": ScalarSpec("ps", "durations of infeed enqueues on host threads, the last of each left out"),
    "infeed_enqueue_start_diff_ps": ScalarSpec("ps", "from the first to the last start of infeed enqueues, by thread"),
    "is_training": ScalarSpec(None, "whether programs hold ops of backpropagation"),
}
_SHOWN = ("occurrences", "total_ps", "self_ps", "self_share")
SECTIONS = (
    Section("Time", scalars=("device_total_ps", "device_op_ps", "device_idle_ps", "host_total_ps", "host_op_ps",
            "host_idle_ps")),
    Section("Device ops (summed over devices)", "device_ops", ("name", "program", "framework_op", "occurrences",
            "self_ps", "self_share"), "self_share", 20, shown=has_rows("device_ops")),
    Section("Host ops (summed over threads)", "host_ops", ("name", "type", *_SHOWN), "self_share", 20),
    Section("Hosts", "hosts", ("host", "device_op_ps", "device_op_share", "host_op_ps", "host_op_share")),
    Section("tf.functions", "tf_functions", ("name", "mode", "calls", "self_ps", "compiler", "tracing_count"),
            shown=has_rows("tf_functions")),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class HostOpStats:
    """What is kept of one host."""

    name: str
    host: host.HostOps
    device: HostDeviceOps
    functions: list[TfFunction]
    is_training: bool | None


@dataclass(frozen=True, slots=True)
class OpDatabase:
    """Ops of the session. ``framework``: device ops by framework op, without idle time."""

    host: Ops
    devices: SessionOps
    framework: OpTable
    functions: list[TfFunction]
    is_training_by_host: list[bool | None]
    hosts: list[HostOpStats]

    @property
    def device(self) -> Ops:
        return self.devices.ops

    @property
    def peaks(self) -> Peaks | None:
        return self.devices.peaks

    @property
    def is_training(self) -> bool | None:
        """Of the last host, as XProf has it."""
        return self.is_training_by_host[-1] if self.is_training_by_host else None


def of_host(given: Host, _params: Params) -> HostOpStats:
    ops = list(given.modules.metadata_ops())
    return HostOpStats(
        given.name,
        host.host_ops(given.events, given.is_eager, given.workers),
        _devices(given),
        tf_functions.tf_functions(given.events, given.workers),
        is_training(ops) if ops else None,
    )


def _devices(given: Host) -> HostDeviceOps:
    """Programs that XLA compiled for the CPU run on threads: here these are ops of the host."""
    found = given.device_ops
    return replace(found, ops=Ops.none(), by_device=()) if found.hardware == CPU_ONLY else found


def run(kept: Sequence[HostOpStats], _params: Params, after: Mapping[str, Report]) -> Report:
    found = _session(kept)
    tensor_cores = _tensor_core_shares(after.get("kernel_stats"))
    side = {DEVICE: ranked(_by_framework(found.device, found.framework)), HOST: ranked(found.host)}
    tables = {
        "ops": _ops_table(side, found.peaks, tensor_cores, names_without_work(found.device.table)),
        "device_ops": _device_table(found),
        "sparse_core_ops": _sparse_core_table(found.device),
        "host_ops": _host_table(side[HOST]),
        "hosts": _hosts_table(kept),
        "ops_by_host": _by_host_table(kept, found, side),
        "tf_functions": _functions_table(found.functions),
    }
    return Report(NAME, tables, scalars(SCALARS, _figures(found)), tuple(_notices(found)), after, found)


def _session(kept: Sequence[HostOpStats]) -> OpDatabase:
    """All hosts together."""
    devices = SessionOps.of([one.device for one in kept])
    return OpDatabase(
        combined([one.host.ops for one in kept], add_cores=False),
        devices,
        by_framework_op(devices.ops.table),
        tf_functions.combined([function for one in kept for function in one.functions]),
        [one.is_training for one in kept],
        list(kept),
    )


def _by_framework(device: Ops, framework: OpTable) -> Ops:
    return replace(device, table=framework, children=None, parent=None)


def _tensor_core_shares(kernels: Report | None) -> dict[str, float]:
    """By framework op: the share of the time of its GPU kernels that used Tensor Cores."""
    if kernels is None:
        return {}
    table = kernels.tables["ops"]
    columns = [table[name].to_pylist() for name in ("op_name", "total_ps", "tensor_core_ps")]
    rows = zip(*columns, strict=True)
    return {name: tensor / total for name, total, tensor in rows if name and total > 0 and tensor is not None}


def _figures(found: OpDatabase) -> dict[str, Value | tuple[None, str]]:
    values: dict[str, Value | tuple[None, str]] = {}
    for side, ops, why in (
        ("device", found.device, "the capture has no planes of devices"),
        ("host", found.host, "the capture has no threads of hosts (plane /host:CPU)"),
    ):
        for name in ("total_ps", "op_ps", "idle_ps"):
            values[f"{side}_{name}"] = getattr(ops, name) if ops.parts else (None, why)
    values["device_overlapped_ps"] = found.device.overlapped_ps
    for name in ("infeed_enqueue_ps", "infeed_enqueue_start_diff_ps"):
        values[name] = getattr(found.host, name) if found.host.parts else (None, "the capture has no threads of hosts")
    trained = [one for one in found.is_training_by_host if one is not None]
    values["is_training"] = any(trained) if trained else (None, "the capture carries no programs")
    return values


def _notices(found: OpDatabase) -> Iterator[Notice]:
    if not len(found.host.table) and not len(found.device.table):
        yield Notice("warning", f"No ops: {_why_none(found)}.")
    for severity, text in (*attribution(found.device.table), *of_programs(found.devices)):
        yield Notice(severity, text)
    crossing = sum(one.host.crossing for one in found.hosts)
    if crossing:
        yield Notice(
            "info",
            f"{crossing:,} occurrences of host ops cross another op of their thread, or end together with it. They are "
            "counted here; XProf leaves them out.",
        )
    for reason in found.peaks.reasons if found.peaks else ():
        yield Notice("info", f"What ops are bound by may be unknown: {reason}.")


def _why_none(found: OpDatabase) -> str:
    if not found.hosts:
        return "no host is selected"
    if not found.host.parts and not found.device.parts:
        return "the capture has neither threads of a host (plane /host:CPU) nor planes of devices"
    return (
        "no event of threads is named as an op of TensorFlow, tf.data or JAX, and none, there or on devices, has a "
        "stat hlo_op or tf_op that tells its op"
    )


# ---- tables


def _table(name: str, columns: Columns) -> pa.Table:
    return pa.table(columns, schema=TABLES[name].arrow())


def _ops_table(
    side: Mapping[str, Ranked], best: Peaks | None, tensor_cores: Mapping[str, float], vague: Collection[str]
) -> pa.Table:
    """``vague``: framework ops whose work is not known."""
    parts = []
    for name, ops in side.items():
        columns = time_columns(ops) | {
            "host_or_device": [name] * len(ops),
            "type": ops.table.category,
            "name": ops.table.name,
            "is_eager": ops.table.is_eager,
        }
        if name == DEVICE:
            shares = [tensor_cores.get(op) for op in ops.table.name]
            no_work_known = np.array([op in vague for op in ops.table.name], bool)
            columns |= work_columns(ops, best, no_work_known) | {"tensor_core_share": shares}
        else:
            columns |= no_work(len(ops)) | {"tensor_core_share": pa.nulls(len(ops), pa.float64())}
        parts.append(_table("ops", columns))
    return pa.concat_tables(parts).unify_dictionaries().combine_chunks()


def _device_table(found: OpDatabase) -> pa.Table:
    ops = ranked(found.device)
    table = ops.table
    columns = {
        "program_id": table.program_id,
        "program": [
            None if is_idle else found.devices.title(number)
            for number, is_idle in zip(table.program_id.tolist(), ops.is_idle.tolist(), strict=True)
        ],
        "category": table.category,
        "name": table.name,
        "framework_op": [framework_name(text) for text in table.provenance],
        "min_ps": min_ps(table),
        **columns_of_tpus(table),
        "hbm_bytes": table.hbm_bytes(),
        "energy_joules": energy(table),
        "cores": table.cores.astype(np.int64),
        "source": [
            None if not file else f"{file}:{line}" if line >= 0 else file
            for file, line in zip(table.source_file, table.source_line.tolist(), strict=True)
        ],
        "long_name": texts(table.long_name),
        "is_eager": table.is_eager,
    }
    return _table("device_ops", time_columns(ops) | work_columns(ops, found.peaks, without_work(table)) | columns)


def _sparse_core_table(device: Ops) -> pa.Table:
    children = OpTable.empty() if device.children is None else device.children
    parent = np.empty(0, np.int32) if device.parent is None else device.parent
    order = np.lexsort((parent, -children.time_ps)).astype(np.int64)
    children, parent = children.take(order), parent[order]
    columns = {
        "parent": [device.table.name[row] for row in parent.tolist()],
        "program_id": children.program_id,
        "category": children.category,
        "name": children.name,
        "occurrences": children.occurrences,
        "total_ps": children.time_ps,
        "self_ps": children.self_ps,
    }
    return _table("sparse_core_ops", columns)


def _host_table(ops: Ranked) -> pa.Table:
    table = ops.table
    columns = {
        "stage_id": pa.array(table.program_id, mask=table.program_id == 0),
        "type": table.category,
        "name": table.name,
        "min_ps": table.min_ps,
        "is_eager": table.is_eager,
    }
    return _table("host_ops", time_columns(ops) | columns)


def _hosts_table(kept: Sequence[HostOpStats]) -> pa.Table:
    columns: Columns = {
        "host": [one.name for one in kept],
        "thread_count": [one.host.ops.parts for one in kept],
        "device_count": [one.device.ops.parts for one in kept],
        "infeed_enqueue_ps": [one.host.ops.infeed_enqueue_ps for one in kept],
        "is_training": [one.is_training for one in kept],
    }
    for side, all_ops in (("host", [one.host.ops for one in kept]), ("device", [one.device.ops for one in kept])):
        columns |= {f"{side}_{name}": [getattr(ops, name) for ops in all_ops] for name in ("total_ps", "op_ps")}
        columns[f"{side}_op_share"] = [ops.op_ps / ops.total_ps if ops.total_ps > 0 else None for ops in all_ops]
    return _table("hosts", columns)


def _by_host_table(kept: Sequence[HostOpStats], found: OpDatabase, side: Mapping[str, Ranked]) -> pa.Table:
    parts = [_table("ops_by_host", {name: [] for name in TABLES["ops_by_host"].names()})]
    for one in kept:
        device, threads = one.device.ops, one.host.ops
        is_all = {DEVICE: device is found.device, HOST: threads is found.host}  # of the only host that has any
        of_host = {
            DEVICE: side[DEVICE] if is_all[DEVICE] else ranked(_by_framework(device, by_framework_op(device.table))),
            HOST: side[HOST] if is_all[HOST] else ranked(threads),
        }
        for name, ops in of_host.items():
            columns = {
                "host": [one.name] * len(ops),
                "host_or_device": [name] * len(ops),
                "type": ops.table.category,
                "name": ops.table.name,
            }
            parts.append(_table("ops_by_host", time_columns(ops) | columns))
    return pa.concat_tables(parts).unify_dictionaries().combine_chunks()


def _functions_table(functions: Iterable[TfFunction]) -> pa.Table:
    rows = [(one, mode) for one in functions for mode in one.count]
    columns = {
        "name": [one.name for one, _ in rows],
        "mode": [mode for _, mode in rows],
        "calls": [one.count[mode] for one, mode in rows],
        "self_ps": [one.self_ps[mode] for one, mode in rows],
        "compiler": [one.compiler or None for one, _ in rows],
        "tracing_count": [one.tracings for one, _ in rows],
        "expensive_percent": [one.expensive_percent for one, _ in rows],
    }
    return _table("tf_functions", columns)
