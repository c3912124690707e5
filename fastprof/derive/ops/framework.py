"""Device ops by the framework op that they come from, and whether a program trains."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fastprof.derive.devices.op_names import Framework, parse_op_name
from fastprof.derive.ops.gpu_kernels import MEMSET
from fastprof.derive.ops.op_table import OpTable, merge_tables
from fastprof.derive.ops.roofline_model import find_unknown_work
from fastprof.schema.columns import Int64s

UNKNOWN = "Unknown"
"""Type of an op that records neither a type nor a category."""

CUSTOM_CALL = "custom-call"
"""Category of calls to code that XLA did not compile."""


def group_by_framework_op(table: OpTable, untyped: Sequence[str] | None = None) -> OpTable:
    """Return a row for each framework op, by first occurrence. Times, work and occurrences add up; an op is eager if
    one of its device ops is. A device op without provenance stands for itself.

    ``untyped``: by device op, the type of a framework op that records none, as those of TPUs often do; default: the
    category of the first of its device ops.
    """
    row, names, types = number_framework_ops(table, untyped)
    return replace(merge_tables([table], row, [(0, name) for name in names]), category=types)


def number_framework_ops(table: OpTable, untyped: Sequence[str] | None = None) -> tuple[Int64s, list[str], list[str]]:
    """Return, per device op, its row in ``group_by_framework_op``, and the names and types of these rows."""
    instead = table.category if untyped is None else untyped
    rows: dict[tuple[int, str], int] = {}
    types: list[str] = []
    row = np.zeros(len(table), np.int64)
    for i, (name, provenance) in enumerate(zip(table.name, table.provenance, strict=True)):
        op = parse_op_name(provenance) if provenance else None
        key = (0, name if op is None else op.name)
        row[i] = rows.setdefault(key, len(rows))
        if row[i] == len(types):
            types.append((op.type if op else "") or instead[i] or UNKNOWN)
        elif types[row[i]] == MEMSET and instead[i]:  # what an op clears first is not what it is
            types[row[i]] = instead[i]
    return row, [name for _, name in rows], types


def find_ops_without_work(table: OpTable) -> npt.NDArray[np.bool_]:
    """Mark device ops that took time without known work: library calls, and ops and kernels whose work neither the
    capture nor a program records."""
    calls = np.array(table.category, object) == CUSTOM_CALL
    calls |= np.logical_and(*find_unknown_work(table))
    bare: npt.NDArray[np.bool_] = (table.flops == 0) & (table.model_flops == 0) & (table.bytes_accessed == 0)
    return np.asarray(bare & calls & (table.self_ps > 0))


def list_names_without_work(table: OpTable) -> set[str]:
    """Return names of framework ops with any device op of unknown work."""
    rows = np.flatnonzero(find_ops_without_work(table)).tolist()
    return {parse_framework_name(table.provenance[row]) or table.name[row] for row in rows}


def parse_framework_name(provenance: str) -> str | None:
    """Return the name of the framework op that a device op comes from, or None if it is unknown."""
    return parse_op_name(provenance).name if provenance else None


def is_training_op(name: str, kind: str) -> bool:
    """Return whether an op belongs to backpropagation: to TensorFlow gradients or a JAX transposition."""
    framework = parse_op_name(f"{name}:{kind}").framework if kind else Framework.UNKNOWN
    scopes = name.split("/")
    if framework is Framework.TENSORFLOW:
        return any(scope == "gradient_tape" or scope.startswith("gradients") for scope in scopes[:-1])
    if not kind or (framework is Framework.JAX and kind.partition("[")[0] in scopes[-1]):
        return any(scope.startswith("transpose(") for scope in scopes)
    return False


def is_training(ops: Iterable[tuple[str, str]]) -> bool:
    """Return whether any of these ops, name and type, belongs to backpropagation."""
    return any(is_training_op(name, kind) for name, kind in ops)
