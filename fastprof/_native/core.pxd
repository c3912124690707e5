# The C core's status, memory and strings, as every extension module sees them.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t


cdef extern from "status.h" nogil:
    ctypedef enum fp_code:
        FP_OK, FP_NO_MEMORY, FP_CHANGED
    ctypedef struct fp_fault:
        fp_code code
        uint64_t offset
        const char *what
    const char *fp_code_name(fp_code code)
    const char *fp_code_text(fp_code code)


cdef extern from "memory.h" nogil:
    ctypedef struct fp_memory:
        int64_t live
        int64_t countdown
    ctypedef struct fp_vector:
        void *items
        size_t count
    void fp_memory_init(fp_memory *memory)
    void *fp_alloc_zeroed(fp_memory *memory, size_t count, size_t item_size)
    void fp_release(fp_memory *memory, void *block)
    void fp_vector_free(fp_memory *memory, fp_vector *vector)


cdef extern from "columns/strings.h" nogil:
    ctypedef struct fp_strings:
        fp_memory *memory
        fp_vector bytes
        fp_vector offsets
    int32_t fp_strings_add(fp_strings *pool, const uint8_t *text, size_t length)
    int32_t fp_strings_find(const fp_strings *pool, const uint8_t *text, size_t length)
    size_t fp_strings_count(const fp_strings *pool)
    void fp_strings_free(fp_strings *pool)
