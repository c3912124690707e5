"""HLO to columns. Structs have the layouts of fastprof/hlo/module.py and fastprof/hlo/program_memory.py."""

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memset

from fastprof._native.border cimport *


cdef extern from "columns/strings.h" nogil:
    ctypedef struct fp_strings:
        fp_vector bytes, offsets


cdef extern from "formats/hlo.h" nogil:
    ctypedef struct fp_hlo_computation:
        pass
    ctypedef struct fp_hlo_instruction:
        pass
    ctypedef struct fp_hlo_shape:
        pass
    ctypedef struct fp_hlo_tile:
        pass
    ctypedef struct fp_hlo_frame:
        pass
    ctypedef struct fp_hlo:
        fp_memory *memory
        void *data
        uint64_t size, module_offset, module_length
        int64_t id
        int32_t name, entry, is_scheduled
        fp_vector computations, instructions, shapes, tiles, frames, operands, calls, scheduled
        fp_vector dimensions, minor_to_major, tile_dimensions
        fp_strings texts
    fp_code fp_hlo_read(fp_hlo *hlo, fp_fault *fault)
    void fp_hlo_free(fp_hlo *hlo)


cdef extern from "formats/hlo_buffers.h" nogil:
    ctypedef struct fp_hlo_buffer:
        pass
    ctypedef struct fp_hlo_allocation:
        pass
    ctypedef struct fp_hlo_assigned:
        pass
    ctypedef struct fp_hlo_trace:
        pass
    ctypedef struct fp_hlo_event:
        pass
    ctypedef struct fp_hlo_buffers:
        fp_memory *memory
        void *data
        uint64_t size
        int32_t is_there
        fp_vector buffers, allocations, assigned, traces, events, indices
        fp_strings texts
    fp_code fp_hlo_read_buffers(fp_hlo_buffers *found, fp_fault *fault)
    void fp_hlo_free_buffers(fp_hlo_buffers *found)


SIZES = {
    "COMPUTATION": sizeof(fp_hlo_computation), "INSTRUCTION": sizeof(fp_hlo_instruction),
    "SHAPE": sizeof(fp_hlo_shape), "TILE": sizeof(fp_hlo_tile), "FRAME": sizeof(fp_hlo_frame),
}
BUFFER_SIZES = {
    "BUFFER": sizeof(fp_hlo_buffer), "ALLOCATION": sizeof(fp_hlo_allocation), "ASSIGNED": sizeof(fp_hlo_assigned),
    "TRACE": sizeof(fp_hlo_trace), "EVENT": sizeof(fp_hlo_event),
}
"""Of the structs that bytes hold, in bytes: those of read_hlo, and those of read_hlo_buffers."""

cdef str DOING = "reading HLO"


def read_hlo(data):
    """The columns of an HloProto: bytes by name, ``texts`` as int64 offsets and bytes, ``module`` as
    offset and length of the HloModuleProto, and the numbers id, name, entry, is_scheduled.

    Raises CaptureError, with the offset in ``data``, where it is not one, and MemoryLimitError.
    """
    cdef Array message = given(data, U8)
    cdef fp_memory memory
    cdef fp_hlo hlo
    cdef fp_fault fault
    cdef fp_code code
    memset(&hlo, 0, sizeof(hlo))
    start_memory(&memory)
    hlo.memory, hlo.data, hlo.size = &memory, message.at, message.count
    try:
        with nogil:
            code = fp_hlo_read(&hlo, &fault)
        check(code, DOING, &fault if code != FP_NO_MEMORY else NULL)
        return {
            "id": hlo.id, "name": hlo.name, "entry": hlo.entry, "is_scheduled": bool(hlo.is_scheduled),
            "module": (hlo.module_offset, hlo.module_length),
            "computations": taken(&hlo.computations, sizeof(fp_hlo_computation)),
            "instructions": taken(&hlo.instructions, sizeof(fp_hlo_instruction)),
            "shapes": taken(&hlo.shapes, sizeof(fp_hlo_shape)),
            "tiles": taken(&hlo.tiles, sizeof(fp_hlo_tile)), "frames": taken(&hlo.frames, sizeof(fp_hlo_frame)),
            "operands": taken(&hlo.operands, 4), "calls": taken(&hlo.calls, 4), "scheduled": taken(&hlo.scheduled, 4),
            "dimensions": taken(&hlo.dimensions, 8), "minor_to_major": taken(&hlo.minor_to_major, 8),
            "tile_dimensions": taken(&hlo.tile_dimensions, 8),
            "texts": (taken(&hlo.texts.offsets, 8), taken(&hlo.texts.bytes, 1)),
        }
    finally:
        fp_hlo_free(&hlo)


def read_hlo_buffers(data):
    """The columns of the buffer assignment of an HloProto: bytes by name, ``texts`` as int64 offsets and bytes, and
    ``is_there``, whether it has one.

    Raises CaptureError, with the offset in ``data``, where it is no HloProto, and MemoryLimitError.
    """
    cdef Array message = given(data, U8)
    cdef fp_memory memory
    cdef fp_hlo_buffers found
    cdef fp_fault fault
    cdef fp_code code
    memset(&found, 0, sizeof(found))
    start_memory(&memory)
    found.memory, found.data, found.size = &memory, message.at, message.count
    try:
        with nogil:
            code = fp_hlo_read_buffers(&found, &fault)
        check(code, "reading the buffer assignment of HLO", &fault if code != FP_NO_MEMORY else NULL)
        return {
            "is_there": bool(found.is_there),
            "buffers": taken(&found.buffers, sizeof(fp_hlo_buffer)),
            "allocations": taken(&found.allocations, sizeof(fp_hlo_allocation)),
            "assigned": taken(&found.assigned, sizeof(fp_hlo_assigned)),
            "traces": taken(&found.traces, sizeof(fp_hlo_trace)),
            "events": taken(&found.events, sizeof(fp_hlo_event)),
            "indices": taken(&found.indices, 8),
            "texts": (taken(&found.texts.offsets, 8), taken(&found.texts.bytes, 1)),
        }
    finally:
        fp_hlo_free_buffers(&found)
