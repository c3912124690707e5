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
        ("frame 0", 2, 1, "shape", "input 0 of aten::mm", "float[16,32]", "float[12,32]", 1),
        ("frame 0", 3, 2, "nothing", None, None, None, 0),
        ("frame 0", 4, 3, "shape", "input 0 of aten::mm", "float[12,32]", "float[9,32]", 1),
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
            "train_step was recompiled once (step 2), taking 741.2 ms: new shapes of batch['x'] "
            "(f32[200,64], then f32[7,64]) and batch['y'] (f32[200,4], then f32[7,4]).",
            "Give train_step the same shapes in every step: drop or pad the last batch",
        ),
        (
            "jax_static_step",
            "update was recompiled 4 times (steps 0 to 3), taking 1.090 s: equal argument shapes and types, but "
            "a new constant (0.001, then 0.1, then 0.05 and 2 more): likely a static argument (static_argnums, "
            "static_argnames), or a Python value that the function reads.",
            "Pass the changing value to update as an array: remove it from static_argnums and static_argnames.",
        ),
        (
            "jax_weak_type",
            "update was recompiled 3 times (steps 1, 2, 3), taking 1.098 s: once equal programs: "
            "likely rate is a Python number in one call and an array in another, or the function is a new object each "
            "time, as with jax.jit of a lambda or functools.partial in the loop; once a new type of x (f32[32,64], "
            "then bf16[32,64]); once a new type of rate (f32[], then s32[]).",
            "Give update the same types in every step: convert before the call",
        ),
        (
            "jax_jit_in_loop",
            "<lambda> was recompiled 7 times (steps 1 to 7), taking 313.4 ms: equal programs: likely "
            "the function is a new object each time, as with jax.jit of a lambda or functools.partial in the loop.",
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
            "train_step was retraced 8 times (steps 0 to 7), taking 805.7 ms: an unknown change (the capture has no "
            "compiled program of the function).",
            "Define tf.functions once, outside of the loop; pass tensors instead of Python numbers",
        ),
        (
            "keras_fit_lengths",
            "once new shapes of argument 0 (f32[8,12,4], then f32[5,16,4]) and argument 1 (f32[8,1], then f32[5,1]).",
            "Keras compiles its step for each shape of a batch: drop or pad the last batch",
        ),
        (
            "torch_compile_shapes",
            "frame 0 of torch.compile was recompiled 3 times (steps 1, 2, 3), taking 1.360 s: twice a new "
            "shape of input 0 of aten::mm (float[16,32], then float[12,32], then float[9,32]); once equal shapes "
            "and types of op inputs: likely a guard on a Python value failed.",
            "Mark the dimension that changes with torch._dynamo.mark_dynamic(x, 0)",
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
        ("jax_last_batch", ", most for train_step (61 %)"),
        ("jax_static_step", ": update"),
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


def test_functions_that_are_compiled_once_are_not_listed() -> None:
    healthy = fastprof.load(HERE / "recorded" / "jax_well_fed.xplane.pb.gz")
    assert healthy.diagnosis().tables["recompilations"].num_rows == 0
