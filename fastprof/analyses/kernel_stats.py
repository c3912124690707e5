"""GPU kernels: time, launch dimensions, registers, shared memory, tensor cores.

A kernel is an event of a GPU plane that lasts and has the stat ``kernel_details``. Kernels that agree in name, op,
launch configuration and use of Tensor Cores are one row. Formulas: docs/analyses/kernel-stats.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof._native import records
from fastprof._native.kernels import group_sums
from fastprof.analyses.contract import Needs, Notice, Report, ScalarSpec, Section, Value, has_rows, scalars
from fastprof.derive.devices import kernel_launch, tensor_cores
from fastprof.derive.devices import op_names as tf_op
from fastprof.derive.devices.kernel_launch import Dim, Launch
from fastprof.derive.ops.tables import exact_sum
from fastprof.errors import CaptureError
from fastprof.hlo import METADATA_STATS
from fastprof.hlo import PLANES as HLO_PLANES
from fastprof.schema.array_types import Int64s, Records
from fastprof.schema.tables import TEXT, Column, TableSchema

if TYPE_CHECKING:
    from fastprof.derive.host import Host
    from fastprof.tables.host_events import HostEvents, Plane


NAME = "kernel_stats"
READS = Needs(
    planes=(r"^/device:GPU:", *HLO_PLANES),
    stats=("kernel_details", "tf_op", "hlo_op", "program_id", "equation"),
    metadata_stats=METADATA_STATS,
)
AFTER: tuple[str, ...] = ()

DERIVED_LINES = range(0xDEADBEEF, 0xDEADBEEF + 389)
"""Ids, in their low 32 bits, of lines that profilers compute from the others."""

WORTH_SAYING = 0.05
"""Share of kernel time that could use Tensor Cores and does not, from which on it is said."""


@dataclass(frozen=True, slots=True)
class Params:
    """There are none."""


_NO_VENDOR = (
    "the capture does not say who made the GPU (device_vendor), so which kernels run on its matrix units is not known"
)
_NULL = "null: not recorded, or more than any GPU has"
_SHARE = "total_ps / the sum of total_ps over all kernels; null: that is 0"
TABLES = {
    "kernels": TableSchema("kernels", "a kernel of a host, with its op and launch configuration, longest total first", (
        Column("host", TEXT, "host that ran it"),
        Column("name", pa.string(), "name of the kernel"),
        Column("op_name", TEXT, "framework op that launched it: metadata of the HLO instruction, else stat tf_op; "
               "null: neither is recorded", True),
        Column("occurrences", pa.int64(), "how often it ran"),
        Column("total_ps", pa.int64(), "sum of durations", unit="ps"),
        Column("total_share", pa.float64(), _SHARE, True, "share"),
        Column("mean_ps", pa.int64(), "total_ps / occurrences, rounded down", unit="ps"),
        Column("min_ps", pa.int64(), "shortest", unit="ps"),
        Column("max_ps", pa.int64(), "longest", unit="ps"),
        Column("uses_tensor_cores", pa.bool_(), "the kernel's name is one of kernels on Tensor Cores (AMD: Matrix "
               "Cores); null: the capture does not say who made the GPU", True),
        Column("could_use_tensor_cores", pa.bool_(), "its op is a matrix product or a convolution, or a TensorFlow op "
               "whose kernel uses Tensor Cores, and it does more than transpose or copy"),
        Column("registers_per_thread", pa.int64(), f"regs of kernel_details; {_NULL}", True),
        Column("shared_bytes", pa.int64(), "shared memory of a block: static and dynamic, or group_mem of ROCm; "
               f"{_NULL}", True, "bytes"),
        Column("static_shared_bytes", pa.int64(), f"static_shared of kernel_details; {_NULL}", True, "bytes"),
        Column("dynamic_shared_bytes", pa.int64(), f"dynamic_shared of kernel_details; {_NULL}", True, "bytes"),
        Column("grid_dim", TEXT, f"blocks along x,y,z; {_NULL}", True),
        Column("block_dim", TEXT, f"threads of a block along x,y,z; {_NULL}", True),
        Column("block_count", pa.int64(), f"blocks of the grid; {_NULL}", True),
        Column("threads_per_block", pa.int64(), f"threads of a block; {_NULL}", True),
        Column("occupancy_percent", pa.float64(), "occ_pct of kernel_details, of the first occurrence: warps that fit "
               f"on a multiprocessor / warps that it holds; {_NULL}", True, "%"),
        Column("device_count", pa.int32(), "GPUs of the host that ran it"),
    ), derived=True),
    "ops": TableSchema("ops", "a framework op, with the kernels that it launched on all hosts, longest total first", (
        Column("op_name", pa.string(), "framework op; null: kernels of no known op", True),
        Column("kernel_count", pa.int64(), "kernels that differ in name"),
        Column("occurrences", pa.int64(), "how often its kernels ran"),
        Column("total_ps", pa.int64(), "time of its kernels", unit="ps"),
        Column("total_share", pa.float64(), _SHARE, True, "share"),
        Column("tensor_core_ps", pa.int64(), "time of those of its kernels that use Tensor Cores; null: as there",
               True, "ps"),
        Column("could_use_tensor_cores", pa.bool_(), "so for one of its kernels, at the least"),
    ), derived=True),
}  # fmt: skip
SCALARS = {
    "kernel_count": ScalarSpec(None, "rows of the table kernels"),
    "occurrences": ScalarSpec(None, "kernels that ran"),
    "total_ps": ScalarSpec("ps", "time of all kernels, of all GPUs together"),
    "tensor_core_ps": ScalarSpec(
        "ps", "time of the kernels that use Tensor Cores (AMD: Matrix Cores)", "on matrix units"
    ),
    "tensor_core_share": ScalarSpec("share", "tensor_core_ps / total_ps", "share on matrix units"),
    "missed_tensor_core_ps": ScalarSpec(
        "ps", "time of kernels that do not use them and could", "not on them, but could be"
    ),
    "missed_tensor_core_share": ScalarSpec("share", "missed_tensor_core_ps / total_ps", "share of that"),
}
SECTIONS = (
    Section("Kernel time", scalars=tuple(SCALARS)),
    Section("Kernels", "kernels", ("op_name", "name", "occurrences", "total_ps", "mean_ps", "total_share"),
            "total_share", 20, kernels="name"),
    Section("Resources of the same kernels", "kernels", ("name", "registers_per_thread", "shared_bytes", "grid_dim",
            "block_dim", "occupancy_percent"), rows=20, shown=has_rows("kernels"), kernels="name"),
    Section("Ops by the time of their kernels", "ops", ("op_name", "kernel_count", "occurrences", "total_ps",
            "tensor_core_ps", "total_share"), "total_share", 10, shown=has_rows("ops")),
)  # fmt: skip


class Kernel(NamedTuple):
    """What tells kernels of a host apart, and the order of rows of one total. What is not recorded is as 0, dimensions
    as 1, an op as the empty text."""

    name: str
    grid: Dim
    block: Dim
    registers: int
    static_shared: int
    dynamic_shared: int
    uses: bool
    could: bool
    op: str


@dataclass(frozen=True, slots=True)
class HostKernels:
    """The kernels of one host, in order of first occurrence. ``sums``: count, total, minimum and maximum in ps;
    ``sums_ns``: the same of durations in whole nanoseconds, as XProf adds them up."""

    host: str
    planes: int
    kernels: list[Kernel]
    launches: list[Launch]
    vendors: list[str | None]
    devices: Int64s
    sums: Records
    sums_ns: Records


class Row(NamedTuple):
    """A row of the table kernels, before it is one."""

    host: str
    kernel: Kernel
    launch: Launch
    devices: int
    vendor: str | None
    ps: tuple[int, int, int, int]
    ns: tuple[int, int, int, int]

    @property
    def uses(self) -> bool | None:
        """None: of the vendor's kernels, those on matrix units are not known by name."""
        return self.kernel.uses if tensor_cores.knows(self.vendor) else None

    @property
    def could(self) -> bool:
        return self.kernel.could and (self.kernel.uses or not tensor_cores.only_moves(self.kernel.name))

    @property
    def misses(self) -> bool:
        """It does not run on matrix units, which is known, and could."""
        return self.could and self.uses is False


def of_host(host: Host, _params: Params) -> HostKernels:
    events = host.raw
    planes = {plane.number: plane for plane in events.planes_of("GPU")}
    rows, details = _kernel_rows(events, planes)
    columns = [
        _plane_numbers(events, rows),
        events.meta[rows].astype(np.int64),
        details,
        _beside(rows, *events.texts("tf_op")),
        _beside(rows, *events.texts("equation")),
        _beside(rows, *events.texts("hlo_op")),
        _beside(rows, *events.ints("program_id")),
    ]
    code, first = _numbered(columns)
    namer = _Namer(host, planes)
    found: dict[Kernel, int] = {}
    launches: list[Launch] = []
    vendors: list[str | None] = []
    pairs: set[tuple[int, int]] = set()
    kernel_of_code = np.zeros(len(first), np.int32)
    for i, parts in enumerate(np.stack([column[first] for column in columns], axis=1).tolist()):
        kernel, launch = namer.kernel(*parts)
        number = found.setdefault(kernel, len(found))
        if number == len(launches):
            launches.append(launch)
            vendors.append(namer.vendors[parts[0]])
        pairs.add((number, parts[0]))
        kernel_of_code[i] = number
    devices = np.bincount([number for number, _ in pairs], minlength=len(found)) if pairs else np.zeros(0, np.int64)
    duration = events.duration_ps[rows]
    sums = _sums(kernel_of_code[code], duration, len(found))
    sums_ns = _sums(kernel_of_code[code], duration // 1000, len(found))
    return HostKernels(host.name, len(planes), list(found), launches, vendors, devices, sums, sums_ns)


def _kernel_rows(events: HostEvents, planes: Mapping[int, Plane]) -> tuple[Int64s, Int64s]:
    """Rows of GPU planes that last, which negative durations do not, and have kernel_details that are not empty, and
    the number of that text."""
    rows, details = events.texts("kernel_details")
    inside = np.zeros(len(events) + 1, np.int8)
    for plane in planes.values():
        for line in plane.lines:
            if line.xline_id & 0xFFFFFFFF not in DERIVED_LINES:
                inside[line.first : line.last] = 1
    keep = (inside[rows] == 1) & (events.duration_ps[rows] > 0)
    rows, details = rows[keep].astype(np.int64), details[keep]
    distinct = np.unique(details)
    empty = distinct[[not text for text in events.all_texts(distinct)]]
    if len(empty):
        keep = ~np.isin(details, empty)
        rows, details = rows[keep], details[keep]
    return rows, details


def _plane_numbers(events: HostEvents, rows: Int64s) -> Int64s:
    lines = [line for line in events.lines if line.first < line.last]
    if not lines:
        return np.zeros(len(rows), np.int64)
    line_of = np.searchsorted([line.first for line in lines], rows, side="right") - 1
    numbers: Int64s = np.array([line.plane.number for line in lines], np.int64)[line_of]
    return numbers


def _beside(rows: Int64s, stat_rows: npt.NDArray[np.int32], values: Int64s) -> Int64s:
    """The values of a stat beside ``rows``; -1 where a row has none."""
    if not len(stat_rows):
        return np.full(len(rows), -1, np.int64)
    place = np.minimum(np.searchsorted(stat_rows, rows), len(stat_rows) - 1)
    return np.where(stat_rows[place] == rows, values[place], -1)


def _numbered(columns: Sequence[Int64s]) -> tuple[Int64s, Int64s]:
    """Numbers the distinct rows of the columns by first occurrence: the number of each row, and where each is first."""
    size = len(columns[0])
    code: Int64s = np.zeros(size, np.int64)
    for column in columns:
        if size and column.min() < column.max():
            _, values = _encoded(column)
            count = int(values.max()) + 1
            code = _encoded(code * count + values)[1]
    distinct = int(code.max()) + 1 if size else 0
    first: Int64s = np.zeros(distinct, np.int64)
    first[code[::-1]] = np.arange(size)[::-1]
    return code, first


class _Namer:
    """Makes kernels of distinct rows of stats; each text is parsed once."""

    def __init__(self, host: Host, planes: Mapping[int, Plane]) -> None:
        vendors = {number: _text(plane.stats.get("device_vendor")) for number, plane in planes.items()}
        events = host.raw
        self._events, self.vendors = events, vendors
        # what is cached holds no `self`: a circle would keep the host's events until they are collected
        self.launch = cache(lambda number: kernel_launch.parse(events.text(number)))
        self.tf_op = cache(lambda number: tf_op.parse(events.text(number)).name)
        self.uses = cache(lambda meta, plane: tensor_cores.kernel_uses(events.names[meta], vendors[plane]))
        self.hlo_op = cache(lambda program, text: host.modules.op_name(program, events.text(text).split("::")[-1]))
        """The framework op of an HLO instruction; None where the capture has no such instruction."""

    def kernel(
        self, plane: int, meta: int, details: int, op: int, equation: int, hlo_op: int, program: int
    ) -> tuple[Kernel, Launch]:
        launch, uses = self.launch(details), self.uses(meta, plane)
        name, could = "", False
        if op >= 0 and self._events.text(op):
            name = self.tf_op(op)
            einsum = equation >= 0 and tensor_cores.einsum_could(self._events.text(equation))
            could = einsum or uses or tensor_cores.op_could(name)
        compiled = self.hlo_op(program, hlo_op) if hlo_op >= 0 else None
        if compiled is not None:
            name, could = compiled, could or tensor_cores.op_could(compiled)
        kernel = Kernel(
            self._events.names[meta],
            launch.grid or (1, 1, 1),
            launch.block or (1, 1, 1),
            launch.registers or 0,
            launch.static_shared or 0,
            launch.dynamic_shared or 0,
            uses,
            could,
            name,
        )
        return kernel, launch


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _encoded(values: Int64s) -> tuple[Int64s, Int64s]:
    """The distinct values in order of first occurrence, and the place of each value among them."""
    encoded = pa.array(values).dictionary_encode()
    return encoded.dictionary.to_numpy(), encoded.indices.to_numpy().astype(np.int64)


def _sums(groups: npt.NDArray[np.int32], values: Int64s, size: int) -> Records:
    sums = np.zeros(size, records.GROUP_SUM)
    try:
        group_sums(np.ascontiguousarray(groups), np.ascontiguousarray(values), sums)
    except OverflowError as error:
        raise CaptureError("the durations of the occurrences of a kernel do not add up in 64 bits") from error
    return sums


def run(kept: Sequence[HostKernels], _params: Params, _after: Mapping[str, Report]) -> Report:
    rows = _rows(kept)
    total = exact_sum([row.ps[1] for row in rows], "the durations of kernels")
    tensor = sum(row.ps[1] for row in rows if row.kernel.uses)
    missed = sum(row.ps[1] for row in rows if row.misses)
    unknown = (None, _why_none(kept))
    shares = {"tensor_core_share": _share(tensor, total), "missed_tensor_core_share": _share(missed, total)}
    values: dict[str, Value | tuple[None, str]] = {
        "kernel_count": len(rows),
        "occurrences": sum(row.ps[0] for row in rows),
        "total_ps": total,
        "tensor_core_ps": tensor,
        "missed_tensor_core_ps": missed,
        **{name: unknown if part is None else part for name, part in shares.items()},
    }
    if not all(tensor_cores.knows(row.vendor) for row in rows):
        values |= {name: (None, _NO_VENDOR) for name in SCALARS if "tensor_core" in name}
    tables = {"kernels": _kernels_table(rows, total), "ops": _ops_table(rows, total)}
    return Report(NAME, tables, scalars(SCALARS, values), tuple(_notices(kept, rows, total, missed)), detail=rows)


def _rows(kept: Sequence[HostKernels]) -> list[Row]:
    """Of all hosts, longest total first; of equal ones by name and configuration."""
    rows = []
    for host in kept:
        of_kernel = zip(
            host.kernels, host.launches, host.devices.tolist(), host.vendors, host.sums, host.sums_ns, strict=True
        )
        rows += [
            Row(host.host, kernel, launch, devices, vendor, tuple(ps.tolist()), tuple(ns.tolist()))
            for kernel, launch, devices, vendor, ps, ns in of_kernel
        ]
    rows.sort(key=lambda row: (-row.ps[1], row.kernel, row.host))
    return rows


def _why_none(kept: Sequence[HostKernels]) -> str:
    planes = sum(host.planes for host in kept)
    if not planes:
        return "the capture has no GPU planes"
    return f"no event of the {planes} GPU planes has the stat kernel_details"


def _notices(kept: Sequence[HostKernels], rows: Sequence[Row], total: int, missed: int) -> Iterator[Notice]:
    if not rows:
        yield Notice("info", f"No kernels: {_why_none(kept)}.")
    share = _share(missed, total)
    if share is not None and share >= WORTH_SAYING:
        yield _missed(rows, share)
    wrong = sum(_garbled(row.launch) for row in rows)
    if wrong:
        yield Notice(
            "warning",
            f"Registers, shared memory or dimensions of {wrong:,} of {len(rows):,} kernels are more than any GPU has: "
            "the profiler wrote memory that it had not set. They are left out.",
        )


def _garbled(launch: Launch) -> bool:
    return kernel_launch.credible(launch)._replace(occupancy=None) != launch._replace(occupancy=None)


def _missed(rows: Sequence[Row], share: float) -> Notice:
    first = next(row for row in rows if row.misses)
    worst, units = first.kernel, tensor_cores.units_of(first.vendor)
    return Notice(
        "recommendation",
        f"{100 * share:.1f} % of kernel time is in kernels without {units}, of ops that could use them; the "
        f"longest is {worst.name} of {worst.op or 'an unknown op'}. Half precision, or TF32, and sizes that are "
        "multiples of 8 let libraries choose kernels that do.",
    )


def _kernels_table(rows: Sequence[Row], total: int) -> pa.Table:
    launches = [kernel_launch.credible(row.launch) for row in rows]
    columns: dict[str, list[Any]] = {
        "host": [row.host for row in rows],
        "name": [row.kernel.name for row in rows],
        "op_name": [row.kernel.op or None for row in rows],
        "occurrences": [row.ps[0] for row in rows],
        "total_ps": [row.ps[1] for row in rows],
        "total_share": [_share(row.ps[1], total) for row in rows],
        "mean_ps": [row.ps[1] // row.ps[0] for row in rows],
        "min_ps": [row.ps[2] for row in rows],
        "max_ps": [row.ps[3] for row in rows],
        "uses_tensor_cores": [row.uses for row in rows],
        "could_use_tensor_cores": [row.could for row in rows],
        "registers_per_thread": [one.registers for one in launches],
        "shared_bytes": [one.shared for one in launches],
        "static_shared_bytes": [one.static_shared for one in launches],
        "dynamic_shared_bytes": [one.dynamic_shared for one in launches],
        "grid_dim": [_dim_text(one.grid) for one in launches],
        "block_dim": [_dim_text(one.block) for one in launches],
        "block_count": [_product(one.grid) for one in launches],
        "threads_per_block": [_product(one.block) for one in launches],
        "occupancy_percent": [one.occupancy for one in launches],
        "device_count": [row.devices for row in rows],
    }
    return pa.table(columns, schema=TABLES["kernels"].arrow())


def _share(part: int, total: int) -> float | None:
    """None where there is no time to share."""
    return part / total if total else None


def _dim_text(dim: Dim | None) -> str | None:
    return None if dim is None else f"{dim[0]},{dim[1]},{dim[2]}"


def _product(dim: Dim | None) -> int | None:
    """As far as 64 bits go; null beyond, where a capture makes no sense."""
    size = None if dim is None else dim[0] * dim[1] * dim[2]
    return size if size is not None and size < 2**63 else None


def _tensor_core_ps(rows: Sequence[Row]) -> int | None:
    uses = [row.uses for row in rows]
    return None if None in uses else sum(row.ps[1] for row, does in zip(rows, uses, strict=True) if does)


def _ops_table(rows: Sequence[Row], total: int) -> pa.Table:
    by_op: dict[str, list[Row]] = {}
    for row in rows:
        by_op.setdefault(row.kernel.op, []).append(row)
    ops = [(op, of_op, sum(row.ps[1] for row in of_op)) for op, of_op in by_op.items()]
    ops.sort(key=lambda op: (-op[2], op[0]))
    columns: dict[str, list[Any]] = {
        "op_name": [op or None for op, _, _ in ops],
        "kernel_count": [len({row.kernel.name for row in of_op}) for _, of_op, _ in ops],
        "occurrences": [sum(row.ps[0] for row in of_op) for _, of_op, _ in ops],
        "total_ps": [ps for _, _, ps in ops],
        "total_share": [_share(ps, total) for _, _, ps in ops],
        "tensor_core_ps": [_tensor_core_ps(of_op) for _, of_op, _ in ops],
        "could_use_tensor_cores": [any(row.could for row in of_op) for _, of_op, _ in ops],
    }
    return pa.table(columns, schema=TABLES["ops"].arrow())
