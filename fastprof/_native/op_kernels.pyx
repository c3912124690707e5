"""Kernels of op statistics: arrays in, arrays out. The caller allocates every array at its size."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from fastprof._native.core cimport fp_memory, fp_memory_init

from fastprof.errors import MemoryLimitError


cdef extern from "kernels/host_ops.h" nogil:
    ctypedef enum fp_ops_result:
        FP_OPS_DONE, FP_OPS_NO_MEMORY, FP_OPS_OVERFLOW
    ctypedef enum fp_ops_order:
        FP_OPS_NEST, FP_OPS_STACK
    ctypedef struct fp_op_sum:
        int64_t occurrences
    ctypedef struct fp_op_line:
        int64_t first
    ctypedef struct fp_row_op:
        int64_t row
    ctypedef struct fp_host_ops:
        const int64_t *start
        const int64_t *duration
        const int32_t *meta
        const int32_t *op_of_meta
        size_t meta_count
        const uint8_t *eager
        const fp_row_op *instead
        size_t instead_count
        const fp_row_op *beside
        size_t beside_count
        const uint8_t *enqueues
        size_t op_count
    fp_ops_result fp_host_ops_sum(fp_memory *memory, const fp_host_ops *input, fp_ops_order order, fp_op_line *lines,
                                  size_t line_count, fp_op_sum *sums)


cdef extern from "kernels/op_lines.h" nogil:
    ctypedef struct fp_line_rows:
        int64_t first, last, event_id
    ctypedef enum fp_self_result:
        FP_SELF_DONE, FP_SELF_CROSSED, FP_SELF_NO_MEMORY
    fp_self_result fp_self_times(fp_memory *memory, const int64_t *start, const int64_t *duration,
                                 const fp_line_rows *lines, size_t line_count, int64_t *self_time,
                                 int64_t *stacked)
    bint fp_innermost_time(fp_memory *memory, const int64_t *start, const int64_t *duration, const uint8_t *marks,
                           uint8_t bits, const fp_line_rows *lines, size_t line_count, uint64_t *time)
    bint fp_extent(const int64_t *start, const int64_t *duration, size_t count, int64_t *begin, int64_t *end)


SIZES = {"OP_LINE": sizeof(fp_op_line), "OP_SUM": sizeof(fp_op_sum), "ROW_OP": sizeof(fp_row_op)}
"""Of the structs that arrays hold, in bytes."""


include "borrowed.pxi"


def host_ops_sum(start, duration, meta, op_of_meta, eager, instead, beside, enqueues, bint stacked, lines, sums):
    """Adds the ops of whole lines to sums and fills the lines; see kernels/host_ops.h."""
    cdef Borrowed starts = Borrowed(start), durations = Borrowed(duration), metas = Borrowed(meta)
    cdef Borrowed ops = Borrowed(op_of_meta), swapped = Borrowed(instead), added = Borrowed(beside)
    cdef Borrowed infeed = Borrowed(enqueues), rows = Borrowed(lines, True), out = Borrowed(sums, True)
    cdef Borrowed eagers = None if eager is None else Borrowed(eager)
    cdef fp_host_ops given
    cdef fp_ops_result result
    cdef fp_memory memory
    if starts.buffer.len != durations.buffer.len or starts.buffer.len != 2 * metas.buffer.len:
        raise ValueError("start, duration and meta differ in length")
    if eagers is not None and 8 * eagers.buffer.len != starts.buffer.len:
        raise ValueError("eager differs in length")
    if <size_t>out.buffer.len // sizeof(fp_op_sum) != <size_t>infeed.buffer.len:
        raise ValueError("sums and enqueues differ in length")
    given.start = <const int64_t *>starts.buffer.buf
    given.duration = <const int64_t *>durations.buffer.buf
    given.meta = <const int32_t *>metas.buffer.buf
    given.op_of_meta = <const int32_t *>ops.buffer.buf
    given.meta_count = <size_t>ops.buffer.len // sizeof(int32_t)
    given.eager = NULL
    if eagers is not None:
        given.eager = <const uint8_t *>eagers.buffer.buf
    given.instead = <const fp_row_op *>swapped.buffer.buf
    given.instead_count = <size_t>swapped.buffer.len // sizeof(fp_row_op)
    given.beside = <const fp_row_op *>added.buffer.buf
    given.beside_count = <size_t>added.buffer.len // sizeof(fp_row_op)
    given.enqueues = <const uint8_t *>infeed.buffer.buf
    given.op_count = <size_t>infeed.buffer.len
    fp_memory_init(&memory)
    with nogil:
        result = fp_host_ops_sum(&memory, &given, FP_OPS_STACK if stacked else FP_OPS_NEST,
                                 <fp_op_line *>rows.buffer.buf, <size_t>rows.buffer.len // sizeof(fp_op_line),
                                 <fp_op_sum *>out.buffer.buf)
    if result == FP_OPS_NO_MEMORY:
        raise MemoryLimitError("out of memory while summing host ops")
    if result == FP_OPS_OVERFLOW:
        raise OverflowError("a sum does not fit 64 bits")


cdef size_t lines_within(Borrowed lines, size_t rows) except *:
    cdef const fp_line_rows *line = <const fp_line_rows *>lines.buffer.buf
    cdef size_t count = <size_t>lines.buffer.len // sizeof(fp_line_rows)
    for i in range(count):
        if not 0 <= line[i].first <= line[i].last or <size_t>line[i].last > rows:
            raise ValueError("a line has rows that are not there")
    return count


SELF_DONE, SELF_CROSSED = FP_SELF_DONE, FP_SELF_CROSSED


def self_times(start, duration, lines, self_time, stacked):
    """Writes the own times of each row of whole lines, int64s: less the union of what is nested and, where ``stacked``
    is not None, less its sum; returns SELF_DONE, or SELF_CROSSED where these differ. See kernels/op_lines.h."""
    cdef Borrowed starts = Borrowed(start), durations = Borrowed(duration), rows = Borrowed(lines)
    cdef Borrowed own = Borrowed(self_time, True)
    cdef Borrowed sums = None if stacked is None else Borrowed(stacked, True)
    cdef size_t count = lines_within(rows, <size_t>starts.buffer.len // 8)
    cdef int64_t *summed = NULL
    cdef fp_memory memory
    cdef fp_self_result result
    if not starts.buffer.len == durations.buffer.len == own.buffer.len:
        raise ValueError("the columns differ in length")
    if sums is not None:
        if sums.buffer.len != own.buffer.len:
            raise ValueError("the columns differ in length")
        summed = <int64_t *>sums.buffer.buf
    fp_memory_init(&memory)
    with nogil:
        result = fp_self_times(&memory, <const int64_t *>starts.buffer.buf, <const int64_t *>durations.buffer.buf,
                               <const fp_line_rows *>rows.buffer.buf, count, <int64_t *>own.buffer.buf, summed)
    if result == FP_SELF_NO_MEMORY:
        raise MemoryLimitError("out of memory while nesting ops")
    return result


def innermost_time(start, duration, marks, int bits, lines):
    """How long an event with any of the bits in its mark (uint8) is innermost; see kernels/op_lines.h."""
    cdef Borrowed starts = Borrowed(start), durations = Borrowed(duration), rows = Borrowed(lines)
    cdef Borrowed chosen = Borrowed(marks)
    cdef size_t count = lines_within(rows, <size_t>starts.buffer.len // 8)
    cdef uint8_t wanted = bits
    cdef fp_memory memory
    cdef uint64_t time = 0
    cdef bint done
    if starts.buffer.len != durations.buffer.len or starts.buffer.len != 8 * chosen.buffer.len:
        raise ValueError("the columns differ in length")
    fp_memory_init(&memory)
    with nogil:
        done = fp_innermost_time(&memory, <const int64_t *>starts.buffer.buf, <const int64_t *>durations.buffer.buf,
                                 <const uint8_t *>chosen.buffer.buf, wanted, <const fp_line_rows *>rows.buffer.buf,
                                 count, &time)
    if not done:
        raise MemoryLimitError("out of memory while adding up active time")
    return time


def extent(start, duration):
    """The first begin and the last end of some events; None where an end does not fit 64 bits."""
    cdef Borrowed starts = Borrowed(start), durations = Borrowed(duration)
    cdef int64_t begin = 0, end = 0
    cdef bint fits
    if starts.buffer.len != durations.buffer.len or not starts.buffer.len:
        raise ValueError("there are no events, or the columns differ in length")
    with nogil:
        fits = fp_extent(<const int64_t *>starts.buffer.buf, <const int64_t *>durations.buffer.buf,
                         <size_t>starts.buffer.len // 8, &begin, &end)
    return (begin, end) if fits else None
