"""What GPUs ran for the calls of PyTorch's ops: an op launches kernels itself, or an op that it calls does.

aten::linear     |------------------|
aten::addmm        |-------------|
launch                 |-|               aten::addmm launches the kernel itself; aten::linear in all
GPU                           |==sgemm==|
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from fastprof.derive.devices.kineto_categories import is_kineto, may_launch
from fastprof.derive.ops.launches import launchers
from fastprof.derive.ops.tables import sums_by
from fastprof.derive.steps.device_steps import is_derived
from fastprof.derive.steps.enclosing import enclosing
from fastprof.schema.array_types import Bools, Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents


@dataclass(frozen=True, slots=True)
class Launched:
    """What all calls of ops of a name launched: ``own_ps`` themselves, ``total_ps`` with the ops that they call. What
    an op launches through another of its name counts once."""

    own_ps: int
    total_ps: int


def launched_by_name(events: HostEvents) -> Mapping[str, Launched] | None:
    """By name of the ops of a host; None: they are not PyTorch's, or the host has no GPU. Ops that are not here
    launched nothing."""
    gpus = events.planes_of("GPU")
    if not gpus or not is_kineto(events):
        return None
    lines = [line for plane in gpus for line in plane.lines if not is_derived(line)]
    rows = np.concatenate([np.zeros(0, np.int64), *(np.arange(line.first, line.last) for line in lines)])
    around, pairs = OpsAround(events), []
    at = around.launching(rows)
    rows, at = rows[at >= 0], at[at >= 0]
    kernel, count = np.arange(len(rows)), len(events.names)
    while len(at):
        pairs.append(kernel * count + events.meta[at])
        at = around.op_of(at)
        kernel, at = kernel[at >= 0], at[at >= 0]
    own = _times(events, rows, pairs[0] if pairs else kernel, count)
    every = np.unique(np.concatenate([kernel, *pairs]))  # an op may call another of its name
    total = _times(events, rows, every, count)
    found: dict[str, Launched] = {}
    for meta in np.flatnonzero(total).tolist():
        known = found.get(events.names[meta], NOTHING)
        found[events.names[meta]] = Launched(known.own_ps + int(own[meta]), known.total_ps + int(total[meta]))
    return found


def _times(events: HostEvents, rows: Int64s, pairs: Int64s, count: int) -> Int64s:
    """By name of the op, the time of rows. ``pairs``: place of the row * ``count`` + name."""
    return sums_by(pairs % count, events.duration_ps[rows[pairs // count]], count)


NOTHING: Final = Launched(0, 0)


class OpsAround:
    """Finds the innermost op around events."""

    def __init__(self, events: HostEvents) -> None:
        self._events = events
        self._parent = enclosing(events)
        self._is_op: Bools = may_launch(events)[events.meta]

    def launching(self, rows: Int64s) -> Int64s:
        """The innermost op that launched each of these rows of a GPU; -1: it is unknown."""
        op = launchers(self._events, rows).astype(np.int64)
        inside = np.flatnonzero((op >= 0) & ~self._is_op[op])
        op[inside] = self.op_of(op[inside])
        return op

    def op_of(self, rows: Int64s) -> Int64s:
        """-1: none is."""
        at = self._parent[rows].astype(np.int64)
        while True:
            passed = np.flatnonzero(at >= 0)
            passed = passed[~self._is_op[at[passed]]]
            if not len(passed):
                return at
            at[passed] = self._parent[at[passed]]


def together(hosts: Iterable[Mapping[str, Launched] | None]) -> Mapping[str, Launched] | None:
    """The sums of all hosts; None: no host has a GPU."""
    every = [one for one in hosts if one is not None]
    found: dict[str, Launched] = {}
    for one in every:
        for name, more in one.items():
            known = found.get(name, NOTHING)
            found[name] = Launched(known.own_ps + more.own_ps, known.total_ps + more.total_ps)
    return found if every else None
