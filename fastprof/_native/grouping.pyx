"""Kernels of step grouping: joins by key, and the graph of what caused what."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset

from fastprof._native.core cimport fp_memory, fp_memory_init, fp_vector, fp_vector_free

from fastprof.errors import MemoryLimitError


cdef extern from "kernels/key_numbers.h" nogil:
    int64_t fp_key_numbers(fp_memory *memory, const int64_t *const *columns, size_t width, size_t count,
                           int32_t *numbers)


cdef extern from "kernels/event_parents.h" nogil:
    ctypedef struct fp_region:
        int64_t before, start, duration
    bint fp_parents(fp_memory *memory, const int64_t *start, const int64_t *duration, const uint8_t *apart,
                    const fp_region *regions, size_t region_count, int64_t first, int64_t last, int32_t *parent)


cdef extern from "kernels/event_graph.h" nogil:
    ctypedef struct fp_member:
        int32_t row, link
    ctypedef struct fp_graph:
        fp_memory *memory
        size_t count
        const int32_t *parent
        size_t link_count
        const fp_member *producers
        const fp_member *consumers
        size_t producer_count, consumer_count
    bint fp_graph_open(fp_graph *graph)
    void fp_graph_close(fp_graph *graph)


cdef extern from "kernels/event_reach.h" nogil:
    bint fp_nearest_above_all(fp_graph *graph, const uint8_t *marks, uint8_t bits, int32_t *nearest)


cdef extern from "kernels/event_groups.h" nogil:
    ctypedef struct fp_relation:
        int32_t parent, child
    bint fp_nearest_above(fp_graph *graph, const uint8_t *marks, uint8_t bits, const int32_t *rows, size_t count,
                          int32_t *nearest)
    bint fp_group_events(fp_graph *graph, const int32_t *roots, size_t root_count, const int32_t *level,
                         int32_t first_group, int32_t *group, fp_vector *group_roots, fp_vector *relations)


include "borrowed.pxi"


cdef int check(bint done) except -1:
    if not done:
        raise MemoryLimitError("out of memory while grouping events")
    return 0


def key_numbers(columns, numbers):
    """Writes int32 numbers of keys, one int64 column a part of the key; returns how many distinct keys there are."""
    cdef const int64_t *parts[4]
    cdef fp_memory memory
    cdef int64_t found
    cdef Borrowed out = Borrowed(numbers, True), part
    cdef size_t count = <size_t>out.buffer.len // 4
    cdef size_t width = len(columns)
    if not 1 <= width <= 4:
        raise ValueError("a key has 1 to 4 parts")
    held = []
    for i in range(width):
        part = Borrowed(columns[i])
        if <size_t>part.buffer.len != 8 * count:
            raise ValueError("the parts of a key differ in length")
        held.append(part)
        parts[i] = <const int64_t *>part.buffer.buf
    fp_memory_init(&memory)
    with nogil:
        found = fp_key_numbers(&memory, parts, width, count, <int32_t *>out.buffer.buf)
    check(found >= 0)
    return found


def parents(start, duration, apart, regions, lines, parent):
    """Writes the enclosing row of each event (int32, -1: none). ``lines``: int64 pairs of first and last row;
    ``regions``: int64 triples of the row that they come before, start and duration, sorted."""
    cdef Borrowed starts = Borrowed(start), durations = Borrowed(duration), rows = Borrowed(lines)
    cdef Borrowed out = Borrowed(parent, True), between = Borrowed(regions)
    cdef Borrowed alone = None if apart is None else Borrowed(apart)
    cdef const uint8_t *apart_at = NULL
    cdef const int64_t *bounds = <const int64_t *>rows.buffer.buf
    cdef size_t count = <size_t>rows.buffer.len // 16
    cdef size_t region_count = <size_t>between.buffer.len // sizeof(fp_region)
    cdef size_t i
    cdef bint done = True
    cdef fp_memory memory
    if alone is not None:
        apart_at = <const uint8_t *>alone.buffer.buf
    fp_memory_init(&memory)
    with nogil:
        for i in range(count):
            done = fp_parents(&memory, <const int64_t *>starts.buffer.buf, <const int64_t *>durations.buffer.buf,
                              apart_at, <const fp_region *>between.buffer.buf, region_count, bounds[2 * i],
                              bounds[2 * i + 1], <int32_t *>out.buffer.buf)
            if not done:
                break
    check(done)


cdef class EventGraph:
    """Events, what encloses them, and links between them; see kernels/event_graph.h. ``producers`` and ``consumers`` are
    int32 pairs of row and link, sorted."""

    cdef fp_graph graph
    cdef fp_memory memory
    cdef list held

    def __cinit__(self, parent, producers, consumers, int64_t link_count):
        cdef Borrowed above = Borrowed(parent), givers = Borrowed(producers), takers = Borrowed(consumers)
        cdef bint done
        self.held = [above, givers, takers]
        memset(&self.graph, 0, sizeof(self.graph))
        fp_memory_init(&self.memory)
        self.graph.memory = &self.memory
        self.graph.count = <size_t>above.buffer.len // 4
        self.graph.parent = <const int32_t *>above.buffer.buf
        self.graph.link_count = <size_t>link_count
        self.graph.producers = <const fp_member *>givers.buffer.buf
        self.graph.producer_count = <size_t>givers.buffer.len // sizeof(fp_member)
        self.graph.consumers = <const fp_member *>takers.buffer.buf
        self.graph.consumer_count = <size_t>takers.buffer.len // sizeof(fp_member)
        with nogil:
            done = fp_graph_open(&self.graph)
        check(done)

    def __dealloc__(self):
        if self.graph.memory != NULL:
            fp_graph_close(&self.graph)

    def nearest_above(self, marks, int bits, rows, nearest):
        """Writes, for each of int32 rows, the nearest row above it, itself included, that has one of the bits; -1."""
        cdef Borrowed marked = Borrowed(marks), asked = Borrowed(rows), out = Borrowed(nearest, True)
        cdef bint done
        with nogil:
            done = fp_nearest_above(&self.graph, <const uint8_t *>marked.buffer.buf, <uint8_t>bits,
                                    <const int32_t *>asked.buffer.buf, <size_t>asked.buffer.len // 4,
                                    <int32_t *>out.buffer.buf)
        check(done)

    def nearest_above_all(self, marks, int bits, nearest):
        """The same for all rows."""
        cdef Borrowed marked = Borrowed(marks), out = Borrowed(nearest, True)
        cdef bint done
        with nogil:
            done = fp_nearest_above_all(&self.graph, <const uint8_t *>marked.buffer.buf, <uint8_t>bits,
                                        <int32_t *>out.buffer.buf)
        check(done)

    def group(self, roots, level, int first_group, group):
        """Groups events from their roots; returns (rows of the roots of new groups, pairs of related groups), int32s."""
        cdef Borrowed tops = Borrowed(roots), out = Borrowed(group, True)
        cdef Borrowed levels = None if level is None else Borrowed(level)
        cdef const int32_t *level_at = NULL
        cdef fp_vector found, related
        cdef bint done
        if levels is not None:
            level_at = <const int32_t *>levels.buffer.buf
        memset(&found, 0, sizeof(found))
        memset(&related, 0, sizeof(related))
        try:
            with nogil:
                done = fp_group_events(&self.graph, <const int32_t *>tops.buffer.buf, <size_t>tops.buffer.len // 4,
                                       level_at, first_group, <int32_t *>out.buffer.buf, &found, &related)
            check(done)
            return (PyBytes_FromStringAndSize(<char *>found.items, <Py_ssize_t>(found.count * 4)),
                    PyBytes_FromStringAndSize(<char *>related.items,
                                              <Py_ssize_t>(related.count * sizeof(fp_relation))))
        finally:
            fp_vector_free(&self.memory, &found)
            fp_vector_free(&self.memory, &related)
