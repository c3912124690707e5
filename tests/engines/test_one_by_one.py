"""What was kept of many hosts is unpacked when it is looked at, and not before."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from operator import itemgetter

from fastprof.analyses.one_by_one import OneByOne, Packed


def counting(seen: list[int], number: int) -> Callable[[], list[int]]:
    def unpack() -> list[int]:
        seen.append(number)
        return [number, 10 * number]

    return unpack


def test_values_are_unpacked_each_time_that_they_are_looked_at() -> None:
    seen: list[int] = []
    values = OneByOne([[0, 0], *(Packed(counting(seen, number)) for number in (1, 2))])
    assert len(values) == 3 and not seen
    assert list(values) == [[0, 0], [1, 10], [2, 20]] and seen == [1, 2]
    assert values[2] == [2, 20] and list(values[:2]) == [[0, 0], [1, 10]] and seen == [1, 2, 2, 1]


def test_a_part_of_each_value() -> None:
    seen: list[int] = []
    parts = OneByOne(OneByOne([Packed(counting(seen, number)) for number in (1, 2)]), itemgetter(1))
    assert list(parts) == [10, 20] and parts[0] == 10


def test_a_pickle_has_all_values() -> None:
    parts = OneByOne([Packed(counting([], number)) for number in (1, 2)], itemgetter(1))
    assert list(pickle.loads(pickle.dumps(parts))) == [10, 20]
