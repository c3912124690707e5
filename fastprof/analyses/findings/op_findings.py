"""Findings on ops (padding, few warps, types, layouts, memory traffic, missing fusion), on device memory that is nearly
full or leaks, and of tfprof's advisor on TensorFlow's profiles.

The time that an op takes beyond its roofline has one cause: the first rule that applies to it. Kernels belong to the op
of the same name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from fastprof.analyses.findings import reports
from fastprof.analyses.findings.advice import OLD_KERNELS, ON_AMD, WITHOUT_TF32
from fastprof.analyses.findings.facts import CERTAIN, LIKELY, POSSIBLE, DiagnosisFacts, Finding, read_array
from fastprof.derive.devices.communication_kinds import find_collective_kind
from fastprof.derive.devices.gpu_kernels import AMD, NVIDIA, SINCE_TF32, get_matrix_units, lack_tf32, multiplies
from fastprof.derive.ops.gpu_kernels import (
    FEW_WARPS_PERCENT,
    KernelRow,
    estimate_occupancy,
    merge_kernels,
    normalize_kernel_name,
)
from fastprof.schema.columns import Bools, Float64s, Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import compile_late
from fastprof.wording.quantities import count_noun, format_measure, format_time

if TYPE_CHECKING:
    from fastprof.derive.tfprof.view_set import AdvisorResult, SlowNodes


PADDED_SHARE: Final = 0.1
"""Share of padding from which an op counts: tiles of any size cost less."""
NEAR_ROOFLINE_PERCENT: Final = 60.0
"""Roofline efficiency from which an op is bound by the resource that is nearest to its peak."""
AT_ROOFLINE_PERCENT: Final = 80.0
"""Roofline efficiency from which an op gains nothing, unless it can be fused with others."""
ALONE: Final = 0.1
"""Share of an op's time below which other memory-bound ops do not count."""
FAR_FROM_ROOFLINE_PERCENT: Final = 50.0

_SINGLE: Final = compile_late(r"(?:^|[_\W])[sdcz]gemm|ffma|dcudnn|simt|f32f32_f32f32|s[ck]udnn", re.IGNORECASE)
"""Names of library kernels that multiply in 32 or 64 bits, without Tensor Cores."""
_OF_FLOATS: Final = compile_late(r"^(?!.*(?:half|bfloat|bf16|fp16|int8)).*<(?:[^<>]*, )?(?:float|double)\b")
"""Kernel names with template types of 32 or 64 bits: cuDNN's backward kernels have no other sign."""
_CONVOLVES: Final = compile_late(r"conv(?!ert)|cudnn|miopen|implicit_gemm", re.IGNORECASE)
_TRANSPOSES: Final = compile_late(r"transpose|nchwtonhwc|nhwctonchw|SwapDimension1And2", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _OpColumns:
    """Device ops, a row each, then kernels without such an op, merged.

    ``lost_ps``: time beyond the roofline, or -1; ``kernel``: name of the op's GPU kernel, or ""; ``single``: whether it
    multiplies in 32 bits; ``starved_ps``: ``estimate_starved_time`` of a kernel without an op, or -1; ``most_ps``,
    ``most_starved_ps``: ``self_ps`` and ``starved_ps`` of the longest of merged kernels."""

    name: list[str]
    kernel: list[str]
    source: list[str | None]
    by_compute: Bools
    by_memory: Bools
    communicates: Bools
    single: Bools
    self_ps: Int64s
    most_ps: Int64s
    starved_ps: Int64s
    most_starved_ps: Int64s
    lost_ps: Int64s
    roofline_percent: Float64s
    compute_percent: Float64s
    padding_share: Float64s
    occupancy_percent: Float64s

    def __len__(self) -> int:
        return len(self.name)


OpRule = tuple[Bools, Int64s]
"""Mask of the ops that have a cause, and the time that the cause costs each of them."""


def find_slow_ops(facts: DiagnosisFacts) -> Iterator[Finding]:
    """Find ops that take longer than they need, by cause."""
    ops = _read_ops(facts)
    longest = replace(ops, self_ps=ops.most_ps, starved_ps=ops.most_starved_ps)
    free = ~ops.communicates
    for cause, (title, certainty, evidence, is_bound, rule) in _RULES.items():
        has, cost = rule(ops)
        has &= free & (cost > 0)
        if not has.any():
            continue
        free &= ~has
        worst = int(np.flatnonzero(has)[np.argmax(rule(longest)[1][has])])
        total = facts.per_device(int(cost[has].sum()))
        if total:
            yield Finding(
                cause,
                title.replace("Tensor Cores", get_matrix_units(facts.maker or NVIDIA)),
                total,
                certainty,
                evidence,
                _get_op_advice(facts, cause),
                is_bound=is_bound,
                op=ops.name[worst],
                source=ops.source[worst],
            )


def _get_op_advice(facts: DiagnosisFacts, cause: str) -> str:
    """Return the advice on a cause, for GPUs of this vendor and age."""
    if cause == "precision" and facts.maker == AMD:
        return facts.advise(ON_AMD)
    if cause == "precision" and facts.capability is not None and facts.capability < SINCE_TF32:
        return facts.advise(WITHOUT_TF32)
    old = cause == "precision" and lack_tf32(facts.columns(reports.KernelStats.kernels).name.to_pylist())
    return facts.advise(OLD_KERNELS if old and facts.capability is None else cause)


# ---- the rules, the first that applies to an op counts


def _match_layout(ops: _OpColumns) -> OpRule:
    """Match transposes, if anything convolves."""
    names = [(f"{name} {kernel}", kernel) for name, kernel in zip(ops.name, ops.kernel, strict=True)]
    if not any(_CONVOLVES.search(both) for both, _ in names):
        return np.zeros(len(ops), bool), ops.self_ps
    moves = [bool(kernel and _TRANSPOSES.search(both) and not multiplies(kernel)) for both, kernel in names]
    return np.array(moves, bool), ops.self_ps


def _match_padding(ops: _OpColumns) -> OpRule:
    """Match padded ops. Compute-bound ops compute with padding on both sides of a product."""
    filled = 1.0 - ops.padding_share
    part = 1.0 - np.where(ops.by_compute, filled * filled, filled)
    return ops.padding_share >= PADDED_SHARE, _limit_to_lost(ops, np.nan_to_num(part))


def _match_precision(ops: _OpColumns) -> OpRule:
    return ops.single.copy(), np.where(ops.lost_ps >= 0, ops.lost_ps, ops.self_ps)


def _match_few_warps(ops: _OpColumns) -> OpRule:
    """Match kernels of low occupancy, with time in proportion to warps."""
    has = (ops.occupancy_percent < FEW_WARPS_PERCENT) | (ops.starved_ps > 0)
    cost = _limit_to_lost(ops, 1.0 - ops.occupancy_percent / 100.0)
    return has, np.where(ops.starved_ps >= 0, ops.starved_ps, cost)


def _match_memory_bound(ops: _OpColumns) -> OpRule:
    """Match memory-bound ops. They cost the time beyond their arithmetic, if they could be fused with each other.

    An op without such others only loses its time beyond the roofline, and nothing near that."""
    has = ops.by_memory & (ops.roofline_percent >= NEAR_ROOFLINE_PERCENT) & ~ops.communicates
    others = int(ops.self_ps[has].sum()) - ops.self_ps
    alone = others < ALONE * ops.self_ps
    part = 1.0 - np.nan_to_num(ops.compute_percent) / 100.0
    cost = np.where(alone, np.maximum(ops.lost_ps, 0), _take_part(ops, part))
    return has & ~(alone & (ops.roofline_percent >= AT_ROOFLINE_PERCENT)), cost


def _match_far_below_peaks(ops: _OpColumns) -> OpRule:
    return ops.roofline_percent < FAR_FROM_ROOFLINE_PERCENT, np.maximum(ops.lost_ps, 0)


def _limit_to_lost(ops: _OpColumns, part: Float64s) -> Int64s:
    """Return this part of self time, but no more than is lost, if that is known."""
    cost = _take_part(ops, part)
    return np.where(ops.lost_ps >= 0, np.minimum(cost, ops.lost_ps), cost)


def _take_part(ops: _OpColumns, part: Float64s) -> Int64s:
    return np.rint(ops.self_ps * np.clip(np.nan_to_num(part), 0.0, 1.0)).astype(np.int64)


_KERNELS: Final = "kernel_stats.kernels"
_RULES: Final = {
    "layout": ("Tensors are transposed around convolutions", LIKELY, _KERNELS, False, _match_layout),
    "padding": ("Ops compute on padding", LIKELY, "hlo_stats.padding", True, _match_padding),
    "precision": ("Matrix products run in 32 bits, not on Tensor Cores", LIKELY,
                  f"{_KERNELS}?could_use_tensor_cores=true&uses_tensor_cores=false", True, _match_precision),
    "low_occupancy": ("Kernels run with too few warps", LIKELY, _KERNELS, True, _match_few_warps),
    "memory_bound": ("Ops are memory-bandwidth bound", CERTAIN, "roofline.ops?bound_by=HBM", True,
                     _match_memory_bound),
    "low_utilization": (f"Ops reach less than {FAR_FROM_ROOFLINE_PERCENT:.0f} % of the device's peak", POSSIBLE,
                        "roofline.lost_time", True, _match_far_below_peaks),
}  # fmt: skip


# ---- what is known of ops


def _read_ops(facts: DiagnosisFacts) -> _OpColumns:
    """Join ops and kernels. Rows of hlo_stats and of roofline are the same ops in the same order."""
    hlo, roofline = facts.columns(reports.HloStats.ops), facts.columns(reports.Roofline.ops)
    kernels, hlo_names = merge_kernels(facts.report(reports.KernelStats).detail_as(list)), hlo.name.to_pylist()
    kernel_names, op_names = [row.kernel.name for row in kernels], [row.op or None for row in kernels]
    of_op, alone = _join_kernels([*zip(kernel_names, op_names, strict=True)], hlo_names)
    extra = len(alone)
    names = [*hlo_names, *(op_names[k] or kernel_names[k] for k in alone)]
    at = [*of_op, *alone]
    exposed = set(facts.columns(reports.Communication.operations).name.to_pylist())
    bound = [*roofline.bound_by.to_pylist(), *[None] * extra]
    occupancy = np.array([*map(estimate_occupancy, kernels), None], np.float64)
    single = [is_single_precision(row.kernel.name, row.uses, row.could) for row in kernels]
    self_ps = read_array(hlo.self_ps, np.int64)

    def read_kernels(ops: Int64s, of: Callable[[KernelRow], int | None]) -> Int64s:
        return np.array([*ops.tolist(), *(of(kernels[k]) for k in alone)], np.int64)

    def read(column: pa.ChunkedArray) -> Float64s:
        return np.concatenate([read_array(column, np.float64), np.full(extra, np.nan)])

    lost = read(roofline.lost_ps)
    named = [kernel_names[k] if k >= 0 else "" for k in at]
    kind = {name: find_collective_kind(name.rpartition("/")[2]) for name in {*named, *names}}
    communicates = [name in exposed or bool(kind[name] or kind[its]) for name, its in zip(names, named, strict=True)]
    return _OpColumns(
        name=names,
        kernel=named,
        source=[*hlo.source.to_pylist(), *[None] * extra],
        by_compute=np.array([resource == "Compute" for resource in bound], bool),
        by_memory=np.array([resource == "HBM" for resource in bound], bool),
        communicates=np.array(communicates, bool),
        single=np.array([k >= 0 and single[k] for k in at], bool),
        self_ps=read_kernels(self_ps, lambda row: row.ps[1]),
        most_ps=read_kernels(self_ps, lambda row: row.most_ps),
        starved_ps=read_kernels(np.full_like(self_ps, -1), lambda row: row.starved_ps),
        most_starved_ps=read_kernels(np.full_like(self_ps, -1), lambda row: row.most_starved_ps),
        lost_ps=np.where(np.isnan(lost), -1, lost).astype(np.int64),
        roofline_percent=read(roofline.roofline_percent),
        compute_percent=read(roofline.compute_peak_percent),
        padding_share=read(hlo.padding_share),
        occupancy_percent=occupancy[at],  # the last one is unknown
    )


def _join_kernels(kernels: Sequence[tuple[str, str | None]], ops: list[str]) -> tuple[list[int], list[int]]:
    """Return the row of the kernel of each op, or -1, and the rows of kernels without an op.

    ``kernels``: their names and the names of their ops."""
    back = [(row, normalize_kernel_name(name), op) for row, (name, op) in enumerate(kernels)][::-1]
    rows = {name: row for row, name, _ in back} | {name: row for row, name, op in back if not op}
    rows |= {f"{op}/{name}": row for row, name, op in back if op}  # as PyTorch names ops
    keys = []
    for name in ops:
        of, apart, kernel = name.partition("/")
        has_kernel = bool(apart) and "::" in of
        keys.append(f"{of}/{normalize_kernel_name(kernel)}" if has_kernel else normalize_kernel_name(name))
    taken = set(keys)
    alone = [row for row, name, op in reversed(back) if name not in taken and f"{op}/{name}" not in taken]
    return [rows.get(key, -1) for key in keys], alone


def find_single_precision(kernels: reports.KernelStats.kernels) -> list[bool]:
    """Return ``is_single_precision`` of each kernel."""
    flags = map(pa.ChunkedArray.to_pylist, (kernels.name, kernels.uses_tensor_cores, kernels.could_use_tensor_cores))
    return [*map(is_single_precision, *flags)]


def is_single_precision(name: str, uses: bool | None, could: bool | None) -> bool:
    """Return whether a kernel of products could use Tensor Cores, but is named after arithmetic in more bits."""
    return could is True and uses is False and (_SINGLE.search(name) or _OF_FLOATS.match(name)) is not None


CAUSE: Final = "elementwise"


def find_unfused_ops(facts: DiagnosisFacts) -> Iterator[Finding]:
    """Find elementwise kernels that could be fused with their neighbours."""
    every = facts.rows(reports.KernelStats.kernels)
    rows = [row for row in every if row.kind == CAUSE]
    fusible = facts.per_device(sum(row.fusible_ps for row in rows))
    if not fusible:
        return
    total, count = sum(row.total_ps for row in rows), sum(row.occurrences for row in rows)
    share = format_measure(total / sum(row.total_ps for row in every), "share")
    time_of_op: Counter[str | None] = Counter()
    for row in rows:
        time_of_op[row.op_name] += row.total_ps
    ops = [(name, time_ps) for name, time_ps in time_of_op.most_common() if name is not None][:_MOST_NAMED]
    named = f" Longest: {', '.join(f'{name} {format_time(time_ps)}' for name, time_ps in ops)}." if ops else ""
    yield Finding(
        CAUSE,
        f"Elementwise kernels take {share} of kernel time and are not fused",
        fusible,
        LIKELY,
        f"kernel_stats.kernels?kind={CAUSE}",
        facts.advise(CAUSE),
        is_bound=True,
        op=ops[0][0] if ops else None,
        detail=f"{count_noun(count, 'kernel takes', 'kernels take')} {format_time(total)} in total. "
        f"Upper bound: each fused chain still costs one kernel.{named}",
    )


_MOST_NAMED: Final = 4


NEARLY_FULL: Final = 0.95


def find_full_memory(facts: DiagnosisFacts) -> Iterator[Finding]:
    """Find full allocators. Their cost is not recorded unless the host stalls for them, which gaps show."""
    figures = facts.figures(reports.MemoryProfile)
    share, allocator = figures.peak_share, figures.peak_allocator
    if isinstance(share, float) and share >= NEARLY_FULL and allocator is not None:
        yield Finding(
            "memory_pressure",
            f"Memory of {allocator} is {100 * share:.1f} % full at its peak",
            None,
            CERTAIN,
            f"memory_profile.active?allocator={quote(str(allocator))}",
            facts.advise("memory_pressure"),
            device=str(allocator),
        )


def find_leaks(facts: DiagnosisFacts) -> Iterator[Finding]:
    """Find the op that holds more and more memory, if memory_profile calls it a leak, and when memory is full."""
    notices = [notice.text for notice in facts.report(reports.MemoryProfile).notices if LEAK in notice.text]
    for text in notices[:1]:
        op, _, rest = text.partition(LEAK)
        rows = facts.rows(reports.MemoryProfile.growth)
        row = next((row for row in rows if row.op_name == op and rest.startswith(row.allocator)), None)
        left = [int(steps.replace(",", "")) for steps in _MORE_STEPS.findall(text)]
        until = f" and is full in {count_noun(min(left), 'step', 'steps')}" if left else ""
        yield Finding(
            "memory_pressure",
            f"Memory in use grows from step to step{until}: {op}",
            None,
            LIKELY,
            "memory_profile.growth?grows_steadily=true",
            _OF_LEAKS,
            device=row.allocator if row else None,
            host=row.host if row else None,
            op=op,
            detail=text,
        )


LEAK: Final = " holds more and more memory of "
"""Words between op and allocator in a notice of memory_profile."""
_MORE_STEPS: Final = compile_late(r"([\d,]+) more steps")
_OF_LEAKS: Final = (
    "Do not keep arrays of each step: convert metrics to numbers before storing them, detach them, and empty growing "
    "lists and histories."
)


_PER_MICRO: Final = 10**6
_MOST: Final = 0.5
"""Share of the time of all ops from which an op is named."""
_FUSE: Final = (
    "Use the fused op: fused=True of tf.compat.v1.layers.batch_normalization, or tf.compat.v1.nn.fused_batch_norm; "
    "Keras uses it for images."
)
_CHANNELS: Final = (
    'Try data_format="NCHW" (channels_first): 32-bit GPU convolutions are often faster with it. On Tensor Cores, '
    "with 16-bit types, NHWC is the faster layout."
)


def find_tfprof_advice(facts: DiagnosisFacts) -> Iterator[Finding]:
    """Find what tfprof's advisor checks: unfused norms, layouts and the costliest op."""
    for graph in facts.graphs:
        if graph.unfused_norms is not None:
            nodes = count_noun(graph.unfused_norms.node_count, "op", "ops")
            title = f"BatchNorm is not fused: it runs as {nodes}"
            yield _make_bound(facts, graph, "elementwise", graph.unfused_norms, title, _FUSE)
        if graph.channels_last is not None:
            nodes = count_noun(graph.channels_last.node_count, "op of a GPU has", "ops of GPUs have")
            yield _make_bound(facts, graph, "layout", graph.channels_last, f"{nodes} the layout NHWC", _CHANNELS)
        yield from _find_costly(facts, graph)


def _make_bound(
    facts: DiagnosisFacts, graph: AdvisorResult, cause: str, nodes: SlowNodes, title: str, text: str
) -> Finding:
    """Make a finding that costs at most the time of these nodes."""
    cost = facts.per_device(nodes.time_us * _PER_MICRO)
    device_op = f"{nodes.longest}:{nodes.op}"  # op stats name device ops by node and type
    if device_op in facts.columns(reports.OpStats.device_ops).name.to_pylist():
        evidence = f"op_stats.device_ops?name={quote(device_op, safe='')}"
    else:
        evidence = f"op_stats.host_ops?name={quote(nodes.longest, safe='')}"
    return Finding(cause, title, cost, POSSIBLE, evidence, text, is_bound=True, host=graph.host, op=nodes.longest)


def _find_costly(facts: DiagnosisFacts, graph: AdvisorResult) -> Iterator[Finding]:
    """Find the op that takes most of the time of all. Its cost beyond its need is not recorded."""
    if not graph.costly or graph.total_us <= 0 or graph.costly[0][1] < _MOST * graph.total_us:
        return
    name, time_us = graph.costly[0]
    share = format_measure(time_us / graph.total_us, "share")
    spelt = [f"{op} {format_time(time * _PER_MICRO)}" for op, time in graph.costly]
    where = "" if graph.line is None else f" The costliest line of code: {graph.line}."
    yield Finding(
        "low_utilization",
        f"{name} takes {share} of op time",
        None,
        POSSIBLE,
        f"op_stats.host_ops?type={quote(name, safe='')}",
        "Check this op first: its types, shapes, device, and number of runs.",
        host=graph.host,
        op=name,
        detail=f"In an average step: {', '.join(spelt)}.{where}",
    )


def describe_use(facts: DiagnosisFacts) -> str:
    """Say how much accelerators compute in their last steps; "" if no tfprof profile has one."""
    return " ".join(
        f"In its last step, {use.device} computes for {format_measure(use.share, 'share')} of its active time (first "
        "start to last end)."
        for graph in facts.graphs
        for use in graph.uses
    )
