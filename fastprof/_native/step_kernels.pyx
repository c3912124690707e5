"""Kernels of step analysis: arrays in, arrays out. The caller allocates every array at its size."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t

from fastprof._native.core cimport fp_memory, fp_memory_init

from fastprof.errors import MemoryLimitError


cdef extern from "kernels/step_time.h" nogil:
    enum:
        FP_EVENT_TYPES
    ctypedef struct fp_typed_events:
        const int32_t *group
        const uint8_t *type
        const int64_t *start
        const int64_t *duration
        size_t count
        const int64_t *lines
        size_t line_count
    ctypedef struct fp_step_times:
        const int64_t *clip
        int64_t *total
        int64_t *clipped
        uint8_t *seen
        size_t group_count
    bint fp_step_time(fp_memory *memory, const fp_typed_events *events, const fp_step_times *out)


cdef extern from "kernels/grouping_line.h" nogil:
    ctypedef struct fp_grouping_line:
        const int64_t *begin
        const int64_t *end
        const int64_t *upto
        const int32_t *value
        size_t count
    void fp_including(const fp_grouping_line *line, const int64_t *start, const int64_t *duration, size_t count,
                      int32_t *found)
    void fp_overlapping(const fp_grouping_line *line, const int64_t *start, const int64_t *duration, size_t count,
                        int32_t *found)


EVENT_TYPES = FP_EVENT_TYPES


cdef class Borrowed:
    """A buffer held while C works on it; none where the object is None."""

    cdef Py_buffer buffer
    cdef bint held

    def __cinit__(self, obj, bint writable=False):
        if obj is not None:
            PyObject_GetBuffer(obj, &self.buffer, PyBUF_WRITABLE if writable else PyBUF_SIMPLE)
            self.held = True

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.buffer)

    cdef void *at(self) noexcept:
        return self.buffer.buf if self.held else NULL

    cdef size_t count(self, size_t item_size):
        return <size_t>self.buffer.len // item_size if self.held else 0


def step_time(group, type, start, duration, lines, clip, total, clipped, seen):
    """Adds to total, clipped (int64[groups, 18]) and seen (uint8[groups, 18]) the times by type of each group.

    Of the events: group (int32, negative: left out), type (uint8, from 18 on: left out), start and duration (int64).
    lines: None, or int64[lines + 1], the rows at which lines begin, and the end of the last. clip: None, or int64[groups,
    2], begin and end of each group's step. See kernels/step_time.h.
    """
    cdef Borrowed groups = Borrowed(group), types = Borrowed(type), starts = Borrowed(start)
    cdef Borrowed durations = Borrowed(duration), bounds = Borrowed(lines), clips = Borrowed(clip)
    cdef Borrowed totals = Borrowed(total, True), within = Borrowed(clipped, True), seens = Borrowed(seen, True)
    cdef fp_memory memory
    cdef fp_typed_events events
    cdef fp_step_times out
    cdef size_t count = starts.count(8)
    cdef bint done
    events.group = <const int32_t *>groups.at()
    events.type = <const uint8_t *>types.at()
    events.start = <const int64_t *>starts.at()
    events.duration = <const int64_t *>durations.at()
    events.count = count
    events.lines = <const int64_t *>bounds.at()
    events.line_count = bounds.count(8) - 1 if bounds.held else 0
    out.clip = <const int64_t *>clips.at()
    out.total = <int64_t *>totals.at()
    out.clipped = <int64_t *>within.at()
    out.seen = <uint8_t *>seens.at()
    out.group_count = seens.count(FP_EVENT_TYPES)
    if groups.count(4) != count or types.count(1) != count or durations.count(8) != count or count >> 32:
        raise ValueError("events differ in their number of values, or are too many")
    if totals.count(8) != out.group_count * FP_EVENT_TYPES:
        raise ValueError("totals do not fit the groups")
    if clips.held and (clips.count(16) != out.group_count or within.count(8) != out.group_count * FP_EVENT_TYPES):
        raise ValueError("steps do not fit the groups")
    fp_memory_init(&memory)
    with nogil:
        done = fp_step_time(&memory, &events, &out)
    if not done:
        raise MemoryLimitError("out of memory while adding up step time")


def placed(begin, end, upto, value, start, duration, bint overlapping, found):
    """Writes the value (int32) of the event of the grouping line that includes each event, or that it overlaps; -1: none.

    Times are int64s, those of the grouping line in order of begin. See kernels/grouping_line.h.
    """
    cdef Borrowed begins = Borrowed(begin), ends = Borrowed(end), reached = Borrowed(upto), values = Borrowed(value)
    cdef Borrowed starts = Borrowed(start), durations = Borrowed(duration), out = Borrowed(found, True)
    cdef fp_grouping_line line
    cdef size_t count = starts.count(8)
    line.begin = <const int64_t *>begins.at()
    line.end = <const int64_t *>ends.at()
    line.upto = <const int64_t *>reached.at()
    line.value = <const int32_t *>values.at()
    line.count = begins.count(8)
    if ends.count(8) != line.count or reached.count(8) != line.count or values.count(4) != line.count:
        raise ValueError("the columns of the grouping line differ in length")
    if durations.count(8) != count or out.count(4) != count:
        raise ValueError("the columns of the events differ in length")
    cdef const int64_t *at = <const int64_t *>starts.at()
    cdef const int64_t *lasting = <const int64_t *>durations.at()
    cdef int32_t *to = <int32_t *>out.at()
    with nogil:
        if overlapping:
            fp_overlapping(&line, at, lasting, count, to)
        else:
            fp_including(&line, at, lasting, count, to)
