"""HLO to columns. Structs have the layouts of fastprof/hlo/module.py."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from fastprof._native.core cimport (
    FP_NO_MEMORY, FP_OK, fp_code, fp_code_text, fp_fault, fp_memory, fp_memory_init, fp_strings, fp_vector,
)

from fastprof.errors import CaptureError, MemoryLimitError


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
        const uint8_t *data
        uint64_t size, module_offset, module_length
        int64_t id
        int32_t name, entry, is_scheduled
        fp_vector computations, instructions, shapes, tiles, frames, operands, calls, scheduled
        fp_vector dimensions, minor_to_major, tile_dimensions
        fp_strings texts
    fp_code fp_hlo_read(fp_hlo *hlo, fp_fault *fault)
    void fp_hlo_free(fp_hlo *hlo)


SIZES = {
    "COMPUTATION": sizeof(fp_hlo_computation), "INSTRUCTION": sizeof(fp_hlo_instruction),
    "SHAPE": sizeof(fp_hlo_shape), "TILE": sizeof(fp_hlo_tile), "FRAME": sizeof(fp_hlo_frame),
}


cdef bytes take(fp_vector *vector, size_t item_size):
    return PyBytes_FromStringAndSize(<char *>vector.items, <Py_ssize_t>(vector.count * item_size))


cdef dict columns_of(fp_hlo *hlo):
    return {
        "id": hlo.id, "name": hlo.name, "entry": hlo.entry, "is_scheduled": bool(hlo.is_scheduled),
        "module": (hlo.module_offset, hlo.module_length),
        "computations": take(&hlo.computations, sizeof(fp_hlo_computation)),
        "instructions": take(&hlo.instructions, sizeof(fp_hlo_instruction)),
        "shapes": take(&hlo.shapes, sizeof(fp_hlo_shape)),
        "tiles": take(&hlo.tiles, sizeof(fp_hlo_tile)), "frames": take(&hlo.frames, sizeof(fp_hlo_frame)),
        "operands": take(&hlo.operands, 4), "calls": take(&hlo.calls, 4), "scheduled": take(&hlo.scheduled, 4),
        "dimensions": take(&hlo.dimensions, 8), "minor_to_major": take(&hlo.minor_to_major, 8),
        "tile_dimensions": take(&hlo.tile_dimensions, 8),
        "texts": (take(&hlo.texts.offsets, 8), take(&hlo.texts.bytes, 1)),
    }


def read_hlo(data):
    """The columns of an HloProto: bytes by name, ``texts`` as int64 offsets and bytes, ``module`` as
    offset and length of the HloModuleProto, and the numbers id, name, entry, is_scheduled.

    Raises CaptureError, with the offset in ``data``, where it is not one, and MemoryLimitError.
    """
    cdef Py_buffer buffer
    cdef fp_memory memory
    cdef fp_hlo hlo
    cdef fp_fault fault
    cdef fp_code code
    memset(&hlo, 0, sizeof(hlo))
    fp_memory_init(&memory)
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    try:
        hlo.memory = &memory
        hlo.data = <const uint8_t *>buffer.buf
        hlo.size = <uint64_t>buffer.len
        with nogil:
            code = fp_hlo_read(&hlo, &fault)
        if code == FP_NO_MEMORY:
            raise MemoryLimitError("out of memory while reading HLO")
        if code != FP_OK:
            raise CaptureError(f"{fp_code_text(code).decode()}, reading {fault.what.decode()}", offset=fault.offset)
        return columns_of(&hlo)
    finally:
        fp_hlo_free(&hlo)
        PyBuffer_Release(&buffer)
