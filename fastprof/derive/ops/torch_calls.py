"""Calls of PyTorch's ops: what GPUs ran for them, and the work of the kernels that they launched.

An op launches kernels itself, or an op that it calls does::

     aten::linear     |------------------|
     aten::addmm        |-------------|
     launch                 |-|               aten::addmm launches the kernel itself; aten::linear in all
     GPU                           |==sgemm==|

A call may launch several kernels, as one that changes the layout before one that multiplies. The longest does the
work, or if the call computes several products, as gradients of input and weight, that number of the longest.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from operator import mul
from typing import Any, Final, NamedTuple

import numpy as np

from fastprof.derive.devices.op_names import ARGUMENTS, is_kineto, may_launch
from fastprof.derive.ops.gpu_kernels import classify_copy
from fastprof.derive.ops.gpu_ops import GpuOpEvents
from fastprof.derive.ops.launches import find_launchers
from fastprof.derive.ops.op_table import FROM_SHAPES, OpTable
from fastprof.derive.steps.event_graph import find_enclosing
from fastprof.schema.columns import (
    Bools,
    Int32s,
    Int64s,
    expand_ranges,
    join_values,
    number_distinct_rows,
    number_values,
    sort_rows,
    sum_by,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, compute_once


@dataclass(frozen=True, slots=True)
class LaunchedTime:
    """What all calls of ops of a name launched: ``own_ps`` themselves, ``total_ps`` with the ops that they call. What
    an op launches through another of its name counts once."""

    own_ps: int
    total_ps: int


def sum_launched_by_name(events: HostEvents) -> Mapping[str, LaunchedTime] | None:
    """Return launched time by name of a host's ops; None if they are not PyTorch's, or the host has no GPU. Ops that
    are not here launched nothing."""
    gpus = events.planes_of("GPU")
    if not gpus or not is_kineto(events):
        return None
    lines = [line for plane in gpus for line in plane.lines if not line.is_derived]
    rows = np.concatenate([np.zeros(0, np.int64), *(np.arange(line.first, line.last) for line in lines)])
    around, pairs = OpsAround(events), []
    at = around.launching(rows)
    rows, at = rows[at >= 0], at[at >= 0]
    kernel, count = np.arange(len(rows)), len(events.names)
    while len(at):
        pairs.append(kernel * count + events.meta[at])
        at = around.op_of(at)
        kernel, at = kernel[at >= 0], at[at >= 0]
    own = _sum_times(events, rows, pairs[0] if pairs else kernel, count)
    every = np.unique(np.concatenate([kernel, *pairs]))  # an op may call another of its name
    total = _sum_times(events, rows, every, count)
    launched: dict[str, LaunchedTime] = {}
    for meta in np.flatnonzero(total).tolist():
        known = launched.get(events.names[meta], NOTHING)
        launched[events.names[meta]] = LaunchedTime(known.own_ps + int(own[meta]), known.total_ps + int(total[meta]))
    return launched


def _sum_times(events: HostEvents, rows: Int64s, pairs: Int64s, count: int) -> Int64s:
    """Return the time of rows by name of the op. ``pairs``: place of the row * ``count`` + name."""
    return sum_by(pairs % count, events.duration_ps[rows[pairs // count]], count)


NOTHING: Final = LaunchedTime(0, 0)


class OpsAround:
    """Finds the innermost op around events."""

    def __init__(self, events: HostEvents) -> None:
        self._events = events
        self._parent = find_enclosing(events)
        self._is_op: Bools = may_launch(events)[events.meta]

    def launching(self, rows: Int64s) -> Int64s:
        """Return the innermost op that launched each of these rows of a GPU; -1 if it is unknown."""
        op = find_launchers(self._events, rows).astype(np.int64)
        inside = np.flatnonzero((op >= 0) & ~self._is_op[op])
        op[inside] = self.op_of(op[inside])
        return op

    def op_of(self, rows: Int64s) -> Int64s:
        """Return the innermost op around each row, or -1."""
        at = self._parent[rows].astype(np.int64)
        while True:
            passed = np.flatnonzero(at >= 0)
            passed = passed[~self._is_op[at[passed]]]
            if not len(passed):
                return at
            at[passed] = self._parent[at[passed]]


def merge_launched(hosts: Iterable[Mapping[str, LaunchedTime] | None]) -> Mapping[str, LaunchedTime] | None:
    """Return the sums of all hosts; None if no host has a GPU."""
    every = [host for host in hosts if host is not None]
    merged: dict[str, LaunchedTime] = {}
    for launched in every:
        for name, more in launched.items():
            known = merged.get(name, NOTHING)
            merged[name] = LaunchedTime(known.own_ps + more.own_ps, known.total_ps + more.total_ps)
    return merged if every else None


@compute_once
def _mark_copies(events: HostEvents) -> Bools:
    """Return, per name of events, whether it is one of copies or fills."""
    return np.array([bool(classify_copy(name)) for name in events.names], bool)


def fill_work_of_calls(table: OpTable, events: HostEvents, op_events: GpuOpEvents, rows: Int64s, op: Int32s) -> OpTable:
    """Fill in the work of calls for these events of a GPU. ``op``: beside each event the row of its op, which
    ``op_events`` names. An op has known work if all its calls have."""
    multiplies = np.array(
        [named.provenance in PRODUCTS and not named.is_hlo for named in op_events.ops] + [False], bool
    )
    mine = np.flatnonzero(multiplies[op_events.op[rows]] & ~_mark_copies(events)[events.meta[rows]])
    if not len(mine):
        return table
    rows, op, count = rows[mine], op[mine], len(table)
    around = OpsAround(events)
    calls, of_call = number_values(around.launching(rows))
    works, reasons = _compute_work_of_calls(events, _find_calls_with_shapes(events, around, calls))
    part = np.array([(0, 0, 0) if isinstance(work, int) else (work.flops, work.bytes, work.products) for work in works])
    reason = np.array([work if isinstance(work, int) else -1 for work in works], np.int32)[of_call]
    flops, moved, products = part.reshape(-1, 3)[of_call].T
    times = _count_products(of_call, events.duration_ps[rows], products)
    lacks = np.bincount(op, reason >= 0, count) > 0
    is_known = (np.bincount(op, minlength=count) > 0) & ~lacks
    has_bytes = is_known & (np.bincount(op, (times > 0) & (moved == 0), count) == 0)
    sums, sizes = (np.bincount(op, (amount * times).astype(np.float64), count) for amount in (flops, moved))
    why = [""] * count
    for row, place in zip(op[reason >= 0].tolist(), reason[reason >= 0].tolist(), strict=True):
        why[row] = why[row] or reasons[place]
    return replace(
        table,
        flops=np.where(is_known, sums, table.flops),
        model_flops=np.where(is_known, sums, table.model_flops),
        bytes_accessed=np.where(has_bytes, sizes, table.bytes_accessed),
        flops_source=np.where(is_known, FROM_SHAPES, table.flops_source).astype(np.uint8),
        bytes_source=np.where(has_bytes & (sizes > 0), FROM_SHAPES, table.bytes_source).astype(np.uint8),
        no_work=why,
    )


def _find_calls_with_shapes(events: HostEvents, around: OpsAround, calls: Int64s) -> Int64s:
    """Return the calls, instead of those of a single gradient what calls them and has all shapes."""
    known = np.flatnonzero(calls >= 0)
    above = around.op_of(calls[known])
    has = np.array([name == OLD_BACKWARD for name in events.names] + [False], bool)
    shapes = calls.copy()
    shapes[known] = np.where(has[np.where(above >= 0, events.meta[above], -1)], above, calls[known])
    return shapes


def _count_products(call: Int64s, duration_ps: Int64s, products: Int64s) -> Int64s:
    """Return how many products each kernel computes: the longest of a call one each, and the longest what is left
    over."""
    order = sort_rows(call, -duration_ps)
    sizes = np.bincount(call)
    rank = np.empty(len(call), np.int64)
    rank[order] = expand_ranges(np.zeros_like(sizes), sizes)[1]
    left = np.maximum(products - sizes[call], 0)
    return (rank < products).astype(np.int64) + np.where(rank == 0, left, 0)


def _compute_work_of_calls(events: HostEvents, rows: Int64s) -> tuple[list[TorchWork | int], tuple[str, ...]]:
    """Return the work of calls of ops, or the place in the reasons of why it is not known. Row -1: none is recorded."""
    known = rows >= 0
    texts, number = _read_calls(events, rows[known])
    backward = np.array([name in GRADIENTS for name in events.names], bool)
    outputs = index_outputs(_read_calls(events, np.flatnonzero(backward[events.meta]))[0])
    works: list[TorchWork | int] = []
    reasons = {"the call that launched it is not recorded": 0}
    for call in texts:
        try:
            works.append(compute_call_work(call, outputs))
        except UnknownWork as unknown:
            works.append(reasons.setdefault(f"{call.op}: {unknown}", len(reasons)))
    every: list[TorchWork | int] = [0] * len(rows)
    for row, place in zip(np.flatnonzero(known).tolist(), number.tolist(), strict=True):
        every[row] = works[place]
    return every, tuple(reasons)


def _read_calls(events: HostEvents, rows: Int64s) -> tuple[list[TorchCall], Int32s]:
    """Return the distinct calls of these rows, and the place of that of each row."""
    columns = [join_values(*events.texts(name), rows) for name in ARGUMENTS]
    columns.append(events.meta[rows].astype(np.int64))
    first, number = number_distinct_rows(columns)
    calls = []
    for at in first.tolist():
        dims, old, types, values = (int(column[at]) for column in columns[:-1])
        text = [events.text(argument) if argument >= 0 else "" for argument in (max(dims, old), types, values)]
        calls.append(TorchCall(events.names[events.meta[rows[at]]], *text))
    return calls, number


# ---- work by the shapes of arguments

# Work of PyTorch's matrix products, convolutions and attention, by the recorded shapes of their arguments.
#
# Shapes are recorded with record_shapes=True. Two operations count for each product that is added up, and each array
# moves once: XLA's general cost model counts so, too. Attention multiplies queries by keys and scores by values; its
# backward pass multiplies the scores once more and makes four gradients, as torch.utils.flop_counter counts them.
# Masks, causal ones too, and windows save nothing here. The formulas are in docs/device-ops.md; orders of arguments are
# those of PyTorch's native_functions.yaml.

Dims = tuple[int, ...]

_MOST_LETTERS: Final = 10_000
"""Longer texts of arguments are damage."""

_MOST: Final = 1 << 60
"""Larger arrays are damage."""

NO_SHAPES: Final = "the shapes of its arguments are not recorded (record_shapes=True)"

OTHER_SHAPES: Final = "the shapes of its arguments do not fit such an op"


class TorchCall(NamedTuple):
    """An op and its arguments, as strings of JSON; "" if it is not recorded."""

    op: str
    dims: str
    types: str
    values: str


@dataclass(frozen=True, slots=True)
class TorchWork:
    """Work of one call: ``products`` of equal size, each with ``flops`` and ``bytes``; 0 bytes if types are not
    recorded."""

    flops: int
    bytes: int
    products: int = 1


class UnknownWork(Exception):  # noqa: N818 - a reason, not a failure
    """Why the work of a call is not known."""


def make_work(flops: int, moved: int) -> TorchWork:
    """Return the work of one product. UnknownWork: no array is that large."""
    if max(flops, moved) > _MOST:
        raise UnknownWork(OTHER_SHAPES)
    return TorchWork(flops, moved)


def read_all_dims(call: TorchCall) -> Sequence[Any]:
    """Return what is recorded for each argument as its shape: [] for scalars and absent arrays."""
    dims = _parse_json(call.dims)
    if not isinstance(dims, list) or not any(dims):
        raise UnknownWork(NO_SHAPES)
    return dims


def read_shape(dims: Sequence[Any], place: int) -> Dims:
    """Return the shape of an argument that must be an array."""
    if place >= len(dims) or not dims[place] or not is_shape(dims[place]):
        raise UnknownWork(OTHER_SHAPES)
    return tuple(dims[place])


def is_shape(dims: Any) -> bool:
    """Return whether a parsed value is a list of sizes."""
    return isinstance(dims, list) and all(isinstance(dim, int) and 0 <= dim <= _MOST for dim in dims)


def read_value(call: TorchCall, place: int) -> Any:
    """Return an argument other than an array; None if it is not recorded."""
    values = _parse_json(call.values)
    text = values[place] if place >= 0 and isinstance(values, list) and place < len(values) else None
    return _parse_json(text.lower()) if isinstance(text, str) else None


def read_type(call: TorchCall, place: int) -> str:
    """Return the type of an argument, without its namespace; "" if it is not recorded."""
    types = _parse_json(call.types)
    text = types[place] if isinstance(types, list) and place < len(types) else None
    return text.removeprefix("c10::") if isinstance(text, str) else ""


def read_element_bytes(call: TorchCall, place: int) -> int:
    """Return the bytes of an element of an argument; 0 if they are unknown."""
    return _BYTES.get(read_type(call, place), 0)


def sum_argument_bytes(call: TorchCall) -> int:
    """Return the bytes of all arrays that a call is given; 0 if a shape or a type is not recorded."""
    dims = _parse_json(call.dims)
    given = [(place, dim) for place, dim in enumerate(dims if isinstance(dims, list) else ()) if dim]
    sizes = [prod(dim) * read_element_bytes(call, place) if is_shape(dim) else 0 for place, dim in given]
    total = sum(sizes) if all(sizes) else 0
    return total if total <= _MOST else 0


_BYTES: Final = {
    "double": 8, "float": 4, "Half": 2, "BFloat16": 2, "Float8_e4m3fn": 1, "Float8_e5m2": 1, "Float8_e4m3fnuz": 1,
    "Float8_e5m2fnuz": 1, "Float8_e8m0fnu": 1, "Float4_e2m1fn_x2": 1, "signed char": 1, "unsigned char": 1,
    "complex<float>": 8, "complex<double>": 16, "int": 4, "long int": 8, "long": 8,
}  # fmt: skip


def _parse_json(text: str) -> Any:
    """Return the value of a text of JSON; None if it is none."""
    try:
        return json.loads(text) if text and len(text) <= _MOST_LETTERS else None
    except (ValueError, RecursionError):
        return None


_NO_LENGTHS: Final = "the lengths of its packed sequences are not recorded"

_NO_CONTEXT: Final = "the lengths of the sequences in its pages are not recorded"


class _Attention(NamedTuple):
    """``heads_first``: arrays are [batch, heads, tokens, size], else [batch, tokens, heads, size]. A backward pass has
    the gradient of the output before query, key and value."""

    heads_first: bool
    is_backward: bool = False


_FUSED: Final = ("flash_attention", "efficient_attention", "cudnn_attention", "fused_attention_overrideable")

_FORWARD_ATTENTION: Final = (
    "flash_attn::_flash_attn_forward", "flash_attn::_flash_attn_varlen_forward", "FlashAttnFunc", "FlashAttnVarlenFunc",
    "flash_attn_3::fwd", "flash_attn_3::_flash_attn_forward", "aiter::_flash_attn_forward",
    "aiter::_flash_attn_varlen_forward", "aiter::mha_fwd", "aiter::mha_varlen_fwd", "aiter::fmha_v3_fwd",
    "aiter::fmha_v3_varlen_fwd", "xformers_flash::flash_fwd", "xformers::efficient_attention_forward_cutlass",
    "xformers::efficient_attention_forward_ck", "_vllm_fa2_C::varlen_fwd", "_vllm_fa3_C::fwd",
)  # fmt: skip

_BACKWARD_ATTENTION: Final = (
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
    **dict.fromkeys(_FORWARD_ATTENTION, _Attention(False)),
    **dict.fromkeys(_BACKWARD_ATTENTION, _Attention(False, True)),
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
"""vLLM kernels. Its FlashAttention builds take unpaged keys, too."""

ATTENTIONS: Final = frozenset({*_ATTENTIONS, *_PAGED})
"""Ops whose work is known here."""


def compute_attention_work(call: TorchCall) -> TorchWork:
    """Return the work of a call of one of ATTENTIONS. UnknownWork: the reason why it is not known."""
    dims = read_all_dims(call)
    if call.op in _PAGED and len(read_shape(dims, _PAGED[call.op].key)) > 3:
        return _paged_work(call, dims, _PAGED[call.op])
    kind = _ATTENTIONS[call.op]
    first = int(kind.is_backward)
    query, key, value = (read_shape(dims, first + place) for place in range(3))
    if len({len(query), len(key), len(value)}) > 1 or len(query) < 3:
        raise UnknownWork(OTHER_SHAPES)
    lengths = _find_lengths_after(call, dims, first + 3)
    heads, pairs = (
        _count_packed_pairs(call, dims, lengths, query, key, value)
        if lengths
        else _count_dense_pairs(kind, query, key, value)
    )
    if query[-1] != key[-1]:
        raise UnknownWork(OTHER_SHAPES)
    scores, values = 2 * heads * pairs * query[-1], 2 * heads * pairs * value[-1]
    output = (*query[:-1], value[-1])
    sizes = [read_element_bytes(call, first + place) for place in range(3)]
    moved = sum(prod(shape) * size for shape, size in zip((query, key, value), sizes, strict=True))
    moved = (1 + first) * moved + prod(output) * sizes[0]
    return make_work(3 * scores + 2 * values if first else scores + values, moved if all(sizes) else 0)


def _paged_work(call: TorchCall, dims: Sequence[Any], places: _Paged) -> TorchWork:
    """Return the work of attention whose keys are in pages, known if there is one sequence: its length is that of the
    longest."""
    query, pages, sequences = (read_shape(dims, place) for place in (places.query, places.key, places.sequences))
    length = read_value(call, places.longest)
    if len(query) != 3 or len(sequences) != 1 or not pages[places.heads] or query[1] % pages[places.heads]:
        raise UnknownWork(OTHER_SHAPES)
    if sequences[0] - places.begins != 1 or not isinstance(length, int) or length < 0:
        raise UnknownWork(_NO_CONTEXT)
    sizes = [read_element_bytes(call, place) for place in (places.query, places.key, places.key + 1)]
    moved = 2 * prod(query) * sizes[0] + length * pages[places.heads] * query[2] * (sizes[1] + sizes[2])
    return make_work(4 * prod(query) * length, moved if all(sizes) else 0)


def _count_dense_pairs(kind: _Attention, query: Dims, key: Dims, value: Dims) -> tuple[int, int]:
    """Return the heads of the query, and the pairs of query and key of a head over the batch. Fewer heads of keys than
    of queries are each used by a group of these."""
    if not kind.heads_first:
        if len(query) != 4:
            raise UnknownWork(_NO_LENGTHS)
        query, key, value = (tuple(shape[at] for at in (0, 2, 1, 3)) for shape in (query, key, value))
    shared = key[-3] > 0 and query[-3] % key[-3] == 0 if len(query) > 3 else query[-3] == key[-3]
    if query[:-3] != key[:-3] or key[:-1] != value[:-1] or not shared:
        raise UnknownWork(OTHER_SHAPES)
    return query[-3], prod(query[:-3]) * query[-2] * key[-2]


def _find_lengths_after(call: TorchCall, dims: Sequence[Any], first: int) -> int:
    """Return the place of the first of two neighbours that hold where sequences begin, of queries and of keys; 0 if
    the sequences are not packed. The longest lengths follow them."""
    for place in range(first, len(dims) - 1):
        both = dims[place : place + 2]
        if all(isinstance(shape, list) and len(shape) == 1 for shape in both) and read_type(call, place) == "int":
            return place
    return 0


def _count_packed_pairs(
    call: TorchCall, dims: Sequence[Any], lengths: int, query: Dims, key: Dims, value: Dims
) -> tuple[int, int]:
    """Return what ``_count_dense_pairs`` does, of sequences one after the other: known if there is one, or if all
    queries or all keys are as long as the longest."""
    (first,), (second,) = read_shape(dims, lengths), read_shape(dims, lengths + 1)
    if first != second or key[:-1] != value[:-1] or not key[-2] or query[-2] % key[-2]:
        raise UnknownWork(OTHER_SHAPES)
    count, tokens, keys = first - 1, query[-3] * prod(query[:-3]), key[-3] * prod(key[:-3])
    most_queries, most_keys = read_value(call, lengths + 2), read_value(call, lengths + 3)
    if count == 1:
        return query[-2], tokens * keys
    if isinstance(most_queries, int) and most_queries * count == tokens:
        return query[-2], most_queries * keys
    if isinstance(most_keys, int) and most_keys * count == keys:
        return query[-2], most_keys * tokens
    raise UnknownWork(_NO_LENGTHS)


_NO_STRIDE: Final = "its stride and padding are not recorded (Concrete Inputs, since PyTorch 2.1)"

_NO_MASK: Final = "which gradients it computes is not recorded (Concrete Inputs, since PyTorch 2.1)"

_NO_KERNEL: Final = "the shape of its weights is not recorded"

_INTEGER: Final = "aten::_int_mm"
"""Product of 8-bit integers, written as 32-bit ones."""
_MATRICES: Final = {
    "aten::mm": (0, 1), "aten::bmm": (0, 1), "aten::mv": (0, 1), "aten::linear": (0, 1), _INTEGER: (0, 1),
    "aten::_addmm_activation": (1, 2),
    **{f"aten::{name}": (1, 2) for name in ("addmm", "addmm_", "baddbmm", "baddbmm_", "addmv", "addmv_")},
}  # fmt: skip
"""Places of the two matrices among the arguments; what is before them, or after those of linear, is added to their
product. What comes later is the array that the result is written into (out=)."""


class _Forward(NamedTuple):
    """Places of arguments after input and weight; -1 if there is none."""

    stride: int = -1
    padding: int = -1
    dilation: int = -1
    transposed: int = -1
    is_transposed: bool = False


_CONVOLUTIONS: Final = {
    **dict.fromkeys(("aten::convolution", "aten::_convolution", "aten::convolution_overrideable"),
                    _Forward(3, 4, 5, 6)),
    "aten::cudnn_convolution": _Forward(3, 2, 4),
    **dict.fromkeys(("aten::miopen_convolution", "aten::miopen_depthwise_convolution"), _Forward(4, 3, 5)),
    "aten::cudnn_convolution_relu": _Forward(3, 4, 5),
    "aten::cudnn_convolution_add_relu": _Forward(5, 6, 7),
    **dict.fromkeys(("aten::_conv_depthwise2d", "aten::conv_depthwise3d"), _Forward(4, 5, 6)),
    **dict.fromkeys(("aten::cudnn_convolution_transpose", "aten::miopen_convolution_transpose"),
                    _Forward(is_transposed=True)),
}  # fmt: skip

_SCALED: Final = {"aten::_scaled_mm": 0, "_C::cutlass_scaled_mm": 1}
"""Scaled 8-bit and 4-bit matrix products: position of the first operand; vLLM puts the result before it."""

_HALVED: Final = "Float4_e2m1fn_x2"
"""Packed type: an element holds two numbers along the summed dimension."""

_BYTES_BY_CODE: Final = {5: 2, 6: 4, 7: 8, 15: 2, 23: 1, 24: 1}
"""Element bytes by PyTorch type number: half, float, double, bfloat16, two 8-bit types."""

_CONVOLUTION_BACKWARD: Final = "aten::convolution_backward"

OLD_BACKWARD: Final = "aten::cudnn_convolution_backward"
"""Calls the next two, which compute one gradient each."""

_INPUT_GRADIENT: Final = "aten::cudnn_convolution_backward_input"

WEIGHT_GRADIENT: Final = "aten::cudnn_convolution_backward_weight"

PRODUCTS: Final = frozenset({
    *_MATRICES, *_SCALED, *_CONVOLUTIONS, *ATTENTIONS, _CONVOLUTION_BACKWARD, _INPUT_GRADIENT, WEIGHT_GRADIENT,
})  # fmt: skip
"""Ops whose work is known here."""

GRADIENTS: Final = frozenset({_CONVOLUTION_BACKWARD, OLD_BACKWARD})
"""Ops with the shapes of input, weight and output of a convolution: others lack some of these."""

Outputs = Mapping[tuple[Dims, Dims], Dims]
"""Shapes of what convolutions make, by those of input and weight, as backward passes record them."""


def index_outputs(backward: Sequence[TorchCall]) -> Outputs:
    """Return the outputs of these calls, without shapes of input and weight that have several, as of several
    strides."""
    every: dict[tuple[Dims, Dims], set[Dims]] = {}
    for call in backward:
        try:
            given, made, weight = _read_backward_shapes(call)
        except UnknownWork:
            continue
        every.setdefault((given, weight), set()).add(made)
    return {key: next(iter(shapes)) for key, shapes in every.items() if len(shapes) == 1}


def _read_backward_shapes(call: TorchCall) -> tuple[Dims, Dims, Dims]:
    """Return the shapes of input, output and weight."""
    dims = read_all_dims(call)
    made, given = (0, 1) if call.op == _CONVOLUTION_BACKWARD else (1, 0)
    return read_shape(dims, given), read_shape(dims, made), read_shape(dims, 2)


def compute_call_work(call: TorchCall, outputs: Outputs) -> TorchWork:
    """Return the work of a call. UnknownWork: the reason why it is not known."""
    if call.op in ATTENTIONS:
        return compute_attention_work(call)
    dims = read_all_dims(call)
    if call.op in _SCALED:
        return _of_scaled(call, dims, _SCALED[call.op])
    if call.op in _MATRICES:
        return _compute_matrix_work(call, dims)
    if call.op in _CONVOLUTIONS:
        return _compute_convolution_work(call, dims, _CONVOLUTIONS[call.op], outputs)
    if call.op == _INPUT_GRADIENT:
        return _compute_convolved_work(call, read_shape(dims, 1), read_shape(dims, 2), ())
    if call.op == WEIGHT_GRADIENT:
        raise UnknownWork(_NO_KERNEL)
    given, made, weight = _read_backward_shapes(call)
    if call.op == OLD_BACKWARD:
        return _compute_convolved_work(call, made, weight, (given, made))
    mask, is_transposed = read_value(call, 10), read_value(call, 7) is True
    if not isinstance(mask, list):
        raise UnknownWork(_NO_MASK)
    gradient = _compute_convolved_work(call, given if is_transposed else made, weight, (given, made))
    return TorchWork(gradient.flops, gradient.bytes, sum(each is True for each in mask[:2]))


def _compute_matrix_work(call: TorchCall, dims: Sequence[Any]) -> TorchWork:
    """[…, m, k] times [k, n], [b, k, n], [k], or for linear [n, k]."""
    at_first, at_second = _MATRICES[call.op]
    first, second, inputs = read_shape(dims, at_first), read_shape(dims, at_second), at_second + 1
    if call.op == "aten::linear":
        second, inputs = second[::-1], inputs + 1
    if call.op.removesuffix("_").endswith("mv"):
        second = (*second, 1)
    batched = len(second) == 3
    if not first or len(second) < 2 or first[-1] != second[-2] or (batched and first[:1] != second[:1]):
        raise UnknownWork(OTHER_SHAPES)
    rows, columns = prod(first[:-1]), second[-1]
    places = [place for place, dim in enumerate(dims) if dim and is_shape(dim)]
    sizes = [read_element_bytes(call, place) for place in places if place < inputs]
    moved = sum(prod(dims[place]) * size for place, size in zip(places, sizes, strict=False))
    given = read_element_bytes(call, places[-1]) if places[-1] >= inputs else 0
    written = rows * columns * (given or (4 if call.op == _INTEGER else read_element_bytes(call, at_first)))
    return make_work(2 * rows * first[-1] * columns, moved + written if all(sizes) else 0)


def _of_scaled(call: TorchCall, dims: Sequence[Any], at: int) -> TorchWork:
    """[m, k] times [k, n], their scales and what is added. The type of the result is that of an array for it, else an
    option behind the scales, or before them up to PyTorch 2.3, else that of the first matrix."""
    (rows, inner, *more), second = read_shape(dims, at), read_shape(dims, at + 1)
    if more or len(second) != 2 or second[0] != inner:
        raise UnknownWork(OTHER_SHAPES)
    columns = second[1]
    flops = 2 * rows * inner * columns * (2 if read_type(call, at) == _HALVED else 1)
    places = [place for place, dim in enumerate(dims) if dim and is_shape(dim)]
    results = [0] if at else [place for place in places if place > 7 and dims[place] == [rows, columns]]
    sizes = [read_element_bytes(call, place) for place in places if place not in results]
    given = [prod(dims[place]) for place in places if place not in results]
    code = next((value for value in (read_value(call, 6), read_value(call, 3)) if type(value) is int), None)
    written = (
        read_element_bytes(call, results[0])
        if results
        else _BYTES_BY_CODE.get(code, 0)
        if code
        else read_element_bytes(call, at)
    )
    moved = sum(map(mul, given, sizes)) + rows * columns * written
    return make_work(flops, moved if all(sizes) and written and (results or call.values) else 0)


def _compute_convolution_work(call: TorchCall, dims: Sequence[Any], places: _Forward, outputs: Outputs) -> TorchWork:
    given, weight = read_shape(dims, 0), read_shape(dims, 1)
    if places.is_transposed or (places.transposed >= 0 and read_value(call, places.transposed) is True):
        return _compute_convolved_work(call, given, weight, ())
    steps = [read_value(call, place) for place in (places.stride, places.padding, places.dilation)]
    if any(not isinstance(step, list) for step in steps):
        if (given, weight) not in outputs:
            raise UnknownWork(_NO_STRIDE)
        return _compute_convolved_work(call, outputs[given, weight], weight, (given, outputs[given, weight]))
    kernel = weight[2:]
    every = [step * len(kernel) if len(step) == 1 else step for step in steps]  # one number is for all dimensions
    if {len(given[2:]), *map(len, every)} != {len(kernel)} or not all(map(is_shape, every)):
        raise UnknownWork(OTHER_SHAPES)
    if any(stride < 1 for stride in every[0]):
        raise UnknownWork(OTHER_SHAPES)
    sizes = [
        max(0, (size + 2 * pad - gap * (width - 1) - 1) // stride + 1)
        for size, width, stride, pad, gap in zip(given[2:], kernel, *every, strict=True)
    ]
    made = (given[0], weight[0], *sizes)
    return _compute_convolved_work(call, made, weight, (given, made))


def _compute_convolved_work(call: TorchCall, across: Dims, weight: Dims, others: Sequence[Dims]) -> TorchWork:
    """Every weight is multiplied once for each place of ``across``, [batch, channels, …]. ``others``: the arrays beside
    the weight that are moved; none: not known."""
    if len(across) != len(weight) or len(weight) < 3:
        raise UnknownWork(OTHER_SHAPES)
    size = read_element_bytes(call, 1)
    moved = size * (prod(weight) + sum(map(prod, others))) if others else 0
    return make_work(2 * prod(weight) * across[0] * prod(across[2:]), moved)
