"""What the guides of frameworks advise, each item with the evidence that makes it apply.

A rule adds sentences to the advice of a finding, if the capture has its evidence, in the words of the framework that
made the capture. docs/analyses/diagnosis.md lists the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from fastprof.analyses.findings import evidence as shows
from fastprof.analyses.findings.advice import without_gpus
from fastprof.analyses.findings.facts import Facts
from fastprof.analyses.findings.finding import Finding
from fastprof.derive.devices.framework import JAX, PYTORCH, TENSORFLOW, UNKNOWN
from fastprof.derive.devices.tensor_cores import NVIDIA, units_of
from fastprof.schema.value_classes import dataclass

_DATA: Final = "TensorFlow: Better performance with the tf.data API"
_GPU: Final = "TensorFlow: Optimize GPU performance with the Profiler"
_KERAS: Final = "TensorFlow: Optimize TensorFlow performance using the Profiler"
_JAX: Final = "JAX: GPU performance tips"
_TORCH: Final = "PyTorch: Performance Tuning Guide"


@dataclass(frozen=True, slots=True)
class Rule:
    """``causes``: of the findings that it serves; ``texts``: by framework, UNKNOWN: for those without words of their
    own; a framework without a text does not get the advice. ``guide``: where it comes from; ``only_gpus``: frameworks
    whose text is for GPUs of CUDA or ROCm only."""

    name: str
    causes: tuple[str, ...]
    applies: Callable[[Facts, Finding], bool]
    texts: Mapping[str, str]
    guide: str
    only_gpus: tuple[str, ...] = ()

    def text(self, facts: Facts) -> str | None:
        if facts.framework in self.only_gpus and not facts.on_gpus:
            return None
        text = self.texts.get(facts.framework, self.texts.get(UNKNOWN)) or None
        return text and text.replace("Tensor Cores", units_of(facts.maker or NVIDIA))


def advised(facts: Facts, finding: Finding) -> Finding:
    """The finding with the advice of all rules that apply to it."""
    texts = [rule.text(facts) for rule in RULES if applies(rule, facts, finding)]
    advice = " ".join([finding.advice, *(text for text in texts if text)])
    return replace(finding, advice=advice if facts.on_gpus else without_gpus(advice))


def applies(rule: Rule, facts: Facts, finding: Finding) -> bool:
    """Whether the capture has the evidence of a rule that serves the finding, and the rule words for its framework."""
    return finding.cause in rule.causes and rule.text(facts) is not None and rule.applies(facts, finding)


def _of_tf_data(text: str) -> dict[str, str]:
    """For programs that read with tf.data: those of TensorFlow and JAX do."""
    return {TENSORFLOW: text, JAX: text, UNKNOWN: text, PYTORCH: ""}


RULES: Final = (
    Rule("prefetch", ("input",), shows.no_prefetch, _of_tf_data(
        "The pipeline has no prefetch: end it with prefetch(tf.data.AUTOTUNE), so that batches are made while the "
        "device computes."), _DATA),
    Rule("vectorised_map", ("input",), shows.map_of_single_elements, _of_tf_data(
        "The function of map runs once for each element and takes little time: put batch() before map(), so that one "
        "call handles a batch."), _DATA),
    Rule("cache", ("input",), shows.repeats_without_cache, _of_tf_data(
        "The pipeline repeats its data and caches nothing: put cache() after the slow iterator and before repeat(), if "
        "the elements fit into memory and random changes come later."), _DATA),
    Rule("unordered", ("input",), shows.waits_for_order, _of_tf_data(
        "Parallel calls wait for earlier ones to keep the order: if the order does not matter, set "
        "tf.data.Options().deterministic = False."), _DATA),
    Rule("gpu_threads", ("launch", "small_ops"), shows.input_beside_launches, {
        TENSORFLOW: "Threads of tf.data work meanwhile and take cores from those that launch kernels: give these "
                    "threads of their own with TF_GPU_THREAD_MODE=gpu_private, and tf.data fewer with "
                    "options.threading.private_threadpool_size."}, _GPU, (TENSORFLOW,)),
    Rule("jit_compile", ("launch", "small_ops", "memory_bound"), shows.no_xla, {
        TENSORFLOW: "XLA compiles nothing here: jit_compile=True of tf.function or Model.compile fuses ops, so that "
                    "fewer kernels are launched and fewer results pass through memory."}, _GPU),
    Rule("several_steps", ("launch",), shows.short_steps, {
        TENSORFLOW: "Steps are short: steps_per_execution of Model.compile runs several of them in one call; in a loop "
                    "of your own, put several into one tf.function.",
        JAX: "Steps are short: run several of them in one call, with jax.lax.scan or fori_loop.",
        PYTORCH: "Steps are short: torch.compile(mode=\"reduce-overhead\") or a CUDA graph replays a step in one "
                 "launch."}, _KERAS, (PYTORCH,)),
    Rule("command_buffers", ("launch", "small_ops"), shows.many_kernels_of_programs, {
        JAX: "Each program launches many kernels: command buffers start them together (--xla_gpu_enable_command_buffer "
             "lists the kinds of ops that they may hold, such as FUSION,CUBLAS,CUSTOM_CALL)."}, _JAX, (JAX,)),
    Rule("sixteen_bits", ("memory_bound", "low_utilization", "low_occupancy"), shows.single_precision, {
        JAX: "Matrix products run in 32 bits: bfloat16 moves half of the bytes and uses Tensor Cores.",
        TENSORFLOW: "Matrix products run in 32 bits: the policy mixed_float16 or mixed_bfloat16 of "
                    "keras.mixed_precision moves half of the bytes and uses Tensor Cores.",
        PYTORCH: "Matrix products run in 32 bits: torch.autocast moves half of the bytes and uses Tensor Cores.",
        UNKNOWN: "Matrix products run in 32 bits: 16-bit types move half of the bytes and use Tensor Cores."}, _GPU),
    Rule("channels_last", ("layout",), shows.channels_first, {
        JAX: "Convolutions get NCHW: use dimension_numbers=(\"NHWC\", \"HWIO\", \"NHWC\").",
        TENSORFLOW: "Convolutions run in NCHW: data_format=\"channels_last\" and 16-bit types need no transposes.",
        PYTORCH: "Convolutions get NCHW: call to(memory_format=torch.channels_last) on the model and its input.",
        UNKNOWN: "Convolutions get NCHW: store images as NHWC."}, _TORCH),
    Rule("l2_fetch", ("memory_bound",), shows.bandwidth_of_nvidia, {
        TENSORFLOW: "Let the L2 cache fetch 128 bytes at a time: cudaDeviceSetLimit(cudaLimitMaxL2FetchGranularity, "
                    "128) of libcudart, through ctypes, before the first op."}, _GPU),
    Rule("memory_growth", ("memory_pressure",), shows.allocates_from_device, {
        TENSORFLOW: "The allocator takes memory from the device during steps: let it take it all at the start, without "
                    "set_memory_growth and TF_FORCE_GPU_ALLOW_GROWTH.",
        JAX: "The allocator takes memory from the device during steps: leave XLA_PYTHON_CLIENT_PREALLOCATE at true, "
             "and do not set XLA_PYTHON_CLIENT_ALLOCATOR=platform.",
        PYTORCH: "The allocator takes memory from the device during steps: do not call torch.cuda.empty_cache() in the "
                 "loop."}, _GPU),
    Rule("larger_batch", ("launch", "small_ops", "low_utilization", "low_occupancy"), shows.memory_to_spare, {
        UNKNOWN: "More than half of the device's memory stays free: larger batches give it more work for each launch."},
        _GPU),
    Rule("between_steps", ("python", "callback"), shows.between_steps, {
        TENSORFLOW: "Most of it is between steps: let Keras callbacks and metrics work every N batches or once an "
                    "epoch.",
        JAX: "Most of it is between steps: start the next step before metrics of this one are read or logged, and do "
             "that every N steps.",
        UNKNOWN: "Most of it is between steps: log and measure every N steps."}, _KERAS),
    Rule("overlap", ("communication",), shows.one_sum_after_compute, {
        TENSORFLOW: "One sum a step starts after all compute: with tf.distribute, a smaller "
                    "CommunicationOptions(bytes_per_pack=…) lets first gradients be summed during the backward pass.",
        JAX: "One sum a step starts after all compute: several smaller ones (on GPUs with a smaller "
             "--xla_gpu_all_reduce_combine_threshold_bytes) let first gradients be summed during the backward pass.",
        PYTORCH: "One sum a step starts after all compute: a smaller bucket_cap_mb of DistributedDataParallel lets the "
                 "first gradients be summed during the backward pass."}, _JAX),
    Rule("combine", ("communication",), shows.many_small_sums, {
        TENSORFLOW: "Sums are many and small: a larger CommunicationOptions(bytes_per_pack=…) joins them.",
        JAX: "Sums are many and small: larger combine thresholds join them (on GPUs "
             "--xla_gpu_all_reduce_combine_threshold_bytes and its like).",
        PYTORCH: "Sums are many and small: a larger bucket_cap_mb joins them."}, _JAX),
    Rule("between_device_ops", ("host_compute",), shows.copies_both_ways, {
        TENSORFLOW: "The op needs a copy to the host and one back: many have no GPU kernel for strings and 32-bit "
                    "integers; choose another type or op, or compute it in the tf.data pipeline.",
        UNKNOWN: "The op needs a copy to the host and one back: compute it on the device, or before the step."}, _GPU),
)  # fmt: skip
"""In the order in which their sentences are shown."""
