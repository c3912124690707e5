"""Timelines of captures, as plain values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fastprof
from fastprof.derive.host import Host
from fastprof.derive.timeline.derived_lines import NEEDS, derive_timeline
from fastprof.derive.timeline.derived_track import DerivedTimeline
from fastprof.derive.timeline.host_timeline import HostTimeline
from fastprof.tables.host_reader import read_host
from fastprof.tables.table_set import TableSet

Slice = tuple[str, int, int]
"""Name, start and duration in picoseconds."""


def tables_of(capture: bytes | Path) -> TableSet:
    return fastprof.load(capture).table_set


def host_of(capture: bytes | Path, number: int = 0) -> Host:
    """A host with all that timelines read."""
    tables = tables_of(capture)
    events = read_host(tables, number, NEEDS.planes, NEEDS.stats, NEEDS.metadata_stats)
    return Host(events, tables.session.workers)


def derived(capture: bytes | Path) -> dict[str, list[Slice]]:
    """The slices of each derived track, by the name of its plane and its own."""
    return slices(derive_timeline(host_of(capture)))


def slices(timeline: HostTimeline) -> dict[str, list[Slice]]:
    found = {}
    for track in timeline.tracks:
        rows = range(track.first, track.last)
        key = f"{track.process.plane.name} {track.name}"
        found[key] = [
            (timeline.names[timeline.name[row]], int(timeline.start_ps[row]), int(timeline.duration_ps[row]))
            for row in rows
        ]
    return found


def args_of(timeline: DerivedTimeline, track: str) -> list[dict[str, Any]]:
    """What events of a track show beside their names."""
    (mine,) = [one for one in timeline.tracks if one.name == track]
    found: list[dict[str, Any]] = [{} for _ in range(mine.first, mine.last)]
    for row in range(mine.first, mine.last):
        if timeline.long_name[row] >= 0:
            found[row - mine.first]["long_name"] = timeline.names[timeline.long_name[row]]
        if timeline.group[row] >= 0:
            found[row - mine.first]["group_id"] = int(timeline.group[row])
    for arg in timeline.args:
        values = arg.values if isinstance(arg.values, list) else arg.values.tolist()
        for row, value in zip(arg.rows.tolist(), values, strict=True):
            if mine.first <= row < mine.last:
                found[row - mine.first][arg.name] = value
    return found
