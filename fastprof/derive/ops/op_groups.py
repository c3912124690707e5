"""Ops by what they have in common, the largest self time first, and the columns of tables of such groups."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.derive.ops.ceilings import known_bytes, known_flops
from fastprof.derive.ops.op_columns import Amount, ByteRate, FlopRate, Flops, known, per_s
from fastprof.derive.ops.tables import Ops, OpTable, sums_by
from fastprof.derive.ops.transfers import once
from fastprof.schema.array_types import Bools, Float64s, Int64s
from fastprof.schema.column_kinds import Count, Picoseconds, Share
from fastprof.schema.tables import Formula

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, eq=False)
class Grouped(Generic[K]):
    """``keys``: of the groups, largest self time first, then as they are met; ``group``: the place of the group of each
    op."""

    keys: list[K]
    group: Int64s
    ops: Ops

    @property
    def table(self) -> OpTable:
        return self.ops.table

    @cached_property
    def knows_flops(self) -> Bools:
        return known_flops(self.table)

    @cached_property
    def knows_bytes(self) -> Bools:
        return known_bytes(self.table)

    @cached_property
    def flops(self) -> Float64s:
        return self.known_sums(self.table.flops, self.knows_flops)

    @cached_property
    def bytes(self) -> Float64s:
        return self.known_sums(once(self.table).bytes_accessed, self.knows_bytes)

    def sums(self, values: Int64s) -> Int64s:
        return sums_by(self.group, values, len(self.keys))

    def self_ps(self, chosen: Bools) -> Int64s:
        """Self time of the chosen ops of each group."""
        return self.sums(np.where(chosen, self.table.self_ps, 0))

    def known_sums(self, amount: Float64s, is_known: npt.NDArray[np.bool_]) -> Float64s:
        """NaN for groups in which no op's amount is known."""
        count = len(self.keys)
        sums = np.bincount(self.group, np.where(is_known, amount, 0.0), count)
        return np.where(np.bincount(self.group, is_known, count) > 0, sums, np.nan)


def grouped(ops: Ops, keys: Sequence[K]) -> Grouped[K]:
    """``keys``: that of the group of each op."""
    numbers: dict[K, int] = {}
    place = np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
    self_ps = sums_by(place, ops.table.self_ps, len(numbers))
    order = np.argsort(-self_ps, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    names = list(numbers)
    return Grouped([names[one] for one in order.tolist()], rank[place], ops)


def key(place: int) -> Formula:
    """A part of the key of each group."""
    return lambda groups: [one[place] for one in groups.keys]


def _share(part: Int64s, total: int) -> pa.Array:
    return known(part / total if total > 0 else np.full(len(part), np.nan))


GROUP_TIMES: Final = (
    Count("op_count", "number of ops", lambda groups: np.bincount(groups.group, minlength=len(groups.keys))),
    Count("occurrences", "number of times that the ops ran; on GPUs the number of their kernels",
          lambda groups: groups.sums(groups.table.occurrences)),
    Count("executions", "number of executions of the ops; on GPUs an execution is one or more kernels",
          lambda groups: groups.sums(groups.table.executions)),
    Picoseconds("self_ps", "sum of the self times of the ops", lambda groups: groups.sums(groups.table.self_ps)),
    Share("self_share", "self_ps / self time of all ops and idle time; null: there is no such time",
          lambda groups: _share(groups.sums(groups.table.self_ps), groups.ops.shared_ps)),
    Share("busy_share", "self_ps / self time of all ops; null: no op took any time",
          lambda groups: _share(groups.sums(groups.table.self_ps), groups.ops.op_ps)),
)  # fmt: skip
GROUP_BYTES: Final = Amount(
    "accessed_bytes", "sum of the known bytes of ops, where the bytes of a transfer count once; null: none are known",
    lambda groups: known(groups.bytes),
)  # fmt: skip
GROUP_WORK: Final = (
    Flops("flops", "sum of the known flops of ops; null: none are known", lambda groups: known(groups.flops)),
    GROUP_BYTES,
    FlopRate("flops_per_s", "flops / self time of the ops whose flops are known; null: no flops are known, or these "
             "ops took no time", lambda groups: per_s(groups.flops, groups.self_ps(groups.knows_flops))),
    ByteRate("bytes_per_s", "accessed_bytes / self time of the ops whose bytes are known; null: no bytes are known, "
             "or these ops took no time", lambda groups: per_s(groups.bytes, groups.self_ps(groups.knows_bytes))),
    Picoseconds("unknown_work_ps", "self time of ops with neither known flops nor known bytes",
                lambda groups: groups.self_ps(~(groups.knows_flops | groups.knows_bytes))),
)  # fmt: skip
