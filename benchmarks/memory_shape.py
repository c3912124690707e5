"""Captures of a host that trains a transformer on four GPUs, as its allocators record it.

Names, stats and the mix of events (three of eight record memory) follow captures of TensorFlow on V100s and on a
laptop's GPU. Ops run on one thread a device, launch kernels there, and another thread takes back what they no longer
need.
"""

from __future__ import annotations

import numpy as np
from event_kinds import DOUBLE, INT64, REF, STR, UINT64, InTurn, Kind, PlaneVocabulary, Stat, Times, constant
from host_shape import TIMESTAMP_NS, HostCapture, write_environment
from memory_workload import (
    ALLOCATORS,
    DEVICES,
    HOST,
    NAMES,
    NS_PS,
    OPS_A_STEP,
    REGIONS,
    SHAPES,
    Schedule,
    Snapshots,
    device_slots,
    host_slots,
    simulate,
)
from time_patterns import CHUNK_EVENTS, Chunk
from trace_writer import PLANE_NAME, CaptureWriter, Ints, PlaneWriter, Words, line_head, line_tail, text_field

MICROSECOND_PS = 1_000 * NS_PS
TRAIN, FUNCTION, PROCESS, PROPAGATE, LAUNCH, FIRST_OP = range(6)
FIRST_MEMORY = FIRST_OP + OPS_A_STEP
DURING = 1_000
"""Thousandths of an op, after which another thread takes back what it used."""
LINK_TYPE = constant(2)
NOTHING = np.empty(0, np.int64)
NO_MARKS: Chunk = (NOTHING, Times(NOTHING, NOTHING))
KERNEL = (
    "void Eigen::internal::EigenMetaKernel<Eigen::TensorEvaluator<Eigen::TensorAssignOp<Eigen::TensorMap<"
    "Eigen::Tensor<float, 1, 1, long> > > const, Eigen::GpuDevice>, long>"
)
DETAILS = tuple(f"regs:{16 + 2 * n} shm:0 grid:{24 << n % 5},1,1 block:{128 << n % 4},1,1" for n in range(24))
MEMORY_STATS = (
    "allocator_name", "tf_op", "shape", "region_type", "data_type", "id", "addr", "requested_bytes",
    "allocation_bytes", "bytes_allocated", "bytes_available", "peak_bytes_in_use", "fragmentation",
)  # fmt: skip


def _memory_kind(name: str, feeds: dict[str, InTurn], *, fragmented: bool) -> Kind:
    """Of allocations or of what is taken back, which says not what for. A fragmentation of 0 is written as an integer,
    for TensorFlow writes it as text that is read as what it looks like."""

    def number(stat: str) -> Stat:
        return Stat(stat, INT64, feeds[stat])

    def text(stat: str, texts: tuple[str, ...]) -> tuple[Stat, ...]:
        return (Stat(stat, REF, feeds[stat], texts=texts),) if name == "MemoryAllocation" else ()

    return Kind(name, (
        Stat("allocator_name", REF, feeds["allocator_name"], texts=ALLOCATORS),
        Stat("bytes_reserved", INT64, constant(0)), number("bytes_allocated"), number("bytes_available"),
        Stat("fragmentation", DOUBLE if fragmented else INT64, feeds["fragmentation"]), number("peak_bytes_in_use"),
        number("requested_bytes"), number("allocation_bytes"), number("addr"), *text("tf_op", NAMES), number("id"),
        *text("region_type", REGIONS), number("data_type"), *text("shape", SHAPES),
    ), instant=True)  # fmt: skip


class Plane:
    """A plane in the making: its kinds, and the writing of its lines."""

    def __init__(self, kinds: list[Kind], rng: np.random.Generator, counts: HostCapture) -> None:
        self.vocabulary = PlaneVocabulary(kinds)
        self.rng, self.counts = rng, counts

    def line(self, plane: PlaneWriter, name: str, kinds: Ints, times: Times) -> None:
        """A line of events that are in order of time."""
        line_id = int(self.rng.integers(1, 1 << 40))
        with plane.long_line(line_head(line_id, name, TIMESTAMP_NS), line_tail(name)) as line:
            for first in range(0, len(kinds), CHUNK_EVENTS):
                part = slice(first, first + CHUNK_EVENTS)
                chunk = kinds[part], Times(times.offsets[part], times.durations[part])
                encoded, _ = self.vocabulary.encode(self.rng, *chunk)
                line.write(encoded.data)
                self.counts.count(self.vocabulary, chunk)
        self.counts.lines += 1


class HostPlane(Plane):
    """The threads of the host."""

    def __init__(self, rng: np.random.Generator, counts: HostCapture) -> None:
        self.links, self.numbers, self.launches, self.kernel_names = InTurn(), InTurn(), InTurn(), InTurn()
        self.feeds = [{stat: InTurn() for stat in MEMORY_STATS} for _ in range(4)]
        ops = [Kind(f"{name}:{name.rsplit('/', 1)[-1]}", display_name=name) for name in NAMES[:OPS_A_STEP]]
        memory = [
            _memory_kind(name, self.feeds[2 * number + fragmented], fragmented=bool(fragmented))
            for number, name in enumerate(("MemoryAllocation", "MemoryDeallocation"))
            for fragmented in range(2)
        ]
        super().__init__([*self._marks(), *ops, *memory], rng, counts)

    def _marks(self) -> list[Kind]:
        return [
            Kind("train", (Stat("step_num", INT64, self.numbers), Stat("_r", INT64, constant(1)))),
            Kind("FunctionRun", (Stat("_pt", INT64, LINK_TYPE), Stat("_p", INT64, self.links))),
            Kind("ExecutorState::Process", (Stat("_ct", INT64, LINK_TYPE), Stat("_c", INT64, self.links))),
            Kind("ExecutorPropagateOutputs", (
                Stat("id", INT64, constant(1)), Stat("kernel_name", REF, self.kernel_names, texts=NAMES),
                Stat("num_output_edges", INT64, constant(2)), Stat("num_output_control_edges", INT64, constant(0)),
            )),
            Kind(KERNEL, (
                Stat("correlation_id", UINT64, self.launches), Stat("context_id", STR, text="$$1"),
                Stat("kernel_details", REF, text=DETAILS[0]),
            )),
        ]  # fmt: skip

    def thread(self, plane: PlaneWriter, name: str, marks: Chunk, memory: Snapshots) -> None:
        """A line of marks and of memory events among them."""
        fragmented = memory.stats["fragmentation"] != 0
        of_memory = FIRST_MEMORY + 2 * memory.takes_back + fragmented
        for number, feeds in enumerate(self.feeds):
            chosen = of_memory == FIRST_MEMORY + number
            for stat, feed in feeds.items():
                feed.begin(memory.stats[stat][chosen])
        kinds = np.concatenate([marks[0], of_memory])
        offsets = np.concatenate([marks[1].offsets, memory.offsets])
        durations = np.concatenate([marks[1].durations, np.zeros(memory.count, np.int64)])
        order = np.lexsort((-durations, offsets))
        self.line(plane, name, kinds[order], Times(offsets[order], durations[order]))


def python_marks(schedule: Schedule) -> Chunk:
    """Each step as the thread of Python sees it: in it the start of a function on each device."""
    ends = schedule.begins[:, -1] + schedule.durations[:, -1] + 100 * MICROSECOND_PS
    begins = schedule.begins[:, 0] - 200 * MICROSECOND_PS
    functions = (begins[:, None] + (1 + np.arange(DEVICES)) * 20 * MICROSECOND_PS).ravel()
    kinds = np.concatenate([np.full(len(begins), TRAIN), np.full(len(functions), FUNCTION)])
    lengths = np.concatenate([ends - begins, np.full(len(functions), 10 * MICROSECOND_PS)])
    return kinds, Times(np.concatenate([begins, functions]), lengths)


def device_marks(schedule: Schedule) -> Chunk:
    """Each step as the thread of a device sees it: an execution, in it the ops, and in each the launch of a kernel."""
    begins = schedule.begins[:, 0] - 20 * MICROSECOND_PS
    ends = schedule.begins[:, -1] + schedule.durations[:, -1] + 20 * MICROSECOND_PS
    ops, lengths = schedule.begins.ravel(), schedule.durations.ravel()
    kinds = [np.full(len(begins), PROCESS), FIRST_OP + np.tile(np.arange(OPS_A_STEP), len(begins))]
    kinds += [np.full(len(ops), LAUNCH), np.full(len(ops), PROPAGATE)]
    offsets = np.concatenate([begins, ops, ops + _part(lengths, 400), ops + _part(lengths, 1_010)])
    durations = np.concatenate([ends - begins, lengths, _part(lengths, 200), _part(lengths, 5)])
    return np.concatenate(kinds), Times(offsets, durations)


def _part(lengths: Ints, thousandths: int) -> Ints:
    return lengths * thousandths // 1_000 // NS_PS * NS_PS


def write_device(
    out: CaptureWriter, device: int, schedule: Schedule, launches: Words, rng: np.random.Generator, counts: HostCapture
) -> None:
    """The plane of a GPU: the kernels of its stream."""
    names = np.tile(np.arange(OPS_A_STEP, dtype=np.uint64), len(schedule.ids))
    kernel = Kind(KERNEL, (
        Stat("correlation_id", UINT64, InTurn(launches)), Stat("annotation", REF, InTurn(names), texts=NAMES),
        Stat("context_id", STR, text="$$1"),
        Stat("kernel_details", REF, InTurn(names % np.uint64(len(DETAILS))), texts=DETAILS),
    ))  # fmt: skip
    lengths = schedule.durations.ravel()
    times = Times(schedule.begins.ravel() + _part(lengths, 450), _part(lengths, 500))
    kernels = Plane([kernel], rng, counts)
    with out.plane() as plane:
        plane.write(text_field(PLANE_NAME, f"/device:GPU:{device}"))
        kernels.line(plane, "Stream #13(Compute)", np.zeros(len(lengths), np.int64), times)
        plane.write(kernels.vocabulary.metadata(rng))


def write_memory(out: CaptureWriter, rng: np.random.Generator, events: int) -> HostCapture:
    """A host and its GPUs with about ``events`` events."""
    counts = HostCapture()
    slots = device_slots()
    of_device = len(slots) + 4 * OPS_A_STEP + 2
    schedule = Schedule.draw(rng, max(1, round(events / (DEVICES * of_device + len(host_slots()) + 1))))
    steps = len(schedule.ids)
    launches = np.arange(1, DEVICES * steps * OPS_A_STEP + 1, dtype=np.uint64).reshape(DEVICES, -1)
    links = rng.integers(1, 1 << 62, (steps, DEVICES), np.uint64)
    host = HostPlane(rng, counts)
    with out.plane() as plane:
        plane.write(text_field(PLANE_NAME, "/host:CPU"))
        host.numbers.begin(np.arange(steps, dtype=np.uint64))
        host.links.begin(links.ravel())
        host.thread(plane, "python3", python_marks(schedule), simulate(HOST, host_slots(), schedule))
        for device in range(DEVICES):
            host.links.begin(links[:, device])
            host.launches.begin(launches[device])
            host.kernel_names.begin(np.tile(np.arange(OPS_A_STEP, dtype=np.uint64), steps))
            memory = simulate(device, slots, schedule)
            later = np.array([slot.at > DURING for slot in slots])[memory.slots]
            host.thread(plane, f"tf_gpu_private_{device}", device_marks(schedule), memory.part(~later))
            host.thread(plane, "tf_GPU_Event_Manager", NO_MARKS, memory.part(later))
        plane.write(host.vocabulary.metadata(rng))
    for device in range(DEVICES):
        write_device(out, device, schedule, launches[device], rng, counts)
    write_environment(out)
    return counts
