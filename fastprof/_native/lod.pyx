"""Level of detail: lanes of tracks, slices by level, and what the viewer asks of them; see kernels/lod.h."""

from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from fastprof._native.core cimport fp_alloc_zeroed, fp_memory, fp_memory_init, fp_release, fp_vector, fp_vector_free

from fastprof.errors import MemoryLimitError


cdef extern from "kernels/lanes.h" nogil:
    int32_t fp_lanes(fp_memory *memory, const int64_t *start, const int64_t *duration, size_t count, uint16_t *lane)


cdef extern from "kernels/lod.h" nogil:
    ctypedef struct fp_name_times:
        fp_memory *memory
    ctypedef struct fp_lane:
        uint32_t first
    ctypedef struct fp_level:
        uint64_t first
    ctypedef struct fp_slice:
        int64_t start
    ctypedef struct fp_mipmap:
        fp_memory *memory
        fp_name_times times
        fp_vector slices, levels
    ctypedef struct fp_track_rows:
        const int64_t *start
        const int64_t *duration
        const int32_t *name
        size_t count
        uint32_t row, track
    ctypedef struct fp_lod_columns:
        int64_t *start
        int64_t *duration
        uint32_t *name
        uint32_t *event
    ctypedef struct fp_lod_group:
        fp_memory *memory
        fp_mipmap mipmap
        fp_vector lanes
        size_t events
    ctypedef enum fp_lod_code:
        FP_LOD_OK, FP_LOD_NO_MEMORY, FP_LOD_UNSORTED, FP_LOD_BAD_NAME
    fp_lod_code fp_lod_track(fp_lod_group *group, const fp_track_rows *rows, uint32_t at, uint32_t names,
                             const fp_lod_columns *out)
    void fp_lod_group_free(fp_lod_group *group)
    ctypedef struct fp_lod:
        const int64_t *start
        const int64_t *duration
        const uint32_t *name
        const uint32_t *event
        const fp_lane *lanes
        const fp_level *levels
        const fp_slice *slices
        size_t events, lane_count, level_count, slice_count, names
    bint fp_lod_sound(const fp_lod *lod)


cdef extern from "kernels/lod_tile.h" nogil:
    enum: FP_COARSEST
    ctypedef struct fp_window:
        int64_t start "from", last, origin
        double shift
        uint32_t at, name
        int level
    ctypedef struct fp_tile:
        fp_memory *memory
        fp_name_times times
    bint fp_tile_lane(fp_tile *tile, const fp_lod *lod, const fp_lane *lane, const fp_window *window, uint32_t track)
    size_t fp_tile_size(const fp_tile *tile)
    void fp_tile_write(const fp_tile *tile, int level, uint64_t index, uint8_t *out)
    void fp_tile_free(fp_tile *tile)


cdef extern from "kernels/lod_sums.h" nogil:
    ctypedef struct fp_range_sum:
        int64_t total
    ctypedef struct fp_range_sums:
        fp_memory *memory
        fp_vector sums
    bint fp_sum_lane(fp_range_sums *sums, const fp_lod *lod, const fp_lane *lane, int64_t start, int64_t last)
    bint fp_sum_run(fp_range_sums *sums, const fp_lod *lod, size_t at, size_t count)
    void fp_range_sums_free(fp_range_sums *sums)


cdef extern from "kernels/lod_search.h" nogil:
    const uint32_t FP_NO_EVENT
    ctypedef struct fp_place:
        int64_t start, track, lane
    uint64_t fp_lane_hits(const fp_lod *lod, const fp_lane *lane, const uint8_t *wanted)
    uint32_t fp_next_hit(const fp_lod *lod, const uint32_t *lanes, size_t lane_count, const uint8_t *wanted, fp_place place,
                         bint forward)
    uint64_t fp_hits_before(const fp_lod *lod, const fp_lane *lane, const uint8_t *wanted, fp_place place)
    uint32_t fp_lod_parent(const fp_lod *lod, size_t lane_number, uint32_t at)
    size_t fp_lod_lane_of(const fp_lod *lod, uint32_t at)
    int64_t fp_lod_children(const fp_lod *lod, uint32_t at, uint32_t *children, size_t most, size_t effort)


include "borrowed.pxi"

COARSEST = FP_COARSEST
UNSORTED, BAD_NAME = FP_LOD_UNSORTED, FP_LOD_BAD_NAME


cdef bytes _items(const fp_vector *vector, size_t size):
    return PyBytes_FromStringAndSize(<char *>vector.items, <Py_ssize_t>(vector.count * size))


def lanes(start, duration, lane):
    """Writes the lane (uint16) of each event of a track and returns how many lanes there are."""
    cdef Borrowed starts = Borrowed(start), durations = Borrowed(duration), out = Borrowed(lane, True)
    cdef fp_memory memory
    cdef int32_t found
    if durations.buffer.len != starts.buffer.len or out.buffer.len * 4 != starts.buffer.len:
        raise ValueError("start, duration and lane differ in length")
    fp_memory_init(&memory)
    with nogil:
        found = fp_lanes(&memory, <const int64_t *>starts.buffer.buf, <const int64_t *>durations.buffer.buf,
                         <size_t>starts.buffer.len // 8, <uint16_t *>out.buffer.buf)
    if found == -1:
        raise MemoryLimitError("out of memory while laying events in lanes")
    if found < 0:
        raise ValueError("events are not sorted by start, longer first")
    return found


cdef class Group:
    """Tracks on the way to the file: their events by lane, in columns of the caller's, and their levels."""

    cdef fp_lod_group group
    cdef fp_memory memory
    cdef fp_lod_columns out
    cdef uint32_t at, names
    cdef size_t room
    cdef object held

    def __cinit__(self, uint32_t at, uint32_t names, start, duration, name, event):
        cdef Borrowed starts = Borrowed(start, True), durations = Borrowed(duration, True)
        cdef Borrowed numbers = Borrowed(name, True), events = Borrowed(event, True)
        fp_memory_init(&self.memory)
        self.group.memory = self.group.mipmap.memory = self.group.mipmap.times.memory = &self.memory
        self.room = <size_t>starts.buffer.len // 8
        if (durations.buffer.len != starts.buffer.len or numbers.buffer.len * 2 != starts.buffer.len
                or events.buffer.len * 2 != starts.buffer.len):
            raise ValueError("columns differ in length")
        self.out.start = <int64_t *>starts.buffer.buf
        self.out.duration = <int64_t *>durations.buffer.buf
        self.out.name = <uint32_t *>numbers.buffer.buf
        self.out.event = <uint32_t *>events.buffer.buf
        self.held = (starts, durations, numbers, events)
        self.at, self.names = at, names

    def __dealloc__(self):
        fp_lod_group_free(&self.group)

    def add(self, uint32_t track, start, duration, name, uint32_t row):
        """The next track, sorted; returns 0, or UNSORTED or BAD_NAME."""
        cdef Borrowed starts = Borrowed(start), durations = Borrowed(duration), numbers = Borrowed(name)
        cdef fp_track_rows rows
        cdef fp_lod_code code
        rows.start, rows.duration = <const int64_t *>starts.buffer.buf, <const int64_t *>durations.buffer.buf
        rows.name = <const int32_t *>numbers.buffer.buf
        rows.count = <size_t>starts.buffer.len // 8
        rows.row, rows.track = row, track
        if durations.buffer.len != starts.buffer.len or numbers.buffer.len * 2 != starts.buffer.len:
            raise ValueError("start, duration and name differ in length")
        if rows.count > self.room - self.group.events:
            raise ValueError("more events than there is room for")
        with nogil:
            code = fp_lod_track(&self.group, &rows, self.at, self.names, &self.out)
        if code == FP_LOD_NO_MEMORY:
            raise MemoryLimitError("out of memory while building levels of detail")
        return <int>code

    def lanes(self):
        return _items(&self.group.lanes, sizeof(fp_lane))

    def levels(self):
        return _items(&self.group.mipmap.levels, sizeof(fp_level))

    def slices(self):
        return _items(&self.group.mipmap.slices, sizeof(fp_slice))


cdef class Lod:
    """All of a host's events and levels, in buffers that are held. ValueError: they do not fit each other."""

    cdef fp_lod lod
    cdef object held

    def __cinit__(self, start, duration, name, event, lanes, levels, slices, size_t names):
        cdef Borrowed starts = Borrowed(start), durations = Borrowed(duration), numbers = Borrowed(name)
        cdef Borrowed events = Borrowed(event), rows = Borrowed(lanes), steps = Borrowed(levels), parts = Borrowed(slices)
        self.held = (starts, durations, numbers, events, rows, steps, parts)
        self.lod.start, self.lod.duration = <const int64_t *>starts.buffer.buf, <const int64_t *>durations.buffer.buf
        self.lod.name, self.lod.event = <const uint32_t *>numbers.buffer.buf, <const uint32_t *>events.buffer.buf
        self.lod.lanes, self.lod.levels = <const fp_lane *>rows.buffer.buf, <const fp_level *>steps.buffer.buf
        self.lod.slices = <const fp_slice *>parts.buffer.buf
        self.lod.events = <size_t>starts.buffer.len // 8
        self.lod.lane_count = <size_t>rows.buffer.len // sizeof(fp_lane)
        self.lod.level_count = <size_t>steps.buffer.len // sizeof(fp_level)
        self.lod.slice_count = <size_t>parts.buffer.len // sizeof(fp_slice)
        self.lod.names = names
        if (durations.buffer.len != starts.buffer.len or numbers.buffer.len * 2 != starts.buffer.len
                or events.buffer.len * 2 != starts.buffer.len or not fp_lod_sound(&self.lod)):
            raise ValueError("levels of detail are damaged")

    cdef Borrowed _lanes(self, lanes):
        """Numbers of lanes, all of them there."""
        cdef Borrowed found = Borrowed(lanes)
        cdef Py_ssize_t i
        for i in range(found.buffer.len // 4):
            if (<const uint32_t *>found.buffer.buf)[i] >= self.lod.lane_count:
                raise IndexError("no such lane")
        return found

    cdef Borrowed _wanted(self, wanted):
        cdef Borrowed found = Borrowed(wanted)
        if <size_t>found.buffer.len < self.lod.names:
            raise ValueError("fewer flags than names")
        return found

    cdef uint32_t _at(self, at) except? FP_NO_EVENT:
        if not 0 <= at < self.lod.events:
            raise IndexError("no such event")
        return <uint32_t>at

    def sums(self, lanes, int64_t start, int64_t last):
        """fp_range_sum records, by name, of the events of lanes that overlap times start to last, both included."""
        cdef Borrowed chosen = self._lanes(lanes)
        cdef const uint32_t *number = <const uint32_t *>chosen.buffer.buf
        cdef size_t count = <size_t>chosen.buffer.len // 4, i = 0
        cdef fp_range_sums sums = _no_sums()
        cdef fp_memory memory
        cdef bint done = True
        fp_memory_init(&memory)
        sums.memory = &memory
        with nogil:
            while done and i < count:
                done = fp_sum_lane(&sums, &self.lod, self.lod.lanes + number[i], start, last)
                i += 1
        return _sums(&sums, done)

    def run_sums(self, at, size_t count):
        """The same of events one after the other."""
        cdef fp_range_sums sums = _no_sums()
        cdef fp_memory memory
        cdef bint done
        cdef size_t first = self._at(at)
        fp_memory_init(&memory)
        sums.memory = &memory
        with nogil:
            done = fp_sum_run(&sums, &self.lod, first, count)
        return _sums(&sums, done)

    def hits(self, lanes, wanted, out):
        """Adds to out (int64, by place in lanes) how many events have a wanted name (uint8 by name)."""
        cdef Borrowed chosen = self._lanes(lanes), flags = self._wanted(wanted), counts = Borrowed(out, True)
        cdef size_t count = <size_t>chosen.buffer.len // 4, i
        if <size_t>counts.buffer.len // 8 < count:
            raise ValueError("no room for the counts")
        with nogil:
            for i in range(count):
                (<int64_t *>counts.buffer.buf)[i] = <int64_t>fp_lane_hits(
                    &self.lod, self.lod.lanes + (<const uint32_t *>chosen.buffer.buf)[i], <const uint8_t *>flags.buffer.buf)

    def next_hit(self, lanes, wanted, int64_t start, int64_t track, int64_t lane, bint forward):
        """The number of the wanted event next to a place in the order of start, track, lane; None: there is none."""
        cdef Borrowed chosen = self._lanes(lanes), flags = self._wanted(wanted)
        cdef fp_place place
        cdef uint32_t found
        place.start, place.track, place.lane = start, track, lane
        with nogil:
            found = fp_next_hit(&self.lod, <const uint32_t *>chosen.buffer.buf, <size_t>chosen.buffer.len // 4,
                                <const uint8_t *>flags.buffer.buf, place, forward)
        return None if found == FP_NO_EVENT else found

    def hits_before(self, lanes, wanted, int64_t start, int64_t track, int64_t lane):
        """How many wanted events of lanes are before a place."""
        cdef Borrowed chosen = self._lanes(lanes), flags = self._wanted(wanted)
        cdef size_t count = <size_t>chosen.buffer.len // 4, i
        cdef fp_place place
        cdef uint64_t hits = 0
        place.start, place.track, place.lane = start, track, lane
        with nogil:
            for i in range(count):
                hits += fp_hits_before(&self.lod, self.lod.lanes + (<const uint32_t *>chosen.buffer.buf)[i],
                                       <const uint8_t *>flags.buffer.buf, place)
        return hits

    def lane_of(self, at):
        return fp_lod_lane_of(&self.lod, self._at(at))

    def parent(self, at):
        """The innermost event that encloses this one, or None."""
        cdef uint32_t number = self._at(at)
        cdef uint32_t found = fp_lod_parent(&self.lod, fp_lod_lane_of(&self.lod, number), number)
        return None if found == FP_NO_EVENT else found

    def children(self, at, children, size_t effort):
        """Writes numbers of events (uint32) whose parent this is, as many as there is room for; returns how many there
        are, -1: more than `effort` events had to be looked at."""
        cdef Borrowed out = Borrowed(children, True)
        cdef uint32_t number = self._at(at)
        cdef int64_t found
        with nogil:
            found = fp_lod_children(&self.lod, number, <uint32_t *>out.buffer.buf, <size_t>out.buffer.len // 4, effort)
        return found


cdef fp_range_sums _no_sums() noexcept:
    cdef fp_range_sums sums
    cdef char *zeroes = <char *>&sums
    cdef size_t i
    for i in range(sizeof(fp_range_sums)):
        zeroes[i] = 0
    return sums


cdef _sums(fp_range_sums *sums, bint done):
    try:
        if not done:
            raise MemoryLimitError("out of memory while summing events up")
        return _items(&sums.sums, sizeof(fp_range_sum))
    finally:
        fp_range_sums_free(sums)


cdef class Tile:
    """What is drawn of a window; see docs/viewer.md for the bytes."""

    cdef fp_tile tile
    cdef fp_memory memory

    def __cinit__(self):
        fp_memory_init(&self.memory)
        self.tile.memory = self.tile.times.memory = &self.memory

    def __dealloc__(self):
        fp_tile_free(&self.tile)

    def add(self, Lod lod, lanes, tracks, int level, int64_t start, int64_t last, int64_t origin, double shift,
            uint32_t at, uint32_t name):
        """Rows of lanes, each with the number that its track has in the tile; times start to last, both included."""
        cdef Borrowed chosen = lod._lanes(lanes), ids = Borrowed(tracks)
        cdef const uint32_t *number = <const uint32_t *>chosen.buffer.buf
        cdef const uint32_t *track = <const uint32_t *>ids.buffer.buf
        cdef size_t count = <size_t>chosen.buffer.len // 4, i = 0
        cdef fp_window window
        cdef bint done = True
        if ids.buffer.len != chosen.buffer.len:
            raise ValueError("lanes and tracks differ in length")
        window.start, window.last, window.origin, window.at, window.name = start, last, origin, at, name
        window.level, window.shift = level, shift
        with nogil:
            while done and i < count:
                done = fp_tile_lane(&self.tile, &lod.lod, lod.lod.lanes + number[i], &window, track[i])
                i += 1
        if not done:
            raise MemoryLimitError("out of memory while drawing a tile")

    def packed(self, int level, uint64_t index):
        cdef size_t size = fp_tile_size(&self.tile)
        out = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>size)
        cdef uint8_t *to = <uint8_t *>PyBytes_AsString(out)
        with nogil:
            fp_tile_write(&self.tile, level, index, to)
        return out
