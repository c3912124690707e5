"""Sums of a host's streams: rows of the tables of the analysis ``streams``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from types import SimpleNamespace

import numpy as np

from fastprof.decode.import_log import LogRow
from fastprof.derive.ops.stat_values import distinct_rows
from fastprof.derive.ops.streams.stream_copies import copies_of
from fastprof.derive.ops.streams.stream_events import (
    COMMUNICATION,
    COMPUTE,
    COPY,
    KINDS,
    StreamEvents,
    Streams,
    streams_of,
)
from fastprof.derive.ops.streams.stream_queues import launch_delays, queue_lengths
from fastprof.derive.ops.streams.stream_times import WAITS, breaks, device_times, set_name
from fastprof.derive.ops.tables import deviations_by, quartiles, summed_by, sums_by
from fastprof.schema.array_types import Float64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import HostEvents
from fastprof.wording.quantities import counted


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


@dataclass(frozen=True, slots=True)
class Limits:
    """Picoseconds, but for ``full``: the length from which on a queue is full. ``short_break``: see ``breaks``; calls
    and delays are long above ``long_call`` and ``long_delay``."""

    short_break: int
    full: int
    long_call: int
    long_delay: int


def host_streams(events: HostEvents, limits: Limits) -> HostStreams:
    found = sums_of(events, streams_of(events), limits)
    if found.unqueued_count:
        count, path = found.unqueued_count, events.capture.path
        events.capture.log.take([LogRow("notice", "call_mismatch", count, None, path, unqueued_in_words(count))])
    return found


def unqueued_in_words(count: int) -> str:
    events = counted(count, "event of GPUs begins", "events of GPUs begin")
    return f"{events} before the call with the same correlation id, or several calls have that id"


def sums_of(events: HostEvents, streams: Streams, limits: Limits) -> HostStreams:
    """Of all that the streams of a host ran, or of some of it."""
    launched = streams.events.call >= 0
    unqueued = int((launched & ~streams.events.queued).sum())
    found = HostStreams(len(streams.lines), int((~launched).sum()), unqueued)
    if not streams.lines:
        return found
    for plane, mine in streams.of_planes():
        keys = {"host": events.host, "device": events.planes[plane].name}
        _device(found, keys, mine)
        found.names += _names(events, keys, mine)
        found.copies += _copies(events, keys, mine)
    found.streams += _streams(events, streams)
    found.idle += _idle(events, streams, limits.short_break)
    found.launches += _launches(events, streams.events, limits)
    found.queues += _queues(events, streams, limits.full)
    return found


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


def _names(events: HostEvents, keys: dict[str, str], mine: StreamEvents) -> list[SimpleNamespace]:
    """Kernels and copies by kind and name, the longest first."""
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
            rows, key=lambda row: (-row[2][1], row[0], row[1])
        )
    ]  # fmt: skip


def _stream_keys(events: HostEvents, streams: Streams, number: int) -> dict[str, str]:
    line = streams.lines[number]
    return {"host": events.host, "device": line.plane.name, "stream": line.name}


def _streams(events: HostEvents, streams: Streams) -> Iterator[SimpleNamespace]:
    every, count = streams.events, len(streams.lines)
    key = every.stream.astype(np.int64) * len(KINDS) + every.kind
    times = sums_by(key, every.end_ps - every.start_ps, count * len(KINDS)).reshape(count, len(KINDS))
    occurrences = np.bincount(every.stream, minlength=count).tolist()
    for number in np.unique(every.stream).tolist():
        kinds = {f"{KINDS[kind]}_ps": int(times[number, kind]) for kind in (COMPUTE, COMMUNICATION, COPY)}
        yield SimpleNamespace(**_stream_keys(events, streams, number), count=occurrences[number], **kinds)


def _idle(events: HostEvents, streams: Streams, short_ps: int) -> Iterator[SimpleNamespace]:
    found = breaks(streams.events, short_ps)
    if not len(found.stream):
        return
    whole = sums_by(found.stream, found.idle_ps, len(streams.lines))
    kinds, row = np.unique(found.stream * len(WAITS) + found.wait, return_inverse=True)
    sums = summed_by(row, found.idle_ps, len(kinds))
    breaks_of = np.split(found.idle_ps[np.lexsort((found.idle_ps, row))], np.cumsum(sums["count"])[:-1])
    figures = zip(kinds.tolist(), breaks_of, sums.tolist(), deviations_by(row, found.idle_ps, sums), strict=True)
    for kind, idle, (count, total, shortest, longest), deviation in figures:
        stream, wait = divmod(kind, len(WAITS))
        p25, p50, p75 = quartiles(idle)
        yield SimpleNamespace(
            **_stream_keys(events, streams, stream), waits_for=WAITS[wait], time_ps=total, whole_ps=int(whole[stream]),
            count=count, mean_ps=total // count, min_ps=shortest, p25_ps=p25, p50_ps=p50, p75_ps=p75, max_ps=longest,
            stdev_ps=deviation,
        )  # fmt: skip


def _launches(events: HostEvents, every: StreamEvents, limits: Limits) -> Iterator[SimpleNamespace]:
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
            mean_length=float((length * lasted).sum() / time) if time else None,
            full_ps=int(lasted[length >= full].sum()), **_at_points(length),
        )  # fmt: skip


def _copies(events: HostEvents, keys: dict[str, str], mine: StreamEvents) -> Iterator[SimpleNamespace]:
    copies = copies_of(events, mine)
    duration, series = copies.events.end_ps - copies.events.start_ps, copies.bandwidths()
    for number, kind in enumerate(copies.kinds):
        here = copies.of == number
        time, size = int(duration[here].sum()), copies.size[here]
        moved = int(size.sum()) if (size >= 0).all() else None
        known, gbps = np.isfinite(copies.gbps[here]).any(), series.value[series.part(number)]
        yield SimpleNamespace(
            **keys, kind=kind, count=int(here.sum()), time_ps=time, bytes=moved,
            mean_gbps=moved * 1000 / time if moved is not None and time else None,
            **_at_points(gbps[gbps > 0] if known else gbps[:0]),
        )  # fmt: skip


def _at_points(values: Float64s) -> dict[str, float | None]:
    """Figures of the values of a series, however long each lasts; None: there are none, or one, of the deviation."""
    names = ("mean_at_points", "min_at_points", "p25_at_points", "p50_at_points", "p75_at_points", "max_at_points")
    known = (values.mean(), *np.quantile(values, np.arange(5) / 4)) if len(values) else (None,) * len(names)
    figures = {name: None if one is None else float(one) for name, one in zip(names, known, strict=True)}
    with np.errstate(over="ignore"):  # damaged values may be as large as numbers go
        deviation = values.std(ddof=1) if len(values) > 1 else np.nan
    return {**figures, "stdev_at_points": float(deviation) if np.isfinite(deviation) else None}
