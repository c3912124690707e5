"""Steps that take longer from some step on, and each few steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from torch_captures import Recorded, kernel, launch, step, torch_capture

from fastprof.derive.causes.slow_steps import find_level_shift

KERNELS = {"sgemm_128x64_nn": 600, "elementwise_add": 200, "reduce_sum": 200}


def diagnosed(durations: Callable[[int, str, int], int], steps: int = 16, stride: int = 1) -> list[dict[str, Any]]:
    """Findings on steps whose kernels take, by place, name and usual duration, this many microseconds."""
    host: list[Recorded] = []
    gpu: list[Recorded] = []
    at = number = 0
    for place in range(steps):
        begin = at
        for name, usual in KERNELS.items():
            number += 1
            took = durations(place, name, usual)
            host.append(launch(at, number))
            gpu.append(kernel(name, at + 3, took, number))
            at += took + 3
        host.append(step(100 + stride * place, begin, at - begin))
    report = torch_capture({"main": host}, {"stream 7": gpu}).diagnosis()
    return list(report.tables["findings"].to_pylist())


def slowed(place: int, _name: str, usual: int) -> int:
    return usual + usual // 2 if place >= 9 else usual + place % 2


def one_slower(place: int, name: str, usual: int) -> int:
    return 3 * usual if place >= 9 and name == "sgemm_128x64_nn" else usual + place % 2


def test_all_ops_that_take_longer_from_a_step_on_are_a_slower_device() -> None:
    first = diagnosed(slowed)[0]
    assert (first["cause"], first["title"]) == ("slowdown", "Ops take 1.5 times as long from step 109 on")
    assert first["detail"] == (
        "7 steps compute for 1.500 ms instead of 1.000 ms each. Nearly all ops take longer: sgemm_128x64_nn takes "
        "900.0 µs a step instead of 600.4 µs."
    )
    assert first["cost_ps"] == pytest.approx(7 * 500e6, rel=0.01) and first["certainty"] == "certain"
    assert first["evidence"] == "steps.slowdowns?host=vm"


def test_one_op_that_takes_longer_from_a_step_on_is_named() -> None:
    first = diagnosed(one_slower)[0]
    assert first["title"] == "Steps compute for 2.2 times as long from step 109 on" and first["certainty"] == "likely"
    assert "Most of it: sgemm_128x64_nn takes 1.800 ms a step instead of 600.4 µs." in first["detail"]


def test_steps_that_are_long_at_regular_distances_say_so() -> None:
    first = diagnosed(lambda place, _, usual: 5 * usual if place % 4 == 1 else usual + place % 2)[0]
    assert (first["cause"], first["title"]) == ("slow_step", "One in 4 steps takes up to 5.0 times the median")
    assert first["advice"].startswith("Each of these steps does something more")
    first = diagnosed(lambda place, _, usual: 5 * usual if place in (1, 2, 7) else usual + place % 2)[0]
    assert first["title"].startswith("3 steps take up to ")
    first = diagnosed(lambda place, _, usual: 5 * usual if place in (3, 4, 5) else usual + place % 2, stride=10)[0]
    assert first["title"].startswith("3 steps take up to ")


def test_a_slowdown_of_few_steps_is_not_found_twice() -> None:
    rows = diagnosed(lambda place, _, usual: 2 * usual if place >= 36 else usual + place % 2, steps=40)
    assert [row["cause"] for row in rows if row["cause"] in ("slowdown", "slow_step")] == ["slowdown"]


def test_too_few_steps_are_a_reason() -> None:
    host = [step(number, 100 * number, 100) for number in range(6)]
    gpu = [kernel("sgemm", 100 * number, 90, number) for number in range(6)]
    examined = torch_capture({"main": host}, {"stream 7": gpu}).diagnosis().tables["examined"].to_pylist()
    (row,) = [row for row in examined if row["cause"] == "slowdown"]
    assert (row["cost_ps"], row["reason"]) == (None, "fewer than 8 complete steps")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([100] * 5 + [120] * 5, 5),
        ([100, 101, 99, 100, 180, 100, 101, 99, 100, 100, 101] + [121, 119, 120, 120, 121, 120], 11),
        ([100] * 5 + [109] * 5, None),
        ([120] * 5 + [100] * 5, None),
        ([100] * 8 + [120] * 3, None),
        ([100, 150] * 8, None),
        ([100] * 5 + [150] * 5 + [100] * 5, None),
        (list(range(100, 200, 5)), None),
        ([0] * 5 + [100] * 5, None),
        ([100] * 7, None),
        ([], None),
        ([2**62] * 4 + [2**62 + 2**61] * 4, 4),
    ],
)
def test_a_level_is_left_for_good(values: list[int], expected: int | None) -> None:
    assert find_level_shift(np.array(values, np.int64)) == expected
