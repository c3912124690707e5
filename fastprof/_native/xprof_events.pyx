"""Events as JSON in the forms of XProf's trace viewer; see formats/xprof_events.h."""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from fastprof._native.core cimport fp_memory, fp_memory_init

from fastprof.errors import MemoryLimitError


cdef extern from "formats/growing_bytes.h" nogil:
    ctypedef struct fp_bytes:
        fp_memory *memory
        uint8_t *data
        size_t size
        bint failed
    void fp_bytes_free(fp_bytes *out)


cdef extern from "formats/json_values.h" nogil:
    void fp_json_text(fp_bytes *out, const uint8_t *text, size_t length)


cdef extern from "formats/xprof_events.h" nogil:
    ctypedef struct fp_texts:
        const int64_t *offsets
        const uint8_t *bytes
    ctypedef struct fp_drawn:
        const uint64_t *start
        const uint64_t *duration
        const int32_t *name
        fp_texts names
        const int64_t *tracks
        const uint32_t *pid
        const uint32_t *tid
        size_t track_count
    ctypedef struct fp_drawn_marks:
        const uint8_t *visible
        const int32_t *group
        const uint32_t *serial
        const uint64_t *flow
    ctypedef struct fp_drawn_place:
        size_t track
        int64_t row
    ctypedef struct fp_named_values:
        const int64_t *first
        const int32_t *key
        const uint8_t *kind
        const int64_t *value
        const double *real
        const int32_t *text
        fp_texts texts
    ctypedef struct fp_event_values:
        fp_texts keys
        const int32_t *meta
        fp_named_values of_meta, own, derived
    void fp_write_drawn(fp_bytes *out, const fp_drawn *drawn, const fp_drawn_marks *marks, size_t most,
                        fp_drawn_place *place)
    void fp_write_flights(fp_bytes *out, const fp_drawn *drawn, const fp_drawn_marks *marks, size_t track)
    void fp_write_events(fp_bytes *out, const fp_drawn *drawn, const uint8_t *kept, const fp_event_values *given,
                         size_t most, fp_drawn_place *place)
    void fp_write_points(fp_bytes *out, const uint64_t *start, const fp_named_values *values, int64_t count)
    uint64_t fp_gnu_hash(const uint8_t *text, size_t length)


include "borrowed.pxi"


cdef class _Held:
    """Buffers that C may use for as long as this lives."""

    cdef list views

    def __cinit__(self):
        self.views = []

    cdef const void *hold(self, array) except? NULL:
        if array is None:
            return NULL
        cdef Borrowed view = Borrowed(array)
        self.views.append(view)
        return view.buffer.buf

    cdef fp_texts texts(self, pair) except *:
        cdef fp_texts found
        found.offsets = <const int64_t *>self.hold(pair[0])
        found.bytes = <const uint8_t *>self.hold(pair[1])
        return found


cdef class Drawn(_Held):
    """Rows of events by track: start, duration (uint64), name (int32), names (offsets int64, bytes), tracks (int64
    bounds), pid, tid (uint32 by track)."""

    cdef fp_drawn drawn

    def __init__(self, start, duration, name, names, tracks, pid, tid):
        self.drawn.start = <const uint64_t *>self.hold(start)
        self.drawn.duration = <const uint64_t *>self.hold(duration)
        self.drawn.name = <const int32_t *>self.hold(name)
        self.drawn.names = self.texts(names)
        self.drawn.tracks = <const int64_t *>self.hold(tracks)
        self.drawn.pid = <const uint32_t *>self.hold(pid)
        self.drawn.tid = <const uint32_t *>self.hold(tid)
        self.drawn.track_count = len(tracks) - 1


cdef class Marks(_Held):
    """What comes with the rows of the streaming form: visible (uint8), group (int32), serial (uint32), flow (uint64)."""

    cdef fp_drawn_marks marks

    def __init__(self, visible, group, serial, flow):
        self.marks.visible = <const uint8_t *>self.hold(visible)
        self.marks.group = <const int32_t *>self.hold(group)
        self.marks.serial = <const uint32_t *>self.hold(serial)
        self.marks.flow = <const uint64_t *>self.hold(flow)


cdef class NamedValues(_Held):
    """Lists of values with a key each: first (int64), key (int32), kind (uint8), value (int64), real (double or None),
    text (int32), texts (offsets, bytes)."""

    cdef fp_named_values values

    def __init__(self, first, key, kind, value, real, text, texts):
        self.values.first = <const int64_t *>self.hold(first)
        self.values.key = <const int32_t *>self.hold(key)
        self.values.kind = <const uint8_t *>self.hold(kind)
        self.values.value = <const int64_t *>self.hold(value)
        self.values.real = <const double *>self.hold(real)
        self.values.text = <const int32_t *>self.hold(text)
        self.values.texts = self.texts(texts)


@cython.no_gc_clear  # __dealloc__ needs the memory
cdef class Writer:
    """Bytes of JSON, a piece at a time."""

    cdef fp_memory memory
    cdef fp_bytes out

    def __cinit__(self):
        fp_memory_init(&self.memory)
        self.out.memory = &self.memory

    def __dealloc__(self):
        fp_bytes_free(&self.out)

    cdef bytes take(self):
        if self.out.failed:
            raise MemoryLimitError("out of memory while writing events")
        piece = PyBytes_FromStringAndSize(<char *>self.out.data, <Py_ssize_t>self.out.size)
        self.out.size = 0
        return piece

    def drawn(self, Drawn events not None, Marks marks not None, tuple place, size_t most):
        """(the visible rows from ``place``, a track and a row, on, as about ``most`` bytes; where to go on); no bytes:
        none is left."""
        cdef fp_drawn_place at
        at.track, at.row = place
        with nogil:
            fp_write_drawn(&self.out, &events.drawn, &marks.marks, most, &at)
        return self.take(), (at.track, at.row)

    def flights(self, Drawn events not None, Marks marks not None, size_t track):
        with nogil:
            fp_write_flights(&self.out, &events.drawn, &marks.marks, track)
        return self.take()

    def told(self, Drawn events not None, kept, keys, meta, NamedValues of_meta not None, NamedValues own not None,
             NamedValues found not None, tuple place, size_t most):
        """The same of whole events; ``meta``: int32 by row."""
        cdef _Held held = _Held()
        cdef fp_event_values given
        cdef fp_drawn_place at
        cdef const uint8_t *wanted = <const uint8_t *>held.hold(kept)
        at.track, at.row = place
        given.keys = held.texts(keys)
        given.meta = <const int32_t *>held.hold(meta)
        given.of_meta, given.own, given.derived = of_meta.values, own.values, found.values
        with nogil:
            fp_write_events(&self.out, &events.drawn, wanted, &given, most, &at)
        return self.take(), (at.track, at.row)

    def points(self, start, NamedValues values not None, int64_t count):
        cdef _Held held = _Held()
        cdef const uint64_t *starts = <const uint64_t *>held.hold(start)
        with nogil:
            fp_write_points(&self.out, starts, &values.values, count)
        return self.take()

    def text(self, bytes text not None):
        """A string of JSON with its quotes."""
        fp_json_text(&self.out, <const uint8_t *><const char *>text, len(text))
        return self.take()


def gnu_hash(bytes text not None):
    """The hash that GNU's C++ library gives a text."""
    return fp_gnu_hash(<const uint8_t *><const char *>text, len(text))
