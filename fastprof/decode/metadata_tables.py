"""The small tables: hosts, planes, lines, name tables, and the stats of planes and of event metadata."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof._native import records
from fastprof._native.kernels import bitmap_of_codes
from fastprof.decode.index import CaptureIndex, Index
from fastprof.decode.plane_kinds import find_device_of_plane
from fastprof.decode.span_stats import SpanStats, own_spans, read_metadata_stats, read_span_stats
from fastprof.decode.text_pools import TextTable, get_index_dtype, make_dictionary_array
from fastprof.decode.xspace_capture import Capture, mark_first_of_each, take_new_ids
from fastprof.schema.capture_tables import CAPTURE_TABLES, KINDS
from fastprof.schema.columns import Int64s, Records, find_group_bounds, find_last_started, number_values, sum_by
from fastprof.schema.tables import take_texts

Mask = npt.NDArray[np.bool_]


def make_hosts_table(index: Index, wanted: list[bool]) -> pa.Table:
    rows = []
    for part, keep in zip(index.captures, wanted, strict=True):
        if keep:
            capture, environment = part.capture, part.environment
            rows.append({
                "host": capture.host, "run": capture.run, "path": capture.path, "size_bytes": capture.size_bytes,
                "start_unix_ns": _wrap_int64(environment.start_unix_ns),
                "stop_unix_ns": _wrap_int64(environment.stop_unix_ns),
                "hostnames": capture.hostnames, "errors": capture.errors, "warnings": capture.warnings,
                "task_environment": environment.stats,
            })  # fmt: skip
    return pa.Table.from_pylist(rows, CAPTURE_TABLES["hosts"].arrow())


def _wrap_int64(value: int | None) -> int | None:
    return value if value is None or -(2**63) <= value < 2**63 else None


def make_planes_table(index: Index, wanted: Mask) -> pa.Table:
    keys = [key for part in index.captures for key in part.capture.plane_keys]
    hosts = [part.capture.host for part in index.captures for _ in part.capture.plane_keys]
    events = sum_by(index.lines["plane_id"], index.lines["event_count"], len(keys), "events")
    devices = [find_device_of_plane(name) for name, _ in keys]
    unique = list(dict.fromkeys(hosts))
    place = {text: i for i, text in enumerate(unique)}
    numbers = np.array([place[text] for text in hosts], get_index_dtype(len(unique)))
    host_names = make_dictionary_array(numbers, pa.array(unique, pa.string()))
    table = _make_table(
        "planes",
        np.arange(len(keys)),
        host_names,
        [number for _, number in keys],
        [name for name, _ in keys],
        [kind for kind, _ in devices],
        [ordinal for _, ordinal in devices],
        np.bincount(index.lines["plane_id"], minlength=len(keys)),
        events,
    )
    return _keep_rows(table, wanted)


def make_lines_table(index: Index, wanted: Mask) -> pa.Table:
    lines = index.lines
    table = _make_table(
        "lines",
        np.arange(len(lines)),
        lines["plane_id"],
        lines["xline_id"],
        index.line_names,
        [text or None for text in index.line_display_names],
        pa.array(lines["display_id"], mask=lines["display_id"] == 0),
        lines["timestamp_ns"],
        pa.array(lines["duration_ps"], mask=lines["duration_ps"] == 0),
        lines["event_count"],
    )
    return _keep_rows(table, wanted)


def _keep_rows(table: pa.Table, wanted: Mask) -> pa.Table:
    return table if wanted.all() else table.filter(pa.array(wanted))  # which imports pyarrow.compute


def _make_table(name: str, *columns: Any) -> pa.Table:
    """Return the table of these columns: Arrow arrays, or values of the types that the table declares."""
    declared = CAPTURE_TABLES[name].columns
    arrays = [
        values if isinstance(values, pa.Array) else pa.array(values, column.type)
        for column, values in zip(declared, columns, strict=True)
    ]
    fields = [column.field(array.type) for column, array in zip(declared, arrays, strict=True)]
    return pa.table(arrays, schema=pa.schema(fields))


def _join_tables(name: str, tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).combine_chunks() if tables else CAPTURE_TABLES[name].empty()


def make_event_metadata_table(index: Index, wanted: Mask) -> pa.Table:
    """Event metadata in the order of parts, then of the file."""
    tables = []
    for _, part in _list_wanted(index, wanted):
        capture = part.capture
        plane = part.plane_base + capture.plane_of_part[capture.metas["part"]]
        rows = _select_metadata(plane, capture.event_metadata_ids(), wanted)
        names = capture.texts(capture.metas, b"XEventMetadata.name", "name_")
        shown = capture.texts(capture.metas, b"XEventMetadata.display_name", "display_")
        table = _make_table(
            "event_metadata",
            plane[rows],
            capture.event_metadata_ids()[rows],
            [names[row] for row in rows],
            [shown[row] or None for row in rows],
            _read_metadata_bytes(capture, capture.metas[rows]),
            _read_children(capture, rows),
        )
        tables.append(table)
    return _join_tables("event_metadata", tables)


def _read_metadata_bytes(capture: Capture, metas: Records) -> list[bytes | None]:
    has = metas["has_metadata"] != 0
    values: list[bytes | None] = [None] * len(metas)
    copies = capture.copies(metas[has][["metadata_offset", "metadata_length"]].tolist())
    for row, value in zip(np.flatnonzero(has).tolist(), copies, strict=True):
        values[row] = value
    return values


def _read_children(capture: Capture, rows: npt.NDArray[np.intp]) -> pa.Array:
    """Child ids of the given metadata."""
    children = np.frombuffer(capture.xspace.children(), records.CHILD)
    place = np.full(len(capture.metas), -1, np.int64)
    place[rows] = np.arange(len(rows))
    owner = place[children["owner"]]
    children, owner = children[owner >= 0], owner[owner >= 0]
    order = np.argsort(owner, kind="stable")
    offsets = find_group_bounds(owner[order], len(rows)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(_read_child_ids(capture, children)[order], pa.int64()))


def _read_child_ids(capture: Capture, children: Records) -> npt.NDArray[np.int64]:
    """Ids in the plane: of merged planes the part's own ids may have been replaced."""
    ids: npt.NDArray[np.int64] = children["id"]
    if capture.meta_ids is None:
        return ids
    return take_new_ids(capture.metas, capture.meta_ids, ids, capture.metas["part"][children["owner"]])


def _select_metadata(plane: npt.NDArray[np.int64], ids: npt.NDArray[np.int64], wanted: Mask) -> npt.NDArray[np.intp]:
    """Return rows of metadata in wanted planes, by plane; of equal ids the first."""
    if not len(plane):
        return np.zeros(0, np.intp)
    rows = np.flatnonzero(wanted[plane] & mark_first_of_each(plane, ids))
    return rows[np.argsort(plane[rows], kind="stable")]


def make_stat_metadata_table(index: Index, wanted: Mask) -> pa.Table:
    tables = []
    for _, part in _list_wanted(index, wanted):
        capture = part.capture
        declared = np.flatnonzero(capture.stats.metas["name_length"] != records.NO_TEXT)
        plane = part.plane_base + capture.plane_of_part[capture.stats.metas["part"][declared]]
        ids = capture.stat_metadata_ids()[declared]
        rows = _select_metadata(plane, ids, wanted)
        metas = capture.stats.metas[declared]
        names = capture.texts(metas, b"XStatMetadata.name", "name_")
        described = capture.texts(metas, b"XStatMetadata.description", "description_")
        texts = [names[row] for row in rows], [described[row] or None for row in rows]
        tables.append(_make_table("stat_metadata", plane[rows], ids[rows], *texts))
    return _join_tables("stat_metadata", tables)


def make_plane_stats_table(index: Index, wanted: Mask) -> pa.Table:
    shares = [(stats, (plane,)) for plane, stats in _read_plane_stats(index, wanted)]
    return _make_stat_table("plane_stats", index.names.stats, shares)


def list_plane_stats(index: Index, wanted: Mask) -> list[tuple[int, str, Any]]:
    """List the stats of planes as Python values: plane_id, name and value; uint64 is positive, None is no value."""
    shares = list(_read_plane_stats(index, wanted))
    texts = index.names.stats.array()
    rows = [
        row
        for planes, stats in shares
        for row in zip(planes.tolist(), stats.stat.tolist(), stats.values(texts), strict=True)
    ]
    return [(plane, texts[stat].as_py(), value) for plane, stat, value in rows if stat >= 0]


def _read_plane_stats(index: Index, wanted: Mask) -> Iterator[tuple[Int64s, SpanStats]]:
    """Yield the stats of the wanted planes of each capture, by plane, and the plane_id of each."""
    for i, part in _list_wanted(index, wanted):
        spans = own_spans(part.capture.plane_stat_spans)
        plane = part.plane_base + part.capture.plane_of_part[spans["owner"]]
        stats = read_span_stats(index.names.texts[i], spans, np.ascontiguousarray(spans["owner"]))
        plane = plane[stats.span]
        rows = np.flatnonzero(wanted[plane])
        rows = rows[np.argsort(plane[rows], kind="stable")]
        yield plane[rows], stats.taken(rows)


def make_event_metadata_stats_table(index: Index, wanted: Mask) -> pa.Table:
    shares = []
    for i, part in _list_wanted(index, wanted):
        capture = part.capture
        spans, stats = read_metadata_stats(index.names.texts[i])
        owner, ids = spans["owner"], capture.event_metadata_ids()
        plane = part.plane_base + capture.plane_of_part[capture.metas["part"]]
        first = np.zeros(len(ids), bool)
        first[_select_metadata(plane, ids, wanted)] = True
        rows = np.flatnonzero(first[owner])
        rows = rows[np.argsort(plane[owner[rows]], kind="stable")]
        shares.append((stats.taken(rows), (plane[owner[rows]], ids[owner[rows]])))
    return _make_stat_table("event_metadata_stats", index.names.stats, shares)


def read_all(index: Index) -> None:
    """Read all that can be faulty, so that the log knows of it."""
    index.ensure(records.STATS)
    planes = np.ones(index.plane_count, bool)
    make_event_metadata_table(index, planes)
    make_stat_metadata_table(index, planes)
    make_plane_stats_table(index, planes)
    make_event_metadata_stats_table(index, planes)


def _list_wanted(index: Index, wanted: Mask) -> Iterator[tuple[int, CaptureIndex]]:
    """Return the captures that have a plane which is wanted."""
    bases = np.array([part.plane_base for part in index.captures])
    numbers = np.unique(find_last_started(bases, np.flatnonzero(wanted)))
    return ((i, index.captures[i]) for i in numbers.tolist())


def _make_stat_table(
    name: str, table: TextTable, shares: Sequence[tuple[SpanStats, tuple[npt.NDArray[Any], ...]]]
) -> pa.Table:
    """Return the stats of all captures, each with its key columns; one dictionary of the texts that occur."""
    if not shares:
        return CAPTURE_TABLES[name].empty()
    texts = table.array()  # once all shares have been read: reading adds texts
    keys = [np.concatenate(column) for column in zip(*(keys for _, keys in shares), strict=True)]

    def column(part: str) -> npt.NDArray[Any]:
        return np.concatenate([getattr(stats, part) for stats, _ in shares])

    kind, stat, text = column("kind"), column("stat"), column("text")
    integers = np.isin(kind, [records.INT64, records.UINT64]) | ((kind == records.REF) & (text < 0))
    payloads: list[bytes | None] = [None] * len(kind)
    base = 0
    for stats, _ in shares:
        for row, value in stats.payloads().items():
            payloads[base + row] = value
        base += len(stats.kind)
    return _make_table(
        name,
        *keys,
        column("stat_id"),
        _keep_used_texts(stat, stat >= 0, texts),
        make_dictionary_array(kind.view(np.int8), pa.array(KINDS, pa.string())),
        pa.array(column("int_value"), mask=~integers),
        pa.array(column("double_value"), mask=kind != records.DOUBLE),
        _keep_used_texts(text, text >= 0, texts),
        payloads,
    )


def _keep_used_texts(numbers: npt.NDArray[np.int32], valid: Mask, texts: pa.Array) -> pa.Array:
    """Return a dictionary of the texts that occur, in the order of their numbers."""
    used, place = number_values(numbers[valid])
    indices = np.zeros(len(numbers), get_index_dtype(len(used)))
    indices[valid] = place
    validity, count = bitmap_of_codes(valid.view(np.uint8), 1 << 1)
    return make_dictionary_array(indices, take_texts(texts, used), validity, len(numbers) - count)
