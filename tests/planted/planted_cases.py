"""Every run of the examination: its framework, its device, what is planted in it and what that costs.

Recorded runs are those of benchmarks/planted, whose programs measure what is planted; written ones are made here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jax_gpu_runs
import tf_gpu_runs
import tpu_runs
from gpu_machine import Written

HERE = Path(__file__).resolve().parent
RECORDED = HERE / "recorded"
JAX, TENSORFLOW, PYTORCH = "JAX", "TensorFlow", "PyTorch"
CPU, GPU, TPU = "CPU", "GPU", "TPU"
NONE = ""
"""The cause of a healthy run."""


@dataclass(frozen=True)
class Case:
    """``cause``: one of the closed list, or NONE. ``make``: of a written run; others are recorded in ``folder``."""

    name: str
    framework: str
    device: str
    cause: str
    make: Callable[[], Written] | None = None
    folder: Path = RECORDED

    def run(self) -> Written:
        return _recorded(self.folder, self.name) if self.make is None else _made(self.make)


@cache
def _made(make: Callable[[], Written]) -> Written:
    return make()


@cache
def _recorded(folder: Path, name: str) -> Written:
    measured = json.loads((folder / "measured.json").read_text())[name]
    (packed,) = folder.glob(f"{name}.*.gz")
    return Written({"host0": packed.read_bytes()}, measured["planted_ns"] * 1000, measured["run_ns"] * 1000)


PLANTED = (
    Case("jax_sleeping_batches", JAX, CPU, "input"),
    Case("jax_decoding_batches", JAX, CPU, "input"),
    Case("jax_python_between", JAX, CPU, "python"),
    Case("jax_changing_shapes", JAX, CPU, "compilation"),
    Case("jax_jit_in_loop", JAX, CPU, "compilation"),
    Case("jax_callback", JAX, CPU, "callback"),
    Case("jax_copies", JAX, CPU, "transfer"),
    Case("jax_small_calls", JAX, CPU, "small_ops"),
    Case("jax_slow_step", JAX, CPU, "slow_step"),
    Case("jax_lock", JAX, CPU, "lock"),
    Case("jax_garbage", JAX, CPU, "garbage_collection"),
    Case("jax_checkpoint", JAX, CPU, "checkpoint"),
    Case("tf_slow_map", TENSORFLOW, CPU, "input"),
    Case("tf_no_prefetch", TENSORFLOW, CPU, "input"),
    Case("tf_py_function", TENSORFLOW, CPU, "callback"),
    Case("tf_retracing", TENSORFLOW, CPU, "compilation"),
    Case("tf_eager", TENSORFLOW, CPU, "eager"),
    Case("tf_checkpoint", TENSORFLOW, CPU, "checkpoint"),
    Case("torch_sleeping_loader", PYTORCH, CPU, "input"),
    Case("torch_looping_optimizer", PYTORCH, CPU, "small_ops"),
    Case("torch_python_between", PYTORCH, CPU, "python"),
    Case("torch_checkpoint", PYTORCH, CPU, "checkpoint"),
    Case("torch_slow_step", PYTORCH, CPU, "slow_step"),
    Case("jax_evaluation", JAX, CPU, "evaluation"),
    Case("jax_next_rate", JAX, CPU, "python"),
    Case("jax_queued_batches", JAX, CPU, "input"),
    Case("torch_evaluation", PYTORCH, CPU, "evaluation"),
    Case("torch_metrics", PYTORCH, CPU, "logging"),
    Case("torch_read_config", PYTORCH, CPU, "python"),
    Case("torch_slow_workers", PYTORCH, CPU, "input"),
    Case("gpu_all_reduce", JAX, GPU, "communication", jax_gpu_runs.exposed_all_reduce),
    Case("gpu_slow_device", JAX, GPU, "straggler", jax_gpu_runs.slow_gpu),
    Case("gpu_late_launches", JAX, GPU, "launch", jax_gpu_runs.late_launches),
    Case("gpu_tiny_functions", JAX, GPU, "small_ops", jax_gpu_runs.tiny_functions),
    Case("gpu_few_warps", JAX, GPU, "low_occupancy", jax_gpu_runs.few_warps),
    Case("gpu_at_the_memory", JAX, GPU, "memory_bound", jax_gpu_runs.at_the_memory),
    Case("gpu_slow_iterator", TENSORFLOW, GPU, "input", tf_gpu_runs.slow_iterator),
    Case("gpu_copied_batches", TENSORFLOW, GPU, "transfer", tf_gpu_runs.copied_batches),
    Case("gpu_single_precision", TENSORFLOW, GPU, "precision", tf_gpu_runs.single_precision),
    Case("gpu_transposed_images", TENSORFLOW, GPU, "layout", tf_gpu_runs.transposed_images),
    Case("gpu_op_on_the_host", TENSORFLOW, GPU, "host_compute", tf_gpu_runs.op_on_the_host),
    Case("gpu_eager_ops", TENSORFLOW, GPU, "eager", tf_gpu_runs.eager_ops),
    Case("gpu_allocated_each_step", TENSORFLOW, GPU, "memory_pressure", tf_gpu_runs.allocated_each_step),
    Case("gpu_read_back", TENSORFLOW, GPU, "transfer", tf_gpu_runs.read_back),
    Case("gpu_validated", TENSORFLOW, GPU, "evaluation", tf_gpu_runs.validated),
    Case("gpu_saved_states", TENSORFLOW, GPU, "checkpoint", tf_gpu_runs.saved_states),
    Case("gpu_long_step", TENSORFLOW, GPU, "slow_step", tf_gpu_runs.long_step),
    Case("tpu_all_reduce", JAX, TPU, "communication", tpu_runs.exposed_all_reduce),
    Case("tpu_slow_chip", JAX, TPU, "straggler", tpu_runs.slow_chip),
    Case("tpu_slow_host", JAX, TPU, "straggler", tpu_runs.slow_host),
    Case("tpu_late_infeed", TENSORFLOW, TPU, "input", tpu_runs.late_infeed),
    Case("tpu_ragged_channels", JAX, TPU, "padding", tpu_runs.ragged_channels),
    Case("tpu_offloaded_weights", JAX, TPU, "transfer", tpu_runs.offloaded_weights),
    Case("tpu_outside_compilation", JAX, TPU, "outside_compilation", tpu_runs.outside_compilation),
    Case("tpu_idle_units", JAX, TPU, "low_utilization", tpu_runs.idle_units),
)
HEALTHY = (
    Case("jax_well_fed", JAX, CPU, NONE),
    Case("jax_scanned", JAX, CPU, NONE),
    Case("tf_prefetched", TENSORFLOW, CPU, NONE),
    Case("torch_well_fed", PYTORCH, CPU, NONE),
    Case("gpu_at_its_peak", JAX, GPU, NONE, jax_gpu_runs.at_its_peak),
    Case("gpu_as_good_as_it_gets", JAX, GPU, NONE, jax_gpu_runs.as_good_as_it_gets),
    Case("gpu_alone_at_the_memory", JAX, GPU, NONE, jax_gpu_runs.alone_at_the_memory),
    Case("gpu_fed_in_time", TENSORFLOW, GPU, NONE, tf_gpu_runs.fed_in_time),
    Case("tpu_hidden_all_reduce", JAX, TPU, NONE, tpu_runs.hidden_all_reduce),
)
