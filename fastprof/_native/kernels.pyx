"""Kernels: arrays in, arrays out. The caller allocates every array at its size."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t

from fastprof._native.core cimport fp_memory, fp_memory_init, fp_vector

from fastprof.errors import MemoryLimitError


cdef extern from "kernels/nesting.h" nogil:
    ctypedef struct fp_line_rows:
        int64_t first, last, event_id
    ctypedef struct fp_late_self:
        int64_t event_id, self_time
    ctypedef struct fp_nesting:
        fp_memory *memory
        fp_vector late
    bint fp_nesting_push(fp_nesting *nesting, const int64_t *start, const int64_t *duration, const uint8_t *placement,
                         size_t count, int64_t event_id, bint last, int32_t *depth, int64_t *parent_id, int64_t *self_time)
    void fp_nesting_free(fp_nesting *nesting)
    bint fp_nesting_lines(fp_memory *memory, const int64_t *start, const int64_t *duration, const uint8_t *placement,
                          const fp_line_rows *lines, size_t line_count, int32_t *depth, int64_t *parent_id,
                          int64_t *self_time)


cdef extern from "kernels/group_sums.h" nogil:
    ctypedef struct fp_group_sum:
        int64_t count
    bint fp_group_sums(const int32_t *groups, const int64_t *value, size_t count, fp_group_sum *sums, size_t group_count)


cdef extern from "kernels/bitmap.h" nogil:
    size_t fp_bitmap_of_codes(const uint8_t *codes, size_t count, unsigned int wanted, uint8_t *bitmap)


cdef extern from "kernels/rank_order.h" nogil:
    void fp_rank_order(const int64_t *length, int32_t *order, size_t count)


include "borrowed.pxi"


def nesting_lines(start, duration, placement, lines, depth, parent_id, self_time):
    """Writes depth (int32), parent_id (int64, -1: none) and self_time (int64) of whole lines; see kernels/nesting.h."""
    cdef Borrowed starts = Borrowed(start), durations = Borrowed(duration), rows = Borrowed(lines)
    cdef Borrowed depths = Borrowed(depth, True), parents = Borrowed(parent_id, True), selves = Borrowed(self_time, True)
    cdef Borrowed places = None if placement is None else Borrowed(placement)
    cdef const uint8_t *at = NULL
    cdef fp_memory memory
    cdef bint done
    if places is not None:
        at = <const uint8_t *>places.buffer.buf
    fp_memory_init(&memory)
    with nogil:
        done = fp_nesting_lines(&memory, <const int64_t *>starts.buffer.buf, <const int64_t *>durations.buffer.buf, at,
                                <const fp_line_rows *>rows.buffer.buf, <size_t>rows.buffer.len // sizeof(fp_line_rows),
                                <int32_t *>depths.buffer.buf, <int64_t *>parents.buffer.buf, <int64_t *>selves.buffer.buf)
    if not done:
        raise MemoryLimitError("out of memory while nesting events")


cdef class LineNesting:
    """The nesting of one line whose events come in stretches; see kernels/nesting.h."""

    cdef fp_nesting nesting
    cdef fp_memory memory

    def __cinit__(self):
        fp_memory_init(&self.memory)
        self.nesting.memory = &self.memory

    def __dealloc__(self):
        fp_nesting_free(&self.nesting)

    def push(self, start, duration, placement, int64_t event_id, bint last, depth, parent_id, self_time):
        """Writes depth, parent_id and self_time of a stretch; ids count up from event_id."""
        cdef Borrowed starts = Borrowed(start), durations = Borrowed(duration)
        cdef Borrowed depths = Borrowed(depth, True), parents = Borrowed(parent_id, True)
        cdef Borrowed selves = Borrowed(self_time, True)
        cdef Borrowed places = None if placement is None else Borrowed(placement)
        cdef const uint8_t *at = NULL
        cdef bint done
        if places is not None:
            at = <const uint8_t *>places.buffer.buf
        with nogil:
            done = fp_nesting_push(&self.nesting, <const int64_t *>starts.buffer.buf,
                                   <const int64_t *>durations.buffer.buf, at, <size_t>starts.buffer.len // 8, event_id,
                                   last, <int32_t *>depths.buffer.buf, <int64_t *>parents.buffer.buf,
                                   <int64_t *>selves.buffer.buf)
        if not done:
            raise MemoryLimitError("out of memory while nesting events")

    def late(self):
        """(event_id, self_time) pairs, as int64s: events whose self time became final after their stretch."""
        return PyBytes_FromStringAndSize(<char *>self.nesting.late.items,
                                         <Py_ssize_t>(self.nesting.late.count * sizeof(fp_late_self)))


def group_sums(groups, value, sums):
    """Adds int64 values to their groups' (count, total, minimum, maximum); groups are int32, negative: left out."""
    cdef Borrowed numbers = Borrowed(groups), values = Borrowed(value), out = Borrowed(sums, True)
    cdef bint fits
    if numbers.buffer.len // 4 != values.buffer.len // 8:
        raise ValueError("groups and values differ in length")
    with nogil:
        fits = fp_group_sums(<const int32_t *>numbers.buffer.buf, <const int64_t *>values.buffer.buf,
                             <size_t>numbers.buffer.len // 4, <fp_group_sum *>out.buffer.buf,
                             <size_t>out.buffer.len // sizeof(fp_group_sum))
    if not fits:
        raise OverflowError("a sum does not fit 64 bits")


def bitmap_of_codes(codes, unsigned int wanted):
    """An Arrow validity bitmap, set where bit codes[i] of `wanted` is, and how many bits are set."""
    cdef Borrowed bytes_in = Borrowed(codes)
    cdef size_t count = <size_t>bytes_in.buffer.len
    cdef size_t set_bits
    bitmap = bytearray((count + 7) // 8)
    cdef Borrowed out = Borrowed(bitmap, True)
    with nogil:
        set_bits = fp_bitmap_of_codes(<const uint8_t *>bytes_in.buffer.buf, count, wanted, <uint8_t *>out.buffer.buf)
    return bitmap, set_bits


def rank_order(length, order):
    """Orders int32 numbers, each a place in length (int64), by length, longest first, in the order of equal ones that
    std::sort leaves; see kernels/rank_order.h."""
    cdef Borrowed lengths = Borrowed(length), numbers = Borrowed(order, True)
    with nogil:
        fp_rank_order(<const int64_t *>lengths.buffer.buf, <int32_t *>numbers.buffer.buf,
                      <size_t>numbers.buffer.len // 4)
