"""Kernels of tf.data's pipelines: which iterators each call ran, and where its time went. NumPy columns in, records out."""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from fastprof._native.border cimport *


cdef extern from "kernels/pipeline_calls.h" nogil:
    enum:
        FP_SELF_PARTS
    void fp_marked_rows(void *parent, void *marks, size_t count, void *kept, void *above, void *around, void *number)
    void fp_nearest_marked(void *parent, void *marks, uint8_t bits, size_t count, void *nearest)
    fp_code fp_preorder(fp_memory *memory, void *parent, size_t count, void *roots, size_t root_count, void *order,
                        void *depth, size_t *listed)
    ctypedef struct fp_iterator_events:
        void *start
        void *duration
        void *parent
        void *iterator
        size_t count, iterator_count
    ctypedef struct fp_root_calls:
        void *event
        void *pipeline
        void *traced
        size_t count
    ctypedef struct fp_call_record:
        int32_t call
    ctypedef struct fp_call_segment:
        int32_t call
    ctypedef struct fp_call_parts:
        int32_t pipeline
    ctypedef struct fp_pipeline_work:
        fp_iterator_events events
        void *activities
        size_t activity_count
        void *own_part
        fp_root_calls calls
    fp_code fp_pipeline_calls(fp_memory *memory, const fp_pipeline_work *work, fp_vector *records, fp_vector *segments,
                              fp_vector *parts)


cdef extern from "kernels/pipeline_paths.h" nogil:
    ctypedef struct fp_event_paths:
        void *start
        void *duration
        void *parent
        void *iterator
        size_t count, iterator_count
        void *asks
        void *gives
        void *link
        void *given
    ctypedef struct fp_path_piece:
        uint64_t visits_left
        size_t most_records, calls
    fp_code fp_pipeline_paths(fp_memory *memory, const fp_event_paths *paths, void *roots, size_t root_count,
                              fp_path_piece *piece, fp_vector *records)


SELF_PARTS = FP_SELF_PARTS
cdef str DOING = "reading input pipelines"


cdef int forest(Array parent) except -1:
    """Whether rows lead to rows, or to none."""
    if parent.count > INT32_MAX:
        raise ValueError("there are too many rows")
    return within(parent, -1, parent.count)


def marked_rows(parent, marks, kept, above, around, number):
    """Writes, for the rows with marks (uint8), kept, above and around, and number for all rows; all int32s. See
    kernels/pipeline_calls.h. kept, above and around have room for as many as there are marks that are not 0."""
    cdef Array outer = given(parent, I32), marked = given(marks, U8, outer.count), rows = room(kept, I32)
    cdef Array upper = room(above, I32, rows.count), outers = room(around, I32, rows.count)
    cdef Array numbers = room(number, I32, outer.count)
    cdef const uint8_t *at = <const uint8_t *>marked.at
    cdef size_t i, needed = 0
    forest(outer)
    with nogil:
        for i in range(marked.count):
            needed += at[i] != 0
    if needed > rows.count:
        raise ValueError("there are more marks than room for their rows")
    with nogil:
        fp_marked_rows(outer.at, marked.at, marked.count, rows.at, upper.at, outers.at, numbers.at)


def nearest_marked(parent, marks, uint8_t bits, nearest):
    """Writes the nearest row at or above each row that has one of the bits in marks (uint8), int32s, -1: none. Parents
    come before their children."""
    cdef Array above = given(parent, I32), marked = given(marks, U8, above.count), out = room(nearest, I32, above.count)
    forest(above)
    with nogil:
        fp_nearest_marked(above.at, marked.at, bits, marked.count, out.at)


def preorder(parent, roots, order, depth):
    """Writes the trees below the roots, each row before what is below it, and how deep it is; returns how many rows.
    All are int32s; order and depth have room for all rows."""
    cdef Array above = given(parent, I32), tops = given(roots, I32), rows = room(order, I32, above.count)
    cdef Array deep = room(depth, I32, above.count)
    cdef fp_memory memory
    cdef size_t listed
    cdef fp_code code
    forest(above)
    within(tops, 0, above.count)
    start_memory(&memory)
    with nogil:
        code = fp_preorder(&memory, above.at, above.count, tops.at, tops.count, rows.at, deep.at, &listed)
    check(code, DOING)
    return listed


cdef int are_called_by_name(Array iterator, Array parent, Array root) except -1:
    """Raises ValueError where a walk from the roots would meet an event without an iterator."""
    cdef const int32_t *number = <const int32_t *>iterator.at
    cdef const int32_t *above = <const int32_t *>parent.at
    cdef const int32_t *row = <const int32_t *>root.at
    cdef bint unnamed = False
    cdef size_t i
    for i in range(iterator.count):
        unnamed |= number[i] < 0 and above[i] >= 0
    for i in range(root.count):
        unnamed |= number[row[i]] < 0
    if unnamed:
        raise ValueError("an event that is called has no iterator")
    return 0


def pipeline_calls(events, own_part, activities, calls):
    """Returns records, segments and parts of calls; see kernels/pipeline_calls.h, and _RECORD, _SEGMENT, _PARTS in
    derive/pipelines/recorded_pipelines.py for their layout.

    events: start, duration (int64), parent, iterator (int32; -1 of events that nothing leads to) by event. own_part: uint8 by iterator. activities: as in
    the kernel. calls: event, pipeline (int32), traced (uint8) by call."""
    cdef Array start = given(events[0], I64), duration = given(events[1], I64, start.count)
    cdef Array parent = given(events[2], I32, start.count), iterator = given(events[3], I32, start.count)
    cdef Array own = given(own_part, U8), active = given(activities, "qqii"), root = given(calls[0], I32)
    cdef Array pipeline = given(calls[1], I32, root.count), traced = given(calls[2], U8, root.count)
    cdef fp_pipeline_work work
    cdef fp_memory memory
    cdef fp_vector records, segments, parts
    cdef fp_code code
    forest(parent)
    within(iterator, -1, own.count)
    within(own, 0, FP_SELF_PARTS)
    within(active, 0, start.count, 2)
    within(root, 0, start.count)
    are_called_by_name(iterator, parent, root)
    work.events = fp_iterator_events(start.at, duration.at, parent.at, iterator.at, start.count, own.count)
    work.activities, work.activity_count, work.own_part = active.at, active.count, own.at
    work.calls = fp_root_calls(root.at, pipeline.at, traced.at, root.count)
    memset(&records, 0, sizeof(records))
    memset(&segments, 0, sizeof(segments))
    memset(&parts, 0, sizeof(parts))
    start_memory(&memory)
    try:
        with nogil:
            code = fp_pipeline_calls(&memory, &work, &records, &segments, &parts)
        check(code, DOING)
        return (taken(&records, sizeof(fp_call_record)), taken(&segments, sizeof(fp_call_segment)),
                taken(&parts, sizeof(fp_call_parts)))
    finally:
        fp_vector_free(&memory, &records)
        fp_vector_free(&memory, &segments)
        fp_vector_free(&memory, &parts)


def pipeline_paths(events, size_t iterator_count, links, roots, uint64_t most_visits, size_t most_records):
    """Returns the records of all paths from the first of the roots (int32), as many as give most_records; how many
    roots these are; and how many steps of most_visits are left. None where the paths have more steps. events: start, duration (int64), parent, iterator (int32) by event; links: asks, gives (uint32), link, given
    (int32). See kernels/pipeline_paths.h."""
    cdef Array start = given(events[0], I64), duration = given(events[1], I64, start.count)
    cdef Array parent = given(events[2], I32, start.count), iterator = given(events[3], I32, start.count)
    cdef Array asks = given(links[0], U32, start.count + 1), gives = given(links[1], U32)
    cdef Array link = given(links[2], I32), to = given(links[3], I32), tops = given(roots, I32)
    cdef fp_event_paths paths = fp_event_paths(start.at, duration.at, parent.at, iterator.at, start.count, iterator_count,
                                               asks.at, gives.at, link.at, to.at)
    cdef fp_path_piece piece = fp_path_piece(most_visits, most_records, 0)
    cdef fp_memory memory
    cdef fp_vector records
    cdef fp_code code
    forest(parent)
    within(iterator, -1, iterator_count)
    within(asks, 0, link.count + 1)
    within(gives, 0, to.count + 1)
    is_sorted(asks)
    is_sorted(gives)
    within(link, 0, <int64_t>gives.count - 1)
    within(to, 0, start.count)
    within(tops, 0, start.count)
    memset(&records, 0, sizeof(records))
    start_memory(&memory)
    try:
        with nogil:
            code = fp_pipeline_paths(&memory, &paths, tops.at, tops.count, &piece, &records)
        if code == FP_TOO_LONG:
            return None
        check(code, DOING)
        return taken(&records, sizeof(fp_call_record)), piece.calls, piece.visits_left
    finally:
        fp_vector_free(&memory, &records)
