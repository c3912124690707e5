"""Kernels of causes: what a device does at each time, and what its host does meanwhile. Arrays in, arrays out."""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memset

from fastprof._native.border cimport *


cdef extern from "kernels/foremost.h" nogil:
    ctypedef struct fp_span:
        int64_t begin
    ctypedef struct fp_piece:
        int64_t begin
    fp_code fp_foremost(fp_memory *memory, void *spans, size_t count, int64_t first, int64_t last, fp_vector *pieces)


cdef extern from "kernels/reasons.h" nogil:
    ctypedef struct fp_code_powers:
        unsigned char takes[256]
    ctypedef struct fp_thread:
        int64_t first
    ctypedef struct fp_reasons_in:
        void *start
        void *duration
        void *codes
        void *powers
        void *threads
        size_t thread_count
        void *ranks
        void *open
        size_t open_count
    fp_code fp_foremost_reasons(fp_memory *memory, const fp_reasons_in *of, int64_t first, int64_t last, fp_vector *pieces)


cdef extern from "kernels/gap_pieces.h" nogil:
    enum: FP_STATE_IDLE
    ctypedef struct fp_gap_causes:
        int32_t none, idle, launch, straggler, communication, transfer, queue, between
    ctypedef struct fp_device_gaps:
        void *begin
        void *state
        size_t count
        int64_t last
        void *ahead
        void *launched
        void *returned
        void *launch_row
        void *work_row
        void *kind
        void *cause_of_wait
        void *host
        size_t host_count
        void *codes
        void *cause_of_code
        uint8_t waits
        void *busy
        size_t busy_count
        void *steps
        void *step_group
        size_t step_count
        int64_t last_work
        int64_t latency
        fp_gap_causes causes
    ctypedef struct fp_gap:
        int64_t begin
    fp_code fp_gap_pieces(fp_memory *memory, const fp_device_gaps *of, fp_vector *gaps)


cdef extern from "kernels/gap_sums.h" nogil:
    ctypedef struct fp_gap_sum:
        int32_t group
    fp_code fp_gap_sums(fp_memory *memory, void *gaps, size_t count, void *name_of_row, int32_t names, fp_vector *sums)


cdef extern from "kernels/longest_path.h" nogil:
    ctypedef struct fp_path_edges:
        void *source
        void *target
        void *weight
        size_t count, nodes
    fp_code fp_longest_path(fp_memory *memory, const fp_path_edges *edges, void *reach, void *via, int64_t *cut)


cdef extern from "kernels/event_writers.h" nogil:
    enum: FP_MOST_WRITER_KINDS
    ctypedef struct fp_writer_kind:
        uint8_t is_open
    ctypedef struct fp_written:
        void *kinds
        void *parent
        void *name
        size_t count, names
        void *threads
        size_t thread_count
        void *of_kind
        uint8_t ours, theirs
    fp_code fp_event_writers(fp_memory *memory, const fp_written *of, void *writer, void *met)
    void fp_of_writer_and_name(const fp_written *of, void *writer, void *table, void *out)


SIZES = {
    "SPAN": sizeof(fp_span), "PIECE": sizeof(fp_piece), "THREAD": sizeof(fp_thread), "GAP": sizeof(fp_gap),
    "GAP_SUM": sizeof(fp_gap_sum),
}
"""Of the structs that arrays hold, in bytes."""


cdef Py_ssize_t stretches_of(Array times) except -1:
    """How many stretches these are. ValueError: one of them has no end."""
    if times.count % 2:
        raise ValueError("stretches have a begin and an end")
    return <Py_ssize_t>(times.count // 2)


def foremost(given_spans, int64_t first, int64_t last):
    """From a first time to a last one, which of overlapping spans counts, as bytes of structs; see kernels/foremost.h."""
    cdef Array those = given(given_spans, "qqii")
    cdef fp_vector pieces
    cdef fp_memory memory
    cdef fp_code code
    memset(&pieces, 0, sizeof(pieces))
    start_memory(&memory)
    try:
        with nogil:
            code = fp_foremost(&memory, those.at, those.count, first, last, &pieces)
        check(code, "finding the span that counts")
        return moved(&memory, &pieces, sizeof(fp_piece))
    finally:
        fp_vector_free(&memory, &pieces)


def foremost_reasons(events, powers, threads, ranks, open_times, int64_t first, int64_t last):
    """From a first time to a last one, which event says what a host does while stretches (int64: begin, end) are open, as
    bytes of structs; see kernels/reasons.h.

    ``events``: start, duration (int64) and code (uint8) by row; ``powers``: uint8, what each of 256 codes takes, then what
    each holds; ``ranks``: uint8, 256 for each role of a thread. ValueError: a thread has rows or a role that are not
    there, or there are not as many powers.
    """
    cdef Array starts = given(events[0], I64), durations = given(events[1], I64, starts.count)
    cdef Array codes = given(events[2], U8, starts.count), of_codes = given(powers, U8)
    cdef Array lines = given(threads, "qqq"), of_roles = given(ranks, U8), times = given(open_times, I64)
    cdef fp_reasons_in of = fp_reasons_in(
        starts.at, durations.at, codes.at, of_codes.at, lines.at, lines.count, of_roles.at, times.at,
        stretches_of(times)
    )
    cdef fp_vector pieces
    cdef fp_memory memory
    cdef fp_code code
    slices(lines, starts.count)
    within(lines, 0, of_roles.count // 256, 2)
    if of_codes.count != sizeof(fp_code_powers):
        raise ValueError("powers are those of 256 codes")
    memset(&pieces, 0, sizeof(pieces))
    start_memory(&memory)
    try:
        with nogil:
            code = fp_foremost_reasons(&memory, &of, first, last, &pieces)
        check(code, "finding what threads do")
        return moved(&memory, &pieces, sizeof(fp_piece))
    finally:
        fp_vector_free(&memory, &pieces)


def event_writers(events, threads, of_kind, ours_theirs, writer, met, size_t writers):
    """Writes who wrote each event of some threads (uint8), and marks in ``met`` (uint8, a row of names for each of the
    ``writers``) who wrote which names; see kernels/event_writers.h.

    ``events``: kind (uint8), parent (int32, -1: none) and number of the name (int32, -1: the last) by row; ``threads``:
    first and last row of each and whether it runs Python (int64); ``of_kind``: uint8, six for each of 16 kinds.
    IndexError: a kind, a parent, a name or a writer does not exist. ValueError: a thread has rows that do not exist, or
    something has another length.
    """
    cdef Array kinds = given(events[0], U8), parent = given(events[1], I32, kinds.count)
    cdef Array name = given(events[2], I32, kinds.count), lines = given(threads, "qqq")
    cdef Array of_kinds = given(of_kind, U8, FP_MOST_WRITER_KINDS * sizeof(fp_writer_kind))
    cdef Array out = room(writer, U8, kinds.count), marks = room(met, U8)
    cdef fp_memory memory
    cdef fp_written of
    cdef fp_code code
    of.names = names_of(marks, writers, name)
    slices(lines, kinds.count)
    within(kinds, 0, FP_MOST_WRITER_KINDS)
    within(parent, -1, kinds.count)
    within(of_kinds, 0, writers)
    if max(ours_theirs) >= writers:
        raise IndexError("a writer does not exist")
    of.kinds, of.parent, of.name, of.count = kinds.at, parent.at, name.at, kinds.count
    of.threads, of.thread_count, of.of_kind = lines.at, lines.count, of_kinds.at
    of.ours, of.theirs = ours_theirs
    start_memory(&memory)
    with nogil:
        code = fp_event_writers(&memory, &of, out.at, marks.at)
    check(code, "finding who wrote events")


def of_writer_and_name(writer, name, threads, table, size_t writers, out):
    """Writes for each event of some threads (as above) what ``table`` has (uint8, a row of names for each of the
    ``writers``). ``writer`` (uint8), ``name`` (int32, -1: the last): by row. IndexError: a writer or a name does not
    exist. ValueError: as above."""
    cdef Array who = given(writer, U8), name_of = given(name, I32, who.count), lines = given(threads, "qqq")
    cdef Array values = given(table, U8), to = room(out, U8, who.count)
    cdef fp_written of
    of.names = names_of(values, writers, name_of)
    slices(lines, who.count)
    within(who, 0, writers)
    of.name, of.threads, of.thread_count = name_of.at, lines.at, lines.count
    with nogil:
        fp_of_writer_and_name(&of, who.at, values.at, to.at)


cdef Py_ssize_t names_of(Array table, size_t writers, Array names) except -1:
    """How many names a table has beside each writer. IndexError: a name is none of them. ValueError: its length is not a
    multiple of the writers."""
    if not writers or table.count % writers:
        raise ValueError("a table has a row of names for each writer")
    if names.count and not table.count:
        raise IndexError("there are no names")
    within(names, -1, table.count // writers)
    return <Py_ssize_t>(table.count // writers)


def gap_pieces(device, transfers, host, busy, steps, int64_t last, times, causes):
    """The pieces of a device's time that have one cause, as bytes of structs; see kernels/gap_pieces.h.

    ``device``: begin (int64) and state (int32) of stretches, and five of int64 beside these, or None: by how much the
    host's clock is ahead, when the call began and returned that launched the next work, its row, and that of the work. ``transfers``: kind (uint8) and cause of waits
    (int32) by number. ``host``: pieces, codes of its events (uint8), causes of 256 codes (int32), the code of waits.
    ``busy``: int64, begin and end of stretches. ``steps``: the same, and the group of each (int64). ``times``: the end of
    the last work, and the latency. ``causes``: the eight of fp_gap_causes. ValueError: something has another length.
    IndexError: a number leads nowhere.
    """
    cdef Array begin = given(device[0], I64), state = given(device[1], I32, begin.count)
    cdef Array ahead = maybe(device[2], I64, begin.count), launched = maybe(device[3], I64, begin.count)
    cdef Array returned = maybe(device[4], I64, begin.count)
    cdef Array row = maybe(device[5], I64, begin.count), work_row = maybe(device[6], I64, begin.count)
    cdef Array kind = given(transfers[0], U8)
    cdef Array of_wait = given(transfers[1], I32, kind.count), pieces = given(host[0], "qqq"), codes = given(host[1], U8)
    cdef Array of_code = given(host[2], I32, 256), work = given(busy, I64), of_steps = given(steps[0], I64)
    cdef Array group = given(steps[1], I64, stretches_of(of_steps))
    cdef fp_device_gaps of
    cdef fp_vector gaps
    cdef fp_memory memory
    cdef fp_code code
    if len({(launched.at == NULL), (returned.at == NULL), (row.at == NULL), (work_row.at == NULL)}) > 1:
        raise ValueError("launches have times and rows, or neither")
    within(state, FP_STATE_IDLE, kind.count)
    within(kind, 0, 5)
    within(pieces, -1, codes.count, 2)
    within(row, -1, codes.count)
    within(work_row, -1, codes.count)
    of.begin, of.state, of.count, of.last = begin.at, state.at, begin.count, last
    of.ahead, of.launched, of.returned = ahead.at, launched.at, returned.at
    of.launch_row, of.work_row = row.at, work_row.at
    of.kind, of.cause_of_wait = kind.at, of_wait.at
    of.host, of.host_count, of.codes, of.cause_of_code = pieces.at, pieces.count, codes.at, of_code.at
    of.waits = host[3]
    of.busy, of.busy_count = work.at, stretches_of(work)
    of.steps, of.step_group, of.step_count = of_steps.at, group.at, group.count
    of.last_work, of.latency = times
    of.causes.none, of.causes.idle, of.causes.launch = causes[:3]
    of.causes.straggler, of.causes.communication, of.causes.transfer, of.causes.queue, of.causes.between = causes[3:]
    memset(&gaps, 0, sizeof(gaps))
    start_memory(&memory)
    try:
        with nogil:
            code = fp_gap_pieces(&memory, &of, &gaps)
        check(code, "finding why a device does not compute")
        return moved(&memory, &gaps, sizeof(fp_gap))
    finally:
        fp_vector_free(&memory, &gaps)


def gap_sums(gaps, name_of_row, int32_t names):
    """The sums of pieces by step, kind and cause, as bytes of structs; see kernels/gap_sums.h. ``name_of_row``: int32, by row
    of the host's events. IndexError: a number leads nowhere. OverflowError: a time does not fit 64 bits."""
    cdef Array pieces = given(gaps, "qqqiiii"), of_row = given(name_of_row, I32)
    cdef fp_vector sums
    cdef fp_memory memory
    cdef fp_code code
    within(pieces, -1, of_row.count, 2)
    memset(&sums, 0, sizeof(sums))
    start_memory(&memory)
    try:
        with nogil:
            code = fp_gap_sums(&memory, pieces.at, pieces.count, of_row.at, names, &sums)
        check(code, "adding up times of a device")
        return moved(&memory, &sums, sizeof(fp_gap_sum))
    finally:
        fp_vector_free(&memory, &sums)


def longest_path(begin, end, weight, reach, via):
    """Writes the largest sum of weights (int64) of a path that ends at each node, and the edge (int32) by which it
    arrives, -1: none. ``begin``, ``end``: the nodes (int32) of each edge. Returns how many edges circles lost; see
    kernels/longest_path.h. IndexError: an edge leads nowhere."""
    cdef Array begins = given(begin, I32), ends = given(end, I32, begins.count), weights = given(weight, I64, begins.count)
    cdef Array sums = room(reach, I64), arrives = room(via, I32, sums.count)
    cdef fp_path_edges edges
    cdef fp_memory memory
    cdef int64_t cut = 0
    cdef fp_code code
    if max(begins.count, sums.count) >= INT32_MAX:
        raise ValueError("there are too many nodes or edges")
    within(begins, 0, sums.count)
    within(ends, 0, sums.count)
    edges.source, edges.target, edges.weight = begins.at, ends.at, weights.at
    edges.count, edges.nodes = begins.count, sums.count
    start_memory(&memory)
    with nogil:
        code = fp_longest_path(&memory, &edges, sums.at, arrives.at, &cut)
    check(code, "finding the longest path")
    return cut
