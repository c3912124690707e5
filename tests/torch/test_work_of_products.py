"""Work of PyTorch's matrix products and convolutions, from the shapes of their arguments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from torch_captures import torch_capture

import fastprof
from fastprof.derive.ops.torch_calls import TorchCall, TorchWork, UnknownWork, compute_call_work, index_outputs

KINETO = Path(__file__).resolve().parents[3] / "shared" / "captures" / "chrome" / "kineto"


def _call(op: str, dims: list[Any], types: list[str] | None = None, values: dict[int, str] | None = None) -> TorchCall:
    texts = [(values or {}).get(place, "") for place in range(11)]
    recorded = json.dumps(types or ["float"] * len(dims)), json.dumps(texts) if values else ""
    return TorchCall(f"aten::{op}", json.dumps(dims), *recorded)


_STEPS = {3: "[2, 2]", 4: "[1]", 5: "[1, 1]", 6: "False"}


@pytest.mark.parametrize(
    ("call", "work"),
    [
        (_call("mm", [[3, 5], [5, 7]]), TorchWork(210, 4 * (15 + 35 + 21))),
        (_call("mm", [[3, 5], [5, 7]], ["c10::BFloat16"] * 2), TorchWork(210, 2 * (15 + 35 + 21))),
        (_call("mm", [[3, 5], [5, 7]], ["a new type"] * 2), TorchWork(210, 0)),
        (_call("addmm", [[7], [3, 5], [5, 7], [], []]), TorchWork(210, 4 * (7 + 15 + 35 + 21))),
        (_call("bmm", [[2, 3, 5], [2, 5, 7]]), TorchWork(420, 4 * (30 + 70 + 42))),
        (_call("baddbmm", [[2, 1, 7], [2, 3, 5], [2, 5, 7], [], []]), TorchWork(420, 4 * (14 + 30 + 70 + 42))),
        (_call("linear", [[2, 3, 5], [7, 5], [7]]), TorchWork(420, 4 * (30 + 35 + 7 + 42))),
        (_call("mv", [[3, 5], [5]]), TorchWork(30, 4 * (15 + 5 + 3))),
        # what the result is written into (out=) is the result
        (_call("mm", [[3, 5], [5, 7], [3, 7]]), TorchWork(210, 4 * (15 + 35 + 21))),
        (_call("mm", [[3, 5], [5, 7], [3, 7]], ["c10::Half", "c10::Half", "float"]),
         TorchWork(210, 2 * (15 + 35) + 4 * 21)),
        (_call("addmm", [[7], [3, 5], [5, 7], [], [], [3, 7]]), TorchWork(210, 4 * (7 + 15 + 35 + 21))),
        (_call("addmm_", [[3, 7], [3, 5], [5, 7], [], []]), TorchWork(210, 4 * (21 + 15 + 35 + 21))),
        (_call("bmm", [[2, 3, 5], [2, 5, 7], [2, 3, 7]]), TorchWork(420, 4 * (30 + 70 + 42))),
        (_call("linear", [[2, 3, 5], [7, 5], [], [2, 3, 7]]), TorchWork(420, 4 * (30 + 35 + 42))),
        (_call("addmv", [[3], [3, 5], [5], [], [], [3]]), TorchWork(30, 4 * (3 + 15 + 5 + 3))),
        # 2 images of 4 channels, 9 x 9, by 6 filters of 3 x 3: 5 x 5 places with a stride of 2 and a padding of 1
        (_call("convolution", [[2, 4, 9, 9], [6, 4, 3, 3], []], values=_STEPS),
         TorchWork(2 * 2 * 25 * 216, 4 * (648 + 216 + 300))),
        (_call("cudnn_convolution", [[2, 4, 9, 9], [6, 2, 3, 3]], values={2: "[0]", 3: "[1]", 4: "[2]"}),
         TorchWork(2 * 2 * 25 * 108, 4 * (648 + 108 + 300))),
        (_call("convolution", [[2, 4, 9, 9], [4, 6, 3, 3], []], values=_STEPS | {6: "True"}),
         TorchWork(2 * 2 * 81 * 216, 0)),
        (_call("convolution_backward", [[2, 6, 5, 5], [2, 4, 9, 9], [6, 4, 3, 3]],
               values={7: "False", 10: "[True, True, False]"}), TorchWork(2 * 2 * 25 * 216, 4 * (648 + 216 + 300), 2)),
        (_call("cudnn_convolution_backward_input", [[], [2, 6, 5, 5], [6, 4, 3, 3]]), TorchWork(2 * 2 * 25 * 216, 0)),
    ],
)  # fmt: skip
def test_work_follows_from_shapes(call: TorchCall, work: TorchWork) -> None:
    assert compute_call_work(call, {}) == work


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (TorchCall("aten::mm", "", "", ""), "record_shapes"),
        (TorchCall("aten::mm", "[" * 9000, "", ""), "record_shapes"),
        (_call("mm", [[], []]), "record_shapes"),
        (_call("mm", [[3, 5], [4, 7]]), "do not fit such an op"),
        (_call("mm", [[-3, 5], [5, 7]]), "do not fit such an op"),
        (_call("mm", [[1 << 40, 1 << 40], [1 << 40, 7]]), "do not fit such an op"),
        (_call("bmm", [[2, 3, 5], [3, 5, 7]]), "do not fit such an op"),
        (_call("convolution", [[2, 4, 9, 9], [6, 4, 3, 3], []]), "stride"),
        (_call("convolution", [[2, 4, 9, 9], [6, 4, 3, 3]], values=_STEPS | {3: "[0, 0]"}), "do not fit such an op"),
        (_call("convolution_backward", [[2, 6, 5, 5], [2, 4, 9, 9], [6, 4, 3, 3]]), "gradients"),
        (_call("cudnn_convolution_backward_weight", [[], [2, 6, 5, 5], [2, 4, 9, 9]]), "weights"),
    ],
)
def test_work_without_shapes_is_unknown_with_a_reason(call: TorchCall, reason: str) -> None:
    with pytest.raises(UnknownWork, match=reason):
        compute_call_work(call, {})


def test_a_backward_pass_has_the_sizes_of_the_forward_pass() -> None:
    given, weight = [2, 4, 9, 9], [6, 4, 3, 3]
    backward = [_call("cudnn_convolution_backward", [given, [2, 6, 5, 5], weight])]
    forward = _call("cudnn_convolution", [given, weight])
    assert compute_call_work(forward, index_outputs(backward)) == TorchWork(2 * 2 * 25 * 216, 4 * (648 + 216 + 300))
    backward.append(_call("convolution_backward", [[2, 6, 9, 9], given, weight]))
    with pytest.raises(UnknownWork, match="stride"):
        compute_call_work(forward, index_outputs(backward))


def _launching(op: str, begin: int, dims: str, kernels: list[int], **more: str) -> tuple[list[Any], list[Any]]:
    """A call of an op and its launches; what a GPU runs for them, of these durations."""
    host: list[Any] = [
        ("cpu_op", op, begin, 50, {"Input Dims": dims, "Input type": '["float","float","float"]', **more})
    ]
    gpu = []
    for place, time in enumerate(kernels):
        link = {"correlation_id": begin + place}
        host.append(("cuda_runtime", "cudaLaunchKernel", begin + 5 + place, 1, link))
        gpu.append(("kernel", f"k{place}", begin + 100 * place + 10, time, link))
    return host, gpu


def test_of_the_kernels_of_a_call_the_longest_do_the_work() -> None:
    dims, mask = "[[2,6,5,5],[2,4,9,9],[6,4,3,3]]", {7: "False", 10: "[True, True, False]"}
    values = json.dumps([mask.get(place, "") for place in range(11)])
    host, gpu = _launching("aten::convolution_backward", 0, dims, [5, 20, 10], **{"Concrete Inputs": values})
    rows = torch_capture({"python": host}, {"stream 7": gpu}).roofline().tables["ops"].to_pylist()
    flops = {row["name"].rpartition("/")[2]: (row["flops_per_s"], row["flops_source"]) for row in rows}
    one = 2 * 2 * 25 * 216
    assert flops == {"k0": (0, "shapes"), "k1": (one / 20e-6, "shapes"), "k2": (one / 10e-6, "shapes")}


def test_one_unknown_call_makes_the_work_of_its_op_unknown() -> None:
    host, gpu = _launching("aten::mm", 0, "[[3,5],[5,7]]", [20])
    more, others = _launching("aten::mm", 1000, "[]", [20])
    profile = torch_capture({"python": host + more}, {"stream 7": gpu + others})
    (row,) = [row for row in profile.op_stats().tables["device_ops"].to_pylist() if row["category"] == "aten::mm"]
    assert (row["flops"], row["accessed_bytes"]) == (None, None)
    assert any("record_shapes" in one.text for one in profile.roofline().notices)
    alone = torch_capture({"python": host}, {"stream 7": gpu})
    (row,) = [row for row in alone.op_stats().tables["device_ops"].to_pylist() if row["category"] == "aten::mm"]
    assert (row["flops"], row["accessed_bytes"], row["bound_by"]) == (210, 4 * (15 + 35 + 21), None)


@pytest.mark.skipif(not KINETO.is_dir(), reason="the shared captures are not beside the project")
@pytest.mark.parametrize(
    ("name", "flops"),
    [
        # sums over the calls that launch, from the arguments of the trace's ops, read with Python's json
        ("h100_qwen", {"mm": 4_164_037_902_336, "addmm": 1_350_498_779_136, "bmm": 35_776}),
        ("a100_rank-0", {"mm": 1_188_192_231_424, "addmm": 286_017_110_016, "bmm": 176_113_582_080}),
        ("alexnet", {"addmm": None, "cudnn_convolution": None}),
        # ResNet-50: 261.6 GFLOP forward for 32 images, six times
        ("resnet50_worker0", {
            "mm": 1_572_864_000, "addmm": 786_432_000, "cudnn_convolution": 1_569_460_322_304,
            "cudnn_convolution_backward_input": 1_524_142_964_736,
            "cudnn_convolution_backward_weight": 1_569_460_322_304}),
    ],
)  # fmt: skip
def test_real_captures(name: str, flops: dict[str, int | None]) -> None:
    rows = fastprof.load(KINETO / f"{name}.json.gz").op_stats().tables["ops"].to_pylist()
    found = {row["name"]: row["flops"] for row in rows if row["host_or_device"] == "Device"}
    assert {op: found[f"aten::{op}"] for op in flops} == flops
    assert found.get("aten::add_") is None


F8, F4, SCALE = "c10::Float8_e4m3fn", "c10::Float4_e2m1fn_x2", "float"


def _scaled(dims: list[Any], types: list[str], values: dict[int, str], op: str = "aten::_scaled_mm") -> TorchCall:
    texts = [values.get(place, "") for place in range(len(dims))]
    return TorchCall(op, json.dumps(dims), json.dumps(types), json.dumps(texts) if values else "")


@pytest.mark.parametrize(
    ("call", "work"),
    [
        # [3, 32] x [32, 16] with a scale each, into bfloat16
        (_scaled([[3, 32], [32, 16], [], [], [], [], [], []], [F8, F8, SCALE, SCALE, "", "", "Scalar", "Scalar"],
                 {6: "15", 7: "True"}), TorchWork(2 * 3 * 32 * 16, 96 + 512 + 2 * 48)),
        # a scale of each row and column, a bias, into float
        (_scaled([[3, 32], [32, 16], [3, 1], [1, 16], [16], [], [], []],
                 [F8, F8, SCALE, SCALE, "c10::BFloat16", "", "Scalar", "Scalar"], {6: "6", 7: "False"}),
         TorchWork(2 * 3 * 32 * 16, 96 + 512 + 4 * 3 + 4 * 16 + 2 * 16 + 4 * 48)),
        # no type of the result: that of the first matrix
        (_scaled([[3, 32], [32, 16], [1], [1], [], [], [], []], [F8, F8, SCALE, SCALE, "", "", "", "Scalar"],
                 {7: "False"}), TorchWork(2 * 3 * 32 * 16, 96 + 512 + 4 + 4 + 48)),
        # arguments of PyTorch up to 2.3, and the array for the result
        (_scaled([[3, 32], [32, 16], [], [], [], []], [F8, F8, "", "Scalar", "float", "float"], {3: "15"}),
         TorchWork(2 * 3 * 32 * 16, 96 + 512 + 2 * 48)),
        (_scaled([[3, 32], [32, 16], [1], [1], [], [], [], [], [3, 16]],
                 [F8, F8, SCALE, SCALE, "", "", "Scalar", "Scalar", "c10::BFloat16"], {6: "15", 7: "True"}),
         TorchWork(2 * 3 * 32 * 16, 96 + 512 + 4 + 4 + 2 * 48)),
        # two numbers in each byte, scales of 8 bits for 16 of them
        (_scaled([[4, 32], [32, 8], [4, 4], [8, 4], [], [], [], []],
                 [F4, F4, "c10::Float8_e4m3fn", "c10::Float8_e4m3fn", "", "", "Scalar", "Scalar"], {6: "15"}),
         TorchWork(2 * 4 * 64 * 8, 128 + 256 + 16 + 32 + 2 * 32)),
        (_scaled([[3, 32], [32, 16], [], [], [], [], [], []], [F8, F8, "?", "?", "", "", "", ""], {}),
         TorchWork(2 * 3 * 32 * 16, 0)),  # options are not recorded: the type of the result is unknown
        (_scaled([[3, 16], [3, 32], [32, 16], [3, 1], [1, 16], []],
                 ["c10::BFloat16", F8, F8, SCALE, SCALE, ""], {}, "_C::cutlass_scaled_mm"),
         TorchWork(2 * 3 * 32 * 16, 96 + 512 + 12 + 64 + 96)),
    ],
)  # fmt: skip
def test_work_of_scaled_products(call: TorchCall, work: TorchWork) -> None:
    assert compute_call_work(call, {}) == work


def test_integer_products_are_written_as_32_bits() -> None:
    call = TorchCall("aten::_int_mm", "[[3, 32], [32, 16]]", '["signed char", "signed char"]', "")
    assert compute_call_work(call, {}) == TorchWork(2 * 3 * 32 * 16, 96 + 512 + 4 * 48)


def test_scaled_products_of_other_shapes_are_unknown() -> None:
    with pytest.raises(UnknownWork, match="do not fit such an op"):
        compute_call_work(_scaled([[3, 32], [16, 32], [], []], [F8] * 4, {}), {})
