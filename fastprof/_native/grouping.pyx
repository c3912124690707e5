"""Kernels of step grouping: joins by key, and the graph of what caused what."""

cimport cython
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memset

from fastprof._native.border cimport *


cdef extern from "kernels/key_numbers.h" nogil:
    fp_code fp_key_numbers(fp_memory *memory, const int64_t *const *columns, size_t width, size_t count, void *numbers, size_t *distinct)


cdef extern from "kernels/event_parents.h" nogil:
    fp_code fp_parents(fp_memory *memory, void *start, void *duration, void *apart, void *regions, size_t region_count,
                       int64_t slack, int64_t first, int64_t last, void *parent)


cdef extern from "kernels/event_graph.h" nogil:
    ctypedef struct fp_graph:
        fp_memory *memory
        size_t count, link_count, producer_count, consumer_count
        void *parent
        void *producers
        void *consumers
    fp_code fp_graph_open(fp_graph *graph)
    void fp_graph_close(fp_graph *graph)


cdef extern from "kernels/event_reach.h" nogil:
    fp_code fp_nearest_above_all(fp_graph *graph, void *marks, uint8_t bits, void *nearest)


cdef extern from "kernels/event_groups.h" nogil:
    ctypedef struct fp_relation:
        int32_t parent, child
    fp_code fp_nearest_above(fp_graph *graph, void *marks, uint8_t bits, void *rows, size_t count, void *nearest)
    fp_code fp_group_events(fp_graph *graph, void *roots, size_t root_count, void *level, int32_t first_group,
                            void *group, fp_vector *group_roots, fp_vector *relations)


cdef str DOING = "grouping events"


def key_numbers(columns, numbers):
    """Writes int32 numbers of keys, one int64 column a part of the key; returns how many distinct keys there are."""
    cdef const int64_t *parts[4]
    cdef fp_memory memory
    cdef fp_code code
    cdef Array out = room(numbers, I32), part
    cdef size_t width = len(columns), distinct
    if not 1 <= width <= 4 or out.count > INT32_MAX:
        raise ValueError("a key has 1 to 4 parts, and there are fewer than 2**31 keys")
    held = []
    for i in range(width):
        part = given(columns[i], I64, out.count)
        held.append(part)
        parts[i] = <const int64_t *>part.at
    start_memory(&memory)
    with nogil:
        code = fp_key_numbers(&memory, parts, width, out.count, out.at, &distinct)
    check(code, DOING)
    return distinct


def parents(start, duration, apart, regions, lines, parent, int64_t slack=0):
    """Writes the enclosing row of each event (int32, -1: none). ``lines``: int64 pairs of first and last row;
    ``regions``: int64 triples of the row that they come before, start and duration, sorted."""
    cdef Array starts = given(start, I64), durations = given(duration, I64, starts.count), rows = given(lines, I64)
    cdef Array alone = maybe(apart, U8, starts.count), between = given(regions, I64)
    cdef Array out = room(parent, I32, starts.count)
    cdef const int64_t *pairs = <const int64_t *>rows.at
    cdef size_t i
    cdef fp_code code = FP_OK
    cdef fp_memory memory
    slices(rows, starts.count, 2)
    if between.count % 3:
        raise ValueError("a region is three numbers")
    start_memory(&memory)
    with nogil:
        for i in range(0, rows.count, 2):
            code = fp_parents(&memory, starts.at, durations.at, alone.at, between.at, between.count // 3, slack,
                              pairs[i], pairs[i + 1], out.at)
            if code != FP_OK:
                break
    check(code, DOING)


@cython.final
cdef class EventGraph:
    """Events, what encloses them, and links between them; see kernels/event_graph.h. ``producers`` and ``consumers`` are
    int32 pairs of row and link, sorted."""

    cdef fp_graph graph
    cdef fp_memory memory
    cdef tuple held

    def __cinit__(self, parent, producers, consumers, int64_t link_count):
        cdef Array above = given(parent, I32), givers = given(producers, "ii"), takers = given(consumers, "ii"), members
        cdef fp_code code
        within(above, -1, above.count)
        for members in (givers, takers):
            within(members, 0, above.count)
            within(members, 0, link_count, 1)
            is_sorted(members)
        if link_count < 0 or link_count > INT32_MAX:
            raise ValueError("links are numbered by int32s")
        self.held = (above, givers, takers)
        start_memory(&self.memory)
        self.graph.memory = &self.memory
        self.graph.count, self.graph.parent = above.count, above.at
        self.graph.link_count = <size_t>link_count
        self.graph.producer_count, self.graph.producers = givers.count, givers.at
        self.graph.consumer_count, self.graph.consumers = takers.count, takers.at
        with nogil:
            code = fp_graph_open(&self.graph)
        check(code, DOING)

    def __dealloc__(self):
        if self.graph.memory != NULL:
            fp_graph_close(&self.graph)

    def nearest_above(self, marks, int bits, rows, nearest):
        """Writes, for each of int32 rows, the nearest row above it, itself included, that has one of the bits; -1."""
        cdef Array marked = given(marks, U8, self.graph.count), chosen = given(rows, I32)
        cdef Array out = room(nearest, I32, chosen.count)
        cdef fp_code code
        within(chosen, 0, self.graph.count)
        with nogil:
            code = fp_nearest_above(&self.graph, marked.at, <uint8_t>bits, chosen.at, chosen.count, out.at)
        check(code, DOING)

    def nearest_above_all(self, marks, int bits, nearest):
        """The same for all rows."""
        cdef Array marked = given(marks, U8, self.graph.count), out = room(nearest, I32, self.graph.count)
        cdef fp_code code
        with nogil:
            code = fp_nearest_above_all(&self.graph, marked.at, <uint8_t>bits, out.at)
        check(code, DOING)

    def group(self, roots, level, int first_group, group):
        """Groups events from their roots; returns (rows of the roots of new groups, pairs of related groups), int32s."""
        cdef Array tops = given(roots, I32), levels = maybe(level, I32, self.graph.count)
        cdef Array out = room(group, I32, self.graph.count)
        cdef fp_vector found, related
        cdef fp_code code
        within(tops, 0, self.graph.count)
        within(levels, 0, self.graph.count + 1)
        memset(&found, 0, sizeof(found))
        memset(&related, 0, sizeof(related))
        try:
            with nogil:
                code = fp_group_events(&self.graph, tops.at, tops.count, levels.at, first_group, out.at, &found, &related)
            check(code, DOING)
            return moved(&self.memory, &found, 4), moved(&self.memory, &related, sizeof(fp_relation))
        finally:
            fp_vector_free(&self.memory, &found)
            fp_vector_free(&self.memory, &related)
