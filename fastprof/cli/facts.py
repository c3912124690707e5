"""What ``fastprof info`` shows of a session, for all its formats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from fastprof.cli.progress import Progress
from fastprof.decode.plane_kinds import vendor_word

if TYPE_CHECKING:
    from fastprof.derive.host import Host
    from fastprof.profile.profile import Profile

_MADE = "transcribed_from"
"""A stat of the plane that the reader of other formats makes."""
_KIND_STATS = ("device_type_string", "device_vendor")  # stats that name the kind of device, best first


class Facts(NamedTuple):
    """A session. ``hosts``, ``planes`` and ``lines`` have counts and times next to their own columns."""

    summary: dict[str, Any]
    hosts: pa.Table
    planes: pa.Table
    lines: pa.Table
    import_log: pa.Table


def gather(profile: Profile, progress: Progress | None = None) -> Facts:
    """The content of the session. Reads start and duration of every event once, in bounded memory, and the events of
    small sessions with GPUs again, to check them: the times of the session are without impossible events."""
    tables = profile.read("hosts", "planes", "lines", "plane_stats")
    lines = _lines(tables["lines"], tables["planes"])
    total = sum(tables["lines"]["event_count"].to_pylist())
    lines = _with_spans(lines, "line_id", _spans(_read_events(profile, total, progress or Progress(None)), "line_id"))
    planes = _with_spans(_planes(tables["planes"], tables["plane_stats"]), "plane_id", _spans(lines, "plane_id"))
    counts = Counter(planes["host"].to_pylist())
    plane_counts = [counts[host] for host in tables["hosts"]["host"].to_pylist()]
    hosts = _with_columns(tables["hosts"], plane_count=pa.array(plane_counts, pa.int64()))
    hosts = _with_spans(hosts, "host", _spans(planes, "host"))
    summary = {
        "run": profile.run,
        "hosts": hosts.num_rows,
        "planes": planes.num_rows,
        "lines": lines.num_rows,
        "events": pc.sum(lines["event_count"], min_count=0).as_py(),
        "size_bytes": sum(hosts["size_bytes"].to_pylist()),
        "first_start_ps": pc.min(lines["first_start_ps"]).as_py(),
        "last_end_ps": pc.max(lines["last_end_ps"]).as_py(),
        "devices": _devices(planes),
    }
    if total <= _MOST_CHECKED and any(one["type"] == "GPU" for one in summary["devices"]):
        summary |= _without_impossible(profile)
    return Facts(summary, hosts, planes, lines, profile.import_log)


_MOST_CHECKED = 4_000_000
"""Events of a session that are checked against each other: all of a host are in memory then."""


def _without_impossible(profile: Profile) -> dict[str, Any]:
    """First and last time of a session without events that others contradict; nothing if there are none. Adds rows to
    ``import_log``."""
    from fastprof.analyses.runner import of_each_host
    from fastprof.derive.ops.record_checks import STATS, records_of, sound_extent
    from fastprof.tables.needs import Needs

    def checked(host: Host) -> tuple[bool, tuple[int, int] | None]:
        records_of(host.raw)
        return bool(host.raw.impossible), sound_extent(host.raw)

    found = of_each_host(profile.table_set, Needs(stats=STATS), checked)
    extents = [extent for _, extent in found if extent is not None]
    if not extents or not any(has for has, _ in found):
        return {}
    firsts, lasts = zip(*extents, strict=True)
    return {"first_start_ps": min(firsts), "last_end_ps": max(lasts)}


# ---- times of events

_LAST_PS = 2**63 - 1
_EXTREMES = {"event_count": "sum", "first_start_ps": "min", "last_end_ps": "max"}


def _read_events(profile: Profile, total: int, progress: Progress) -> pa.Table:
    """The span of the events of each line, batch by batch."""
    progress.hidden.add("decoding")
    parts = []
    done = 0
    for batch in profile.scan(columns=["line_id", "start_ps", "duration_ps"]):
        start = batch["start_ps"]
        columns = [batch["line_id"], pa.repeat(1, len(batch)), start, _ends(start, batch["duration_ps"])]
        parts.append(_spans(pa.table(columns, ["line_id", *_EXTREMES]), "line_id"))
        done += batch.num_rows
        progress("reading events", done, total)
    return pa.concat_tables(parts)


def _ends(start: pa.Array, duration: pa.Array) -> pa.Array:
    """Where events end; the limit of 64 bits for those that end beyond it."""
    room = pc.subtract(_LAST_PS, pc.max_element_wise(start, 0))
    back = pc.subtract(-_LAST_PS - 1, pc.min_element_wise(start, 0))
    return pc.add(start, pc.max_element_wise(pc.min_element_wise(duration, room), back))


def _spans(rows: pa.Table, key: str) -> pa.Table:
    """By key: number of events, first start, last end; null if no event has a start."""
    sums = rows.group_by(key).aggregate(list(_EXTREMES.items()))
    return sums.select([key, *map("_".join, _EXTREMES.items())]).rename_columns([key, *_EXTREMES])


def _with_spans(table: pa.Table, key: str, spans: pa.Table) -> pa.Table:
    """The table with the span of each row, found by its key."""
    places = _places(table, key, spans)
    columns = {name: spans[name].take(places).combine_chunks() for name in _EXTREMES}
    return _with_columns(table, **columns | {"event_count": columns["event_count"].fill_null(0)})


def _places(table: pa.Table, key: str, other: pa.Table) -> pa.Array:
    """For each row of the table, the row of the other one with the same key; null: there is none."""
    rows = {value: row for row, value in enumerate(other[key].to_pylist())}
    return pa.array([rows.get(value) for value in table[key].to_pylist()], pa.int64())


# ---- planes, lines, devices


def _planes(planes: pa.Table, stats: pa.Table) -> pa.Table:
    """The planes with their kind of device. That which says what a trace of another format was is not listed: the trace
    has no such process."""
    made = stats.filter(pc.equal(stats["stat"].cast(pa.string()), _MADE))["plane_id"]
    planes = planes.filter(pc.invert(pc.is_in(planes["plane_id"], value_set=made)))
    kinds = _device_kinds(stats)
    columns = (planes[name].to_pylist() for name in ("plane_id", "name", "device_type"))
    rows = zip(*columns, strict=True)
    kind = [kinds.get(plane) or vendor_word(name) if device else None for plane, name, device in rows]
    own = planes.select(["plane_id", "host", "name", "device_type", "device_ordinal", "line_count"])
    return _with_columns(own, device_kind=pa.array(kind, pa.string()))


def _device_kinds(stats: pa.Table) -> dict[int, str]:
    rows = stats.filter(pc.is_in(stats["stat"].cast(pa.string()), value_set=pa.array(_KIND_STATS)))
    named = [row for row in rows.select(["plane_id", "stat", "str_value"]).to_pylist() if row["str_value"]]
    named.sort(key=lambda row: _KIND_STATS.index(row["stat"]), reverse=True)  # the best comes last and stays
    return {row["plane_id"]: row["str_value"] for row in named}


def _lines(lines: pa.Table, planes: pa.Table) -> pa.Table:
    """The lines with the names of their host and plane."""
    places = _places(lines, "plane_id", planes)
    host, plane = (planes[name].cast(pa.string()).take(places).combine_chunks() for name in ("host", "name"))
    return _with_columns(lines.select(["line_id", "plane_id", "name", "display_name"]), host=host, plane=plane)


def _devices(planes: pa.Table) -> list[dict[str, Any]]:
    """The number of devices of each type and kind, in order of first appearance."""
    kinds = zip(planes["device_type"].to_pylist(), planes["device_kind"].to_pylist(), strict=True)
    counts = Counter(pair for pair in kinds if pair[0] not in (None, "CUSTOM"))
    return [{"type": type_, "kind": kind, "count": count} for (type_, kind), count in counts.items()]


_DESCRIPTIONS = {
    "device_kind": "kind of device, as the plane records it; null: not recorded, or not a device",
    "host": "host",
    "plane": "name of the plane",
    "plane_count": "selected planes",
    "event_count": "selected events",
    "first_start_ps": "start of the first event; null: no event has a start",
    "last_end_ps": "end of the event that ends last, at most 2^63 - 1; null: no event has a start",
}


def _with_columns(table: pa.Table, **columns: pa.Array) -> pa.Table:
    for name, values in columns.items():
        metadata = {"description": _DESCRIPTIONS[name], **({"unit": "ps"} if name.endswith("_ps") else {})}
        table = table.append_column(pa.field(name, values.type, metadata=metadata), values)
    return table


def sections(facts: Facts, limit: int | None) -> Iterator[bytes]:
    """The JSON document."""
    from fastprof.render import as_json

    tables = {"hosts": facts.hosts, "planes": facts.planes, "lines": facts.lines, "import_log": facts.import_log}
    return as_json.sections(facts.summary, {name: table.slice(0, limit) for name, table in tables.items()})
