"""Where the fields of many messages lie."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memset

from fastprof._native.core cimport (
    FP_NO_MEMORY, FP_OK, fp_code, fp_code_text, fp_fault, fp_memory, fp_memory_init, fp_vector,
)

from fastprof.errors import CaptureError, MemoryLimitError


cdef extern from "formats/message_fields.h" nogil:
    ctypedef struct fp_message_span:
        uint64_t offset, length
    ctypedef struct fp_message_fields:
        fp_memory *memory
        const uint8_t *data
        uint64_t size
        const fp_message_span *messages
        size_t count
        uint64_t left_out[2]
        fp_vector first, numbers, values, lengths
    fp_code fp_message_fields_read(fp_message_fields *found, fp_fault *fault)
    void fp_message_fields_free(fp_message_fields *found)


cdef bytes take(fp_vector *vector):
    return PyBytes_FromStringAndSize(<char *>vector.items, <Py_ssize_t>(vector.count * 8))


def read_message_fields(data, spans, left_out):
    """The fields of the messages of ``data`` whose offsets and lengths, uint64, are in ``spans`` by turns: int64 bytes of
    where the fields of each begin, one more than there are messages; of field numbers; of values, or offsets of bytes; and of
    lengths of bytes, -1 of numbers. Fields whose numbers, below 128, are ``left_out`` are not there, nor are groups.

    Raises CaptureError where one does not decode, and MemoryLimitError.
    """
    cdef Py_buffer buffer, places
    cdef fp_memory memory
    cdef fp_message_fields found
    cdef fp_fault fault
    cdef fp_code code
    memset(&found, 0, sizeof(found))
    fp_memory_init(&memory)
    for number in left_out:
        found.left_out[number // 64] |= (<uint64_t>1) << (number % 64)
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(spans, &places, PyBUF_SIMPLE)
        try:
            found.memory = &memory
            found.data = <const uint8_t *>buffer.buf
            found.size = <uint64_t>buffer.len
            found.messages = <const fp_message_span *>places.buf
            found.count = <size_t>places.len // sizeof(fp_message_span)
            with nogil:
                code = fp_message_fields_read(&found, &fault)
            if code == FP_NO_MEMORY:
                raise MemoryLimitError("out of memory while reading HLO")
            if code != FP_OK:
                raise CaptureError(f"{fp_code_text(code).decode()}, reading {fault.what.decode()}", offset=fault.offset)
            return take(&found.first), take(&found.numbers), take(&found.values), take(&found.lengths)
        finally:
            fp_message_fields_free(&found)
            PyBuffer_Release(&places)
    finally:
        PyBuffer_Release(&buffer)
