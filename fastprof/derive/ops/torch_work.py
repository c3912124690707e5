"""Work of PyTorch's products of matrices and convolutions, by the shapes of their arguments (record_shapes=True).

Two operations for each product that is added up, and each array moved once: what XLA's general cost model counts, too.
The formulas are in docs/device-ops.md; orders of arguments are those of PyTorch's native_functions.yaml.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final, NamedTuple

from fastprof.schema.value_classes import dataclass

Dims = tuple[int, ...]
_MOST_LETTERS: Final = 10_000
"""Longer texts of arguments are damage."""
_MOST: Final = 1 << 60
"""Larger arrays are damage."""

NO_SHAPES: Final = "the shapes of its arguments are not recorded (record_shapes=True)"
_OTHER_SHAPES: Final = "the shapes of its arguments are not those of such an op"
_NO_STRIDE: Final = "its stride and padding are not recorded (Concrete Inputs, since PyTorch 2.1)"
_NO_MASK: Final = "which gradients it computes is not recorded (Concrete Inputs, since PyTorch 2.1)"
_NO_KERNEL: Final = "the shape of its weights is not recorded"


class Call(NamedTuple):
    """An op and its arguments, as texts of JSON; "": not recorded."""

    op: str
    dims: str
    types: str
    values: str


@dataclass(frozen=True, slots=True)
class Work:
    """Of one call: ``products`` of equal size, each with ``flops`` and ``bytes``; 0 bytes: types are not recorded."""

    flops: int
    bytes: int
    products: int = 1


class Unknown(Exception):  # noqa: N818 - a reason, not a failure
    """Why the work of a call is not known."""


_MATRICES: Final = {
    "aten::mm": (0, 1), "aten::addmm": (1, 2), "aten::_addmm_activation": (1, 2), "aten::bmm": (0, 1),
    "aten::baddbmm": (1, 2), "aten::mv": (0, 1), "aten::addmv": (1, 2), "aten::linear": (0, 1),
}  # fmt: skip
"""Where the two matrices are among the arguments; what is before them is added to their product."""


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
_BACKWARD: Final = "aten::convolution_backward"
OLD_BACKWARD: Final = "aten::cudnn_convolution_backward"
"""Calls the next two, which compute one gradient each."""
_INPUT_GRADIENT: Final = "aten::cudnn_convolution_backward_input"
WEIGHT_GRADIENT: Final = "aten::cudnn_convolution_backward_weight"
PRODUCTS: Final = frozenset({*_MATRICES, *_CONVOLUTIONS, _BACKWARD, _INPUT_GRADIENT, WEIGHT_GRADIENT})
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
    dims = _dims(call)
    made, given = (0, 1) if call.op == _BACKWARD else (1, 0)
    return _shape(dims, given), _shape(dims, made), _shape(dims, 2)


def work_of(call: Call, outputs: Outputs) -> Work:
    """Unknown: the reason why it is not known."""
    dims = _dims(call)
    if call.op in _MATRICES:
        return _of_matrices(call, dims)
    if call.op in _CONVOLUTIONS:
        return _of_convolution(call, dims, _CONVOLUTIONS[call.op], outputs)
    if call.op == _INPUT_GRADIENT:
        return _convolved(call, _shape(dims, 1), _shape(dims, 2), ())
    if call.op == WEIGHT_GRADIENT:
        raise Unknown(_NO_KERNEL)
    given, made, weight = _of_backward(call)
    if call.op == OLD_BACKWARD:
        return _convolved(call, made, weight, (given, made))
    mask, is_transposed = _value(call, 10), _value(call, 7) is True
    if not isinstance(mask, list):
        raise Unknown(_NO_MASK)
    one = _convolved(call, given if is_transposed else made, weight, (given, made))
    return Work(one.flops, one.bytes, sum(each is True for each in mask[:2]))


def _of_matrices(call: Call, dims: Sequence[Any]) -> Work:
    """[…, m, k] times [k, n], [b, k, n], [k], or for linear [n, k]."""
    first, second = (_shape(dims, place) for place in _MATRICES[call.op])
    if call.op == "aten::linear":
        second = second[::-1]
    if call.op.endswith("mv"):
        second = (*second, 1)
    batched = len(second) == 3
    if not first or len(second) < 2 or first[-1] != second[-2] or (batched and first[:1] != second[:1]):
        raise Unknown(_OTHER_SHAPES)
    rows, columns = prod(first[:-1]), second[-1]
    places = [place for place, one in enumerate(dims) if one and _is_shape(one)]
    sizes = [_size(call, place) for place in places]
    moved = sum(prod(dims[place]) * size for place, size in zip(places, sizes, strict=True))
    written = rows * columns * _size(call, _MATRICES[call.op][0])
    return _checked(2 * rows * first[-1] * columns, moved + written if all(sizes) else 0)


def _of_convolution(call: Call, dims: Sequence[Any], places: _Forward, outputs: Outputs) -> Work:
    given, weight = _shape(dims, 0), _shape(dims, 1)
    if places.is_transposed or (places.transposed >= 0 and _value(call, places.transposed) is True):
        return _convolved(call, given, weight, ())
    steps = [_value(call, place) for place in (places.stride, places.padding, places.dilation)]
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
    if len(given) != len(kernel) or any(len(one) != len(kernel) for one in every) or not all(map(_is_shape, every)):
        raise Unknown(_OTHER_SHAPES)
    parts = zip(given, kernel, *every, strict=True)
    if any(stride < 1 for stride in every[0]):
        raise Unknown(_OTHER_SHAPES)
    return tuple(
        max(0, (size + 2 * pad - gap * (width - 1) - 1) // stride + 1) for size, width, stride, pad, gap in parts
    )


def _convolved(call: Call, across: Dims, weight: Dims, others: Sequence[Dims]) -> Work:
    """Every weight is multiplied once for each place of ``across``, [batch, channels, …]. ``others``: the arrays beside
    the weight that are moved; none: not known."""
    if len(across) != len(weight) or len(weight) < 3:
        raise Unknown(_OTHER_SHAPES)
    size = _size(call, 1)
    moved = size * (prod(weight) + sum(map(prod, others))) if others else 0
    return _checked(2 * prod(weight) * across[0] * prod(across[2:]), moved)


def _checked(flops: int, moved: int) -> Work:
    if max(flops, moved) > _MOST:
        raise Unknown(_OTHER_SHAPES)
    return Work(flops, moved)


# ---- arguments


def _dims(call: Call) -> Sequence[Any]:
    dims = _parsed(call.dims)
    if not isinstance(dims, list) or not any(dims):
        raise Unknown(NO_SHAPES)
    return dims


def _shape(dims: Sequence[Any], place: int) -> Dims:
    if place >= len(dims) or not dims[place] or not _is_shape(dims[place]):
        raise Unknown(_OTHER_SHAPES)
    return tuple(dims[place])


def _is_shape(dims: Any) -> bool:
    return isinstance(dims, list) and all(isinstance(one, int) and 0 <= one <= _MOST for one in dims)


def _value(call: Call, place: int) -> Any:
    """An argument other than an array; None: not recorded."""
    values = _parsed(call.values)
    text = values[place] if place >= 0 and isinstance(values, list) and place < len(values) else None
    return _parsed(text.lower()) if isinstance(text, str) else None


def _size(call: Call, place: int) -> int:
    """The bytes of an element of an argument; 0: unknown."""
    types = _parsed(call.types)
    text = types[place] if isinstance(types, list) and place < len(types) else None
    return _BYTES.get(text.removeprefix("c10::"), 0) if isinstance(text, str) else 0


_BYTES: Final = {
    "double": 8, "float": 4, "Half": 2, "BFloat16": 2, "Float8_e4m3fn": 1, "Float8_e5m2": 1, "signed char": 1,
    "unsigned char": 1, "complex<float>": 8, "complex<double>": 16, "int": 4, "long int": 8, "long": 8,
}  # fmt: skip


def _parsed(text: str) -> Any:
    """The value of a text of JSON; None: it is none."""
    try:
        return json.loads(text) if text and len(text) <= _MOST_LETTERS else None
    except (ValueError, RecursionError):
        return None
