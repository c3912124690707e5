# Pools of texts.


@cython.no_gc_clear  # __dealloc__ needs the Memory
cdef class Pool:
    """Distinct texts, numbered in the order in which they were first met."""

    cdef fp_strings strings
    cdef Memory memory

    def __cinit__(self, Memory memory not None):
        self.memory = memory
        self.strings.memory = &memory.memory

    def __dealloc__(self):
        if self.memory is not None:
            fp_strings_free(&self.strings)

    def __len__(self):
        return fp_strings_count(&self.strings)

    def add(self, bytes text not None):
        cdef const uint8_t *start = <const uint8_t *><const char *>text
        number = fp_strings_add(&self.strings, start, len(text))
        if number < 0:
            raise MemoryLimitError("out of memory while collecting names")
        return number

    def find(self, bytes text not None):
        return fp_strings_find(&self.strings, <const uint8_t *><const char *>text, len(text))

    def add_all(self, offsets, data):
        """Adds texts given as Arrow has them, int64 offsets and bytes; returns their numbers, int32."""
        cdef View at = View(offsets), text = View(data)
        cdef const int64_t *begins = <const int64_t *>at.at()
        cdef size_t count = at.size() // 8
        cdef size_t i
        cdef int32_t number = 0
        numbers = bytearray(4 * (count - 1) if count else 0)
        cdef View out = View(numbers, True)
        with nogil:
            for i in range(count - 1 if count else 0):
                number = fp_strings_add(&self.strings, <const uint8_t *>text.buffer.buf + begins[i],
                                        <size_t>(begins[i + 1] - begins[i]))
                if number < 0:
                    break
                (<int32_t *>out.buffer.buf)[i] = number
        if number < 0:
            raise MemoryLimitError("out of memory while collecting names")
        return numbers

    def arrow_buffers(self):
        """(int64 offsets, bytes), as Arrow wants them for a large_string of len(self)."""
        if not self.strings.offsets.count:
            return bytes(8), b""
        return take(self.strings.memory, &self.strings.offsets, 8), take(self.strings.memory, &self.strings.bytes, 1)
