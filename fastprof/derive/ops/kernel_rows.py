"""Kernels of GPUs that agree in name, op, launch configuration and use of Tensor Cores, as rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from fastprof.derive.devices import tensor_cores
from fastprof.derive.devices.kernel_launch import Dim, Launch


class Kernel(NamedTuple):
    """What distinguishes kernels of a host, and orders rows of equal totals. What is not recorded is 0, dimensions
    1, an op the empty text."""

    name: str
    grid: Dim
    block: Dim
    registers: int
    static_shared: int
    dynamic_shared: int
    uses: bool
    could: bool
    op: str


class Row(NamedTuple):
    """A kernel of a host. ``vendor``: who made the GPU, as recorded or as other facts show; ``uses``: whether the
    kernel runs on matrix units; None: of the vendor's kernels, those that do are unknown; ``op_could``: whether its
    op could. ``kernel`` has both by the recorded vendor alone. ``kind``, ``fusible``: see derive/ops/elementwise.py.
    ``ps``: count, total, minimum and maximum of its durations; ``ns``: the same in whole nanoseconds, as XProf adds
    them up."""

    host: str
    kernel: Kernel
    launch: Launch
    vendor: str | None
    uses: bool | None
    op_could: bool
    kind: int
    devices: int
    fusible: int
    ps: tuple[int, int, int, int]
    ns: tuple[int, int, int, int]

    @property
    def could(self) -> bool:
        return self.op_could and (bool(self.uses) or not tensor_cores.only_moves(self.kernel.name))

    @property
    def misses(self) -> bool:
        """It does not run on matrix units, which is known, and could."""
        return self.could and self.uses is False


def tensor_core_ps(rows: Sequence[Row]) -> int | None:
    uses = [row.uses for row in rows]
    return None if None in uses else sum(row.ps[1] for row, does in zip(rows, uses, strict=True) if does)


def by_op(rows: Sequence[Row]) -> list[tuple[str, list[Row], int]]:
    """Ops with their kernels and the time of these, longest first."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.kernel.op, []).append(row)
    ops = [(op, of_op, sum(row.ps[1] for row in of_op)) for op, of_op in found.items()]
    return sorted(ops, key=lambda op: (-op[2], op[0]))


def longest_kernel(rows: Sequence[Row]) -> tuple[str, int] | None:
    """The name with the most time, over ops and launch configurations, and its time; None: there is none."""
    time: Counter[str] = Counter()
    for row in rows:
        time[row.kernel.name] += row.ps[1]
    return next(iter(time.most_common(1)), None)
