"""Hosts with GPUs that run what a case describes, written as the profilers of TensorFlow and JAX write it.

Time is simulated: a host thread launches kernels one after the other, a kernel starts when it is launched and its
stream is free. What a case plants is therefore known to the picosecond.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

from hlo_builder import Op, Program, packed, shape
from trace_builder import (
    Event,
    Line,
    Metadata,
    Plane,
    Value,
    event,
    int_field,
    len_field,
    line,
    plane,
    ref,
    task_environment,
    u64,
    xspace,
)

US = 1_000_000
"""A microsecond in picoseconds."""
START = 2_000 * US
LATENCY = 4 * US
"""From the end of a launch to the start of its kernel."""

Stats = dict[str | int, Value]


def named(stats: Mapping[str, Value]) -> Stats:
    return {name: value for name, value in stats.items()}  # noqa: C416 - keys of another type


def profiled(until: int) -> Plane:
    """When profiling started and stopped: all times count from its start."""
    return task_environment(1_795_000_000_000_000_000, 1_795_000_000_000_000_000 + until // 1000)


class Thread:
    """A host thread: events that nest, and the time that it has reached."""

    def __init__(self, name: str, id: int) -> None:
        self.name, self.id, self.now = name, id, START
        self.events: list[Event] = []

    def run(self, name: str, took: int, **stats: Value) -> None:
        self.call(name, took, stats)

    def call(self, name: str, took: int, stats: Mapping[str, Value]) -> None:
        self.events.append(event(name, self.now, took, named(stats)))
        self.now += took

    @contextmanager
    def within(self, name: str, **stats: Value) -> Iterator[None]:
        """Around what the thread does in the block."""
        place, since = len(self.events), self.now
        yield
        self.events.insert(place, event(name, since, self.now - since, named(stats)))

    def wait(self, name: str, until: int, **stats: Value) -> None:
        self.run(name, max(until - self.now, US), **stats)

    def written(self) -> Line:
        ordered = sorted(self.events, key=lambda one: (one.offset_ps or 0, -one.duration_ps))
        return line(self.name, ordered, id=self.id, display_name=self.name)


@dataclass
class Gpu:
    """A device: the events of its streams, and when each stream is free."""

    ordinal: int
    streams: dict[str, list[Event]] = field(default_factory=dict)
    free: dict[str, int] = field(default_factory=dict)

    def add(self, stream: str, name: str, earliest: int, took: int, stats: Mapping[str, Value]) -> int:
        """When it ends."""
        begin = max(earliest, self.free.get(stream, 0))
        self.streams.setdefault(stream, []).append(event(name, begin, took, named(stats)))
        self.free[stream] = begin + took
        return begin + took

    @property
    def done(self) -> int:
        return max(self.free.values())

    def written(self, stats: Stats) -> Plane:
        numbers = {name: 13 + k for k, name in enumerate(self.streams)}
        lines = [line(f"Stream #{numbers[name]}({name})", one, id=numbers[name]) for name, one in self.streams.items()]
        return plane(f"/device:GPU:{self.ordinal}", lines, id=self.ordinal, stats=stats)


A100: Stats = {
    "device_vendor": "Nvidia", "clock_rate": 1_410_000, "core_count": 108, "memory_bandwidth": u64(1_555_000_000_000),
    "memory_size": u64(42_505_273_344), "compute_cap_major": 8, "compute_cap_minor": 0,
}  # fmt: skip
V100: Stats = {
    "device_vendor": "Nvidia", "clock_rate": 1_530_000, "core_count": 80, "memory_bandwidth": u64(898_048_000_000),
    "memory_size": u64(16_945_512_448), "compute_cap_major": 7, "compute_cap_minor": 0,
}  # fmt: skip
A100_FLOPS, A100_BYTES = 2048 * 108 * 1.41e9, 1555e9
"""Per second, at best."""


class Machine:
    """A host with its threads and GPUs."""

    def __init__(self, gpus: int = 1, kind: Stats = A100) -> None:
        self.kind = kind
        self.gpus = [Gpu(ordinal) for ordinal in range(gpus)]
        self.threads: dict[str, Thread] = {}
        self.correlation = count(1)
        self.flow = count(7 << 32)

    def thread(self, name: str) -> Thread:
        if name not in self.threads:
            self.threads[name] = Thread(name, 4100 + len(self.threads))
        return self.threads[name]

    def launch(
        self, thread: Thread, gpu: Gpu, name: str, took: int, stats: Mapping[str, Value], *, launch: int = 4 * US,
        stream: str = "Compute", occupancy: float = 100, grid: str = "432,1,1",
    ) -> int:  # fmt: skip
        """Launches a kernel; when it ends."""
        number = next(self.correlation)
        details = f"regs:32 static_shared:0 dynamic_shared:0 grid:{grid} block:256,1,1 occ_pct:{occupancy:g}"
        thread.call("cuLaunchKernelEx", launch, {"correlation_id": u64(number), "device_id": u64(gpu.ordinal), **stats})
        on_device = {"correlation_id": u64(number), "context_id": ref("$$1"), "kernel_details": ref(details), **stats}
        return gpu.add(stream, name, thread.now + LATENCY, took, on_device)

    def copy(self, thread: Thread, gpu: Gpu, kind: str, size: int, took: int, stats: Mapping[str, Value], *,
             memory: str = "pinned", after: int = 0) -> int:  # fmt: skip
        """Copies between host and device (``HtoD`` or ``DtoH``); when it ends."""
        number = next(self.correlation)
        ends = (memory, "device") if kind == "HtoD" else ("device", memory)
        details = (
            f"kind_src:{ends[0]} kind_dst:{ends[1]} size:{size} dest:{gpu.ordinal} async:{int(memory == 'pinned')}"
        )
        described = {"memcpy_details": ref(details), **stats}
        call = {"correlation_id": u64(number), "device_id": u64(gpu.ordinal), **described}
        thread.call(f"cuMemcpy{kind}Async_v2", 5 * US, call)
        name = "MemcpyH2D" if kind == "HtoD" else "MemcpyD2H"
        on_device: dict[str, Value] = {"correlation_id": u64(number), "context_id": ref("$$1"), **described}
        return gpu.add(name, name, max(thread.now + LATENCY, after), took, on_device)

    def written(self, *planes: Plane) -> bytes:
        host = plane("/host:CPU", [one.written() for one in self.threads.values()], stats={"process_id": 311})
        devices, until = [gpu.written(self.kind) for gpu in self.gpus], max(one.now for one in self.threads.values())
        return xspace(*devices, host, *planes, profiled(until), hostnames=["host0"])


# ---- compiled programs


@dataclass(frozen=True)
class Kernel:
    """An instruction that runs as one kernel, and what it takes at best."""

    op: str
    name: str
    flops: int
    bytes: int
    op_name: str

    def best_ps(self, flops: float = A100_FLOPS, memory: float = A100_BYTES) -> int:
        return int(max(self.flops / flops, self.bytes / memory) * 1e12)


class Compiled:
    """A program that JAX compiled, an instruction after the other."""

    ID = 21

    def __init__(self, name: str = "jit_train_step") -> None:
        self.program = Program(name)
        self.ops: list[Op] = []
        self.kernels: list[Kernel] = []
        self.number = count(1)

    def parameter(self, *dims: int, kind: str = "bf16") -> Op:
        op = Op(f"param_{next(self.number)}", "parameter", shape(kind, *dims))
        self.ops.append(op)
        return op

    def gemm(self, left: Op, right: Op, rows: int, inner: int, columns: int) -> Op:
        """A matrix product in bf16."""
        number, out = next(self.number), shape("bf16", rows, columns)
        dimensions = len_field(30, packed(1, [1]) + packed(2, [0]))
        dot = Op(f"dot.{number}", "dot", out, [f"a.{number}", f"b.{number}"], raw=dimensions)
        fused = self.program.computation(
            f"gemm_fusion_dot.{number}_computation",
            Op(f"a.{number}", "parameter", left.shape), Op(f"b.{number}", "parameter", right.shape), dot, fused=True,
        )  # fmt: skip
        op_name = "jit(train_step)/jit(main)/dot_general"
        op = Op(
            f"gemm_fusion_dot.{number}", "fusion", out, [left.name, right.name], [fused], "kCustom", op_name=op_name
        )
        moved = 2 * (rows * inner + inner * columns + rows * columns)
        name = op.name.replace(".", "_")
        return self._add(op, Kernel(op.name, name, 2 * rows * inner * columns, moved, op_name))

    def loop(self, operand: Op, *dims: int, kind: str = "bf16", inner: Sequence[str] = ("tanh",)) -> Op:
        """Elementwise instructions in one fusion."""
        number, made, size = next(self.number), shape(kind, *dims), 1
        for length in dims:
            size *= length
        names = [f"p.{number}", *(f"{opcode}.{number}.{k}" for k, opcode in enumerate(inner))]
        steps = [Op(names[k + 1], opcode, made, [names[k]]) for k, opcode in enumerate(inner)]
        fused = self.program.computation(
            f"fused_{number}", Op(names[0], "parameter", operand.shape), *steps, fused=True
        )
        op_name = f"jit(train_step)/jit(main)/{inner[-1]}"
        op = Op(f"loop_{inner[-1]}_fusion.{number}", "fusion", made, [operand.name], [fused], "kLoop", op_name=op_name)
        moved = size * (4 if kind == "bf16" else 8)
        return self._add(op, Kernel(op.name, op.name.replace(".", "_"), size * len(inner), moved, op_name))

    def all_reduce(self, operand: Op, *dims: int, devices: int) -> Op:
        number = next(self.number)
        raw = len_field(49, packed(1, list(range(devices)))) + int_field(26, 1) + int_field(71, 1)
        scalar = shape("bf16")
        ends = [Op(f"sa.{number}", "parameter", scalar), Op(f"sb.{number}", "parameter", scalar)]
        total = self.program.computation(
            f"add.{number}", *ends, Op(f"sum.{number}", "add", scalar, [e.name for e in ends])
        )
        op_name = "jit(train_step)/jit(main)/psum"
        op = Op(
            f"all-reduce.{number}",
            "all-reduce",
            shape("bf16", *dims),
            [operand.name],
            [total],
            op_name=op_name,
            raw=raw,
        )
        name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
        return self._add(op, Kernel(op.name, name, 0, 0, op_name))

    def _add(self, op: Op, kernel: Kernel) -> Op:
        self.ops.append(op)
        self.kernels.append(kernel)
        return op

    def stats(self, kernel: Kernel) -> dict[str, Value]:
        """Of the launches and of the kernels of an instruction."""
        return {
            "tf_op": ref("XlaModule:"), "name": ref(kernel.op_name), "hlo_op": ref(kernel.op),
            "hlo_module": ref(self.program.name), "program_id": self.ID,
        }  # fmt: skip

    def plane(self) -> Plane:
        self.program.entry(*self.ops)
        title = f"{self.program.name}({self.ID})"
        stats: Stats = {"jax_version": "0.10.2", "cuda_version": "12.9"}
        return plane(
            "/host:metadata",
            event_metadata=[Metadata(title, self.ID, stats={"Hlo Proto": self.program.proto()})],
            stats=stats,
        )


def dense(layers: int, rows: int = 4096, width: int = 8192, elementwise: int = 4) -> Compiled:
    """Matrix products, with an elementwise fusion after each ``elementwise``-th."""
    made = Compiled()
    weight, x = made.parameter(width, width), made.parameter(rows, width)
    for layer in range(layers):
        x = made.gemm(x, weight, rows, width, width)
        if layer % elementwise == elementwise - 1:
            x = made.loop(x, rows, width)
    return made


@dataclass(frozen=True)
class Written:
    """The captures of a run by host, and what is planted in it: of the run's time, as if all devices were one.

    most_ps: the time of all that has the cause, where only a part of it could be saved.
    """

    captures: dict[str, bytes]
    cost_ps: int
    run_ps: int
    most_ps: int | None = None


@contextmanager
def requesting(machine: Machine, thread: Thread) -> Iterator[int]:
    """A thread that requests executions of a compiled program; the number that links them."""
    flow = next(machine.flow)
    with thread.within("PjRtStreamExecutorLoadedExecutable::Execute", _pt=5, _p=flow):
        yield flow


@contextmanager
def executing(thread: Thread, module: str, flow: int) -> Iterator[None]:
    """A thread that runs a compiled program of JAX."""
    with (
        thread.within("PjRtStreamExecutorLoadedExecutable::ExecuteHelper"),
        thread.within("PjRtStreamExecutorLoadedExecutable::EnqueueExecution", _ct=5, _c=flow),
        thread.within("GpuExecutable::ExecuteThunks"),
        thread.within(f"{module}:XLA GPU module"),
    ):
        thread.now += 10 * US
        yield
