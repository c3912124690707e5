"""What communicates on one core: flights, from their begin to their end, and when the core stands still for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fastprof.derive.communication.kinds import KINDS, Kind
from fastprof.derive.steps import stretches
from fastprof.schema.array_types import Bools, Int32s, Int64s, Records

STRETCH: Final = np.dtype([("begin", "i8"), ("end", "i8"), ("row", "i8")])
TRANSFER: Final = np.dtype(
    [("begin", "i8"), ("end", "i8"), ("kind", "i4"), ("rank", "i4"), ("exposed", "i8"), ("hidden", "i8")]
)
"""The structs of csrc/kernels/stretches.h and exposed.h; a test compares their sizes with C's."""

NO_BYTES: Final = -1
"""Bytes of a flight that records none."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An op that communicates: an instruction of a program, that starts it where another one ends it, or a kernel or
    copy without one. ``text``: its HLO, "" where unknown."""

    program_id: int
    name: str
    kind: Kind
    text: str
    framework_op: str


@dataclass(slots=True)
class Operations:
    """The operations of a host, numbered as they are met; of equal ones the first has the text."""

    known: list[Operation] = field(default_factory=list)
    _numbers: dict[tuple[int, str, int], int] = field(default_factory=dict)

    def number(self, one: Operation) -> int:
        key = (one.program_id, one.name, one.kind.number)
        found = self._numbers.setdefault(key, len(self.known))
        if found == len(self.known):
            self.known.append(one)
        return found


@dataclass(frozen=True, slots=True)
class Flights:
    """A flight a row. ``begin_ps``, ``end_ps``: on the clock of the core's ops; ``clock_begin_ps``,
    ``clock_end_ps``: on the host's, which its devices share. ``wait_ps``: how long ops of it were the innermost ones of
    the core. ``aloft``: it goes on while the core does other things. ``bytes``: NO_BYTES where unknown."""

    op: Int32s
    begin_ps: Int64s
    end_ps: Int64s
    clock_begin_ps: Int64s
    clock_end_ps: Int64s
    wait_ps: Int64s
    aloft: Bools
    bytes: Int64s

    def __len__(self) -> int:
        return len(self.op)

    @classmethod
    def none(cls) -> Flights:
        empty = np.zeros(0, np.int64)
        return cls(empty.astype(np.int32), empty, empty, empty, empty, empty, empty.astype(np.bool_), empty)


@dataclass(frozen=True, slots=True)
class CoreActivity:
    """One core. ``work``: when it computes, as STRETCH; ``stood``: when it stands still for a flight, whose number is
    the ``row`` of the stretch. ``begin_ps``, ``end_ps``: of all that it recorded."""

    work: Records
    stood: Records
    flights: Flights
    begin_ps: int
    end_ps: int


def transfers_of(activity: CoreActivity, kind_of_op: Int32s) -> tuple[Records, Int64s]:
    """What is to be measured, as TRANSFER by begin, and the flight of each: stretches in which the core stands still
    for a flight, which come first where they are exposed, and flights that are aloft."""
    flights, stood = activity.flights, activity.stood
    aloft = np.flatnonzero(flights.aloft & (flights.end_ps > flights.begin_ps))
    flight = np.concatenate([stood["row"], aloft])
    found = np.zeros(len(flight), TRANSFER)
    found["begin"] = np.concatenate([stood["begin"], flights.begin_ps[aloft]])
    found["end"] = np.concatenate([stood["end"], flights.end_ps[aloft]])
    found["kind"] = kind_of_op[flights.op[flight]] if len(flight) else 0
    found["rank"] = found["kind"] + np.repeat([0, len(KINDS)], [len(stood), len(aloft)])
    order = np.argsort(found["begin"], kind="stable")
    return found[order], flight[order]


def in_order(work: Records) -> Records:
    """Stretches of work, ascending and disjoint."""
    if not len(work) or (work["begin"][1:] >= work["end"][:-1]).all():
        return work
    return as_stretches(*stretches.union(work["begin"], work["end"] - work["begin"]))


def as_stretches(begin: Int64s, end: Int64s, row: npt.NDArray[Any] | int = -1) -> Records:
    found = np.zeros(len(begin), STRETCH)
    found["begin"], found["end"], found["row"] = begin, end, row
    return found


def joined(parts: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
