"""The launch configuration of a GPU kernel, as the stat kernel_details writes it.

    regs:32 static_shared:0 dynamic_shared:1024 grid:8,1,1 block:128,1,1 occ_pct:50       Nvidia, AMD
    grid:256,1,1 block:256,1,1 private_mem:0 group_mem:2048 occ_pct:0                     newer ROCm
    regs:32 group_mem:0 grid:8,1,1 block:128,1,1 est_occ_pct:7                            made of PyTorch's traces,
    … blocks_per_sm:0.07 warps_per_sm:0.3                                                 which may have these, too

Some profilers write memory that they never set: TensorFlow up to 2.4, ROCm before ``group_mem``.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from fastprof.wording.patterns import pattern_of

Dim = tuple[int, int, int]

_SEPARATORS = pattern_of("[ \n]")
_NUMBER = pattern_of(r"\s*\+?[0-9]{1,20}\s*", re.ASCII)
_MOST = 2**32 - 1

MOST_REGISTERS = 1024
MOST_SHARED = 2**20
MOST_THREADS = 1024
MOST_BLOCKS = 2**31 - 1
"""More than any GPU has: registers of a thread, bytes of shared memory and threads of a block, blocks along an axis."""


class Launch(NamedTuple):
    """Registers of a thread; bytes of shared memory that the kernel declares, that its launch adds, and (ROCm) both;
    blocks of the grid; threads of a block; warps that fit on a multiprocessor in percent of those that it holds, and an
    estimate for the launch, whose grid may be smaller; blocks and warps of the grid for each multiprocessor of the
    device. None: not recorded."""

    registers: int | None = None
    static_shared: int | None = None
    dynamic_shared: int | None = None
    group_shared: int | None = None
    grid: Dim | None = None
    block: Dim | None = None
    occupancy: float | None = None
    estimated_occupancy: float | None = None
    blocks_per_sm: float | None = None
    warps_per_sm: float | None = None

    @property
    def shared(self) -> int | None:
        """Shared memory of a block in bytes, as far as it is recorded."""
        if self.static_shared is None and self.dynamic_shared is None:
            return self.group_shared
        return (self.static_shared or 0) + (self.dynamic_shared or 0)


def parse(details: str) -> Launch:
    """Reads the text. Tokens that make no sense are ignored; of several with one name the last counts."""
    found: dict[str, int | float | Dim] = {}
    for token in _SEPARATORS.split(details):
        key, _, text = token.partition(":")
        if key in _FIELDS:
            field, read = _FIELDS[key]
            value = read(text)
            if value is not None:
                found[field] = value
    return Launch(**found)  # type: ignore[arg-type]


def credible(launch: Launch) -> Launch:
    """Drop figures that no kernel on any GPU has, such as a theoretical occupancy of 0. They come from memory that
    was not set: if registers or shared memory are wrong, neither they nor the occupancy are trusted. ``occupancy`` is
    the estimate if there is one: 0 if rounded so, negative if the profiler does not know the device."""
    registers, static, dynamic, group, grid, block, occupancy, estimate, blocks, warps = launch
    if estimate is not None:
        occupancy = estimate if estimate >= 0 else None
    elif occupancy == 0:
        occupancy = None
    sound = (registers or 0) <= MOST_REGISTERS and (launch.shared or 0) <= MOST_SHARED
    return Launch(
        registers if sound else None,
        static if sound else None,
        dynamic if sound else None,
        group if sound else None,
        grid if grid is not None and min(grid) > 0 and max(grid) <= MOST_BLOCKS else None,
        block if block is not None and 0 < math.prod(block) <= MOST_THREADS else None,
        occupancy if sound and occupancy is not None and 0 <= occupancy <= 100 else None,
        blocks_per_sm=blocks if blocks is not None and blocks > 0 else None,
        warps_per_sm=warps if warps is not None and warps > 0 else None,
    )


def is_garbled(launch: Launch) -> bool:
    """Return whether registers, shared memory or dimensions are incredible."""
    no_occupancy = dict.fromkeys(("occupancy", "estimated_occupancy", "blocks_per_sm", "warps_per_sm"))
    return credible(launch)._replace(**no_occupancy) != launch._replace(**no_occupancy)


def _integer(text: str) -> int | None:
    if not _NUMBER.fullmatch(text):
        return None
    value = int(text)
    return value if value <= _MOST else None


def _dim(text: str) -> Dim | None:
    parts = [value for value in map(_integer, text.split(",")) if value is not None]
    return (parts[0], parts[1], parts[2]) if len(parts) == text.count(",") + 1 == 3 else None


def _real(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in text else None


_FIELDS = {
    "regs": ("registers", _integer),
    "static_shared": ("static_shared", _integer),
    "dynamic_shared": ("dynamic_shared", _integer),
    "group_mem": ("group_shared", _integer),
    "grid": ("grid", _dim),
    "block": ("block", _dim),
    "occ_pct": ("occupancy", _real),
    "est_occ_pct": ("estimated_occupancy", _real),
    "blocks_per_sm": ("blocks_per_sm", _real),
    "warps_per_sm": ("warps_per_sm", _real),
}
