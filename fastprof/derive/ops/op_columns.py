"""Columns that the tables of ops share: times, shares, work and rates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.derive.ops.ranking import Ranked
from fastprof.derive.ops.roofline import UNKNOWN, Rates, rates

if TYPE_CHECKING:
    from fastprof.derive.devices.devices import Peaks

Columns = dict[str, Any]


def known(values: npt.NDArray[Any]) -> pa.Array:
    """Doubles, null where they are NaN."""
    return pa.array(values.astype(np.float64), from_pandas=True)


def texts(values: list[str]) -> list[str | None]:
    """Null where they are empty."""
    return [value or None for value in values]


def time_columns(ops: Ranked) -> Columns:
    """How often and how long, and what share that is."""
    table = ops.table
    mean = table.time_ps // np.maximum(table.occurrences, 1)
    return {
        "rank": np.arange(1, len(ops) + 1),
        "occurrences": table.occurrences,
        "executions": table.executions,
        "total_ps": table.time_ps,
        "mean_ps": pa.array(mean, mask=table.occurrences <= 0),
        "self_ps": table.self_ps,
        "self_share": known(ops.self_share),
        "cumulative_self_share": known(ops.cumulative_self_share),
        "busy_share": known(ops.busy_share),
        "cumulative_busy_share": known(ops.cumulative_busy_share),
    }


def work_columns(ops: Ranked, peaks: Peaks | None, unknown: npt.NDArray[np.bool_]) -> Columns:
    """What ops of devices did, and at what rate; null where it is ``unknown``."""
    table = ops.table
    found = rates(table, peaks)
    timeless, traceless = unknown | (table.time_ps == 0), unknown | (table.bytes_accessed == 0)
    return {
        "flops": pa.array(table.flops, mask=unknown),
        "model_flops": pa.array(table.model_flops, mask=unknown),
        "accessed_bytes": pa.array(table.bytes_accessed, mask=unknown),
        "flops_per_s": known(np.where(timeless, np.nan, found.gflops * 1e9)),
        "model_flops_per_s": known(np.where(timeless, np.nan, found.model_gflops * 1e9)),
        "bytes_per_s": known(np.where(timeless, np.nan, found.gigabytes * 1e9)),
        "flops_per_byte": known(np.where(traceless, np.nan, found.intensity)),
        "bound_by": _bounds(found, unknown),
    }


def _bounds(found: Rates, unknown: npt.NDArray[np.bool_]) -> list[str | None]:
    told = zip(found.bound_by, unknown.tolist(), strict=True)
    return [None if is_unknown or bound == UNKNOWN else bound for bound, is_unknown in told]


def no_work(count: int) -> Columns:
    """The columns of work, of ops on hosts: null."""
    names = ("flops", "model_flops", "accessed_bytes", "flops_per_s", "model_flops_per_s", "bytes_per_s")
    columns: Columns = {name: pa.nulls(count, pa.float64()) for name in (*names, "flops_per_byte")}
    return columns | {"bound_by": [None] * count}
