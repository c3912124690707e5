"""The small tables: hosts, planes, lines, name tables, and the stats of planes and of event metadata."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastprof._native import records
from fastprof._native.kernels import bitmap_of_codes
from fastprof.decode.index import CaptureIndex, Index
from fastprof.decode.merged_planes import first_of_each
from fastprof.decode.plane_kinds import device_of
from fastprof.decode.span_stats import SpanStats, metadata_stats, owned_spans, read_span_stats
from fastprof.decode.text_pools import TextTable, dictionary_array, index_dtype
from fastprof.decode.xspace_capture import Capture
from fastprof.schema.array_types import Records
from fastprof.schema.capture_tables import CAPTURE_TABLES, KINDS

Mask = npt.NDArray[np.bool_]


def hosts_table(index: Index, wanted: list[bool]) -> pa.Table:
    rows = []
    for part, keep in zip(index.captures, wanted, strict=True):
        if keep:
            capture, environment = part.capture, part.environment
            rows.append({
                "host": capture.host, "run": capture.run, "path": capture.path, "size_bytes": capture.size_bytes,
                "start_unix_ns": _int64(environment.start_unix_ns), "stop_unix_ns": _int64(environment.stop_unix_ns),
                "hostnames": capture.hostnames, "errors": capture.errors, "warnings": capture.warnings,
                "task_environment": environment.stats,
            })  # fmt: skip
    return pa.Table.from_pylist(rows, CAPTURE_TABLES["hosts"].arrow())


def _int64(value: int | None) -> int | None:
    return value if value is None or -(2**63) <= value < 2**63 else None


def planes_table(index: Index, wanted: Mask) -> pa.Table:
    keys = [key for part in index.captures for key in part.capture.plane_keys]
    hosts = [part.capture.host for part in index.captures for _ in part.capture.plane_keys]
    lines = np.bincount(index.lines["plane_id"], minlength=len(keys))
    events = np.zeros(len(keys), np.int64)
    np.add.at(events, index.lines["plane_id"], index.lines["event_count"])
    devices = [device_of(name) for name, _ in keys]
    columns = [
        pa.array(np.arange(len(keys)), pa.int32()),
        _dictionary(hosts),
        pa.array([number for _, number in keys], pa.int64()),
        pa.array([name for name, _ in keys], pa.string()),
        pa.array([kind for kind, _ in devices], pa.string()),
        pa.array([ordinal for _, ordinal in devices], pa.int32()),
        pa.array(lines, pa.int32()),
        pa.array(events, pa.int64()),
    ]
    return _table("planes", columns).filter(pa.array(wanted))


def lines_table(index: Index, wanted: Mask) -> pa.Table:
    lines = index.lines
    columns = [
        pa.array(np.arange(len(lines)), pa.int32()),
        pa.array(lines["plane_id"], pa.int32()),
        pa.array(lines["xline_id"]),
        pa.array(index.line_names, pa.string()),
        pa.array([text or None for text in index.line_display_names], pa.string()),
        _zero_as_null(lines["display_id"]),
        pa.array(lines["timestamp_ns"]),
        _zero_as_null(lines["duration_ps"]),
        pa.array(lines["event_count"]),
    ]
    return _table("lines", columns).filter(pa.array(wanted))


def _zero_as_null(values: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(values, pa.int64(), mask=values == 0)


def _dictionary(values: list[str]) -> pa.Array:
    unique = list(dict.fromkeys(values))
    place = {text: i for i, text in enumerate(unique)}
    numbers = np.array([place[text] for text in values], index_dtype(len(unique)))
    return dictionary_array(numbers, pa.array(unique, pa.string()))


def _table(name: str, columns: list[pa.Array]) -> pa.Table:
    schema = CAPTURE_TABLES[name]
    fields = [column.field(array.type) for column, array in zip(schema.columns, columns, strict=True)]
    return pa.table(columns, schema=pa.schema(fields))


def _empty(name: str) -> pa.Table:
    return CAPTURE_TABLES[name].arrow().empty_table()


def _joined(name: str, tables: list[pa.Table]) -> pa.Table:
    if not tables:
        return _empty(name)
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks() if len(tables) > 1 else tables[0]


def event_metadata_table(index: Index, wanted: Mask) -> pa.Table:
    """Event metadata in the order of parts, then of the file."""
    tables = []
    for _, part in _with_wanted(index, wanted):
        capture = part.capture
        plane = part.plane_base + capture.plane_of_part[capture.metas["part"]]
        rows = _kept(plane, capture.event_metadata_ids(), wanted)
        names = capture.texts(capture.metas, b"XEventMetadata.name", "name_")
        shown = capture.texts(capture.metas, b"XEventMetadata.display_name", "display_")
        columns = [
            pa.array(plane[rows], pa.int32()),
            pa.array(capture.event_metadata_ids()[rows]),
            pa.array([names[row] for row in rows], pa.string()),
            pa.array([shown[row] or None for row in rows], pa.string()),
            _metadata_bytes(capture, capture.metas[rows]),
            _children(capture, rows),
        ]
        tables.append(_table("event_metadata", columns))
    return _joined("event_metadata", tables)


def _metadata_bytes(capture: Capture, metas: Records) -> pa.Array:
    data = memoryview(capture.source.data)
    values = [
        bytes(data[offset : offset + length]) if has else None
        for offset, length, has in metas[["metadata_offset", "metadata_length", "has_metadata"]].tolist()
    ]
    return pa.array(values, pa.large_binary())


def _children(capture: Capture, rows: npt.NDArray[np.intp]) -> pa.Array:
    """Child ids of the given metadata."""
    children = np.frombuffer(capture.xspace.children(), records.CHILD)
    place = np.full(len(capture.metas), -1, np.int64)
    place[rows] = np.arange(len(rows))
    owner = place[children["owner"]]
    children, owner = children[owner >= 0], owner[owner >= 0]
    order = np.argsort(owner, kind="stable")
    offsets = np.zeros(len(rows) + 1, np.int32)
    np.cumsum(np.bincount(owner, minlength=len(rows)), out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(_child_ids(capture, children)[order], pa.int64()))


def _child_ids(capture: Capture, children: Records) -> npt.NDArray[np.int64]:
    """Ids in the plane: of merged planes the part's own ids may have been replaced."""
    ids: npt.NDArray[np.int64] = children["id"]
    if capture.meta_ids is None:
        return ids
    keys = zip(capture.metas["part"].tolist(), capture.metas["id"].tolist(), strict=True)
    known = dict(zip(keys, capture.meta_ids.tolist(), strict=True))
    parts = capture.metas["part"][children["owner"]].tolist()
    return np.array([known.get(key, key[1]) for key in zip(parts, ids.tolist(), strict=True)], np.int64)


def _kept(plane: npt.NDArray[np.int64], ids: npt.NDArray[np.int64], wanted: Mask) -> npt.NDArray[np.intp]:
    """Rows of metadata in wanted planes, by plane; of equal ids the first."""
    if not len(plane):
        return np.zeros(0, np.intp)
    rows = np.flatnonzero(wanted[plane] & first_of_each(plane, ids))
    return rows[np.argsort(plane[rows], kind="stable")]


def stat_metadata_table(index: Index, wanted: Mask) -> pa.Table:
    tables = []
    for _, part in _with_wanted(index, wanted):
        capture = part.capture
        declared = np.flatnonzero(capture.stats.metas["name_length"] != records.NO_TEXT)
        plane = part.plane_base + capture.plane_of_part[capture.stats.metas["part"][declared]]
        ids = capture.stat_metadata_ids()[declared]
        rows = _kept(plane, ids, wanted)
        metas = capture.stats.metas[declared]
        names = capture.texts(metas, b"XStatMetadata.name", "name_")
        described = capture.texts(metas, b"XStatMetadata.description", "description_")
        columns = [
            pa.array(plane[rows], pa.int32()),
            pa.array(ids[rows]),
            pa.array([names[row] for row in rows], pa.string()),
            pa.array([described[row] or None for row in rows], pa.string()),
        ]
        tables.append(_table("stat_metadata", columns))
    return _joined("stat_metadata", tables)


def plane_stats_table(index: Index, wanted: Mask) -> pa.Table:
    shares = []
    for capture, plane, stats in _plane_stats(index, wanted):
        shares.append((capture, stats, [pa.array(plane, pa.int32())]))
    return _stat_table("plane_stats", index.names.stats, shares)


def plane_stat_values(index: Index, wanted: Mask) -> list[tuple[int, str, Any]]:
    """The same as Python values: plane_id, name and value; uint64 is positive, None is no value."""
    shares = list(_plane_stats(index, wanted))
    texts = index.names.stats.array()
    found: list[tuple[int, str, Any]] = []
    for capture, planes, stats in shares:
        data = memoryview(capture.source.data)
        places = {int(at["row"]): at for at in stats.bytes_at}
        columns = (planes, stats.stat, stats.kind, stats.text, stats.int_value, stats.double_value)
        for row, (plane, stat, kind, text, integer, double) in enumerate(
            zip(*(column.tolist() for column in columns), strict=True)
        ):
            value: Any = None
            if kind in (records.STR, records.REF):
                value = texts[text].as_py() if text >= 0 else integer if kind == records.REF else None
            elif kind in (records.INT64, records.UINT64):
                value = integer if kind == records.INT64 else integer % 2**64
            elif kind == records.DOUBLE:
                value = double
            elif row in places:
                value = bytes(data[int(places[row]["offset"]) : int(places[row]["offset"] + places[row]["length"])])
            if stat >= 0:
                found.append((plane, texts[stat].as_py(), value))
    return found


def _plane_stats(index: Index, wanted: Mask) -> Iterator[tuple[Capture, npt.NDArray[np.int64], SpanStats]]:
    """The stats of the wanted planes of each capture, by plane, and the plane_id of each."""
    for i, part in _with_wanted(index, wanted):
        spans = owned_spans(part.capture.plane_stat_spans)
        plane = part.plane_base + part.capture.plane_of_part[spans["owner"]]
        stats = read_span_stats(index.names.texts[i], spans, np.ascontiguousarray(spans["owner"]))
        plane = plane[stats.span]
        keep = np.flatnonzero(wanted[plane])
        keep = keep[np.argsort(plane[keep], kind="stable")]
        yield part.capture, plane[keep], stats.taken(keep)


def event_metadata_stats_table(index: Index, wanted: Mask) -> pa.Table:
    shares = []
    for i, part in _with_wanted(index, wanted):
        capture = part.capture
        spans, stats = metadata_stats(index.names.texts[i])
        plane = part.plane_base + capture.plane_of_part[capture.metas["part"][spans["owner"]]]
        ids = capture.event_metadata_ids()
        planes = part.plane_base + capture.plane_of_part[capture.metas["part"]]
        first = np.zeros(len(ids), bool)
        first[_kept(planes, ids, wanted)] = True
        keep = np.flatnonzero(first[spans["owner"]])
        keep = keep[np.argsort(plane[keep], kind="stable")]
        owner = spans["owner"][keep]
        shares.append((capture, stats.taken(keep), [pa.array(plane[keep], pa.int32()), pa.array(ids[owner])]))
    return _stat_table("event_metadata_stats", index.names.stats, shares)


def read_all(index: Index) -> None:
    """Reads all that can be faulty, so that the log knows of it."""
    index.ensure(records.STATS)
    planes = np.ones(index.plane_count, bool)
    event_metadata_table(index, planes)
    stat_metadata_table(index, planes)
    plane_stats_table(index, planes)
    event_metadata_stats_table(index, planes)


def _with_wanted(index: Index, wanted: Mask) -> Iterator[tuple[int, CaptureIndex]]:
    """The captures that have a plane which is wanted."""
    for i, part in enumerate(index.captures):
        if wanted[part.plane_base : part.plane_base + len(part.capture.plane_keys)].any():
            yield i, part


def _stat_table(name: str, table: TextTable, shares: list[tuple[Capture, SpanStats, list[pa.Array]]]) -> pa.Table:
    texts = table.array()  # once all shares have been read: reading adds texts
    return _joined(name, [_table(name, keys + _stat_columns(capture, stats, texts)) for capture, stats, keys in shares])


def _stat_columns(capture: Capture, stats: SpanStats, texts: pa.Array) -> list[pa.Array]:
    kind = stats.kind
    integers = np.isin(kind, [records.INT64, records.UINT64]) | ((kind == records.REF) & (stats.text < 0))
    return [
        pa.array(stats.stat_id),
        _used(stats.stat, stats.stat >= 0, texts),
        dictionary_array(kind.view(np.int8), pa.array(KINDS)),
        pa.array(stats.int_value, mask=~integers),
        pa.array(stats.double_value, mask=kind != records.DOUBLE),
        _used(stats.text, stats.text >= 0, texts),
        _bytes_column(capture, stats),
    ]


def _used(numbers: npt.NDArray[np.int32], valid: Mask, texts: pa.Array) -> pa.Array:
    """A dictionary of the texts that occur, in the order of their numbers."""
    used, place = np.unique(numbers[valid], return_inverse=True)
    indices = np.zeros(len(numbers), index_dtype(len(used)))
    indices[valid] = place
    validity, count = bitmap_of_codes(valid.view(np.uint8), 1 << 1)
    return dictionary_array(indices, texts.take(pa.array(used)), validity, len(numbers) - count)


def _bytes_column(capture: Capture, stats: SpanStats) -> pa.Array:
    data = memoryview(capture.source.data)
    values: list[Any] = [None] * len(stats.kind)
    at = stats.bytes_at
    for row, offset, length in zip(at["row"].tolist(), at["offset"].tolist(), at["length"].tolist(), strict=True):
        values[row] = bytes(data[offset : offset + length])
    return pa.array(values, pa.large_binary())
