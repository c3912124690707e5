"""Writers of trace files: columns of events in, bytes of the file out."""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint64_t

from fastprof._native.border cimport *


cdef extern from "formats/growing_bytes.h" nogil:
    ctypedef struct fp_bytes:
        fp_memory *memory
        uint8_t *data
        size_t size
        bint failed


cdef extern from "formats/open_slices.h" nogil:
    ctypedef struct fp_open_slices:
        fp_memory *memory


cdef extern from "formats/trace_batch.h" nogil:
    ctypedef struct fp_texts:
        void *offsets
        void *bytes
        size_t count
    ctypedef struct fp_trace_stats:
        size_t count
        void *name
        void *kind
        void *int_value
        void *double_value
        void *text
    ctypedef struct fp_trace_track:
        int64_t pid
    ctypedef struct fp_trace_walk:
        fp_memory *memory
    ctypedef struct fp_trace_batch:
        size_t count
        void *event_id
        void *start_ps
        void *duration_ps
        void *track
        void *meta
        size_t metas
        void *meta_name
        void *meta_long_name
        fp_texts names
        fp_trace_stats stats
        void *stat_event
        fp_trace_stats added
        void *added_event
        fp_trace_stats shared
        void *shared_first
        fp_texts texts
        size_t lasting_texts
        int64_t name_base
        size_t renamed_count
        void *renamed_event
        void *renamed_name
        size_t flow_count
        void *flow_event
        void *flow_id
        void *flow_out
        void *flow_kind


cdef extern from "formats/trace_json.h" nogil:
    ctypedef struct fp_trace_json:
        fp_bytes out
        fp_trace_walk walk
        fp_open_slices open
        fp_texts titles
        void *processes
        void *tracks
        size_t process_count, track_count
        int64_t shift_ps, spare_tid, spare_end
    void fp_trace_json_host(fp_trace_json *writer)
    fp_code fp_trace_json_events(fp_trace_json *writer, const fp_trace_batch *batch)
    fp_code fp_trace_json_counter(fp_trace_json *writer, size_t track, void *times, void *integers,
                               void *doubles, size_t count)
    void fp_trace_json_free(fp_trace_json *writer)


cdef extern from "formats/perfetto_write.h" nogil:
    ctypedef struct fp_perfetto:
        fp_bytes out
        fp_trace_walk walk
        fp_open_slices open
        fp_texts titles
        void *processes
        void *tracks
        size_t process_count, track_count
        int64_t process_base, shift_ps
    fp_code fp_perfetto_begin(fp_perfetto *writer, uint64_t start_unix_ns)
    fp_code fp_perfetto_events(fp_perfetto *writer, const fp_trace_batch *batch)
    fp_code fp_perfetto_end(fp_perfetto *writer)
    fp_code fp_perfetto_counter(fp_perfetto *writer, size_t track, void *times, void *integers,
                             void *doubles, size_t count, bint is_bytes)
    void fp_perfetto_free(fp_perfetto *writer)


SIZES = {"TRACK": sizeof(fp_trace_track)}
"""Of the structs that arrays hold, in bytes."""


@cython.final
cdef class Texts:
    """Texts, held: int64 offsets, one more than there are texts, and bytes."""

    cdef fp_texts texts
    cdef Array offsets, data

    def __cinit__(self, offsets, data):
        self.offsets, self.data = given(offsets, I64), given(data, U8)
        bounds(self.offsets, self.data.count)
        self.texts = fp_texts(self.offsets.at, self.data.at, self.offsets.count - 1)

    def __len__(self):
        return self.texts.count


@cython.final
cdef class Stats:
    """Columns of stats, held; see formats/trace_batch.h."""

    cdef fp_trace_stats stats
    cdef tuple held

    def __cinit__(self, name, kind, int_value, double_value, text):
        cdef Array kinds = given(kind, U8), names = given(name, I32, kinds.count), texts = given(text, I32, kinds.count)
        cdef Array integers = given(int_value, I64, kinds.count), doubles = given(double_value, F64, kinds.count)
        self.held = (names, kinds, integers, doubles, texts)
        self.stats = fp_trace_stats(kinds.count, names.at, kinds.at, integers.at, doubles.at, texts.at)

    def __len__(self):
        return self.stats.count


@cython.final
cdef class Kinds:
    """What events of a kind share, held: the name of each, and stats; see formats/trace_batch.h."""

    cdef Array name, long_name, first
    cdef Texts names
    cdef Stats shared
    cdef int64_t name_base

    def __cinit__(self, name, long_name, Texts names not None, int64_t name_base, Stats shared not None, first):
        self.name = given(name, I32)
        self.long_name, self.first = given(long_name, I32, self.name.count), given(first, I64, self.name.count + 1)
        bounds(self.first, shared.stats.count)
        self.names, self.shared, self.name_base = names, shared, name_base


@cython.final
cdef class Batch:
    """Some events, with their stats and flows, held; see formats/trace_batch.h."""

    cdef fp_trace_batch batch
    cdef tuple held

    def __cinit__(self, event_id, start_ps, duration_ps, track, meta, Kinds kinds not None, stat_event,
                  Stats stats not None, added_event, Stats added not None, Texts texts not None, size_t lasting_texts,
                  renamed, flows):
        """``renamed``: columns of events and names, by event; ``flows``: of events, numbers, directions (uint8, 1: out)
        and kinds."""
        cdef Array ids = given(event_id, I64), starts = given(start_ps, I64, ids.count)
        cdef Array durations = given(duration_ps, I64, ids.count), tracks = given(track, I32, ids.count)
        cdef Array metas = given(meta, I32, ids.count), owners = given(stat_event, I64, stats.stats.count)
        cdef Array added_to = given(added_event, I64, added.stats.count), others = given(renamed[0], I64)
        cdef Array called = given(renamed[1], I32, others.count), ends = given(flows[0], I64)
        cdef Array numbers = given(flows[1], I64, ends.count), out = given(flows[2], U8, ends.count)
        cdef Array named = given(flows[3], I32, ends.count)
        self.held = (ids, starts, durations, tracks, metas, owners, added_to, others, called, ends, numbers, out, named,
                     kinds, stats, added, texts)
        self.batch = fp_trace_batch(
            ids.count, ids.at, starts.at, durations.at, tracks.at, metas.at, kinds.name.count, kinds.name.at,
            kinds.long_name.at, kinds.names.texts, stats.stats, owners.at, added.stats, added_to.at, kinds.shared.stats,
            kinds.first.at, texts.texts, lasting_texts, kinds.name_base, called.count, others.at, called.at, ends.count,
            ends.at, numbers.at, out.at, named.at)

    def __len__(self):
        return self.batch.count


cdef bytes written(fp_bytes *out, fp_code code):
    check(code, "writing a trace")
    piece = PyBytes_FromStringAndSize(<char *>out.data, <Py_ssize_t>out.size)
    out.size = 0
    return piece


cdef tuple tracks_of_host(processes, tracks, Texts titles):
    """The arrays of processes and tracks, checked: every track has a process."""
    cdef Array owners = room(processes, "qqqqii"), rows = room(tracks, "qqqqii")
    within(rows, 0, owners.count, 3)
    return owners, rows, titles


@cython.final
cdef class JsonWriter:
    """Writes events as Chrome's trace event JSON: pieces of its array, each object followed by a comma. One thread at
    a time."""

    cdef fp_trace_json writer
    cdef fp_memory memory
    cdef tuple held

    def __cinit__(self):
        start_memory(&self.memory)
        self.writer.out.memory = self.writer.walk.memory = self.writer.open.memory = &self.memory

    def __dealloc__(self):
        fp_trace_json_free(&self.writer)

    def host(self, processes, tracks, Texts titles not None, int64_t spare_tid, int64_t spare_end, int64_t shift_ps):
        """The following events are of another host. ``processes`` and ``tracks``: its writable arrays of struct TRACK.
        Ids of threads from ``spare_tid`` to ``spare_end`` are free. Returns the bytes to write first."""
        cdef Array owners, rows
        self.held = owners, rows, _ = tracks_of_host(processes, tracks, titles)
        self.writer.titles, self.writer.shift_ps = titles.texts, shift_ps
        self.writer.processes, self.writer.process_count = owners.at, owners.count
        self.writer.tracks, self.writer.track_count = rows.at, rows.count
        self.writer.spare_tid, self.writer.spare_end = spare_tid, spare_end
        fp_trace_json_host(&self.writer)
        return b""

    def events(self, Batch batch not None):
        cdef fp_code code
        with nogil:
            code = fp_trace_json_events(&self.writer, &batch.batch)
        return written(&self.writer.out, code)

    def counter(self, size_t track, times, values, bint is_double, bint is_bytes):
        """``values``: int64, or doubles."""
        cdef Array at = given(times, I64), numbers = given(values, F64 if is_double else I64, at.count)
        cdef fp_code code
        with nogil:
            code = fp_trace_json_counter(&self.writer, track, at.at, NULL if is_double else numbers.at,
                                         numbers.at if is_double else NULL, at.count)
        return written(&self.writer.out, code)

    def end(self):
        """What remains to be written."""
        return b""


@cython.final
cdef class PerfettoWriter:
    """Writes events as packets of a Perfetto trace. One thread at a time."""

    cdef fp_perfetto writer
    cdef fp_memory memory
    cdef tuple held

    def __cinit__(self):
        start_memory(&self.memory)
        self.writer.out.memory = self.writer.walk.memory = self.writer.open.memory = &self.memory

    def __dealloc__(self):
        fp_perfetto_free(&self.writer)

    def begin(self, uint64_t start_unix_ns):
        """What a trace begins with. ``start_unix_ns``: the time of day at time 0; 0: unknown."""
        return written(&self.writer.out, fp_perfetto_begin(&self.writer, start_unix_ns))

    def host(self, processes, tracks, Texts titles not None, int64_t spare_tid, int64_t spare_end, int64_t shift_ps):
        """The following events are of another host. ``processes`` and ``tracks``: its writable arrays of struct TRACK.
        Ids of threads from ``spare_tid`` to ``spare_end`` are free. Returns the bytes to write first."""
        cdef Array owners, rows
        held = owners, rows, _ = tracks_of_host(processes, tracks, titles)
        ended = self.end()
        self.held = held
        self.writer.process_base += <int64_t>self.writer.process_count
        self.writer.titles, self.writer.shift_ps = titles.texts, shift_ps
        self.writer.processes, self.writer.process_count = owners.at, owners.count
        self.writer.tracks, self.writer.track_count = rows.at, rows.count
        return ended

    def events(self, Batch batch not None):
        cdef fp_code code
        with nogil:
            code = fp_perfetto_events(&self.writer, &batch.batch)
        return written(&self.writer.out, code)

    def counter(self, size_t track, times, values, bint is_double, bint is_bytes):
        """``values``: int64, or doubles."""
        cdef Array at = given(times, I64), numbers = given(values, F64 if is_double else I64, at.count)
        cdef fp_code code
        with nogil:
            code = fp_perfetto_counter(&self.writer, track, at.at, NULL if is_double else numbers.at,
                                       numbers.at if is_double else NULL, at.count, is_bytes)
        return written(&self.writer.out, code)

    def end(self):
        """What remains to be written."""
        return written(&self.writer.out, fp_perfetto_end(&self.writer))
