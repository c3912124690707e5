"""What trace files show beside the events of a capture: derived tracks, names of steps, groups, flows, counters.

It reads all events of a host; see ``fastprof.derive.timeline``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fastprof._native import records
from fastprof._native.trace_writers import Batch, Kinds
from fastprof.decode.request import Request
from fastprof.decode.selection import matching
from fastprof.decode.text_pools import TextTable
from fastprof.derive.host import Host
from fastprof.derive.timeline.counter_tracks import Series, counter_tracks
from fastprof.derive.timeline.derived_lines import NEEDS, derived_timeline
from fastprof.derive.timeline.derived_track import Arg, DerivedTimeline
from fastprof.derive.timeline.event_groups import EventGroups, event_groups
from fastprof.derive.timeline.flow_ends import SHOWN_KINDS
from fastprof.derive.timeline.flows import flows
from fastprof.derive.timeline.step_bands import StepBand, step_bands
from fastprof.derive.timeline.stream_counters import stream_counters
from fastprof.derive.timeline.track_order import STEPS, Track, processes_of
from fastprof.export.trace_batches import BATCH_ROWS, FlowEnds, Renamed, SharedStats, StatColumns, between
from fastprof.export.trace_tracks import Titled, texts_of, titled
from fastprof.schema.array_types import Int32s, Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_clocks import Offset
from fastprof.tables.host_reader import read_host
from fastprof.tables.table_set import TableSet

_COUNTER_RANK = -1
_STEPS, _STEPS_TID = "Steps", 0


@dataclass(frozen=True, slots=True)
class Counted:
    """A counter of the file."""

    track: Titled
    time_ps: Int64s
    values: npt.NDArray[Any]
    is_bytes: bool


class Derived:
    """Of capture ``number``: ``entire`` has all of its events, ``chosen`` the selected ones."""

    def __init__(self, entire: TableSet, chosen: TableSet, number: int) -> None:
        host = Host(read_host(entire, number, NEEDS.planes, NEEDS.stats, NEEDS.metadata_stats), entire.session.workers)
        self._entire, self._number = entire, number
        self._pool = entire.session.index.names.stats
        self._chosen = chosen.selection
        self._window = self._chosen.window(host.name)
        self._pairs = flows(host)
        self._timeline = _with_steps(derived_timeline(host), step_bands(host))
        groups = event_groups(host)
        ids = _ids_of(entire, number, host)
        self.added = _added(groups, ids, self._pool)
        self.step_names = groups.step_names
        self._step_ids = ids[groups.step_rows]
        self._producers, self._consumers = ids[self._pairs.producer], ids[self._pairs.consumer]
        self._rows = self._chosen_rows()
        shown = np.zeros(len(self._timeline.tracks), bool)
        for place, track in enumerate(self._timeline.tracks):
            shown[place] = self._rows[track.first : track.last].any()
        self._shown = np.flatnonzero(shown)
        self.tracks = [titled(self._timeline.tracks[place]) for place in self._shown.tolist()]
        series = [*counter_tracks(entire, number), *stream_counters(host.raw, processes_of(host.raw))]
        self.counters = [one for one in map(self._counted, series) if one is not None]

    # ---- events of the capture

    @property
    def names(self) -> list[str]:
        """Names to go with those of the capture: of steps, and of kinds of flows."""
        return [*self.step_names, *SHOWN_KINDS]

    def renamed(self, more_at: int) -> Renamed:
        """Events that are called as their step; ``more_at``: the number of the first of ``names``."""
        names = more_at + np.arange(len(self.step_names))
        order = np.argsort(self._step_ids, kind="stable")
        return Renamed(self._step_ids[order], names[order].astype(np.int32))

    def flow_ends(self, more_at: int, first: int, chosen: Int64s | None) -> FlowEnds:
        """The flows whose ends are both ``chosen`` (ids, ascending; None: all are), numbered from ``first`` on."""
        keep = np.ones(len(self._producers), bool)
        if chosen is not None:
            keep = _is_in(self._producers, chosen) & _is_in(self._consumers, chosen)
        producers, consumers = self._producers[keep], self._consumers[keep]
        number = first + np.arange(len(producers), dtype=np.int64)
        kind = (more_at + len(self.step_names) + self._pairs.kind[keep].astype(np.int64)).astype(np.int32)
        event = np.concatenate([consumers, producers])
        order = np.argsort(event, kind="stable")
        out = np.repeat(np.array([0, 1], np.uint8), len(producers))
        return FlowEnds(event[order], np.tile(number, 2)[order], out[order], np.tile(kind, 2)[order])

    # ---- derived tracks

    def _chosen_rows(self) -> npt.NDArray[np.bool_]:
        """Which derived events are selected, by the names of plane, track and event, and their times."""
        timeline, selection = self._timeline, self._chosen
        keep = np.ones(len(timeline), bool)
        planes = matching([track.process.plane.name for track in timeline.tracks], selection.planes)
        lines = matching([track.name for track in timeline.tracks], selection.lines)
        for track, plane, line in zip(timeline.tracks, planes, lines, strict=True):
            keep[track.first : track.last] = plane and line
        if selection.names:
            keep &= np.array([*matching(timeline.names, selection.names), False], bool)[timeline.name]
        if self._window is not None:
            first, last = self._window
            start, duration = timeline.start_ps, timeline.duration_ps
            keep &= (start < last) & ((start >= first) | (start + np.maximum(duration, 0) > first))
        return keep

    def batches(self, first_track: int, shared: SharedStats, name_base: int, clock: Offset) -> Iterator[Batch]:
        """The events of ``tracks``, which writers know by the numbers from ``first_track`` on, by ``clock``."""
        timeline = self._timeline
        track = np.full(len(timeline), -1, np.int32)
        for number, place in enumerate(self._shown.tolist()):
            at = timeline.tracks[place]
            track[at.first : at.last] = first_track + number
        track[~self._rows] = -1
        kind, kinds = _kinds(timeline, shared, name_base)
        own = _own_stats(timeline, self._pool)
        none, texts, lasting = StatColumns(), texts_of(self._pool.array()), len(self._pool)
        event = np.arange(len(timeline), dtype=np.int64)
        for first in range(0, len(timeline), BATCH_ROWS):
            rows = slice(first, first + BATCH_ROWS)
            stats = StatColumns(*between(own, first, first + BATCH_ROWS - 1))
            times = clock.moved(timeline.start_ps[rows], timeline.duration_ps[rows])
            yield Batch(
                event[rows], *times, track[rows], kind[rows], kinds,
                stats.event, stats.native(), none.event, none.native(), texts, lasting,
                Renamed(), FlowEnds(),
            )  # fmt: skip

    @property
    def name_count(self) -> int:
        return len(self._timeline.names)

    # ---- counters

    def _counted(self, series: Series) -> Counted | None:
        """The values of a counter that are selected; None: there are none."""
        plane = series.process.plane
        if not (matching([plane.name], self._chosen.planes)[0] and matching([series.title], self._chosen.lines)[0]):
            return None
        if not matching([series.title], self._chosen.names)[0]:
            return None
        keep = np.isfinite(series.value)
        if self._window is not None:
            keep &= (series.time_ps >= self._window[0]) & (series.time_ps < self._window[1])
        if not keep.any():
            return None
        values = series.value[keep]
        if values.dtype != np.int64 and (np.abs(values) < 2**53).all() and (values == np.trunc(values)).all():
            values = values.astype(np.int64)
        track = Titled(plane.plane_id, 0, series.title, _COUNTER_RANK)
        return Counted(track, np.ascontiguousarray(series.time_ps[keep], np.int64), values, series.unit == "bytes")


def _ids_of(entire: TableSet, number: int, host: Host) -> Int64s:
    """The event_id of each row of a host, in the order in which it was read."""
    index = entire.session.index
    if index.captures[number].capture.salvage:  # some events of a line may not be there
        events = entire.decode(Request(("event_id", "start_ps"))).events
        timed: Int64s = np.asarray(events["event_id"])[~np.asarray(events["start_ps"].is_null())]
        return timed
    lines = host.raw.lines
    counts = [line.last - line.first for line in lines]
    of_line = np.array([line.line_id for line in lines], np.int64)
    before = index.lines["first_event_id"][of_line] - np.array([line.first for line in lines], np.int64)
    ids: Int64s = np.arange(sum(counts), dtype=np.int64) + np.repeat(before, counts)
    return ids


def _with_steps(timeline: DerivedTimeline, bands: list[StepBand]) -> DerivedTimeline:
    """The steps of the host as a further track, before its threads. XProf shows steps of devices alone."""
    threads = next((one for one in timeline.processes if one.plane.kind == "CPU"), None)
    band = next((one for one in bands if one.process is None), None)
    if threads is None or band is None:
        return timeline
    first, last = len(timeline), len(timeline) + len(band)
    none = np.full(len(band), -1, np.int32)
    track = Track(len(timeline.tracks), threads, _STEPS_TID, _STEPS, STEPS, first, last)
    return replace(
        timeline,
        tracks=[*timeline.tracks, track],
        start_ps=np.append(timeline.start_ps, band.start_ps),
        duration_ps=np.append(timeline.duration_ps, band.duration_ps),
        name=np.append(timeline.name, len(timeline.names) + band.name).astype(np.int32),
        names=[*timeline.names, *band.names],
        group=np.append(timeline.group, band.group),
        long_name=np.append(timeline.long_name, none),
        meta=np.append(timeline.meta, none),
    )


def _is_in(ids: Int64s, chosen: Int64s) -> npt.NDArray[np.bool_]:
    if not len(chosen):
        return np.zeros(len(ids), bool)
    matches: npt.NDArray[np.bool_] = chosen[np.minimum(np.searchsorted(chosen, ids), len(chosen) - 1)] == ids
    return matches


def _added(groups: EventGroups, ids: Int64s, pool: TextTable) -> StatColumns:
    """What is added to events: their group, whether they are eager, the name of their step."""
    parts = []
    for name, values in (("group_id", groups.group_id), ("is_eager", groups.is_eager)):
        rows = np.flatnonzero(values >= 0)
        parts.append(_stats(pool.add(name), ids[rows], integers=values[rows]))
    parts.append(_stats(pool.add("step_name"), ids[groups.step_rows], texts=_numbers(groups.step_names, pool)))
    return _joined(parts)


def _own_stats(timeline: DerivedTimeline, pool: TextTable) -> StatColumns:
    rows = np.flatnonzero(timeline.group >= 0)
    return _joined([
        _stats(pool.add("group_id"), rows, integers=timeline.group[rows]),
        *(_arg(arg, pool) for arg in timeline.args),
    ])  # fmt: skip


def _arg(arg: Arg, pool: TextTable) -> StatColumns:
    name = pool.add(arg.name)
    if isinstance(arg.values, list):
        return _stats(name, arg.rows, texts=_numbers(arg.values, pool))
    if arg.values.dtype.kind == "f":
        return _stats(name, arg.rows, doubles=arg.values)
    return _stats(name, arg.rows, integers=arg.values)


def _numbers(texts: Sequence[str], pool: TextTable) -> Int32s:
    """The numbers of texts in the pool."""
    numbers = {text: pool.add(text) for text in dict.fromkeys(texts)}
    return np.array([numbers[text] for text in texts], np.int32)


def _stats(
    name: int,
    event: npt.NDArray[Any],
    *,
    integers: npt.NDArray[Any] | None = None,
    doubles: npt.NDArray[Any] | None = None,
    texts: Int32s | None = None,
) -> StatColumns:
    """A stat of events, with values of one kind."""
    count = len(event)
    kind = records.STR if texts is not None else records.DOUBLE if doubles is not None else records.INT64
    if integers is not None and integers.dtype.kind == "u":
        kind = records.UINT64
    return StatColumns(
        np.ascontiguousarray(event, np.int64),
        np.full(count, name, np.int32),
        np.full(count, kind, np.uint8),
        np.zeros(count, np.int64) if integers is None else integers.astype(np.int64),
        np.zeros(count, np.float64) if doubles is None else doubles.astype(np.float64),
        np.full(count, -1, np.int32) if texts is None else texts,
    )


def _joined(parts: list[StatColumns]) -> StatColumns:
    """In the order of events."""
    columns = StatColumns(*map(np.concatenate, zip(*parts, strict=True)))
    return columns.taken(np.argsort(columns.event, kind="stable"))


def _kinds(timeline: DerivedTimeline, shared: SharedStats, name_base: int) -> tuple[Int32s, Kinds]:
    """The kind of each event: its name, its long name, and the metadata whose stats it shows; and what kinds share."""
    columns = np.stack([timeline.name, timeline.long_name, timeline.meta]).astype(np.int64)
    kinds, kind = np.unique(columns, axis=1, return_inverse=True)
    name, long_name, meta = np.ascontiguousarray(kinds, np.int32)
    counts = np.where(meta >= 0, shared.first[meta + 1] - shared.first[meta], 0)
    first = np.append(0, np.cumsum(counts)).astype(np.int64)
    rows = np.arange(first[-1]) + np.repeat(shared.first[np.maximum(meta, 0)] - first[:-1], counts)
    stats = shared.columns.taken(rows)
    shared_by_kind = Kinds(name, long_name, texts_of(timeline.names), name_base, stats.native(), first)
    return kind.reshape(-1).astype(np.int32), shared_by_kind
