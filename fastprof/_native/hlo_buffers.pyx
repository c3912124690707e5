"""The buffer assignment of HLO to columns. Structs have the layouts of fastprof/hlo/buffers.py."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from fastprof._native.core cimport (
    FP_NO_MEMORY, FP_OK, fp_code, fp_code_text, fp_fault, fp_memory, fp_memory_init, fp_strings, fp_vector,
)

from fastprof.errors import CaptureError, MemoryLimitError


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
        const uint8_t *data
        uint64_t size
        int32_t is_there
        fp_vector buffers, allocations, assigned, traces, events, indices
        fp_strings texts
    fp_code fp_hlo_read_buffers(fp_hlo_buffers *found, fp_fault *fault)
    void fp_hlo_free_buffers(fp_hlo_buffers *found)


SIZES = {
    "BUFFER": sizeof(fp_hlo_buffer), "ALLOCATION": sizeof(fp_hlo_allocation), "ASSIGNED": sizeof(fp_hlo_assigned),
    "TRACE": sizeof(fp_hlo_trace), "EVENT": sizeof(fp_hlo_event),
}


cdef bytes take(fp_vector *vector, size_t item_size):
    return PyBytes_FromStringAndSize(<char *>vector.items, <Py_ssize_t>(vector.count * item_size))


cdef dict columns_of(fp_hlo_buffers *found):
    return {
        "is_there": bool(found.is_there),
        "buffers": take(&found.buffers, sizeof(fp_hlo_buffer)),
        "allocations": take(&found.allocations, sizeof(fp_hlo_allocation)),
        "assigned": take(&found.assigned, sizeof(fp_hlo_assigned)),
        "traces": take(&found.traces, sizeof(fp_hlo_trace)),
        "events": take(&found.events, sizeof(fp_hlo_event)),
        "indices": take(&found.indices, 8),
        "texts": (take(&found.texts.offsets, 8), take(&found.texts.bytes, 1)),
    }


def read_hlo_buffers(data):
    """The columns of the buffer assignment of an HloProto: bytes by name, ``texts`` as int64 offsets and bytes, and
    ``is_there``, whether it has one.

    Raises CaptureError, with the offset in ``data``, where it is no HloProto, and MemoryLimitError.
    """
    cdef Py_buffer buffer
    cdef fp_memory memory
    cdef fp_hlo_buffers found
    cdef fp_fault fault
    cdef fp_code code
    memset(&found, 0, sizeof(found))
    fp_memory_init(&memory)
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    try:
        found.memory = &memory
        found.data = <const uint8_t *>buffer.buf
        found.size = <uint64_t>buffer.len
        with nogil:
            code = fp_hlo_read_buffers(&found, &fault)
        if code == FP_NO_MEMORY:
            raise MemoryLimitError("out of memory while reading the buffer assignment of HLO")
        if code != FP_OK:
            raise CaptureError(f"{fp_code_text(code).decode()}, reading {fault.what.decode()}", offset=fault.offset)
        return columns_of(&found)
    finally:
        fp_hlo_free_buffers(&found)
        PyBuffer_Release(&buffer)
