"""The precision of kernels: by their names, by what their instructions read, or unknown; attention on Tensor Cores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hlo_builder import Op, Program, shape
from reports import column, figures, session_of
from test_kernel_stats import gpu, kernel
from trace_builder import Metadata, line, plane, xspace

import fastprof
from fastprof.derive.devices import gpu_kernels

CAPTURES = Path(__file__).resolve().parents[3] / "shared" / "captures" / "xspace"


def nothing() -> tuple[str, ...]:
    return ()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Cijk_Ailk_Bljk_BBS_BH_MT256x224x64_MI16x16x16x1_SN.kd", "bf16"),
        ("Cijk_Alik_Bljk_HHS_BH_Bias_MT128x128x32", "f16"),
        ("Cijk_Ailk_Bljk_HB_MT64x64x16", "f16"),
        ("Cijk_Ailk_Bljk_SB_MT128x64x16", "f32"),
        ("Cijk_Ailk_Bjlk_DB_MT64x64x8", "f64"),
        ("Custom_Cijk_Alik_Bljk_I8II_BH_MT", "s8"),
        ("Cijk_Alik_Bljk_F8B8BS_BH_MT", "f8"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas", "bf16"),
        ("sm80_xmma_gemm_f16f16_f16f32_f32_nn_n", "f16"),
        ("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc", "tf32"),
        ("cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x64_32x6_nt_align1>", "tf32"),
        ("turing_fp16_s1688gemm_fp16_128x128_nn", "f16"),
        ("volta_h884gemm_256x128_ldg8_nn", "f16"),
        ("volta_sgemm_128x64_nt", "f32"),
        ("volta_scudnn_128x64_relu_interior_nn_v1", "f32"),
        ("volta_dgemm_64x64_nn", "f64"),
        ("nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT", "bf16"),
        ("nvjet_hsh_128x256_64x4_1x2_h_bz_NNT", "f16"),
        ("nvjet_sm103_qqtst_128x256_128x6_2x1_2cta_v_bz_TNT", "f8"),
        ("nvjet_sm103_ootst_128x256_v_bz_TNT", "f4"),
        ("nvjet_sss_tf32_128x256_TNT", "tf32"),
        ("bmm_E2m1_E2m1E2m1_Fp32_bA16_bB16_bC16_t128x32x512u2_s4", "f4"),
        ("void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 2112u, 7168u, 1u>(float*, int*)", "f8"),
        ("void layer_norm<c10::BFloat16, float>(int, float)", "bf16"),
        ("void f<c10::Half, float, c10::Half>(long)", "f16"),
        ("void Eigen::internal::EigenMetaKernel<Eigen::half const>(int)", "f16"),
        ("void gemmSN_NN_kernel<float, 128>(float4 const*)", "f32"),
        ("void fbgemm::_FP8rowwise_to_float_kernel<float>(unsigned char const*)", "f32"),
        ("void pow<double>(double)", "f64"),
        ("void fbgemm::permute_2D_float_kernel<int, long>(int)", None),
        ("loop_add_fusion", None),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", None),
    ],
)
def test_names_of_kernels_have_their_type(name: str, expected: str | None) -> None:
    assert gpu_kernels.find_precision(name, nothing) == expected


def test_16_bits_or_fewer_are_narrow() -> None:
    narrow = {one: gpu_kernels.is_narrow(one) for one in ("bf16", "f16", "f8e4m3fn", "s8", "tf32", "f32", "f64", "c64")}
    assert [one for one, is_narrow in narrow.items() if is_narrow] == ["bf16", "f16", "f8e4m3fn", "s8"]


def test_a_kernel_whose_name_has_no_type_has_that_which_its_instruction_reads() -> None:
    program = Program("f")
    half, single = shape("bf16", 4, 4), shape("f32", 4, 4)
    program.entry(
        Op("a", "parameter", half),
        Op("b", "parameter", single),
        Op("i", "parameter", shape("s32", 4)),
        Op("call", "custom-call", single, ["a", "a", "b"]),
        Op("mixed", "add", single, ["a", "b"]),
        Op("indexed", "gather", half, ["a", "i"]),
        Op("made", "iota", single, []),
        Op("counted", "negate", shape("s32", 4), ["i"]),
    )
    programs = plane("/host:metadata", event_metadata=[Metadata("f(7)", 7, stats={"Hlo Proto": program.proto()})])
    names = ("call", "mixed", "indexed", "made", "counted", "missing")
    kernels = [kernel(f"k_{name}", 10 * at, 9 - at, hlo_op=name, program_id=7) for at, name in enumerate(names)]
    kernels.append(kernel("sgemm", 90, 1, hlo_op="call", program_id=7))
    report = session_of(xspace(programs, plane("/device:GPU:0", [line("s", kernels, id=1)]))).kernel_stats()
    found = dict(zip(column(report, "kernels", "name"), column(report, "kernels", "precision"), strict=True))
    assert found == {
        "k_call": "bf16", "k_mixed": None, "k_indexed": "bf16", "k_made": "f32", "k_counted": None, "k_missing": None,
        "sgemm": "f32",
    }  # fmt: skip


def test_kernels_alike_but_for_what_their_instructions_read_are_of_unknown_precision() -> None:
    program = Program("f")
    program.entry(
        Op("a", "parameter", shape("bf16", 4)),
        Op("b", "parameter", shape("f32", 4)),
        Op("x", "negate", shape("bf16", 4), ["a"]),
        Op("y", "negate", shape("f32", 4), ["b"]),
    )
    programs = plane("/host:metadata", event_metadata=[Metadata("f(7)", 7, stats={"Hlo Proto": program.proto()})])
    kernels = [kernel("k", 10 * at, 5, hlo_op=name, program_id=7) for at, name in enumerate("xy")]
    report = session_of(xspace(programs, plane("/device:GPU:0", [line("s", kernels, id=1)]))).kernel_stats()
    assert column(report, "kernels", "precision") == [None]


def test_if_nothing_shows_the_precision_it_is_unknown_and_not_32_bits() -> None:
    report = session_of(gpu(kernel("loop_add_fusion", 0, 5))).overview()
    assert [figures(report)[f"compute_{part}_percent"] for part in ("16bit", "32bit", "unknown")] == [None, None, 100.0]
    assert report.scalars["compute_32bit_percent"].reason == "neither names of kernels nor their programs show it"
    assert "16-bit arithmetic" not in report.tables["verdicts"]["aspect"].to_pylist()


@pytest.mark.parametrize(
    ("name", "total_ps", "unknown_ps"),
    [("gpu-mi300x-jax08-gemm", 3_475_484_000, 87_880_000), ("gpu-mi300x-jax-conv-minimal-08", 28_137_077_000, None)],
)
def test_products_of_bfloat16_on_amd_are_in_16_bits_but_for_xprof(
    name: str, total_ps: int, unknown_ps: int | None
) -> None:
    """The programs have no floats but of bf16; copies of the runtime have no type."""
    path = CAPTURES / name
    if not path.is_dir():
        pytest.skip("the shared captures are not beside the project")
    profile = fastprof.load(path)
    rows = profile.kernel_stats().tables["kernels"].to_pylist()
    assert sum(row["total_ps"] for row in rows) == total_ps
    assert {row["precision"] for row in rows if row["name"].startswith("Cijk_")} == {"bf16"}
    unknown = sum(row["total_ps"] for row in rows if row["precision"] is None)
    assert unknown_ps is None or unknown == unknown_ps
    report = profile.overview()
    shown = [figures(report)[f"compute_{part}_percent"] for part in ("16bit", "32bit", "unknown")]
    assert shown == pytest.approx([100 - 100 * unknown / total_ps, 0.0, 100 * unknown / total_ps])
    p = json.loads(report.to_xprof())[0]["p"]
    assert (p["device_compute_16bit_percent"], p["device_compute_32bit_percent"]) == ("0.0%", "0.0%")


@pytest.mark.parametrize(
    ("name", "uses"),
    [
        ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, cutlass::bfloat16_t>>", True),
        ("void flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, cutlass::half_t>>", True),
        ("void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<cutlass::half_t>", True),
        ("void cutlass::device_kernel<flash::FlashAttnFwdSm90<cutlass::bfloat16_t>>", True),
        ("fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention)", True),
        ("fmha_cutlassB_f16_aligned_64x64_k64_sm80(PyTorchMemEffAttention)", True),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128", True),
        ("fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention)", False),
        ("void flash_fwd_splitkv_combine_kernel<cutlass::half_t>", False),
        ("void flash_bwd_dot_do_o_kernel<cutlass::half_t>", False),
        ("void flash_bwd_convert_dq_kernel<cutlass::half_t>", False),
    ],
)
def test_fused_attention_in_16_bits_runs_on_tensor_cores(name: str, uses: bool) -> None:
    assert gpu_kernels.runs_on_units(name, "Nvidia") is uses
    assert not gpu_kernels.runs_on_units(name, "AMD")
    report = session_of(gpu(kernel(name, 0, 5))).kernel_stats()
    assert column(report, "kernels", "uses_tensor_cores") == [uses]


@pytest.mark.parametrize(
    ("name", "uses"),
    [
        ("nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_NNT", True),
        ("nvjet_sm100_tst_64x32_64x16_2x1_2cta_v_bz_TNT", True),
        ("nvjet_qqtst_128x256_128x6_2x1_2cta_v_bz_TNT", True),
        ("cutlass3x_sm90_tensorop_s64x128x16gemm_f16_f16_f32_f32_128x128x64_2x1x1_0_ntn_align8", True),
        ("cutlass3x_sm100_simt_sgemm_f32_f32_f32_f32_f32_128x64x16_1x1x1_3_tnn_align1_bias_f32_relu", False),
        ("void cutlass::device_kernel<vllm::f<cutlass::gemm::MainloopSm90TmaGmmaWarpSpecialized<4>>>", True),
        ("void cutlass::device_kernel<f<cute::TiledMMA<cute::MMA_Atom<cute::SM80_16x8x16_F32BF16BF16F32_TN>>>>", True),
        ("void cutlass::device_kernel<at::cuda::detail::prepare_grouped_gemm_data>", False),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8_stage3_ffma_aligna4_alignc4", False),
        ("sm90_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize64x64x8", False),
        ("void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 2112u, 7168u, 1u>(float*, int*)", True),
        ("void deep_gemm::fp8_gemm_kernel<7168u, 2048u, 128u>(float*)", True),
        ("void deep_gemm::smxx_clean_logits<256u>(unsigned int)", False),
        ("void marlin::Marlin<(long)1125899906910725, (long)1125899906843648>(int4 const*)", True),
        ("void marlin_moe_wna16::Marlin<c10::Half, 8589934852L>(int4 const*)", True),
        ("void gptq_marlin_repack_kernel<256, 4, false>(unsigned int const*)", False),
        ("void flash::flash_fwd_splitkv_mla_kernel<Flash_fwd_kernel_traits_mla<576>>(Flash_fwd_mla_params)", True),
        ("kernel_cutlass_kernel_flash_attncuteflash_fwd_sm100FlashAttentionForwardSm100_object_at_", True),
        ("void flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::KernelTraits<1>>(Params)", True),
        ("void flashinfer::BatchDecodeWithPagedKVCacheKernel<flashinfer::KernelTraits<1>>(Params)", False),
        ("fmhaSm100fKernel_QkvBfloat16OBfloat16H128PagedKvCausalP64VarSeqQ128Kv128PersistentContext", True),
        ("bmm_Bfloat16_E2m1E2m1_Fp32_bA16_bB16_t128x64x256u2_s5_et128x64_m128x64x64", True),
        ("tinygemm_m16n8k16_chunk_kernel<A, B>", True),
        ("void vllm::paged_attention_v1_kernel<__nv_bfloat16, 128, 16>(float*)", False),
        ("triton_poi_fused_add_mul_0", False),
        ("triton_tem_fused_addmm_relu_3", None),
        ("fused_moe_kernel", None),
        ("_w8a8_block_fp8_matmul", None),
        ("void mul_mat_q<(ggml_type)8, 128, false>(char const*)", None),
    ],
)  # fmt: skip
def test_names_of_libraries_on_nvidia(name: str, uses: bool | None) -> None:
    report = session_of(gpu(kernel(name, 0, 5))).kernel_stats()
    assert column(report, "kernels", "uses_tensor_cores") == [uses]
    open_names = [notice.text for notice in report.notices if "do not show whether" in notice.text]
    assert open_names == (
        ["Kernel names do not show whether 100.0 % of kernel time uses Tensor Cores: it counts as neither."]
        if uses is None else []
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "uses"),
    [
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT256x224x64_MI16x16x1_SN_LDSB1", True),
        ("void ck::kernel_gemm_xdl_cshuffle_v3<ck::GridwiseGemm_xdl_cshuffle_v3>()", True),
        ("void ck_tile::kentry<256, 1, ck_tile::FmhaFwdKernel<ck_tile::BlockFmhaPipelineQRKSVSAsync>>()", True),
        ("void ck_tile::kentry<256, 2, ck_tile::FmhaFwdSplitKVCombineKernel<int>>()", False),
        ("void paged_attention_ll4mi_QKV_mfma16_kernel<__hip_bfloat16>()", True),
        ("_ZN5aiter24fmha_fwd_hd128_bf16_rtneE", True),
        ("aiter::fmoe_bf16_blockscaleFp8_g1u1_vs_silu_1tg_32x256", True),
        ("void aiter::cross_device_reduce_1stage<__hip_bfloat16, 8>()", False),
        ("void aiter::add_rmsnorm_quant_kernel<bf16>()", False),
        ("fused_moe_kernel", None),
    ],
)
def test_names_of_libraries_on_amd(name: str, uses: bool | None) -> None:
    report = session_of(gpu(kernel(name, 0, 5), vendor="AMD")).kernel_stats()
    assert column(report, "kernels", "uses_tensor_cores") == [uses]


def test_kernels_of_cublas_since_hopper_show_the_maker_and_the_generation() -> None:
    name = "nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_NNT"
    report = session_of(xspace(plane("/device:GPU:0", [line("Stream #1", [kernel(name, 0, 5)])]))).kernel_stats()
    assert column(report, "kernels", "uses_tensor_cores") == [True]
    assert gpu_kernels.find_least_capability([name]) == ((9, 0), name)
