"""Cases that measure rules on what their authors have not seen. Whoever writes rules does not read this folder."""

from __future__ import annotations

from pathlib import Path

from gpu_machine import US, Machine, Thread, Written, dense
from hlo_builder import Op
from jax_gpu_runs import Loop
from planted_cases import CPU, GPU, JAX, TENSORFLOW, TPU, Case
from tf_gpu_runs import Training
from tpu_machine import Compiled, Pod, array
from trace_builder import ref

HERE = Path(__file__).resolve().parent


def unseen_5() -> Written:
    """Arrays are transposed before and after each matrix product on a TPU."""
    made, took = Compiled(), 330 * US
    weight, x = made.parameter("bf16", 8192, 8192), made.parameter("bf16", 4096, 8192)
    spent = 0
    for layer in range(5):
        turned = Op(f"transpose.{layer}", "transpose", array("bf16", 8192, 4096), [x.name],
                    op_name="jit(train_step)/jit(main)/transpose")  # fmt: skip
        made.add(turned, "data formatting", took, bytes=4 * 4096 * 8192)
        back = Op(f"copy.{layer}", "copy", array("bf16", 4096, 8192), [turned.name])
        made.add(back, "data formatting", took, bytes=4 * 4096 * 8192)
        x = made.product(back, weight, 4096, 8192, 8192)
        spent += 2 * took
    pod = Pod(made, chips=2)
    run = pod.run()
    return pod.captured(spent * pod.steps, run)


def unseen_6() -> Written:
    """An op finds no memory and waits until another thread gives some back; the GPU waits with it."""
    training, lost = Training(), [0]
    other, limit, size = training.machine.thread("tf_Compute/77120012"), 40_000_000_000, 3_000_000_000

    def memory(thread: Thread, kind: str, used: int) -> None:
        thread.run(
            kind, 0, allocator_name=ref("GPU_0_bfc"), bytes_reserved=0, bytes_allocated=used,
            bytes_available=limit - used, fragmentation=0.2, peak_bytes_in_use=39_700_000_000, requested_bytes=size,
            allocation_bytes=size, addr=139_760_685_864_448, tf_op=ref("dense_4/MatMul"), id=0, region_type=ref("temp"),
            data_type=19, shape=ref("[40960,36622]"),
        )  # fmt: skip

    def body() -> None:
        training.layers(4)
        free = training.gpu.done
        with training.op("dense_4/MatMul:MatMul"):
            training.executor.now = free + 4600 * US
            other.now = training.executor.now - 2 * US
            memory(other, "MemoryDeallocation", limit - size - 100_000_000)
            memory(training.executor, "MemoryAllocation", limit - 100_000_000)
        first = training.kernel("dense_4/Relu:Relu", "void Relu<Eigen::half>", 20 * US) - 20 * US
        lost[0] += first - free
        training.layers(4)

    run = training.run(body)
    return training.captured(lost[0], run)


def unseen_7() -> Written:
    """A sum over four GPUs runs beside the last products, and only its second half is exposed."""
    compiled = dense(4)
    compiled.all_reduce(compiled.ops[-1], 4096, 8192, devices=4)
    loop, lost = Loop(Machine(4), compiled), [0]

    def device(ordinal: int, thread: Thread) -> None:
        *products, summed = compiled.kernels
        ends = [loop.launch(ordinal, thread, one, int(one.best_ps() / 0.9)) for one in products]
        loop.machine.gpus[ordinal].free["Collective"] = ends[1]
        done = loop.launch(ordinal, thread, summed, 2 * (ends[-1] - ends[1]), stream="Collective")
        lost[0] += done - ends[-1] if ordinal == 0 else 0

    run = loop.run(device)
    return loop.captured(lost[0], run)


def unseen_8() -> Written:
    """Every fourth step a library writes the state to disk, between steps, while the GPU waits."""
    compiled = dense(4)
    loop, lost = Loop(Machine(), compiled), [0]

    def device(ordinal: int, thread: Thread) -> None:
        for one in compiled.kernels:
            loop.launch(ordinal, thread, one, int(one.best_ps() / 0.95))

    def between(step: int, main: Thread) -> None:
        if step % 4 != 3:
            return
        since = main.now
        with main.within("$checkpoint_manager.py:1193 save"), main.within("$async_checkpointer.py:310 save"):
            with main.within("$type_handlers.py:902 serialize"):
                done = loop.machine.copy(main, loop.machine.gpus[0], "DtoH", 268_435_456, 11_000 * US, {})
                main.wait("$array.py:631 __array__", done + 10 * US)
            main.run("$ocdbt_utils.py:88 write", 9_000 * US)
        lost[0] += main.now - since

    run = loop.run(device, between)
    return loop.captured(lost[0], run)


HELD_OUT = (
    Case("unseen_1", JAX, CPU, "input", folder=HERE),
    Case("unseen_2", JAX, CPU, "callback", folder=HERE),
    Case("unseen_3", TENSORFLOW, CPU, "python", folder=HERE),
    Case("unseen_4", JAX, CPU, "compilation", folder=HERE),
    Case("unseen_5", JAX, TPU, "layout", unseen_5),
    Case("unseen_6", TENSORFLOW, GPU, "memory_pressure", unseen_6),
    Case("unseen_7", JAX, GPU, "communication", unseen_7),
    Case("unseen_8", JAX, GPU, "checkpoint", unseen_8),
)
