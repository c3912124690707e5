"""Captures of TPUs: long runs of XLA ops with their times on the device's clock, and rich metadata.

Lines, stats and metadata follow a capture of four TPU v6e chips: a module run holds its ops one after
the other, async copies overlap them and each other, and metadata carry the HLO text and its costs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from event_kinds import (
    BYTES,
    DOUBLE,
    INT64,
    REF,
    STR,
    UINT64,
    Kind,
    PlaneVocabulary,
    Stat,
    Times,
    constant,
    doubles,
    one_of_many,
)
from host_shape import HostCapture, write_environment
from time_patterns import CHUNK_EVENTS, Chunk, Node, Pattern, place
from trace_writer import (
    PLANE_ID,
    PLANE_NAME,
    PLANE_STATS,
    CaptureWriter,
    Ints,
    PlaneWriter,
    Words,
    bytes_field,
    line_head,
    line_tail,
    number_field,
    text_field,
)

DEVICES = 4
OPS_A_STEP = 420
COPIES_A_STEP = 60
OP_NAMES = 300
COPY_NAMES = 40
CLOCK_LEAD_PS = 225_045_672
STEP_PS = 6_000_000_000


def _device_offset(_rng: np.random.Generator, times: Times) -> Words:
    return np.maximum(times.offsets - CLOCK_LEAD_PS, 0).astype(np.uint64) // np.uint64(1250) * np.uint64(1250)


def _device_duration(_rng: np.random.Generator, times: Times) -> Words:
    return (times.durations // 1250 * 1250).astype(np.uint64)


DEVICE_TIMES: tuple[Stat, ...] = (
    Stat("device_offset_ps", UINT64, _device_offset),
    Stat("device_duration_ps", UINT64, _device_duration),
)
_CATEGORIES = ("convolution fusion", "loop fusion", "copy-done", "all-reduce", "custom-call", "reshape")
_BREAKDOWN = "\n\x06\x08\x01\x10\x01\x18\x7f\n\x06\x08\x02\x10\x03\x18\x11"
"""An encoded memory_access_breakdown: two entries of three numbers."""


def _module() -> Kind:
    return Kind("jit_train_step(12190760917235803885)", (
        Stat("run_id", UINT64, one_of_many(1)), Stat("replica_id", INT64, constant(0)),
        Stat("queue_id", UINT64, constant(0)), Stat("core_type", UINT64, constant(0)),
        Stat("_ct", INT64, constant(12)), Stat("_c", INT64, constant(1_748_956_870_043_708_070)),
    ))  # fmt: skip


def _op(number: int, rng: np.random.Generator) -> Kind:
    category = _CATEGORIES[number % len(_CATEGORIES)]
    short = f"%{category.replace(' ', '_').replace('-', '_')}.{number}"
    shape = f"f32[{8 << number % 5},1024,{128 << number % 4}]{{2,1,0:T(8,128)}}"
    operands = ", ".join(f"{shape} %param.{int(rng.integers(0, 400))}" for _ in range(number % 6 + 1))
    metadata_stats = (
        Stat("hlo_category", STR, text=category),
        Stat("program_id", UINT64, constant(12_190_760_917_235_803_885)),
        Stat("symbol_id", UINT64, constant(number)),
        Stat("flops", INT64, constant(int(rng.integers(1, 1 << 40)))),
        Stat("model_flops", INT64, constant(int(rng.integers(1, 1 << 40)))),
        Stat("bytes_accessed", INT64, constant(int(rng.integers(1, 1 << 32)))),
        Stat("memory_access_breakdown", BYTES, text=_BREAKDOWN),
        Stat("shape_with_layout", STR, text=shape),
        Stat("source", STR, text=f"/usr/lib/model/layers/block_{number % 24}.py:{40 + number}"),
        Stat("tf_op", STR, text=f"jit(train_step)/block_{number % 24}/{short[1:]}"),
    )
    stats = DEVICE_TIMES
    if category == "all-reduce":
        stats = (*stats, Stat("all_reduce_unique_id", UINT64, constant(number)))
    return Kind(
        f"{short} = {shape} fusion({operands}), kind=kLoop, calls=%fused_computation.{number}",
        stats,
        display_name=short[1:],
        metadata_stats=metadata_stats,
    )


def _copy(number: int) -> Kind:
    return Kind(f"copy-start.{number}", (
        Stat("hlo_op", STR, text=f"copy-start.{number}"), Stat("_a", INT64, constant(1)),
        Stat("flow", UINT64, one_of_many(64)), Stat("id", UINT64, one_of_many(64)),
    ))  # fmt: skip


class Device:
    """One device plane: its kinds, when its steps run, and its lines."""

    def __init__(self, ordinal: int, steps: int, rng: np.random.Generator) -> None:
        self.ordinal = ordinal
        self.rng = rng
        ops_and_copies = [*(_op(i, rng) for i in range(OP_NAMES)), *map(_copy, range(COPY_NAMES))]
        self.vocabulary = PlaneVocabulary([_module(), Kind("dependency-wait"), *ops_and_copies])
        ops = tuple(Node(2 + int(i)) for i in rng.integers(0, OP_NAMES, OPS_A_STEP))
        self.pattern = Pattern.of(Node(0, ops), rng, mean_units=STEP_PS)
        lengths = (STEP_PS * rng.lognormal(0.0, 0.05, steps)).astype(np.int64)
        self.starts = np.cumsum(lengths + 20_000_000) - lengths + CLOCK_LEAD_PS
        self.lengths = lengths

    def write(self, out: CaptureWriter, counts: HostCapture) -> None:
        with out.plane() as plane:
            plane.write(number_field(PLANE_ID, 2 + 8 * self.ordinal))
            plane.write(text_field(PLANE_NAME, f"/device:TPU:{self.ordinal}"))
            self._line(plane, 2, "XLA Modules", self._modules, counts)
            self._line(plane, 3, "XLA Ops", self._ops, counts)
            self._line(plane, 4, "Async XLA Ops", self._copies, counts)
            self._line(plane, 6, "XLA TraceMe", self._waits, counts)
            stats = [bytes_field(PLANE_STATS, self.vocabulary.stat(stat)) for stat in self._capabilities()]
            plane.write(self.vocabulary.metadata(self.rng))
            plane.write(b"".join(stats))

    def _line(
        self,
        plane: PlaneWriter,
        line_id: int,
        name: str,
        make: Callable[[Ints, Ints], Chunk],
        counts: HostCapture,
    ) -> None:
        steps_a_chunk = CHUNK_EVENTS // OPS_A_STEP
        with plane.long_line(line_head(line_id, name, 0), line_tail("")) as line:
            for first in range(0, len(self.starts), steps_a_chunk):
                chosen = slice(first, first + steps_a_chunk)
                chunk = make(self.starts[chosen], self.lengths[chosen])
                encoded, _ = self.vocabulary.encode(self.rng, *chunk)
                line.write(encoded.data)
                counts.count(self.vocabulary, chunk)
        counts.lines += 1

    def _modules(self, starts: Ints, lengths: Ints) -> Chunk:
        return np.zeros(len(starts), np.int64), Times(starts, lengths)

    def _ops(self, starts: Ints, lengths: Ints) -> Chunk:
        kinds, times = place([self.pattern], np.zeros(len(starts), np.int64), starts, lengths, 1)
        inner = kinds != 0
        return kinds[inner], Times(times.offsets[inner], times.durations[inner])

    def _copies(self, starts: Ints, lengths: Ints) -> Chunk:
        """Async copies that cross each other, in the order of their starts, longer first."""
        count = len(starts) * COPIES_A_STEP
        within = np.repeat(lengths, COPIES_A_STEP) * self.rng.random(count) * 0.8
        begins = np.repeat(starts, COPIES_A_STEP) + within.astype(np.int64)
        durations = self.rng.integers(100_000, STEP_PS // 5, count)
        order = np.lexsort((-durations, begins))
        kinds = 2 + OP_NAMES + self.rng.integers(0, COPY_NAMES, count)
        return kinds[order], Times(begins[order], durations[order])

    def _waits(self, starts: Ints, _lengths: Ints) -> Chunk:
        return np.ones(len(starts), np.int64), Times(starts + 5, self.rng.integers(70, 90, len(starts)))

    def _capabilities(self) -> tuple[Stat, ...]:
        return (
            Stat("device_type_string", STR, text="TPU v6 Lite"),
            Stat("peak_teraflops_per_second", DOUBLE, doubles(918.0, 918.0)),
            Stat("peak_hbm_bw_gigabytes_per_second", DOUBLE, doubles(1638.0, 1638.0)),
            Stat("has_megacore", INT64, constant(0)),
            Stat("core_details", BYTES, text="(\x040\x04"),
            Stat("device_vendor", REF, text="Google"),
        )


def write_devices(out: CaptureWriter, rng: np.random.Generator, events: int) -> HostCapture:
    """Four device planes with about ``events`` events together."""
    counts = HostCapture()
    steps = max(1, round(events / DEVICES / (OPS_A_STEP + COPIES_A_STEP + 2)))
    for ordinal in range(DEVICES):
        Device(ordinal, steps, rng).write(out, counts)
    write_environment(out)
    return counts
