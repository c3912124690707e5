"""The text that ``fastprof info`` prints: a summary of the session, then its hosts, planes, lines and faults."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from fastprof.cli.facts import Facts
from fastprof.cli.output import hidden_columns
from fastprof.render import as_text
from fastprof.render.look import Look
from fastprof.wording.quantities import counted, size_text, time_text


def lines(facts: Facts, look: Look, limit: int | None) -> Iterator[str]:
    """The lines of the text; at most ``limit`` rows of each table."""
    for label, text in _glance(facts):
        yield from as_text.paragraph(text, look, f"{label:<9}")
    yield from _section("Hosts", _host_rows(facts.hosts), look, limit)
    yield from _section("Planes", _plane_rows(facts), look, limit)
    yield from _section("Lines", _line_rows(facts), look, limit)
    yield from _recorded(facts.hosts, look, limit)
    yield from _met(facts.import_log, look, limit)


def _glance(facts: Facts) -> Iterator[tuple[str, str]]:
    summary = facts.summary
    yield "Session", _place(facts.hosts.column("path").to_pylist())
    if summary["run"] is not None:
        yield "Run", summary["run"]
    yield "Size", f"{size_text(summary['size_bytes'])}, {counted(summary['hosts'], 'host', 'hosts')}"
    lines, planes = counted(summary["lines"], "line", "lines"), counted(summary["planes"], "plane", "planes")
    yield "Events", f"{summary['events']:,} on {lines} of {planes}"
    first, last = summary["first_start_ps"], summary["last_end_ps"]
    if first is not None and last is not None:
        yield "Time", f"{time_text(last - first)}, from {time_text(first)} to {time_text(last)}"
    devices = [device for device in summary["devices"] if device["type"] != "CPU"]  # every host has one of those
    counts = [
        f"{device['count']:,} {device['type']}" + (f" ({device['kind']})" if device["kind"] else "")
        for device in devices or summary["devices"]
    ]
    yield "Devices", ", ".join(counts) or "none"


def _place(paths: list[str]) -> str:
    """The only file, or the directory that contains all of them, else their names."""
    if len(paths) == 1:
        return paths[0]
    folders = {path.rpartition("/")[0] for path in paths if "/" in path}
    if len(folders) == 1 and all("/" in path for path in paths):
        return folders.pop() or "/"
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3:,} more" if len(paths) > 3 else "")


def _host_rows(hosts: pa.Table) -> pa.Table:
    columns = {
        "host": hosts["host"],
        "size_bytes": hosts["size_bytes"],
        "planes": hosts["plane_count"],
        "events": hosts["event_count"],
        "started_unix_ns": hosts["start_unix_ns"],
        "profiled_ps": _durations(hosts["start_unix_ns"], hosts["stop_unix_ns"], 1000),
    }
    return pa.table({name: column for name, column in columns.items() if column.null_count < len(column)})


def _plane_rows(facts: Facts) -> pa.Table:
    planes = facts.planes
    columns = {"plane": planes["name"], "device": planes["device_type"], "lines": planes["line_count"]}
    return _rows_with_times(facts, planes, columns)


def _line_rows(facts: Facts) -> pa.Table:
    """One row per line. The display name is shown only when the line has no name, because events show the name."""
    lines = facts.lines
    names = zip(lines["name"].to_pylist(), lines["display_name"].to_pylist(), strict=True)
    columns = {"plane": lines["plane"], "line": pa.array([name or shown for name, shown in names], pa.string())}
    return _rows_with_times(facts, lines, columns)


def _rows_with_times(facts: Facts, table: pa.Table, columns: dict[str, Any]) -> pa.Table:
    """The columns and the times of their events; before them the host if there are several."""
    times = {
        "events": table["event_count"],
        "first_ps": table["first_start_ps"],
        "span_ps": _durations(table["first_start_ps"], table["last_end_ps"]),
    }
    host = {"host": table["host"]} if facts.hosts.num_rows > 1 else {}
    return pa.table(host | columns | times)


def _durations(starts: pa.ChunkedArray, ends: pa.ChunkedArray, unit_ps: int = 1) -> pa.ChunkedArray:
    """Picoseconds between times; null if one is unknown, or for more than 106 days, which is damage and no int64."""
    pairs = zip(starts.to_pylist(), ends.to_pylist(), strict=True)
    durations = [None if start is None or end is None else (end - start) * unit_ps for start, end in pairs]
    fitting = [time if time is not None and -(2**63) <= time < 2**63 else None for time in durations]
    return pa.chunked_array([pa.array(fitting, pa.int64())])


def _recorded(hosts: pa.Table, look: Look, limit: int | None) -> Iterator[str]:
    """The errors and warnings that the profiler recorded in the capture."""
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
                yield from as_text.paragraph(message, look)
            yield from _left_out(len(messages), limit)


def _met(log: pa.Table, look: Look, limit: int | None) -> Iterator[str]:
    """The import log: per row a line with severity, code, count and place, then the example."""
    rows = log.to_pylist()
    if rows:
        yield ""
        yield look.strong("Import log")
    for row in rows[:limit]:
        several = row["count"] > 1
        times = f", {row['count']:,} times" if several else ""
        at = "" if row["first_offset"] is None else f"{', first' * several} at byte {row['first_offset']:,}"
        where = "" if row["path"] is None else f" in {row['path'].rpartition('/')[2]}"
        yield from as_text.paragraph(f"{row['severity']} {row['code']}{times}{at}{where}", look)
        yield from as_text.paragraph(row["example"], look, "    ")
    yield from _left_out(len(rows), limit)


def _section(title: str, table: pa.Table, look: Look, limit: int | None) -> Iterator[str]:
    yield ""
    yield look.strong(title)
    hidden: list[str] = []
    for line in as_text.lines(table.slice(0, limit), look.narrower(2), left_out=hidden):
        yield f"  {line}"
    if hidden:
        yield from as_text.paragraph(hidden_columns(hidden), look)
    yield from _left_out(table.num_rows, limit)


def _left_out(rows: int, limit: int | None) -> Iterator[str]:
    if limit is not None and rows > limit:
        yield f"  showing {limit:,} of {rows:,}; --limit all shows the others"
