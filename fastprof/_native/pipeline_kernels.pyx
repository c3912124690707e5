"""Kernels of tf.data's pipelines: which iterators each call ran, and where its time went. NumPy columns in, records out."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from fastprof._native.core cimport fp_memory, fp_memory_init, fp_vector, fp_vector_free

from fastprof.errors import MemoryLimitError


cdef extern from "kernels/pipeline_calls.h" nogil:
    enum:
        FP_SELF_PARTS
    void fp_marked_rows(const int32_t *parent, const uint8_t *marks, size_t count, int32_t *kept, int32_t *above,
                        int32_t *around, int32_t *number)
    void fp_nearest_marked(const int32_t *parent, const uint8_t *marks, uint8_t bits, size_t count, int32_t *nearest)
    int64_t fp_preorder(fp_memory *memory, const int32_t *parent, size_t count, const int32_t *roots, size_t root_count,
                        int32_t *order, int32_t *depth)
    ctypedef struct fp_iterator_events:
        const int64_t *start
        const int64_t *duration
        const int32_t *parent
        const int32_t *iterator
        size_t count, iterator_count
    ctypedef struct fp_activity:
        int32_t event
    ctypedef struct fp_root_calls:
        const int32_t *event
        const int32_t *pipeline
        const uint8_t *traced
        size_t count
    ctypedef struct fp_call_record:
        int32_t call
    ctypedef struct fp_call_segment:
        int32_t call
    ctypedef struct fp_call_parts:
        int32_t pipeline
    ctypedef struct fp_pipeline_work:
        fp_iterator_events events
        const fp_activity *activities
        size_t activity_count
        const uint8_t *own_part
        fp_root_calls calls
    bint fp_pipeline_calls(fp_memory *memory, const fp_pipeline_work *work, fp_vector *records, fp_vector *segments,
                           fp_vector *parts)


cdef extern from "kernels/pipeline_paths.h" nogil:
    ctypedef struct fp_event_paths:
        const int64_t *start
        const int64_t *duration
        const int32_t *parent
        const int32_t *iterator
        size_t count, iterator_count
        const uint32_t *asks
        const uint32_t *gives
        const int32_t *link
        const int32_t *given
    enum fp_path_result:
        FP_WALKED
        FP_NO_ROOM
        FP_TOO_LONG
    fp_path_result fp_pipeline_paths(fp_memory *memory, const fp_event_paths *paths, const int32_t *roots,
                                     size_t root_count, uint64_t most_visits, fp_vector *records)


include "borrowed.pxi"

SELF_PARTS = FP_SELF_PARTS
cdef str NO_MEMORY = "out of memory while reading input pipelines"


cdef bytes taken(fp_vector *vector, size_t item_size):
    return PyBytes_FromStringAndSize(<char *>vector.items, <Py_ssize_t>(vector.count * item_size))


cdef size_t items(Borrowed column, size_t item_size, size_t wanted) except? 0:
    """How many a column has, which must be as many as wanted."""
    if <size_t>column.buffer.len != wanted * item_size:
        raise ValueError("columns differ in length")
    return wanted


def marked_rows(parent, marks, kept, above, around, number):
    """Writes, for the rows with marks (uint8), kept, above and around, and number for all rows; all int32s. See
    kernels/pipeline_calls.h. kept, above and around have room for as many as there are marks that are not 0."""
    cdef Borrowed outer = Borrowed(parent), marked = Borrowed(marks), rows = Borrowed(kept, True)
    cdef Borrowed upper = Borrowed(above, True), outers = Borrowed(around, True), numbers = Borrowed(number, True)
    cdef size_t count = <size_t>marked.buffer.len, room = <size_t>rows.buffer.len // 4, i, needed = 0
    cdef const uint8_t *at = <const uint8_t *>marked.buffer.buf
    items(outer, 4, count)
    items(numbers, 4, count)
    items(upper, 4, room)
    items(outers, 4, room)
    with nogil:
        for i in range(count):
            needed += at[i] != 0
        if needed <= room:
            fp_marked_rows(<const int32_t *>outer.buffer.buf, at, count, <int32_t *>rows.buffer.buf,
                           <int32_t *>upper.buffer.buf, <int32_t *>outers.buffer.buf, <int32_t *>numbers.buffer.buf)
    if needed > room:
        raise ValueError("there are more marks than room for their rows")


def nearest_marked(parent, marks, uint8_t bits, nearest):
    """Writes the nearest row at or above each row that has one of the bits in marks (uint8), int32s, -1: none. Parents
    come before their children."""
    cdef Borrowed above = Borrowed(parent), marked = Borrowed(marks), out = Borrowed(nearest, True)
    cdef size_t count = <size_t>marked.buffer.len
    items(above, 4, count)
    items(out, 4, count)
    with nogil:
        fp_nearest_marked(<const int32_t *>above.buffer.buf, <const uint8_t *>marked.buffer.buf, bits, count,
                          <int32_t *>out.buffer.buf)


def preorder(parent, roots, order, depth):
    """Writes the trees below the roots, each row before what is below it, and how deep it is; returns how many rows.
    All are int32s; order and depth have room for all rows."""
    cdef Borrowed above = Borrowed(parent), tops = Borrowed(roots), rows = Borrowed(order, True)
    cdef Borrowed deep = Borrowed(depth, True)
    cdef fp_memory memory
    cdef int64_t found
    cdef size_t count = <size_t>above.buffer.len // 4
    items(rows, 4, count)
    items(deep, 4, count)
    fp_memory_init(&memory)
    with nogil:
        found = fp_preorder(&memory, <const int32_t *>above.buffer.buf, count, <const int32_t *>tops.buffer.buf,
                            <size_t>tops.buffer.len // 4, <int32_t *>rows.buffer.buf, <int32_t *>deep.buffer.buf)
    if found < 0:
        raise MemoryLimitError(NO_MEMORY)
    return found


def pipeline_calls(events, own_part, activities, calls):
    """Returns records, segments and parts of calls; see kernels/pipeline_calls.h, and RECORD, SEGMENT, PARTS in
    fastprof/pipelines/call_walk.py for their layout.

    events: start, duration (int64), parent, iterator (int32) by event. own_part: uint8 by iterator. activities: as in
    the kernel. calls: event, pipeline (int32), traced (uint8) by call."""
    cdef Borrowed start = Borrowed(events[0]), duration = Borrowed(events[1]), parent = Borrowed(events[2])
    cdef Borrowed iterator = Borrowed(events[3]), own = Borrowed(own_part), active = Borrowed(activities)
    cdef Borrowed root = Borrowed(calls[0]), pipeline = Borrowed(calls[1]), traced = Borrowed(calls[2])
    cdef fp_pipeline_work work
    cdef fp_memory memory
    cdef fp_vector records, segments, parts
    cdef bint done
    cdef size_t count = <size_t>start.buffer.len // 8, call_count = <size_t>root.buffer.len // 4
    items(duration, 8, count)
    items(parent, 4, count)
    items(iterator, 4, count)
    items(pipeline, 4, call_count)
    items(traced, 1, call_count)
    work.events = fp_iterator_events(
        <const int64_t *>start.buffer.buf, <const int64_t *>duration.buffer.buf, <const int32_t *>parent.buffer.buf,
        <const int32_t *>iterator.buffer.buf, count, <size_t>own.buffer.len)
    work.activities = <const fp_activity *>active.buffer.buf
    work.activity_count = <size_t>active.buffer.len // sizeof(fp_activity)
    work.own_part = <const uint8_t *>own.buffer.buf
    work.calls = fp_root_calls(<const int32_t *>root.buffer.buf, <const int32_t *>pipeline.buffer.buf,
                               <const uint8_t *>traced.buffer.buf, call_count)
    memset(&records, 0, sizeof(records))
    memset(&segments, 0, sizeof(segments))
    memset(&parts, 0, sizeof(parts))
    fp_memory_init(&memory)
    try:
        with nogil:
            done = fp_pipeline_calls(&memory, &work, &records, &segments, &parts)
        if not done:
            raise MemoryLimitError(NO_MEMORY)
        return (taken(&records, sizeof(fp_call_record)), taken(&segments, sizeof(fp_call_segment)),
                taken(&parts, sizeof(fp_call_parts)))
    finally:
        fp_vector_free(&memory, &records)
        fp_vector_free(&memory, &segments)
        fp_vector_free(&memory, &parts)


def pipeline_paths(events, size_t iterator_count, links, roots, uint64_t most_visits):
    """Returns the records of all paths from the roots (int32), or None where there are more than most_visits steps on
    them. events: start, duration (int64), parent, iterator (int32) by event; links: asks, gives (uint32), link, given
    (int32). See kernels/pipeline_paths.h."""
    cdef Borrowed start = Borrowed(events[0]), duration = Borrowed(events[1]), parent = Borrowed(events[2])
    cdef Borrowed iterator = Borrowed(events[3]), asks = Borrowed(links[0]), gives = Borrowed(links[1])
    cdef Borrowed link = Borrowed(links[2]), given = Borrowed(links[3]), tops = Borrowed(roots)
    cdef fp_event_paths paths
    cdef fp_memory memory
    cdef fp_vector records
    cdef fp_path_result result
    cdef size_t count = <size_t>start.buffer.len // 8
    items(duration, 8, count)
    items(parent, 4, count)
    items(iterator, 4, count)
    items(asks, 4, count + 1)
    paths = fp_event_paths(
        <const int64_t *>start.buffer.buf, <const int64_t *>duration.buffer.buf, <const int32_t *>parent.buffer.buf,
        <const int32_t *>iterator.buffer.buf, count, iterator_count, <const uint32_t *>asks.buffer.buf,
        <const uint32_t *>gives.buffer.buf, <const int32_t *>link.buffer.buf, <const int32_t *>given.buffer.buf)
    memset(&records, 0, sizeof(records))
    fp_memory_init(&memory)
    try:
        with nogil:
            result = fp_pipeline_paths(&memory, &paths, <const int32_t *>tops.buffer.buf,
                                       <size_t>tops.buffer.len // 4, most_visits, &records)
        if result == FP_NO_ROOM:
            raise MemoryLimitError(NO_MEMORY)
        return None if result == FP_TOO_LONG else taken(&records, sizeof(fp_call_record))
    finally:
        fp_vector_free(&memory, &records)
