"""Floating-point operations of a convolution: multiplications and additions of input elements, not of padding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd

import numpy as np

from fastprof.hlo.module import Instruction
from fastprof.hlo.shapes import Shape, product

_WINDOW, _NUMBERS, _FEATURE_GROUPS, _BATCH_GROUPS = 15, 16, 50, 58
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


def valid_positions(d: WindowDimension) -> int:
    """The number of pairs of kernel and output positions that meet an element of the input. Two shapes of gradients are
    counted as by XLA's shortcuts for them."""
    plain = d.window_dilation == 1 and d.padding_low == 0 and d.padding_high == 0
    if d.input == d.output == d.kernel == d.base_dilation and plain and d.stride == max(1, d.input - 1):
        return d.input
    steps = (d.window_dilation, d.base_dilation, d.stride)
    if d.input == 1 and d.kernel == d.output and steps == (1, 1, 1) and d.padding_low == d.padding_high == d.output - 1:
        return d.output
    return _counted(d)


def _counted(d: WindowDimension) -> int:
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


def convolution_flops(
    instruction: Instruction,
    data: Shape,
    kernel: Shape,
    output: Shape,
    positions_of: Callable[[WindowDimension], int] = valid_positions,
) -> int:
    """2 x input features x output features x batch x valid positions of each spatial dimension, by groups. LookupError:
    the module is damaged; CaptureError: it does not decode."""
    fields = instruction.fields()
    numbers, window = fields.message(_NUMBERS), fields.message(_WINDOW).messages(1)
    kernel_spatial, input_spatial, output_spatial = (numbers.integers(field) for field in (6, 11, 12))
    positions = [1]
    for place, one in enumerate(window):
        positions.append(
            positions_of(
                WindowDimension(
                    kernel=_size(kernel, kernel_spatial[place]),
                    output=_size(output, output_spatial[place]),
                    input=_size(data, input_spatial[place]),
                    stride=one.integer(2) or 1,
                    padding_low=one.integer(3),
                    padding_high=one.integer(4),
                    window_dilation=one.integer(5) or 1,
                    base_dilation=one.integer(6) or 1,
                )
            )
        )
    features = _size(data, numbers.integer(8)) // (fields.integer(_FEATURE_GROUPS) or 1)
    batch = _size(data, numbers.integer(7)) // (fields.integer(_BATCH_GROUPS) or 1)
    return 2 * features * _size(output, numbers.integer(10)) * batch * product(positions)


def _size(shape: Shape, dimension: int) -> int:
    if dimension < 0:
        raise LookupError("a convolution has a dimension less than 0")
    return shape.dimensions[dimension]
