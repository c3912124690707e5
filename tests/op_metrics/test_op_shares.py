"""Shares of op time."""

from __future__ import annotations

import pytest
from hand_made import ops

from fastprof.derive.ops import op_table
from fastprof.derive.ops.op_table import sort_by_self_time


def test_the_largest_self_time_comes_first_then_the_name() -> None:
    table = ops({"name": "b", "self_ps": 1}, {"name": "c", "self_ps": 5}, {"name": "a", "self_ps": 1}).table
    assert sort_by_self_time(table).name == ["c", "a", "b"]


def test_eager_ops_are_a_share_of_self_time() -> None:
    table = ops({"name": "a", "self_ps": 1, "is_eager": True}, {"name": "b", "self_ps": 3}).table
    assert op_table.measure_eager_percent(table) == 25
    assert op_table.measure_eager_percent(ops({"name": "a"}).table) is None


@pytest.mark.parametrize(
    ("provenance", "long_name", "percent"),
    [
        ("scope/op:XlaSendToHost", "", 50),
        ("scope/op:XlaRecvFromHost", "", 50),
        ("scope/op:Add", "%send-done = send-done(%x), is_host_transfer=true", 50),
        ("scope/op:Add", "%send-done = send-done(%x), is_host_transfer=false", 0),
        ("scope/op:XlaSendToHost2", "is_host_transfer=true", 0),
    ],
)
def test_ops_that_send_to_the_host_or_receive_from_it_are_outside_compilation(
    provenance: str, long_name: str, percent: float
) -> None:
    table = ops(
        {"name": "a", "self_ps": 2, "provenance": provenance, "long_name": long_name}, {"name": "b", "self_ps": 2}
    )
    assert op_table.measure_outside_compilation_percent(table.table) == percent
