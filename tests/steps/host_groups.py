"""Groups of a capture, and what they are as plain values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fastprof
from fastprof.derive.steps.event_graph import STATS
from fastprof.derive.steps.grouping import Groups, group_events
from fastprof.tables.host_events import HostEvents
from fastprof.tables.host_reader import read_host


def read(capture: bytes | Path, **options: Any) -> HostEvents:
    return read_host(fastprof.load(capture, **options).table_set, 0, (), STATS, ())


def groups_of(capture: bytes | Path, **options: Any) -> Groups:
    profile = fastprof.load(capture, **options)
    return group_events(read_host(profile.table_set, 0, (), STATS, ()), profile.table_set.session.workers)


def members(groups: Groups) -> dict[str, list[str]]:
    """The names of the events of each group, by the group's name; those of none by ``-``."""
    names: dict[str, list[str]] = {}
    events = groups.events
    for row, number in enumerate(groups.group_id.tolist()):
        names.setdefault("-" if number < 0 else groups.names[number], []).append(events.names[events.meta[row]])
    return names


def pairs(groups: Groups) -> list[tuple[str, str]]:
    return sorted((groups.names[one], groups.names[other]) for one, other in groups.relations.tolist())
