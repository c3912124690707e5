"""What tfprof answers when it is given a graph, RunMetadata and a log of ops, instead of a profile."""

from __future__ import annotations

from functools import cache

import pytest
from goldens import GOLDENS, SHARED, answers, differences

import fastprof
from fastprof.derive.tfprof.view_set import ViewSet, make_view_set
from fastprof.inputs.profile_model import make_profile

TF1, INPUTS = SHARED / "captures" / "tf1", GOLDENS / "inputs"
DOCUMENTS = {
    "tf1": (TF1 / "graph.pb", [TF1 / "run_metadata.pb"], None),
    "gpu": (INPUTS / "gpu_graph.pb", [INPUTS / "gpu_run_metadata_1.pb"], None),
    "gpu_op_log": (INPUTS / "gpu_graph.pb", [INPUTS / "gpu_run_metadata_0.pb"], INPUTS / "gpu_op_log"),
    "graph_only": (TF1 / "graph.pb", [], None),
}


@cache
def views_of(call: str) -> ViewSet:
    graph, runs, log = DOCUMENTS[call]
    steps = [(step, path.read_bytes()) for step, path in enumerate(runs)]
    return make_view_set(fastprof.load(make_profile(graph.read_bytes(), steps, log and log.read_bytes())).tables)


@pytest.mark.captures
@pytest.mark.skipif(not GOLDENS.is_dir(), reason="the reference's answers are absent")
@pytest.mark.parametrize("call", DOCUMENTS)
def test_answers_are_those_of_tfprof(call: str) -> None:
    some = [path for path in answers("one_call") if path.name.startswith(f"{call}.")]
    wrong = {path.name: parts for path in some if (parts := differences(path, views_of(call)))}
    assert wrong == {} and len(some) == 5
