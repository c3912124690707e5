"""Level of detail: lanes of tracks, slices by level, and what the viewer asks of them; see kernels/lod.h."""

cimport cython
from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from fastprof._native.border cimport *


cdef extern from "kernels/lanes.h" nogil:
    fp_code fp_lanes(fp_memory *memory, void *start, void *duration, size_t count, void *lane, int32_t *found)


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
        void *start
        void *duration
        void *name
        size_t count
        uint32_t row, track
    ctypedef struct fp_lod_columns:
        void *start
        void *duration
        void *name
        void *event
    ctypedef struct fp_lod_group:
        fp_memory *memory
        fp_mipmap mipmap
        fp_vector lanes
        size_t events
    fp_code fp_lod_track(fp_lod_group *group, const fp_track_rows *rows, uint32_t at, uint32_t names,
                             const fp_lod_columns *out)
    void fp_lod_group_free(fp_lod_group *group)
    ctypedef struct fp_lod:
        void *start
        void *duration
        void *name
        void *event
        const fp_lane *lanes
        void *levels
        void *slices
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
    fp_code fp_tile_lane(fp_tile *tile, const fp_lod *lod, const fp_lane *lane, const fp_window *window, uint32_t track)
    size_t fp_tile_size(const fp_tile *tile)
    void fp_tile_write(const fp_tile *tile, int level, uint64_t index, uint8_t *out)
    void fp_tile_free(fp_tile *tile)


cdef extern from "kernels/lod_sums.h" nogil:
    ctypedef struct fp_range_sum:
        int64_t total
    ctypedef struct fp_range_sums:
        fp_memory *memory
        fp_vector sums
    fp_code fp_sum_lane(fp_range_sums *sums, const fp_lod *lod, const fp_lane *lane, int64_t start, int64_t last)
    fp_code fp_sum_run(fp_range_sums *sums, const fp_lod *lod, size_t at, size_t count)
    void fp_range_sums_free(fp_range_sums *sums)


cdef extern from "kernels/lod_search.h" nogil:
    const uint32_t FP_NO_EVENT
    ctypedef struct fp_place:
        int64_t start, track, lane
    uint64_t fp_lane_hits(const fp_lod *lod, const fp_lane *lane, void *wanted)
    uint32_t fp_next_hit(const fp_lod *lod, void *lanes, size_t lane_count, void *wanted, fp_place place,
                         bint forward)
    uint64_t fp_hits_before(const fp_lod *lod, const fp_lane *lane, void *wanted, fp_place place)
    uint32_t fp_lod_parent(const fp_lod *lod, size_t lane_number, uint32_t at)
    size_t fp_lod_lane_of(const fp_lod *lod, uint32_t at)
    int64_t fp_lod_children(const fp_lod *lod, uint32_t at, void *children, size_t most, size_t effort)


COARSEST = FP_COARSEST
UNSORTED, BAD_NAME = FP_UNSORTED, FP_OUT_OF_RANGE


def lanes(start, duration, lane):
    """Writes the lane (uint16) of each event of a track and returns how many lanes there are."""
    cdef Array starts = given(start, I64), durations = given(duration, I64, starts.count)
    cdef Array out = room(lane, U16, starts.count)
    cdef fp_memory memory
    cdef int32_t found
    cdef fp_code code
    start_memory(&memory)
    with nogil:
        code = fp_lanes(&memory, starts.at, durations.at, starts.count, out.at, &found)
    check(code, "laying events in lanes")
    return found


@cython.final
cdef class Group:
    """Tracks on the way to the file: their events by lane, in columns of the caller's, and their levels."""

    cdef fp_lod_group group
    cdef fp_memory memory
    cdef fp_lod_columns out
    cdef uint32_t at, names
    cdef size_t room
    cdef tuple held

    def __cinit__(self, uint32_t at, uint32_t names, start, duration, name, event):
        cdef Array starts = room(start, I64), durations = room(duration, I64, starts.count)
        cdef Array numbers = room(name, U32, starts.count), events = room(event, U32, starts.count)
        start_memory(&self.memory)
        self.group.memory = self.group.mipmap.memory = self.group.mipmap.times.memory = &self.memory
        self.out = fp_lod_columns(starts.at, durations.at, numbers.at, events.at)
        self.held = (starts, durations, numbers, events)
        self.at, self.names, self.room = at, names, starts.count

    def __dealloc__(self):
        if self.group.memory != NULL:
            fp_lod_group_free(&self.group)

    def add(self, uint32_t track, start, duration, name, uint32_t row):
        """The next track, sorted; returns 0, or UNSORTED or BAD_NAME."""
        cdef Array starts = given(start, I64), durations = given(duration, I64, starts.count)
        cdef Array numbers = given(name, I32, starts.count)
        cdef fp_track_rows rows = fp_track_rows(starts.at, durations.at, numbers.at, starts.count, row, track)
        cdef fp_code code
        if rows.count > self.room - self.group.events:
            raise ValueError("more events than there is room for")
        with nogil:
            code = fp_lod_track(&self.group, &rows, self.at, self.names, &self.out)
        if code != FP_UNSORTED and code != FP_OUT_OF_RANGE:
            check(code, "building levels of detail")
        return <int>code

    def lanes(self):
        return taken(&self.group.lanes, sizeof(fp_lane))

    def levels(self):
        return taken(&self.group.mipmap.levels, sizeof(fp_level))

    def slices(self):
        """The slices, without a copy: the group has none any more."""
        return moved(&self.memory, &self.group.mipmap.slices, sizeof(fp_slice))


@cython.final
cdef class Lod:
    """All of a host's events and levels, in buffers that are held. ValueError: they do not fit each other."""

    cdef fp_lod lod
    cdef tuple held

    def __cinit__(self, start, duration, name, event, lanes, levels, slices, size_t names):
        cdef Array starts = given(start, I64), durations = given(duration, I64, starts.count)
        cdef Array numbers = given(name, U32, starts.count), events = given(event, U32, starts.count)
        cdef Array rows = given(lanes, "IIIIII"), steps = given(levels, "QII"), parts = given(slices, "qqqII")
        self.held = (starts, durations, numbers, events, rows, steps, parts)
        self.lod = fp_lod(starts.at, durations.at, numbers.at, events.at, <fp_lane *>rows.at, steps.at, parts.at,
                          starts.count, rows.count, steps.count, parts.count, names)
        if not fp_lod_sound(&self.lod) or (starts.count and not rows.count):
            raise ValueError("levels of detail are damaged")

    cdef Array chosen(self, lanes):
        """Numbers of lanes, all of them there."""
        cdef Array found = given(lanes, U32)
        within(found, 0, self.lod.lane_count)
        return found

    cdef Array wanted(self, flags):
        """A flag a name."""
        cdef Array found = given(flags, U8)
        if found.count < self.lod.names:
            raise ValueError("fewer flags than names")
        return found

    cdef uint32_t event(self, at) except? FP_NO_EVENT:
        if not 0 <= at < self.lod.events:
            raise IndexError("no such event")
        return <uint32_t>at

    def sums(self, lanes, int64_t start, int64_t last):
        """fp_range_sum records, by name, of the events of lanes that overlap times start to last, both included."""
        cdef Array numbers = self.chosen(lanes)
        cdef const uint32_t *number = <const uint32_t *>numbers.at
        cdef size_t i
        cdef fp_range_sums sums
        cdef fp_memory memory
        cdef fp_code code = FP_OK
        begin_sums(&sums, &memory)
        with nogil:
            for i in range(numbers.count):
                code = fp_sum_lane(&sums, &self.lod, self.lod.lanes + number[i], start, last)
                if code != FP_OK:
                    break
        return end_sums(&sums, code)

    def run_sums(self, at, size_t count):
        """The same of events one after the other."""
        cdef fp_range_sums sums
        cdef fp_memory memory
        cdef fp_code code
        cdef size_t first = self.event(at)
        begin_sums(&sums, &memory)
        with nogil:
            code = fp_sum_run(&sums, &self.lod, first, count)
        return end_sums(&sums, code)

    def hits(self, lanes, wanted, out):
        """Adds to out (int64, by place in lanes) how many events have a wanted name (uint8 by name)."""
        cdef Array numbers = self.chosen(lanes), flags = self.wanted(wanted), counts = room(out, I64, numbers.count)
        cdef const uint32_t *number = <const uint32_t *>numbers.at
        cdef int64_t *count = <int64_t *>counts.at
        cdef size_t i
        with nogil:
            for i in range(numbers.count):
                count[i] = <int64_t>fp_lane_hits(&self.lod, self.lod.lanes + number[i], flags.at)

    def next_hit(self, lanes, wanted, int64_t start, int64_t track, int64_t lane, bint forward):
        """The number of the wanted event next to a place in the order of start, track, lane; None: there is none."""
        cdef Array numbers = self.chosen(lanes), flags = self.wanted(wanted)
        cdef uint32_t found
        with nogil:
            found = fp_next_hit(&self.lod, numbers.at, numbers.count, flags.at, fp_place(start, track, lane), forward)
        return None if found == FP_NO_EVENT else found

    def hits_before(self, lanes, wanted, int64_t start, int64_t track, int64_t lane):
        """How many wanted events of lanes are before a place."""
        cdef Array numbers = self.chosen(lanes), flags = self.wanted(wanted)
        cdef const uint32_t *number = <const uint32_t *>numbers.at
        cdef size_t i
        cdef uint64_t hits = 0
        with nogil:
            for i in range(numbers.count):
                hits += fp_hits_before(&self.lod, self.lod.lanes + number[i], flags.at, fp_place(start, track, lane))
        return hits

    def lane_of(self, at):
        return fp_lod_lane_of(&self.lod, self.event(at))

    def parent(self, at):
        """The innermost event that encloses this one, or None."""
        cdef uint32_t number = self.event(at)
        cdef uint32_t found = fp_lod_parent(&self.lod, fp_lod_lane_of(&self.lod, number), number)
        return None if found == FP_NO_EVENT else found

    def children(self, at, children, size_t effort):
        """Writes numbers of events (uint32) whose parent this is, as many as there is room for; returns how many there
        are, -1: more than `effort` events had to be looked at."""
        cdef Array out = room(children, U32)
        cdef uint32_t number = self.event(at)
        cdef int64_t found
        with nogil:
            found = fp_lod_children(&self.lod, number, out.at, out.count, effort)
        return found


cdef void begin_sums(fp_range_sums *sums, fp_memory *memory) noexcept:
    start_memory(memory)
    memset(sums, 0, sizeof(fp_range_sums))
    sums.memory = memory


cdef bytes end_sums(fp_range_sums *sums, fp_code code):
    try:
        check(code, "summing events up")
        return taken(&sums.sums, sizeof(fp_range_sum))
    finally:
        fp_range_sums_free(sums)


@cython.final
cdef class Tile:
    """What is drawn of a window; see docs/viewer.md for the bytes."""

    cdef fp_tile tile
    cdef fp_memory memory

    def __cinit__(self):
        start_memory(&self.memory)
        self.tile.memory = self.tile.times.memory = &self.memory

    def __dealloc__(self):
        fp_tile_free(&self.tile)

    def add(self, Lod lod not None, lanes, tracks, int level, int64_t start, int64_t last, int64_t origin, double shift,
            uint32_t at, uint32_t name):
        """Rows of lanes, each with the number that its track has in the tile; times start to last, both included."""
        cdef Array numbers = lod.chosen(lanes), ids = given(tracks, U32, numbers.count)
        cdef const uint32_t *number = <const uint32_t *>numbers.at
        cdef const uint32_t *track = <const uint32_t *>ids.at
        cdef size_t i
        cdef fp_window window = fp_window(start, last, origin, shift, at, name, level)
        cdef fp_code code = FP_OK
        with nogil:
            for i in range(numbers.count):
                code = fp_tile_lane(&self.tile, &lod.lod, lod.lod.lanes + number[i], &window, track[i])
                if code != FP_OK:
                    break
        check(code, "drawing a tile")

    def packed(self, int level, uint64_t index):
        cdef size_t size = fp_tile_size(&self.tile)
        out = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>size)
        cdef uint8_t *to = <uint8_t *>PyBytes_AsString(out)
        with nogil:
            fp_tile_write(&self.tile, level, index, to)
        return out
