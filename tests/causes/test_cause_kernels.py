"""The structs that kernels of causes share with C have the same layouts on both sides."""

from __future__ import annotations

from fastprof._native.cause_kernels import SIZES
from fastprof.derive.causes import gaps, time_by_cause
from fastprof.derive.ops import device_time
from fastprof.derive.steps import event_origin


def test_sizes_are_those_of_c() -> None:
    ours = {
        "SPAN": device_time.SPAN,
        "PIECE": device_time.PIECE,
        "THREAD": event_origin.THREAD,
        "GAP": gaps.GAP,
        "GAP_SUM": time_by_cause.GAP_SUM,
    }
    assert {name: one.itemsize for name, one in ours.items()} == SIZES
