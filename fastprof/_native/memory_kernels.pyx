"""Kernels of memory analysis: arrays in, arrays out. The caller allocates every array at its size."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t

from fastprof._native.core cimport fp_memory, fp_memory_init

from fastprof.errors import MemoryLimitError


cdef extern from "kernels/stat_columns.h" nogil:
    ctypedef struct fp_stat:
        const int32_t *row
        const uint8_t *kind
        const int64_t *value
        size_t count
    ctypedef struct fp_stat_column:
        int64_t *value
        uint16_t *recorded
        uint16_t *odd
        uint16_t bit
        uint32_t accepted
        uint8_t plain, integer, natural
    enum:
        FP_NO_KIND
    bint fp_stat_beside(const fp_stat *stat, const int32_t *rows, const int32_t *place, size_t count,
                        const fp_stat_column *column)


cdef extern from "kernels/allocations.h" nogil:
    ctypedef struct fp_allocation_events:
        const uint8_t *is_allocation
        const int64_t *address
        const uint8_t *known
        size_t count
        const int64_t *bounds
        size_t allocator_count
    enum:
        FP_FATE_UNKNOWN, FP_FREED, FP_HELD_AT_END, FP_REPLACED, FP_HELD_BEFORE, FP_ALLOCATION_LOST
    bint fp_match_allocations(fp_memory *memory, const fp_allocation_events *events, bint keep_first,
                              int32_t *partner, uint8_t *fate)


cdef extern from "kernels/free_chunks.h" nogil:
    ctypedef struct fp_chunk_events:
        const uint8_t *is_allocation
        const uint8_t *held_before
        const int64_t *address
        const int64_t *size
        const int64_t *request
        size_t count
        const int64_t *bounds
        size_t allocator_count
    ctypedef struct fp_chunk_sums:
        int64_t *bytes
        int64_t *chunks
        int64_t *fitting
        int64_t *too_small
    bint fp_known_chunks(fp_memory *memory, const fp_chunk_events *events, const fp_chunk_sums *out)


cdef extern from "kernels/free_bounds.h" nogil:
    ctypedef struct fp_free_events:
        const uint8_t *is_allocation
        const double *fragmentation
        const int64_t *free_bytes
        const int64_t *heap
        const int64_t *stack
        const uint16_t *recorded
        uint16_t free_bit, heap_bit
        const int64_t *moved
        const int64_t *request
        const int64_t *bounds
        size_t allocator_count
    ctypedef struct fp_free_bounds:
        int64_t *largest_low
        int64_t *largest_high
        int64_t *too_small_least
        int64_t *too_small_most
        int64_t *taken_low
        int64_t *taken_high
        uint8_t *grows
        int64_t *known
        int64_t *chunks
        int64_t *fitting
        int64_t *known_too_small
    void fp_bound_free_memory(const fp_free_events *events, const fp_free_bounds *out)


cdef extern from "kernels/range_peaks.h" nogil:
    bint fp_range_peaks(fp_memory *memory, const int64_t *values, size_t count, const int64_t *first,
                        const int64_t *last, size_t range_count, int64_t *peak)
    void fp_following_peaks(const int64_t *values, const int64_t *bounds, size_t stretch_count, int32_t *peak)


cdef extern from "kernels/heap_trace.h" nogil:
    ctypedef struct fp_heap_events:
        const int32_t *kind
        const int32_t *buffer
        const int32_t *canonical
        size_t count
    ctypedef struct fp_heap_sizes:
        const int64_t *size
        const int64_t *unpadded
        size_t count
    ctypedef struct fp_heap:
        int64_t *heap
        int64_t *unpadded
        int32_t *start
        int32_t *end
        int32_t *held
        int32_t *freed
        int32_t *root
        int32_t *alive
        int32_t *shown
    ctypedef struct fp_heap_peak:
        int64_t bytes, unpadded, event
        size_t alive, passed_over
    bint fp_heap_trace(fp_memory *memory, const fp_heap_events *events, const fp_heap_sizes *sizes, const fp_heap *out,
                       fp_heap_peak *peak)


include "borrowed.pxi"

UNKNOWN, FREED, HELD_AT_END = FP_FATE_UNKNOWN, FP_FREED, FP_HELD_AT_END
REPLACED, HELD_BEFORE, ALLOCATION_LOST = FP_REPLACED, FP_HELD_BEFORE, FP_ALLOCATION_LOST


cdef int check(bint done) except -1:
    if not done:
        raise MemoryLimitError("out of memory while following allocations")
    return 0


cdef int fits(Borrowed column, size_t count, size_t item_size) except -1:
    if <size_t>column.buffer.len != count * item_size:
        raise ValueError("columns differ in their number of values")
    return 0


cdef int are_bounds(Borrowed bounds, size_t count) except -1:
    """Whether int64s ascend from 0 to count."""
    cdef const int64_t *at = <const int64_t *>bounds.buffer.buf
    cdef size_t places = <size_t>bounds.buffer.len // 8, i
    if not places or at[0] != 0 or at[places - 1] != <int64_t>count or count >> 31:
        raise ValueError("allocators do not cover the events, or these are too many")
    for i in range(places - 1):
        if at[i] > at[i + 1]:
            raise ValueError("allocators are not in order")
    return 0


cdef int are_places(const int32_t *place, size_t count, size_t room) except -1:
    cdef size_t i
    cdef bint outside = False
    with nogil:
        for i in range(count):
            outside |= place[i] < 0 or <size_t>place[i] >= room
    if outside:
        raise ValueError("a place is outside the columns")
    return 0


def stat_beside(row, kind, value, rows, place, kinds, values, recorded, odd, int bit, bint doubles):
    """Writes a stat, known by ascending row (int32), kind (uint8) and value (int64), of ascending ``rows`` (int32) to
    the places of ``values`` (int64) that ``place`` (int32) says, where its kind is one of ``kinds``. ``recorded``
    (uint16) gets the bit there; ``odd`` (uint16) where the kind is not the first of them, unless 0 is written.
    ``doubles``: of the kinds, the second is signed integers and the third unsigned ones, which become doubles. Returns
    whether any is odd."""
    cdef Borrowed at = Borrowed(row), its_kind = Borrowed(kind), its_value = Borrowed(value)
    cdef Borrowed chosen = Borrowed(rows), places = Borrowed(place), out = Borrowed(values, True)
    cdef Borrowed told = Borrowed(recorded, True), unlike = Borrowed(odd, True)
    cdef fp_stat stat
    cdef fp_stat_column column
    cdef size_t count = <size_t>chosen.buffer.len // 4, room = <size_t>out.buffer.len // 8
    cdef const int32_t *wanted = <const int32_t *>chosen.buffer.buf
    cdef const int32_t *to = <const int32_t *>places.buffer.buf
    cdef bint any_odd
    stat.row = <const int32_t *>at.buffer.buf
    stat.kind = <const uint8_t *>its_kind.buffer.buf
    stat.value = <const int64_t *>its_value.buffer.buf
    stat.count = <size_t>at.buffer.len // 4
    column.value = <int64_t *>out.buffer.buf
    column.recorded = <uint16_t *>told.buffer.buf
    column.odd = <uint16_t *>unlike.buffer.buf
    column.bit = <uint16_t>bit
    column.plain = kinds[0]
    column.integer = kinds[1] if doubles else FP_NO_KIND
    column.natural = kinds[2] if doubles else FP_NO_KIND
    column.accepted = 0
    for accepted in kinds:
        column.accepted |= <uint32_t>1 << <int>accepted
    fits(its_kind, stat.count, 1)
    fits(its_value, stat.count, 8)
    fits(places, count, 4)
    fits(told, room, 2)
    fits(unlike, room, 2)
    are_places(to, count, room)
    with nogil:
        any_odd = fp_stat_beside(&stat, wanted, to, count, &column)
    return any_odd


def match_allocations(is_allocation, address, known, bounds, bint keep_first, partner, fate):
    """Writes the partner (int32) and fate (uint8) of each event; ``known``: uint8 or None. See kernels/allocations.h."""
    cdef Borrowed are = Borrowed(is_allocation), addresses = Borrowed(address), edges = Borrowed(bounds)
    cdef Borrowed told = None if known is None else Borrowed(known)
    cdef Borrowed partners = Borrowed(partner, True), fates = Borrowed(fate, True)
    cdef fp_allocation_events events
    cdef fp_memory memory
    cdef size_t count = <size_t>are.buffer.len
    cdef bint done
    fits(addresses, count, 8)
    fits(partners, count, 4)
    fits(fates, count, 1)
    if told is not None:
        fits(told, count, 1)
    are_bounds(edges, count)
    events.is_allocation = <const uint8_t *>are.buffer.buf
    events.address = <const int64_t *>addresses.buffer.buf
    events.known = NULL if told is None else <const uint8_t *>told.buffer.buf
    events.count = count
    events.bounds = <const int64_t *>edges.buffer.buf
    events.allocator_count = <size_t>edges.buffer.len // 8 - 1
    cdef int32_t *partner_at = <int32_t *>partners.buffer.buf
    cdef uint8_t *fate_at = <uint8_t *>fates.buffer.buf
    fp_memory_init(&memory)
    with nogil:
        done = fp_match_allocations(&memory, &events, keep_first, partner_at, fate_at)
    check(done)


cdef int are_allocators(Borrowed bounds, int64_t first, int64_t last) except -1:
    if not 0 <= first <= last <= <int64_t>(bounds.buffer.len // 8) - 1:
        raise ValueError("there are no such allocators")
    return 0


def known_chunks(is_allocation, held_before, address, size, request, bounds, int64_t first, int64_t last, known, chunks,
                 fitting, too_small):
    """Writes what is known of free memory after each event of allocators first to last, four int64 columns. See
    kernels/free_chunks.h."""
    cdef Borrowed are = Borrowed(is_allocation), before = Borrowed(held_before), addresses = Borrowed(address)
    cdef Borrowed sizes = Borrowed(size), requests = Borrowed(request), edges = Borrowed(bounds)
    cdef Borrowed all_known = Borrowed(known, True), counts = Borrowed(chunks, True)
    cdef Borrowed fit = Borrowed(fitting, True), small = Borrowed(too_small, True)
    cdef fp_chunk_events events
    cdef fp_chunk_sums out
    cdef fp_memory memory
    cdef size_t count = <size_t>are.buffer.len
    cdef bint done
    fits(before, count, 1)
    for column in (addresses, sizes, requests, all_known, counts, fit, small):
        fits(column, count, 8)
    are_bounds(edges, count)
    are_allocators(edges, first, last)
    events.is_allocation = <const uint8_t *>are.buffer.buf
    events.held_before = <const uint8_t *>before.buffer.buf
    events.address = <const int64_t *>addresses.buffer.buf
    events.size = <const int64_t *>sizes.buffer.buf
    events.request = <const int64_t *>requests.buffer.buf
    events.count = count
    events.bounds = <const int64_t *>edges.buffer.buf + first
    events.allocator_count = <size_t>(last - first)
    out.bytes = <int64_t *>all_known.buffer.buf
    out.chunks = <int64_t *>counts.buffer.buf
    out.fitting = <int64_t *>fit.buffer.buf
    out.too_small = <int64_t *>small.buffer.buf
    fp_memory_init(&memory)
    with nogil:
        done = fp_known_chunks(&memory, &events, &out)
    check(done)


def bound_free_memory(is_allocation, fragmentation, free_bytes, heap, stack, recorded, int free_bit, int heap_bit,
                      moved, request, bounds, int64_t first, int64_t last, known, chunks, fitting, too_small, largest_low,
                      largest_high, too_small_least, too_small_most, taken_low, taken_high, grows):
    """Writes bounds of the largest free chunk, of what is too small and of what is taken from the device after each
    event of allocators first to last, int64 columns, and whether each allocator grows (uint8). The columns of known_chunks are changed. See
    kernels/free_bounds.h."""
    cdef Borrowed are = Borrowed(is_allocation), share = Borrowed(fragmentation), free = Borrowed(free_bytes)
    cdef Borrowed heaps = Borrowed(heap), stacks = Borrowed(stack), told = Borrowed(recorded), sizes = Borrowed(moved)
    cdef Borrowed requests = Borrowed(request), edges = Borrowed(bounds)
    cdef Borrowed all_known = Borrowed(known, True), counts = Borrowed(chunks, True)
    cdef Borrowed fit = Borrowed(fitting, True), small = Borrowed(too_small, True)
    cdef Borrowed low = Borrowed(largest_low, True), high = Borrowed(largest_high, True)
    cdef Borrowed least = Borrowed(too_small_least, True), most = Borrowed(too_small_most, True)
    cdef Borrowed taken = Borrowed(taken_low, True), taken_most = Borrowed(taken_high, True)
    cdef Borrowed growing = Borrowed(grows, True)
    cdef fp_free_events events
    cdef fp_free_bounds out
    cdef size_t count = <size_t>are.buffer.len
    for column in (share, free, heaps, stacks, sizes, requests, all_known, counts, fit, small, low, high, least, most,
                   taken, taken_most):
        fits(column, count, 8)
    fits(told, count, 2)
    are_bounds(edges, count)
    fits(growing, <size_t>edges.buffer.len // 8 - 1, 1)
    are_allocators(edges, first, last)
    events.is_allocation = <const uint8_t *>are.buffer.buf
    events.fragmentation = <const double *>share.buffer.buf
    events.free_bytes = <const int64_t *>free.buffer.buf
    events.heap = <const int64_t *>heaps.buffer.buf
    events.stack = <const int64_t *>stacks.buffer.buf
    events.recorded = <const uint16_t *>told.buffer.buf
    events.free_bit, events.heap_bit = <uint16_t>free_bit, <uint16_t>heap_bit
    events.moved = <const int64_t *>sizes.buffer.buf
    events.request = <const int64_t *>requests.buffer.buf
    events.bounds = <const int64_t *>edges.buffer.buf + first
    events.allocator_count = <size_t>(last - first)
    out.largest_low, out.largest_high = <int64_t *>low.buffer.buf, <int64_t *>high.buffer.buf
    out.too_small_least, out.too_small_most = <int64_t *>least.buffer.buf, <int64_t *>most.buffer.buf
    out.taken_low, out.taken_high = <int64_t *>taken.buffer.buf, <int64_t *>taken_most.buffer.buf
    out.grows = <uint8_t *>growing.buffer.buf + first
    out.known, out.chunks = <int64_t *>all_known.buffer.buf, <int64_t *>counts.buffer.buf
    out.fitting, out.known_too_small = <int64_t *>fit.buffer.buf, <int64_t *>small.buffer.buf
    with nogil:
        fp_bound_free_memory(&events, &out)


def range_peaks(values, first, last, peak):
    """Writes the first place of the largest value of each range of places; all are int64s. See kernels/range_peaks.h."""
    cdef Borrowed numbers = Borrowed(values), firsts = Borrowed(first), lasts = Borrowed(last)
    cdef Borrowed peaks = Borrowed(peak, True)
    cdef size_t count = <size_t>numbers.buffer.len // 8, ranges = <size_t>firsts.buffer.len // 8, i
    cdef const int64_t *begin = <const int64_t *>firsts.buffer.buf
    cdef const int64_t *end = <const int64_t *>lasts.buffer.buf
    cdef fp_memory memory
    cdef bint done
    fits(lasts, ranges, 8)
    fits(peaks, ranges, 8)
    for i in range(ranges):
        if begin[i] < 0 or end[i] > <int64_t>count or count >> 31:
            raise ValueError("a range is outside the values, or these are too many")
    cdef const int64_t *value_at = <const int64_t *>numbers.buffer.buf
    cdef int64_t *peak_at = <int64_t *>peaks.buffer.buf
    fp_memory_init(&memory)
    with nogil:
        done = fp_range_peaks(&memory, value_at, count, begin, end, ranges, peak_at)
    check(done)


def following_peaks(values, bounds, peak):
    """Writes (int32) where the largest value (int64) above 0 after each place of a stretch is, -1: there is none."""
    cdef Borrowed numbers = Borrowed(values), edges = Borrowed(bounds), peaks = Borrowed(peak, True)
    cdef size_t count = <size_t>numbers.buffer.len // 8
    fits(peaks, count, 4)
    are_bounds(edges, count)
    cdef const int64_t *value_at = <const int64_t *>numbers.buffer.buf
    cdef const int64_t *bound_at = <const int64_t *>edges.buffer.buf
    cdef int32_t *peak_at = <int32_t *>peaks.buffer.buf
    cdef size_t stretches = <size_t>edges.buffer.len // 8 - 1
    with nogil:
        fp_following_peaks(value_at, bound_at, stretches, peak_at)


cdef int are_buffers(const int32_t *row, size_t count, size_t room) except -1:
    """Whether each is the row of a buffer, or -1."""
    cdef size_t i
    cdef bint outside = False
    with nogil:
        for i in range(count):
            outside |= row[i] < -1 or (row[i] >= 0 and <size_t>row[i] >= room)
    if outside:
        raise ValueError("an event is of a buffer that is not there")
    return 0


def heap_trace(kind, buffer, canonical, size, unpadded, heap, unpadded_heap, start, end, held, freed, root, alive,
               shown):
    """Writes the heap on the way through a program: of events (int32 columns) of buffers (int64 sizes), ``heap`` and
    ``unpadded_heap`` (int64, one more than events), five int32 columns by buffer, and two int32 columns with room for
    all events, of which the first ``alive`` are set. Returns the dict of fp_heap_peak. See kernels/heap_trace.h."""
    cdef Borrowed kinds = Borrowed(kind), rows = Borrowed(buffer), others = Borrowed(canonical)
    cdef Borrowed sizes = Borrowed(size), unpaddeds = Borrowed(unpadded)
    cdef Borrowed heaps = Borrowed(heap, True), unpadded_heaps = Borrowed(unpadded_heap, True)
    cdef Borrowed starts = Borrowed(start, True), ends = Borrowed(end, True), holds = Borrowed(held, True)
    cdef Borrowed frees = Borrowed(freed, True), roots = Borrowed(root, True)
    cdef Borrowed living = Borrowed(alive, True), seen = Borrowed(shown, True)
    cdef fp_heap_events events
    cdef fp_heap_sizes all_sizes
    cdef fp_heap out
    cdef fp_heap_peak peak
    cdef fp_memory memory
    cdef bint done
    events.count = <size_t>kinds.buffer.len // 4
    all_sizes.count = <size_t>sizes.buffer.len // 8
    if events.count + 1 >> 31 or all_sizes.count >> 31:
        raise ValueError("there are too many events or buffers")
    for column in (rows, others, living, seen):
        fits(column, events.count, 4)
    fits(unpaddeds, all_sizes.count, 8)
    for column in (starts, ends, holds, frees, roots):
        fits(column, all_sizes.count, 4)
    for column in (heaps, unpadded_heaps):
        fits(column, events.count + 1, 8)
    events.kind = <const int32_t *>kinds.buffer.buf
    events.buffer = <const int32_t *>rows.buffer.buf
    events.canonical = <const int32_t *>others.buffer.buf
    are_buffers(events.buffer, events.count, all_sizes.count)
    are_buffers(events.canonical, events.count, all_sizes.count)
    all_sizes.size, all_sizes.unpadded = <const int64_t *>sizes.buffer.buf, <const int64_t *>unpaddeds.buffer.buf
    out.heap, out.unpadded = <int64_t *>heaps.buffer.buf, <int64_t *>unpadded_heaps.buffer.buf
    out.start, out.end = <int32_t *>starts.buffer.buf, <int32_t *>ends.buffer.buf
    out.held, out.freed = <int32_t *>holds.buffer.buf, <int32_t *>frees.buffer.buf
    out.root = <int32_t *>roots.buffer.buf
    out.alive, out.shown = <int32_t *>living.buffer.buf, <int32_t *>seen.buffer.buf
    fp_memory_init(&memory)
    with nogil:
        done = fp_heap_trace(&memory, &events, &all_sizes, &out, &peak)
    check(done)
    return {
        "bytes": peak.bytes, "unpadded": peak.unpadded, "event": peak.event, "alive": peak.alive,
        "passed_over": peak.passed_over,
    }
