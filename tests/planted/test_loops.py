"""Loops as users write them: step time and input time are those of a stopwatch, and input is the first finding."""

from __future__ import annotations

import pytest
from gate import few
from score_loops import MEASURED, score

NOT_YET = frozenset({"jax_numpy_augment"})
"""Loops that the analyses do not get right."""


@pytest.mark.parametrize("name", few(MEASURED, 5))
def test_a_loop_has_the_step_and_input_time_of_a_stopwatch(name: str) -> None:
    result = score(name)
    assert result.is_right is (name not in NOT_YET), result.line()
