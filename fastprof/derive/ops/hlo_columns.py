"""The columns of the tables of HLO statistics and of the roofline, made of a table of ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.derive.ops.ceilings import known_bytes, known_flops
from fastprof.derive.ops.framework import framework_name
from fastprof.derive.ops.op_columns import Columns, known, texts
from fastprof.derive.ops.ranking import Ranked
from fastprof.derive.ops.roofline import divided, moved_bytes
from fastprof.derive.ops.tables import (
    FROM_CAPTURE,
    FROM_HLO,
    SPARSE_CORE,
    TENSOR_CORE,
    OpTable,
)
from fastprof.derive.ops.transfers import waits
from fastprof.schema.array_types import Float64s

Title = Callable[[int], str | None]
"""How the capture lists a program, by its id."""

CORE_TYPES: Final = {TENSOR_CORE: "TensorCore", SPARSE_CORE: "SparseCore"}
SOURCES: Final = {FROM_CAPTURE: "capture", FROM_HLO: "hlo"}


def identity_columns(table: OpTable, title: Title) -> Columns:
    return {
        "program_id": table.program_id,
        "program": program_titles(table, title),
        "category": table.category,
        "name": table.name,
        "core_type": [CORE_TYPES.get(code) for code in table.core_type.tolist()],
    }


def program_titles(table: OpTable, title: Title) -> list[str | None]:
    distinct = {number: title(number) for number in np.unique(table.program_id).tolist()}
    return [distinct[number] for number in table.program_id.tolist()]


def min_ps(table: OpTable) -> pa.Array:
    """The shortest occurrence, which only TPUs record."""
    return pa.array(table.min_ps, mask=table.core_type == 0)


def columns_of_tpus(table: OpTable) -> Columns:
    """Times that only TPUs record."""
    elsewhere = table.core_type == 0
    return {
        "normalized_ps": pa.array(table.normalized_ps, mask=elsewhere),
        "dma_stall_ps": pa.array(table.dma_stall_ps, mask=elsewhere),
    }


def energy(table: OpTable) -> pa.Array:
    return pa.array(table.energy_j, mask=table.energy_j == 0)


def time_columns(ops: Ranked) -> Columns:
    table = ops.table
    mean = table.time_ps // np.maximum(table.occurrences, 1)
    return {
        "occurrences": table.occurrences,
        "executions": table.executions,
        "total_ps": table.time_ps,
        "mean_ps": pa.array(mean, mask=table.occurrences <= 0),
        "min_ps": min_ps(table),
        "self_ps": table.self_ps,
        "self_share": known(ops.self_share),
        "cumulative_self_share": known(ops.cumulative_self_share),
        "busy_share": known(ops.busy_share),
    }


def work_columns(table: OpTable) -> Columns:
    """Work and where it is told."""
    no_flops, no_bytes = ~known_flops(table), ~known_bytes(table)
    return {
        "flops": pa.array(table.flops, mask=no_flops),
        "model_flops": pa.array(table.model_flops, mask=no_flops),
        "accessed_bytes": pa.array(table.bytes_accessed, mask=no_bytes),
        "flops_source": [SOURCES.get(code) for code in table.flops_source.tolist()],
        "bytes_source": [SOURCES.get(code) for code in table.bytes_source.tolist()],
    }


def rate_columns(table: OpTable) -> Columns:
    flops = np.where(known_flops(table), table.flops, np.nan)
    model = np.where(known_flops(table), table.model_flops, np.nan)
    moved = np.where(known_bytes(table), table.bytes_accessed, np.nan)
    return {
        "flops_per_s": per_s(flops, table.time_ps),
        "model_flops_per_s": per_s(model, table.time_ps),
        "bytes_per_s": per_s(np.where(waits(table), np.nan, moved), table.time_ps),
        "flops_per_byte": per(flops, moved),
    }


def memory_columns(table: OpTable) -> Columns:
    """Bytes and rate of each memory."""
    columns: Columns = {}
    told, waiting = known_bytes(table), waits(table)
    for column, size in moved_bytes(table).items():
        known_size = np.where(told, size, np.nan)
        columns[f"{column}_bytes"] = known(known_size)
        columns[f"{column}_bytes_per_s"] = per_s(np.where(waiting, np.nan, known_size), table.time_ps)
    return columns


def source_columns(table: OpTable) -> Columns:
    return {
        "framework_op": [framework_name(text) for text in table.provenance],
        "source": [
            None if not file else f"{file}:{line}" if line >= 0 else file
            for file, line in zip(table.source_file, table.source_line.tolist(), strict=True)
        ],
    }


def expressions(table: OpTable) -> list[str | None]:
    return texts(table.long_name)


def per_s(amount: Float64s, time_ps: npt.NDArray[Any]) -> pa.Array:
    """Amounts by second; null where either is not known or the time is 0."""
    return known(np.where(time_ps > 0, divided(amount * 1e12, time_ps), np.nan))


def per(amount: Float64s, by: Float64s) -> pa.Array:
    """Null where either is not known or ``by`` is 0."""
    return known(np.where(by > 0, divided(amount, by), np.nan))
