"""Kernels of GPUs that agree in name, op, launch configuration and use of Tensor Cores, as rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from fastprof.derive.devices import tensor_cores
from fastprof.derive.devices.kernel_launch import Dim, Launch
from fastprof.derive.devices.nothing_ran import NothingRan
from fastprof.derive.devices.precision import is_narrow

NO_OPS: Final = ("", "(null)", "XlaModule", "XlaModule:")
"""What is written if no op of a framework is known: XLA writes so on all kernels."""


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
    kernel runs on matrix units; None: its name does not show it; ``op_could``: whether its
    op could. ``kernel`` has both by the recorded vendor alone. ``kind``, ``fusible``: see derive/ops/elementwise.py.
    ``precision``: the type of the numbers that it computes with; None: unknown.
    ``ps``: count, total, minimum and maximum of its durations; ``ns``: the same in whole nanoseconds, as XProf adds
    them up, which leaves out durations of 0. ``detailed``: whether anything is recorded of its launch, without which
    XProf knows no kernel."""

    host: str
    kernel: Kernel
    launch: Launch
    vendor: str | None
    uses: bool | None
    op_could: bool
    kind: int
    devices: int
    fusible: int
    precision: str | None
    ps: tuple[int, int, int, int]
    ns: tuple[int, int, int, int]
    detailed: bool

    @property
    def op(self) -> str:
        """The framework op that launched it; "": unknown."""
        return "" if self.kernel.op in NO_OPS else self.kernel.op

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


class PrecisionTimes(NamedTuple):
    """Time of kernels that compute in 16 bits or fewer, in more, and whose precision is unknown."""

    narrow_ps: int = 0
    wide_ps: int = 0
    unknown_ps: int = 0

    @property
    def to_judge(self) -> tuple[int, int]:
        """Narrow and wide; nothing if the precision of most of the time is unknown."""
        known = self.narrow_ps + self.wide_ps
        return (self.narrow_ps, self.wide_ps) if known >= self.unknown_ps else (0, 0)

    @property
    def percents(self) -> tuple[float | None, float | None, float | None]:
        """Of the time of all kernels; None: see why_unknown."""
        total = sum(self)
        if not total:
            return None, None, None
        unknown = 100 * self.unknown_ps / total
        if self.unknown_ps == total:
            return None, None, unknown
        return 100 * self.narrow_ps / total, 100 * self.wide_ps / total, unknown

    @property
    def why_unknown(self) -> str:
        if self.unknown_ps:
            return "neither names of kernels nor their programs show it"
        return NothingRan("no GPU kernel was seen, and of other devices the precision is not recorded")


def precision_times(rows: Sequence[Row]) -> PrecisionTimes:
    times = [0, 0, 0]
    for row in rows:
        times[2 if row.precision is None else not is_narrow(row.precision)] += row.ps[1]
    return PrecisionTimes(*times)


def by_op(rows: Sequence[Row]) -> list[tuple[str, list[Row], int]]:
    """Ops with their kernels and the time of these, longest first."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.op, []).append(row)
    ops = [(op, of_op, sum(row.ps[1] for row in of_op)) for op, of_op in found.items()]
    return sorted(ops, key=lambda op: (-op[2], op[0]))


def longest_kernel(rows: Sequence[Row]) -> tuple[str, int] | None:
    """The name with the most time, over ops and launch configurations, and its time; None: there is none."""
    time: Counter[str] = Counter()
    for row in rows:
        time[row.kernel.name] += row.ps[1]
    return next(iter(time.most_common(1)), None)
