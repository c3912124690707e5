"""The causes that cost a program time. The list is closed: reports name no others."""

from __future__ import annotations

from typing import Final

CAUSES: Final = {
    "input": "The program waits for data from an input pipeline, a data loader or loading code.",
    "compilation": "The host traces or compiles a program.",
    "transfer": "Copies between host and device that no compute overlaps.",
    "communication": "Communication between devices that no compute overlaps.",
    "straggler": "The device waits for a slower device or host.",
    "launch": "The host launches work too late.",
    "queue": "Launched work is queued behind something that is not recorded on the device.",
    "between_kernels": "The device changes from one kernel to the next, which was launched in time.",
    "small_ops": "Ops are shorter than their launch overhead.",
    "python": "The host runs Python, and no other activity is recorded.",
    "silent": "Host threads have no events within an annotation, and Python is not recorded.",
    "tail": "The step continues after the device's last work, without any recorded activity.",
    "host_compute": "The host runs framework ops between device ops.",
    "eager": "Ops run one by one instead of in a compiled function.",
    "elementwise": "Elementwise ops are not fused: each reads and writes its arrays.",
    "callback": "A device program calls Python on the host.",
    "checkpoint": "The program saves or restores its state.",
    "evaluation": "The program evaluates its model instead of training it (compute included).",
    "logging": "The program logs or computes metrics (compute included).",
    "lock": "A host thread waits for another thread.",
    "garbage_collection": "Python collects garbage.",
    "memory_pressure": "The allocator searches for memory, retries or defragments.",
    "slow_step": "Single steps are longer than the others.",
    "slowdown": "Device ops take longer from some step on.",
    "padding": "Ops compute on padding that fills tiles.",
    "memory_bound": "Memory bandwidth limits ops.",
    "low_occupancy": "Kernels occupy few of the device's units.",
    "low_utilization": "Ops reach a small part of the device's peak.",
    "precision": "Ops use higher precision than necessary.",
    "layout": "Arrays are transposed for ops that need another layout.",
    "outside_compilation": "Parts of a compiled program run on the host.",
    "lost_records": "The profiler lost device records: activity is unknown.",
    "idle": "No record explains the idle time.",
}
"""Meaning of each cause, by name."""

CAUSE_LABELS: Final = {
    "input": "input wait",
    "compilation": "compilation",
    "transfer": "exposed copies",
    "communication": "communication",
    "straggler": "slowest device",
    "launch": "late launches",
    "queue": "queued work",
    "between_kernels": "between kernels",
    "small_ops": "short ops",
    "python": "Python code",
    "silent": "no host records",
    "tail": "end of step",
    "host_compute": "ops on the host",
    "eager": "eager execution",
    "elementwise": "unfused elementwise",
    "callback": "host callbacks",
    "checkpoint": "checkpoints",
    "evaluation": "evaluation",
    "logging": "logging",
    "lock": "host locks",
    "garbage_collection": "garbage collection",
    "memory_pressure": "memory pressure",
    "slow_step": "slow steps",
    "slowdown": "slowdown",
    "padding": "padding",
    "memory_bound": "memory bandwidth",
    "low_occupancy": "low occupancy",
    "low_utilization": "low utilization",
    "precision": "precision",
    "layout": "layout changes",
    "outside_compilation": "outside compilation",
    "lost_records": "lost records",
    "idle": "not captured",
}
"""Display name of each cause, by name; short enough for a column."""


def get_cause_label(cause: str) -> str:
    """Return the display name of a cause; other names stay unchanged."""
    return CAUSE_LABELS.get(cause, cause)


GAP_CAUSES: Final = (
    "input", "compilation", "transfer", "communication", "straggler", "launch", "queue", "between_kernels", "python",
    "silent", "tail", "host_compute", "callback", "checkpoint", "evaluation", "logging", "lock",
    "garbage_collection", "memory_pressure", "lost_records", "idle",
)  # fmt: skip
"""Causes of time in which a device does not compute, or of work that is not training."""
OTHER_WORK: Final = ("checkpoint", "evaluation", "logging")
"""Causes that are work other than training: all device time for it counts, compute included."""
