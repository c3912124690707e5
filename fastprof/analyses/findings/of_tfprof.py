"""Findings of profiles of tfprof: what its advisor examines, as causes of lost time. All of them are of TensorFlow.

How much accelerators are used is not a finding of its own: gaps measure the time in which they do not compute. If no
other cause explains that time, the finding has the advisor's figure in its detail. The job checker reports nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from fastprof.analyses.findings.facts import Facts
from fastprof.analyses.findings.finding import POSSIBLE, Finding
from fastprof.wording.quantities import counted, measured, time_text

if TYPE_CHECKING:
    from fastprof.derive.tfprof.advisor import Examined, Suspects

_PER_MICRO: Final = 10**6
_MOST: Final = 0.5
"""An op is named if it takes this share of the time of all, or more."""
_FUSE: Final = (
    "Use the fused op: fused=True of tf.compat.v1.layers.batch_normalization, or tf.compat.v1.nn.fused_batch_norm; "
    "Keras uses it for images."
)
_CHANNELS: Final = (
    'Try data_format="NCHW" (channels_first): in 32 bits convolutions of GPUs are often faster so. On Tensor Cores, '
    "with 16-bit types, NHWC is the faster layout."
)


def found(facts: Facts) -> Iterator[Finding]:
    for one in facts.graphs:
        if one.unfused_norms is not None:
            nodes = counted(one.unfused_norms.node_count, "op", "ops")
            yield _bound(facts, one, "elementwise", one.unfused_norms, f"BatchNorm runs as {nodes}, not as a fused one",
                         _FUSE)  # fmt: skip
        if one.channels_last is not None:
            nodes = counted(one.channels_last.node_count, "op of a GPU has", "ops of GPUs have")
            yield _bound(facts, one, "layout", one.channels_last, f"{nodes} the layout NHWC", _CHANNELS)
        yield from _costly(facts, one)


def _bound(facts: Facts, one: Examined, cause: str, nodes: Suspects, title: str, text: str) -> Finding:
    """A finding that costs at most the time of these nodes."""
    cost = facts.per_device(nodes.time_us * _PER_MICRO)
    evidence = _row_of(facts, nodes.longest, nodes.op)
    return Finding(cause, title, cost, POSSIBLE, evidence, text, is_bound=True, host=one.host, op=nodes.longest)


def _costly(facts: Facts, one: Examined) -> Iterator[Finding]:
    """The op that takes most of the time of all. What it costs beyond what it needs is not recorded."""
    if not one.costly or one.total_us <= 0 or one.costly[0][1] < _MOST * one.total_us:
        return
    name, time_us = one.costly[0]
    share = measured(time_us / one.total_us, "share")
    spelt = [f"{op} {time_text(time * _PER_MICRO)}" for op, time in one.costly]
    where = "" if one.line is None else f" The line of code that takes longest: {one.line}."
    yield Finding(
        "low_utilization",
        f"{name} takes {share} of the time of ops",
        None,
        POSSIBLE,
        f"op_stats.host_ops?type={quote(name, safe='')}",
        "Begin with this op: whether its types, shapes and device fit what it computes, and how often it runs.",
        host=one.host,
        op=name,
        detail=f"In an average step: {', '.join(spelt)}.{where}",
    )


def _row_of(facts: Facts, node: str, op: str) -> str:
    """The row of an op in op stats: on devices by node and type."""
    name = f"{node}:{op}"
    if name in facts.table("op_stats", "device_ops")["name"].to_pylist():
        return f"op_stats.device_ops?name={quote(name, safe='')}"
    return f"op_stats.host_ops?name={quote(node, safe='')}"


def use_in_words(facts: Facts) -> str:
    """How much accelerators compute in their last steps, as sentences; empty: no profile of tfprof has one."""
    return " ".join(
        f"In its last step {use.device} computes for {measured(use.share, 'share')} of the time from its first start "
        "to its last end."
        for one in facts.graphs
        for use in one.uses
    )
