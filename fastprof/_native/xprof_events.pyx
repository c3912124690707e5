"""Events as JSON in the forms of XProf's trace viewer; see formats/xprof_events.h."""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport INT32_MIN, int32_t, int64_t, uint8_t, uint64_t

from fastprof._native.border cimport *


cdef extern from "formats/growing_bytes.h" nogil:
    ctypedef struct fp_bytes:
        fp_memory *memory
        uint8_t *data
        size_t size
        bint failed
    void fp_bytes_free(fp_bytes *out)


cdef extern from "formats/json_values.h" nogil:
    void fp_json_text(fp_bytes *out, const uint8_t *text, size_t length)


cdef extern from "formats/xspace.h" nogil:
    enum: FP_STR, FP_REF


cdef extern from "formats/xprof_events.h" nogil:
    ctypedef struct fp_text_limit:
        size_t most
        uint64_t cut
    ctypedef struct fp_texts:
        void *offsets
        void *bytes
        fp_text_limit *limit
    ctypedef struct fp_drawn:
        void *start
        void *duration
        void *name
        fp_texts names
        void *tracks
        void *pid
        void *tid
        size_t track_count
    ctypedef struct fp_drawn_marks:
        void *visible
        void *group
        void *serial
        void *flow
    ctypedef struct fp_drawn_place:
        size_t track
        int64_t row
    ctypedef struct fp_named_values:
        void *first
        void *key
        void *kind
        void *value
        void *real
        void *text
        fp_texts texts
    ctypedef struct fp_event_values:
        fp_texts keys
        void *meta
        fp_named_values of_meta, own, derived
    void fp_write_drawn(fp_bytes *out, const fp_drawn *drawn, const fp_drawn_marks *marks, size_t most,
                        fp_drawn_place *place)
    void fp_write_flights(fp_bytes *out, const fp_drawn *drawn, const fp_drawn_marks *marks, size_t track)
    void fp_write_events(fp_bytes *out, const fp_drawn *drawn, void *kept, const fp_event_values *given, size_t most,
                         fp_drawn_place *place)
    void fp_write_points(fp_bytes *out, void *start, const fp_named_values *values, int64_t count)
    uint64_t fp_gnu_hash(const uint8_t *text, size_t length)


@cython.final
cdef class Texts:
    """Texts as Arrow has them, held: int64 offsets and bytes."""

    cdef fp_texts texts
    cdef Array offsets, data

    def __cinit__(self, pair):
        self.offsets, self.data = given(pair[0], I64), given(pair[1], U8)
        bounds(self.offsets, self.data.count)
        self.texts = fp_texts(self.offsets.at, self.data.at, NULL)

    cdef int have(self, Array numbers) except -1:
        """Raises IndexError where a number, unless negative, is not that of a text."""
        return within(numbers, INT32_MIN, self.offsets.count - 1)


@cython.final
cdef class Drawn:
    """Rows of events by track: start, duration (uint64), name (int32), names (offsets int64, bytes), tracks (int64
    bounds), pid, tid (uint32 by track)."""

    cdef fp_drawn drawn
    cdef size_t count
    cdef tuple held

    def __cinit__(self, start, duration, name, names, tracks, pid, tid):
        cdef Array starts = given(start, U64), durations = given(duration, U64, starts.count), edges = given(tracks, I64)
        cdef Array numbers = given(name, I32, starts.count), pids, tids
        cdef Texts texts = Texts(names)
        bounds(edges, starts.count)
        texts.have(numbers)
        pids, tids = given(pid, U32, edges.count - 1), given(tid, U32, edges.count - 1)
        self.held = (starts, durations, numbers, texts, edges, pids, tids)
        self.count = starts.count
        self.drawn = fp_drawn(
            starts.at, durations.at, numbers.at, texts.texts, edges.at, pids.at, tids.at, edges.count - 1)


@cython.final
cdef class Marks:
    """What comes with the rows of the streaming form: visible (uint8), group (int32), serial (uint32), flow (uint64)."""

    cdef fp_drawn_marks marks
    cdef size_t count
    cdef tuple held

    def __cinit__(self, visible, group, serial, flow):
        cdef Array shown = given(visible, U8), groups = given(group, I32, shown.count)
        cdef Array serials = given(serial, U32, shown.count), flows = given(flow, U64, shown.count)
        self.held = (shown, groups, serials, flows)
        self.count = shown.count
        self.marks = fp_drawn_marks(shown.at, groups.at, serials.at, flows.at)


@cython.final
cdef class NamedValues:
    """Lists of values with a key each: first (int64), key (int32), kind (uint8), value (int64), real (double or None),
    text (int32), texts (offsets, bytes)."""

    cdef fp_named_values values
    cdef Array first, key
    cdef tuple held

    def __cinit__(self, first, key, kind, value, real, text, texts):
        self.first, self.key = given(first, I64), given(key, I32)
        cdef Array kinds = given(kind, U8, self.key.count), values = given(value, I64, self.key.count)
        cdef Array reals = maybe(real, F64, self.key.count), numbers = given(text, I32, self.key.count)
        cdef Texts pool = Texts(texts)
        cdef const uint8_t *written_as = <const uint8_t *>kinds.at
        cdef const int32_t *number = <const int32_t *>numbers.at
        cdef bint outside = False
        cdef size_t i
        bounds(self.first, self.key.count)
        for i in range(kinds.count):  # of other kinds the number is not looked at
            outside |= (written_as[i] == FP_STR or written_as[i] == FP_REF) and number[i] >= <int64_t>pool.offsets.count - 1
        if outside:
            raise IndexError("a value has a text that is not there")
        self.held = (kinds, values, reals, numbers, pool)
        self.values = fp_named_values(
            self.first.at, self.key.at, kinds.at, values.at, reals.at, numbers.at, pool.texts)

    cdef int has_lists(self, size_t count) except -1:
        """Raises ValueError unless every row has a list."""
        if self.first.count != count + 1:
            raise ValueError("there is not one list of values for each row")
        return 0


@cython.no_gc_clear  # __dealloc__ needs the memory
@cython.final
cdef class Writer:
    """Bytes of JSON, a piece at a time."""

    cdef fp_memory memory
    cdef fp_bytes out
    cdef fp_text_limit limit

    def __cinit__(self, size_t most_text=0):
        """``most_text``: bytes of a text that many events repeat, beyond which it is cut; 0: no limit."""
        start_memory(&self.memory)
        self.out.memory = &self.memory
        self.limit.most = most_text

    @property
    def cut(self):
        """How often a text was cut."""
        return self.limit.cut

    def __dealloc__(self):
        fp_bytes_free(&self.out)

    cdef bytes take(self):
        check(FP_NO_MEMORY if self.out.failed else FP_OK, "writing events")
        piece = PyBytes_FromStringAndSize(<char *>self.out.data, <Py_ssize_t>self.out.size)
        self.out.size = 0
        return piece

    def drawn(self, Drawn events not None, Marks marks not None, tuple place not None, size_t most):
        """(the visible rows from ``place``, a track and a row, on, as about ``most`` bytes; where to go on); no bytes:
        none is left."""
        cdef fp_drawn_place at
        cdef fp_drawn limited = events.drawn
        at.track, at.row = place
        limited.names.limit = &self.limit
        if marks.count != events.count:
            raise ValueError("there is not one mark for each row")
        with nogil:
            fp_write_drawn(&self.out, &limited, &marks.marks, most, &at)
        return self.take(), (at.track, at.row)

    def flights(self, Drawn events not None, Marks marks not None, size_t track):
        if marks.count != events.count:
            raise ValueError("there is not one mark for each row")
        if track >= events.drawn.track_count:
            raise IndexError("there is no such track")
        cdef fp_drawn limited = events.drawn
        limited.names.limit = &self.limit
        with nogil:
            fp_write_flights(&self.out, &limited, &marks.marks, track)
        return self.take()

    def complete(self, Drawn events not None, kept, keys, meta, NamedValues of_meta not None, NamedValues own not None,
                 NamedValues found not None, tuple place not None, size_t most):
        """Events with all their values; ``meta``: int32 by row."""
        cdef Texts names = Texts(keys)
        cdef Array wanted = given(kept, U8, events.count), kinds = given(meta, I32, events.count)
        cdef NamedValues values
        cdef fp_event_values of_rows
        cdef fp_drawn_place at
        cdef fp_drawn limited = events.drawn
        at.track, at.row = place
        for values in (of_meta, own, found):
            names.have(values.key)
        within(kinds, INT32_MIN, <int64_t>of_meta.first.count - 1)
        own.has_lists(events.count)
        found.has_lists(events.count)
        of_rows.keys, of_rows.meta = names.texts, kinds.at
        of_rows.of_meta, of_rows.own, of_rows.derived = of_meta.values, own.values, found.values
        limited.names.limit = of_rows.keys.limit = of_rows.of_meta.texts.limit = &self.limit
        of_rows.own.texts.limit = of_rows.derived.texts.limit = &self.limit
        with nogil:
            fp_write_events(&self.out, &limited, wanted.at, &of_rows, most, &at)
        return self.take(), (at.track, at.row)

    def points(self, start, NamedValues values not None, int64_t count):
        cdef Array starts = given(start, U64, count)
        cdef fp_named_values limited = values.values
        values.has_lists(count)
        limited.texts.limit = &self.limit
        with nogil:
            fp_write_points(&self.out, starts.at, &limited, count)
        return self.take()

    def text(self, bytes text not None):
        """A string of JSON with its quotes."""
        fp_json_text(&self.out, <const uint8_t *><const char *>text, len(text))
        return self.take()


def gnu_hash(bytes text not None):
    """The hash that GNU's C++ library gives a text."""
    return fp_gnu_hash(<const uint8_t *><const char *>text, len(text))
