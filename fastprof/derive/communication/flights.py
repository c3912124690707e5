"""Communication of a core: flights, from their begin to their end; when the core stands still for them; and how much of
them its compute hides, over spans of time such as steps."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fastprof._native.communication_kernels import SUM_KINDS, overlaps
from fastprof.derive.devices.communication_kinds import KINDS, CommunicationKind
from fastprof.derive.steps.event_graph import STRETCH as STRETCH
from fastprof.schema.columns import Bools, Int32s, Int64s, Records, merge_spans, number_values, sum_by
from fastprof.schema.value_classes import dataclass

TRANSFER: Final = np.dtype(
    [("begin", "i8"), ("end", "i8"), ("kind", "i4"), ("rank", "i4"), ("exposed", "i8"), ("hidden", "i8")]
)
"""Struct of csrc/kernels/exposed.h; a test compares its size with C's."""

NO_BYTES: Final = -1
"""Bytes of a flight that records none."""
WHAT: Final = "times of communication"


@dataclass(frozen=True, slots=True)
class Operation:
    """An op that communicates: an instruction of a program, which starts it if another one ends it, or a kernel or copy
    without an instruction. ``text``: its HLO, or "" if unknown; ``group_size``: number of devices that take part, or 0
    if it is not recorded or in the text."""

    program_id: int
    name: str
    kind: CommunicationKind
    text: str
    framework_op: str
    group_size: int = 0


@dataclass(slots=True)
class Operations:
    """Operations, numbered as they are met; of equal ones the first has the text."""

    known: list[Operation] = field(default_factory=list)
    _numbers: dict[tuple[int, str, int, int], int] = field(default_factory=dict)

    def copy(self) -> Operations:
        return Operations(self.known.copy(), self._numbers.copy())

    def number(self, operation: Operation) -> int:
        key = (operation.program_id, operation.name, operation.kind.number, operation.group_size)
        number = self._numbers.setdefault(key, len(self.known))
        if number == len(self.known):
            self.known.append(operation)
        return number


@dataclass(frozen=True, slots=True)
class Flights:
    """Flights, one per row. ``begin_ps``, ``end_ps``: on the clock of the core's ops; ``clock_begin_ps``,
    ``clock_end_ps``: on the host's clock, which its devices share. ``wait_ps``: time in which its ops were the
    innermost ones of the core; ``aloft``: whether the core does other things during it; ``bytes``: NO_BYTES if unknown;
    ``done_ps``: time of the op that ends it, or 0 if it has none or that is unknown."""

    op: Int32s
    begin_ps: Int64s
    end_ps: Int64s
    clock_begin_ps: Int64s
    clock_end_ps: Int64s
    wait_ps: Int64s
    aloft: Bools
    bytes: Int64s
    done_ps: Int64s

    def __len__(self) -> int:
        return len(self.op)


class Direct(NamedTuple):
    """Flights that record the device at their other end: their places, that device's number, whether it receives, and
    whether the number is a rank (else that of a device of the host)."""

    flight: Int64s
    peer: Int64s
    sends: Bools
    is_rank: Bools


NO_DIRECT: Final = Direct(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.bool_), np.zeros(0, np.bool_))


@dataclass(frozen=True, slots=True)
class CoreActivity:
    """Activity of a core. ``work``: when it computes, as STRETCH; ``stood``: when it stands still for the flight whose
    number is the ``row``; ``begin_ps``, ``end_ps``: of all that it recorded."""

    work: Records
    stood: Records
    flights: Flights
    begin_ps: int
    end_ps: int
    direct: Direct = NO_DIRECT


@dataclass(frozen=True, slots=True)
class SpanSums:
    """Sums of spans of time, a row each. ``duration_ps = compute_ps + exposed_ps + idle_ps``, to the picosecond.

    The last three are by the ``kinds`` that occur, [spans, kinds]: time in which something of the kind was under way,
    in which the core computed meanwhile, and in which the core waited for it, which adds up to ``exposed_ps``.
    """

    kinds: Int64s
    begin_ps: Int64s
    duration_ps: Int64s
    compute_ps: Int64s
    communication_ps: Int64s
    exposed_ps: Int64s
    kind_ps: Int64s
    kind_hidden_ps: Int64s
    kind_exposed_ps: Int64s

    def rows(self, chosen: slice) -> SpanSums:
        """Return some of the spans."""
        by_span = (getattr(self, name)[chosen] for name in self.__slots__ if name != "kinds")
        return SpanSums(self.kinds, *by_span)

    @property
    def hidden_ps(self) -> Int64s:
        return self.communication_ps - self.exposed_ps

    @property
    def idle_ps(self) -> Int64s:
        return self.duration_ps - self.compute_ps - self.exposed_ps


def measure_spans(
    activity: CoreActivity, kind_of_op: Int32s, begin_ps: Int64s, duration_ps: Int64s
) -> tuple[SpanSums, Int64s, Int64s]:
    """Sum spans of time, which may overlap; return also the exposed and the hidden time of each flight, over all of the
    capture. ``kind_of_op``: numbers of kinds, by operation."""
    transfers, flight = _list_transfers(activity, kind_of_op)
    kinds, place = number_values(transfers["kind"])
    transfers["kind"] = place.reshape(-1)
    times, place = number_values(np.concatenate([begin_ps, begin_ps + duration_ps]))
    upto = np.zeros((len(times), SUM_KINDS + 3 * len(kinds)), np.int64)
    overlaps(activity.work, transfers, np.argsort(transfers["end"], kind="stable"), times, upto, len(kinds))
    begin, end = place.reshape(2, -1)
    within = upto[end] - upto[begin]
    by_kind = np.moveaxis(within[:, SUM_KINDS:].reshape(len(begin_ps), len(kinds), 3), 2, 0)
    count = len(activity.flights)
    hides = activity.flights.aloft[flight] == (transfers["rank"] >= len(KINDS))
    return (
        SpanSums(kinds.astype(np.int64), begin_ps, duration_ps, *within[:, :SUM_KINDS].T, *by_kind),
        sum_by(flight, transfers["exposed"], count, WHAT),
        sum_by(flight[hides], transfers["hidden"][hides], count, WHAT),
    )


def _list_transfers(activity: CoreActivity, kind_of_op: Int32s) -> tuple[Records, Int64s]:
    """List the transfers to measure, as TRANSFER by begin, and the flight of each: spans in which the core stands still
    for a flight, which are blamed first, and flights during other work."""
    flights, stood = activity.flights, activity.stood
    aloft = np.flatnonzero(flights.aloft & (flights.end_ps > flights.begin_ps))
    flight = np.concatenate([stood["row"], aloft])
    transfers = np.zeros(len(flight), TRANSFER)
    transfers["begin"] = np.concatenate([stood["begin"], flights.begin_ps[aloft]])
    transfers["end"] = np.concatenate([stood["end"], flights.end_ps[aloft]])
    transfers["kind"] = kind_of_op[flights.op[flight]] if len(flight) else 0
    transfers["rank"] = transfers["kind"] + np.repeat([0, len(KINDS)], [len(stood), len(aloft)])
    order = np.argsort(transfers["begin"], kind="stable")
    return transfers[order], flight[order]


def merge_work(work: Records) -> Records:
    """Merge spans of work, so that they are ascending and disjoint."""
    if not len(work) or (work["begin"][1:] >= work["end"][:-1]).all():
        return work
    return make_span_rows(*merge_spans(work["begin"], work["end"] - work["begin"]))


def make_span_rows(begin: Int64s, end: Int64s, row: npt.NDArray[Any] | int = -1) -> Records:
    spans = np.zeros(len(begin), STRETCH)
    spans["begin"], spans["end"], spans["row"] = begin, end, row
    return spans
