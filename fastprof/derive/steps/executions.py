"""Executions of compiled programs: when each ran on each device, and which events belong to it.

An execution is an event of the line XLA Modules of a TPU, from its begin to the end of the last op that began in it; on
a GPU, the kernels of one module up to the one that it began with, or to one of another module; on a host, the ops of
one run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np

from fastprof._native import records
from fastprof.derive.devices.device_events import OP_LINES
from fastprof.derive.steps.device_clock import spans_of_executions
from fastprof.derive.steps.device_steps import is_derived
from fastprof.derive.steps.stretches import union
from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.schema.time_sums import ends_of
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HOST_THREADS, HostEvents, Line, Plane
from fastprof.tables.once import once

STATS: Final = ("hlo_module", "hlo_op", "run_id")
_MODULE_LINE: Final = "XLA Modules"
_HALF: Final = 32


@dataclass(frozen=True, slots=True)
class Executions:
    """Of one plane. ``rows`` are events of executions, ``of`` the execution of each; ``module``: the place in
    ``modules`` of the name of what each executed; ``run``: the recorded id of the run that each is, only on hosts;
    ``device_begin_ps``, ``device_end_ps``: by the clock of a TPU, None elsewhere."""

    plane: Plane
    rows: Int64s
    of: Int64s
    begin_ps: Int64s
    end_ps: Int64s
    module: Int64s
    modules: list[str]
    run: Int64s | None = None
    device_begin_ps: Int64s | None = None
    device_end_ps: Int64s | None = None

    @property
    def on_device(self) -> tuple[Int64s, Int64s]:
        """Begin and end by the clock of the device."""
        if self.device_begin_ps is None or self.device_end_ps is None:
            return self.begin_ps, self.end_ps
        return self.device_begin_ps, self.device_end_ps

    def chosen(self, keep: Bools) -> Executions:
        """Some of the executions."""
        if keep.all():
            return self
        number = np.where(keep, np.cumsum(keep) - 1, -1)
        mine = keep[self.of]
        return Executions(
            self.plane,
            self.rows[mine],
            number[self.of[mine]],
            self.begin_ps[keep],
            self.end_ps[keep],
            self.module[keep],
            self.modules,
            *(None if one is None else one[keep] for one in (self.run, self.device_begin_ps, self.device_end_ps)),
        )

    def of_module(self, name: str) -> Executions:
        """Those of one program."""
        return self.chosen(np.array([module == name for module in self.modules], np.bool_)[self.module])

    def counts(self) -> Counter[str]:
        """How often each module was executed."""
        return _counts(self.module, self.modules)


@once
def executions(events: HostEvents) -> list[Executions]:
    """The executions of each device; of the host where it has none."""
    if tpus := events.planes_of("TPU"):
        return [_on_tpu(events, plane) for plane in tpus]
    if gpus := events.planes_of("GPU"):
        return [_on_gpu(events, plane) for plane in gpus]
    plane = events.plane_named(HOST_THREADS)
    return [] if plane is None else [_on_host(events, plane)]


def main_module(of_planes: list[Executions]) -> str | None:
    """The program whose executions take most time on all devices together; of equals the first by name."""
    time: Counter[str] = Counter()
    for one in of_planes:
        took = one.end_ps - one.begin_ps
        high, low = (np.zeros(len(one.modules), np.int64) for _ in range(2))
        np.add.at(high, one.module, took >> _HALF)  # the sum may take more than 64 bits
        np.add.at(low, one.module, took & (1 << _HALF) - 1)
        for name, above, below in zip(one.modules, high.tolist(), low.tolist(), strict=True):
            time[name] += (above << _HALF) + below
    return min(time, key=lambda name: (-time[name], name), default=None)


def count(events: HostEvents) -> int:
    """How many steps the executions make: of each module, those of the device that ran it most often."""
    most: Counter[str] = Counter()
    if tpus := events.planes_of("TPU"):
        for plane in tpus:
            most |= _counts(*_names(events, _modules(events, plane)))
    else:
        for one in executions(events):
            most |= one.counts()
    return most.total()


def count_outside(events: HostEvents, begin_ps: Int64s, duration_ps: Int64s) -> int:
    """How many executions on a host without devices run while none of these steps does."""
    begins, ends = union(begin_ps.ravel(), duration_ps.ravel())
    outside = 0
    for one in executions(events):
        first = np.searchsorted(ends, one.begin_ps, side="right")  # the first stretch that ends after its begin
        meets = first < len(begins)
        meets[meets] = begins[first[meets]] < one.end_ps[meets]
        outside += int((~meets).sum())
    return outside


def _on_tpu(events: HostEvents, plane: Plane) -> Executions:
    """Ops belong to the module that runs when they begin, and make it last until they end."""
    modules = _modules(events, plane)
    begin = events.start_ps[modules]
    end = ends_of(begin, events.duration_ps[modules])
    others = [line for line in plane.lines if line.name != _MODULE_LINE]
    parts = [_within(events, line, begin, end) for line in others]
    op_parts = [part for line, part in zip(others, parts, strict=True) if line.name in OP_LINES]
    (rows, of), (ops, of_op) = _joined(parts), _joined(op_parts)
    end = end.copy()
    np.maximum.at(end, of_op, ends_of(events.start_ps[ops], events.duration_ps[ops]))
    number = np.arange(len(modules))
    own, own_end = spans_of_executions(events, begin, end, [(modules, number), (ops, of_op)])
    return Executions(
        plane, np.concatenate([modules, rows]), np.concatenate([number, of]), begin, end, *_names(events, modules),
        None, own, own_end,
    )  # fmt: skip


def _within(events: HostEvents, line: Line, begin: Int64s, end: Int64s) -> tuple[Int64s, Int64s]:
    """The rows of a line, which are in order of time, that begin in modules, and the module of each: the last that
    began. ``begin`` ascends."""
    start = events.start_ps[line.first : line.last]
    low = np.searchsorted(start, begin)
    high = np.minimum(np.append(low[1:], len(start)), np.maximum(np.searchsorted(start, end), low))
    count = high - low
    of = np.repeat(np.arange(len(begin)), count)
    return np.arange(len(of)) + np.repeat(low + line.first - (np.cumsum(count) - count), count), of


def _joined(parts: list[tuple[Int64s, Int64s]]) -> tuple[Int64s, Int64s]:
    rows, of = (np.concatenate(column) for column in zip((_none(), _none()), *parts, strict=True))
    return rows, of


def _modules(events: HostEvents, plane: Plane) -> Int64s:
    """The rows of a TPU's executions, in order of time."""
    rows = [np.arange(line.first, line.last) for line in plane.lines if line.name == _MODULE_LINE]
    modules = np.concatenate(rows or [_none()])
    return modules[np.argsort(events.start_ps[modules], kind="stable")]


def _names(events: HostEvents, rows: Int64s) -> tuple[Int64s, list[str]]:
    """The place of the name of each row, and the names."""
    metas, place = np.unique(events.meta[rows], return_inverse=True)
    return _numbered_names(place, [events.names[one] for one in metas.tolist()])


def _numbered_names(place: Int64s, names: Sequence[str]) -> tuple[Int64s, list[str]]:
    """The same with each name once: ``place`` is of rows in ``names``."""
    number = {name: at for at, name in enumerate(dict.fromkeys(names))}
    return np.array([number[name] for name in names], np.int64)[place], list(number)


def _counts(module: Int64s, modules: Sequence[str]) -> Counter[str]:
    counts = np.bincount(module, minlength=len(modules)).tolist()
    return Counter({name: often for name, often in zip(modules, counts, strict=True) if often})


def _on_gpu(events: HostEvents, plane: Plane) -> Executions:
    """Kernels in order of time: an execution ends where another module's kernel comes, or the kernel that it began with
    comes again. (A module that begins inside of a loop seems to be executed at each turn of it.)"""
    stat = events.stat("hlo_module").of_kinds((records.STR, records.REF))
    here = _on_lines(plane, stat.rows)
    rows, module = stat.rows[here].astype(np.int64), stat.value[here]
    order = np.argsort(events.start_ps[rows], kind="stable")
    rows, module = rows[order], module[order]
    if not len(rows):
        return _hulls(events, plane, rows, rows, module)
    kernel = np.stack([_op(events, rows), events.meta[rows].astype(np.int64)], axis=1)
    changes = np.append(True, module[1:] != module[:-1])
    first = np.flatnonzero(changes)[np.cumsum(changes) - 1]
    begins = changes | (kernel == kernel[first]).all(axis=1)
    return _hulls(events, plane, rows, np.cumsum(begins).astype(np.int64) - 1, module)


def _op(events: HostEvents, rows: Int64s) -> Int64s:
    """The number of the text of each row's op, -1: none."""
    stat = events.stat("hlo_op").of_kinds((records.STR, records.REF))
    op = np.full(len(events), -1, np.int64)
    op[stat.rows] = stat.value
    return op[rows]


def _on_host(events: HostEvents, plane: Plane) -> Executions:
    """Ops that record their module and their run belong to that run."""
    stat = events.stat("hlo_module").of_kinds((records.STR, records.REF))
    runs, run = events.ints("run_id")
    rows, at, beside = np.intersect1d(stat.rows, runs, assume_unique=True, return_indices=True)
    here = (rows >= plane.first) & (rows < plane.last)
    of_module, of_run = stat.value[at[here]], run[beside[here]]
    keys, of = np.unique(np.stack([of_module, of_run], 1), axis=0, return_inverse=True)
    return _hulls(events, plane, rows[here].astype(np.int64), of.reshape(-1).astype(np.int64), of_module, keys[:, 1])


def _hulls(
    events: HostEvents, plane: Plane, rows: Int64s, of: Int64s, module: Int64s, run: Int64s | None = None
) -> Executions:
    """Executions that last from the first of their events to the end of the last."""
    n = int(of.max(initial=-1)) + 1
    begin, end = np.full(n, np.iinfo(np.int64).max), np.full(n, np.iinfo(np.int64).min)
    np.minimum.at(begin, of, events.start_ps[rows])
    np.maximum.at(end, of, ends_of(events.start_ps[rows], events.duration_ps[rows]))
    number = np.zeros(n, np.int64)
    number[of] = module
    distinct, place = np.unique(number, return_inverse=True)
    return Executions(plane, rows, of, begin, end, *_numbered_names(place, events.all_texts(distinct)), run)


def _on_lines(plane: Plane, rows: Int32s) -> Bools:
    here = np.zeros(len(rows), np.bool_)
    for line in plane.lines:
        if not is_derived(line):
            here |= (rows >= line.first) & (rows < line.last)
    return here


def _none() -> Int64s:
    return np.zeros(0, np.int64)
