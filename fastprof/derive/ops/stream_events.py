"""GPU streams: what they ran and which call launched it, queue lengths, launch delays, and copies with their bandwidth.

A queue grows where the host calls a launch, and shrinks where the kernel begins::

    host       | launch a | launch b | launch c |
    stream 7          |-- a --|-- b --|-- c --|
    queue      1      0  1    0  ...
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from types import SimpleNamespace
from typing import Final

import numpy as np

from fastprof.decode.import_log import LogRow
from fastprof.derive.ops.gpu_kernels import classify_copy, parse_copy_bytes
from fastprof.derive.ops.launches import find_known_calls, find_launchers, find_launches
from fastprof.derive.ops.op_table import compute_quartiles, measure_deviations
from fastprof.derive.steps.step_database import EventType
from fastprof.derive.steps.step_events import classify_gpu_name
from fastprof.schema.columns import (
    ArrayRows,
    Bools,
    Float64s,
    Int32s,
    Int64s,
    UInt8s,
    add_durations,
    find_rows_within,
    measure_covered_time,
    merge_spans,
    number_distinct_rows,
    number_values,
    sort_rows,
    sum_by,
    summarize_by,
)
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import COUNTER_LINE, HostEvents, Line, compute_once, join_stat
from fastprof.wording.quantities import count_noun

KINDS: Final = ("compute", "communication", "copy")
"""Kernels that compute, collectives, and copies and fills."""
COMPUTE, COMMUNICATION, COPY = range(len(KINDS))


@dataclass(frozen=True, slots=True)
class StreamEvents(ArrayRows):
    """Events by stream, in order of start. ``row``: of the host's events; ``stream``: place in ``GpuStreams.lines``;
    ``call``: row of the host call that launched it, or -1; ``call_ps``, ``call_end_ps``: begin and end of that call, 0
    without one; ``queued``: whether the event waited in a queue from that call on: it begins no earlier, and no other
    call has its correlation id."""

    row: Int64s
    stream: Int32s
    start_ps: Int64s
    end_ps: Int64s
    kind: UInt8s
    call: Int32s
    call_ps: Int64s
    call_end_ps: Int64s
    queued: Bools


@dataclass(frozen=True, slots=True, eq=False)
class GpuStreams:
    """A host's streams that ran anything, and what they ran."""

    lines: tuple[Line, ...]
    events: StreamEvents

    def of_planes(self) -> Iterator[tuple[int, StreamEvents]]:
        """Yield what each GPU ran, by the number of its plane."""
        plane = np.array([line.plane.number for line in self.lines], np.int64)[self.events.stream]
        for number in np.unique(plane).tolist():
            yield number, self.events[find_rows_within(plane, number, number + 1)]


@compute_once
def read_streams(events: HostEvents, with_ops: bool = False) -> GpuStreams:
    """Return the streams of all GPUs of a host. Negative durations count as 0. ``with_ops``: the op that launched an
    event is its call if no call is recorded."""
    planes = events.planes_of("GPU")
    every = (line for plane in planes for line in plane.lines)
    lines = tuple(
        line for line in every if not line.is_derived and line.name != COUNTER_LINE and line.last > line.first
    )
    rows = np.concatenate([*(np.arange(line.first, line.last) for line in lines), np.zeros(0, np.int64)])
    rows = rows.astype(np.int64)
    stream = np.repeat(np.arange(len(lines), dtype=np.int32), [line.last - line.first for line in lines])
    call = find_launchers(events, rows) if with_ops else find_launches(events, rows).row
    launched = call >= 0
    begun, done = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    begun[launched] = events.start_ps[call[launched]]
    done[launched] = add_durations(begun[launched], np.maximum(events.duration_ps[call[launched]], 0))
    start = events.start_ps[rows]
    end = add_durations(start, np.maximum(events.duration_ps[rows], 0))
    kind = np.array([classify_name(name) for name in events.names], np.uint8)[events.meta[rows]]
    queued = launched & np.isin(rows, find_known_calls(events)[0]) & (start >= begun)
    return GpuStreams(lines, StreamEvents(rows, stream, start, end, kind, call, begun, done, queued))


def classify_name(name: str) -> int:
    """Return the kind of a kernel or copy by its name."""
    if classify_gpu_name(name) == EventType.DEVICE_COLLECTIVES:
        return COMMUNICATION
    return COPY if classify_copy(name) else COMPUTE


@dataclass(frozen=True, slots=True)
class StreamSeries:
    """Values that change at points of time, by ``of``, then in order of time."""

    of: Int64s
    time_ps: Int64s
    value: Float64s

    def part(self, number: int) -> slice:
        return find_rows_within(self.of, number, number + 1)

    def lasted_ps(self, part: slice) -> Int64s:
        """Return how long each value of a part lasts; the last does not count."""
        return np.append(np.diff(self.time_ps[part]), 0).astype(np.int64)


def count_queued(events: StreamEvents) -> StreamSeries:
    """Return the queue length of each stream at each launch and kernel start. Kernels not known to have queued do not
    count. A launch comes before a start of the same time."""
    stream = events.stream[events.queued].astype(np.int64)
    time = np.concatenate([events.call_ps[events.queued], events.start_ps[events.queued]])
    change = np.repeat([1, -1], [len(stream), len(stream)])
    of = np.concatenate([stream, stream])
    order = sort_rows(of, time, -change)
    of, time, total = of[order], time[order], np.cumsum(change[order])
    return StreamSeries(of, time, total.astype(np.float64))  # each stream ends at 0, where the next begins


def sum_bandwidths(of: Int64s, start: Int64s, end: Int64s, gbps: Float64s) -> StreamSeries:
    """Return the sum of the bandwidths of copies that run at once, by kind ``of`` copy. A copy without duration lasts a
    microsecond. One that begins as another ends does not run at once with it."""
    end = np.where(end == start, start + 1_000_000, end)
    time, change = np.concatenate([start, end]), np.concatenate([gbps, -gbps])
    running = np.repeat([1, -1], [len(start), len(end)])
    both = np.concatenate([of, of])
    order = sort_rows(both, time, running)
    both, total = both[order], np.cumsum(change[order])
    total = np.where(np.cumsum(running[order]) > 0, total, 0.0)  # each kind ends at 0, where the next begins
    return StreamSeries(both, time[order], np.maximum(total, 0.0))


def measure_launch_delays(events: StreamEvents) -> Int64s:
    """Return the time from the end of each call to the begin of what it launched, at least 0, of events whose call is
    known."""
    known = events.call >= 0
    delay: Int64s = np.maximum(events.start_ps[known] - events.call_end_ps[known], 0)
    return delay


STATS: Final = ("memcpy_details", "bytes", "memory bandwidth (GB/s)")
_PREFIX: Final = 11
"""Letters of a copy's name that name its kind: ``Memcpy HtoD``."""
_MOST_BYTES: Final = 1 << 50
"""A larger copy is damage: sums of others fit 64 bits."""
_MOST_GBPS: Final = 1e6
"""A larger bandwidth is damage: no link has a thousandth of it."""


@dataclass(frozen=True, slots=True, eq=False)
class GpuCopies:
    """Copies. ``of``: place of each in ``kinds``; ``size``: bytes, or -1; ``gbps``: gigabytes a second, NaN if it is
    unknown."""

    kinds: list[str]
    events: StreamEvents
    of: Int64s
    size: Int64s
    gbps: Float64s

    def bandwidths(self) -> StreamSeries:
        """Return the sum of bandwidths of simultaneous copies, by place in ``kinds``; unknown ones count as 0."""
        known = np.nan_to_num(self.gbps, nan=0.0, posinf=0.0)
        return sum_bandwidths(self.of, self.events.start_ps, self.events.end_ps, known)


def select_copies(events: HostEvents, mine: StreamEvents) -> GpuCopies:
    """Return the copies among the events of a GPU. Reads STATS."""
    copies = mine[mine.kind == COPY]
    names = []
    for meta in events.meta[copies.row].tolist():
        name = events.names[meta]
        if name.startswith("Memcpy"):
            name = name[:_PREFIX].rstrip()
        names.append("Memset" if name.startswith("Memset") else name)
    kinds = sorted(set(names))
    of = np.array([kinds.index(name) for name in names], np.int64)
    size = read_copy_bytes(events, copies.row)
    return GpuCopies(
        kinds, copies, of, size, read_copy_bandwidth(events, copies.row, size, copies.end_ps - copies.start_ps)
    )


def read_copy_bytes(events: HostEvents, rows: Int64s) -> Int64s:
    """Return bytes of copies, from their details; -1 if it is not recorded."""
    has, size = join_stat(rows, *events.ints("bytes"))
    sizes = np.where(has & (size >= 0), size, -1)
    at, texts = events.texts("memcpy_details")
    detailed, number = join_stat(rows, at, texts)
    for place in np.flatnonzero(detailed & ~has).tolist():
        sizes[place] = min(parse_copy_bytes(events.text(int(number[place]))) or -1, _MOST_BYTES + 1)
    sizes[sizes > _MOST_BYTES] = -1
    return sizes


def read_copy_bandwidth(events: HostEvents, rows: Int64s, size: Int64s, duration: Int64s) -> Float64s:
    """Return the recorded bandwidth of copies in gigabytes a second if possible, else bytes / duration, else NaN."""
    numbers = events.stat("memory bandwidth (GB/s)").at(rows).numbers
    recorded = np.where((numbers >= 0) & (numbers <= _MOST_GBPS), numbers, np.nan)
    computed = np.where((size >= 0) & (duration > 0), size * 1000 / np.maximum(duration, 1), np.nan)
    return np.where(np.isnan(recorded), computed, recorded)


# ---- sums: rows of the tables of the analysis streams

# Sums of a host's GPU streams: rows of the tables of the analysis ``streams``.
#
# The time of a device is divided by the kinds of kernels that run at once::
#
#     stream 7   |--- compute ---|      |---- compute ----|
#     stream 20        |---- collective ----|
#     both       compute|  both  |  coll.| both|  compute |
#
# A stream that is idle waits for the host if the call that launches its next kernel had not begun when the last one
# ended; else for a kernel, if the break is so short that it is the time from one kernel to the next; else for something
# else, such as an event of another stream.

HOST_WAIT, KERNEL_WAIT, OTHER = range(3)

WAITS: Final = ("host wait", "kernel wait", "other")


@dataclass(frozen=True, slots=True)
class DeviceTimes:
    """Picoseconds of a device. ``window``: from first begin to last end; ``busy``: in which anything ran; ``kinds``: of
    each kind; ``hidden``: of collectives while something computed; ``sets``: by the kinds that ran at once, a bit
    each."""

    window: int
    busy: int
    kinds: tuple[int, ...]
    hidden: int
    sets: dict[int, int]


def measure_device_times(start: Int64s, end: Int64s, kind: UInt8s) -> DeviceTimes:
    """Measure the events of one device, at least one."""
    duration = end - start
    unions = [merge_spans(start[kind == number], duration[kind == number]) for number in range(len(KINDS))]
    of_kind = tuple(int((ends - begins).sum()) for begins, ends in unions)
    begins, ends = merge_spans(start, duration)
    collectives = unions[COMMUNICATION]
    hidden = int(measure_covered_time(unions[COMPUTE], collectives[0], collectives[1] - collectives[0]).sum())
    window = int(end.max()) - int(start.min())
    # time by the set of kinds that run: where a kind begins its bit is added, where it ends it is taken away
    time = np.concatenate([side for pair in unions for side in pair])
    change = np.concatenate(
        [np.full(len(pair[0]), sign << bit, np.int64) for bit, pair in enumerate(unions) for sign in (1, -1)]
    )
    order = np.argsort(time, kind="stable")
    running = np.cumsum(change[order])[:-1]
    lasted = np.diff(time[order])
    sums = {bits: int(lasted[running == bits].sum()) for bits in range(1, 1 << len(unions))}
    sets = {bits: total for bits, total in sums.items() if total}
    return DeviceTimes(window, int((ends - begins).sum()), of_kind, hidden, sets)


def name_kind_set(kinds: int) -> str:
    """Return the kinds that run at once, in words."""
    return " and ".join(name for bit, name in enumerate(KINDS) if kinds >> bit & 1)


@dataclass(frozen=True, slots=True)
class StreamBreaks:
    """Breaks between two kernels of a stream. ``idle_ps``: from the end of all before to the begin of the next, at
    least 0; ``wait``: what the stream waited for."""

    stream: Int64s
    idle_ps: Int64s
    wait: UInt8s


def find_breaks(events: StreamEvents, short_ps: int) -> StreamBreaks:
    """``short_ps``: a shorter break is the time from one kernel to the next."""
    order = sort_rows(events.stream, events.start_ps)
    stream, start, end = events.stream[order].astype(np.int64), events.start_ps[order], events.end_ps[order]
    same = stream[1:] == stream[:-1]
    latest = end.copy()  # end of what the stream ran so far
    for part in np.split(latest, np.flatnonzero(~same) + 1):
        np.maximum.accumulate(part, out=part)
    before = latest[:-1]
    idle = np.maximum(start[1:] - before, 0)
    call = events.call[order][1:]
    host = (call >= 0) & (events.call_ps[order][1:] > before)
    wait = np.where(host, HOST_WAIT, np.where(idle < short_ps, KERNEL_WAIT, OTHER)).astype(np.uint8)
    return StreamBreaks(stream[1:][same], idle[same], wait[same])


@dataclass(slots=True)
class HostStreams:
    """Rows of each table, as attributes of their columns. ``unqueued_count``: events that have a call and did not wait
    from that on."""

    stream_count: int = 0
    unlaunched_count: int = 0
    unqueued_count: int = 0
    devices: list[SimpleNamespace] = field(default_factory=list)
    streams: list[SimpleNamespace] = field(default_factory=list)
    kinds: list[SimpleNamespace] = field(default_factory=list)
    names: list[SimpleNamespace] = field(default_factory=list)
    idle: list[SimpleNamespace] = field(default_factory=list)
    launches: list[SimpleNamespace] = field(default_factory=list)
    queues: list[SimpleNamespace] = field(default_factory=list)
    copies: list[SimpleNamespace] = field(default_factory=list)
    sequences: list[SimpleNamespace] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Picoseconds, but for ``full``: the length from which on a queue is full. ``short_break``: see ``find_breaks``;
    calls and delays are long above ``long_call`` and ``long_delay``."""

    short_break: int
    full: int
    long_call: int
    long_delay: int


def sum_host_streams(events: HostEvents, limits: StreamLimits) -> HostStreams:
    sums = sum_streams(events, read_streams(events), limits)
    if sums.unqueued_count:
        count, path = sums.unqueued_count, events.capture.path
        events.capture.log.take([LogRow("notice", "call_mismatch", count, None, path, unqueued_in_words(count))])
    return sums


def unqueued_in_words(count: int) -> str:
    events = count_noun(count, "event of GPUs begins", "events of GPUs begin")
    return f"{events} before the call with the same correlation id, or several calls have that id"


def sum_streams(events: HostEvents, streams: GpuStreams, limits: StreamLimits) -> HostStreams:
    """Sum all that the streams of a host ran, or some of it."""
    launched = streams.events.call >= 0
    unqueued = int((launched & ~streams.events.queued).sum())
    sums = HostStreams(len(streams.lines), int((~launched).sum()), unqueued)
    if not streams.lines:
        return sums
    for plane, mine in streams.of_planes():
        keys = {"host": events.host, "device": events.planes[plane].name}
        times = measure_device_times(mine.start_ps, mine.end_ps, mine.kind)
        sums.devices.append(SimpleNamespace(
            **keys, window_ps=times.window, busy_ps=times.busy, idle_ps=times.window - times.busy,
            compute_ps=times.kinds[COMPUTE], communication_ps=times.kinds[COMMUNICATION], copy_ps=times.kinds[COPY],
            other_ps=times.busy - times.kinds[COMPUTE], hidden_ps=times.hidden,
        ))  # fmt: skip
        for kinds, time in sorted(times.sets.items(), key=lambda pair: (-pair[1], pair[0])):
            sums.kinds.append(SimpleNamespace(**keys, kinds=name_kind_set(kinds), time_ps=time, whole_ps=times.busy))
        sums.names += _sum_stream_names(events, keys, mine)
        sums.copies += _sum_copies(events, keys, mine)
    sums.streams += _list_streams(events, streams)
    sums.idle += _sum_idle(events, streams, limits.short_break)
    sums.launches += _sum_launches(events, streams.events, limits)
    sums.queues += _sum_queues(events, streams, limits.full)
    return sums


def _sum_stream_names(events: HostEvents, keys: dict[str, str], mine: StreamEvents) -> list[SimpleNamespace]:
    """Kernels and copies by kind and name, the longest first."""
    metas, of_meta = number_values(events.meta[mine.row])
    texts = [events.names[meta] for meta in metas.tolist()]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(texts))}
    name = np.array([numbers[text] for text in texts], np.int64)[of_meta]
    duration = mine.end_ps - mine.start_ps
    sums = summarize_by(name, duration, len(numbers))
    kind = np.zeros(len(numbers), np.int64)
    kind[name] = mine.kind  # a name has one
    whole = sum_by(kind, sums["total"], len(KINDS)).tolist()
    rows = zip(kind.tolist(), numbers, sums.tolist(), measure_deviations(name, duration, sums), strict=True)
    return [
        SimpleNamespace(
            **keys, kind=KINDS[kind], name=text, count=count, time_ps=total, whole_ps=whole[kind],
            mean_ps=total // count, min_ps=shortest, max_ps=longest, stdev_ps=deviation,
        )
        for kind, text, (count, total, shortest, longest), deviation in sorted(
            rows, key=lambda row: (-row[2][1], row[0], row[1])
        )
    ]  # fmt: skip


def _make_stream_keys(events: HostEvents, streams: GpuStreams, number: int) -> dict[str, str]:
    line = streams.lines[number]
    return {"host": events.host, "device": line.plane.name, "stream": line.name}


def _list_streams(events: HostEvents, streams: GpuStreams) -> Iterator[SimpleNamespace]:
    every, count = streams.events, len(streams.lines)
    key = every.stream.astype(np.int64) * len(KINDS) + every.kind
    times = sum_by(key, every.end_ps - every.start_ps, count * len(KINDS)).reshape(count, len(KINDS))
    occurrences = np.bincount(every.stream, minlength=count).tolist()
    for number in np.unique(every.stream).tolist():
        kinds = {f"{KINDS[kind]}_ps": int(times[number, kind]) for kind in (COMPUTE, COMMUNICATION, COPY)}
        yield SimpleNamespace(**_make_stream_keys(events, streams, number), count=occurrences[number], **kinds)


def _sum_idle(events: HostEvents, streams: GpuStreams, short_ps: int) -> Iterator[SimpleNamespace]:
    breaks = find_breaks(streams.events, short_ps)
    if not len(breaks.stream):
        return
    whole = sum_by(breaks.stream, breaks.idle_ps, len(streams.lines))
    kinds, row = number_values(breaks.stream * len(WAITS) + breaks.wait)
    sums = summarize_by(row, breaks.idle_ps, len(kinds))
    breaks_of = np.split(breaks.idle_ps[sort_rows(row, breaks.idle_ps)], np.cumsum(sums["count"])[:-1])
    figures = zip(kinds.tolist(), breaks_of, sums.tolist(), measure_deviations(row, breaks.idle_ps, sums), strict=True)
    for kind, idle, (count, total, shortest, longest), deviation in figures:
        stream, wait = divmod(kind, len(WAITS))
        p25, p50, p75 = compute_quartiles(idle)
        yield SimpleNamespace(
            **_make_stream_keys(events, streams, stream), waits_for=WAITS[wait], time_ps=total,
            whole_ps=int(whole[stream]),
            count=count, mean_ps=total // count, min_ps=shortest, p25_ps=p25, p50_ps=p50, p75_ps=p75, max_ps=longest,
            stdev_ps=deviation,
        )  # fmt: skip


def _sum_launches(events: HostEvents, every: StreamEvents, limits: StreamLimits) -> Iterator[SimpleNamespace]:
    """Yield sums by the names of the call and of what it launched."""
    known = every[every.call >= 0]
    if not len(known):
        return
    first, number = number_distinct_rows([events.meta[known.call], events.meta[known.row]])
    delay, call, kernel = measure_launch_delays(known), known.call_end_ps - known.call_ps, known.end_ps - known.start_ps
    call_ps, kernel_ps = (sum_by(number, times, len(first)).tolist() for times in (call, kernel))
    delays = summarize_by(number, delay, len(first)).tolist()
    outliers = (call > kernel, call > limits.long_call, delay > limits.long_delay)
    short, long_call, long_delay = (np.bincount(number[outlier], minlength=len(first)).tolist() for outlier in outliers)
    for place, at in enumerate(first.tolist()):
        count, delay_ps, _, longest = delays[place]
        yield SimpleNamespace(
            host=events.host, call=events.names[events.meta[known.call[at]]],
            name=events.names[events.meta[known.row[at]]], count=count, call_ps=call_ps[place],
            kernel_ps=kernel_ps[place], delay_ps=delay_ps, mean_delay_ps=delay_ps // count, max_delay_ps=longest,
            short_count=short[place], long_call_count=long_call[place], long_delay_count=long_delay[place],
        )  # fmt: skip


def _sum_queues(events: HostEvents, streams: GpuStreams, full: int) -> Iterator[SimpleNamespace]:
    series = count_queued(streams.events)
    for stream in np.unique(series.of).tolist():
        part = series.part(stream)
        length, lasted = series.value[part], series.lasted_ps(part)
        time = int(lasted.sum())
        yield SimpleNamespace(
            **_make_stream_keys(events, streams, stream), points=len(length), max_length=int(length.max()),
            mean_length=float((length * lasted).sum() / time) if time else None,
            full_ps=int(lasted[length >= full].sum()), **_summarize_points(length),
        )  # fmt: skip


def _sum_copies(events: HostEvents, keys: dict[str, str], mine: StreamEvents) -> Iterator[SimpleNamespace]:
    copies = select_copies(events, mine)
    duration, series = copies.events.end_ps - copies.events.start_ps, copies.bandwidths()
    for number, kind in enumerate(copies.kinds):
        here = copies.of == number
        time, size = int(duration[here].sum()), copies.size[here]
        moved = int(size.sum()) if (size >= 0).all() else None
        known, gbps = np.isfinite(copies.gbps[here]).any(), series.value[series.part(number)]
        yield SimpleNamespace(
            **keys, kind=kind, count=int(here.sum()), time_ps=time, bytes=moved,
            mean_gbps=moved * 1000 / time if moved is not None and time else None,
            **_summarize_points(gbps[gbps > 0] if known else gbps[:0]),
        )  # fmt: skip


def _summarize_points(values: Float64s) -> dict[str, float | None]:
    """Figures of the values of a series, however long each lasts; None if there are none, or one, of the deviation."""
    names = ("mean_at_points", "min_at_points", "p25_at_points", "p50_at_points", "p75_at_points", "max_at_points")
    known = (values.mean(), *np.quantile(values, np.arange(5) / 4)) if len(values) else (None,) * len(names)
    figures = {name: None if figure is None else float(figure) for name, figure in zip(names, known, strict=True)}
    with np.errstate(over="ignore"):  # damaged values may be as large as numbers go
        deviation = values.std(ddof=1) if len(values) > 1 else np.nan
    return {**figures, "stdev_at_points": float(deviation) if np.isfinite(deviation) else None}
