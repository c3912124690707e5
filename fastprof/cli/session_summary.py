"""The content of a session that ``fastprof info`` shows: what is gathered for all its formats, and its text, which is a
summary, then hosts, planes, lines and faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from fastprof.cli.output import ProgressLine, describe_hidden
from fastprof.decode.nesting import get_int64s
from fastprof.decode.plane_kinds import get_vendor_word
from fastprof.render import as_text
from fastprof.render.table_forms import Look
from fastprof.schema.columns import add_durations, find_least_by, find_most_by, number_distinct
from fastprof.schema.tables import mark_nulls
from fastprof.wording.quantities import count_noun, format_size, format_time

if TYPE_CHECKING:
    from fastprof.derive.host import Host
    from fastprof.profile.profile import Profile


_MADE = "transcribed_from"
"""Plane stat that the readers of other formats make."""
_KIND_STATS = ("device_type_string", "device_vendor")  # stats that name the kind of device, best first


class SessionSummary(NamedTuple):
    """Content of a session. ``hosts``, ``planes`` and ``lines`` have counts and times next to their own columns."""

    summary: dict[str, Any]
    hosts: pa.Table
    planes: pa.Table
    lines: pa.Table
    import_log: pa.Table


def gather_summary(profile: Profile, progress: ProgressLine | None = None) -> SessionSummary:
    """Return the content of the session. Reads start and duration of every event once, in bounded memory. Small
    sessions with GPUs are read again to leave impossible events out of the times of the session."""
    tables = profile.read("hosts", "planes", "lines", "plane_stats")
    total = sum(tables["lines"]["event_count"].to_pylist())
    spans = _read_spans(profile, total, progress or ProgressLine(None))
    lines = _add_spans(_name_lines(tables["lines"], tables["planes"]), "line_id", spans)
    planes = _describe_planes(tables["planes"], tables["plane_stats"])
    planes = _add_spans(planes, "plane_id", _merge_spans(lines, "plane_id"))
    counts = Counter(planes["host"].to_pylist())
    plane_counts = [counts[host] for host in tables["hosts"]["host"].to_pylist()]
    hosts = _add_columns(tables["hosts"], plane_count=pa.array(plane_counts, pa.int64()))
    hosts = _add_spans(hosts, "host", _merge_spans(planes, "host"))
    all_lines = _sum_spans([(0, span) for span in spans.values()]).get(0, _NO_EVENTS)
    kinds = zip(planes["device_type"].to_pylist(), planes["device_kind"].to_pylist(), strict=True)
    device_counts = Counter(pair for pair in kinds if pair[0] not in (None, "CUSTOM"))
    devices = [{"type": type_, "kind": kind, "count": count} for (type_, kind), count in device_counts.items()]
    summary = {
        "run": profile.run,
        "hosts": hosts.num_rows,
        "planes": planes.num_rows,
        "lines": lines.num_rows,
        "events": all_lines.event_count,
        "size_bytes": sum(hosts["size_bytes"].to_pylist()),
        "first_start_ps": all_lines.first_start_ps,
        "last_end_ps": all_lines.last_end_ps,
        "devices": devices,
    }
    if total <= _MOST_CHECKED and any(device["type"] == "GPU" for device in summary["devices"]):
        summary |= _drop_impossible(profile)
    return SessionSummary(summary, hosts, planes, lines, profile.import_log)


_MOST_CHECKED = 4_000_000
"""Events of a session that are checked against each other: all of a host are in memory then."""


def _drop_impossible(profile: Profile) -> dict[str, Any]:
    """Return first and last time of a session without impossible events; nothing if there are none. Adds rows to
    ``import_log``."""
    from fastprof.analyses.runner import map_hosts
    from fastprof.derive.ops.record_checks import RECORD_STATS, check_records, find_extent
    from fastprof.tables.needs import Needs

    def checked(host: Host) -> tuple[bool, tuple[int, int] | None]:
        check_records(host.raw)
        return bool(host.raw.impossible), find_extent(host.raw)

    extents_of_hosts = map_hosts(profile.table_set, Needs(stats=RECORD_STATS), checked)
    extents = [extent for _, extent in extents_of_hosts if extent is not None]
    if not extents or not any(has for has, _ in extents_of_hosts):
        return {}
    firsts, lasts = zip(*extents, strict=True)
    return {"first_start_ps": min(firsts), "last_end_ps": max(lasts)}


# ---- times of events


class _Span(NamedTuple):
    """The number of events, the first start and the last end; None if no event has a start."""

    event_count: int
    first_start_ps: int | None
    last_end_ps: int | None


_NO_EVENTS = _Span(0, None, None)


def _read_spans(profile: Profile, total: int, progress: ProgressLine) -> dict[Any, _Span]:
    """Return the span of the events of each line."""
    progress.hidden.add("decoding")
    parts: list[tuple[int, _Span]] = []
    done = 0
    for batch in profile.scan(columns=["line_id", "start_ps", "duration_ps"]):
        lines, number = number_distinct(np.asarray(batch["line_id"]))
        is_timed = ~mark_nulls(batch["start_ps"])
        row = number[is_timed]
        start = get_int64s(batch["start_ps"])[is_timed]
        ends = add_durations(start, get_int64s(batch["duration_ps"])[is_timed])
        firsts = find_least_by(row, start, len(lines)).tolist()
        lasts = find_most_by(row, ends, len(lines)).tolist()
        counts, timed = (np.bincount(rows, minlength=len(lines)).tolist() for rows in (number, row))
        for line, *span, of_times in zip(lines.tolist(), counts, firsts, lasts, timed, strict=True):
            parts.append((line, _Span(*span) if of_times else _Span(span[0], None, None)))
        done += batch.num_rows
        progress("reading events", done, total)
    return _sum_spans(parts)


def _sum_spans(parts: Iterable[tuple[Any, _Span]]) -> dict[Any, _Span]:
    """Return the span of all parts with the same key."""
    sums: dict[Any, _Span] = {}
    for key, part in parts:
        known = sums.get(key, _NO_EVENTS)
        firsts = [time for time in (known.first_start_ps, part.first_start_ps) if time is not None]
        lasts = [time for time in (known.last_end_ps, part.last_end_ps) if time is not None]
        count = known.event_count + part.event_count
        sums[key] = _Span(count, min(firsts, default=None), max(lasts, default=None))
    return sums


def _merge_spans(rows: pa.Table, key: str) -> dict[Any, _Span]:
    """Return the span of all rows with the same key, which have spans themselves."""
    spans = map(_Span, *(rows[name].to_pylist() for name in _Span._fields))
    return _sum_spans(zip(rows[key].to_pylist(), spans, strict=True))


def _add_spans(table: pa.Table, key: str, spans: dict[Any, _Span]) -> pa.Table:
    """Add the span of each row, found by its key, to the table."""
    rows = [spans.get(value, _NO_EVENTS) for value in table[key].to_pylist()]
    return _add_columns(table, **{
        name: pa.array([getattr(row, name) for row in rows], pa.int64()) for name in _Span._fields
    })  # fmt: skip


# ---- planes, lines, devices


def _name_lines(lines: pa.Table, planes: pa.Table) -> pa.Table:
    """Return the lines with the host and the name of their plane."""
    places = zip(planes["host"].to_pylist(), planes["name"].to_pylist(), strict=True)
    place_of = dict(zip(planes["plane_id"].to_pylist(), places, strict=True))
    named = [place_of.get(plane, (None, None)) for plane in lines["plane_id"].to_pylist()]
    host, plane = (pa.array(list(texts), pa.string()) for texts in (zip(*named, strict=True) if named else ((), ())))
    return _add_columns(lines.select(["line_id", "plane_id", "name", "display_name"]), host=host, plane=plane)


def _describe_planes(planes: pa.Table, stats: pa.Table) -> pa.Table:
    """Return the planes with their kind of device, without the plane that only says which format a trace had."""
    columns = (stats[name].to_pylist() for name in ("plane_id", "stat", "str_value"))
    rows = list(zip(*columns, strict=True))
    made = {plane for plane, stat, _ in rows if stat == _MADE}
    if made:
        planes = planes.filter(pa.array([plane not in made for plane in planes["plane_id"].to_pylist()]))
    kinds = {
        plane: text
        for best in reversed(_KIND_STATS)  # the best comes last and stays
        for plane, stat, text in rows
        if stat == best and text
    }
    own = planes.select(["plane_id", "host", "name", "device_type", "device_ordinal", "line_count"])
    named = zip(*(own[name].to_pylist() for name in ("plane_id", "name", "device_type")), strict=True)
    kind = [kinds.get(plane) or get_vendor_word(name) if device else None for plane, name, device in named]
    return _add_columns(own, device_kind=pa.array(kind, pa.string()))


_DESCRIPTIONS = {
    "device_kind": "kind of device, as the plane records it; null: not recorded, or not a device",
    "host": "host",
    "plane": "plane name",
    "plane_count": "selected planes",
    "event_count": "selected events",
    "first_start_ps": "start of the first event; null: no event has a start",
    "last_end_ps": "end of the event that ends last, at most 2^63 - 1; null: no event has a start",
}


def _add_columns(table: pa.Table, **columns: pa.Array) -> pa.Table:
    for name, values in columns.items():
        metadata = {"description": _DESCRIPTIONS[name], **({"unit": "ps"} if name.endswith("_ps") else {})}
        table = table.append_column(pa.field(name, values.type, metadata=metadata), values)
    return table


def write_sections(facts: SessionSummary, limit: int | None) -> Iterator[bytes]:
    """Return the chunks of the JSON document."""
    from fastprof.render import as_json

    tables = {"hosts": facts.hosts, "planes": facts.planes, "lines": facts.lines, "import_log": facts.import_log}
    return as_json.write_sections(facts.summary, {name: table.slice(0, limit) for name, table in tables.items()})


def format_summary(facts: SessionSummary, look: Look, limit: int | None) -> Iterator[str]:
    """Yield the lines of the text; at most ``limit`` rows of each table."""
    for label, text in list_facts(facts):
        yield from as_text.wrap_paragraph(text, look, f"{label:<9}")
    host_columns = {
        "host": facts.hosts["host"],
        "size_bytes": facts.hosts["size_bytes"],
        "planes": facts.hosts["plane_count"],
        "events": facts.hosts["event_count"],
        "started_unix_ns": facts.hosts["start_unix_ns"],
        "profiled_ps": _subtract_times(facts.hosts["start_unix_ns"], facts.hosts["stop_unix_ns"], 1000),
    }
    host_rows = pa.table({name: column for name, column in host_columns.items() if column.null_count < len(column)})
    yield from _format_section("Hosts", host_rows, look, limit)
    planes = facts.planes
    columns = {"plane": planes["name"], "device": planes["device_type"], "lines": planes["line_count"]}
    yield from _format_section("Planes", _add_times(facts, planes, columns), look, limit)
    lines = facts.lines
    labels = zip(lines["name"].to_pylist(), lines["display_name"].to_pylist(), strict=True)
    names = pa.array([name or shown for name, shown in labels], pa.string())  # events show the name, if there is one
    yield from _format_section("Lines", _add_times(facts, lines, {"plane": lines["plane"], "line": names}), look, limit)
    yield from _format_recorded(facts.hosts, look, limit)
    yield from _format_log(facts.import_log, look, limit)


def list_facts(facts: SessionSummary) -> Iterator[tuple[str, str]]:
    """Yield label and text of each line of the summary."""
    summary = facts.summary
    paths = facts.hosts.column("path").to_pylist()
    folders = {path.rpartition("/")[0] for path in paths if "/" in path}
    if len(paths) == 1:
        place = paths[0]
    elif len(folders) == 1 and all("/" in path for path in paths):
        place = folders.pop() or "/"
    else:
        place = ", ".join(paths[:3]) + (f" and {len(paths) - 3:,} more" if len(paths) > 3 else "")
    yield "Session", place
    if summary["run"] is not None:
        yield "Run", summary["run"]
    yield "Size", f"{format_size(summary['size_bytes'])}, {count_noun(summary['hosts'], 'host', 'hosts')}"
    lines, planes = count_noun(summary["lines"], "line", "lines"), count_noun(summary["planes"], "plane", "planes")
    yield "Events", f"{summary['events']:,} on {lines} of {planes}"
    first, last = summary["first_start_ps"], summary["last_end_ps"]
    if first is not None and last is not None:
        yield "Time", f"{format_time(last - first)}, from {format_time(first)} to {format_time(last)}"
    devices = [device for device in summary["devices"] if device["type"] != "CPU"]  # every host has one of those
    counts = [
        f"{device['count']:,} {device['type']}" + (f" ({device['kind']})" if device["kind"] else "")
        for device in devices or summary["devices"]
    ]
    yield "Devices", ", ".join(counts) or "none"


def _add_times(facts: SessionSummary, table: pa.Table, columns: dict[str, Any]) -> pa.Table:
    """Return the columns and the times of their events; before them the host if there are several."""
    times = {
        "events": table["event_count"],
        "first_ps": table["first_start_ps"],
        "span_ps": _subtract_times(table["first_start_ps"], table["last_end_ps"]),
    }
    host = {"host": table["host"]} if facts.hosts.num_rows > 1 else {}
    return pa.table(host | columns | times)


def _subtract_times(starts: pa.ChunkedArray, ends: pa.ChunkedArray, unit_ps: int = 1) -> pa.ChunkedArray:
    """Return picoseconds between times; null if one is unknown, or for more than 106 days, which is damage and no
    int64."""
    pairs = zip(starts.to_pylist(), ends.to_pylist(), strict=True)
    durations = [None if start is None or end is None else (end - start) * unit_ps for start, end in pairs]
    fitting = [time if time is not None and -(2**63) <= time < 2**63 else None for time in durations]
    return pa.chunked_array([pa.array(fitting, pa.int64())])


def _format_recorded(hosts: pa.Table, look: Look, limit: int | None) -> Iterator[str]:
    """Yield the errors and warnings that the profiler recorded in the capture."""
    for title, column in (("Errors", "errors"), ("Warnings", "warnings")):
        messages = [
            (f"{row['host']}: " if hosts.num_rows > 1 else "") + message
            for row in hosts.select(["host", column]).to_pylist()
            for message in row[column] or ()
        ]
        if messages:
            yield ""
            yield look.strong(f"{title} recorded by the profiler")
            for message in messages[:limit]:
                yield from as_text.wrap_paragraph(message, look)
            yield from _note_left_out(len(messages), limit)


def _format_log(log: pa.Table, look: Look, limit: int | None) -> Iterator[str]:
    """Yield the import log: per row a line with severity, code, count and place, then the example."""
    rows = log.to_pylist()
    if rows:
        yield ""
        yield look.strong("Import log")
    for row in rows[:limit]:
        several = row["count"] > 1
        times = f", {row['count']:,} times" if several else ""
        at = "" if row["first_offset"] is None else f"{', first' * several} at byte {row['first_offset']:,}"
        where = "" if row["path"] is None else f" in {row['path'].rpartition('/')[2]}"
        yield from as_text.wrap_paragraph(f"{row['severity']} {row['code']}{times}{at}{where}", look)
        yield from as_text.wrap_paragraph(row["example"], look, "    ")
    yield from _note_left_out(len(rows), limit)


def _format_section(title: str, table: pa.Table, look: Look, limit: int | None) -> Iterator[str]:
    yield ""
    yield look.strong(title)
    hidden: list[str] = []
    for line in as_text.lines(table.slice(0, limit), look.narrower(2), left_out=hidden):
        yield f"  {line}"
    if hidden:
        yield from as_text.wrap_paragraph(describe_hidden(hidden), look)
    yield from _note_left_out(table.num_rows, limit)


def _note_left_out(rows: int, limit: int | None) -> Iterator[str]:
    if limit is not None and rows > limit:
        yield f"  showing {limit:,} of {rows:,}; --limit all shows the others"
