# Where a fill writes to: which events it keeps, picked stats, and columns.


@cython.final
cdef class Filter:
    """Which events a fill keeps: by a byte per event metadata, and by time."""

    cdef fp_filter filter
    cdef Array keep

    def __cinit__(self, keep_meta, bint keep_unnamed, time_ps):
        self.keep = maybe(keep_meta, U8)
        self.filter.keep_meta = self.keep.at
        self.filter.keep_unnamed = keep_unnamed
        if time_ps is not None:
            self.filter.timed = 1
            self.filter.from_ps, self.filter.to_ps = time_ps


@cython.no_gc_clear  # __dealloc__ needs the Memory
@cython.final
cdef class Picks:
    """Columns of ``stat_count`` picked stats, which grow while sinks write into them, one after the other."""

    cdef fp_picked *stats
    cdef readonly Py_ssize_t stat_count
    cdef readonly Memory memory

    def __cinit__(self, Memory memory not None, Py_ssize_t stat_count):
        self.memory = memory
        self.stats = <fp_picked *>fp_alloc_zeroed(&memory.memory, <size_t>stat_count, sizeof(fp_picked))
        check(FP_NO_MEMORY if self.stats == NULL else FP_OK, "preparing columns")
        self.stat_count = stat_count

    def __dealloc__(self):
        if self.memory is not None and self.stats != NULL:
            for i in range(self.stat_count):
                fp_picked_free(&self.memory.memory, &self.stats[i])
            fp_release(&self.memory.memory, self.stats)

    def counts(self):
        """How many values each stat has."""
        return [self.stats[i].count for i in range(self.stat_count)]

    def clear(self):
        """Forgets the values; their memory is kept for others."""
        for i in range(self.stat_count):
            self.stats[i].count = 0

    def copy(self, int stat, Py_ssize_t at, rows, kinds, values, own_numbers=None, int64_t text_base=0):
        """Copies the values of a stat into columns, int32, uint8 and int64, from ``at`` on. Own texts, from ``text_base``
        on, become what ``own_numbers``, int32s, calls them."""
        if not 0 <= stat < self.stat_count:
            raise IndexError(stat)
        cdef fp_picked *picked = &self.stats[stat]
        cdef Array row = room(rows, I32), kind = room(kinds, U8), value = room(values, I64), own = maybe(own_numbers, I32)
        cdef size_t end = <size_t>at + picked.count, i
        cdef bint unknown = False
        if at < 0 or row.count < end or kind.count < end or value.count < end:
            raise ValueError("the columns are shorter than the picks")
        with nogil:
            if own.held:
                for i in range(picked.count):
                    unknown |= picked.kind[i] == FP_STR and picked.value[i] - text_base >= <int64_t>own.count
            if not unknown:
                fp_picked_copy(picked, own.at, text_base, FP_STR, <int32_t *>row.at + at, <uint8_t *>kind.at + at,
                               <int64_t *>value.at + at)
        if unknown:
            raise IndexError("a text has no number")


cdef object SINK_COLUMNS = frozenset((
    "host", "plane", "line", "name", "stat", "text", "event_id", "metadata_id", "start_ps", "duration_ps",
    "num_occurrences", "plane_id", "line_id", "present", "stat_event_id", "int_value", "double_value", "kind",
))
cdef object SINK_TABLES = frozenset((
    "meta_names", "meta_ids", "stat_names", "stat_texts", "wide_of_stat", "pick_of_stat", "pick_parts",
))


@cython.no_gc_clear  # __dealloc__ needs the Memory
@cython.final
cdef class Sink:
    """The columns that one fill writes into, and what it adds: texts, places of bytes, faults.

    Columns are given by the names of struct fp_sink; those that are not given are not decoded.
    """

    cdef fp_sink sink
    cdef Memory memory
    cdef list held
    cdef Filter filter
    cdef readonly Picks picks
    cdef size_t rows, stat_rows, metas, stats, parts  # the shortest of the arrays that C indexes by each

    def __cinit__(self, Memory memory not None, dict columns not None, dict tables not None, Filter filter=None,
                  wide=(), int64_t text_base=0, bint want_stats=False, Picks picks=None):
        unknown = (columns.keys() | tables.keys()) - SINK_COLUMNS - SINK_TABLES
        if unknown:
            raise KeyError(unknown.pop())
        self.memory = memory
        self.held = []
        self.rows = self.stat_rows = self.metas = self.stats = self.parts = SIZE_MAX
        self.sink.texts.memory = &memory.memory
        self.sink.text_base = text_base
        self.sink.want_stats = want_stats
        if filter is not None:
            self.filter = filter
            self.sink.filter = &filter.filter
        if picks is not None:
            self.picks = picks
            self.sink.picks = picks.stats
        self.set_event_columns(columns)
        self.set_stat_columns(columns)
        self.set_wide(wide)
        self.set_tables(tables)

    def __dealloc__(self):
        if self.memory is not None:
            fp_release(&self.memory.memory, self.sink.wide)
            fp_strings_free(&self.sink.texts)
            fp_vector_free(&self.memory.memory, &self.sink.bytes)
            fp_vector_free(&self.memory.memory, &self.sink.faults)

    cdef void *hold(self, array, const char *layout, size_t *least, bint writable=True) except? NULL:
        """Where the array lies; NULL for None."""
        cdef Array held
        if array is None:
            return NULL
        held = room(array, layout) if writable else given(array, layout)
        self.held.append(held)
        least[0] = min(least[0], held.count)
        return held.at

    cdef fp_index_column index(self, array, size_t *least) except *:
        """A column of int8, int16 or int32."""
        cdef fp_index_column column = fp_index_column(NULL, 0)
        if array is not None:
            column.width = min(array.itemsize, 4)
            column.to = self.hold(array, U8 if column.width == 1 else I16 if column.width == 2 else I32, least)
        return column

    cdef int set_event_columns(self, dict columns) except -1:
        cdef size_t *rows = &self.rows
        self.sink.event_id = self.hold(columns.get("event_id"), I64, rows)
        self.sink.metadata_id = self.hold(columns.get("metadata_id"), I64, rows)
        self.sink.start_ps = self.hold(columns.get("start_ps"), I64, rows)
        self.sink.duration_ps = self.hold(columns.get("duration_ps"), I64, rows)
        self.sink.num_occurrences = self.hold(columns.get("num_occurrences"), I64, rows)
        self.sink.plane_id = self.hold(columns.get("plane_id"), I32, rows)
        self.sink.line_id = self.hold(columns.get("line_id"), I32, rows)
        self.sink.present = self.hold(columns.get("present"), U8, rows)
        self.sink.host = self.index(columns.get("host"), rows)
        self.sink.plane = self.index(columns.get("plane"), rows)
        self.sink.line = self.index(columns.get("line"), rows)
        self.sink.name = self.index(columns.get("name"), rows)
        return 0

    cdef int set_stat_columns(self, dict columns) except -1:
        cdef size_t *rows = &self.stat_rows
        self.sink.stat_event_id = self.hold(columns.get("stat_event_id"), I64, rows)
        self.sink.int_value = self.hold(columns.get("int_value"), I64, rows)
        self.sink.double_value = self.hold(columns.get("double_value"), F64, rows)
        self.sink.kind = self.hold(columns.get("kind"), U8, rows)
        self.sink.stat = self.index(columns.get("stat"), rows)
        self.sink.text = self.index(columns.get("text"), rows)
        return 0

    cdef int set_wide(self, wide) except -1:
        cdef fp_wide_column *column
        self.sink.wide = <fp_wide_column *>fp_alloc_zeroed(&self.memory.memory, len(wide), sizeof(fp_wide_column))
        check(FP_NO_MEMORY if self.sink.wide == NULL else FP_OK, "preparing columns")
        self.sink.wide_count = len(wide)
        for i, (kind, value, default_kind, default_value) in enumerate(wide):
            column = &self.sink.wide[i]
            column.kind, column.value = self.hold(kind, U8, &self.rows), self.hold(value, I64, &self.rows)
            column.default_kind = self.hold(default_kind, U8, &self.metas, False)
            column.default_value = self.hold(default_value, I64, &self.metas, False)
            if column.kind == NULL or column.value == NULL or (column.default_value == NULL) != (default_kind is None):
                raise ValueError("a column has a kind and a value, and both defaults or none")
        return 0

    cdef int set_tables(self, dict tables) except -1:
        cdef Array wide = maybe(tables.get("wide_of_stat"), I32), picks = maybe(tables.get("pick_of_stat"), I16)
        self.sink.meta_names = self.hold(tables.get("meta_names"), I32, &self.metas, False)
        self.sink.meta_ids = self.hold(tables.get("meta_ids"), I64, &self.metas, False)
        self.sink.stat_names = self.hold(tables.get("stat_names"), I32, &self.stats, False)
        self.sink.stat_texts = self.hold(tables.get("stat_texts"), I32, &self.stats, False)
        self.sink.wide_of_stat = self.hold(tables.get("wide_of_stat"), I32, &self.stats, False)
        self.sink.pick_of_stat = self.hold(tables.get("pick_of_stat"), I16, &self.stats, False)
        self.sink.pick_parts = self.hold(tables.get("pick_parts"), U8, &self.parts, False)
        if picks.held and (self.picks is None or self.sink.pick_parts == NULL):
            raise ValueError("there are no columns for picks")
        within(wide, -1, self.sink.wide_count)
        within(picks, -1, 0 if self.picks is None else self.picks.stat_count)
        if (self.sink.name.to != NULL and self.sink.meta_names == NULL) or (
                self.sink.stat.to != NULL and self.sink.stat_names == NULL):
            raise ValueError("there are no names for a column of names")
        return 0

    cdef int fits(self, fp_xspace *xspace) except -1:
        """Raises ValueError where a table is shorter than those of the capture."""
        if self.metas < xspace.event_metas.count or self.stats < xspace.stat_metas.count or self.parts < xspace.part_count:
            raise ValueError("a table is shorter than those of the capture")
        return 0

    @property
    def unnamed(self):
        return self.sink.unnamed

    def texts(self):
        """What the stats' own texts are: (int64 offsets, bytes); numbered from text_base on."""
        if not self.sink.texts.offsets.count:
            return bytes(8), b""
        return taken(&self.sink.texts.offsets, 8), taken(&self.sink.texts.bytes, 1)

    def bytes_at(self):
        return taken(&self.sink.bytes, sizeof(fp_bytes_at))

    def faults(self):
        return faults_of(&self.sink.faults)
