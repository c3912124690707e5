"""The arrivals of all hosts, read some ops at a time, so that what is computed of them takes little memory. Many are in
a temporary file:

    hosts are put together        each batch, in order of ops      a block is read from the pieces that have some of it:
    as they are read              and steps, is cut into pieces    some ops, or some steps of an op
    ┌ h0 h1 h2 ┐ ┌ h3 h4 h5 ┐     [op 0, 1][op 2][op 3 to 9]       [op 0, 1] of h0 h1 h2 and of h3 h4 h5
    └          ┘ └          ┘     [op 0][op 1, 2][op 3 to 9]       [op 2]    of h0 h1 h2 and of h3 h4 h5  ...
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fastprof.derive.communication.arrivals import Arrivals, KeptSteps, compared_steps
from fastprof.derive.communication.flights import NO_BYTES
from fastprof.derive.communication.host_communication import HostCommunication
from fastprof.derive.communication.matching import FEW, joined
from fastprof.derive.communication.narrow_columns import narrowed
from fastprof.derive.communication.occurrences import Occurrences
from fastprof.derive.communication.step_numbers import StepNumbers
from fastprof.derive.devices.communication_kinds import Kind
from fastprof.schema.array_types import Int64s
from fastprof.tables.set_aside import Stored

MOST_ROWS: Final = 1 << 19
"""Of a batch or a block, unless a single host or a single step of one op has more."""
_PIECE_ROWS: Final = 1 << 15
_Rows = dict[str, npt.NDArray[Any]]


class _Piece(NamedTuple):
    """``ops``, ``steps``: the first and the last of its ``rows``."""

    ops: tuple[int, int]
    steps: tuple[int, int]
    rows: _Rows | Stored[_Rows]

    def has(self, ops: slice, steps: tuple[int, int]) -> bool:
        """Whether there may be rows of these ops and steps."""
        return (
            self.ops[0] < ops.stop
            and self.ops[1] >= ops.start
            and self.steps[0] <= steps[1]
            and self.steps[1] >= steps[0]
        )

    def read(self) -> _Rows:
        return self.rows.value() if isinstance(self.rows, Stored) else self.rows


class SessionArrivals:
    """Those of hosts, one after the other."""

    def __init__(self) -> None:
        self._batch: list[_Rows] = []
        self._in_batch = self._hosts = self._devices = 0
        self._pieces: list[_Piece] = []
        self._many = np.zeros(0, np.int64)
        self._kept_steps: list[KeptSteps] = []
        self._sized = self._any_waited = False

    def add(self, one: HostCommunication, arrivals: Arrivals, places: Int64s, numbers: StepNumbers) -> None:
        """``places``: of the operations of the host among those of all. Raises UnreadableError if the disk has no room
        for the arrivals."""
        step = numbers.of(arrivals.groups)
        op = places[arrivals.op] if len(arrivals) else np.zeros(0, np.int64)
        rows = {
            "host": np.full(len(arrivals), self._hosts, np.int32),
            "device": arrivals.device.astype(np.int32) + np.int32(self._devices),
            "op": op,
            "team": arrivals.team,
            "step": step[arrivals.group],
            "begin_ps": arrivals.begin_ps,
            "duration_ps": arrivals.duration_ps,
            "beyond_ps": arrivals.beyond_ps,
            "blocks": arrivals.blocks,
            "size": _sizes(one, arrivals),
            "waited": arrivals.waited if len(arrivals.waited) else np.zeros(len(arrivals), np.bool_),
        }
        self._sized |= len(arrivals.bytes) > 0
        self._any_waited |= len(arrivals.waited) > 0
        self._kept_steps.append(KeptSteps(arrivals.of_steps, narrowed(np.unique(rows["step"]))))
        self._many = _added(self._many, op)
        self._hosts += 1
        self._devices += len(one.devices)
        self._batch.append(rows)
        self._in_batch += len(arrivals)
        if self._in_batch >= MOST_ROWS:
            self._put_aside()

    def compared(self, shift: Int64s | None = None) -> Int64s | None:
        """The steps that are compared; None: all. ``shift``: by host, what its numbers of steps are moved by."""
        return compared_steps(self._kept_steps, shift)

    def blocks(self, shift: Int64s | None = None) -> Iterator[Occurrences]:
        """All of some ops, or of some steps of an op. Of an op and a step, rows are by host, device and begin; those of
        no step are last."""
        compared = self.compared(shift)
        for ops in _cut(self._many):
            for steps in self._parts(ops, shift, compared):
                found = self._read(ops, steps, shift, compared)
                if len(found):
                    yield found

    def all_at_once(self) -> Occurrences:
        """By device, op, step and begin, with sizes: of all-to-all none, because ranks differ."""
        found = self._read(slice(0, len(self._many)), _ALL, None, self.compared())
        return found.take(np.lexsort((found.begin_ps, found.step, found.op, found.device)))

    def _put_aside(self) -> None:
        self._pieces += [one._replace(rows=Stored(one.read())) for one in self._cut_batch()]

    def _cut_batch(self) -> Iterator[_Piece]:
        """The pieces of the hosts since the last batch."""
        batch, self._batch, self._in_batch = self._batch, [], 0
        if not batch:
            return
        rows = {name: _narrow(np.concatenate([one[name] for one in batch])) for name in batch[0]}
        key, count = joined([rows["op"], rows["step"]])
        order = np.argsort(key.astype(np.uint16) if count <= FEW else key, kind="stable")
        ends = np.flatnonzero(np.diff(key[order], append=-1)) + 1
        first = 0
        for end in ends.tolist():
            if end - first >= _PIECE_ROWS or end == len(order):
                some = {name: column[order[first:end]] for name, column in rows.items()}
                yield _Piece(_bounds(some["op"]), _bounds(some["step"]), some)
                first = end

    def _every(self) -> list[_Piece]:
        """All pieces. The only batch of a session stays in memory."""
        if self._pieces:
            self._put_aside()
        else:
            self._pieces = [*self._cut_batch()]
        return self._pieces

    def _parts(self, ops: slice, shift: Int64s | None, compared: Int64s | None) -> list[tuple[int, int]]:
        """The first and the last step of each block of these ops: all, unless they are too many."""
        if int(self._many[ops].sum()) <= MOST_ROWS:
            return [_ALL]
        known, many = np.zeros(0, np.int64), np.zeros(0, np.int64)
        for piece in self._every():
            if piece.has(ops, _ALL):
                step = self._chosen(piece.read(), ops, _ALL, shift, compared)["step"]
                own, count = np.unique(step, return_counts=True)
                known, before = np.union1d(known, own), known
                more = np.zeros(len(known), np.int64)
                more[np.searchsorted(known, before)] = many
                more[np.searchsorted(known, own)] += count
                many = more
        return [(int(known[part.start]), int(known[part.stop - 1])) for part in _cut(many)]

    def _read(self, ops: slice, steps: tuple[int, int], shift: Int64s | None, compared: Int64s | None) -> Occurrences:
        moved = (0, 0) if shift is None else (min(int(shift.min()), 0), max(int(shift.max()), 0))
        near = (steps[0] - moved[1], steps[1] - moved[0])
        parts = [
            self._chosen(piece.read(), ops, steps, shift, compared) for piece in self._every() if piece.has(ops, near)
        ]
        of = {
            name: np.concatenate([np.zeros(0, kind), *(part.pop(name) for part in parts)])
            for name, kind in _TYPES.items()
        }
        found = Occurrences(
            host=of["host"],
            device=of["device"],
            op=of["op"],
            team=of["team"],
            step=of["step"],
            begin_ps=of["begin_ps"],
            end_ps=of["begin_ps"] + of["duration_ps"] + of["beyond_ps"],
            duration_ps=of["duration_ps"],
            blocks=of["blocks"],
            size=of["size"] if self._sized else of["size"][:0],
            waited=of["waited"] if self._any_waited else of["waited"][:0],
        )
        stepless = np.flatnonzero(found.step < 0)
        if not len(stepless):
            return found
        of_none = found.take(stepless)
        last = stepless[np.lexsort((of_none.begin_ps, of_none.op, of_none.device))]
        return found.take(np.concatenate([np.flatnonzero(found.step >= 0), last]))

    def _chosen(
        self, rows: _Rows, ops: slice, steps: tuple[int, int], shift: Int64s | None, compared: Int64s | None
    ) -> _Rows:
        """Those of a piece that are compared, of these ops and steps, with steps by their numbers after the shift."""
        step = rows["step"].astype(np.int64)
        if shift is not None:
            step += np.where(step >= 0, shift[rows["host"]], 0)
        wanted = (rows["op"] >= ops.start) & (rows["op"] < ops.stop) & (step >= steps[0]) & (step <= steps[1])
        if compared is not None:
            wanted &= np.isin(step, compared)
        rows = rows | {"step": step}
        if not wanted.all():
            rows = {name: column[wanted] for name, column in rows.items()}
        return {name: rows[name].astype(kind, copy=False) for name, kind in _TYPES.items()}


_ALL: Final = (-1 << 62, 1 << 62)
_TYPES: Final = {
    "host": np.int32, "device": np.int32, "op": np.int32, "team": np.int32, "step": np.int64, "begin_ps": np.int64,
    "duration_ps": np.int64, "beyond_ps": np.int64, "blocks": np.bool_, "size": np.int64, "waited": np.bool_,
}  # fmt: skip


def _sizes(one: HostCommunication, arrivals: Arrivals) -> Int64s:
    """NO_BYTES: not known, or different on each rank."""
    if not len(arrivals.bytes):
        return np.full(len(arrivals), NO_BYTES, np.int64)
    even = one.operations.kind != Kind.ALL_TO_ALL.number
    return np.where(even[arrivals.op], arrivals.bytes, NO_BYTES)


def _added(many: Int64s, op: Int64s) -> Int64s:
    own = np.bincount(op, minlength=len(many))
    own[: len(many)] += many
    return own


def _narrow(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return column if column.dtype == np.bool_ else narrowed(column)


def _bounds(values: npt.NDArray[Any]) -> tuple[int, int]:
    return int(values.min()), int(values.max())


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
