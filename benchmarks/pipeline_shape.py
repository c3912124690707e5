"""Captures of a host that trains from two tf.data pipelines: one slow and prefetched, one cheap and parallel.

The threads, the nesting, the stats and the ids of each kind of event follow a capture of TensorFlow 2.14: iterators
know themselves and their parents by 64-bit ids, elements are handed from thread to thread by theirs, functions that
run elsewhere are linked. A batch is made while the step before it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from event_kinds import INT64, REF, InTurn, Kind, PlaneVocabulary, Stat, constant
from host_shape import TIMESTAMP_NS, UNIT_PS, HostCapture, write_environment
from time_patterns import Node, Pattern, place
from trace_writer import PLANE_NAME, CaptureWriter, PlaneWriter, Words, line_head, line_tail, text_field

BATCH = 16
MEAN_STEP_UNITS = 4_300_000
STEPS_A_CHUNK = 400
MOST, LEAST = 20.0, 0.001
VARIANTS = 6
EVENTS_A_STEP = 457
HALF, FULL = 1 << 63, 1 << 64
FIRST_ELEMENT, ELEMENT_STRIDE = 1_795_255_116_061_784_405, 4_700_321
LINK_TYPE = constant(2)


@dataclass(frozen=True, slots=True)
class Iterator:
    """An iterator: the end of its name, its dataset, its parent's place in the list, and the stats it has beside."""

    name: str
    dataset: str
    parent: int | None
    shapes: str = "[32] []"
    types: str = "float int64"
    ints: tuple[tuple[str, int], ...] = ()
    texts: tuple[tuple[str, str], ...] = ()


_ROOT_STATS = {
    "ints": (("cpu_budget", 2), ("ram_budget_megabytes", 9_091), ("intra_op_parallelism", 1), ("threadpool_size", 2)),
    "texts": (("algorithm", "DEFAULT"), ("warm_start", "false"), ("ram_usage_megabytes", "7122 out of 25276 (28.18%)")),
}
ITERATORS = (
    Iterator("", "RootDataset:10", None, "[16,32] [16]", **_ROOT_STATS),
    Iterator("::Prefetch", "PrefetchDataset:6", 0, "[16,32] [16]", ints=(("buffer_limit", 1), ("interleave_depth", 0)),
             texts=(("autotune", "false"), ("autotune_mode", "legacy"))),
    Iterator("::BatchV2", "BatchDatasetV2:5", 1, "[16,32] [16]", ints=(("batch_size", 16),),
             texts=(("drop_remainder", "false"), ("parallel_copy", "true"))),
    Iterator("::ShuffleAndRepeat", "fused(ShuffleDatasetV3:3,RepeatDataset:4)", 2,
             ints=(("buffer_size", 64), ("buffered_elements", 63), ("buffered_bytes_MB", 0))),
    Iterator("::Map", "MapDataset:2", 3),
    Iterator("::Interleave", "InterleaveDataset:1", 4, "[]", "string", ints=(("block_length", 1), ("cycle_length", 2))),
    Iterator("[0]::FlatMap", "FlatMapDataset:13", 5, "[]", "string"),
    Iterator("[0]::TFRecord", "TFRecordDataset:14", 6, "<unknown>", "string"),
    Iterator("[1]::FlatMap", "FlatMapDataset:16", 5, "[]", "string"),
    Iterator("[0]::TFRecord", "TFRecordDataset:17", 8, "<unknown>", "string"),
    Iterator("", "RootDataset:11", None, "[?]", "float", **_ROOT_STATS),
    Iterator("::MapAndBatch", "fused(MapDataset:8,BatchDatasetV2:9)", 10, "[?]", "float",
             ints=(("batch_size", 16), ("max_batch_results", 2), ("parallelism", 2), ("buffered_elements", 2)),
             texts=(("autotune", "true"), ("drop_remainder", "false"))),
    Iterator("::Range", "RangeDataset:7", 11, "[]", "int64"),
)  # fmt: skip
SLOW_ROOT, PREFETCH, BATCHES, SHUFFLE, MAP, INTERLEAVE = range(6)
FILES = ((6, 7), (8, 9))
CHEAP_ROOT, MAP_AND_BATCH, RANGE = range(10, 13)

OPS = tuple(
    f"{scope}/{op}:{op.rsplit('/', 1)[-1]}"
    for scope in ("sequential/dense", "sequential/dense_1", "gradient_tape/sequential/dense", "SGD")
    for op in ("MatMul/ReadVariableOp", "MatMul", "BiasAdd", "Relu", "Neg", "mul", "AssignAddVariableOp", "Sum")
)


def long_names() -> list[str]:
    names: list[str] = []
    for iterator in ITERATORS:
        names.append("Iterator::Root" if iterator.parent is None else names[iterator.parent] + iterator.name)
    return names


def iterator_ids(rng: np.random.Generator) -> list[int]:
    """Hashes, as the iterators have: those of the roots are integers, about half of the others are not."""
    ids = [int(value) for value in rng.integers(1, 1 << 64, len(ITERATORS), np.uint64)]
    return [value % HALF if ITERATORS[i].parent is None else value for i, value in enumerate(ids)]


class PipelineKinds:
    """The kinds of events by name, and what the ids of each are taken from: by the names of kind and stat."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.feeds: dict[tuple[str, str], InTurn] = {}
        self.kinds = [*self._iterators(iterator_ids(rng)), *self._others(), *(Kind(name) for name in OPS)]
        self.numbers = {kind.name: number for number, kind in enumerate(self.kinds)}

    def _iterators(self, ids: list[int]) -> list[Kind]:
        kinds = []
        for name, iterator, its_id in zip(long_names(), ITERATORS, ids, strict=True):
            stats = [Stat("name", REF, text=iterator.dataset), Stat("shapes", REF, text=iterator.shapes)]
            stats += [Stat("types", REF, text=iterator.types), Stat("id", 0, constant(its_id))]
            if iterator.parent is not None:
                stats.append(Stat("parent_id", 0, constant(ids[iterator.parent])))
            stats += [Stat(stat, INT64, constant(value)) for stat, value in iterator.ints]
            stats += [Stat(stat, REF, text=text) for stat, text in iterator.texts]
            kinds.append(Kind(name, tuple(stats), display_name="Iterator::" + name.rsplit("::", 1)[-1]))
        return kinds

    def _others(self) -> list[Kind]:
        iteration = Stat("iter_num", INT64, constant(0))
        element_size = Stat("element_size", INT64, constant(2_176))
        return [
            self._fed("train", "step_num", Stat("_r", INT64, constant(1))),
            self._fed("IteratorGetNextOp::DoCompute", "id", iteration, element_size),
            *(self._fed(stage + end, "element_id") for stage in STAGES for end in ("Produce", "Consume")),
            self._fed("InstantiatedCapturedFunction::Run", "id"),
            self._fed("InstantiatedCapturedFunction::RunAsync", "id"),
            self._fed("FunctionRun", "id _p", Stat("_r", INT64, constant(1)), Stat("_pt", INT64, LINK_TYPE)),
            self._fed("ExecutorState::Process", "id _c", iteration, Stat("_ct", INT64, LINK_TYPE)),
            self._fed("ExecutorDoneCallback", "id _c", Stat("_ct", INT64, LINK_TYPE)),
            Kind("EagerExecute", (Stat("eager_op", REF, text="IteratorGetNext"), Stat("is_func", INT64, constant(0)))),
            *map(Kind, PLAIN),
        ]

    def _fed(self, name: str, fed: str, *stats: Stat) -> Kind:
        """A kind of event some of whose stats are given to it line by line."""
        feeds = {stat: self.feeds.setdefault((name, stat), InTurn()) for stat in fed.split()}
        return Kind(name, (*(Stat(stat, 0, feed) for stat, feed in feeds.items()), *stats))

    def feed(self, name: str, **stats: Words) -> None:
        """The stats of the events of a kind on the line that is written next."""
        for stat, values in stats.items():
            self.feeds[name, stat].begin(values)

    def node(self, name: str, *children: Node, weight: float = 1.0) -> Node:
        return Node(self.numbers[name], children, weight=weight)


STAGES = ("Prefetch", "MapAndBatch")
PLAIN = (
    "TFE_Py_FastPathExecute_C", "TFE_Py_ExecuteCancelable", "EagerLocalExecute: IteratorGetNext",
    "EagerLocalExecute: __inference_train_step_434", "EagerCopyToDevice", "ValidateInputTypeAndPlacement",
    "EagerKernelExecute", "KernelAndDeviceFunc::Run", "TFE_DeleteTensorHandle", "train_step",
    "random_normal/RandomStandardNormal:RandomStandardNormal",
    "random_normal_1/RandomStandardNormal:RandomStandardNormal", "MatMul:_MklMatMul",
    "ParseSingleExample/ParseExample/ParseExampleV2:ParseExampleV2", "Cast:Cast",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread: in each step, these trees of events one after the other."""

    name: str
    roots: Sequence[Node]


def python_thread(kinds: PipelineKinds) -> Thread:
    """A step: two batches are fetched, a function runs."""
    node = kinds.node

    def eager(call: str, what: str, inner: Node, weight: float = 1.0) -> Node:
        run = node("EagerKernelExecute", node("KernelAndDeviceFunc::Run", inner, weight=MOST), weight=MOST)
        checks = (node("EagerCopyToDevice"), node("ValidateInputTypeAndPlacement"))
        execute = node("EagerExecute", node(f"EagerLocalExecute: {what}", *checks, run, weight=MOST), weight=MOST)
        return node(call, execute, weight=weight)

    def fetch(root: int, consumer: int, consumed: str, weight: float) -> Node:
        iterators = Node(root, (Node(consumer, (node(consumed, weight=LEAST),), weight=MOST),), weight=MOST)
        compute = node("IteratorGetNextOp::DoCompute", iterators, weight=MOST)
        return eager("TFE_Py_FastPathExecute_C", "IteratorGetNext", compute, weight)

    function = eager("TFE_Py_ExecuteCancelable", "__inference_train_step_434", node("FunctionRun"))
    step = node(
        "train",
        fetch(SLOW_ROOT, PREFETCH, "PrefetchConsume", 30.0),
        fetch(CHEAP_ROOT, MAP_AND_BATCH, "MapAndBatchConsume", 1.0),
        node("train_step", function, weight=10.0),
        *(node("TFE_DeleteTensorHandle") for _ in range(4)),
    )
    return Thread("python", [step])


def compute_thread(kinds: PipelineKinds, number: int) -> Thread:
    """Half of the ops of the function, in eight executions, and its end."""
    ops = OPS[number::2] * 2
    runs = [kinds.node("ExecutorState::Process", *map(kinds.node, ops[first::8])) for first in range(8)]
    return Thread(f"tf_Compute/{number}", [*runs, kinds.node("ExecutorDoneCallback")])


def prefetch_thread(kinds: PipelineKinds) -> Thread:
    """Makes a batch of the slow pipeline."""
    elements = []
    for element in range(BATCH):
        flat, record = FILES[element % 2]
        read = Node(INTERLEAVE, (Node(flat, (Node(record),)),))
        decode = kinds.node("InstantiatedCapturedFunction::Run", weight=MOST)
        elements.append(Node(SHUFFLE, (Node(MAP, (read, decode), weight=MOST),), weight=MOST))
    batch = Node(BATCHES, tuple(elements), weight=MOST)
    return Thread("tf_data_iterator_resource/0", [kinds.node("PrefetchProduce", batch)])


def parallel_thread(kinds: PipelineKinds) -> Thread:
    """Makes a batch of the cheap pipeline: each element starts a function elsewhere."""
    start = kinds.node("InstantiatedCapturedFunction::RunAsync", kinds.node("FunctionRun"))
    return Thread("tf_data_iterator_resource/1", [kinds.node("MapAndBatchProduce", Node(RANGE), start)] * BATCH)


def slow_pool_thread(kinds: PipelineKinds, number: int) -> Thread:
    """Runs the slow function on every other element."""
    node = kinds.node
    noise, more = PLAIN[10:12]
    parse = node("ExecutorState::Process", node(PLAIN[13]))
    draw = node("ExecutorState::Process", node(noise))
    multiply = node("ExecutorState::Process", node(more), node("MatMul:_MklMatMul"))
    element = [parse, draw, multiply, node("ExecutorDoneCallback")]
    return Thread(f"tf_data_private_threadpool/{number}", element * (BATCH // 2))


def cheap_pool_thread(kinds: PipelineKinds, number: int) -> Thread:
    run = kinds.node("ExecutorState::Process", kinds.node("Cast:Cast"))
    element = [run, kinds.node("ExecutorDoneCallback")]
    return Thread(f"tf_data_private_threadpool/{2 + number}", element * (BATCH // 2))


class PipelineCapture:
    """Writes the threads of a host, all in step, with the ids that tie them together; [step, element].

    A batch is made a step before it is used.
    """

    def __init__(self, rng: np.random.Generator, steps: int) -> None:
        self.rng, self.steps = rng, steps
        self.kinds = PipelineKinds(rng)
        self.vocabulary = PlaneVocabulary(self.kinds.kinds)
        self.lengths = (MEAN_STEP_UNITS * rng.lognormal(-0.05, 0.3, steps)).astype(np.int64)
        self.starts = np.cumsum(self.lengths) - self.lengths
        self.batches = np.uint64(FIRST_ELEMENT) + np.arange(steps + 1, dtype=np.uint64) * np.uint64(ELEMENT_STRIDE)
        self.counts = HostCapture()

    def write(self, plane: PlaneWriter) -> None:
        self._python_and_compute(plane)
        self._slow(plane)
        self._cheap(plane)
        plane.write(self.vocabulary.metadata(self.rng))

    def _python_and_compute(self, plane: PlaneWriter) -> None:
        kinds, functions, links = self.kinds, self._drawn(HALF), self._drawn(FULL)
        kinds.feed("train", step_num=np.arange(self.steps, dtype=np.uint64))
        kinds.feed("IteratorGetNextOp::DoCompute", id=self._drawn(HALF, 2))
        for stage in STAGES:
            kinds.feed(f"{stage}Consume", element_id=self.batches[:-1])
        kinds.feed("FunctionRun", id=functions, _p=links)
        self._line(plane, python_thread(kinds))
        for number in range(2):
            kinds.feed("ExecutorState::Process", id=np.repeat(functions, 8), _c=np.repeat(links, 8))
            kinds.feed("ExecutorDoneCallback", id=functions, _c=links)
            self._line(plane, compute_thread(kinds, number))

    def _slow(self, plane: PlaneWriter) -> None:
        kinds = self.kinds
        functions, links = (self._drawn(limit, BATCH).reshape(-1, BATCH) for limit in (HALF, FULL))
        kinds.feed("PrefetchProduce", element_id=self.batches[1:])
        kinds.feed("InstantiatedCapturedFunction::Run", id=functions.ravel())
        self._line(plane, prefetch_thread(kinds))
        for number in range(2):
            of_thread, its_links = functions[:, number::2].ravel(), links[:, number::2].ravel()
            kinds.feed("ExecutorState::Process", id=np.repeat(of_thread, 3), _c=np.repeat(its_links, 3))
            kinds.feed("ExecutorDoneCallback", id=of_thread, _c=its_links)
            self._line(plane, slow_pool_thread(kinds, number))

    def _cheap(self, plane: PlaneWriter) -> None:
        kinds = self.kinds
        functions, links = (self._drawn(limit, BATCH).reshape(-1, BATCH) for limit in (HALF, FULL))
        kinds.feed("MapAndBatchProduce", element_id=np.repeat(self.batches[1:], BATCH))
        kinds.feed("InstantiatedCapturedFunction::RunAsync", id=functions.ravel())
        kinds.feed("FunctionRun", id=functions.ravel(), _p=links.ravel())
        self._line(plane, parallel_thread(kinds))
        for number in range(2):
            of_thread, its_links = functions[:, number::2].ravel(), links[:, number::2].ravel()
            kinds.feed("ExecutorState::Process", id=of_thread, _c=its_links)
            kinds.feed("ExecutorDoneCallback", id=of_thread, _c=its_links)
            self._line(plane, cheap_pool_thread(kinds, number))

    def _drawn(self, limit: int, a_step: int = 1) -> Words:
        return self.rng.integers(1, limit, self.steps * a_step, np.uint64)

    def _line(self, plane: PlaneWriter, thread: Thread) -> None:
        """Each step has its part of each of the thread's trees, one after the other."""
        count = len(thread.roots)
        variants = [Pattern.of(root, self.rng, mean_units=1.0) for root in thread.roots for _ in range(VARIANTS)]
        line_id = int(self.rng.integers(-HALF, HALF))
        with plane.long_line(line_head(line_id, thread.name, TIMESTAMP_NS), line_tail(thread.name)) as line:
            for first in range(0, self.steps, STEPS_A_CHUNK):
                spans = self.lengths[first : first + STEPS_A_CHUNK, None] // count
                starts = self.starts[first : first + STEPS_A_CHUNK, None] + spans * np.arange(count) + spans // 50
                picked = np.arange(count) * VARIANTS + self.rng.integers(0, VARIANTS, starts.shape)
                lengths = np.broadcast_to(spans * 9 // 10, starts.shape)
                chunk = place(variants, picked.ravel(), starts.ravel(), lengths.ravel(), UNIT_PS)
                encoded, _ = self.vocabulary.encode(self.rng, *chunk)
                line.write(encoded.data)
                self.counts.count(self.vocabulary, chunk)
        self.counts.lines += 1


def write_pipelines(out: CaptureWriter, rng: np.random.Generator, events: int) -> HostCapture:
    """A host plane with about ``events`` events, a quarter of them of iterators; and the environment."""
    capture = PipelineCapture(rng, max(1, round(events / EVENTS_A_STEP)))
    with out.plane() as plane:
        plane.write(text_field(PLANE_NAME, "/host:CPU"))
        capture.write(plane)
    write_environment(out)
    return capture.counts
