"""Kernels: arrays in, arrays out. The caller allocates every array at its size."""

cimport cython
from libc.stdint cimport INT32_MIN, int64_t
from libc.string cimport memset

from fastprof._native.border cimport *


cdef extern from "kernels/nesting.h" nogil:
    ctypedef struct fp_late_self:
        int64_t event_id, self_time
    ctypedef struct fp_nesting:
        fp_memory *memory
        fp_vector late
        int64_t slack
    fp_code fp_nesting_push(fp_nesting *nesting, void *start, void *duration, void *placement, size_t count,
                            int64_t event_id, bint last, void *depth, void *parent_id, void *self_time)
    void fp_nesting_free(fp_nesting *nesting)
    fp_code fp_nesting_lines(fp_memory *memory, void *start, void *duration, void *placement, void *lines,
                             size_t line_count, int64_t slack, void *depth, void *parent_id, void *self_time)


cdef extern from "kernels/group_sums.h" nogil:
    fp_code fp_group_sums(void *groups, void *value, size_t count, void *sums, size_t group_count)


cdef extern from "kernels/bitmap.h" nogil:
    size_t fp_bitmap_of_codes(void *codes, size_t count, unsigned int wanted, void *bitmap)


cdef extern from "kernels/rank_order.h" nogil:
    void fp_rank_order(void *length, void *order, size_t count)


cdef extern from "kernels/input_walk.h" nogil:
    ctypedef struct fp_inputs:
        void *begins
        void *producer
    size_t fp_input_walk(const fp_inputs *inputs, void *roots, size_t root_count, void *next, void *path, void *order,
                         void *depth)


cdef extern from "kernels/spans_union.h" nogil:
    ctypedef struct fp_filled:
        int64_t begin, end
    fp_code fp_spans_union(fp_memory *memory, void *start, void *duration, size_t count, fp_vector *filled)


def nesting_lines(start, duration, placement, lines, depth, parent_id, self_time, int64_t slack=0):
    """Writes depth (int32), parent_id (int64, -1: none) and self_time (int64) of whole lines; see kernels/nesting.h."""
    cdef Array starts = given(start, I64), durations = given(duration, I64, starts.count), rows = given(lines, "qqq")
    cdef Array places = maybe(placement, U8, starts.count), depths = room(depth, I32, starts.count)
    cdef Array parents = room(parent_id, I64, starts.count), selves = room(self_time, I64, starts.count)
    cdef fp_memory memory
    cdef fp_code code
    slices(rows, starts.count)
    start_memory(&memory)
    with nogil:
        code = fp_nesting_lines(&memory, starts.at, durations.at, places.at, rows.at, rows.count, slack, depths.at,
                                parents.at, selves.at)
    check(code, "nesting events")


@cython.final
cdef class LineNesting:
    """The nesting of one line whose events come in stretches; see kernels/nesting.h."""

    cdef fp_nesting nesting
    cdef fp_memory memory

    def __cinit__(self, int64_t slack=0):
        start_memory(&self.memory)
        self.nesting.memory = &self.memory
        self.nesting.slack = slack

    def __dealloc__(self):
        fp_nesting_free(&self.nesting)

    def push(self, start, duration, placement, int64_t event_id, bint last, depth, parent_id, self_time):
        """Writes depth, parent_id and self_time of a stretch; ids count up from event_id."""
        cdef Array starts = given(start, I64), durations = given(duration, I64, starts.count)
        cdef Array places = maybe(placement, U8, starts.count), depths = room(depth, I32, starts.count)
        cdef Array parents = room(parent_id, I64, starts.count), selves = room(self_time, I64, starts.count)
        cdef fp_code code
        with nogil:
            code = fp_nesting_push(&self.nesting, starts.at, durations.at, places.at, starts.count, event_id, last,
                                   depths.at, parents.at, selves.at)
        check(code, "nesting events")

    def late(self):
        """(event_id, self_time) pairs, as int64s: events whose self time became final after their stretch."""
        return taken(&self.nesting.late, sizeof(fp_late_self))


def group_sums(groups, value, sums):
    """Adds int64 values to their groups' (count, total, minimum, maximum); groups are int32, negative: left out."""
    cdef Array numbers = given(groups, I32), values = given(value, I64, numbers.count), out = room(sums, "qqqq")
    cdef fp_code code
    within(numbers, INT32_MIN, out.count)
    with nogil:
        code = fp_group_sums(numbers.at, values.at, numbers.count, out.at, out.count)
    check(code, "adding up groups")


def bitmap_of_codes(codes, unsigned int wanted):
    """An Arrow validity bitmap, set where bit codes[i] of `wanted` is, and how many bits are set."""
    cdef Array numbers = given(codes, U8)
    cdef size_t set_bits
    from numpy import zeros  # memory of NumPy counts against a limit

    bitmap = zeros((numbers.count + 7) // 8, "u1")
    cdef Array out = room(bitmap, U8)
    within(numbers, 0, 32)
    with nogil:
        set_bits = fp_bitmap_of_codes(numbers.at, numbers.count, wanted, out.at)
    return bitmap, set_bits


def rank_order(length, order):
    """Orders int32 numbers, each a place in length (int64), by length, longest first, in the order of equal ones that
    std::sort leaves; see kernels/rank_order.h."""
    cdef Array lengths = given(length, I64), numbers = room(order, I32)
    within(numbers, 0, lengths.count)
    with nogil:
        fp_rank_order(lengths.at, numbers.at, numbers.count)


def input_walk(begins, producer, roots, following, path, order, depth):
    """Writes the nodes of a graph in the order in which a walk to their producers meets them, and their depths; returns
    their number. ``following``, of -1, and ``path`` are room of the walk; see kernels/input_walk.h."""
    cdef Array ends = given(begins, I64), producers = given(producer, I64), tops = given(roots, I64)
    cdef Array inputs_left = room(following, I64), path_room = room(path, I64, inputs_left.count)
    cdef Array nodes = room(order, I64, inputs_left.count), depths = room(depth, I64, inputs_left.count)
    cdef fp_inputs inputs = fp_inputs(ends.at, producers.at)
    cdef size_t met
    if ends.count != inputs_left.count + 1:
        raise ValueError("inputs end once for each node, after a 0")
    covers(ends, producers.count)
    within(producers, 0, inputs_left.count)
    within(tops, 0, inputs_left.count)
    within(inputs_left, -1, 0)
    with nogil:
        met = fp_input_walk(&inputs, tops.at, tops.count, inputs_left.at, path_room.at, nodes.at, depths.at)
    return met


def spans_union(start, duration):
    """When any of some spans lasts, as pairs of int64: begin and end; see kernels/spans_union.h."""
    cdef Array starts = given(start, I64), durations = given(duration, I64, starts.count)
    cdef fp_vector filled
    cdef fp_memory memory
    cdef fp_code code
    memset(&filled, 0, sizeof(filled))
    start_memory(&memory)
    try:
        with nogil:
            code = fp_spans_union(&memory, starts.at, durations.at, starts.count, &filled)
        check(code, "joining spans")
        return moved(&memory, &filled, sizeof(fp_filled))
    finally:
        fp_vector_free(&memory, &filled)
