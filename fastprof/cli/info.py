"""The content of a session: hosts, planes, lines, devices, counts, times, faults.

JSON holds everything; CSV and Arrow hold the table of planes. With --runs, the runs of a log directory are listed
instead, newest first.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fastprof.cli import arguments, opening, output
from fastprof.cli.facts import Facts
from fastprof.cli.progress import Progress
from fastprof.errors import UsageError
from fastprof.render.table_forms import chunks

if TYPE_CHECKING:
    import pyarrow as pa

    from fastprof.profile.profile import Profile

_KIND_STATS = ("device_type_string", "device_vendor")  # stats that name the kind of device, best first


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.add_session(parser)
    group = parser.add_argument_group("what to show")
    group.add_argument("--runs", action="store_true", help="list the runs of log directories, newest first")
    arguments.add_filters(parser)
    arguments.add_output(parser, limited="rows per table")
    arguments.add_talk(parser)


def run(args: argparse.Namespace) -> None:
    form = output.format_for(args.format, args.output)
    if args.runs:
        _write_runs(args, form)
        return
    whole = opening.open_session(args)
    profile = opening.selected(whole, args)
    limit = arguments.row_limit(args.limit, form)
    with output.opened(args, form) as sink:
        facts = gather(profile, args.talk.progress)
        args.talk.progress.clear()
        if form == "table":
            from fastprof.cli import card

            text = "".join(f"{line}\n" for line in card.lines(facts, sink.look, limit))
            sink.send([text.encode(sink.look.encoding, "backslashreplace")])
        elif form == "json":
            sink.send(_document(facts, limit))
        else:
            sink.send(chunks(form, _held_to(facts.planes, limit), name="planes", look=sink.look))
    if opening.filtered(args) and not facts.summary["events"]:
        for line in opening.explain_nothing(whole, args):
            args.talk.note(line)
    output.note_written(args)


def gather(profile: Profile, progress: Progress | None = None) -> Facts:
    """The content of the session. Reads start and duration of every event once, in bounded memory."""
    tables = profile.read("hosts", "planes", "lines", "plane_stats")
    total = sum(tables["lines"].column("event_count").to_pylist())
    spans = _spans(profile, total, progress or Progress(None))
    planes = _planes(tables["planes"], tables["plane_stats"], _spans_of_planes(tables["lines"], spans))
    lines = _lines(tables["lines"], planes, spans)
    hosts = _hosts(tables["hosts"], planes)
    import_log = profile.import_log
    firsts = [first for _, first, _ in spans.values() if first is not None]
    lasts = [last for _, _, last in spans.values() if last is not None]
    summary = {
        "run": profile.run,
        "hosts": hosts.num_rows,
        "planes": planes.num_rows,
        "lines": lines.num_rows,
        "events": sum(count for count, _, _ in spans.values()),
        "size_bytes": sum(hosts.column("size_bytes").to_pylist()),
        "first_start_ps": min(firsts, default=None),
        "last_end_ps": max(lasts, default=None),
        "devices": _devices(planes),
    }
    return Facts(summary, hosts, planes, lines, import_log)


_DESCRIPTIONS = {
    "device_kind": "kind of device, as the plane records it; null: not recorded, or not a device",
    "host": "host",
    "plane": "name of the plane",
    "plane_count": "selected planes",
    "event_count": "selected events",
    "first_start_ps": "start of the first event; null: no event has a start",
    "last_end_ps": "end of the event that ends last; null: no event has a start",
}


def _with_columns(table: pa.Table, **columns: pa.Array) -> pa.Table:
    import pyarrow as pa

    for name, values in columns.items():
        metadata = {"description": _DESCRIPTIONS[name], **({"unit": "ps"} if name.endswith("_ps") else {})}
        table = table.append_column(pa.field(name, values.type, metadata=metadata), values)
    return table


Span = tuple[int, int | None, int | None]
"""Number of events, first start, last end; None if no event has a start."""
_NOTHING: Span = (0, None, None)


def _spans(profile: Profile, total: int, progress: Progress) -> dict[int, Span]:
    """The span of each line that has events, by line_id."""
    import pyarrow.compute as pc

    progress.hidden.add("decoding")
    spans: dict[int, Span] = {}
    done = 0
    for batch in profile.scan(columns=["line_id", "start_ps", "duration_ps"]):
        if batch.num_rows == 0:
            continue
        ends = pc.add(batch.column("start_ps"), batch.column("duration_ps"))
        table = _table(line_id=batch.column("line_id"), start=batch.column("start_ps"), end=ends)
        extremes = [("start", "min"), ("end", "max"), ("line_id", "count")]
        for row in table.group_by("line_id").aggregate(extremes).to_pylist():
            span = (row["line_id_count"], row["start_min"], row["end_max"])
            spans[row["line_id"]] = _together(spans.get(row["line_id"], _NOTHING), span)
        done += batch.num_rows
        progress("reading events", done, total)
    return spans


def _together(one: Span, other: Span) -> Span:
    return one[0] + other[0], _extreme(min, one[1], other[1]), _extreme(max, one[2], other[2])


def _spans_of_planes(lines: pa.Table, spans: dict[int, Span]) -> dict[int, Span]:
    planes: dict[int, Span] = {}
    for line, plane in zip(lines.column("line_id").to_pylist(), lines.column("plane_id").to_pylist(), strict=True):
        planes[plane] = _together(planes.get(plane, _NOTHING), spans.get(line, _NOTHING))
    return planes


def _extreme(pick: Any, one: int | None, other: int | None) -> int | None:
    present = [value for value in (one, other) if value is not None]
    chosen: int | None = pick(present, default=None)
    return chosen


def _planes(planes: pa.Table, stats: pa.Table, spans: dict[int, Span]) -> pa.Table:
    """The planes with kind of device, selected events, first start and last end."""
    import pyarrow as pa

    kinds = _device_kinds(stats)
    ids = planes.column("plane_id").to_pylist()
    types = planes.column("device_type").to_pylist()
    kind = [kinds.get(plane) if device else None for plane, device in zip(ids, types, strict=True)]
    return _with_columns(
        planes.select(["plane_id", "host", "name", "device_type", "device_ordinal", "line_count"]),
        device_kind=pa.array(kind, pa.string()),
        **_span_columns(ids, spans),
    )


def _lines(lines: pa.Table, planes: pa.Table, spans: dict[int, Span]) -> pa.Table:
    """The lines with host and plane, selected events, first start and last end."""
    import pyarrow as pa

    of_plane = {row["plane_id"]: row for row in planes.select(["plane_id", "host", "name"]).to_pylist()}
    whose = [of_plane[plane] for plane in lines.column("plane_id").to_pylist()]
    return _with_columns(
        lines.select(["line_id", "plane_id", "name", "display_name"]),
        host=pa.array([row["host"] for row in whose], pa.string()),
        plane=pa.array([row["name"] for row in whose], pa.string()),
        **_span_columns(lines.column("line_id").to_pylist(), spans),
    )


def _span_columns(ids: list[int], spans: dict[int, Span]) -> dict[str, pa.Array]:
    import pyarrow as pa

    rows = [spans.get(key, _NOTHING) for key in ids]
    names = ("event_count", "first_start_ps", "last_end_ps")
    return {name: pa.array([span[i] for span in rows], pa.int64()) for i, name in enumerate(names)}


def _device_kinds(stats: pa.Table) -> dict[int, str]:
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds: dict[int, str] = {}
    wanted = stats.filter(pc.is_in(stats.column("stat").cast(pa.string()), value_set=pa.array(_KIND_STATS)))
    for stat in reversed(_KIND_STATS):
        for row in wanted.select(["plane_id", "stat", "str_value"]).to_pylist():
            if row["stat"] == stat and row["str_value"]:
                kinds[row["plane_id"]] = row["str_value"]
    return kinds


def _hosts(hosts: pa.Table, planes: pa.Table) -> pa.Table:
    """The hosts with their planes, events, first start and last end."""
    import pyarrow as pa

    added: dict[str, list[int | None]] = {"plane_count": [], "event_count": [], "first_start_ps": [], "last_end_ps": []}
    rows = planes.select(["host", "event_count", "first_start_ps", "last_end_ps"]).to_pylist()
    for host in hosts.column("host").to_pylist():
        own = [row for row in rows if row["host"] == host]
        added["plane_count"].append(len(own))
        added["event_count"].append(sum(row["event_count"] for row in own))
        added["first_start_ps"].append(_extreme_of(min, own, "first_start_ps"))
        added["last_end_ps"].append(_extreme_of(max, own, "last_end_ps"))
    return _with_columns(hosts, **{name: pa.array(values, pa.int64()) for name, values in added.items()})


def _extreme_of(pick: Any, rows: list[dict[str, Any]], column: str) -> int | None:
    chosen: int | None = pick((row[column] for row in rows if row[column] is not None), default=None)
    return chosen


def _devices(planes: pa.Table) -> list[dict[str, Any]]:
    """The number of devices of each type and kind, in order of first appearance."""
    rows = planes.select(["device_type", "device_kind", "host", "device_ordinal", "name"]).to_pylist()
    counts = Counter(
        (row["device_type"], row["device_kind"]) for row in rows if row["device_type"] not in (None, "CUSTOM")
    )
    return [{"type": type_, "kind": kind, "count": count} for (type_, kind), count in counts.items()]


def _document(facts: Facts, limit: int | None) -> Iterator[bytes]:
    from fastprof.render import as_json

    tables = {"hosts": facts.hosts, "planes": facts.planes, "lines": facts.lines, "import_log": facts.import_log}
    return as_json.sections(facts.summary, {name: _held_to(table, limit) for name, table in tables.items()})


def _held_to(table: pa.Table, limit: int | None) -> pa.Table:
    return table if limit is None else table.slice(0, limit)


def _table(**columns: Any) -> pa.Table:
    import pyarrow as pa

    return pa.table(columns)


def _write_runs(args: argparse.Namespace, form: str) -> None:
    import pyarrow as pa

    import fastprof

    if "-" in args.session:
        raise UsageError("--runs lists the runs of directories; standard input (-) is not a directory")
    runs = [run for path in args.session for run in fastprof.runs(path)]
    table = pa.table(
        {
            "run": pa.array([run.name for run in runs], pa.string()),
            "hosts": pa.array([run.hosts for run in runs], pa.list_(pa.string())),
            "path": pa.array([run.path for run in runs], pa.string()),
        }
    )
    limit = arguments.row_limit(args.limit, form)
    shown = _held_to(table, limit)
    if form == "table":
        counts = [len(run.hosts) for run in runs[: shown.num_rows]]
        shown = shown.set_column(1, "hosts", pa.array(counts, pa.int64()))
    with output.opened(args, form) as sink:
        left_out: list[str] = []
        sink.send(chunks(form, shown, name="runs", look=sink.look, left_out=left_out))
    output.note_left_out(args, left_out)
    if shown.num_rows < table.num_rows:
        args.talk.note(f"showing {shown.num_rows:,} of {table.num_rows:,} runs; --limit all shows the others")
    output.note_written(args)
