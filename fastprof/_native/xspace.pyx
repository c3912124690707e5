"""XSpace to columns: the scanner, the opened capture, and what a fill writes into.

Arrays go in and out as anything with the buffer protocol; structs have the layouts of records.py.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from fastprof._native.core cimport *
from fastprof._native.xspace cimport *

from fastprof.errors import CaptureError, ChangedError, MemoryLimitError

SIZES = {
    "PART": sizeof(fp_part), "SPAN": sizeof(fp_span), "EVENT_META": sizeof(fp_event_meta),
    "STAT_META": sizeof(fp_stat_meta), "OWNED_SPAN": sizeof(fp_owned_span), "CHILD": sizeof(fp_child),
    "PIECE": sizeof(fp_piece), "SEGMENT": sizeof(fp_segment), "UNKNOWN_STAT": sizeof(fp_unknown_stat),
    "EVENT_KEY": sizeof(fp_event_key), "BYTES_AT": sizeof(fp_bytes_at),
}


# C keeps pointers to these names in faults: they live as long as the module.
cdef dict WHAT = {
    name: name for name in (b"XEventMetadata.name", b"XEventMetadata.display_name", b"XStatMetadata.name",
                            b"XStatMetadata.description", b"XPlane.name", b"XLine.name", b"XLine.display_name",
                            b"XSpace.errors", b"XSpace.warnings", b"XSpace.hostnames")
}


cdef class View:
    """A buffer that is held for as long as C may use it."""

    cdef Py_buffer buffer
    cdef bint held

    def __cinit__(self, obj, bint writable=False):
        PyObject_GetBuffer(obj, &self.buffer, PyBUF_WRITABLE if writable else PyBUF_SIMPLE)
        self.held = True

    cdef void *at(self) noexcept:
        return self.buffer.buf

    cdef size_t size(self) noexcept:
        return <size_t>self.buffer.len

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.buffer)


cdef class Memory:
    """Where the core allocates from; counts blocks, and fails on demand, for tests."""

    cdef fp_memory memory

    def __cinit__(self):
        fp_memory_init(&self.memory)

    @property
    def live(self):
        return self.memory.live

    def fail_after(self, int64_t allocations):
        """Let so many more allocations succeed, then none; negative: all succeed."""
        self.memory.countdown = allocations


cdef int check(fp_code code, fp_fault *fault, path) except -1:
    """The one place where a status of C becomes an exception."""
    if code == FP_OK:
        return 0
    what = fault.what.decode() if fault.what != NULL else "capture"
    if code == FP_NO_MEMORY:
        raise MemoryLimitError(f"out of memory while reading {what}", path=path)
    if code == FP_CHANGED:
        raise ChangedError("the file changed while it was being read; load it again", path=path)
    text = fp_code_text(code).decode()
    raise CaptureError(f"{text}, reading {what}", path=path, offset=fault.offset)


cdef bytes take(fp_memory *memory, fp_vector *vector, size_t item_size):
    """The items as bytes; the vector is left as it is."""
    return PyBytes_FromStringAndSize(<char *>vector.items, <Py_ssize_t>(vector.count * item_size))


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
cdef class Scanner:
    """Finds where the planes, lines, name tables and stats of an XSpace lie, in pushed bytes."""

    cdef fp_scanner scanner
    cdef Memory memory
    cdef readonly str path

    def __cinit__(self, Memory memory not None, str path, bint salvage=False):
        self.memory = memory
        self.path = path
        self.scanner.memory = &memory.memory
        self.scanner.salvage = salvage

    def __dealloc__(self):
        if self.memory is not None:
            fp_scanner_free(&self.scanner)

    def push(self, chunk):
        cdef View view = View(chunk)
        cdef fp_fault fault
        cdef fp_code code
        with nogil:
            code = fp_scanner_push(&self.scanner, <const uint8_t *>view.buffer.buf, <size_t>view.buffer.len, &fault)
        check(code, &fault, self.path)

    def finish(self):
        cdef fp_fault fault
        check(fp_scanner_finish(&self.scanner, &fault), &fault, self.path)

    def parts(self):
        return take(&self.memory.memory, &self.scanner.parts, sizeof(fp_part))

    def spans(self, int kind):
        if not 0 <= kind < FP_SPAN_KINDS:
            raise IndexError(kind)
        return take(&self.memory.memory, &self.scanner.spans[kind], sizeof(fp_span))

    def faults(self):
        return faults_of(&self.scanner.faults)


cdef class Filter:
    """Which events a fill keeps: by a byte per event metadata, and by time."""

    cdef fp_filter filter
    cdef View keep

    def __cinit__(self, keep_meta, bint keep_unnamed, time_ps):
        if keep_meta is not None:
            self.keep = View(keep_meta)
            self.filter.keep_meta = <const uint8_t *>self.keep.at()
        self.filter.keep_unnamed = keep_unnamed
        if time_ps is not None:
            self.filter.timed = 1
            self.filter.from_ps, self.filter.to_ps = time_ps


include "picks.pxi"


@cython.no_gc_clear  # __dealloc__ needs the Memory
cdef class Sink:
    """The columns that one fill writes into, and what it adds: texts, places of bytes, faults.

    Columns are given by the names of struct fp_sink; those that are not given are not decoded.
    """

    cdef fp_sink sink
    cdef Memory memory
    cdef list held
    cdef Filter filter
    cdef readonly Picks picks

    def __cinit__(self, Memory memory not None, dict columns not None, dict tables not None, Filter filter=None,
                  wide=(), int64_t text_base=0, bint want_stats=False, Picks picks=None):
        self.memory = memory
        self.held = []
        self.sink.texts.memory = &memory.memory
        self.sink.text_base = text_base
        self.sink.want_stats = want_stats
        if filter is not None:
            self.filter = filter
            self.sink.filter = &filter.filter
        if picks is not None:
            self.picks = picks
            self.sink.picks = picks.stats
        self.sink.wide = <fp_wide_column *>fp_alloc_zeroed(&memory.memory, len(wide), sizeof(fp_wide_column))
        if self.sink.wide == NULL:
            raise MemoryLimitError("out of memory while preparing columns")
        self.sink.wide_count = len(wide)
        for i, (kind, value, default_kind, default_value) in enumerate(wide):
            self.sink.wide[i].kind = <uint8_t *>self.hold(kind, True)
            self.sink.wide[i].value = <int64_t *>self.hold(value, True)
            if default_kind is not None:
                self.sink.wide[i].default_kind = <const uint8_t *>self.hold(default_kind, False)
                self.sink.wide[i].default_value = <const int64_t *>self.hold(default_value, False)
        for name, array in columns.items():
            self.set_column(name, array)
        for name, array in tables.items():
            self.set_table(name, array)
        if self.sink.pick_of_stat != NULL and picks is None:
            raise ValueError("there are no columns for picks")

    def __dealloc__(self):
        if self.memory is not None:
            fp_release(&self.memory.memory, self.sink.wide)
            fp_strings_free(&self.sink.texts)
            fp_vector_free(&self.memory.memory, &self.sink.bytes)
            fp_vector_free(&self.memory.memory, &self.sink.faults)

    cdef void *hold(self, array, bint writable) except? NULL:
        cdef View view = View(array, writable)
        self.held.append(view)
        return view.at()

    cdef int set_index(self, fp_index_column *column, array) except -1:
        column.to = self.hold(array, True)
        column.width = array.itemsize
        return 0

    cdef int set_column(self, str name, array) except -1:
        if name == "host": self.set_index(&self.sink.host, array)
        elif name == "plane": self.set_index(&self.sink.plane, array)
        elif name == "line": self.set_index(&self.sink.line, array)
        elif name == "name": self.set_index(&self.sink.name, array)
        elif name == "stat": self.set_index(&self.sink.stat, array)
        elif name == "text": self.set_index(&self.sink.text, array)
        elif name == "event_id": self.sink.event_id = <int64_t *>self.hold(array, True)
        elif name == "metadata_id": self.sink.metadata_id = <int64_t *>self.hold(array, True)
        elif name == "start_ps": self.sink.start_ps = <int64_t *>self.hold(array, True)
        elif name == "duration_ps": self.sink.duration_ps = <int64_t *>self.hold(array, True)
        elif name == "num_occurrences": self.sink.num_occurrences = <int64_t *>self.hold(array, True)
        elif name == "plane_id": self.sink.plane_id = <int32_t *>self.hold(array, True)
        elif name == "line_id": self.sink.line_id = <int32_t *>self.hold(array, True)
        elif name == "present": self.sink.present = <uint8_t *>self.hold(array, True)
        elif name == "stat_event_id": self.sink.stat_event_id = <int64_t *>self.hold(array, True)
        elif name == "int_value": self.sink.int_value = <int64_t *>self.hold(array, True)
        elif name == "double_value": self.sink.double_value = <double *>self.hold(array, True)
        elif name == "kind": self.sink.kind = <uint8_t *>self.hold(array, True)
        else: raise KeyError(name)
        return 0

    cdef int set_table(self, str name, array) except -1:
        if name == "meta_names": self.sink.meta_names = <const int32_t *>self.hold(array, False)
        elif name == "meta_ids": self.sink.meta_ids = <const int64_t *>self.hold(array, False)
        elif name == "stat_names": self.sink.stat_names = <const int32_t *>self.hold(array, False)
        elif name == "stat_texts": self.sink.stat_texts = <const int32_t *>self.hold(array, False)
        elif name == "wide_of_stat": self.sink.wide_of_stat = <const int32_t *>self.hold(array, False)
        elif name == "pick_of_stat": self.sink.pick_of_stat = <const int16_t *>self.hold(array, False)
        elif name == "pick_parts": self.sink.pick_parts = <const uint8_t *>self.hold(array, False)
        else: raise KeyError(name)
        return 0

    @property
    def unnamed(self):
        return self.sink.unnamed

    def texts(self):
        """What the stats' own texts are: (int64 offsets, bytes); numbered from text_base on."""
        if not self.sink.texts.offsets.count:
            return bytes(8), b""
        return (take(&self.memory.memory, &self.sink.texts.offsets, 8),
                take(&self.memory.memory, &self.sink.texts.bytes, 1))

    def bytes_at(self):
        return take(&self.memory.memory, &self.sink.bytes, sizeof(fp_bytes_at))

    def faults(self):
        return faults_of(&self.sink.faults)


@cython.no_gc_clear  # __dealloc__ needs the Memory
cdef class XSpace:
    """A capture: the bytes and its name tables. Holds on to the bytes."""

    cdef fp_xspace xspace
    cdef Memory memory
    cdef View data
    cdef XSpace original  # of a fork: who owns all but its stat metadata
    cdef readonly str path

    def __cinit__(self, Scanner scanner, data, bint salvage=False, XSpace original=None):
        cdef fp_fault fault
        cdef fp_code code
        if original is not None:
            self.memory, self.path, self.data = original.memory, original.path, original.data
            self.original = original if original.original is None else original.original
            check(fp_xspace_fork(&original.xspace, &self.xspace, &fault), &fault, self.path)
            return
        if scanner is None:
            raise TypeError("a capture is opened with the Scanner of its bytes")
        self.memory = scanner.memory
        self.path = scanner.path
        self.data = View(data)
        self.xspace.memory = &self.memory.memory
        self.xspace.data = <const uint8_t *>self.data.at()
        self.xspace.size = self.data.size()
        self.xspace.salvage = salvage
        with nogil:
            code = fp_xspace_open(&self.xspace, &scanner.scanner, &fault)
        check(code, &fault, self.path)

    def __dealloc__(self):
        if self.memory is not None:
            if self.original is None:
                fp_xspace_free(&self.xspace)
            else:
                fp_xspace_free_fork(&self.xspace)

    def forked(self):
        """The same capture, with stat metadata of its own: what is declared there is unknown here."""
        return XSpace(None, None, original=self)

    def event_metas(self):
        return take(&self.memory.memory, &self.xspace.event_metas, sizeof(fp_event_meta))

    def stat_metas(self):
        return take(&self.memory.memory, &self.xspace.stat_metas, sizeof(fp_stat_meta))

    def meta_stats(self):
        return take(&self.memory.memory, &self.xspace.meta_stats, sizeof(fp_owned_span))

    def children(self):
        return take(&self.memory.memory, &self.xspace.children, sizeof(fp_child))

    def faults(self):
        return faults_of(&self.xspace.faults)

    def declare_stats(self, int64_t part, ids):
        cdef View view = View(ids)
        cdef fp_fault fault
        check(fp_xspace_declare_stats(&self.xspace, part, <const int64_t *>view.at(), view.size() // 8, &fault), &fault,
              self.path)

    def intern(self, offsets, lengths, bytes what not None, Pool pool not None):
        """Puts texts into the pool; returns their numbers (int32 bytes) and the faults met."""
        cdef View at = View(offsets), sizes = View(lengths)
        cdef size_t count = at.size() // 8
        numbers = bytearray(4 * count)
        cdef View out = View(numbers, True)
        cdef fp_vector faults
        cdef fp_fault fault
        cdef fp_code code
        cdef const char *name = WHAT[what]
        memset(&faults, 0, sizeof(faults))
        with nogil:
            code = fp_intern(&self.xspace, <const uint64_t *>at.buffer.buf, <const uint64_t *>sizes.buffer.buf, count, name,
                             &pool.strings, <int32_t *>out.buffer.buf, &faults, &fault)
        try:
            check(code, &fault, self.path)
            return numbers, faults_of(&faults)
        finally:
            fp_vector_free(&self.memory.memory, &faults)

    def index(self, pieces, size_t first, size_t last, int depth, uint64_t segment_size, start=None,
              uint64_t budget=0xFFFFFFFFFFFFFFFF):
        """Indexes pieces first..last, whole, or one piece from `start` on for about `budget` bytes.

        Returns segments, unknown stats, kinds met per stat metadata (empty unless stats are indexed), faults, and
        where the last piece stopped.
        """
        cdef View view = View(pieces, True)
        cdef fp_piece *items = <fp_piece *>view.at()
        cdef fp_index index
        cdef fp_fault fault
        cdef fp_code code = FP_OK
        cdef uint64_t stopped = 0, begin = 0
        cdef bint resumed = start is not None
        cdef size_t i
        cdef size_t stats = self.xspace.stat_metas.count
        if last > view.size() // sizeof(fp_piece) or first > last:
            raise IndexError(last)
        if resumed:
            begin = start
        memset(&index, 0, sizeof(index))
        try:
            if depth == FP_STATS:
                index.kinds = <uint8_t *>fp_alloc_zeroed(&self.memory.memory, stats, 1)
                if index.kinds == NULL:
                    raise MemoryLimitError("out of memory while indexing", path=self.path)
            with nogil:
                for i in range(first, last):
                    code = fp_index_piece(&self.xspace, &items[i], <int64_t>i, <fp_depth>depth,
                                          begin if resumed else items[i].offset, budget, segment_size, &index, &stopped,
                                          &fault)
                    if code != FP_OK:
                        break
            check(code, &fault, self.path)
            return (take(&self.memory.memory, &index.segments, sizeof(fp_segment)),
                    take(&self.memory.memory, &index.unknown, sizeof(fp_unknown_stat)),
                    PyBytes_FromStringAndSize(<char *>index.kinds, <Py_ssize_t>stats) if index.kinds != NULL else b"",
                    faults_of(&index.faults), stopped)
        finally:
            fp_index_free(&self.memory.memory, &index)

    def fill(self, pieces, segments, Sink sink not None):
        cdef View view = View(pieces), parts = View(segments)
        cdef fp_fault fault
        cdef fp_code code
        with nogil:
            code = fp_fill(&self.xspace, <const fp_piece *>view.buffer.buf, <const fp_segment *>parts.buffer.buf,
                           <size_t>parts.buffer.len // sizeof(fp_segment), &sink.sink, &fault)
        check(code, &fault, self.path)

    def count_kept(self, pieces, segments, Filter filter not None, bint stats):
        """Sets kept_events and, if asked, kept_stats of the segments."""
        cdef View view = View(pieces), parts = View(segments, True)
        cdef fp_fault fault
        cdef fp_code code
        with nogil:
            code = fp_count_kept(&self.xspace, <const fp_piece *>view.buffer.buf, <fp_segment *>parts.buffer.buf,
                                 <size_t>parts.buffer.len // sizeof(fp_segment), &filter.filter, stats, &fault)
        check(code, &fault, self.path)

    def event_keys(self, pieces, segment, keys, Filter filter=None):
        """Writes the keys of one segment's events."""
        cdef View view = View(pieces), part = View(segment), out = View(keys, True)
        cdef const fp_filter *wanted = &filter.filter if filter is not None else NULL
        cdef fp_fault fault
        cdef fp_code code
        with nogil:
            code = fp_event_keys(&self.xspace, <const fp_piece *>view.buffer.buf, <const fp_segment *>part.buffer.buf,
                                 wanted, <fp_event_key *>out.buffer.buf, &fault)
        check(code, &fault, self.path)

    def fill_keys(self, pieces, keys, event_ids, int64_t row, int64_t stat_row, int64_t stat_row_end, Sink sink not None):
        cdef View view = View(pieces), wanted = View(keys), ids = View(event_ids)
        cdef fp_fault fault
        cdef fp_code code
        with nogil:
            code = fp_fill_keys(&self.xspace, <const fp_piece *>view.buffer.buf, <const fp_event_key *>wanted.buffer.buf,
                                <const int64_t *>ids.buffer.buf, <size_t>wanted.buffer.len // sizeof(fp_event_key),
                                row, stat_row, stat_row_end, &sink.sink, &fault)
        check(code, &fault, self.path)

    def unknown_in_spans(self, spans, parts):
        """Stats used at these places that their part does not declare."""
        cdef View at = View(spans), whose = View(parts)
        cdef fp_vector unknown
        cdef fp_fault fault
        cdef fp_code code
        memset(&unknown, 0, sizeof(unknown))
        with nogil:
            code = fp_unknown_in_spans(&self.xspace, <const fp_owned_span *>at.buffer.buf,
                                       <const int64_t *>whose.buffer.buf, <size_t>at.buffer.len // sizeof(fp_owned_span),
                                       &unknown, &fault)
        try:
            check(code, &fault, self.path)
            return take(&self.memory.memory, &unknown, sizeof(fp_unknown_stat))
        finally:
            fp_vector_free(&self.memory.memory, &unknown)

    def fill_spans(self, spans, parts, stat_ids, Sink sink not None):
        cdef View at = View(spans), whose = View(parts), ids = View(stat_ids, True)
        cdef fp_fault fault
        cdef fp_code code
        with nogil:
            code = fp_fill_spans(&self.xspace, <const fp_owned_span *>at.buffer.buf, <const int64_t *>whose.buffer.buf,
                                 <size_t>at.buffer.len // sizeof(fp_owned_span), <int64_t *>ids.buffer.buf, &sink.sink,
                                 &fault)
        check(code, &fault, self.path)
