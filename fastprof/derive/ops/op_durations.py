"""Counts of op durations, from which percentiles over any number of devices are exact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fastprof.derive.ops.device_ops import list_device_planes
from fastprof.derive.ops.roofline_tables import find_event_ops
from fastprof.schema.columns import Int64s, find_runs, join_parts, reduce_runs, sort_rows
from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from fastprof.derive.ops.device_ops import OpHost

Key = tuple[int, str]
"""Program id and name of an op."""


@dataclass(frozen=True, slots=True, eq=False)
class OpDurations:
    """Durations of each op, sorted. ``op``: place in ``keys``; ``times``: number of occurrences with the duration."""

    keys: list[Key]
    op: Int64s
    duration_ps: Int64s
    times: Int64s


def count_op_durations(host: OpHost) -> OpDurations:
    """Count the durations of the ops of all devices of a host."""
    devices = [find_event_ops(host, plane) for plane in list_device_planes(host.raw)]
    parts = []
    for _, times, op, table in devices:
        known = op >= 0
        once = np.ones(int(known.sum()), np.int64)
        keys = list(zip(table.program_id.tolist(), table.name, strict=True))
        parts.append(OpDurations(keys, op[known].astype(np.int64), times.duration_ps[known], once))
    return merge_op_durations(parts)


def merge_op_durations(parts: Sequence[OpDurations]) -> OpDurations:
    """Merge counts of several devices or hosts, with a new number for each op."""
    numbers: dict[Key, int] = {}
    of_parts = [np.array([numbers.setdefault(key, len(numbers)) for key in part.keys], np.int64) for part in parts]
    op = join_parts(number[part.op] for number, part in zip(of_parts, parts, strict=True))
    duration, times = (join_parts(getattr(part, name) for part in parts) for name in ("duration_ps", "times"))
    order = sort_rows(op, duration)
    op, duration, times = op[order], duration[order], times[order]
    first = find_runs(op, duration)
    return OpDurations(list(numbers), op[first], duration[first], reduce_runs(np.add, times, first))
