"""Causes that host threads name: what each event says its thread does, which threads drive the devices, and the time in
which a step waits for input or compilation.

Most events say nothing, and what encloses them counts. Some name the cause. Words in names of annotations and Python
functions do so too, but only where nothing surer encloses them: ``load_batch`` is input with everything in it, and a
function ``read`` in a compiler is compilation. Such time is input or compilation as far as no op runs, and no device is
busy.

    driver   |-train----------------------------------|
               |-load_batch-|   |-compile-|
    ops             |op|                   |==ops==|
    step     |.|in|.op.|in|....|-compile--||==ops==|..|
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import IntEnum
from functools import lru_cache
from typing import Final

import numpy as np

from fastprof._native.cause_kernels import foremost_reasons, of_writer_and_name
from fastprof.derive.devices.op_names import COLLECTIVES, LOADERS, is_frame
from fastprof.derive.steps.event_graph import PIECE
from fastprof.derive.steps.event_origin import (
    EventOrigins,
    Origin,
    find_event_origins,
    index_threads,
    mark_frames,
    parse_frame,
)
from fastprof.derive.steps.host_calls import (
    EVALUATION,
    LOGGING,
    MAYBE,
    SAYS,
    CandidateCalls,
    asks_queue,
    classify_other_work,
    classify_words,
    contain_rows,
    find_calls_before_steps,
    find_evaluation_markers,
    find_evaluations,
    find_late_returns,
    find_loading_calls,
    find_op_runs,
    may_be_loader,
    may_exchange,
    reads_data,
    split_words,
)
from fastprof.derive.steps.step_database import EventType, Markers, TypedEvents, select_longest_markers
from fastprof.schema.columns import (
    Int32s,
    Int64s,
    Records,
    UInt8s,
    add_durations,
    contain_any_time,
    find_rows_within,
    measure_covered_time,
    merge_spans,
    sort_rows,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, Line, compute_once
from fastprof.wording.patterns import MOST_SEARCHED, compile_late


class Code(IntEnum):
    """What an event says of its thread. NOTHING: what encloses it counts."""

    NOTHING = 0
    PYTHON = 1
    ANNOTATION = 2
    """A user's region whose name says nothing more: Python, with a name."""
    INPUT_WORDS = 3
    CHECKPOINT_WORDS = 4
    LAUNCH = 5
    WAITS = 6
    """The thread waits for a device, or for another thread that does."""
    LOCK = 7
    TRANSFER = 8
    HOST_COMPUTE = 9
    MEMORY = 10
    INPUT = 11
    COMPILATION = 12
    CALLBACK = 13
    CHECKPOINT = 14
    GARBAGE = 15
    PROFILER = 16
    """The profiler starts or stops."""
    FIRST_CALL = 17
    """A launch that traces and compiles."""
    MAYBE_INPUT = 18
    """A name that leaves open whether it loads input: no event keeps this code."""
    EVALUATION = 19
    LOGGING = 20
    ASKS_COPY = 21
    """A function or op that asks for a copy, with all that it does besides."""


CAUSE_OF: Final[dict[Code, str]] = {
    Code.PYTHON: "python",
    Code.ANNOTATION: "python",
    Code.INPUT_WORDS: "input",
    Code.CHECKPOINT_WORDS: "checkpoint",
    Code.LAUNCH: "launch",
    Code.LOCK: "lock",
    Code.TRANSFER: "transfer",
    Code.HOST_COMPUTE: "host_compute",
    Code.MEMORY: "memory_pressure",
    Code.INPUT: "input",
    Code.COMPILATION: "compilation",
    Code.CALLBACK: "callback",
    Code.CHECKPOINT: "checkpoint",
    Code.GARBAGE: "garbage_collection",
    Code.PROFILER: "idle",
    Code.FIRST_CALL: "compilation",
    Code.EVALUATION: "evaluation",
    Code.LOGGING: "logging",
    Code.ASKS_COPY: "transfer",
}
"""The causes of codes; WAITS has none."""

_POWERS: Final = np.zeros((2, 256), np.uint8)
"""What a code takes, and what it holds, see csrc/kernels/reasons.h: of Python's frames the outermost counts, of words
the outermost, of what a framework does the innermost; words hold against all but what is sure to be something else."""
for _codes, _takes, _holds in (
    ((Code.PYTHON,), 1, 2),
    ((Code.ANNOTATION,), 3, 3),
    ((Code.INPUT_WORDS, Code.CHECKPOINT_WORDS, Code.EVALUATION, Code.LOGGING), 3, 6),
    ((Code.LAUNCH,), 4, 4),
    ((Code.FIRST_CALL,), 4, 5),
    ((Code.WAITS, Code.LOCK, Code.TRANSFER, Code.ASKS_COPY, Code.HOST_COMPUTE, Code.MEMORY), 5, 4),
    ((Code.INPUT, Code.COMPILATION, Code.CALLBACK, Code.CHECKPOINT, Code.GARBAGE, Code.PROFILER), 8, 8),
):
    _POWERS[0, list(_codes)], _POWERS[1, list(_codes)] = _takes, _holds

# ---- names

_PATTERNS: Final = (
    (Code.NOTHING, r"=>(?:Done|\w+=>Done)$|CompleteCallbacks|^IteratorGetNext[^:]*:(?!:|Iterator)"),
    (Code.PROFILER, r"ProfilerSession|Profiler(?:Start|Stop)"),
    (Code.CALLBACK, r"(?:pure_|io_|debug_|host_|python_cpu_|python_gpu_)callback|HostCallback"
                    r"|(?:^|[/: ])(?:Eager)?PyFunc"),
    (Code.CHECKPOINT, r"SaveV2|RestoreV2|MergeV2Checkpoints|ShardedFilename|(?i:checkpoint)"),
    (Code.GARBAGE, r"CollectGarbage"),
    (Code.INPUT, r"^Iterator|IteratorGetNext|MultiDeviceIterator|InfeedEnqueue|InstantiatedCapturedFunction::"
                 r"|(?:Produce|Consume)$|^MakeIterator|DatasetOp::"),
    (Code.COMPILATION, r"(?i:compil)(?!ed(?:Function|FxGraph| Region| Autograd))|^dynamo$|trace_to_(?:jaxpr|subjaxpr)"
                       r"|lower_sharding_computation|graph_building|PTX->CUBIN"
                       r"|XLA::TPU|LLVM|Autotun|Optimize(?:Hlo|Graph)|Grappler|RunHloPasses|RunBackend"),
    (Code.MEMORY, r"Defragment|Build buffer allocations|DeviceMemAllocator|BFCAllocator|AllocateRaw|RetryingAlloc"
                  r"|^(?:cu|cuda|hip)(?:Mem)?(?:Alloc|Malloc|Free)"),
    (Code.WAITS, r"BlockHostUntilDone|BlockUntilReady|semaphore|SemaphoreAcquire|Await(?:$|[A-Z:])|AwaitReady"
                 r"|Synchronize|wait for completion|^Wait for|WaitFor|PjrtAsyncWait|CustomWait"
                 r"|BufferSequencingEvent::Execute$"),
    (Code.TRANSFER, r"np\.asarray|DevicePut|device_put|copy_to_host|[Cc]opyTo(?:Device|Host)|CopyToMemorySpace|Memcpy"
                    r"|MemCpy|MEMCPY|TransferTo|TransferFrom|[Ll]inearize|MapDmaBuffer|H2D|D2H|BufferFromHost|ToLiteral"
                    r"|WriteHbm|ReadHbm|TransposePlan|^Transpose::|ParallelTranspose|BatchedCopy|batched_copy|EagerCopyToDevice"),
    (Code.LOCK, r"[Mm]utex|^Lock|Condition(?:Variable)?::?[Ww]ait"),
    (Code.LAUNCH, r"^(?:Pjit|Pmap)Function|ExecuteReplicated|LoadedExecutable|Executable::Execute|PJRT_LoadedExecutable"
                  r"|Eager(?:Local|Kernel|Remote)?Execute|KernelAndDevice|^TFE_Py|FunctionRun|SessionRun|RunGraph"
                  r"|ExecutorState::Process|ExecutorPropagate|LaunchKernel|GraphLaunch|Enqueue|tpu::System::Execute$"
                  r"|LoadProgram|ThunkExecutor|RemoteCall"),
)  # fmt: skip
_NAMED: Final = tuple((code, compile_late(pattern)) for code, pattern in _PATTERNS)
_INPUT: Final = dict(_NAMED)[Code.INPUT]

_CHECKPOINT: Final = frozenset(("save", "checkpoint", "checkpointer", "checkpointing", "ckpt", "orbax", "restore"))
_NO_INPUT: Final = ("importlib", "<frozen", "_bootstrap", "zipimport", "linecache", "tokenize.py", "pkgutil")
_FILES: Final = (

    (Code.INPUT, compile_late(
        r"(?:data_?loader|_utils/fetch|fetch|data_adapter|dataset_ops|iterator_ops|data_sources?|prefetch"
        r"|grain|tfrecord|arrow_dataset|iterable_dataset|webdataset|\w+_(?:dataset|data|loader)_adapter)\w*\.py")),
    (Code.CHECKPOINT, compile_late(r"(?:checkpoint|orbax|saver|saving|ckpt)\w*\.py")),
    (Code.COMPILATION, compile_late(
        r"(?:partial_eval|mlir|compiler|func_graph|ag_|autograph|tracing_compil|function_type)\w*\.py")),
)  # fmt: skip
_FUNCTIONS: Final = {
    "block_until_ready": Code.WAITS, "effects_barrier": Code.WAITS, "synchronize": Code.WAITS,
    "collect": Code.NOTHING, "start_trace": Code.PROFILER, "stop_trace": Code.PROFILER,
    "device_put": Code.TRANSFER, "device_get": Code.TRANSFER, "copy_to_host_async": Code.TRANSFER,
    "_infer_params": Code.COMPILATION, "trace_to_jaxpr_dynamic": Code.COMPILATION, "backend_compile": Code.COMPILATION,
    "io_callback": Code.CALLBACK, "pure_callback": Code.CALLBACK, "py_func": Code.CALLBACK,
    "numpy_function": Code.CALLBACK, "pure_callback_impl": Code.CALLBACK,
}  # fmt: skip
_LOCKED: Final = frozenset(("acquire", "wait", "join", "_wait_for_tstate_lock", "result"))
_LOCKS: Final = ("threading.py", "_thread", "<unknown>", "queue.py", "_base.py", "builtins")


_REMATERIALISES: Final = compile_late(
    r"utils/checkpoint\.py|ad_checkpoint|[Cc]heckpoint(?:Function|Wrapper|Error|_wrapper|_name|_polic|_sequential)"
    r"|[Cc]heckpoint(?:ed)?_?(?:[Ff]orward|[Bb]lock|[Ll]ayer)|activation_?checkpoint|recompute"
)
"""Activations that are computed again: nothing is saved."""


@lru_cache(maxsize=1 << 16)
def classify_frame(name: str) -> Code:
    """Return what a frame of the Python tracer says: ``$file.py:12 function``."""
    function, place, _ = parse_frame(name)
    if function == "collect" and ("gc" in place or place.startswith("<")):
        return Code.GARBAGE
    if asks_queue(name) or reads_data(name):
        return Code.MAYBE_INPUT
    waits = function in _LOCKED and place.startswith(_LOCKS)
    if waits or (place.startswith("queue.py") and function == "put"):
        return Code.LOCK
    known = _FUNCTIONS.get(function)
    if known is not None:
        return known or Code.PYTHON
    if _REMATERIALISES.search(name):
        return Code.PYTHON
    for code, files in _FILES:
        if files.match(place.rpartition("/")[2]):
            return code
    if any(part in place for part in _NO_INPUT):
        return Code.PYTHON
    return classify_name_words(function) or Code.PYTHON


_OF_WORK: Final = {EVALUATION: Code.EVALUATION, LOGGING: Code.LOGGING}


@lru_cache(maxsize=1 << 16)
def classify_name_words(name: str) -> Code:
    """Return what the words of a name say, such as ``load_batch`` or ``DataLoader``, or NOTHING."""
    if _REMATERIALISES.search(name):
        return Code.NOTHING
    if split_words(name) & _CHECKPOINT:
        return Code.CHECKPOINT_WORDS
    if (work := classify_other_work(name)) is not None:
        return _OF_WORK[work]
    said = classify_words(name)
    return Code.INPUT_WORDS if said == SAYS else Code.MAYBE_INPUT if said == MAYBE else Code.NOTHING


@lru_cache(maxsize=1 << 16)
def classify_framework_name(name: str) -> Code:
    """Return what the name of a framework event says."""
    name = name[:MOST_SEARCHED]
    if name.startswith("void ") or _REMATERIALISES.search(name):  # a kernel
        return Code.NOTHING
    return next((code for code, pattern in _NAMED if pattern.search(name)), Code.NOTHING)


_PARTS_OF_INPUT: Final = ("Iterator", "InfeedEnqueue", "InstantiatedCaptured", "Produce", "Consume", "DatasetOp")
"""All names of input have one of these."""


@compute_once
def shows_input(events: HostEvents) -> bool:
    """Return whether input would be seen: Python functions are recorded, or calls of frameworks that load data."""
    names = events.recorded_names
    if any(is_frame(name) or name.startswith(LOADERS) for name in names):
        return True
    text = "\n".join(names)  # few captures have a name that needs a closer look
    return any(part in text for part in _PARTS_OF_INPUT) and any(
        _INPUT.search(name[:MOST_SEARCHED]) is not None and classify_framework_name(name) == Code.INPUT
        for name in names
    )


def classify_op(name: str) -> Code:
    """Return what the type of an op says: ``name:Type``, or the instruction's name."""
    return classify_framework_name(name.rpartition(":")[2])


def is_computing_op(name: str) -> bool:
    """Return whether an op of TensorFlow computes: it neither brings data in nor saves them, and so on."""
    return classify_op(name) in (Code.NOTHING, Code.LAUNCH)


# ---- threads


DRIVER, EXECUTOR, OTHER, FEED = range(4)
"""Threads that run Python and launch work; those that work for them; other threads of Python; those of tf.data that
fetch ahead: a program that does not ask for their elements does not wait for them."""

_WEAK: Final = (Code.LAUNCH, Code.FIRST_CALL, Code.LOCK, Code.WAITS, Code.PYTHON, Code.ANNOTATION, Code.PROFILER)
_UNUSED: Final = 255


def _make_ranks() -> UInt8s:
    rank = np.full((4, 256), _UNUSED, np.uint8)
    for code in Code:
        if code not in _WEAK and code is not Code.NOTHING:
            rank[:FEED, code] = (0, 1, 5)
    for code, ranks in (
        (Code.LAUNCH, (2, 3, 7)),
        (Code.FIRST_CALL, (2, 3, 7)),
        (Code.PYTHON, (4, 7, 7)),
        (Code.ANNOTATION, (4, 7, 7)),
        (Code.LOCK, (6, 9, _UNUSED)),
        (Code.WAITS, (8, 9, _UNUSED)),
        (Code.PROFILER, (0, _UNUSED, _UNUSED)),
    ):
        rank[[DRIVER, EXECUTOR, OTHER], code] = ranks
    return rank


LOADS: Final = np.isin(np.arange(256), (Code.INPUT, Code.INPUT_WORDS))
"""Mask of the codes of input loading."""
_WORKS: Final = np.isin(np.arange(256), (Code.HOST_COMPUTE, Code.LAUNCH, Code.PYTHON))
RANKS: Final = _make_ranks()
"""[role, code] which of several threads that say something says what the host does: the lowest counts."""
_ALWAYS: Final = np.array([[-(2**63), 2**63 - 1]])


@dataclass(frozen=True, slots=True)
class HostCauses:
    """``code``: by row of events, see Code. ``role``: of each of ``lines``, the threads. ``marked``: rows that mark
    steps."""

    origins: EventOrigins
    code: UInt8s
    lines: tuple[Line, ...]
    role: tuple[int, ...]
    marked: Int32s

    def foremost(self, events: HostEvents, ranks: UInt8s = RANKS, open_ps: Int64s = _ALWAYS) -> Records:
        """Return which event says what the host does in some intervals, as PIECE; its ``label`` is the row, or -1 if
        none does. ``ranks``: [role, code]; ``open_ps``: [k, 2], begin and end of the intervals, in order."""
        if not len(open_ps):
            return np.zeros(0, PIECE)
        times, lines = (events.start_ps, events.duration_ps, self.code), index_threads(self.lines, self.role)
        first, last = int(open_ps[0, 0]), int(open_ps[-1, 1])
        pieces = foremost_reasons(times, _POWERS.ravel(), lines, ranks.ravel(), open_ps, first, last)
        return np.frombuffer(pieces, PIECE)


_OF_NAMES: Final = (
    Code.ANNOTATION, Code.INPUT_WORDS, Code.CHECKPOINT_WORDS, Code.MAYBE_INPUT, Code.EVALUATION, Code.LOGGING,
)  # fmt: skip


def find_host_causes(events: HostEvents, marked: Int32s) -> HostCauses:
    """Find what each event of the host threads says, and what the threads are. ``marked``: rows that mark steps."""
    origins = find_event_origins(events)
    lines = tuple(line for line in origins.lines if line.last > line.first)
    code = _classify_named(events, origins)
    apart, values = events.ints("_a")
    code[apart[values != 0]] = Code.NOTHING  # they are beside the thread, and would hide what it does
    named = np.isin(code[marked], _OF_NAMES)
    code[marked[named]] = Code.PYTHON  # what lies in a step says more than its marker
    code[marked[find_evaluation_markers(events, marked)]] = Code.EVALUATION
    _mark_exchanges(events, lines, code)
    _mark_input(events, origins, lines, code, marked)
    _mark_by_threads(events, lines, code)
    _mark_copies(events, lines, code)
    _mark_short_ops(events, code)
    _mark_other_work(events, origins, lines, code)
    _mark_compilation(events, lines, code)
    _mark_asking(events, lines, code)
    _mark_loops(events, origins, code, marked)
    roles = _assign_roles(lines, origins, code, marked)
    for line in origins.python_lines:  # launches that wait for Python's lock; the work in them stays what it is
        late, _ = find_late_returns(events, origins.parent, line)
        code[late[code[late] == Code.LAUNCH]] = Code.LOCK
    _mark_samples(events, origins, [line for line, role in zip(lines, roles, strict=True) if role == OTHER], code)
    return HostCauses(origins, code, lines, roles, marked)


def _classify_named(events: HostEvents, origins: EventOrigins) -> UInt8s:
    """Return the code of each event of the threads, which follows from its name and writer."""
    codes = np.zeros(origins.names.shape, np.uint8)
    for origin, meta in zip(*(places.tolist() for places in np.nonzero(origins.names)), strict=True):
        name = events.names[meta]
        if origin == Origin.PYTHON:
            said = classify_frame(name)
        elif origin == Origin.INPUT:
            said = Code.INPUT
        elif origin == Origin.USER:
            said = classify_name_words(name) or Code.ANNOTATION
        elif origin == Origin.OP:
            said = classify_op(name) or Code.HOST_COMPUTE
        else:
            said = classify_framework_name(name)
        codes[origin, meta] = said
    code = np.zeros(len(events), np.uint8)
    rows = index_threads(origins.lines, [0] * len(origins.lines))
    of_writer_and_name(origins.origin, events.meta, rows, codes, len(Origin), code)
    return code


def _mark_exchanges(events: HostEvents, lines: tuple[Line, ...], code: UInt8s) -> None:
    """Mark annotations that start PyTorch collectives as not loading input: all annotations of the name say no more
    than others. TorchRec distributes the rows of a batch over devices in ``sdd_preprocess_splits``."""
    calls = np.array([name.startswith(COLLECTIVES) for name in events.names], bool)
    vague = np.array([may_exchange(name) for name in events.names], bool) if calls.any() else calls
    if not vague.any():
        return
    exchanges: set[int] = set()
    said = []
    for line in lines:
        meta = events.meta[line.first : line.last]
        rows = line.first + np.flatnonzero((code[line.first : line.last] == Code.INPUT_WORDS) & vague[meta])
        begins = events.start_ps[line.first + np.flatnonzero(calls[meta])]
        start = events.start_ps[rows]
        end = add_durations(start, np.maximum(events.duration_ps[rows], 0))
        exchanges.update(np.unique(events.meta[rows[contain_any_time(start, end, begins)]]).tolist())
        said.append(rows)
    rows = np.concatenate([np.zeros(0, np.int64), *said])
    code[rows[np.isin(events.meta[rows], list(exchanges))]] = Code.ANNOTATION


def _mark_input(
    events: HostEvents, origins: EventOrigins, lines: tuple[Line, ...], code: UInt8s, marked: Int32s
) -> None:
    """Decide whether each call that may load input does; else it is Python, an annotation, or a wait for a thread."""
    queues = np.array([asks_queue(name) for name in events.names], np.bool_)
    for line in lines:
        here = code[line.first : line.last]
        maybe = line.first + np.flatnonzero(here == Code.MAYBE_INPUT)
        if not len(maybe):
            continue
        known = line.first + np.flatnonzero((here == Code.INPUT) | (here == Code.INPUT_WORDS))
        launches = line.first + np.flatnonzero((here == Code.LAUNCH) | (here == Code.HOST_COMPUTE))
        does = find_loading_calls(events, origins, line, CandidateCalls(maybe, known, launches, marked))
        others = np.where(origins.origin[maybe] == Origin.USER, Code.ANNOTATION, Code.PYTHON)
        code[maybe] = np.where(does, Code.INPUT_WORDS, np.where(queues[events.meta[maybe]], Code.LOCK, others))


def _mark_asking(events: HostEvents, lines: tuple[Line, ...], code: UInt8s) -> None:
    """Mark launches that mostly wait for input as input: what Python spends on the call is input, too."""
    for line in lines:
        here = code[line.first : line.last]
        asked, calls = (line.first + np.flatnonzero(here == kind) for kind in (Code.INPUT, Code.LAUNCH))
        if len(asked) and len(calls):
            duration = np.maximum(events.duration_ps[calls], 0)
            loads = merge_spans(events.start_ps[asked], np.maximum(events.duration_ps[asked], 0))
            code[calls[2 * measure_covered_time(loads, events.start_ps[calls], duration) > duration]] = Code.INPUT


def _mark_loops(events: HostEvents, origins: EventOrigins, code: UInt8s, marked: Int32s) -> None:
    """Count calls before each step of a loop as input, unless their names say something else."""
    may_load = np.array([may_be_loader(name) for name in events.names], np.bool_)
    for line in origins.python_lines:
        here = code[line.first : line.last]
        works = line.first + np.flatnonzero(np.isin(here, (Code.LAUNCH, Code.FIRST_CALL, Code.HOST_COMPUTE)))
        waits = line.first + np.flatnonzero(np.isin(here, (Code.WAITS, Code.TRANSFER)))
        fits = np.isin(here, (Code.PYTHON, Code.ANNOTATION)) & may_load[events.meta[line.first : line.last]]
        code[find_calls_before_steps(events, line, works, marked, fits, waits)] = Code.INPUT_WORDS


def _mark_by_threads(events: HostEvents, lines: tuple[Line, ...], code: UInt8s) -> None:
    """Mark what the thread adds to names. Calls that launch device work do so whatever their name is, and so do ops
    with such calls in them; on threads of tf.data all of them bring data in."""
    rows = events.ints("correlation_id")[0]
    for line in lines:
        here = code[line.first : line.last]
        if line.name.startswith(INPUT_THREADS):
            here[_WORKS[here]] = Code.INPUT
            continue
        calls = rows[find_rows_within(rows, line.first, line.last)]
        if len(calls):
            ops = line.first + np.flatnonzero(here == Code.HOST_COMPUTE)
            end = add_durations(events.start_ps[ops], np.maximum(events.duration_ps[ops], 0))
            code[ops[contain_any_time(events.start_ps[ops], end, events.start_ps[calls])]] = Code.LAUNCH
            code[calls[np.isin(code[calls], (Code.NOTHING, Code.HOST_COMPUTE))]] = Code.LAUNCH


_OF_POOLS: Final = compile_late(r"(?:.*/)?(?:threading|thread|pool|_base|\w+_adapter)\.py")


def _mark_samples(events: HostEvents, origins: EventOrigins, lines: Sequence[Line], code: UInt8s) -> None:
    """Count ``__getitem__`` that a pool of threads calls by itself as input: a worker loads a sample or batch."""
    frames = {row: parse_frame(events.names[row]) for row in np.flatnonzero(mark_frames(events)[0]).tolist()}
    loads, own = np.zeros((2, len(events.names)), np.bool_)
    loads[[row for row, frame in frames.items() if frame.function == "__getitem__"]] = True
    if not loads.any():
        return
    own[[row for row, frame in frames.items() if not _OF_POOLS.fullmatch(frame.file)]] = True
    for line in lines:
        rows = line.first + np.flatnonzero(loads[events.meta[line.first : line.last]])
        above = origins.parent[rows].astype(np.int64)
        while (up := (above >= 0) & ~own[events.meta[above]]).any():
            above[up] = origins.parent[above[up]]
        code[rows[(above < 0) & (code[rows] == Code.PYTHON)]] = Code.INPUT_WORDS


_COPY: Final = frozenset((
    "item", "tolist", "cpu", "cuda", "numpy", "to", "_value", "__array__", "__float__", "__int__", "device_get",
    "asarray", "aten::item", "aten::_local_scalar_dense", "aten::copy_", "aten::to", "aten::_to_copy",
))  # fmt: skip


def _mark_copies(events: HostEvents, lines: tuple[Line, ...], code: UInt8s) -> None:
    """Count functions and ops that ask for a copy as one if they hold a recorded copy: ``item`` of a device tensor."""
    asks = np.array(
        [(parse_frame(name).function if is_frame(name) else name) in _COPY for name in events.names], np.bool_
    )
    for line in lines if asks.any() else ():
        here = code[line.first : line.last]
        copies = line.first + np.flatnonzero(here == Code.TRANSFER)
        rows = line.first + np.flatnonzero(
            asks[events.meta[line.first : line.last]] & np.isin(here, (Code.PYTHON, Code.LAUNCH, Code.HOST_COMPUTE))
        )
        code[rows[contain_rows(events, rows, copies)]] = Code.ASKS_COPY


def _mark_other_work(events: HostEvents, origins: EventOrigins, lines: tuple[Line, ...], code: UInt8s) -> None:
    """Keep calls named after evaluation only if they launch work and are not the whole run."""
    for line in lines:
        here = code[line.first : line.last]
        rows = line.first + np.flatnonzero(here == Code.EVALUATION)
        if len(rows):
            launches = line.first + np.flatnonzero((here == Code.LAUNCH) | (here == Code.HOST_COMPUTE))
            no = rows[~find_evaluations(events, line, rows, launches)]
            code[no] = np.where(origins.origin[no] == Origin.USER, Code.ANNOTATION, Code.PYTHON)


def _mark_short_ops(events: HostEvents, code: UInt8s) -> None:
    """Mark short ops that Python calls one after the other as launches, with all ops that they call."""
    runs = find_op_runs(events)
    for first, last in zip(runs.first.tolist(), runs.last.tolist(), strict=True):
        here = code[first:last]
        here[here == Code.HOST_COMPUTE] = Code.LAUNCH


def _mark_compilation(events: HostEvents, lines: tuple[Line, ...], code: UInt8s) -> None:
    """Mark first calls: a launch that compiles for a tenth of its time or more is the first of its function, and traces
    while nothing else is known. TensorFlow records which calls trace: all of their time is compilation."""
    for line in lines:
        here = code[line.first : line.last]
        compiles, calls = (line.first + np.flatnonzero(here == kind) for kind in (Code.COMPILATION, Code.LAUNCH))
        if len(compiles) and len(calls):
            start, duration = events.start_ps[calls], np.maximum(events.duration_ps[calls], 0)
            begin = events.start_ps[compiles]
            upto = np.append(0, np.cumsum(np.maximum(events.duration_ps[compiles], 0)))
            first, last = np.searchsorted(begin, start), np.searchsorted(begin, add_durations(start, duration))
            compiled = upto[last] - upto[first]
            code[calls[(compiled > 0) & (compiled >= duration // 10)]] = Code.FIRST_CALL
    rows, numbers = events.texts("tf_function_call")
    traced = [number for number in np.unique(numbers).tolist() if events.text(number).startswith("traced")]
    code[rows[np.isin(numbers, traced)]] = Code.COMPILATION


INPUT_THREADS: Final = "tf_data"
"""How names of the threads of tf.data begin."""
_ASKED: Final = "tf_data_iterator_get_next"
"""The thread of tf.data on which the program asks for an element: the program waits for what it does."""


def _assign_roles(lines: tuple[Line, ...], origins: EventOrigins, code: UInt8s, marked: Int32s) -> tuple[int, ...]:
    """Return the role of each thread. Threads that run Python and mark steps or launch work drive; without such, the
    one with most events does."""
    runs_python = {line.number for line in origins.python_lines}
    launches = [bool((code[line.first : line.last] == Code.LAUNCH).any()) for line in lines]
    feeds = [line.name.startswith(INPUT_THREADS) and not line.name.startswith(_ASKED) for line in lines]
    marks = [bool(((marked >= line.first) & (marked < line.last)).any()) for line in lines]
    python = [line.number in runs_python for line in lines]
    drives = [is_python and (launch or mark) for is_python, launch, mark in zip(python, launches, marks, strict=True)]
    if not any(drives) and any(python):
        most = max((line.last - line.first, -place) for place, line in enumerate(lines) if python[place])
        drives[-most[1]] = True
    return tuple(
        DRIVER if drive else FEED if feed else OTHER if is_python else EXECUTOR
        for drive, feed, is_python in zip(drives, feeds, python, strict=True)
    )


INPUT, COMPILATION, WORK = EventType.HOST_PREPROCESS, EventType.HOST_POSTPROCESS, EventType.HOST_RUNTIME
"""Types that stand for input, compilation and ops while time is divided: ops count before the others, and all of these
before other events of the host. Events of no other kind have them."""
NOT_TRAINING, WORK_OF_IT = EventType.HOST_BATCH_FORMATION, EventType.DEVICE_WAIT_DEVICE
"""Types that stand for evaluation, logging and saving: before input and compilation; and, from the first work that is
launched for it, before all that devices do."""

_TYPES: Final = np.zeros(256, np.uint8)
for _code, _cause in CAUSE_OF.items():
    if _cause in ("input", "compilation"):
        _TYPES[_code] = INPUT if _cause == "input" else COMPILATION


@dataclass(frozen=True, slots=True)
class HostReasons:
    """``said``: when the host loads input or compiles, and when it does work that is not training, in two lines of
    events in order, of no group; ``first``: the events at which lines begin, and the end of the last."""

    said: TypedEvents
    lines: Int64s

    def within(self, spans: Markers) -> tuple[TypedEvents, Int64s]:
        """Return them as events of the groups whose spans they meet, and their lines."""
        met, place = overlap_spans(self.said, spans)
        return met, np.searchsorted(place, self.lines).astype(np.int64)


def find_host_reasons(causes: HostCauses, foremost: Records, other: OtherWork) -> HostReasons:
    """Return what a host does that is known as input, compilation, or work that is not training. ``found``: what it
    does at any time, PIECE."""
    foremost = foremost[foremost["label"] >= 0]
    type_ = _TYPES[causes.code[foremost["label"]]]
    some = type_ > 0
    first = np.minimum(other.first_ps, other.end_ps)
    began, ended = foremost["begin"][some], foremost["end"][some]
    kinds = (NOT_TRAINING, WORK_OF_IT)
    type_ = np.concatenate([type_[some], *(np.full(len(first), kind, np.uint8) for kind in kinds)])
    begin = np.concatenate([began, other.begin_ps, first])
    end = np.concatenate([ended, other.end_ps, other.end_ps])
    lasts = end > begin
    upto = np.cumsum([0, len(began), len(first), len(first)])
    lines = np.append(0, np.cumsum(lasts))[upto]
    none = np.full(int(lasts.sum()), -1, np.int32)
    return HostReasons(TypedEvents(none, type_[lasts], begin[lasts], (end - begin)[lasts]), lines)


@dataclass(frozen=True, slots=True)
class OtherWork:
    """Spans in which threads that drive devices evaluate, log or save, in order and disjoint.
    ``row``: of the outermost event; ``first_ps``: when the first work is launched in each."""

    row: Int64s
    begin_ps: Int64s
    end_ps: Int64s
    first_ps: Int64s


OTHER_WORK: Final = {
    Code.CHECKPOINT: "checkpoint",
    Code.CHECKPOINT_WORDS: "checkpoint",
    Code.EVALUATION: "evaluation",
    Code.LOGGING: "logging",
}
"""Codes of work that is not training, and their causes."""
_LAUNCHES: Final = (Code.LAUNCH, Code.FIRST_CALL, Code.HOST_COMPUTE)


def find_other_work(events: HostEvents, causes: HostCauses) -> OtherWork:
    """Return when the threads that drive devices do work that is not training."""
    rows, first = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for line, role in zip(causes.lines, causes.role, strict=True):
        if role != DRIVER:
            continue
        here = causes.code[line.first : line.last]
        own = line.first + np.flatnonzero(
            np.isin(here, list(OTHER_WORK)) & (events.duration_ps[line.first : line.last] > 0)
        )
        launched = line.first + np.flatnonzero(np.isin(here, _LAUNCHES))
        starts = np.append(events.start_ps[launched], np.iinfo(np.int64).max)
        rows.append(own)
        first.append(starts[np.searchsorted(launched, own, side="right")])
    row, first_ps = np.concatenate(rows), np.concatenate(first)
    begin = events.start_ps[row]
    end = add_durations(begin, events.duration_ps[row])
    order = sort_rows(begin, -end)
    row, first_ps, begin, end = row[order], first_ps[order], begin[order], end[order]
    outer, reached = np.zeros(len(row), np.bool_), np.iinfo(np.int64).min
    for place, (since, until) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
        if since >= reached:
            outer[place], reached = True, until
    return OtherWork(row[outer], begin[outer], end[outer], first_ps[outer])


def merge_reason_types(type_ps: Int64s) -> Int64s:
    """Return [..., 18] times by type; the types of this module count as the types that they stand for."""
    times = type_ps.copy()
    for stands, for_type in (
        (INPUT, EventType.HOST_WAIT_INPUT),
        (COMPILATION, EventType.HOST_COMPILE),
        (WORK, EventType.HOST_COMPUTE),
        (WORK_OF_IT, NOT_TRAINING),
    ):
        times[..., for_type] += times[..., stands]
        times[..., stands] = 0
    return times


def sort_longest_markers(markers: Markers) -> Markers:
    """Return the longest marker of each group, in order of time."""
    spans = select_longest_markers(markers)
    return spans[np.argsort(spans.start_ps, kind="stable")]


def repeat_in_spans(moved: TypedEvents, spans: Markers) -> TypedEvents:
    """Repeat each event once per overlapping span, with the group of the span."""
    return overlap_spans(moved, spans)[0]


def overlap_spans(moved: TypedEvents, spans: Markers) -> tuple[TypedEvents, Int64s]:
    """Repeat each event once per overlapping span. Return the events, and the place of each in ``moved``."""
    spans = sort_longest_markers(spans)
    ends = np.maximum.accumulate(add_durations(spans.start_ps, spans.duration_ps))
    low = np.searchsorted(ends, moved.start_ps, side="right")
    high = np.searchsorted(spans.start_ps, add_durations(moved.start_ps, moved.duration_ps), side="left")
    times = np.maximum(high - low, 0)
    copies = np.repeat(np.arange(len(moved)), times)
    span = np.arange(len(copies)) - np.repeat(np.cumsum(times) - times, times) + np.repeat(low, times)
    return replace(moved[copies], group=spans.group[span].astype(np.int32)), copies
