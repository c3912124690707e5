"""What ran in one step, for the timeline: executions of each node by device, and the memory it held."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import pyarrow.compute as pc

from fastprof.derive.tfprof.recorded import Recorded, flags, numbers, plain, texts
from fastprof.wording.patterns import pattern_of

_CANONICAL: Final = pattern_of(r".*/(device:gpu|gpu|device:cpu|cpu):\d+", re.ASCII)


def is_canonical(device: str) -> bool:
    """Whether a device is one of those on which graphs place nodes: not a stream of it."""
    return _CANONICAL.fullmatch(device) is not None


class Span(NamedTuple):
    """An execution, in microseconds."""

    start: int
    duration: int


class StepRuns:
    """The nodes that ran in a step and whose times are known."""

    def __init__(self, recorded: Recorded, step: int) -> None:
        self._recorded, self._step = recorded, step

    @cached_property
    def timed(self) -> dict[int, list[tuple[int, int]]]:
        """The nodes with a start and an end, and their allocations: time and bytes."""
        runs = plain(self._recorded.nodes["runs"])
        each = pc.list_flatten(runs)
        rows, steps = numbers(pc.list_parent_indices(runs)), numbers(each.field("step"))
        there = (steps == self._step) & (numbers(each.field("start_us")) != 0) & (numbers(each.field("end_us")) != 0)
        places = np.flatnonzero(there)
        allocations = each.field("allocations").take(places).to_pylist()
        return {
            row: [(one["time_us"], one["bytes"]) for one in some or ()]
            for row, some in zip(rows[places].tolist(), allocations, strict=True)
        }

    @cached_property
    def spans(self) -> dict[int, dict[str, list[Span]]]:
        """Executions of each node by device, in the order of the bytes of their names."""
        return self._spans(of_cpu_only=False)

    @cached_property
    def on_cpu(self) -> dict[int, dict[str, list[Span]]]:
        """Those that are not of accelerators."""
        return self._spans(of_cpu_only=True)

    def _spans(self, *, of_cpu_only: bool) -> dict[int, dict[str, list[Span]]]:
        every = self._recorded.executions
        wanted = numbers(every["step"]) == self._step
        if of_cpu_only:
            wanted &= ~flags(every["is_accelerator"])
        places = np.flatnonzero(wanted)
        columns = (texts(every["device"]).take(places).to_pylist(), numbers(every["start_us"])[places].tolist())
        rows, durations = self._recorded.rows_of(every["name"])[places].tolist(), numbers(every["duration_us"])[places]
        spans: dict[int, dict[str, list[Span]]] = defaultdict(lambda: defaultdict(list))
        for row, device, start, duration in zip(rows, *columns, durations.tolist(), strict=True):
            spans[row][device].append(Span(start, duration))
        return {row: dict(sorted(some.items(), key=lambda one: one[0].encode())) for row, some in spans.items()}

    @cached_property
    def in_use(self) -> dict[int, list[tuple[int, int]]]:
        """What each node's allocator had given out, by time."""
        every = self._recorded.memory
        places = np.flatnonzero(numbers(every["step"]) == self._step)
        rows = self._recorded.rows_of(every["name"])[places].tolist()
        times, sizes = (numbers(every[name])[places].tolist() for name in ("end_us", "allocator_bytes_in_use"))
        in_use = defaultdict[int, list[tuple[int, int]]](list)
        for row, time, size in zip(rows, times, sizes, strict=True):
            in_use[row].append((time, size))
        return in_use

    @cached_property
    def persistent(self) -> dict[int, int]:
        """Memory of accelerators that outlives the runs of a node: the most of any step."""
        every = self._recorded.memory
        rows, steps = self._recorded.rows_of(every["name"]).tolist(), numbers(every["step"]).tolist()
        sums = defaultdict[tuple[int, int], int](int)
        for row, step, size in zip(rows, steps, numbers(every["accelerator_persistent_bytes"]).tolist(), strict=True):
            sums[row, step] += size
        most = defaultdict[int, int](int)
        for (row, _), size in sums.items():
            most[row] = max(most[row], size)
        return most
