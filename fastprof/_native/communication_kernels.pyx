"""Kernels of communication: arrays in, arrays out."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memset

from fastprof._native.core cimport fp_memory, fp_memory_init, fp_vector, fp_vector_free

from fastprof.errors import MemoryLimitError


cdef extern from "kernels/stretches.h" nogil:
    ctypedef struct fp_line_rows:
        int64_t first, last, event_id
    ctypedef struct fp_stretch:
        int64_t begin
    bint fp_innermost_stretches(fp_memory *memory, const int64_t *start, const int64_t *duration, const uint8_t *marks,
                                const fp_line_rows *lines, size_t line_count, fp_vector *work, fp_vector *others)


cdef extern from "kernels/exposed.h" nogil:
    enum:
        FP_MOST_KINDS, FP_SUM_KINDS
    ctypedef struct fp_transfer:
        int64_t begin
    ctypedef struct fp_overlap:
        const fp_stretch *work
        size_t work_count
        fp_transfer *transfers
        const int64_t *by_end
        size_t transfer_count, kind_count
        const int64_t *times
        size_t time_count
    bint fp_overlap_is_in_order(const fp_overlap *of)
    bint fp_overlaps(fp_memory *memory, const fp_overlap *of, int64_t *sums)


SIZES = {"STRETCH": sizeof(fp_stretch), "TRANSFER": sizeof(fp_transfer)}
"""Of the structs that arrays hold, in bytes."""

MOST_KINDS, SUM_KINDS = FP_MOST_KINDS, FP_SUM_KINDS


include "borrowed.pxi"


cdef items(fp_vector *vector):
    return PyBytes_FromStringAndSize(<char *>vector.items, <Py_ssize_t>(vector.count * sizeof(fp_stretch)))


def innermost_stretches(start, duration, marks, lines):
    """When marked events (uint8, 1: work) are the innermost of their line: the stretches of work and of others, as
    bytes of structs; see kernels/stretches.h."""
    cdef Borrowed starts = Borrowed(start), durations = Borrowed(duration), chosen = Borrowed(marks)
    cdef Borrowed rows = Borrowed(lines)
    cdef size_t line_count = <size_t>rows.buffer.len // sizeof(fp_line_rows)
    cdef const fp_line_rows *line = <const fp_line_rows *>rows.buffer.buf
    cdef fp_vector work, others
    cdef fp_memory memory
    cdef bint done
    if starts.buffer.len != durations.buffer.len or starts.buffer.len != 8 * chosen.buffer.len:
        raise ValueError("the columns differ in length")
    for i in range(line_count):
        if not 0 <= line[i].first <= line[i].last <= chosen.buffer.len:
            raise ValueError("a line has rows that are not there")
    memset(&work, 0, sizeof(work))
    memset(&others, 0, sizeof(others))
    fp_memory_init(&memory)
    try:
        with nogil:
            done = fp_innermost_stretches(&memory, <const int64_t *>starts.buffer.buf,
                                          <const int64_t *>durations.buffer.buf, <const uint8_t *>chosen.buffer.buf,
                                          line, line_count, &work, &others)
        if not done:
            raise MemoryLimitError("out of memory while telling compute from communication")
        return items(&work), items(&others)
    finally:
        fp_vector_free(&memory, &work)
        fp_vector_free(&memory, &others)


def overlaps(work, transfers, by_end, times, sums, size_t kinds):
    """Writes the sums up to each of some times (int64s), and how much of each transfer is exposed and hidden; see
    kernels/exposed.h. ValueError: something is not in order."""
    cdef Borrowed stretches = Borrowed(work), moved = Borrowed(transfers, True), ends = Borrowed(by_end)
    cdef Borrowed at = Borrowed(times), out = Borrowed(sums, True)
    cdef fp_overlap of
    cdef fp_memory memory
    cdef bint done
    of.work = <const fp_stretch *>stretches.buffer.buf
    of.work_count = <size_t>stretches.buffer.len // sizeof(fp_stretch)
    of.transfers = <fp_transfer *>moved.buffer.buf
    of.transfer_count = <size_t>moved.buffer.len // sizeof(fp_transfer)
    of.by_end = <const int64_t *>ends.buffer.buf
    of.kind_count = kinds
    of.times = <const int64_t *>at.buffer.buf
    of.time_count = <size_t>at.buffer.len // 8
    if <size_t>ends.buffer.len != 8 * of.transfer_count:
        raise ValueError("there is not one end for each transfer")
    if <size_t>out.buffer.len != 8 * of.time_count * (FP_SUM_KINDS + 3 * kinds):
        raise ValueError("the sums are not of the size that they need")
    if not fp_overlap_is_in_order(&of):
        raise ValueError("transfers, work or times are not in order")
    fp_memory_init(&memory)
    with nogil:
        done = fp_overlaps(&memory, &of, <int64_t *>out.buffer.buf)
    if not done:
        raise MemoryLimitError("out of memory while measuring what communication is exposed")
