"""Advice of the guides is given where a capture has the evidence for it, and only there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax_gpu_runs
import pytest
import tf_gpu_runs
from gpu_machine import A100, US, V100, Machine, Stats, dense
from jax_gpu_runs import Loop
from reports import session_of
from tf_gpu_runs import HALF_GEMM, RELU, SINGLE_GEMM, Training
from trace_builder import Value, event, line, plane, ref, xspace

from fastprof.analyses import diagnosis, runner
from fastprof.analyses.findings import guides
from fastprof.analyses.findings.advice import get_advice
from fastprof.analyses.findings.facts import CERTAIN, DiagnosisFacts, EventNames, Finding
from fastprof.derive.devices.gpu_kernels import AMD, NVIDIA
from fastprof.derive.devices.op_names import FRAMEWORKS, JAX, PYTORCH, TENSORFLOW
from fastprof.derive.host import GPU, TPU


def advised(capture: bytes, cause: str, framework: str) -> set[str]:
    """The rules that apply to the finding of a cause, as if the framework had made the capture."""
    reports = runner.run(session_of(capture).table_set, diagnosis.AFTER)
    maker = AMD if b"Cijk_" in capture else NVIDIA
    facts = DiagnosisFacts(framework, GPU, reports, EventNames(), maker=maker)
    found = [one for rule in diagnosis.RULES for one in rule(facts) if one.cause == cause]
    assert found, f"no finding of {cause}"
    return {rule.name for rule in guides.RULES if guides.is_applicable(rule, facts, found[0])}


def planted(make: Callable[[], Any]) -> bytes:
    (capture,) = make().captures.values()
    return bytes(capture)


# ---- input pipelines: the main thread takes a batch in each step, before the GPU gets work


def reading(*stages: str, calls: int = 16, each: int = 340, waits: bool = False, **stats: Value) -> bytes:
    """A pipeline of these stages, the program's end first; the last runs a function ``each`` microseconds long for each
    of ``calls`` elements, or ``waits`` as long for threads that run it. ``stats``: attributes of the last stage."""
    training = Training()

    def take(depth: int, path: str) -> None:
        name, main = f"{path}::{stages[depth]}", training.main
        given: dict[str, Value] = {"id": 40 + depth, "parent_id": 39 + depth} if depth else {"id": 40}
        if depth < len(stages) - 1:
            with main.within(name, **given):
                for _ in range(calls if depth == len(stages) - 2 else 1):
                    take(depth + 1, name)
            return
        with main.within(name, **given, **stats):
            if waits:
                main.now += each * US
            else:
                main.run("InstantiatedCapturedFunction::Run", each * US, id=77)

    def before(step: int) -> None:
        with training.main.within("IteratorGetNextOp::DoCompute", id=90 + step, iter_num=0):
            take(0, "Iterator")

    training.run(lambda: training.layers(8), before)
    return planted(lambda: training.captured(0, 0))


# ---- launches


def launching(
    *, kernels: int = 8, wait: int = 20, took: int = 20, kind: Stats = A100, used: float | None = None,
    compiler: str = "nonXla", reads: int = 0,
) -> bytes:  # fmt: skip
    """Steps of TensorFlow; the GPU waits before each kernel. Times in microseconds. ``used``: share of the memory in
    use; ``reads``: time that a thread of tf.data works in each step."""
    training = Training(kind, compiler=compiler)
    reader = training.machine.thread("tf_data_private_threadpool/9")

    def body() -> None:
        if used is not None:
            training.executor.run(
                "MemoryAllocation", 0, allocator_name=ref("GPU_0_bfc"), bytes_reserved=0,
                bytes_allocated=int(4e10 * used), bytes_available=int(4e10 * (1 - used)), fragmentation=0.1,
                peak_bytes_in_use=int(4e10 * used), requested_bytes=1 << 20, allocation_bytes=1 << 20, addr=1 << 30,
                tf_op=ref("dense"), id=0, region_type=ref("temp"), data_type=19, shape=ref("[8]"),
            )  # fmt: skip
        if reads:
            with training.executor.within("Iterator::Root", id=50):
                training.executor.run("Iterator::Root::Prefetch", 2 * US, id=51, parent_id=50)
            reader.now = training.executor.now
            with reader.within("Iterator::Root::Prefetch::ParallelMapV2", id=52, parent_id=51):
                reader.run("InstantiatedCapturedFunction::Run", reads * US, id=77)
        for number in range(kernels):
            training.executor.now = max([training.executor.now, *training.gpu.free.values()]) + wait * US
            training.kernel(f"dense_{number}/MatMul:MatMul", HALF_GEMM, took * US)

    training.run(body)
    return planted(lambda: training.captured(0, 0))


def few_warps(*kernels: str) -> bytes:
    """Kernels of few warps, and others."""
    training = Training(V100)

    def body() -> None:
        for number in range(8):
            training.kernel(f"relu_{number}/Relu:Relu", RELU, 900 * US, occupancy=12)
            for kernel in kernels:
                training.kernel(f"dense_{number}/MatMul:MatMul", kernel, 300 * US)

    training.run(body)
    return planted(lambda: training.captured(0, 0))


def convolving(kernel: str) -> bytes:
    """Transposes before convolutions."""
    training = Training()

    def body() -> None:
        for number in range(6):
            training.kernel(f"conv_{number}/transpose:Transpose", "void transpose_kernel<float>(float*)", 400 * US)
            training.kernel(f"conv_{number}/Conv2D:Conv2D", kernel, 800 * US)

    training.run(body)
    return planted(lambda: training.captured(0, 0))


def between(inside: bool) -> bytes:
    """Python runs for 4 ms before each step, or at the start of each."""
    main, stream = [], []
    for step in range(8):
        start = step * 10_000 * US
        begin, took = (start, 10_000) if inside else (start + 4_000 * US, 6_000)
        main += [
            event("train", begin, took * US, {"_r": 1, "step_num": step}),
            event("$report.py:12 summary", start, 4_000 * US),
            event("cuLaunchKernelEx", start + 4_000 * US, 5 * US, {"correlation_id": step}),
        ]
        stream.append(event("fusion", start + 4_000 * US, 6_000 * US, {"correlation_id": step}))
    return xspace(
        plane("/host:CPU", [line("python", main, id=1)]),
        plane("/device:GPU:0", [line("Stream #13(Compute)", stream, id=13)], stats={"device_vendor": "Nvidia"}),
    )


def allocating(name: str) -> bytes:
    training = Training()

    def body() -> None:
        training.executor.run(name, 4000 * US)
        training.layers(4)

    training.run(body)
    return planted(lambda: training.captured(0, 0))


def on_the_host(*, copies: bool) -> bytes:
    training = Training()

    def body() -> None:
        training.layers(2)
        if copies:
            training.machine.copy(training.executor, training.gpu, "DtoH", 4096, 3 * US, {}, after=training.gpu.done)
        training.executor.now = max(training.executor.now, training.gpu.done)
        training.executor.run("tokens/UniqueWithCounts:UniqueWithCounts", 4500 * US)
        if copies:
            training.machine.copy(training.executor, training.gpu, "HtoD", 4096, 3 * US, {})
        training.layers(2)

    training.run(body)
    return planted(lambda: training.captured(0, 0))


def summing(count: int) -> bytes:
    """Gradients are summed over four GPUs in sums of 256 KiB after all compute."""
    compiled = dense(4)
    products = len(compiled.kernels)
    for _ in range(count):
        compiled.all_reduce(compiled.ops[products - 1], 128, 1024, devices=4)
    loop = Loop(Machine(4), compiled)

    def device(ordinal: int, thread: Any) -> None:
        done = 0
        for kernel in compiled.kernels[:products]:
            done = loop.launch(ordinal, thread, kernel, 100 * US)
        gpu = loop.machine.gpus[ordinal]
        gpu.free["Collective"] = max(done, gpu.free.get("Collective", 0))
        for kernel in compiled.kernels[products:]:
            loop.launch(ordinal, thread, kernel, 50 * US, stream="Collective")

    loop.run(device)
    return planted(lambda: loop.captured(0, 0))


MAPS = ("Root", "BatchV2", "Map")
PARALLEL = ("Root", "BatchV2", "ParallelMapV2")
CASES = {
    "prefetch": ("input", TENSORFLOW, lambda: reading(*MAPS), lambda: reading("Root", "Prefetch", "BatchV2", "Map")),
    "vectorised_map": ("input", JAX, lambda: reading(*MAPS, calls=100, each=40), lambda: reading(*MAPS)),
    "cache": ("input", TENSORFLOW, lambda: reading("Root", "ForeverRepeat", "BatchV2", "Map"),
              lambda: reading("Root", "ForeverRepeat", "MemoryCache", "BatchV2", "Map")),
    "unordered": ("input", TENSORFLOW, lambda: reading(*PARALLEL, waits=True, deterministic="true"),
                  lambda: reading(*PARALLEL, waits=True, deterministic="false")),
    "gpu_threads": ("launch", TENSORFLOW, lambda: launching(reads=900, took=100),
                    lambda: launching(reads=20, took=100)),
    "jit_compile": ("launch", TENSORFLOW, launching, lambda: launching(compiler="xla")),
    "several_steps": ("launch", JAX, lambda: launching(kernels=1, wait=1000, took=1000),
                      lambda: launching(kernels=8, wait=100, took=100)),
    "command_buffers": ("launch", JAX, lambda: planted(jax_gpu_runs.late_launches), lambda: launching(took=100)),
    "sixteen_bits": ("low_occupancy", PYTORCH, lambda: few_warps(SINGLE_GEMM), few_warps),
    "channels_last": ("layout", JAX, lambda: convolving("implicit_gemm_nchw_cudnn"),
                      lambda: convolving("implicit_gemm_nhwc_cudnn")),
    "l2_fetch": ("memory_bound", TENSORFLOW, lambda: planted(jax_gpu_runs.at_the_memory),
                 lambda: planted(jax_gpu_runs.at_the_memory).replace(b"loop_tanh_fusion", b"Cijk_Ailk_Bljk_H")),
    "memory_growth": ("memory_pressure", JAX, lambda: allocating("cuMemAlloc_v2"),
                      lambda: allocating("BFCAllocator::Defragment")),
    "larger_batch": ("launch", JAX, lambda: launching(used=0.3), lambda: launching(used=0.8)),
    "between_steps": ("python", JAX, lambda: between(False), lambda: between(True)),
    "overlap": ("communication", JAX, lambda: planted(jax_gpu_runs.exposed_all_reduce), lambda: summing(24)),
    "combine": ("communication", PYTORCH, lambda: summing(24), lambda: summing(4)),
    "between_device_ops": ("host_compute", TENSORFLOW, lambda: on_the_host(copies=True),
                           lambda: on_the_host(copies=False)),
}  # fmt: skip
"""By rule: the cause of a finding, a framework, a run with the evidence, and one with the same finding without it."""


def test_every_rule_is_examined() -> None:
    assert set(CASES) == {rule.name for rule in guides.RULES}


@pytest.mark.parametrize("name", CASES)
def test_a_rule_applies_where_its_evidence_is_and_only_there(name: str) -> None:
    cause, framework, with_it, without = CASES[name]
    assert name in advised(with_it(), cause, framework)
    assert name not in advised(without(), cause, framework)


def texts() -> Iterator[tuple[str, str]]:
    for rule in guides.RULES:
        for framework in FRAMEWORKS:
            if text := rule.get_text(DiagnosisFacts(framework, GPU, {}, EventNames())):
                yield framework, text


@pytest.mark.parametrize(("framework", "text"), list(texts()))
def test_a_rule_has_the_words_of_its_framework(framework: str, text: str) -> None:
    foreign = {
        JAX: ("TensorFlow", "tf.function", "torch", "PyTorch", "Keras"),
        TENSORFLOW: ("jax", "JAX", "torch", "PyTorch"),
        PYTORCH: ("jax", "JAX", "TensorFlow", "tf.", "Keras"),
    }
    assert text.endswith(".")
    assert not [word for word in foreign.get(framework, ()) if word in text]


def test_advice_of_rules_follows_that_of_the_cause() -> None:
    report = session_of(planted(tf_gpu_runs.slow_iterator)).report("diagnosis")
    advice = report.tables["findings"]["advice"][0].as_py()
    assert advice.endswith("The pipeline has no prefetch: end it with prefetch(tf.data.AUTOTUNE), so that batches are "
                           "made while the device computes.")  # fmt: skip


def test_advice_for_tpus_has_nothing_for_gpus_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guides, "RULES", ())
    finding = Finding("communication", "all-reduce", 1, CERTAIN, "", get_advice("communication", JAX, on_gpus=True))
    on = {
        kind: guides.add_advice(DiagnosisFacts(JAX, kind, {}, EventNames(), device=kind), finding).advice
        for kind in (GPU, TPU)
    }
    assert "(--xla_gpu_enable_latency_hiding_scheduler=true on GPUs)" in on[GPU]
    assert "GPU" not in on[TPU] and on[TPU].startswith("Let XLA overlap: the latency hiding scheduler, larger ")
