"""The second half of the oracle: messages to the rows of fastprof's tables, slowly and plainly.

    tables([Source(host, path, size, space), …])  ->  {table: {column: list of Python values}}

What follows from the messages is worked out here (order, ids, merged planes, time, nesting), so that it can
be fed with messages that any reader has read. `import_log` is not foretold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from slow_reader import Event, EventMetadata, Plane, Space, Stat, StatMetadata, signed

Tables = dict[str, dict[str, list[Any]]]

UNIX_TIME_FROM_NS = 10**18
_STAT = ("stat", "kind", "int_value", "double_value", "str_value", "bytes_value")
COLUMNS = {
    "hosts": (
        "host", "run", "path", "size_bytes", "start_unix_ns", "stop_unix_ns", "hostnames", "errors", "warnings",
        "task_environment",
    ),
    "planes": (
        "plane_id", "host", "xplane_id", "name", "device_type", "device_ordinal", "line_count", "event_count",
    ),
    "plane_stats": ("plane_id", "stat_id", *_STAT),
    "lines": (
        "line_id", "plane_id", "xline_id", "name", "display_name", "display_id", "timestamp_ns",
        "duration_ps", "event_count",
    ),
    "events": (
        "event_id", "host", "plane", "line", "plane_id", "line_id", "metadata_id", "name", "start_ps",
        "duration_ps", "num_occurrences",
    ),
    "event_stats": ("event_id", *_STAT),
    "event_metadata": ("plane_id", "metadata_id", "name", "display_name", "metadata", "child_ids"),
    "event_metadata_stats": ("plane_id", "metadata_id", "stat_id", *_STAT),
    "stat_metadata": ("plane_id", "stat_id", "name", "description"),
    "nesting": ("event_id", "depth", "parent_id", "self_time_ps"),
}  # fmt: skip


@dataclass
class Source:
    host: str
    path: str
    size: int
    space: Space
    run: str | None = None


# ---- planes of equal name and id are one ----------------------------------------------------------


@dataclass
class _Part:
    """A plane as it stands in the file, with the ids that its metadata has in the merged plane."""

    wire: Plane
    event_ids: dict[int, int]
    stat_ids: dict[int, int]


@dataclass
class _TimedEvent:
    event: Event
    part: _Part
    start_ps: int | None


@dataclass
class _MergedLine:
    id: int
    name: str = ""
    display_name: str = ""
    display_id: int = 0
    timestamp_ns: int = 0
    duration_ps: int = 0
    events: list[_TimedEvent] = field(default_factory=list)


@dataclass
class _MergedPlane:
    id: int
    name: str
    parts: list[_Part] = field(default_factory=list)
    lines: dict[int, _MergedLine] = field(default_factory=dict)
    event_metadata: dict[int, tuple[EventMetadata, _Part]] = field(default_factory=dict)
    stat_metadata: dict[int, StatMetadata] = field(default_factory=dict)


def _merged_ids(known: dict[int, str], wire: dict[int, str]) -> dict[int, int]:
    """Ids in a later plane -> ids in the merged one; `known` grows."""
    ids = {}
    for id, name in wire.items():
        ids[id] = id
        if id in known and known[id] != name:
            same = [other for other, known_name in known.items() if known_name == name]
            ids[id] = same[0] if same else max(known) + 1
        known.setdefault(ids[id], name)
    return ids


def _merge(space: Space) -> list[_MergedPlane]:
    merged: dict[tuple[str, int], _MergedPlane] = {}
    for wire in space.planes:
        plane = merged.setdefault((wire.name, wire.id), _MergedPlane(wire.id, wire.name))
        event_names = {id: meta.name for id, (meta, _) in plane.event_metadata.items()}
        stat_names = {id: meta.name for id, meta in plane.stat_metadata.items()}
        part = _Part(
            wire,
            _merged_ids(event_names, {id: meta.name for id, meta in wire.event_metadata.items()}),
            _merged_ids(stat_names, {id: meta.name for id, meta in wire.stat_metadata.items()}),
        )
        plane.parts.append(part)
        for id, meta in wire.event_metadata.items():
            plane.event_metadata.setdefault(part.event_ids[id], (meta, part))
        for id, text in wire.stat_metadata.items():
            plane.stat_metadata.setdefault(part.stat_ids[id], text)
    return list(merged.values())


# ---- time -----------------------------------------------------------------------------------------


def _integer_stat(planes: Iterable[Plane], name: str) -> int | None:
    """The first integer stat of this name of the plane Task Environment."""
    for plane in planes:
        if plane.name != "Task Environment":
            continue
        for stat in plane.stats:
            meta = plane.stat_metadata.get(stat.metadata_id)
            if meta and meta.name == name and stat.kind in ("int64", "uint64"):
                return signed(stat.value & (1 << 64) - 1)
    return None


def _start_of(space: Space) -> int | None:
    """What the capture says, else the first line in Unix time; what it says counts only if it is Unix time too."""
    recorded = _integer_stat(space.planes, "profile_start_time")
    stamps = [line.timestamp_ns for plane in space.planes for line in plane.lines]
    first = min((stamp for stamp in stamps if stamp > UNIX_TIME_FROM_NS), default=None)
    return recorded if first is None or (recorded is not None and recorded > UNIX_TIME_FROM_NS) else first


def _fits(value: int) -> bool:
    return -(1 << 63) <= value < 1 << 63


def _start_ps(event: Event, timestamp_ns: int, start_unix_ns: int | None) -> int | None:
    """None too where the start does not fit 64 bits."""
    if event.num_occurrences is not None:
        return None
    if timestamp_ns > UNIX_TIME_FROM_NS and start_unix_ns is not None:
        timestamp_ns -= start_unix_ns
    start = timestamp_ns * 1000 + event.offset_ps
    return start if _fits(timestamp_ns * 1000) and _fits(start) else None


def _add_lines(plane: _MergedPlane, start_unix_ns: int | None) -> None:
    for part in plane.parts:
        for wire in part.wire.lines:
            fresh = wire.id not in plane.lines
            line = plane.lines.setdefault(wire.id, _MergedLine(wire.id))
            if fresh:
                line.timestamp_ns = wire.timestamp_ns
            line.name = line.name or wire.name
            line.display_name = line.display_name or wire.display_name
            line.display_id = line.display_id or wire.display_id
            line.duration_ps = line.duration_ps or wire.duration_ps
            for event in wire.events:
                start = _start_ps(event, wire.timestamp_ns, start_unix_ns)
                line.events.append(_TimedEvent(event, part, start))
    for line in plane.lines.values():
        line.events.sort(key=_place_in_line)


def _place_in_line(timed: _TimedEvent) -> tuple[bool, int, int]:
    if timed.start_ps is None:
        return True, 0, 0
    return False, timed.start_ps, -timed.event.duration_ps


# ---- stats ----------------------------------------------------------------------------------------


def _stat_row(stat: Stat, part: _Part) -> tuple[Any, ...]:
    """The six columns that all stat tables share."""
    names = part.wire.stat_metadata
    name = names[stat.metadata_id].name if stat.metadata_id in names else f"#{stat.metadata_id}"
    row: dict[str, Any] = {"int": None, "double": None, "str": None, "bytes": None}
    if stat.kind in ("int64", "uint64"):
        row["int"] = signed(stat.value & (1 << 64) - 1)
    elif stat.kind == "ref" and signed(stat.value) in names:
        row["str"] = names[signed(stat.value)].name
    elif stat.kind == "ref":
        row["int"] = signed(stat.value)
    elif stat.kind != "none":
        row[stat.kind] = stat.value
    return name, stat.kind, row["int"], row["double"], row["str"], row["bytes"]


def _looked_up(timed: _TimedEvent, name: str) -> Stat | None:
    """The event's own stat of this name, else its metadata's; the first one counts."""
    plane = timed.part.wire
    meta = plane.event_metadata.get(timed.event.metadata_id)
    for stat in [*timed.event.stats, *(meta.stats if meta else [])]:
        named = plane.stat_metadata.get(stat.metadata_id)
        if named and named.name == name and stat.kind != "none":
            return stat
    return None


def _as_text(stat: Stat, part: _Part) -> str:
    _, kind, integer, double, text, raw = _stat_row(stat, part)
    if kind == "bytes":
        return f"<{len(raw)} bytes>"
    if kind == "uint64":
        return str(stat.value)
    if kind == "double":
        return repr(double)
    if kind == "int64":
        return str(integer)
    return text or ""


# ---- nesting --------------------------------------------------------------------------------------


def _covered(spans: Sequence[tuple[int, int]]) -> int:
    total, reached = 0, None
    for start, end in sorted(spans):
        begin = start if reached is None else max(start, reached)
        total += max(0, end - begin)
        reached = end if reached is None else max(reached, end)
    return total


def _nesting(events: Sequence[_TimedEvent], first_id: int) -> list[tuple[Any, ...]]:
    rows: list[list[Any]] = []
    children: dict[int, list[tuple[int, int]]] = {}
    stack: list[tuple[int, int, int]] = []
    for event_id, timed in enumerate(events, first_id):
        start, duration = timed.start_ps, timed.event.duration_ps
        if start is None:
            rows.append([event_id, None, None, None])
            continue
        rows.append([event_id, 0, None, duration])
        a = _looked_up(timed, "_a")
        if a is not None and a.kind in ("int64", "uint64") and a.value:
            continue
        while stack and not (stack[-1][1] <= start and start + duration <= stack[-1][2]):
            stack.pop()
        if stack:
            parent = stack[-1][0]
            rows[-1][1:3] = [rows[parent - first_id][1] + 1, parent]
            children.setdefault(parent, []).append((start, start + duration))
        stack.append((event_id, start, start + duration))
    for parent, spans in children.items():
        rows[parent - first_id][3] -= _covered(spans)
    return [tuple(row) for row in rows]


# ---- the tables -----------------------------------------------------------------------------------


_DEVICES = (
    (r"/device:TPU:(?P<chip>[0-9]+) SparseCore(?: [a-zA-Z]+)? (?P<ordinal>[0-9]+)$", "SPARSECORE"),
    (r"/device:TPU:(?P<ordinal>[0-9]+)$", "TPU"),
    (r"/device:(?!CUSTOM:|TPU|\w*CPU:)\w+:(?P<ordinal>[0-9]+)$", "GPU"),
    (r"/device:CUSTOM:(?:.*:)?(?P<ordinal>[0-9]+)$", "CUSTOM"),
    (r"/device:CUSTOM:", "CUSTOM"),
    (r"/host:CPU", "CPU"),
    (r"#Chip", "CHIP"),
)


def _device(name: str) -> tuple[str | None, int | None]:
    for pattern, kind in _DEVICES:
        found = re.match(pattern, name)
        if found:
            ordinal = found.groupdict().get("ordinal")
            return kind, None if ordinal is None else int(ordinal)
    return None, None


class _Rows:
    def __init__(self) -> None:
        self.rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in COLUMNS}

    def add(self, table: str, *row: Any) -> None:
        self.rows[table].append(row)

    def add_source(self, source: Source) -> None:
        space, start = source.space, _start_of(source.space)
        planes = _merge(space)
        environment = [
            (_stat_row(stat, part)[0], _as_text(stat, part))
            for part in (_Part(plane, {}, {}) for plane in space.planes if plane.name == "Task Environment")
            for stat in part.wire.stats
        ]
        stop = _integer_stat(space.planes, "profile_stop_time")
        self.add(
            "hosts", source.host, source.run, source.path, source.size, start, stop, space.hostnames, space.errors,
            space.warnings, environment,
        )  # fmt: skip
        for plane in planes:
            _add_lines(plane, start)
            self.add_plane(plane, source.host)

    def add_plane(self, plane: _MergedPlane, host: str) -> None:
        plane_id = len(self.rows["planes"])
        count = sum(len(line.events) for line in plane.lines.values())
        self.add("planes", plane_id, host, plane.id, plane.name, *_device(plane.name), len(plane.lines), count)
        for part in plane.parts:
            for stat in part.wire.stats:
                self.add("plane_stats", plane_id, _stat_id(stat, part), *_stat_row(stat, part))
        for id, (meta, part) in plane.event_metadata.items():
            children = [part.event_ids.get(child, child) for child in meta.child_ids]
            self.add("event_metadata", plane_id, id, meta.name, meta.display_name or None, meta.metadata, children)
            for stat in meta.stats:
                self.add("event_metadata_stats", plane_id, id, _stat_id(stat, part), *_stat_row(stat, part))
        for id, text in plane.stat_metadata.items():
            self.add("stat_metadata", plane_id, id, text.name, text.description or None)
        for line in plane.lines.values():
            self.add_line(line, plane, plane_id, host)

    def add_line(self, line: _MergedLine, plane: _MergedPlane, plane_id: int, host: str) -> None:
        line_id = len(self.rows["lines"])
        self.add(
            "lines", line_id, plane_id, line.id, line.name, line.display_name or None,
            line.display_id or None, line.timestamp_ns, line.duration_ps or None, len(line.events),
        )  # fmt: skip
        first_id = len(self.rows["events"])
        for event_id, timed in enumerate(line.events, first_id):
            event, part = timed.event, timed.part
            meta = part.wire.event_metadata.get(event.metadata_id)
            self.add(
                "events", event_id, host, plane.name, line.name or line.display_name, plane_id, line_id,
                part.event_ids.get(event.metadata_id, event.metadata_id), meta.name if meta else None,
                timed.start_ps, event.duration_ps, event.num_occurrences,
            )  # fmt: skip
            for stat in event.stats:
                self.add("event_stats", event_id, *_stat_row(stat, part))
        self.rows["nesting"] += _nesting(line.events, first_id)


def _stat_id(stat: Stat, part: _Part) -> int:
    return part.stat_ids.get(stat.metadata_id, stat.metadata_id)


def tables(sources: Sequence[Source]) -> Tables:
    """All tables of a session but import_log, column by column."""
    rows = _Rows()
    for source in sources:
        rows.add_source(source)
    return {
        name: {column: [row[at] for row in rows.rows[name]] for at, column in enumerate(columns)}
        for name, columns in COLUMNS.items()
    }
