"""Programs that really recompile: the diagnosis names what changed, in words of their framework."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

import fastprof

HERE = Path(__file__).parent
OLDER = ("jax_changing_shapes", "jax_jit_in_loop", "tf_retracing")


@cache
def read_tables(name: str) -> dict[str, list[dict[str, Any]]]:
    (path,) = (HERE / ("recorded" if name in OLDER else "recompiling")).glob(f"{name}.*.gz")
    tables = fastprof.load(path).diagnosis().tables
    return {table: tables[table].to_pylist() for table in ("findings", "recompilations")}


def find_compilation(name: str) -> dict[str, Any]:
    (row,) = (row for row in read_tables(name)["findings"] if row["cause"] == "compilation")
    return row


CHANGES = {
    "jax_last_batch": [("train_step", 2, 2, "shape", "batch['x']", "f32[200,64]", "f32[7,64]", 2)],
    "jax_static_step": [
        ("update", 1, 0, "constant", None, "0.001", "0.1", 1),
        ("update", 2, 1, "constant", None, "0.1", "0.05", 1),
        ("update", 3, 2, "constant", None, "0.05", "0.0333333351", 1),
        ("update", 4, 3, "constant", None, "0.0333333351", "0.025", 1),
    ],
    "jax_weak_type": [
        ("update", 2, 1, "nothing", None, None, None, 0),
        ("update", 3, 2, "type", "x", "f32[32,64]", "bf16[32,64]", 1),
        ("update", 4, 3, "type", "rate", "f32[]", "s32[]", 1),
    ],
    "jax_jit_in_loop": [("<lambda>", n, n - 1, "nothing", None, None, None, 0) for n in range(2, 9)],
    "tf_jit_shapes": [
        ("train_step", 1, 0, "shape", "argument 1", "s32[4,9]", "s32[4,10]", 1),
        ("train_step", 2, 1, "shape", "argument 1", "s32[4,10]", "s32[4,11]", 1),
        ("train_step", 3, 2, "shape", "argument 1", "s32[4,11]", "s32[4,12]", 1),
    ],
    "tf_retracing": [("train_step", n, n - 1, None, None, None, None, 0) for n in range(1, 9)],
    "keras_fit_lengths": [
        ("multi_step_on_iterator", 1, None, None, None, None, None, 0),
        ("one_step_on_data", 1, None, "nothing", None, None, None, 0),
        ("one_step_on_data", 2, 0, "shape", "argument 0", "f32[8,12,4]", "f32[5,16,4]", 2),
    ],
    "torch_compile_shapes": [
        ("frame 0", 2, None, "shape", "input 0 of aten::mm", "float[16,32]", "float[12,32]", 1),
        ("frame 0", 3, None, "nothing", None, None, None, 0),
        ("frame 0", 4, None, "shape", "input 0 of aten::mm", "float[12,32]", "float[9,32]", 1),
    ],
    "jax_sharding": [
        ("train_step", 2, None, "sharding", "x", "f32[32,16] {devices=[4,1]<=[4]}", "f32[32,16] unsharded", 1),
    ],
    "jax_unmarked_lengths": [
        ("iota", 1, None, "result", None, "s32[12]", "s32[20]", 1),
        ("train_step", 1, None, "shape", "tokens", "s32[12]", "s32[20]", 2),
        ("iota", 2, None, "result", None, "s32[20]", "s32[16]", 1),
        ("train_step", 2, None, "shape", "tokens", "s32[20]", "s32[16]", 2),
        ("iota", 3, None, "result", None, "s32[16]", "s32[24]", 1),
        ("train_step", 3, None, "shape", "tokens", "s32[16]", "s32[24]", 2),
    ],
    "tf_recorded_arguments": [
        ("train_step", 1, 0, None, None, None, None, 0),
        ("train_step", 2, 1, "constant", "rate", "0.1", "0.05", 1),
        ("train_step", 3, 2, "constant", "rate", "0.05", "0.025", 1),
        ("train_step", 4, 3, "shape", "batch.x", "float32[8,16]", "float32[3,16]", 1),
    ],
    "tf_new_function": [("loss", n, n - 1, "function", None, None, None, 0) for n in range(2, 5)],
    "torch_changing_attribute": [
        ("frame 0", 2, None, "constant", "input 2 of aten::clamp", "1.", "0.5", 1),
        ("frame 0", 3, None, "constant", "input 2 of aten::clamp", "0.5", "0.33333333333333331", 1),
        ("frame 0", 4, None, None, None, None, None, 0),
    ],
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_recompilation_has_what_changed_and_its_step(name: str) -> None:
    columns = "function", "number", "step", "change", "argument", "before", "after", "change_count"
    rows = read_tables(name)["recompilations"]
    assert [tuple(row[column] for column in columns) for row in rows] == CHANGES[name]
    assert [row["reason"] is None for row in rows] == [row["change"] is not None for row in rows]


@pytest.mark.parametrize(
    ("name", "words", "advice"),
    [
        (
            "jax_last_batch",
            "train_step (called at train.py:32) was recompiled once (step 2), taking 741.2 ms: new shapes of "
            "batch['x'] (f32[200,64], then f32[7,64]) and batch['y'] (f32[200,4], then f32[7,4]).",
            "Give train_step the same shapes in every step: drop or pad the last batch",
        ),
        (
            "jax_static_step",
            "update (called at train.py:29) was recompiled 4 times (steps 0 to 3), taking 1.090 s: equal argument "
            "shapes and types, but a new constant (0.001, then 0.1, then 0.05 and 2 more): likely a static argument "
            "(static_argnums, static_argnames), or a Python value that the function reads.",
            "Pass the changing value to update as an array argument: not by static_argnums or static_argnames",
        ),
        (
            "jax_weak_type",
            "update (called at train.py:28) was recompiled 3 times (steps 1, 2, 3), taking 1.098 s: once equal "
            "programs: likely rate is a Python number in one call and an array in another, or the function, or a "
            "static argument, is a new object each time, as with jax.jit of a lambda or functools.partial in the "
            "loop; once a new type of x (f32[32,64], then bf16[32,64]); once a new type of rate (f32[], then s32[]).",
            "Give update the same types in every step: convert before the call",
        ),
        (
            "jax_jit_in_loop",
            "<lambda> (called at train.py:24) was recompiled 7 times (steps 1 to 7), taking 313.4 ms: equal programs: "
            "likely the function, or a static argument, is a new object each time, as with jax.jit of a lambda or "
            "functools.partial in the loop.",
            "Define the jitted <lambda> once, outside of the loop",
        ),
        (
            "tf_jit_shapes",
            "train_step was recompiled 3 times (steps 0, 1, 2), taking 2.596 s: a new shape of argument 1 "
            "(s32[4,9], then s32[4,10], then s32[4,11] and 1 more).",
            "XLA compiles train_step for each shape: use batch(drop_remainder=True)",
        ),
        (
            "tf_retracing",
            "train_step was retraced 8 times (steps 0 to 7), taking 805.7 ms: an unknown change "
            "(TensorFlow's profiler does not record the arguments).",
            "Define tf.functions once, outside of the loop; pass tensors instead of Python numbers",
        ),
        (
            "keras_fit_lengths",
            "once new shapes of argument 0 (f32[8,12,4], then f32[5,16,4]) and argument 1 (f32[8,1], then f32[5,1]).",
            "Keras compiles its step for each shape of a batch: drop or pad the last batch",
        ),
        (
            "torch_compile_shapes",
            "frame 0 of torch.compile was recompiled 3 times, taking 1.360 s: twice a new "
            "shape of input 0 of aten::mm (float[16,32], then float[12,32], then float[9,32]); once equal shapes "
            "and types of op inputs: likely a guard on a Python value failed.",
            "Mark the dimension that changes with torch._dynamo.mark_dynamic(x, 0)",
        ),
        (
            "jax_sharding",
            "train_step (called at train.py:33) was recompiled once, taking 183.4 ms: a new sharding of x "
            "(f32[32,16] {devices=[4,1]<=[4]}, then f32[32,16] unsharded).",
            "Give the arguments of train_step the same sharding in every step: jax.device_put with one sharding",
        ),
        (
            "jax_unmarked_lengths",
            "iota (called at train.py:24) was recompiled 3 times, taking 427.6 ms: equal argument shapes and types, "
            "but a new result shape (s32[12], then s32[20], then s32[16] and 1 more): likely a static argument that "
            "sets a size.",
            "Give train_step the same shapes in every step",
        ),
        (
            "tf_recorded_arguments",
            "train_step was retraced 4 times (steps 0 to 3), taking 236.7 ms: twice a new value of rate (0.1, then "
            "0.05, then 0.025); once an unknown change (the capture has no earlier trace of the function); once a new "
            "shape of batch.x (float32[8,16], then float32[3,16]).",
            "Pass tensors to train_step instead of Python numbers (tf.constant)",
        ),
        (
            "tf_new_function",
            "loss was retraced 3 times (steps 1, 2, 3), taking 146.4 ms: its first trace each time: likely a new "
            "tf.function each time, or several functions of this name.",
            "Define the tf.function loss once, outside of the loop",
        ),
        (
            "torch_changing_attribute",
            "frame 0 of torch.compile was recompiled 3 times, taking 767.6 ms: twice a new value of input 2 of "
            "aten::clamp (1., then 0.5, then 0.33333333333333331): likely a Python number that a guard checks; once "
            "not traced: likely recompile_limit was reached, and the frame runs eagerly from then on.",
            "Pass numbers that change to frame 0 as tensors",
        ),
    ],
)
def test_the_finding_says_what_changed_and_the_way_out(name: str, words: str, advice: str) -> None:
    row = find_compilation(name)
    assert words in row["detail"]
    assert row["advice"].startswith(advice)


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("jax_last_batch", ", most for train_step (train.py:32) (61 %)"),
        ("jax_static_step", ": update (train.py:29)"),
        ("jax_unmarked_lengths", ", most for train_step (train.py:24) (74 %)"),
        ("tf_retracing", ": train_step"),
    ],
)
def test_the_title_names_the_function_instead_of_the_compiler(name: str, end: str) -> None:
    assert find_compilation(name)["title"] == f"Compute waits while programs compile{end}"


@pytest.mark.parametrize("name", CHANGES)
def test_no_advice_is_for_another_framework(name: str) -> None:
    words = {"jax": ("jax.", "static_arg"), "tf": ("tf.", "TensorFlow", "XLA", "concrete"), "torch": ("torch", "TORCH")}
    own = "tf" if name.startswith("keras") else name.partition("_")[0]
    others = [word for framework, every in words.items() if framework != own for word in every]
    assert not [word for word in others if word in find_compilation(name)["advice"]]


def test_what_torch_compile_does_is_no_compute() -> None:
    first = read_tables("torch_compile_shapes")["findings"][0]
    assert (first["cause"], first["annotation"]) == ("compilation", "dynamo")
    assert first["share"] > 0.9


def test_each_recompilation_has_the_line_that_calls() -> None:
    lines = {row["function"]: row["source"] for row in read_tables("jax_unmarked_lengths")["recompilations"]}
    assert lines == {"iota": "train.py:24", "train_step": "train.py:24"}


def test_compiling_is_no_step() -> None:
    (path,) = (HERE / "recompiling").glob("torch_compile_shapes.*")
    steps = fastprof.load(path).steps()
    assert steps.tables["steps"].num_rows == 0


def test_functions_that_only_compile_before_the_first_step_are_left_out() -> None:
    assert "multi_step_on_iterator was retraced" not in find_compilation("keras_fit_lengths")["detail"]
    assert "multi_step_on_iterator" in {row["function"] for row in read_tables("keras_fit_lengths")["recompilations"]}


def test_functions_that_are_compiled_once_are_not_listed() -> None:
    healthy = fastprof.load(HERE / "recorded" / "jax_well_fed.xplane.pb.gz")
    assert healthy.diagnosis().tables["recompilations"].num_rows == 0
