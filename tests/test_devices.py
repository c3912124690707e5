"""Names of devices, and what they could do at best."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

import fastprof
from fastprof.derive.devices.device_peaks import (
    COMPUTE,
    HBM,
    NVIDIA_FLOPS,
    SRAM_READ,
    Peaks,
    add_published_peaks,
    add_remedy,
    describe_device,
    find_capability,
    find_peaks,
    guess_peaks,
)
from fastprof.derive.devices.gpu_kernels import find_least_capability
from fastprof.tables.host_reader import read_host


@dataclass
class Plane:
    kind: str | None
    stats: dict[str, Any] = field(default_factory=dict)
    name: str = "/device:GPU:0"


def gpu(vendor: str | None, major: int, minor: int, **stats: Any) -> Plane:
    known = {"clock_rate": 1_410_000, "core_count": 108, "memory_bandwidth": 1_555_000_000_000}
    known |= {"compute_cap_major": major, "compute_cap_minor": minor} | ({"device_vendor": vendor} if vendor else {})
    return Plane("GPU", known | stats)


def peaks_of(*planes: Plane) -> Peaks:
    found = find_peaks(planes)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("vendor", "capability", "wanted"),
    [
        ("Nvidia", (2, 0), "Nvidia GPU (Fermi)"),
        ("Nvidia", (3, 5), "Nvidia GPU (Kepler)"),
        ("Nvidia", (5, 2), "Nvidia GPU (Maxwell)"),
        ("Nvidia", (6, 1), "Nvidia GPU (Pascal)"),
        ("Nvidia", (7, 0), "Nvidia GPU (Volta)"),
        ("Nvidia", (7, 5), "Nvidia GPU (Turing)"),
        ("Nvidia", (8, 6), "Nvidia GPU (Ampere)"),
        ("Nvidia", (8, 9), "Nvidia GPU (Ada Lovelace)"),
        ("Nvidia", (9, 0), "Nvidia GPU (Hopper)"),
        ("Nvidia", (10, 3), "Nvidia GPU (Blackwell)"),
        ("Nvidia", (12, 0), "Nvidia GPU"),
        ("AMD", (9, 4), "AMD GPU - gfx942"),
        ("AMD", (9, 5), "AMD GPU - gfx950"),
        ("AMD", (9, 0), "AMD GPU - gfx-9XX series"),
        ("AMD", (11, 0), "AMD GPU - gfx-11XX series"),
        ("AMD", (4, 0), "AMD GPU"),
        ("Intel", (1, 0), "GPU"),
        (None, (7, 0), "GPU"),
    ],
)
def test_the_name_of_a_gpu(vendor: str | None, capability: tuple[int, int], wanted: str) -> None:
    assert describe_device(gpu(vendor, *capability)) == wanted


def test_an_amd_gpu_is_called_as_it_calls_itself() -> None:
    assert describe_device(gpu("AMD", 9, 4, gpu_device_name="gfx90a")) == "AMD GPU - gfx90a"
    assert describe_device(gpu("AMD", 9, 4, gpu_device_name="MI300X")) == "AMD GPU - gfx942"  # no architecture


def test_a_tpu_is_called_as_it_says() -> None:
    assert describe_device(Plane("TPU", {"device_type_string": "TPU v6 Lite"})) == "TPU v6 Lite"
    assert describe_device(Plane("TPU")) == "TPU"


def test_peaks_of_an_a100() -> None:
    peaks = peaks_of(gpu("Nvidia", 8, 0))
    assert peaks.hardware == "GPU" and peaks.reasons == ()
    assert peaks.teraflops_per_s == pytest.approx(311.86944, rel=1e-15)
    assert peaks.bandwidths_gb_per_s == (1555.0, 38983.68, 38983.68)
    assert peaks.ridge_point == pytest.approx(200.559, abs=5e-4)
    assert not peaks.has_cmem and not peaks.has_merged_vmem and not peaks.has_megacore


def test_peaks_of_an_mi300x(captures: Path) -> None:
    profile = fastprof.load(captures / "xspace" / "gpu-mi300x-jax08-gemm")
    peaks = peaks_of(*read_host(profile.table_set, 0, (), (), ()).planes)
    assert peaks.name == "AMD GPU - gfx942"
    assert peaks.teraflops_per_s == pytest.approx(1307.4432, rel=1e-15)
    assert peaks.bandwidths_gb_per_s == (2662.4, 81715.2, 81715.2)


def test_peaks_that_a_capture_gives_go_before_those_of_the_table() -> None:
    given = {"peak_teraflops_per_second": 500.0, "peak_sram_rd_bw_gigabytes_per_second": 7.0}
    peaks = peaks_of(gpu("Nvidia", 9, 0, **given))
    assert peaks.teraflops_per_s == 500.0 and peaks.bandwidths_gb_per_s == (1555.0, 7.0, 108 * 256 * 1.41)


def test_of_compute_capabilities_that_are_not_listed_the_next_lower_one_stands_in_and_it_is_said() -> None:
    for capability, listed in (
        ((12, 0), (10, 0)),
        ((9, 1), (9, 0)),
        ((8, 7), (8, 6)),
        ((3, 5), (3, 0)),
        ((1, 3), (2, 0)),
    ):
        peaks = peaks_of(gpu("Nvidia", *capability))
        assert peaks.teraflops_per_s == 108 * (NVIDIA_FLOPS[listed] * 1.41 / 1e3)
        assert peaks.reasons == (
            f"compute capability {capability[0]}.{capability[1]} is not in the table of peaks: "
            f"peaks of {listed[0]}.{listed[1]} are used",
        )


@pytest.mark.parametrize("stats", [{}, {"compute_cap_major": 0, "compute_cap_minor": 0}])
def test_without_a_compute_capability_a_gpu_has_no_known_peak_and_no_generation(stats: dict[str, Any]) -> None:
    """Kernels of a family run on later GPUs, too: what they show is a lower bound."""
    plane = Plane("GPU", {"clock_rate": 1_410_000, "core_count": 108, **stats})
    kernels = ["volta_sgemm_64x64_nn", "turing_fp16_s1688gemm", "nn::Module"]
    found = guess_peaks([plane], kernels)
    assert found is not None and (found.teraflops_per_s, found.name) == (0.0, "Nvidia GPU")
    assert found.reasons[1:] == (
        "the capture does not record the device's compute capability, so its peak FLOP/s is unknown",
        "it runs kernels such as turing_fp16_s1688gemm, so its compute capability is 7.5 or later",
    )
    assert find_capability([plane]) is None
    assert find_capability([plane, gpu("Nvidia", 8, 0), gpu("Nvidia", 9, 0)]) == (8, 0)


@pytest.mark.parametrize(
    ("kernel", "capability"),
    [
        ("volta_scudnn_128x128_nn_v1", (7, 0)),
        ("sm75_xmma_gemm_f16", (7, 5)),
        ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm>", (8, 0)),
        ("ampere_sgemm_128x64_nn", (8, 0)),
        ("sm90_xmma_gemm_bf16", (9, 0)),
        ("void at::native::elementwise_kernel<128>", None),
    ],
)
def test_families_of_kernels(kernel: str, capability: tuple[int, int] | None) -> None:
    found = find_least_capability([kernel])
    assert (found and found[0]) == capability


def test_old_nvidia_gpus_have_less_shared_memory_bandwidth() -> None:
    assert peaks_of(gpu("Nvidia", 2, 0)).bandwidths_gb_per_s[SRAM_READ] == pytest.approx(108 * 64 * 1.41)


@pytest.mark.parametrize("vendor", [None, "Intel", 7, b"Nvidia"])
def test_of_an_unknown_vendor_only_the_bandwidth_is_known(vendor: Any) -> None:
    peaks = peaks_of(gpu(vendor, 7, 0))
    assert peaks.teraflops_per_s == 0.0 and peaks.ridge_point == 0.0
    assert peaks.bandwidths_gb_per_s == (1555.0, 0.0, 0.0)
    assert "does not record the device vendor" in peaks.reasons[0]


def test_amd_architectures_that_are_not_listed_have_no_peak() -> None:
    peaks = peaks_of(gpu("AMD", 11, 0, gpu_device_name="gfx1100"))
    assert peaks.teraflops_per_s == 0.0 and peaks.reasons == ("the peaks of AMD GPU gfx1100 are unknown",)


def test_peaks_of_a_tpu_are_what_the_capture_says() -> None:
    stats = {
        "device_type_string": "TPU v6 Lite",
        "peak_teraflops_per_second": 918.0,
        "peak_hbm_bw_gigabytes_per_second": 1637.9,
        "peak_vmem_rd_bw_gigabytes_per_second": 23296.0,
        "has_merged_vmem": 1,
    }
    peaks = peaks_of(Plane("CPU"), Plane("TPU", stats))
    assert (peaks.hardware, peaks.name, peaks.teraflops_per_s) == ("TPU", "TPU v6 Lite", 918.0)
    assert peaks.bandwidths_gb_per_s == (1637.9, 0.0, 0.0, 0.0, 0.0, 23296.0, 0.0)
    assert peaks.has_merged_vmem and not peaks.has_megacore and not peaks.has_cmem
    assert peaks.ridge_point == 918.0 * 1000 / 1637.9


def test_what_a_tpu_does_not_say_is_not_known() -> None:
    peaks = peaks_of(Plane("TPU"))
    assert peaks.teraflops_per_s == peaks.bandwidths_gb_per_s[HBM] == peaks.ridge_point == 0.0
    assert len(peaks.reasons) == 2


def test_a_tpu_goes_before_a_gpu_and_the_first_of_each_counts() -> None:
    first, second = Plane("TPU", {"peak_teraflops_per_second": 1.0}), Plane("TPU", {"peak_teraflops_per_second": 2.0})
    assert peaks_of(gpu("Nvidia", 8, 0), first, second).teraflops_per_s == 1.0
    assert find_peaks([Plane("CPU"), Plane(None)]) is None and find_peaks([]) is None


@pytest.mark.parametrize("value", ["many", b"\x01", -5, 0, float("nan"), float("inf"), None])
def test_stats_that_are_no_figures_count_as_missing(value: Any) -> None:
    peaks = peaks_of(gpu("Nvidia", 8, 0, clock_rate=value, core_count=value, memory_bandwidth=value))
    assert peaks.teraflops_per_s == 0.0 and peaks.bandwidths_gb_per_s == (0.0, 0.0, 0.0)
    assert "clock" in peaks.reasons[0]


# ---- what makers publish


def tpu(name: str, **stats: Any) -> Plane:
    return Plane("TPU", {"device_type_string": name, **stats})


@pytest.mark.parametrize(
    ("name", "teraflops", "gigabytes"),
    [
        ("TPU v2", 22.5, 350.0),
        ("TPU v3", 61.5, 450.0),
        ("TPU v4", 137.5, 600.0),
        ("TPU v4 Lite", 138.0, 614.0),
        ("TPU v5 Lite", 197.0, 819.0),
        ("TPU v5e", 197.0, 819.0),
        ("TPU v5", 229.5, 1382.5),
        ("TPU v5p", 229.5, 1382.5),
        ("TPU v6 Lite", 918.0, 1638.0),
        ("TPU v7x", 1153.5, 3690.0),
        ("TPU7x", 1153.5, 3690.0),
    ],
)
def test_published_peaks_of_tpus_are_those_of_one_core(name: str, teraflops: float, gigabytes: float) -> None:
    peaks = add_published_peaks(peaks_of(tpu(name)))
    assert (peaks.teraflops_per_s, peaks.bandwidths_gb_per_s[HBM]) == (teraflops, gigabytes)
    assert (peaks.source(COMPUTE), peaks.source(HBM)) == ("published table", "published table")
    (reason,) = peaks.reasons
    assert name in reason and "Google publishes" in reason


def test_what_the_capture_says_stays() -> None:
    found = add_published_peaks(peaks_of(tpu("TPU v4", peak_teraflops_per_second=275.0)))
    assert (found.teraflops_per_s, found.source(COMPUTE)) == (275.0, "capture")
    assert (found.bandwidths_gb_per_s[HBM], found.source(HBM)) == (600.0, "published table")
    assert "peak FLOP/s" not in " ".join(found.reasons)
    peaks = peaks_of(tpu("TPU v4", peak_teraflops_per_second=275.0, peak_hbm_bw_gigabytes_per_second=1228.0))
    assert add_published_peaks(peaks) is peaks


def test_devices_that_no_list_has_keep_their_unknown_peaks() -> None:
    unknown = peaks_of(tpu("TPU of tomorrow"))
    assert add_published_peaks(unknown) is unknown
    assert unknown.source(COMPUTE) is None and len(unknown.reasons) == 2


@pytest.mark.parametrize(
    ("model", "teraflops", "gigabytes"),
    [
        ("NVIDIA H100 80GB HBM3", 989.4, 3350.0),
        ("NVIDIA H100 PCIe", 756.0, 2000.0),
        ("NVIDIA H200", 989.4, 4800.0),
        ("NVIDIA A100-SXM4-80GB", 312.0, 2039.0),
        ("NVIDIA A100-PCIE-40GB", 312.0, 1555.0),
        ("Tesla V100-SXM2-16GB", 125.0, 900.0),
        ("Tesla V100-PCIE-32GB", 112.0, 900.0),
        ("AMD Instinct MI300X", 1307.4, 5300.0),
        ("NVIDIA H100", 0.0, 0.0),
        ("NVIDIA A100", 0.0, 0.0),
        ("", 0.0, 0.0),
    ],
)
def test_published_peaks_of_gpus_are_by_the_full_name_of_the_model(
    model: str, teraflops: float, gigabytes: float
) -> None:
    stats = {"memory_bandwidth": 0, "clock_rate": 0, "core_count": 0, "gpu_device_name": model}
    found = add_published_peaks(peaks_of(gpu("Nvidia", 9, 0, **stats)))
    assert (found.teraflops_per_s, found.bandwidths_gb_per_s[HBM]) == (teraflops, gigabytes)
    assert any("clock" in reason for reason in found.reasons) is not bool(teraflops)


def test_peaks_that_stay_unknown_come_with_what_the_user_can_do() -> None:
    remedy = "give the model of the device with --device, or its peaks with --peak"
    known = peaks_of(gpu("Nvidia", 9, 0))
    assert add_remedy(known) is known
    for stats in ({"memory_bandwidth": 0}, {"clock_rate": 0}):
        assert add_remedy(peaks_of(gpu("Nvidia", 9, 0, **stats))).reasons[-1] == remedy


def test_less_bandwidth_than_any_gpu_of_its_kind_has_is_doubted_and_kept() -> None:
    recorded = peaks_of(gpu("AMD", 9, 4, memory_bandwidth=2_662_400_000_000))
    peaks = add_published_peaks(recorded)
    assert peaks.bandwidths_gb_per_s == recorded.bandwidths_gb_per_s
    (reason,) = peaks.reasons
    assert "2,662 GB/s" in reason and "2.0 times too high" in reason
    assert add_published_peaks(peaks_of(gpu("AMD", 9, 4, memory_bandwidth=5_300_000_000_000))).reasons == ()


def test_a_device_that_nothing_calls_gpu_has_its_own_name_and_no_likely_maker() -> None:
    npu = replace(gpu(None, 7, 0), name="/device:NPU:3")
    assert describe_device(npu) == "NPU"
    assert guess_peaks([npu], ("ncclKernel",)) is None
    assert guess_peaks([gpu(None, 7, 0)], ("ncclKernel",)) is not None


def test_tpu_ops_without_ids_are_work() -> None:
    """demo/kernel: 4 calls of 144 us of matmul and 12 us of normalize."""
    profile = fastprof.load("demo/kernel")
    ops = {row["name"]: row["self_ps"] for row in profile.op_stats().tables["device_ops"].to_pylist()}
    assert ops == {"matmul": 576 * 10**6, "normalize": 48 * 10**6, "IDLE": 0}
    assert profile.steps().tables["steps"]["device_compute_ps"].to_pylist() == [156 * 10**6] * 4
    assert profile.communication().scalars["compute_share"].value == 1.0
    assert profile.diagnosis().scalars["compute_share"].value == 1.0
