"""Runs of TensorFlow on a GPU with one planted cause each, and a healthy one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gpu_machine import A100, US, V100, Machine, Stats, Written
from trace_builder import Value, ref

STEPS = 8
HALF_GEMM = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_nn"
SINGLE_GEMM = "volta_sgemm_128x64_nn"
RELU = "void tensorflow::functor::VectorizedReluKernel<Eigen::half>(Eigen::half const*, Eigen::half*, int)"


class Training:
    """A loop that calls a tf.function: the main thread marks steps, an executor's thread launches kernels."""

    def __init__(self, kind: Stats = A100, steps: int = STEPS, compiler: str = "nonXla") -> None:
        self.machine = Machine(1, kind)
        self.gpu = self.machine.gpus[0]
        self.main, self.executor = self.machine.thread("python"), self.machine.thread("tf_Compute/77120011")
        self.steps, self.compiler = steps, compiler

    def run(
        self,
        body: Callable[[], None],
        before: Callable[[int], None] | None = None,
        after: Callable[[int], None] | None = None,
    ) -> int:
        """``body`` is what the function does in a step, ``before`` and ``after`` what comes around it; how long the
        loop took."""
        begun = self.main.now
        for step in range(self.steps):
            with self.main.within("train", _r=1, step_num=step):
                if before:
                    before(step)
                with self.main.within(
                    "train_step", tf_function_call=ref(f"notTraced-{self.compiler}"), tracing_count=1
                ):
                    self.main.now += 20 * US
                    with self.main.within("TFE_Py_ExecuteCancelable"):
                        self._execute(step, body)
                    self.loss()
                if after:
                    after(step)
        return self.main.now - begun

    def _execute(self, step: int, body: Callable[[], None]) -> None:
        name = "__inference_train_step_412"
        flow, id = next(self.machine.flow), 811 + step
        with (
            self.main.within("EagerExecute", eager_op=ref(name), is_func=1),
            self.main.within(f"EagerLocalExecute: {name}"),
            self.main.within("EagerKernelExecute"),
            self.main.within("KernelAndDeviceFunc::Run"),
        ):
            self.main.run("FunctionRun", 8 * US, id=id, _r=1, _pt=2, _p=flow)
            self.executor.now = self.main.now + 5 * US
            with self.executor.within("ExecutorState::Process", id=id, iter_num=0, _ct=2, _c=flow):
                body()
            self.main.now = self.executor.now + 3 * US

    def loss(self) -> None:
        """The main thread waits for the loss."""
        done = self.machine.copy(self.main, self.gpu, "DtoH", 4, 2 * US, {}, after=self.gpu.done)
        self.main.wait("cuStreamSynchronize", done + 3 * US)

    @contextmanager
    def op(self, name: str) -> Iterator[None]:
        """An op of the executor, with what it launches."""
        with self.executor.within(name):
            self.executor.now += 2 * US
            yield

    def kernel(self, op: str, name: str, took: int, *, occupancy: float = 100, **stats: Value) -> int:
        with self.op(op):
            found = {"tf_op": ref(op), **stats}
            return self.machine.launch(self.executor, self.gpu, name, took, found, occupancy=occupancy)

    def layers(self, count: int, took: int = 900 * US) -> None:
        for layer in range(count):
            self.kernel(f"dense_{layer}/MatMul:MatMul", HALF_GEMM, took)
            self.kernel(f"dense_{layer}/Relu:Relu", RELU, 20 * US)

    def captured(self, cost: int, run: int, most: int | None = None) -> Written:
        return Written({"host0": self.machine.written()}, cost, run, most)


def fed_in_time() -> Written:
    """Half precision on Tensor Cores, the next batch is copied meanwhile."""
    training = Training()

    def body() -> None:
        with (
            training.executor.within("IteratorGetNext:IteratorGetNext"),
            training.executor.within("IteratorGetNextOp::DoCompute", id=811, iter_num=0),
        ):
            training.executor.run("Iterator::Root::Prefetch", 6 * US, id=51, buffer_limit=2)
        training.layers(12)
        copied = {"tf_op": ref("Iterator::Root::Prefetch::MemcpyH2D")}
        training.machine.copy(training.executor, training.gpu, "HtoD", 6_291_456, 500 * US, copied)

    return training.captured(0, training.run(body))


def slow_iterator() -> Written:
    """The step waits for tf.data, which maps a batch on the same thread."""
    training, lost = Training(), [0]

    def before(step: int) -> None:
        main, since = training.main, training.main.now
        with (
            main.within("TFE_Py_FastPathExecute_C"),
            main.within("EagerExecute", eager_op=ref("IteratorGetNext"), is_func=0),
            main.within("EagerLocalExecute: IteratorGetNext"),
            main.within("EagerKernelExecute"),
            main.within("IteratorGetNextOp::DoCompute", id=90 + step, iter_num=0),
            main.within("Iterator::Root", id=31),
            main.within("Iterator::Root::BatchV2", id=32, parent_id=31),
        ):
            for _ in range(16):
                with main.within("Iterator::Root::BatchV2::Map", id=33, parent_id=32):
                    main.run("Iterator::Root::BatchV2::Map::TensorSlice", 4 * US, id=34, parent_id=33)
                    main.run("InstantiatedCapturedFunction::Run", 340 * US, id=77)
        lost[0] += main.now - since

    run = training.run(lambda: training.layers(8), before)
    return training.captured(lost[0], run)


def copied_batches() -> Written:
    """Each step copies its batch from pageable memory of the host before it computes."""
    training, lost = Training(), [0]

    def body() -> None:
        with training.op("images/_2:_HostSend"):
            found = {"tf_op": ref("images/_2:_HostSend")}
            done = training.machine.copy(
                training.executor, training.gpu, "HtoD", 30_000_000, 5000 * US, found, memory="pageable"
            )
        lost[0] += 5000 * US
        training.gpu.free["Compute"] = done
        training.layers(8)

    run = training.run(body)
    return training.captured(lost[0], run)


def single_precision() -> Written:
    """Matrix products in 32 bits on a V100, whose Tensor Cores would take an eighth of the time."""
    training, spent = Training(V100), [0]

    def body() -> None:
        for layer in range(8):
            op = f"dense_{layer}/MatMul:MatMul"
            training.kernel(op, SINGLE_GEMM, 1100 * US, shape="(float[4096,1024];float[1024,1024])")
            training.kernel(f"dense_{layer}/Relu:Relu", RELU.replace("Eigen::half", "float"), 20 * US)
            spent[0] += 1100 * US

    run = training.run(body)
    return training.captured(spent[0] * 7 // 8, run, spent[0])


def transposed_images() -> Written:
    """Convolutions run in NCHW, and the images are transposed before and after each."""
    training, spent = Training(), [0]
    tiled = "void tensorflow::functor::SwapDimension1And2InTensor3UsingTiles<unsigned short, 256, 32, 32, false>"
    kernel = "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nchw_tilesize128x128x32_stage4_cudnn"

    def body() -> None:
        for layer in range(6):
            before = f"conv_{layer}/Conv2D-0-TransposeNHWCToNCHW-LayoutOptimizer:Transpose"
            after = f"conv_{layer}/Conv2D-0-0-TransposeNCHWToNHWC-LayoutOptimizer:Transpose"
            training.kernel(before, tiled, 260 * US)
            training.kernel(f"conv_{layer}/Conv2D:Conv2D", kernel, 800 * US)
            training.kernel(after, tiled, 240 * US)
            spent[0] += 500 * US

    run = training.run(body)
    return training.captured(spent[0], run)


def op_on_the_host() -> Written:
    """An op that has no kernel for GPUs runs on the host between two halves of the step."""
    training, lost = Training(), [0]

    def body() -> None:
        training.layers(4)
        done = training.gpu.done
        with training.op("tokens/_6:_HostRecv"):
            copied = training.machine.copy(
                training.executor, training.gpu, "DtoH", 4096, 3 * US, {"tf_op": ref("tokens/_6:_HostRecv")}, after=done
            )
        training.executor.wait("cuStreamSynchronize", copied + 2 * US)
        training.executor.run("tokens/UniqueWithCounts:UniqueWithCounts", 4500 * US)
        with training.op("tokens/_8:_HostSend"):
            found = {"tf_op": ref("tokens/_8:_HostSend")}
            training.gpu.free["Compute"] = training.machine.copy(
                training.executor, training.gpu, "HtoD", 4096, 3 * US, found
            )
        first = training.kernel("dense_4/Relu:Relu", RELU, 20 * US) - 20 * US
        training.layers(4)
        lost[0] += first - done

    run = training.run(body)
    return training.captured(lost[0], run)


def eager_ops() -> Written:
    """No tf.function: each op goes from Python to the GPU by itself, and the GPU waits for it."""
    training = Training(steps=5)
    main, gpu, busy = training.main, training.gpu, 0
    begun = main.now
    for step in range(5):
        with main.within("train", _r=1, step_num=step):
            for number in range(60):
                kind = ("MatMul", "Relu", "Mul", "AddV2")[number % 4]
                with (
                    main.within("TFE_Py_FastPathExecute_C"),
                    main.within("EagerExecute", eager_op=ref(kind), is_func=0),
                    main.within(f"EagerLocalExecute: {kind}"),
                    main.within("EagerKernelExecute"),
                    main.within(f"{kind}:{kind}", is_eager=1),
                ):
                    main.now += 18 * US
                    found: dict[str, Value] = {"tf_op": ref(f"{kind}:{kind}"), "is_eager": 1}
                    training.machine.launch(main, gpu, RELU if number % 4 else HALF_GEMM, 5 * US, found)
                main.now += 22 * US
                busy += 5 * US
            training.loss()
    run = main.now - begun
    return training.captured(run - busy, run)


def allocated_each_step(bytes_used: int = 38_600_000_000) -> Written:
    """The allocator gives memory back to the device and takes it again in each step, while the GPU waits."""
    training, lost = Training(), [0]
    limit, used = 40_000_000_000, [bytes_used]

    def memory(kind: str, size: int) -> None:
        used[0] += size if kind == "MemoryAllocation" else -size
        training.executor.run(
            kind, 0, allocator_name=ref("GPU_0_bfc"), bytes_reserved=0, bytes_allocated=used[0],
            bytes_available=limit - used[0], fragmentation=0.71, peak_bytes_in_use=39_900_000_000,
            requested_bytes=size, allocation_bytes=size, addr=139_760_685_864_448, tf_op=ref("dense_0/MatMul"), id=0,
            region_type=ref("temp"), data_type=19, shape=ref("[8192,32768]"),
        )  # fmt: skip

    def body() -> None:
        with training.op("dense_0/MatMul:MatMul"):
            memory("MemoryDeallocation", 1_200_000_000)
            training.executor.run("cuMemFree_v2", 2600 * US, device_id=0)
            training.executor.run("cuMemAlloc_v2", 2400 * US, device_id=0)
            memory("MemoryAllocation", 1_200_000_000)
        lost[0] += 5000 * US
        training.layers(8)

    run = training.run(body)
    return training.captured(lost[0], run)


def read_back() -> Written:
    """Each step reads its activations back in Python: a copy to pageable memory, and one from there."""
    training, lost = Training(), [0]
    main, gpu = training.main, training.gpu

    def after(_step: int) -> None:
        begun = main.now
        with main.within("$train.py:61 keep_activations"), main.within("$ops.py:393 numpy"):
            done = training.machine.copy(main, gpu, "DtoH", 30_000_000, 4000 * US, {}, memory="pageable")
            main.wait("cuStreamSynchronize", done + 3 * US)
            main.now += 900 * US
        lost[0] += main.now - begun

    run = training.run(lambda: training.layers(8), after=after)
    return training.captured(lost[0], run)


def validated() -> Written:
    """Every fourth step is followed by an evaluation, whose kernels take most of its time."""
    training, lost = Training(), [0]
    main, gpu = training.main, training.gpu

    def after(step: int) -> None:
        if step % 4 != 3:
            return
        begun = main.now
        with main.within("$train.py:80 evaluate"):
            for batch in range(10):
                for layer in range(2):
                    found = {"tf_op": ref(f"dense_{layer}/MatMul:MatMul")}
                    training.machine.launch(main, gpu, HALF_GEMM, 900 * US, found)
                done = training.machine.copy(main, gpu, "DtoH", 4, 2 * US, {}, after=gpu.done)
                main.wait("cuStreamSynchronize", done + 3 * US)
                main.run("$metrics.py:9 add", 300 * US, batch=batch)
        lost[0] += main.now - begun

    run = training.run(lambda: training.layers(8), after=after)
    return training.captured(lost[0], run)


def saved_states() -> Written:
    """Every second step saves its state: it is cast on the GPU, copied to the host and written."""
    training, lost = Training(), [0]
    main, gpu = training.main, training.gpu

    def after(step: int) -> None:
        if step % 2 == 0:
            return
        begun = main.now
        with main.within("$train.py:70 save_state"):
            cast = "void tensorflow::functor::CastKernel<float, Eigen::half>(float const*, Eigen::half*, int)"
            training.machine.launch(main, gpu, cast, 2500 * US, {"tf_op": ref("cast/Cast:Cast")})
            done = training.machine.copy(
                main, gpu, "DtoH", 30_000_000, 5000 * US, {}, after=gpu.done, memory="pageable"
            )
            main.wait("cuStreamSynchronize", done + 3 * US)
            main.run("$files.py:12 write", 3000 * US)
        lost[0] += main.now - begun

    run = training.run(lambda: training.layers(8), after=after)
    return training.captured(lost[0], run)


def long_step() -> Written:
    """One step computes four times as long. A thread that writes logs takes longer in it, too, and nothing waits for
    that."""
    training, step_of = Training(steps=10), [0]
    writer = training.machine.thread("writer")
    took = 900 * US

    def before(step: int) -> None:
        step_of[0] = step
        writer.now = training.main.now + 100 * US
        writer.run("$writer.py:5 flush", (20_000 if step == 6 else 500) * US)

    run = training.run(lambda: training.layers(8, 4 * took if step_of[0] == 6 else took), before=before)
    return training.captured(8 * 3 * took, run)
