"""The tables of tfprof's profiles: the graph, when its nodes ran, and what memory they took. All views of tfprof are
sums over them.

Nodes are in the order of the bytes of their names, within a host; so are their executions and memory. Times in
microseconds are as recorded. Texts of few distinct values are dictionaries inside lists, too. Addresses of 64 bits are
two's complement, as in all tables. What belongs to no node has a table of its own, tfprof_profiles.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from fastprof.schema.tables import TEXT, Bytes, Count, Flag, Kind, Picoseconds, String, TableSchema, Text

_INT32, _INT64, _TEXT = pa.int32(), pa.int64(), pa.string()
_Microseconds: Final = Kind(_INT64, "us")
_Sizes: Final = pa.list_(_INT64)


def _make_list_type(**members: pa.DataType) -> Kind:
    return Kind(pa.list_(pa.struct(list(members.items()))))


_HOST: Final = Text("host", "host, named after its capture file")
_NAME: Final = Text("name", "node name")
_STEP: Final = Count("step", "number of the step in which it ran")

PROFILES: Final = TableSchema("tfprof_profiles", "a profile of tfprof: the graph of one host and the steps it ran", (
    _HOST,
    Kind(pa.list_(_INT64))("steps", "numbers of the steps, ascending; nodes may have run in other steps"),
    Flag("has_trace", "whether nodes are known to have a stack trace of the code that created them"),
    Flag("misses_accelerator_stream", "whether an accelerator ran ops without recorded times"),
))  # fmt: skip

NODES: Final = TableSchema("tfprof_nodes", "a node of a graph that tfprof recorded, by host and name", (
    _HOST,
    String("name", "node name"),
    Text("op", "node type: MatMul"),
    Kind(pa.list_(TEXT))("types", "types for accounting: the op of the node, its device, and types from a log of "
                         "ops, such as _trainable_variables; in byte order"),
    Text("canonical_device", "device that the node ran on; null: not recorded"),
    Text("host_device", "host device that launches the node's work; null: not recorded"),
    Kind(_Sizes)("shape", "shape by the attribute shape of the node, with -1 for unknown sizes; null: not recorded"),
    Count("parameters", "product of shape, in 64-bit two's complement; 0 if shape is null or has unknown sizes"),
    Count("float_ops", "floating-point operations of one run; 0: not recorded"),
    _make_list_type(slot=_INT32, node=TEXT, output=_INT32)("inputs",
                                                           "nodes whose outputs it reads, by input number; "
                                                           "null: a node that the graph lacks"),
    _make_list_type(slot=_INT32, node=TEXT)("outputs", "nodes that read its outputs, by output number"),
    _make_list_type(slot=_INT32, shape=_Sizes)("input_shapes", "recorded shapes of inputs, by number"),
    _make_list_type(slot=_INT32, shape=_Sizes)("output_shapes", "recorded shapes of outputs, by number"),
    _make_list_type(name=TEXT, value=TEXT)("attrs", "attributes by name, as text"),
    _make_list_type(file=TEXT, line=_INT32, function=TEXT, function_line=_INT32, text=TEXT)(
        "trace", "stack frames of the code that created the node, outermost first; empty: not recorded"),
    _make_list_type(step=_INT64, run_count=_INT64, start_us=_INT64, end_us=_INT64, devices=pa.list_(TEXT),
             allocations=pa.list_(pa.struct([("time_us", _INT64), ("bytes", _INT64)])))(
        "runs", "records of the node by step: number and times of its runs (Unix time), devices that mention it, and "
            "allocations (negative: freed)"),
))  # fmt: skip

EXECUTIONS: Final = TableSchema(
    "tfprof_executions", "an execution of a node, by host, node, step and device, then as recorded", (
        _HOST,
        _NAME,
        _STEP,
        Text("device", "device that recorded it, in lower case; all streams of an accelerator"),
        Flag("is_accelerator", "whether an accelerator ran it; else a host ran or launched it"),
        Picoseconds("start_ps", "start as in events, from the start of profiling on its host; null: no event, "
                    "because the recorded time is invalid"),
        Picoseconds("duration_ps", "duration as in events; null: no event, because the recorded time is invalid"),
        _Microseconds("start_us", "start as recorded, Unix time"),
        _Microseconds("duration_us", "duration as recorded; tfprof records 1 for a measured 0"),
    ),
)  # fmt: skip

MEMORY: Final = TableSchema("tfprof_memory", "a memory record of a run of a node, by host, node and step", (
    _HOST,
    _NAME,
    _STEP,
    _Microseconds("end_us", "time of the record, Unix time"),
    Bytes("host_temp_bytes", "temporary memory of the host"),
    Bytes("host_persistent_bytes", "memory of the host that outlives the run"),
    Bytes("accelerator_temp_bytes", "temporary memory of the accelerator"),
    Bytes("accelerator_persistent_bytes", "memory of the accelerator that outlives the run"),
    Bytes("requested_bytes", "all memory that the run requested"),
    Bytes("peak_bytes", "most memory that the run held at once"),
    Bytes("residual_bytes", "memory that the run did not give back"),
    Bytes("output_bytes", "memory of its outputs"),
    Bytes("allocator_bytes_in_use", "memory that the allocator of the accelerator has given out; 0: not recorded"),
    _make_list_type(slot=_INT32, bytes=_INT64, pointer=_INT64)("output_memory",
                                                               "bytes and address of each output, by number"),
))  # fmt: skip

TFPROF_TABLES: Final = {table.name: table for table in (PROFILES, NODES, EXECUTIONS, MEMORY)}
