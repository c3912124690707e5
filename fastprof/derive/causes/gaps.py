"""Gaps: why devices do not compute. Their idle time, and the time in which they wait for their host, cut wherever the
host's threads begin to do something else; and the window of the run that shares are of.

Of several threads that do something known, the one that drives the device counts first, then those that launch for it.
What only launches counts less. Python counts less still if nothing else is known of it, because it may run beside the
launches; last count threads that neither drive nor launch, unless the driving thread waits. Time after the call that
launched the next work is not the host's: the device waits for that work to begin.

    driver      |-input-|PPPPPPPPP|-launch-|     wait     |      P: Python
    worker                  |-compile-|
    device   ==|                              |=kernel=|
    gap        |-input--|P-|-compile--|-----launch----|      queue, if that takes longer than a launch does

A GPU runs work in the order of its launches, so the work of a lost launch lies between those launched before and after:
nothing shows that the GPU idled there.

    launches     a   b x   c        x: its kernel is not recorded
    GPU          |=a=|=b=|   ?   |=c=|

While a device waits for input or Python of its host, other threads launch, copy or compile, or another device works.
Without the input the device would wait for that, so less is saved than the input takes. Calls of the driver only wait
while another thread loads.

    driver      |-------input-------|-launch-|
    worker             |-compile-|
    device   ==|                             |=kernel=|
    concurrent         |---------|

While the program evaluates, logs or saves, all device time counts as that, compute included. Of devices that run behind
their host, compute counts from the first work that it launches to the last.

    driver   |-train-|-------evaluate-------|-train-|
    device       |==train==|..|==evaluate==|..|==train==|
    counts                 |-------------------|
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from fastprof._native.cause_kernels import foremost, gap_pieces
from fastprof.derive.causes.cause_names import GAP_CAUSES
from fastprof.derive.devices.device_events import sort_op_events
from fastprof.derive.devices.op_names import is_kineto
from fastprof.derive.ops.device_time import (
    COMMUNICATION,
    COMPUTE,
    CORE,
    HOST,
    INFEED,
    IS_IDLE,
    OUTFEED,
    WAIT,
    DeviceSpans,
    DeviceTime,
    divide_device_time,
    find_extent_of_spans,
    make_span_records,
)
from fastprof.derive.ops.launches import find_launches, find_waits_before
from fastprof.derive.steps.event_graph import PIECE
from fastprof.derive.steps.event_origin import Origin, has_line, is_built_in
from fastprof.derive.steps.grouping import NEVER, find_step_markers
from fastprof.derive.steps.host_calls import find_function_within, find_loader_calls, find_op_runs
from fastprof.derive.steps.host_causes import (
    CAUSE_OF,
    DRIVER,
    INPUT_THREADS,
    OTHER,
    OTHER_WORK,
    RANKS,
    Code,
    HostCauses,
    OtherWork,
    find_other_work,
)
from fastprof.schema.columns import (
    Bools,
    DisjointSpans,
    Int64s,
    Records,
    UInt8s,
    add_durations,
    create_empty_spans,
    find_last_started,
    measure_covered_time,
    merge_spans,
    number_values,
    sort_rows,
    take_rows,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents, find_lines

if TYPE_CHECKING:
    from fastprof.derive.host import Host
    from fastprof.derive.ops.device_time import DeviceEvents
    from fastprof.derive.steps.grouping import Groups
    from fastprof.derive.steps.host_steps import Periods


@dataclass(frozen=True, slots=True)
class StepIntervals:
    """Disjoint, in order of time. ``group``: of each, the group of events that is the step."""

    group: Int64s
    begin_ps: Int64s
    end_ps: Int64s


def make_step_intervals(periods: Periods, device: str) -> StepIntervals:
    """Return the steps of a device, in order of time: periods, disjoint."""
    begin, end = periods.of_device(device)
    lasts = end > begin
    order = np.flatnonzero(lasts)[np.argsort(begin[lasts], kind="stable")]
    begin, end = begin[order], end[order]
    return StepIntervals(periods.step[order].astype(np.int64), begin, np.minimum(end, np.append(begin[1:], NEVER)))


_FIRST, _LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def mark_lost_time(events: HostEvents, device: DeviceTime, pieces: Records, cause: int, lost_ps: Int64s) -> Records:
    """Return the pieces with ``cause`` where they are idle time with lost work. ``lost_ps``: when work was launched
    that is not recorded, ascending."""
    if device.ran.plane.kind != "GPU" or not len(lost_ps) or not len(pieces):
        return pieces
    idle = np.flatnonzero(device.state == IS_IDLE)
    own = device.ran.events
    order = np.argsort(own.start_ps, kind="stable")
    launched = own.start_ps[order]
    call = find_launches(events, own.rows[order].astype(np.int64)).row
    called = np.where(call >= 0, events.start_ps[call], launched)  # if no call is recorded, when the event began
    del order, call
    place = np.searchsorted(launched, device.end_ps[idle])
    before = np.append(_FIRST, np.maximum.accumulate(called))[place]
    after = np.minimum(np.append(called, _LAST)[place], device.end_ps[idle])
    some = np.searchsorted(lost_ps, after) > np.searchsorted(lost_ps, before, side="right")
    begins, ends = device.start_ps[idle[some]], device.end_ps[idle[some]]
    at = find_last_started(begins, pieces["begin"])
    within = (at >= 0) & (pieces["end"] <= np.append(ends, _FIRST)[at])
    pieces = pieces.copy()
    pieces["cause"][within], pieces["row"][within] = cause, -1
    return pieces


GAP: Final = np.dtype([
    ("begin", "i8"), ("end", "i8"), ("row", "i8"), ("group", "i4"), ("transfer", "i4"), ("cause", "i4"), ("kind", "i4"),
])  # fmt: skip
"""The struct of csrc/kernels/gap_pieces.h; a test compares its size with C's. ``cause``: place in GAP_CAUSES, NO_CAUSE
for compute; ``row``: the host event that explains the piece, or -1; ``group``: group of the step, or -1 between steps;
``transfer``: place in the device's transfers, or -1; ``kind``: see KINDS of derive/ops/device_time.py."""
NO_CAUSE: Final = len(GAP_CAUSES)
"""The number of the cause of compute: it has none."""
_NUMBER: Final = {cause: number for number, cause in enumerate(GAP_CAUSES)}
_OF_CODE: Final = np.full(256, NO_CAUSE, np.int32)
_OF_CODE[list(CAUSE_OF)] = [_NUMBER[cause] for cause in CAUSE_OF.values()]
_CAUSES: Final = (
    NO_CAUSE, _NUMBER["idle"], _NUMBER["launch"], _NUMBER["straggler"], _NUMBER["communication"], _NUMBER["transfer"],
    _NUMBER["queue"], _NUMBER["between_kernels"],
)  # fmt: skip
"""Causes that do not follow from what the host does, as gap_pieces takes them."""
_OF_WAIT: Final = {INFEED: "input", OUTFEED: "transfer", HOST: "callback", CORE: "straggler"}
"""The causes of waits, if the host does nothing known."""

_LATENCY_PS: Final = 30_000_000
"""Work that begins at most so long after it was launched, or after the work before it, is not late."""

_NEVER_BUSY: Final = np.zeros((0, 2), np.int64)
"""Devices that exchange nothing do not wait for each other."""

_NAMED: Final = np.isin(np.arange(len(Code)), [
    Code.INPUT, Code.INPUT_WORDS, Code.TRANSFER, Code.COMPILATION, Code.FIRST_CALL, Code.CHECKPOINT,
])  # fmt: skip
"""What the host does for devices: the run begins with it, even if no device has run anything yet."""


@dataclass(frozen=True, slots=True)
class DeviceGaps:
    """``pieces``: GAP, those of the device's window, which add up to it, in order of time; ``beside_ps``: of each, the
    time that something else fills, see meanwhile; ``apart_ps``: the time between steps, as far as neither their markers
    nor what the device runs for them reaches."""

    time: DeviceTime
    pieces: Records
    beside_ps: Int64s
    apart_ps: Int64s


def find_host_gaps(
    events: HostEvents,
    groups: Groups,
    periods: Periods,
    spans: Sequence[DeviceSpans],
    causes: HostCauses,
    host: Records,
    lost_ps: Int64s | None = None,
) -> Iterator[DeviceGaps]:
    """Yield the gaps of a host's devices, which ran ``spans``, by the ``periods`` of its steps. ``groups``: those that
    make the steps; ``host``: what the host does at any time, PIECE; ``lost_ps``: when work was launched that is not
    recorded, ascending. CaptureError: times of a device are more than 64 bits can count."""
    steps = np.sort(periods.step)
    marked = find_step_markers(events, groups, steps)
    window = find_window(events, periods.and_spans(marked), spans, causes)
    if window is None:
        return
    times = [divide_device_time(events.host, span, *window) for span in spans]
    clocks = [measure_clock_lead(events, time) for time in times]
    works = _find_any_busy(times, *window)
    busy = works if any((time.kind == COMMUNICATION).any() for time in times) else _NEVER_BUSY
    work = find_work_beside_training(events, causes)
    waiting = _find_waiting(times, clocks)  # only what the host does meanwhile counts
    next_begin = np.append(waiting[:, 0], _LAST)[np.searchsorted(waiting[:, 1], host["begin"], side="right")]
    meanwhile = ConcurrentWork.of(events, causes, host[next_begin < host["end"]], works)
    del waiting, next_begin
    for time, ahead in zip(times, clocks, strict=True):
        within = make_step_intervals(periods, time.ran.name)
        device = _Device(time, ahead, _find_launched(events, time), busy)
        pieces = _mark_op_runs(
            events, _mark_silence(events, causes, time, _cut_pieces(device, host, causes.code, within))
        )
        pieces = work.apply(events, time, ahead, pieces)
        if lost_ps is not None:
            pieces = mark_lost_time(events, time, pieces, _NUMBER["lost_records"], lost_ps)
        beside_ps = meanwhile.beside(pieces, time.start_ps, ahead)
        apart_ps = _measure_outside_steps(pieces, groups, steps, time.ran.events, marked if ahead is None else None)
        pieces = _without_markers(causes, _mark_loaders(events, _refine_explanations(events, causes, pieces)))
        yield DeviceGaps(time, pieces, beside_ps, apart_ps)


def _measure_outside_steps(
    pieces: Records, groups: Groups, steps: Int64s, ran: DeviceEvents, marked: tuple[Int64s, Int64s] | None
) -> Int64s:
    """Return the time of each piece outside of all steps: of each from the begin of its marker, or of its first event
    on the device if that is earlier, to the end of both. ``marked``: see find_step_markers; None on another clock."""
    begin, end = np.full(len(steps), NEVER), np.full(len(steps), -NEVER)
    if marked is not None:
        begin, end = marked[0].copy(), marked[1].copy()
    if len(steps) and len(ran.rows):
        slot = np.full(groups.count + 1, -1, np.int64)  # the last is for events of no group
        slot[steps] = np.arange(len(steps))
        place = slot[take_rows(groups.group_id, ran.rows)]
        mine = place >= 0
        np.minimum.at(begin, place[mine], ran.start_ps[mine])
        np.maximum.at(end, place[mine], ran.end_ps[mine])
    lasts = begin < end
    within = merge_spans(begin[lasts], end[lasts] - begin[lasts])
    duration = pieces["end"] - pieces["begin"]
    apart: Int64s = duration - measure_covered_time(within, np.ascontiguousarray(pieces["begin"]), duration)
    return apart


def find_window(
    events: HostEvents, steps: tuple[Int64s, Int64s], spans: Sequence[DeviceSpans], causes: HostCauses
) -> tuple[int, int] | None:
    """Return the first begin and the last end of device work, of ``steps`` and of host work for the devices, or None if
    no device work is recorded. ``steps``: begins and ends of their markers or periods."""
    first = find_extent_of_spans(spans)
    if first is None:
        return None
    begin, end = first
    for begins, ends in (steps, _find_named_work(events, causes)):
        has = begins < ends
        begin, end = int(begins[has].min(initial=begin)), int(ends[has].max(initial=end))
    return begin, end


def _find_named_work(events: HostEvents, causes: HostCauses) -> tuple[Int64s, Int64s]:
    """Return spans of what the threads that drive devices do for them: compile, load data, copy. TPUs have clocks of
    their own, so nothing counts there. Nothing counts while the profiler starts or stops: it loads and saves, too, and
    so seems the ``next`` of a context that calls it."""
    none = np.zeros(0, np.int64)
    if events.planes_of("TPU"):
        return none, none
    begins, ends = [none], [none]
    for line, role in zip(causes.lines, causes.role, strict=True):
        if role == DRIVER:
            rows = slice(line.first, line.last)
            code, begin = causes.code[rows], events.start_ps[rows]
            end = add_durations(begin, events.duration_ps[rows])
            of_profiler = code == Code.PROFILER
            reached = np.append(_FIRST, np.maximum.accumulate(end[of_profiler]))
            profiled = reached[np.searchsorted(begin[of_profiler], end)] > begin
            named = _NAMED[code] & ~profiled
            begins.append(begin[named])
            ends.append(end[named])
    return np.concatenate(begins), np.concatenate(ends)


def measure_clock_lead(events: HostEvents, device: DeviceTime) -> Int64s | None:
    """Return by how much the host clock is ahead of the device clock when each interval begins, or None if they are one
    clock."""
    own = device.ran.events
    ahead = take_rows(events.start_ps, own.rows) - own.start_ps
    if not ahead.any():
        return None
    order = sort_op_events(events, device.ran.plane)  # only cores of TPUs have a clock of their own
    ahead = ahead[order]
    changes = np.flatnonzero(ahead[1:] != ahead[:-1]) + 1
    passed = np.searchsorted(own.start_ps[order[changes]], device.start_ps, side="right")
    ahead_ps: Int64s = ahead[np.append(0, changes)][passed]
    return ahead_ps if ahead_ps.any() else None


def _find_waiting(devices: Sequence[DeviceTime], clocks: Sequence[Int64s | None]) -> Int64s:
    """Return [k, 2] begin and end of the intervals in which any device waits or is idle, by the host clock."""
    begins, ends = [], []
    for device, ahead in zip(devices, clocks, strict=True):
        waits = np.flatnonzero(device.kind >= WAIT)
        shift = np.int64(0) if ahead is None else ahead[waits]
        begins.append(device.start_ps[waits] + shift)
        ends.append(device.end_ps[waits] + shift)
    begin, end = np.concatenate(begins), np.concatenate(ends)
    return np.stack(merge_spans(begin, end - begin), axis=1)


def _find_any_busy(devices: Sequence[DeviceTime], begin_ps: int, end_ps: int) -> Int64s:
    """Return [k, 2] when any of several devices computes or communicates."""
    if len(devices) == 1:
        return _NEVER_BUSY
    parts = []
    for device in devices:
        busy = device.kind <= COMMUNICATION
        changes = np.flatnonzero(busy[1:] != busy[:-1]) + 1
        bounds = np.concatenate([device.start_ps[:1], device.start_ps[changes], [device.last_ps]])
        bounds = bounds[0 if busy[:1].any() else 1 :]
        parts.append(make_span_records(bounds[: len(bounds) // 2 * 2 : 2], bounds[1::2], 0, 0))
    pieces = np.frombuffer(foremost(np.concatenate(parts), begin_ps, end_ps), PIECE)
    pieces = pieces[pieces["label"] == 0]
    return np.stack([pieces["begin"], pieces["end"]], axis=1)


@dataclass(frozen=True, slots=True)
class _LaunchedWork:
    """The work that ends each idle interval of a GPU. ``begin_ps``, ``end_ps``: times of the call that launched it, or
    NEVER if unknown; ``call``, ``work``: the rows of both, or -1 if unknown."""

    begin_ps: Int64s
    end_ps: Int64s
    call: Int64s
    work: Int64s


def _find_launched(events: HostEvents, device: DeviceTime) -> _LaunchedWork | None:
    """Return the work that ends idle intervals, or None if the device is not a GPU."""
    own = device.ran.events
    if device.ran.plane.kind != "GPU" or not (own.end_ps > own.start_ps).any():
        return None
    begin, end = np.full((2, len(device)), NEVER)
    call, work = np.full((2, len(device)), -1, np.int64)
    idle, ends = np.flatnonzero(device.state[:-1] == IS_IDLE), device.end_ps
    lasting = np.flatnonzero(own.end_ps > own.start_ps)  # others end no gap
    order, start = lasting[np.argsort(own.start_ps[lasting], kind="stable")], own.start_ps
    place = np.minimum(np.searchsorted(start[order], ends[idle]), len(order) - 1)
    begins = start[order[place]] == ends[idle]
    idle, rows = idle[begins], own.rows[order[place[begins]]].astype(np.int64)
    work[idle] = rows
    launches = find_launches(events, rows)
    known, calls = idle[launches.row >= 0], launches.row[launches.row >= 0]
    call[known], begin[known] = calls, events.start_ps[calls]
    end[known] = add_durations(begin[known], np.maximum(events.duration_ps[calls], 0))
    begin[idle[launches.before]] = end[idle[launches.before]] = -NEVER
    return _LaunchedWork(begin, end, call, work)


# ---- pieces


@dataclass(frozen=True, slots=True)
class _Device:
    """What the pieces of a device are made of. ``ahead_ps``: see _measure_clock_lead; ``busy``: see _find_any_busy."""

    time: DeviceTime
    ahead_ps: Int64s | None
    launched: _LaunchedWork | None
    busy: Int64s


def _cut_pieces(device: _Device, host: Records, codes: UInt8s, steps: StepIntervals) -> Records:
    """Return the pieces (GAP) of a device. ``host``: which event says what the host does, as PIECE."""
    time, transfers, launched = device.time, device.time.ran.transfers, device.launched
    calls = (None,) * 4 if launched is None else (launched.begin_ps, launched.end_ps, launched.call, launched.work)
    if not len(time):
        return np.zeros(0, GAP)
    gaps = gap_pieces(
        (time.start_ps, time.state, device.ahead_ps, *calls),
        (
            np.array([transfer.kind for transfer in transfers], np.uint8),
            np.array([_NUMBER[_OF_WAIT.get(transfer.waits_for, "idle")] for transfer in transfers], np.int32),
        ),
        (host, codes, _OF_CODE, int(Code.WAITS)),
        device.busy,
        (np.stack([steps.begin_ps, steps.end_ps], axis=1), steps.group),
        time.last_ps,
        (_find_last_end(time), _LATENCY_PS),
        _CAUSES,
    )
    return np.frombuffer(gaps, GAP)


def _mark_silence(events: HostEvents, causes: HostCauses, device: DeviceTime, pieces: Records) -> Records:
    """Mark silence in pieces of a GPU that PyTorch drives without recorded Python frames: what lies in an annotation
    and in no op. If the GPU became idle while the host waited for it, that wait explains the silence: nothing was
    launched ahead. After the last work of the device, nothing shows that it waits."""
    is_silent = device.ran.plane.kind == "GPU" and is_kineto(events) and not causes.origins.names[Origin.PYTHON].any()
    if not is_silent or not len(pieces):
        return pieces
    pieces = pieces.copy()
    silent = pieces["cause"] == _NUMBER["python"]
    after = pieces["begin"] >= _find_last_end(device)
    pieces["cause"][silent] = _NUMBER["silent"]
    pieces["cause"][after & (silent | (pieces["cause"] == _NUMBER["idle"]))] = _NUMBER["tail"]
    pieces["row"][silent & (causes.code[pieces["row"]] == Code.PYTHON)] = -1
    idle = device.state == IS_IDLE
    waits = find_waits_before(events, device.start_ps[idle], device.end_ps[idle], pieces["begin"][silent])
    pieces["row"][silent] = np.where(waits >= 0, waits, pieces["row"][silent])
    return pieces


def _mark_op_runs(events: HostEvents, pieces: Records) -> Records:
    """Mark pieces in a run of short ops as launching, whatever Python does between these; what calls the ops explains
    it."""
    runs = find_op_runs(events)
    if not len(runs):
        return pieces
    run = runs.of_time(pieces["begin"], pieces["end"])
    some = (run >= 0) & np.isin(pieces["cause"], [_NUMBER[cause] for cause in ("launch", "python", "idle")])
    pieces = pieces.copy()
    pieces["cause"][some], pieces["row"][some] = _NUMBER["launch"], runs.site[run[some]]
    return pieces


def _mark_loaders(events: HostEvents, pieces: Records) -> Records:
    """Explain pieces that wait for a PyTorch DataLoader by the program's own function that takes most of the wait."""
    if not len(find_loader_calls(events).rows):
        return pieces
    input_ = np.flatnonzero((pieces["cause"] == _NUMBER["input"]) & (pieces["row"] >= 0))
    function = find_function_within(events, pieces["begin"][input_], pieces["end"][input_])
    pieces = pieces.copy()
    pieces["row"][input_[function >= 0]] = function[function >= 0]
    return pieces


def _refine_explanations(events: HostEvents, causes: HostCauses, pieces: Records) -> Records:
    """Explain pieces by the events that explain them best. Python and input pipeline events say little from afar: the
    innermost event in them that lasts for half of the piece or more does, in a pipeline the innermost stage, in
    ``next`` and other built-in functions that load data the innermost function with a source line. Such an event is
    open in the middle of the piece."""
    row, code = pieces["row"], causes.code
    known = np.flatnonzero(row >= 0)
    words = code[row[known]] == Code.INPUT_WORDS
    words[words] = _match_names(events, row[known][words], is_built_in)
    known = known[words | np.isin(code[row[known]], (Code.PYTHON, Code.INPUT))]
    if not len(known):
        return pieces
    outer, begin, stop = row[known], pieces["begin"][known], pieces["end"][known]
    parent = causes.origins.parent
    lines, middle = sorted(causes.lines, key=lambda line: line.first), begin + (stop - begin) // 2
    of_line, at = find_lines(lines, outer), np.empty(len(outer), np.int64)
    for number in np.unique(of_line).tolist():  # the last event that has begun on the thread
        line, mine = lines[number], of_line == number
        at[mine] = line.first + np.searchsorted(events.start_ps[line.first : line.last], middle[mine], "right") - 1
    del of_line, middle
    words = code[outer] == Code.INPUT_WORDS
    while True:
        event_end = add_durations(events.start_ps[at], np.maximum(events.duration_ps[at], 0))
        covered = np.minimum(event_end, stop) - np.maximum(events.start_ps[at], begin)
        fits = (2 * covered >= stop - begin) & ((code[outer] == Code.PYTHON) | (code[at] == Code.INPUT))
        fits[words] = 2 * covered[words] >= (stop - begin)[words]
        fits[words] &= _match_names(events, at[words], has_line)
        up = np.flatnonzero(~fits & (at != outer) & (parent[at] >= 0))
        if not len(up):
            break
        at[up] = parent[at[up]]
    outer_end = add_durations(events.start_ps[outer], np.maximum(events.duration_ps[outer], 0))
    fits &= (at >= outer) & (events.start_ps[at] < outer_end)
    pieces = np.require(pieces, requirements="W")  # a copy of all pieces would cost more than the search
    pieces["row"][known[fits]] = at[fits]
    return pieces


def _without_markers(causes: HostCauses, pieces: Records) -> Records:
    """Clear step markers from pieces: they enclose everything the host does in a step."""
    marker = np.isin(pieces["row"], causes.marked[causes.code[causes.marked] == Code.PYTHON])
    if not marker.any():
        return pieces
    pieces = np.require(pieces, requirements="W")
    pieces["row"][marker] = -1
    return pieces


def longest_loading(events: HostEvents, causes: HostCauses, host: Records) -> tuple[str | None, int]:
    """Return the name of the event that takes most of the time in which a host loads input, as gaps name it, and that
    time. ``host``: what the host does at any time, PIECE."""
    loads = host[host["label"] >= 0]
    loads = loads[_OF_CODE[causes.code[loads["label"]]] == _NUMBER["input"]]
    if not len(loads):
        return None, 0
    pieces = np.zeros(len(loads), GAP)
    pieces["cause"] = _NUMBER["input"]
    for name, of in (("begin", "begin"), ("end", "end"), ("row", "label")):
        pieces[name] = loads[of]
    pieces = _mark_loaders(events, _refine_explanations(events, causes, pieces))
    times = np.zeros(len(events.names), np.int64)
    np.add.at(times, events.meta[pieces["row"]], pieces["end"] - pieces["begin"])
    most = int(times.argmax())
    return events.names[most], int(times[most])


def _match_names(events: HostEvents, row: Int64s, says: Callable[[str], bool]) -> Bools:
    """Return what ``test`` says of the name of each event."""
    metas, place = number_values(events.meta[row])
    answers = np.array([says(events.names[meta]) for meta in metas.tolist()], np.bool_)
    return answers[place.reshape(-1)] if len(metas) else np.zeros(0, np.bool_)


def _find_last_end(device: DeviceTime) -> int:
    """Return the end of what the device ran last."""
    busy = np.flatnonzero(device.state[-2:] != IS_IDLE)  # of neighbours, one is not idle
    if not len(busy):
        return int(device.start_ps[0])
    return int(device.end_ps[-2:][busy[-1]])


RUN_WINDOW_WORDS: Final = (
    "from the first to the last step, device work, or host work for devices, as in the gaps analysis; without any of "
    "these, from the first to the last event of the host's threads"
)


def find_run_window(host: Host, source: str, ran: Sequence[DeviceSpans]) -> tuple[int, int]:
    """Return begin and end of the run, or 0 and 0 without any events. ``source``: of steps; ``ran``: device work."""
    events, causes = host.events, host.causes_from(source)
    periods = host.periods_from(source)
    begin, end = periods.and_spans(find_step_markers(events, host.groups_from(source), np.sort(periods.step)))
    window = find_window(events, (begin, end), ran, causes)
    if window is not None:
        return window
    has = begin < end
    if not has.any():
        rows = np.flatnonzero(causes.origins.origin != Origin.NONE)
        begin = events.start_ps[rows]
        end = add_durations(begin, np.maximum(events.duration_ps[rows], 0))
        has = begin < end
    return (int(begin[has].min()), int(end[has].max())) if has.any() else (0, 0)


# ---- work beside waits, and other than training

HIDES: Final = ("input", "python")
"""Causes that count although something else goes on."""
_WAIT_NUMBERS: Final = [GAP_CAUSES.index(cause) for cause in HIDES]
_CODES: Final = [code for code, cause in CAUSE_OF.items() if cause in HIDES]
_WITHOUT: Final = RANKS.copy()
_WITHOUT[:, [*_CODES, Code.LOCK, Code.WAITS, Code.PROFILER]] = 255
_WITHOUT[OTHER] = 255
"""RANKS if neither input nor Python nor waits count, nor threads that neither drive devices nor launch for them."""
_WITHOUT_DRIVERS: Final = _WITHOUT.copy()
_WITHOUT_DRIVERS[DRIVER] = 255
"""Ranks while another thread loads input or runs Python, and so the thread that drives devices waits in its calls."""


@dataclass(frozen=True, slots=True)
class ConcurrentWork:
    """``host``: when threads do something else; ``devices``: when any device works."""

    host: DisjointSpans
    devices: DisjointSpans

    @classmethod
    def of(cls, events: HostEvents, causes: HostCauses, host: Records, busy: Int64s) -> ConcurrentWork:
        """Select concurrent work. ``host``: what the host does, as PIECE; ``busy``: [k, 2], when any of several devices
        works."""
        host = host[host["label"] >= 0]
        hides = host[np.isin(causes.code[host["label"]], _CODES)]
        if not len(hides):
            return cls(create_empty_spans(), create_empty_spans())
        feeds = [line.name.startswith(INPUT_THREADS) for line in causes.lines]
        roles = tuple(OTHER if feed else role for feed, role in zip(feeds, causes.role, strict=True))
        drives = sorted((line.first, role == DRIVER) for line, role in zip(causes.lines, causes.role, strict=True))
        lines = sorted(causes.lines, key=lambda line: line.first)
        waiting = np.array([is_driver for _, is_driver in drives], np.bool_)[find_lines(lines, hides["label"])]
        others = np.concatenate([
            replace(causes, role=roles).foremost(events, ranks, np.stack(merge_spans(begin, end - begin), axis=1))
            for ranks, chosen in ((_WITHOUT, waiting), (_WITHOUT_DRIVERS, ~waiting))
            for begin, end in [(hides["begin"][chosen], hides["end"][chosen])]
        ])  # fmt: skip
        begin, end = (others[name][others["label"] >= 0] for name in ("begin", "end"))
        return cls(merge_spans(begin, end - begin), (busy[:, 0].copy(), busy[:, 1].copy()))

    def beside(self, pieces: Records, start_ps: Int64s, ahead_ps: Int64s | None) -> Int64s:
        """Return how much of each piece of a device (GAP) something else fills, or 0 for other causes. ``ahead_ps``: by
        how much the host clock is ahead of the device clock from each of ``start_ps``, or None if they are one
        clock."""
        filled = np.zeros(len(pieces), np.int64)
        rows = np.flatnonzero(np.isin(pieces["cause"], _WAIT_NUMBERS) & (pieces["row"] >= 0))
        begin, length = pieces["begin"][rows], pieces["end"][rows] - pieces["begin"][rows]
        if ahead_ps is not None:
            shift = ahead_ps[find_last_started(start_ps, begin)]
            filled[rows] = measure_covered_time(self.host, begin + shift, length)
        elif len(rows):
            (begins, until), (other, last) = self.host, self.devices
            starts, ends = np.concatenate([begins, other]), np.concatenate([until, last])
            filled[rows] = measure_covered_time(merge_spans(starts, ends - starts), begin, length)
        return filled


_WORK_NUMBERS: Final = np.zeros(256, np.int32)
_WORK_NUMBERS[list(OTHER_WORK)] = [GAP_CAUSES.index(cause) for cause in OTHER_WORK.values()]


@dataclass(frozen=True, slots=True)
class WorkBesideTraining:
    """Spans of work other than training. ``work``: on threads; ``cause``: place in GAP_CAUSES of each span."""

    work: OtherWork
    cause: Int64s

    def of_device(self, events: HostEvents, device: DeviceTime, ahead: Int64s | None) -> tuple[Int64s, Int64s]:
        """Return from when to when the device computes for each span: nothing if the span launches nothing."""
        if device.ran.plane.kind != "GPU" or ahead is not None:
            return np.minimum(self.work.first_ps, self.work.end_ps), self.work.end_ps
        own = device.ran.events
        known = find_launches(events, own.rows.astype(np.int64)).row
        start = np.where(known >= 0, events.start_ps[known], np.iinfo(np.int64).min)
        place = find_last_started(self.work.begin_ps, start)
        inside = (place >= 0) & (start < self.work.end_ps[place])
        begin, end = self.work.end_ps.copy(), self.work.end_ps.copy()
        begin[place[inside]] = np.iinfo(np.int64).max
        end[place[inside]] = np.iinfo(np.int64).min
        np.minimum.at(begin, place[inside], own.start_ps[inside])
        np.maximum.at(end, place[inside], own.end_ps[inside])
        return begin, end

    def apply(self, events: HostEvents, device: DeviceTime, ahead: Int64s | None, pieces: Records) -> Records:
        """Return the pieces (GAP) of a device, cut at the spans, with the causes of these. ``ahead``: by how much the
        host clock is ahead of the device clock, or None if they are one clock."""
        if not len(self.work.row) or not len(pieces):
            return pieces
        shift = 0 if ahead is None else int(np.median(ahead))
        pieces = self._given(pieces, self.work.begin_ps - shift, self.work.end_ps - shift, pieces["kind"] != COMPUTE)
        begin, end = self.of_device(events, device, ahead)
        return self._given(pieces, begin - shift, end - shift, pieces["kind"] == COMPUTE)

    def _given(self, pieces: Records, begin: Int64s, end: Int64s, chosen: Bools) -> Records:
        """Return the pieces; the chosen ones are cut at the spans, and get their causes and events."""
        begin = np.maximum(begin, np.append(begin[:1], np.maximum.accumulate(end)[:-1]))
        end = np.maximum(begin, end)
        bounds = np.unique(np.concatenate([begin, end]))
        at = find_last_started(pieces["begin"], bounds)
        cuts = (at >= 0) & (bounds > pieces["begin"][at]) & (bounds < pieces["end"][at]) & chosen[at]
        of = np.concatenate([np.arange(len(pieces)), at[cuts]])
        starts = np.concatenate([pieces["begin"], bounds[cuts]])
        order = sort_rows(of, starts)
        cut: Records = pieces[of[order]]
        starts = starts[order]
        cut["begin"] = starts
        again = of[order][1:] == of[order][:-1]
        cut["end"][:-1][again] = starts[1:][again]
        span = find_last_started(begin, starts)
        inside = chosen[of[order]] & (span >= 0) & (starts < end[span])
        cut["cause"][inside] = self.cause[span[inside]]
        cut["row"][inside] = self.work.row[span[inside]]
        return cut


def find_work_beside_training(events: HostEvents, causes: HostCauses) -> WorkBesideTraining:
    """Return when the threads that drive devices do other work than training, and its causes."""
    work = find_other_work(events, causes)
    return WorkBesideTraining(work, _WORK_NUMBERS[causes.code[work.row]].astype(np.int64))
