"""The made TPU training of demo/xla: two chips that run the program of demo_program.py, five steps."""

from __future__ import annotations

from random import Random

from demo_program import Run, Training, buffers, training
from step_captures import core_details
from trace_builder import Event, Metadata, Plane, Value, event, int_field, len_field, line, plane, u64, xspace

from fastprof.hlo.module import HloModule
from fastprof.hlo.text.instruction_text import format_expression

US = 1_000_000
"""A microsecond in picoseconds."""
PROGRAM_ID = 7_311_650_934_521_873_002
TITLE = f"jit_train_step({PROGRAM_ID})"
STEPS, CHIPS, SLOW_STEP = 5, 2, 3
PEAK_TFLOPS, HBM_GBPS, LINK_GBPS = 918.0, 1638.0, 180.0
EFFICIENCY = {"convolution fusion": 0.62, "loop fusion": 0.85, "copy-start": 0.7}
READ, WRITE = 1, 2
SPACES = {0: 1, 1: 3}
"""Of HLO, as memory accesses number them: HBM, VMEM."""


def moved(run: Run) -> list[tuple[int, int, int]]:
    """(operation, memory space, bytes)."""
    found = [(READ, SPACES[one.space], one.bytes) for one in run.reads]
    return found if run.writes is None or run.starts else [*found, (WRITE, SPACES[run.writes.space], run.writes.bytes)]


def best_ps(run: Run) -> int:
    """What it takes where nothing is in its way."""
    if run.category.startswith("all-reduce"):
        return int(sum(one.bytes for one in run.reads) / LINK_GBPS * 1000)
    flops = run.flops / PEAK_TFLOPS
    hbm = sum(size for _, space, size in moved(run) if space == 1) / HBM_GBPS * 1000
    return int(max(flops, hbm) / EFFICIENCY.get(run.category, 1.0))


class Chip:
    """Writes the events of a chip; ops that are begun run beside the others."""

    def __init__(self, made: Training, ordinal: int) -> None:
        self.random = Random(ordinal)
        self.numbers = {run.op.name: k + 1 for k, run in enumerate(made.runs)}
        self.now = self.begun = 2000 * US
        self.ops: list[Event] = []
        self.beside: list[Event] = []
        self.steps: list[Event] = []
        self.modules: list[Event] = []
        self.starts: dict[str, int] = {}
        """Of what runs beside the others, when it began."""
        self.ends: dict[str, int] = {}
        self.slow = 1.0 + 0.03 * ordinal

    def takes(self, run: Run) -> int:
        return int(best_ps(run) * self.slow * self.random.uniform(0.98, 1.06)) + 300_000

    def ran(self, run: Run, took: int, step: int) -> None:
        stats: dict[str | int, Value] = {
            "device_offset_ps": u64(self.now),
            "device_duration_ps": u64(took),
            "group_id": step,
        }
        self.ops.append(event(self.numbers[run.op.name], self.now, took, stats))
        self.now += took + self.random.choice((0, 0, 0, 15_000))

    def begin(self, run: Run, step: int) -> None:
        self.starts[run.op.name] = self.now
        self.ends[run.op.name] = self.now + self.takes(run)
        self.ran(run, 60_000, step)

    def wait(self, run: Run, step: int) -> None:
        """Until what it began is done."""
        took = max(self.ends[run.starts] - self.now, 0) + 40_000
        since = self.starts[run.starts]
        self.beside.append(event(self.numbers[run.starts], since, self.now + took - since, {"hlo_op": run.op.name}))
        self.ran(run, took, step)

    def end_step(self, step: int) -> None:
        whole = {"group_id": step}
        took = self.now - self.begun
        self.modules.append(event(TITLE, self.begun, took, {"run_id": u64(step + 1), **whole}))
        self.now += int(self.random.uniform(60, 90)) * US + (900 * US if step == SLOW_STEP else 0)
        self.steps.append(event(str(step), self.begun, self.now - self.begun, whole))
        self.begun = self.now

    def plane(self, ordinal: int, metadata: list[Metadata]) -> Plane:
        self.beside.sort(key=lambda one: one.offset_ps or 0)
        lines = [
            line("Steps", self.steps, id=1), line("XLA Modules", self.modules, id=2), line("XLA Ops", self.ops, id=3),
            line("Async XLA Ops", self.beside, id=4),
        ]  # fmt: skip
        stats: dict[str | int, Value] = {
            "device_type_string": "TPU v6 Lite", "core_details": core_details(ordinal, "worker0", ordinal),
            "peak_teraflops_per_second": PEAK_TFLOPS, "peak_hbm_bw_gigabytes_per_second": HBM_GBPS,
            "peak_vmem_rd_bw_gigabytes_per_second": 23296.0, "peak_vmem_wr_bw_gigabytes_per_second": 16128.0,
            "peak_cmem_rd_bw_gigabytes_per_second": 0.0, "peak_cmem_wr_bw_gigabytes_per_second": 0.0,
            "has_megacore": 0, "has_merged_vmem": 1,
        }  # fmt: skip
        return plane(f"/device:TPU:{ordinal}", lines, id=ordinal + 2, event_metadata=metadata, stats=stats)


def described(made: Training, proto: bytes) -> list[Metadata]:
    """What the capture says of each op."""
    module = HloModule(proto)
    found = []
    for number, run in enumerate(made.runs, 1):
        row = int(module.find([run.op.name])[0])
        access = b"".join(
            len_field(1, int_field(1, kind) + int_field(2, space) + int_field(3, size))
            for kind, space, size in moved(run)
        )
        stats: dict[str | int, Value] = {
            "program_id": u64(PROGRAM_ID), "symbol_id": u64(number), "hlo_category": run.category,
            "flops": u64(run.flops), "model_flops": u64(run.flops),
            "bytes_accessed": u64(sum(size for _, _, size in moved(run))), "memory_access_breakdown": access,
        }  # fmt: skip
        if run.op.op_name:
            source = module.source_of(row)
            stats |= {"tf_op": f"{run.op.op_name}:", "source": f"{source.file}:{source.line}"}
            stats["source_stack"] = "".join(f"{one.file}:{one.line}:{one.column}\n" for one in source.frames)
        found.append(Metadata(format_expression(module, row), number, display_name=run.op.name, stats=stats))
    return found


def train(chips: list[Chip], runs: list[Run], step: int) -> None:
    """A step on all chips: nobody is done with a sum over chips before the last has come."""
    for run in runs:
        last = max(chip.now for chip in chips)
        for chip in chips:
            if run.category == "all-reduce":
                chip.ran(run, last + best_ps(run) - chip.now, step)
            elif run.category == "all-reduce-start":
                chip.begin(run, step)
                chip.ends[run.op.name] = last + best_ps(run)
            elif run.category == "copy-start":
                chip.begin(run, step)
            elif run.starts:
                chip.wait(run, step)
            else:
                chip.ran(run, chip.takes(run), step)
    for chip in chips:
        chip.end_step(step)


def captured() -> bytes:
    made = training()
    proto = made.program.proto(buffers(made))
    metadata = described(made, proto)
    chips = [Chip(made, ordinal) for ordinal in range(CHIPS)]
    for step in range(STEPS):
        train(chips, made.runs, step)
    planes = [chip.plane(ordinal, metadata) for ordinal, chip in enumerate(chips)]
    programs = plane("/host:metadata", event_metadata=[Metadata(TITLE, PROGRAM_ID, stats={"Hlo Proto": proto})])
    return xspace(*planes, programs, hostnames=["worker0"])
