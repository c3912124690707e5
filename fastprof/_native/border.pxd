# What every array, status and block of memory passes through on its way between Python and C.
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t


cdef extern from "status.h" nogil:
    ctypedef enum fp_code:
        FP_OK, FP_NO_MEMORY, FP_CHANGED, FP_OVERFLOW, FP_UNSORTED, FP_OUT_OF_RANGE, FP_CROSSED, FP_TOO_LONG, FP_UNREADABLE, FP_TOO_MANY
    ctypedef struct fp_fault:
        fp_code code
        uint64_t offset
        const char *what
    const char *fp_code_name(fp_code code)
    const char *fp_code_text(fp_code code)


cdef extern from "large_blocks.h" nogil:
    size_t FP_LARGE
    ctypedef struct fp_blocks:
        size_t large
        int64_t bound, in_memory, in_files, most_in_memory, most_in_files, refused
    void fp_block_free(fp_blocks *blocks, void *block)
    bint fp_blocks_bind(fp_blocks *blocks, int64_t bound, int64_t beside, size_t large, const char *folder)


cdef extern from "memory.h" nogil:
    ctypedef struct fp_memory:
        int64_t live
        int64_t countdown, held, most
        bint is_exceeded
        fp_blocks *blocks
    ctypedef struct fp_vector:
        void *items
        size_t count, capacity
    void *fp_alloc_zeroed(fp_memory *memory, size_t count, size_t item_size)
    void fp_release(fp_memory *memory, void *block)
    void fp_give_away(fp_memory *memory, void *block)
    void fp_vector_free(fp_memory *memory, fp_vector *vector)


cdef extern from *:
    """
    /* Layouts of items, in the letters of Python's struct module: a letter a field, fields without gaps. */
    #define U8 "B"
    #define I16 "h"
    #define U16 "H"
    #define I32 "i"
    #define U32 "I"
    #define I64 "q"
    #define U64 "Q"
    #define F64 "d"
    """
    const char *U8
    const char *I16
    const char *U16
    const char *I32
    const char *U32
    const char *I64
    const char *U64
    const char *F64


# Pointers to arrays are declared as pointers to anything: `given` and `room` hold what they point to.
cdef extern from "kernels/nesting.h" nogil:
    ctypedef struct fp_line_rows:
        int64_t first, last, event_id


@cython.final
cdef class Array:
    """A checked array, held for as long as C may use it: NULL and no items where there is none."""

    cdef Py_buffer buffer
    cdef bint held
    cdef const char *layout
    cdef void *at
    cdef size_t count, size


cdef void start_memory(fp_memory *memory) noexcept
cdef Array given(array, const char *layout, Py_ssize_t count=*)
cdef Array maybe(array, const char *layout, Py_ssize_t count=*)
cdef Array room(array, const char *layout, Py_ssize_t count=*)
cdef int within(Array array, int64_t least, int64_t limit, int field=*) except -1
cdef int bounds(Array array, int64_t limit) except -1
cdef int covers(Array array, int64_t limit) except -1
cdef int slices(Array array, int64_t limit, size_t numbers=*) except -1
cdef int spans(Array array, uint64_t size) except -1
cdef int vector_spans(const fp_vector *vector, size_t item_size, uint64_t size) except -1
cdef int is_sorted(Array array) except -1
cdef int check(fp_code code, str doing, const fp_fault *fault=*, path=*) except -1
cdef object moved(fp_memory *memory, fp_vector *vector, size_t item_size)
cdef bytes taken(const fp_vector *vector, size_t item_size)
