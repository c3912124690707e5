"""Kernels that compute element by element, launched op by op, and what fusing neighbours may save.

Kernels of PyTorch are known by their templates, those of TensorFlow by the types of their ops, those of JAX by the
names of their programs: outside of ``jax.jit`` each op is a program of its own. What XLA, Inductor or Triton compiled
has other names and is fused already.

    stream  |copy|pow|mean|rsqrt|mul| |gemm| |silu|mul| |gemm| |add| |gemm|
    may go   copy+pow +    rsqrt+mul          mul                           of silu and mul the longer one may go

Neighbours on a stream, with reductions among them, are a run. Fused, it takes at least as long as its reductions, or if
it has none as its shortest kernel: the rest is an upper bound of what fusion saves. A kernel with no such neighbour
stays. Whether neighbours work on the same arrays is not recorded.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from fastprof.schema.columns import Int64s, find_least_by, sum_by
from fastprof.wording.patterns import compile_late

KINDS: Final = (None, "elementwise", "reduction", None)
OTHER, ELEMENTWISE, REDUCTION, UNKNOWN = range(len(KINDS))
"""UNKNOWN: neither an op nor a program is recorded, and only kernels of PyTorch say it by their names."""

_TORCH: Final = compile_late(
    r"\A(?>.*?at::native).*?\b(?:(?:vectorized_|unrolled_|vectorized_templated_)?elementwise_kernel(?:_with_index)?"
    r"|distribution_elementwise_grid_stride_kernel|CatArrayBatchedCopy\w*)\s*<"
    r"|^void \(anonymous namespace\)::elementwise_kernel_with_index<"
)
_TORCH_REDUCES: Final = compile_late(
    r"\A(?>.*?at::native).*?\b(?:reduce_kernel|(?=\w*(?:softmax|layer_norm))\w++)\s*<", re.IGNORECASE
)
"""The first place and each word are tried once, so that time grows with the length of a name."""
_OWN_KERNELS: Final = "aten::"
"""Ops of PyTorch itself: compilers know no others."""

_TYPES: Final = compile_late(
    "Abs|Add(?:N|V2)?|BiasAdd|Cast|ClipByValue|Concat(?:V2)?|Cos|Div|Erf|Exp|Expm1|Fill|Floor|Inv|Log|Log1p|Maximum"
    "|Minimum|Mul|Neg|OnesLike|Pow|RealDiv|Reciprocal|Round|Select(?:V2)?|Sign|Sin|Softsign|Square|SquaredDifference"
    "|Sub|Tile|ZerosLike|(?:Not)?Equal|(?:Greater|Less)(?:Equal)?|Logical(?:And|Not|Or)"
    "|(?:Elu|LeakyRelu|Relu6?|Rsqrt|Selu|Sigmoid|Softplus|Sqrt|Tanh)(?:Grad)?"
)
_REDUCING_TYPES: Final = compile_late("All|Any|BiasAddGrad|LogSoftmax|Max|Mean|Min|Prod|Softmax|Sum")
_PROGRAMS: Final = compile_late(
    r"jit__?(?:abs|absolute|add|astype|broadcast_in_dim|clip|concatenate|convert_element_type|cos|div|divide|equal|erf|"
    r"exp|expm1|floor|floor_divide|gelu|greater|greater_equal|integer_pow|less|less_equal|log|log1p|logical_and|"
    r"logical_not|logical_or|logistic|max|maximum|min|minimum|mul|multiply|ne|neg|negative|not_equal|pow|power|relu|"
    r"round|rsqrt|select_n|sigmoid|sign|silu|sin|sqrt|square|sub|subtract|tanh|true_divide|where)"
)
_REDUCING_PROGRAMS: Final = compile_late(
    r"jit__?(?:reduce_(?:sum|max|min|prod)|sum|mean|var|std|prod|amax|amin|softmax|log_softmax|logsumexp)"
)
"""Named after functions of jax.numpy, jax.nn and jax.lax."""


def classify_kernel(kernel: str, op: str, op_type: str, program: str) -> int:
    """The place in KINDS of a kernel. ``op``, ``op_type``: of the framework; ``program``: that XLA compiled; "":
    unknown."""
    if program:
        return _choose_kind(_PROGRAMS.fullmatch(program), _REDUCING_PROGRAMS.fullmatch(program))
    if op_type:
        return _choose_kind(_TYPES.fullmatch(op_type), _REDUCING_TYPES.fullmatch(op_type))
    if op and not op.startswith(_OWN_KERNELS):
        return OTHER
    return _choose_kind(_TORCH.search(kernel), _TORCH_REDUCES.search(kernel))


def _choose_kind(elementwise: object, reduces: object) -> int:
    return ELEMENTWISE if elementwise else REDUCTION if reduces else OTHER


def estimate_fusible_time(kind: Int64s, duration_ps: Int64s, line: Int64s) -> Int64s:
    """By kernel, how much of its time fusing its run may save. The kernels are line by line, in order of time."""
    belongs = (kind == ELEMENTWISE) | (kind == REDUCTION)
    apart = np.append(True, (line[1:] != line[:-1]) | ~belongs[1:] | ~belongs[:-1])[: len(kind)]
    run = np.cumsum(apart) - 1
    count = int(run[-1]) + 1 if len(run) else 0
    may_go = np.where(kind == ELEMENTWISE, duration_ps, 0)
    reduces = sum_by(run, (kind == REDUCTION).astype(np.int64), count) > 0
    stays = np.flatnonzero((kind == ELEMENTWISE) & ~reduces[run])
    shortest = find_least_by(run[stays], duration_ps[stays], count)
    rows = stays[duration_ps[stays] == shortest[run[stays]]][::-1]
    first = np.full(count, -1, np.int64)
    first[run[rows]] = rows  # of equal ones the first is written last
    may_go[first[first >= 0]] = 0
    return may_go
