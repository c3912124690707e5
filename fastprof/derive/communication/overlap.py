"""How much of a core's communication its compute hides, over spans of time such as steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastprof._native.communication_kernels import SUM_KINDS, overlaps
from fastprof.derive.communication.flights import CoreActivity, transfers_of
from fastprof.derive.communication.kinds import KINDS
from fastprof.derive.ops.tables import sums_by
from fastprof.schema.array_types import Int32s, Int64s, Records

WHAT = "times of communication"


@dataclass(frozen=True, slots=True)
class Sums:
    """A row a span of time. ``duration_ps = compute_ps + exposed_ps + idle_ps``, to the picosecond.

    The last three are by those ``kinds`` that there are, [spans, kinds]: how long something of the kind was under way,
    how long while the core computed, and for how long it was what the core was kept waiting by. These add up to
    ``exposed_ps``.
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

    def rows(self, chosen: slice) -> Sums:
        """Of some spans."""
        by_span = (getattr(self, name)[chosen] for name in self.__slots__ if name != "kinds")
        return Sums(self.kinds, *by_span)

    @property
    def hidden_ps(self) -> Int64s:
        return self.communication_ps - self.exposed_ps

    @property
    def idle_ps(self) -> Int64s:
        return self.duration_ps - self.compute_ps - self.exposed_ps


@dataclass(frozen=True, slots=True)
class Measured:
    """``exposed_ps``, ``hidden_ps``: by flight, over all of the capture."""

    sums: Sums
    exposed_ps: Int64s
    hidden_ps: Int64s


def measured(activity: CoreActivity, kind_of_op: Int32s, begin_ps: Int64s, duration_ps: Int64s) -> Measured:
    """The sums of some spans of time, which may overlap. ``kind_of_op``: numbers of kinds, by operation."""
    transfers, flight = transfers_of(activity, kind_of_op)
    kinds, place = np.unique(transfers["kind"], return_inverse=True)
    transfers["kind"] = place.reshape(-1)
    within = _within(activity, transfers, len(kinds), begin_ps, begin_ps + duration_ps)
    by_kind = within[:, SUM_KINDS:].reshape(len(begin_ps), len(kinds), 3)
    count = len(activity.flights)
    hides = activity.flights.aloft[flight] == (transfers["rank"] >= len(KINDS))
    totals, of_kinds = within[:, :SUM_KINDS].T, np.moveaxis(by_kind, 2, 0)
    return Measured(
        Sums(kinds.astype(np.int64), begin_ps, duration_ps, *totals, *of_kinds),
        sums_by(flight, transfers["exposed"], count, WHAT),
        sums_by(flight[hides], transfers["hidden"][hides], count, WHAT),
    )


def _within(activity: CoreActivity, transfers: Records, kinds: int, begin_ps: Int64s, end_ps: Int64s) -> Int64s:
    """The columns of csrc/kernels/exposed.h, of each span of time."""
    times, place = np.unique(np.concatenate([begin_ps, end_ps]), return_inverse=True)
    upto = np.zeros((len(times), SUM_KINDS + 3 * kinds), np.int64)
    by_end = np.argsort(transfers["end"], kind="stable")
    overlaps(activity.work, transfers, by_end, times, upto, kinds)
    begin, end = place.reshape(2, -1)
    found: Int64s = upto[end] - upto[begin]
    return found
