"""The tables that are read from captures. Decoders build them from these definitions; docs/tables.md shows them."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from fastprof.schema.tables import Bytes, Count, Kind, Picoseconds, TableSchema, Text

KINDS = ("int64", "uint64", "double", "str", "bytes", "ref", "none")
"""The recorded kinds of stat values, in the order of the decoder's codes."""

SEVERITIES = ("info", "notice", "data_loss", "error")

_Small: Final = Kind(pa.int32())
Nanoseconds: Final = Kind(pa.int64(), "ns")
_Name: Final = Kind(pa.string())
_Names: Final = Kind(pa.list_(pa.string()))
_Blob: Final = Kind(pa.large_binary())

RUN = Text("run", "run, named after its directory")
"""The first column of every table of several runs."""
HOST = Text("host", "host, named after its capture file")
_PLANE_ID = _Small("plane_id", "plane id, unique in the session")
_LINE_ID = _Small("line_id", "line id, unique in the session")
EVENT_ID = Count("event_id", "event id: its row among all events of the session")
_METADATA_ID = Count("metadata_id", "id of the event metadata in its plane")
_STAT_ID = Count("stat_id", "id of the stat metadata in its plane")

_STAT = (
    Text("stat", "stat name; #ID if the plane has no name for it"),
    Text("kind", "kind of the recorded value: " + ", ".join(KINDS)),
    Count("int_value", "value of kind int64, uint64 (two's complement), or ref without text; null: another kind"),
    Kind(pa.float64())("double_value", "value of kind double; null: another kind"),
    Text("str_value", "value of kind str, or the text of a ref; null: another kind"),
    _Blob("bytes_value", "value of kind bytes; null: another kind"),
)

_TABLES = (
    TableSchema("hosts", "a session file", (
        _Name("host", "host, named after its capture file"),
        _Name("run", "name of the run in the log directory; null: the capture is not in a log directory"),
        _Name("path", "capture path"),
        Bytes("size_bytes", "capture size, decompressed"),
        Nanoseconds("start_unix_ns", "start of profiling, Unix time; null: not recorded"),
        Nanoseconds("stop_unix_ns", "end of profiling, Unix time; null: not recorded"),
        _Names("hostnames", "host names recorded in the capture"),
        _Names("errors", "errors that the profiler recorded"),
        _Names("warnings", "warnings that the profiler recorded, such as dropped events"),
        Kind(pa.map_(pa.string(), pa.string()))("task_environment", "stats of the plane Task Environment, as text"),
    )),
    TableSchema("planes", "an XPlane: a device, or host threads", (
        _PLANE_ID,
        HOST,
        Count("xplane_id", "plane id, as recorded in the capture"),
        _Name("name", "plane name"),
        _Name("device_type", "kind of the device: CPU, GPU (what runs kernels, of any vendor), TPU, SPARSECORE, "
              "CUSTOM, CHIP; null: not a device"),
        _Small("device_ordinal", "number of the device on its host; null: not a device"),
        _Small("line_count", "number of lines of the plane"),
        Count("event_count", "number of events of the plane"),
    )),
    TableSchema("plane_stats", "a stat of a plane", (_PLANE_ID, _STAT_ID, *_STAT)),
    TableSchema("lines", "an XLine: a thread, a stream, or another row of a device", (
        _LINE_ID,
        _PLANE_ID,
        Count("xline_id", "line id, as recorded in the capture, such as a thread id or a stream id"),
        _Name("name", "line name"),
        _Name("display_name", "name of the line to show instead of name; null: name is shown"),
        Count("display_id", "id to show and to order lines by; null: xline_id is used"),
        Nanoseconds("timestamp_ns", "start of the line as recorded, to which offsets of events are added"),
        Picoseconds("duration_ps", "duration of the line as recorded; null: not recorded"),
        Count("event_count", "number of events of the line"),
    )),
    TableSchema("events", "an event, by line and start; for equal starts longer events first", (
        EVENT_ID,
        HOST,
        Text("plane", "plane name"),
        Text("line", "line name"),
        _PLANE_ID,
        _LINE_ID,
        _METADATA_ID,
        Text("name", "event name; null: its plane has no event metadata with this id"),
        Picoseconds("start_ps", "start of the event, from the start of profiling on its host; null: an aggregated "
                    "event, which has no start"),
        Picoseconds("duration_ps", "duration of the event; for an aggregated event, the sum of all occurrences"),
        Count("num_occurrences", "number of occurrences of an aggregated event; null: a single event"),
    )),
    TableSchema("event_stats", "a stat of an event", (EVENT_ID, *_STAT)),
    TableSchema("event_metadata", "an XEventMetadata: the name and stats that events of one kind share", (
        _PLANE_ID,
        _METADATA_ID,
        _Name("name", "name of the events; on TPUs the instruction text"),
        _Name("display_name", "short event name; null: not recorded"),
        _Blob("metadata", "bytes of unknown format; null: not recorded"),
        Kind(pa.list_(pa.int64()))("child_ids", "ids of the event metadata of its children"),
    )),
    TableSchema("event_metadata_stats", "a stat of an event's metadata", (_PLANE_ID, _METADATA_ID, _STAT_ID, *_STAT)),
    TableSchema("stat_metadata", "an XStatMetadata: the name of a stat, or a text that values of kind ref point to", (
        _PLANE_ID,
        _STAT_ID,
        _Name("name", "stat name, or the text"),
        _Name("description", "stat description; null: not recorded"),
    )),
    TableSchema("import_log", "a kind of fault or remark from reading the session", (
        _Name("severity", "severity: " + ", ".join(SEVERITIES)),
        _Name("code", "kind of fault or remark, as one word"),
        Count("count", "number of occurrences"),
        Bytes("first_offset", "byte offset of the first occurrence in the decompressed capture; null: not at one "
              "place"),
        _Name("path", "file of the first occurrence; null: not in one file"),
        _Name("example", "description of the first occurrence"),
    )),
)  # fmt: skip

CAPTURE_TABLES: Final = {table.name: table for table in _TABLES}
