"""Collective operations that devices have together: who comes last, and how long others wait.

Occurrences of an op with the same number belong together: on each device they are counted in the step, or, without
steps, over the capture. They count only if all devices have begun before any is done, on the clock of their host,
because nobody is done before the last one has come. To find what belongs together, clocks of different hosts are
compared only if these are ranks of PyTorch whose traces count from Unix epoch: there, what goes on at once belongs
together (collectives.py). Who came last of several hosts follows from their clocks, as far as the meetings show these.

The arrivals of all hosts are read some ops at a time, so that what is computed of them takes little memory. Many are in
a temporary file:

    hosts are put together        each batch, in order of ops      a block is read from the pieces that have some of it:
    as they are read              and steps, is cut into pieces    some ops, or some steps of an op
    ┌ h0 h1 h2 ┐ ┌ h3 h4 h5 ┐     [op 0, 1][op 2][op 3 to 9]       [op 0, 1] of h0 h1 h2 and of h3 h4 h5
    └          ┘ └          ┘     [op 0][op 1, 2][op 3 to 9]       [op 2]    of h0 h1 h2 and of h3 h4 h5  ...
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fastprof.derive.communication.clocks import (
    Clocks,
    HostMeetings,
    MeetingRows,
    compare_clocks,
    find_last_rows,
    find_step_shifts,
    measure_gaps,
)
from fastprof.derive.communication.collectives import (
    HostArrivals,
    KeptSteps,
    choose_compared_steps,
    find_offsets_ps,
    match_concurrent,
)
from fastprof.derive.communication.communication_sums import MergedOperations, StepNumbers, narrow_column
from fastprof.derive.communication.flights import NO_BYTES, Operation
from fastprof.derive.communication.host_communication import HostCommunication
from fastprof.derive.devices.communication_kinds import CommunicationKind
from fastprof.schema.columns import (
    Bools,
    Int32s,
    Int64s,
    expand_ranges,
    find_last_started,
    find_least_by,
    find_most_by,
    number_keys,
    number_owners,
    reduce_runs,
    sort_rows,
    sum_by,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_spill import Stored


@dataclass(frozen=True, slots=True)
class Occurrences:
    """Occurrences of collectives; rows of one device, op and step follow each other, by begin. ``device``: number among
    those of all hosts; ``op``: place among the operations of all; ``step``: -1 if there is none; ``size``: empty unless
    the hosts are ranks of PyTorch; ``waited``, ``hidden_ps``: empty if no device waited, or computed."""

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
    hidden_ps: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))

    def take(self, rows: Int64s | Bools | slice) -> Occurrences:
        columns = (getattr(self, name) for name in self.__slots__)
        return Occurrences(*(column[rows] if len(column) else column for column in columns))

    def __len__(self) -> int:
        return len(self.op)


@dataclass(frozen=True, slots=True)
class MatchedRows:
    """Occurrences that met. ``rows``: by meeting, host and device; ``first``, ``number``: first row of each meeting,
    and the number of its occurrences; ``first_of_pair``: first row of each pair of a meeting and a host; ``apart``: how
    many have the number of others, but were not at the same time."""

    rows: Occurrences
    first: Int64s
    number: Int64s
    first_of_pair: Int64s
    apart: int


def match_occurrences(rows: Occurrences) -> MatchedRows:
    """Match occurrences with the same number. Numbers count from the first occurrence, or, if more belong together
    then, from the last, which is -1: some devices may be captured later."""
    # without steps, occurrences on one host cannot be paired with those on another
    host = np.where(rows.step < 0, rows.host, -1)
    series, many = join_keys([rows.op, rows.team, rows.step, host])
    number, from_last = _number_occurrences(rows)
    grouped = _Grouped(rows, *join_keys([series, number]))
    if (number - from_last != (number - from_last)[:1]).any():  # else both numbers pair the same
        other = _Grouped(rows, *join_keys([series, from_last]))
        late = other.agreed(series, many) > grouped.agreed(series, many)
        if late.any():
            number = np.where(late[series], from_last, number)
            grouped = _Grouped(rows, *join_keys([series, number]))
    several = grouped.many > 1
    return grouped.join(rows, number, several & grouped.together, several & ~grouped.together)


def group_meetings(rows: Occurrences, meeting: Int64s) -> MatchedRows:
    """Group occurrences by their ``meeting``, a known number from 0."""
    grouped = _Grouped(rows, meeting, int(meeting.max(initial=-1)) + 1)
    return grouped.join(rows, _number_occurrences(rows)[0], grouped.many > 1, grouped.many == 1)


class _Grouped:
    """Occurrences by meeting, host and device. ``order``: their rows; ``first``, ``many``: the first row of each
    meeting, and its number of rows; ``together``: whether, on each host, all devices have begun before any is done."""

    def __init__(self, rows: Occurrences, meeting: Int64s, count: int) -> None:
        self.order = np.argsort(meeting.astype(np.uint16) if count <= FEW else meeting, kind="stable")
        fresh = _find_changes(meeting[self.order])
        self.first = np.flatnonzero(fresh)
        self.many = np.diff(np.append(self.first, len(self.order)))
        pairs = np.flatnonzero(fresh | _find_changes(rows.host[self.order]))
        apart = _find_most(rows.begin_ps[self.order], pairs) > _find_least(rows.end_ps[self.order], pairs)
        self.together = np.ones(len(self.first), np.bool_)
        self.together[find_last_started(self.first, pairs[apart])] = False

    def agreed(self, series: Int64s, count: int) -> Int64s:
        """Return how many occurrences of each series meet others."""
        met = np.where(self.together & (self.many > 1), self.many, 0)
        return sum_by(series[self.order[self.first]], met, count)

    def join(self, every: Occurrences, number: Int64s, chosen: Bools, apart: Bools) -> MatchedRows:
        """Return the rows of the chosen meetings. ``apart``: meetings whose occurrences are only counted."""
        many = self.many[chosen]
        rows = every.take(self.order if chosen.all() else self.order[np.repeat(chosen, self.many)])
        first = np.cumsum(many) - many
        fresh = _find_changes(rows.host)
        fresh[first] = True
        of_first = number[self.order[self.first[chosen]]]
        return MatchedRows(rows, first, of_first, np.flatnonzero(fresh), int(self.many[apart].sum()))


FEW: Final = 1 << 16
"""Limit up to which numbers are sorted digit by digit."""


def _number_occurrences(rows: Occurrences) -> tuple[Int64s, Int64s]:
    """Number the occurrences of each op on each device in each step, from the first and from the last."""
    first = np.flatnonzero(_find_changes(rows.device) | _find_changes(rows.op) | _find_changes(rows.step))
    many = np.diff(np.append(first, len(rows)))
    from_first = np.arange(len(rows)) - np.repeat(first, many)
    return from_first, from_first - np.repeat(many, many)


def _find_changes(values: npt.NDArray[Any]) -> Bools:
    """Return where each run of equal values begins."""
    fresh = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=fresh[1:])
    return fresh


def join_keys(columns: Sequence[Int64s | Int32s]) -> tuple[Int64s, int]:
    """Return a number for each row, equal for equal values, and a bound of the numbers; some may be unused."""
    place, count = _encode_column(columns[0])
    for column in columns[1:]:
        number, many = _encode_column(column)
        if many > 1:
            place, count = _encode_column(place * many + number)
    return place, count


def _encode_column(values: Int64s | Int32s) -> tuple[Int64s, int]:
    """Return a number for each value, equal for equal ones, and a bound of the numbers, of the order of their count."""
    if not len(values):
        return values.astype(np.int64), 0
    least, most = int(values.min()), int(values.max())
    if most - least < 4 * len(values):
        return values.astype(np.int64) - least, most - least + 1
    number, count = number_keys([values.astype(np.int64)])
    return number.astype(np.int64), count


# ---- what meetings were


class MeetingBlock:
    """Meetings of a block. By meeting: ``op``, ``team``, ``step``, ``number``, ``host_count``, ``device_count``,
    ``begin_ps``, when the first device came; ``first``, ``last``, numbers of devices; ``skew_ps``, ``wait_ps``; unknown
    values are -1. ``blocks``: whether nothing else hides it. ``of_hosts``: meetings of several hosts."""

    def __init__(self, met: MatchedRows) -> None:
        rows, first = met.rows, met.first
        self.op, self.team, self.step, self.number = rows.op[first], rows.team[first], rows.step[first], met.number
        self.device_count = np.diff(np.append(first, len(rows)))
        self.host_count = np.diff(np.append(np.searchsorted(met.first_of_pair, first), len(met.first_of_pair)))
        self.begin_ps, last_begin = _find_least(rows.begin_ps, first), _find_most(rows.begin_ps, first)
        self.shortest_ps, self.longest_ps = _find_least(rows.duration_ps, first), _find_most(rows.duration_ps, first)
        hidden = find_last_started(first, np.flatnonzero(~rows.blocks))
        self.blocks = np.ones(len(first), np.bool_)
        self.blocks[hidden] = False
        alone = self.host_count == 1
        meeting = number_owners(self.device_count)
        waited = rows.duration_ps - self.shortest_ps[meeting]
        shortest = rows.device[_find_first_where(waited == 0, first)]
        self.first = np.where(alone, rows.device[_find_first_where(rows.begin_ps == self.begin_ps[meeting], first)], -1)
        last = rows.device[_find_first_where(rows.begin_ps == last_begin[meeting], first)]
        self.last = np.where(alone, last, np.where(self.blocks, shortest, -1))
        self.skew_ps = np.where(alone, last_begin - self.begin_ps, -1)
        self.wait_ps = np.where(self.blocks, sum_by(meeting, waited, len(first), "times of waiting"), -1)
        self.of_hosts = MeetingHosts(met, meeting, ~alone)
        self.device = rows.device
        self.late_ps = np.where(alone[meeting], rows.begin_ps - self.begin_ps[meeting], -1)
        self.host, self.shows_wait = rows.host, self.blocks[meeting]
        self.waited_ps = np.where(self.shows_wait, waited, 0)


class MeetingHosts:
    """Hosts at meetings of several, by meeting and host. ``begin_ps``: when the last of its devices began; ``end_ps``:
    when the first was done; ``first``, ``last``: devices; ``first_begin_ps``: when the first began; ``shows``: whether
    the device that was done first waited until then; ``hidden_ps``: the shortest time in which a device computed, empty
    if none did."""

    def __init__(self, met: MatchedRows, meeting: Int64s, several: Bools) -> None:
        rows, pairs = met.rows, met.first_of_pair
        if not several.any():
            rows, pairs, meeting = rows.take(slice(0, 0)), pairs[:0], meeting[:0]
        begin, first_begin, end = (
            _find_most(rows.begin_ps, pairs),
            _find_least(rows.begin_ps, pairs),
            _find_least(rows.end_ps, pairs),
        )
        many = np.diff(np.append(pairs, len(rows)))
        last = rows.device[_find_first_where(rows.begin_ps == np.repeat(begin, many), pairs)]
        first = rows.device[_find_first_where(rows.begin_ps == np.repeat(first_begin, many), pairs)]
        chosen = several[meeting[pairs]] if len(pairs) else np.zeros(0, np.bool_)
        self.meeting, self.host = meeting[pairs][chosen], rows.host[pairs][chosen]
        self.begin_ps, self.first_begin_ps, self.end_ps = begin[chosen], first_begin[chosen], end[chosen]
        self.first, self.last = first[chosen], last[chosen]
        done = _find_first_where(rows.end_ps == np.repeat(end, many), pairs)
        shows = rows.blocks[done] | rows.waited[done] if len(rows.waited) else rows.blocks[done]
        self.shows = shows[chosen]
        self.hidden_ps = _find_least(rows.hidden_ps, pairs)[chosen] if len(rows.hidden_ps) else rows.hidden_ps


def _find_least(values: Int64s, first: Int64s) -> Int64s:
    return reduce_runs(np.minimum, values, first)


def _find_most(values: Int64s, first: Int64s) -> Int64s:
    return reduce_runs(np.maximum, values, first)


def _find_first_where(wanted: Bools, first: Int64s) -> Int64s:
    """Return the first row of each run, from its begin, for which a condition holds, as it does for at least one
    row."""
    rows = np.flatnonzero(wanted)
    return rows[np.searchsorted(rows, first)]


MOST_ROWS: Final = 1 << 19
"""Bound of rows of a batch or a block, unless a single host or a single step of one op has more."""
_PIECE_ROWS: Final = 1 << 15
_Rows = dict[str, npt.NDArray[Any]]


class _ArrivalPiece(NamedTuple):
    """Piece of the arrivals of a batch. ``ops``, ``steps``: the first and the last of its ``rows``."""

    ops: tuple[int, int]
    steps: tuple[int, int]
    rows: _Rows | Stored[_Rows]

    def has(self, ops: slice, steps: tuple[int, int]) -> bool:
        """Return whether there may be rows of these ops and steps."""
        return (
            self.ops[0] < ops.stop
            and self.ops[1] >= ops.start
            and self.steps[0] <= steps[1]
            and self.steps[1] >= steps[0]
        )

    def read(self) -> _Rows:
        return self.rows.value() if isinstance(self.rows, Stored) else self.rows


class SessionArrivals:
    """Arrivals of all hosts, which are added one after the other."""

    def __init__(self) -> None:
        self._batch: list[_Rows] = []
        self._in_batch = self._hosts = self._devices = 0
        self._pieces: list[_ArrivalPiece] = []
        self._many = np.zeros(0, np.int64)
        self._kept_steps: list[KeptSteps] = []
        self._sized = self._any_waited = self._any_hidden = False

    def add(self, host: HostCommunication, arrivals: HostArrivals, places: Int64s, numbers: StepNumbers) -> None:
        """Add a host. ``places``: of its operations among those of all. Raise UnreadableError if the disk has no
        room."""
        step = numbers.of(arrivals.groups)
        op = places[arrivals.op] if len(arrivals) else np.zeros(0, np.int64)
        sizes = np.full(len(arrivals), NO_BYTES, np.int64)
        if len(arrivals.bytes):  # in an all-to-all each rank may have another
            even = host.operations.kind != CommunicationKind.ALL_TO_ALL.number
            sizes = np.where(even[arrivals.op], arrivals.bytes, NO_BYTES)
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
            "size": sizes,
            "waited": arrivals.waited if len(arrivals.waited) else np.zeros(len(arrivals), np.bool_),
            "hidden_ps": arrivals.hidden_ps if len(arrivals.hidden_ps) else np.zeros(len(arrivals), np.int64),
        }
        self._sized |= len(arrivals.bytes) > 0
        self._any_waited |= len(arrivals.waited) > 0
        self._any_hidden |= len(arrivals.hidden_ps) > 0
        self._kept_steps.append(KeptSteps(arrivals.of_steps, narrow_column(np.unique(rows["step"]))))
        own = np.bincount(op, minlength=len(self._many))
        own[: len(self._many)] += self._many
        self._many = own
        self._hosts += 1
        self._devices += len(host.devices)
        self._batch.append(rows)
        self._in_batch += len(arrivals)
        if self._in_batch >= MOST_ROWS:
            self._put_aside()

    def compared(self, shift: Int64s | None = None) -> Int64s | None:
        """Return the steps that are compared, or None for all. ``shift``: number to add to the steps of each host."""
        return choose_compared_steps(self._kept_steps, shift)

    def blocks(self, shift: Int64s | None = None) -> Iterator[Occurrences]:
        """Yield blocks: all arrivals of some ops, or of some steps of an op. Rows of an op and a step are by host,
        device and begin; those without a step are last."""
        compared = self.compared(shift)
        for ops in _cut_blocks(self._many):
            for steps in self._parts(ops, shift, compared):
                block = self._read(ops, steps, shift, compared)
                if len(block):
                    yield block

    def all_at_once(self) -> Occurrences:
        """Return all rows by device, op, step and begin, with sizes; all-to-all has none, because ranks differ."""
        rows = self._read(slice(0, len(self._many)), _ALL, None, self.compared())
        return rows.take(sort_rows(rows.device, rows.op, rows.step, rows.begin_ps))

    def _put_aside(self) -> None:
        self._pieces += [piece._replace(rows=Stored(piece.read())) for piece in self._cut_batch()]

    def _cut_batch(self) -> Iterator[_ArrivalPiece]:
        """Cut the hosts since the last batch into pieces."""
        batch, self._batch, self._in_batch = self._batch, [], 0
        if not batch:
            return
        rows: _Rows = {}
        for name in batch[0]:
            column = np.concatenate([host_rows[name] for host_rows in batch])
            rows[name] = column if column.dtype == np.bool_ else narrow_column(column)
        key, count = join_keys([rows["op"], rows["step"]])
        order = np.argsort(key.astype(np.uint16) if count <= FEW else key, kind="stable")
        ends = np.flatnonzero(np.diff(key[order], append=-1)) + 1
        first = 0
        for end in ends.tolist():
            if end - first >= _PIECE_ROWS or end == len(order):
                some = {name: column[order[first:end]] for name, column in rows.items()}
                yield _ArrivalPiece(_find_bounds(some["op"]), _find_bounds(some["step"]), some)
                first = end

    def _every(self) -> list[_ArrivalPiece]:
        """Return all pieces. If a session has only one batch, it stays in memory."""
        if self._pieces:
            self._put_aside()
        else:
            self._pieces = [*self._cut_batch()]
        return self._pieces

    def _parts(self, ops: slice, shift: Int64s | None, compared: Int64s | None) -> list[tuple[int, int]]:
        """Return the first and the last step of each block of these ops: a single block, unless rows are too many."""
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
        return [(int(known[part.start]), int(known[part.stop - 1])) for part in _cut_blocks(many)]

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
        rows = Occurrences(
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
            hidden_ps=of["hidden_ps"] if self._any_hidden else of["hidden_ps"][:0],
        )
        stepless = np.flatnonzero(rows.step < 0)
        if not len(stepless):
            return rows
        of_none = rows.take(stepless)
        last = stepless[sort_rows(of_none.device, of_none.op, of_none.begin_ps)]
        return rows.take(np.concatenate([np.flatnonzero(rows.step >= 0), last]))

    def _chosen(
        self, rows: _Rows, ops: slice, steps: tuple[int, int], shift: Int64s | None, compared: Int64s | None
    ) -> _Rows:
        """Select the compared rows of these ops and steps from a piece, with step numbers after the shift."""
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
    "hidden_ps": np.int64,
}  # fmt: skip


def _find_bounds(values: npt.NDArray[Any]) -> tuple[int, int]:
    return int(values.min()), int(values.max())


def _cut_blocks(many: Int64s) -> Iterator[slice]:
    """Yield ranges that have at most MOST_ROWS together, or a single element."""
    first, total = 0, 0
    for place, op in enumerate(many.tolist()):
        if total and total + op > MOST_ROWS:
            yield slice(first, place)
            first, total = place, 0
        total += op
    if total:
        yield slice(first, len(many))


class Attendance:
    """Attendance of each device: its ``host``, the number of its meetings, how late it came after the first device, or
    -1 if some are of several hosts, and how long it waited. ``shows_wait``, ``shows_last``, ``shows_cause``: whether
    any meeting of the device, or of its host with other hosts, shows the wait, the last device, or both."""

    def __init__(self, devices: int) -> None:
        self.meetings, self.late_ps, self.waited_ps = np.zeros((3, devices), np.int64)
        self.shows_wait, self.shows_last, self.shows_cause, self._unknown = np.zeros((4, devices), np.bool_)
        self.host = np.full(devices, -1, np.int64)

    def add(self, block: MeetingBlock) -> None:
        count = len(self.meetings)
        late_ps = np.maximum(block.late_ps, 0)
        self.meetings += np.bincount(block.device, minlength=count)
        self.late_ps = _add_sums(self.late_ps, block.device, late_ps)
        self.waited_ps = _add_sums(self.waited_ps, block.device, block.waited_ps)
        alone = block.late_ps >= 0
        self._unknown[block.device[~alone]] = True
        self.host[block.device] = block.host
        self.shows_wait[block.device[block.shows_wait]] = True
        self.shows_last[block.device[alone]] = True
        self.shows_cause[block.device[alone & block.shows_wait]] = True

    def done(self) -> None:
        self.late_ps[self._unknown] = -1


def _add_sums(sums: Int64s, device: Int32s, values: Int64s) -> Int64s:
    """Add values to sums. They are not negative, so a sum beyond 64 bits is an error."""
    places = np.arange(len(sums), dtype=np.int32)
    return sum_by(np.concatenate([places, device]), np.concatenate([sums, values]), len(sums))


_COLUMNS: Final = {
    "step": np.int64, "number": np.int64, "op": np.int32, "team": np.int32, "begin_ps": np.int64,
    "host_count": np.int64, "device_count": np.int64, "shortest_ps": np.int64, "longest_ps": np.int64,
    "first": np.int64, "last": np.int64, "skew_ps": np.int64, "wait_ps": np.int64, "blocks": np.bool_,
}  # fmt: skip
_OF_HOSTS: Final = {
    "meeting": np.int32, "host": np.int32, "first": np.int32, "last": np.int32, "begin_ps": np.int64,
    "end_ps": np.int64, "first_begin_ps": np.int64, "shows": np.bool_, "hidden_ps": np.int64,
}  # fmt: skip


class Meetings:
    """Meetings, by step and then by the arrival of the first device. ``op``: place in ``operations``; ``first``,
    ``last``: numbers of devices; ``skew_ps``, ``wait_ps``; unknown values are -1. ``apart``: number of occurrences with
    the same number that were not at the same time; ``grouped``: number of occurrences of ops with several groups of
    devices whose members are unknown; ``compared``: the compared steps, or None for all."""

    def __init__(
        self,
        operations: list[Operation],
        matched: Iterable[MatchedRows],
        devices: int,
        grouped: int,
        compared: Int64s | None,
    ) -> None:
        self.operations, self.grouped, self.apart, self.compared = operations, grouped, 0, compared
        self.attendance = Attendance(devices)
        columns: dict[str, list[npt.NDArray[Any]]] = {name: [np.zeros(0, kind)] for name, kind in _COLUMNS.items()}
        of_hosts: dict[str, list[npt.NDArray[Any]]] = {name: [np.zeros(0, kind)] for name, kind in _OF_HOSTS.items()}
        many = 0
        for met in matched:
            self.apart += met.apart
            block = MeetingBlock(met)
            self.attendance.add(block)
            for name, parts in columns.items():
                parts.append(getattr(block, name).astype(_COLUMNS[name], copy=False))
            block.of_hosts.meeting += many
            for name, parts in of_hosts.items():
                parts.append(getattr(block.of_hosts, name).astype(_OF_HOSTS[name], copy=False))
            many += len(block.op)
        self.attendance.done()
        of = {name: np.concatenate(columns.pop(name)) for name in _COLUMNS}
        order = sort_rows(of["step"], of["begin_ps"])
        self.step, self.number, self.op = of["step"][order], of["number"][order], of["op"][order]
        self.host_count, self.device_count = of["host_count"][order], of["device_count"][order]
        self.shortest_ps, self.longest_ps = of["shortest_ps"][order], of["longest_ps"][order]
        self.first, self.last = of["first"][order], of["last"][order]
        self.skew_ps, self.wait_ps = of["skew_ps"][order], of["wait_ps"][order]
        series, _ = join_keys([self.op, of["team"][order], self.number])
        self._hosts = _SharedMeetings({name: np.concatenate(of_hosts.pop(name)) for name in _OF_HOSTS}, order)
        attended = self._hosts.attended
        blocks = of["blocks"][order]
        if blocks.all():
            self.encounters = HostMeetings(attended, self.step, series)
        else:
            rows = attended.take(self._hosts.shows)
            rows = rows.take((np.bincount(rows.meeting, minlength=len(blocks)) > 1)[rows.meeting])
            self.encounters = HostMeetings(rows, self.step, series, attended, blocks)

    def __len__(self) -> int:
        return len(self.op)

    def compare(self, seen: Clocks) -> None:
        """Find the first and the last of several hosts, if the gap to the next host is four times the clock error.
        Hosts that do not count their collectives alike have neither: what seems to be one collective is several. The
        host columns are dropped afterwards, because they are large."""
        each = self._hosts
        begin = seen.fit.corrected(each.attended.host, each.attended.begin_ps)
        begin_of_first = seen.fit.corrected(each.attended.host, each.first_begin_ps)
        error = np.where(seen.known & (seen.fit.error_ps >= 0), seen.fit.error_ps, _UNSURE)[each.attended.host]
        error = find_most_by(each.attended.meeting, error, len(self))
        last, sure = each.ahead(begin, error)
        self.last[sure] = each.last[last]
        self.skew_ps[sure] = begin[last] - find_least_by(each.attended.meeting, begin_of_first, len(self))[sure]
        first, sure = each.ahead(-begin_of_first, error)
        self.first[sure] = each.first[first]
        apart = (seen.fit.part >= 0) & (seen.fit.error_ps >= 0) & ~seen.known
        apart_in = find_most_by(each.attended.meeting, apart[each.attended.host].astype(np.int64), len(self)) > 0
        self.first[apart_in], self.last[apart_in] = -1, -1
        known = np.flatnonzero(self.last[each.attended.meeting] >= 0)
        shows_wait = self.wait_ps[each.attended.meeting[known]] >= 0
        attendance, host = self.attendance, each.attended.host[known]
        attendance.shows_last |= np.isin(attendance.host, host)
        attendance.shows_cause |= np.isin(attendance.host, host[shows_wait])
        del self._hosts, self.encounters


_UNSURE: Final = 2**59
"""An error that no gap exceeds."""


class _SharedMeetings:
    """Hosts of the meetings of several. ``first``, ``last``, ``first_begin_ps``, ``shows``: as in MeetingHosts."""

    def __init__(self, of: dict[str, npt.NDArray[Any]], order: Int64s) -> None:
        """Sort the columns of MeetingHosts, which ``of`` loses, by ``order``, an order of their meetings."""
        many = np.bincount(of["meeting"], minlength=len(order))
        first = (np.cumsum(many) - many)[order]
        meeting, rows = expand_ranges(first, many[order])
        del of["meeting"]
        # one by one, because there are many
        taken = {name: column[rows] if len(column := of.pop(name)) else column for name in [*of]}
        self.first, self.last, self.first_begin_ps = taken["first"], taken["last"], taken["first_begin_ps"]
        self.shows = taken["shows"]
        host = taken["host"].astype(np.int64)
        self.attended = MeetingRows(meeting, host, taken["begin_ps"], taken["end_ps"], taken["hidden_ps"])

    def ahead(self, time_ps: Int64s, error_ps: Int64s) -> tuple[Int64s, Int64s]:
        """Return the rows that are later than all others of their meetings by more than four errors, and these
        meetings."""
        rows = MeetingRows(self.attended.meeting, self.attended.host, time_ps, time_ps)
        last = find_last_rows(rows, len(error_ps))
        gap = measure_gaps(rows, last)
        sure = np.flatnonzero((last >= 0) & (error_ps < _UNSURE) & (gap > 4 * np.clip(error_ps, 0, _UNSURE)))
        return last[sure], sure


def find_meetings(
    kept: Sequence[HostCommunication],
    operations: MergedOperations,
    arrivals: SessionArrivals,
    shift: Int64s | None = None,
) -> Meetings:
    ranks = _match_ranks(arrivals, kept)
    blocks = map(match_occurrences, arrivals.blocks(shift)) if ranks is None else [ranks]
    devices = sum(len(host.devices) for host in kept)
    grouped = sum(host.arrivals.grouped for host in kept)
    return Meetings(operations.every, blocks, devices, grouped, arrivals.compared(shift))


def compare_hosts(
    kept: Sequence[HostCommunication], operations: MergedOperations, arrivals: SessionArrivals
) -> tuple[Meetings, Clocks | None]:
    """Find the meetings, and the clocks of the hosts, or None if no host met another one. ``kept``: host states, which
    need not have their arrivals."""
    meetings, names = find_meetings(kept, operations, arrivals), [host.host for host in kept]
    seen = compare_clocks(meetings.encounters, names) if len(meetings.encounters.rows) else None
    shift = find_step_shifts(meetings.encounters, seen) if seen is not None else np.zeros(0, np.int64)
    if seen is not None and shift.any():
        other = find_meetings(kept, operations, arrivals, shift)
        known = compare_clocks(other.encounters, names, shift)
        if np.count_nonzero(known.doubtful) < np.count_nonzero(seen.doubtful):
            meetings, seen = other, known
    if seen is not None:
        meetings.compare(seen)
    return meetings, seen


def _match_ranks(arrivals: SessionArrivals, kept: Sequence[HostCommunication]) -> MatchedRows | None:
    """Match the collectives of ranks that count from one time. None: they do not, or their clocks disagree, because
    less than half of the collectives have others at the same time."""
    offsets = find_offsets_ps([host.zero_ns for host in kept])
    if offsets is None or not all(host.of_torch for host in kept):
        return None
    occurrences = arrivals.all_at_once()
    if not len(occurrences):
        return None
    shift = np.array(offsets, np.int64)[occurrences.host]
    series, _ = join_keys([occurrences.op, occurrences.team, occurrences.size])
    met = match_concurrent(series, occurrences.device, occurrences.begin_ps + shift, occurrences.end_ps + shift)
    if 2 * np.count_nonzero((np.bincount(met) > 1)[met]) < len(occurrences):
        return None
    return group_meetings(occurrences, met)
