"""The tables about the memory of compiled programs: what their columns hold."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from fastprof.hlo.buffers import CATEGORIES
from fastprof.schema.tables import TEXT, Column, TableSchema


def _bytes(name: str, description: str, *, nullable: bool = False) -> Column:
    return Column(name, pa.int64(), description, nullable, "bytes")


def _count(name: str, description: str, *, nullable: bool = False) -> Column:
    return Column(name, pa.int64(), description, nullable)


def _share(name: str, description: str) -> Column:
    return Column(name, pa.float64(), description, True, "share")


_UNPADDED: Final = "null: the type is not known, or its elements would take more than that"
_POINT: Final = "number of an event of the heap's trace, in the order of the program"
_NAME = Column("buffer", TEXT, "instruction that makes it, and which element of what it makes; null: not told", True)
_BUFFER_ID = _count("buffer_id", "id of the buffer; null: the allocation has none", nullable=True)
_CATEGORY = Column("category", TEXT, "what the allocation is for: " + ", ".join(CATEGORIES))
_WHERE = (
    Column("shape", TEXT, "shape and layout; null: not told", True),
    Column("padded_shape", TEXT, "dimensions with the padding of the layout's tiles; null: there is none", True),
    Column("opcode", TEXT, "of the instruction; null: not told", True),
    Column("op_name", TEXT, "framework op that the instruction comes from, of parameters often the argument; null: "
           "not told", True),
    Column("source", TEXT, "file:line in the program; null: not told", True),
)  # fmt: skip
_STACK = Column("stack", TEXT, "stack of calls that made the op, innermost first, a line each; null: not told", True)
_ALLOCATION = _count("allocation", "index of the allocation")
_OFFSET = _bytes("offset_bytes", "where in its allocation it begins")
_UNPADDED_BYTES = _bytes("unpadded_bytes", f"bytes of its elements alone; {_UNPADDED}", nullable=True)
_PADDING = _bytes("padding_bytes", "bytes less unpadded_bytes; null: as there", nullable=True)
_START = _count("start", f"{_POINT}, that begins its life; null: it lives throughout, or that is not told",
                nullable=True)  # fmt: skip
_END = _count("end", "event that ends it, the number of events where none does; null: as there", nullable=True)

_MODULES = (
    Column("host", TEXT, "host, the first of those that have the program"),
    _count("host_count", "hosts that have it"),
    Column("module", TEXT, "program, as the capture lists it"),
    _count("program_id", "its id, uint64 as two's complement"),
    _count("memory_space", "number of the memory space; null: the program has no buffer assignment", nullable=True),
    Column("memory_space_name", TEXT, "what it is called; null: not known, or there is none", True),
    _bytes("allocated_bytes", "what it takes when it runs: all allocations but those of threads; null: as there",
           nullable=True),
    _bytes("peak_bytes", "most that is alive at once: what lives throughout, and the peak of the heap; null: not "
           "known, see reason", nullable=True),
    _bytes("unpadded_peak_bytes", "the same without padding; of buffers of unknown types all; null: as there",
           nullable=True),
    _bytes("fragmentation_bytes", "allocated_bytes less peak_bytes; null: as there", nullable=True),
    _bytes("parameter_bytes", "allocations of parameters; null: as there", nullable=True),
    _bytes("output_bytes", "of outputs that are no parameters; null: as there", nullable=True),
    _bytes("aliased_bytes", "of parameters that outputs are written to; null: as there", nullable=True),
    _bytes("constant_bytes", "of constants; null: as there", nullable=True),
    _bytes("temporary_bytes", "of what lives shorter; null: as there", nullable=True),
    _bytes("thread_local_bytes", "of computations that run on threads, not in allocated_bytes; null: as there",
           nullable=True),
    _count("allocation_count", "allocations; null: as there", nullable=True),
    _count("buffer_count", "buffers in them; null: as there", nullable=True),
    _count("program_points", "events of its heaps' traces; null: as there", nullable=True),
    _bytes("scoped_vmem_bytes", "most VMEM that one instruction takes for itself while it runs; null: the space is not "
           "VMEM", nullable=True),
    _count("instruction_count", "instructions of the program, all computations"),
    Column("reason", TEXT, "why the peak is not known; null: it is", True),
)  # fmt: skip
_HEAP = (
    _count("allocation", "index of the allocation that the heap lies in"),
    _count("point", "number of the event, in the order of the program"),
    Column("event", TEXT, "alloc, free, share: the buffer takes part in the memory of another, or unknown"),
    Column("instruction", TEXT, "instruction at which it happens; null: not told", True),
    Column("computation", TEXT, "its computation; null: not told", True),
    _BUFFER_ID,
    _NAME,
    _bytes("buffer_bytes", "size of the buffer; null: there is no such buffer", nullable=True),
    _bytes("heap_bytes", "in use of this heap after the event"),
    _bytes("unpadded_heap_bytes", "the same without padding"),
    _bytes("total_bytes", "heap_bytes, and what lives throughout"),
)
_PEAK = (
    _count("position", "place in the order of the program: what lives throughout, then by allocation"),
    _BUFFER_ID,
    _NAME,
    _CATEGORY,
    _bytes("bytes", "bytes that it takes; they add up to the peak"),
    _UNPADDED_BYTES,
    _PADDING,
    _share("share", "bytes / peak; null: that is 0"),
    *_WHERE,
    _STACK,
    _ALLOCATION,
    _OFFSET,
    _count("parameter_number", "of a parameter, which one; null: it is none", nullable=True),
    _START,
    _END,
    Column("start_instruction", TEXT, "instruction at which its life begins; null: as start", True),
    Column("end_instruction", TEXT, "instruction at which it ends; null: as start, or it does not", True),
)
_PEAK_BY_OP = (
    _CATEGORY,
    Column(
        "op",
        TEXT,
        "op_name, or else the instruction, numbers replaced by *: layers of a model are one; null: neither is told",
        True,
    ),
    _count("buffer_count", "buffers"),
    _bytes("bytes", "bytes that they take; they add up to the peak"),
    _bytes("padding_bytes", "padding among them; of unknown types none"),
    _share("share", "bytes / peak; null: that is 0"),
    Column("shape", TEXT, "shape of the largest; null: not told", True),
    Column("source", TEXT, "file:line of the largest; null: not told", True),
)
_BY_TYPE = (
    _count("memory_space", "number of the memory space"),
    Column("memory_space_name", TEXT, "what it is called; null: not known", True),
    _CATEGORY,
    _count("allocation_count", "allocations"),
    _count("buffer_count", "buffers in them"),
    _bytes("bytes", "bytes that the allocations take"),
    _share("share", "bytes / those of all categories of the memory space; null: that is 0"),
)
_ALLOCATIONS = (
    _count("allocation", "index of the allocation; null: taken from the program's signature, which has no buffer "
           "assignment", nullable=True),
    _CATEGORY,
    _bytes("bytes", "size of the allocation; null: of a shape that 64 bits cannot count", nullable=True),
    _count("buffer_count", "buffers in it; null: as allocation", nullable=True),
    _bytes("peak_bytes", "of a heap with a trace the most that is in use at once; null: it has none", nullable=True),
    _bytes("fragmentation_bytes", "bytes less peak_bytes; null: as there", nullable=True),
    _count("peak_point", "event after which peak_bytes are in use; null: as there", nullable=True),
    _count("program_points", "events of its trace; null: as there", nullable=True),
    _BUFFER_ID,
    Column("buffer", TEXT, "its largest buffer; null: it has none", True),
    *_WHERE,
    _count("parameter_number", "of a parameter, which one; null: it is none", nullable=True),
    Column("parameter_index", TEXT, "which element of the parameter: {0,1}; null: all of it, or it is none", True),
    Column("is_output", pa.bool_(), "may hold what the program gives back"),
    Column("is_aliased", pa.bool_(), "a parameter that an output is written to"),
    Column("is_tuple", pa.bool_(), "has a table of pointers to the elements of a tuple"),
    Column("is_reusable", pa.bool_(), "neither of threads nor with such a table"),
)  # fmt: skip
_LIFETIMES = (
    _count("buffer_id", "id of the buffer"),
    _NAME,
    _CATEGORY,
    _ALLOCATION,
    _OFFSET,
    _bytes("timeline_bytes", "where it begins in the drawing: temporaries with a trace one upon the other; null: it is "
           "not in it", nullable=True),
    _bytes("bytes", "size of the buffer"),
    _UNPADDED_BYTES,
    _PADDING,
    _START,
    _END,
    Column("start_instruction", TEXT, "instruction at which its life begins; null: as start", True),
    Column("end_instruction", TEXT, "instruction at which it ends; null: as start, or it does not", True),
    _count("shares_with", "id of the buffer whose memory it shares; null: it has its own", nullable=True),
    Column("is_at_peak", pa.bool_(), "holds memory at the peak"),
    *_WHERE,
)  # fmt: skip

TABLES: Final = {
    table.name: table
    for table in (
        TableSchema("modules", "a memory space of a program", _MODULES, derived=True),
        TableSchema("buffers_at_peak", "what is alive at the peak, largest first", _PEAK, derived=True),
        TableSchema("peak_by_op", "what is alive at the peak, ops of like names together", _PEAK_BY_OP, derived=True),
        TableSchema("by_allocation_type", "a use of memory in a memory space", _BY_TYPE, derived=True),
        TableSchema("heap", "an event of a heap", _HEAP, derived=True),
        TableSchema("allocations", "an allocation of the memory space", _ALLOCATIONS, derived=True),
        TableSchema("lifetimes", "a buffer of the memory space", _LIFETIMES, derived=True),
    )
}
