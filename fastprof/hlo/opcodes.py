"""The category of each kind of instruction, as op tables show it, and its work. Other instructions move their operands
and their output, and compute nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from math import gcd
from typing import Protocol

import numpy as np

from fastprof.errors import CaptureError
from fastprof.hlo.module import HloModule, Instruction
from fastprof.hlo.shapes import Shape, multiply_sizes
from fastprof.hlo.work import UNKNOWN, ZERO, Counting, Effort, Float, Work, find_largest_work
from fastprof.inputs.message import Message
from fastprof.schema.value_classes import dataclass

_WINDOW, _WINDOW_DILATION, _BASE_DILATION = 15, 5, 6
FUSIONS = {
    "kLoop": "loop fusion",
    "kInput": "input fusion",
    "kOutput": "output fusion",
    "kCustom": "custom fusion",
}
DATA_FORMATTING = frozenset({"transpose", "copy", "reshape", "dynamic-reshape"})
_ELEMENTWISE = (
    "abs acos acosh add and asin asinh atan2 atanh bitcast-convert cbrt ceil clamp clz compare complex constant "
    "convert copy cosh cosine divide erf exponential exponential-minus-one floor imag is-finite log log-plus-one "
    "logistic map maximum minimum multiply negate not or popcnt power real reduce-precision remainder "
    "round-nearest-afz round-nearest-even rsqrt select shift-left shift-right-arithmetic shift-right-logical sign sine "
    "sinh sqrt stochastic-convert subtract tan tanh xor"
)
ELEMENTWISE = frozenset(_ELEMENTWISE.split())
"""Opcodes that compute element by element."""


def get_category(instruction: Instruction) -> str:
    """``loop fusion``, ``convolution``, ``data formatting``, …; of most instructions their opcode."""
    opcode = instruction.opcode
    if opcode == "fusion":
        return FUSIONS.get(instruction.fusion_kind, "unknown fusion")
    if opcode == "convolution":
        return opcode + _read_dilations(instruction)
    if opcode in DATA_FORMATTING:
        return "data formatting"
    return "non-fusion elementwise" if opcode in ELEMENTWISE else opcode


def _read_dilations(instruction: Instruction) -> str:
    try:
        dimensions = instruction.fields().message(_WINDOW).messages(1)
    except CaptureError:  # a damaged window counts as none
        return ""
    base = any(dimension.integer(_BASE_DILATION) not in (0, 1) for dimension in dimensions)
    window = any(dimension.integer(_WINDOW_DILATION) not in (0, 1) for dimension in dimensions)
    return " base-dilated" * base + " window-dilated" * window


# ---- convolutions: multiplications and additions of input elements, not of padding

_MOST_PLACES, _LARGEST = 1 << 22, 1 << 31


@dataclass(frozen=True, slots=True)
class WindowDimension:
    """One dimension of a window, and the sizes that it slides over."""

    kernel: int
    output: int
    input: int
    stride: int
    padding_low: int
    padding_high: int
    window_dilation: int
    base_dilation: int


def count_valid_positions(d: WindowDimension) -> int:
    """Return the number of pairs of kernel and output positions that meet an element of the input. Two shapes of
    gradients are counted as by XLA's shortcuts for them."""
    plain = d.window_dilation == 1 and d.padding_low == 0 and d.padding_high == 0
    if d.input == d.output == d.kernel == d.base_dilation and plain and d.stride == max(1, d.input - 1):
        return d.input
    steps = (d.window_dilation, d.base_dilation, d.stride)
    if d.input == 1 and d.kernel == d.output and steps == (1, 1, 1) and d.padding_low == d.padding_high == d.output - 1:
        return d.output
    return _count_pairs(d)


def _count_pairs(d: WindowDimension) -> int:
    """Pairs (k, o) with an integer (o * stride + k * window_dilation - padding_low) / base_dilation in [0, input)."""
    outer, outer_step, inner, inner_step = d.kernel, d.window_dilation, d.output, d.stride
    if outer > inner:
        outer, outer_step, inner, inner_step = inner, inner_step, outer, outer_step
    sizes = (outer, inner, d.input, d.stride, d.window_dilation, d.base_dilation)
    paddings = (d.padding_low, d.padding_high)
    if min(sizes) < 1 or max(map(abs, sizes + paddings)) > _LARGEST or outer > _MOST_PLACES:
        return 0  # nothing, or a damaged module
    start = np.arange(outer) * outer_step - d.padding_low
    highest = (d.input - 1) * d.base_dilation
    # inner positions i with -start <= i * inner_step <= highest - start, and i * inner_step = -start mod base_dilation
    low = np.maximum(-(start // inner_step), 0)
    high = np.minimum((highest - start) // inner_step, inner - 1)
    common = gcd(inner_step, d.base_dilation)
    period = d.base_dilation // common
    inverse = pow(inner_step // common, -1, period) if period > 1 else 0
    first = (-start // common) % period * inverse % period
    low = low + (first - low) % period
    counts = np.where((start % common == 0) & (high >= low), (high - low) // period + 1, 0)
    return int(counts.sum())


# ---- rules


_DIMENSIONS, _CONVOLUTION, _DOT, _FFT_LENGTH, _BACKEND_CONFIG = 14, 16, 30, 32, 43
_REPLICA_GROUPS, _FEATURE_GROUPS, _BATCH_GROUPS = 49, 50, 58
CUBLAS_LT = ("__cublas$lt$matmul", "__cublas$lt$matmul$f8")
_CUDNN_CONVOLUTION = "__cudnn$conv"


class Costs(Protocol):
    """What rules need of the cost model."""

    module: HloModule
    effort: Effort
    counting: Counting

    def valid_positions(self, window: WindowDimension) -> int:
        """LookupError: too many windows are too large."""
        ...

    def of_computation(self, computation: int) -> Work:
        """Return the sum of its instructions, once each. LookupError: there is no such computation, or it calls
        itself."""
        ...


@dataclass(frozen=True, slots=True)
class Measuring:
    """An instruction whose ``work`` a rule computes; at first it moves its operands and its output."""

    costs: Costs
    instruction: Instruction
    inputs: Sequence[Shape]
    """Shapes of its operands."""
    work: Work

    @property
    def shape(self) -> Shape:
        return self.instruction.shape

    def called(self, number: int) -> Work:
        """Return the work of one run of a computation that the instruction calls."""
        return self.costs.of_computation(self.instruction.calls[number])


Rule = Callable[[Measuring], None]


def _divide_exactly(part: int, total: int) -> float:
    return part / total if total else 0.0


def _get_first(shape: Shape) -> Shape:
    return shape.elements[0] if shape.is_tuple and shape.elements else shape


# ---- data movement


def _nothing(m: Measuring) -> None:
    m.work.bytes = m.work.output[()] = ZERO
    m.work.operand = dict.fromkeys(m.work.operand, ZERO)


def _transpose(m: Measuring) -> None:
    before, after = m.inputs[0], m.instruction.shape
    if before.element_type != after.element_type or not before.has_layout or not after.has_layout:
        return
    m.costs.effort.spend(len(before.minor_to_major))  # many instructions may transpose one operand
    permutation = m.instruction.fields().integers(_DIMENSIONS)
    if [permutation[d] for d in after.minor_to_major] == list(before.minor_to_major):
        m.work.moves(0, 0, 0)  # all elements stay in place; as in XLA, not if a dimension of size 1 moves


def _tuple(m: Measuring) -> None:
    m.work.moves(m.shape.bytes, m.shape.bytes)
    m.work.operand = dict.fromkeys(m.work.operand, ZERO)


def _slice(m: Measuring) -> None:
    """Count a slice; a dynamic slice and a gather also read indices."""
    size = m.shape.bytes
    indices = [] if m.instruction.opcode == "slice" else [m.inputs[1].bytes]
    m.work.moves(2 * size + sum(indices), size, size, *indices)
    m.work.share[0] = _divide_exactly(m.shape.count, m.inputs[0].count)


def _dynamic_update_slice(m: Measuring) -> None:
    update, index = m.inputs[1], m.inputs[2].bytes
    m.work.moves(2 * update.bytes + index, update.bytes, 0, update.bytes, index)
    m.work.share[0] = _divide_exactly(m.shape.count - update.count, m.shape.count)


def _scatter(m: Measuring) -> None:
    outputs = len(m.inputs) // 2
    total = 0
    for k in range(outputs):
        update = m.inputs[outputs + 1 + k].bytes
        m.work.operand[k, ()] = m.work.operand[outputs + 1 + k, ()] = Float(update)
        total += update
    indices = m.inputs[outputs].bytes
    m.work.operand[outputs, ()] = Float(indices)
    m.work.moves(3 * total + indices, total)
    m.work.flops = m.called(0).flops * Float(m.inputs[outputs + 1].count)


def _concatenate(m: Measuring) -> None:
    dimension = (m.instruction.fields().integers(_DIMENSIONS) or [0])[-1]
    if m.costs.counting.for_gpus:
        is_uneven = dimension > 0 and m.inputs[0].dimensions[dimension] & 31
        m.work.flops = Float((400 if is_uneven else 6) * m.shape.leaf_count)


def _infeed(m: Measuring) -> None:
    m.work.output = {index: Float(leaf.bytes) for index, leaf in m.shape.leaves()}
    m.work.moves(m.shape.leaf_bytes, m.shape.leaf_bytes)


def _outfeed(m: Measuring) -> None:
    m.work.bytes = ZERO
    for k, operand in enumerate(m.inputs):
        m.costs.effort.spend(len(operand.places))
        for index, leaf in operand.places.items():
            m.work.operand[k, index] = Float(leaf.bytes)
        m.work.operand[k, ()] = Float(operand.leaf_bytes)
        m.work.bytes = Float(m.work.bytes + operand.leaf_bytes)


# ---- computation


def _elementwise(m: Measuring) -> None:
    m.work.flops = Float(m.costs.counting.of_element(m.instruction.opcode, m.shape.type_name) * m.shape.leaf_count)


def count_dot_flops(left: Shape, contracting: Sequence[int], output: Shape) -> int:
    """2 x elements of the output x sizes of the dimensions summed over."""
    if any(dimension < 0 for dimension in contracting):
        raise LookupError("a dot has a dimension less than 0")
    return 2 * output.count * multiply_sizes([left.dimensions[dimension] for dimension in contracting])


def _dot(m: Measuring) -> None:
    contracting = m.instruction.fields().message(_DOT).integers(1)
    m.work.flops = Float(count_dot_flops(m.inputs[0], contracting, m.shape))


def _convolution(m: Measuring) -> None:
    m.work.flops = _count_convolution_flops(m, m.shape)


def _count_convolution_flops(m: Measuring, output: Shape) -> Float:
    """2 x input features x output features x batch x valid positions of each spatial dimension, by groups. LookupError:
    the module is damaged; CaptureError: it does not decode."""
    data, kernel, fields = m.inputs[0], m.inputs[1], m.instruction.fields()
    numbers, window = fields.message(_CONVOLUTION), fields.message(_WINDOW).messages(1)
    kernel_spatial, input_spatial, output_spatial = (numbers.integers(field) for field in (6, 11, 12))
    windows = [
        WindowDimension(
            kernel=_get_size(kernel, kernel_spatial[place]),
            output=_get_size(output, output_spatial[place]),
            input=_get_size(data, input_spatial[place]),
            stride=dimension.integer(2) or 1,
            padding_low=dimension.integer(3),
            padding_high=dimension.integer(4),
            window_dilation=dimension.integer(5) or 1,
            base_dilation=dimension.integer(6) or 1,
        )
        for place, dimension in enumerate(window)
    ]
    features = _get_size(data, numbers.integer(8)) // (fields.integer(_FEATURE_GROUPS) or 1)
    batch = _get_size(data, numbers.integer(7)) // (fields.integer(_BATCH_GROUPS) or 1)
    positions = multiply_sizes([1, *map(m.costs.valid_positions, windows)])
    return Float(2 * features * _get_size(output, numbers.integer(10)) * batch * positions)


def _get_size(shape: Shape, dimension: int) -> int:
    if dimension < 0:
        raise LookupError("a convolution has a dimension less than 0")
    return shape.dimensions[dimension]


def _fft(m: Measuring) -> None:
    lengths = m.instruction.fields().integers(_FFT_LENGTH)
    factor = multiply_sizes([max(length.bit_length() - 1, 0) for length in lengths])
    m.work.flops = Float(8 * factor * m.inputs[0].count)


def _cholesky(m: Measuring) -> None:
    matrix = m.inputs[0]
    half = matrix.bytes / 2
    m.work.moves(half + half, half, half)
    m.work.flops = Float(matrix.dimensions[-1] * matrix.count // 3)


def _triangular_solve(m: Measuring) -> None:
    matrix, right = m.inputs[0], m.inputs[1]
    m.work.moves(m.shape.bytes + matrix.bytes / 2 + right.bytes, m.shape.bytes, right.bytes)
    m.work.flops = Float(2 * matrix.dimensions[-1] * right.count)


def _sort(m: Measuring) -> None:
    count = m.inputs[0].count
    m.work.flops = Float(count * max(0, (count - 1).bit_length()))


def _map(m: Measuring) -> None:
    m.work.flops = m.called(0).flops * Float(m.shape.count)


def _reduce(m: Measuring) -> None:
    outputs = _get_first(m.shape).count
    m.work.flops = m.called(0).flops * Float(m.inputs[0].count - outputs)
    inputs = len(m.inputs) // 2
    for k in range(inputs, 2 * inputs):
        initial = m.inputs[k].bytes * outputs
        m.work.bytes = Float(m.work.bytes - m.work.operand[k, ()] + initial)
        m.work.operand[k, ()] = Float(initial)
        m.work.share[k] = float(outputs)


def _reduce_window(m: Measuring) -> None:
    window = m.instruction.fields().message(_WINDOW).messages(1)
    sizes = [dimension.integer(1) for dimension in window]
    output = _get_first(m.shape).count
    count = (multiply_sizes(sizes) - 1) * output
    cumulative = None if m.shape.is_tuple else _find_cumulative_size(m.shape, window, sizes)
    if cumulative:
        count = output // cumulative + cumulative - 1
    m.work.flops = m.called(0).flops * Float(count)


def _find_cumulative_size(shape: Shape, window: Sequence[Message], sizes: Sequence[int]) -> int | None:
    """Return the size of the dimension that the window of a cumulative sum runs along; None if another window."""
    padded = [(dimension.integer(3), dimension.integer(4)) for dimension in window]
    if sum(size != 1 for size in sizes) != 1 or sum(low != 0 or high != 0 for low, high in padded) != 1:
        return None
    for place, (size, (low, high)) in enumerate(zip(sizes, padded, strict=True)):
        if size != 1 and low and low == high and size == 2 * low + 1 and low == shape.dimensions[place] - 1:
            return shape.dimensions[place]
    return None


def _select_and_scatter(m: Measuring) -> None:
    sizes = [dimension.integer(1) for dimension in m.instruction.fields().message(_WINDOW).messages(1)]
    source = m.inputs[1].count
    select = m.called(0).flops * Float(source * (multiply_sizes(sizes) - 1))
    m.work.flops = Float(select + m.called(1).flops * Float(source))


# ---- collectives


def _count_reducer_operations(costs: Costs, instruction: Instruction) -> int:
    is_known = instruction.calls and instruction.calls[0] >= 0
    opcode = costs.module.root_of(instruction.calls[0]).opcode if is_known else ""
    return costs.counting.of_element(opcode, instruction.shape.type_name)


def _all_reduce(m: Measuring) -> None:
    output = m.shape.leaf_bytes
    inputs = sum(operand.bytes for operand in m.inputs) if m.instruction.opcode == "all-reduce" else 0
    m.work.moves(output + inputs, output)
    m.work.flops = Float(_count_reducer_operations(m.costs, m.instruction) * m.shape.leaf_count)


def _scale_by_ranks(m: Measuring) -> None:
    """Count an all-gather or reduce-scatter: each rank's part is written by every other rank and read by all."""
    groups = m.instruction.fields().messages(_REPLICA_GROUPS)
    ranks = max([len(group.integers(1)) for group in groups], default=1) or 1
    if m.instruction.opcode == "reduce-scatter":
        part = m.shape.leaf_bytes
        m.work.flops = Float(_count_reducer_operations(m.costs, m.instruction) * m.shape.leaf_count)
    else:
        gathered = m.shape.elements[1] if m.instruction.opcode == "all-gather-start" else m.shape
        part = gathered.leaf_bytes // ranks
    m.work.bytes = Float(part * (2 * ranks - 1) + part * ranks)


# ---- calls


def _while(m: Measuring) -> None:
    """Count body and condition once each: how often they run is unknown."""
    both = Work()
    for number in (0, 1):
        m.costs.effort.spend(len(m.called(number)))
        both.add(m.called(number))
    m.work.becomes(both)


def _conditional(m: Measuring) -> None:
    if not m.instruction.calls:
        raise LookupError("a conditional has no branches")
    branches = [m.costs.of_computation(computation) for computation in dict.fromkeys(m.instruction.calls)]
    m.costs.effort.spend(sum(map(len, branches)))
    m.work.becomes(find_largest_work(branches))


def _custom_call(m: Measuring) -> None:
    """Count matrix products and convolutions of libraries; the work of others is unknown."""
    target, output = m.instruction.custom_call_target, _get_first(m.shape)
    if target in CUBLAS_LT:
        m.work.flops = Float(count_dot_flops(m.inputs[0], find_gemm_contracting(m.instruction), output))
    elif target.startswith(_CUDNN_CONVOLUTION):
        m.work.flops = _count_convolution_flops(m, output)
    else:
        m.work.flops = m.work.bytes = m.work.output[()] = UNKNOWN
        m.work.is_known = False
        m.work.operand = dict.fromkeys(m.work.operand, UNKNOWN)
        return
    if m.shape.is_tuple:  # scratch space follows the first element
        m.work.bytes = Float(Float(m.work.bytes - m.work.output[()]) + output.bytes)
        m.work.output[()] = Float(output.bytes)


def find_gemm_contracting(instruction: Instruction) -> list[int]:
    """Contracted dimensions in the backend's configuration. ValueError, LookupError: it is damaged."""
    try:
        config = json.loads(bytes(instruction.fields().data(_BACKEND_CONFIG)))
    except RecursionError as error:
        raise ValueError("the configuration of a matrix product is nested too deep") from error
    if not isinstance(config, dict):
        raise ValueError("the configuration of a matrix product is not a JSON object")
    gemm = config.get("gemm_backend_config", config)
    numbers = gemm.get("dot_dimension_numbers") if isinstance(gemm, dict) else None
    dimensions = numbers.get("lhs_contracting_dimensions", []) if isinstance(numbers, dict) else None
    if not isinstance(dimensions, list) or not all(isinstance(dimension, int | str) for dimension in dimensions):
        raise ValueError("the configuration of a matrix product has no dimension numbers")
    return [int(dimension) for dimension in dimensions]


RULES: dict[str, Rule] = {
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    **dict.fromkeys(("parameter", "constant", "domain", "after-all", "add-dependency"), _nothing),
    **dict.fromkeys(("get-tuple-element", "bitcast"), lambda m: m.work.moves(0, 0, 0)),
    **dict.fromkeys(("slice", "dynamic-slice", "gather"), _slice),
    **dict.fromkeys(("all-reduce", "all-reduce-start"), _all_reduce),
    **dict.fromkeys(("all-gather", "all-gather-start", "reduce-scatter"), _scale_by_ranks),
    "async-start": lambda m: m.work.becomes(Work()),
    "call": lambda m: m.work.becomes(m.called(0)),
    "cholesky": _cholesky,
    "concatenate": _concatenate,
    "conditional": _conditional,
    "convolution": _convolution,
    "custom-call": _custom_call,
    "dot": _dot,
    "dynamic-update-slice": _dynamic_update_slice,
    "fft": _fft,
    "infeed": _infeed,
    "map": _map,
    "outfeed": _outfeed,
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "scatter": _scatter,
    "select-and-scatter": _select_and_scatter,
    "sort": _sort,
    "transpose": _transpose,
    "triangular-solve": _triangular_solve,
    "tuple": _tuple,
    "while": _while,
}
"""Rules by opcode; fusions are in cost.py."""
RULES.pop("copy")  # elementwise by category, but it only moves data
