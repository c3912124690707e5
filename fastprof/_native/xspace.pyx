"""XSpace to columns: the scanner, the opened capture, and what a fill writes into.

Arrays go in as anything with the buffer protocol; structs have the layouts of records.py.
"""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from libc.stdint cimport INT32_MAX, INT64_MAX, SIZE_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from fastprof._native.border cimport *
from fastprof._native.xspace cimport *

from itertools import count

SIZES = {
    "PART": sizeof(fp_part), "SPAN": sizeof(fp_span), "EVENT_META": sizeof(fp_event_meta),
    "STAT_META": sizeof(fp_stat_meta), "OWNED_SPAN": sizeof(fp_owned_span), "CHILD": sizeof(fp_child),
    "PIECE": sizeof(fp_piece), "SEGMENT": sizeof(fp_segment), "UNKNOWN_STAT": sizeof(fp_unknown_stat),
    "EVENT_KEY": sizeof(fp_event_key), "BYTES_AT": sizeof(fp_bytes_at),
    "WINDOW_PART": sizeof(fp_window_part),
}


TOO_MANY = fp_code_name(FP_TOO_MANY).decode(), fp_code_text(FP_TOO_MANY).decode()

# C keeps pointers to these names in faults: they live as long as the module.
cdef dict WHAT = {
    name: name for name in (b"XEventMetadata.name", b"XEventMetadata.display_name", b"XStatMetadata.name",
                            b"XStatMetadata.description", b"XPlane.name", b"XLine.name", b"XLine.display_name",
                            b"XSpace.errors", b"XSpace.warnings", b"XSpace.hostnames")
}


cdef const char *PIECE = "QQqqqqqQQQQqqiiiiii"
cdef const char *SEGMENT = "QQqqqqqqqqqqqqqqqqqqqqq"
cdef const char *EVENT_KEY = "qqQIIii"
cdef const char *WINDOW_PART = "QQ"
cdef const char *OWNED_SPAN = "QQq"
cdef enum:  # the numbers of their fields
    PIECE_PART = 2, SEGMENT_PIECE = 2, SEGMENT_ROW = 17, SEGMENT_STAT_ROW = 19, KEY_PIECE = 5


cdef enum: LATER = 1 << 18  # opening a capture leaves memory to what is read later, as if it had more bytes

cdef str DOING = "reading a capture"


include "window.pxi"


cdef list faults_of(fp_vector *log):
    """(code, sentence, what was being read, count, first offset) a row."""
    cdef fp_fault_row *rows = <fp_fault_row *>log.items
    return [
        (fp_code_name(<fp_code>rows[i].code).decode(), fp_code_text(<fp_code>rows[i].code).decode(),
         rows[i].what.decode(), rows[i].count, rows[i].first_offset)
        for i in range(log.count)
    ]


include "pool.pxi"


@cython.no_gc_clear  # __dealloc__ needs the Memory
@cython.final
cdef class Scanner:
    """Finds where the planes, lines, name tables and stats of an XSpace lie, in pushed bytes."""

    cdef fp_scanner scanner
    cdef Memory memory
    cdef readonly str path

    def __cinit__(self, Memory memory not None, str path, bint salvage=False, uint64_t most_held=0):
        """``most_held``: bytes that a capture of any size may take in memory."""
        self.memory = memory
        self.path = path
        self.scanner.memory = &memory.memory
        self.scanner.salvage = salvage
        self.scanner.held.raised = most_held

    def __dealloc__(self):
        if self.memory is not None:
            fp_scanner_free(&self.scanner)

    def push(self, chunk):
        cdef Array bytes_in = given(chunk, U8)
        cdef fp_fault fault
        cdef fp_code code
        with nogil:
            code = fp_scanner_push(&self.scanner, bytes_in.at, bytes_in.count, &fault)
        check(code, DOING, &fault, self.path)

    def read(self, Bytes data not None):
        """Reads what is needed of a capture that was not pushed."""
        cdef Window window = data.begin(self.memory)
        cdef fp_fault fault
        cdef fp_code code
        with nogil:
            code = fp_scanner_read(&self.scanner, &window.window, &fault)
        data.end(self.memory, window, code, DOING, &fault, self.path)

    def finish(self):
        cdef fp_fault fault
        check(fp_scanner_finish(&self.scanner, &fault), DOING, &fault, self.path)

    def parts(self):
        return taken(&self.scanner.parts, sizeof(fp_part))

    def spans(self, int kind):
        if not 0 <= kind < FP_SPAN_KINDS:
            raise IndexError(kind)
        return taken(&self.scanner.spans[kind], sizeof(fp_span))

    def faults(self):
        return faults_of(&self.scanner.faults)


include "sink.pxi"


cdef const char *NO_ITEMS = ""


@cython.no_gc_clear  # arrays may outlive the cycle that they are found in
@cython.final
cdef class _Rows:
    """The items of a vector that nobody changes any more; they are held with their owner."""

    cdef object owner
    cdef const fp_vector *vector
    cdef size_t item_size

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        if self.vector == NULL:
            raise BufferError("there are no rows")
        items = self.vector.items if self.vector.count else <void *>NO_ITEMS
        PyBuffer_FillInfo(buffer, self, items, <Py_ssize_t>(self.vector.count * self.item_size), True, flags)


cdef _Rows lent(owner, const fp_vector *vector, size_t item_size):
    cdef _Rows rows = _Rows.__new__(_Rows)
    rows.owner, rows.vector, rows.item_size = owner, vector, item_size
    return rows


@cython.no_gc_clear  # __dealloc__ needs the Memory
@cython.final
cdef class XSpace:
    """A capture: the bytes and its name tables. Holds on to the bytes."""

    cdef fp_xspace xspace
    cdef Memory memory
    cdef Bytes data
    cdef XSpace original  # of a fork: who owns all but its stat metadata
    cdef readonly str path

    def __cinit__(self, Scanner scanner, data, bint salvage=False, XSpace original=None):
        cdef fp_fault fault
        cdef fp_code code
        cdef Window window
        if original is not None:
            self.memory, self.path, self.data = original.memory, original.path, original.data
            self.original = original if original.original is None else original.original
            check(fp_xspace_fork(&original.xspace, &self.xspace, &fault), DOING, &fault, self.path)
            return
        if scanner is None:
            raise TypeError("a capture is opened with the Scanner of its bytes")
        self.memory = scanner.memory
        self.path = scanner.path
        self.data = data if isinstance(data, Bytes) else Bytes(data)
        self.xspace.memory = &self.memory.memory
        self.xspace.salvage = salvage
        for i in range(FP_SPAN_KINDS):
            vector_spans(&scanner.scanner.spans[i], sizeof(fp_span), self.data.size)
        window = self.data.begin(self.memory)
        with nogil:
            code = fp_xspace_open(&self.xspace, &scanner.scanner, &window.window, &fault)
        self.end(window, code, &fault)

    def __dealloc__(self):
        if self.memory is not None:
            if self.original is None:
                fp_xspace_free(&self.xspace)
            else:
                fp_xspace_free_fork(&self.xspace)

    cdef int end(self, Window window, fp_code code, const fp_fault *fault) except -1:
        return self.data.end(self.memory, window, code, DOING, fault, self.path)

    def hold(self, uint64_t count, uint64_t item_size):
        """Counts the memory of items, as many as may be held of the capture; returns how many these are."""
        cdef fp_held *held = &(self if self.original is None else self.original).xspace.held
        cdef uint64_t size = self.data.size + LATER, most = fp_held_left(held, size) // item_size
        fp_hold(held, min(most, count) * item_size, size)
        return min(most, count)

    def copies(self, offsets, lengths):
        """Copies of the bytes at these places."""
        return self.data.copies(self.memory, offsets, lengths, self.path)

    def forked(self):
        """The same capture, with stat metadata of its own: what is declared there is unknown here."""
        return XSpace(None, None, original=self)

    def event_metas(self):
        return memoryview(lent(self, &self.xspace.event_metas, sizeof(fp_event_meta)))

    def stat_metas(self):
        return taken(&self.xspace.stat_metas, sizeof(fp_stat_meta))

    def meta_stats(self):
        return memoryview(lent(self, &self.xspace.meta_stats, sizeof(fp_owned_span)))

    def children(self):
        return memoryview(lent(self, &self.xspace.children, sizeof(fp_child)))

    def faults(self):
        return faults_of(&self.xspace.faults)

    cdef Array pieces(self, array, bint writable=False):
        """Pieces that lie in the capture, of parts that there are."""
        cdef Array pieces = room(array, PIECE) if writable else given(array, PIECE)
        spans(pieces, self.data.size)
        within(pieces, 0, self.xspace.part_count, PIECE_PART)
        return pieces

    cdef Array segments(self, array, Array pieces, bint writable=False):
        """Segments that lie in the capture, of these pieces."""
        cdef Array segments = room(array, SEGMENT) if writable else given(array, SEGMENT)
        slices(segments, self.data.size)
        within(segments, 0, pieces.count, SEGMENT_PIECE)
        return segments

    cdef Array places(self, array):
        cdef Array places = given(array, OWNED_SPAN)
        spans(places, self.data.size)
        return places

    cdef Array parts(self, array, size_t count):
        cdef Array parts = given(array, I64, count)
        within(parts, 0, self.xspace.part_count)
        return parts

    cdef Filter fitting(self, Filter filter):
        if filter is not None and filter.keep.held and filter.keep.count < self.xspace.event_metas.count:
            raise ValueError("a filter has fewer flags than there are event metadata")
        return filter

    def declare_stats(self, int64_t part, ids):
        cdef Array numbers = given(ids, I64)
        cdef fp_fault fault
        if not 0 <= part < <int64_t>self.xspace.part_count:
            raise IndexError(part)
        check(fp_xspace_declare_stats(&self.xspace, part, numbers.at, numbers.count, &fault), DOING, &fault, self.path)

    def intern(self, offsets, lengths, bytes what not None, Pool pool not None):
        """Puts texts into the pool; returns their numbers (int32 bytes) and the faults met."""
        cdef Array at = given(offsets, U64), sizes = given(lengths, U64, at.count)
        cdef const uint64_t *offset = <const uint64_t *>at.at
        cdef const uint64_t *length = <const uint64_t *>sizes.at
        cdef const char *name = WHAT[what]
        cdef bint outside = False
        cdef size_t i
        for i in range(at.count):  # the largest length: there is no text
            outside |= length[i] != <uint64_t>-1 and (offset[i] > self.data.size or length[i] > self.data.size - offset[i])
        if outside:
            raise ValueError("a text lies outside of the capture")
        numbers = bytearray(4 * at.count)
        cdef Array out = room(numbers, U8)
        cdef fp_vector faults
        cdef fp_fault fault
        cdef fp_code code
        memset(&faults, 0, sizeof(faults))
        cdef Window window = self.data.begin(self.memory)
        with nogil:
            code = fp_intern(&self.xspace, &window.window, at.at, sizes.at, at.count, name, &pool.strings, out.at, &faults, &fault)
        try:
            self.end(window, code, &fault)
            return numbers, faults_of(&faults)
        finally:
            fp_vector_free(&self.memory.memory, &faults)

    def index(self, pieces, size_t first, size_t last, int depth, uint64_t segment_size, start=None,
              uint64_t budget=0xFFFFFFFFFFFFFFFF):
        """Indexes pieces first..last, whole, or one piece from `start` on for about `budget` bytes.

        Returns segments, unknown stats, kinds met per stat metadata (empty unless stats are indexed), faults, and
        where the last piece stopped.
        """
        cdef Array parts = self.pieces(pieces, True)
        cdef fp_piece *items = <fp_piece *>parts.at
        cdef fp_index index
        cdef fp_fault fault
        cdef fp_code code = FP_OK
        cdef uint64_t stopped = 0, begin = 0
        cdef bint resumed = start is not None
        cdef size_t i
        cdef size_t stats = self.xspace.stat_metas.count
        cdef Window window
        if last > parts.count or first > last or not 0 <= depth <= <int>FP_STATS:
            raise IndexError(last)
        if resumed:
            begin = start
            if first == last or not items[first].offset <= begin <= items[first].offset + items[first].length:
                raise IndexError(begin)
        memset(&index, 0, sizeof(index))
        try:
            if depth == FP_STATS:
                index.kinds = <uint8_t *>fp_alloc_zeroed(&self.memory.memory, stats, 1)
                check(FP_NO_MEMORY if index.kinds == NULL else FP_OK, "indexing", NULL, self.path)
            window = self.data.begin(self.memory)
            with nogil:
                for i in range(first, last):
                    code = fp_index_piece(&self.xspace, &window.window, &items[i], <int64_t>i, <fp_depth>depth,
                                          begin if resumed else items[i].offset, budget, segment_size, &index, &stopped,
                                          &fault)
                    if code != FP_OK:
                        break
            self.end(window, code, &fault)
            return (taken(&index.segments, sizeof(fp_segment)), taken(&index.unknown, sizeof(fp_unknown_stat)),
                    PyBytes_FromStringAndSize(<char *>index.kinds, <Py_ssize_t>stats) if index.kinds != NULL else b"",
                    faults_of(&index.faults), stopped)
        finally:
            fp_index_free(&self.memory.memory, &index)

    def fill(self, pieces, segments, Sink sink not None):
        cdef Array lines = self.pieces(pieces), parts = self.segments(segments, lines)
        cdef fp_fault fault
        cdef fp_code code
        sink.fits(&self.xspace)
        self.fitting(sink.filter)
        rows_within(parts, SEGMENT_ROW, sink.rows)
        if sink.sink.want_stats:
            rows_within(parts, SEGMENT_STAT_ROW, sink.stat_rows)
        cdef Window window = self.data.begin(self.memory)
        with nogil:
            code = fp_fill(&self.xspace, &window.window, lines.at, parts.at, parts.count, &sink.sink, &fault)
        self.end(window, code, &fault)

    def count_kept(self, pieces, segments, Filter filter not None, bint stats):
        """Sets kept_events and, if asked, kept_stats of the segments."""
        cdef Array lines = self.pieces(pieces), parts = self.segments(segments, lines, True)
        cdef fp_filter *wanted = &self.fitting(filter).filter
        cdef fp_fault fault
        cdef fp_code code
        cdef Window window = self.data.begin(self.memory)
        with nogil:
            code = fp_count_kept(&self.xspace, &window.window, lines.at, parts.at, parts.count, wanted, stats, &fault)
        self.end(window, code, &fault)

    def event_keys(self, pieces, segment, keys, Filter filter=None):
        """Writes the keys of one segment's events."""
        cdef Array lines = self.pieces(pieces), part = self.segments(segment, lines), out
        cdef const fp_filter *wanted = &self.fitting(filter).filter if filter is not None else NULL
        cdef fp_fault fault
        cdef fp_code code
        if part.count != 1 or (<fp_segment *>part.at).event_count < 0:
            raise ValueError("there is not one segment")
        out = room(keys, EVENT_KEY, (<fp_segment *>part.at).event_count)
        cdef Window window = self.data.begin(self.memory)
        with nogil:
            code = fp_event_keys(&self.xspace, &window.window, lines.at, part.at, wanted, out.at, &fault)
        self.end(window, code, &fault)

    def order_keys(self, keys):
        """Sorts keys by start, longer first, then place in the capture."""
        cdef Array events = room(keys, EVENT_KEY)
        cdef bint done
        with nogil:
            done = fp_order_keys(&self.memory.memory, events.at, events.count)
        check(FP_OK if done else FP_NO_MEMORY, "sorting events", NULL, self.path)

    def fill_keys(self, pieces, keys, event_ids, int64_t row, int64_t stat_row, int64_t stat_row_end, Sink sink not None):
        cdef Array lines = self.pieces(pieces), events = given(keys, EVENT_KEY), ids = given(event_ids, I64, events.count)
        cdef const fp_event_key *key = <const fp_event_key *>events.at
        cdef uint64_t size = self.data.size
        cdef bint outside = False
        cdef size_t i
        cdef fp_fault fault
        cdef fp_code code
        for i in range(events.count):
            outside |= key[i].offset > size or key[i].length > size - key[i].offset
        if outside:
            raise ValueError("an event lies outside of the capture")
        within(events, 0, lines.count, KEY_PIECE)
        sink.fits(&self.xspace)
        if row < 0 or <size_t>row + events.count > sink.rows or row > INT32_MAX:
            raise IndexError(row)
        if stat_row < 0 or (sink.sink.want_stats and stat_row_end > 0 and <size_t>stat_row_end > sink.stat_rows):
            raise IndexError(stat_row)
        cdef Window window = self.data.begin(self.memory)
        with nogil:
            code = fp_fill_keys(&self.xspace, &window.window, lines.at, events.at, ids.at, events.count, row, stat_row, stat_row_end,
                                &sink.sink, &fault)
        self.end(window, code, &fault)

    def unknown_in_spans(self, spans, parts):
        """Stats used at these places that their part does not declare."""
        cdef Array at = self.places(spans), whose = self.parts(parts, at.count)
        cdef fp_vector unknown
        cdef fp_fault fault
        cdef fp_code code
        memset(&unknown, 0, sizeof(unknown))
        cdef Window window = self.data.begin(self.memory)
        with nogil:
            code = fp_unknown_in_spans(&self.xspace, &window.window, at.at, whose.at, at.count, &unknown, &fault)
        try:
            self.end(window, code, &fault)
            return taken(&unknown, sizeof(fp_unknown_stat))
        finally:
            fp_vector_free(&self.memory.memory, &unknown)

    def fill_spans(self, spans, parts, stat_ids, Sink sink not None):
        cdef Array at = self.places(spans), whose = self.parts(parts, at.count), ids = room(stat_ids, I64, at.count)
        cdef fp_fault fault
        cdef fp_code code
        sink.fits(&self.xspace)
        if at.count > sink.stat_rows:
            raise IndexError(at.count)
        cdef Window window = self.data.begin(self.memory)
        with nogil:
            code = fp_fill_spans(&self.xspace, &window.window, at.at, whose.at, at.count, ids.at, &sink.sink, &fault)
        self.end(window, code, &fault)


cdef int rows_within(Array segments, int first, size_t rows) except -1:
    """Raises IndexError if a segment begins or ends outside the given number of rows."""
    cdef int64_t limit = INT64_MAX if rows >= <size_t>INT64_MAX else <int64_t>rows + 1
    within(segments, 0, limit, first)
    return within(segments, 0, limit, first + 1)
