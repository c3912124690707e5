"""Captures of a host that trains with TensorFlow and tf.data: many threads, nested events, small stats.

The names, the nesting and the stats of each kind follow captures of TensorFlow 2.14 and 2.21 on a CPU;
so do the mix (about 1.8 stats and 32 bytes an event) and times in whole nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from event_kinds import (
    DOUBLE,
    INT64,
    REF,
    STR,
    UINT64,
    Kind,
    PlaneVocabulary,
    Stat,
    below,
    constant,
    doubles,
    one_of_many,
)
from time_patterns import Chunk, Node, Pattern, repeat
from trace_writer import (
    PLANE_NAME,
    PLANE_STATS,
    XSPACE_HOSTNAMES,
    CaptureWriter,
    PlaneWriter,
    bytes_field,
    line_head,
    line_tail,
    text_field,
)

TIMESTAMP_NS = 7_994
UNIT_PS = 1_000
START_UNIX_NS = 1_760_000_000_123_456_789
VARIANTS = 6

_ANY_ID = Stat("id", 0, one_of_many(512))
_PRODUCER = (Stat("_pt", INT64, constant(2)), Stat("_p", 0, one_of_many(256)))
_CONSUMER = (Stat("_ct", INT64, constant(2)), Stat("_c", 0, one_of_many(256)))
_POOL_PRODUCER = (Stat("_pt", INT64, constant(15)), Stat("_p", INT64, below(60_000)))
_POOL_CONSUMER = (Stat("_ct", INT64, constant(15)), Stat("_c", INT64, below(60_000)))

_SCOPES = ("sequential/dense", "sequential/dense_1", "SGD", "gradient_tape/sequential/dense", "cond/while")
_OPS = [
    f"{scope}/{part}:{part.split('/')[-1]}"
    for scope in _SCOPES
    for part in (
        "MatMul", "BiasAdd/ReadVariableOp", "Relu", "Neg", "Mul", "AssignVariableOp", "Sum", "Cast",
        "random_normal/RandomStandardNormal", "AddV2", "ParseExample/ParseExampleV2", "StridedSlice",
    )
]  # fmt: skip
_STAGES = ("BatchV2", "ShuffleAndRepeat", "Map", "Interleave[0]", "FlatMap", "TFRecord")


def _iterator_kinds() -> list[Kind]:
    kinds = []
    name = "Iterator::Root::Prefetch"
    for depth, stage in enumerate(_STAGES, 1):
        name += "::" + stage
        stats = [
            Stat("name", REF, text=f"{stage}Dataset:{depth}"),
            Stat("shapes", REF, text=("[32] []", "[]", "<unknown>")[depth % 3]),
            Stat("types", REF, text=("float int64", "string")[depth % 2]),
            Stat("id", INT64, below(1 << 14)),
            Stat("parent_id", 0, one_of_many(4)),
        ]
        if stage == "ShuffleAndRepeat":
            stats += [
                Stat("buffer_size", INT64, constant(64)),
                Stat("buffered_elements", INT64, below(65)),
                Stat("buffered_bytes_MB", INT64, constant(0)),
            ]
        kinds.append(Kind(name, tuple(stats), display_name="Iterator::" + stage.split("[")[0]))
    return kinds


def _memory_stats(*extra: Stat) -> tuple[Stat, ...]:
    return (
        Stat("allocator_name", REF, text="cpu"),
        Stat("bytes_reserved", INT64, constant(0)),
        Stat("bytes_allocated", INT64, below(1 << 28)),
        Stat("bytes_available", INT64, below(1 << 33)),
        Stat("fragmentation", DOUBLE, doubles(0.0, 0.4)),
        Stat("peak_bytes_in_use", INT64, below(1 << 30)),
        Stat("addr", UINT64, below(1 << 40)),
        *extra,
    )


KINDS = [
    Kind("ThreadpoolListener::StartRegion", _POOL_CONSUMER, instant=True),
    Kind("ThreadpoolListener::Record", _POOL_PRODUCER, instant=True),
    Kind("ThreadpoolListener::StopRegion", instant=True),
    Kind("ExecutorState::Process", (_ANY_ID, Stat("iter_num", INT64, constant(0)), *_CONSUMER)),
    Kind("ExecutorDoneCallback", (_ANY_ID, *_CONSUMER)),
    Kind("FunctionRun", (_ANY_ID, Stat("_r", INT64, constant(1)), *_PRODUCER)),
    Kind("InstantiatedCapturedFunction::Run", (_ANY_ID,)),
    Kind("PrefetchProduce", (Stat("element_id", INT64, below(1 << 22)),)),
    Kind("MapAndBatchProduce", (Stat("element_id", INT64, below(1 << 22)),)),
    Kind("IteratorGetNextOp::DoCompute", (
        Stat("id", INT64, below(1 << 20)), Stat("iter_num", INT64, constant(0)),
        Stat("element_size", INT64, constant(2176)),
    )),
    Kind("EagerExecute", (
        Stat("eager_op", REF, text="IteratorGetNext"), Stat("is_func", INT64, constant(0)),
    )),
    Kind("EagerCopyToDevice"),
    Kind("EagerKernelExecute"),
    Kind("KernelAndDeviceFunc::Run"),
    Kind("EagerLocalExecute: __inference_train_step_434"),
    Kind("train_step", (
        Stat("tf_function_call", REF, text="notTraced-nonXla"), Stat("tracing_count", INT64, constant(2)),
    )),
    Kind("train", (Stat("step_num", INT64, below(10_000)), Stat("_r", INT64, constant(1)))),
    Kind("MemoryAllocation", _memory_stats(
        Stat("requested_bytes", INT64, below(1 << 24)), Stat("allocation_bytes", INT64, below(1 << 24)),
        Stat("shape", STR, text="[128,512]"),
    ), instant=True),
    Kind("MemoryDeallocation", _memory_stats(), instant=True),
    *_iterator_kinds(),
    *(Kind(name, display_name=name.split(":")[-1]) for name in _OPS),
]  # fmt: skip
_NUMBER = {kind.name: number for number, kind in enumerate(KINDS)}
_FIRST_OP = _NUMBER[_OPS[0]]
_FIRST_STAGE = _FIRST_OP - len(_STAGES)


Build = Callable[[np.random.Generator, int], Node]
"""Makes a tree; the second argument numbers the variants of a pattern."""


@dataclass(frozen=True, slots=True)
class Role:
    """Threads of one pool: their share of the events, their name, and the patterns they repeat."""

    name: str
    share: float
    patterns: Sequence[Pattern]


def _node(name: str, *children: Node) -> Node:
    number = _NUMBER[name]
    return Node(number, children, KINDS[number].instant)


def _ops(rng: np.random.Generator, low: int, high: int) -> list[Node]:
    chosen = rng.integers(0, len(_OPS), int(rng.integers(low, high)))
    return [Node(_FIRST_OP + int(number)) for number in chosen]


def _compute(rng: np.random.Generator, variant: int) -> Node:
    """Work of a pool thread, with the marks of the thread pool; in one variant it allocates memory."""
    marks = [_node("ThreadpoolListener::Record") for _ in range(1 + variant % 3)]
    memory = [_node("MemoryAllocation"), _node("MemoryDeallocation")] if variant == 0 else []
    work = [_node("ThreadpoolListener::StartRegion"), *_ops(rng, 2, 7), *memory, *marks]
    end = [_node("ThreadpoolListener::StopRegion"), _node("ExecutorDoneCallback")]
    return _node("ExecutorState::Process", *work, *end)


def _function(rng: np.random.Generator, _variant: int = 0) -> Node:
    end = [_node("ThreadpoolListener::StopRegion"), _node("ExecutorDoneCallback")]
    run = _node("FunctionRun", _node("ThreadpoolListener::StartRegion"), *_ops(rng, 2, 6), *end)
    return _node("InstantiatedCapturedFunction::Run", run)


def _pipeline(rng: np.random.Generator, _variant: int) -> Node:
    inner = [_function(rng), *_ops(rng, 1, 3)]
    for stage in reversed(range(len(_STAGES))):
        inner = [Node(_FIRST_STAGE + stage, tuple(inner))]
    return _node("PrefetchProduce", *inner)


def _step(rng: np.random.Generator, _variant: int) -> Node:
    eager = []
    for _ in range(4):
        run = _node("EagerKernelExecute", _node("KernelAndDeviceFunc::Run", *_ops(rng, 2, 6)))
        eager.append(_node("EagerExecute", _node("EagerCopyToDevice"), run))
    step = _node("train_step", _node("EagerLocalExecute: __inference_train_step_434", *eager))
    return _node("train", _node("IteratorGetNextOp::DoCompute"), step)


def roles(rng: np.random.Generator) -> list[Role]:
    """The kinds of threads of the host; the patterns differ from seed to seed."""

    def patterns(*made: tuple[Build, float, float]) -> list[Pattern]:
        return [
            Pattern.of(build(rng, variant), rng, mean_units=mean_us * 1_000, weight=weight / VARIANTS)
            for build, mean_us, weight in made
            for variant in range(VARIANTS)
        ]

    return [
        Role("python", 0.05, patterns((_step, 2_000, 1))),
        Role("tf_Compute", 0.40, patterns((_compute, 150, 1))),
        Role("tf_data_private_threadpool", 0.35, patterns((_pipeline, 200, 2), (_compute, 80, 1))),
        Role("tf_data_iterator_resource", 0.20, patterns((_pipeline, 250, 1), (_function, 90, 1))),
    ]


@dataclass(slots=True)
class HostCapture:
    """Counts of what was written, kept for the checks."""

    events: int = 0
    stats: int = 0
    lines: int = 0

    def count(self, vocabulary: PlaneVocabulary, chunk: Chunk) -> None:
        self.events += len(chunk[0])
        self.stats += int(vocabulary.stats_of[chunk[0]].sum())


def write_host(out: CaptureWriter, rng: np.random.Generator, events: int, threads: int = 32) -> HostCapture:
    """A host plane of ``threads`` lines, and the environment."""
    counts = HostCapture()
    write_host_plane(out, rng, events, threads, counts)
    write_environment(out)
    return counts


def write_host_plane(
    out: CaptureWriter, rng: np.random.Generator, events: int, threads: int, counts: HostCapture
) -> None:
    """``threads`` lines with about ``events`` events; the python thread has one line, pools share the rest."""
    vocabulary = PlaneVocabulary(KINDS)
    with out.plane() as plane:
        plane.write(text_field(PLANE_NAME, "/host:CPU"))
        for role, line_events in _deal(roles(rng), events, threads):
            write_line(plane, vocabulary, rng, role, line_events, counts)
        plane.write(vocabulary.metadata(rng))


def _deal(all_roles: Sequence[Role], events: int, threads: int) -> list[tuple[Role, int]]:
    """Which role each line has and how many events, busy threads first; a single line has all roles."""
    if threads == 1:
        everything = [pattern for role in all_roles for pattern in role.patterns]
        return [(Role("python", 1.0, everything), events)]
    lines = []
    for role in all_roles:
        number = 1 if role.name == "python" else max(1, round((threads - 1) * role.share / 0.95))
        weights = 1.0 / np.sqrt(1.0 + np.arange(number))
        lines += [(role, max(1, int(events * role.share * weight / weights.sum()))) for weight in weights]
    return lines


def write_line(
    plane: PlaneWriter,
    vocabulary: PlaneVocabulary,
    rng: np.random.Generator,
    role: Role,
    events: int,
    counts: HostCapture,
) -> None:
    line_id = int(rng.integers(-(1 << 63), 1 << 63))
    name = role.name if role.name == "python" else f"{role.name}/{line_id}"
    with plane.long_line(line_head(line_id, name, TIMESTAMP_NS), line_tail(name)) as line:
        for chunk in repeat(role.patterns, rng, events, UNIT_PS, gap_units=3_000):
            encoded, _ = vocabulary.encode(rng, *chunk)
            line.write(encoded.data)
            counts.count(vocabulary, chunk)
    counts.lines += 1


def write_small_lines(out: CaptureWriter, rng: np.random.Generator, events: int, lines: int) -> HostCapture:
    """A host plane of very many short lines, as an executor that starts a thread for each task leaves."""
    counts = HostCapture()
    vocabulary = PlaneVocabulary(KINDS)
    patterns = roles(rng)[1].patterns
    with out.plane() as plane:
        plane.write(text_field(PLANE_NAME, "/host:CPU"))
        for chunk in repeat(patterns, rng, events, UNIT_PS, gap_units=3_000):
            encoded, begins = vocabulary.encode(rng, *chunk)
            pieces = max(1, round(len(chunk[0]) * lines / events))
            roots = np.flatnonzero(chunk[0] == _NUMBER["ExecutorState::Process"])
            chosen = roots[np.linspace(0, len(roots), pieces, endpoint=False, dtype=np.int64)]
            cuts = begins[np.unique(np.append(chosen, len(chunk[0])))].tolist()
            for first, end in pairwise(cuts):
                line_id = int(rng.integers(-(1 << 63), 1 << 63))
                name = f"worker/{line_id}"
                plane.line(line_head(line_id, name, TIMESTAMP_NS), encoded[first:end].data, line_tail(name))
            counts.count(vocabulary, chunk)
            counts.lines += len(cuts) - 1
        plane.write(vocabulary.metadata(rng))
    write_environment(out)
    return counts


def write_environment(out: CaptureWriter, hostname: str = "bench") -> None:
    """The plane that says when profiling started, and the host's name, which comes last."""
    vocabulary = PlaneVocabulary([])
    start = Stat("profile_start_time", UINT64, constant(START_UNIX_NS))
    stop = Stat("profile_stop_time", UINT64, constant(START_UNIX_NS + 60_000_000_000))
    stats = b"".join(bytes_field(PLANE_STATS, vocabulary.stat(stat)) for stat in (start, stop))
    with out.plane() as plane:
        plane.write(text_field(PLANE_NAME, "Task Environment"))
        plane.write(vocabulary.metadata(np.random.default_rng(0)))
        plane.write(stats)
    out.raw(bytes_field(XSPACE_HOSTNAMES, hostname.encode()))
