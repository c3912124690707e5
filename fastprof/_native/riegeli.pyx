"""Hashes of Riegeli and TFRecord files, and the records of Riegeli's transposed chunks."""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from fastprof._native.border cimport *


cdef extern from "formats/crc32c.h" nogil:
    uint32_t fp_crc32c(const uint8_t *data, size_t size)


cdef extern from "formats/highway_hash.h" nogil:
    ctypedef struct fp_riegeli_hasher:
        pass
    uint64_t fp_riegeli_hash(const uint8_t *data, size_t size)
    void fp_riegeli_hash_begin(fp_riegeli_hasher *hasher)
    void fp_riegeli_hash_more(fp_riegeli_hasher *hasher, const uint8_t *data, size_t size)
    uint64_t fp_riegeli_hash_now(const fp_riegeli_hasher *hasher)


cdef extern from "formats/transposed_records.h" nogil:
    ctypedef struct fp_record_node:
        pass
    ctypedef struct fp_transposed:
        const fp_record_node *nodes
        size_t node_count
        int64_t first
        bint is_first_implicit
        const uint8_t *values
        const int64_t *bounds
        size_t buffer_count
        const uint8_t *transitions
        size_t transition_count
        uint8_t *out
        size_t size
        int64_t *begins
        size_t record_count
    fp_code fp_transposed_write(fp_memory *memory, const fp_transposed *chunk, fp_fault *fault)


cdef extern from *:
    """
    #define NODE "qqqqq"
    """
    const char *NODE


def crc32c(data):
    """The remainder of these bytes, as TFRecord files have it before they mask it."""
    cdef Array given_bytes = given(data, U8)
    cdef uint32_t found
    with nogil:
        found = fp_crc32c(<const uint8_t *>given_bytes.at, given_bytes.count)
    return found


def riegeli_hash(data):
    """The hash of these bytes."""
    cdef Array given_bytes = given(data, U8)
    cdef uint64_t found
    with nogil:
        found = fp_riegeli_hash(<const uint8_t *>given_bytes.at, given_bytes.count)
    return found


@cython.final
cdef class RiegeliHash:
    """The hash of bytes that come in pieces. Not to be shared by threads."""

    cdef fp_riegeli_hasher hasher

    def __cinit__(self):
        fp_riegeli_hash_begin(&self.hasher)

    def add(self, data):
        cdef Array piece = given(data, U8)
        with nogil:
            fp_riegeli_hash_more(&self.hasher, <const uint8_t *>piece.at, piece.count)

    def value(self):
        """Of the bytes by now."""
        return fp_riegeli_hash_now(&self.hasher)


def transposed(nodes, first, is_first_implicit, values, bounds, transitions, size, begins):
    """The records of a transposed chunk, ``size`` bytes; ``begins``, one for each, becomes where they begin, the last
    first. ValueError: the chunk is damaged, with what was being done. MemoryLimitError."""
    cdef fp_memory memory
    cdef fp_transposed chunk
    cdef fp_fault fault
    cdef fp_code code
    cdef Array node_array = given(nodes, NODE), value_array = given(values, U8), bound_array = given(bounds, I64)
    cdef Array transition_array = given(transitions, U8), begin_array = room(begins, I64)
    if not bound_array.count:
        raise ValueError("there are no bounds")
    covers(bound_array, value_array.count)
    out = PyBytes_FromStringAndSize(NULL, size)
    chunk.nodes = <const fp_record_node *>node_array.at
    chunk.node_count = node_array.count
    chunk.first = first
    chunk.is_first_implicit = is_first_implicit
    chunk.values = <const uint8_t *>value_array.at
    chunk.bounds = <const int64_t *>bound_array.at
    chunk.buffer_count = bound_array.count - 1
    chunk.transitions = <const uint8_t *>transition_array.at
    chunk.transition_count = transition_array.count
    chunk.out = <uint8_t *><char *>out
    chunk.size = size
    chunk.begins = <int64_t *>begin_array.at
    chunk.record_count = begin_array.count
    start_memory(&memory)
    with nogil:
        code = fp_transposed_write(&memory, &chunk, &fault)
    if code == FP_OUT_OF_RANGE:
        raise ValueError(f"{fault.what.decode()}, at transition {fault.offset}")
    check(code, "reading Riegeli", NULL, "")
    return out
