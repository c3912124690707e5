"""TPU chips that run what a case describes, written as libtpu and JAX write it.

Time is simulated: a chip runs its instructions one after the other, and all chips end a sum over chips at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod

from gpu_machine import Thread, Written, named, profiled
from hlo_builder import Op, Program, packed, shape, tuple_of
from step_captures import core_details
from trace_builder import Event, Metadata, Plane, Value, event, int_field, len_field, line, plane, u64, xspace

from fastprof.hlo.module import HloModule
from fastprof.hlo.text.instruction_text import format_expression

US = 1_000_000
START = 2_000 * US
PEAK_FLOPS, PEAK_BYTES = 918e12, 1638e9
TILES = {"bf16": ((8, 128), (2, 1)), "f32": ((8, 128),)}
PROGRAM_ID = 7_311_650_934_521_873_002
TITLE = f"jit_train_step({PROGRAM_ID})"
JAX_CALLS = ("PjitFunction(train_step)", "TfrtTpuLoadedExecutable::Execute")
TF_CALLS = ("TFE_Py_ExecuteCancelable", "TpuExecuteOp")
"""How a step's program is called, from Python and below it."""
QUIET = ("parameter", "tuple", "constant")


def array(kind: str, *dims: int, space: int = 0) -> bytes:
    flat = ((1024,),) if dims else ((128,),)
    return shape(kind, *dims, space=space, tiles=TILES[kind] if len(dims) > 1 else flat)


def in_tiles(dims: Sequence[int]) -> tuple[int, ...]:
    """The lengths with the padding of tiles of 8 by 128."""
    return (*dims[:-2], -(-dims[-2] // 8) * 8, -(-dims[-1] // 128) * 128)


def _bytes(*arrays: tuple[int, ...]) -> int:
    """Of arrays in bf16, in tiles."""
    return 2 * sum(prod(in_tiles(dims)) for dims in arrays)


@dataclass(frozen=True)
class Run:
    """What a chip runs: an instruction, its category, and what it takes."""

    op: Op
    category: str
    took: int
    flops: int = 0
    bytes: int = 0
    ends: str = ""
    """The instruction that this one waits for."""


@dataclass
class Compiled:
    """The program of a step."""

    program: Program = field(default_factory=lambda: Program("jit_train_step"))
    ops: list[Op] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)

    def parameter(self, kind: str, *dims: int) -> Op:
        op = Op(f"param_{len(self.ops)}", "parameter", array(kind, *dims))
        self.ops.append(op)
        return op

    def add(self, op: Op, category: str, took: int, *, flops: int = 0, bytes: int = 0, ends: str = "") -> Op:
        self.ops.append(op)
        self.runs.append(Run(op, category, took, flops, bytes, ends))
        return op

    def product(self, left: Op, right: Op, rows: int, inner: int, columns: int, efficiency: float = 0.95) -> Op:
        """A matrix product in bf16, which XLA writes as a convolution."""
        numbers = len_field(16, int_field(4, 1) + int_field(8, 1) + int_field(10, 1))
        flops, ends = 2 * rows * inner * columns, ((rows, inner), (inner, columns), (rows, columns))
        took = int(max(flops / PEAK_FLOPS, _bytes(*ends) / PEAK_BYTES) / efficiency * 1e12)
        return self._convolution(left, right, numbers, took, flops, ends)

    def convolution(self, image: Op, kernel: Op, batch: int, side: int, channels: int, window: int) -> Op:
        """Over squares, in bf16, with as many channels out as in. Tiles are computed whole, padding and all."""
        numbers = int_field(3, 2) + int_field(4, 3) + packed(6, [0, 1]) + int_field(8, 3) + int_field(10, 3)
        numbers = len_field(16, numbers + packed(11, [1, 2]) + packed(12, [1, 2]))
        one = int_field(1, window) + int_field(2, 1) + int_field(3, window // 2) + int_field(4, window // 2)
        one += int_field(5, 1) + int_field(6, 1)
        whole = (batch, side, side, channels)
        places = 2 * batch * side * side * window * window
        took = int(places * (-(-channels // 128) * 128) ** 2 / PEAK_FLOPS / 0.95 * 1e12)
        numbers += len_field(15, len_field(1, one) * 2)
        ends = (whole, (window, window, channels, channels), whole)
        return self._convolution(image, kernel, numbers, took, places * channels * channels, ends)

    def _convolution(
        self, left: Op, right: Op, numbers: bytes, took: int, flops: int, ends: Sequence[tuple[int, ...]]
    ) -> Op:
        number, out = len(self.ops), array("bf16", *ends[-1])
        inside = Op(f"convolution.{number}", "convolution", out, ["a", "b"], raw=numbers)
        operands = (Op("a", "parameter", left.shape), Op("b", "parameter", right.shape))
        fused = self.program.computation(f"fused_{number}", *operands, inside, fused=True)
        op_name = "jit(train_step)/jit(main)/dot_general"
        op = Op(f"fusion.{number}", "fusion", out, [left.name, right.name], [fused], "kOutput", op_name=op_name)
        return self.add(op, "convolution fusion", took, flops=flops, bytes=_bytes(*ends))

    def loop(self, operand: Op, *dims: int, took: int | None = None, category: str = "loop fusion") -> Op:
        name, out, moved = f"loop_fusion.{len(self.ops)}", array("bf16", *dims), 4 * prod(in_tiles(dims))
        inside = Op(f"tanh.{name[12:]}", "tanh", out, ["p"])
        fused = self.program.computation(f"fused_{name[12:]}", Op("p", "parameter", operand.shape), inside, fused=True)
        op = Op(name, "fusion", out, [operand.name], [fused], "kLoop", op_name="jit(train_step)/jit(main)/tanh")
        best = int(moved / PEAK_BYTES / 0.95 * 1e12)
        return self.add(op, category, best if took is None else took, flops=prod(dims), bytes=moved)

    def all_reduce(self, operand: Op, took: int, devices: int, *dims: int, opcode: str = "all-reduce") -> Op:
        name = f"{opcode}.{len(self.ops)}"
        raw = len_field(49, packed(1, list(range(devices)))) + int_field(26, 1) + int_field(71, 1)
        scalar = array("bf16")
        ends = [Op(f"sa.{name}", "parameter", scalar), Op(f"sb.{name}", "parameter", scalar)]
        total = self.program.computation(f"add.{name}", *ends, Op(f"s.{name}", "add", scalar, [e.name for e in ends]))
        op_name = "jit(train_step)/jit(main)/psum"
        op = Op(name, opcode, array("bf16", *dims), [operand.name], [total], op_name=op_name, raw=raw)
        return self.add(op, opcode, took, bytes=4 * prod(in_tiles(dims)))

    def proto(self) -> bytes:
        results = [op for op in self.ops if op.opcode not in QUIET][-1:]
        self.ops.append(Op("result", "tuple", tuple_of(*(op.shape for op in results)), [op.name for op in results]))
        self.program.entry(*self.ops)
        return self.program.proto()


@dataclass
class Chip:
    """A core, and the events of its lines."""

    ordinal: int
    now: int = START
    ops: list[Event] = field(default_factory=list)
    beside: list[Event] = field(default_factory=list)
    steps: list[Event] = field(default_factory=list)
    modules: list[Event] = field(default_factory=list)
    started: dict[str, tuple[int, int]] = field(default_factory=dict)
    """When something that runs beside others began, and when it ends."""

    def ran(self, number: int, took: int, **stats: Value) -> None:
        found = named({"device_offset_ps": u64(self.now), "device_duration_ps": u64(took), **stats})
        self.ops.append(event(number, self.now, took, found))
        self.now += took

    def written(self, metadata: Sequence[Metadata], hostname: str, local: int) -> Plane:
        """``local``: its number on its host."""
        self.beside.sort(key=lambda one: one.offset_ps or 0)
        lines = [
            line("Steps", self.steps, id=1), line("XLA Modules", self.modules, id=2), line("XLA Ops", self.ops, id=3),
            line("Async XLA Ops", self.beside, id=4),
        ]  # fmt: skip
        stats: dict[str | int, Value] = {
            "core_details": core_details(local, hostname, self.ordinal), "device_type_string": "TPU v6 Lite",
            "peak_teraflops_per_second": 918.0, "peak_hbm_bw_gigabytes_per_second": 1638.0,
            "peak_vmem_rd_bw_gigabytes_per_second": 23296.0, "peak_vmem_wr_bw_gigabytes_per_second": 16128.0,
            "peak_cmem_rd_bw_gigabytes_per_second": 0.0, "peak_cmem_wr_bw_gigabytes_per_second": 0.0,
            "has_megacore": 0, "has_merged_vmem": 1,
        }  # fmt: skip
        shown = [one for one in lines if one.events]
        return plane(f"/device:TPU:{local}", shown, id=2 + 8 * local, event_metadata=list(metadata), stats=stats)


Takes = Callable[[int, Run], int]
"""What an instruction takes on a chip."""


def as_planned(_chip: int, run: Run) -> int:
    return run.took


class Pod:
    """Hosts with chips that train in step."""

    def __init__(
        self, compiled: Compiled, *, chips: int = 4, hosts: int = 1, steps: int = 8, calls: Sequence[str] = JAX_CALLS
    ) -> None:
        self.compiled, self.hosts, self.steps, self.calls = compiled, hosts, steps, calls
        self.chips = [Chip(ordinal) for ordinal in range(chips)]
        self.mains = [Thread("python", 300 + host) for host in range(hosts)]
        self.numbers = {run.op.name: k for k, run in enumerate(compiled.runs, 1)}

    def run(self, takes: Takes = as_planned) -> int:
        """How long the loop took."""
        for step in range(self.steps):
            begun = [chip.now for chip in self.chips]
            self._dispatch(step)
            modules = [chip.now for chip in self.chips]
            for one in self.compiled.runs:
                self._run(one, step, takes)
            for chip, since, module in zip(self.chips, begun, modules, strict=True):
                ran = named({"run_id": u64(step + 1), "queue_id": u64(0), "core_type": u64(0), "replica_id": 0})
                chip.modules.append(event(TITLE, module, chip.now - module, ran))
                chip.now += 6 * US
                chip.steps.append(event(str(step), since, chip.now - since))
        return max(chip.now for chip in self.chips) - START

    def _dispatch(self, step: int) -> None:
        for main in self.mains:
            with main.within("train", _r=1, step_num=step), main.within(self.calls[0]), main.within(self.calls[1]):
                main.now += 8 * US
                for local in range(len(self.chips) // self.hosts):
                    launched: dict[str, Value] = {"run_id": step + 1, "queue_id": 0, "device_ordinal": local}
                    main.call("DoEnqueueProgram", 3 * US, {**launched, "core_type": 0})
            for chip in self.chips:
                chip.now = max(chip.now, main.now)

    def _run(self, one: Run, step: int, takes: Takes) -> None:
        number, last = self.numbers[one.op.name], max(chip.now for chip in self.chips)
        for chip in self.chips:
            took = takes(chip.ordinal, one)
            if one.category.endswith("-start"):
                chip.started[one.op.name] = chip.now, (last if "reduce" in one.category else chip.now) + took
                chip.ran(number, US // 4)
            elif one.ends:
                since, until = chip.started[one.ends]
                wait = max(until - chip.now, 0) + US // 4
                chip.beside.append(
                    event(self.numbers[one.ends], since, chip.now + wait - since, {"hlo_op": one.op.name})
                )
                chip.ran(number, wait)
            elif one.category == "all-reduce":
                chip.ran(number, last + took - chip.now, all_reduce_unique_id=u64((step + 1) << 16 | number))
            else:
                chip.ran(number, took)

    def captured(self, cost: int, run: int, most: int | None = None, *threads: Thread) -> Written:
        proto = self.compiled.proto()
        metadata = described(self.compiled, proto)
        programs = plane("/host:metadata", event_metadata=[Metadata(TITLE, PROGRAM_ID, stats={"Hlo Proto": proto})])
        share, captures = len(self.chips) // self.hosts, {}
        for host, main in enumerate(self.mains):
            name = f"host{host}"
            chips = self.chips[host * share : (host + 1) * share]
            planes = [chip.written(metadata, name, local) for local, chip in enumerate(chips)]
            lines = [thread.written() for thread in (main, *threads)]
            captures[name] = xspace(
                *planes, programs, plane("/host:CPU", lines), profiled(START + run), hostnames=[name]
            )
        return Written(captures, cost, run, most)


def described(compiled: Compiled, proto: bytes) -> list[Metadata]:
    """What a capture says of each instruction."""
    module = HloModule(proto)
    found = []
    for number, run in enumerate(compiled.runs, 1):
        row = int(module.find([run.op.name])[0])
        moved = len_field(1, int_field(1, 1) + int_field(2, 1) + int_field(3, run.bytes // 2))
        moved += len_field(1, int_field(1, 2) + int_field(2, 1) + int_field(3, run.bytes - run.bytes // 2))
        stats: dict[str | int, Value] = {
            "hlo_category": run.category, "program_id": u64(PROGRAM_ID), "symbol_id": u64(number), "flops": run.flops,
            "model_flops": run.flops, "bytes_accessed": run.bytes, "raw_bytes_accessed": run.bytes,
            "memory_access_breakdown": moved if run.bytes else b"",
        }  # fmt: skip
        if run.op.op_name:
            stats["tf_op"] = f"{run.op.op_name}:{run.op.op_type}"
        found.append(Metadata(format_expression(module, row), number, display_name=run.op.name, stats=stats))
    return found


def dense(layers: int = 6, rows: int = 4096, width: int = 8192) -> Compiled:
    """Matrix products at 95 % of the peak, and an elementwise fusion."""
    made = Compiled()
    weight, x = made.parameter("bf16", width, width), made.parameter("bf16", rows, width)
    for _ in range(layers):
        x = made.product(x, weight, rows, width, width)
    made.loop(x, rows, width)
    return made
