"""A trace as fastprof reads it, in the form of the slow reader: events with their stats, to be compared."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any, NamedTuple

import slow_trace
from slow_flows import Arrow

import fastprof


class Slice(NamedTuple):
    plane: str
    line: str
    name: str
    start_ps: int
    duration_ps: int
    stats: tuple[tuple[str, str, Any], ...]


def slices(profile: fastprof.Profile) -> Counter[Slice]:
    """All events of a profile."""
    stats: dict[int, list[tuple[str, str, Any]]] = defaultdict(list)
    for row in profile.tables["event_stats"].to_pylist():
        stats[row["event_id"]].append((row["stat"], row["kind"], _value(row)))
    rows = profile.events.select(["event_id", "plane", "line", "name", "start_ps", "duration_ps"]).to_pylist()
    return Counter(
        Slice(
            row["plane"], row["line"], row["name"], row["start_ps"], row["duration_ps"], tuple(stats[row["event_id"]])
        )
        for row in rows
    )


def _value(row: dict[str, Any]) -> Any:
    if row["kind"] == "double":
        return repr(row["double_value"])  # NaN equals NaN
    if row["kind"] == "uint64":
        return row["int_value"] % 2**64
    return row["int_value"] if row["kind"] == "int64" else row["str_value"]


def slow_slices(trace: slow_trace.Trace) -> Counter[Slice]:
    return Counter(
        Slice(event.plane, event.line, event.name, event.start_ps, event.duration_ps,
              tuple((name, kind, repr(value) if kind == "double" else value) for name, kind, value in event.stats))
        for event in trace.events
    )  # fmt: skip


def log(profile: fastprof.Profile) -> dict[str, int]:
    """How often each code stands in import_log, remarks on files left out."""
    counts: Counter[str] = Counter()
    for row in profile.tables["import_log"].to_pylist():
        counts[row["code"]] += row["count"]
    return dict(counts)


def zeros(profile: fastprof.Profile) -> set[int]:
    """Picoseconds of the zero that lines give."""
    return {stamp * 1000 for stamp in profile.tables["lines"].column("timestamp_ns").to_pylist()}


def difference(found: Counter[Slice], wanted: Counter[Slice], most: int = 3) -> str:
    """The first rows in which they differ; empty where they are equal."""
    missing, extra = wanted - found, found - wanted
    lines = [f"missing {row}" for row in sorted(missing, key=str)[:most]] + [
        f"extra   {row}" for row in sorted(extra, key=str)[:most]
    ]
    return "\n".join([f"{missing.total()} missing, {extra.total()} extra", *lines]) if lines else ""


def arrows(profile: fastprof.Profile) -> Counter[Arrow]:
    events = {
        row["event_id"]: (row["plane"], row["line"], row["name"], row["start_ps"], row["duration_ps"])
        for row in profile.events.to_pylist()
    }
    return Counter(
        Arrow(
            row["name"], row["category"], row["id"], events.get(row["from_event_id"]), events.get(row["to_event_id"]),
            row["from_ps"], row["to_ps"],
        )
        for row in profile.flows.to_pylist()
    )  # fmt: skip
