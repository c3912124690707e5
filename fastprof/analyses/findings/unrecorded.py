"""What a capture does not record, so that no finding can rest on it, and how to record it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from fastprof.analyses.findings.facts import Facts
from fastprof.derive.devices.framework import JAX, PYTORCH, TENSORFLOW, TENSORFLOW_1, UNKNOWN
from fastprof.derive.devices.tensor_cores import AMD, NVIDIA
from fastprof.derive.devices.tracer_levels import ALL_OF_HOST
from fastprof.derive.host import CPU_ONLY, GPU
from fastprof.derive.ops.ceilings import MOST_UNKNOWN, TOO_MUCH
from fastprof.derive.ops.record_checks import Flaw
from fastprof.schema.value_classes import dataclass


@dataclass(frozen=True, slots=True)
class Unrecorded:
    """``causes``: those that may be missed for it, separated by commas."""

    what: str
    causes: str
    how: str


_TRACE: Final = "Run with tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE)."
_STEPS: Final = {
    TENSORFLOW_1: "Read the RunMetadata of each run: it is a step.",
    JAX: 'Enter jax.profiler.StepTraceAnnotation("train", step_num=n) around each step.',
    TENSORFLOW: 'Enter tf.profiler.experimental.Trace("train", step_num=n, _r=1) around each step; Keras does.',
    PYTORCH: "Call profiler.step() at the end of each step.",
    UNKNOWN: "Mark steps with the profiler's step annotation.",
}
_PYTHON: Final = {
    TENSORFLOW_1: "Its profiler records no Python: use one of Python, such as cProfile.",
    JAX: "Set ProfileOptions.python_tracer_level = 1, or give fastprof capture --python-level 1.",
    TENSORFLOW: "Start the profiler with ProfilerOptions(python_tracer_level=1), or give fastprof capture "
    "--python-level 1.",
    PYTORCH: "Start the profiler with with_stack=True.",
    UNKNOWN: "Enable the profiler's Python tracer.",
}
_HOST: Final = {
    TENSORFLOW_1: _TRACE,
    JAX: "Set ProfileOptions.host_tracer_level = 2, or give fastprof capture --host-level 2.",
    TENSORFLOW: "Start the profiler with ProfilerOptions(host_tracer_level=2), or give fastprof capture "
    "--host-level 2.",
    PYTORCH: "Record the activity CPU, too.",
    UNKNOWN: "Enable the profiler's host tracer.",
}
_ALLOCATIONS: Final = {
    TENSORFLOW_1: _TRACE,
    PYTORCH: "Start the profiler with profile_memory=True.",
    UNKNOWN: "Record with host tracer level 2; the default allocator of GPUs and TPUs writes them.",
}
_NO_PYTHON: Final = "python_tracer_level was 1: no Python function was called or left while the profiler ran."
_NO_ALLOCATIONS: Final = (
    "host_tracer_level was 2 or more: nothing was allocated while the profiler ran, or by an allocator that writes no "
    "events."
)
_PROGRAMS: Final = {
    TENSORFLOW_1: "Its profiler records no compiled programs.",
    JAX: "Set ProfileOptions.enable_hlo_proto = True, its default.",
    UNKNOWN: "Record the compiled programs with the capture.",
}

_WORK: Final = (
    "record_shapes=True gives that of matrix products, convolutions and attention; of other kernels no option of "
    "PyTorch's profiler does: measure the longest with {}."
)
_WORK_OF_OTHERS: Final = (
    "That of products is known from their shapes. Of other kernels no option of PyTorch's profiler records it: measure "
    "the longest with {}."
)
_NSIGHT, _ROCM = "NVIDIA Nsight Compute", "ROCm Compute Profiler"
_TOOLS: Final = {NVIDIA: _NSIGHT, AMD: _ROCM, "XPU": "Intel unitrace", "NPU": "msprof", GPU: f"{_NSIGHT} or {_ROCM}"}
_ANY_TOOL: Final = "the profiler of the device's maker"
"""Tools that measure kernels, by maker of GPUs or kind of device; of other devices."""


_OF_DEVICES: Final = (
    "transfer, communication, straggler, launch, queue, between_kernels, small_ops, memory_bound, low_occupancy, "
    "low_utilization, precision, layout, idle"
)
"""Causes that activity of devices shows."""


_OF_HOSTS: Final = (
    "input, compilation, launch, python, callback, checkpoint, evaluation, logging, lock, garbage_collection, "
    "host_compute"
)
"""Causes that events of host threads show."""
_OF_LAUNCHES: Final = ("launch", "queue", "between_kernels")
_OF_WORK: Final = ("memory_bound", "low_utilization")


def causes_without_evidence(facts: Facts, *, has_launches: bool) -> Iterator[tuple[str, str]]:
    """Yield causes of GPUs that nothing would show, and what is missing."""
    if facts.hardware != GPU:
        return
    kernels = facts.table("kernel_stats", "kernels")
    if not has_launches:
        yield from ((cause, "the capture has no launch of what GPUs ran") for cause in _OF_LAUNCHES)
    if not facts.figure("op_stats", "host_total_ps"):
        yield "host_compute", "the capture has no op of a host thread"
    unknown = facts.figure("hlo_stats", "unknown_work_share")
    if not isinstance(unknown, float) or unknown > MOST_UNKNOWN:
        yield from ((cause, TOO_MUCH) for cause in _OF_WORK)
    if kernels["occupancy_percent"].null_count == len(kernels):
        yield "low_occupancy", "the occupancy of no kernel is recorded"
    if kernels["op_name"].null_count == len(kernels):
        yield "precision", "the op of no kernel is known"
        if facts.framework != PYTORCH:  # whose kernels say it by their names
            yield "elementwise", "the op of no kernel is known"


def unrecorded(facts: Facts, flaws: Sequence[Flaw], *, has_threads: bool, has_python: bool) -> Iterator[Unrecorded]:
    """``flaws``: records that are missing; ``has_threads``, ``has_python``: whether the capture has events of host
    threads, and of Python functions."""

    def how(texts: dict[str, str]) -> str:
        return texts.get(facts.framework, texts[UNKNOWN])

    for flaw in flaws:
        if flaw.hides_devices:
            what = "some activity of devices" if facts.window_ps else "activity of devices"
            yield Unrecorded(f"{what}: {flaw.text}", _OF_DEVICES if not facts.window_ps else "idle", flaw.remedy)
    if not facts.figure("steps", "step_count"):
        yield Unrecorded("steps", "slow_step, straggler, tail, silent", how(_STEPS))
    levels = facts.levels
    if not has_threads:
        was = "" if levels is None else f" It was {levels.host}."
        yield Unrecorded("host threads", _OF_HOSTS, how(_HOST) + was)
    elif not has_python:
        was = "" if levels is None else " It was 0."
        text = _NO_PYTHON if levels is not None and levels.python else how(_PYTHON) + was
        yield Unrecorded("Python functions", "python, input, lock, garbage_collection, checkpoint", text)
    if facts.hardware == CPU_ONLY:
        return
    if not facts.figure("memory_profile", "snapshot_count"):
        at_level = levels is not None and levels.host >= ALL_OF_HOST
        yield Unrecorded("allocations", "memory_pressure", _NO_ALLOCATIONS if at_level else how(_ALLOCATIONS))
    if facts.framework == PYTORCH and facts.hardware == GPU:
        tool = _TOOLS.get(facts.maker or facts.device, _ANY_TOOL)
        shapes = "shapes" in facts.table("roofline", "ops")["flops_source"].to_pylist()
        yield Unrecorded("arithmetic and memory traffic of kernels", "padding, memory_bound, low_utilization",
                         (_WORK_OF_OTHERS if shapes else _WORK).format(tool))  # fmt: skip
    elif not facts.figure("hlo_stats", "program_count"):
        yield Unrecorded("programs", "padding, memory_bound, low_utilization", how(_PROGRAMS))
    elif facts.figure("roofline", "peak_flops_per_s") is None:
        yield Unrecorded("peaks of the device", "memory_bound, low_utilization, precision",
                         "Give the model of the device with --device, or its peaks with --peak.")  # fmt: skip
