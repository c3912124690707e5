"""Advice on each cause, in words of the framework that made the capture, and for its devices only.

Sources: TensorFlow's guides to the profiler, GPU performance and data performance; JAX's tips for GPUs and its guide to
profiling; PyTorch's tuning guide.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fastprof.derive.devices.op_names import JAX, PYTORCH, TENSORFLOW, TENSORFLOW_1, UNKNOWN
from fastprof.wording.patterns import compile_late

WITHOUT_TF32: Final = "precision without TF32"
"""Advice on precision, on a GPU before Ampere."""
OLD_KERNELS: Final = "precision by kernels of families before Ampere"
"""Advice on precision, on a GPU whose generation is not recorded."""
ON_AMD: Final = "precision on AMD"
"""Advice on precision, on an AMD GPU."""

ON_CPU: Final = {cause: f"{cause} on the CPU" for cause in ("input", "python", "idle")}
"""Advice on causes that differ for a program that uses no device."""

OF_LOADER, OF_LOADER_ON_CPU = "input of a DataLoader", "input of a DataLoader on the CPU"
"""Advice on input, if the program waits for a DataLoader."""
WITH_WORKERS: Final = "input of a loader with workers"
"""Advice on input, if the slow loader has workers already."""
OF_PYTHON: Final = "input of a Python function"
"""Advice on input, if a function of Python loads it for TensorFlow."""
OF_QUEUE: Final = "input of a queue"
"""Advice on input, if the program waits for a queue that another thread or process fills."""

TO_DEVICE: Final = "transfer to the device"
TO_HOST: Final = "transfer to the host"
"""Advice on transfer, if copies of one direction take nearly all of the time."""
REGULAR_STEPS: Final = "slow steps at regular distances"
"""Advice on slow steps, if each N-th step is one."""
MORE_THAN_COMPUTE: Final = "transfer that no compute can hide"
"""Advice on transfer, if copies take nearly all of the time, or far longer than compute."""

_IF_OLD: Final = (
    "The GPU's generation is not recorded. Kernel names suggest one before Ampere, whose Tensor Cores have neither "
    "TF32 nor bfloat16."
)

_TEXTS: Final[dict[str, dict[str, str]]] = {
    "input": {
        UNKNOWN: "Prepare batches in the background while the device computes, and start the next before it is needed.",
        JAX: "Load the next batch while the device computes: in a background thread or process (Grain, a tf.data "
             "pipeline), with jax.device_put called one or two batches ahead.",
        TENSORFLOW: "Read with tf.data and end the pipeline with prefetch(tf.data.AUTOTUNE); run map and interleave "
                    "with num_parallel_calls=tf.data.AUTOTUNE, and cache() constant data.",
        PYTORCH: "Load batches ahead, on other threads or processes, and move them from pinned memory with "
                 "non_blocking=True.",
    },
    OF_LOADER: {
        UNKNOWN: "Give the DataLoader num_workers > 0, pin_memory=True and persistent_workers=True, and move batches "
                 "with non_blocking=True.",
    },
    OF_LOADER_ON_CPU: {
        UNKNOWN: "Give the DataLoader num_workers > 0, persistent_workers=True and a larger prefetch_factor; do less "
                 "in __getitem__ and collate_fn, or do it once before the training.",
    },
    WITH_WORKERS: {
        UNKNOWN: "The workers of the DataLoader are slower than the steps: add workers if cores are free "
                 "(num_workers), a larger prefetch_factor, and less to do in __getitem__ and collate_fn. Workers are "
                 "other processes, which are not recorded: run once with num_workers=0 to see the slow function.",
    },
    OF_PYTHON: {
        UNKNOWN: "Threads run Python one at a time: load in processes (workers and use_multiprocessing=True of "
                 "keras.utils.PyDataset), or with tf.data, whose ops need no Python.",
    },
    OF_QUEUE: {
        UNKNOWN: "The queue fills more slowly than steps consume it: let more threads or processes fill it, or do "
                 "less work for each batch.",
    },
    "compilation": {
        UNKNOWN: "Compile once: keep shapes and types of arguments the same from step to step.",
        JAX: "Define jitted functions once, outside of the loop; keep shapes and dtypes (pad the last batch); "
             "make Python arguments that change arrays instead of static ones. jax.config.update("
             "\"jax_log_compiles\", True) names what compiles; jax_compilation_cache_dir keeps programs for later.",
        TENSORFLOW: "Define tf.functions once, outside of the loop; pass tensors instead of Python numbers, fix shapes "
                    "with input_signature or reduce_retracing=True, and drop the remainder of the last batch.",
        PYTORCH: "Keep shapes constant, or mark changing dimensions with torch._dynamo.mark_dynamic; TORCH_LOGS="
                 "recompiles names the guard that failed.",
    },
    "transfer": {
        UNKNOWN: "Keep data on the device between steps, and overlap the copies that remain with compute.",
        JAX: "Keep arrays on the device: donate arguments (donate_argnums), read metrics every N steps instead of each "
             "(np.asarray, float and print wait for a copy), and call jax.device_put ahead of use. If parameters or "
             "activations are offloaded to host memory, offload less or start the copies earlier.",
        TENSORFLOW: "Keep tensors on the device: do not call .numpy() in the loop, run several steps per call "
                    "(steps_per_execution), and prefetch to the device with tf.data.experimental.prefetch_to_device.",
        PYTORCH: "Avoid .item(), .cpu() and print of tensors in the loop; copy from pinned memory with "
                 "non_blocking=True.",
    },
    TO_DEVICE: {
        UNKNOWN: "Keep data on the device between steps, copy batches ahead of use, and overlap the copies that remain "
                 "with compute.",
        JAX: "Keep arrays on the device: donate arguments (donate_argnums), and call jax.device_put ahead of use. If "
             "parameters or activations are offloaded to host memory, offload less or start the copies earlier.",
        TENSORFLOW: "Copy ahead of use: tf.data.experimental.prefetch_to_device; keep constant data on the device.",
        PYTORCH: "Create tensors on the device (device=…) instead of moving them, and copy batches ahead of use, from "
                 "pinned memory with non_blocking=True.",
    },
    TO_HOST: {
        UNKNOWN: "Read results every N steps instead of each, or those of an earlier step.",
        JAX: "Read metrics every N steps instead of each (np.asarray, float and print wait for a copy). If parameters "
             "or activations are offloaded to host memory, offload less.",
        TENSORFLOW: "Do not call .numpy() in the loop, and run several steps per call (steps_per_execution).",
        PYTORCH: "Avoid .item(), .cpu() and print of tensors in the loop; copy with non_blocking=True, and read "
                 "results a step later.",
    },
    MORE_THAN_COMPUTE: {
        UNKNOWN: "Move fewer bytes: copies take far longer than compute, or nearly all of the time, so that compute "
                 "cannot hide them. Keep data on the device between steps, and copy smaller types.",
        JAX: "Move fewer bytes: copies take far longer than compute, or nearly all of the time, so that compute cannot "
             "hide them. Keep arrays on the device (donate_argnums) and copy 16-bit types. If parameters or "
             "activations are offloaded to host memory, offload less: shard over more devices, or rematerialise with "
             "jax.checkpoint.",
    },
    "communication": {
        UNKNOWN: "Overlap collectives with compute, send fewer bytes (16-bit gradients), or shard differently.",
        JAX: "Let XLA overlap: the latency hiding scheduler (--xla_gpu_enable_latency_hiding_scheduler=true on GPUs), "
             "larger combine thresholds for all-reduce; or shard so that less is exchanged.",
        TENSORFLOW: "Let gradients be reduced while the backward pass runs (tf.distribute packs them; see "
                    "CommunicationOptions.bytes_per_pack), and reduce in 16 bits.",
        PYTORCH: "Start collectives earlier and overlap them with compute (async_op=True); send fewer bytes (16-bit "
                 "types).",
    },
    "slowest host": {
        UNKNOWN: "Find out why the slowest host is slower: more work, a slower clock, or late input.",
    },
    "straggler": {
        UNKNOWN: "Find out why the slowest device is late: uneven work, a slower clock, or a host that launches later.",
    },
    "launch": {
        UNKNOWN: "Give the device more work per launch: larger batches, or fused and compiled steps.",
        JAX: "Put the whole step under one jax.jit, or use larger batches.",
        TENSORFLOW: "Give the device more work per launch: larger batches, or larger tf.functions.",
        PYTORCH: "Give the device more work per launch: larger batches, torch.compile, which fuses ops, or CUDA graphs "
                 "(torch.compile(mode=\"reduce-overhead\"), torch.cuda.graph).",
    },
    "queue": {
        UNKNOWN: "The host launched it in time. Find the work that it is queued behind: earlier work of its stream, "
                 "an event of another stream, another device or process. The timeline shows the longest of these gaps.",
        PYTORCH: "The host launched it in time, so CUDA graphs and larger batches do not help. Find the work that it "
                 "is queued behind: a collective of other ranks, an event of another stream, another process. "
                 "enable_cuda_sync_events=True in the experimental_config of the profiler records waits of streams; "
                 "record all ranks.",
    },
    "between_kernels": {
        UNKNOWN: "Each change from one kernel to the next takes the device about a microsecond: use fewer, larger "
                 "kernels.",
        JAX: "Each change from one kernel to the next takes the device about a microsecond: put more of the step under "
             "one jax.jit, so that XLA fuses ops, and let it launch CUDA graphs (command buffers).",
        PYTORCH: "Each change from one kernel to the next takes the device about a microsecond: torch.compile fuses "
                 "kernels, CUDA graphs (torch.compile(mode=\"reduce-overhead\"), torch.cuda.graph) shorten changes.",
    },
    "small_ops": {
        UNKNOWN: "Combine small ops: each costs more to start than to run.",
        JAX: "Put the loop under one jax.jit (lax.scan, vmap), so that XLA fuses the ops and starts them once.",
        TENSORFLOW: "Put the ops into one tf.function.",
        PYTORCH: "Use torch.compile, or fused versions of ops and optimizers (foreach=True, fused=True).",
    },
    "python": {
        UNKNOWN: "Move this Python work out of the step, or do it while the device computes.",
        JAX: "Dispatch is asynchronous: start the next step before this Python work, and read results of an earlier "
             "step. Move repeated work into jax.jit.",
        TENSORFLOW: "Move it into a tf.function, or do it every N steps.",
        PYTORCH: "Do it while the device computes: launch the next step first, and do not synchronise in between.",
    },
    "silent": {
        UNKNOWN: "Record Python functions: the host's work in this time is not recorded.",
        PYTORCH: "Start the profiler with with_stack=True, which shows whether Python runs. Otherwise an autograd "
                 "thread may wait, or the work is not recorded.",
    },
    "synchronization": {
        UNKNOWN: "Launch further work before the host waits for the device.",
        PYTORCH: "Keep values on the device: .item(), .tolist(), .cpu(), nonzero() and conditions on tensors wait for "
                 "it. Read them once per step, after the next work is launched. with_stack=True shows the lines.",
    },
    "tail": {
        UNKNOWN: "The profiler may be stopping: exclude this time when you compare steps.",
    },
    "host_compute": {
        UNKNOWN: "Run these ops on the device, or before the step.",
        TENSORFLOW: "Place these ops on the device (tf.debugging.set_log_device_placement(True) shows why they are "
                    "not), or move them into the input pipeline.",
        JAX: "Move this work into the jitted function, or ahead of the step.",
    },
    "eager": {
        UNKNOWN: "Compile the step instead of executing op by op.",
        JAX: "Put the step under jax.jit: outside of it each operation is dispatched by itself.",
        TENSORFLOW: "Wrap the step in tf.function; run_eagerly must be False.",
        PYTORCH: "Use torch.compile for the step.",
    },
    "elementwise": {
        UNKNOWN: "Fuse them: one kernel reads and writes each array once.",
        JAX: "Put the ops under one jax.jit: XLA fuses elementwise ops with each other and with reductions beside "
             "them, so that each array is read and written once.",
        TENSORFLOW: "jit_compile=True of tf.function or Model.compile fuses elementwise ops with each other and with "
                    "reductions beside them, so that each tensor is read and written once.",
        PYTORCH: "torch.compile fuses elementwise ops with each other and with reductions beside them, so that each "
                 "tensor is read and written once; normalisations and optimizers also have fused versions.",
    },
    "callback": {
        UNKNOWN: "Call back to the host less often: the device waits for it.",
        JAX: "Replace jax.pure_callback, io_callback and debug.print in the step by device code, or call them every N "
             "steps.",
        TENSORFLOW: "Replace tf.py_function and tf.numpy_function by TensorFlow ops; run Keras callbacks per epoch.",
    },
    "checkpoint": {
        UNKNOWN: "Save less often, or in the background.",
        JAX: "Save with an asynchronous checkpointer (Orbax AsyncCheckpointer), and less often.",
        TENSORFLOW: "Save less often, or with CheckpointOptions(enable_async=True).",
        PYTORCH: "Use torch.distributed.checkpoint.async_save, and save less often.",
    },
    "evaluation": {
        UNKNOWN: "Evaluate less often, on fewer batches, or in a job of its own.",
        JAX: "Evaluate less often or on fewer batches; jit the evaluation step, and read its metrics once at the end.",
        TENSORFLOW: "Evaluate less often (validation_freq) or on fewer batches (validation_steps).",
        PYTORCH: "Evaluate less often or on fewer batches, under torch.inference_mode(), with batches as large as fit.",
    },
    "logging": {
        UNKNOWN: "Log every N steps, and read metrics of an earlier step, so that the program need not wait for the "
                 "device.",
        JAX: "Log every N steps; compute metrics in the jitted step, and read those of an earlier step.",
        TENSORFLOW: "Log every N steps (update_freq of the TensorBoard callback), and compute metrics in the "
                    "tf.function.",
        PYTORCH: "Log every N steps; sum metrics on the device, and call .item() only when they are logged.",
    },
    "lock": {
        UNKNOWN: "Hold the lock for less time, or keep other threads from taking it while a step starts.",
        TENSORFLOW: "Load data in processes (keras.utils.PyDataset with workers and use_multiprocessing=True) or with "
        "tf.data: TensorFlow calls (TFE_Py) wait for the GIL while other threads, such as data loading threads, run "
        "Python.",
    },
    "garbage_collection": {
        UNKNOWN: "Call gc.freeze() after set-up and collect at set times (gc.disable(), then gc.collect() every N "
                 "steps); create fewer objects in the loop.",
    },
    "memory_pressure": {
        UNKNOWN: "Leave memory free: smaller batches, rematerialisation, or 16-bit activations.",
        JAX: "Donate arguments (donate_argnums), rematerialise with jax.checkpoint, or use smaller batches; allocate "
             "once instead of in each step.",
        TENSORFLOW: "Use smaller batches or tf.recompute_grad; TF_GPU_ALLOCATOR=cuda_malloc_async reduces "
                    "fragmentation.",
        PYTORCH: "Use PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, activation checkpointing or smaller batches.",
    },
    "slowdown": {
        UNKNOWN: "Look at the clocks, temperature, power and other users of the device at that time (NVIDIA: "
                 "nvidia-smi -q -d CLOCK,PERFORMANCE). If these are as before, inputs became larger: compare shapes.",
    },
    "slow_step": {UNKNOWN: "Compare the step with its neighbours: the evidence lists the slower ops and events."},
    REGULAR_STEPS: {UNKNOWN: "Each of these steps does something more, such as an evaluation, a checkpoint or logging. "
                             "Do it less often, on less data, or beside the training."},
    "padding": {
        UNKNOWN: "Choose dimensions that fill tiles: multiples of 128 for the last dimension, and of 8 for the second "
                 "last.",
    },
    "memory_bound": {
        UNKNOWN: "Move fewer bytes: fuse elementwise ops, use 16-bit types, or reuse weights over larger batches.",
    },
    "low_occupancy": {
        UNKNOWN: "Give kernels more parallel work (larger batches), or fewer registers and less shared memory.",
    },
    "low_utilization": {
        UNKNOWN: "Larger matrices and batches use the arithmetic units better; see the report roofline for each op.",
    },
    "precision": {
        UNKNOWN: "Compute in 16 bits, so that kernels can use Tensor Cores.",
        JAX: "Compute in bfloat16 or float16, or allow TF32: jax.default_matmul_precision(\"tensorfloat32\").",
        TENSORFLOW: "Set the policy keras.mixed_precision.set_global_policy(\"mixed_bfloat16\" or \"mixed_float16\"); "
                    "TF32 is enabled by tf.config.experimental.enable_tensor_float_32_execution(True).",
        PYTORCH: "Use torch.autocast with bfloat16 or float16; torch.set_float32_matmul_precision(\"high\") allows "
                 "TF32.",
    },
    ON_CPU["input"]: {
        UNKNOWN: "Load batches ahead, on other threads or processes, or prepare them once before the training.",
    },
    ON_CPU["python"]: {
        UNKNOWN: "Do less of it in the step, or every N steps; torch.compile removes Python between ops.",
    },
    ON_CPU["idle"]: {
        UNKNOWN: "Record more of the host: with_stack=True, and record_function around parts of the step.",
    },
    WITHOUT_TF32: {
        UNKNOWN: "Compute in float16, so that kernels can use Tensor Cores.",
        TENSORFLOW: "Set the policy keras.mixed_precision.set_global_policy(\"mixed_float16\").",
        PYTORCH: "Use torch.autocast with float16: this GPU has no TF32, and no bfloat16 in its Tensor Cores.",
    },
    ON_AMD: {
        UNKNOWN: "Compute in 16 bits, so that kernels can use Matrix Cores.",
        JAX: "Compute in bfloat16 or float16.",
        TENSORFLOW: "Set the policy keras.mixed_precision.set_global_policy(\"mixed_bfloat16\" or \"mixed_float16\").",
        PYTORCH: "Use torch.autocast with bfloat16 or float16.",
    },
    OLD_KERNELS: {
        UNKNOWN: f"Compute in float16, so that kernels can use Tensor Cores. {_IF_OLD}",
        TENSORFLOW: "Set the policy keras.mixed_precision.set_global_policy(\"mixed_float16\"). " + _IF_OLD,
        PYTORCH: f"Use torch.autocast with float16. {_IF_OLD}",
    },
    "layout": {
        UNKNOWN: "Use the layout that convolutions prefer (channels last), to avoid transposes around them.",
    },
    "outside_compilation": {
        UNKNOWN: "Keep the program compiled: ops outside of it wait for the host.",
        TENSORFLOW: "Replace the ops that XLA cannot compile, or move summaries and prints out of the step.",
        JAX: "Replace host callbacks in the compiled program by device code.",
    },
    "idle": {
        UNKNOWN: "Record more of the host to find the cause: the Python tracer, and host tracer level 2.",
        JAX: "Record more of the host: ProfileOptions.python_tracer_level = 1 and host_tracer_level = 2.",
        TENSORFLOW: "Record more of the host: ProfilerOptions(host_tracer_level=2, python_tracer_level=1).",
        TENSORFLOW_1: "Run with RunOptions(trace_level=RunOptions.FULL_TRACE), which records all devices; what Python "
                      "does between ops is not recorded.",
        PYTORCH: "Record more of the host: with_stack=True, and both CPU and device activities.",
    },
}  # fmt: skip

_NOT_ON_GPUS: Final[dict[str, dict[str, str]]] = {
    "input": {
        PYTORCH: "Load batches ahead, on other threads or processes, and move them to the device ahead of use.",
    },
    OF_LOADER: {
        UNKNOWN: "Give the DataLoader num_workers > 0 and persistent_workers=True, and move batches to the device "
                 "ahead of use.",
    },
    "transfer": {
        PYTORCH: "Avoid .item(), .cpu() and print of tensors in the loop, and copy batches ahead of use.",
    },
    TO_DEVICE: {
        PYTORCH: "Create tensors on the device (device=…) instead of moving them, and copy batches ahead of use.",
    },
    "launch": {
        PYTORCH: "Give the device more work per launch: larger batches, or torch.compile, which fuses ops.",
    },
    "queue": {
        PYTORCH: "The host launched it in time, so larger batches do not help. Find the work that it is queued "
                 "behind: a collective of other ranks, an event of another stream, another process. Record all ranks.",
    },
    "between_kernels": {
        JAX: "Each change from one kernel to the next takes time: put more of the step under one jax.jit, so that XLA "
             "fuses ops.",
        PYTORCH: "Each change from one kernel to the next takes time: torch.compile fuses kernels.",
        UNKNOWN: "Each change from one kernel to the next takes time: use fewer, larger kernels.",
    },
    "memory_pressure": {
        TENSORFLOW: "Use smaller batches or tf.recompute_grad.",
        PYTORCH: "Use activation checkpointing or smaller batches.",
    },
}  # fmt: skip
"""Advice for devices other than GPUs (TPU, MTIA, NPU, XPU, …), instead of texts that name CUDA."""
_OF_GPUS: Final = compile_late(r" \([^()]*\bon GPUs\b[^()]*\)")
"""Bracketed parts of advice that apply to GPUs only."""

_OF_COLLECTIVE: Final[dict[str, dict[str, str]]] = {
    "all-reduce": {
        PYTORCH: "Gradients: DistributedDataParallel overlaps their sums with the backward pass; tune bucket_cap_mb, "
                 "use static_graph=True and bf16 compression hooks. Tensor parallelism: keep its groups within a node.",
    },
    "reduce-scatter": {
        PYTORCH: "FSDP sums gradients of a layer while it computes the next: wrap layers one by one, and reduce in 16 "
                 "bits (reduce_dtype=torch.bfloat16 of its mixed precision policy).",
    },
    "all-gather": {
        PYTORCH: "FSDP gathers parameters ahead of their use: wrap layers one by one and prefetch (forward_prefetch, "
                 "backward_prefetch), gather 16-bit parameters, and keep them after the forward pass if memory allows "
                 "(reshard_after_forward=False, SHARD_GRAD_OP).",
    },
    "all-to-all": {
        UNKNOWN: "All-to-all carries tokens to experts or rows of embeddings: overlap it with independent compute, "
                 "send 16-bit values, and give all devices the same number of tokens or rows.",
        PYTORCH: "All-to-all carries tokens to experts or rows of embeddings: start it with async_op=True and "
            "overlap it with independent compute, send 16-bit values, and give all ranks the same number of tokens "
                 "or rows. TorchRec's TrainPipelineSparseDist exchanges the next batch during this one.",
        JAX: "All-to-all carries tokens to experts, or arrays that are sharded in another way: let XLA overlap it (the "
             "latency hiding scheduler), send 16-bit values, or shard so that less is exchanged.",
    },
    "broadcast": {
        PYTORCH: "DistributedDataParallel broadcasts buffers before each forward pass: broadcast_buffers=False if "
                 "ranks need not agree on them.",
    },
    "send and recv": {
        PYTORCH: "Stages of a pipeline wait for each other: more micro-batches, or an interleaved schedule "
                 "(torch.distributed.pipelining), leave smaller gaps.",
    },
}  # fmt: skip
"""Advice by kind of collective, as derive.devices.communication_kinds has it, for its usual purpose."""


def advise_on_collectives(kinds: Iterable[str], framework: str, *, on_gpus: bool) -> str:
    """Return the advice on these kinds of collectives, the costliest first."""
    general = get_advice("communication", framework, on_gpus=on_gpus)
    of_kinds = [_OF_COLLECTIVE.get(kind, {}) for kind in kinds]
    texts = [of_kind.get(framework, of_kind.get(UNKNOWN, general)) for of_kind in of_kinds]
    return " ".join(dict.fromkeys(texts)) or general


def get_advice(cause: str, framework: str, *, on_gpus: bool) -> str:
    """Return the advice on a cause for a framework. ``on_gpus``: all devices are CUDA or ROCm GPUs."""
    of_cause = _TEXTS[cause]
    named = framework if framework in of_cause else UNKNOWN
    text = of_cause[named]
    return text if on_gpus else drop_gpu_advice(_NOT_ON_GPUS.get(cause, {}).get(named, text))


def drop_gpu_advice(text: str) -> str:
    """Return advice without the parts for GPUs only."""
    return _OF_GPUS.sub("", text)
