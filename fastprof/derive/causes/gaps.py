"""Why devices do not compute: their idle time, and the time in which they wait for their host, cut wherever the host's
threads begin to do something else.

Of several threads that do something known, the one that drives the device counts first, then those that launch for it.
What only launches counts less. Python counts less still if nothing else is known of it, because it may run beside the
launches; last count threads that neither drive nor launch, unless the driving thread waits. Time after the next work
was launched is not the host's: the device waits for that work to begin.

    driver      |-input-|PPPPPPPPP|-launch-|     wait     |      P: Python
    worker                  |-compile-|
    device   ==|                              |=kernel=|
    gap        |-input--|P-|-compile--|-----launch----|
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from fastprof._native.cause_kernels import foremost
from fastprof.derive.causes.cause_names import GAP_CAUSES
from fastprof.derive.causes.host_causes import (
    CAUSE_OF,
    DRIVER,
    EXECUTOR,
    OTHER,
    Code,
    HostCauses,
    host_causes,
)
from fastprof.derive.causes.step_intervals import NEVER, Intervals, intervals, markers
from fastprof.derive.ops.device_time import (
    COMMUNICATION,
    COMPUTE,
    COPY,
    CORE,
    HOST,
    IDLE,
    INFEED,
    OUTFEED,
    PIECE,
    WAIT,
    DeviceTime,
    Spans,
    device_time,
    extent,
)
from fastprof.derive.ops.launches import launches
from fastprof.derive.steps.stretches import Stretches, union
from fastprof.schema.array_types import Bools, Int32s, Int64s, UInt8s
from fastprof.schema.time_sums import ends_of
from fastprof.tables.host_events import HostEvents

if TYPE_CHECKING:
    from fastprof.derive.steps.grouping import Groups

NO_CAUSE: Final = len(GAP_CAUSES)
"""The number of the cause of compute: it has none."""
_NUMBER: Final = {cause: number for number, cause in enumerate(GAP_CAUSES)}
_OF_CODE: Final = np.array([_NUMBER.get(CAUSE_OF.get(Code(one), ""), NO_CAUSE) for one in range(len(Code))], np.int32)
_OF_WAIT: Final = {INFEED: "input", OUTFEED: "transfer", HOST: "callback", CORE: "straggler"}
"""The causes of waits, if the host does nothing known."""

_WEAK: Final = (Code.LAUNCH, Code.FIRST_CALL, Code.LOCK, Code.WAITS, Code.PYTHON, Code.ANNOTATION, Code.PROFILER)
_UNUSED: Final = 100
_LATENCY_PS: Final = 30_000_000
"""Work that begins at most so long after it was launched, or after the work before it, is not late."""


def _ranks() -> Int32s:
    """[role, code] which counts first; _UNUSED: it never does."""
    rank = np.full((3, len(Code)), _UNUSED, np.int32)
    for code in Code:
        if code not in _WEAK and code is not Code.NOTHING:
            rank[:, code] = (0, 1, 5)
    for code, ranks in (
        (Code.LAUNCH, (2, 3, 7)),
        (Code.FIRST_CALL, (2, 3, 7)),
        (Code.PYTHON, (4, 7, 7)),
        (Code.ANNOTATION, (4, 7, 7)),
        (Code.LOCK, (6, 9, _UNUSED)),
        (Code.WAITS, (8, 9, _UNUSED)),
        (Code.PROFILER, (0, _UNUSED, _UNUSED)),
    ):
        rank[[DRIVER, EXECUTOR, OTHER], code] = ranks
    return rank


_RANKS: Final = _ranks()


_NAMED: Final = np.isin(np.arange(len(Code)), [
    Code.INPUT, Code.INPUT_WORDS, Code.TRANSFER, Code.COMPILATION, Code.FIRST_CALL, Code.CHECKPOINT,
])  # fmt: skip
"""What the host does for devices: the run begins with it, even if no device has run anything yet."""


@dataclass(frozen=True, slots=True)
class Gaps:
    """Pieces of the windows of a host's devices, which add up to them: device after device, in order of time.
    ``device``: place in ``devices``; ``kind``: see derive/ops/device_time.py; ``cause``: place in GAP_CAUSES, NO_CAUSE
    for compute; ``row``: the event of the host that explains the piece, -1: none does; ``line``: the number of its
    thread, -1; ``transfer``: the place in the device's transfers, -1; ``group``: of the step, -1: between steps."""

    devices: Sequence[DeviceTime]
    device: Int32s
    start_ps: Int64s
    end_ps: Int64s
    kind: UInt8s
    cause: Int32s
    row: Int64s
    transfer: Int32s
    group: Int64s

    def __len__(self) -> int:
        return len(self.start_ps)

    @property
    def duration_ps(self) -> Int64s:
        return self.end_ps - self.start_ps


@dataclass(frozen=True, slots=True)
class _HostTime:
    """What the host does at each time of the window: ``code`` and the row that says so, -1."""

    begin_ps: Int64s
    code: UInt8s
    row: Int64s


def host_gaps(events: HostEvents, groups: Groups, steps: Int64s, spans: Sequence[Spans]) -> Gaps:
    """The gaps of a host's devices, which ran ``spans``. ``steps``: the groups that are steps. CaptureError: times of a
    device are more than 64 bits can count."""
    steps = np.sort(steps)
    marked = markers(events, groups, steps)
    causes = host_causes(events, groups.step_rows)
    window = _window(spans, marked, _named(events, causes))
    if window is None:
        return _nothing()
    parts = [device_time(events.host, one, *window) for one in spans]
    clocks = [_shift(events, one) for one in parts]
    times = _host_time(events, causes, *_by_host_clock(parts, clocks))
    busy = _any_busy(parts)
    found = []
    for number, (one, shift) in enumerate(zip(parts, clocks, strict=True)):
        own = one.ran.events
        known = marked if not shift.any() else (np.full_like(marked[0], NEVER), np.full_like(marked[1], -NEVER))
        within = intervals(steps, groups.group_id[own.rows], own.start_ps, own.end_ps, known)
        found.append(_pieces(number, _Device(one, shift, _launched(events, one), busy), times, within))
    device, start, end, kind, cause, row, transfer, group = (
        np.concatenate(column) for column in zip(*found, strict=True)
    )
    return Gaps(parts, device, start, end, kind, cause, _finest(events, causes, row, start, end), transfer, group)


def _nothing() -> Gaps:
    none, small = np.zeros(0, np.int64), np.zeros(0, np.int32)
    return Gaps((), small, none, none, small.astype(np.uint8), small, none, small, none)


def _window(spans: Sequence[Spans], *others: tuple[Int64s, Int64s]) -> tuple[int, int] | None:
    """From the first to the last of anything that the devices ran, and of the spans of others: the markers of steps,
    and what the host did for its devices."""
    first = extent(spans)
    if first is None:
        return None
    begin, end = first
    for begins, ends in others:
        has = begins < ends
        begin, end = int(begins[has].min(initial=begin)), int(ends[has].max(initial=end))
    return begin, end


def _named(events: HostEvents, causes: HostCauses) -> tuple[Int64s, Int64s]:
    """What the threads that drive devices do for them: compile, load data, copy. Clocks of TPUs are their own, so none
    of these counts there."""
    none = np.zeros(0, np.int64)
    if events.planes_of("TPU"):
        return none, none
    begins, ends = [none], [none]
    for line, role in zip(causes.lines, causes.role, strict=True):
        if role == DRIVER:
            rows = slice(line.first, line.last)
            named = _NAMED[causes.code[rows]]
            begins.append(events.start_ps[rows][named])
            ends.append(ends_of(events.start_ps[rows][named], events.duration_ps[rows][named]))
    return np.concatenate(begins), np.concatenate(ends)


def _shift(events: HostEvents, device: DeviceTime) -> Int64s:
    """By how much the host's clock is ahead of the device's when each stretch begins."""
    own = device.ran.events
    clock = events.start_ps[own.rows]
    if not len(clock) or np.array_equal(clock, own.start_ps):
        return np.zeros(len(device), np.int64)
    order = np.argsort(own.start_ps, kind="stable")
    place = np.maximum(np.searchsorted(own.start_ps[order], device.start_ps, side="right") - 1, 0)
    ahead: Int64s = (clock - own.start_ps)[order][place]
    return ahead


def _by_host_clock(devices: Sequence[DeviceTime], clocks: Sequence[Int64s]) -> tuple[int, int]:
    """The window in which any of the devices is, by the host's clock."""
    pairs = list(zip(devices, clocks, strict=True))
    begin = min(int((one.start_ps + shift).min()) for one, shift in pairs)
    return begin, max(int((one.end_ps + shift).max()) for one, shift in pairs)


# ---- the host


def _host_time(events: HostEvents, causes: HostCauses, begin_ps: int, end_ps: int) -> _HostTime:
    found = [np.zeros((0, 3), np.int64)]
    ranks = [np.zeros(0, np.int32)]
    for line, role in zip(causes.lines, causes.role, strict=True):
        pieces = causes.pieces(events, line)
        rank = _RANKS[role][causes.code[pieces["span"]]]
        keep = (rank < _UNUSED) & (pieces["begin"] < end_ps) & (pieces["end"] > begin_ps)
        if keep.any():
            found.append(pieces.view(np.int64).reshape(-1, 3)[keep])
            ranks.append(rank[keep])
    begin, end, row = np.concatenate(found).T
    order = np.argsort(begin, kind="stable")
    begin, end = np.ascontiguousarray(begin[order]), np.ascontiguousarray(end[order])
    chosen = np.frombuffer(foremost(begin, end, np.concatenate(ranks)[order], begin_ps, end_ps), PIECE)
    rows = np.append(row[order], -1)[chosen["span"]]
    codes = np.where(rows >= 0, causes.code[rows] if len(causes.code) else 0, 0).astype(np.uint8)
    return _HostTime(np.ascontiguousarray(chosen["begin"]), codes, rows)


def _any_busy(devices: Sequence[DeviceTime]) -> Stretches:
    """When any device computes or communicates."""
    parts = [(one.start_ps[busy], one.duration_ps[busy]) for one in devices for busy in [one.kind <= COMMUNICATION]]
    return union(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _launched(events: HostEvents, device: DeviceTime) -> tuple[Int64s, Int64s] | None:
    """When the work was launched that ends each idle stretch of a GPU, and the row of the call; (NEVER, -1) if that is
    unknown. None: the device is not a GPU."""
    own = device.ran.events
    if device.ran.plane.kind != "GPU" or not len(own.rows):
        return None
    launched, row, start = np.full(len(device), NEVER), np.full(len(device), -1, np.int64), own.start_ps
    idle = np.flatnonzero(device.kind[:-1] == IDLE)
    order = np.argsort(start, kind="stable")
    place = np.minimum(np.searchsorted(start[order], device.end_ps[idle]), len(order) - 1)
    calls = launches(events, own.rows[order[place]].astype(np.int64)).row
    known = (calls >= 0) & (start[order[place]] == device.end_ps[idle])
    launched[idle[known]], row[idle[known]] = events.start_ps[calls[known]], calls[known]
    return launched, row


# ---- pieces


@dataclass(frozen=True, slots=True)
class _Device:
    """What the pieces of a device are made of. ``shift_ps``: see _shift; ``launched``: see _launched; ``busy``: when
    any device of the host is."""

    time: DeviceTime
    shift_ps: Int64s
    launched: tuple[Int64s, Int64s] | None
    busy: Stretches


Columns = tuple[Int32s, Int64s, Int64s, UInt8s, Int32s, Int64s, Int32s, Int64s]


def _pieces(number: int, device: _Device, host: _HostTime, steps: Intervals) -> Columns:
    """The columns of Gaps of one device."""
    time = device.time
    start = _cuts(device, host, steps)
    end = np.append(start[1:], time.end_ps[-1:])
    stretch = _at(time.start_ps, start)
    kind, transfer = time.kind[stretch], time.transfer[stretch]
    at_host = np.where(kind >= WAIT, _at(host.begin_ps, start + device.shift_ps[stretch]), -1)
    code, row = np.append(host.code, 0)[at_host].astype(np.uint8), np.append(host.row, -1)[at_host]
    code[at_host < 0] = Code.NOTHING
    queued = np.zeros(len(start), np.bool_)
    if device.launched is not None:
        queued = (kind == IDLE) & (start >= device.launched[0][stretch])
    begins_late = (end < _last_work(time)) & (device.launched is None)
    at_busy = _at(device.busy[0], start)
    others = (kind == IDLE) & (time.duration_ps[stretch] > _LATENCY_PS) & (at_busy >= 0)
    others &= start < np.append(device.busy[1], 0)[at_busy]
    cause = _cause(kind, code, queued, begins_late, others)
    of_wait = np.array([_NUMBER[_OF_WAIT.get(one.waits_for, "idle")] for one in time.ran.transfers] or [0], np.int32)
    waits = (kind == WAIT) & ((cause == _NUMBER["idle"]) | (cause == _NUMBER["launch"]))
    cause[waits] = of_wait[transfer[waits]]
    said = (at_host >= 0) & ((_OF_CODE[code] == cause) | (code == Code.WAITS))
    row = np.where(said & ~queued, row, -1)
    if device.launched is not None:
        row = np.where(queued, device.launched[1][stretch], row)
    group = steps.group_at(start)
    first = np.ones(len(start), np.bool_)
    first[1:] = np.logical_or.reduce([one[1:] != one[:-1] for one in (stretch, cause, group)])
    longest = _longest(first, end - start)
    numbers = np.full(len(longest), number, np.int32)
    ends = np.append(start[first][1:], time.end_ps[-1:])
    return (numbers, start[first], ends, kind[first], cause[first], row[longest], transfer[first], group[first])


def _cuts(device: _Device, host: _HostTime, steps: Intervals) -> Int64s:
    """Where pieces begin: with stretches, with what the host does while the device waits or is idle, with steps,
    with what other devices do while this one is idle, and when the next work was launched."""
    time = device.time
    begin, last = int(time.start_ps[0]), int(time.end_ps[-1])
    clock = np.maximum.accumulate(time.start_ps + device.shift_ps)
    stretch = np.maximum(_at(clock, host.begin_ps), 0)
    chosen = time.kind[stretch] >= WAIT
    stretch, by_host = stretch[chosen], host.begin_ps[chosen] - device.shift_ps[stretch[chosen]]
    inside = (by_host > time.start_ps[stretch]) & (by_host < time.end_ps[stretch])
    idle = time.kind[np.maximum(_at(time.start_ps, device.busy[0]), 0)] == IDLE
    cuts = [time.start_ps, by_host[inside], steps.begin_ps, steps.end_ps, *(times[idle] for times in device.busy)]
    if device.launched is not None:
        launched = device.launched[0]
        cuts.append(launched[(launched > time.start_ps) & (launched < time.end_ps)])
    start = np.sort(np.concatenate(cuts), kind="stable")  # of parts that are sorted, mostly
    start = start[(start >= begin) & (start < last)]
    distinct: Int64s = start[np.append(True, start[1:] > start[:-1])]
    return distinct


def _longest(first: Bools, length: Int64s) -> Int64s:
    """Of each run of rows, which begin where ``first`` is set, the longest row, of equal ones the first."""
    found = np.flatnonzero(first)
    counts = np.diff(np.append(found, len(first)))
    several = np.flatnonzero(np.repeat(counts > 1, counts))
    if len(several):
        run = np.cumsum(first)[several] - 1
        order = np.lexsort((-length[several], run))
        heads = np.flatnonzero(counts > 1)
        found[heads] = several[order[np.searchsorted(run[order], heads)]]
    return found


def _finest(events: HostEvents, causes: HostCauses, row: Int64s, start: Int64s, end: Int64s) -> Int64s:
    """The events that explain pieces. Those of Python and of input pipelines say little from afar: of what is in them,
    the innermost that lasts for half of the piece or more does, in a pipeline the innermost stage. Such an event is
    open in the middle of the piece."""
    found, code = row.copy(), causes.code
    known = np.flatnonzero((row >= 0) & np.isin(code[row], (Code.PYTHON, Code.INPUT)))
    if not len(known):
        return found
    outer, begin, stop = row[known], start[known], end[known]
    parent = causes.origins.parent
    at = _innermost(events, causes, outer, begin + (stop - begin) // 2)
    while True:
        event_end = ends_of(events.start_ps[at], np.maximum(events.duration_ps[at], 0))
        covered = np.minimum(event_end, stop) - np.maximum(events.start_ps[at], begin)
        fits = (2 * covered >= stop - begin) & ((code[outer] == Code.PYTHON) | (code[at] == Code.INPUT))
        up = np.flatnonzero(~fits & (at != outer) & (parent[at] >= 0))
        if not len(up):
            break
        at[up] = parent[at[up]]
    outer_end = ends_of(events.start_ps[outer], np.maximum(events.duration_ps[outer], 0))
    fits &= (at >= outer) & (events.start_ps[at] < outer_end)
    found[known[fits]] = at[fits]
    return found


def _innermost(events: HostEvents, causes: HostCauses, row: Int64s, time: Int64s) -> Int64s:
    """The last event that has begun at a time on the thread of each row."""
    lines = sorted(causes.lines, key=lambda line: line.first)
    firsts = np.array([line.first for line in lines])
    of = np.searchsorted(firsts, row, side="right") - 1
    at = np.empty(len(row), np.int64)
    for number in np.unique(of).tolist():
        line, mine = lines[number], of == number
        at[mine] = line.first + np.searchsorted(events.start_ps[line.first : line.last], time[mine], "right") - 1
    return at


def _at(begins: Int64s, times: Int64s) -> Int64s:
    """The place of the last of these begins that is not after each time; -1: all are."""
    return np.searchsorted(begins, times, side="right") - 1


def _last_work(device: DeviceTime) -> int:
    """The end of what the device ran last."""
    busy = np.flatnonzero(device.kind != IDLE)
    return int(device.end_ps[busy[-1]]) if len(busy) else int(device.start_ps[0])


def _cause(kind: UInt8s, code: UInt8s, queued: Bools, begins_late: Bools, others: Bools) -> Int32s:
    """The cause of each piece. ``queued``: its next work was launched before; ``begins_late``: if the host
    waits for the device, that is about to begin; ``others``: another device is busy meanwhile."""
    cause = _OF_CODE[code]
    vague = queued | (cause == NO_CAUSE)
    waits_to_begin = queued | ((code == Code.WAITS) & begins_late)
    cause = np.where(vague, np.where(waits_to_begin, _NUMBER["launch"], _NUMBER["idle"]), cause)
    cause = np.where(vague & others, _NUMBER["straggler"], cause)
    cause = np.where(kind == COMPUTE, NO_CAUSE, cause)
    cause = np.where(kind == COMMUNICATION, _NUMBER["communication"], cause)
    return np.where(kind == COPY, _NUMBER["transfer"], cause).astype(np.int32)
