"""How fast ops ran, against what the device can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from fastprof.op_metrics.tables import CMEM, READ, VMEM, WRITE, Float64s, OpTable

if TYPE_CHECKING:
    from fastprof.devices import Peaks

GIBI: Final = 2**30 / 1e9
"""Gigabytes in a gibibyte."""

COMPUTE, HBM_BOUND, SHARED, UNKNOWN = "Compute", "HBM", "Shm/L1", "Unknown"
_ON_CHIP: Final = (
    ("CMEM Read", CMEM, READ, 3),
    ("CMEM Write", CMEM, WRITE, 4),
    ("VMEM Read", VMEM, READ, 5),
    ("VMEM Write", VMEM, WRITE, 6),
)
"""Name, memory space, direction, and place of the peak among those of the device."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Of each op; 0 where the divisor is 0. Rates are over total time, not self time."""

    gflops: Float64s
    model_gflops: Float64s
    gigabytes: Float64s
    """Bytes per nanosecond: 10**9 bytes a second."""
    intensity: Float64s
    """Flops per byte."""
    bound_by: list[str]


def divided(a: npt.NDArray[np.generic], b: npt.NDArray[np.generic]) -> Float64s:
    """a / b, 0 where b is 0."""
    result: Float64s = np.divide(a, b, out=np.zeros(len(a)), where=np.asarray(b) != 0)
    return result


def rates(table: OpTable, peaks: Peaks | None) -> Rates:
    """``peaks``: of the device that the ops ran on; None: nothing is known of it, so neither what ops are bound by."""
    ns = table.time_ps / 1e3
    gflops = divided(table.flops, ns)
    return Rates(
        gflops,
        divided(table.model_flops, ns),
        divided(table.bytes_accessed, ns),
        divided(table.flops, table.bytes_accessed),
        _bound_by(table, gflops, ns, peaks),
    )


def _bound_by(table: OpTable, gflops: Float64s, ns: Float64s, peaks: Peaks | None) -> list[str]:
    """The resource that an op came nearest to exhaust; of equal ones the first."""
    if peaks is None:
        return [UNKNOWN] * len(table)
    bandwidth = [*peaks.bandwidths_gb_per_s, *[0.0] * 7]
    hbm = divided(table.hbm_bytes(), ns)
    shares = [(COMPUTE, _share(gflops, peaks.teraflops_per_s * 1e3)), (HBM_BOUND, _share(hbm, bandwidth[0]))]
    if peaks.hardware == "TPU":
        for name, space, operation, place in _ON_CHIP:
            moved = divided(table.moved_bytes(space, operation), ns)
            shares.append((name, _share(moved, bandwidth[place])))
    elif peaks.hardware == "GPU":
        shares.append((SHARED, _share(hbm, bandwidth[2])))
    best, most = np.zeros(len(table), np.int64), np.zeros(len(table))
    for number, (_, share) in enumerate(shares, 1):
        higher = share > most
        best[higher], most[higher] = number, share[higher]
    names = [UNKNOWN, *(name for name, _ in shares)]
    return [names[number] for number in best.tolist()]


def _share(rate: Float64s, peak: float) -> Float64s:
    return rate / peak if peak > 0 else np.zeros(len(rate))
