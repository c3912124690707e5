"""What the gate leaves to ``make test-all``: further seeds, captures and cases of a kind, and what takes long."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

import pytest

ALL = bool(os.environ.get("FASTPROF_TEST_ALL"))
"""Whether everything is tried, as ``make test-all`` does."""
T = TypeVar("T")

typical_captures = pytest.mark.typical_captures
"""Take one real capture of each kind in the gate, those of conftest.TYPICAL."""
left_to_test_all = pytest.mark.skipif(not ALL, reason="runs in make test-all")


def few(cases: Iterable[T], count: int) -> list[T]:
    """Return all cases in ``make test-all``; in the gate ``count`` of them, evenly from the first to the last."""
    every = list(cases)
    if ALL or len(every) <= count:
        return every
    return [every[place * (len(every) - 1) // max(count - 1, 1)] for place in range(count)]


def rounds(whole: int, part: int) -> int:
    """Return the number of rounds: ``whole`` in ``make test-all``, ``part`` in the gate."""
    return whole if ALL else part
