"""Sums of each step on each device of a host: compressed, for tables that are seldom read; and what steps cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from fastprof.derive.communication.flights import Sums
from fastprof.derive.communication.narrow_columns import Column, Compressed, narrowed
from fastprof.derive.communication.step_numbers import StepNumbers
from fastprof.derive.ops.tables import sums_by
from fastprof.schema.array_types import Bools, Int64s
from fastprof.schema.value_classes import dataclass


def if_hidden(sums: Any) -> Int64s:
    """The time of spans if compute hid their communication."""
    return np.asarray(np.maximum(sums.duration_ps - sums.exposed_ps, sums.communication_ps))


@dataclass(frozen=True, slots=True)
class DeviceSteps:
    """The steps of a device; if it has none, all that it recorded, which is of no ``group``: -1."""

    sums: Sums
    group: Int64s
    complete: Bools


@dataclass(frozen=True, slots=True)
class Spans:
    """A row per step on a device, or per device without steps, by device. ``device``: place among the host's;
    ``group``: of the step, -1: none; ``names``: of the steps."""

    device: Int64s
    group: Int64s
    complete: Bools
    sums: Sums
    names: Sequence[str | None]


def kept_spans(devices: Sequence[DeviceSteps], names: Mapping[int, str]) -> Compressed:
    """Spans, in little memory. ``names``: of steps, by group."""
    sums = joined([one.sums for one in devices])
    columns = {name: getattr(sums, name) for name in Sums.__slots__}
    columns["device"] = np.repeat(np.arange(len(devices)), [len(one.group) for one in devices])
    columns["group"] = np.concatenate([np.zeros(0, np.int64), *(one.group for one in devices)])
    columns["complete"] = np.concatenate([np.zeros(0, np.bool_), *(one.complete for one in devices)])
    groups = [group for group in np.unique(columns["group"]).tolist() if group in names]
    columns["named"] = np.array(groups, np.int64)
    return Compressed.of(columns, [names[group] for group in groups])


def spans_of(kept: Compressed) -> Spans:
    columns, texts = kept.taken_out()
    name = dict(zip(columns["named"].tolist(), texts, strict=True))
    sums = Sums(**{column: columns[column] for column in Sums.__slots__})
    names = [name.get(group) for group in columns["group"].tolist()]
    return Spans(columns["device"], columns["group"], columns["complete"], sums, names)


def joined(each: Sequence[Sums]) -> Sums:
    """The spans of all; their kinds are those of any."""
    kinds = np.unique(np.concatenate([np.zeros(0, np.int64), *(one.kinds for one in each)]))
    columns: dict[str, Int64s] = {}
    for name in Sums.__slots__[1:]:
        parts = [getattr(one, name) for one in each]
        if name.startswith("kind_"):
            wide = [np.zeros((len(part), len(kinds)), np.int64) for part in parts]
            for part, into, one in zip(parts, wide, each, strict=True):
                into[:, np.searchsorted(kinds, one.kinds)] = part
            columns[name] = np.concatenate([np.zeros((0, len(kinds)), np.int64), *wide])
        else:
            columns[name] = np.concatenate([np.zeros(0, np.int64), *parts])
    return Sums(kinds, **columns)


# ---- what steps cost


@dataclass(frozen=True, slots=True)
class CostsOfSteps:
    """A row per group of a step of a host. ``spans``: devices that have it; ``time_ps``, ``if_hidden_ps``: the largest
    of any; ``exposed_high``, ``exposed_low``: exposed time of all, in parts, because their sum may take more than 64
    bits."""

    group: Column
    spans: Column
    time_ps: Column
    if_hidden_ps: Column
    exposed_high: Column
    exposed_low: Column

    @classmethod
    def of(cls, devices: Sequence[DeviceSteps]) -> CostsOfSteps:
        sums = joined([one.sums for one in devices])
        every = np.concatenate([np.zeros(0, np.int64), *(one.group for one in devices)])
        group, row = np.unique(every[every >= 0], return_inverse=True)
        row, count = row.reshape(-1), len(group)
        exposed = sums.exposed_ps[every >= 0]
        columns = (
            group,
            np.bincount(row, minlength=count),
            most(sums.duration_ps[every >= 0], row, count),
            most(if_hidden(sums)[every >= 0], row, count),
            sums_by(row, exposed >> _HALF, count),
            sums_by(row, exposed & ((1 << _HALF) - 1), count),
        )
        return cls(*map(narrowed, columns))

    @classmethod
    def none(cls) -> CostsOfSteps:
        return cls(*(np.zeros(0, np.int64) for _ in cls.__slots__))


_HALF: Final = 32


def most(values: Int64s, place: Int64s, count: int) -> Int64s:
    """The largest of each place; 0: there is none."""
    largest = np.zeros(count, np.int64)
    np.maximum.at(largest, place, values)
    return largest


@dataclass(frozen=True, slots=True)
class StepCosts:
    """Means over steps, rounded down. ``time_ps``, ``if_hidden_ps``: of the device with the largest."""

    count: int
    time_ps: int
    exposed_ps: int
    if_hidden_ps: int

    @property
    def gain(self) -> float:
        return 1 - self.if_hidden_ps / self.time_ps if self.time_ps else 0.0


class CostsOfHosts:
    """Of the steps that have a number in the session, host by host."""

    def __init__(self) -> None:
        self._step, self._time_ps, self._if_hidden_ps = (np.zeros(0, np.int64) for _ in range(3))
        self._exposed_ps, self._spans = 0, 0

    def add(self, one: CostsOfSteps, numbers: StepNumbers) -> None:
        step = numbers.of(one.group.astype(np.int64))
        known = step >= 0
        own, place = np.unique(step[known], return_inverse=True)
        every = np.union1d(self._step, own)
        before, now = np.searchsorted(every, self._step), np.searchsorted(every, own)[place.reshape(-1)]
        self._step = every
        for name in ("_time_ps", "_if_hidden_ps"):
            largest = most(getattr(one, name[1:])[known], now, len(every))
            np.maximum.at(largest, before, getattr(self, name))
            setattr(self, name, largest)
        self._exposed_ps += (_sum(one.exposed_high[known]) << _HALF) + _sum(one.exposed_low[known])
        self._spans += _sum(one.spans[known])

    def means(self) -> StepCosts | None:
        """None: there are no steps."""
        count = len(self._step)
        if not count:
            return None
        exposed_ps = self._exposed_ps // self._spans
        return StepCosts(count, _sum(self._time_ps) // count, exposed_ps, _sum(self._if_hidden_ps) // count)


def _sum(values: Int64s) -> int:
    return int(sum(values.tolist()))
