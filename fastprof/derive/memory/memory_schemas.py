"""The tables of the memory profile: what their columns hold."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from fastprof.schema.tables import TEXT, Column, TableSchema


def _bytes(name: str, description: str, *, nullable: bool = False) -> Column:
    return Column(name, pa.int64(), description, nullable, "bytes")


def _ps(name: str, description: str, *, nullable: bool = False) -> Column:
    return Column(name, pa.int64(), description, nullable, "ps")


def _count(name: str, description: str, *, nullable: bool = False) -> Column:
    return Column(name, pa.int64(), description, nullable)


def _number(name: str, description: str) -> Column:
    return Column(name, pa.float64(), description, True)


_MOMENT = "from the start of the host's capture"
_NONE = "null: not recorded"
_HOST = Column("host", TEXT, "host, as the capture's file is named")
_ALLOCATOR = Column("allocator", TEXT, "allocator_name, or the number of the device (device_ordinal, index_on_host)")
_OP = Column("op_name", TEXT, f"op that asked for it, tf_op; {_NONE}", True)
_WHAT = (
    _OP,
    Column("region_type", TEXT, f"what it is for, as temp, output, persist/dynamic; {_NONE}", True),
    Column("data_type", TEXT, f"type of the tensor's elements; {_NONE}", True),
    Column("shape", TEXT, f"shape of the tensor; {_NONE}", True),
)
_ALLOCATION = _bytes("allocation_bytes", "size of the allocation; of a free that records none, its allocation's, or by "
                     "how much the heap fell; null: not known", nullable=True)  # fmt: skip
_REQUESTED = _bytes("requested_bytes", f"what was asked for, before it was rounded up; {_NONE}", nullable=True)
_ADDRESS = _count("address", "address, uint64 as two's complement; null: not recorded", nullable=True)
_FREE = _bytes("free_bytes", f"bytes_available: of the allocator's limit what is not in use; {_NONE}", nullable=True)
_FRAGMENTATION = _number("fragmentation", "as the allocator records it, 0 to 1: 1 - largest free chunk / free bytes of "
                         f"the regions that it has taken from the device; {_NONE}")  # fmt: skip
_LARGEST_FREE_LEAST = _bytes("largest_free_least_bytes", "largest free chunk, at the least; null: as there",
                             nullable=True)  # fmt: skip
_LARGEST_FREE = _bytes("largest_free_bytes", "largest free chunk, at the most: (1 - fragmentation) of the free memory "
                       "that the allocator has taken, with what the last digit leaves open; null: not recorded, or it "
                       "contradicts itself", nullable=True)  # fmt: skip
_NEXT_LARGEST = _bytes("next_largest_bytes", "largest request that follows in the capture, as it was asked for, of "
                       "those that succeeded: others are not recorded; null: none does", nullable=True)  # fmt: skip
_TOO_SMALL_LEAST = _bytes("too_small_least_bytes", "free memory in chunks that are too small for next_largest_bytes, "
                          "at the least: all that the allocator has taken if largest_free_bytes is, else chunks that "
                          "are known from their frees; 0: no allocation follows; null: as there",
                          nullable=True)  # fmt: skip
_TOO_SMALL_MOST = _bytes("too_small_most_bytes", "the same at the most: that less the largest chunk, where it fits; "
                         "null: as there", nullable=True)  # fmt: skip
_ACTIVITY = Column("activity", TEXT, "allocation or free")
_STEP = "null: at the time of no step"
_SOURCES = (
    "recorded: allocated in the capture; held before: it, and freed in it; held throughout: the rest of the memory in "
    "use; stack: reserved for the stack; not recorded: known from its free alone, and not held before"
)

_WASTED = _bytes(
    "wasted_bytes",
    "of total_bytes what was never asked for: chunks are larger than requests, which are "
    "rounded up, and large chunks are not always split; null: requests are not recorded",
    nullable=True,
)
_SHARE = Column("share", pa.float64(), "total_bytes / memory in use at that moment; null: that is 0, or total_bytes is "
                "null", True, "share")  # fmt: skip

_ACTIVE = (
    _HOST,
    _ALLOCATOR,
    *_WHAT,
    _bytes("allocation_bytes", "size of each; null: not recorded, or not distinguished", nullable=True),
    _bytes("requested_bytes", "what was asked for, of each; null: as there", nullable=True),
    _count("count", "allocations that agree in all of this; null: not distinguished", nullable=True),
    _bytes("total_bytes", "of all of them; null: their size is not recorded, they are in what is left",
           nullable=True),
    _WASTED,
    _SHARE,
    Column("source", TEXT, _SOURCES),
)  # fmt: skip

_ACTIVE_GROUPS = (
    _HOST,
    _ALLOCATOR,
    Column("op_names", TEXT, "name of the ops, numbers at the ends of its words as *: layer_*/dropout_*; null: not "
           "recorded", True),
    *_WHAT[1:3],
    _count("op_count", "distinct ops; null: not recorded", nullable=True),
    _count("count", "allocations; null: not distinguished", nullable=True),
    _bytes("total_bytes", "of all of them; null: some size is not recorded", nullable=True),
    _bytes("requested_bytes", "what was asked for, of all of them; null: not recorded of all", nullable=True),
    _WASTED,
    _SHARE,
    Column("source", TEXT, _SOURCES),
)  # fmt: skip

_ALLOCATORS = (
    _HOST,
    _ALLOCATOR,
    _count("snapshot_count", "allocations and frees within the capture, each with what the allocator says of itself"),
    _count("allocation_count", "allocations"),
    _count("free_count", "frees"),
    _count("held_before_count", "frees of memory that was allocated before the capture"),
    _count("replaced_count", "allocations whose address was allocated again without a free: the capture has lost it"),
    _count("held_at_end_count", "allocations that were not freed within the capture"),
    _bytes("held_at_end_bytes", "their size; null: one is not recorded", nullable=True),
    _bytes("peak_bytes", "most memory in use, stack and heap, at any snapshot; null: not recorded", nullable=True),
    _ps("peak_ps", f"when that was first, {_MOMENT}; null: as there", nullable=True),
    _count("peak_step", f"step at that time; {_STEP}", nullable=True),
    _bytes("stack_at_peak_bytes", f"bytes_reserved; {_NONE}", nullable=True),
    _bytes("heap_at_peak_bytes", f"bytes_allocated; {_NONE}", nullable=True),
    _bytes("free_at_peak_bytes", f"bytes_available; {_NONE}", nullable=True),
    _bytes(
        "held_before_at_peak_bytes",
        "memory in use at the peak that was allocated before the capture; null: not known",
        nullable=True,
    ),
    _bytes(
        "wasted_at_peak_bytes",
        "what allocations took at the peak beyond what they asked for, as far as recorded; null: of none",
        nullable=True,
    ),
    _number("fragmentation_at_peak", f"fragmentation then; {_NONE}"),
    _bytes("capacity_bytes", f"what the allocator may use: in use and free at the peak; {_NONE}", nullable=True),
    _bytes(
        "lifetime_peak_bytes",
        "most in use since the process began as the allocator counts it, peak_bytes_in_use: "
        f"TPUs count the heap alone, without the stack; {_NONE}",
        nullable=True,
    ),
    _number("highest_fragmentation", f"highest fragmentation of any snapshot; {_NONE}"),
    _ps("highest_fragmentation_ps", f"when that was first, {_MOMENT}; null: as there", nullable=True),
)

_STEPS = (
    _HOST,
    _ALLOCATOR,
    _count("step", "number of the step, as in the analysis steps; where hosts number it differently, this host's"),
    _ps("start_ps", f"begin of the step, {_MOMENT}"),
    _ps("duration_ps", "time of the step"),
    _bytes("peak_bytes", "most memory in use in the step, that held at its begin too; null: not known", nullable=True),
    _ps("peak_ps", f"when that was first, {_MOMENT}; null: as there", nullable=True),
    _bytes("begin_bytes", "memory in use when it began; null: no snapshot before it", nullable=True),
    _bytes("end_bytes", "memory in use when it ended; null: no snapshot before that", nullable=True),
    _bytes("growth_bytes", "end_bytes - begin_bytes; null: one is not known", nullable=True),
    _count("allocation_count", "allocations in the step"),
    _count("free_count", "frees in the step"),
    _bytes("allocated_bytes", "their sizes together; those not recorded count 0"),
    _bytes("freed_bytes", "memory freed in the step; likewise"),
    _bytes("short_lived_bytes", "of allocated_bytes what was freed within short_lived_us"),
)

_OPS = (
    _HOST,
    _ALLOCATOR,
    _OP,
    _count("count", "allocations"),
    _bytes("allocated_bytes", "their sizes together; those not recorded count 0"),
    _bytes("requested_bytes", "what they asked for; likewise"),
    _bytes("largest_bytes", "the largest; null: no size is recorded", nullable=True),
    _count("held_at_end_count", "those not freed within the capture"),
    _bytes("held_at_end_bytes", "their sizes together"),
    _count("short_lived_count", "those freed within short_lived_us"),
    _bytes("short_lived_bytes", "their sizes together"),
    _ps("lifetime_min_ps", "shortest time from allocation to free; null: none was freed", nullable=True),
    _ps("lifetime_p50_ps", "the least time that half of those freed do not exceed; null: as there", nullable=True),
    _ps("lifetime_max_ps", "longest; null: as there", nullable=True),
)

_GROWTH = (
    _HOST,
    _ALLOCATOR,
    _OP,
    _bytes("growth_bytes", "what the op holds at the end of the last step, less at the end of the first"),
    Column("growth_per_step_bytes", pa.float64(), "growth_bytes / (step_count - 1)", unit="bytes"),
    _count("steps_grown", "steps at whose end the op holds more than at the end of the one before"),
    _count("step_count", "steps compared"),
    _bytes("first_step_end_bytes", "memory allocated by the op within the capture and held when the first step ends"),
    _bytes("last_step_end_bytes", "the same when the last step ends"),
    Column("grows_steadily", pa.bool_(), "never falls from step to step and rises in more than half of them: what a "
           "leak looks like"),
)  # fmt: skip

_FITS = Column("fits", TEXT, "yes: a free chunk holds it; no: no chunk does, or free memory is less; if the device has "
               "it: the allocator grows, and may take as much; not known: the size is between bounds of the largest "
               "chunk, or of what the allocator may take")  # fmt: skip

_FRAGMENTED = (
    _HOST,
    _ALLOCATOR,
    Column("moment", TEXT, "peak: most memory in use; most fragmented; tightest: most free memory in chunks too small "
           "for the largest allocation that follows; at: the time asked for"),
    _ps("start_ps", f"time of the snapshot that records it, {_MOMENT}"),
    _FREE,
    _FRAGMENTATION,
    _LARGEST_FREE_LEAST,
    _LARGEST_FREE,
    _NEXT_LARGEST,
    Column("request_fits", TEXT, "whether a request of the size asked for with --request fits then, as fits in "
           "the table request; null: none is asked for", True),
    Column("next_largest_op", TEXT, f"op of that allocation; {_NONE}, or none follows", True),
    _ps("next_largest_ps", f"when that is, {_MOMENT}; null: none follows", nullable=True),
    _TOO_SMALL_LEAST,
    _TOO_SMALL_MOST,
    _bytes("taken_least_bytes", "what the allocator has taken from the device by then, in use and free, at the least, "
           "as far as its events show; null: it is not recorded, or contradicts itself", nullable=True),
    _bytes("taken_most_bytes", "the same at the most; null: as there", nullable=True),
    _bytes("known_free_bytes", "free memory in chunks that are known from their frees"),
    _count("known_free_chunks", "how many these are, neighbours joined"),
)  # fmt: skip

_REQUEST = (
    _HOST,
    _ALLOCATOR,
    _FITS,
    _ps("start_ps", f"time of the first such snapshot, {_MOMENT}"),
    _ps("duration_ps", "up to the next snapshot that differs or is of no chosen step; else to the last one"),
    _count("snapshot_count", "snapshots in that time"),
    _bytes("least_free_bytes", f"least free memory in that time; {_NONE}", nullable=True),
    _bytes("most_free_bytes", f"most free memory in that time; {_NONE}", nullable=True),
    _bytes("largest_free_least_bytes", "the largest free chunk has so much at all times; null: not known",
           nullable=True),
    _bytes("largest_free_most_bytes", "the largest free chunk never has more, as far as known; null: not known",
           nullable=True),
)  # fmt: skip

_SNAPSHOTS = (
    _HOST,
    _ALLOCATOR,
    _ps("start_ps", f"when it was, {_MOMENT}"),
    _count("step", f"step at that time; {_STEP}", nullable=True),
    _ACTIVITY,
    *_WHAT,
    _REQUESTED,
    _ALLOCATION,
    _ADDRESS,
    _bytes("stack_bytes", f"memory reserved for the stack after it, bytes_reserved; {_NONE}", nullable=True),
    _bytes("heap_bytes", f"memory allocated on the heap after it, bytes_allocated; {_NONE}", nullable=True),
    _bytes("in_use_bytes", "stack_bytes + heap_bytes; null: neither is recorded", nullable=True),
    _FREE,
    _FRAGMENTATION,
    _LARGEST_FREE_LEAST,
    _LARGEST_FREE,
    _NEXT_LARGEST,
    _TOO_SMALL_LEAST,
    _TOO_SMALL_MOST,
    _bytes("lifetime_peak_bytes", f"most in use since the process began, peak_bytes_in_use; {_NONE}", nullable=True),
)

_MOST = "of the snapshot with the most in use"
_TIMELINE = (
    _HOST,
    _ALLOCATOR,
    _ps("start_ps", f"its first snapshot, {_MOMENT}"),
    _ps("duration_ps", "from the first snapshot of it to the last"),
    _count("snapshot_count", "snapshots in it"),
    _count("first_snapshot", "row of the first of them in the table snapshots, from 0"),
    _bytes("least_in_use_bytes", f"least memory in use, stack and heap; {_NONE}", nullable=True),
    _bytes("most_in_use_bytes", f"most memory in use; {_NONE}", nullable=True),
    _bytes("last_in_use_bytes", f"memory in use after the last snapshot; {_NONE}", nullable=True),
    _ps("most_ps", f"when most was in use first, {_MOMENT}"),
    _bytes("stack_bytes", f"memory reserved for the stack, {_MOST}; {_NONE}", nullable=True),
    _bytes("heap_bytes", f"memory allocated on the heap, {_MOST}; {_NONE}", nullable=True),
    _bytes("free_bytes", f"free memory, {_MOST}; {_NONE}", nullable=True),
    _number("fragmentation", f"as in snapshots, {_MOST}; {_NONE}"),
)

_ALLOCATED = (
    _HOST,
    _ALLOCATOR,
    *_WHAT,
    _ALLOCATION,
    _REQUESTED,
    _ADDRESS,
    _ps("allocated_ps", f"when it was allocated, {_MOMENT}; null: before the capture", nullable=True),
    _ps("freed_ps", f"when it was freed, {_MOMENT}; null: not within the capture", nullable=True),
    _ps("lifetime_ps", "from allocation to free; null: one of them is", nullable=True),
    _count("allocated_step", f"step when it was allocated; {_STEP}", nullable=True),
    _count("freed_step", f"step when it was freed; {_STEP}", nullable=True),
    Column("fate", TEXT, "freed; held at the end: of the capture; free not recorded: its address was allocated again "
           "before any free; held before: allocated before the capture, known from its free; allocation not recorded: "
           "a free of what is free; address unknown"),
)  # fmt: skip

_OF = "an allocator of a host, largest peak first"
TABLES: Final = {
    table.name: table
    for table in (
        TableSchema("allocators", _OF, _ALLOCATORS, True),
        TableSchema("active_groups", "what was alive at the allocator's peak, ops of like names together, most memory "
                    "first", _ACTIVE_GROUPS, True),
        TableSchema("active", "allocations of one kind that were alive at the allocator's peak, most memory first",
                    _ACTIVE, True),
        TableSchema("at", "the same at the time asked for with --at; empty without it", _ACTIVE, True),
        TableSchema("steps", "a step in which an allocator of its host allocated or freed", _STEPS, True),
        TableSchema("ops", "an op, by the memory that it asked an allocator for, most first", _OPS, True),
        TableSchema("growth", "an op that holds more at the end of the last step than at the end of the first, most "
                    "first", _GROWTH, True),
        TableSchema("fragmentation", "a moment of an allocator", _FRAGMENTED, True),
        TableSchema("request", "a time during which a request of the size asked for with --request fits, does not, or "
                    "nothing tells; empty without it", _REQUEST, True),
        TableSchema("timeline", "a stretch of time of an allocator: a snapshot, or of more than 1,000 those of a "
                    "thousandth of its time", _TIMELINE, True),
        TableSchema("snapshots", "an allocation or free, in order of time by allocator", _SNAPSHOTS, True),
        TableSchema("allocations", "a piece of memory, from allocation to free, by allocator in order of time",
                    _ALLOCATED, True),
    )
}  # fmt: skip
