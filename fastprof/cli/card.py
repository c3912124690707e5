"""The text that ``fastprof info`` prints: a summary of the session, then its hosts, planes, lines and faults."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fastprof.render import as_text
from fastprof.render.look import Look
from fastprof.wording import quantities

if TYPE_CHECKING:
    from fastprof.cli.facts import Facts


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
    yield "Size", f"{quantities.size_text(summary['size_bytes'])}, {_counted(summary['hosts'], 'host')}"
    lines, planes = _counted(summary["lines"], "line"), _counted(summary["planes"], "plane")
    yield "Events", f"{summary['events']:,} on {lines} of {planes}"
    first, last = summary["first_start_ps"], summary["last_end_ps"]
    if first is not None and last is not None:
        yield "Time", f"{_time(last - first)}, from {_time(first)} to {_time(last)}"
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
    starts, stops = hosts.column("start_unix_ns").to_pylist(), hosts.column("stop_unix_ns").to_pylist()
    profiled = [
        None if start is None or stop is None else _int64((stop - start) * 1000)
        for start, stop in zip(starts, stops, strict=True)
    ]
    columns = {
        "host": hosts.column("host"),
        "size_bytes": hosts.column("size_bytes"),
        "planes": hosts.column("plane_count"),
        "events": hosts.column("event_count"),
        "started_unix_ns": hosts.column("start_unix_ns"),
        "profiled_ps": pa.chunked_array([pa.array(profiled, pa.int64())]),
    }
    return pa.table({name: column for name, column in columns.items() if column.null_count < len(column)})


def _int64(value: int) -> int | None:
    """None for a span of more than 106 days: it is damage, and int64 cannot hold it."""
    return value if -(2**63) <= value < 2**63 else None


def _plane_rows(facts: Facts) -> pa.Table:
    planes = facts.planes
    columns: dict[str, Any] = {
        "plane": planes.column("name"),
        "device": planes.column("device_type"),
        "lines": planes.column("line_count"),
        **_times_of(planes),
    }
    if facts.hosts.num_rows > 1:
        columns = {"host": planes.column("host"), **columns}
    return pa.table(columns)


def _line_rows(facts: Facts) -> pa.Table:
    """One row per line. The display name is shown only when the line has no name, because events show the name."""
    lines = facts.lines
    names = zip(lines.column("name").to_pylist(), lines.column("display_name").to_pylist(), strict=True)
    columns: dict[str, Any] = {
        "plane": lines.column("plane"),
        "line": pa.array([name or shown for name, shown in names], pa.string()),
        **_times_of(lines),
    }
    if facts.hosts.num_rows > 1:
        columns = {"host": lines.column("host"), **columns}
    return pa.table(columns)


def _times_of(table: pa.Table) -> dict[str, Any]:
    firsts, lasts = table.column("first_start_ps").to_pylist(), table.column("last_end_ps").to_pylist()
    span = [None if first is None else _int64(last - first) for first, last in zip(firsts, lasts, strict=True)]
    return {
        "events": table.column("event_count"),
        "first_ps": table.column("first_start_ps"),
        "span_ps": pa.array(span, pa.int64()),
    }


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
    shown = table if limit is None else table.slice(0, limit)
    inner = look.narrower(2)
    dropped: list[str] = []
    for line in as_text.lines(shown, inner, left_out=dropped):
        yield f"  {line}"
    if dropped:
        names = ", ".join(reversed(dropped))
        yield from as_text.paragraph(f"no room for {names}; --wide shows all", look)
    yield from _left_out(table.num_rows, limit)


def _left_out(rows: int, limit: int | None) -> Iterator[str]:
    if limit is not None and rows > limit:
        yield f"  and {rows - limit:,} more; --limit all shows them"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _time(picoseconds: int) -> str:
    return quantities.time_text(picoseconds)
