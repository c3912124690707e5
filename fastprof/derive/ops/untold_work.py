"""How much of the time of ops is of ops whose work is not known: where that is much, sums of work are too low to be
told as shares of what the device can."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from fastprof.derive.ops.ceilings import is_container, known_bytes, known_flops
from fastprof.derive.ops.copies import MEMSET
from fastprof.derive.ops.transfers import waits
from fastprof.schema.array_types import Bools

if TYPE_CHECKING:
    from fastprof.derive.ops.tables import OpTable


MOST_UNTOLD: Final = 0.1
"""Share of the time of ops whose work may be unknown where a sum of work is told as a share of a peak."""
TOO_MUCH: Final = "the work of more than 10 % of the time of ops is not known"
_NAMED = 2


def untold(table: OpTable) -> tuple[Bools, Bools]:
    """Ops whose flops, and ops whose bytes are not known, though they did some. What runs other ops does none of its
    own; copies do no arithmetic; of transfers the bytes go over a link."""
    works: Bools = ~(is_container(table) | (table.time_ps > table.self_ps) | waits(table))
    copies = np.array([one == MEMSET or one.startswith("copy") for one in table.category], bool)
    return works & ~copies & ~known_flops(table), works & ~known_bytes(table)


def untold_shares(table: OpTable) -> tuple[float, float]:
    """Of self time: of ops whose flops, and of ops whose bytes are not known."""
    whole = float(table.self_ps.sum(dtype=np.float64))
    if whole <= 0:
        return 0.0, 0.0
    flops, moved = (float(table.self_ps[chosen].sum(dtype=np.float64)) / whole for chosen in untold(table))
    return flops, moved


def untold_remarks(table: OpTable) -> Iterator[tuple[str, str]]:
    """A remark where shares of peaks cannot be told: its severity and a sentence."""
    whole = float(table.self_ps.sum(dtype=np.float64))
    missing = dict(zip(("arithmetic", "memory traffic"), untold(table), strict=True))
    shares = {name: float(table.self_ps[chosen].sum(dtype=np.float64)) / whole if whole > 0 else 0.0
              for name, chosen in missing.items()}  # fmt: skip
    told = [name for name, share in shares.items() if share > MOST_UNTOLD]
    if not told:
        return
    parts = " and ".join(f"the {name} of {100 * shares[name]:.1f} %" for name in told)
    chosen = np.logical_or.reduce([missing[name] for name in told])
    order = np.argsort(-np.where(chosen, table.self_ps, -1), kind="stable")[:_NAMED].tolist()
    names = ", ".join(short(table.name[row]) for row in order if chosen[row])
    yield (
        "warning",
        f"Shares of the peaks are not told: {parts} of the time of ops is not known (most of it: {names}).",
    )


def short(name: str) -> str:
    """The name of an op for a sentence: those of kernels from templates take lines."""
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST // 2]}\u2026{name[-_LONGEST // 2 + 1 :]}"


_LONGEST: Final = 60
