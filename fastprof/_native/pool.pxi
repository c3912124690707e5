# Pools of texts.


@cython.no_gc_clear  # __dealloc__ needs the Memory
@cython.final
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
        number = fp_strings_add(&self.strings, <const uint8_t *><const char *>text, len(text))
        check(FP_NO_MEMORY if number < 0 else FP_OK, "collecting names")
        return number

    def find(self, bytes text not None):
        return fp_strings_find(&self.strings, <const uint8_t *><const char *>text, len(text))

    def add_all(self, offsets, data):
        """Adds texts given as Arrow has them, int64 offsets and bytes; returns their numbers, int32."""
        cdef Array places = given(offsets, I64), text = given(data, U8)
        cdef const int64_t *at = <const int64_t *>places.at
        cdef size_t count = places.count - 1 if places.count else 0, i
        numbers = bytearray(4 * count)
        cdef Array out = room(numbers, U8)
        cdef int32_t *number = <int32_t *>out.at
        cdef fp_code code = FP_OK
        if count:
            bounds(places, text.count)
        with nogil:
            for i in range(count):
                number[i] = fp_strings_add(&self.strings, <const uint8_t *>text.at + at[i], <size_t>(at[i + 1] - at[i]))
                if number[i] < 0:
                    code = FP_NO_MEMORY
                    break
        check(code, "collecting names")
        return numbers

    def arrow_buffers(self):
        """(int64 offsets, bytes), as Arrow wants them for a large_string of len(self)."""
        if not self.strings.offsets.count:
            return bytes(8), b""
        return taken(&self.strings.offsets, 8), taken(&self.strings.bytes, 1)
