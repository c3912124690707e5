# Picked stats of one block.


@cython.no_gc_clear  # __dealloc__ needs the Memory
cdef class Picks:
    """Columns of ``stat_count`` picked stats, which grow while sinks write into them, one after the other."""

    cdef fp_picked *stats
    cdef readonly Py_ssize_t stat_count
    cdef readonly Memory memory

    def __cinit__(self, Memory memory not None, Py_ssize_t stat_count):
        self.memory = memory
        self.stats = <fp_picked *>fp_alloc_zeroed(&memory.memory, <size_t>stat_count, sizeof(fp_picked))
        if self.stats == NULL:
            raise MemoryLimitError("out of memory while preparing columns")
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
        cdef View row = View(rows, True), kind = View(kinds, True), value = View(values, True)
        cdef View own = None if own_numbers is None else View(own_numbers)
        cdef const int32_t *numbers = NULL if own is None else <const int32_t *>own.at()
        cdef size_t end = <size_t>at + picked.count
        if at < 0 or row.size() // 4 < end or kind.size() < end or value.size() // 8 < end:
            raise ValueError("the columns are shorter than the picks")
        with nogil:
            fp_picked_copy(picked, numbers, text_base, FP_STR, <int32_t *>row.buffer.buf + at,
                           <uint8_t *>kind.buffer.buf + at, <int64_t *>value.buffer.buf + at)
