"""The causes that cost a program time. The list is closed: reports name no others."""

from __future__ import annotations

from typing import Final

CAUSES: Final = {
    "input": "The program waits for data: an input pipeline, a data loader, or code that loads data.",
    "compilation": "The host traces or compiles a program.",
    "transfer": "Data are copied between host and device, and no compute hides it.",
    "communication": "Devices exchange data, and no compute hides it.",
    "straggler": "The device waits for another device or host.",
    "launch": "The device waits for work that is being launched: the host launches it too late.",
    "queue": "Work was launched and does not begin: it is queued behind something that is not recorded on the device.",
    "between_kernels": "The device goes from one kernel to the next, which was launched in time.",
    "small_ops": "Ops are too short for what it costs to launch each.",
    "python": "The host runs Python, and nothing else is known of it.",
    "silent": "Threads of the host record nothing in an annotation, and no Python is recorded.",
    "tail": "A step goes on after the last work of the device, and nothing is recorded.",
    "host_compute": "The host runs ops of the framework between those of the device.",
    "eager": "Ops are executed one by one, where a compiled function would run them together.",
    "elementwise": "Elementwise ops run one by one, and each reads and writes its arrays.",
    "callback": "A program on the device calls Python code on the host.",
    "checkpoint": "The program saves or restores its state.",
    "evaluation": "The program evaluates its model instead of training it, compute included.",
    "logging": "The program logs, or computes metrics, compute included.",
    "lock": "A thread of the host waits for another one.",
    "garbage_collection": "Python collects garbage.",
    "memory_pressure": "The allocator looks for memory, tries again or defragments.",
    "slow_step": "Single steps take longer than the others.",
    "padding": "Arrays are padded to fill tiles, and ops compute on the padding.",
    "memory_bound": "Ops wait for memory: its bandwidth bounds them.",
    "low_occupancy": "Kernels occupy few of the device's units at once.",
    "low_utilization": "Ops use little of what the device can do.",
    "precision": "Ops compute with more bits than they need.",
    "layout": "Data are transposed or rearranged for ops that need another layout.",
    "outside_compilation": "Parts of a compiled program run outside of it, on the host.",
    "lost_records": "The profiler lost records of the device: what it did is unknown.",
    "idle": "Nothing that is recorded explains it.",
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


def label_causes(causes: str) -> str:
    """Return the display names of causes separated by commas."""
    return ", ".join(map(get_cause_label, causes.split(", ")))


GAP_CAUSES: Final = (
    "input", "compilation", "transfer", "communication", "straggler", "launch", "queue", "between_kernels", "python",
    "silent", "tail", "host_compute", "callback", "checkpoint", "evaluation", "logging", "lock",
    "garbage_collection", "memory_pressure", "lost_records", "idle",
)  # fmt: skip
"""Causes of time in which a device does not compute, or of work that is not training."""
OTHER_WORK: Final = ("checkpoint", "evaluation", "logging")
"""Causes that are work other than training: all device time for it counts, compute included."""
