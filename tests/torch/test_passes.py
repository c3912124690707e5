"""Passes of training: what encloses the launch of a kernel shows in which it ran."""

from __future__ import annotations

from typing import Any

import pytest
from torch_captures import Recorded, kernel, launch, step, torch_capture

from fastprof.derive.ops.training_passes import SEQUENCE

PASSES = ("forward_ps", "backward_ps", "recompute_ps", "other_ps", "unknown_pass_ps")
ENGINE = "autograd::engine::evaluate_function: "


def _passes(main: list[Recorded], autograd: list[Recorded], times: dict[int, int]) -> list[int | None]:
    """``times``: by number of the launch, the microseconds of its kernel."""
    host = {"main": [step(1, 0, 10_000), *main], "autograd": autograd}
    gpu = [kernel(f"k{number}", 1000 * number, time, number) for number, time in times.items()]
    (row, *_) = torch_capture(host, {"stream 7": gpu}).op_profile().tables["scopes"].to_pylist()
    return [None if row[name] is None else row[name] // 10**6 for name in PASSES]


def _op(name: str, start: int, duration: int, **stats: Any) -> Recorded:
    return "cpu_op", name, start, duration, stats


def _frame(name: str, start: int, duration: int) -> Recorded:
    return "python_function", name, start, duration, {}


FORWARD = [_op("aten::mm", 100, 50, **{SEQUENCE: 4}), launch(110, 1)]
ADAM = [("user_annotation", "Optimizer.step#Adam.step", 900, 50, {}), _op("aten::add_", 905, 20), launch(910, 4)]
BACKWARD = [_op(f"{ENGINE}MmBackward0", 300, 300, **{SEQUENCE: 4}), _op("MmBackward0", 310, 280, **{SEQUENCE: 4})]
INNER = [_op("aten::mm", 320, 100), launch(330, 2), _op("aten::mm", 450, 100), launch(460, 3)]
TIMES = {1: 100, 2: 200, 3: 300, 4: 400}
PYTHON = _frame("train.py(1): train", 50, 1)


@pytest.mark.parametrize(
    ("around", "passes"),
    [
        ("train.py(7): hook", [100, 500, 0, 400, 0]),
        ("torch/utils/checkpoint.py(1390): recompute_fn", [100, 300, 200, 400, 0]),
        ("torch/utils/checkpoint.py(409): unpack", [100, 300, 200, 400, 0]),  # PyTorch 2.0
        (r"C:\Python\torch\utils\checkpoint.py(1390): recompute_fn", [100, 300, 200, 400, 0]),
        ("deepspeed/runtime/activation_checkpointing/checkpointing.py(700): backward", [100, 300, 200, 400, 0]),
    ],
)
def test_frames_of_python_show_what_is_computed_again(around: str, passes: list[int]) -> None:
    autograd = [*BACKWARD, _frame(around, 315, 120), *INNER]
    assert _passes([*FORWARD, *ADAM], autograd, TIMES) == passes


def test_a_checkpoint_that_enters_autograd_again_is_known_by_its_name() -> None:
    """Its backward pass runs forward, then the engine once more."""
    autograd = [
        _op(f"{ENGINE}CheckpointFunctionBackward", 290, 320), _op("CheckpointFunctionBackward", 295, 310),
        _op("aten::mm", 320, 100), launch(330, 2),
        _op(f"{ENGINE}MmBackward0", 440, 150, **{SEQUENCE: 4}), _op("aten::mm", 450, 100), launch(460, 3),
    ]  # fmt: skip
    assert _passes([*FORWARD, *ADAM], autograd, TIMES) == [100, 300, 200, 400, 0]


def test_without_calls_of_python_recomputation_is_unknown_unless_gradients_were_on() -> None:
    """What is computed again has numbers of its own; a backward pass of a backward pass has backward ops."""
    assert _passes([*FORWARD, *ADAM], [*BACKWARD, *INNER], TIMES) == [100, 500, None, 400, 0]
    again = [_op("aten::mm", 320, 100, **{SEQUENCE: 9}), launch(330, 2), *INNER[2:]]
    assert _passes([*FORWARD, *ADAM], [*BACKWARD, *again], TIMES) == [100, 300, 200, 400, 0]
    twice = [_op("MmBackward0Backward0", 700, 10, **{SEQUENCE: 9})]
    assert _passes([*FORWARD, *ADAM], [*BACKWARD, *again, *twice], TIMES) == [100, 500, None, 400, 0]


def test_without_sequence_numbers_modules_are_forward() -> None:
    plain = [_op("aten::mm", 100, 50), launch(110, 1)]
    backward = [_op(name, start, duration) for _, name, start, duration, _ in BACKWARD]
    module = _frame("nn.Module: Linear_0", 90, 70)
    assert _passes([module, *plain, *ADAM], [*backward, *INNER], TIMES) == [100, 500, 0, 400, 0]
    assert _passes([PYTHON, *plain, *ADAM], [*backward, *INNER], TIMES) == [None, 500, 0, 400, 100]
    unknown = [PYTHON, *plain, _op("aten::mul", 200, 50), launch(210, 5), *ADAM]
    assert _passes(unknown, [*backward, *INNER], TIMES | {5: 900}) == [None, 500, 0, 400, 1000]


def test_kernels_whose_launch_is_not_recorded_are_of_unknown_passes() -> None:
    assert _passes([PYTHON, *FORWARD, *ADAM], [*BACKWARD, *INNER], TIMES | {9: 900}) == [100, 500, None, 400, 900]
