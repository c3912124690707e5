"""The compiled kernels of memory refuse columns that do not fit together, before C sees them."""

from __future__ import annotations

import numpy as np
import pytest

from fastprof._native import memory_kernels


def column(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


BYTES, LONGS = np.zeros(2, np.uint8), column(0, 0)
BOUNDS = column(0, 2)


@pytest.mark.parametrize("bounds", [column(), column(0), column(0, 3), column(1, 2), column(0, 2, 1, 2)])
def test_allocators_must_cover_the_events_in_order(bounds: np.ndarray) -> None:
    with pytest.raises(ValueError, match="bounds do not ascend"):
        memory_kernels.match_allocations(
            BYTES, LONGS, None, bounds, False, np.zeros(2, np.int32), np.zeros(2, np.uint8)
        )
    with pytest.raises(ValueError, match="bounds do not ascend"):
        memory_kernels.following_peaks(LONGS, bounds, np.zeros(2, np.int32))


@pytest.mark.parametrize("place", [0, 1, 2, 3, 4, 8, 9, 10, 11])
def test_columns_of_another_length_are_refused(place: int) -> None:
    columns = [BYTES, BYTES, LONGS, LONGS, LONGS, BOUNDS, 0, 1, *(column(0, 0) for _ in range(4))]
    memory_kernels.known_chunks(*columns)
    columns[place] = np.zeros(3, columns[place].dtype)
    with pytest.raises(ValueError, match=r"differ in length|bounds do not ascend"):
        memory_kernels.known_chunks(*columns)


@pytest.mark.parametrize("share", [(-1, 1), (1, 0), (0, 2)])
def test_allocators_that_are_not_there_are_refused(share: tuple[int, int]) -> None:
    sums = [column(0, 0) for _ in range(4)]
    with pytest.raises(IndexError, match="no such allocators"):
        memory_kernels.known_chunks(BYTES, BYTES, LONGS, LONGS, LONGS, BOUNDS, *share, *sums)


@pytest.mark.parametrize(("first", "last"), [(-1, 1), (0, 3)])
def test_ranges_must_lie_within_the_values(first: int, last: int) -> None:
    with pytest.raises(IndexError, match="an index is not from"):
        memory_kernels.range_peaks(LONGS, column(first), column(last), column(0))


@pytest.mark.parametrize("place", [-1, 2])
def test_places_must_lie_within_the_columns(place: int) -> None:
    row, bits = np.zeros(1, np.int32), np.zeros(2, np.uint16)
    where = np.array([place], np.int32)
    with pytest.raises(IndexError, match="an index is not from"):
        stat = (row, BYTES[:1], LONGS[:1])
        memory_kernels.stat_beside(*stat, row, where, (0,), column(0, 0), bits, bits.copy(), 1, False)
