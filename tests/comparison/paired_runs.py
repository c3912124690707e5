"""Runs made of a plan, to compare a run with the same run after one change: TPU captures and PyTorch traces."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from step_captures import core_details
from trace_builder import Event, Metadata, Plane, event, line, plane, u64, xspace

US = 1_000_000
"""A microsecond in picoseconds."""


@dataclass(frozen=True)
class Op:
    """An op of a step: instruction, scope, shape, category, microseconds."""

    name: str
    scope: str
    shape: str
    category: str
    time_us: float

    @property
    def text(self) -> str:
        opcode = self.category.split()[-1] if "fusion" in self.category else self.category
        return f"%{self.name} = {self.shape}{{1,0}} {opcode}({self.shape}{{1,0}} %param.1)"


MODEL = (
    Op("infeed.1", "infeed", "bf16[32,128]", "infeed", 100),
    Op("fusion.1", "jit(train)/Model/embed/gather", "bf16[32,128]", "loop fusion", 400),
    Op("fusion.2", "jit(train)/Model/layer_0/attn/dot_general", "bf16[32,512]", "convolution fusion", 1800),
    Op("fusion.3", "jit(train)/Model/layer_0/mlp/dot_general", "bf16[32,2048]", "convolution fusion", 2200),
    Op("fusion.4", "jit(train)/Model/layer_1/attn/dot_general", "bf16[32,512]", "convolution fusion", 1800),
    Op("fusion.5", "jit(train)/Model/layer_1/mlp/dot_general", "bf16[32,2048]", "convolution fusion", 2200),
    Op("fusion.6", "jit(train)/loss/log", "f32[32]", "loop fusion", 300),
    Op("all-reduce.7", "jit(train)/psum", "f32[1024,512]", "all-reduce", 600),
    Op("fusion.8", "jit(train)/optimizer/update", "f32[1024,512]", "loop fusion", 500),
)
"""A step of 9.9 ms, without what is between steps."""


@dataclass(frozen=True)
class Plan:
    """A run. ``noise``: relative, of each op; ``between_us``: idle time before each step; ``calls``: what the host does
    in that time of a step: event and microseconds; ``slow_chip``: factor of the compute of the last chip;
    ``program``: the HloProto of the ops; ``programs``: programs that steps run in turn, all of them this one."""

    ops: Sequence[Op] = MODEL
    steps: int = 30
    hosts: int = 1
    chips: int = 2
    noise: float = 0.005
    seed: int = 0
    between_us: float = 50
    calls: Callable[[int], Sequence[tuple[str, float]]] = lambda _: ()
    slow_chip: float = 1.0
    model: str = "TPU v6 Lite"
    program: bytes = b""
    programs: int = 1

    def changed(self, name: str, **changes: object) -> Plan:
        """This plan with other values of one op."""
        return replace(self, ops=[replace(op, **changes) if op.name == name else op for op in self.ops])  # type: ignore[arg-type]

    def captures(self) -> list[bytes]:
        """The captures, one a host."""
        return [_Host(self, number).capture() for number in range(self.hosts)]


@dataclass
class _Host:
    plan: Plan
    number: int
    calls: list[Event] = field(default_factory=list)

    def capture(self) -> bytes:
        chips = [self._chip(ordinal) for ordinal in range(self.plan.chips)]
        host = plane("/host:CPU", [line("python", sorted(self.calls, key=lambda one: one.offset_ps or 0), id=1)], id=1)
        entries = [
            Metadata(f"jit_train({number})", number, stats={"Hlo Proto": self.plan.program})
            for number in range(7, 7 + self.plan.programs)
        ]
        programs = [plane("/host:metadata", event_metadata=entries)] if self.plan.program else []
        return xspace(*chips, host, *programs, hostnames=[f"host{self.number}"])

    def _chip(self, ordinal: int) -> Plane:
        plan, events = self.plan, dict[str, list[Event]](steps=[], modules=[], ops=[])
        numbers = {op.name: number for number, op in enumerate(plan.ops, 1)}
        last = ordinal == plan.chips - 1 and self.number == plan.hosts - 1
        now = 2000 * US
        for step in range(plan.steps):
            # All chips of a step have the same noise: collectives keep them in lock step.
            random = Random(f"{plan.seed} {step}")
            begin = now
            now += round(plan.between_us * US)
            for name, took_us in plan.calls(step):
                if ordinal == 0:
                    self.calls.append(event(name, now, round(took_us * US)))
                now += round(took_us * US)
            first = now
            ahead = 0
            for op in plan.ops:
                took = round(op.time_us * US * random.gauss(1, plan.noise))
                if op.category == "all-reduce":
                    took += 0 if last else ahead
                elif plan.slow_chip != 1 and op.category != "infeed":
                    more = round(took * (plan.slow_chip - 1))
                    took, ahead = (took + more, ahead) if last else (took, ahead + more)
                number = numbers[op.name] + step % plan.programs * len(plan.ops)
                events["ops"].append(event(number, now, took, {"group_id": step}))
                now += took
            if ahead and not any(op.category == "all-reduce" for op in plan.ops):
                now += ahead
            whole = {"group_id": step}
            program = 7 + step % plan.programs
            events["modules"].append(
                event(f"jit_train({program})", first, now - first, {"run_id": u64(step + 1), **whole})
            )
            events["steps"].append(event(str(step), begin, now - begin, whole))
        metadata = [
            Metadata(op.text + f", calls=%c.{program}" * (program > 0), numbers[op.name] + program * len(plan.ops),
                     display_name=op.name, stats={
                "program_id": u64(7 + program), "symbol_id": u64(numbers[op.name]), "hlo_category": op.category,
                "tf_op": f"{op.scope}:",
            })
            for program in range(plan.programs)
            for op in plan.ops
        ]  # fmt: skip
        lines = [
            line("Steps", events["steps"], id=1), line("XLA Modules", events["modules"], id=2),
            line("XLA Ops", events["ops"], id=3),
        ]  # fmt: skip
        stats = {
            "device_type_string": plan.model, "core_details": core_details(ordinal, f"host{self.number}", ordinal)
        }  # fmt: skip
        return plane(f"/device:TPU:{ordinal}", lines, id=ordinal + 2, event_metadata=metadata, stats=stats)


@dataclass(frozen=True)
class Kernel:
    """A kernel that an op of PyTorch launches, in microseconds."""

    op: str
    name: str
    time_us: float


NETWORK = (
    Kernel("aten::conv2d", "void cudnn::conv_kernel<float, 128>(float*)", 3000),
    Kernel("aten::batch_norm", "void cudnn::bn_fw_tr_1C11_kernel<float, 512>(float*)", 800),
    Kernel("aten::relu", "void at::native::vectorized_elementwise_kernel<4, at::native::ReluFunctor<float>>(int)", 200),
    Kernel("aten::mm", "ampere_sgemm_128x64_tn", 1500),
)


@dataclass(frozen=True)
class TorchPlan:
    """A run of PyTorch on one GPU. ``load_us``: time of the data loader before each step; ``launch_us``: CPU time of
    each op."""

    kernels: Sequence[Kernel] = NETWORK
    steps: int = 20
    noise: float = 0.005
    seed: int = 0
    load_us: Callable[[int], float] = lambda _: 50
    launch_us: float = 10

    def captures(self) -> list[bytes]:
        events: list[Mapping[str, object]] = []
        now, number = 1000.0, 0
        for step in range(self.steps):
            random = Random(f"{self.seed} {step}")
            begin = now
            loaded = self.load_us(step)
            events.append(
                _slice("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", now, loaded)
            )
            now += loaded
            ready = now
            for kernel in self.kernels:
                number += 1
                took = kernel.time_us * random.gauss(1, self.noise)
                args = {"correlation": number, "External id": number}
                events.append(_slice("cpu_op", kernel.op, now, self.launch_us, **{"External id": number}))
                events.append(_slice("cuda_runtime", "cudaLaunchKernel", now + 1, self.launch_us - 2, **args))
                ready = max(ready, now + self.launch_us)
                events.append(_slice("kernel", kernel.name, ready, took, 0, 7, device=0, stream=7, **args))
                ready += took
                now += self.launch_us
            events.append(_slice("cuda_runtime", "cudaDeviceSynchronize", now, ready + 5 - now, correlation=-number))
            now = ready + 10
            events.append(_slice("user_annotation", f"ProfilerStep#{step}", begin, now - begin))
        document = {
            "schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-40GB"}], "traceEvents": events
        }  # fmt: skip
        return [json.dumps(document).encode()]


def _slice(
    category: str, name: str, start: float, duration: float, pid: int = 100, tid: int = 100, **args: object
) -> Mapping[str, object]:
    return {
        "ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": round(start, 3),
        "dur": round(duration, 3), "args": args,
    }  # fmt: skip
