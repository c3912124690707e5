"""The collectives of all hosts, some ops at a time, so that what is computed of them takes little memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof.derive.communication.arrivals import Arrivals, compared_steps
from fastprof.derive.communication.flights import NO_BYTES
from fastprof.derive.communication.host_communication import HostCommunication
from fastprof.derive.communication.step_numbers import StepNumbers
from fastprof.derive.devices.communication_kinds import Kind
from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.schema.value_classes import dataclass

MOST_ROWS: Final = 1 << 19
"""Of a block, unless a single step has more of one op."""
_NOT_COMPARED: Final = -2


@dataclass(frozen=True, slots=True)
class Occurrences:
    """Rows of one device, op and step follow each other, by begin. ``device``: number among those of all hosts;
    ``op``: among the operations of all; ``step``: -1: none; ``size``: only of ranks of PyTorch, else empty;
    ``waited``: empty if none is."""

    host: Int32s
    device: Int32s
    op: Int32s
    team: Int32s
    step: Int64s
    begin_ps: Int64s
    end_ps: Int64s
    duration_ps: Int64s
    blocks: Bools
    size: Int64s
    waited: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))

    def take(self, rows: Int64s | Bools | slice) -> Occurrences:
        columns = (getattr(self, name) for name in self.__slots__)
        return Occurrences(*(column[rows] if len(column) else column for column in columns))

    def __len__(self) -> int:
        return len(self.op)


class OfSession:
    """Those of all hosts. ``compared``: the steps that they are of; None: all."""

    def __init__(
        self,
        arrivals: Sequence[Arrivals],
        kept: Sequence[HostCommunication],
        steps: Sequence[StepNumbers],
        places: Sequence[Int64s],
    ) -> None:
        """``places``: by host, of its operations among those of all."""
        self._arrivals, self._places = arrivals, places
        self.compared = compared_steps(self._arrivals, steps)
        known = [numbers.of(one.groups) for one, numbers in zip(self._arrivals, steps, strict=True)]
        self._bounds = [
            np.searchsorted(one.op, np.arange(len(place) + 1)).astype(np.int32)
            for one, place in zip(self._arrivals, places, strict=True)
        ]
        self._first_device = _starts([len(one.devices) for one in kept])
        self._op, self._first_op = _flat(places)
        self._step, self._first_step = _flat(known)
        if self.compared is not None:
            self._step[~np.isin(self._step, self.compared)] = _NOT_COMPARED
        self._known_steps = np.unique(self._step)
        self._op_count = int(self._op.max(initial=-1)) + 1

    def blocks(self) -> Iterator[Occurrences]:
        """All of some ops, or of some steps of an op. Rows are by host, op, step and device; those of no step are
        last."""
        for ops, steps in self._parts():
            found = self._of([self._rows(host, ops, steps) for host in range(len(self._arrivals))])
            if len(found):
                yield found

    def all_at_once(self, kept: Sequence[HostCommunication]) -> Occurrences:
        """By device, op, step and begin, with sizes: of all-to-all none, because ranks differ."""
        found = self._of([slice(None)] * len(self._arrivals))
        even = [one.operations.kind != Kind.ALL_TO_ALL.number for one in kept]
        sizes = [np.zeros(0, np.int64)]
        for one, same in zip(self._arrivals, even, strict=True):
            sizes.append(np.where(same[one.op], one.bytes, NO_BYTES) if len(one.bytes) else np.full(len(one), NO_BYTES))
        found = replace(found, size=np.concatenate(sizes))
        return found.take(np.lexsort((found.begin_ps, found.step, found.op, found.device)))

    def _parts(self) -> Iterator[tuple[slice, slice | None]]:
        """The ops of each block; and if it is one op with many rows, the known steps."""
        many = np.zeros(self._op_count, np.int64)
        for place, bounds in zip(self._places, self._bounds, strict=True):
            many[place] += np.diff(bounds)
        for ops in _cut(many):
            if int(many[ops].sum()) <= MOST_ROWS:
                yield ops, None
                continue
            of_step = np.zeros(len(self._known_steps), np.int64)
            for host, one in enumerate(self._arrivals):
                place = self._place_of_steps(host)[one.group[self._rows(host, ops, None)]]
                of_step += np.bincount(place, minlength=len(of_step))
            for steps in _cut(of_step):
                yield ops, steps

    def _rows(self, host: int, ops: slice, steps: slice | None) -> slice | Int64s:
        """The rows of a host with these ops and steps: a stretch, if the host has ops in the order of the session."""
        place, bounds = self._places[host], self._bounds[host]
        own = np.flatnonzero((place >= ops.start) & (place < ops.stop))
        if not len(own):
            return slice(0, 0)
        stretch = slice(int(bounds[own[0]]), int(bounds[own[-1] + 1]))
        if own[-1] - own[0] == len(own) - 1 and steps is None:
            return stretch
        if steps is None:
            return np.concatenate([np.arange(bounds[one], bounds[one + 1]) for one in own.tolist()])
        step = self._place_of_steps(host)[self._arrivals[host].group[stretch]]
        return np.flatnonzero((step >= steps.start) & (step < steps.stop)) + stretch.start

    def _place_of_steps(self, host: int) -> Int64s:
        """Of the steps of a host among those that are known, by place of their groups."""
        first = self._first_step[host]
        own = self._step[first : first + len(self._arrivals[host].groups)]
        return np.searchsorted(self._known_steps, own)

    def _of(self, rows: Sequence[slice | Int64s]) -> Occurrences:
        """Some rows of each host, without those of steps that are not compared; those of no step are last."""
        parts: dict[str, list[npt.NDArray[Any]]] = {name: [np.zeros(0, np.int8)] for name in _TAKEN}
        for one, own in zip(self._arrivals, rows, strict=True):
            for name, part in parts.items():
                part.append(getattr(one, name)[own])
        many = [len(part) for part in parts["op"][1:]]
        host = np.repeat(np.arange(len(many), dtype=np.int32), many)
        of = {name: np.concatenate(parts.pop(name)) for name in _TAKEN}
        begin_ps, duration_ps = of["begin_ps"].astype(np.int64), of["duration_ps"].astype(np.int64)
        found = Occurrences(
            host=host,
            device=(self._first_device[host] + of["device"]).astype(np.int32),
            op=self._op[self._first_op[host] + of["op"]].astype(np.int32),
            team=of["team"].astype(np.int32),
            step=self._step[self._first_step[host] + of["group"]],
            begin_ps=begin_ps,
            end_ps=begin_ps + duration_ps + of["beyond_ps"],
            duration_ps=duration_ps,
            blocks=of["blocks"].astype(np.bool_),
            size=np.zeros(0, np.int64),
            waited=self._waited(rows, many),
        )
        if (found.step == _NOT_COMPARED).any():
            found = found.take(found.step != _NOT_COMPARED)
        stepless = np.flatnonzero(found.step < 0)
        if not len(stepless):
            return found
        of_none = found.take(stepless)
        last = stepless[np.lexsort((of_none.begin_ps, of_none.op, of_none.device))]
        return found.take(np.concatenate([np.flatnonzero(found.step >= 0), last]))

    def _waited(self, rows: Sequence[slice | Int64s], many: Sequence[int]) -> Bools:
        if not any(len(one.waited) for one in self._arrivals):
            return np.zeros(0, np.bool_)
        each = zip(self._arrivals, rows, many, strict=True)
        return np.concatenate(
            [one.waited[own] if len(one.waited) else np.zeros(count, bool) for one, own, count in each]
        )


_TAKEN: Final = ("op", "group", "device", "team", "begin_ps", "duration_ps", "beyond_ps", "blocks")


def _starts(counts: Sequence[int]) -> Int64s:
    return np.cumsum([0, *counts], dtype=np.int64)[:-1]


def _flat(parts: Sequence[Int64s]) -> tuple[Int64s, Int64s]:
    """The values of all hosts, and where those of each begin."""
    return np.concatenate([np.zeros(0, np.int64), *parts]), _starts([len(part) for part in parts])


def _cut(many: Int64s) -> Iterator[slice]:
    """Stretches with at most MOST_ROWS together, or of one."""
    first, total = 0, 0
    for place, one in enumerate(many.tolist()):
        if total and total + one > MOST_ROWS:
            yield slice(first, place)
            first, total = place, 0
        total += one
    if total:
        yield slice(first, len(many))
