"""Captures drawn by lot, of events that have to do with input pipelines: iterators, elements, functions, contexts."""

from __future__ import annotations

import random
from typing import Any

from trace_builder import Event, event, line, plane, u64, xspace

NAMES = (
    "Iterator::Root", "Iterator::Root", "Iterator::Model", "Iterator::Prefetch", "Iterator::Root::Prefetch",
    "Iterator::Root::Prefetch::Map", "Iterator::Root::Prefetch::Map::TFRecord", "Iterator::Root::ParallelMapV2",
    "Iterator::Root::Zip[1]::TextLine", "Iterator::Prefetch::Generator", "Iterator", "Iterator:x", "PrefetchProduce",
    "PrefetchProduce", "PrefetchConsume", "PrefetchConsume", "ParallelMapProduce", "ParallelMapConsume",
    "ParallelFilterProduce", "ParallelFilterConsume", "InstantiatedCapturedFunction::Run",
    "InstantiatedCapturedFunction::RunAsync", "ExecutorState::Process", "read/ReadFile:ReadFile", "work", "work",
)  # fmt: skip
IDS = (1, 2, 3, -5, u64((1 << 63) + 9))

Thread = list[Event]


class _Lot:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.span = self.random.choice((20, 60, 200))
        self.odd = self.random.choice((0, 0, 4))
        self.linked = self.random.randrange(3) == 0

    def one_in(self, times: int) -> bool:
        return self.random.randrange(times) == 0

    def value(self, value: Any) -> Any:
        """Mostly as it is; a value that is not an integer counts as absent."""
        kind = self.random.randrange(40)
        return "text" if kind < self.odd else None if kind == 39 and self.odd else value

    def stats(self, name: str) -> dict[str, Any]:
        draw, stats = self.random, {}
        if name.startswith("Iterator"):
            if not self.one_in(10):
                stats["id"] = self.value(draw.choice(IDS))
            if not self.one_in(4):
                stats["parent_id"] = self.value(draw.choice(IDS))
        if name.endswith(("Produce", "Consume")) and not self.one_in(10):
            stats["element_id"] = self.value(draw.choice((7, 7, 8, u64((1 << 64) - 3))))
        if name.startswith(("Instantiated", "Executor")):
            stats["id"] = self.value(draw.choice((11, 12, 13)))
        if self.one_in(12):
            stats["_a"] = draw.choice((0, 1))
        for kind, number in (("_pt", "_p"), ("_ct", "_c")):
            if self.linked and self.one_in(3):
                stats[kind], stats[number] = draw.choice((2, 2, 15)), draw.choice((1, 2))
        return stats

    def thread(self) -> Thread:
        draw, events = self.random, []
        for _ in range(draw.randrange(16)):
            name = draw.choice(NAMES)
            duration = draw.choice((0, draw.randrange(8), draw.randrange(self.span)))
            events.append(event(name, draw.randrange(self.span), duration, self.stats(name)))
        return sorted(events, key=lambda one: (one.offset_ps or 0, -one.duration_ps))


def pipeline_threads(seed: int) -> list[Thread]:
    """The events of each thread, in order."""
    lot = _Lot(seed)
    return [lot.thread() for _ in range(lot.random.randint(1, 4))]


def capture_of(threads: list[Thread], others: int = 0) -> bytes:
    """``others``: how many events of another plane come first."""
    lines = [line(f"thread {i}", events, id=i + 1) for i, events in enumerate(threads)]
    stats = {"id": 1, "parent_id": 2, "_p": 1, "_pt": 2, "_c": 1, "_ct": 2}
    device = [plane("/device:GPU:0", [line("Stream", [event("Iterator::Root", i, 9, stats) for i in range(others)])])]
    return xspace(*(device if others else []), plane("/host:CPU", lines))
