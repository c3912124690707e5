"""How fast ops ran, by arithmetic and by memory, and what they are bound by to XProf."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from fastprof.derive.ops.tables import (
    CMEM,
    READ,
    VMEM,
    WRITE,
    OpTable,
)
from fastprof.schema.array_types import Float64s
from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from fastprof.derive.devices.devices import Peaks

GIBI: Final = 2**30 / 1e9
"""Gigabytes in a gibibyte."""

COMPUTE, HBM_BOUND, SHARED, UNKNOWN = "Compute", "HBM", "Shm/L1", "Unknown"


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory, or one direction of it. ``place``: of its peak among the bandwidths of a device."""

    name: str
    column: str
    place: int
    space: int = 0
    operation: int = 0
    """0: both directions."""


HBM_MEMORY: Final = Memory(HBM_BOUND, "hbm", 0)
ON_CHIP: Final = (
    Memory("CMEM Read", "cmem_read", 3, CMEM, READ),
    Memory("CMEM Write", "cmem_write", 4, CMEM, WRITE),
    Memory("VMEM Read", "vmem_read", 5, VMEM, READ),
    Memory("VMEM Write", "vmem_write", 6, VMEM, WRITE),
)
MEMORIES: Final = (HBM_MEMORY, *ON_CHIP)


@dataclass(frozen=True, slots=True)
class Rates:
    """Of each op; 0 if the divisor is 0. Rates are over total time, not self time."""

    gflops: Float64s
    model_gflops: Float64s
    gigabytes: Float64s
    """Bytes per nanosecond: 10**9 bytes a second."""
    intensity: Float64s
    """Flops per byte."""
    bound_by: list[str]
    bound_intensity: Float64s
    """Flops per byte of the memory that it is bound by; if that is arithmetic, of all bytes."""
    memory: Mapping[str, Float64s]
    """Bytes per nanosecond by ``Memory.column``."""
    memory_intensity: Mapping[str, Float64s]
    """Flops per byte by ``Memory.column``."""


def divided(a: npt.NDArray[np.generic], b: npt.NDArray[np.generic]) -> Float64s:
    """a / b, 0 if b is 0."""
    result: Float64s = np.divide(a, b, out=np.zeros(len(a)), where=np.asarray(b) != 0)
    return result


def moved_bytes(table: OpTable) -> dict[str, Float64s]:
    """Bytes of each op by ``Memory.column``; those of an op whose memories are unknown are HBM's."""
    on_chip = {one.column: table.moved_bytes(one.space, one.operation) for one in ON_CHIP}
    return {HBM_MEMORY.column: table.hbm_bytes(), **on_chip}


def rates(table: OpTable, peaks: Peaks | None) -> Rates:
    """``peaks``: of the device that the ops ran on; None: nothing is known of it, so neither what ops are bound by."""
    ns = table.time_ps / 1e3
    gflops = divided(table.flops, ns)
    intensity = divided(table.flops, table.bytes_accessed)
    moved = moved_bytes(table)
    memory = {column: divided(size, ns) for column, size in moved.items()}
    of_memory = {column: divided(table.flops, size) for column, size in moved.items()}
    bound_by, bound_intensity = _bounds(gflops, intensity, memory, of_memory, peaks)
    return Rates(
        gflops,
        divided(table.model_flops, ns),
        divided(table.bytes_accessed, ns),
        intensity,
        bound_by,
        bound_intensity,
        memory,
        of_memory,
    )


def _bounds(
    gflops: Float64s,
    intensity: Float64s,
    memory: Mapping[str, Float64s],
    of_memory: Mapping[str, Float64s],
    peaks: Peaks | None,
) -> tuple[list[str], Float64s]:
    """The resource that each op came nearest to exhaust, of equal ones the first, and its flops per byte there."""
    best = np.zeros(len(gflops), np.int64)
    most, found = np.zeros(len(gflops)), np.zeros(len(gflops))
    if peaks is None:
        return [UNKNOWN] * len(gflops), found
    bandwidth = [*peaks.bandwidths_gb_per_s, *[0.0] * 7]
    hbm, hbm_intensity = memory[HBM_MEMORY.column], of_memory[HBM_MEMORY.column]
    shares = [
        (COMPUTE, _share(gflops, peaks.teraflops_per_s * 1e3), intensity),
        (HBM_BOUND, _share(hbm, bandwidth[0]), hbm_intensity),
    ]
    if peaks.hardware == "TPU":
        shares += [
            (one.name, _share(memory[one.column], bandwidth[one.place]), of_memory[one.column]) for one in ON_CHIP
        ]
    elif peaks.hardware == "GPU":
        shares.append((SHARED, _share(hbm, bandwidth[2]), hbm_intensity))
    for number, (_, share, per_byte) in enumerate(shares, 1):
        higher = share > most
        best[higher], most[higher], found[higher] = number, share[higher], per_byte[higher]
    names = [UNKNOWN, *(name for name, _, _ in shares)]
    return [names[number] for number in best.tolist()], found


def _share(rate: Float64s, peak: float) -> Float64s:
    return rate / peak if peak > 0 else np.zeros(len(rate))
