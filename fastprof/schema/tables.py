"""The columns of every table: type, unit, nullability and a description.

Decoders build tables from these definitions, and docs/tables.md is generated from them. ``VERSION`` goes up when a
column is renamed, retyped or removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from fastprof.schema.arrow_columns import typed

VERSION = "2"

KINDS = ("int64", "uint64", "double", "str", "bytes", "ref", "none")
"""The recorded kinds of stat values, in the order of the decoder's codes."""

SEVERITIES = ("info", "notice", "data_loss", "error")


Formula = Callable[[Any], Any]
"""From the rows that a table is built from to one value per row: an Arrow array, a NumPy array or a list."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column, defined once: name, type, description, and the formula of its values.

    ``type`` is the widest type: dictionary indices may be narrower.
    """

    name: str
    type: pa.DataType
    description: str
    nullable: bool = False
    unit: str | None = None
    of: Formula | None = field(default=None, compare=False, kw_only=True)
    """The values; an Arrow array brings its own nulls. None: the attribute of the rows that has the column's name."""
    null: Formula | None = field(default=None, compare=False, kw_only=True)
    """Which rows are null, as booleans, where ``of`` does not say so itself."""

    def array(self, rows: Any) -> pa.Array:
        """The values for ``rows``, which is whatever the formula takes."""
        values = getattr(rows, self.name) if self.of is None else self.of(rows)
        return typed(values, self.type) if self.null is None else pa.array(values, self.type, mask=self.null(rows))

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

    def of(self, rows: Any) -> pa.Table:
        """The table of ``rows``, each column by its formula."""
        return pa.Table.from_arrays([column.array(rows) for column in self.columns], schema=self.arrow())

    def of_parts(self, parts: Iterable[Any]) -> pa.Table:
        """The rows of several parts, such as hosts, as one table."""
        tables = [self.of(rows) for rows in parts]
        return pa.concat_tables(tables).unify_dictionaries().combine_chunks() if tables else self.empty()

    def empty(self) -> pa.Table:
        return self.arrow().empty_table()


TEXT = pa.dictionary(pa.int32(), pa.string())

_HOST = Column("host", TEXT, "host of the row, named after the file of the capture")
_PLANE_ID = Column("plane_id", pa.int32(), "plane, unique in the session")
_EVENT_ID = Column("event_id", pa.int64(), "event: its row among all events of the session")
_METADATA_ID = Column("metadata_id", pa.int64(), "id of the event metadata in its plane")


def _stat_columns() -> tuple[Column, ...]:
    return (
        Column("stat", TEXT, "name of the stat; #ID if the plane has no name for it"),
        Column("kind", TEXT, "kind of the recorded value: " + ", ".join(KINDS)),
        Column("int_value", pa.int64(), "value of kind int64, uint64 (two's complement), or ref without text", True),
        Column("double_value", pa.float64(), "value of kind double", True),
        Column("str_value", TEXT, "value of kind str, or the text of a ref", True),
        Column("bytes_value", pa.large_binary(), "value of kind bytes", True),
    )


def _small_stat_columns() -> tuple[Column, ...]:
    return (Column("stat_id", pa.int64(), "id of the stat metadata in its plane"), *_stat_columns())


_STRINGS = pa.list_(pa.string())

_PROGRAM = (
    _HOST,
    Column("program_id", pa.int64(), "id of the program, the stat program_id of events; uint64 as two's complement"),
    Column("module", TEXT, "title of the program: jit_f(12)"),
)
_ALLOCATION_FLAGS = {
    "is_thread_local": "whether each thread has its own",
    "is_entry_parameter": "whether it holds a parameter of the program",
    "may_be_output": "whether it may hold results of the program",
    "is_tuple": "whether it holds the pointers of a tuple",
    "is_constant": "whether it holds a constant",
    "is_aliased": "whether it is a parameter that a result overwrites (donated)",
}

_PLACED = (
    "bytes of its {0} {1} memory space 0; null: unknown; also null for instructions that run others, and for the start "
    "and end of an asynchronous instruction"
)

_TABLES = (
    TableSchema(
        "hosts",
        "a file of the session",
        (
            Column("host", pa.string(), "host, named after the file of the capture"),
            Column("run", pa.string(), "run of the log directory; null: the capture is not in one", True),
            Column("path", pa.string(), "path of the capture"),
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
            Column("timestamp_ns", pa.int64(), "recorded start of the line, to which offsets of events add", unit="ns"),
            Column("duration_ps", pa.int64(), "recorded duration; null: not recorded", True, "ps"),
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
            Column("name", TEXT, "name of the event; null: its plane has no event metadata with this id", True),
            Column(
                "start_ps", pa.int64(), "start, from the start of profiling on its host; null: aggregated", True, "ps"
            ),
            Column("duration_ps", pa.int64(), "duration; if aggregated, of all occurrences together", unit="ps"),
            Column("num_occurrences", pa.int64(), "occurrences of an aggregated event; null: a single event", True),
        ),
    ),
    TableSchema("event_stats", "a stat of an event", (_EVENT_ID, *_stat_columns())),
    TableSchema(
        "event_metadata",
        "an XEventMetadata: the name and stats that events of one kind share",
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
        "an XStatMetadata: the name of a stat, or a text that refs point to",
        (
            _PLANE_ID,
            Column("stat_id", pa.int64(), "id of the stat metadata in its plane"),
            Column("name", pa.string(), "name or text"),
            Column("description", pa.string(), "description; null: not recorded", True),
        ),
    ),
    TableSchema(
        "import_log",
        "a kind of fault or remark from reading the session",
        (
            Column("severity", pa.string(), ", ".join(SEVERITIES)),
            Column("code", pa.string(), "kind of fault or remark, as one word"),
            Column("count", pa.int64(), "number of occurrences"),
            Column("first_offset", pa.int64(), "byte offset of the first, in the decompressed bytes", True, "bytes"),
            Column("path", pa.string(), "file", True),
            Column("example", pa.string(), "description of the first one"),
        ),
    ),
    TableSchema(
        "hlo_modules",
        "a compiled program, from the capture or from a file beside it",
        (
            *_PROGRAM,
            Column("name", TEXT, "name of the module; null: it does not decode", True),
            Column("module_id", pa.int64(), "id recorded in the module; null: it does not decode", True),
            Column("path", TEXT, "file that contains it"),
            Column("embedded", pa.bool_(), "whether that file is the capture, not a file beside it"),
            Column("size_bytes", pa.int64(), "size of the HloProto", unit="bytes"),
            Column("entry_computation", TEXT, "computation that runs first; null: unknown", True),
            Column("computation_count", pa.int64(), "computations; null: it does not decode", True),
            Column("instruction_count", pa.int64(), "instructions of all computations; null: it does not decode", True),
            Column("is_scheduled", pa.bool_(), "whether it has a schedule, an order of its instructions", True),
            Column("problem", TEXT, "why it does not decode; null: it decodes", True),
        ),
    ),
    TableSchema(
        "hlo_computations",
        "a computation of a compiled program",
        (
            *_PROGRAM,
            Column("computation", TEXT, "name of the computation", True),
            Column("computation_id", pa.int64(), "id in the program"),
            Column("is_entry", pa.bool_(), "whether the program starts with it"),
            Column("is_fusion", pa.bool_(), "whether the program marks it as the computation of a fusion"),
            Column("execution_thread", TEXT, "thread that it runs on; null: the main thread", True),
            Column("root", TEXT, "instruction that returns its result; null: none does", True),
            Column("parameter_count", pa.int64(), "parameters"),
            Column("instruction_count", pa.int64(), "instructions"),
            Column("is_scheduled", pa.bool_(), "whether it has a schedule, an order of its instructions"),
        ),
    ),
    TableSchema(
        "hlo_instructions",
        "an instruction of a compiled program, in the order of the program",
        (
            *_PROGRAM,
            Column("computation", TEXT, "computation that contains it", True),
            Column("instruction_id", pa.int64(), "id in the program"),
            Column("name", TEXT, "name, unique in the program: the stat hlo_op of events", True),
            Column("opcode", TEXT, "operation: dot, fusion, all-reduce", True),
            Column("category", TEXT, "category, as in tables of ops: loop fusion, convolution", True),
            Column("is_entry", pa.bool_(), "whether the program starts with its computation"),
            Column("is_root", pa.bool_(), "whether it returns the result of its computation"),
            Column("schedule_position", pa.int64(), "place in the schedule of its computation; null: none", True),
            Column("shape", TEXT, "shape of the result with its layout: f32[8,128]{1,0:T(8,128)}", True),
            Column("element_type", TEXT, "type of its elements: f32, bf16, tuple, token", True),
            Column("dimensions", pa.list_(pa.int64()), "sizes; upper bounds if dynamic; null: not an array", True),
            Column("tile", TEXT, "tiles of its layout: (8,128)(2,1); null: none, or not an array", True),
            Column("memory_space", pa.int64(), "memory space of its layout, 0: HBM; null: no layout", True),
            Column(
                "shape_bytes", pa.int64(), "size without padding, of all tuple elements; null: unknown", True, "bytes"
            ),
            Column("padded_bytes", pa.int64(), "the same with the padding of tiles; null: unknown", True, "bytes"),
            Column(
                "operands",
                _STRINGS,
                "names of its operands; a null in the list: the program has no such instruction; names longer than "
                "1,000 characters are cut when the list would take too much memory",
            ),
            Column("called_computations", _STRINGS, "names of the computations that it calls"),
            Column("parameter_number", pa.int64(), "number of the parameter; null: not a parameter", True),
            Column("tuple_index", pa.int64(), "index of a get-tuple-element; null: not one", True),
            Column("fusion_kind", TEXT, "kLoop, kInput, kOutput, kCustom; null: not a fusion", True),
            Column("custom_call_target", TEXT, "target of a custom call; null: not one", True),
            Column("channel_id", pa.int64(), "channel of a communication; null: none", True),
            Column("replica_groups", TEXT, "groups of devices that communicate: {{0,1},{2,3}}; null: none", True),
            Column("sharding", TEXT, "how it is split over devices; null: not recorded", True),
            Column("backend_config", TEXT, "configuration of the compiler's backend; null: none", True),
            Column("op_name", TEXT, "path of the op that it comes from: jit(f)/dot_general; null: not recorded", True),
            Column("op_type", TEXT, "type of that op; null: not recorded", True),
            Column("source_file", TEXT, "source file; null: not recorded", True),
            Column("source_line", pa.int64(), "first source line; null: not recorded", True),
            Column("source_end_line", pa.int64(), "last source line; null: not recorded", True),
            Column("source_column", pa.int64(), "first source column; null: not recorded", True),
            Column("source_end_column", pa.int64(), "last source column; null: not recorded", True),
            Column("stack", TEXT, "file:line:column of calls, innermost first, one per line; null: not recorded", True),
            Column("deduplicated_name", TEXT, "instruction that it is a copy of; null: not recorded", True),
            Column("scheduling_name", TEXT, "name when it was scheduled; null: not recorded", True),
        ),
    ),
    TableSchema(
        "hlo_costs",
        "the cost of one execution of an instruction by XLA's cost model",
        (
            *_PROGRAM,
            Column("name", TEXT, "name of the instruction", True),
            Column(
                "flops", pa.int64(), "operations; elementwise instructions count one per element; null: unknown", True
            ),
            Column(
                "accessed_bytes",
                pa.int64(),
                "bytes read and written in any memory, added up as XLA does: small operands may be missing or count "
                "twice; null: unknown, or the start or end of an asynchronous instruction",
                True,
                "bytes",
            ),
            Column("hbm_read_bytes", pa.int64(), _PLACED.format("operands", "read from"), True, "bytes"),
            Column("hbm_written_bytes", pa.int64(), _PLACED.format("result", "written to"), True, "bytes"),
        ),
        derived=True,
    ),
    TableSchema(
        "hlo_allocations",
        "a block of memory that a compiled program allocates",
        (
            *_PROGRAM,
            Column("allocation", pa.int64(), "number in the program"),
            Column("size_bytes", pa.int64(), "size; null: the recorded size is below 0", True, "bytes"),
            Column("memory_space", pa.int64(), "memory space, 0: HBM"),
            Column("category", TEXT, "use: Parameter, Output, Thread-local, Constant, Temporary"),
            Column("buffer_count", pa.int64(), "buffers in it"),
            Column("parameter_number", pa.int64(), "number of the parameter; null: not a parameter", True),
            Column("parameter_index", pa.list_(pa.int64()), "element of the parameter; null: not a parameter", True),
            *(Column(name, pa.bool_(), text) for name, text in _ALLOCATION_FLAGS.items()),
        ),
    ),
    TableSchema(
        "hlo_buffers",
        "a value of a compiled program in memory: the result of an instruction, or an element of it",
        (
            *_PROGRAM,
            Column("buffer", pa.int64(), "number in the program"),
            Column("instruction", TEXT, "instruction that computes it; null: not in the program", True),
            Column("element", pa.list_(pa.int64()), "element of the result; empty: the entire result"),
            Column("size_bytes", pa.int64(), "size with padding; null: the recorded size is below 0", True, "bytes"),
            Column("unpadded_bytes", pa.int64(), "size without padding; null: unknown", True, "bytes"),
            Column("memory_space", pa.int64(), "memory space, 0: HBM"),
            Column("allocation", pa.int64(), "allocation that contains it; null: none", True),
            Column("offset_bytes", pa.int64(), "start in the allocation; null: no allocation", True, "bytes"),
        ),
    ),
    TableSchema(
        "hlo_heap_events",
        "an event of the heap that the compiler planned, by heap, in program order",
        (
            *_PROGRAM,
            Column("heap", pa.int64(), "heap of the program, from 0"),
            Column("position", pa.int64(), "place among its events, from 0"),
            Column("kind", TEXT, "alloc, free, or share: the buffer takes over another's memory; null: unknown", True),
            Column("buffer", pa.int64(), "number of the buffer"),
            Column("shared_buffer", pa.int64(), "buffer whose memory is taken over; null: not a share", True),
            Column("computation", TEXT, "computation of the instruction", True),
            Column("instruction", TEXT, "instruction at which it happens", True),
        ),
    ),
    TableSchema(
        "nesting",
        "an event and its place among the events of its line",
        (
            _EVENT_ID,
            Column("depth", pa.int32(), "levels of events above it on its line, 0: none; null: aggregated event", True),
            Column("parent_id", pa.int64(), "innermost event that encloses it; null: none", True),
            Column("self_time_ps", pa.int64(), "duration minus the time that its children cover", True, "ps"),
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
