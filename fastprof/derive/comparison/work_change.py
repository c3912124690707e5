"""Changes of the work per step: batches by op shapes, or by op arithmetic; ops that all take longer by one factor."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from fastprof.derive.comparison.part_matching import Pair
from fastprof.derive.comparison.program_parts import RunProgram
from fastprof.derive.comparison.step_parts import OP

_LEAST_SHARE: Final = 0.5
"""Least share of the time of matched ops whose shapes or arithmetic grow by one factor."""
_TOLERANCE: Final = 0.01
_LEAST_OPS, _NEARLY_ALL = 4, 0.9
"""Least ops, and least share of their time, that change by one factor if a device has another clock."""


def find_batch_change(
    pairs: Sequence[Pair], base: Sequence[RunProgram] = (), new: Sequence[RunProgram] = ()
) -> tuple[float, float] | None:
    """Return the batches of both runs if they differ: sizes of the dimension that changes, 1 and the factor if only
    arithmetic is known; None if nothing shows that they differ. ``base``, ``new``: programs of the runs. Equal programs
    have one batch, and arithmetic says nothing if they have equal arguments: a step may just run them more often."""
    programs = [sorted(sorted(program.signature.items()) for program in of_run) for of_run in (base, new)]
    if programs[0] and programs[0] == programs[1]:
        return None
    arguments = [[atom for listed in of_run for atom in listed if atom[0][0] in _ARGUMENTS] for of_run in programs]
    have_equal_arguments = bool(arguments[0]) and sorted(arguments[0]) == sorted(arguments[1])
    return _find_shape_change(pairs) or (None if have_equal_arguments else _find_flops_change(pairs))


_ARGUMENTS: Final = frozenset(("parameter", "infeed"))
"""Opcodes whose shapes are those of the input."""


def _find_shape_change(pairs: Sequence[Pair]) -> tuple[float, float] | None:
    """Return the smallest sizes of the dimension that changes by the factor that most ops share."""
    weights: dict[Fraction, float] = defaultdict(float)
    sizes: dict[Fraction, tuple[int, int]] = {}
    total = 0.0
    for pair in pairs:
        if pair.kind != OP or not pair.base or not pair.new or not pair.base[0].shape or not pair.new[0].shape:
            continue
        total += pair.new_ps
        dimension = _compare_shapes(pair.base[0].shape, pair.new[0].shape)
        if dimension is not None:
            factor = Fraction(dimension[1], dimension[0])
            weights[factor] += pair.new_ps
            sizes[factor] = min(sizes.get(factor, dimension), dimension)
    if not weights:
        return None
    factor = max(weights, key=weights.__getitem__)
    return sizes[factor] if weights[factor] >= total * _LEAST_SHARE else None


def _compare_shapes(base: str, new: str) -> tuple[int, int] | None:
    """Return the sizes of the only dimension in which two arrays of one type differ, or None."""
    first, second = _read_dimensions(base), _read_dimensions(new)
    if first is None or second is None or first[0] != second[0] or len(first[1]) != len(second[1]):
        return None
    different = [pair for pair in zip(first[1], second[1], strict=True) if pair[0] != pair[1]]
    return different[0] if len(different) == 1 and all(different[0]) else None


_ARRAY: Final = re.compile(r"([a-z][a-z0-9]{0,15})\[(\d{1,12}(?:,\d{1,12}){0,15})\]")
_MOST: Final = 200
"""Characters of a shape that are looked at."""


def _read_dimensions(shape: str) -> tuple[str, list[int]] | None:
    array = _ARRAY.search(shape, 0, _MOST)
    return None if array is None else (array[1], [int(size) for size in array[2].split(",")])


def _find_flops_change(pairs: Sequence[Pair]) -> tuple[float, float] | None:
    """Return 1 and the factor by which the arithmetic of most ops grows; ops of equal shapes count as unchanged."""
    ratios: list[tuple[float, float]] = []
    for pair in pairs:
        known = [[part.flops for part in parts if part.flops is not None] for parts in (pair.base, pair.new)]
        first, second = map(sum, known)
        if pair.kind == OP and first and second and len(known[0] + known[1]) == len(pair.base + pair.new):
            shapes = [sorted({part.shape for part in parts}) for parts in (pair.base, pair.new)]
            is_alike = shapes[0] == shapes[1] and all(shapes[0])
            ratios.append((1.0 if is_alike else second / first, pair.new_ps))
    total = sum(weight for _, weight in ratios)
    if not total:
        return None
    middle = _find_weighted_median(ratios, total)
    near = sum(weight for ratio, weight in ratios if abs(ratio / middle - 1) < _TOLERANCE)
    return (1.0, round(middle, 4)) if abs(middle - 1) > _TOLERANCE and near >= total * _LEAST_SHARE else None


def find_common_factor(pairs: Sequence[Pair]) -> float | None:
    """Return the factor by which the time of nearly all ops changes alike, as with another clock, or None."""
    ratios = [
        (pair.new_ps / pair.base_ps, pair.base_ps) for pair in pairs if pair.kind == OP and pair.base_ps and pair.new
    ]
    total = sum(weight for _, weight in ratios)
    of_ops = sum(pair.change_ps for pair in pairs if pair.kind == OP)
    if len(ratios) < _LEAST_OPS or abs(of_ops) < _LEAST_SHARE * abs(sum(pair.change_ps for pair in pairs)):
        return None
    middle = _find_weighted_median(ratios, total)
    near = sum(weight for ratio, weight in ratios if abs(ratio / middle - 1) < _TOLERANCE)
    return middle if abs(middle - 1) > 2 * _TOLERANCE and near >= total * _NEARLY_ALL else None


def _find_weighted_median(values: Sequence[tuple[float, float]], total: float) -> float:
    passed = 0.0
    for value, weight in sorted(values):
        passed += weight
        if passed >= total / 2:
            return value
    return sorted(values)[-1][0]
