"""Analyses: which questions are answered? One file a question, by name."""

from __future__ import annotations

__all__ = [
    "accumulation", "check", "compare", "compared_tables", "contract", "diagnosis", "hlo_stats", "inference",
    "input_pipeline", "memory_viewer", "op_profile", "op_stats", "overview", "parameters", "roofline", "runner",
    "steps", "tf_data",
]  # fmt: skip

ANALYSES = {
    "overview": "How long steps take, what they spend it on, and what to do about it.",
    "diagnosis": "Causes of lost time, the one to fix first on top, with evidence and advice.",
    "input_pipeline": "How much of each step waits for input, and which input ops take the time.",
    "op_stats": "Time by op, on hosts and devices, most expensive first.",
    "kernel_stats": "GPU kernels: time, launch dimensions, registers, shared memory, tensor cores.",
    "streams": "GPU streams: overlapping kernels, waits of idle streams, launches, queues, copies.",
    "critical_path": "Critical path of a step: the longest chain of dependent ops and kernels.",
    "op_profile": "Device time by program, category or name scope, its utilization, and the contents of fusions.",
    "hlo_stats": "Compiled instructions: time, arithmetic, memory traffic, padding, by program and category.",
    "roofline": "How close ops, steps and programs come to the device peaks, and what bounds them.",
    "hardware_units": "Utilization of matrix units, vector units, loads and stores of devices, by program and op.",
    "memory_viewer": "Memory of compiled programs: the peak, the buffers alive at it, padding, lifetimes, allocations.",
    "communication": "Collectives, copies and feeds: the part hidden by compute, and the cost of the rest.",
    "memory_profile": "Memory by allocator: peaks, live allocations, fragmentation, lifetimes, growth over steps.",
    "gaps": "Gaps: device time by kind, and what the program did while devices did not compute.",
    "tf_data": "tf.data input pipelines: the iterator graph, its critical path, the bottleneck, how to fix it.",
    "pod_viewer": "Each step on each core of all hosts: its time by category, and its bottleneck.",
    "inference": "Requests and batches of a model server: latency by percentile and by part.",
    "annotations": "User annotations: time by name and step, device activity during them; time by named scope.",
    "python_time": "Python: self and total time by function, callers, callees, ops and kernels below, flame graphs.",
    "steps": "Every step on every host and core: its time by category, stragglers, percentiles.",
}
"""Every analysis, a module of that name here, and the first line of its docstring, in the order of the help."""

OF_RUNS = ("compare", "check")
"""Reports of several runs: modules here that are laid out as analyses are, but take reports instead of hosts."""
