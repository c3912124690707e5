"""Sums of a host's streams: rows of the tables of the analysis ``streams``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Final

import numpy as np

from fastprof.derive.ops.kernel_names import num_bytes
from fastprof.derive.ops.stat_values import distinct_rows
from fastprof.derive.ops.streams.stream_events import (
    COMMUNICATION,
    COMPUTE,
    COPY,
    KINDS,
    StreamEvents,
    Streams,
    streams_of,
)
from fastprof.derive.ops.streams.stream_queues import bandwidths, launch_delays, queue_lengths
from fastprof.derive.ops.streams.stream_times import WAITS, breaks, device_times, set_name
from fastprof.derive.ops.tables import deviations_by, summed_by, sums_by
from fastprof.schema.array_types import Float64s, Int64s
from fastprof.tables.host_events import HostEvents, beside

_PREFIX: Final = 11
"""Of the name of a copy, what names its kind: ``Memcpy HtoD``."""


@dataclass(slots=True)
class HostStreams:
    """Rows of each table, as attributes of their columns."""

    stream_count: int = 0
    unlaunched_count: int = 0
    devices: list[SimpleNamespace] = field(default_factory=list)
    kinds: list[SimpleNamespace] = field(default_factory=list)
    names: list[SimpleNamespace] = field(default_factory=list)
    idle: list[SimpleNamespace] = field(default_factory=list)
    launches: list[SimpleNamespace] = field(default_factory=list)
    queues: list[SimpleNamespace] = field(default_factory=list)
    copies: list[SimpleNamespace] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Limits:
    """Picoseconds, but for ``full``: the length from which on a queue is full. ``short_break``: see ``breaks``; calls
    and delays are long above ``long_call`` and ``long_delay``."""

    short_break: int
    full: int
    long_call: int
    long_delay: int


def host_streams(events: HostEvents, limits: Limits) -> HostStreams:
    streams = streams_of(events)
    found = HostStreams(len(streams.lines), int((streams.events.call < 0).sum()))
    if not streams.lines:
        return found
    for place, keys in _planes(events, streams):
        mine = streams.events[place]
        _device(found, keys, mine)
        found.names += names_of(events, keys, mine)
        found.copies += _copies(events, keys, mine)
    found.idle += _idle(events, streams, limits.short_break)
    found.launches += launches_of(events, streams.events, limits)
    found.queues += _queues(events, streams, limits.full)
    return found


def _planes(events: HostEvents, streams: Streams) -> Iterator[tuple[slice, dict[str, str]]]:
    """The events of each GPU, which stand together, and what names it."""
    plane = np.array([line.plane.number for line in streams.lines], np.int64)[streams.events.stream]
    for number in np.unique(plane).tolist():
        first, last = np.searchsorted(plane, [number, number + 1]).tolist()
        yield slice(first, last), {"host": events.host, "device": events.planes[number].name}


def _device(found: HostStreams, keys: dict[str, str], mine: StreamEvents) -> None:
    times = device_times(mine.start_ps, mine.end_ps, mine.kind)
    found.devices.append(SimpleNamespace(
        **keys, window_ps=times.window, busy_ps=times.busy, idle_ps=times.window - times.busy,
        compute_ps=times.kinds[COMPUTE], communication_ps=times.kinds[COMMUNICATION], copy_ps=times.kinds[COPY],
        other_ps=times.busy - times.kinds[COMPUTE], hidden_ps=times.hidden,
    ))  # fmt: skip
    found.kinds += [
        SimpleNamespace(**keys, kinds=set_name(kinds), time_ps=time, whole_ps=times.busy)
        for kinds, time in sorted(times.sets.items(), key=lambda one: (-one[1], one[0]))
    ]


def names_of(events: HostEvents, keys: dict[str, str], mine: StreamEvents) -> list[SimpleNamespace]:
    """Kernels and copies by kind and name, the longest of each kind first."""
    metas, of_meta = np.unique(events.meta[mine.row], return_inverse=True)
    texts = [events.names[meta] for meta in metas.tolist()]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(texts))}
    name = np.array([numbers[text] for text in texts], np.int64)[of_meta]
    duration = mine.end_ps - mine.start_ps
    sums = summed_by(name, duration, len(numbers))
    kind = np.zeros(len(numbers), np.int64)
    kind[name] = mine.kind  # a name has one
    whole = sums_by(kind, sums["total"], len(KINDS)).tolist()
    rows = zip(kind.tolist(), numbers, sums.tolist(), deviations_by(name, duration, sums), strict=True)
    return [
        SimpleNamespace(
            **keys, kind=KINDS[kind], name=text, count=count, time_ps=total, whole_ps=whole[kind],
            mean_ps=total // count, min_ps=shortest, max_ps=longest, stdev_ps=deviation,
        )
        for kind, text, (count, total, shortest, longest), deviation in sorted(
            rows, key=lambda row: (row[0], -row[2][1], row[1])
        )
    ]  # fmt: skip


def _stream_keys(events: HostEvents, streams: Streams, number: int) -> dict[str, str]:
    line = streams.lines[number]
    return {"host": events.host, "device": line.plane.name, "stream": line.name}


def _idle(events: HostEvents, streams: Streams, short_ps: int) -> Iterator[SimpleNamespace]:
    found = breaks(streams.events, short_ps)
    whole = sums_by(found.stream, found.idle_ps, len(streams.lines))
    for stream in np.unique(found.stream).tolist():
        for wait, words in enumerate(WAITS):
            idle = np.sort(found.idle_ps[(found.stream == stream) & (found.wait == wait)])
            if len(idle):
                yield SimpleNamespace(
                    **_stream_keys(events, streams, stream), waits_for=words, time_ps=int(idle.sum()),
                    whole_ps=int(whole[stream]), count=len(idle), mean_ps=int(idle.sum()) // len(idle),
                    p50_ps=int(idle[(len(idle) - 1) // 2]), max_ps=int(idle[-1]),
                )  # fmt: skip


def launches_of(events: HostEvents, every: StreamEvents, limits: Limits) -> Iterator[SimpleNamespace]:
    """By the names of the call and of what it launched."""
    known = every[every.call >= 0]
    if not len(known):
        return
    first, number = distinct_rows([events.meta[known.call], events.meta[known.row]])
    delay, call, kernel = launch_delays(known), known.call_end_ps - known.call_ps, known.end_ps - known.start_ps
    call_ps, kernel_ps = (sums_by(number, one, len(first)).tolist() for one in (call, kernel))
    delays = summed_by(number, delay, len(first)).tolist()
    outliers = (call > kernel, call > limits.long_call, delay > limits.long_delay)
    short, long_call, long_delay = (np.bincount(number[one], minlength=len(first)).tolist() for one in outliers)
    for place, at in enumerate(first.tolist()):
        count, delay_ps, _, longest = delays[place]
        yield SimpleNamespace(
            host=events.host, call=events.names[events.meta[known.call[at]]],
            name=events.names[events.meta[known.row[at]]], count=count, call_ps=call_ps[place],
            kernel_ps=kernel_ps[place], delay_ps=delay_ps, mean_delay_ps=delay_ps // count, max_delay_ps=longest,
            short_count=short[place], long_call_count=long_call[place], long_delay_count=long_delay[place],
        )  # fmt: skip


def _queues(events: HostEvents, streams: Streams, full: int) -> Iterator[SimpleNamespace]:
    series = queue_lengths(streams.events)
    for stream in np.unique(series.of).tolist():
        part = series.part(stream)
        length, lasted = series.value[part], series.lasted_ps(part)
        time = int(lasted.sum())
        yield SimpleNamespace(
            **_stream_keys(events, streams, stream), points=len(length), max_length=int(length.max()),
            mean_length=float((length * lasted).sum() / time) if time else None, mean_at_points=float(length.mean()),
            p50_at_points=float(np.median(length)), full_ps=int(lasted[length >= full].sum()),
        )  # fmt: skip


# ---- copies


def _copies(events: HostEvents, keys: dict[str, str], mine: StreamEvents) -> Iterator[SimpleNamespace]:
    copies = mine[mine.kind == COPY]
    if not len(copies):
        return
    names = [_kind_of_copy(events.names[meta]) for meta in events.meta[copies.row].tolist()]
    kinds = sorted(set(names))
    of = np.array([kinds.index(name) for name in names], np.int64)
    size = bytes_of(events, copies.row)
    gbps = gbps_of(events, copies.row, size, copies.end_ps - copies.start_ps)
    series = bandwidths(of, copies.start_ps, copies.end_ps, np.nan_to_num(gbps, nan=0.0, posinf=0.0))
    for number, kind in enumerate(kinds):
        here = of == number
        time = int((copies.end_ps - copies.start_ps)[here].sum())
        moved = int(size[here].sum()) if (size[here] >= 0).all() else None
        peak = float(series.value[series.part(number)].max()) if np.isfinite(gbps[here]).any() else None
        yield SimpleNamespace(
            **keys, kind=kind, count=int(here.sum()), time_ps=time, bytes=moved,
            mean_gbps=moved * 1000 / time if moved is not None and time else None, peak_gbps=peak,
        )  # fmt: skip


def _kind_of_copy(name: str) -> str:
    return name[:_PREFIX].rstrip() if name.startswith("Memcpy") else "Memset" if name.startswith("Memset") else name


def bytes_of(events: HostEvents, rows: Int64s) -> Int64s:
    """Bytes of copies, from their details; -1: not recorded."""
    has, size = beside(rows, *events.ints("bytes"))
    found = np.where(has & (size >= 0), size, -1)
    at, texts = events.texts("memcpy_details")
    detailed, number = beside(rows, at, texts)
    for place in np.flatnonzero(detailed & ~has).tolist():
        found[place] = num_bytes(events.text(int(number[place]))) or -1
    return found


def gbps_of(events: HostEvents, rows: Int64s, size: Int64s, duration: Int64s) -> Float64s:
    """The recorded bandwidth of copies in gigabytes a second, else bytes / duration; NaN: neither is known."""
    stat = events.stat("memory bandwidth (GB/s)").at(rows)
    computed = np.where((size >= 0) & (duration > 0), size * 1000 / np.maximum(duration, 1), np.nan)
    return np.where(np.isnan(stat.numbers), computed, stat.numbers)
