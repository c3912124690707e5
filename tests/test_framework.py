"""Which framework a program was written in."""

from __future__ import annotations

from pathlib import Path

import pytest
from trace_builder import event, line, plane, xspace

import fastprof
from fastprof.derive.devices.op_names import choose_framework, find_framework


@pytest.mark.parametrize(
    ("names", "framework"),
    [
        (["PjitFunction(step)", "Iterator::Prefetch", "ExecutorState::Process"], "JAX"),
        (["jit_train_step(17)"], "JAX"),
        (["jit(f)/jit(main)/dot_general"], "JAX"),
        (["EagerExecute: __inference_train_7", "Iterator::Prefetch"], "TensorFlow"),
        (["cluster_0_1"], "TensorFlow"),
        (["aten::mm", "jit_wrapped"], "PyTorch"),
        (["SyncTensorsGraph.12(1)"], "PyTorch"),
        (["Iterator::Prefetch", "fusion.7", "ncclAllReduce"], "unknown"),
        ([], "unknown"),
    ],
)
def test_names_that_one_framework_writes_decide(names: list[str], framework: str) -> None:
    assert find_framework(names) == framework


def test_a_session_has_the_first_framework_that_is_known() -> None:
    assert choose_framework(["unknown", "TensorFlow", "JAX"]) == "TensorFlow"
    assert choose_framework([]) == "unknown"


def test_the_overview_names_the_framework() -> None:
    def space(name: str) -> bytes:
        return xspace(plane("/host:CPU", [line("main", [event(name, 0, 10)])]))

    assert fastprof.load(space("PjitFunction(f)")).overview().scalars["framework"].value == "JAX"
    unknown = fastprof.load(space("work")).overview().scalars["framework"]
    assert unknown.value is None and unknown.reason == "no event or op name identifies the framework"


def test_real_captures_have_the_framework_in_their_name(captures: Path) -> None:
    expected = {"jax": "JAX", "tf": "TensorFlow"}
    for folder in sorted((captures / "xspace").iterdir()):
        for part, framework in expected.items():
            if f"-{part}" in folder.name:
                report = fastprof.load(folder).overview()
                assert report.scalars["framework"].value == framework, folder.name
