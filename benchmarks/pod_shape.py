"""Pods of TPU hosts that train in step, each step from infeed to outfeed, with jitter.

Every host has its TensorCores, each with lines of steps, module runs and ops, and a small host plane. Every third
step waits three times as long for input; the step in the middle is slow on all hosts, the first host in all steps,
and the others wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from device_shape import CLOCK_LEAD_PS, DEVICE_TIMES
from event_kinds import BYTES, DOUBLE, INT64, STR, UINT64, Kind, PlaneVocabulary, Stat, Times, constant, doubles
from host_shape import HostCapture, write_environment, write_host_plane
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

CHIPS = 4
LAYERS = 98
SLOW_HOST, SLOW_HOST_FACTOR = 0, 1.25
SLOW_STEP_FACTOR = 1.6
STARVED_EVERY, STARVED_FACTOR = 3, 3.0
US_PS = 1_000_000
CYCLE_PS = 1_250
PROGRAM_ID = 77
HOST_EVENTS_A_STEP = 200


@dataclass(frozen=True, slots=True)
class Op:
    """An op of a step: how long it takes, and what it computes and moves."""

    name: str
    category: str
    micros: float
    flops: int = 0
    bytes: int = 0
    scope: str = ""


_LAYER = (
    Op("fusion", "loop fusion", 21.0, 300_000_000, 9_000_000, "encoder/mul"),
    Op("convolution", "convolution", 42.0, 9_000_000_000, 16_000_000, "encoder/conv_general_dilated"),
    Op("copy", "copy", 3.0, 0, 5_000_000, "encoder/transpose"),
    Op("convolution_fusion", "convolution fusion", 38.0, 8_000_000_000, 14_000_000, "decoder/dot_general"),
    Op("all-reduce", "all-reduce", 12.0, 0, 6_400_000, "psum"),
)
OPS = (
    Op("infeed.1", "infeed", 400.0, scope="infeed"),
    *(
        Op(f"{op.name}.{layer}", op.category, op.micros, op.flops, op.bytes, f"layer_{layer}/{op.scope}")
        for layer in range(LAYERS)
        for op in _LAYER
    ),
    Op("outfeed.2", "outfeed", 80.0),
)


def write_pod(folder: Path, hosts: int, steps: int, seed: int) -> HostCapture:
    """Writes a run directory of ``hosts`` captures of ``steps`` steps on each core; returns what all hold together."""
    folder.mkdir(parents=True, exist_ok=True)
    counts = HostCapture()
    for host in range(hosts):
        rng = np.random.default_rng((seed, host))
        with CaptureWriter(folder / f"host{host:03}.xplane.pb") as out:
            for chip in range(CHIPS):
                Core(host, chip, steps, rng).write(out, counts)
            write_host_plane(out, rng, HOST_EVENTS_A_STEP * steps, threads=16, counts=counts)
            write_environment(out, f"host{host:03}")
    return counts


class Core:
    """One TensorCore of a host: when its ops happen, and its plane."""

    def __init__(self, host: int, chip: int, steps: int, rng: np.random.Generator) -> None:
        self.host, self.chip, self.rng = host, chip, rng
        durations = _durations_ps(host, steps, rng)
        spans = durations + rng.integers(1, 5, durations.shape) * 100 * CYCLE_PS
        ends = np.cumsum(spans, axis=1)
        lengths = ends[:, -1]
        begins = _begins_ps(steps) + rng.integers(0, 20, steps) * US_PS
        self.steps = Times(begins, lengths)
        self.ops = Times((begins[:, None] + ends - spans).ravel(), durations.ravel())

    def write(self, out: CaptureWriter, counts: HostCapture) -> None:
        steps = len(self.steps.offsets)
        markers = [Kind(str(number), DEVICE_TIMES) for number in range(steps)]
        vocabulary = PlaneVocabulary([*markers, _module(), *map(_kind, range(len(OPS)))])
        with out.plane() as plane:
            plane.write(number_field(PLANE_ID, 2 + 8 * self.chip))
            plane.write(text_field(PLANE_NAME, f"/device:TPU:{self.chip}"))
            in_turn = np.arange(steps)
            for line_id, name, kinds, times in (
                (1, "Steps", in_turn, self.steps),
                (2, "XLA Modules", np.full(steps, steps), self.steps),
                (3, "XLA Ops", steps + 1 + np.tile(np.arange(len(OPS)), steps), self.ops),
            ):
                self._line(plane, vocabulary, line_id, name, kinds, times)
                counts.count(vocabulary, (kinds, times))
                counts.lines += 1
            stats = b"".join(bytes_field(PLANE_STATS, vocabulary.stat(stat)) for stat in self._capabilities())
            plane.write(vocabulary.metadata(self.rng))
            plane.write(stats)

    def _line(
        self, plane: PlaneWriter, vocabulary: PlaneVocabulary, line_id: int, name: str, kinds: Ints, times: Times
    ) -> None:
        encoded, _ = vocabulary.encode(self.rng, kinds, times)
        plane.line(line_head(line_id, name, 0), encoded.data, line_tail(""))

    def _capabilities(self) -> tuple[Stat, ...]:
        core = self.host * CHIPS + self.chip
        return (
            Stat("core_details", BYTES, text=_core_details(self.chip, core)),
            Stat("device_type_string", STR, text="TPU v4"),
            Stat("peak_teraflops_per_second", DOUBLE, doubles(275.0, 275.0)),
            Stat("peak_hbm_bw_gigabytes_per_second", DOUBLE, doubles(1228.0, 1228.0)),
        )


def _begins_ps(steps: int) -> Ints:
    """When each step begins: all hosts wait for the slowest."""
    return CLOCK_LEAD_PS + np.concatenate([[0], np.cumsum(_durations_ps(SLOW_HOST, steps).sum(axis=1) * 11 // 10)[:-1]])


def _durations_ps(host: int, steps: int, rng: np.random.Generator | None = None) -> Ints:
    """How long each op of each step takes, in an integer number of cycles; without chance if ``rng`` is None."""
    jitter = 1.0 if rng is None else rng.uniform(0.95, 1.05, (steps, len(OPS)))
    micros = np.tile([op.micros for op in OPS], (steps, 1)) * jitter
    micros[STARVED_EVERY - 1 :: STARVED_EVERY, 0] *= STARVED_FACTOR
    micros[steps // 2] *= SLOW_STEP_FACTOR
    if host == SLOW_HOST:
        micros *= SLOW_HOST_FACTOR
    return (micros * US_PS).astype(np.int64) // CYCLE_PS * CYCLE_PS


def _core_details(chip: int, core: int) -> str:
    """A CoreDetails message: ordinal and number of the chip on its host, of the chip and the core in the pod."""
    numbers = ((2, chip), (4, chip), (5, core), (6, core))
    return b"".join(number_field(field, number) for field, number in numbers).decode("latin-1")


def _one_after_the_other(_rng: np.random.Generator, times: Times) -> Words:
    return np.arange(1, len(times.offsets) + 1, dtype=np.uint64)


def _module() -> Kind:
    runs = (Stat("run_id", UINT64, _one_after_the_other), Stat("program_id", UINT64, constant(PROGRAM_ID)))
    return Kind(f"jit_train({PROGRAM_ID})", (*runs, *DEVICE_TIMES))


def _kind(number: int) -> Kind:
    op = OPS[number]
    stats = [
        Stat("program_id", UINT64, constant(PROGRAM_ID)),
        Stat("symbol_id", UINT64, constant(number + 10)),
        Stat("hlo_category", STR, text=op.category),
    ]
    costs = (("flops", op.flops), ("model_flops", op.flops), ("bytes_accessed", op.bytes))
    stats += [Stat(name, INT64, constant(cost)) for name, cost in costs if cost]
    if op.scope:
        stats.append(Stat("tf_op", STR, text=f"jit(train)/{op.scope}"))
    return Kind(f"%{op.name} = f32[] {op.name}", DEVICE_TIMES, display_name=op.name, metadata_stats=tuple(stats))
