"""The tables of compiled programs: each column, and its values for the ``ProgramRows`` of one program.

Values of text columns are numbers in the texts of all tables, those of lists are ``Lists``; a single value counts for
all rows of the program.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from fastprof.schema.tables import Bytes, Column, Count, Flag, Formula, Kind, TableSchema, Text

_Texts: Final = Kind(pa.list_(pa.string()))
_Counts: Final = Kind(pa.list_(pa.int64()))


def _make_text_column(table: str, field: str) -> Formula:
    """Return the text that a field of ``module.computations`` or ``module.instructions`` numbers."""
    return lambda p: p.words[getattr(p.module, table)[field]]


def _make_number_column(field: str) -> Formula:
    return lambda p: p.instructions[field]


_PROGRAM = (
    Text("host", "host, named after its capture file", lambda p: p.number(p.host)),
    Count("program_id", "program id, as in the stat program_id of events; uint64 as two's complement",
          lambda p: p.program.id),
    Text("module", "program title: jit_f(12)", lambda p: p.number(p.program.title)),
)  # fmt: skip


# ---- modules, computations, instructions


def _make_module_column(of: Formula) -> tuple[Formula, Formula]:
    """Return formula and nulls of what is unknown of a module that does not decode."""
    return lambda p: 0 if p.module is None else of(p.module), lambda p: p.module is None


def _make_module_text(name: str) -> Formula:
    return lambda p: p.number(getattr(p.module, name, None))


_UNREADABLE: Final = "null: the program does not decode"
_MODULES = (
    *_PROGRAM,
    Text("name", f"name of the module; {_UNREADABLE}", _make_module_text("name")),
    Count("module_id", f"id recorded in the module; {_UNREADABLE}", *_make_module_column(lambda module: module.id)),
    Text("path", "file that contains the program", lambda p: p.number(p.program.path)),
    Flag("embedded", "whether the file is the capture, not a file beside it", lambda p: p.program.embedded),
    Bytes("size_bytes", "size of the program's HloProto", lambda p: p.program.length),
    Text("entry_computation", "name of the computation that runs first; null: unknown",
         _make_module_text("entry_name")),
    Count("computation_count", f"number of computations; {_UNREADABLE}",
          *_make_module_column(lambda module: len(module.computations))),
    Count("instruction_count", f"number of instructions in all computations; {_UNREADABLE}", *_make_module_column(len)),
    Flag("is_scheduled", f"whether the program has a schedule, an order of its instructions; {_UNREADABLE}",
         *_make_module_column(lambda module: module.is_scheduled)),
    Text("problem", "why the program does not decode; null: it decodes", lambda p: p.number(p.problem)),
)  # fmt: skip

_COMPUTATIONS = (
    *_PROGRAM,
    Text("computation", "computation name; null: not recorded", _make_text_column("computations", "name")),
    Count("computation_id", "id of the computation in the program", lambda p: p.computations["id"]),
    Flag("is_entry", "whether the program starts with the computation",
         lambda p: np.arange(len(p.computations)) == p.module.entry),
    Flag("is_fusion", "whether the program marks it as the computation of a fusion",
         lambda p: p.computations["is_fusion"] != 0),
    Text("execution_thread", "thread that the computation runs on; null: the main thread",
         _make_text_column("computations", "execution_thread")),
    Text("root", "instruction that returns the result of the computation; null: no instruction does",
         lambda p: p.names[p.computations["root"]]),
    Count("parameter_count", "number of parameters", lambda p: p.parameter_counts),
    Count("instruction_count", "number of instructions",
          lambda p: p.computations["last_instruction"] - p.computations["first_instruction"]),
    Flag("is_scheduled", "whether the computation has a schedule, an order of its instructions",
         lambda p: p.computations["scheduled_count"] >= 0),
)  # fmt: skip


def _lacks_opcode(opcode: str) -> Formula:
    return lambda p: ~p.where_opcode(opcode.__eq__)


def _make_shape_column(of: str) -> Formula:
    return lambda p: p.by_shape[of]


def _make_place_column(field: str) -> tuple[Formula, Formula]:
    return lambda p: p.places[field], lambda p: p.places[field] <= 0


_INSTRUCTIONS = (
    *_PROGRAM,
    Text("computation", "computation that contains the instruction; null: not recorded",
         lambda p: p.words[p.computations["name"]][p.instructions["computation"]]),
    Count("instruction_id", "id of the instruction in the program", _make_number_column("id")),
    Text("name", "instruction name, unique in the program, as in the stat hlo_op of events; null: not recorded",
         _make_text_column("instructions", "name")),
    Text("opcode", "operation, such as dot, fusion, all-reduce; null: not recorded",
         _make_text_column("instructions", "opcode")),
    Text("category", "category as in tables of ops, such as loop fusion, convolution; null: no opcode is recorded",
         lambda p: p.categories),
    Flag("is_entry", "whether the instruction is in the program's entry computation",
         lambda p: p.instructions["computation"] == p.module.entry),
    Flag("is_root", "whether the instruction returns the result of its computation",
         lambda p: p.computations["root"][p.instructions["computation"]] == np.arange(len(p.instructions))),
    Count("schedule_position", "place in the schedule of its computation, from 0; null: not scheduled",
          lambda p: p.schedule, lambda p: p.schedule < 0),
    Text("shape", "shape of the result with its layout, such as f32[8,128]{1,0:T(8,128)}; null: not recorded",
         _make_shape_column("text")),
    Text("element_type", "type of the result's elements, such as f32, bf16, or tuple, token; null: unknown",
         _make_shape_column("type")),
    _Counts("dimensions", "sizes of the result's dimensions, upper bounds if dynamic; null: not an array",
            lambda p: p.dimensions, lambda p: ~p.by_shape["is_array"]),
    Text("tile", "tiles of the result's layout, such as (8,128)(2,1); null: no tiles, or not an array",
         _make_shape_column("tile")),
    Count("memory_space", "memory space of the result's layout, 0: HBM; null: no layout",
          _make_shape_column("memory_space"),
          lambda p: ~p.by_shape["has_layout"]),
    Bytes("shape_bytes", "size of the result without padding, with all tuple elements; null: unknown",
          _make_shape_column("bytes"), lambda p: (p.by_shape["padded"] < 0) | (p.by_shape["bytes"] < 0)),
    Bytes("padded_bytes", "size of the result with the padding of tiles, with all tuple elements; null: unknown",
          _make_shape_column("padded"), lambda p: p.by_shape["padded"] < 0),
    _Texts("operands", "names of the operands; an operand is null if the program has no such instruction; names longer "
           "than 1,000 characters are cut if the list would take too much memory", lambda p: p.operands),
    _Texts("called_computations", "names of the computations that the instruction calls", lambda p: p.calls),
    Count("parameter_number", "number of the parameter; null: not a parameter", _make_number_column("parameter_number"),
          _lacks_opcode("parameter")),
    Count("tuple_index", "index of a get-tuple-element; null: another instruction", _make_number_column("tuple_index"),
          _lacks_opcode("get-tuple-element")),
    Text("fusion_kind", "kLoop, kInput, kOutput, kCustom; null: not a fusion",
         _make_text_column("instructions", "fusion_kind")),
    Text("custom_call_target", "target of a custom call; null: not a custom call",
         _make_text_column("instructions", "custom_call_target")),
    Count("channel_id", "channel of the communication; null: no channel", _make_number_column("channel_id"),
          lambda p: p.instructions["channel_id"] == 0),
    Text("replica_groups", "device groups that communicate, such as {{0,1},{2,3}}; null: no groups",
         lambda p: p.replica_groups),
    Text("sharding", "how the result is split over devices; null: not recorded", lambda p: p.shardings),
    Text("backend_config", "configuration for the backend of the compiler; null: not recorded",
         lambda p: p.backend_configs),
    Text("op_name", "path of the framework op that the instruction comes from: jit(f)/dot_general; null: not recorded",
         _make_text_column("instructions", "op_name")),
    Text("op_type", "type of the framework op; null: not recorded", _make_text_column("instructions", "op_type")),
    Text("source_file", "source file of the framework op; null: not recorded", lambda p: p.places["file"]),
    Count("source_line", "first source line; null: not recorded", *_make_place_column("line")),
    Count("source_end_line", "last source line; null: not recorded", *_make_place_column("end_line")),
    Count("source_column", "first source column; null: not recorded", *_make_place_column("column")),
    Count("source_end_column", "last source column; null: not recorded", *_make_place_column("end_column")),
    Text("stack", "file:line:column of calls, innermost first, one per line; null: not recorded",
         lambda p: p.stacks),
    Text("deduplicated_name", "instruction that this one is a copy of; null: not recorded",
         _make_text_column("instructions", "deduplicated_name")),
    Text("scheduling_name", "name of the instruction when it was scheduled; null: not recorded",
         _make_text_column("instructions", "scheduling_name")),
)  # fmt: skip


# ---- costs, by XLA's general model

_PLACED = (
    "bytes of its {0} {1} memory space 0; null: unknown, or the instruction runs others, or is the start or end of an "
    "asynchronous instruction"
)
_CONTAINERS = ("call", "while", "conditional")
_IN_PARTS = ("-start", "-update", "-done")
"""Suffixes of opcodes of asynchronous instructions."""


def _make_cost_column(field: str) -> Formula:
    return lambda p: p.costs[field]


def _lacks_bytes(p: Any) -> Any:
    """Mark unknown bytes: the model counts all of an asynchronous instruction both at its start and at its end."""
    return ~p.costs["is_known"] | p.where_opcode(lambda opcode: opcode.endswith(_IN_PARTS))


def _lacks_place(p: Any) -> Any:
    """Mark unknown bytes, and bytes that move from or to an unknown place, as those of instructions that run others."""
    costs = p.costs
    placed = (costs["hbm_read_bytes"] != 0) | (costs["hbm_write_bytes"] != 0) | costs["elsewhere"]
    unplaced = (costs["bytes_accessed"] != 0) & ~placed
    return _lacks_bytes(p) | unplaced | p.where_opcode(_CONTAINERS.__contains__)


_COSTS = (
    *_PROGRAM,
    Text("name", "instruction name, unique in the program; null: not recorded",
         _make_text_column("instructions", "name")),
    Count("flops", "operations, one per element for elementwise instructions; null: unknown",
          _make_cost_column("model_flops"),
          lambda p: ~p.costs["is_known"]),
    Bytes("accessed_bytes", "bytes read and written in any memory, added up as XLA does: small operands may be missing "
          "or count twice; null: unknown, or the start or end of an asynchronous instruction",
          _make_cost_column("bytes_accessed"),
          _lacks_bytes),
    Bytes("hbm_read_bytes", _PLACED.format("operands", "read from"), _make_cost_column("hbm_read_bytes"), _lacks_place),
    Bytes("hbm_written_bytes", _PLACED.format("result", "written to"), _make_cost_column("hbm_write_bytes"),
          _lacks_place),
)  # fmt: skip


# ---- the plan of memory


def _make_flag_column(name: str, field: str, description: str) -> Column:
    return Flag(name, description, lambda p: p.plan.allocations[field] != 0)


def _is_no_parameter(p: Any) -> Any:
    return p.plan.allocations["entry_parameter"] == 0


def _is_unallocated(p: Any) -> Any:
    return p.plan.allocation_of < 0


_ALLOCATIONS = (
    *_PROGRAM,
    Count("allocation", "number of the allocation in the program", lambda p: p.plan.allocations["index"]),
    Bytes("size_bytes", "allocation size; null: the recorded size is negative",
          lambda p: p.plan.allocations["size"], lambda p: p.plan.odd_allocations),
    Count("memory_space", "memory space of the allocation, 0: HBM", lambda p: p.plan.allocations["color"]),
    Text("category", "use of the allocation: Parameter, Output, Thread-local, Constant, Temporary", lambda p: p.uses),
    Count("buffer_count", "number of buffers in the allocation", lambda p: p.plan.allocations["assigned_count"]),
    Count("parameter_number", "number of the program's parameter; null: not a parameter",
          lambda p: p.plan.allocations["parameter_number"], _is_no_parameter),
    _Counts("parameter_index", "element of the parameter; null: not a parameter",
            lambda p: p.indices(p.plan.allocations, ~_is_no_parameter(p)), _is_no_parameter),
    _make_flag_column("is_thread_local", "thread_local", "whether each thread has a copy of the allocation"),
    _make_flag_column("is_entry_parameter", "entry_parameter",
                      "whether the allocation holds a parameter of the program"),
    _make_flag_column("may_be_output", "live_out", "whether the allocation may hold results of the program"),
    _make_flag_column("is_tuple", "tuple", "whether the allocation holds the pointers of a tuple"),
    _make_flag_column("is_constant", "constant", "whether the allocation holds a constant"),
    Flag("is_aliased", "whether the allocation is a parameter that a result overwrites (donated)",
         lambda p: p.plan.aliased),
)  # fmt: skip

_BUFFERS = (
    *_PROGRAM,
    Count("buffer", "number of the buffer in the program", lambda p: p.plan.buffers["id"]),
    Text("instruction", "instruction that computes the value; null: not in the program",
         lambda p: p.names[p.memory.instruction]),
    _Counts("element", "element of the instruction's result; empty: the entire result",
            lambda p: p.indices(p.plan.buffers)),
    Bytes("size_bytes", "size with padding; null: the recorded size is negative", lambda p: p.plan.buffers["size"],
          lambda p: p.plan.odd_buffers),
    Bytes("unpadded_bytes", "size without padding; null: unknown", lambda p: p.memory.unpadded,
          lambda p: p.memory.unpadded < 0),
    Count("memory_space", "memory space of the buffer, 0: HBM", lambda p: p.plan.buffers["color"]),
    Count("allocation", "number of the allocation that contains the buffer; null: no allocation does",
          lambda p: np.append(p.plan.allocations["index"], 0)[p.plan.allocation_of], _is_unallocated),
    Bytes("offset_bytes", "start of the buffer in its allocation; null: not in an allocation",
          lambda p: p.plan.offset_of, _is_unallocated),
)  # fmt: skip

_HEAP_EVENTS = (
    *_PROGRAM,
    Count("heap", "number of the heap in the program, from 0", lambda p: p.plan.events["trace"]),
    Count("position", "place among the heap events, from 0", lambda p: p.heap_positions),
    Text("kind", "alloc, free, or share: the buffer takes over memory of another buffer; null: unknown",
         lambda p: p.heap_kinds),
    Count("buffer", "buffer number", lambda p: p.plan.events["buffer_id"]),
    Count("shared_buffer", "number of the buffer whose memory is taken over; null: not a share",
          lambda p: p.plan.events["canonical_id"], lambda p: ~p.is_share),
    Text("computation", "computation of the instruction; null: not recorded",
         lambda p: p.plan_words[p.plan.events["computation_name"]]),
    Text("instruction", "instruction at which the event happens; null: not recorded",
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
