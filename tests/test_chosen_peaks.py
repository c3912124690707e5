"""Peaks of GPUs whose maker is not recorded, and peaks that users choose."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from reports import figures, notices, rows, session_of
from test_devices import Plane, gpu
from trace_builder import event, line, plane, xspace

import fastprof
from fastprof.derive.devices.device_peaks import NAMED, find_named_device, find_peaks, format_peaks, guess_peaks
from fastprof.derive.devices.gpu_kernels import guess_vendor

PEAKS = ("peak_flops_per_s", "peak_hbm_bytes_per_s")


# ---- who made the GPU


@pytest.mark.parametrize(
    ("capability", "models", "kernels", "vendor"),
    [
        ((7, 0), (), (), "Nvidia"),
        ((8, 6), (), (), "Nvidia"),
        ((9, 4), (), (), "AMD"),
        ((9, 0), (), (), None),  # H100 and gfx90a
        ((9, 0), ("NVIDIA H100 80GB HBM3",), (), "Nvidia"),
        ((9, 0), ("AMD Instinct MI250X",), (), "AMD"),
        ((9, 0), ("gfx90a",), (), "AMD"),
        ((9, 0), ("Tesla V100-SXM2-16GB",), (), "Nvidia"),
        ((9, 0), (), ("sm80_xmma_gemm_f16",), "Nvidia"),
        ((8, 0), (), ("Cijk_Ailk_Bljk_HHS",), "AMD"),
        ((8, 0), (), ("ncclKernel", "Cijk_Ailk"), None),
        ((8, 0), ("some GPU",), ("fusion_1",), None),
        ((None, None), (), (), None),
        (("7", 0), (), (), None),
    ],
)
def test_the_maker_follows_from_model_capability_or_kernels(
    capability: tuple[Any, Any], models: tuple[str, ...], kernels: tuple[str, ...], vendor: str | None
) -> None:
    stats = {"compute_cap_major": capability[0], "compute_cap_minor": capability[1]}
    found = guess_vendor(stats, models, kernels)
    assert (found and found[0]) == vendor


def test_peaks_of_a_likely_maker_say_how_it_is_known() -> None:
    found = guess_peaks([gpu(None, 7, 0)], ())
    assert found is not None
    assert (found.name, found.bandwidths_gb_per_s[0]) == ("Nvidia GPU (Volta)", 1555.0)
    assert found.teraflops_per_s == pytest.approx(108 * 1024 * 1.41 / 1e3)
    assert found.reasons == (
        "the capture does not record the device vendor (device_vendor): Nvidia is assumed, because only GPUs of "
        "Nvidia have compute capability 7.0",
    )
    (own,) = (find_peaks([gpu(None, 7, 0)]),)
    assert own is not None and own.teraflops_per_s == 0.0  # as XProf has it


@pytest.mark.parametrize("plane", [gpu("Nvidia", 7, 0), gpu("Intel", 7, 0), gpu(None, 9, 0), Plane("TPU")])
def test_recorded_makers_are_not_doubted_and_none_is_made_up(plane: Plane) -> None:
    assert guess_peaks([plane], ()) is None


def test_the_real_capture_without_a_maker_has_peaks_in_our_answer_only(captures: Path) -> None:
    report = fastprof.load(captures / "xspace" / "gpu-v100x8-tf").roofline()
    known = figures(report)
    assert (known["device_type"], *(known[name] for name in PEAKS)) == (
        "Nvidia GPU (Volta)", 80 * 1024 * 1.53e9, 898_048_000_000.0,
    )  # fmt: skip
    assert '"peak_flop_rate": "0"' in report.to_xprof()


# ---- what users choose


@pytest.mark.parametrize("text", ["H100", "h100", "NVIDIA H100", "nvidia-h100"])
def test_devices_are_named_as_people_name_them(text: str) -> None:
    assert find_named_device(text) == "H100"


@pytest.mark.parametrize("name", NAMED)
def test_names_of_devices_are_distinct_and_have_both_figures(name: str) -> None:
    chip = NAMED[name]
    assert find_named_device(name) == name
    assert 10 < chip.teraflops / chip.cores < 10_000 and 100 < chip.hbm / chip.cores < 20_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("flops=312T,hbm=2039GB/s", "flops=312000000000000.0,hbm=2039000000000.0"),
        (" hbm = 1.5 TB/s ", "hbm=1500000000000.0"),
        ("flops=2.5e12", "flops=2500000000000.0"),
        ("flops=1 Pflop/s", "flops=1000000000000000.0"),
        ("flops=312000000000000.0,hbm=2039000000000.0", "flops=312000000000000.0,hbm=2039000000000.0"),
    ],
)
def test_peaks_are_rates_with_prefixes(text: str, expected: str) -> None:
    assert format_peaks(text) == expected


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({"device": "H10O"}, "device: 'H10O' is not in the table of peaks; did you mean 'H100'?"),
        ({"device": "abacus"}, "device: 'abacus' is not in the table of peaks; it has TPU v2, TPU v3, "),
        ({"device": 5}, "device: 5 is not the name of a device"),
        ({"peak": "flop=3T"}, "peak: 'flop=3T' is not a peak; did you mean 'flops'?; write peaks as flops=312T,hbm="),
        ({"peak": "flops=3GB/s"}, "peak: '3GB/s' is not a rate for flops; write peaks as "),
        ({"peak": "hbm=-1"}, "peak: '-1' is not a rate for hbm; write peaks as "),
        ({"peak": "hbm=1G,hbm=2G"}, "peak: 'hbm=2G' repeats a peak; write peaks as "),
        ({"peak": "hbm=0"}, "peak: 'hbm=0' is not a rate of a device; write peaks as "),
        ({"peak": "hbm=1e999"}, "peak: 'hbm=1e999' is not a rate of a device; write peaks as "),
        ({"peak": ""}, "peak: '' is not a peak; write peaks as "),
        ({"peak": "hbm=1" + "0" * 300}, "is not a rate of a device; write peaks as "),
    ],
)
def test_names_and_peaks_that_make_no_sense_are_refused(params: dict[str, Any], problem: str) -> None:
    with pytest.raises(fastprof.UsageError) as refused:
        session_of(xspace(hostnames=["vm"])).roofline(**params)
    assert problem in str(refused.value)


def trained(stats: Mapping[str, Any]) -> fastprof.Profile:
    """A GPU that does 10**9 flops and moves 10**6 bytes in a millisecond."""
    kernel = event("gemm", 0, 10**9, {"hlo_op": "dot.1", "hlo_module": "f", "flops": 10**9, "bytes_accessed": 10**6})
    return session_of(
        xspace(plane("/device:GPU:0", [line("Stream #1", [kernel], id=1)], stats=stats), hostnames=["vm"])
    )


RECORDED = {
    "device_vendor": "Nvidia", "compute_cap_major": 8, "compute_cap_minor": 0, "clock_rate": 1_000_000,
    "core_count": 100, "memory_bandwidth": 10**12,
}  # fmt: skip


@pytest.mark.parametrize(
    ("params", "expected", "source", "remark"),
    [
        ({}, (204.8e12, 1e12), ["capture", "capture"], None),
        ({"device": "v100"}, (125e12, 900e9), ["parameter", "parameter"], "those of V100 (125 TFLOP/s, 900 GB/s)"),
        ({"peak": "flops=10T"}, (10e12, 1e12), ["parameter", "capture"], "those that were given (10 TFLOP/s)"),
        ({"device": "V100", "peak": "hbm=1GB/s"}, (125e12, 1e9), ["parameter", "parameter"],
         "those of V100 (125 TFLOP/s, 900 GB/s) and those that were given (1 GB/s)"),
        ({"device": "MI250X"}, (191.5e12, 1638.5e9), ["parameter", "parameter"], "MI250X (191.5 TFLOP/s, 1638.5 GB/s)"),
    ],
)  # fmt: skip
def test_chosen_peaks_go_before_recorded_ones(
    params: dict[str, Any], expected: tuple[float, float], source: list[str], remark: str | None
) -> None:
    report = trained(RECORDED).roofline(**params)
    assert tuple(figures(report)[name] for name in PEAKS) == pytest.approx(expected)
    assert [row[0] for row in rows(report, "device", "peak_source")] == source
    chosen = [text for text in notices(report) if text.endswith("are used, as chosen.")]
    assert [remark in text for text in chosen] == [True] if remark else chosen == []


def test_every_analysis_with_peaks_takes_them_and_xprofs_form_does_not_change() -> None:
    profile = trained(RECORDED)
    for name in ("overview", "op_stats", "op_profile", "hlo_stats", "roofline"):
        own, chosen = profile.report(name), profile.report(name, peak="flops=1T,hbm=10GB/s")
        assert own.to_json() != chosen.to_json(), name
        assert own.to_xprof() == chosen.to_xprof(), name


def test_programs_of_a_cpu_are_compared_with_chosen_peaks() -> None:
    profile = fastprof.load(Path(__file__).parent.parent / "demo" / "logdir")
    assert [figures(profile.roofline())[name] for name in PEAKS] == [None, None]
    report = profile.roofline(peak="flops=100G,hbm=50GB/s")
    assert [figures(report)[name] for name in PEAKS] == [100e9, 50e9]
    assert figures(report)["compute_peak_percent"] > 0
    assert report.to_xprof() == profile.roofline().to_xprof()
