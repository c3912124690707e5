"""Numbers for people, exactly."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from fastprof.wording.quantities import choose_time_unit, format_size, format_time, format_unix_time


@pytest.mark.parametrize(
    ("picoseconds", "text"),
    [
        (0, "0 ps"),
        (999, "999 ps"),
        (1_000, "1.000 ns"),
        (1_234_567, "1.235 µs"),
        (12_345_678, "12.35 µs"),
        (123_456_789, "123.5 µs"),
        (-1_500_000_000, "-1.500 ms"),
        (2 * 10**12, "2.000 s"),
        ((1 << 63) - 1, "9,223,372 s"),
    ],
)
def test_a_time_has_four_digits_and_a_unit(picoseconds: int, text: str) -> None:
    assert format_time(picoseconds) == text


@pytest.mark.parametrize(("size", "text"), [(0, "0 B"), (1023, "1,023 B"), (1024, "1.000 KiB"), (5 << 30, "5.000 GiB")])
def test_a_size_has_four_digits_and_a_unit(size: int, text: str) -> None:
    assert format_size(size) == text


@pytest.mark.parametrize(
    ("times", "unit", "texts"),
    [
        ([2_500_000_000, 40_000_000], "ms", ["2.500", "0.040"]),
        ([10**12, 0, 5 * 10**10], "s", ["1.000", "0.000", "0.050"]),
        ([1_000_000, 1], "", ["1.000 µs", "1 ps"]),  # too far apart for one unit
        ([17, 9], "ps", ["17", "9"]),
        ([-3_000, 1_000], "ns", ["-3.000", "1.000"]),
        ([0, 0], "", ["0 ps", "0 ps"]),
        ([], "", []),
    ],
)
def test_a_column_has_one_unit_where_that_shows_all(times: list[int], unit: str, texts: list[str]) -> None:
    quantity = choose_time_unit(times)
    assert quantity.unit == unit
    assert [quantity.text(time) for time in times] == texts


def test_a_later_value_beyond_the_unit_bears_its_own() -> None:
    quantity = choose_time_unit([2 * 10**9])
    assert (quantity.unit, quantity.text(7), quantity.text(0)) == ("ms", "7 ps", "0.000")


def test_numbers_are_rounded_once_and_half_to_even() -> None:
    milliseconds = choose_time_unit([10**9, 999 * 10**9]).text
    assert [milliseconds(time) for time in (500_000, 1_500_000, 2_500_000)] == ["500.0 ns", "0.002", "0.002"]
    seeded = random.Random(7)
    for _ in range(2_000):
        time = seeded.randrange(10**9, 10**15)
        assert milliseconds(time) == f"{float(round(Fraction(time, 10**9), 3)):,.3f}"


def test_unix_time_is_utc_to_the_nanosecond() -> None:
    assert format_unix_time(1_763_716_800_123_456_789) == "2025-11-21 09:20:00.123456789"
    assert format_unix_time(-1) == "1969-12-31 23:59:59.999999999"
    assert format_unix_time((1 << 63) - 1) == "2262-04-11 23:47:16.854775807"
