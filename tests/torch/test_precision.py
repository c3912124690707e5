"""Products in 32 bits: the finding and kernel-stats agree, also of backward passes."""

from __future__ import annotations

from pathlib import Path

import pytest

import fastprof
from fastprof.analyses.findings.facts import DiagnosisFacts, EventNames
from fastprof.analyses.findings.op_findings import find_single_precision
from fastprof.analyses.findings.reports import KernelStats
from fastprof.derive.devices.op_names import PYTORCH
from fastprof.derive.host import GPU

KINETO = Path(__file__).resolve().parents[3] / "shared" / "captures" / "chrome" / "kineto"


@pytest.mark.skipif(not KINETO.is_dir(), reason="the shared captures are not beside the project")
@pytest.mark.parametrize(("name", "others_ps"), [("resnet50_worker0", 551_000_000), ("a100_rank-0", 0)])
def test_the_finding_is_what_kernel_stats_calls_missed(name: str, others_ps: int) -> None:
    """But for kernels that only compute offsets for the products of ResNet-50."""
    profile = fastprof.load(KINETO / f"{name}.json.gz")
    report = profile.kernel_stats()
    kernels = DiagnosisFacts(PYTORCH, GPU, {report.analysis: report}, EventNames()).columns(KernelStats.kernels)
    missed = [
        (row["total_ps"], row["name"], single)
        for row, single in zip(report.tables["kernels"].to_pylist(), find_single_precision(kernels), strict=True)
        if row["could_use_tensor_cores"] and row["uses_tensor_cores"] is False
    ]
    assert sum(time for time, _, _ in missed) == report.scalars["missed_tensor_core_ps"].value
    assert sum(time for time, _, single in missed if not single) == others_ps
    assert all("OffsetsKernel" in kernel for _, kernel, single in missed if not single)
    costs = {row["cause"]: row["cost_ps"] for row in profile.diagnosis().tables["findings"].to_pylist()}
    assert costs["precision"] == sum(time for time, _, single in missed if single)
