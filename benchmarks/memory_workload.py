"""A transformer that trains on four GPUs: what its steps ask of the allocators, and what these hand out.

Sequences differ in length from step to step, which breaks up the free memory; every 16th step keeps a little for good;
parameters were there before, and the first of them is given back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from memory_arena import Arena, rounded
from trace_writer import Ints, Words

Flags = npt.NDArray[np.bool_]

DEVICES = 4
LAYERS = 12
LENGTHS = (128, 160, 192, 256, 320, 384)
COPYING_OPS, COPY_WAITS = range(0, 72, 3), 7
CAPACITY, HOST_CAPACITY = 15_477_102_336, 68_719_476_736
BASE = 0x7F28_5C00_0000
PARAMETERS, PARAMETER_BYTES = 4 * LAYERS, 16_777_216
KEEP_EVERY = 16
NS_PS = 1_000
MEAN_OP_NS = 120_000
FLOAT = 1


class Op(NamedTuple):
    """An op of each layer: its name, the shape of its result for a length of sequences, whether it needs scratch."""

    name: str
    shape: str
    scratch: bool


OPS = (
    Op("attention/einsum/Einsum", "[4,16,{0},{0}]", True),
    Op("attention/add/AddV2", "[4,{0},1024]", False),
    Op("intermediate/MatMul", "[4,{0},4096]", True),
    Op("output/layer_norm/batchnorm/add", "[4,{0},1024]", False),
)
FORWARD = tuple(f"bert/transformer/layer_{layer}/{op.name}" for layer in range(LAYERS) for op in OPS)
NAMES = (*FORWARD, *(f"gradient_tape/{name}" for name in reversed(FORWARD)), "metrics/concat", "IteratorGetNext")
CACHE_NAME, COPY_NAME = len(NAMES) - 2, len(NAMES) - 1
OPS_A_STEP = 2 * len(FORWARD)
SHAPES = (*(op.shape.format(length) for op in OPS for length in LENGTHS), "[262144]", "[]")
CACHE_SHAPE, SCALAR = len(SHAPES) - 2, len(SHAPES) - 1
BYTES_OF_SHAPE = [4 * math.prod(map(int, filter(None, shape[1:-1].split(",")))) for shape in SHAPES]
REGIONS = ("output", "temp", "dynamic")
OUTPUT, TEMP, DYNAMIC = range(3)
ALLOCATORS = (*(f"GPU_{device}_bfc" for device in range(DEVICES)), "gpu_host_bfc")
HOST = DEVICES


class Slot(NamedTuple):
    """What happens to memory at one place of every step: during which op and after how many thousandths of it; the
    slot whose memory is taken back, or what is asked for. A shape that ``varies`` is the first of one a length."""

    op: int
    at: int
    takes_back: int | None = None
    name: int = 0
    shape: int = 0
    varies: bool = True
    region: int = OUTPUT


def device_slots() -> list[Slot]:
    """A step forward and back; backward, an op takes the result of its forward twin and that of the op before.

    The first slot takes the cache of the step before, the second asks for this step's.
    """
    slots = [Slot(0, 20, takes_back=1), Slot(0, 40, None, CACHE_NAME, CACHE_SHAPE, varies=False, region=DYNAMIC)]
    results: list[int] = []
    for op in range(OPS_A_STEP):
        backward = op >= len(FORWARD)
        twin = OPS_A_STEP - 1 - op if backward else op
        kind = twin % len(OPS)
        results.append(len(slots))
        slots.append(Slot(op, 50, None, op, kind * len(LENGTHS)))
        if OPS[kind].scratch:
            scratch = len(slots)
            slots += [Slot(op, 100, None, op, kind * len(LENGTHS), region=TEMP), Slot(op, 900, takes_back=scratch)]
        if backward:
            slots.append(Slot(op, 1_020, takes_back=results[twin]))
        if op > len(FORWARD):
            slots.append(Slot(op, 1_040, takes_back=results[op - 1]))
    return [*slots, Slot(OPS_A_STEP - 1, 1_060, takes_back=results[-1])]


def host_slots() -> list[Slot]:
    """Small copies, one every third op, that are taken back a little later."""
    slots: list[Slot] = []
    places: dict[int, int] = {}
    for op in range(OPS_A_STEP):
        if op in COPYING_OPS:
            places[op] = len(slots)
            slots.append(Slot(op, 10, None, COPY_NAME, SCALAR, varies=False))
        if op - COPY_WAITS in places:
            slots.append(Slot(op, 500, takes_back=places[op - COPY_WAITS]))
    return slots


@dataclass(frozen=True, slots=True)
class Schedule:
    """When the ops of each step run, the same on all devices, and which length its sequences have; [step, op]."""

    begins: Ints
    durations: Ints
    lengths: Ints
    ids: Words

    @classmethod
    def draw(cls, rng: np.random.Generator, steps: int) -> Schedule:
        durations = (MEAN_OP_NS * rng.lognormal(-0.2, 0.6, (steps, OPS_A_STEP))).astype(np.int64) + 2_000
        spans = durations + durations // 8
        spans[:, -1] += rng.integers(200_000, 2_000_000, steps)
        begins = 500_000 + (np.cumsum(spans) - spans.ravel()).reshape(spans.shape)
        ids = rng.integers(1, 1 << 62, steps, np.uint64)
        return cls(begins * NS_PS, durations * NS_PS, rng.integers(0, len(LENGTHS), steps), ids)


@dataclass(slots=True)
class Snapshots:
    """The memory events of one allocator in order of time: the slot of each, whether it takes back, its stats."""

    slots: Ints
    offsets: Ints
    takes_back: Flags
    stats: dict[str, Words]

    @property
    def count(self) -> int:
        return len(self.offsets)

    def part(self, chosen: Flags) -> Snapshots:
        stats = {stat: column[chosen] for stat, column in self.stats.items()}
        return Snapshots(self.slots[chosen], self.offsets[chosen], self.takes_back[chosen], stats)


def simulate(allocator: int, slots: Sequence[Slot], schedule: Schedule) -> Snapshots:
    """Lets an arena serve all steps; parameters lie in it from the start, and the first is given back."""
    arena = Arena(BASE + (allocator << 36), HOST_CAPACITY if allocator == HOST else CAPACITY)
    parameters = [arena.allocate(PARAMETER_BYTES) for _ in range(PARAMETERS)]
    live = [(parameters[0], PARAMETER_BYTES, PARAMETER_BYTES)] * len(slots)
    rows: list[tuple[int, ...]] = []
    shares: list[float] = []
    for step, length in enumerate(schedule.lengths.tolist()):
        keeps = step % KEEP_EVERY == KEEP_EVERY - 1
        for number, (_, _, takes_back, _, shape, varies, _) in enumerate(slots):
            if takes_back is None:
                requested = BYTES_OF_SHAPE[shape + length * varies]
                size = rounded(requested)
                address = arena.allocate(size)
                live[number] = (address, requested, size)
            else:
                if takes_back > number and keeps:
                    continue
                address, requested, size = live[takes_back]
                arena.free(address, size)
            rows.append((step, number, address, requested, size, arena.in_use, arena.available, arena.peak))
            shares.append(arena.fragmentation())
    return _snapshots(allocator, slots, schedule, np.array(rows, np.int64), np.array(shares))


def _snapshots(
    allocator: int, slots: Sequence[Slot], schedule: Schedule, rows: Ints, shares: npt.NDArray[np.float64]
) -> Snapshots:
    step, number = rows[:, 0], rows[:, 1]
    of_slots = np.array([[slot.op, slot.at, slot.name, slot.shape, slot.varies, slot.region] for slot in slots])
    op, at, name, shape, varies, region = of_slots[number].T
    columns = {
        "allocator_name": np.full(len(rows), allocator),
        "tf_op": name,
        "shape": shape + varies * schedule.lengths[step],
        "region_type": region,
        "data_type": np.full(len(rows), FLOAT),
        "id": schedule.ids[step],
    }
    names = ("addr", "requested_bytes", "allocation_bytes", "bytes_allocated", "bytes_available", "peak_bytes_in_use")
    columns |= dict(zip(names, rows[:, 2:].T, strict=True))
    stats = {stat: column.astype(np.uint64) for stat, column in columns.items()}
    stats["fragmentation"] = shares.view(np.uint64)
    offsets = schedule.begins[step, op] + schedule.durations[step, op] * at // 1_000 // NS_PS * NS_PS
    takes_back = np.array([slot.takes_back is not None for slot in slots])
    return Snapshots(number, offsets, takes_back[number], stats)
