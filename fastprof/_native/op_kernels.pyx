"""Kernels of op statistics: arrays in, arrays out. The caller allocates every array at its size."""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from fastprof._native.border cimport *


cdef extern from "kernels/host_ops.h" nogil:
    ctypedef enum fp_ops_order:
        FP_OPS_NEST, FP_OPS_STACK
    ctypedef struct fp_op_sum:
        int64_t occurrences
    ctypedef struct fp_op_line:
        int64_t first
    ctypedef struct fp_row_op:
        int64_t row
    ctypedef struct fp_host_ops:
        void *start
        void *duration
        void *meta
        void *op_of_meta
        void *eager
        void *instead
        void *beside
        void *enqueues
        size_t meta_count, instead_count, beside_count, op_count
    fp_code fp_host_ops_sum(fp_memory *memory, const fp_host_ops *input, fp_ops_order order, void *lines,
                            size_t line_count, void *sums)


cdef extern from "kernels/op_lines.h" nogil:
    fp_code fp_self_times(fp_memory *memory, void *start, void *duration, void *lines, size_t line_count, void *self_time,
                          void *stacked)
    fp_code fp_innermost_time(fp_memory *memory, void *start, void *duration, void *marks, uint8_t bits, void *lines,
                              size_t line_count, uint64_t *time)
    fp_code fp_extent(void *start, void *duration, size_t count, int64_t *begin, int64_t *end)


SIZES = {"OP_LINE": sizeof(fp_op_line), "OP_SUM": sizeof(fp_op_sum), "ROW_OP": sizeof(fp_row_op)}
"""Of the structs that arrays hold, in bytes."""

SELF_DONE, SELF_CROSSED = FP_OK, FP_CROSSED


def host_ops_sum(start, duration, meta, op_of_meta, eager, instead, beside, enqueues, bint stacked, lines, sums):
    """Adds the ops of whole lines to sums and fills the lines; see kernels/host_ops.h."""
    cdef Array starts = given(start, I64), durations = given(duration, I64, starts.count)
    cdef Array metas = given(meta, I32, starts.count), eagers = maybe(eager, U8, starts.count)
    cdef Array ops = given(op_of_meta, I32), swapped = given(instead, "qq"), added = given(beside, "qq")
    cdef Array out = room(sums, "qqqqqq"), infeed = given(enqueues, U8, out.count), rows = room(lines, "qqqqqqq")
    cdef fp_host_ops input
    cdef fp_memory memory
    cdef fp_code code
    within(ops, -1, out.count)
    within(swapped, -1, out.count, 1)
    within(added, -1, out.count, 1)
    slices(rows, starts.count)
    input.start, input.duration, input.meta, input.eager = starts.at, durations.at, metas.at, eagers.at
    input.op_of_meta, input.meta_count = ops.at, ops.count
    input.instead, input.instead_count = swapped.at, swapped.count
    input.beside, input.beside_count = added.at, added.count
    input.enqueues, input.op_count = infeed.at, out.count
    start_memory(&memory)
    with nogil:
        code = fp_host_ops_sum(&memory, &input, FP_OPS_STACK if stacked else FP_OPS_NEST, rows.at, rows.count, out.at)
    check(code, "summing host ops")


def self_times(start, duration, lines, self_time, stacked):
    """Writes the own times of each row of whole lines, int64s: less the union of what is nested and, where ``stacked``
    is not None, less its sum; returns SELF_DONE, or SELF_CROSSED where these differ. See kernels/op_lines.h."""
    cdef Array starts = given(start, I64), durations = given(duration, I64, starts.count), rows = given(lines, "qqq")
    cdef Array own = room(self_time, I64, starts.count)
    cdef Array sums = maybe(None, I64) if stacked is None else room(stacked, I64, starts.count)
    cdef fp_memory memory
    cdef fp_code code
    slices(rows, starts.count)
    start_memory(&memory)
    with nogil:
        code = fp_self_times(&memory, starts.at, durations.at, rows.at, rows.count, own.at, sums.at)
    if code != FP_CROSSED:
        check(code, "nesting ops")
    return <int>code


def innermost_time(start, duration, marks, int bits, lines):
    """How long an event with any of the bits in its mark (uint8) is innermost; see kernels/op_lines.h."""
    cdef Array starts = given(start, I64), durations = given(duration, I64, starts.count)
    cdef Array chosen = given(marks, U8, starts.count), rows = given(lines, "qqq")
    cdef fp_memory memory
    cdef uint64_t time = 0
    cdef fp_code code
    slices(rows, starts.count)
    start_memory(&memory)
    with nogil:
        code = fp_innermost_time(&memory, starts.at, durations.at, chosen.at, <uint8_t>bits, rows.at, rows.count, &time)
    check(code, "adding up active time")
    return time


def extent(start, duration):
    """The first begin and the last end of some events; None where an end does not fit 64 bits."""
    cdef Array starts = given(start, I64), durations = given(duration, I64, starts.count)
    cdef int64_t begin = 0, end = 0
    cdef fp_code code
    if not starts.count:
        raise ValueError("there are no events")
    with nogil:
        code = fp_extent(starts.at, durations.at, starts.count, &begin, &end)
    return (begin, end) if code == FP_OK else None
