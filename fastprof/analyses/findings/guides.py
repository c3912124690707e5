"""Advice of the frameworks' guides, each item with the evidence that makes it apply.

A rule adds sentences to the advice of a finding, if the capture has its evidence, in the words of the framework that
made the capture. docs/analyses/diagnosis.md lists the rules. Missing records of a capture are listed with advice on how
to record them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from fastprof.analyses.findings import reports
from fastprof.analyses.findings.advice import drop_gpu_advice
from fastprof.analyses.findings.facts import DiagnosisFacts, Finding, read_array
from fastprof.analyses.findings.idle_findings import find_slow_pipeline
from fastprof.analyses.findings.op_findings import find_single_precision
from fastprof.derive.devices.communication_kinds import BETWEEN_DEVICES
from fastprof.derive.devices.gpu_kernels import AMD, NVIDIA, get_matrix_units
from fastprof.derive.devices.op_names import JAX, PYTORCH, TENSORFLOW, TENSORFLOW_1, UNKNOWN
from fastprof.derive.devices.run_environment import ALL_OF_HOST
from fastprof.derive.host import CPU_ONLY, GPU
from fastprof.derive.ops.record_checks import Flaw
from fastprof.derive.ops.roofline_model import MOST_UNKNOWN, TOO_MUCH
from fastprof.derive.steps.step_source import LAUNCHED, MARKERS
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import compile_late

MANY: Final = 20
"""Launches of a program, or gradient sums of a step, from which joining is worth it."""
FEW_SUMS: Final = 2
SMALL_BYTES: Final = 1 << 20
FEW_WAITS: Final = 4
SHORT_STEP_PS: Final = 50_000_000_000
SHORT_CALL_PS: Final = 100_000_000
"""Duration below which starting a function of map costs about as much as its call."""
ELEMENTS: Final = 8
"""Elements of a batch from which a call per element is worth avoiding."""
NOTABLE: Final = 0.1
WORTH_WORDS: Final = 0.05
"""Share of the run below which findings get no advice on how launches are made."""
_FROM_DEVICE: Final = compile_late(r"^(?:cu|cuda|hip)(?:Mem)?(?:Alloc|Malloc|Free)")
_FIRST: Final = compile_late(r"nchw", re.IGNORECASE)


# ---- input pipelines


IteratorRow = reports.TfData.iterators


def _find_bottleneck(facts: DiagnosisFacts, finding: Finding) -> tuple[IteratorRow, list[IteratorRow]] | None:
    """Return the bottleneck and all iterators of the slow pipeline, or None if none explains the finding."""
    slow = find_slow_pipeline(facts, finding)
    if slow is None:
        return None
    rows = facts.rows(reports.TfData.iterators)
    own = [row for row in rows if (row.host, row.pipeline) == (slow.host, slow.pipeline)]
    worst = next((row for row in own if row.is_bottleneck), None)
    return None if worst is None else (worst, own)


def has_no_prefetch(facts: DiagnosisFacts, finding: Finding) -> bool:
    known = _find_bottleneck(facts, finding)
    return known is not None and not any(row.name.startswith("Prefetch") for row in known[1])


def has_map_of_elements(facts: DiagnosisFacts, finding: Finding) -> bool:
    """Return whether the bottleneck runs a short function for each element of a batch."""
    known = _find_bottleneck(facts, finding)
    if known is None:
        return False
    worst, rows = known
    parent = next((row for row in rows if row.iterator_id == worst.parent_id), None)
    if parent is None or "Batch" not in parent.name or "Map" not in worst.name:
        return False
    each = worst.event_count >= ELEMENTS * max(1, parent.event_count)
    return bool(each and 0 < worst.function_ps < SHORT_CALL_PS * worst.event_count)


def has_repeat_without_cache(facts: DiagnosisFacts, finding: Finding) -> bool:
    """Return whether the bottleneck lies below a repeat, and nothing of the pipeline is cached."""
    known = _find_bottleneck(facts, finding)
    if known is None:
        return False
    worst, rows = known
    repeats = [row.depth for row in rows if "Repeat" in row.name]
    return bool(repeats) and min(repeats) < worst.depth and not any("Cache" in row.name for row in rows)


def is_waiting_for_order(facts: DiagnosisFacts, finding: Finding) -> bool:
    """Return whether the bottleneck calls in parallel and in order, and its consumer mostly waits for its buffer."""
    known = _find_bottleneck(facts, finding)
    if known is None or known[0].deterministic is not True:
        return False
    worst = known[0]
    key = worst.host, worst.pipeline, worst.iterator_id
    own = [row for row in facts.rows(reports.TfData.self_time) if (row.host, row.pipeline, row.iterator_id) == key]
    return bool(own) and max(own, key=lambda row: int(row.time_ps)).part == "waiting for a buffer"


def has_input_beside_launches(facts: DiagnosisFacts, _finding: Finding) -> bool:
    """Return whether functions of iterators run for half of the run or longer on other threads of a GPU host."""
    if facts.hardware != GPU:
        return False
    of_host: Counter[str] = Counter()
    for row in facts.rows(reports.TfData.iterators):
        if row.is_async:
            of_host[row.host] += row.function_ps
    return 2 * max(of_host.values(), default=0) >= facts.window_ps


# ---- launches


def _is_notable(facts: DiagnosisFacts, finding: Finding) -> bool:
    return (finding.cost_ps or 0) >= WORTH_WORDS * facts.window_ps


def has_no_xla(facts: DiagnosisFacts, finding: Finding) -> bool:
    """Return whether neither programs nor functions that XLA compiled are recorded."""
    compilers = facts.columns(reports.OpStats.tf_functions).compiler.to_pylist()
    compiled = facts.figures(reports.HloStats).program_count or not {"xla", "mixed"}.isdisjoint(compilers)
    return _is_notable(facts, finding) and not compiled


def has_short_steps(facts: DiagnosisFacts, finding: Finding) -> bool:
    """Return whether steps are short, and devices wait a few times per step, not for each of many launches."""
    steps = facts.figures(reports.Steps)
    if not isinstance(steps.step_time_p50_ps, (int, float)) or not _is_notable(facts, finding):
        return False
    few = FEW_WAITS * (steps.step_count or 0) * facts.device_count
    return 0 < steps.step_time_p50_ps <= SHORT_STEP_PS and facts.launch_waits <= few


def has_many_kernels(facts: DiagnosisFacts, _finding: Finding) -> bool:
    programs = facts.figures(reports.Steps).module_execution_count
    return bool(programs) and facts.kernels >= MANY * programs


def has_spare_memory(facts: DiagnosisFacts, _finding: Finding) -> bool:
    share = facts.figures(reports.MemoryProfile).peak_share
    return facts.hardware != CPU_ONLY and isinstance(share, float) and share < 0.5


def is_between_steps(facts: DiagnosisFacts, finding: Finding) -> bool:
    """Return whether half of the finding's time or more is outside of what the program marks as steps."""
    cost, steps = finding.cost_ps, facts.figures(reports.Steps)
    every = facts.sum_cause_time(finding.cause)
    inside = facts.per_device(every - facts.measure_time_between_steps(finding.cause))
    is_marked = bool(steps.step_count) and steps.steps_source in (MARKERS, LAUNCHED)
    return cost is not None and is_marked and 2 * inside <= cost


# ---- kernels


def has_single_precision(facts: DiagnosisFacts, _finding: Finding) -> bool:
    kernels = facts.columns(reports.KernelStats.kernels)
    every = read_array(kernels.total_ps, np.int64)
    single = np.array(find_single_precision(kernels), bool)
    return bool(every[single].sum() >= NOTABLE * every.sum() > 0)


def has_channels_first(facts: DiagnosisFacts, _finding: Finding) -> bool:
    """Return whether names of kernels or their ops have the layout with channels before height and width."""
    kernels = facts.columns(reports.KernelStats.kernels)
    return any(_FIRST.search(name or "") for column in (kernels.name, kernels.op_name) for name in column.to_pylist())


def is_on_nvidia(facts: DiagnosisFacts, _finding: Finding) -> bool:
    return facts.on_gpus and facts.maker == NVIDIA


def is_allocating(_facts: DiagnosisFacts, finding: Finding) -> bool:
    return finding.annotation is not None and _FROM_DEVICE.match(finding.annotation) is not None


# ---- communication and copies


def _list_sums(facts: DiagnosisFacts) -> tuple[list[reports.Communication.operations], float]:
    """Return all-reduces and reduce-scatters, and how many of them a device runs in a step.

    There are none if other collectives cost more."""
    rows = [row for row in facts.rows(reports.Communication.operations) if row.scope == BETWEEN_DEVICES]
    sums = [row for row in rows if "reduce" in row.kind]
    if 2 * sum(row.exposed_ps for row in sums) < sum(row.exposed_ps for row in rows):
        return [], 0.0
    devices = max((row.device_count for row in sums), default=0)
    steps = facts.figures(reports.Steps).step_count
    return sums, sum(row.occurrences for row in sums) / max(1, steps * devices) if steps else 0.0


def has_late_sum(facts: DiagnosisFacts, _finding: Finding) -> bool:
    rows, of_step = _list_sums(facts)
    hidden, every = sum(row.hidden_ps for row in rows), sum(row.total_ps for row in rows)
    return 0 < of_step <= FEW_SUMS and hidden < NOTABLE * every


def has_many_small_sums(facts: DiagnosisFacts, _finding: Finding) -> bool:
    rows, of_step = _list_sums(facts)
    sizes = [row.payload_bytes for row in rows]
    return of_step >= MANY and all(size is not None and size < SMALL_BYTES for size in sizes)


def has_copies_both_ways(facts: DiagnosisFacts, _finding: Finding) -> bool:
    """Return whether most of the longest waits for host ops lie between a copy to the host and a copy back."""
    pieces = facts.gaps.pieces("host_compute")
    beside = zip(pieces.before_op.tolist(), pieces.after_op.tolist(), pieces.duration_ps.tolist(), strict=True)
    copied = sum(
        time_ps for before, after, time_ps in beside if _TO_HOST.search(before or "") and _FROM_HOST.search(after or "")
    )
    return bool(len(pieces) and 2 * copied >= pieces.duration_ps.sum())


_TO_HOST: Final = compile_late(r"(?i:d(?:evice)?[ _-]?to?2?[ _-]?h(?:ost)?\b|D2H|DtoH|device_?to_?host)")
_FROM_HOST: Final = compile_late(r"(?i:h(?:ost)?[ _-]?to?2?[ _-]?d(?:evice)?\b|H2D|HtoD|host_?to_?device)")


_DATA: Final = "TensorFlow: Better performance with the tf.data API"
_GPU: Final = "TensorFlow: Optimize GPU performance with the Profiler"
_KERAS: Final = "TensorFlow: Optimize TensorFlow performance using the Profiler"
_JAX: Final = "JAX: GPU performance tips"
_TORCH: Final = "PyTorch: Performance Tuning Guide"


@dataclass(frozen=True, slots=True)
class Rule:
    """A piece of advice with its evidence.

    ``causes``: of findings that it serves; ``applies``: whether the capture has its evidence; ``texts``: by framework,
    UNKNOWN for frameworks without words of their own; a framework without a text does not get the advice. ``guide``:
    its source; ``only_gpus``: frameworks whose text is for CUDA or ROCm GPUs only."""

    name: str
    causes: tuple[str, ...]
    applies: Callable[[DiagnosisFacts, Finding], bool]
    texts: Mapping[str, str]
    guide: str
    only_gpus: tuple[str, ...] = ()

    def get_text(self, facts: DiagnosisFacts) -> str | None:
        if facts.framework in self.only_gpus and not facts.on_gpus:
            return None
        text = self.texts.get(facts.framework, self.texts.get(UNKNOWN)) or None
        return text and text.replace("Tensor Cores", get_matrix_units(facts.maker or NVIDIA))


def add_advice(facts: DiagnosisFacts, finding: Finding) -> Finding:
    """Add the advice of all rules that apply to the finding."""
    texts = [rule.get_text(facts) for rule in RULES if is_applicable(rule, facts, finding)]
    advice = " ".join([finding.advice, *(text for text in texts if text)])
    return replace(finding, advice=advice if facts.on_gpus else drop_gpu_advice(advice))


def is_applicable(rule: Rule, facts: DiagnosisFacts, finding: Finding) -> bool:
    """Return whether the rule serves the finding, has words for its framework, and its evidence is in the capture."""
    return finding.cause in rule.causes and rule.get_text(facts) is not None and rule.applies(facts, finding)


def _word_tf_data(text: str) -> dict[str, str]:
    """Return texts for programs that read with tf.data, which PyTorch programs do not."""
    return {TENSORFLOW: text, JAX: text, UNKNOWN: text, PYTORCH: ""}


RULES: Final = (
    Rule("prefetch", ("input",), has_no_prefetch, _word_tf_data(
        "The pipeline has no prefetch: end it with prefetch(tf.data.AUTOTUNE), so that batches are made while the "
        "device computes."), _DATA),
    Rule("vectorised_map", ("input",), has_map_of_elements, _word_tf_data(
        "The function of map runs once for each element and takes little time: put batch() before map(), so that one "
        "call handles a batch."), _DATA),
    Rule("cache", ("input",), has_repeat_without_cache, _word_tf_data(
        "The pipeline repeats its data and caches nothing: put cache() after the slow iterator and before repeat(), if "
        "the elements fit into memory and random changes come later."), _DATA),
    Rule("unordered", ("input",), is_waiting_for_order, _word_tf_data(
        "Parallel calls wait for earlier ones to keep the order: if the order does not matter, set "
        "tf.data.Options().deterministic = False."), _DATA),
    Rule("gpu_threads", ("launch", "small_ops"), has_input_beside_launches, {
        TENSORFLOW: "tf.data threads compete for cores with the threads that launch kernels: give launches private "
                    "threads with TF_GPU_THREAD_MODE=gpu_private, and give tf.data fewer threads with "
                    "options.threading.private_threadpool_size."}, _GPU, (TENSORFLOW,)),
    Rule("jit_compile", ("launch", "small_ops", "memory_bound"), has_no_xla, {
        TENSORFLOW: "XLA compiles nothing here: jit_compile=True of tf.function or Model.compile fuses ops, so that "
                    "fewer kernels are launched and fewer results pass through memory."}, _GPU),
    Rule("several_steps", ("launch",), has_short_steps, {
        TENSORFLOW: "Steps are short: steps_per_execution of Model.compile runs several of them in one call; in a "
            "custom loop, put several steps into one tf.function.",
        JAX: "Steps are short: run several of them in one call, with jax.lax.scan or fori_loop.",
        PYTORCH: "Steps are short: torch.compile(mode=\"reduce-overhead\") or a CUDA graph replays a step in one "
                 "launch."}, _KERAS, (PYTORCH,)),
    Rule("command_buffers", ("launch", "small_ops"), has_many_kernels, {
        JAX: "Each program launches many kernels: command buffers start them together (--xla_gpu_enable_command_buffer "
             "lists the kinds of ops that they may hold, such as FUSION,CUBLAS,CUSTOM_CALL)."}, _JAX, (JAX,)),
    Rule("sixteen_bits", ("memory_bound", "low_utilization", "low_occupancy"), has_single_precision, {
        JAX: "Matrix products run in 32 bits: bfloat16 moves half of the bytes and uses Tensor Cores.",
        TENSORFLOW: "Matrix products run in 32 bits: the policy mixed_float16 or mixed_bfloat16 of "
                    "keras.mixed_precision moves half of the bytes and uses Tensor Cores.",
        PYTORCH: "Matrix products run in 32 bits: torch.autocast moves half of the bytes and uses Tensor Cores.",
        UNKNOWN: "Matrix products run in 32 bits: 16-bit types move half of the bytes and use Tensor Cores."}, _GPU),
    Rule("channels_last", ("layout",), has_channels_first, {
        JAX: "Convolutions get NCHW: use dimension_numbers=(\"NHWC\", \"HWIO\", \"NHWC\").",
        TENSORFLOW: "Convolutions run in NCHW: data_format=\"channels_last\" and 16-bit types need no transposes.",
        PYTORCH: "Convolutions get NCHW: call to(memory_format=torch.channels_last) on the model and its input.",
        UNKNOWN: "Convolutions get NCHW: store images as NHWC."}, _TORCH),
    Rule("l2_fetch", ("memory_bound",), is_on_nvidia, {
        TENSORFLOW: "Let the L2 cache fetch 128 bytes at a time: cudaDeviceSetLimit(cudaLimitMaxL2FetchGranularity, "
                    "128) of libcudart, through ctypes, before the first op."}, _GPU),
    Rule("memory_growth", ("memory_pressure",), is_allocating, {
        TENSORFLOW: "The allocator takes memory from the device during steps: let it take all memory at the start, "
                    "without set_memory_growth and TF_FORCE_GPU_ALLOW_GROWTH.",
        JAX: "The allocator takes memory from the device during steps: leave XLA_PYTHON_CLIENT_PREALLOCATE at true, "
             "and do not set XLA_PYTHON_CLIENT_ALLOCATOR=platform.",
        PYTORCH: "The allocator takes memory from the device during steps: do not call torch.cuda.empty_cache() in the "
                 "loop."}, _GPU),
    Rule("larger_batch", ("launch", "small_ops", "low_utilization", "low_occupancy"), has_spare_memory, {
        UNKNOWN: "More than half of the device's memory stays free: larger batches give it more work for each launch."},
        _GPU),
    Rule("between_steps", ("python", "callback"), is_between_steps, {
        TENSORFLOW: "Most of it is between steps: let Keras callbacks and metrics work every N batches or once an "
                    "epoch.",
        JAX: "Most of it is between steps: start the next step before metrics of this one are read or logged, and do "
             "that every N steps.",
        UNKNOWN: "Most of it is between steps: log and measure every N steps."}, _KERAS),
    Rule("overlap", ("communication",), has_late_sum, {
        TENSORFLOW: "A single all-reduce runs after all compute: with tf.distribute, a smaller "
                    "CommunicationOptions(bytes_per_pack=…) overlaps it with the backward pass.",
        JAX: "A single all-reduce runs after all compute: several smaller ones (on GPUs with a smaller "
             "--xla_gpu_all_reduce_combine_threshold_bytes) overlap with the backward pass.",
        PYTORCH: "A single all-reduce runs after all compute: a smaller bucket_cap_mb of DistributedDataParallel "
                 "overlaps it with the backward pass."}, _JAX),
    Rule("combine", ("communication",), has_many_small_sums, {
        TENSORFLOW: "All-reduces are many and small: a larger CommunicationOptions(bytes_per_pack=…) joins them.",
        JAX: "All-reduces are many and small: larger combine thresholds join them (on GPUs "
             "--xla_gpu_all_reduce_combine_threshold_bytes, for example).",
        PYTORCH: "All-reduces are many and small: a larger bucket_cap_mb joins them."}, _JAX),
    Rule("between_device_ops", ("host_compute",), has_copies_both_ways, {
        TENSORFLOW: "The op needs a copy to the host and one back: many have no GPU kernel for strings and 32-bit "
                    "integers; choose another type or op, or compute it in the tf.data pipeline.",
        UNKNOWN: "The op needs a copy to the host and one back: compute it on the device, or before the step."}, _GPU),
)  # fmt: skip
"""All rules, in the order in which their sentences are shown."""


@dataclass(frozen=True, slots=True)
class Unrecorded:
    """Something that a capture does not record. ``causes``: causes that it may hide, separated by commas."""

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
    TENSORFLOW_1: "Its profiler records no Python: use a Python profiler, such as cProfile.",
    JAX: "Set ProfileOptions.python_tracer_level = 1.",
    TENSORFLOW: "Start the profiler with ProfilerOptions(python_tracer_level=1).",
    PYTORCH: "Start the profiler with with_stack=True.",
    UNKNOWN: "Enable the profiler's Python tracer.",
}
_HOST: Final = {
    TENSORFLOW_1: _TRACE,
    JAX: "Set ProfileOptions.host_tracer_level = 2.",
    TENSORFLOW: "Start the profiler with ProfilerOptions(host_tracer_level=2).",
    PYTORCH: "Also record the activity CPU.",
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
    "record_shapes=True gives the work of matrix products, convolutions and attention; PyTorch's profiler has no "
    "option for other kernels: measure the longest with {}."
)
_WORK_OF_OTHERS: Final = (
    "The work of matrix products is known from their shapes. PyTorch's profiler has no option for the work of other "
    "kernels: measure the longest with {}."
)
_NSIGHT, _ROCM = "NVIDIA Nsight Compute", "ROCm Compute Profiler"
_TOOLS: Final = {NVIDIA: _NSIGHT, AMD: _ROCM, "XPU": "Intel unitrace", "NPU": "msprof", GPU: f"{_NSIGHT} or {_ROCM}"}
_ANY_TOOL: Final = "the device vendor's profiler"
"""Kernel profilers by GPU vendor or device kind."""


_OF_DEVICES: Final = (
    "transfer, communication, straggler, launch, queue, between_kernels, small_ops, memory_bound, low_occupancy, "
    "low_utilization, precision, layout, idle"
)
"""Causes shown by device activity."""


_OF_HOSTS: Final = (
    "input, compilation, launch, python, callback, checkpoint, evaluation, logging, lock, garbage_collection, "
    "host_compute"
)
"""Causes shown by host thread events."""
_OF_LAUNCHES: Final = ("launch", "queue", "between_kernels")
_OF_WORK: Final = ("memory_bound", "low_utilization")


def list_unproven_causes(facts: DiagnosisFacts, *, has_launches: bool) -> Iterator[tuple[str, str]]:
    """Yield GPU causes without evidence in the capture, and the missing records."""
    if facts.hardware != GPU:
        return
    kernels = facts.columns(reports.KernelStats.kernels)
    if not has_launches:
        yield from ((cause, "the capture has no launches of GPU work") for cause in _OF_LAUNCHES)
    if not facts.figures(reports.OpStats).host_total_ps:
        yield "host_compute", "the capture has no host thread ops"
    unknown = facts.figures(reports.HloStats).unknown_work_share
    if not isinstance(unknown, float) or unknown > MOST_UNKNOWN:
        yield from ((cause, TOO_MUCH) for cause in _OF_WORK)
    if kernels.occupancy_percent.null_count == len(kernels.name):
        yield "low_occupancy", "no kernel occupancy is recorded"
    if kernels.op_name.null_count == len(kernels.name):
        yield "precision", "no kernel's op is known"
        if facts.framework != PYTORCH:  # whose kernels say it by their names
            yield "elementwise", "no kernel's op is known"


def list_unrecorded(
    facts: DiagnosisFacts, flaws: Sequence[Flaw], *, has_threads: bool, has_python: bool
) -> Iterator[Unrecorded]:
    """Yield what the capture does not record.

    ``flaws``: missing records; ``has_threads``, ``has_python``: whether it has events of host threads, and of Python
    functions."""

    def choose_text(texts: dict[str, str]) -> str:
        return texts.get(facts.framework, texts[UNKNOWN])

    for flaw in flaws:
        if flaw.hides_devices:
            what = "some activity of devices" if facts.window_ps else "activity of devices"
            yield Unrecorded(f"{what}: {flaw.text}", _OF_DEVICES if not facts.window_ps else "idle", flaw.remedy)
    if not facts.figures(reports.Steps).step_count:
        yield Unrecorded("steps", "slow_step, slowdown, straggler, tail, silent", choose_text(_STEPS))
    levels = facts.levels
    if not has_threads:
        was = "" if levels is None else f" host_tracer_level was {levels.host}."
        yield Unrecorded("host threads", _OF_HOSTS, (facts.name_flags(host=2) or choose_text(_HOST)) + was)
    elif not has_python:
        was = "" if levels is None else " python_tracer_level was 0."
        record_python = facts.name_flags(python=1) or choose_text(_PYTHON)
        text = _NO_PYTHON if levels is not None and levels.python else record_python + was
        yield Unrecorded("Python functions", "python, input, lock, garbage_collection, checkpoint", text)
    if facts.hardware == CPU_ONLY:
        return
    if not facts.figures(reports.MemoryProfile).snapshot_count:
        at_level = levels is not None and levels.host >= ALL_OF_HOST
        yield Unrecorded("allocations", "memory_pressure", _NO_ALLOCATIONS if at_level else choose_text(_ALLOCATIONS))
    if facts.framework == PYTORCH and facts.hardware == GPU:
        tool = _TOOLS.get(facts.maker or facts.device, _ANY_TOOL)
        shapes = "shapes" in facts.columns(reports.Roofline.ops).flops_source.to_pylist()
        yield Unrecorded("arithmetic and memory traffic of kernels", "padding, memory_bound, low_utilization",
                         (_WORK_OF_OTHERS if shapes else _WORK).format(tool))  # fmt: skip
    elif not facts.figures(reports.HloStats).program_count:
        yield Unrecorded("programs", "padding, memory_bound, low_utilization", choose_text(_PROGRAMS))
    elif facts.figures(reports.Roofline).peak_flops_per_s is None:
        yield Unrecorded("peaks of the device", "memory_bound, low_utilization, precision",
                         "Give the model of the device with --device, or its peaks with --peak.")  # fmt: skip
