"""Ops by what they have in common."""

from __future__ import annotations

from typing import Any

from hand_made import ops

from fastprof.derive.ops.op_columns import GROUP_TIMES, GROUP_WORK, OpGroups, group_ops
from fastprof.derive.ops.op_table import FROM_CAPTURE, Ops
from fastprof.schema.tables import Column, TableSchema


def some() -> Ops:
    sources = {"flops_source": FROM_CAPTURE, "bytes_source": FROM_CAPTURE}
    return ops(
        {"name": "a", "self_ps": 1_000, "occurrences": 2, "flops": 10.0, "bytes_accessed": 4.0, **sources},
        {"name": "b", "self_ps": 5_000, "occurrences": 1},
        {"name": "c", "self_ps": 2_000, "occurrences": 1, "flops": 20.0, "bytes_accessed": 0.0, **sources},
        {"name": "d", "self_ps": 1_000, "occurrences": 3},
        total_ps=18_000,
    )


def by_letter() -> OpGroups[str]:
    return group_ops(some(), ["x", "y", "x", "x"])


def columns(chosen: tuple[Column, ...], groups: OpGroups[Any]) -> dict[str, list[Any]]:
    listed: dict[str, list[Any]] = TableSchema("groups", "a group", chosen).of(groups).to_pydict()
    return listed


def test_groups_come_by_self_time_with_their_shares() -> None:
    assert by_letter().keys == ["y", "x"]
    assert columns(GROUP_TIMES, by_letter()) == {
        "op_count": [1, 3],
        "occurrences": [1, 6],
        "executions": [1, 6],
        "self_ps": [5_000, 4_000],
        "self_share": [5 / 18, 4 / 18],
        "busy_share": [5 / 9, 4 / 9],
    }


def test_rates_are_those_of_the_ops_that_record_their_work() -> None:
    work = columns(GROUP_WORK, by_letter())
    assert work["flops"] == [None, 30.0] and work["accessed_bytes"] == [None, 4.0]
    assert work["flops_per_s"] == [None, 30.0 / 3e-9]
    assert work["unknown_work_ps"] == [5_000, 1_000]


def test_nothing_makes_no_group() -> None:
    nothing = group_ops(ops(), [])
    assert nothing.keys == [] and columns(GROUP_TIMES, nothing)["self_ps"] == []
