"""Captures drawn by lot, of events that have to do with groups: roots, loops, contexts, thread pools, TPUs, kernels."""

from __future__ import annotations

import random
from typing import Any

from trace_builder import Event, Line, Plane, Stats, event, line, plane, ref, u64, xspace

CONTEXT = 7
_HOST_NAMES = (
    "train", "train", "TraceContext", "FunctionRun", "SessionRun", "RunGraph", "ProcessBatch", "BatchingSessionRun",
    "OrbaxServing::ProcessBatch", "ExecutorState::Process", "ExecutorState::Process", "IteratorGetNextOp::DoCompute",
    "IteratorGetNextAsOptionalOp::DoCompute", "InstantiatedCapturedFunction::Run", "EagerExecute", "EagerExecute",
    "dense/MatMul:MatMul", "dense/Add:", "Iterator::Root::Map", "MEMCPYHtoD", "launch", "launch", "work", "work", "",
    "EnqueueRequestLocked", "TransferH2DRequest", "RunProgramRequest", "DoEnqueueProgram", "CompleteCallbacks",
    "TpuExecuteOp",
)  # fmt: skip
_EAGER_NAMES = ("EagerExecute", "EagerExecute", "dense/MatMul:MatMul", "launch", "work", "train")
_REGIONS = ("ThreadpoolListener::StartRegion", "ThreadpoolListener::StopRegion")


class _Lot:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.loops = self.once_in(4)
        self.links = self.once_in(3)
        self.names = _EAGER_NAMES if self.once_in(5) else _HOST_NAMES
        self.roots = self.random.choice((2, 4, 12))
        self.span = self.random.choice((20, 60, 200))

    def once_in(self, times: int) -> bool:
        return self.random.randrange(times) == 0

    def few(self) -> int:
        return self.random.randrange(4)

    def value(self, value: int) -> Any:
        """Mostly an int64; a value that is not an integer counts as absent."""
        kind = self.random.randrange(40)
        return u64(value % (1 << 64)) if kind < 4 else "text" if kind == 4 else None if kind == 5 else value

    def contexts(self, stats: dict[str, Any]) -> None:
        for kind, number in (("_pt", "_p"), ("_ct", "_c")):
            if self.once_in(2 if self.links else 8):
                stats[kind] = self.value(self.random.choice((CONTEXT, CONTEXT, 15, -1)))
                stats[number] = self.value(self.random.choice((1, 2, 3, 4, -(1 << 63))))
        if self.once_in(12):
            stats["_pid"] = self.value(self.few() % 2)

    def stats(self, name: str) -> dict[str, Any]:
        draw, stats = self.random, {}
        if self.once_in(self.roots) or (name == "train" and self.once_in(2)):
            stats["_r"] = self.value(draw.choice((1, 1, 1, 2, 0, -3, -(1 << 63))))
        if self.once_in(6):
            stats["_a"] = self.value(draw.choice((0, 1)))
        if (
            name == "ExecutorState::Process"
            or name.startswith(("Iterator", "Instant", "TpuExecute"))
            or self.once_in(9)
        ):
            stats["id"] = self.value(draw.choice((1, 2, 3, -5)))
            stats["iter_num"] = self.value(self.few() if self.loops else 0)
        for stat, value, times in (
            ("step_num", self.few(), 5), ("graph_type", draw.choice(("eval", ref("fit"), "", 3)), 8),
            ("is_func", self.few() % 2, 2 if name == "EagerExecute" else 30),
            ("correlation_id", self.few(), 2 if name == "launch" else 15),
        ):  # fmt: skip
            if self.once_in(times):
                stats[stat] = value if stat == "graph_type" else self.value(value)
        if name in ("EnqueueRequestLocked", "TransferH2DRequest", "RunProgramRequest"):
            stats |= {"request_id": self.value(self.few()), "queue_addr": self.value(1)}
        if name in ("DoEnqueueProgram", "CompleteCallbacks"):
            run = self.few() + (1 << 27) * self.few()
            stats |= self.program(run) | {"device_ordinal": self.value(self.few() % 2)}
        self.contexts(stats)
        return stats

    def program(self, run: int) -> dict[str, Any]:
        stats = {"run_id": self.value(run), "queue_id": self.value(self.few() % 2)}
        if self.once_in(3):
            stats["core_type"] = self.value(self.few() % 2)
        return stats

    def spans(self, most: int) -> list[tuple[int, int]]:
        draw = self.random
        spans = [
            (draw.randrange(self.span), draw.choice((0, draw.randrange(6), draw.randrange(self.span))))
            for _ in range(draw.randint(0, most))
        ]
        spans.sort(key=lambda span: (span[0], -span[1]))
        return spans

    def host_line(self, number: int) -> Line:
        events: list[Event] = []
        regions = self.once_in(3)
        for start, duration in self.spans(14):
            name = self.random.choice(self.names)
            if regions and self.once_in(2):
                mark = self.random.choice(_REGIONS)
                stats: Stats = {"_c": self.value(self.few()), "_ct": 15} if not self.once_in(6) else {}
                events.append(event(mark, start, 0, stats))
            else:
                events.append(event(name, start, duration, self.stats(name)))
        events.sort(key=lambda one: (one.offset_ps or 0, -one.duration_ps))
        if self.once_in(8):
            self.random.shuffle(events)
        return line(f"thread {number}", events, timestamp_ns=0)

    def host(self, name: str) -> Plane:
        stats: dict[str | int, Any] = {"process_id": self.value(self.few() % 2)} if self.once_in(3) else {}
        return plane(name, [self.host_line(i) for i in range(self.random.randint(1, 3))], stats=stats)

    def gpu(self, number: int) -> Plane:
        lines = []
        for i in range(self.random.randint(1, 2)):
            names = ("kernel", "kernel", "dense/MatMul:MatMul", "MEMCPYHtoD")
            events = []
            for start, duration in self.spans(10):
                stats: dict[str, Any] = {"correlation_id": self.value(self.few())} if not self.once_in(4) else {}
                if self.links:
                    self.contexts(stats)
                events.append(event(self.random.choice(names), start, duration, stats))
            lines.append(line(f"stream {i}", events))
        return plane(f"/device:GPU:{number}", lines)

    def tpu_line(self, name: str, modules: bool, most: int) -> Line:
        events = []
        for start, duration in self.spans(most):
            stats: dict[str, Any] = {}
            if modules:
                stats |= self.program(self.few())
            if name.endswith("Steps"):
                stats["step_idle_time_ps"] = self.value(self.few())
                if self.once_in(3):
                    stats |= {"device_offset_ps": self.value(start + 3), "device_duration_ps": self.value(duration + 1)}
            if self.once_in(12):
                stats["_r"] = 1
            self.contexts(stats)
            events.append(event("0", start, duration, stats))
        return line(name, events)

    def tpu(self, name: str) -> Plane:
        sparse = "Sparse Core " if "Sparse" in name else ""
        lines = [self.tpu_line(sparse + "Steps" if sparse else "Steps", False, self.random.choice((0, 3, 6)))]
        lines.append(
            self.tpu_line("Sparse Core Modules" if sparse else "XLA Modules", True, self.random.choice((0, 4)))
        )
        lines.append(self.tpu_line("Sparse Core Ops" if sparse else "XLA Ops", False, 10))
        self.random.shuffle(lines)
        return plane(name, lines)

    def planes(self) -> list[Plane]:
        kinds = self.random.choice(("host", "host", "gpu", "tpu", "both"))
        planes = [self.host("/host:CPU")]
        if self.once_in(4):
            planes.append(self.host("/host:CUPTI"))
        if kinds in ("gpu", "both"):
            planes += [self.gpu(i) for i in range(self.random.randint(1, 2))]
        if kinds in ("tpu", "both"):
            planes += [self.tpu(f"/device:TPU:{i}") for i in range(self.random.randint(1, 2))]
            if self.once_in(3):
                planes.append(self.tpu("/device:TPU:0 SparseCore 1"))
        if self.once_in(3):
            self.random.shuffle(planes)
        if self.once_in(40):
            planes.append(plane("/host:TFStreamz", [line("l", [event("WhileOp-EvalCond")])]))
        return planes


def grouping_space(seed: int) -> bytes:
    """The same bytes for the same seed, on every machine."""
    return xspace(*_Lot(seed).planes(), hostnames=["vm"])
