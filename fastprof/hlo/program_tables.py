"""The tables of compiled programs: each column, and its values for the ``ProgramRows`` of one program.

Values of text columns are numbers in the texts of all tables, those of lists are ``Lists``; a single value counts for
all rows of the program.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from fastprof.schema.column_kinds import Bytes, Count, Flag, Kind, Text
from fastprof.schema.tables import Column, Formula, TableSchema

_Texts: Final = Kind(pa.list_(pa.string()))
_Counts: Final = Kind(pa.list_(pa.int64()))


def _text(table: str, field: str) -> Formula:
    """The text that a field of ``module.computations`` or ``module.instructions`` numbers."""
    return lambda p: p.words[getattr(p.module, table)[field]]


def _number(field: str) -> Formula:
    return lambda p: p.instructions[field]


_PROGRAM = (
    Text("host", "host of the row, named after the file of the capture", lambda p: p.number(p.host)),
    Count("program_id", "id of the program, the stat program_id of events; uint64 as two's complement",
          lambda p: p.program.id),
    Text("module", "title of the program: jit_f(12)", lambda p: p.number(p.program.title)),
)  # fmt: skip


# ---- modules, computations, instructions


def _of_module(of: Formula) -> tuple[Formula, Formula]:
    """Formula and nulls of what is unknown of a module that does not decode."""
    return lambda p: 0 if p.module is None else of(p.module), lambda p: p.module is None


def _text_of_module(name: str) -> Formula:
    return lambda p: p.number(getattr(p.module, name, None))


_MODULES = (
    *_PROGRAM,
    Text("name", "name of the module; null: it does not decode", _text_of_module("name")),
    Count("module_id", "id recorded in the module; null: it does not decode", *_of_module(lambda module: module.id)),
    Text("path", "file that contains it", lambda p: p.number(p.program.path)),
    Flag("embedded", "whether that file is the capture, not a file beside it", lambda p: p.program.embedded),
    Bytes("size_bytes", "size of the HloProto", lambda p: p.program.length),
    Text("entry_computation", "computation that runs first; null: unknown", _text_of_module("entry_name")),
    Count("computation_count", "computations; null: it does not decode",
          *_of_module(lambda module: len(module.computations))),
    Count("instruction_count", "instructions of all computations; null: it does not decode", *_of_module(len)),
    Flag("is_scheduled", "whether it has a schedule, an order of its instructions; null: it does not decode",
         *_of_module(lambda module: module.is_scheduled)),
    Text("problem", "why it does not decode; null: it decodes", lambda p: p.number(p.problem)),
)  # fmt: skip

_COMPUTATIONS = (
    *_PROGRAM,
    Text("computation", "name of the computation; null: not recorded", _text("computations", "name")),
    Count("computation_id", "id in the program", lambda p: p.computations["id"]),
    Flag("is_entry", "whether the program starts with it", lambda p: np.arange(len(p.computations)) == p.module.entry),
    Flag("is_fusion", "whether the program marks it as the computation of a fusion",
         lambda p: p.computations["is_fusion"] != 0),
    Text("execution_thread", "thread that it runs on; null: the main thread",
         _text("computations", "execution_thread")),
    Text("root", "instruction that returns its result; null: none does", lambda p: p.names[p.computations["root"]]),
    Count("parameter_count", "parameters", lambda p: p.parameter_counts),
    Count("instruction_count", "instructions",
          lambda p: p.computations["last_instruction"] - p.computations["first_instruction"]),
    Flag("is_scheduled", "whether it has a schedule, an order of its instructions",
         lambda p: p.computations["scheduled_count"] >= 0),
)  # fmt: skip


def _is_not(opcode: str) -> Formula:
    return lambda p: ~p.where_opcode(opcode.__eq__)


def _by_shape(of: str) -> Formula:
    return lambda p: p.by_shape[of]


def _place(field: str) -> tuple[Formula, Formula]:
    return lambda p: p.places[field], lambda p: p.places[field] <= 0


_INSTRUCTIONS = (
    *_PROGRAM,
    Text("computation", "computation that contains it; null: not recorded",
         lambda p: p.words[p.computations["name"]][p.instructions["computation"]]),
    Count("instruction_id", "id in the program", _number("id")),
    Text("name", "name, unique in the program: the stat hlo_op of events; null: not recorded",
         _text("instructions", "name")),
    Text("opcode", "operation: dot, fusion, all-reduce; null: not recorded", _text("instructions", "opcode")),
    Text("category", "category, as in tables of ops: loop fusion, convolution; null: no opcode",
         lambda p: p.categories),
    Flag("is_entry", "whether the program starts with its computation",
         lambda p: p.instructions["computation"] == p.module.entry),
    Flag("is_root", "whether it returns the result of its computation",
         lambda p: p.computations["root"][p.instructions["computation"]] == np.arange(len(p.instructions))),
    Count("schedule_position", "place in the schedule of its computation; null: none", lambda p: p.schedule,
          lambda p: p.schedule < 0),
    Text("shape", "shape of the result with its layout: f32[8,128]{1,0:T(8,128)}; null: not recorded",
         _by_shape("text")),
    Text("element_type", "type of its elements: f32, bf16, tuple, token; null: unknown", _by_shape("type")),
    _Counts("dimensions", "sizes; upper bounds if dynamic; null: not an array", lambda p: p.dimensions,
            lambda p: ~p.by_shape["is_array"]),
    Text("tile", "tiles of its layout: (8,128)(2,1); null: none, or not an array", _by_shape("tile")),
    Count("memory_space", "memory space of its layout, 0: HBM; null: no layout", _by_shape("memory_space"),
          lambda p: ~p.by_shape["has_layout"]),
    Bytes("shape_bytes", "size without padding, of all tuple elements; null: unknown", _by_shape("bytes"),
          lambda p: p.by_shape["padded"] < 0),
    Bytes("padded_bytes", "the same with the padding of tiles; null: unknown", _by_shape("padded"),
          lambda p: p.by_shape["padded"] < 0),
    _Texts("operands", "names of its operands; a null in the list: the program has no such instruction; names longer "
           "than 1,000 characters are cut when the list would take too much memory", lambda p: p.operands),
    _Texts("called_computations", "names of the computations that it calls", lambda p: p.calls),
    Count("parameter_number", "number of the parameter; null: not a parameter", _number("parameter_number"),
          _is_not("parameter")),
    Count("tuple_index", "index of a get-tuple-element; null: not one", _number("tuple_index"),
          _is_not("get-tuple-element")),
    Text("fusion_kind", "kLoop, kInput, kOutput, kCustom; null: not a fusion", _text("instructions", "fusion_kind")),
    Text("custom_call_target", "target of a custom call; null: not one", _text("instructions", "custom_call_target")),
    Count("channel_id", "channel of a communication; null: none", _number("channel_id"),
          lambda p: p.instructions["channel_id"] == 0),
    Text("replica_groups", "groups of devices that communicate: {{0,1},{2,3}}; null: none",
         lambda p: p.replica_groups),
    Text("sharding", "how it is split over devices; null: not recorded", lambda p: p.shardings),
    Text("backend_config", "configuration of the compiler's backend; null: none", lambda p: p.backend_configs),
    Text("op_name", "path of the op that it comes from: jit(f)/dot_general; null: not recorded",
         _text("instructions", "op_name")),
    Text("op_type", "type of that op; null: not recorded", _text("instructions", "op_type")),
    Text("source_file", "source file; null: not recorded", lambda p: p.places["file"]),
    Count("source_line", "first source line; null: not recorded", *_place("line")),
    Count("source_end_line", "last source line; null: not recorded", *_place("end_line")),
    Count("source_column", "first source column; null: not recorded", *_place("column")),
    Count("source_end_column", "last source column; null: not recorded", *_place("end_column")),
    Text("stack", "file:line:column of calls, innermost first, one per line; null: not recorded",
         lambda p: p.stacks),
    Text("deduplicated_name", "instruction that it is a copy of; null: not recorded",
         _text("instructions", "deduplicated_name")),
    Text("scheduling_name", "name when it was scheduled; null: not recorded",
         _text("instructions", "scheduling_name")),
)  # fmt: skip


# ---- costs, by XLA's general model

_PLACED = (
    "bytes of its {0} {1} memory space 0; null: unknown; also null for instructions that run others, and for the start "
    "and end of an asynchronous instruction"
)
_CONTAINERS = ("call", "while", "conditional")
_IN_PARTS = ("-start", "-update", "-done")
"""Suffixes of opcodes of asynchronous instructions."""


def _cost(field: str) -> Formula:
    return lambda p: p.costs[field]


def _not_accessed(p: Any) -> Any:
    """Where bytes are unknown: the model counts all of an asynchronous instruction both at its start and at its end."""
    return ~p.costs["is_known"] | p.where_opcode(lambda opcode: opcode.endswith(_IN_PARTS))


def _not_placed(p: Any) -> Any:
    """Also where bytes move from or to an unknown place, as those of instructions that run others."""
    costs = p.costs
    placed = (costs["hbm_read_bytes"] != 0) | (costs["hbm_write_bytes"] != 0) | costs["elsewhere"]
    unplaced = (costs["bytes_accessed"] != 0) & ~placed
    return _not_accessed(p) | unplaced | p.where_opcode(_CONTAINERS.__contains__)


_COSTS = (
    *_PROGRAM,
    Text("name", "name of the instruction; null: not recorded", _text("instructions", "name")),
    Count("flops", "operations; elementwise instructions count one per element; null: unknown", _cost("model_flops"),
          lambda p: ~p.costs["is_known"]),
    Bytes("accessed_bytes", "bytes read and written in any memory, added up as XLA does: small operands may be missing "
          "or count twice; null: unknown, or the start or end of an asynchronous instruction", _cost("bytes_accessed"),
          _not_accessed),
    Bytes("hbm_read_bytes", _PLACED.format("operands", "read from"), _cost("hbm_read_bytes"), _not_placed),
    Bytes("hbm_written_bytes", _PLACED.format("result", "written to"), _cost("hbm_write_bytes"), _not_placed),
)  # fmt: skip


# ---- the plan of memory


def _flag(name: str, field: str, description: str) -> Column:
    return Flag(name, description, lambda p: p.plan.allocations[field] != 0)


def _not_a_parameter(p: Any) -> Any:
    return p.plan.allocations["entry_parameter"] == 0


def _in_no_allocation(p: Any) -> Any:
    return p.plan.allocation_of < 0


_ALLOCATIONS = (
    *_PROGRAM,
    Count("allocation", "number in the program", lambda p: p.plan.allocations["index"]),
    Bytes("size_bytes", "size; null: the recorded size is below 0", lambda p: p.plan.allocations["size"],
          lambda p: p.plan.odd_allocations),
    Count("memory_space", "memory space, 0: HBM", lambda p: p.plan.allocations["color"]),
    Text("category", "use: Parameter, Output, Thread-local, Constant, Temporary", lambda p: p.uses),
    Count("buffer_count", "buffers in it", lambda p: p.plan.allocations["assigned_count"]),
    Count("parameter_number", "number of the parameter; null: not a parameter",
          lambda p: p.plan.allocations["parameter_number"], _not_a_parameter),
    _Counts("parameter_index", "element of the parameter; null: not a parameter",
            lambda p: p.indices(p.plan.allocations, ~_not_a_parameter(p)), _not_a_parameter),
    _flag("is_thread_local", "thread_local", "whether each thread has its own"),
    _flag("is_entry_parameter", "entry_parameter", "whether it holds a parameter of the program"),
    _flag("may_be_output", "live_out", "whether it may hold results of the program"),
    _flag("is_tuple", "tuple", "whether it holds the pointers of a tuple"),
    _flag("is_constant", "constant", "whether it holds a constant"),
    Flag("is_aliased", "whether it is a parameter that a result overwrites (donated)", lambda p: p.plan.aliased),
)  # fmt: skip

_BUFFERS = (
    *_PROGRAM,
    Count("buffer", "number in the program", lambda p: p.plan.buffers["id"]),
    Text("instruction", "instruction that computes it; null: not in the program",
         lambda p: p.names[p.memory.instruction]),
    _Counts("element", "element of the result; empty: the entire result", lambda p: p.indices(p.plan.buffers)),
    Bytes("size_bytes", "size with padding; null: the recorded size is below 0", lambda p: p.plan.buffers["size"],
          lambda p: p.plan.odd_buffers),
    Bytes("unpadded_bytes", "size without padding; null: unknown", lambda p: p.memory.unpadded,
          lambda p: p.memory.unpadded < 0),
    Count("memory_space", "memory space, 0: HBM", lambda p: p.plan.buffers["color"]),
    Count("allocation", "allocation that contains it; null: none",
          lambda p: np.append(p.plan.allocations["index"], 0)[p.plan.allocation_of], _in_no_allocation),
    Bytes("offset_bytes", "start in the allocation; null: no allocation", lambda p: p.plan.offset_of,
          _in_no_allocation),
)  # fmt: skip

_HEAP_EVENTS = (
    *_PROGRAM,
    Count("heap", "heap of the program, from 0", lambda p: p.plan.events["trace"]),
    Count("position", "place among its events, from 0", lambda p: p.heap_positions),
    Text("kind", "alloc, free, or share: the buffer takes over another's memory; null: unknown",
         lambda p: p.heap_kinds),
    Count("buffer", "number of the buffer", lambda p: p.plan.events["buffer_id"]),
    Count("shared_buffer", "buffer whose memory is taken over; null: not a share",
          lambda p: p.plan.events["canonical_id"], lambda p: ~p.is_share),
    Text("computation", "computation of the instruction; null: not recorded",
         lambda p: p.plan_words[p.plan.events["computation_name"]]),
    Text("instruction", "instruction at which it happens; null: not recorded",
         lambda p: p.plan_words[p.plan.events["instruction_name"]]),
)  # fmt: skip

PROGRAM_TABLES: Final = {
    table.name: table
    for table in (
        TableSchema("hlo_modules", "a compiled program, from the capture or from a file beside it", _MODULES),
        TableSchema("hlo_computations", "a computation of a compiled program", _COMPUTATIONS),
        TableSchema("hlo_instructions", "an instruction of a compiled program, in the order of the program",
                    _INSTRUCTIONS),
        TableSchema("hlo_costs", "the cost of one execution of an instruction by XLA's cost model", _COSTS,
                    derived=True),
        TableSchema("hlo_allocations", "a block of memory that a compiled program allocates", _ALLOCATIONS),
        TableSchema("hlo_buffers", "a value of a compiled program in memory: the result of an instruction, or an "
                    "element of it", _BUFFERS),
        TableSchema("hlo_heap_events", "an event of the heap that the compiler planned, by heap, in program order",
                    _HEAP_EVENTS),
    )
}  # fmt: skip
