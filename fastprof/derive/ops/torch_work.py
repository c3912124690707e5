"""Work of PyTorch's products of matrices, convolutions and attention, by the shapes of their arguments
(record_shapes=True).

Two operations for each product that is added up, and each array moved once: what XLA's general cost model counts, too.
The formulas are in docs/device-ops.md; orders of arguments are those of PyTorch's native_functions.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from operator import mul
from typing import Any, Final, NamedTuple

from fastprof.derive.ops.torch_arguments import (
    OTHER_SHAPES,
    Call,
    Dims,
    Unknown,
    Work,
    all_dims,
    checked_work,
    is_shape,
    shape_at,
    size_at,
    type_at,
    value_at,
)
from fastprof.derive.ops.torch_attention import ATTENTIONS, attention_work

_NO_STRIDE: Final = "its stride and padding are not recorded (Concrete Inputs, since PyTorch 2.1)"
_NO_MASK: Final = "which gradients it computes is not recorded (Concrete Inputs, since PyTorch 2.1)"
_NO_KERNEL: Final = "the shape of its weights is not recorded"

_MATRICES: Final = {
    "aten::mm": (0, 1), "aten::bmm": (0, 1), "aten::mv": (0, 1), "aten::linear": (0, 1),
    "aten::_addmm_activation": (1, 2),
    **{f"aten::{name}": (1, 2) for name in ("addmm", "addmm_", "baddbmm", "baddbmm_", "addmv", "addmv_")},
}  # fmt: skip
"""Where the two matrices are among the arguments; what is before them, or after those of linear, is added to their
product. What comes later is the array that the result is written into (out=)."""


class _Forward(NamedTuple):
    """Places of arguments after input and weight; -1: there is none."""

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
"""Products of scaled 8-bit or 4-bit matrices: the place of the first; vLLM has the result before it."""
_HALVED: Final = "Float4_e2m1fn_x2"
"""A type of which an element holds two numbers along the dimension that is summed."""
_BYTES_BY_CODE: Final = {5: 2, 6: 4, 7: 8, 15: 2, 23: 1, 24: 1}
"""Bytes of PyTorch's types by their numbers: half, float, double, bfloat16 and two of 8 bits."""
_BACKWARD: Final = "aten::convolution_backward"
OLD_BACKWARD: Final = "aten::cudnn_convolution_backward"
"""Calls the next two, which compute one gradient each."""
_INPUT_GRADIENT: Final = "aten::cudnn_convolution_backward_input"
WEIGHT_GRADIENT: Final = "aten::cudnn_convolution_backward_weight"
PRODUCTS: Final = frozenset({
    *_MATRICES, *_SCALED, *_CONVOLUTIONS, *ATTENTIONS, _BACKWARD, _INPUT_GRADIENT, WEIGHT_GRADIENT,
})  # fmt: skip
"""Ops whose work is known here."""
GRADIENTS: Final = frozenset({_BACKWARD, OLD_BACKWARD})
"""Ops with the shapes of input, weight and output of a convolution: others lack some of these."""

Outputs = Mapping[tuple[Dims, Dims], Dims]
"""Shapes of what convolutions make, by those of input and weight, as backward passes record them."""


def outputs_of(backward: Sequence[Call]) -> Outputs:
    """Those of these calls; shapes of input and weight with several outputs, as of several strides, are left out."""
    every: dict[tuple[Dims, Dims], set[Dims]] = {}
    for call in backward:
        try:
            given, made, weight = _of_backward(call)
        except Unknown:
            continue
        every.setdefault((given, weight), set()).add(made)
    return {key: next(iter(one)) for key, one in every.items() if len(one) == 1}


def _of_backward(call: Call) -> tuple[Dims, Dims, Dims]:
    """The shapes of input, output and weight."""
    dims = all_dims(call)
    made, given = (0, 1) if call.op == _BACKWARD else (1, 0)
    return shape_at(dims, given), shape_at(dims, made), shape_at(dims, 2)


def work_of(call: Call, outputs: Outputs) -> Work:
    """Unknown: the reason why it is not known."""
    if call.op in ATTENTIONS:
        return attention_work(call)
    dims = all_dims(call)
    if call.op in _SCALED:
        return _of_scaled(call, dims, _SCALED[call.op])
    if call.op in _MATRICES:
        return _of_matrices(call, dims)
    if call.op in _CONVOLUTIONS:
        return _of_convolution(call, dims, _CONVOLUTIONS[call.op], outputs)
    if call.op == _INPUT_GRADIENT:
        return _convolved(call, shape_at(dims, 1), shape_at(dims, 2), ())
    if call.op == WEIGHT_GRADIENT:
        raise Unknown(_NO_KERNEL)
    given, made, weight = _of_backward(call)
    if call.op == OLD_BACKWARD:
        return _convolved(call, made, weight, (given, made))
    mask, is_transposed = value_at(call, 10), value_at(call, 7) is True
    if not isinstance(mask, list):
        raise Unknown(_NO_MASK)
    one = _convolved(call, given if is_transposed else made, weight, (given, made))
    return Work(one.flops, one.bytes, sum(each is True for each in mask[:2]))


def _of_matrices(call: Call, dims: Sequence[Any]) -> Work:
    """[…, m, k] times [k, n], [b, k, n], [k], or for linear [n, k]."""
    at_first, at_second = _MATRICES[call.op]
    first, second, inputs = shape_at(dims, at_first), shape_at(dims, at_second), at_second + 1
    if call.op == "aten::linear":
        second, inputs = second[::-1], inputs + 1
    if call.op.removesuffix("_").endswith("mv"):
        second = (*second, 1)
    batched = len(second) == 3
    if not first or len(second) < 2 or first[-1] != second[-2] or (batched and first[:1] != second[:1]):
        raise Unknown(OTHER_SHAPES)
    rows, columns = prod(first[:-1]), second[-1]
    places = [place for place, one in enumerate(dims) if one and is_shape(one)]
    sizes = [size_at(call, place) for place in places if place < inputs]
    moved = sum(prod(dims[place]) * size for place, size in zip(places, sizes, strict=False))
    given = size_at(call, places[-1]) if places[-1] >= inputs else 0
    written = rows * columns * (given or size_at(call, at_first))
    return checked_work(2 * rows * first[-1] * columns, moved + written if all(sizes) else 0)


def _of_scaled(call: Call, dims: Sequence[Any], at: int) -> Work:
    """[m, k] times [k, n], their scales and what is added. The type of the result is that of an array for it, else an
    option behind the scales, or before them up to PyTorch 2.3, else that of the first matrix."""
    (rows, inner, *more), second = shape_at(dims, at), shape_at(dims, at + 1)
    if more or len(second) != 2 or second[0] != inner:
        raise Unknown(OTHER_SHAPES)
    columns = second[1]
    flops = 2 * rows * inner * columns * (2 if type_at(call, at) == _HALVED else 1)
    places = [place for place, one in enumerate(dims) if one and is_shape(one)]
    results = [0] if at else [place for place in places if place > 7 and dims[place] == [rows, columns]]
    sizes = [size_at(call, place) for place in places if place not in results]
    given = [prod(dims[place]) for place in places if place not in results]
    code = next((one for one in (value_at(call, 6), value_at(call, 3)) if type(one) is int), None)
    written = size_at(call, results[0]) if results else _BYTES_BY_CODE.get(code, 0) if code else size_at(call, at)
    moved = sum(map(mul, given, sizes)) + rows * columns * written
    return checked_work(flops, moved if all(sizes) and written and (results or call.values) else 0)


def _of_convolution(call: Call, dims: Sequence[Any], places: _Forward, outputs: Outputs) -> Work:
    given, weight = shape_at(dims, 0), shape_at(dims, 1)
    if places.is_transposed or (places.transposed >= 0 and value_at(call, places.transposed) is True):
        return _convolved(call, given, weight, ())
    steps = [value_at(call, place) for place in (places.stride, places.padding, places.dilation)]
    if any(not isinstance(one, list) for one in steps):
        if (given, weight) not in outputs:
            raise Unknown(_NO_STRIDE)
        made = outputs[given, weight]
    else:
        made = (given[0], weight[0], *_sizes(given[2:], weight[2:], steps))
    return _convolved(call, made, weight, (given, made))


def _sizes(given: Dims, kernel: Dims, steps: Sequence[Any]) -> Dims:
    """The sizes of what a convolution makes; an option of one number holds for all dimensions."""
    every = [one * len(kernel) if len(one) == 1 else one for one in steps]
    if len(given) != len(kernel) or any(len(one) != len(kernel) for one in every) or not all(map(is_shape, every)):
        raise Unknown(OTHER_SHAPES)
    parts = zip(given, kernel, *every, strict=True)
    if any(stride < 1 for stride in every[0]):
        raise Unknown(OTHER_SHAPES)
    return tuple(
        max(0, (size + 2 * pad - gap * (width - 1) - 1) // stride + 1) for size, width, stride, pad, gap in parts
    )


def _convolved(call: Call, across: Dims, weight: Dims, others: Sequence[Dims]) -> Work:
    """Every weight is multiplied once for each place of ``across``, [batch, channels, …]. ``others``: the arrays beside
    the weight that are moved; none: not known."""
    if len(across) != len(weight) or len(weight) < 3:
        raise Unknown(OTHER_SHAPES)
    size = size_at(call, 1)
    moved = size * (prod(weight) + sum(map(prod, others))) if others else 0
    return checked_work(2 * prod(weight) * across[0] * prod(across[2:]), moved)
