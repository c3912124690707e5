"""Captures of an inference server made by hand: events of its threads, and programs on a TPU core. Times are in µs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from trace_builder import Event, Plane, Value, event, line, plane, xspace

US = 1_000_000
LAUNCH = {"queue_id": 0, "device_ordinal": 0}


@dataclass
class Server:
    threads: dict[str, list[Event]] = field(default_factory=lambda: defaultdict(list))
    programs: list[Event] = field(default_factory=list)

    def add(self, name: str, start: float, duration: float, thread: str = "main", **stats: Value) -> None:
        self.threads[thread].append(event(name, round(start * US), round(duration * US), stats))

    def run(self, start: float, duration: float, run_id: int, name: str = "jit_f(7)", **stats: Value) -> None:
        """A program on the device, launched by the DoEnqueueProgram of that run."""
        self.programs.append(
            event(name, round(start * US), round(duration * US), {"run_id": run_id, "queue_id": 0, **stats})
        )

    def launch(self, start: float, run_id: int, thread: str = "main") -> None:
        self.add("DoEnqueueProgram", start, 2, thread, run_id=run_id, **LAUNCH)

    def done(self, start: float, run_id: int, thread: str = "main") -> None:
        self.add("CompleteCallbacks", start, 5, thread, run_id=run_id, **LAUNCH)

    def request(self, start: float, duration: float, run_id: int, model: Value = None) -> None:
        """A request without batching, of all parts: SessionRun, a write, an execute, a program, a callback, a read."""
        named: dict[str, Any] = {} if model is None else {"model_id": model}
        self.add("SessionRun", start, duration, _r=1, id=run_id, **named)
        self.add("WriteHbm", start + 5, 10)
        self.add("tpu::System::Execute", start + 20, 10)
        self.launch(start + 25, run_id)
        self.run(start + 30, 40, run_id)
        self.done(start + 80, run_id)
        self.add("ReadHbm", start + 85, 10)

    def batched(self, start: float, duration: float, into: list[int], thread: str, size: int = 1) -> None:
        """A request that schedules tasks into batches, known by the context of each."""
        self.add("BatchingSessionRun", start, duration, thread)
        for at, context in enumerate(into):
            self.add("ScheduleWithSplit", start + 2 + at, 1, thread, _pt=1, _p=context, batching_input_task_size=size)

    def batch(
        self,
        start: float,
        duration: float,
        context: int,
        thread: str,
        padding: int = 0,
        size: int = 4,
        model: str = "m",
    ) -> None:
        """A batch of a context: inputs put together, a run of the model, and a program in it."""
        self.add("ProcessBatch", start, duration, thread, _ct=1, _c=context)
        self.add("MergeInputTensors", start + 1, 2, thread, padding_amount=padding, batch_size_after_padding=size)
        self.add("SessionRun", start + 4, duration - 5, thread, model_id=model)
        self.add("tpu::System::Execute", start + 10, 5, thread)
        self.launch(start + 12, context, thread)
        self.run(start + 20, 30, context)

    def capture(self, *others: Plane) -> bytes:
        lines = [
            line(name, sorted(events, key=lambda e: (e.offset_ps or 0, -e.duration_ps)), id=number)
            for number, (name, events) in enumerate(self.threads.items(), 1)
        ]
        core = line("XLA Modules", sorted(self.programs, key=lambda e: e.offset_ps or 0), id=1)
        return xspace(plane("/host:CPU", lines), plane("/device:TPU:0", [core]), *others)
