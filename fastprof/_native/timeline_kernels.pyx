"""Kernels of derived lines: arrays in, arrays out. The caller allocates every array at its size."""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t

from fastprof._native.core cimport fp_memory, fp_memory_init

from fastprof.errors import MemoryLimitError


cdef extern from "kernels/derived_line.h" nogil:
    enum:
        FP_DERIVED_LEVELS
    ctypedef struct fp_int_lists:
        const int64_t *offset
        const int64_t *value
    ctypedef struct fp_derived_from:
        const int64_t *start
        const int64_t *duration
        const int32_t *group
        const int32_t *names
        const int32_t *scopes
        const uint8_t *closed
        size_t count
        fp_int_lists name_lists
        fp_int_lists scope_lists
    ctypedef struct fp_derived_line:
        int64_t *start
        int64_t *duration
        int64_t *name
        int32_t *group
        uint8_t *closes
        int64_t *deepest
    size_t fp_derive_line(const fp_derived_from *source, bint over_gaps, bint close, const fp_derived_line *line)


cdef extern from "kernels/offloads.h" nogil:
    int64_t fp_offloads(fp_memory *memory, const int64_t *begin, const int64_t *end, const int32_t *key,
                        const uint8_t *starts, size_t count, size_t keys, int64_t *start_at, int64_t *end_at,
                        int32_t *row)


include "borrowed.pxi"


DERIVED_LEVELS = FP_DERIVED_LEVELS


cdef class DerivedLine:
    """A line derived from events: int64 start and duration, int32 group, and the list of the names of each; lists are
    pairs of int64 offsets and int64 values. See kernels/derived_line.h. Use: ``count()``, then ``fill``."""

    cdef fp_derived_from source
    cdef list held
    cdef bint over_gaps, close

    def __init__(self, start, duration, group, names, name_lists, scopes, scope_lists, closed,
                 bint over_gaps, bint close):
        self.held = []
        self.over_gaps, self.close = over_gaps, close
        self.source.count = self._hold(start).buffer.len // 8
        self.source.start = <const int64_t *>self._last(8, self.source.count)
        self._hold(duration)
        self.source.duration = <const int64_t *>self._last(8, self.source.count)
        self._hold(group)
        self.source.group = <const int32_t *>self._last(4, self.source.count)
        self._hold(names)
        self.source.names = <const int32_t *>self._last(4, self.source.count)
        self._lists(name_lists, &self.source.name_lists, self.source.names)
        if scopes is not None:
            self._hold(scopes)
            self.source.scopes = <const int32_t *>self._last(4, self.source.count)
            self._lists(scope_lists, &self.source.scope_lists, self.source.scopes)
        if closed is not None:
            self._hold(closed)
            self.source.closed = <const uint8_t *>self._last(1, self.source.count)

    cdef Borrowed _hold(self, array):
        cdef Borrowed one = Borrowed(array)
        self.held.append(one)
        return one

    cdef void *_last(self, size_t size, size_t count) except? NULL:
        cdef Borrowed one = self.held[len(self.held) - 1]
        if <size_t>one.buffer.len != size * count:
            raise ValueError("the columns of the events differ in length")
        return one.buffer.buf

    cdef int _lists(self, lists, fp_int_lists *out, const int32_t *numbers) except -1:
        cdef Borrowed offsets = self._hold(lists[0]), values = self._hold(lists[1])
        cdef int64_t count = offsets.buffer.len // 8 - 1, i
        out.offset = <const int64_t *>offsets.buffer.buf
        out.value = <const int64_t *>values.buffer.buf
        if count < 0 or out.offset[0] != 0 or out.offset[count] != values.buffer.len // 8:
            raise ValueError("the lists do not fit their values")
        for i in range(count):
            if out.offset[i + 1] < out.offset[i]:
                raise ValueError("the lists do not fit their values")
        for i in range(<int64_t>self.source.count):
            if numbers[i] >= count:
                raise ValueError("an event has a list that is not there")
        return 0

    def count(self):
        """How many events the derived line has."""
        cdef fp_derived_line line
        cdef size_t found
        line.start = line.duration = line.name = line.deepest = NULL
        line.group = NULL
        line.closes = NULL
        with nogil:
            found = fp_derive_line(&self.source, self.over_gaps, self.close, &line)
        return found

    def fill(self, start, duration, name, group, closes, deepest):
        """Writes the derived events, as many as ``count()`` tells: int64 start, duration and name, int32 group. By event
        of the source: whether all ended there (uint8), and the derived event of its deepest level (int64)."""
        cdef Borrowed starts = Borrowed(start, True), durations = Borrowed(duration, True), names = Borrowed(name, True)
        cdef Borrowed groups = Borrowed(group, True), ends = Borrowed(closes, True), deep = Borrowed(deepest, True)
        cdef fp_derived_line line
        cdef size_t count = self.count()
        if starts.buffer.len // 8 != count or durations.buffer.len // 8 != count or names.buffer.len // 8 != count:
            raise ValueError("the columns do not fit the derived events")
        if groups.buffer.len // 4 != count or ends.buffer.len != self.source.count:
            raise ValueError("the columns do not fit the derived events")
        if deep.buffer.len // 8 != self.source.count:
            raise ValueError("the columns do not fit the events")
        line.start = <int64_t *>starts.buffer.buf
        line.duration = <int64_t *>durations.buffer.buf
        line.name = <int64_t *>names.buffer.buf
        line.group = <int32_t *>groups.buffer.buf
        line.closes = <uint8_t *>ends.buffer.buf
        line.deepest = <int64_t *>deep.buffer.buf
        with nogil:
            fp_derive_line(&self.source, self.over_gaps, self.close, &line)


def offloads(begin, end, key, starts, size_t keys, start_at, end_at, row):
    """Pairs starts and ends of transfers, and places each on a row; returns how many there are. begin, end: int64, key:
    int32 below ``keys``, starts: uint8; written: places of start and end (int64), row (int32), of each transfer, in arrays
    as long as those. See kernels/offloads.h."""
    cdef Borrowed begins = Borrowed(begin), ends = Borrowed(end), numbers = Borrowed(key), kinds = Borrowed(starts)
    cdef Borrowed firsts = Borrowed(start_at, True), lasts = Borrowed(end_at, True), rows = Borrowed(row, True)
    cdef size_t count = kinds.buffer.len, i
    cdef int64_t found
    cdef fp_memory memory
    cdef const int32_t *at = <const int32_t *>numbers.buffer.buf
    if begins.buffer.len // 8 != count or ends.buffer.len // 8 != count or numbers.buffer.len // 4 != count:
        raise ValueError("the columns of the events differ in length")
    if firsts.buffer.len // 8 != count or lasts.buffer.len // 8 != count or rows.buffer.len // 4 != count:
        raise ValueError("the columns of the transfers do not fit the events")
    for i in range(count):
        if at[i] < 0 or <size_t>at[i] >= keys:
            raise ValueError("a key is out of range")
    fp_memory_init(&memory)
    with nogil:
        found = fp_offloads(&memory, <const int64_t *>begins.buffer.buf, <const int64_t *>ends.buffer.buf, at,
                            <const uint8_t *>kinds.buffer.buf, count, keys, <int64_t *>firsts.buffer.buf,
                            <int64_t *>lasts.buffer.buf, <int32_t *>rows.buffer.buf)
    if found < 0:
        raise MemoryLimitError("out of memory while pairing transfers")
    return found
