"""Events of a host's threads by name alone: which the frameworks write, and which of these call Python.

Collected from the TraceMe calls of XLA, TSL, TensorFlow, JAX, jaxlib and PyTorch/XLA, and from captures. Names of
classes, namespaces and drivers are patterns; a name that no pattern has may still lie in an event that never calls
Python.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache

from fastprof.derive.devices.op_names import Framework, is_frame, parse
from fastprof.wording.patterns import pattern_of


class NameKind(IntEnum):
    """What a name says of the event's writer."""

    UNKNOWN = 0
    PYTHON = 1
    """A frame of the Python tracer."""
    OP = 2
    """An op, which calls no Python."""
    INPUT = 3
    """A stage of an input pipeline."""
    NATIVE = 4
    """A framework, in code that calls no Python."""
    PASSING = 5
    """A framework, around whatever it runs: ops, which may call Python."""
    DISPATCH = 6
    """A framework, called from Python: the code in it may be Python."""
    CALLBACK = 7
    """An op that calls Python."""
    ANNOTATION = 8
    """A user, through another profiler: NVTX."""


_NVTX = pattern_of(r"NVTX:(?:(?P<domain>[^:]*):)?")
_DOMAINS = {"tsl", "nccl", "cublas", "cublaslt", "cudnn", "cufft", "cusolver", "cusparse", "tensorflow", "tensorrt"}
"""Domains of NVTX that libraries write, in lower case."""

_INPUT_NAMES = frozenset((
    "IteratorGetNextOp::DoCompute", "IteratorGetNextAsOptionalOp::DoCompute", "PrefetchProduce", "PrefetchConsume",
    "ParallelInterleaveProduce", "ParallelInterleaveConsume", "ParallelInterleaveInitializeInput",
    "ParallelMapProduce", "ParallelMapConsume", "MapAndBatchProduce", "MapAndBatchConsume", "ParseExampleProduce",
    "ParseExampleConsume", "ParallelBatchProduce", "ParallelBatchConsume", "ParallelFilterProduce",
    "ParallelFilterConsume", "ReduceDatasetOp::DoCompute",
))  # fmt: skip
_INPUT = pattern_of(
    r"Iterator(?:::|$)|MakeIterator::|InstantiatedCapturedFunction::|(?=\w+Dataset|Iterator)\w+(?<=Op)::"
    r"|EagerLocalExecute: (?=\w*(?:Iterator|Dataset))\w+$"
)
_INPUT_TYPE = pattern_of(r"(?:OneShot|Multi|Anonymous|Make|Delete)?Iterator\w*|\w*DatasetV?\d*")

_DISPATCH_NAMES = frozenset((
    "DevicePut", "DevicePutWithSharding", "ParseArguments", "batched_device_put",
    "convert_to_tensor", "copy_to_host_async",
    "cpp_pjit_shard_arg_fallback", "lower_sharding_computation", "np.asarray(jax.Array)", "pickle_util.dumps",
    "pickle_util.loads", "shard_args", "tf.constant", "tf.function-graph_building", "trace_to_jaxpr_dynamic",
    "trace_to_jaxpr_dynamic2", "trace_to_jaxpr_nounits", "trace_to_subjaxpr_nounits",
))  # fmt: skip
_DISPATCH = pattern_of(r"(?:Pjit|Pmap)Function\(|TFE_|(?:ArrayImpl|ExecuteReplicated|MeshExecutable)\.")
"""Of these, and of calls of tf.function, which a stat marks, a thread that has one runs Python."""

_PASSING_NAMES = frozenset((
    "EagerExecute", "EagerKernelExecute", "ExecutorState::Process", "FunctionRun", "KernelAndDeviceFunc::Run",
    "KernelAndDeviceOp::Run", "RunGraph", "SessionRun", "ThunkExecutor::Execute",
))  # fmt: skip
_PASSING = pattern_of(r"Eager(?:Local|Remote)Execute: |ThreadpoolListener::")
_CALLBACK = pattern_of(
    r"(?:xla_(?:ffi_)?python_\w*|pure_|io_|debug_|host_)callback|EagerLocalExecute: (?:Eager)?PyFunc"
)
_CALLBACK_TYPES = frozenset(("EagerPyFunc", "PyFunc", "PyFuncStateless"))

_NATIVE_NAMES = frozenset((
    # XLA and TSL
    "AcquireCollectiveMemory", "AllocateDestinationBuffer", "AllocateOutputBufferWithInputReuse",
    "AllocateOutputBuffersWithInputReuse", "Acquire semaphore", "Release semaphore", "BlockHostUntilDone",
    "BlockHostUntilDoneWithStatus", "BlockUntilReady", "Build buffer allocations", "CancelAll", "Compile",
    "CompileSingleModule", "ComputeSemaphoreAcquire", "ConsumeWithHandlers fallback.", "CopyProgramsToSharedMemory",
    "DefragmentMemory", "EnqueueContinuationProgram", "Handle input event recording", "Handle inputs",
    "Handle outputs without host buffers", "HostExecute", "InitializeGpuClique", "InstallProgressTracker",
    "InvokeRendezvous", "LoadProgram", "LoadProgramAsync", "LoadProgramCacheMiss", "LoadProgramMaybeFromCache",
    "MakeOutputBuffers", "MapDmaBuffer", "MemcpyThunk", "PTX->CUBIN", "ReadSyncFlag", "RecordUsage",
    "Resolve constant globals",
    "RunInvariantCheckers", "ScheduleWork", "Send", "SendDone", "Recv", "RecvDone", "ThenExecuteCallback",
    "TransferToServer",
    "Transpose", "Wait for donation holds", "Wait for usage holds", "WaitForDependencies", "XlaDelinearize",
    "XlaLinearize",
    "backend_compile", "backend_compile_and_load", "command_buffer", "compile_or_get_cached", "make_buffers",
    "pjrt_execute", "TPUExecute", "TpuExecuteOp", "Linearize", "Delinearize",
    "DelinearizeUsingTranspose", "WriteHbm", "ReadHbm", "CompleteCallbacks", "DoEnqueueProgram",
    "DoEnqueueContinuationProgram", "EnqueueRequestLocked", "RunProgramRequest", "HostCallbackRequest",
    "TransferH2DRequest", "TransferPreprocessedH2DRequest", "TransferD2HRequest", "OnDeviceSendRequest",
    "OnDeviceRecvRequest", "OnDeviceSendRecvLocalRequest", "OnDeviceSendRequestMulti", "OnDeviceRecvRequestMulti",
    "CustomWait", "PjrtAsyncWait", "TransferBufferFromDevice-FastPath", "ActualLoad", "DispatchProgram",
    # TensorFlow
    "BatchingSessionRun", "BrainSessionRun", "ConcatInputTensors", "EagerCopyToDevice", "ExecutorDoneCallback",
    "ExecutorPropagateOutputs", "ForOp", "ForeverOp", "KernelExecute", "KernelLaunch", "MemCpyAsync",
    "MemoryAllocation",
    "MemoryDeallocation", "MergeInputTensors", "ParallelForOp", "ProcessBatch", "RemotePerfCounter", "RunBefFunction",
    "RunGraphDone", "ScheduleOutputTask", "ScheduleWithEagerSplit", "ScheduleWithSplit", "ScheduleWithoutSplit",
    "ServingModelRun", "TfrtModelRun", "ValidateInputTypeAndPlacement", "WhileOp-EvalCond", "WhileOp-StartBody",
    # PyTorch/XLA
    "SyncTensorsGraph", "SyncLiveTensorsGraph", "RunCachedGraph", "TensorsGraphSync", "XlaSync",
))  # fmt: skip
_NATIVE = pattern_of(
    r"(?:cu|cuda|cublas|cublasLt|cudnn|cufft|cusolver|cusparse|nccl|hip|hipblas|hipblaslt|hsa|miopen|rccl|roc\w*)[A-Z]\w*"
    r"|(?:absl|command_buffer|cub|Eigen|ifrt|jax|llvm|mlir|pjrt|std|stream_executor|tensorflow|tfrt|thrust|tpu|tsl|xla)::"
    r"|(?:void|auto|bool|static|std) .*[(<:]"
    r"|[A-Z]\w*(?:<.*>)?::(?:~?[A-Z(]|async_|lambda|detail)"
    r"|(?:PJRT|TF|XLA|TSL|IFRT|TFRT|TPU|Ifrt\w*|PjRt\w*|Tfrt\w*|IfrtProxy\w*)(?:_\w+|$)"
    r"|Scheduled [A-Z]\w*::|end: |MegaScale: |ASBSQueue|OrbaxServing|BatchedCopyToDeviceWithSharding"
    r"|batched_copy_array_to_devices_with_sharding|command_buffer|RegisterFunction: |Mem(?:cpy|set)\w*"
    r"|MEM(?:CPY|SET)\w*"
    r"|__(?:inference|forward|backward)_|CudaGraphExec:|Thunks?[:#]|XlaModule:|XlaLaunch|LSRAv\d|WARNING: CommandBuffer"
    r"|Iterator|XLA[: ]|LLO |HLO |Phase \d",
)
_NATIVE_ENDS = pattern_of(r".*(?::XLA (?:CPU|GPU|TPU) module|=>\w+| Dispatch| linkage)", re.DOTALL)
_THREADS_OF_PYTHON = pattern_of(r"python[\d.]*(?:$|/)|main(?:$|/)|MainThread|Thread-\d+|ThreadPoolExecutor|Dummy-\d+")


def is_thread_of_python(line_name: str) -> bool:
    """Whether the name of a thread is one that Python or its programs give."""
    return _THREADS_OF_PYTHON.match(line_name) is not None


@lru_cache(maxsize=1 << 16)
def kind_of_name(name: str) -> NameKind:
    """What a name says of its writer."""
    if is_frame(name):
        return NameKind.PYTHON
    if name.startswith("NVTX:"):
        match = _NVTX.match(name)
        domain = ((match and match["domain"]) or "").lower()
        return NameKind.NATIVE if domain in _DOMAINS else NameKind.ANNOTATION
    for kind, names in _EXACT:
        if name in names:
            return kind
    for kind, pattern in _PATTERNS:
        if pattern.match(name):
            return kind
    return NameKind.NATIVE if _NATIVE_ENDS.fullmatch(name) else _kind_of_op(name)


def _kind_of_op(name: str) -> NameKind:
    """Of ``name:Type``; JAX's paths are ops, but a word, a colon and a word may be anyone's."""
    op = parse(name.lstrip("_"))
    if op.framework is Framework.TENSORFLOW and op.type:
        if op.type in _CALLBACK_TYPES:
            return NameKind.CALLBACK
        return NameKind.INPUT if _INPUT_TYPE.fullmatch(op.type) else NameKind.OP
    if op.framework is Framework.JAX and "/" in op.name:
        return NameKind.OP
    return NameKind.UNKNOWN


_EXACT = (
    (NameKind.INPUT, _INPUT_NAMES),
    (NameKind.DISPATCH, _DISPATCH_NAMES),
    (NameKind.PASSING, _PASSING_NAMES),
    (NameKind.NATIVE, _NATIVE_NAMES),
)
_PATTERNS = (
    (NameKind.INPUT, _INPUT),
    (NameKind.DISPATCH, _DISPATCH),
    (NameKind.CALLBACK, _CALLBACK),
    (NameKind.PASSING, _PASSING),
    (NameKind.NATIVE, _NATIVE),
)
