"""Names of events on a host's threads: which frameworks write them, and which anyone may have written."""

from __future__ import annotations

import pytest

from fastprof.derive.steps.event_origin import NameKind, classify_name, is_python_thread

NAMES = {
    NameKind.PYTHON: ("$train.py:12 step", "$builtins len", "$<unknown> append",
    "$<frozen importlib._bootstrap>:1 _load"),
    NameKind.OP: (
        "dense/MatMul:MatMul", "_send_range_0:_Send", "jit(f)/transpose/mul:mul",
        "adam/Cast_2/ReadVariableOp:ReadVariableOp",
        "a/b:_FusedMatMul",
    ),
    NameKind.INPUT: (
        "Iterator::Root::Prefetch::BatchV2", "IteratorGetNextOp::DoCompute", "PrefetchConsume", "MapAndBatchProduce",
        "MakeIterator::PrefetchDataset", "InstantiatedCapturedFunction::RunAsync", "EagerLocalExecute: IteratorGetNext",
        "next:IteratorGetNext", "TensorSliceDataset:TensorSliceDataset", "ReduceDatasetOp::DoCompute",
        "EagerLocalExecute: MakeIterator",
    ),
    NameKind.DISPATCH: (
        "PjitFunction(train_step)", "ParseArguments", "TFE_Py_FastPathExecute_C", "TFE_DeleteTensorHandle", "DevicePut",
        "np.asarray(jax.Array)", "trace_to_jaxpr_dynamic", "ArrayImpl.copy_to_host_async", "ExecuteReplicated.__call__",
        "lower_sharding_computation", "convert_to_tensor", "tf.function-graph_building", "shard_args",
        "cpp_pjit_shard_arg_fallback",
    ),
    NameKind.PASSING: (
        "EagerLocalExecute: MatMul", "EagerExecute", "ExecutorState::Process", "FunctionRun",
        "KernelAndDeviceFunc::Run",
        "ThreadpoolListener::Record",
    ),
    NameKind.CALLBACK: (
        "EagerLocalExecute: EagerPyFunc", "PyFunc:PyFunc", "fn/EagerPyFunc:EagerPyFunc", "xla_python_cpu_callback",
        "xla_ffi_python_gpu_callback", "pure_callback.1", "io_callback.2",
    ),
    NameKind.NATIVE: (
        "ThunkExecutor::Execute (wait for completion)", "CommonPjRtLoadedExecutable::ExecuteHelperOnSingleDevice",
        "PythonRefManager::CollectGarbage", "TfrtCpuExecutable::ExecuteHelper", "TfrtTpuCompiler::Compile",
        "Scheduled TfrtTpuLoadedExecutable::Execute", "BufferSequencingEvent::ExecuteOrAddToFutureTasks",
        "PjRtStreamExecutorBuffer::CopyToDeviceHelper::async_copy_to_device", "GpuExecutable::ExecuteThunks",
        "PJRT_LoadedExecutable_Execute", "PJRT_LoadedExecutable_Execute linkage", "jit_f:XLA GPU module",
        "XlaModule:#hlo_module=jit_f,program_id=3#", "Thunk:#hlo_op=fusion.1#", "Thunks::Prepare",
        "Wait for usage holds",
        "Wait for donation holds", "MemoryAllocation", "D2D Dispatch", "PCIe/Memcpy Dispatch", "Transpose::Execute",
        "tpu::System::Execute=>IssueSequencedEvent", "tpu::System::TransferToDevice", "XLA::TPU run hlo passes",
        "mlir::detail::OpToOpPassAdaptor", "cuLaunchKernel", "cudaMemcpyAsync", "hipModuleLaunchKernel",
        "cuGraphLaunch",
        "cublasGemmEx", "ncclAllReduce", "MemcpyH2D", "MEMCPYHtoD", "Memset", "end: dot.3", "EagerCopyToDevice",
        "__inference_train_step_123", "void cutlass::Kernel<float>(float*)", "MegaScale: Barrier.",
        "BatchedCopyToDeviceWithSharding: dispatch", "ExecutorPropagateOutputs", "SyncTensorsGraph",
        "BlockHostUntilDone",
        "backend_compile_and_load", "NVTX:TSL:Execute", "NVTX:NCCL:ncclAllReduce", "RegisterFunction: f",
        "Rendezvous<std::string>::Wait", "WARNING: CommandBuffer disabled when profiling", "CudaGraphExec:12",
        "command_buffer::initialize", "H2D Dispatch",
    ),
    NameKind.ANNOTATION: ("NVTX:forward", "NVTX:my domain:forward", "NVTX:"),
    NameKind.UNKNOWN: (
        "train", "load_batch", "data:load", "Metrics::compute", "forward/backward", "epoch 3", "Cube", "cut", "hipster",
        "copy", "batch", "dce", "fusion.3", "", "void", "custom step", "Transformer", "Thunderbird", "Iterations",
        "python step", "send", "torch.compile", "host callback", "stdout",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in NAMES.items() for name in names])
def test_a_name_says_who_wrote_the_event(kind: NameKind, name: str) -> None:
    assert classify_name(name) is kind


def test_python_names_its_threads() -> None:
    for name in ("python", "python3", "python/123", "python3.11/7", "main/31", "MainThread", "Thread-4 (load)",
                 "ThreadPoolExecutor-0_1"):  # fmt: skip
        assert is_python_thread(name), name
    for name in ("tf_Compute/1", "pythonic", "mainframe", "py_xla_execute/3", "", "Host Threads/4"):
        assert not is_python_thread(name), name
