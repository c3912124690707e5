"""Work of attention, from the shapes of its arguments; operations as torch.utils.flop_counter counts them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import fastprof
from fastprof.derive.ops.torch_calls import TorchCall, TorchWork, UnknownWork, compute_attention_work

KINETO = Path(__file__).resolve().parents[3] / "shared" / "captures" / "chrome" / "kineto"
Q, K, V, OUT = [2, 6, 3, 5], [2, 6, 4, 5], [2, 6, 4, 7], [2, 6, 3, 7]
FORWARD, BACKWARD = 3456, 8352
"""What sdpa_flop_count and sdpa_backward_flop_count of PyTorch 2.13 give for these shapes."""
SIZES = 180 + 240 + 336


def _call(op: str, dims: list[Any], types: list[str] | None = None, values: list[str] | None = None) -> TorchCall:
    recorded = types or ["float"] * len(dims)
    return TorchCall(op, json.dumps(dims), json.dumps(recorded), json.dumps(values) if values else "")


def _swapped(*dims: list[int]) -> list[list[int]]:
    """The same arrays with tokens before heads."""
    return [[b, s, h, d] for b, h, s, d in dims]


@pytest.mark.parametrize(
    "op",
    [
        "aten::scaled_dot_product_attention", "aten::_scaled_dot_product_flash_attention",
        "aten::_scaled_dot_product_efficient_attention", "aten::_scaled_dot_product_cudnn_attention",
        "aten::_scaled_dot_product_attention_math", "aten::_scaled_dot_product_fused_attention_overrideable",
    ],
)  # fmt: skip
def test_heads_come_before_tokens(op: str) -> None:
    assert compute_attention_work(_call(op, [Q, K, V, [], [], []])) == TorchWork(FORWARD, 4 * (SIZES + 252))


@pytest.mark.parametrize(
    "op", ["aten::_flash_attention_forward", "aten::_efficient_attention_forward", "flash_attn::_flash_attn_forward",
           "FlashAttnFunc", "flash_attn_3::fwd", "aiter::mha_fwd"],
)  # fmt: skip
def test_tokens_come_before_heads(op: str) -> None:
    half = ["c10::BFloat16"] * 3
    assert compute_attention_work(_call(op, _swapped(Q, K, V), half)) == TorchWork(FORWARD, 2 * (SIZES + 252))


@pytest.mark.parametrize(
    ("op", "swaps"),
    [
        ("aten::_scaled_dot_product_flash_attention_backward", False),
        ("aten::_scaled_dot_product_efficient_attention_backward", False),
        ("aten::_scaled_dot_product_cudnn_attention_backward", False),
        ("aten::_flash_attention_backward", True),
        ("aten::_efficient_attention_backward", True),
        ("flash_attn::_flash_attn_backward", True),
        ("aiter::mha_bwd", True),
    ],
)
def test_a_backward_pass_multiplies_the_scores_again(op: str, swaps: bool) -> None:
    dims = [OUT, Q, K, V, OUT]
    assert compute_attention_work(_call(op, _swapped(*dims) if swaps else dims)) == TorchWork(
        BACKWARD, 4 * (2 * SIZES + 252)
    )


def test_a_group_of_queries_shares_a_head_of_keys() -> None:
    keys, values = [2, 2, 4, 5], [2, 2, 4, 7]
    op = "aten::scaled_dot_product_attention"
    assert compute_attention_work(_call(op, [Q, keys, values])) == TorchWork(FORWARD, 4 * (180 + 80 + 112 + 252))
    swapped = _call("flash_attn::_flash_attn_forward", _swapped(Q, keys, values))
    assert compute_attention_work(swapped) == compute_attention_work(_call(op, [Q, keys, values]))


def test_a_causal_mask_saves_nothing_and_a_missing_type_hides_bytes() -> None:
    causal = _call("aten::_scaled_dot_product_flash_attention", [Q, K, V, [], [], []], ["other"] * 6,
                   ["", "", "", "0.", "True", "False"])  # fmt: skip
    assert compute_attention_work(causal) == TorchWork(FORWARD, 0)


INTS = ["float"] * 3 + ["int"] * 2 + ["Scalar"] * 2


@pytest.mark.parametrize(
    ("dims", "longest", "pairs"),
    [
        ([[12, 6, 5], [20, 2, 5], [20, 2, 7], [2], [2], [], []], ("12", "20"), 240),  # one sequence
        ([[12, 6, 5], [20, 2, 5], [20, 2, 7], [5], [5], [], []], ("3", "9"), 60),  # 4 of 3 queries each
        ([[12, 6, 5], [20, 2, 5], [20, 2, 7], [5], [5], [], []], ("9", "5"), 60),  # 4 of 5 keys each
    ],
)
def test_packed_sequences_of_known_lengths(dims: list[Any], longest: tuple[str, str], pairs: int) -> None:
    work = compute_attention_work(_call("flash_attn::_flash_attn_varlen_forward", dims, INTS, [""] * 5 + list(longest)))
    assert work == TorchWork(2 * 6 * pairs * 12, 4 * (360 + 200 + 280 + 504))


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (TorchCall("aten::scaled_dot_product_attention", "", "", ""), "record_shapes"),
        (_call("aten::scaled_dot_product_attention", [Q, K]), "do not fit such an op"),
        (_call("aten::scaled_dot_product_attention", [Q, K, [2, 6, 5, 7]]), "do not fit such an op"),
        (_call("aten::scaled_dot_product_attention", [Q, [2, 4, 4, 5], [2, 4, 4, 7]]), "do not fit such an op"),
        (_call("aten::scaled_dot_product_attention", [Q, [2, 6, 4, 6], V]), "do not fit such an op"),
        (_call("aten::_flash_attention_forward", [[12, 6, 5], [20, 2, 5], [20, 2, 7]]), "packed"),
        (_call("aten::_flash_attention_forward", [[12, 6, 5], [20, 2, 5], [20, 2, 7], [5], [5], [], []], INTS,
               [""] * 5 + ["7", "9"]), "packed"),
        (_call("flash_attn::_flash_attn_varlen_forward", [[12, 6, 5], [20, 4, 5], [20, 4, 7], [2], [2]], INTS[:5]),
         "do not fit such an op"),
    ],
)  # fmt: skip
def test_work_of_other_shapes_is_unknown(call: TorchCall, reason: str) -> None:
    with pytest.raises(UnknownWork, match=reason):
        compute_attention_work(call)


@pytest.mark.skipif(not KINETO.is_dir(), reason="the shared captures are not beside the project")
def test_the_attention_of_a_real_capture() -> None:
    """24 calls of [16, 16, 559, 64], which the op that launches records with tokens before heads."""
    rows = fastprof.load(KINETO / "h100_qwen.json.gz").op_stats().tables["device_ops"].to_pylist()
    (row,) = [row for row in rows if row["category"] == "aten::_flash_attention_forward"]
    assert row["flops"] == 24 * 4 * 16 * 16 * 559 * 559 * 64
    assert row["accessed_bytes"] == 24 * 4 * 2 * 16 * 16 * 559 * 64


# ---- vLLM: 8 heads of queries, 2 of keys, of size 64, in pages of 16 tokens

HALF = "c10::BFloat16"


def _decode(op: str, sequences: int, longest: str) -> TorchCall:
    """A token of each sequence."""
    query, cache = [sequences, 8, 64], [[100, 2, 8, 16, 8], [100, 2, 64, 16]]
    before = [query] if op.endswith("v1") else [query, [sequences, 8, 4], [sequences, 8, 4], [sequences, 8, 4, 64]]
    dims = [*before, query, *cache, [], [], [sequences, 7], [sequences], [], []]
    types = [*[HALF] * (len(before) + 3), "Scalar", "Scalar", "int", "int", "Scalar", "Scalar"]
    return _call(op, dims, types, ["" if one else "16" for one in dims[:-1]] + [longest])


def _varlen(op: str, dims_of_key: list[int], begins: int, longest: str) -> TorchCall:
    """30 tokens; the length of the longest sequence of keys is the last argument here."""
    longest_at, query = (11, 4) if op == "_vllm_fa2_C::varlen_fwd" else (13, 7)
    dims: list[Any] = [[30, 8, 64], dims_of_key, dims_of_key, *[[] for _ in range(longest_at - 2)]]
    dims[query] = dims[query + 1] = [begins]
    types = [HALF] * 3 + ["int"] * (longest_at - 2)
    return _call(op, dims, types, [""] * longest_at + [longest])


FLOPS = 4 * 8 * 64 * 100
KEYS = 100 * 2 * 64 * 2 * 2


@pytest.mark.parametrize("op", ["_C::paged_attention_v1", "_C::paged_attention_v2"])
def test_decoding_of_one_sequence_is_as_long_as_the_longest(op: str) -> None:
    assert compute_attention_work(_decode(op, 1, "100")) == TorchWork(FLOPS, 2 * 2 * 8 * 64 + KEYS)
    for call in (_decode(op, 2, "100"), _decode(op, 1, "")):
        with pytest.raises(UnknownWork, match="lengths of the sequences in its pages are not recorded"):
            compute_attention_work(call)


@pytest.mark.parametrize("op", ["_vllm_fa2_C::varlen_fwd", "_vllm_fa3_C::fwd"])
def test_flash_attention_of_vllm_has_keys_in_pages_or_one_after_the_other(op: str) -> None:
    pages = [100, 16, 2, 64]
    assert compute_attention_work(_varlen(op, pages, 2, "100")) == TorchWork(30 * FLOPS, 30 * 2 * 2 * 8 * 64 + KEYS)
    with pytest.raises(UnknownWork, match="lengths of the sequences in its pages are not recorded"):
        compute_attention_work(_varlen(op, pages, 3, "100"))
    keys = 100 * 2 * 64 * 2
    assert compute_attention_work(_varlen(op, [100, 2, 64], 2, "100")) == TorchWork(
        30 * FLOPS, 30 * 2 * 2 * 8 * 64 + 2 * keys
    )
