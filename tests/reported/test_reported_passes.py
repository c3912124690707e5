"""Passes of training in captures of PyTorch: what autograd recorded shows them; others are null."""

from __future__ import annotations

from pathlib import Path

import fastprof

HERE = Path(__file__).parent
PASSES = ("forward_ps", "backward_ps", "recompute_ps", "other_ps", "unknown_pass_ps")


def _passes(name: str) -> tuple[int | None, ...]:
    """Microseconds of each pass, of all scopes."""
    row = fastprof.load(HERE / f"{name}.json.gz").op_profile().tables["scopes"].to_pylist()[0]
    return tuple(None if row[one] is None else row[one] // 10**6 for one in PASSES)


def test_checkpointing_is_forward_backward_and_recomputation() -> None:
    assert _passes("p13-passes") == (1200, 1600, 400, 400, 0)


def test_arrows_show_what_is_forward_and_python_what_is_computed_again() -> None:
    """Calls of Python are not recorded here, so that recomputation is unknown."""
    assert _passes("p1-backward") == (48, 48, None, 24, 0)


def test_the_passes_of_a_program_that_does_not_train_are_unknown() -> None:
    assert _passes("p9-attention") == (None, None, None, None, 400)
