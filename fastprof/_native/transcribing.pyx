"""From columns of messages to an XSpace: texts and numbers at places of a file, events, metadata, lanes."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from fastprof._native.border cimport *


cdef extern from "formats/growing_bytes.h" nogil:
    ctypedef struct fp_bytes:
        fp_memory *memory
        uint8_t *data
        size_t size
        bint failed
    void fp_bytes_free(fp_bytes *out)


cdef extern from "columns/strings.h" nogil:
    ctypedef struct fp_strings:
        fp_memory *memory
        fp_vector bytes
        fp_vector offsets
    void fp_strings_free(fp_strings *pool)


cdef extern from "formats/span_values.h" nogil:
    fp_code fp_span_texts(const uint8_t *data, uint64_t size, void *spans, size_t count, bint is_text, fp_strings *pool,
                          int32_t *numbers, fp_fault *fault)
    fp_code fp_span_ints(fp_memory *memory, const uint8_t *data, uint64_t size, void *spans, size_t count, fp_vector *values,
                         int64_t *ends, fp_fault *fault)


cdef extern from "formats/xspace_write.h" nogil:
    void fp_put_event_metadata(fp_bytes *out, int64_t first_id, const int64_t *offsets, const uint8_t *bytes, size_t count,
                               int64_t stat_id)
    fp_code fp_first_free_lanes(fp_memory *memory, const int64_t *begin, const int64_t *end, size_t count, int32_t *lane,
                                int32_t *found)


def span_texts(data, spans, bint is_text, str doing):
    """The texts of ``data`` whose offsets and lengths, uint64, are in ``spans`` by turns, each once: the number of each,
    int32 bytes, -1 where the length is the largest there is; and the texts, int64 offsets and bytes. ``is_text``: invalid
    UTF-8 is replaced; else bytes stay as they are. MemoryLimitError.
    """
    cdef Array content = given(data, U8), places = given(spans, U64)
    cdef fp_memory memory
    cdef fp_strings pool
    cdef fp_fault fault
    cdef fp_code code
    if places.count % 2:
        raise ValueError("there is not one length for each offset")
    numbers = bytearray(4 * (places.count // 2))
    cdef Array out = room(numbers, U8)
    memset(&pool, 0, sizeof(pool))
    start_memory(&memory)
    pool.memory = &memory
    try:
        with nogil:
            code = fp_span_texts(<const uint8_t *>content.at, content.count, places.at, places.count // 2, is_text, &pool,
                                 <int32_t *>out.at, &fault)
        check(code, doing, &fault if code != FP_NO_MEMORY else NULL)
        if not pool.offsets.count:
            return numbers, bytes(8), b""
        return numbers, taken(&pool.offsets, 8), taken(&pool.bytes, 1)
    finally:
        fp_strings_free(&pool)


def span_ints(data, spans, str doing):
    """The int64 of packed fields of ``data``, whose offsets and lengths, uint64, are in ``spans`` by turns: where those of
    each end, int64 bytes, and all of them. Raises CaptureError where one does not decode, and MemoryLimitError.
    """
    cdef Array content = given(data, U8), places = given(spans, U64)
    cdef fp_memory memory
    cdef fp_vector values
    cdef fp_fault fault
    cdef fp_code code
    if places.count % 2:
        raise ValueError("there is not one length for each offset")
    ends = bytearray(8 * (places.count // 2))
    cdef Array out = room(ends, U8)
    memset(&values, 0, sizeof(values))
    start_memory(&memory)
    try:
        with nogil:
            code = fp_span_ints(&memory, <const uint8_t *>content.at, content.count, places.at, places.count // 2, &values,
                                <int64_t *>out.at, &fault)
        check(code, doing, &fault if code != FP_NO_MEMORY else NULL)
        return ends, taken(&values, 8)
    finally:
        fp_vector_free(&memory, &values)


cdef bytes written(fp_bytes *out):
    try:
        check(FP_NO_MEMORY if out.failed else FP_OK, "transcribing")
        return PyBytes_FromStringAndSize(<const char *>out.data, <Py_ssize_t>out.size)
    finally:
        fp_bytes_free(out)


def event_metadata(int64_t first_id, offsets, texts, int64_t stat_id):
    """Event metadata as fields of an XPlane, ids from ``first_id`` on: names as Arrow has them, int64 offsets and bytes.
    ``stat_id``: of a stat with the same text; 0: none. MemoryLimitError.
    """
    cdef Array places = given(offsets, I64), content = given(texts, U8)
    cdef fp_memory memory
    cdef fp_bytes out
    bounds(places, content.count)
    start_memory(&memory)
    memset(&out, 0, sizeof(out))
    out.memory = &memory
    with nogil:
        fp_put_event_metadata(&out, first_id, <const int64_t *>places.at, <const uint8_t *>content.at, places.count - 1,
                              stat_id)
    return written(&out)


def first_free_lanes(begin, end):
    """For events in order of ``begin``, int64, the first lane that is free, int32 bytes. MemoryLimitError."""
    cdef Array begins = given(begin, I64), ends = given(end, I64, begins.count)
    cdef fp_memory memory
    cdef fp_code code
    cdef int32_t found
    lanes = bytearray(4 * begins.count)
    cdef Array out = room(lanes, U8)
    start_memory(&memory)
    with nogil:
        code = fp_first_free_lanes(&memory, <const int64_t *>begins.at, <const int64_t *>ends.at, begins.count,
                                   <int32_t *>out.at, &found)
    check(code, "transcribing")
    return lanes
