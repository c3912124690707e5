"""Kernels of derived lines: arrays in, arrays out. The caller allocates every array at its size."""

cimport cython
from libc.stdint cimport INT32_MIN, int64_t

from fastprof._native.border cimport *


cdef extern from "kernels/derived_line.h" nogil:
    enum:
        FP_DERIVED_LEVELS
    ctypedef struct fp_int_lists:
        void *offset
        void *value
    ctypedef struct fp_derived_from:
        void *start
        void *duration
        void *group
        void *names
        void *scopes
        void *closed
        size_t count
        fp_int_lists name_lists, scope_lists
    ctypedef struct fp_derived_line:
        void *start
        void *duration
        void *name
        void *group
        void *closes
        void *deepest
    size_t fp_derive_line(const fp_derived_from *source, bint over_gaps, bint close, const fp_derived_line *line)


cdef extern from "kernels/offloads.h" nogil:
    fp_code fp_offloads(fp_memory *memory, void *begin, void *end, void *key, void *starts, size_t count, size_t keys,
                        void *start_at, void *end_at, void *row, size_t *transfers)


cdef extern from "kernels/time_order.h" nogil:
    bint fp_time_order(fp_memory *memory, void *start, void *duration, int64_t first, int64_t last, void *order)


DERIVED_LEVELS = FP_DERIVED_LEVELS


@cython.final
cdef class DerivedLine:
    """A line derived from events: int64 start and duration, int32 group, and the list of the names of each; lists are
    pairs of int64 offsets and int64 values. See kernels/derived_line.h. Use: ``count()``, then ``fill``."""

    cdef fp_derived_from source
    cdef tuple held
    cdef bint over_gaps, close

    def __cinit__(self, start, duration, group, names, name_lists, scopes, scope_lists, closed,
                  bint over_gaps, bint close):
        cdef Array starts = given(start, I64), durations = given(duration, I64, starts.count)
        cdef Array groups = given(group, I32, starts.count), lists = given(names, I32, starts.count)
        cdef Array ranges = maybe(scopes, I32, starts.count), ends = maybe(closed, U8, starts.count)
        self.held = (starts, durations, groups, lists, ranges, ends, self.lists(name_lists, lists, &self.source.name_lists),
                     None if scopes is None else self.lists(scope_lists, ranges, &self.source.scope_lists))
        self.source.start, self.source.duration, self.source.group = starts.at, durations.at, groups.at
        self.source.names, self.source.scopes, self.source.closed = lists.at, ranges.at, ends.at
        self.source.count = starts.count
        self.over_gaps, self.close = over_gaps, close

    cdef tuple lists(self, pair, Array numbers, fp_int_lists *out):
        """The lists that the numbers choose from."""
        cdef Array offsets = given(pair[0], I64), values = given(pair[1], I64)
        covers(offsets, values.count)
        within(numbers, INT32_MIN, offsets.count - 1)
        out.offset, out.value = offsets.at, values.at
        return offsets, values

    def count(self):
        """How many events the derived line has."""
        cdef fp_derived_line line = fp_derived_line(NULL, NULL, NULL, NULL, NULL, NULL)
        cdef size_t found
        with nogil:
            found = fp_derive_line(&self.source, self.over_gaps, self.close, &line)
        return found

    def fill(self, start, duration, name, group, closes, deepest):
        """Writes the ``count()`` derived events: int64 start, duration and name, int32 group. By event
        of the source: whether all ended there (uint8), and the derived event of its deepest level (int64)."""
        cdef Py_ssize_t count = self.count()
        cdef Array starts = room(start, I64, count), durations = room(duration, I64, count)
        cdef Array names = room(name, I64, count), groups = room(group, I32, count)
        cdef Array ends = room(closes, U8, self.source.count), deep = room(deepest, I64, self.source.count)
        cdef fp_derived_line line = fp_derived_line(starts.at, durations.at, names.at, groups.at, ends.at, deep.at)
        with nogil:
            fp_derive_line(&self.source, self.over_gaps, self.close, &line)


def offloads(begin, end, key, starts, size_t keys, start_at, end_at, row):
    """Pairs starts and ends of transfers, and places each on a row; returns how many there are. begin, end: int64, key:
    int32 below ``keys``, starts: uint8; written: places of start and end (int64), row (int32), of each transfer, in arrays
    as long as those. See kernels/offloads.h."""
    cdef Array begins = given(begin, I64), ends = given(end, I64, begins.count), numbers = given(key, I32, begins.count)
    cdef Array kinds = given(starts, U8, begins.count), rows = room(row, I32, begins.count)
    cdef Array firsts = room(start_at, I64, begins.count), lasts = room(end_at, I64, begins.count)
    cdef size_t transfers
    cdef fp_memory memory
    cdef fp_code code
    within(numbers, 0, keys)
    start_memory(&memory)
    with nogil:
        code = fp_offloads(&memory, begins.at, ends.at, numbers.at, kinds.at, kinds.count, keys, firsts.at, lasts.at,
                           rows.at, &transfers)
    check(code, "pairing transfers")
    return transfers


def time_order(start, duration, order):
    """Writes the rows (int64) by start, longer first; equal rows keep their order. See kernels/time_order.h."""
    cdef Array starts = given(start, I64), durations = given(duration, I64, starts.count)
    cdef Array rows = room(order, I64, starts.count)
    cdef fp_memory memory
    cdef bint ok
    start_memory(&memory)
    with nogil:
        ok = fp_time_order(&memory, starts.at, durations.at, 0, <int64_t>starts.count, rows.at)
    check(FP_OK if ok else FP_NO_MEMORY, "sorting rows by time")
