"""Findings on time in which a device computes: what ops lose for padding, few warps, types, layouts and memory traffic.

The time that an op takes beyond its roofline has one cause: the first of those below that the capture shows. What is
known of kernels belongs to the op of the same name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from fastprof.analyses.findings.advice import OLD_KERNELS, ON_AMD, WITHOUT_TF32
from fastprof.analyses.findings.facts import Facts, numbers, times
from fastprof.analyses.findings.finding import CERTAIN, LIKELY, POSSIBLE, Finding
from fastprof.derive.devices.tensor_cores import AMD, NVIDIA, SINCE_TF32, lack_tf32, multiplies, units_of
from fastprof.derive.ops.kernel_names import plain
from fastprof.schema.array_types import Bools, Float64s, Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import pattern_of

PADDED_SHARE: Final = 0.1
"""Less padding is what tiles of any size cost."""
FEW_WARPS_PERCENT: Final = 30.0
"""Kernels of a lower occupancy hide little of the latency of memory, unless they run on Tensor Cores."""
NEAR_ROOFLINE_PERCENT: Final = 60.0
"""Percent of the roofline from which an op is bound by the resource that is nearest to its peak."""
AT_ROOFLINE_PERCENT: Final = 80.0
"""Percent of the roofline from which an op gains nothing, unless it can be fused with others."""
ALONE: Final = 0.1
"""Other ops that memory bounds take less than this share of the op's time."""
FAR_FROM_ROOFLINE_PERCENT: Final = 50.0

_SINGLE: Final = pattern_of(r"(?:^|[_\W])[sdcz]gemm|ffma|dcudnn|simt|f32f32_f32f32|s[ck]udnn", re.IGNORECASE)
"""Names of library kernels that multiply in 32 or 64 bits, without Tensor Cores."""
_OF_FLOATS: Final = pattern_of(r"^(?!.*(?:half|bfloat|bf16|fp16|int8)).*<(?:[^<>]*, )?(?:float|double)\b")
"""The same, by the types of templates: cuDNN's kernels of backward passes have no other sign."""
_CONVOLVES: Final = pattern_of(r"conv(?!ert)|cudnn|miopen|implicit_gemm", re.IGNORECASE)
_TRANSPOSES: Final = pattern_of(r"transpose|nchwtonhwc|nhwctonchw|SwapDimension1And2", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Ops:
    """The ops of devices, a row each, then kernels of no such op. ``lost_ps``: time beyond the roofline, -1: unknown;
    ``kernel``: name of the op's kernel, if a GPU ran one of the op's name; ``single``: it multiplies in 32 bits."""

    name: list[str]
    kernel: list[str]
    source: list[str | None]
    by_compute: Bools
    by_memory: Bools
    communicates: Bools
    single: Bools
    self_ps: Int64s
    lost_ps: Int64s
    roofline_percent: Float64s
    compute_percent: Float64s
    padding_share: Float64s
    occupancy_percent: Float64s

    def __len__(self) -> int:
        return len(self.name)


Rule = tuple[Bools, Int64s]
"""Which ops have a cause, and how much of their time it costs."""


def found(facts: Facts) -> Iterator[Finding]:
    ops = _ops(facts)
    free = ~ops.communicates
    for cause, (title, certainty, evidence, is_bound, rule) in _RULES.items():
        has, cost = rule(ops)
        has &= free & (cost > 0)
        if not has.any():
            continue
        free &= ~has
        worst = int(np.flatnonzero(has)[np.argmax(cost[has])])
        total = facts.per_device(int(cost[has].sum()))
        if total:
            yield Finding(
                cause,
                title.replace("Tensor Cores", units_of(facts.maker or NVIDIA)),
                total,
                certainty,
                evidence,
                _advice(facts, cause),
                is_bound=is_bound,
                op=ops.name[worst],
                source=ops.source[worst],
            )


def _advice(facts: Facts, cause: str) -> str:
    """That on a cause, for GPUs of this maker, as old as these."""
    if cause == "precision" and facts.maker == AMD:
        return facts.advise(ON_AMD)
    if cause == "precision" and facts.capability is not None and facts.capability < SINCE_TF32:
        return facts.advise(WITHOUT_TF32)
    old = cause == "precision" and lack_tf32(facts.table("kernel_stats", "kernels")["name"].to_pylist())
    return facts.advise(OLD_KERNELS if old and facts.capability is None else cause)


# ---- the rules, the first that applies to an op counts


def _layout(ops: _Ops) -> Rule:
    """Transposes, if anything convolves."""
    names = [(f"{name} {kernel}", kernel) for name, kernel in zip(ops.name, ops.kernel, strict=True)]
    if not any(_CONVOLVES.search(both) for both, _ in names):
        return np.zeros(len(ops), bool), ops.self_ps
    moves = [bool(kernel and _TRANSPOSES.search(both) and not multiplies(kernel)) for both, kernel in names]
    return np.array(moves, bool), ops.self_ps


def _padding(ops: _Ops) -> Rule:
    """An op that is limited by arithmetic computes with padding on both sides of a product."""
    filled = 1.0 - ops.padding_share
    part = 1.0 - np.where(ops.by_compute, filled * filled, filled)
    return ops.padding_share >= PADDED_SHARE, _at_most_lost(ops, np.nan_to_num(part))


def _precision(ops: _Ops) -> Rule:
    return ops.single.copy(), np.where(ops.lost_ps >= 0, ops.lost_ps, ops.self_ps)


def _few_warps(ops: _Ops) -> Rule:
    """As if time were in proportion to warps."""
    return ops.occupancy_percent < FEW_WARPS_PERCENT, _at_most_lost(ops, 1.0 - ops.occupancy_percent / 100.0)


def _memory_bound(ops: _Ops) -> Rule:
    """Count the time beyond an op's arithmetic, if it could be fused with other ops that memory bounds. An op without
    such others only loses its time beyond the roofline, and nothing near that."""
    has = ops.by_memory & (ops.roofline_percent >= NEAR_ROOFLINE_PERCENT) & ~ops.communicates
    others = int(ops.self_ps[has].sum()) - ops.self_ps
    alone = others < ALONE * ops.self_ps
    part = 1.0 - np.nan_to_num(ops.compute_percent) / 100.0
    cost = np.where(alone, np.maximum(ops.lost_ps, 0), _part(ops, part))
    return has & ~(alone & (ops.roofline_percent >= AT_ROOFLINE_PERCENT)), cost


def _far_below_peaks(ops: _Ops) -> Rule:
    return ops.roofline_percent < FAR_FROM_ROOFLINE_PERCENT, np.maximum(ops.lost_ps, 0)


def _at_most_lost(ops: _Ops, part: Float64s) -> Int64s:
    """This part of self time, but no more than is lost, if that is known."""
    cost = _part(ops, part)
    return np.where(ops.lost_ps >= 0, np.minimum(cost, ops.lost_ps), cost)


def _part(ops: _Ops, part: Float64s) -> Int64s:
    return np.rint(ops.self_ps * np.clip(np.nan_to_num(part), 0.0, 1.0)).astype(np.int64)


_KERNELS: Final = "kernel_stats.kernels"
_RULES: Final = {
    "layout": ("Transposes change the layout of tensors around convolutions", LIKELY, _KERNELS, False, _layout),
    "padding": ("Ops compute with the padding that fills tiles", LIKELY, "hlo_stats.padding", True, _padding),
    "precision": ("Matrix products run in 32 bits, without Tensor Cores", LIKELY,
                  f"{_KERNELS}?could_use_tensor_cores=true&uses_tensor_cores=false", True, _precision),
    "low_occupancy": ("Kernels run with too few warps", LIKELY, _KERNELS, True, _few_warps),
    "memory_bound": ("Ops are limited by the bandwidth of memory", CERTAIN, "roofline.ops?bound_by=HBM", True,
                     _memory_bound),
    "low_utilization": (f"Ops reach less than {FAR_FROM_ROOFLINE_PERCENT:.0f} % of what the device can do", POSSIBLE,
                        "roofline.lost_time", True, _far_below_peaks),
}  # fmt: skip


# ---- what is known of ops


def _ops(facts: Facts) -> _Ops:
    """Rows of hlo_stats and of roofline are the same ops in the same order."""
    hlo, roofline = facts.table("hlo_stats", "ops"), facts.table("roofline", "ops")
    kernels, of_op, alone = _kernels(facts, hlo["name"].to_pylist())
    extra = len(alone)
    names = [*hlo["name"].to_pylist(), *(kernels["op_name"][k].as_py() or kernels["name"][k].as_py() for k in alone)]
    at = [*of_op, *alone]
    exposed = set(facts.table("communication", "operations")["name"].to_pylist())
    bound = [*roofline["bound_by"].to_pylist(), *[None] * extra]
    kernel_names, occupancy = kernels["name"].to_pylist(), _occupancy(kernels)
    single = single_precision_kernels(kernels)

    def more(values: Float64s) -> Float64s:
        return np.concatenate([values, np.full(extra, np.nan)])

    lost = more(numbers(roofline, "lost_ps"))
    return _Ops(
        name=names,
        kernel=[kernel_names[k] if k >= 0 else "" for k in at],
        source=[*hlo["source"].to_pylist(), *[None] * extra],
        by_compute=np.array([one == "Compute" for one in bound], bool),
        by_memory=np.array([one == "HBM" for one in bound], bool),
        communicates=np.array([name in exposed or name.startswith("nccl") for name in names], bool),
        single=np.array([k >= 0 and single[k] for k in at], bool),
        self_ps=np.concatenate([times(hlo, "self_ps"), times(kernels, "total_ps")[alone]]),
        lost_ps=np.where(np.isnan(lost), -1, lost).astype(np.int64),
        roofline_percent=more(numbers(roofline, "roofline_percent")),
        compute_percent=more(numbers(roofline, "compute_peak_percent")),
        padding_share=more(numbers(hlo, "padding_share")),
        occupancy_percent=np.array([occupancy[k] if k >= 0 else np.nan for k in at], np.float64),
    )


def _kernels(facts: Facts, ops: list[str]) -> tuple[pa.Table, list[int], list[int]]:
    """The kernels; the row of the kernel of each op, -1: it is not known; and the rows of kernels of no op."""
    kernels = facts.table("kernel_stats", "kernels")
    names = list(zip(kernels["name"].to_pylist(), kernels["op_name"].to_pylist(), strict=True))
    back = list(reversed(list(enumerate(names))))
    rows = {plain(name): row for row, (name, _) in back} | {plain(name): row for row, (name, op) in back if not op}
    rows |= {f"{op}/{plain(name)}": row for row, (name, op) in back if op}  # as ops of PyTorch are called
    keys = [_key(name) for name in ops]
    of_op, taken = [rows.get(key, -1) for key in keys], set(keys)
    alone = [row for row, (name, op) in enumerate(names) if not {plain(name), f"{op}/{plain(name)}"} & taken]
    return kernels, of_op, alone


def _occupancy(kernels: pa.Table) -> Float64s:
    """Return by kernel how full of warps it keeps multiprocessors, in percent. Kernels on Tensor Cores need few warps:
    what counts is how many multiprocessors have a block, NaN if that is not recorded."""
    uses, could = (kernels[name].to_pylist() for name in ("uses_tensor_cores", "could_use_tensor_cores"))
    on_units = [on is True or (on is None and may is True) for on, may in zip(uses, could, strict=True)]
    filled = 100.0 * np.minimum(numbers(kernels, "blocks_per_sm"), 1.0)
    return np.where(np.array(on_units, bool), filled, numbers(kernels, "occupancy_percent"))


def _key(op: str) -> str:
    """The name of an op with that of its kernel, if it has one, as a key of kernels."""
    of, apart, kernel = op.partition("/")
    return f"{of}/{plain(kernel)}" if apart and "::" in of else plain(op)


def single_precision_kernels(kernels: pa.Table) -> list[bool]:
    """Kernels of products that could use Tensor Cores, and are named after arithmetic in more bits."""
    flags = (kernels[name].to_pylist() for name in ("name", "uses_tensor_cores", "could_use_tensor_cores"))
    return [
        could is True and uses is False and (_SINGLE.search(name) or _OF_FLOATS.match(name)) is not None
        for name, uses, could in zip(*flags, strict=True)
    ]
