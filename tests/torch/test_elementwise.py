"""Elementwise kernels that were launched op by op: which they are, what fusing them saves at most, and the finding."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

import fastprof
from fastprof.derive.ops.gpu_kernels import ELEMENTWISE, OTHER, REDUCTION, classify_kernel, estimate_fusible_time

H100 = Path(__file__).resolve().parents[3] / "shared" / "captures" / "chrome" / "kineto" / "h100_qwen.json.gz"


@pytest.mark.parametrize(
    ("kernel", "op", "op_type", "program", "kind"),
    [
        ("void at::native::vectorized_elementwise_kernel<4, at::native::F>(int)", "aten::mul", "", "", ELEMENTWISE),
        ("void at::native::elementwise_kernel<128, 2, at::native::F>(int)", "", "", "", ELEMENTWISE),
        ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, 1>(float*)", "", "", "", ELEMENTWISE),
        ("void at::native::vectorized_elementwise_kernel<4, fbgemm_gpu::F>(int)", "fbgemm::f", "", "", OTHER),
        ("void at::native::_scatter_gather_elementwise_kernel<128, 4, at::native::F>(int)", "", "", "", OTHER),
        ("void at::native::index_elementwise_kernel<128, 4, at::native::F>(int)", "", "", "", OTHER),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float> >(int)", "aten::mean", "", "", REDUCTION),
        ("triton_poi_fused_add_mul_0", "triton_poi_fused_add_mul_0", "", "", OTHER),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n", "aten::mm", "", "", OTHER),
        ("void Eigen::internal::EigenMetaKernel<float>(int)", "a/b", "AddV2", "", ELEMENTWISE),
        ("void Eigen::internal::EigenMetaKernel<float>(int)", "a/b", "Mean", "", REDUCTION),
        ("ampere_sgemm_128x64_nn", "a/b", "MatMul", "", OTHER),
        ("fusion_3", "a/b", "AddV2", "cluster_0", OTHER),
        ("loop_add_fusion", "jit(add)/add", "add", "jit_add", ELEMENTWISE),
        ("input_reduce_fusion", "", "", "jit__reduce_sum", REDUCTION),
        ("loop_add_fusion", "jit(train_step)/add", "add", "jit_train_step", OTHER),
    ],
)
def test_kernels_are_known_by_what_launched_them(kernel: str, op: str, op_type: str, program: str, kind: int) -> None:
    assert classify_kernel(kernel, op, op_type, program) == kind


def test_names_of_any_length_are_looked_at_once() -> None:
    """If each place where a pattern may begin were one where the rest is looked through, it would take minutes."""
    for part, kind in (("at::native ", OTHER), ("softmax", OTHER), ("softmax<", REDUCTION)):
        assert classify_kernel("at::native::" + part * 50_000, "", "", "") == kind


def _slowly(kinds: Sequence[int], times: Sequence[int], lines: Sequence[int]) -> list[int]:
    """Kernel after kernel: the shortest of a run stays, unless a reduction does."""
    saved, run = [0] * len(kinds), list[int]()
    for place in range(len(kinds) + 1):
        goes_on = place < len(kinds) and kinds[place] != OTHER and (not run or lines[run[-1]] == lines[place])
        if not goes_on:
            own = [one for one in run if kinds[one] == ELEMENTWISE]
            stays = min(own, key=lambda one: times[one]) if len(own) == len(run) and own else -1
            for one in own:
                saved[one] = 0 if one == stays else times[one]
            run = []
        if place < len(kinds) and kinds[place] != OTHER:
            run.append(place)
    return saved


def test_of_each_run_a_kernel_stays() -> None:
    e, r, o = ELEMENTWISE, REDUCTION, OTHER
    kinds = np.array([e, e, r, e, o, e, e, o, e, o, e])
    times = np.array([9, 8, 3, 7, 50, 5, 4, 50, 6, 50, 2])
    assert estimate_fusible_time(kinds, times, np.zeros(11, np.int64)).tolist() == [9, 8, 0, 7, 0, 5, 0, 0, 0, 0, 0]
    dice = random.Random(15)
    for _ in range(200):
        count = dice.randrange(30)
        kinds = np.array([dice.choice((e, e, r, o)) for _ in range(count)], np.int64)
        times = np.array([dice.randrange(1, 5) for _ in range(count)], np.int64)
        lines = np.sort(np.array([dice.randrange(3) for _ in range(count)], np.int64))
        assert estimate_fusible_time(kinds, times, lines).tolist() == _slowly(
            kinds.tolist(), times.tolist(), lines.tolist()
        )


@pytest.mark.skipif(not H100.is_file(), reason="the shared captures are not beside the project")
def test_a_busy_gpu_is_led_by_what_it_computes() -> None:
    """The sums are those of the trace itself, read with Python's json: all its kernels are on one stream."""
    trace = json.loads(gzip.decompress(H100.read_bytes()), parse_float=Decimal)["traceEvents"]
    kernels = sorted((one for one in trace if one.get("cat") == "kernel"), key=lambda one: one["ts"])
    assert {one["tid"] for one in kernels} == {7}
    names = [one["name"] for one in kernels]
    is_own = ["elementwise_kernel" in name or "CatArrayBatchedCopy" in name for name in names]
    kinds = [
        ELEMENTWISE if own else REDUCTION if "::reduce_kernel<" in name else OTHER
        for own, name in zip(is_own, names, strict=True)
    ]
    times = [int(one["dur"] * 1_000_000) for one in kernels]
    saved = sum(_slowly(kinds, times, [0] * len(times)))
    total = sum(time for time, own in zip(times, is_own, strict=True) if own)
    profile = fastprof.load(H100)
    rows = profile.kernel_stats().tables["kernels"].to_pylist()
    assert sum(row["total_ps"] for row in rows if row["kind"] == "elementwise") == total == 27_670_420_000
    first = profile.diagnosis().tables["findings"].to_pylist()[0]
    assert (first["cause"], first["cost_ps"], first["is_bound"]) == ("elementwise", saved, True)
    assert saved == 23_170_085_000
    assert "torch.compile" in first["advice"]
