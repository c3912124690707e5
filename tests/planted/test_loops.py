"""Loops as users write them: step time and input time are those of a stopwatch, and input is the first finding."""

from __future__ import annotations

import pytest
from score_loops import MEASURED, score

<<<<<<< HEAD
NOT_YET = frozenset(
    {
        "jax_loader_after",
        "jax_loader_before",
        "jax_no_marker",
        "jax_numpy_augment",
        "jax_prefetch_thread",
        "jax_unnumbered_step",
        "tf_loader_after",
        "tf_loader_before",
        "tf_loader_inside",
        "tf_no_marker",
        "torch_annotated_compute",
        "torch_annotated_fetch",
        "torch_no_schedule",
    }
)
=======
NOT_YET = frozenset({"jax_numpy_augment", "tf_loader_inside", "tf_no_marker"})
>>>>>>> wt-tests
"""Loops that the analyses do not get right."""


@pytest.mark.parametrize("name", MEASURED)
def test_a_loop_has_the_step_and_input_time_of_a_stopwatch(name: str) -> None:
    result = score(name)
    assert result.is_right is (name not in NOT_YET), result.line()
