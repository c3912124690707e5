"""The operations of a host and what they took on its devices: kept as columns, because pods have as many as hosts."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

import numpy as np

from fastprof.derive.communication.flights import NO_BYTES, Flights, Operation, Operations
from fastprof.derive.communication.narrow_columns import Column, narrowed
from fastprof.derive.devices.communication_kinds import KINDS
from fastprof.derive.ops.tables import summed_by, sums_by
from fastprof.schema.array_types import Int64s
from fastprof.schema.value_classes import dataclass


@dataclass(frozen=True, slots=True)
class HostOperations:
    """Operations by number. Equal texts are in memory once, however many hosts have them. They travel as bytes: hosts
    that run the same program have equal ones, from which operations are made once."""

    program_id: Int64s
    kind: Column
    group_size: Column
    names: tuple[str, ...]
    texts: tuple[str, ...]
    framework_ops: tuple[str, ...]

    @classmethod
    def of(cls, known: Sequence[Operation]) -> HostOperations:
        texts = (tuple(getattr(one, name) for one in known) for name in ("name", "text", "framework_op"))
        ids, kinds, sizes = (
            np.array(column, np.int64)
            for column in ([one.program_id for one in known], [one.kind.number for one in known],
                           [one.group_size for one in known])
        )  # fmt: skip
        return cls(ids, narrowed(kinds), narrowed(sizes), *texts)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (pickle.dumps([getattr(self, name) for name in self.__slots__], pickle.HIGHEST_PROTOCOL),)

    def listed(self) -> list[Operation]:
        kinds = [KINDS[kind] for kind in self.kind.tolist()]
        columns = (self.program_id.tolist(), self.names, kinds, self.texts, self.framework_ops)
        return [Operation(*one) for one in zip(*columns, self.group_size.tolist(), strict=True)]


@lru_cache(maxsize=64)
def _unpickled(columns: bytes) -> HostOperations:
    program_id, kind, size, *texts = pickle.loads(columns)
    return HostOperations(program_id, kind, size, *(tuple(map(sys.intern, of_all)) for of_all in texts))


class Merged:
    """``every``: the distinct operations of all hosts; of equal ones the first has the texts."""

    def __init__(self) -> None:
        self._operations, self._known = Operations(), dict[object, Int64s]()

    @property
    def every(self) -> list[Operation]:
        return self._operations.known

    def add(self, one: HostOperations) -> Int64s:
        """Those of the next host: their places in ``every``."""
        key = (one.program_id.tobytes(), one.kind.tobytes(), one.group_size.tobytes(), one.names)
        if key not in self._known:
            self._known[key] = np.array([self._operations.number(each) for each in one.listed()], np.int64)
        return self._known[key]


@dataclass(frozen=True, slots=True)
class OfOperations:
    """Sums over the flights of devices, a row per operation that they ran, ``op``. ``bytes``: NO_BYTES if a flight
    records none; ``devices``: how many ran it."""

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
    def of(cls, flights: Flights, exposed_ps: Int64s, hidden_ps: Int64s) -> OfOperations:
        """Of one device."""
        ran = np.bincount(flights.op) > 0
        op, row = np.flatnonzero(ran).astype(flights.op.dtype), (np.cumsum(ran) - 1)[flights.op]
        count = len(op)
        times = summed_by(row, flights.end_ps - flights.begin_ps, count)
        unknown = np.bincount(row[flights.bytes == NO_BYTES], minlength=count) > 0
        size = np.where(unknown, NO_BYTES, sums_by(row, flights.bytes, count, _BYTES))
        columns = [op, *(times[name].copy() for name in ("count", "total", "minimum", "maximum"))]
        columns += [sums_by(row, values, count) for values in (flights.wait_ps, hidden_ps, exposed_ps)]
        columns += [size, np.ones(count, np.int64)]
        return cls(*columns)

    @classmethod
    def none(cls) -> OfOperations:
        return cls(*[np.zeros(0, np.int64)] * len(cls.__slots__))

    @classmethod
    def joined(cls, devices: Sequence[OfOperations]) -> OfOperations:
        """Of all devices, or hosts, together."""
        columns = {name: np.concatenate([np.zeros(0, np.int64), *(getattr(one, name) for one in devices)])
                   for name in cls.__slots__}  # fmt: skip
        op, row = np.unique(columns.pop("op"), return_inverse=True)
        count, row = len(op), row.reshape(-1)
        order = np.argsort(row, kind="stable")
        first = np.searchsorted(row[order], np.arange(count))
        unknown = np.bincount(row[columns["bytes"] == NO_BYTES], minlength=count) > 0
        sums = {name: sums_by(row, columns[name], count) for name in _SUMMED}
        sums["min_ps"] = np.minimum.reduceat(columns["min_ps"][order], first) if count else columns["min_ps"]
        sums["max_ps"] = np.maximum.reduceat(columns["max_ps"][order], first) if count else columns["max_ps"]
        sums["bytes"] = np.where(unknown, NO_BYTES, sums_by(row, columns["bytes"], count, _BYTES))
        return cls(**{name: narrowed(column) for name, column in (sums | {"op": op}).items()})


class OfSession:
    """Those of hosts, one after the other, by operations of the session."""

    def __init__(self) -> None:
        self._every, self._some = OfOperations.none(), list[OfOperations]()

    def add(self, one: OfOperations, places: Int64s) -> None:
        """``places``: of the operations of the host among those of all."""
        self._some.append(replace(one, op=places[one.op]))
        if len(self._some) >= _TOGETHER:
            self.every()

    def every(self) -> OfOperations:
        if self._some:
            self._every, self._some = OfOperations.joined([self._every, *self._some]), []
        return self._every


_TOGETHER: Final = 32
"""Hosts."""
_BYTES: Final = "the bytes of copies"
_SUMMED: Final = ("count", "time_ps", "wait_ps", "hidden_ps", "exposed_ps", "devices")
