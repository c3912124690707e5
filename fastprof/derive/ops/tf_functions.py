"""Calls of tf.functions on a host: how each was executed, and how much time went to retracing and eager execution."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Final

import numpy as np
import numpy.typing as npt

from fastprof.decode.nesting import line_rows, nest
from fastprof.decode.workers import Workers
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HOST_THREADS, HostEvents

EVENT_STATS: Final = ("tf_function_call", "tracing_count")

EAGER, CONCRETE, TRACED, NOT_TRACED, INVALID = "eager", "concrete", "traced", "not_traced", "invalid"
XLA, OTHER, MIXED = "xla", "other", "mixed"

_MODES: Final = {
    "eager": (EAGER, ""),
    "concrete": (CONCRETE, ""),
    "traced-xla": (TRACED, XLA),
    "traced-nonXla": (TRACED, OTHER),
    "notTraced-xla": (NOT_TRACED, XLA),
    "notTraced-nonXla": (NOT_TRACED, OTHER),
}
"""How a call was executed and what compiled it, by the value of the stat tf_function_call."""


@dataclass(slots=True)
class TfFunction:
    """The calls of one function. ``count`` and ``self_ps`` are by how they were executed."""

    name: str
    count: dict[str, int] = field(default_factory=dict)
    self_ps: dict[str, int] = field(default_factory=dict)
    tracings: int = 0
    compiler: str = ""

    @property
    def expensive_percent(self) -> float:
        """Share of self time in calls that were traced or ran eagerly."""
        total = sum(self.self_ps.values())
        return 100.0 * (self.self_ps.get(TRACED, 0) + self.self_ps.get(EAGER, 0)) / total if total else 0.0

    def add(self, other: TfFunction) -> None:
        for mode, count in other.count.items():
            self.count[mode] = self.count.get(mode, 0) + count
            self.self_ps[mode] = self.self_ps.get(mode, 0) + other.self_ps[mode]
        self.tracings = max(self.tracings, other.tracings)
        if other.compiler and self.compiler != other.compiler:
            self.compiler = MIXED if self.compiler else other.compiler


def tf_functions(events: HostEvents, workers: Workers) -> list[TfFunction]:
    """The functions called on the threads of a host, by name; self time leaves out functions called within."""
    plane = events.plane_named(HOST_THREADS)
    rows, texts = events.texts("tf_function_call")
    if plane is None or not len(rows):
        return []
    edges = np.array([(line.first, line.last) for line in plane.lines], np.int64).reshape(-1, 2)
    first, last = np.searchsorted(rows, edges[:, 0]), np.searchsorted(rows, edges[:, 1])
    lines = line_rows(last - first, first.astype(np.int64))
    chosen = np.concatenate([np.arange(a, b) for a, b in zip(first, last, strict=True)] or [rows[:0]]).astype(np.int64)
    rows, texts = rows[chosen], texts[chosen]
    _, _, self_time = nest(events.start_ps[rows], events.duration_ps[rows], None, lines, workers)
    tracings = events.dense("tracing_count")[rows]
    return _summed(events, events.meta[rows], texts, self_time, tracings)


def _summed(
    events: HostEvents,
    meta: npt.NDArray[np.int32],
    texts: npt.NDArray[np.int64],
    self_time: npt.NDArray[np.int64],
    tracings: npt.NDArray[np.int64],
) -> list[TfFunction]:
    """Calls by function and value of the stat; both are few."""
    kinds, inverse = np.unique(np.stack([meta.astype(np.int64), texts]), axis=1, return_inverse=True)
    inverse = inverse.reshape(-1)
    size = kinds.shape[1]
    count = np.bincount(inverse, minlength=size)
    total, most = np.zeros(size, np.int64), np.zeros(size, np.int64)
    np.add.at(total, inverse, self_time)
    np.maximum.at(most, inverse, tracings)
    return combined(
        TfFunction(events.names[row], {mode: number}, {mode: time}, traced, compiler)
        for row, (mode, compiler), number, time, traced in zip(
            kinds[0].tolist(),
            (_MODES.get(events.text(text), (INVALID, "")) for text in kinds[1].tolist()),
            count.tolist(),
            total.tolist(),
            most.tolist(),
            strict=True,
        )
    )


def combined(functions: Iterable[TfFunction]) -> list[TfFunction]:
    """Functions of several threads or hosts as one each, by name."""
    by_name: dict[str, TfFunction] = {}
    for function in functions:
        by_name.setdefault(function.name, TfFunction(function.name)).add(function)
    return [by_name[name] for name in sorted(by_name)]
