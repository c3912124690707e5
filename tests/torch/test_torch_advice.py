"""Findings on programs of PyTorch: what is advised fits what the trace shows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from torch_captures import kernel, launch, op, torch_capture

import fastprof

KINETO = Path(__file__).resolve().parents[3] / "shared" / "captures" / "chrome" / "kineto"


def exchanging(*calls: tuple[str, int]) -> fastprof.Profile:
    """A GEMM of 100 µs, then collectives: what calls each, and its time in µs."""
    host, gpu, at = [op("aten::mm", 0, 20), launch(5, 1)], [kernel("sgemm", 20, 100, 1)], 200
    for number, (call, duration) in enumerate(calls, 2):
        host += [("user_annotation", call, at, 20, {}), op("record_param_comms", at + 2, 15), launch(at + 5, number)]
        gpu.append(kernel("ncclKernel_SendRecv(ncclDevComm*)", at + 10, duration, number))
        at += duration + 50
    return torch_capture({"main": host}, {"stream 7": gpu})


def finding(profile: fastprof.Profile, cause: str) -> Mapping[str, Any]:
    rows = profile.diagnosis().tables["findings"].to_pylist()
    return next(row for row in rows if row["cause"] == cause)


@pytest.mark.parametrize(
    ("call", "kind", "words", "foreign"),
    [
        ("nccl:all_reduce", "all-reduce", "DistributedDataParallel", "experts"),
        ("nccl:all_to_all", "all-to-all", "tokens to experts", "DistributedDataParallel"),
        ("nccl:_all_gather_base", "all-gather", "FSDP gathers parameters", "DistributedDataParallel"),
        ("nccl:_reduce_scatter_base", "reduce-scatter", "FSDP sums gradients", "DistributedDataParallel"),
        ("nccl:broadcast", "broadcast", "broadcast_buffers=False", "FSDP"),
        ("nccl:send", "send and recv", "micro-batches", "FSDP"),
    ],
)
def test_advice_on_a_collective_is_of_its_kind(call: str, kind: str, words: str, foreign: str) -> None:
    row = finding(exchanging((call, 300)), "communication")
    assert row["title"] == f"The GPU waits for exposed {kind}"
    assert words in row["advice"]
    assert foreign not in row["advice"]
    assert row["detail"] is None


def test_several_kinds_are_listed_and_those_that_matter_advised_on() -> None:
    calls = (("nccl:all_to_all", 500), ("nccl:_all_gather_base", 300), ("nccl:all_reduce", 100))
    row = finding(exchanging(*calls), "communication")
    assert row["title"] == "The GPU waits for exposed collectives, most for all-to-all"
    assert row["detail"].endswith("all-to-all 500.0 µs, all-gather 300.0 µs, all-reduce 100.0 µs.")
    assert row["advice"].index("tokens to experts") < row["advice"].index("FSDP gathers")
    assert "DistributedDataParallel" not in row["advice"]


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tensor16x8x8_kernel", None),
        ("volta_sgemm_128x64_nn", "before Ampere, whose Tensor Cores have neither TF32"),
        ("ampere_sgemm_128x64_nn", "allows TF32"),
    ],
)
def test_tf32_runs_on_tensor_cores_and_not_on_old_gpus(name: str, cause: str | None) -> None:
    host = {"main": [op("aten::cudnn_convolution", 0, 20), launch(5, 1)]}
    gpu = {"stream 7": [kernel(name, 20, 100, 1), kernel("void cudnn::kernel", 120, 10, 2)]}
    rows = torch_capture(host, gpu).diagnosis().tables["findings"].to_pylist()
    advice = [row["advice"] for row in rows if row["cause"] == "precision"]
    assert [cause in one for one in advice] == [True] if cause else not advice


def test_a_run_of_128_ranks_that_exchange_embeddings() -> None:
    """Its all-reduces are a fifth of what nothing hides."""
    path = KINETO / "a100_rank-0.json.gz"
    if not path.exists():
        pytest.skip("no captures beside the project")
    profile = fastprof.load(path)
    assert "DistributedDataParallel" not in finding(profile, "communication")["advice"]
    assert "DistributedDataParallel" not in profile.communication().notices[0].text
