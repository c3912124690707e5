"""Writers of trace files: columns of events in, bytes of the file out."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from fastprof._native.core cimport fp_memory, fp_memory_init, fp_vector

from fastprof.errors import MemoryLimitError


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
        const int64_t *offsets
        const uint8_t *bytes
        size_t count
    ctypedef struct fp_trace_stats:
        size_t count
        const int32_t *name
        const uint8_t *kind
        const int64_t *int_value
        const double *double_value
        const int32_t *text
    ctypedef struct fp_trace_track:
        int64_t pid
    ctypedef struct fp_trace_walk:
        fp_memory *memory
    ctypedef struct fp_trace_batch:
        size_t count
        const int64_t *event_id
        const int64_t *start_ps
        const int64_t *duration_ps
        const int32_t *track
        const int32_t *meta
        size_t metas
        const int32_t *meta_name
        const int32_t *meta_long_name
        fp_texts names
        fp_trace_stats stats
        const int64_t *stat_event
        fp_trace_stats added
        const int64_t *added_event
        fp_trace_stats shared
        const int64_t *shared_first
        fp_texts texts
        size_t lasting_texts
        int64_t name_base
        size_t renamed_count
        const int64_t *renamed_event
        const int32_t *renamed_name
        size_t flow_count
        const int64_t *flow_event
        const int64_t *flow_id
        const uint8_t *flow_out
        const int32_t *flow_kind


cdef extern from "formats/trace_json.h" nogil:
    ctypedef struct fp_trace_json:
        fp_bytes out
        fp_trace_walk walk
        fp_open_slices open
        fp_texts titles
        fp_trace_track *processes
        fp_trace_track *tracks
        size_t process_count, track_count
        int64_t shift_ps, spare_tid, spare_end
    void fp_trace_json_host(fp_trace_json *writer)
    bint fp_trace_json_events(fp_trace_json *writer, const fp_trace_batch *batch)
    bint fp_trace_json_counter(fp_trace_json *writer, size_t track, const int64_t *times, const int64_t *integers,
                               const double *doubles, size_t count)
    void fp_trace_json_free(fp_trace_json *writer)


cdef extern from "formats/perfetto_write.h" nogil:
    ctypedef struct fp_perfetto:
        fp_bytes out
        fp_trace_walk walk
        fp_open_slices open
        fp_texts titles
        fp_trace_track *processes
        fp_trace_track *tracks
        size_t process_count, track_count
        int64_t process_base, shift_ps
        fp_bytes names, keys, texts
    bint fp_perfetto_begin(fp_perfetto *writer, uint64_t start_unix_ns)
    bint fp_perfetto_events(fp_perfetto *writer, const fp_trace_batch *batch)
    bint fp_perfetto_end(fp_perfetto *writer)
    bint fp_perfetto_counter(fp_perfetto *writer, size_t track, const int64_t *times, const int64_t *integers,
                             const double *doubles, size_t count, bint is_bytes)
    void fp_perfetto_free(fp_perfetto *writer)


SIZES = {"TRACK": sizeof(fp_trace_track)}
"""Of the structs that arrays hold, in bytes."""


include "borrowed.pxi"


cdef class Texts:
    """Texts, held: int64 offsets, one more than there are texts, and bytes."""

    cdef fp_texts texts
    cdef Borrowed offsets, data

    def __cinit__(self, offsets, data):
        self.offsets, self.data = Borrowed(offsets), Borrowed(data)
        cdef size_t places = <size_t>self.offsets.buffer.len // 8
        self.texts.offsets = <const int64_t *>self.offsets.buffer.buf
        self.texts.bytes = <const uint8_t *>self.data.buffer.buf
        self.texts.count = places - 1 if places else 0
        if places and not 0 <= self.texts.offsets[0] <= self.texts.offsets[places - 1] <= self.data.buffer.len:
            raise ValueError("texts lie outside of their bytes")

    def __len__(self):
        return self.texts.count


cdef class Stats:
    """Columns of stats, held; see formats/trace_batch.h."""

    cdef fp_trace_stats stats
    cdef list held

    def __cinit__(self, name, kind, int_value, double_value, text):
        cdef Borrowed names = Borrowed(name), kinds = Borrowed(kind), integers = Borrowed(int_value)
        cdef Borrowed doubles = Borrowed(double_value), texts = Borrowed(text)
        cdef Py_ssize_t count = kinds.buffer.len
        if not names.buffer.len == texts.buffer.len == 4 * count:
            raise ValueError("the columns of stats differ in length")
        if not integers.buffer.len == doubles.buffer.len == 8 * count:
            raise ValueError("the columns of stats differ in length")
        self.held = [names, kinds, integers, doubles, texts]
        self.stats.count = <size_t>count
        self.stats.name = <const int32_t *>names.buffer.buf
        self.stats.kind = <const uint8_t *>kinds.buffer.buf
        self.stats.int_value = <const int64_t *>integers.buffer.buf
        self.stats.double_value = <const double *>doubles.buffer.buf
        self.stats.text = <const int32_t *>texts.buffer.buf

    def __len__(self):
        return self.stats.count


cdef class Kinds:
    """What events of a kind share, held: the name of each, and stats; see formats/trace_batch.h."""

    cdef list held
    cdef size_t count
    cdef const int32_t *name
    cdef const int32_t *long_name
    cdef const int64_t *first
    cdef Texts names
    cdef Stats shared
    cdef int64_t name_base

    def __cinit__(self, name, long_name, Texts names, int64_t name_base, Stats shared, first):
        cdef Borrowed short = Borrowed(name), long = Borrowed(long_name), firsts = Borrowed(first)
        self.count = <size_t>short.buffer.len // 4
        if short.buffer.len != long.buffer.len or firsts.buffer.len != 8 * (<Py_ssize_t>self.count + 1):
            raise ValueError("the columns of kinds differ in length")
        self.held = [short, long, firsts]
        self.name = <const int32_t *>short.buffer.buf
        self.long_name = <const int32_t *>long.buffer.buf
        self.first = <const int64_t *>firsts.buffer.buf
        for i in range(self.count):
            if not 0 <= self.first[i] <= self.first[i + 1] <= <int64_t>shared.stats.count:
                raise ValueError("a kind has stats that are not there")
        self.names, self.shared, self.name_base = names, shared, name_base


cdef class Batch:
    """Some events, with their stats and flows, held; see formats/trace_batch.h."""

    cdef fp_trace_batch batch
    cdef list held

    def __cinit__(self, event_id, start_ps, duration_ps, track, meta, Kinds kinds, stat_event, Stats stats,
                  added_event, Stats added, Texts texts, size_t lasting_texts, renamed, flows):
        """``renamed``: columns of events and names, by event; ``flows``: of events, numbers, directions (uint8, 1: out)
        and kinds."""
        renamed_event, renamed_name = renamed
        flow_event, flow_id, flow_out, flow_kind = flows
        cdef Borrowed others = Borrowed(renamed_event), called = Borrowed(renamed_name)
        cdef Borrowed ids = Borrowed(event_id), starts = Borrowed(start_ps), durations = Borrowed(duration_ps)
        cdef Borrowed tracks = Borrowed(track), metas = Borrowed(meta), owners = Borrowed(stat_event)
        cdef Borrowed ends = Borrowed(flow_event), numbers = Borrowed(flow_id), out = Borrowed(flow_out)
        cdef Borrowed named = Borrowed(flow_kind), besides = Borrowed(added_event)
        cdef Py_ssize_t count = ids.buffer.len // 8, flow_count = out.buffer.len
        if not starts.buffer.len == durations.buffer.len == 8 * count or not tracks.buffer.len == metas.buffer.len == 4 * count:
            raise ValueError("the columns of events differ in length")
        if owners.buffer.len != 8 * <Py_ssize_t>stats.stats.count:
            raise ValueError("there is not one event for each stat")
        if others.buffer.len != 2 * called.buffer.len:
            raise ValueError("there is not one name for each event that is renamed")
        if besides.buffer.len != 8 * <Py_ssize_t>added.stats.count:
            raise ValueError("there is not one event for each stat")
        if not ends.buffer.len == numbers.buffer.len == 8 * flow_count or named.buffer.len != 4 * flow_count:
            raise ValueError("the columns of flows differ in length")
        self.held = [ids, starts, durations, tracks, metas, owners, ends, numbers, out, named, besides, others, called, kinds, stats, added, texts]
        memset(&self.batch, 0, sizeof(self.batch))
        self.batch.count = <size_t>count
        self.batch.event_id = <const int64_t *>ids.buffer.buf
        self.batch.start_ps = <const int64_t *>starts.buffer.buf
        self.batch.duration_ps = <const int64_t *>durations.buffer.buf
        self.batch.track = <const int32_t *>tracks.buffer.buf
        self.batch.meta = <const int32_t *>metas.buffer.buf
        self.batch.metas = kinds.count
        self.batch.meta_name, self.batch.meta_long_name = kinds.name, kinds.long_name
        self.batch.names, self.batch.name_base = kinds.names.texts, kinds.name_base
        self.batch.stats, self.batch.shared, self.batch.shared_first = stats.stats, kinds.shared.stats, kinds.first
        self.batch.stat_event = <const int64_t *>owners.buffer.buf
        self.batch.added, self.batch.added_event = added.stats, <const int64_t *>besides.buffer.buf
        self.batch.texts, self.batch.lasting_texts = texts.texts, lasting_texts
        self.batch.renamed_count = <size_t>called.buffer.len // 4
        self.batch.renamed_event = <const int64_t *>others.buffer.buf
        self.batch.renamed_name = <const int32_t *>called.buffer.buf
        self.batch.flow_count = <size_t>flow_count
        self.batch.flow_event = <const int64_t *>ends.buffer.buf
        self.batch.flow_id = <const int64_t *>numbers.buffer.buf
        self.batch.flow_out = <const uint8_t *>out.buffer.buf
        self.batch.flow_kind = <const int32_t *>named.buffer.buf

    def __len__(self):
        return self.batch.count


cdef bytes taken(fp_bytes *out, bint done):
    if not done:
        raise MemoryLimitError("out of memory while writing a trace")
    written = PyBytes_FromStringAndSize(<char *>out.data, <Py_ssize_t>out.size)
    out.size = 0
    return written


cdef class JsonWriter:
    """Writes events as Chrome's trace event JSON: pieces of its array, each object followed by a comma. One thread at
    a time."""

    cdef fp_trace_json writer
    cdef fp_memory memory
    cdef list held

    def __cinit__(self):
        fp_memory_init(&self.memory)
        self.writer.out.memory = self.writer.walk.memory = self.writer.open.memory = &self.memory

    def __dealloc__(self):
        if self.writer.out.memory != NULL:
            fp_trace_json_free(&self.writer)

    def host(self, processes, tracks, Texts titles, int64_t spare_tid, int64_t spare_end, int64_t shift_ps):
        """What comes is of another host, of which ``processes`` and ``tracks`` are writable arrays of struct TRACK. What
        has to be written before. Ids of threads from ``spare_tid`` to ``spare_end`` are free."""
        cdef Borrowed owners = Borrowed(processes, True), rows = Borrowed(tracks, True)
        self.held = [owners, rows, titles]
        self.writer.titles, self.writer.shift_ps = titles.texts, shift_ps
        self.writer.processes = <fp_trace_track *>owners.buffer.buf
        self.writer.process_count = <size_t>owners.buffer.len // sizeof(fp_trace_track)
        self.writer.tracks = <fp_trace_track *>rows.buffer.buf
        self.writer.track_count = <size_t>rows.buffer.len // sizeof(fp_trace_track)
        self.writer.spare_tid, self.writer.spare_end = spare_tid, spare_end
        fp_trace_json_host(&self.writer)
        return b""

    def events(self, Batch batch):
        cdef bint done
        with nogil:
            done = fp_trace_json_events(&self.writer, &batch.batch)
        return taken(&self.writer.out, done)

    def counter(self, size_t track, times, values, bint is_double, bint is_bytes):
        """``values``: int64, or doubles."""
        cdef Borrowed at = Borrowed(times), held = Borrowed(values)
        if at.buffer.len != held.buffer.len:
            raise ValueError("the columns of a counter differ in length")
        cdef const int64_t *integers = NULL if is_double else <const int64_t *>held.buffer.buf
        cdef const double *doubles = <const double *>held.buffer.buf if is_double else NULL
        cdef bint done
        with nogil:
            done = fp_trace_json_counter(&self.writer, track, <const int64_t *>at.buffer.buf, integers, doubles,
                                         <size_t>at.buffer.len // 8)
        return taken(&self.writer.out, done)

    def end(self):
        """What remains to be written."""
        return b""


cdef class PerfettoWriter:
    """Writes events as packets of a Perfetto trace. One thread at a time."""

    cdef fp_perfetto writer
    cdef fp_memory memory
    cdef list held

    def __cinit__(self):
        fp_memory_init(&self.memory)
        self.writer.out.memory = self.writer.walk.memory = self.writer.open.memory = &self.memory
        self.writer.names.memory = self.writer.keys.memory = self.writer.texts.memory = &self.memory

    def __dealloc__(self):
        if self.writer.out.memory != NULL:
            fp_perfetto_free(&self.writer)

    def begin(self, uint64_t start_unix_ns):
        """What a trace begins with. ``start_unix_ns``: the time of day at time 0; 0: unknown."""
        return taken(&self.writer.out, fp_perfetto_begin(&self.writer, start_unix_ns))

    def host(self, processes, tracks, Texts titles, int64_t spare_tid, int64_t spare_end, int64_t shift_ps):
        """What comes is of another host, of which ``processes`` and ``tracks`` are writable arrays of struct TRACK. What
        has to be written before. Ids of threads from ``spare_tid`` to ``spare_end`` are free."""
        cdef Borrowed owners = Borrowed(processes, True), rows = Borrowed(tracks, True)
        ended = self.end()
        self.writer.process_base += <int64_t>self.writer.process_count
        self.held = [owners, rows, titles]
        self.writer.titles, self.writer.shift_ps = titles.texts, shift_ps
        self.writer.processes = <fp_trace_track *>owners.buffer.buf
        self.writer.process_count = <size_t>owners.buffer.len // sizeof(fp_trace_track)
        self.writer.tracks = <fp_trace_track *>rows.buffer.buf
        self.writer.track_count = <size_t>rows.buffer.len // sizeof(fp_trace_track)
        return ended

    def events(self, Batch batch):
        cdef bint done
        with nogil:
            done = fp_perfetto_events(&self.writer, &batch.batch)
        return taken(&self.writer.out, done)

    def counter(self, size_t track, times, values, bint is_double, bint is_bytes):
        """``values``: int64, or doubles."""
        cdef Borrowed at = Borrowed(times), held = Borrowed(values)
        if at.buffer.len != held.buffer.len:
            raise ValueError("the columns of a counter differ in length")
        cdef const int64_t *integers = NULL if is_double else <const int64_t *>held.buffer.buf
        cdef const double *doubles = <const double *>held.buffer.buf if is_double else NULL
        cdef bint done
        with nogil:
            done = fp_perfetto_counter(&self.writer, track, <const int64_t *>at.buffer.buf, integers, doubles,
                                       <size_t>at.buffer.len // 8, is_bytes)
        return taken(&self.writer.out, done)

    def end(self):
        """What remains to be written."""
        return taken(&self.writer.out, fp_perfetto_end(&self.writer))
