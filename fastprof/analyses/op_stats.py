"""Time by op, on hosts and devices, most expensive first.

Host thread ops are read from event names (fastprof.derive.ops.host_ops); device ops are the compiled instructions that
ran, individually and by framework op. Formulas: docs/analyses/op-stats.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from operator import attrgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa

from fastprof.analyses.contract import (
    Alike,
    AnalysisReport,
    Known,
    LazyTables,
    Notice,
    Opening,
    ScalarSpec,
    Section,
    has_rows,
    make_scalars,
)
from fastprof.analyses.parameters import DEVICE_NAME, PEAKS, get_chosen_peaks
from fastprof.derive.devices import run_environment
from fastprof.derive.devices.device_events import NothingRan
from fastprof.derive.devices.device_peaks import HBM, Peaks
from fastprof.derive.host import Host
from fastprof.derive.ops import device_ops, host_op_stats, host_ops, torch_calls
from fastprof.derive.ops import op_columns as op
from fastprof.derive.ops.device_ops import (
    CPU_ONLY,
    SessionOps,
    remark_on_attribution,
    remark_on_programs,
)
from fastprof.derive.ops.host_op_stats import HostOpStats, HostOpTotals, TfFunction, iterate_host_ops
from fastprof.derive.ops.op_columns import (
    OpRows,
    find_ops_without_work,
    group_by_framework_op,
    is_training,
    list_names_without_work,
    mask_unknown,
)
from fastprof.derive.ops.op_table import FROM_SHAPES, Ops, OpTable, RankedOps, merge_ops, rank_by_cost, rank_with_idle
from fastprof.derive.ops.roofline_model import UNKNOWN, compute_rates, get_known_flops
from fastprof.schema.columns import Bools
from fastprof.schema.tables import Count, Flag, Formula, Need, Number, Picoseconds, Share, TableSchema, Text, resting_on
from fastprof.schema.value_classes import dataclass
from fastprof.tables.needs import Needs, unite_needs

NAME = "op_stats"
READS = unite_needs([
    Host.GROUPING,
    device_ops.READS,
    Needs(stats=(*host_ops.EVENT_STATS, *host_op_stats.EVENT_STATS)),
])  # fmt: skip
AFTER = ("kernel_stats",)

DEVICE, HOST = "Device", "Host"


@dataclass(frozen=True, slots=True)
class Params:
    device: str | None = field(default=None, metadata=DEVICE_NAME)
    peak: str | None = field(default=None, metadata=PEAKS)


# ---- columns of the tables


def _make_row_formula(name: str) -> Formula:
    """Return the formula of an attribute of each row."""
    of = attrgetter(name)
    return lambda rows: [of(row) for row in rows]


def _make_share_formula(side: str) -> Formula:
    of = attrgetter(side)
    return lambda rows: [of(row).busy_ps / of(row).total_ps if of(row).total_ps > 0 else None for row in rows]


def _make_rate_formula(name: str, unknown: str = "unknown") -> Formula:
    """Return the formula of a rate, in units a second; null if the work is unknown or the op took no time."""
    of, lacks = attrgetter(f"rates.{name}"), attrgetter(unknown)
    return lambda rows: mask_unknown(np.where(lacks(rows) | (rows.table.time_ps == 0), np.nan, of(rows) * 1e9))


def _list_bounds(rows: Any) -> list[str | None]:
    pairs = zip(rows.rates.bound_by, rows.no_flops.tolist(), strict=True)
    return [None if unknown or bound == UNKNOWN else bound for bound, unknown in pairs]


def _make_launch_formula(name: str) -> Formula:
    """Return the formula of a time that PyTorch ops launched."""

    def of(rows: Any) -> list[int | None]:
        if not rows.launched:
            return [None] * len(rows.table)
        times = [getattr(rows.launched.get(op, torch_calls.NOTHING), name) for op in rows.table.name]
        return [None if idle else time for time, idle in zip(times, rows.ranked.is_idle.tolist(), strict=True)]

    return of


_NO_DEVICE_OP = NothingRan("no op of a device is recorded")
_NO_HOST_OP = "no host thread op is recorded"
_NO_GPU = "null: the row is idle time, the ops are not PyTorch's, or no GPU work that they launched is recorded"

_RANK = Count("rank", "place by self_ps among the ops of the same side (Device or Host), from 1", op.number_rows)
_SIDE = Text("host_or_device", "side on which the op ran: Device or Host; shares are of the time of this side",
             lambda rows: [rows.side] * len(rows.table))  # fmt: skip
_TIMES = (
    *op.COUNTS,
    *op.SELF_TIMES,
    Share("cumulative_busy_share", "sum of busy_share of this row and all rows above; null: busy_share is null",
          lambda rows: mask_unknown(rows.ranked.cumulative_busy_share)),
)  # fmt: skip
_NO_WORK = "null: the op ran on a host, or is a call of a library or an op of PyTorch whose work is unknown"
_NO_FLOPS = f"{_NO_WORK}, or the trace leaves its flops out"
_WORK = (
    op.Flops("flops", f"floating point operations that the device did; {_NO_FLOPS}", attrgetter("table.flops"),
             attrgetter("no_flops")),
    op.Flops("model_flops", f"floating point operations that the model requires; {_NO_WORK}",
             attrgetter("table.model_flops"), attrgetter("unknown")),
    op.Amount("accessed_bytes", f"bytes read and written; {_NO_WORK}", attrgetter("table.bytes_accessed"),
              attrgetter("no_bytes")),
    op.FlopRate("flops_per_s", f"flops / total_ps; {_NO_FLOPS}, or total_ps is 0",
                _make_rate_formula("gflops", "no_flops")),
    op.FlopRate("model_flops_per_s", f"model_flops / total_ps; {_NO_WORK}, or total_ps is 0",
                _make_rate_formula("model_gflops")),
    op.ByteRate("bytes_per_s", f"accessed_bytes / total_ps; {_NO_WORK}, or total_ps is 0",
                _make_rate_formula("gigabytes", "no_bytes")),
    Number("flops_per_byte", f"flops / accessed_bytes; {_NO_FLOPS}, or no bytes are known",
           lambda rows: mask_unknown(np.where(rows.no_flops | rows.no_bytes | (rows.table.bytes_accessed == 0), np.nan,
                                       rows.rates.intensity))),
    Text("bound_by", "resource that the op used closest to its peak: Compute, HBM, Shm/L1, or a TPU memory and a "
         f"direction; {_NO_FLOPS}, or it did no known work, or the peaks of the device are unknown", _list_bounds),
)  # fmt: skip
_TYPE = Text("type", "op type; IDLE for time without ops; the category, or Unknown, for a device op without a recorded "
             "type", attrgetter("table.category"))  # fmt: skip
_OP_NAME = op.Words("name", "op name, or instruction name if the framework op of a device op is unknown",
                    op.NAME.of)  # fmt: skip
_HOST = Text("host", "host, named after its capture file", lambda rows: [rows.host] * len(rows.table))

TABLES = {
    table.name: table
    for table in (
        TableSchema("ops", "a framework op on devices or hosts, or their idle time (IDLE): devices first, largest self "
                    "time first", (
            _RANK,
            _SIDE,
            _TYPE,
            _OP_NAME,
            *_TIMES,
            *_WORK,
            Share("tensor_core_share", "share of the time of its GPU kernels that ran on Tensor Cores; null: the op "
                  "launched no kernels", lambda rows: [rows.tensor_cores.get(name) for name in rows.table.name]),
            op.IS_EAGER,
        ), derived=True),
        TableSchema("device_ops", "a compiled instruction of a program on devices, largest self time first", (
            _RANK,
            op.PROGRAM_ID,
            Text("program", op.PROGRAM.description, lambda rows: [
                None if is_idle else rows.title(number)
                for number, is_idle in zip(rows.table.program_id.tolist(), rows.ranked.is_idle.tolist(), strict=True)
            ]),
            op.CATEGORY,
            op.NAME,
            op.FRAMEWORK_OP,
            *_TIMES,
            op.MIN,
            *op.ON_TPUS,
            *_WORK,
            op.Amount("hbm_bytes", "bytes to and from HBM; all bytes if the memories of the op are unknown; "
                      "null: accessed_bytes is null",
                      lambda rows: rows.table.hbm_bytes(), attrgetter("no_bytes")),
            op.ENERGY,
            op.CORES,
            op.SOURCE,
            op.Words("long_name", op.EXPRESSION.description, op.EXPRESSION.of),
            op.IS_EAGER,
        ), derived=True),
        op.make_sparse_core_schema(op.PROGRAM_ID, op.CATEGORY, op.NAME, op.OCCURRENCES, op.TOTAL, op.SELF),
        TableSchema("host_ops", "a host thread op, largest self time first", (
            _RANK,
            Count("stage_id", "stage of an input pipeline; null: the op is not a stage", op.PROGRAM_ID.of),
            _TYPE,
            _OP_NAME,
            *_TIMES,
            Picoseconds("min_ps", "duration of the shortest occurrence", op.MIN.of),
            op.IS_EAGER,
            Picoseconds("device_self_ps", f"GPU time of work that the op launched; {_NO_GPU}",
                        _make_launch_formula("own_ps")),
            Picoseconds("device_total_ps", "GPU time of work that the op, or an op that it calls, launched; "
                        f"{_NO_GPU}", _make_launch_formula("total_ps")),
        ), derived=True),
        TableSchema("hosts", "a host", (
            Text("host", _HOST.description, _make_row_formula("name")),
            Count("thread_count", "number of threads in the capture", _make_row_formula("threads.parts")),
            *resting_on(
                Need("host_total_ps", _NO_HOST_OP),
                Picoseconds("host_total_ps", "sum over threads of the span of their ops",
                            _make_row_formula("threads.total_ps")),
                Picoseconds("host_op_ps", "self time of ops on threads", _make_row_formula("threads.op_ps")),
            ),
            Share("host_op_share", "host_op_ps / host_total_ps; null: host_total_ps is 0",
                  _make_share_formula("threads")),
            Count("device_count", "number of its devices, counted as device_count in the overview analysis",
                  lambda rows: run_environment.count_by_host([row.present for row in rows])),
            *resting_on(
                Need("device_total_ps", _NO_DEVICE_OP),
                Picoseconds("device_total_ps", "sum over devices of the span of their ops and steps",
                            _make_row_formula("devices.total_ps")),
                Picoseconds("device_op_ps", "self time of ops on devices", _make_row_formula("devices.op_ps")),
            ),
            Share("device_op_share", "time in which any op ran / device_total_ps; unlike in device_op_ps, time in "
                  "which several ops of a device ran counts once; null: device_total_ps is 0",
                  _make_share_formula("devices")),
            Picoseconds("infeed_enqueue_ps", "infeed enqueue durations, excluding each thread's last enqueue",
                        _make_row_formula("threads.infeed_enqueue_ps")),
            Flag("is_training", "whether programs contain backpropagation ops; null: the capture contains no "
                 "programs", _make_row_formula("is_training")),
        ), derived=True),
        TableSchema("ops_by_host", "a framework op on the devices or threads of one host", (
            _HOST, _RANK, _SIDE, _TYPE, _OP_NAME, *_TIMES,
        ), derived=True),
        TableSchema("tf_functions", "a traced function of the program and an execution mode of its calls", (
            op.Words("name", "function name", lambda rows: [function.name for function, _ in rows]),
            Text("mode", "execution mode of its calls: eager, concrete, traced (for this call), not_traced, or invalid",
                 lambda rows: [mode for _, mode in rows]),
            Count("calls", "number of calls in this mode",
                  lambda rows: [function.count[mode] for function, mode in rows]),
            Picoseconds("self_ps", "time of the calls in this mode, without that of functions called within",
                        lambda rows: [function.self_ps[mode] for function, mode in rows]),
            Text("compiler", "compiler of the function, other, or mixed; null: not recorded",
                 lambda rows: [function.compiler or None for function, _ in rows]),
            Count("tracing_count", "number of times that the function was traced since the program began",
                  lambda rows: [function.tracings for function, _ in rows]),
            op.Percent("expensive_percent", "self time of traced and eager calls / self time of all calls of the "
                       "function", lambda rows: [function.expensive_percent for function, _ in rows]),
        ), derived=True),
    )
}  # fmt: skip
_ON_DEVICES = Need("device_total_ps", _NO_DEVICE_OP)
_ON_HOSTS = Need("host_total_ps", _NO_HOST_OP)
SCALARS = {
    "device_total_ps": ScalarSpec("ps", "observed time, summed over devices: op time or span, whichever is "
                                  "longer", need=_ON_DEVICES),
    "device_op_ps": ScalarSpec("ps", "self time of device ops", need=_ON_DEVICES),
    "device_overlapped_ps": ScalarSpec("ps", "part of device_op_ps that overlapped other ops of the same device",
                                       need=_ON_DEVICES),
    "device_idle_ps": ScalarSpec("ps", "device_total_ps - time in which any op ran on the device", need=_ON_DEVICES),
    "host_total_ps": ScalarSpec("ps", "observed time, summed over threads: op time or span, whichever is "
                                "longer", need=_ON_HOSTS),
    "host_op_ps": ScalarSpec("ps", "self time of host ops", need=_ON_HOSTS),
    "host_idle_ps": ScalarSpec("ps", "host_total_ps - host_op_ps", need=_ON_HOSTS),
    "infeed_enqueue_ps": ScalarSpec("ps", "infeed enqueue durations on host threads, excluding each thread's last "
                                    "enqueue"),
    "infeed_enqueue_start_diff_ps": ScalarSpec("ps", "time from the first to the last start of infeed enqueues, over "
                                               "threads"),
    "is_training": ScalarSpec(None, "whether programs contain backpropagation ops"),
}  # fmt: skip
_SHOWN = ("occurrences", "total_ps", "self_ps", "self_share")
_ON_GPUS = ("device_self_ps", "device_total_ps")


def _has_launches(report: AnalysisReport) -> bool:
    """Return whether launched device times of host ops are known."""
    column = report.tables["host_ops"]["device_total_ps"]
    return bool(column.null_count < len(column))


OPENING = Opening(
    (
        "Ops account for {device_op_ps} of {device_total_ps} of device time.",
        "Ops take {host_op_ps} of the {host_total_ps} of hosts.",
    ),
    (
        "device_op_ps", "device_idle_ps", "device_total_ps", "host_op_ps", "host_idle_ps", "host_total_ps",
    ),
)  # fmt: skip

SECTIONS = (
    Section("Time", scalars=("device_total_ps", "device_op_ps", "device_idle_ps", "host_total_ps", "host_op_ps",
            "host_idle_ps")),
    Section("Device ops (summed over devices)", "device_ops", ("name", "program", "framework_op", "occurrences",
            "self_ps", "self_share"), "self_share", 20, shown=has_rows("device_ops"),
            alike=Alike(("name", "framework_op"), _SHOWN, op.SIMILAR)),
    Section("Host ops (summed over threads)", "host_ops", ("name", "type", *_SHOWN), "self_share", 20,
            alike=Alike(("name",), _SHOWN), shown=lambda report: not _has_launches(report)),
    Section("Host ops (summed over threads), and their device work", "host_ops", ("name", *_SHOWN, *_ON_GPUS),
            "self_share", 20, shown=lambda report: _has_launches(report)),
    Section("Hosts", "hosts", ("host", "device_op_ps", "device_op_share", "host_op_ps", "host_op_share")),
    Section("tf.functions", "tf_functions", ("name", "mode", "calls", "self_ps", "compiler", "tracing_count"),
            shown=has_rows("tf_functions")),
)  # fmt: skip


_AT_ONCE: Final = 64


@dataclass(frozen=True, slots=True)
class OpDatabase:
    """Ops of the session. ``framework`` has device ops by framework op, without idle time."""

    host: Ops
    devices: SessionOps
    framework: OpTable
    functions: list[TfFunction]
    is_training_by_host: list[bool | None]
    hosts: Sequence[HostOpTotals]

    @property
    def device(self) -> Ops:
        return self.devices.ops

    @property
    def peaks(self) -> Peaks | None:
        return self.devices.peaks

    @property
    def is_training(self) -> bool | None:
        """Return whether the last host trains, as XProf has it."""
        return self.is_training_by_host[-1] if self.is_training_by_host else None


def of_host(given: Host, params: Params) -> HostOpStats:
    ops = list(given.modules.metadata_ops())
    threads = host_ops.sum_host_ops(given.events, given.is_eager, given.workers)
    device = replace(given.device_ops, by_device=())
    if device.hardware == CPU_ONLY:  # programs that XLA compiled for the CPU run on threads: their ops are host ops
        device = replace(device, ops=Ops.none())
    training = is_training(ops) if ops else None
    return HostOpStats(
        (HostOpTotals(given.name, threads.ops, device.ops, device.present, training, threads.crossing).bare(),),
        threads.ops,
        device,
        host_op_stats.sum_tf_functions(given.events, given.workers),
        torch_calls.sum_launched_by_name(given.events),
    )


def of_host_for_others(given: Host, params: Params) -> HostOpStats:
    """Return the host state without the ops by host."""
    return replace(of_host(given, params), by_host=())


def merge(kept: Sequence[HostOpStats], params: Params, shared: dict[Any, Any]) -> HostOpStats:
    return HostOpStats.of(kept, shared)


def run(kept: Sequence[HostOpStats], params: Params, after: Mapping[str, AnalysisReport]) -> AnalysisReport:
    merged = SessionOps.of([state.device for state in kept], get_chosen_peaks(params))
    hosts = [host for state in kept for host in state.hosts]
    session = OpDatabase(
        merge_ops([state.threads for state in kept], add_cores=False),
        merged,
        group_by_framework_op(merged.ops.table),
        host_op_stats.merge_tf_functions([function for state in kept for function in state.functions]),
        [host.is_training for host in hosts],
        hosts,
    )
    device, threads = _rank_ops(replace(session.device, table=session.framework)), _rank_ops(session.host)
    unknown = list_names_without_work(session.device.table)
    unknown_ops = np.array([name in unknown for name in device.table.name], bool)
    tensor_cores = _compute_tensor_core_shares(after.get("kernel_stats"))
    launched = torch_calls.merge_launched(state.launched for state in kept)
    sides = (
        _make_op_rows(DEVICE, device, session.peaks, unknown_ops, tensor_cores=tensor_cores),
        _make_op_rows(HOST, threads, None, np.ones(len(threads), bool), tensor_cores={}, launched=launched),
    )
    instructions = _rank_ops(session.device)
    unknown_instructions = find_ops_without_work(instructions.table)
    devices = _make_op_rows(DEVICE, instructions, session.peaks, unknown_instructions, title=session.devices.title)
    tables = {
        "ops": _join_parts("ops", sides),
        "device_ops": TABLES["device_ops"].of(devices),
        "sparse_core_ops": TABLES["sparse_core_ops"].of(
            op.list_sparse_core_rows(session.device, session.devices.title)
        ),
        "host_ops": TABLES["host_ops"].of(sides[1]),
        "hosts": TABLES["hosts"].of(session.hosts),
        "ops_by_host": partial(_list_host_ops, kept),
        "tf_functions": TABLES["tf_functions"].of(
            [(function, mode) for function in session.functions for mode in function.count]
        ),
    }
    figures = make_scalars(SCALARS, _compute_figures(session))
    return AnalysisReport(NAME, LazyTables(tables), figures, tuple(_list_notices(session)), after, session)


def _make_op_rows(side: str, ops: RankedOps, peaks: Peaks | None, unknown: Bools, **more: Any) -> OpRows:
    """Return the rows of ops. ``unknown``: ops whose work is unknown. Bytes are also unknown if argument types are, and
    flops in XProf traces without them."""
    table = ops.table
    no_flops = unknown | ((table.model_flops > 0) & ~get_known_flops(table))
    no_bytes = unknown | ((table.flops_source == FROM_SHAPES) & (table.bytes_source == 0))
    known = peaks is not None and peaks.teraflops_per_s and peaks.peak(HBM)
    rates = compute_rates(table, peaks if known else None)
    return OpRows(
        table=table, ranked=ops, side=side, rates=rates, unknown=unknown, no_flops=no_flops, no_bytes=no_bytes, **more
    )


def _list_host_ops(kept: Sequence[HostOpStats]) -> pa.Table:
    """Build the table of the framework ops and host ops by host."""
    sides = ((name, {DEVICE: device, HOST: threads}) for name, device, threads in iterate_host_ops(kept))
    return _join_parts("ops_by_host", (
        OpRows(host=name, side=side, table=ops.table, ranked=ops)
        for name, of_host in sides
        for side, ops in zip(of_host, map(_rank_ops, of_host.values()), strict=True)
    ))  # fmt: skip


def _join_parts(name: str, parts: Iterable[OpRows]) -> pa.Table:
    """Concatenate the tables of all parts, some at a time, because each part has its own dictionaries."""
    joined, some = [TABLES[name].empty()], []
    for rows in parts:
        some.append(TABLES[name].of(rows))
        if len(some) == _AT_ONCE:
            joined.append(_concatenate(some))
            some = []
    return _concatenate([*joined, *some])


def _concatenate(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


def _rank_ops(ops: Ops) -> RankedOps:
    """Return the ops and their idle time, unknown if nothing is recorded."""
    return rank_with_idle(ops) if ops.total_ps or len(ops.table) else rank_by_cost(ops)


def _compute_tensor_core_shares(kernels: AnalysisReport | None) -> dict[str, float]:
    """Return the Tensor Core share of GPU kernel time by framework op."""
    if kernels is None:
        return {}
    table = kernels.tables["ops"]
    columns = [table[name].to_pylist() for name in ("op_name", "total_ps", "tensor_core_ps")]
    rows = zip(*columns, strict=True)
    return {name: tensor / total for name, total, tensor in rows if name and total > 0 and tensor is not None}


def _compute_figures(session: OpDatabase) -> dict[str, Known]:
    values: dict[str, Known] = {}
    for side, ops, why in (
        ("device", session.device, NothingRan("the capture has no planes of devices")),
        ("host", session.host, "the capture has no threads of hosts (plane /host:CPU)"),
    ):
        for name in ("total_ps", "op_ps", "idle_ps"):
            values[f"{side}_{name}"] = getattr(ops, name) if ops.parts else (None, why)
    values["device_overlapped_ps"] = session.device.overlapped_ps
    if session.device.parts and not session.device.total_ps and not len(session.device.table):
        of_devices = [name for name in SCALARS if name.startswith("device_")]
        values |= dict.fromkeys(of_devices, (None, NothingRan("no op of the devices is recorded")))
    for name in ("infeed_enqueue_ps", "infeed_enqueue_start_diff_ps"):
        values[name] = (
            getattr(session.host, name) if session.host.parts else (None, "the capture has no threads of hosts")
        )
    trained = [trained for trained in session.is_training_by_host if trained is not None]
    values["is_training"] = any(trained) if trained else (None, "the capture carries no programs")
    return values


def _list_notices(session: OpDatabase) -> Iterator[Notice]:
    if not len(session.host.table) and not len(session.device.table):
        reason = "no thread event has the name of a framework op, and no event has a stat hlo_op or tf_op"
        if not session.hosts:
            reason = "no host is selected"
        elif not session.host.parts and not session.device.parts:
            reason = "the capture has neither threads of a host (plane /host:CPU) nor planes of devices"
        yield Notice("warning", f"No ops: {reason}.")
    for remark in (*remark_on_attribution(session.device.table), *remark_on_programs(session.devices)):
        yield Notice(*remark)
    crossing = sum(host.crossing for host in session.hosts)
    if crossing and host_ops.TORCH_OP not in session.host.table.category:
        yield Notice(
            "info",
            f"{crossing:,} occurrences of host ops cross another op of their thread, or end together with it. They are "
            "counted here; XProf leaves them out.",
        )
    for reason in session.peaks.reasons if session.peaks else ():
        yield Notice("info", f"The bound of ops may be unknown: {reason}.")
