"""Analyses: which questions are answered? One file a question, by name."""

from __future__ import annotations

__all__ = [
    "accumulation", "check", "compare", "contract", "diagnosis", "hlo_stats", "inference", "input_pipeline",
    "memory_viewer", "op_profile", "op_stats", "overview", "parameters", "roofline", "runner", "steps", "tf_data",
]  # fmt: skip

ANALYSES = {
    "overview": "How long steps take, what they spend it on, and what to do about it.",
    "diagnosis": "What costs the time: causes of lost time, the one to fix first on top, with evidence and advice.",
    "input_pipeline": "How much of each step waits for input, and which input ops take the time.",
    "op_stats": "Where time goes by op, on the host and on devices, most expensive first.",
    "kernel_stats": "GPU kernels: time, launch dimensions, registers, shared memory, tensor cores.",
    "streams": "Streams of GPUs: which kernels overlap, what idle streams wait for, launches, queues, copies.",
    "critical_path": "Critical path of a step: the ops and kernels that follow from each other and take longest.",
    "op_profile": "Device time by program, category or name scope, how well it was used, and what fusions are made of.",
    "hlo_stats": "Compiled instructions: time, arithmetic, memory traffic, padding, by program and category.",
    "roofline": "How near ops, steps and programs come to the peaks of the device, and what bounds them.",
    "hardware_units": "How busy matrix units, vector units, loads and stores of devices were, by program and op.",
    "memory_viewer": "Memory of compiled programs: the peak, what is alive there, padding, lifetimes, allocations.",
    "communication": "Collectives, copies and feeds: how much of them compute hides, and what the rest costs steps.",
    "memory_profile": "Memory by allocator: peaks, what is alive, fragmentation, lifetimes, growth from step to step.",
    "gaps": "Gaps: what devices do with their time, and what the program did while they did not compute.",
    "tf_data": "Input pipelines of tf.data: the iterator graph, its critical path, the bottleneck, how to fix it.",
    "pod_viewer": "Each step on each core of all hosts: what it spent its time on, and its bottleneck.",
    "inference": "Requests and batches of a model server: latency by percentile, and what it is made of.",
    "annotations": "Annotations of users: time by name and step, what devices do meanwhile; time by named scope.",
    "python_time": "Python: self and total time by function, what calls what, the ops and kernels below, flame graphs.",
    "steps": "Every step on every host and core: its time by category, stragglers, percentiles.",
}
"""Every analysis, a module of that name here, and the first line of its docstring, in the order of the help."""

OF_RUNS = ("compare", "check")
"""Reports of several runs: modules here that are laid out as analyses are, but take reports instead of hosts."""
