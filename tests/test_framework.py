"""Which framework a program was written in."""

from __future__ import annotations

from pathlib import Path

import pytest
from trace_builder import event, line, plane, xspace

import fastprof
from fastprof.derive.devices.op_names import choose_framework, find_framework, is_frame
from fastprof.derive.ops import gpu_ops
from fastprof.derive.steps.host_causes import shows_input
from fastprof.tables.host_reader import read_host


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


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("$train.py:12 step", True),
        ("train.py(12): step", True),
        ("a\nb(3): f(4): g", True),
        ("<built-in function len>", True),
        ("<built-in method append of list object at 0x7f>", True),
        ("nn.Module: Linear_3", True),
        ("(12): step", False),
        ("train.py(): step", False),
        ("train.py(12): ", False),
        ("<built-in function len", False),
        ("nn.Module: ", False),
        ("%fusion.3 = f32[8]{0} fusion(%param.1): kLoop", False),
    ],
)
def test_frames_of_python_have_names_of_two_tracers(name: str, expected: bool) -> None:
    assert is_frame(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("IteratorGetNextOp::DoCompute", True),
        ("Iterator::Prefetch", True),
        ("InfeedEnqueue", True),
        ("InstantiatedCapturedFunction::Run", True),
        ("PrefetchConsume", True),
        ("ParallelMapProduce", True),
        ("MakeIterator::Map", True),
        ("ReduceDatasetOp::DoCompute", True),
        ("Consumer", False),
        ("fusion.7", False),
    ],
)
def test_names_of_frameworks_show_input(name: str, expected: bool) -> None:
    profile = fastprof.load(xspace(plane("/host:CPU", [line("main", [event("work", 0, 9), event(name, 10, 9)])])))
    assert shows_input(read_host(profile.table_set, 0, (), (), ())) == expected


def test_names_are_no_copies_where_no_gpu_ran_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def note(name: str) -> str:
        asked.append(name)
        return ""

    monkeypatch.setattr(gpu_ops, "classify_copy", note)
    for device, kernels in (("/device:TPU:0", 0), ("/device:GPU:0", 1)):
        profile = fastprof.load(xspace(plane(device, [line("XLA Ops #1", [event("fusion", 0, 9)])])))
        events = read_host(profile.table_set, 0, (), (), ())
        assert gpu_ops.is_kernel(events).sum() == kernels
        assert bool(asked) == bool(kernels)
