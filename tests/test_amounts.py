"""Amounts as people write them."""

from __future__ import annotations

import pytest

from fastprof.wording.amounts import parse_size, parse_step_range


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("7", 7),
        (" 2 GiB ", 2 * 2**30),
        ("512mib", 512 * 2**20),
        ("1.5GB", 1_500_000_000),
        (".5KiB", 512),
        ("3kB", 3_000),
        ("0.1 KiB", 103),  # 102.4 bytes do not fit in 102
        ("1TiB", 2**40),
        ("9 B", 9),
        (str(2**63 - 1), 2**63 - 1),
    ],
)
def test_a_size_is_a_number_of_bytes_or_one_and_a_unit(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1", "2G", "1e9", "2 GiBs", "ten", "1,000", "9" * 61])
def test_what_is_not_a_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size; write a number of bytes"):
        parse_size(text)


@pytest.mark.parametrize("text", ["0", "0.0GiB", str(2**63), "9999999999TiB"])
def test_a_size_below_or_beyond_the_limits_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not between 1 byte and 8 EiB"):
        parse_size(text)


@pytest.mark.parametrize(
    "text", [" " * 50_000 + "x", "9" * 50_000, "3-" + "4" * 50_000, "train" * 10_000 + "=5:3", "x" * 50_000]
)
def test_a_long_text_is_refused_at_once_and_shortened(text: str) -> None:
    with pytest.raises(ValueError, match="…'") as caught:
        parse_step_range(text)
    assert len(str(caught.value)) < 250
