"""The work of each kind of instruction. Others move their operands and their output, and compute nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from fastprof.hlo.category import ELEMENTWISE
from fastprof.hlo.convolution import WindowDimension, convolution_flops
from fastprof.hlo.counting import Counting
from fastprof.hlo.message import Message
from fastprof.hlo.module import HloModule, Instruction
from fastprof.hlo.shapes import Shape, product
from fastprof.hlo.work import UNKNOWN, ZERO, Effort, Float, Work, largest

_DIMENSIONS, _WINDOW, _DOT, _FFT_LENGTH, _BACKEND_CONFIG, _REPLICA_GROUPS = 14, 15, 30, 32, 43, 49
CUBLAS_LT = ("__cublas$lt$matmul", "__cublas$lt$matmul$f8")
_CUDNN_CONVOLUTION = "__cudnn$conv"


class Costs(Protocol):
    """What rules need of the cost model."""

    module: HloModule
    effort: Effort
    counting: Counting

    def valid_positions(self, window: WindowDimension) -> int:
        """See convolution.py. LookupError: too many windows are too large."""
        ...

    def of_computation(self, computation: int) -> Work:
        """The sum of its instructions, once each. LookupError: there is no such computation, or it calls itself."""
        ...


@dataclass(frozen=True, slots=True)
class Measuring:
    """An instruction whose ``work`` a rule computes; at first it moves its operands and its output."""

    costs: Costs
    one: Instruction
    inputs: Sequence[Shape]
    """Shapes of its operands."""
    work: Work

    @property
    def shape(self) -> Shape:
        return self.one.shape

    def called(self, number: int) -> Work:
        """The work of one run of a computation that the instruction calls."""
        return self.costs.of_computation(self.one.calls[number])

    def flops_of_convolution(self, output: Shape) -> Float:
        return Float(convolution_flops(self.one, self.inputs[0], self.inputs[1], output, self.costs.valid_positions))


Rule = Callable[[Measuring], None]


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _first(shape: Shape) -> Shape:
    return shape.elements[0] if shape.is_tuple and shape.elements else shape


# ---- data movement


def _nothing(m: Measuring) -> None:
    m.work.bytes = m.work.output[()] = ZERO


def _ordering(m: Measuring) -> None:
    m.work.bytes = m.work.output[()] = ZERO
    m.work.operand = dict.fromkeys(m.work.operand, ZERO)


def _transpose(m: Measuring) -> None:
    if _keeps_order(m.costs, m.one, m.inputs[0]):
        m.work.moves(0, 0, op0=0)


def _keeps_order(costs: Costs, one: Instruction, before: Shape) -> bool:
    """Whether a transpose leaves all elements in place. As in XLA, not where it moves a dimension of size 1."""
    after = one.shape
    if before.element_type != after.element_type or not before.has_layout or not after.has_layout:
        return False
    costs.effort.spend(len(before.minor_to_major))  # many instructions may transpose one operand
    permutation = one.fields().integers(_DIMENSIONS)
    return [permutation[d] for d in after.minor_to_major] == list(before.minor_to_major)


def _tuple(m: Measuring) -> None:
    m.work.moves(m.shape.bytes, m.shape.bytes)
    m.work.operand = dict.fromkeys(m.work.operand, ZERO)


def _slice(m: Measuring) -> None:
    m.work.moves(2 * m.shape.bytes, m.shape.bytes, op0=m.shape.bytes)
    m.work.share[0] = _ratio(m.shape.count, m.inputs[0].count)


def _indexed(m: Measuring) -> None:
    """A dynamic slice or a gather."""
    size, indices = m.shape.bytes, m.inputs[1].bytes
    m.work.moves(2 * size + indices, size, op0=size, op1=indices)
    m.work.share[0] = _ratio(m.shape.count, m.inputs[0].count)


def _dynamic_update_slice(m: Measuring) -> None:
    update, index = m.inputs[1], m.inputs[2].bytes
    m.work.moves(2 * update.bytes + index, update.bytes, op0=0, op1=update.bytes, op2=index)
    m.work.share[0] = _ratio(m.shape.count - update.count, m.shape.count)


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
    dimension = (m.one.fields().integers(_DIMENSIONS) or [0])[-1]
    even, uneven = m.costs.counting.concatenated
    is_uneven = even != uneven and dimension > 0 and m.inputs[0].dimensions[dimension] & 31
    m.work.flops = Float((uneven if is_uneven else even) * m.shape.leaf_count)


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
    m.work.flops = Float(m.costs.counting.of_element(m.one.opcode, m.shape.type_name) * m.shape.leaf_count)


def dot_flops(left: Shape, contracting: Sequence[int], output: Shape) -> int:
    """2 x elements of the output x sizes of the dimensions summed over."""
    if any(dimension < 0 for dimension in contracting):
        raise LookupError("a dot has a dimension less than 0")
    return 2 * output.count * product([left.dimensions[dimension] for dimension in contracting])


def _dot(m: Measuring) -> None:
    contracting = m.one.fields().message(_DOT).integers(1)
    m.work.flops = Float(dot_flops(m.inputs[0], contracting, m.shape))


def _convolution(m: Measuring) -> None:
    m.work.flops = m.flops_of_convolution(m.shape)


def _fft(m: Measuring) -> None:
    factor = product([max(length.bit_length() - 1, 0) for length in m.one.fields().integers(_FFT_LENGTH)])
    m.work.flops = Float(8 * factor * m.inputs[0].count)


def _cholesky(m: Measuring) -> None:
    matrix = m.inputs[0]
    half = matrix.bytes / 2
    m.work.moves(half + half, half, op0=half)
    m.work.flops = Float(matrix.dimensions[-1] * matrix.count // 3)


def _triangular_solve(m: Measuring) -> None:
    matrix, right = m.inputs[0], m.inputs[1]
    m.work.moves(m.shape.bytes + matrix.bytes / 2 + right.bytes, m.shape.bytes, op0=right.bytes)
    m.work.flops = Float(2 * matrix.dimensions[-1] * right.count)


def _sort(m: Measuring) -> None:
    count = m.inputs[0].count
    m.work.flops = Float(count * max(0, (count - 1).bit_length()))


def _map(m: Measuring) -> None:
    m.work.flops = m.called(0).flops * Float(m.shape.count)


def _reduce(m: Measuring) -> None:
    kept = _first(m.shape).count
    m.work.flops = m.called(0).flops * Float(m.inputs[0].count - kept)
    inputs = len(m.inputs) // 2
    for k in range(inputs, 2 * inputs):
        initial = m.inputs[k].bytes * kept
        m.work.bytes = Float(m.work.bytes - m.work.operand[k, ()] + initial)
        m.work.operand[k, ()] = Float(initial)
        m.work.share[k] = float(kept)


def _reduce_window(m: Measuring) -> None:
    window = m.one.fields().message(_WINDOW).messages(1)
    sizes = [dimension.integer(1) for dimension in window]
    output = _first(m.shape).count
    count = (product(sizes) - 1) * output
    cumulative = None if m.shape.is_tuple else _cumulative_size(m.shape, window, sizes)
    if cumulative:
        count = output // cumulative + cumulative - 1
    m.work.flops = m.called(0).flops * Float(count)


def _cumulative_size(shape: Shape, window: Sequence[Message], sizes: Sequence[int]) -> int | None:
    """The size of the dimension that the window of a cumulative sum runs along; None: another window."""
    padded = [(dimension.integer(3), dimension.integer(4)) for dimension in window]
    if sum(size != 1 for size in sizes) != 1 or sum(low != 0 or high != 0 for low, high in padded) != 1:
        return None
    for place, (size, (low, high)) in enumerate(zip(sizes, padded, strict=True)):
        if size != 1 and low and low == high and size == 2 * low + 1 and low == shape.dimensions[place] - 1:
            return shape.dimensions[place]
    return None


def _select_and_scatter(m: Measuring) -> None:
    sizes = [dimension.integer(1) for dimension in m.one.fields().message(_WINDOW).messages(1)]
    source = m.inputs[1].count
    select = m.called(0).flops * Float(source * (product(sizes) - 1))
    m.work.flops = Float(select + m.called(1).flops * Float(source))


# ---- collectives


def _reducer_operations(costs: Costs, one: Instruction) -> int:
    if not one.calls or one.calls[0] < 0:
        return costs.counting.reducer
    return costs.counting.of_element(costs.module.root_of(one.calls[0]).opcode, one.shape.type_name)


def _all_reduce(m: Measuring) -> None:
    output = m.shape.leaf_bytes
    inputs = sum(operand.bytes for operand in m.inputs) if m.one.opcode == "all-reduce" else 0
    m.work.moves(output + inputs, output)
    m.work.flops = Float(_reducer_operations(m.costs, m.one) * m.shape.leaf_count)


def _by_ranks(m: Measuring) -> None:
    """All-gather and reduce-scatter: each rank's part is written by every other rank and read by all."""
    groups = m.one.fields().messages(_REPLICA_GROUPS)
    ranks = max([len(group.integers(1)) for group in groups], default=1) or 1
    if m.one.opcode == "reduce-scatter":
        part = m.shape.leaf_bytes
        m.work.flops = Float(_reducer_operations(m.costs, m.one) * m.shape.leaf_count)
    else:
        gathered = m.shape.elements[1] if m.one.opcode == "all-gather-start" else m.shape
        part = gathered.leaf_bytes // ranks
    m.work.bytes = Float(part * (2 * ranks - 1) + part * ranks)


# ---- calls


def _while(m: Measuring) -> None:
    """The body and the condition once each: how often they run is unknown."""
    both = Work()
    for number in (0, 1):
        m.costs.effort.spend(len(m.called(number)))
        both.add(m.called(number))
    m.work.becomes(both)


def _conditional(m: Measuring) -> None:
    if not m.one.calls:
        raise LookupError("a conditional has no branches")
    branches = [m.costs.of_computation(computation) for computation in dict.fromkeys(m.one.calls)]
    m.costs.effort.spend(sum(map(len, branches)))
    m.work.becomes(largest(branches))


def _custom_call(m: Measuring) -> None:
    """Matrix products and convolutions of libraries; the work of others is unknown."""
    target, output = m.one.custom_call_target, _first(m.shape)
    if target in CUBLAS_LT:
        m.work.flops = Float(dot_flops(m.inputs[0], gemm_contracting(m.one), output))
    elif target.startswith(_CUDNN_CONVOLUTION):
        m.work.flops = m.flops_of_convolution(output)
    else:
        m.work.flops = m.work.bytes = m.work.output[()] = UNKNOWN
        m.work.is_known = False
        m.work.operand = dict.fromkeys(m.work.operand, UNKNOWN)
        return
    if m.shape.is_tuple:  # scratch space follows the first element
        m.work.bytes = Float(Float(m.work.bytes - m.work.output[()]) + output.bytes)
        m.work.output[()] = Float(output.bytes)


def gemm_contracting(one: Instruction) -> list[int]:
    """Contracted dimensions in the backend's configuration. ValueError, LookupError: it is damaged."""
    try:
        config = json.loads(bytes(one.fields().data(_BACKEND_CONFIG)))
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
    **dict.fromkeys(("parameter", "constant"), _nothing),
    **dict.fromkeys(("domain", "after-all", "add-dependency"), _ordering),
    **dict.fromkeys(("get-tuple-element", "bitcast"), lambda m: m.work.moves(0, 0, op0=0)),
    **dict.fromkeys(("dynamic-slice", "gather"), _indexed),
    **dict.fromkeys(("all-reduce", "all-reduce-start"), _all_reduce),
    **dict.fromkeys(("all-gather", "all-gather-start", "reduce-scatter"), _by_ranks),
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
    "slice": _slice,
    "sort": _sort,
    "transpose": _transpose,
    "triangular-solve": _triangular_solve,
    "tuple": _tuple,
    "while": _while,
}
"""By opcode; fusions are in fusion.py."""
RULES.pop("copy")  # elementwise by category, but it only moves data
