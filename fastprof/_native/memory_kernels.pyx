"""Kernels of memory analysis: arrays in, arrays out. The caller allocates every array at its size."""

from libc.stdint cimport INT32_MAX, INT64_MIN, int64_t, uint8_t, uint16_t, uint32_t

from fastprof._native.border cimport *


cdef extern from "kernels/stat_columns.h" nogil:
    ctypedef struct fp_stat:
        void *row
        void *kind
        void *value
        size_t count
    ctypedef struct fp_stat_column:
        void *value
        void *recorded
        void *odd
        uint16_t bit
        uint32_t accepted
        uint8_t plain, integer, natural
    enum:
        FP_NO_KIND
    bint fp_stat_beside(const fp_stat *stat, void *rows, void *place, size_t count,
                        const fp_stat_column *column)


cdef extern from "kernels/allocations.h" nogil:
    ctypedef struct fp_allocation_events:
        void *is_allocation
        void *address
        void *known
        size_t count
        void *bounds
        size_t allocator_count
    enum:
        FP_FATE_UNKNOWN, FP_FREED, FP_HELD_AT_END, FP_REPLACED, FP_HELD_BEFORE, FP_ALLOCATION_LOST
    fp_code fp_match_allocations(fp_memory *memory, const fp_allocation_events *events, bint keep_first,
                              void *partner, void *fate)


cdef extern from "kernels/free_chunks.h" nogil:
    ctypedef struct fp_chunk_events:
        void *is_allocation
        void *held_before
        void *address
        void *size
        void *request
        size_t count
        void *bounds
        size_t allocator_count
    ctypedef struct fp_chunk_sums:
        void *bytes
        void *chunks
        void *fitting
        void *too_small
    fp_code fp_known_chunks(fp_memory *memory, const fp_chunk_events *events, const fp_chunk_sums *out)


cdef extern from "kernels/free_bounds.h" nogil:
    ctypedef struct fp_free_events:
        void *is_allocation
        void *fragmentation
        void *free_bytes
        void *heap
        void *stack
        void *recorded
        uint16_t free_bit, heap_bit
        void *moved
        void *request
        void *bounds
        size_t allocator_count
    ctypedef struct fp_free_bounds:
        void *largest_low
        void *largest_high
        void *too_small_least
        void *too_small_most
        void *taken_low
        void *taken_high
        void *grows
        void *known
        void *chunks
        void *fitting
        void *known_too_small
    void fp_bound_free_memory(const fp_free_events *events, const fp_free_bounds *out)


cdef extern from "kernels/range_peaks.h" nogil:
    fp_code fp_range_peaks(fp_memory *memory, void *values, size_t count, void *first,
                        void *last, size_t range_count, void *peak)
    void fp_following_peaks(void *values, void *bounds, size_t stretch_count, void *peak)


cdef extern from "kernels/heap_trace.h" nogil:
    ctypedef struct fp_heap_events:
        void *kind
        void *buffer
        void *canonical
        size_t count
    ctypedef struct fp_heap_sizes:
        void *size
        void *unpadded
        size_t count
    ctypedef struct fp_heap:
        void *heap
        void *unpadded
        void *start
        void *end
        void *held
        void *freed
        void *root
        void *alive
        void *shown
    ctypedef struct fp_heap_peak:
        int64_t bytes, unpadded, event
        size_t alive, passed_over
    fp_code fp_heap_trace(fp_memory *memory, const fp_heap_events *events, const fp_heap_sizes *sizes, const fp_heap *out,
                       fp_heap_peak *peak)


UNKNOWN, FREED, HELD_AT_END = FP_FATE_UNKNOWN, FP_FREED, FP_HELD_AT_END
REPLACED, HELD_BEFORE, ALLOCATION_LOST = FP_REPLACED, FP_HELD_BEFORE, FP_ALLOCATION_LOST

cdef str DOING = "following allocations"


cdef Array allocators(array, size_t count):
    """Bounds that divide the events among allocators."""
    cdef Array edges = given(array, I64)
    if count > INT32_MAX:
        raise ValueError("there are too many events")
    covers(edges, count)
    return edges


cdef int are_among(Array edges, int64_t first, int64_t last) except -1:
    if not 0 <= first <= last <= <int64_t>edges.count - 1:
        raise IndexError("there are no such allocators")
    return 0


def stat_beside(row, kind, value, rows, place, kinds, values, recorded, odd, int bit, bint doubles):
    """Writes a stat, known by ascending row (int32), kind (uint8) and value (int64), of ascending ``rows`` (int32) to
    the places of ``values`` (int64) that ``place`` (int32) says, where its kind is one of ``kinds``. ``recorded``
    (uint16) gets the bit there; ``odd`` (uint16) where the kind is not the first of them, unless 0 is written.
    ``doubles``: of the kinds, the second is signed integers and the third unsigned ones, which become doubles. Returns
    whether any is odd."""
    cdef Array at = given(row, I32), its_kind = given(kind, U8, at.count), its_value = given(value, I64, at.count)
    cdef Array chosen = given(rows, I32), places = given(place, I32, chosen.count), out = room(values, I64)
    cdef Array known = room(recorded, U16, out.count), unlike = room(odd, U16, out.count)
    cdef fp_stat stat = fp_stat(at.at, its_kind.at, its_value.at, at.count)
    cdef fp_stat_column column
    cdef bint any_odd
    within(places, 0, out.count)
    within(its_kind, 0, 32)
    column.value, column.recorded, column.odd, column.bit = out.at, known.at, unlike.at, <uint16_t>bit
    column.plain = kinds[0]
    column.integer = kinds[1] if doubles else FP_NO_KIND
    column.natural = kinds[2] if doubles else FP_NO_KIND
    column.accepted = 0
    for accepted in kinds:
        if not 0 <= accepted < 32:
            raise ValueError("there is no such kind")
        column.accepted |= <uint32_t>1 << <int>accepted
    with nogil:
        any_odd = fp_stat_beside(&stat, chosen.at, places.at, chosen.count, &column)
    return any_odd


def match_allocations(is_allocation, address, known, bounds, bint keep_first, partner, fate):
    """Writes the partner (int32) and fate (uint8) of each event; ``known``: uint8 or None. See kernels/allocations.h."""
    cdef Array are = given(is_allocation, U8), addresses = given(address, I64, are.count)
    cdef Array recorded = maybe(known, U8, are.count), edges = allocators(bounds, are.count)
    cdef Array partners = room(partner, I32, are.count), fates = room(fate, U8, are.count)
    cdef fp_allocation_events events = fp_allocation_events(
        are.at, addresses.at, recorded.at, are.count, edges.at, edges.count - 1)
    cdef fp_memory memory
    cdef fp_code code
    start_memory(&memory)
    with nogil:
        code = fp_match_allocations(&memory, &events, keep_first, partners.at, fates.at)
    check(code, DOING)


def known_chunks(is_allocation, held_before, address, size, request, bounds, int64_t first, int64_t last, known, chunks,
                 fitting, too_small):
    """Writes what is known of free memory after each event of allocators first to last, four int64 columns. See
    kernels/free_chunks.h."""
    cdef Array are = given(is_allocation, U8), before = given(held_before, U8, are.count)
    cdef Array addresses = given(address, I64, are.count), sizes = given(size, I64, are.count)
    cdef Array requests = given(request, I64, are.count), edges = allocators(bounds, are.count)
    cdef Array all_known = room(known, I64, are.count), counts = room(chunks, I64, are.count)
    cdef Array fit = room(fitting, I64, are.count), small = room(too_small, I64, are.count)
    cdef fp_chunk_events events
    cdef fp_chunk_sums out = fp_chunk_sums(all_known.at, counts.at, fit.at, small.at)
    cdef fp_memory memory
    cdef fp_code code
    are_among(edges, first, last)
    events = fp_chunk_events(
        are.at, before.at, addresses.at, sizes.at, requests.at, are.count, <int64_t *>edges.at + first,
        <size_t>(last - first))
    start_memory(&memory)
    with nogil:
        code = fp_known_chunks(&memory, &events, &out)
    check(code, DOING)


def bound_free_memory(is_allocation, fragmentation, free_bytes, heap, stack, recorded, int free_bit, int heap_bit,
                      moved, request, bounds, int64_t first, int64_t last, known, chunks, fitting, too_small, largest_low,
                      largest_high, too_small_least, too_small_most, taken_low, taken_high, grows):
    """Writes bounds of the largest free chunk, of what is too small and of what is taken from the device after each
    event of allocators first to last, int64 columns, and whether each allocator grows (uint8). The columns of
    known_chunks are changed. See kernels/free_bounds.h."""
    cdef Array are = given(is_allocation, U8)
    cdef Py_ssize_t count = are.count
    cdef Array share = given(fragmentation, F64, count), free = given(free_bytes, I64, count), edges
    cdef Array heaps = given(heap, I64, count), stacks = given(stack, I64, count), bits = given(recorded, U16, count)
    cdef Array sizes = given(moved, I64, count), requests = given(request, I64, count)
    cdef Array all_known = room(known, I64, count), counts = room(chunks, I64, count)
    cdef Array fit = room(fitting, I64, count), small = room(too_small, I64, count)
    cdef Array low = room(largest_low, I64, count), high = room(largest_high, I64, count)
    cdef Array least = room(too_small_least, I64, count), most = room(too_small_most, I64, count)
    cdef Array taken_least = room(taken_low, I64, count), taken_most = room(taken_high, I64, count), growing
    cdef fp_free_events events
    cdef fp_free_bounds out
    edges = allocators(bounds, count)
    growing = room(grows, U8, edges.count - 1)
    are_among(edges, first, last)
    events = fp_free_events(
        are.at, share.at, free.at, heaps.at, stacks.at, bits.at, <uint16_t>free_bit, <uint16_t>heap_bit, sizes.at,
        requests.at, <int64_t *>edges.at + first, <size_t>(last - first))
    out = fp_free_bounds(
        low.at, high.at, least.at, most.at, taken_least.at, taken_most.at, <uint8_t *>growing.at + first, all_known.at,
        counts.at, fit.at, small.at)
    with nogil:
        fp_bound_free_memory(&events, &out)


def range_peaks(values, first, last, peak):
    """Writes the first place of the largest value of each range of places; all are int64s. See kernels/range_peaks.h."""
    cdef Array numbers = given(values, I64), firsts = given(first, I64), lasts = given(last, I64, firsts.count)
    cdef Array peaks = room(peak, I64, firsts.count)
    cdef fp_memory memory
    cdef fp_code code
    if numbers.count > INT32_MAX:
        raise ValueError("there are too many values")
    within(firsts, 0, numbers.count + 1)
    within(lasts, INT64_MIN, numbers.count + 1)
    start_memory(&memory)
    with nogil:
        code = fp_range_peaks(&memory, numbers.at, numbers.count, firsts.at, lasts.at, firsts.count, peaks.at)
    check(code, DOING)


def following_peaks(values, bounds, peak):
    """Writes (int32) where the largest value (int64) above 0 after each place of a stretch is, -1: there is none."""
    cdef Array numbers = given(values, I64), edges = allocators(bounds, numbers.count)
    cdef Array peaks = room(peak, I32, numbers.count)
    with nogil:
        fp_following_peaks(numbers.at, edges.at, edges.count - 1, peaks.at)


def heap_trace(kind, buffer, canonical, size, unpadded, heap, unpadded_heap, start, end, held, freed, root, alive,
               shown):
    """Writes the heap on the way through a program: of events (int32 columns) of buffers (int64 sizes), ``heap`` and
    ``unpadded_heap`` (int64, one more than events), five int32 columns by buffer, and two int32 columns with room for
    all events; their first ``alive`` items are set. Returns the dict of fp_heap_peak. See kernels/heap_trace.h."""
    cdef Array kinds = given(kind, I32), rows = given(buffer, I32, kinds.count), others = given(canonical, I32, kinds.count)
    cdef Array sizes = given(size, I64), unpaddeds = given(unpadded, I64, sizes.count)
    cdef Array heaps = room(heap, I64, kinds.count + 1), unpadded_heaps = room(unpadded_heap, I64, kinds.count + 1)
    cdef Array starts = room(start, I32, sizes.count), ends = room(end, I32, sizes.count)
    cdef Array holds = room(held, I32, sizes.count), frees = room(freed, I32, sizes.count)
    cdef Array roots = room(root, I32, sizes.count), living = room(alive, I32, kinds.count)
    cdef Array seen = room(shown, I32, kinds.count)
    cdef fp_heap_events events = fp_heap_events(kinds.at, rows.at, others.at, kinds.count)
    cdef fp_heap_sizes all_sizes = fp_heap_sizes(sizes.at, unpaddeds.at, sizes.count)
    cdef fp_heap out = fp_heap(
        heaps.at, unpadded_heaps.at, starts.at, ends.at, holds.at, frees.at, roots.at, living.at, seen.at)
    cdef fp_heap_peak peak
    cdef fp_memory memory
    cdef fp_code code
    if kinds.count >= INT32_MAX or sizes.count > INT32_MAX:
        raise ValueError("there are too many events or buffers")
    within(rows, -1, sizes.count)
    within(others, -1, sizes.count)
    start_memory(&memory)
    with nogil:
        code = fp_heap_trace(&memory, &events, &all_sizes, &out, &peak)
    check(code, DOING)
    return {
        "bytes": peak.bytes, "unpadded": peak.unpadded, "event": peak.event, "alive": peak.alive,
        "passed_over": peak.passed_over,
    }
