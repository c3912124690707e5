"""The kinds of events that grouping distinguishes, by their names."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fastprof.derive.devices.op_names import Framework, parse
from fastprof.tables.host_events import HOST_THREADS, HostEvents

UNKNOWN = 0
_NAMES = (
    "TraceContext", "SessionRun", "FunctionRun", "RunGraph", "RunGraphDone", "TfOpRun", "EagerExecute",
    "ExecutorState::Process", "ExecutorDoneCallback", "MemoryAllocation", "MemoryDeallocation", "RemotePerfCounter",
    "InstantiatedCapturedFunction::Run", "InstantiatedCapturedFunction::RunWithBorrowedArgs",
    "InstantiatedCapturedFunction::RunInstantiated", "InstantiatedCapturedFunction::RunAsync", "ParallelForOp",
    "ForeverOp", "WhileOp-EvalCond", "WhileOp-StartBody", "ForOp", "IteratorGetNextOp::DoCompute",
    "IteratorGetNextAsOptionalOp::DoCompute", "Iterator", "Iterator::Prefetch::Generator", "PrefetchProduce",
    "PrefetchConsume", "ParallelInterleaveProduce", "ParallelInterleaveConsume", "ParallelInterleaveInitializeInput",
    "ParallelMapProduce", "ParallelMapConsume", "MapAndBatchProduce", "MapAndBatchConsume", "ParseExampleProduce",
    "ParseExampleConsume", "ParallelBatchProduce", "ParallelBatchConsume", "BatchingSessionRun", "ProcessBatch",
    "BrainSessionRun", "ConcatInputTensors", "MergeInputTensors", "ScheduleWithoutSplit", "ScheduleWithSplit",
    "ScheduleWithEagerSplit", "ASBSQueue::Schedule", "OrbaxServing::ProcessBatch", "OrbaxServing::ConcatInputBuffers",
    "TfrtModelRun", "ServingModelRun", "KernelLaunch", "KernelExecute", "EnqueueRequestLocked", "RunProgramRequest",
    "HostCallbackRequest", "TransferH2DRequest", "TransferPreprocessedH2DRequest", "TransferD2HRequest",
    "OnDeviceSendRequest", "OnDeviceRecvRequest", "OnDeviceSendRecvLocalRequest", "CustomWait",
    "OnDeviceSendRequestMulti", "OnDeviceRecvRequestMulti", "PjrtAsyncWait", "DoEnqueueProgram",
    "DoEnqueueContinuationProgram", "WriteHbm", "ReadHbm", "TpuExecuteOp", "CompleteCallbacks",
    "TPUPartitionedCallOp-InitializeVarOnTPU", "TPUPartitionedCallOp-ExecuteRemote",
    "TPUPartitionedCallOp-ExecuteLocal", "Linearize", "Delinearize", "TransferBufferFromDevice-FastPath",
    "tpu::System::TransferToDevice=>IssueEvent", "tpu::System::TransferToDevice=>IssueEvent=>Done",
    "tpu::System::TransferFromDevice=>IssueEvent", "tpu::System::TransferFromDevice=>IssueEvent=>Done",
    "tpu::System::Execute",
)  # fmt: skip
CODES = {name: number for number, name in enumerate(_NAMES, 1)}
"""The names that mean something by themselves, and their codes."""

TF_OP, ITERATOR = CODES["TfOpRun"], CODES["Iterator"]
KERNEL_LAUNCH, KERNEL_EXECUTE = CODES["KernelLaunch"], CODES["KernelExecute"]


@lru_cache(maxsize=1 << 16)
def code_of(name: str) -> int:
    """The code of an event's name; UNKNOWN: the name is not special."""
    code = CODES.get(name)
    if code is not None:
        return code
    framework = parse(name).framework
    if framework is Framework.TENSORFLOW:
        return TF_OP
    return ITERATOR if framework is Framework.TF_DATA else UNKNOWN


def event_types(events: HostEvents) -> npt.NDArray[np.uint8]:
    """The code of each event. Other events that have a ``correlation_id`` launch kernels on the host's
    threads, and are kernels elsewhere."""
    of_meta = np.array([code_of(name) for name in events.names], np.uint8)
    types: npt.NDArray[np.uint8] = of_meta[events.meta]
    rows = events.stat("correlation_id").rows
    rows = rows[types[rows] == UNKNOWN]
    types[rows] = KERNEL_EXECUTE
    for plane in events.planes:
        if plane.name == HOST_THREADS:
            first, last = np.searchsorted(rows, [plane.first, plane.last])
            types[rows[first:last]] = KERNEL_LAUNCH
    return types


def among(types: npt.NDArray[np.uint8], wanted: Iterable[int]) -> npt.NDArray[np.bool_]:
    """Where the code is one of those wanted."""
    table = np.zeros(256, bool)
    table[list(wanted)] = True
    found: npt.NDArray[np.bool_] = table[types]
    return found
