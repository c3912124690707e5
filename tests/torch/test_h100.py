"""A trace of an H100 that records its model: attention on Tensor Cores, precision and peaks, recomputed from it."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path

import pytest
from reports import data_table, figures

import fastprof

H100 = Path(__file__).resolve().parents[3] / "shared" / "captures" / "chrome" / "kineto" / "h100_qwen.json.gz"

pytestmark = pytest.mark.skipif(not H100.is_file(), reason="the shared captures are not beside the project")


@pytest.fixture(scope="module")
def kernels() -> list[tuple[str, int]]:
    trace = json.loads(gzip.decompress(H100.read_bytes()), parse_float=Decimal)["traceEvents"]
    every = (one for one in trace if one.get("cat") == "kernel")
    return [(one["name"], int(Decimal(one["dur"]) * 1_000_000)) for one in every]


@pytest.fixture(scope="module")
def profile() -> fastprof.Profile:
    return fastprof.load(H100)


def test_flash_attention_in_16_bits_runs_on_tensor_cores(
    kernels: list[tuple[str, int]], profile: fastprof.Profile
) -> None:
    flash = [ps for name, ps in kernels if "pytorch_flash::flash_fwd_kernel<" in name]
    assert (len(flash), round(sum(flash) / 1e6)) == (34, 3855)
    products = [ps for name, ps in kernels if "xmma_gemm" in name or "tensorop" in name]
    report = profile.kernel_stats()
    rows = [row for row in report.tables["kernels"].to_pylist() if "flash_fwd" in row["name"]]
    assert sum(row["occurrences"] for row in rows) == 34 and all(row["uses_tensor_cores"] for row in rows)
    assert [row["could_use_tensor_cores"] for row in rows if row["op_name"]] == [True]
    assert {row["precision"] for row in rows} == {"bf16"}
    assert figures(report)["tensor_core_ps"] == sum(flash) + sum(products)
    assert figures(report)["tensor_core_share"] == pytest.approx(0.366, abs=0.0005)
    xprof = [row for row in data_table(json.loads(report.to_xprof())) if "flash_fwd" in row["kernel_name"]]
    assert xprof and not any(row["is_kernel_using_tensor_core"] for row in xprof)


def test_the_overview_shows_the_precision_of_kernels(kernels: list[tuple[str, int]], profile: fastprof.Profile) -> None:
    narrow = sum(ps for name, ps in kernels if "bf16" in name or "bfloat16" in name.lower())
    total = sum(ps for _, ps in kernels)
    shown = figures(profile.overview())
    parts = [shown[f"compute_{part}_percent"] for part in ("16bit", "32bit", "unknown")]
    assert parts[0] == pytest.approx(100 * narrow / total) and sum(parts) == pytest.approx(100)
    assert [round(part, 1) for part in parts] == [77.2, 16.5, 6.3]


def test_both_peaks_follow_from_the_recorded_model(profile: fastprof.Profile) -> None:
    report = profile.roofline()
    by_name = figures(profile.roofline(device="H100"))
    for name, value in (("peak_flops_per_s", 989.4e12), ("peak_hbm_bytes_per_s", 3350e9)):
        assert figures(report)[name] == by_name[name] == pytest.approx(value)
    assert report.tables["device"]["peak_source"].to_pylist() == ["published table", "published table"]
