"""Kernel statistics: which events are kernels, what makes them one row, exact sums, and XProf's page of them."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hlo_builder import Op, Program, f32
from reports import column, data_table, rows, session_of
from trace_builder import Event, Metadata, event, line, plane, u64, xspace

import fastprof
from fastprof.derive.devices import gpu_kernels
from fastprof.derive.devices.gpu_kernels import Launch

DETAILS = "regs:32 static_shared:16 dynamic_shared:1008 grid:8,4,2 block:128,2,1 occ_pct:50"


def kernel(name: str, at: int, duration_ps: int, details: str | None = DETAILS, **stats: Any) -> Event:
    return event(name, at, duration_ps, stats if details is None else {"kernel_details": details, **stats})


def gpu(*kernels: Event, ordinal: int = 0, vendor: str | None = "Nvidia", line_id: int = 1) -> bytes:
    stats = {} if vendor is None else {"device_vendor": vendor}
    return xspace(plane(f"/device:GPU:{ordinal}", [line("Stream #1", kernels, id=line_id)], stats=stats))


def report_of(*captures: bytes) -> fastprof.Report:
    return session_of(*captures).kernel_stats()


def shown(report: fastprof.Report) -> list[dict[str, Any]]:
    """The rows of XProf's page, by column."""
    return data_table(json.loads(report.to_xprof()))


# ---- which events are kernels


def test_a_line_id_beyond_32_bits_is_derived_by_its_low_bits() -> None:
    assert column(report_of(gpu(kernel("k", 0, 5), line_id=(7 << 32) + 0xDEADBEEF)), "kernels", "name") == []
    assert column(report_of(gpu(kernel("k", 0, 5), line_id=0xDEADBEEF + 389)), "kernels", "name") == ["k"]


def test_without_gpus_or_without_kernels_the_reason_is_reported() -> None:
    none = report_of(xspace(plane("/host:CPU")))
    assert none.scalars["tensor_core_share"].value is None
    assert none.scalars["tensor_core_share"].reason == "the capture has no GPU planes"
    assert [notice.text for notice in none.notices] == ["No kernels: the capture has no GPU planes."]
    bare = report_of(gpu(kernel("Memset", 0, 5, None)))
    assert bare.scalars["tensor_core_share"].reason == "no event of the 1 GPU planes is a kernel"
    assert (bare.scalars["kernel_count"].value, bare.scalars["total_ps"].value) == (0, 0)


# ---- rows and sums


def test_kernels_that_agree_are_one_row_over_all_gpus_of_a_host() -> None:
    first = plane("/device:GPU:0", [line("s", [kernel("k", 0, 1_999), kernel("k", 5_000, 1)], id=1)])
    second = plane("/device:GPU:1", [line("s", [kernel("k", 0, 2**40)], id=1)])
    report = report_of(xspace(first, second))
    columns = ("name", "occurrences", "total_ps", "mean_ps", "min_ps", "max_ps", "device_count", "total_share")
    assert rows(report, "kernels", *columns) == [("k", 3, 2**40 + 2_000, (2**40 + 2_000) // 3, 1, 2**40, 2, 1.0)]


def test_percentiles_are_durations_that_occurred() -> None:
    took = [7, 1, 100, 3, 3, 9, 2, 8, 5, 4, 6]
    report = report_of(gpu(*(kernel("k", 200 * i, one) for i, one in enumerate(took)), kernel("z", 5_000, 2)))
    columns = ("name", "min_ps", "p50_ps", "p90_ps", "p99_ps", "max_ps")
    assert rows(report, "kernels", *columns) == [("k", 1, 5, 9, 100, 100), ("z", 2, 2, 2, 2, 2)]


@pytest.mark.parametrize(
    ("other", "stats"),
    [
        (DETAILS.replace("regs:32", "regs:33"), {}),
        (DETAILS.replace("static_shared:16", "static_shared:17"), {}),
        (DETAILS.replace("dynamic_shared:1008", "dynamic_shared:1009"), {}),
        (DETAILS.replace("grid:8,4,2", "grid:8,4,3"), {}),
        (DETAILS.replace("block:128,2,1", "block:128,1,1"), {}),
        (DETAILS, {"tf_op": "a/Add:Add"}),
        (DETAILS, {"tf_op": "b/Add:Add"}),
    ],
)
def test_kernels_of_other_configuration_or_op_are_rows_of_their_own(other: str, stats: dict[str, Any]) -> None:
    report = report_of(gpu(kernel("k", 0, 5, tf_op="c/Add:Add"), kernel("k", 10, 7, other, **stats)))
    assert column(report, "kernels", "total_ps") == [7, 5]


def test_occupancy_records_no_kernels_apart_and_is_that_of_the_first() -> None:
    report = report_of(gpu(kernel("k", 0, 5), kernel("k", 10, 7, DETAILS.replace("occ_pct:50", "occ_pct:75"))))
    assert rows(report, "kernels", "occurrences", "occupancy_percent") == [(2, 50.0)]


def test_longest_first_then_by_name_and_dimensions() -> None:
    wide = DETAILS.replace("grid:8,4,2", "grid:10,4,2")
    report = report_of(gpu(kernel("b", 0, 5, wide), kernel("b", 10, 5), kernel("a", 20, 5), kernel("z", 30, 6)))
    assert rows(report, "kernels", "name", "grid_dim") == [
        ("z", "8,4,2"),
        ("a", "8,4,2"),
        ("b", "8,4,2"),
        ("b", "10,4,2"),
    ]


def test_the_longest_kernel_is_a_name_over_ops_and_dimensions() -> None:
    details = ("grid:1,1,1 block:64,1,1", "grid:2,1,1 block:64,1,1")
    kernels = [kernel("gemm", 10 * n, 4, one, tf_op="a:A") for n, one in enumerate(details)]
    report = report_of(gpu(*kernels, kernel("copy", 50, 6, details[0])))
    values = {name: one.value for name, one in report.scalars.items() if name.startswith("longest")}
    assert values == {
        "longest_kernel": "gemm", "longest_kernel_share": 8 / 14, "longest_op": "a", "longest_op_share": 8 / 14,
    }  # fmt: skip


def test_hosts_have_rows_of_their_own_and_share_their_ops(tmp_path: Path) -> None:
    for host, duration in (("alpha", 10), ("beta", 30)):
        (tmp_path / f"{host}.xplane.pb").write_bytes(gpu(kernel("k", 0, duration, tf_op="a/MatMul:MatMul")))
    report = fastprof.load(tmp_path).kernel_stats()
    assert rows(report, "kernels", "host", "total_ps", "total_share") == [("beta", 30, 0.75), ("alpha", 10, 0.25)]
    assert report.tables["ops"].select(["op_name", "occurrences", "total_ps"]).to_pylist() == [
        {"op_name": "a/MatMul", "occurrences": 2, "total_ps": 40}
    ]


def test_sums_beyond_64_bits_are_an_error_not_a_number() -> None:
    with pytest.raises(fastprof.CaptureError, match="64 bits"):
        report_of(gpu(*[kernel("k", 0, 2**62) for _ in range(3)]))


def test_an_event_of_negative_duration_is_not_a_kernel() -> None:
    report = report_of(gpu(kernel("k", 0, 10), kernel("back", 20, -4)))
    assert rows(report, "kernels", "name", "total_ps", "total_share") == [("k", 10, 1.0)]
    assert report.scalars["tensor_core_share"].value == 0.0


def slow_sums(capture: Path) -> dict[tuple[str, str], list[int]]:
    """By name and details, from the tables, a row at a time: count, total, least and greatest."""
    p = fastprof.load(capture)
    names = {row["plane_id"] for row in p.planes.to_pylist() if row["device_type"] == "GPU"}
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 2**63, 0])
    columns = ["name", "plane_id", "duration_ps"]
    for row in p.event_table(columns, ["kernel_details"]).to_pylist():
        if row["plane_id"] in names and row["kernel_details"] and row["duration_ps"]:
            one = sums[row["name"], row["kernel_details"]]
            one[:] = [
                one[0] + 1,
                one[1] + row["duration_ps"],
                min(one[2], row["duration_ps"]),
                max(one[3], row["duration_ps"]),
            ]
    return sums


@pytest.mark.parametrize("session", ["gpu-mi300x-jax08-gemm", "gpu-mi300x-jax-conv-minimal-08", "gpu-v100x8-tf"])
def test_real_captures_add_up_as_read_a_row_at_a_time(captures: Path, session: str) -> None:
    report = fastprof.load(captures / "xspace" / session).kernel_stats()
    expected: dict[str, list[int]] = defaultdict(lambda: [0, 0, 2**63, 0])
    for (name, _), (count, total, least, most) in slow_sums(captures / "xspace" / session).items():
        one = expected[name]
        one[:] = [one[0] + count, one[1] + total, min(one[2], least), max(one[3], most)]
    table: pa.Table = report.tables["kernels"]
    got: dict[str, list[int]] = defaultdict(lambda: [0, 0, 2**63, 0])
    for row in table.to_pylist():
        one = got[row["name"]]
        one[:] = [
            one[0] + row["occurrences"],
            one[1] + row["total_ps"],
            min(one[2], row["min_ps"]),
            max(one[3], row["max_ps"]),
        ]
    assert dict(got) == dict(expected)
    assert math.isclose(sum(table["total_share"].to_pylist()), 1.0)


# ---- ops


def test_the_op_is_that_of_tf_op_without_its_type() -> None:
    ops = ["scope/mul_1:Mul", "no colon", "Iterator::Map", ""]
    report = report_of(gpu(*[kernel(f"k{i}", 10 * i, 9 - i, tf_op=op) for i, op in enumerate(ops)]))
    assert column(report, "kernels", "op_name") == ["scope/mul_1", "no colon", "Iterator::Map", None]


def test_the_op_of_a_compiled_kernel_is_that_of_its_instruction(captures: Path) -> None:
    report = fastprof.load(captures / "xspace" / "gpu-mi300x-jax08-gemm").kernel_stats()
    assert set(column(report, "kernels", "op_name")) == {
        "jit(dot)/dot_general",
        "jit(broadcast_in_dim)/broadcast_in_dim",
        None,
    }
    ops = report.tables["ops"].select(["op_name", "tensor_core_ps", "could_use_tensor_cores"]).to_pylist()
    assert ops[0] == {
        "op_name": "jit(dot)/dot_general",
        "tensor_core_ps": 3_233_884_000,
        "could_use_tensor_cores": True,
    }


def test_the_instruction_is_the_last_of_hlo_op_and_goes_before_tf_op() -> None:
    program = Program("f")
    program.entry(Op("x", "parameter", f32(4)), Op("y", "exponential", f32(4), ["x"], op_name="jit(f)/exp"))
    programs = plane("/host:metadata", event_metadata=[Metadata("f(7)", 7, stats={"Hlo Proto": program.proto()})])
    compiled = {"tf_op": "XlaModule:", "program_id": 7}
    kernels = [
        kernel("named", 0, 9, **compiled, hlo_op="call::y"),
        kernel("of no name", 10, 8, **compiled, hlo_op="x"),
        kernel("not there", 20, 7, **compiled, hlo_op="z"),
    ]
    report = report_of(xspace(programs, plane("/device:GPU:0", [line("s", kernels, id=1)])))
    assert column(report, "kernels", "op_name") == ["jit(f)/exp", None, None]  # XlaModule is written on all kernels


def test_a_program_that_the_capture_lacks_leaves_the_op_as_it_was() -> None:
    report = report_of(gpu(kernel("k", 0, 5, tf_op="a:Mul", hlo_op="fusion.1", program_id=u64(2**63))))
    assert column(report, "kernels", "op_name") == ["a"]


# ---- Tensor Cores


@pytest.mark.parametrize(
    ("name", "nvidia", "amd"),
    [
        ("volta_h884gemm_128x64", True, False),
        ("ampere_fp16_s16816gemm_fp16", True, False),
        ("sm80_xmma_gemm_f16f16", True, False),
        ("void cutlass::hmma_kernel", True, False),
        ("Cijk_Ailk_Bljk_MT256x128x64_MI16x16x16x1_SN", False, True),
        ("Custom_Cijk_Alik", False, True),
        ("gemm_fusion_dot_general_1.kd", False, True),
        ("attn_fwd", False, True),
        ("Cijk_MI16x16", False, False),
        ("void Eigen::internal::EigenMetaKernel", False, False),
        ("volta_sgemm_64x64_nt", False, False),
        ("", False, False),
    ],
)
def test_kernels_use_tensor_cores_by_name_and_vendor(name: str, nvidia: bool, amd: bool) -> None:
    used = [gpu_kernels.uses_matrix_units(name, vendor) for vendor in ("Nvidia", "AMD", "Other", None)]
    assert used == [nvidia, amd, False, False]
    report = report_of(gpu(kernel(name, 0, 5)))
    assert column(report, "kernels", "uses_tensor_cores") == [nvidia if name else None]


@pytest.mark.parametrize(
    "name",
    [
        "sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tensor16x8x8_kernel",
        "void cutlass::Kernel<cutlass_80_tensorop_f16_s16816gemm_f16_64x64>()",
        "sm90_xmma_wgrad_wgmma_bf16",
    ],
)
def test_names_of_types_that_only_tensor_cores_have(name: str) -> None:
    """TF32 is one; XProf's form has its own rule."""
    report = report_of(gpu(kernel(name, 0, 5)))
    assert column(report, "kernels", "uses_tensor_cores") == [True]
    assert not gpu_kernels.runs_on_units(name, "AMD")


@pytest.mark.parametrize(
    ("kernels", "lacks"),
    [
        (["volta_sgemm_64x64_nt", "void f<float>()"], True),
        (["sm75_xmma_gemm_f16", "turing_fp16_gemm"], True),
        (["volta_sgemm_64x64_nt", "ampere_sgemm_32x32"], False),  # libraries use kernels of older GPUs, too
        (["volta_sgemm_64x64_nt", "void cutlass::Kernel<cutlass_80_simt_sgemm>"], False),
        (["void f<float>()"], False),
        ([], False),
    ],
)
def test_gpus_before_ampere_have_no_tf32(kernels: list[str], lacks: bool) -> None:
    assert gpu_kernels.lack_tf32(kernels) == lacks


@pytest.mark.parametrize(
    "op",
    ["layer/Conv2D", "FusedConv2D", "x/Conv3DBackprop/Conv3D", "a/MatMul", "FusedMatMul", "BatchMatMulV2", "XlaDotV2"]
    + ["rnn/CudnnRNN", "CudnnRNNV3", "jit(f)/dot_general", "jit(f)/conv_general_dilated_1", "DepthwiseConv2dNative"],
)
def test_products_and_convolutions_could_use_tensor_cores(op: str) -> None:
    assert gpu_kernels.can_multiply(op)


@pytest.mark.parametrize("op", ["MatMul", "a/MatMul_1", "Conv2D_1", "CudnnRNN", "Add", "", "a/Conv2DBackpropBias"])
def test_other_ops_could_not(op: str) -> None:
    assert not gpu_kernels.can_multiply(op)


def test_einsums_of_two_operands_could() -> None:
    answers = {
        equation: gpu_kernels.can_einsum_multiply(equation)
        for equation in ("ab,bc->ac", "ab->ba", "a,b,c->a", "a,b", "")
    }
    assert answers == {"ab,bc->ac": True, "ab->ba": False, "a,b,c->a": False, "a,b": False, "": False}
    report = report_of(gpu(kernel("k", 0, 5, tf_op="e/Einsum:Einsum", equation="ab,bc->ac")))
    assert column(report, "kernels", "could_use_tensor_cores") == [True]


def test_a_tensorflow_op_could_where_its_kernel_does_and_a_kernel_of_no_op_records_nothing() -> None:
    report = report_of(gpu(kernel("h884gemm", 0, 5, tf_op="own:Op"), kernel("h884gemm", 10, 4)))
    assert rows(report, "kernels", "op_name", "uses_tensor_cores", "could_use_tensor_cores") == [
        ("own", True, True),
        (None, True, False),
    ]


def test_time_that_could_be_on_tensor_cores_is_distinguished_from_a_twentieth_on() -> None:
    def missed(slow_ps: int) -> tuple[float, list[str]]:
        report = report_of(
            gpu(
                kernel("h884", 0, 100 - slow_ps, tf_op="a/MatMul:MatMul"),
                kernel("sgemm", 200, slow_ps, tf_op="b/MatMul:MatMul"),
            )
        )
        share = report.scalars["missed_tensor_core_share"].value
        assert isinstance(share, float)
        return share, [notice.text for notice in report.notices if notice.severity == "recommendation"]

    assert missed(4) == (0.04, [])
    share, (text,) = missed(5)
    assert share == 0.05
    assert text.startswith("5.0 % of kernel time") and "sgemm of b/MatMul" in text


def test_kernels_that_only_move_data_miss_nothing() -> None:
    """They bear the name of the convolution that they prepare."""
    report = report_of(
        gpu(
            kernel("Cijk_MI16x16x4", 0, 40, tf_op="conv/Conv2D:Conv2D"),
            kernel("input_transpose_fusion", 50, 60, tf_op="conv/Conv2D:Conv2D"),
            vendor="AMD",
        )
    )
    could = rows(report, "kernels", "name", "could_use_tensor_cores")
    assert could == [("input_transpose_fusion", False), ("Cijk_MI16x16x4", True)]
    assert report.scalars["missed_tensor_core_share"].value == 0


def test_on_amd_they_are_matrix_cores() -> None:
    report = report_of(gpu(kernel("plain_gemm", 0, 5, tf_op="a/MatMul:MatMul"), vendor="AMD"))
    assert "kernels without Matrix Cores" in report.notices[0].text


SAYS = "The capture does not record the device vendor (device_vendor): {} is assumed, because {}."


@pytest.mark.parametrize(
    ("stats", "names", "vendor", "why"),
    [
        ({}, ("volta_h884gemm", "plain"), "Nvidia", "it runs kernels such as volta_h884gemm"),
        ({}, ("Cijk_Ailk_MI16x16x16", "plain"), "AMD", "it runs kernels such as Cijk_Ailk_MI16x16x16"),
        ({"gpu_device_name": "Tesla V100"}, ("a_h884", "plain"), "Nvidia", "its model is Tesla V100"),
        ({"gpu_device_name": "gfx942"}, ("a_mfma", "plain"), "AMD", "its model is gfx942"),
        (
            {"compute_cap_major": 7, "compute_cap_minor": 0}, ("a_h884", "plain"), "Nvidia",
            "only GPUs of Nvidia have compute capability 7.0",
        ),
    ],
)  # fmt: skip
def test_a_vendor_that_is_not_recorded_is_the_one_that_other_facts_show(
    stats: dict[str, Any], names: tuple[str, str], vendor: str, why: str
) -> None:
    kernels = [kernel(name, 10 * at, 5, tf_op="a/MatMul:MatMul") for at, name in enumerate(names)]
    report = report_of(xspace(plane("/device:GPU:0", [line("Stream #1", kernels)], stats=stats)))
    used = rows(report, "kernels", "name", "uses_tensor_cores", "could_use_tensor_cores")
    assert sorted(used) == sorted([(names[0], True, True), ("plain", False, True)])
    assert report.scalars["tensor_core_share"].value == report.scalars["missed_tensor_core_share"].value == 0.5
    assert report.notices[0].text == SAYS.format(vendor, why)
    units = {"Nvidia": "Tensor Cores", "AMD": "Matrix Cores"}[vendor]
    assert f"kernels without {units}" in report.notices[1].text
    assert {row["is_kernel_using_tensor_core"] for row in shown(report)} == {False}  # as XProf takes it


def test_kernels_of_both_vendors_show_neither() -> None:
    both = [kernel("volta_h884gemm", 0, 5), kernel("Cijk_MI16x16x16", 10, 5)]
    report = report_of(xspace(plane("/device:GPU:0", [line("Stream #1", both)])))
    assert column(report, "kernels", "uses_tensor_cores") == [None, None]


def test_without_a_vendor_nothing_is_known_of_matrix_units() -> None:
    report = report_of(gpu(kernel("h884gemm", 0, 5, tf_op="a/MatMul:MatMul"), vendor=None))
    assert column(report, "kernels", "uses_tensor_cores") == [None]
    assert report.tables["ops"]["tensor_core_ps"].to_pylist() == [None]
    share = report.scalars["tensor_core_share"]
    assert share.value is None and "device vendor" in (share.reason or "")
    assert [notice.severity for notice in report.notices] == []


# ---- launch configuration


@pytest.mark.parametrize(
    ("details", "launch"),
    [
        (DETAILS, Launch(32, 16, 1008, None, (8, 4, 2), (128, 2, 1), 50.0)),
        ("", Launch()),
        ("regs:7\nblock:1,2,3", Launch(registers=7, block=(1, 2, 3))),
        (
            " grid:256,1,1 private_mem:0 group_mem:64 occ_pct:0",
            Launch(group_shared=64, grid=(256, 1, 1), occupancy=0.0),
        ),
        ("regs:1 regs:2 regs:x", Launch(registers=2)),
        ("regs:4294967296 static_shared:-1 dynamic_shared:1:2", Launch()),
        ("grid:1,2 block:1,2,3,4", Launch()),
        ("grid:1,2,x block:,,", Launch()),
        ("occ_pct:nan regs:1_000 occ_pct:1_0", Launch()),
        ("regs: regs:９", Launch()),
    ],
)
def test_kernel_details_are_read_token_by_token(details: str, launch: Launch) -> None:
    assert gpu_kernels.parse_launch(details) == launch


def test_figures_that_no_gpu_has_are_left_out_with_a_warning() -> None:
    wild = "regs:2191500840 static_shared:32462 dynamic_shared:4294967295 grid:0,1,1 block:1024,2,1 occ_pct:0"
    report = report_of(gpu(kernel("k", 0, 5, wild), kernel("fine", 10, 9)))
    (_, row) = report.tables["kernels"].to_pylist()
    absent = (
        "registers_per_thread",
        "shared_bytes",
        "static_shared_bytes",
        "grid_dim",
        "block_count",
        "threads_per_block",
    )
    assert {row[column] for column in (*absent, "occupancy_percent")} == {None}
    (notice,) = report.notices
    assert notice.severity == "warning" and "of 1 of 2 kernels" in notice.text


def test_where_registers_were_not_set_shared_memory_was_not_either() -> None:
    """The two figures are the halves of one pointer."""
    report = report_of(gpu(kernel("k", 0, 5, "regs:2191500840 static_shared:32462 occ_pct:50 block:256,1,1")))
    columns = ("registers_per_thread", "static_shared_bytes", "shared_bytes", "occupancy_percent", "block_dim")
    assert rows(report, "kernels", *columns) == [(None, None, None, None, "256,1,1")]


def test_an_occupancy_of_zero_alone_is_worth_no_warning() -> None:
    report = report_of(gpu(kernel("k", 0, 5, "regs:8 occ_pct:0")))
    assert rows(report, "kernels", "registers_per_thread", "occupancy_percent") == [(8, None)]
    assert report.notices == ()


def test_shared_memory_is_static_and_dynamic_or_that_of_the_group() -> None:
    report = report_of(
        gpu(kernel("a", 0, 9), kernel("b", 10, 8, "dynamic_shared:7"), kernel("c", 20, 7, "group_mem:5"))
    )
    columns = ("shared_bytes", "static_shared_bytes", "dynamic_shared_bytes", "block_count", "threads_per_block")
    assert rows(report, "kernels", *columns) == [
        (1024, 16, 1008, 64, 256),
        (7, None, 7, None, None),
        (5, None, None, None, None),
    ]


# ---- XProf's page


def test_xprof_adds_up_whole_nanoseconds_and_rounds_its_average_down() -> None:
    (row,) = shown(report_of(gpu(kernel("k", 0, 1_999), kernel("k", 5_000, 2_999), kernel("k", 9_000, 999))))
    times = {name: row[f"{name}_duration_us"] for name in ("total", "avg", "min", "max")}
    assert times == {"total": 0.003, "avg": 0.001, "min": 0.0, "max": 0.002}
    assert (row["rank"], row["occurrences"], row["shmem_bytes"], row["grid_dim"]) == (1.0, 3.0, 1024.0, "8,4,2")


def test_xprof_shows_what_was_not_recorded_as_zero_and_one_and_wild_figures_as_they_are() -> None:
    bare, wild = shown(
        report_of(gpu(kernel("a", 0, 9_000, "x"), kernel("b", 10_000, 8_000, "regs:2191500840 occ_pct:33.3")))
    )
    assert (bare["registers_per_thread"], bare["grid_dim"], bare["occupancy_pct"], bare["op_name"]) == (
        0.0,
        "1,1,1",
        0.0,
        "",
    )
    assert (wild["registers_per_thread"], wild["occupancy_pct"]) == (2191500840.0, 33.29999923706055)


def test_xprof_shows_a_thousand_rows_and_the_table_all() -> None:
    report = report_of(gpu(*[kernel(f"k{i:04}", 10_000 * i, 9_000) for i in range(1_001)]))
    assert report.tables["kernels"].num_rows == 1_001
    assert [row["kernel_name"] for row in shown(report)][-1] == "k0999"
