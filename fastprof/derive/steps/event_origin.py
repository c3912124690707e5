"""Origin of events on host threads: the Python tracer, an op, an input pipeline, a framework or a user.

Names and stats decide where they can: frames of Python, names of TraceMe calls of XLA, TSL, TensorFlow, JAX, jaxlib and
PyTorch/XLA, which are patterns where they contain classes, namespaces and drivers. All other events are a user's
annotation where Python runs: on a thread that runs Python, or in an op that calls it, and not inside of a framework's
event that never does.

A function of Python is ``$file.py:12 name``, with the name of its file and the line at which it begins. One that is
compiled is ``$module name``: ``$builtins len``, ``$<unknown> append``. PyTorch's profiler writes
``file.py(12): name``, ``<built-in method append of list object at 0x7f12>``, and for a call of a module
``nn.Module: Linear_3``. Of a compiled function it names no module, but the class of the object whose method it is,
which may have the name of its module: ``torch._C._EngineBase``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from fastprof._native.cause_kernels import event_writers
from fastprof.derive.devices import op_names
from fastprof.derive.devices.op_names import PYTHON_FRAME, Framework, is_frame, parse_op_name
from fastprof.derive.steps.event_graph import find_enclosing
from fastprof.schema.columns import Bools, Int32s, Records, UInt8s, find_rows_within
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HOST_THREADS, HostEvents, Line, compute_once
from fastprof.wording.patterns import compile_late

_OF_FILE = compile_late(r"\$(?P<file>.*?):(?P<line>\d{1,9}) (?P<function>.*)", re.DOTALL)
_OF_TORCH = compile_late(r"(?P<file>.+)\((?P<line>\d{1,9})\): (?P<function>.+)", re.DOTALL)
_BUILT_IN = compile_late(
    r"<built-in (?:function|method) (?P<function>\S*)(?: of (?:(?P<file>\w[\w.]*)\.)?\S+(?: object)?.*)?>", re.DOTALL
)
_ADDRESS = compile_late(r" at 0x[0-9a-fA-F]+>$")
_MODULE = compile_late(r"nn\.Module: (?P<function>.+)", re.DOTALL)
_COMPILED = compile_late(r"\$(?P<file>[^ ]*) (?P<function>.*)", re.DOTALL)
_WAITING = compile_late(
    r".*(?:block_until_ready|try_to_block)$"
    r"|.*(?:::Await\w*|BlockHostUntil\w*|BlockUntilReady|\(wait for completion\)|WaitForDependencies|WaitUntilDone)"
    r"|(?:cuda|hip)(?:Device|Stream|Event)Synchronize|cu(?:Ctx|Stream|Event)Synchronize|np\.asarray\(jax\.Array\)",
    re.DOTALL,
)


class PythonFrame(NamedTuple):
    """``file``: its name, or the module of a compiled function, empty if it is not recorded; ``line``: None of a
    compiled function."""

    function: str
    file: str
    line: int | None


@lru_cache(maxsize=1 << 16)
def parse_frame(name: str) -> PythonFrame:
    """Return the function in the name of an event."""
    if match := _OF_FILE.fullmatch(name):
        return PythonFrame(match["function"], match["file"], int(match["line"]))
    if match := _COMPILED.fullmatch(name):
        return PythonFrame(match["function"], match["file"], None)
    if match := _OF_TORCH.fullmatch(name):
        return PythonFrame(match["function"], match["file"], int(match["line"]))
    if match := _BUILT_IN.fullmatch(name):
        return PythonFrame(match["function"] or "<built-in>", match["file"] or "", None)
    if match := _MODULE.fullmatch(name):
        return PythonFrame(match["function"], "nn.Module", None)
    return PythonFrame(name.removeprefix(PYTHON_FRAME), "", None)


def strip_address(name: str) -> str:
    """Return the name without the address of an object, which says nothing of the function."""
    return _ADDRESS.sub(">", name) if name.endswith(">") else name


def has_line(name: str) -> bool:
    """Return whether an event is a call of a Python function whose line of source is recorded."""
    return is_frame(name) and parse_frame(name).line is not None


def is_built_in(name: str) -> bool:
    """Return whether an event is a call of a Python function that is compiled, as ``next`` is."""
    return is_frame(name) and parse_frame(name).line is None


@compute_once
def mark_frames(events: HostEvents) -> tuple[Bools, Bools]:
    """Return two masks of event metadata: Python calls whose source line is recorded, and calls of compiled
    functions."""
    with_line, built_in = np.zeros((2, len(events.names)), np.bool_)
    for row, name in enumerate(events.names):
        if is_frame(name):
            (built_in if parse_frame(name).line is None else with_line)[row] = True
    return with_line, built_in


@lru_cache(maxsize=1 << 16)
def waits_for_device(name: str) -> bool:
    """Return whether an event with this name does nothing but wait for a device, or for what runs on one."""
    return _WAITING.match(name) is not None


_LOCKED_WAITS: Final = frozenset(("wait", "join", "acquire", "_wait_for_tstate_lock", "wait_for"))
_RESTS: Final = {
    "threading.py": _LOCKED_WAITS, "_base.py": frozenset(("result", "wait")), "thread.py": frozenset(("_worker",)),
    "queue.py": frozenset(("get", "put")), "queues.py": frozenset(("get", "put")),
    "selectors.py": frozenset(("select",)), "socket.py": frozenset(("accept", "readinto")),
    "connection.py": frozenset(("accept", "poll", "_poll", "recv", "_recv", "recv_bytes", "_recv_bytes", "wait")),
    "popen_fork.py": frozenset(("poll", "wait")), "subprocess.py": frozenset(("wait", "_wait", "_try_wait")),
}  # fmt: skip
_COMPILED_RESTS: Final = frozenset((
    "acquire", "select", "poll", "kqueue", "control", "accept", "recv", "recv_into", "recv_bytes", "sleep", "waitpid",
))  # fmt: skip


@lru_cache(maxsize=1 << 16)
def is_idle(name: str) -> bool:
    """Return whether a frame only waits: for a lock, a queue, a connection or a timeout."""
    if not is_frame(name):
        return False
    function, place, line = parse_frame(name)
    if line is None:
        return function in _COMPILED_RESTS or (place == "_queue" and function == "get")
    return function in _RESTS.get(place.rpartition("/")[2], ())


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
    OWN = 10
    """A frame of fastprof, which records the program."""


_NVTX = compile_late(r"NVTX:(?:(?P<domain>[^:]*):)?")
_DOMAINS = {"tsl", "nccl", "cublas", "cublaslt", "cudnn", "cufft", "cusolver", "cusparse", "tensorflow", "tensorrt"}
"""Domains of NVTX that libraries write, in lower case."""

_INPUT_NAMES = frozenset((
    "IteratorGetNextOp::DoCompute", "IteratorGetNextAsOptionalOp::DoCompute", "PrefetchProduce", "PrefetchConsume",
    "ParallelInterleaveProduce", "ParallelInterleaveConsume", "ParallelInterleaveInitializeInput",
    "ParallelMapProduce", "ParallelMapConsume", "MapAndBatchProduce", "MapAndBatchConsume", "ParseExampleProduce",
    "ParseExampleConsume", "ParallelBatchProduce", "ParallelBatchConsume", "ParallelFilterProduce",
    "ParallelFilterConsume", "ReduceDatasetOp::DoCompute",
))  # fmt: skip
_INPUT = compile_late(
    r"Iterator(?:::|$)|MakeIterator::|InstantiatedCapturedFunction::|(?=\w+Dataset|Iterator)\w+(?<=Op)::"
    r"|EagerLocalExecute: (?=\w*(?:Iterator|Dataset))\w+$"
)
_INPUT_TYPE = compile_late(r"(?:OneShot|Multi|Anonymous|Make|Delete)?Iterator\w*|\w*DatasetV?\d*")

_DISPATCH_NAMES = frozenset((
    "DevicePut", "DevicePutWithSharding", "ParseArguments", "batched_device_put",
    "convert_to_tensor", "copy_to_host_async",
    "cpp_pjit_shard_arg_fallback", "lower_sharding_computation", "np.asarray(jax.Array)", "pickle_util.dumps",
    "pickle_util.loads", "shard_args", "tf.constant", "tf.function-graph_building", "trace_to_jaxpr_dynamic",
    "trace_to_jaxpr_dynamic2", "trace_to_jaxpr_nounits", "trace_to_subjaxpr_nounits",
))  # fmt: skip
_DISPATCH = compile_late(r"(?:Pjit|Pmap)Function\(|TFE_|(?:ArrayImpl|ExecuteReplicated|MeshExecutable)\.")
"""Names of dispatch, as are calls of tf.function, which a stat marks: a thread that has any runs Python."""

_PASSING_NAMES = frozenset((
    "EagerExecute", "EagerKernelExecute", "ExecutorState::Process", "FunctionRun", "KernelAndDeviceFunc::Run",
    "KernelAndDeviceOp::Run", "RunGraph", "SessionRun", "ThunkExecutor::Execute",
))  # fmt: skip
_PASSING = compile_late(r"Eager(?:Local|Remote)Execute: |ThreadpoolListener::")
_CALLBACK = compile_late(
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
_NATIVE = compile_late(
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
_NATIVE_ENDS = compile_late(r".*(?::XLA (?:CPU|GPU|TPU) module|=>\w+| Dispatch| linkage)", re.DOTALL)
_THREADS_OF_PYTHON = compile_late(r"python[\d.]*(?:$|/)|main(?:$|/)|MainThread|Thread-\d+|ThreadPoolExecutor|Dummy-\d+")


def is_python_thread(line_name: str) -> bool:
    """Return whether the name of a thread is one that Python or its programs give."""
    return _THREADS_OF_PYTHON.match(line_name) is not None


_OWN_FILES: Final = frozenset(("own_profiler.py", "framework_profilers.py", "captured_run.py"))
"""Files of fastprof whose functions run in the program. The Python tracer of XLA records no folders."""
_OWN_THREAD: Final = ("_record_by_time", "_watch")
"""Functions of the thread that begins and ends a recording. Only PyTorch records functions that began before."""


def _is_own(name: str) -> bool:
    """Return whether a frame is of fastprof."""
    return parse_frame(name).file.rpartition("/")[2] in _OWN_FILES


@lru_cache(maxsize=1 << 16)
def classify_name(name: str) -> NameKind:
    """Return what a name says of its writer."""
    if is_frame(name):
        return NameKind.OWN if _is_own(name) else NameKind.PYTHON
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
    if _NATIVE_ENDS.fullmatch(name):
        return NameKind.NATIVE
    op = parse_op_name(name.lstrip("_"))
    if op.framework is Framework.TENSORFLOW and op.type:
        if op.type in _CALLBACK_TYPES:
            return NameKind.CALLBACK
        return NameKind.INPUT if _INPUT_TYPE.fullmatch(op.type) else NameKind.OP
    # JAX's paths are ops, but a word, a colon and a word may be anyone's
    return NameKind.OP if op.framework is Framework.JAX and "/" in op.name else NameKind.UNKNOWN


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


class Origin(IntEnum):
    """Who wrote an event."""

    NONE = 0
    """No event of a thread: one of a device, or of a line that a profiler derived."""
    PYTHON = 1
    """The Python tracer: a frame, ``$file.py:12 name`` or ``$builtins len``."""
    OP = 2
    """An op of a framework, or an instruction of a compiled program."""
    INPUT = 3
    """A stage of an input pipeline."""
    FRAMEWORK = 4
    """XLA, TSL, TensorFlow, JAX, PJRT or a driver."""
    USER = 5
    """A user: an annotation, the marker of a step, a range of NVTX."""


STATS: Final = (
    "_a", "_c", "_p", "_ipl_stage_id", "_ipl_stage_cat", "correlation_id", "hlo_op", "step_num", "tf_function_call",
    "tf_op", "tracing_count",
)  # fmt: skip
"""The stats of events that are read."""

_PLANES: Final = (
    "/host:CUPTI", "/host:NVTX-CUPTI", "/host:ROCTRACER", "/host:TPU-runtime", "/host:python-tracer",
)  # fmt: skip
MARKER: Final = 9
"""The marker of a step, or another event that a stat gives to a user; beside NameKind."""
_RUNS_PYTHON: Final = (NameKind.PYTHON, NameKind.DISPATCH, NameKind.ANNOTATION, NameKind.OWN, MARKER)
_IS_NATIVE: Final = (NameKind.OP, NameKind.INPUT, NameKind.NATIVE, NameKind.PASSING)
_WRITERS: Final = {
    NameKind.PYTHON: Origin.PYTHON, NameKind.OP: Origin.OP, NameKind.INPUT: Origin.INPUT,
    NameKind.NATIVE: Origin.FRAMEWORK, NameKind.PASSING: Origin.FRAMEWORK, NameKind.DISPATCH: Origin.FRAMEWORK,
    NameKind.CALLBACK: Origin.OP, NameKind.ANNOTATION: Origin.USER, NameKind.OWN: Origin.FRAMEWORK,
    MARKER: Origin.USER,
}  # fmt: skip
_OF_KIND: Final = np.array(
    [
        (
            kind == NameKind.UNKNOWN,
            kind in (NameKind.UNKNOWN, NameKind.PASSING),
            kind in _RUNS_PYTHON,
            kind in _IS_NATIVE,
            kind == NameKind.CALLBACK,
            _WRITERS.get(kind, Origin.NONE),
        )
        for kind in range(16)
    ],
    np.uint8,
)
"""Properties of NameKind and MARKER, as in csrc/kernels/event_writers.h. For unknown names, the nearest enclosing event
that says whether Python runs in it decides; without one, the thread does."""


@dataclass(frozen=True, slots=True)
class EventOrigins:
    """``origin``: by row of events; ``parent``: the row of the innermost event of the thread that encloses each, or -1
    if there is none. Asynchronous events neither enclose nor are enclosed. ``lines``: the threads of the host;
    ``python_lines``: those that run Python; ``names``: [origin, number of a name], whether there are such events."""

    origin: UInt8s
    parent: Int32s
    lines: tuple[Line, ...]
    python_lines: tuple[Line, ...]
    names: Bools

    def of(self, origin: Origin) -> Bools:
        """Return which events someone wrote, by row."""
        return np.equal(self.origin, origin)


@compute_once
def find_event_origins(events: HostEvents) -> EventOrigins:
    """Return the writer of each event of the host. Reads STATS."""
    lines = list_threads(events)
    kind = np.zeros(len(events), np.uint8)
    by_name = np.array([classify_name(name) for name in events.names], np.uint8)
    of_category = kinds_by_category(events)
    by_name = np.where(of_category, of_category, by_name)
    for line in lines:
        kind[line.first : line.last] = by_name[events.meta[line.first : line.last]]
    _classify_by_stats(events, lines, kind)
    # threads that have Python's frames or calls of a framework from it, or mark steps, those that Python names, and
    # others of the same name, as threads of one program have similar names
    shows = _OF_KIND[:, 2] > 0
    runs = [is_python_thread(line.name) or bool(shows[kind[line.first : line.last]].any()) for line in lines]
    titles = [line.name.rpartition("/")[0] or line.name for line in lines]  # names without numbers of threads
    of_python = {title for title, own in zip(titles, runs, strict=True) if own} - {""}
    of_python -= {title for title, line in zip(titles, lines, strict=True) if line.name.startswith(_POOLS)}
    python_lines = tuple(
        line for line, title, own in zip(lines, titles, runs, strict=True) if own or title in of_python
    )
    parent = find_enclosing(events)
    runs_python = {line.number for line in python_lines}
    rows = index_threads(lines, [line.number in runs_python for line in lines])
    origin, names = np.zeros(len(events), np.uint8), np.zeros((len(Origin), len(events.names)), np.bool_)
    known = (kind, parent, events.meta)
    event_writers(known, rows, _OF_KIND, (Origin.USER, Origin.FRAMEWORK), origin, names, len(Origin))
    for column in (origin, names):
        column.flags.writeable = False
    return EventOrigins(origin, parent, lines, python_lines, names)


THREAD: Final = np.dtype([("first", "i8"), ("last", "i8"), ("number", "i8")])
"""The structs of csrc/kernels/event_writers.h and reasons.h; a test compares their sizes with C's."""


def index_threads(lines: Sequence[Line], numbers: Sequence[int]) -> Records:
    """Return the rows of each line, and its number, as THREAD."""
    threads = np.empty(len(lines), THREAD)
    for place, (line, number) in enumerate(zip(lines, numbers, strict=True)):
        threads[place] = line.first, line.last, number
    return threads


@compute_once
def kinds_by_category(events: HostEvents) -> UInt8s:
    """Return what the category of each row of metadata says of the writer: a NameKind or MARKER, 0 for
    nothing."""
    kind_by_meta = np.zeros(len(events.names), np.uint8)
    for categories, kind in (
        (op_names.PYTHON, NameKind.PYTHON), (op_names.CALLS, NameKind.NATIVE),
        (op_names.MEMORY, NameKind.NATIVE),
        (op_names.ANNOTATIONS, MARKER),
    ):  # fmt: skip
        kind_by_meta[op_names.has_category(events, categories)] = kind
    kind_by_meta[op_names.is_op(events)] = NameKind.OP
    frames = np.flatnonzero(kind_by_meta == NameKind.PYTHON).tolist()
    kind_by_meta[[meta for meta in frames if _is_own(events.names[meta])]] = NameKind.OWN
    return kind_by_meta


@compute_once
def list_threads(events: HostEvents) -> tuple[Line, ...]:
    """Return the threads of the program: those of the host without the thread of fastprof."""
    own = np.array([_is_own(name) and parse_frame(name).function in _OWN_THREAD for name in events.names], np.bool_)
    return tuple(
        line for line in events.lines if is_thread(line) and not own[events.meta[line.first : line.last]].any()
    )


def is_thread(line: Line) -> bool:
    """Return whether a line is a thread of the host, not of a device and not derived from others."""
    name = line.plane.name
    is_host = name == HOST_THREADS or name.startswith(f"{HOST_THREADS} [") or name in _PLANES
    return is_host and not line.is_derived


def _classify_by_stats(events: HostEvents, lines: Sequence[Line], kind: UInt8s) -> None:
    """Classify events whose names say nothing, and ops among those that carry an op, by stats."""
    first, last = min((line.first for line in lines), default=0), max((line.last for line in lines), default=0)
    for name, known in (
        ("tf_op", NameKind.OP), ("hlo_op", NameKind.OP),
        ("_ipl_stage_id", NameKind.INPUT), ("_ipl_stage_cat", NameKind.INPUT),
        ("correlation_id", NameKind.NATIVE), ("_p", NameKind.NATIVE), ("_c", NameKind.NATIVE),
        ("tracing_count", NameKind.DISPATCH), ("tf_function_call", NameKind.DISPATCH),
        ("step_num", MARKER),
    ):  # fmt: skip
        rows = events.stat(name).rows
        rows = rows[find_rows_within(rows, first, last)]
        kind[rows[kind[rows] == NameKind.UNKNOWN]] = known


_POOLS: Final = (
    "tf_", "pjrt", "py_xla", "tfrt", "EventFDAsyncWorker", "switchto-", "futex-", "Host Threads", "XLA", "Eigen", "tpu",
    "grpc", "xla", "async-", "jax_", "stream_", "megascale",
)  # fmt: skip
"""How threads of the frameworks' pools are called."""
