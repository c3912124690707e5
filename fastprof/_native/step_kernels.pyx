"""Kernels of step analysis: arrays in, arrays out. The caller allocates every array at its size."""

from libc.stdint cimport INT32_MIN, UINT32_MAX

from fastprof._native.border cimport *


cdef extern from "kernels/step_time.h" nogil:
    enum:
        FP_EVENT_TYPES
    ctypedef struct fp_typed_events:
        void *group
        void *type
        void *start
        void *duration
        void *lines
        size_t count, line_count
    ctypedef struct fp_step_times:
        void *clip
        void *total
        void *clipped
        void *seen
        size_t group_count
    fp_code fp_step_time(fp_memory *memory, const fp_typed_events *events, const fp_step_times *out)


cdef extern from "kernels/grouping_line.h" nogil:
    ctypedef struct fp_grouping_line:
        void *begin
        void *end
        void *upto
        void *value
        size_t count
    void fp_including(const fp_grouping_line *line, void *start, void *duration, size_t count, void *found)
    void fp_overlapping(const fp_grouping_line *line, void *start, void *duration, size_t count, void *found)


EVENT_TYPES = FP_EVENT_TYPES


def step_time(group, type, start, duration, lines, clip, total, clipped, seen):
    """Adds to total, clipped (int64[groups, 18]) and seen (uint8[groups, 18]) the times by type of each group.

    Of the events: group (int32, negative: left out), type (uint8, from 18 on: left out), start and duration (int64).
    lines: None, or int64[lines + 1], the rows at which lines begin, and the end of the last. clip: None, or int64[groups,
    2], begin and end of each group's step; clipped is None, too, then. See kernels/step_time.h.
    """
    cdef Array starts = given(start, I64), durations = given(duration, I64, starts.count)
    cdef Array groups = given(group, I32, starts.count), types = given(type, U8, starts.count)
    cdef Array line_bounds = maybe(lines, I64), totals = room(total, I64)
    cdef Array seens = room(seen, U8, totals.count), clips = maybe(clip, I64, totals.count // FP_EVENT_TYPES * 2)
    cdef Array within_clips = maybe(None, I64) if clip is None else room(clipped, I64, totals.count)
    cdef fp_memory memory
    cdef fp_typed_events events
    cdef fp_step_times out
    cdef fp_code code
    if starts.count > UINT32_MAX or totals.count % FP_EVENT_TYPES:
        raise ValueError("there are too many events, or totals do not have a column for each type")
    within(groups, INT32_MIN, totals.count // FP_EVENT_TYPES)
    if line_bounds.held:
        bounds(line_bounds, starts.count)
    events.group, events.type, events.start, events.duration = groups.at, types.at, starts.at, durations.at
    events.count, events.lines = starts.count, line_bounds.at
    events.line_count = line_bounds.count - line_bounds.held
    out.clip, out.total, out.clipped, out.seen = clips.at, totals.at, within_clips.at, seens.at
    out.group_count = totals.count // FP_EVENT_TYPES
    start_memory(&memory)
    with nogil:
        code = fp_step_time(&memory, &events, &out)
    check(code, "adding up step time")


def placed(begin, end, upto, value, start, duration, bint overlapping, found):
    """Writes the value (int32) of the event of the grouping line that includes each event, or that it overlaps; -1: none.

    Times are int64s, those of the grouping line in order of begin. See kernels/grouping_line.h.
    """
    cdef Array begins = given(begin, I64), ends = given(end, I64, begins.count), reached = given(upto, I64, begins.count)
    cdef Array values = given(value, I32, begins.count), starts = given(start, I64)
    cdef Array durations = given(duration, I64, starts.count), out = room(found, I32, starts.count)
    cdef fp_grouping_line line = fp_grouping_line(begins.at, ends.at, reached.at, values.at, begins.count)
    with nogil:
        if overlapping:
            fp_overlapping(&line, starts.at, durations.at, starts.count, out.at)
        else:
            fp_including(&line, starts.at, durations.at, starts.count, out.at)
