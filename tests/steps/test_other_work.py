"""Names of work that is not training."""

from __future__ import annotations

import pytest

from fastprof.derive.steps.host_calls import EVALUATION, LOGGING, classify_other_work
from fastprof.derive.steps.host_causes import Code, classify_frame


@pytest.mark.parametrize(
    ("name", "work"),
    [
        ("evaluate", EVALUATION), ("validation", EVALUATION), ("eval_step", EVALUATION), ("test_step", EVALUATION),
        ("log_metrics", LOGGING), ("update_metrics", LOGGING), ("Logger", LOGGING),
        ("train_step", None), ("log_softmax", None), ("log_prob", None), ("log", None), ("validation_loader", None),
        ("autograd::engine::evaluate_function: AddmmBackward0", None), ("train_with_metrics", None), ("logits", None),
    ],
)  # fmt: skip
def test_names_say_which_work_it_is(name: str, work: str | None) -> None:
    assert classify_other_work(name) == work


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("torch/utils/checkpoint.py(1111): unpack_hook", Code.PYTHON),
        ("$train.py:3 save_checkpoint", Code.CHECKPOINT_WORDS),
        ("torch/serialization.py(944): save", Code.CHECKPOINT_WORDS), ("$checkpoint.py:12 write", Code.CHECKPOINT),
        ("$ad_checkpoint.py:3 checkpoint", Code.PYTHON), ("$model.py:9 checkpointed_forward", Code.PYTHON),
    ],
)  # fmt: skip
def test_activations_that_are_computed_again_are_not_saved(name: str, code: Code) -> None:
    assert classify_frame(name) == code
