"""Every table's columns: type, unit, nullability and one line of prose.

The single source of what tables look like: decoders build to it, the docs are printed from it, and
its ``VERSION`` goes up when a column is renamed, retyped or removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

VERSION = "1"

KINDS = ("int64", "uint64", "double", "str", "bytes", "ref", "none")
"""How a stat's value was written, in the order of the decoder's codes."""

SEVERITIES = ("info", "notice", "data_loss", "error")


@dataclass(frozen=True, slots=True)
class Column:
    """One column; ``type`` is the widest it gets: dictionary indices are as narrow as they can be."""

    name: str
    type: pa.DataType
    description: str
    nullable: bool = False
    unit: str | None = None

    def field(self, actual: pa.DataType | None = None) -> pa.Field:
        metadata = {"description": self.description}
        if self.unit:
            metadata["unit"] = self.unit
        return pa.field(self.name, actual or self.type, self.nullable, metadata)


@dataclass(frozen=True, slots=True)
class TableSchema:
    name: str
    row: str
    columns: tuple[Column, ...]
    derived: bool = False

    def __getitem__(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def arrow(self) -> pa.Schema:
        return pa.schema([column.field() for column in self.columns])


TEXT = pa.dictionary(pa.int32(), pa.string())

_HOST = Column("host", TEXT, "host the row comes from, as the capture's file is named")
_PLANE_ID = Column("plane_id", pa.int32(), "plane, unique in the session")
_EVENT_ID = Column("event_id", pa.int64(), "event: its row in the session's events, unfiltered")
_METADATA_ID = Column("metadata_id", pa.int64(), "id of the event metadata in its plane")


def _stat_columns() -> tuple[Column, ...]:
    return (
        Column("stat", TEXT, "name of the stat; #ID where the plane has no name for it"),
        Column("kind", TEXT, "how the value was written: " + ", ".join(KINDS)),
        Column("int_value", pa.int64(), "value of kind int64, uint64 as two's complement, or ref without text", True),
        Column("double_value", pa.float64(), "value of kind double", True),
        Column("str_value", TEXT, "value of kind str, or the text that a ref stands for", True),
        Column("bytes_value", pa.large_binary(), "value of kind bytes", True),
    )


def _small_stat_columns() -> tuple[Column, ...]:
    return (Column("stat_id", pa.int64(), "id of the stat metadata in its plane"), *_stat_columns())


_STRINGS = pa.list_(pa.string())

_TABLES = (
    TableSchema(
        "hosts",
        "a file of the session",
        (
            Column("host", pa.string(), "host, as the capture's file is named"),
            Column("run", pa.string(), "run of the log directory; null: the capture was not found in one", True),
            Column("path", pa.string(), "where the capture was read from"),
            Column("size_bytes", pa.int64(), "size of the capture, decompressed", unit="bytes"),
            Column("start_unix_ns", pa.int64(), "when profiling started, Unix time; null: not recorded", True, "ns"),
            Column("stop_unix_ns", pa.int64(), "when profiling stopped, Unix time; null: not recorded", True, "ns"),
            Column("hostnames", _STRINGS, "host names recorded in the capture"),
            Column("errors", _STRINGS, "errors recorded by the profiler"),
            Column("warnings", _STRINGS, "warnings recorded by the profiler, such as dropped events"),
            Column(
                "task_environment", pa.map_(pa.string(), pa.string()), "stats of the plane Task Environment, as text"
            ),
        ),
    ),
    TableSchema(
        "planes",
        "an XPlane: a device, or the threads of a host",
        (
            _PLANE_ID,
            _HOST,
            Column("xplane_id", pa.int64(), "id recorded in the capture"),
            Column("name", pa.string(), "name of the plane"),
            Column("device_type", pa.string(), "CPU, GPU, TPU, SPARSECORE, CUSTOM, CHIP; null: not a device", True),
            Column("device_ordinal", pa.int32(), "number of the device on its host", True),
            Column("line_count", pa.int32(), "lines of the plane"),
            Column("event_count", pa.int64(), "events of the plane"),
        ),
    ),
    TableSchema("plane_stats", "a stat of a plane", (_PLANE_ID, *_small_stat_columns())),
    TableSchema(
        "lines",
        "an XLine: a thread, a stream, a row of a device",
        (
            Column("line_id", pa.int32(), "line, unique in the session"),
            _PLANE_ID,
            Column("xline_id", pa.int64(), "id recorded in the capture: thread id, stream id"),
            Column("name", pa.string(), "name of the line"),
            Column("display_name", pa.string(), "name to show; null: name", True),
            Column("display_id", pa.int64(), "id to show and order by; null: xline_id", True),
            Column("timestamp_ns", pa.int64(), "base of the line's events, as recorded", unit="ns"),
            Column("duration_ps", pa.int64(), "duration as recorded; null: not recorded", True, "ps"),
            Column("event_count", pa.int64(), "events of the line"),
        ),
    ),
    TableSchema(
        "events",
        "an event, ordered by line, then start, longer first",
        (
            _EVENT_ID,
            _HOST,
            Column("plane", TEXT, "name of the plane"),
            Column("line", TEXT, "name of the line"),
            _PLANE_ID,
            Column("line_id", pa.int32(), "line, unique in the session"),
            _METADATA_ID,
            Column("name", TEXT, "name of the event; null: its plane has no metadata of that id", True),
            Column(
                "start_ps", pa.int64(), "start, from the start of profiling on its host; null: aggregated", True, "ps"
            ),
            Column("duration_ps", pa.int64(), "duration; of all occurrences where aggregated", unit="ps"),
            Column(
                "num_occurrences", pa.int64(), "occurrences of an aggregated event; null: an event of its own", True
            ),
        ),
    ),
    TableSchema("event_stats", "a stat of an event", (_EVENT_ID, *_stat_columns())),
    TableSchema(
        "event_metadata",
        "an XEventMetadata: what events of one kind share",
        (
            _PLANE_ID,
            _METADATA_ID,
            Column("name", pa.string(), "name; on TPUs the text of the HLO instruction"),
            Column("display_name", pa.string(), "short name; null: not recorded", True),
            Column("metadata", pa.large_binary(), "opaque bytes; null: not recorded", True),
            Column("child_ids", pa.list_(pa.int64()), "metadata ids of its children"),
        ),
    ),
    TableSchema(
        "event_metadata_stats",
        "a stat of an event metadata",
        (
            _PLANE_ID,
            _METADATA_ID,
            *_small_stat_columns(),
        ),
    ),
    TableSchema(
        "stat_metadata",
        "an XStatMetadata: a name of a stat, or a text that refs stand for",
        (
            _PLANE_ID,
            Column("stat_id", pa.int64(), "id of the stat metadata in its plane"),
            Column("name", pa.string(), "name or text"),
            Column("description", pa.string(), "description; null: not recorded", True),
        ),
    ),
    TableSchema(
        "import_log",
        "a kind of fault or remark met while reading",
        (
            Column("severity", pa.string(), ", ".join(SEVERITIES)),
            Column("code", pa.string(), "what was met, as one word"),
            Column("count", pa.int64(), "how often"),
            Column("first_offset", pa.int64(), "byte offset of the first, in the decompressed bytes", True, "bytes"),
            Column("path", pa.string(), "file", True),
            Column("example", pa.string(), "the first one, in words"),
        ),
    ),
    TableSchema(
        "nesting",
        "an event, placed among the events of its line",
        (
            _EVENT_ID,
            Column("depth", pa.int32(), "levels of events above it on its line, 0: none; null: aggregated event", True),
            Column("parent_id", pa.int64(), "innermost event that encloses it; null: none", True),
            Column("self_time_ps", pa.int64(), "duration less the time that its children cover", True, "ps"),
        ),
        derived=True,
    ),
)

TABLES: dict[str, TableSchema] = {table.name: table for table in _TABLES}


def index_type(size: int) -> pa.DataType:
    """The narrowest signed type that indexes a dictionary of ``size`` values."""
    if size <= 1 << 7:
        return pa.int8()
    return pa.int16() if size <= 1 << 15 else pa.int32()


def with_metadata(schema: pa.Schema, entries: Iterable[tuple[str, str]]) -> pa.Schema:
    """The schema with ``fastprof.schema_version`` and the given entries as its metadata."""
    return schema.with_metadata({"fastprof.schema_version": VERSION, **dict(entries)})
