"""Kernels of communication: arrays in, arrays out."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from fastprof._native.border cimport *


cdef extern from "kernels/stretches.h" nogil:
    ctypedef struct fp_stretch:
        int64_t begin
    fp_code fp_innermost_stretches(fp_memory *memory, void *start, void *duration, void *marks, void *lines,
                                   size_t line_count, fp_vector *work, fp_vector *others)


cdef extern from "kernels/exposed.h" nogil:
    enum:
        FP_MOST_KINDS, FP_SUM_KINDS
    ctypedef struct fp_transfer:
        int64_t begin
    ctypedef struct fp_overlap:
        void *work
        size_t work_count
        void *transfers
        void *by_end
        size_t transfer_count, kind_count
        void *times
        size_t time_count
    bint fp_overlap_is_in_order(const fp_overlap *of)
    fp_code fp_overlaps(fp_memory *memory, const fp_overlap *of, void *sums)


SIZES = {"STRETCH": sizeof(fp_stretch), "TRANSFER": sizeof(fp_transfer)}
"""Of the structs that arrays hold, in bytes."""

MOST_KINDS, SUM_KINDS = FP_MOST_KINDS, FP_SUM_KINDS


def innermost_stretches(start, duration, marks, lines):
    """When marked events (uint8, 1: work) are the innermost of their line: the stretches of work and of others, as
    bytes of structs; see kernels/stretches.h."""
    cdef Array starts = given(start, I64), durations = given(duration, I64, starts.count)
    cdef Array chosen = given(marks, U8, starts.count), rows = given(lines, "qqq")
    cdef fp_vector work, others
    cdef fp_memory memory
    cdef fp_code code
    slices(rows, starts.count)
    memset(&work, 0, sizeof(work))
    memset(&others, 0, sizeof(others))
    start_memory(&memory)
    try:
        with nogil:
            code = fp_innermost_stretches(&memory, starts.at, durations.at, chosen.at, rows.at, rows.count, &work, &others)
        check(code, "telling compute from communication")
        return moved(&memory, &work, sizeof(fp_stretch)), moved(&memory, &others, sizeof(fp_stretch))
    finally:
        fp_vector_free(&memory, &work)
        fp_vector_free(&memory, &others)


def overlaps(work, transfers, by_end, times, sums, size_t kinds):
    """Writes the sums up to each of some times (int64s), and how much of each transfer is exposed and hidden; see
    kernels/exposed.h. ValueError: something is not in order."""
    cdef Array stretches = given(work, "qqq"), moved = room(transfers, "qqiiqq"), ends = given(by_end, I64, moved.count)
    cdef Array at = given(times, I64), out = room(sums, I64)
    cdef fp_overlap of = fp_overlap(stretches.at, stretches.count, moved.at, ends.at, moved.count, kinds, at.at, at.count)
    cdef fp_memory memory
    cdef fp_code code
    if kinds > FP_MOST_KINDS or out.count != at.count * (FP_SUM_KINDS + 3 * kinds):
        raise ValueError("there are too many kinds, or the sums do not have a column for each")
    if not fp_overlap_is_in_order(&of):
        raise ValueError("transfers, work or times are not in order")
    start_memory(&memory)
    with nogil:
        code = fp_overlaps(&memory, &of, out.at)
    check(code, "measuring what communication is exposed")
