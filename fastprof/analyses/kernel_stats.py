"""GPU kernels: time, launch dimensions, registers, shared memory, tensor cores.

Kernels are all work on GPU streams except copies. Kernels with the same name, op, launch configuration and Tensor Core
use have one row; figures missing from the launch records are null. Formulas: docs/analyses/kernel-stats.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fastprof.analyses.contract import (
    Alike,
    AnalysisReport,
    Evidence,
    Known,
    Notice,
    Opening,
    ScalarSpec,
    Section,
    has_rows,
    make_scalars,
)
from fastprof.decode.plane_kinds import GPU_PLANES
from fastprof.decode.span_stats import XPROF
from fastprof.derive.devices import gpu_kernels
from fastprof.derive.devices import op_names as tf_op
from fastprof.derive.devices.device_events import NothingRan
from fastprof.derive.devices.gpu_kernels import VENDOR_STAT, Dim, Launch, find_vendors, stats_of_gpus
from fastprof.derive.devices.op_names import is_kineto
from fastprof.derive.ops.gpu_kernels import (
    DETAILS_OF_MEMORY,
    KERNEL_DETAILS,
    KINDS,
    NO_OPS,
    OTHER,
    UNKNOWN,
    KernelKey,
    KernelRow,
    classify_kernel,
    estimate_fusible_time,
    find_longest_kernel,
    group_kernels_by_op,
    merge_kernels,
    sum_tensor_core_time,
)
from fastprof.derive.ops.record_checks import check_records
from fastprof.hlo import METADATA_STATS
from fastprof.hlo import PLANES as HLO_PLANES
from fastprof.schema.columns import (
    PERCENTILES,
    Int64s,
    find_percentiles,
    join_values,
    number_distinct_rows,
    sum_by,
    sum_exactly,
    summarize_by,
)
from fastprof.schema.tables import Bytes, Column, Count, Flag, Formula, Kind, Picoseconds, Share, TableSchema, Text
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import find_lines
from fastprof.tables.needs import Needs
from fastprof.wording.quantities import LONG, shorten_name

if TYPE_CHECKING:
    from fastprof.derive.host import Host
    from fastprof.hlo.programs import Modules
    from fastprof.tables.host_events import HostEvents, Plane


NAME = "kernel_stats"
_OP_NAME = "name"
"""Stat in which XLA records the framework op of a kernel."""
READS = Needs(
    planes=(GPU_PLANES, r"^/host:CPU$", *HLO_PLANES),
    stats=(KERNEL_DETAILS, *DETAILS_OF_MEMORY, "tf_op", "hlo_op", "program_id", "equation", "correlation_id", "_a",
           "annotation", "hlo_module", "cuda_graph_node_id", _OP_NAME),
    metadata_stats=METADATA_STATS,
)  # fmt: skip
AFTER: tuple[str, ...] = ()
REMEDY = "On a GPU, check that the profiler is allowed to trace it. op_stats and hlo_stats show ops of other devices."
CONTENT = Evidence("No kernels: the capture has no GPU planes.", planes=(GPU_PLANES,))

WORTH_SAYING = 0.05
"""Least share of kernel time without Tensor Cores that could use them, for a notice."""


@dataclass(frozen=True, slots=True)
class Params:
    pass


_NO_VENDOR = (
    "the capture does not record the device vendor (device_vendor), and nothing else shows it, so the use of matrix "
    "units is unknown"
)


_NO_NAME = "kernel names do not show whether kernels run on matrix units"


def _make_row_formula(of: Callable[[KernelRow], Any]) -> Formula:
    return lambda kernels: [of(row) for row in kernels.rows]


def _list_percentiles(place: int, kernels: Any) -> list[int | None]:
    """Return the percentile of each kernel at this place of PERCENTILES, or None if none were computed."""
    return [row.percentiles[place] if row.percentiles else None for row in kernels.rows]


def _make_launch_formula(of: Callable[[Launch], Any]) -> Formula:
    return lambda kernels: [of(launch) for launch in kernels.launches]


def _make_op_formula(of: Callable[[str, list[KernelRow], int], Any]) -> Formula:
    """Return a formula of the table ops. ``of`` takes the name of an op, its kernel rows and their time."""
    return lambda ops: [of(*op) for op in ops.each]


_NULL = "null: not recorded, or larger than on any GPU"
_SHARE = "total_ps / total_ps of all kernels; null: the kernels took no time"
_UNRECORDED = "null: not recorded; only PyTorch's profiler records it"
_Percent, _Ratio = Kind(pa.float64(), "%"), Kind(pa.float64())
_Name = Kind(pa.string())
TABLES = {
    "kernels": TableSchema("kernels", "a kernel of a host, with its op and launch configuration, longest total first", (
        Text("host", "host that ran it", _make_row_formula(lambda row: row.host)),
        _Name("name", "kernel name", _make_row_formula(lambda row: row.kernel.name)),
        Text("op_name", "framework op that launched the kernel, by the metadata of its instruction or else the "
             "stat tf_op; null: neither is recorded", _make_row_formula(lambda row: row.op or None)),
        Count("occurrences", "number of times that the kernel ran", _make_row_formula(lambda row: row.ps[0])),
        Picoseconds("total_ps", "sum of the durations of its occurrences", _make_row_formula(lambda row: row.ps[1])),
        Share("total_share", _SHARE,
              lambda kernels: [_compute_share(row.ps[1], kernels.total) for row in kernels.rows]),
        Picoseconds("mean_ps", "total_ps / occurrences, rounded down",
                    _make_row_formula(lambda row: row.ps[1] // row.ps[0])),
        Picoseconds("min_ps", "duration of the shortest occurrence", _make_row_formula(lambda row: row.ps[2])),
        *(
            Picoseconds(f"p{percentile}_ps", f"duration that {percentile} % of the occurrences do not exceed",
                        partial(_list_percentiles, place))
            for place, percentile in enumerate(PERCENTILES)
        ),
        Picoseconds("max_ps", "duration of the longest occurrence", _make_row_formula(lambda row: row.ps[3])),
        Flag("uses_tensor_cores", "whether the kernel runs on Tensor Cores (AMD: Matrix Cores), by its name; null: "
             "the GPU vendor or the kernel's name is not recorded, or the name is ambiguous",
             _make_row_formula(lambda row: row.uses)),
        Flag("could_use_tensor_cores", "whether the kernel could run on Tensor Cores: its op is a matrix product, a "
             "convolution, or another op whose kernel uses them, and it does more than transpose or copy",
             _make_row_formula(lambda row: row.could)),
        Text("precision", "number type of the kernel's arithmetic, such as bf16, by its name or else by the inputs "
             "of its instruction; null: neither shows it", _make_row_formula(lambda row: row.precision)),
        Text("kind", "elementwise: an element-by-element kernel, launched op by op; reduction: a reducing kernel, "
             "launched op by op; null: another kernel, or unknown", _make_row_formula(lambda row: KINDS[row.kind])),
        Picoseconds("fusible_ps", "upper bound of the part of total_ps that fusing elementwise kernels with neighbours "
                    "on their stream may save; null: neither op nor program of the kernel is known",
                    _make_row_formula(lambda row: None if row.kind == UNKNOWN else row.fusible)),
        Count("registers_per_thread", f"registers per thread; {_NULL}",
              _make_launch_formula(lambda launch: launch.registers)),
        Bytes("shared_bytes", f"shared memory per block, static and dynamic; on ROCm group_mem; {_NULL}",
              _make_launch_formula(lambda launch: launch.shared)),
        Bytes("static_shared_bytes", f"its static part; {_NULL}",
              _make_launch_formula(lambda launch: launch.static_shared)),
        Bytes("dynamic_shared_bytes", f"its dynamic part; {_NULL}",
              _make_launch_formula(lambda launch: launch.dynamic_shared)),
        Text("grid_dim", f"number of blocks along x,y,z; {_NULL}",
             _make_launch_formula(lambda launch: _format_dim(launch.grid))),
        Text("block_dim", f"threads per block along x,y,z; {_NULL}",
             _make_launch_formula(lambda launch: _format_dim(launch.block))),
        Count("block_count", f"number of blocks of the grid; {_NULL}",
              _make_launch_formula(lambda launch: _multiply_dim(launch.grid))),
        Count("threads_per_block", f"threads per block; {_NULL}",
              _make_launch_formula(lambda launch: _multiply_dim(launch.block))),
        _Percent("occupancy_percent", "warps that fit on a multiprocessor / warps that it can hold, in the first "
                 "occurrence; in PyTorch's traces the estimate of the profiler, lower if the grid does not fill the "
                 f"GPU; {_NULL}", _make_launch_formula(lambda launch: launch.occupancy)),
        _Ratio("blocks_per_sm", f"blocks / multiprocessors of the device, in the first occurrence; {_UNRECORDED}",
               _make_launch_formula(lambda launch: launch.blocks_per_sm)),
        _Ratio("warps_per_sm", f"warps of the grid / multiprocessors, in the first occurrence; {_UNRECORDED}",
               _make_launch_formula(lambda launch: launch.warps_per_sm)),
        Column("device_count", pa.int32(), "GPUs of the host that ran the kernel",
               of=_make_row_formula(lambda row: row.devices)),
    ), derived=True),
    "ops": TableSchema("ops", "a framework op, with the kernels that it launched on all hosts, longest total first", (
        _Name("op_name", "framework op; null: the row is of kernels whose op is unknown",
              _make_op_formula(lambda op, _rows, _ps: op or None)),
        Count("kernel_count", "number of different kernel names",
              _make_op_formula(lambda _op, rows, _ps: len({row.kernel.name for row in rows}))),
        Count("occurrences", "number of times that its kernels ran; op_stats counts calls of ops",
              _make_op_formula(lambda _op, rows, _ps: sum(row.ps[0] for row in rows))),
        Picoseconds("total_ps", "sum of the durations of its kernels", _make_op_formula(lambda _op, _rows, ps: ps)),
        Share("total_share", _SHARE, lambda ops: [_compute_share(ps, ops.total) for _, _, ps in ops.each]),
        Picoseconds("tensor_core_ps", "time of its kernels that use Tensor Cores; null: uses_tensor_cores of one is "
                    "null", _make_op_formula(lambda _op, rows, _ps: sum_tensor_core_time(rows))),
        Flag("could_use_tensor_cores", "whether any of its kernels could run on Tensor Cores",
             _make_op_formula(lambda _op, rows, _ps: any(row.could for row in rows))),
    ), derived=True),
}  # fmt: skip
SCALARS = {
    "kernel_count": ScalarSpec(None, "number of rows of the kernels table"),
    "occurrences": ScalarSpec(None, "number of executions of kernels"),
    "total_ps": ScalarSpec("ps", "time of all kernels, summed over GPUs"),
    "tensor_core_ps": ScalarSpec(
        "ps", "time of the kernels that use Tensor Cores (AMD: Matrix Cores)", "on matrix units"
    ),
    "tensor_core_share": ScalarSpec("share", "tensor_core_ps / total_ps", "share of kernel time on matrix units"),
    "missed_tensor_core_ps": ScalarSpec(
        "ps", "time of kernels that could use Tensor Cores and do not", "eligible for Tensor Cores but not using them"
    ),
    "missed_tensor_core_share": ScalarSpec(
        "share", "missed_tensor_core_ps / total_ps", "share of kernel time eligible for Tensor Cores, not using them"
    ),
    "longest_kernel": ScalarSpec(None, "name of the kernel with the most time, over ops and launch dimensions"),
    "longest_kernel_share": ScalarSpec(
        "share", "time of kernels of that name / total_ps", "longest kernel's share of kernel time"
    ),
    "longest_op": ScalarSpec(None, "known op whose kernels take the most time"),
    "longest_op_share": ScalarSpec("share", "time of its kernels / total_ps", "longest op's share of kernel time"),
}
_NO_OPS = "most kernels record no op: op_stats finds ops by their launches"
OPENING = Opening(
    (
        "{longest_kernel} takes {longest_kernel_share} of the {total_ps} of kernels; the longest op is {longest_op}, "
        "with {longest_op_share}.",
        "{longest_kernel} takes {longest_kernel_share} of the {total_ps} of kernels.",
    ),
    (
        "total_ps", "occurrences", "kernel_count", "tensor_core_share", "missed_tensor_core_share",
    ),
)  # fmt: skip

SECTIONS = (
    Section("Kernel time", scalars=tuple(name for name in SCALARS if not name.startswith("longest"))),
    Section("Kernels", "kernels", ("op_name", "name", "occurrences", "total_ps", "mean_ps", "total_share"),
            "total_share", 20, kernels="name",
            alike=Alike(("op_name", "name"), ("occurrences", "total_ps", "total_share"))),
    Section("Resources of the same kernels", "kernels", ("name", "registers_per_thread", "shared_bytes", "grid_dim",
            "block_dim", "occupancy_percent"), rows=20, shown=has_rows("kernels"), kernels="name",
            alike=Alike(("name",))),
    Section("Ops by the time of their kernels", "ops", ("op_name", "kernel_count", "occurrences", "total_ps",
            "tensor_core_ps", "total_share"), "total_share", 10, shown=has_rows("ops"),
            alike=Alike(("op_name",), ("occurrences", "total_ps", "tensor_core_ps", "total_share"))),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class HostKernels:
    """Kernels of a host in order of first occurrence, or of several hosts in turn. ``planes``: number of GPU planes.
    ``reasons``: why GPUs are taken to be of their makers, if unrecorded. ``ran``: whether GPUs ran anything.
    ``is_merged``: whether rows are those of ``merge_kernels``, which is enough for other analyses."""

    planes: int
    rows: list[KernelRow]
    reasons: tuple[str, ...]
    ran: bool = False
    is_merged: bool = False


def of_host(host: Host, params: Params) -> HostKernels:
    return _sum_kernels(host, PERCENTILES)


def of_host_for_others(host: Host, params: Params) -> HostKernels:
    """Return the host state with merged kernels and without percentiles."""
    return merge([replace(_sum_kernels(host, ()), is_merged=True)], params, {})


def _sum_kernels(host: Host, percentiles: Sequence[int]) -> HostKernels:
    events = host.raw
    planes = {plane.number: plane for plane in events.planes_of("GPU")}
    rows, details = _find_kernel_rows(events)
    lines = events.used_lines
    line_of = find_lines(lines, rows)
    columns = [
        np.array([line.plane.number for line in lines], np.int64)[line_of],
        events.meta[rows].astype(np.int64),
        details,
        _read_recorded_ops(events, rows),
        join_values(*events.texts("equation"), rows),
        join_values(*events.texts("hlo_op"), rows),
        join_values(*events.ints("program_id"), rows),
        _find_torch_ops(host, rows),
        join_values(*events.texts("hlo_module"), rows),
    ]
    first, code = number_distinct_rows(columns)
    namer = _Namer(host, planes, (events.names[meta] for meta in np.unique(events.meta[rows]).tolist()))
    numbers: dict[tuple[KernelKey, bool], int] = {}
    configured: list[Beside] = []
    devices: list[set[int]] = []
    types: list[set[str | None]] = []
    kernel_of_code = np.zeros(len(first), np.int32)
    for i, parts in enumerate(np.stack([column[first] for column in columns], axis=1).tolist()):
        kernel, beside = namer.kernel(*parts)
        number = numbers.setdefault((kernel, beside[-1]), len(numbers))
        if number == len(configured):
            configured.append(beside)
            devices.append(set())
            types.append(set())
        devices[number].add(parts[0])
        types[number].add(namer.precision(parts[1], parts[5], parts[6]))
        kernel_of_code[i] = number
    duration = events.duration_ps[rows]
    number_of = kernel_of_code[code]
    sums, sums_ns = (
        summarize_by(of, values, len(numbers), "the durations of the occurrences of a kernel").tolist()
        for of, values in ((number_of, duration), (np.where(duration > 0, number_of, -1), duration // 1000))
    )
    ranks = [values.tolist() for values in find_percentiles(number_of, duration, len(numbers), percentiles).values()]
    kinds = np.array([beside[-2] for beside in configured], np.int64)[number_of]
    fusible = sum_by(number_of, estimate_fusible_time(kinds, duration, line_of), len(numbers)).tolist()
    only = [type_name.pop() if len(type_name) == 1 else None for type_name in types]
    on_devices = zip(map(len, devices), fusible, only, strict=True)
    kernels = zip(numbers, configured, on_devices, sums, sums_ns, strict=True)
    made = [
        KernelRow(host.name, kernel, *first[:-1], *on, ps, ns, detailed)
        for (kernel, detailed), first, on, ps, ns in kernels
    ]
    if percentiles:
        made = [row._replace(percentiles=own) for row, own in zip(made, zip(*ranks, strict=True), strict=True)]
    return HostKernels(len(planes), made, namer.reasons, check_records(host.entire.raw).has_gpu_events)


def _read_recorded_ops(events: HostEvents, rows: Int64s) -> Int64s:
    """Return the number of the string that names each row's framework op, or -1. XProf traces lack the programs that
    know it."""
    recorded = join_values(*events.texts("tf_op"), rows)
    if events.transcribed_from != XPROF:
        return recorded
    named = join_values(*events.texts(_OP_NAME), rows)
    texts = np.unique(recorded)
    vague = [number for number in texts.tolist() if number < 0 or events.text(number) in NO_OPS]
    return np.where(np.isin(recorded, vague) & (named >= 0), named, recorded)


def _find_torch_ops(host: Host, rows: Int64s) -> Int64s:
    """Return the place of the PyTorch op that launched each row among the ops of the host's GPUs, or -1 if unknown."""
    if not is_kineto(host.raw):
        return np.full(len(rows), -1, np.int64)
    from fastprof.derive.ops.gpu_attribution import find_op_events

    ops = find_op_events(host.raw, host.modules)
    known = np.array([not op.is_hlo and bool(op.provenance) for op in ops.ops] + [False], bool)
    op = ops.op[rows].astype(np.int64)
    return np.where(known[op], op, -1)


def _find_kernel_rows(events: HostEvents) -> tuple[Int64s, Int64s]:
    """Return the rows of kernels without negative durations, and the number of their string kernel_details, or -1 if it
    is empty or not recorded."""
    from fastprof.derive.ops.gpu_ops import is_kernel  # it takes long to import

    rows = np.flatnonzero(is_kernel(events) & (events.duration_ps >= 0))
    details = join_values(*events.texts(KERNEL_DETAILS), rows)
    distinct = np.unique(details[details >= 0])
    empty = distinct[[not text for text in events.all_texts(distinct)]]
    return rows, np.where(np.isin(details, empty), -1, details)


Beside = tuple[Launch, str | None, bool | None, bool, int, bool]
"""Values ``launch``, ``vendor``, ``uses``, ``op_could``, ``kind`` and ``detailed`` of a kernel row."""


class _Namer:
    """Maker of kernels from distinct rows of stats, which parses each string once. ``names``: kernel names."""

    def __init__(self, host: Host, planes: Mapping[int, Plane], names: Iterable[str]) -> None:
        recorded: dict[int, str | None] = {}
        for number, plane in planes.items():
            vendor = plane.stats.get(VENDOR_STAT)
            recorded[number] = vendor if isinstance(vendor, str) else None
        events = host.raw
        known, self.reasons = find_vendors(stats_of_gpus(planes.values()), recorded, names)
        self._events, self._recorded, self._vendors = events, recorded, known
        # what is cached holds no `self`: a circle would keep the host's events until they are collected
        self.launch = cache(lambda number: gpu_kernels.parse_launch(events.text(number)) if number >= 0 else Launch())
        self.tf_op = cache(lambda number: tf_op.parse_op_name(events.text(number))[1:])
        self.uses = cache(lambda meta, vendor: gpu_kernels.uses_matrix_units(events.names[meta], vendor))
        self.known_uses = cache(lambda meta, vendor: gpu_kernels.runs_on_units(events.names[meta], vendor))
        self.torch_op = partial(_format_provenance, events, host.modules)
        self.hlo_op = cache(lambda program, text: host.modules.op_name(program, events.text(text).split("::")[-1]))
        """Framework op of an HLO instruction, or None if the capture has no such instruction."""
        self.title = host.modules.title
        types_read = host.modules.types_read
        self.precision = cache(lambda meta, hlo_op, program: gpu_kernels.find_precision(
            events.names[meta],
            lambda: types_read(program, events.text(hlo_op).split("::")[-1]) if hlo_op >= 0 else (),
        ))  # fmt: skip

    def kernel(
        self,
        plane: int,
        meta: int,
        details: int,
        op: int,
        equation: int,
        hlo_op: int,
        program: int,
        torch_op: int,
        module: int,
    ) -> tuple[KernelKey, Beside]:
        """Return the kernel, and the other values of its row."""
        vendor, launch = self._vendors[plane], self.launch(details)
        uses = self.uses(meta, self._recorded[plane])
        name, could, of_framework, op_type = "", False, False, ""
        if op >= 0 and self._events.text(op):
            (name, op_type), of_framework = self.tf_op(op), True
            einsum = equation >= 0 and gpu_kernels.can_einsum_multiply(self._events.text(equation))
            could = einsum or gpu_kernels.can_multiply(name)
        if torch_op >= 0:
            name, of_framework = self.torch_op(torch_op), True
            could = gpu_kernels.can_torch_op_multiply(name)
        compiled = self.hlo_op(program, hlo_op) if hlo_op >= 0 else None
        if compiled is not None:
            name, could = compiled, could or gpu_kernels.can_multiply(compiled)
        kernel = KernelKey(
            self._events.names[meta],
            launch.grid or (1, 1, 1),
            launch.block or (1, 1, 1),
            launch.registers or 0,
            launch.static_shared or 0,
            launch.dynamic_shared or 0,
            uses,
            could or (of_framework and uses),
            name,
        )
        known = self.known_uses(meta, vendor) if kernel.name else None
        named = self._events.text(module) if module >= 0 else hlo_op >= 0 and (self.title(program) or "unknown")
        kind = classify_kernel(kernel.name, name, op_type, named.partition("(")[0] if named else "")
        if kind == OTHER and not (name or op_type or named or is_kineto(self._events)):
            kind = UNKNOWN
        return kernel, (launch, vendor, known, could or (of_framework and known is True), kind, details >= 0)


def _format_provenance(events: HostEvents, modules: Modules, place: int) -> str:
    from fastprof.derive.ops.gpu_attribution import find_op_events

    return find_op_events(events, modules).ops[place].provenance


def merge(kept: Sequence[HostKernels], params: Params, shared: dict[Any, Any]) -> HostKernels:
    rows = [row for host in kept for row in host.rows]
    reasons = dict.fromkeys(reason for host in kept if host.rows for reason in host.reasons)
    planes, ran = sum(host.planes for host in kept), any(host.ran for host in kept)
    is_merged = all(host.is_merged for host in kept)
    return HostKernels(planes, merge_kernels(rows) if is_merged else rows, tuple(reasons), ran, is_merged)


def run(kept: Sequence[HostKernels], params: Params, after: Mapping[str, AnalysisReport]) -> AnalysisReport:
    kept = [merge(kept, params, {})]
    rows = sorted(kept[0].rows, key=lambda row: row.order)
    total = sum_exactly([row.ps[1] for row in rows], "the durations of kernels")
    tensor = sum(row.ps[1] for row in rows if row.uses)
    missed = sum(row.ps[1] for row in rows if row.misses)
    unknown = (None, _explain_none(kept))
    shares = {
        "tensor_core_share": _compute_share(tensor, total),
        "missed_tensor_core_share": _compute_share(missed, total),
    }
    values: dict[str, Known] = {
        "kernel_count": len(rows),
        "occurrences": sum(row.ps[0] for row in rows),
        "total_ps": total,
        "tensor_core_ps": tensor,
        "missed_tensor_core_ps": missed,
        **{name: unknown if part is None else part for name, part in shares.items()},
    }
    ops = group_kernels_by_op(rows)
    none = (None, _NO_OPS) if rows else unknown
    longest_op = next(((op, ps) for op, _, ps in ops if op), None)
    for figure, longest in (("longest_kernel", find_longest_kernel(rows)), ("longest_op", longest_op)):
        values[figure] = longest[0] if longest else none
        values[f"{figure}_share"] = longest[1] / total if longest and total else none
    if not missed and 2 * sum(ps for op, _, ps in ops if op) <= total:
        values |= {name: (None, _NO_OPS) for name in SCALARS if name.startswith("missed")}
    for name, time, unsure in (
        ("tensor_core", tensor, [row for row in rows if row.uses is None]),
        ("missed_tensor_core", missed, [row for row in rows if row.uses is None and row.could]),
    ):
        if unsure and not time:
            values |= {f"{name}_ps": (None, _NO_NAME), f"{name}_share": (None, _NO_NAME)}
    if not rows and not any(host.ran for host in kept):
        values = dict.fromkeys(SCALARS, unknown)
    if not all(gpu_kernels.knows_kernels(row.vendor) for row in rows):
        values |= {name: (None, _NO_VENDOR) for name in SCALARS if "tensor_core" in name}
    launches = [gpu_kernels.drop_incredible(row.launch) for row in rows]
    tables = {
        "kernels": TABLES["kernels"].of(SimpleNamespace(rows=rows, launches=launches, total=total)),
        "ops": TABLES["ops"].of(SimpleNamespace(each=ops, total=total)),
    }
    return AnalysisReport(
        NAME, tables, make_scalars(SCALARS, values), tuple(_list_notices(kept, rows, total, missed)), detail=rows
    )


def _explain_none(kept: Sequence[HostKernels]) -> str:
    planes = sum(host.planes for host in kept)
    return NothingRan(f"no event of the {planes} GPU planes is a kernel" if planes else "the capture has no GPU planes")


def _list_notices(kept: Sequence[HostKernels], rows: Sequence[KernelRow], total: int, missed: int) -> Iterator[Notice]:
    if not rows:
        yield Notice("info", NothingRan(f"No kernels: {_explain_none(kept)}."))
    for reason in dict.fromkeys(reason for host in kept if host.rows for reason in host.reasons):
        yield Notice("info", f"{reason[0].upper()}{reason[1:]}.")
    share = _compute_share(missed, total)
    if share is not None and share >= WORTH_SAYING:
        first = next(row for row in rows if row.misses)
        worst, units = first.kernel, gpu_kernels.get_matrix_units(first.vendor)
        types = "Half precision" if first.vendor == gpu_kernels.AMD else "Half precision, or TF32,"
        yield Notice(
            "recommendation",
            f"{100 * share:.1f} % of kernel time is in kernels without {units}, of ops that could use them; the "
            f"longest is {shorten_name(worst.name, LONG)} of {shorten_name(worst.op or 'an unknown op', LONG)}. "
            f"{types} and sizes that are multiples of 8 let libraries choose kernels that do.",
        )
    is_open = sum(row.ps[1] for row in rows if row.uses is None and gpu_kernels.knows_kernels(row.vendor))
    if (_compute_share(is_open, total) or 0.0) >= WORTH_SAYING:
        yield Notice(
            "info",
            f"Kernel names do not show whether {100 * is_open / total:.1f} % of kernel time uses "
            f"{gpu_kernels.get_matrix_units(rows[0].vendor)}: it counts as neither.",
        )
    wrong = sum(gpu_kernels.is_garbled(row.launch) for row in rows)
    if wrong:
        yield Notice(
            "warning",
            f"Registers, shared memory or dimensions of {wrong:,} of {len(rows):,} kernels are more than any GPU has: "
            "the profiler wrote memory that it had not set. These figures are left out.",
        )


def _compute_share(part: int, total: int) -> float | None:
    """Return ``part / total``, or None if the total is 0."""
    return part / total if total else None


def _format_dim(dim: Dim | None) -> str | None:
    return None if dim is None else f"{dim[0]},{dim[1]},{dim[2]}"


def _multiply_dim(dim: Dim | None) -> int | None:
    """Return the product, or None beyond 64 bits, which only damaged captures have."""
    size = None if dim is None else dim[0] * dim[1] * dim[2]
    return size if size is not None and size < 2**63 else None
