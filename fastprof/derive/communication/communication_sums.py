"""Sums of communication by operation and by step: of a host in columns of little memory, because pods have as many as
hosts, and of all hosts of a session."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof.derive.communication.flights import NO_BYTES, Flights, Operation, Operations, SpanSums
from fastprof.derive.devices.communication_kinds import KINDS
from fastprof.schema.columns import (
    Bools,
    Int64s,
    find_last_started,
    find_most_by,
    join_parts,
    number_owners,
    number_values,
    sum_by,
    sum_unbounded,
    summarize_by,
)
from fastprof.schema.value_classes import dataclass

Column = npt.NDArray[Any]
_CODEC: Final = "zstd"


def narrow_column(values: Column) -> Column:
    """Return the integers in the narrowest signed type that holds all."""
    least, most = (int(values.min()), int(values.max())) if values.size else (0, 0)
    for kind in (np.int8, np.int16, np.int32):
        if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max:
            return values.astype(kind)
    return values.astype(np.int64)


@dataclass(frozen=True, slots=True)
class CompressedColumns:
    """Columns by name, and texts. ``size``: of all before compression; ``layout``: name, type and shape of each
    column."""

    data: bytes
    size: int
    layout: tuple[tuple[str, str, tuple[int, ...]], ...]

    @classmethod
    def of(cls, columns: Mapping[str, Column], texts: Sequence[str]) -> CompressedColumns:
        narrow = {
            name: column if column.dtype == np.bool_ else narrow_column(column) for name, column in columns.items()
        }
        data = b"".join([*(column.tobytes() for column in narrow.values()), json.dumps(texts).encode()])
        layout = tuple((name, column.dtype.str, column.shape) for name, column in narrow.items())
        return cls(pa.compress(data, codec=_CODEC, asbytes=True), len(data), layout)

    def unpack(self) -> tuple[dict[str, Column], list[str]]:
        """Return the columns, whose integers are int64, and the texts."""
        data = pa.decompress(self.data, self.size, codec=_CODEC, asbytes=True)
        columns: dict[str, Column] = {}
        at = 0
        for name, kind, shape in self.layout:
            column = np.frombuffer(data, kind, int(np.prod(shape)), at).reshape(shape)
            at += column.nbytes
            columns[name] = column if column.dtype == np.bool_ else column.astype(np.int64)
        return columns, json.loads(data[at:])


class StepNumbers:
    """Numbers of steps. ``group``, ``step``: of each step; a group below 0 is none."""

    def __init__(self, group: Int64s, step: Int64s) -> None:
        self._group, self._step = group, step

    def shown(self, numbers: Callable[[Int64s], Int64s]) -> StepNumbers:
        """Map the steps to the ``numbers`` that users see."""
        return StepNumbers(self._group, numbers(self._step))

    def of(self, groups: Int64s) -> Int64s:
        """Return the steps of groups, or -1."""
        order = np.argsort(self._group, kind="stable")
        ordered = self._group[order]
        at = find_last_started(ordered, groups)
        known = (at >= 0) & (groups >= 0)
        known[known] = ordered[at[known]] == groups[known]
        step = np.full(len(groups), -1, np.int64)
        step[known] = self._step[order[at[known]]]
        return step


@dataclass(frozen=True, slots=True)
class HostOperations:
    """Operations by number. Equal texts are in memory once, however many hosts have them. Operations are pickled as
    bytes: hosts that run the same program have equal ones, from which operations are made once."""

    program_id: Int64s
    kind: Column
    group_size: Column
    names: tuple[str, ...]
    texts: tuple[str, ...]
    framework_ops: tuple[str, ...]

    @classmethod
    def of(cls, known: Sequence[Operation]) -> HostOperations:
        texts = (tuple(getattr(op, name) for op in known) for name in ("name", "text", "framework_op"))
        kinds = narrow_column(np.array([op.kind.number for op in known], np.int64))
        sizes = narrow_column(np.array([op.group_size for op in known], np.int64))
        return cls(np.array([op.program_id for op in known], np.int64), kinds, sizes, *texts)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle_columns, (
            pickle.dumps([getattr(self, name) for name in self.__slots__], pickle.HIGHEST_PROTOCOL),
        )

    def listed(self) -> list[Operation]:
        kinds = [KINDS[kind] for kind in self.kind.tolist()]
        columns = (self.program_id.tolist(), self.names, kinds, self.texts, self.framework_ops)
        return [Operation(*row) for row in zip(*columns, self.group_size.tolist(), strict=True)]


@lru_cache(maxsize=64)
def _unpickle_columns(columns: bytes) -> HostOperations:
    program_id, kind, size, *texts = pickle.loads(columns)
    return HostOperations(program_id, kind, size, *(tuple(map(sys.intern, of_all)) for of_all in texts))


class MergedOperations:
    """Operations of all hosts. ``every``: the distinct ones; of equal ones the first has the texts."""

    def __init__(self) -> None:
        self._operations, self._known = Operations(), dict[object, Int64s]()

    @property
    def every(self) -> list[Operation]:
        return self._operations.known

    def add(self, host: HostOperations) -> Int64s:
        """Add the operations of the next host; return their places in ``every``."""
        key = (host.program_id.tobytes(), host.kind.tobytes(), host.group_size.tobytes(), host.names)
        if key not in self._known:
            self._known[key] = np.array([self._operations.number(each) for each in host.listed()], np.int64)
        return self._known[key]


@dataclass(frozen=True, slots=True)
class OperationSums:
    """Sums over the flights of devices, a row per operation that they ran, ``op``. ``bytes``: NO_BYTES if a flight
    records none; ``devices``: number of devices that ran it."""

    op: Column
    count: Column
    time_ps: Column
    min_ps: Column
    max_ps: Column
    wait_ps: Column
    hidden_ps: Column
    exposed_ps: Column
    bytes: Column
    devices: Column

    @classmethod
    def of(cls, flights: Flights, exposed_ps: Int64s, hidden_ps: Int64s) -> OperationSums:
        """Sum the flights of a device."""
        ran = np.bincount(flights.op) > 0
        op, row = np.flatnonzero(ran).astype(flights.op.dtype), (np.cumsum(ran) - 1)[flights.op]
        count = len(op)
        times = summarize_by(row, flights.end_ps - flights.begin_ps, count)
        unknown = np.bincount(row[flights.bytes == NO_BYTES], minlength=count) > 0
        size = np.where(unknown, NO_BYTES, sum_by(row, flights.bytes, count, _BYTES))
        columns = [op, *(times[name].copy() for name in ("count", "total", "minimum", "maximum"))]
        columns += [sum_by(row, values, count) for values in (flights.wait_ps, hidden_ps, exposed_ps)]
        columns += [size, np.ones(count, np.int64)]
        return cls(*columns)

    @classmethod
    def none(cls) -> OperationSums:
        return cls(*[np.zeros(0, np.int64)] * len(cls.__slots__))

    @classmethod
    def joined(cls, devices: Sequence[OperationSums]) -> OperationSums:
        """Add up the sums of devices, or hosts."""
        columns = {name: join_parts(getattr(device, name) for device in devices)
                   for name in cls.__slots__}  # fmt: skip
        op, row = number_values(columns.pop("op"))
        count, row = len(op), row.reshape(-1)
        order = np.argsort(row, kind="stable")
        first = np.searchsorted(row[order], np.arange(count))
        unknown = np.bincount(row[columns["bytes"] == NO_BYTES], minlength=count) > 0
        sums = {name: sum_by(row, columns[name], count) for name in _SUMMED}
        sums["min_ps"] = np.minimum.reduceat(columns["min_ps"][order], first) if count else columns["min_ps"]
        sums["max_ps"] = np.maximum.reduceat(columns["max_ps"][order], first) if count else columns["max_ps"]
        sums["bytes"] = np.where(unknown, NO_BYTES, sum_by(row, columns["bytes"], count, _BYTES))
        return cls(**{name: narrow_column(column) for name, column in (sums | {"op": op}).items()})


class SessionOperationSums:
    """Sums of hosts, which are added one after the other, by operations of the session."""

    def __init__(self) -> None:
        self._every, self._some = OperationSums.none(), list[OperationSums]()

    def add(self, sums: OperationSums, places: Int64s) -> None:
        """Add a host. ``places``: of its operations among those of all."""
        self._some.append(replace(sums, op=places[sums.op]))
        if len(self._some) >= _TOGETHER:
            self.every()

    def every(self) -> OperationSums:
        if self._some:
            self._every, self._some = OperationSums.joined([self._every, *self._some]), []
        return self._every


_TOGETHER: Final = 32
"""Number of hosts whose sums are joined together."""
_BYTES: Final = "the bytes of copies"
_SUMMED: Final = ("count", "time_ps", "wait_ps", "hidden_ps", "exposed_ps", "devices")


def measure_if_hidden(sums: Any) -> Int64s:
    """Return the time of spans if compute hid their communication."""
    return np.asarray(np.maximum(sums.duration_ps - sums.exposed_ps, sums.communication_ps))


@dataclass(frozen=True, slots=True)
class DeviceStepSums:
    """Steps of a device; without steps, everything that it recorded, with group -1."""

    sums: SpanSums
    group: Int64s
    complete: Bools


@dataclass(frozen=True, slots=True)
class HostStepSums:
    """Steps on devices, or devices without steps, by device. ``device``: place among the host's; ``group``: of the
    step, or -1; ``names``: of the steps."""

    device: Int64s
    group: Int64s
    complete: Bools
    sums: SpanSums
    names: Sequence[str | None]


def compress_spans(devices: Sequence[DeviceStepSums], names: Mapping[int, str]) -> CompressedColumns:
    """Compress spans. ``names``: of steps, by group."""
    sums = join_sums([device.sums for device in devices])
    columns = {name: getattr(sums, name) for name in SpanSums.__slots__}
    columns["device"] = number_owners([len(device.group) for device in devices])
    columns["group"] = join_parts(device.group for device in devices)
    columns["complete"] = join_parts((device.complete for device in devices), np.bool_)
    groups = [group for group in np.unique(columns["group"]).tolist() if group in names]
    columns["named"] = np.array(groups, np.int64)
    return CompressedColumns.of(columns, [names[group] for group in groups])


def unpack_spans(kept: CompressedColumns) -> HostStepSums:
    columns, texts = kept.unpack()
    name = dict(zip(columns["named"].tolist(), texts, strict=True))
    sums = SpanSums(**{column: columns[column] for column in SpanSums.__slots__})
    names = [name.get(group) for group in columns["group"].tolist()]
    return HostStepSums(columns["device"], columns["group"], columns["complete"], sums, names)


def join_sums(each: Sequence[SpanSums]) -> SpanSums:
    """Join spans; the kinds are those of any."""
    kinds = np.unique(join_parts(sums.kinds for sums in each))
    columns: dict[str, Int64s] = {}
    for name in SpanSums.__slots__[1:]:
        parts = [getattr(part, name) for part in each]
        if name.startswith("kind_"):
            wide = [np.zeros((len(values), len(kinds)), np.int64) for values in parts]
            for values, into, part in zip(parts, wide, each, strict=True):
                into[:, np.searchsorted(kinds, part.kinds)] = values
            columns[name] = np.concatenate([np.zeros((0, len(kinds)), np.int64), *wide])
        else:
            columns[name] = join_parts(parts)
    return SpanSums(kinds, **columns)


# ---- what steps cost


@dataclass(frozen=True, slots=True)
class HostStepCosts:
    """Costs of a host's steps, by group. ``spans``: number of devices; ``time_ps``, ``if_hidden_ps``: the largest of
    any; ``exposed_high``, ``exposed_low``: exposed time of all, in two parts, because its sum may exceed 64 bits."""

    group: Column
    spans: Column
    time_ps: Column
    if_hidden_ps: Column
    exposed_high: Column
    exposed_low: Column

    @classmethod
    def of(cls, devices: Sequence[DeviceStepSums]) -> HostStepCosts:
        sums = join_sums([device.sums for device in devices])
        every = join_parts(device.group for device in devices)
        group, row = number_values(every[every >= 0])
        row, count = row.reshape(-1), len(group)
        exposed = sums.exposed_ps[every >= 0]
        columns = (
            group,
            np.bincount(row, minlength=count),
            find_most_by(row, np.maximum(sums.duration_ps[every >= 0], 0), count),
            find_most_by(row, np.maximum(measure_if_hidden(sums)[every >= 0], 0), count),
            sum_by(row, exposed >> _HALF, count),
            sum_by(row, exposed & ((1 << _HALF) - 1), count),
        )
        return cls(*map(narrow_column, columns))

    @classmethod
    def none(cls) -> HostStepCosts:
        return cls(*(np.zeros(0, np.int64) for _ in cls.__slots__))


_HALF: Final = 32


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


class SessionStepCosts:
    """Costs of the steps that have a number in the session; hosts are added one after the other."""

    def __init__(self) -> None:
        self._step, self._time_ps, self._if_hidden_ps = (np.zeros(0, np.int64) for _ in range(3))
        self._exposed_ps, self._spans = 0, 0

    def add(self, costs: HostStepCosts, numbers: StepNumbers) -> None:
        step = numbers.of(costs.group.astype(np.int64))
        known = step >= 0
        own, place = number_values(step[known])
        every = np.union1d(self._step, own)
        before, now = np.searchsorted(every, self._step), np.searchsorted(every, own)[place.reshape(-1)]
        self._step = every
        for name in ("_time_ps", "_if_hidden_ps"):
            largest = find_most_by(now, getattr(costs, name[1:])[known].astype(np.int64), len(every))
            largest[before] = np.maximum(largest[before], getattr(self, name))
            setattr(self, name, largest)
        self._exposed_ps += (sum_unbounded(costs.exposed_high[known]) << _HALF) + sum_unbounded(
            costs.exposed_low[known]
        )
        self._spans += sum_unbounded(costs.spans[known])

    def means(self) -> StepCosts | None:
        """Return the means, or None without steps."""
        count = len(self._step)
        if not count:
            return None
        exposed_ps = self._exposed_ps // self._spans
        return StepCosts(
            count, sum_unbounded(self._time_ps) // count, exposed_ps, sum_unbounded(self._if_hidden_ps) // count
        )
