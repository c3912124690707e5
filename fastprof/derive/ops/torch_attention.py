"""Work of scaled-dot-product attention, by the shapes of its arguments: of PyTorch's ops and of libraries' own.

Forward multiplies queries by keys and scores by values; backward multiplies the scores once more and makes four
gradients, as torch.utils.flop_counter counts them. Masks, causal ones too, and windows save nothing here. Formulas:
docs/device-ops.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final, NamedTuple

from fastprof.derive.ops.torch_arguments import (
    OTHER_SHAPES,
    Call,
    Dims,
    Unknown,
    Work,
    all_dims,
    checked_work,
    shape_at,
    size_at,
    type_at,
    value_at,
)

_NO_LENGTHS: Final = "the lengths of its packed sequences are not recorded"
_NO_CONTEXT: Final = "the lengths of the sequences in its pages are not recorded"


class _Attention(NamedTuple):
    """``heads_first``: arrays are [batch, heads, tokens, size], else [batch, tokens, heads, size]. A backward pass has
    the gradient of the output before query, key and value."""

    heads_first: bool
    is_backward: bool = False


_FUSED: Final = ("flash_attention", "efficient_attention", "cudnn_attention", "fused_attention_overrideable")
_FORWARD: Final = (
    "flash_attn::_flash_attn_forward", "flash_attn::_flash_attn_varlen_forward", "FlashAttnFunc", "FlashAttnVarlenFunc",
    "flash_attn_3::fwd", "flash_attn_3::_flash_attn_forward", "aiter::_flash_attn_forward",
    "aiter::_flash_attn_varlen_forward", "aiter::mha_fwd", "aiter::mha_varlen_fwd", "aiter::fmha_v3_fwd",
    "aiter::fmha_v3_varlen_fwd", "xformers_flash::flash_fwd", "xformers::efficient_attention_forward_cutlass",
    "xformers::efficient_attention_forward_ck", "_vllm_fa2_C::varlen_fwd", "_vllm_fa3_C::fwd",
)  # fmt: skip
_BACKWARD: Final = (
    "flash_attn::_flash_attn_backward", "flash_attn::_flash_attn_varlen_backward", "flash_attn_3::bwd",
    "flash_attn_3::_flash_attn_backward", "aiter::_flash_attn_backward", "aiter::_flash_attn_varlen_backward",
    "aiter::mha_bwd", "aiter::mha_varlen_bwd", "aiter::fmha_v3_bwd", "aiter::fmha_v3_varlen_bwd",
    "xformers_flash::flash_bwd",
)  # fmt: skip
_ATTENTIONS: Final = {
    "aten::scaled_dot_product_attention": _Attention(True),
    "aten::_scaled_dot_product_attention_math": _Attention(True),
    "aten::_scaled_dot_product_attention_math_for_mps": _Attention(True),
    "aten::_cudnn_attention_forward": _Attention(True),
    "aten::_cudnn_attention_backward": _Attention(True, True),
    **{f"aten::_scaled_dot_product_{name}": _Attention(True) for name in _FUSED},
    **{f"aten::_scaled_dot_product_{name}_backward": _Attention(True, True) for name in _FUSED},
    **{f"aten::_{name}_attention_forward": _Attention(False) for name in ("flash", "efficient")},
    **{f"aten::_{name}_attention_backward": _Attention(False, True) for name in ("flash", "efficient")},
    **dict.fromkeys(_FORWARD, _Attention(False)),
    **dict.fromkeys(_BACKWARD, _Attention(False, True)),
}


class _Paged(NamedTuple):
    """Places of arguments of attention whose keys are in pages. ``sequences``: has the number of sequences as its size,
    or one more, ``begins``; ``longest``: the length of the longest; ``heads``: the dimension of the pages."""

    query: int
    key: int
    sequences: int
    begins: int
    longest: int
    heads: int


_PAGED: Final = {
    "_C::paged_attention_v1": _Paged(1, 2, 7, 0, 9, 1),
    "_C::paged_attention_v2": _Paged(4, 5, 10, 0, 12, 1),
    "_vllm_fa2_C::varlen_fwd": _Paged(0, 1, 4, 1, 11, 2),
    "_vllm_fa3_C::fwd": _Paged(0, 1, 7, 1, 13, 2),
}
"""Kernels of vLLM. Its builds of FlashAttention take keys one after the other, too."""
ATTENTIONS: Final = frozenset({*_ATTENTIONS, *_PAGED})
"""Ops whose work is known here."""


def attention_work(call: Call) -> Work:
    """Return the work of a call of one of ATTENTIONS, or raise Unknown with the reason."""
    dims = all_dims(call)
    if call.op in _PAGED and len(shape_at(dims, _PAGED[call.op].key)) > 3:
        return _paged_work(call, dims, _PAGED[call.op])
    kind = _ATTENTIONS[call.op]
    first = int(kind.is_backward)
    query, key, value = (shape_at(dims, first + place) for place in range(3))
    if len({len(query), len(key), len(value)}) > 1 or len(query) < 3:
        raise Unknown(OTHER_SHAPES)
    lengths = _lengths_after(call, dims, first + 3)
    heads, pairs = _packed(call, dims, lengths, query, key, value) if lengths else _dense(kind, query, key, value)
    if query[-1] != key[-1]:
        raise Unknown(OTHER_SHAPES)
    scores, values = 2 * heads * pairs * query[-1], 2 * heads * pairs * value[-1]
    output = (*query[:-1], value[-1])
    sizes = [size_at(call, first + place) for place in range(3)]
    moved = sum(prod(shape) * size for shape, size in zip((query, key, value), sizes, strict=True))
    moved = (1 + first) * moved + prod(output) * sizes[0]
    return checked_work(3 * scores + 2 * values if first else scores + values, moved if all(sizes) else 0)


def _paged_work(call: Call, dims: Sequence[Any], places: _Paged) -> Work:
    """Return the work of attention whose keys are in pages, known if there is one sequence: its length is that of the
    longest."""
    query, pages, sequences = (shape_at(dims, place) for place in (places.query, places.key, places.sequences))
    length = value_at(call, places.longest)
    if len(query) != 3 or len(sequences) != 1 or not pages[places.heads] or query[1] % pages[places.heads]:
        raise Unknown(OTHER_SHAPES)
    if sequences[0] - places.begins != 1 or not isinstance(length, int) or length < 0:
        raise Unknown(_NO_CONTEXT)
    sizes = [size_at(call, place) for place in (places.query, places.key, places.key + 1)]
    moved = 2 * prod(query) * sizes[0] + length * pages[places.heads] * query[2] * (sizes[1] + sizes[2])
    return checked_work(4 * prod(query) * length, moved if all(sizes) else 0)


def _dense(kind: _Attention, query: Dims, key: Dims, value: Dims) -> tuple[int, int]:
    """Return the heads of the query, and the pairs of query and key of a head over the batch. Fewer heads of keys than
    of queries are each used by a group of these."""
    if not kind.heads_first:
        if len(query) != 4:
            raise Unknown(_NO_LENGTHS)
        query, key, value = (tuple(one[at] for at in (0, 2, 1, 3)) for one in (query, key, value))
    shared = key[-3] > 0 and query[-3] % key[-3] == 0 if len(query) > 3 else query[-3] == key[-3]
    if query[:-3] != key[:-3] or key[:-1] != value[:-1] or not shared:
        raise Unknown(OTHER_SHAPES)
    return query[-3], prod(query[:-3]) * query[-2] * key[-2]


def _lengths_after(call: Call, dims: Sequence[Any], first: int) -> int:
    """Return the place of the first of two neighbours that hold where sequences begin, of queries and of keys; 0 if
    the sequences are not packed. The longest lengths follow them."""
    for place in range(first, len(dims) - 1):
        both = dims[place : place + 2]
        if all(isinstance(one, list) and len(one) == 1 for one in both) and type_at(call, place) == "int":
            return place
    return 0


def _packed(call: Call, dims: Sequence[Any], lengths: int, query: Dims, key: Dims, value: Dims) -> tuple[int, int]:
    """Return what ``_dense`` does, of sequences one after the other: known if there is one, or if all queries or all
    keys are as long as the longest."""
    (first,), (second,) = shape_at(dims, lengths), shape_at(dims, lengths + 1)
    if first != second or key[:-1] != value[:-1] or not key[-2] or query[-2] % key[-2]:
        raise Unknown(OTHER_SHAPES)
    count, tokens, keys = first - 1, query[-3] * prod(query[:-3]), key[-3] * prod(key[:-3])
    most_queries, most_keys = value_at(call, lengths + 2), value_at(call, lengths + 3)
    if count == 1:
        return query[-2], tokens * keys
    if isinstance(most_queries, int) and most_queries * count == tokens:
        return query[-2], most_queries * keys
    if isinstance(most_keys, int) and most_keys * count == keys:
        return query[-2], most_keys * tokens
    raise Unknown(_NO_LENGTHS)
