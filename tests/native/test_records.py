"""The structs that C and Python share have the same layouts on both sides."""

from __future__ import annotations

import numpy as np
import pytest

from fastprof._native import records, xspace
from fastprof._native.kernels import group_sums, nesting_lines

SHARED = {name: value for name, value in vars(records).items() if isinstance(value, np.dtype)}
BY_BEHAVIOUR = {"LINE_ROWS", "GROUP_SUM"}
"""Structs of the kernels, which the tests below read and write field by field."""


def test_every_struct_is_compared() -> None:
    assert set(SHARED) == set(xspace.SIZES) | BY_BEHAVIOUR
    assert len(SHARED) >= 13


@pytest.mark.parametrize("name", xspace.SIZES)
def test_sizes_are_those_of_c(name: str) -> None:
    assert SHARED[name].itemsize == xspace.SIZES[name]


@pytest.mark.parametrize("name", SHARED)
def test_fields_follow_each_other_without_gaps(name: str) -> None:
    """And lie where C aligns them, so that equal sizes mean equal places."""
    dtype = SHARED[name]
    assert dtype.fields is not None and dtype.names is not None
    end = 0
    for field in dtype.names:
        kind, offset = dtype.fields[field][:2]
        assert offset == end and offset % kind.itemsize == 0, field
        end = offset + kind.itemsize
    assert end == dtype.itemsize and end % 8 == 0


def test_group_sum_is_that_of_c() -> None:
    sums = np.zeros(3, records.GROUP_SUM)
    group_sums(np.array([2, 0, 2, -1, 2], np.int32), np.array([5, -7, 9, 100, 1]), sums)
    assert sums.tolist() == [(1, -7, -7, -7), (0, 0, 0, 0), (3, 15, 1, 9)]


def test_line_rows_are_those_of_c() -> None:
    """Two lines of two events, the second in the first; ids are those of the line."""
    lines = np.array([(0, 2, 100), (2, 4, 500)], records.LINE_ROWS)
    start, duration = np.array([0, 1, 0, 2]), np.array([10, 3, 10, 4])
    depth, parent, self_time = np.zeros(4, np.int32), np.zeros(4, np.int64), np.zeros(4, np.int64)
    nesting_lines(start, duration, None, lines, depth, parent, self_time)
    assert depth.tolist() == [0, 1, 0, 1]
    assert parent.tolist() == [-1, 100, -1, 500]
    assert self_time.tolist() == [7, 3, 6, 4]
