"""Random captures of compiled programs, on TPU cores and on GPUs, as XSpace bytes."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from hlo_builder import Op
from random_buffers import random_buffers
from random_modules import Made, random_program
from trace_builder import Event, Line, Metadata, Plane, Value, event, int_field, len_field, line, plane, u64, xspace

from fastprof.hlo.module import HloModule

US = 1_000_000
"""A microsecond in picoseconds."""
TPU_CATEGORIES = (
    "loop fusion", "output fusion", "convolution fusion", "custom-call", "all-reduce", "data formatting", "infeed",
    "host outfeed x", "megacore fusion", "copy-done", "non-fusion elementwise", "while",
)  # fmt: skip


def programs_of(random: Random, count: int, size: int, *, tiled: bool) -> dict[int, Made]:
    """Programs by id; several have one name."""
    made: dict[int, Made] = {}
    for _ in range(count):
        number = random.choice(
            (random.randrange(1, 100), random.randrange(1 << 62), random.randrange(1 << 63, 1 << 64))
        )
        made[number] = random_program(random, random.choice(("jit_f", "jit_train(step)", "main")), size, tiled=tiled)
    return made


def metadata_plane(random: Random, programs: dict[int, Made], protos: dict[int, bytes] | None = None) -> Plane:
    """The plane of programs; with buffer assignments."""
    entries = []
    for number, made in programs.items():
        proto = (protos or {}).get(number) or made.program.proto(random_buffers(random, made))
        signed = number - (1 << 64) if number >> 63 else number
        entries.append(Metadata(f"{made.program.name}({number})", signed, stats={"Hlo Proto": proto}))
    return plane("/host:metadata", event_metadata=entries)


# ---- TPU


def _access(random: Random) -> bytes:
    written = b""
    for _ in range(random.randrange(0, 6)):
        one = int_field(1, random.choice((1, 2))) + int_field(2, random.choice((1, 1, 2, 3, 4)))
        written += len_field(1, one + int_field(3, random.randrange(1, 1 << random.randrange(4, 28))))
    return written


def _op_metadata(random: Random, number: int, program: int, expression: str, op: Op, category: str) -> Metadata:
    stats: dict[str | int, Value] = {"program_id": u64(program), "symbol_id": u64(number), "hlo_category": category}
    if op.op_name:
        stats["tf_op"] = op.op_name + random.choice((":", ":Add", ""))
    for name, most in (("flops", 36), ("model_flops", 36), ("bytes_accessed", 30)):
        if random.random() < 0.7:
            stats[name] = random.choice((u64, int))(random.randrange(1 << random.randrange(1, most)))
    if random.random() < 0.7:
        stats["memory_access_breakdown"] = _access(random)
    if random.random() < 0.5:
        stats["source"] = random.choice(("model.py:17", "a:b.py:3", "none", "/x/train.py:0"))
        stats["source_stack"] = "model.py:17:2\ntrain.py:<3>&:1\n"
    if random.random() < 0.2:
        stats["deduplicated_name"] = f"same{random.randrange(3)}"
    shown = op.name if random.random() < 0.95 else ""
    return Metadata(expression, number, display_name=shown, stats=stats)


class _Core:
    """Writes the events of one core."""

    def __init__(self, random: Random, numbers: dict[tuple[int, str], int], programs: dict[int, Made]) -> None:
        self.random, self.numbers, self.programs = random, numbers, programs
        self.ops: list[Event] = []
        self.modules: list[Event] = []
        self.steps: list[Event] = []
        self.late = random.choice((0, 0, 5_000_000))
        self.now = 1000 * US

    def stats(self, start: int, duration: int, group: int | None) -> dict[str | int, Any]:
        draw = self.random
        found: dict[str | int, Any] = {}
        if self.late:
            found |= {"device_offset_ps": u64(start), "device_duration_ps": u64(duration)}
        if group is not None:
            found["group_id"] = group
        if draw.random() < 0.3:
            found["Time Scale Multiplier"] = draw.choice((0.5, 0.87, 1.25, 1.0))
        if draw.random() < 0.3:
            found["dma_stall_duration_ps"] = draw.randrange(1, duration + 2)
        if draw.random() < 0.2:
            found["min_duration_ps"] = draw.randrange(1, duration + 2)
        return found

    def run(self, program: int, ops: Sequence[Op], group: int | None) -> None:
        for op in ops:
            if op.opcode in ("parameter", "constant", "get-tuple-element", "tuple", "bitcast"):
                continue
            start = self.now
            place = len(self.ops)
            for _ in range(self.random.randrange(1, 4) if op.opcode == "while" else 0):
                self.now += self.random.randrange(3) * 1000
                self.run(program, self.programs[program].bodies[op.name], group)
            self.now += self.random.randrange(1, 40 * US)
            took = self.now - start
            one = event(self.numbers[program, op.name], start + self.late, took, self.stats(start, took, group))
            self.ops.insert(place, one)
            self.now += self.random.choice((0, 0, 1, self.random.randrange(5 * US)))

    def step(self, number: int, group: bool) -> None:
        start = self.now
        for program, made in self.programs.items():
            began = self.now
            group_id = number if group else None
            self.run(program, made.entry, group_id)
            known = {} if group_id is None else {"group_id": group_id}
            name = f"{made.program.name}({program})"
            self.modules.append(event(name, began + self.late, self.now - began, {"run_id": u64(number + 1), **known}))
            self.now += self.random.randrange(1, 9 * US)
        self.steps.append(event(str(number), start + self.late, self.now - start, {"group_id": number}))
        self.now += self.random.randrange(1, 9 * US)


def _tpu_plane(random: Random, ordinal: int, programs: dict[int, Made], steps: int, metadata: list[Metadata]) -> Plane:
    numbers = {(int(one.stats["program_id"].value), _name(one)): int(one.id or 0) for one in metadata}  # type: ignore
    core = _Core(random, numbers, programs)
    grouped = steps > 0
    for number in range(max(steps, 1)):
        core.step(number, grouped)
    lines: list[Line] = [line("XLA Modules", core.modules, id=2), line("XLA Ops", core.ops, id=3)]
    if grouped:
        lines.insert(0, line("Steps", core.steps, id=1))
    return plane(
        f"/device:TPU:{ordinal}", lines, id=ordinal + 2, event_metadata=metadata, stats=_peaks(Random(ordinal // 9))
    )


def _name(one: Metadata) -> str:
    return one.name.partition(" = ")[0].removeprefix("%")


def _peaks(random: Random) -> dict[str | int, Value]:
    return {
        "device_type_string": random.choice(("TPU v6 Lite", "TPU v4", "TPU v5")),
        "peak_teraflops_per_second": random.choice((918.0, 0.002, 275.0)),
        "peak_hbm_bw_gigabytes_per_second": random.choice((1637.993152512, 0.7)),
        "peak_cmem_rd_bw_gigabytes_per_second": random.choice((0.0, 5000.0)),
        "peak_cmem_wr_bw_gigabytes_per_second": random.choice((0.0, 3000.0)),
        "peak_vmem_rd_bw_gigabytes_per_second": random.choice((900.0, 0.1)),
        "peak_vmem_wr_bw_gigabytes_per_second": 700.0,
        "peak_sram_rd_bw_gigabytes_per_second": 800.0,
        "peak_sram_wr_bw_gigabytes_per_second": 600.0,
        "has_megacore": random.choice((0, 1)),
        "has_merged_vmem": random.choice((0, 1)),
    }


def tpu_capture(seed: int, *, cores: int = 2, programs: int = 2, size: int = 25, steps: int = 3) -> bytes:
    """Cores that run the same programs, step by step; ``steps`` 0: once, without steps."""
    random = Random(seed)
    made = programs_of(random, programs, size, tiled=True)
    protos = {number: one.program.proto(random_buffers(random, one)) for number, one in made.items()}
    metadata = _tpu_metadata(random, made, protos)
    planes = [_tpu_plane(random, ordinal, made, steps, metadata) for ordinal in range(cores)]
    hidden = random.randrange(4) == 0 and len(made) > 1  # a program that the capture does not carry
    carried = dict(list(made.items())[hidden:])
    return xspace(*planes, metadata_plane(random, carried, protos), hostnames=["host0"])


def _tpu_metadata(random: Random, programs: dict[int, Made], protos: dict[int, bytes]) -> list[Metadata]:
    """Of every op that cores run; an op's text is printed without its operands."""
    found: list[Metadata] = []
    for program, made in programs.items():
        module = HloModule(protos[program])
        for op in [*made.entry, *(one for body in made.bodies.values() for one in body)]:
            if op.opcode in ("parameter", "constant", "get-tuple-element", "tuple", "bitcast"):
                continue
            category = op.opcode if op.opcode == "while" else random.choice((*TPU_CATEGORIES[:-1], op.opcode))
            row = int(module.find([op.name])[0])
            kind = module.instruction(row).shape.type_name.lower()
            text = f"%{op.name} = {kind}[] {op.opcode}()" + random.choice(("", ", is_host_transfer=true"))
            found.append(_op_metadata(random, len(found) + 1, program, text, op, category))
    return found


# ---- GPU


def gpu_capture(seed: int, *, devices: int = 2, programs: int = 2, size: int = 25, vendor: str = "Nvidia") -> bytes:
    """Kernels of every instruction of the programs, some of them several times, on two streams."""
    random = Random(seed)
    made = programs_of(random, programs, size, tiled=False)
    planes = [_gpu_plane(random, ordinal, made, vendor) for ordinal in range(devices)]
    return xspace(*planes, metadata_plane(random, made), hostnames=["host0"])


def _gpu_plane(random: Random, ordinal: int, programs: dict[int, Made], vendor: str) -> Plane:
    streams: list[list[Event]] = [[], []]
    now = 1000 * US
    for program, made in programs.items():
        for value in made.values:
            for _ in range(random.choice((0, 1, 1, 2))):
                took = random.randrange(1, 20 * US)
                stream = random.choice(streams)
                stream.append(
                    event(f"k_{value.name}", now, took, _kernel(random, program, made, value.name, len(stream)))
                )
                now += random.choice((took, took // 2, took + 1000))
    lines = [line(f"Stream #{k}(Kernel)", events, id=16 + k, timestamp_ns=1000) for k, events in enumerate(streams)]
    major, minor, cores = random.choice(
        ((9, 0, 132), (8, 0, 108), (7, 0, 80)) if vendor == "Nvidia" else ((9, 4, 304),)
    )
    stats: dict[str | int, Value] = {
        "device_vendor": vendor, "clock_rate": 1_700_000, "core_count": cores, "memory_bandwidth": 2_000_000_000_000,
        "memory_size": 80 << 30, "compute_cap_major": major, "compute_cap_minor": minor,
    }  # fmt: skip
    return plane(f"/device:GPU:{ordinal}", lines, id=ordinal + 2, stats=stats)


def _kernel(random: Random, program: int, made: Made, name: str, correlation: int) -> dict[str | int, Value]:
    draw = random.random()
    details = "regs:16 static_shared:0 dynamic_shared:0 grid:4,1,1 block:256,1,1 occ_pct:100"
    stats: dict[str | int, Value] = {"correlation_id": correlation, "kernel_details": details}
    if draw < 0.04:
        return stats
    if draw < 0.08:
        return stats | {"tf_op": "dense/MatMul:MatMul"}
    stats |= {"hlo_module": made.program.name, "program_id": u64(program)}
    stats["hlo_op"] = f"outer::{name}" if draw < 0.15 else name if draw < 0.97 else "gone.1"
    if random.random() < 0.2:
        stats["flops"] = u64(random.randrange(1 << 30))
        stats["bytes_accessed"] = u64(random.randrange(1 << 30))
    if random.random() < 0.1:
        stats["is_eager"] = 1
    if random.random() < 0.5:
        stats["group_id"] = random.randrange(2)
    return stats
