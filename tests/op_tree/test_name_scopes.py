"""Names of framework ops: scopes of the model, the op, and the pass of training."""

from __future__ import annotations

from time import process_time

import pytest

from fastprof.derive.ops.op_trees import MOST_SCOPES, split_scopes
from fastprof.derive.ops.training_passes import PASSES, generalize_layer, parse_scopes
from fastprof.xprof.pages import op_profile

NAMES = [
    # JAX
    ("jit(f)/jit(main)/add:", "add", "other"),
    ("jit(step)/jvp(Model)/layer_3/attn/dot_general:", "Model/layer_3/attn/dot_general", "forward"),
    ("jit(step)/transpose(jvp(Model))/layer_3/mul", "Model/layer_3/mul", "backward"),
    ("jit(step)/jvp()/mul", "mul", "forward"),
    ("jit(step)/transpose(jvp(Model))/checkpoint/rematted_computation/mul", "Model/mul", "recompute"),
    ("jit(step)/jvp(Model)/checkpoint/mlp/mul", "Model/mlp/mul", "forward"),
    ("jit(f)/while/body/closed_call/add", "add", "other"),
    ("jit(f)/while/body", "while", "other"),
    ("jit(f)/layers/while/body/attn/dot_general", "layers/attn/dot_general", "other"),
    ("jit(f)/cond/branch_1_fun/mul", "mul", "other"),
    ("jit(f)/while", "while", "other"),
    ("jit(f)/mlp/jit(silu)/mul", "mlp/silu/mul", "other"),
    ("jit(f)/transpose(jvp(jit(relu)))/select_n", "relu/select_n", "backward"),
    ("jit(f)/vmap(jvp(a/b))/mul", "a/b/mul", "forward"),
    ("jit(f)/f(x)/mul", "f(x)/mul", "other"),
    ("jit(f)/bij,jk->bik/dot_general;jit(f)/add", "bij,jk->bik/dot_general", "other"),
    ("pmap(step)/psum", "psum", "other"),
    # TensorFlow
    ("model/dense/MatMul:MatMul", "model/dense/MatMul", "other"),
    ("gradient_tape/model/dense/MatMul:MatMul", "model/dense/MatMul", "backward"),
    ("gradients_1/dense/MatMul_grad/MatMul:MatMul", "dense/MatMul/MatMul", "backward"),
    ("StatefulPartitionedCall/model/Relu:Relu", "model/Relu", "other"),
    # hardly anything
    ("", "", "other"),
    (":", "", "other"),
    ("jit(f)", "", "other"),
    ("///", "", "other"),
    ("checkpoint", "checkpoint", "other"),
]


@pytest.mark.parametrize(("name", "path", "passed"), NAMES)
def test_scopes_are_what_the_author_wrote(name: str, path: str, passed: str) -> None:
    found = parse_scopes(name)
    assert ("/".join(found.path), PASSES[found.passed]) == (path, passed)


@pytest.mark.parametrize(
    "name",
    ["jvp(" * 5000 + "x" + ")" * 5000 + "/mul", "/".join("ab" * 50_000), "(" * 9999, ")/(" * 9999, "\x00/\ud800"],
)
def test_names_of_any_shape_are_read(name: str) -> None:
    assert len(parse_scopes(name).path) <= MOST_SCOPES


def test_long_names_in_transformations_are_read_quickly() -> None:
    begun = process_time()
    assert parse_scopes("transpose(" * 100_000 + "a" + ")" * 100_000 + "/mul").path[-1] == "mul"
    assert process_time() - begun < 3


@pytest.mark.parametrize(
    ("scope", "layer"),
    [("layer_3", "layer_*"), ("3", "*"), ("block12", "block*"), ("h.0", "h.*"), ("Dense_0", "Dense_*"), ("attn", None),
     ("conv2d", None), ("fp32", None), ("int8", None), ("layer_", None)],
)  # fmt: skip
def test_layers_are_scopes_that_end_in_a_number(scope: str, layer: str | None) -> None:
    assert generalize_layer(scope) == layer


def test_provenance_is_cut_at_its_slashes_and_before_its_type() -> None:
    assert split_scopes("/a//b/MatMul_1:MatMul") == ["a", "b", "MatMul_1"]
    assert split_scopes("a/:") == ["a"] and op_profile.split_page_scopes("a/:") == ["a", ""]
    assert split_scopes("") == []
    deep = split_scopes("/".join(map(str, range(250))))
    assert len(deep) == MOST_SCOPES and deep[-1].startswith("99/100/") and deep[-1].endswith("/249")
