"""How much op time is spent in ops of unknown work: where much is, sums of work are too low to be shares of peaks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from fastprof.derive.ops.ceilings import is_container, known_bytes, known_flops
from fastprof.derive.ops.kernel_names import MEMSET
from fastprof.derive.ops.transfers import waits
from fastprof.schema.array_types import Bools

if TYPE_CHECKING:
    from fastprof.derive.ops.tables import OpTable


MOST_UNKNOWN: Final = 0.1
"""If more than this share of op time has unknown work, sums of work are not shown as shares of peaks."""
TOO_MUCH: Final = "the work of more than 10 % of the time of ops is not known"
_NAMED = 2


def unknown(table: OpTable) -> tuple[Bools, Bools]:
    """Ops whose flops, and ops whose bytes are not known, though they did some. An op that runs others does none of its
    own, copies do no arithmetic, and the bytes of transfers go over a link."""
    works: Bools = ~(is_container(table) | (table.time_ps > table.self_ps) | waits(table))
    copies = np.array([one == MEMSET or one.startswith("copy") for one in table.category], bool)
    return works & ~copies & ~known_flops(table), works & ~known_bytes(table)


def unknown_shares(table: OpTable) -> tuple[float, float]:
    """Shares of self time: of ops with unknown flops, and of ops with unknown bytes."""
    whole = float(table.self_ps.sum(dtype=np.float64))
    if whole <= 0:
        return 0.0, 0.0
    flops, moved = (float(table.self_ps[chosen].sum(dtype=np.float64)) / whole for chosen in unknown(table))
    return flops, moved


def remarks_on_unknown(table: OpTable) -> Iterator[tuple[str, str]]:
    """A remark where shares of peaks are unknown: its severity and a sentence."""
    whole = float(table.self_ps.sum(dtype=np.float64))
    missing = dict(zip(("arithmetic", "memory traffic"), unknown(table), strict=True))
    shares = {name: float(table.self_ps[chosen].sum(dtype=np.float64)) / whole if whole > 0 else 0.0
              for name, chosen in missing.items()}  # fmt: skip
    large = [name for name, share in shares.items() if share > MOST_UNKNOWN]
    if not large:
        return
    parts = " and ".join(f"the {name} of {100 * shares[name]:.1f} %" for name in large)
    chosen = np.logical_or.reduce([missing[name] for name in large])
    order = np.argsort(-np.where(chosen, table.self_ps, -1), kind="stable")[:_NAMED].tolist()
    names = ", ".join(short(table.name[row]) for row in order if chosen[row])
    yield (
        "warning",
        f"Shares of the peaks are unknown: {parts} of op time is not known (most of it: {names}).",
    )


def short(name: str) -> str:
    """The name of an op for a sentence: names of template kernels are very long."""
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST // 2]}\u2026{name[-_LONGEST // 2 + 1 :]}"


_LONGEST: Final = 60
