"""The border between Python and C: the one place where arrays are checked and where a status becomes an exception."""

cimport cython
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBUF_WRITABLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromObject
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint64_t, uintptr_t

from fastprof.errors import CaptureError, ChangedError, MemoryLimitError, UnreadableError


cdef extern from "columns/bounds.h" nogil:
    ctypedef struct fp_numbers:
        const void *first
        size_t count, stride
        char code
    bint fp_all_within(const fp_numbers *numbers, int64_t least, int64_t limit)
    bint fp_are_bounds(const int64_t *bounds, size_t count, int64_t limit)
    bint fp_are_slices(const int64_t *first, size_t count, size_t stride, int64_t limit)
    bint fp_are_spans(const uint64_t *first, size_t count, size_t stride, uint64_t size)
    bint fp_are_sorted(const int32_t *first, size_t count, size_t stride)

cdef extern from "memory.h" nogil:
    void fp_memory_init(fp_memory *memory)


cdef extern from "numpy_arrays.h" nogil:
    const char *FP_NUMPY_HANDLER
    size_t FP_NUMPY_SET_HANDLER
    ctypedef struct fp_numpy_handler:
        pass
    fp_numpy_handler fp_numpy_handle(fp_blocks *blocks)


ctypedef object (*set_handler)(object)

cdef fp_blocks blocks
"""Large blocks of this process: of the C core, and of numpy's arrays in threads that ``adopt_arrays`` was called in."""
blocks.bound, blocks.large = INT64_MAX, FP_LARGE
cdef fp_numpy_handler handler = fp_numpy_handle(&blocks)


cdef void start_memory(fp_memory *memory) noexcept:
    """Begin an allocator, which shares the large blocks of this process."""
    fp_memory_init(memory)
    memory.blocks = &blocks


def bind_blocks(int64_t bound, bytes folder not None, size_t large=FP_LARGE, int64_t beside=0):
    """Put large blocks made from now on into files in ``folder`` where ``bound`` bytes of them lie in memory. ``large``: bytes from
    which on a block is large; change it only before the first block. ``beside``: bytes of other memory of the process; what
    it takes beyond them lowers the bound. 0: it is not measured.

    Returns whether the path of the folder is short enough. Not while another thread makes blocks.
    """
    return bool(fp_blocks_bind(&blocks, bound, beside, large, folder))


def adopt_arrays(capsule):
    """Make numpy keep arrays that the calling thread makes among the large blocks. ``capsule``: numpy's C API."""
    cdef void **api = <void **>PyCapsule_GetPointer(capsule, NULL)
    (<set_handler>api[FP_NUMPY_SET_HANDLER])(PyCapsule_New(&handler, FP_NUMPY_HANDLER, NULL))


def sum_blocks():
    """Bytes of large blocks: in memory, in files, the most in memory and in files since the bound was set; and how many
    lie in memory beyond the bound because no file could be made."""
    return blocks.in_memory, blocks.in_files, blocks.most_in_memory, blocks.most_in_files, blocks.refused


@cython.final
cdef class Array:
    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.buffer)


cdef size_t width(char letter) noexcept:
    return 1 if letter == c"B" else 2 if letter in b"hH" else 4 if letter in b"iI" else 8


cdef char letter_of(char written) noexcept:
    """The same for a type of C's that is as wide; 0: no type that crosses the border."""
    if written in b"BhHiIqQd":
        return written
    return c"q" if written == c"l" else c"Q" if written == c"L" else c"B" if written in b"?bc" else 0


cdef bint is_laid_out(const char *written, const char *layout) noexcept:
    """Whether a buffer's format, such as ``T{l:first:l:last:}``, has the letters of a layout."""
    if written == NULL:
        return layout[0] == c"B" and layout[1] == 0
    if written[0] == c"T" and written[1] == c"{":
        written += 2
    while written[0] and written[0] != c"}":
        if written[0] == c":":
            written += 1
            while written[0] and written[0] != c":":
                written += 1
        elif written[0] not in b"<=@":  # all machines that this runs on are little-endian
            if letter_of(written[0]) != layout[0] or not layout[0]:
                return False
            layout += 1
        written += 1
    return layout[0] == 0


cdef Array borrowed(array, const char *layout, Py_ssize_t count, int flags):
    cdef Array self = Array.__new__(Array)
    cdef const char *letter = layout
    PyObject_GetBuffer(array, &self.buffer, PyBUF_ND | PyBUF_FORMAT | flags)
    self.held = True
    while letter[0]:
        self.size += width(letter[0])
        letter += 1
    if (self.buffer.len or self.buffer.itemsize != 1) and not (  # no bytes are no items, whatever these are
            is_laid_out(self.buffer.format, layout) and <size_t>self.buffer.itemsize == self.size):
        written = b"B" if self.buffer.format == NULL else <bytes>self.buffer.format
        raise TypeError(f"an array of {written.decode()} where C reads items of {(<bytes>layout).decode()}")
    self.count = <size_t>self.buffer.len // self.size
    if count >= 0 and self.count != <size_t>count:
        raise ValueError(f"columns differ in length: {self.count} items where there are {count}")
    if self.count and <uintptr_t>self.buffer.buf % width(layout[0]):
        raise ValueError("an array does not begin at a multiple of the size of its numbers")
    self.layout, self.at = layout, self.buffer.buf
    return self


cdef Array given(array, const char *layout, Py_ssize_t count=-1):
    """A contiguous array that is only read: of this layout, and, unless ``count`` is -1, of that many items.

    Raises TypeError for another layout, ValueError for another length, and what the array raises that is not contiguous.
    """
    return borrowed(array, layout, count, 0)


cdef Array maybe(array, const char *layout, Py_ssize_t count=-1):
    """The same, or no array for None."""
    return Array.__new__(Array) if array is None else borrowed(array, layout, count, 0)


cdef Array room(array, const char *layout, Py_ssize_t count=-1):
    """The same of an array that is written; one that is read-only raises ValueError or BufferError."""
    return borrowed(array, layout, count, PyBUF_WRITABLE)


cdef int within(Array array, int64_t least, int64_t limit, int field=0) except -1:
    """Raises IndexError unless all numbers, of structs those of one field, are from ``least`` on and below ``limit``."""
    cdef size_t before = 0
    cdef fp_numbers numbers
    cdef bint inside
    for i in range(field):
        before += width(array.layout[i])
    if array.count:
        numbers = fp_numbers(<const char *>array.at + before, array.count, array.size, array.layout[field])
        with nogil:
            inside = fp_all_within(&numbers, least, limit)
        if not inside:
            raise IndexError(f"an index is not from {least} on and below {limit}")
    return 0


cdef int bounds(Array array, int64_t limit) except -1:
    """Raises ValueError unless there is a bound, and all ascend from 0 or more up to ``limit`` or less."""
    if not fp_are_bounds(<const int64_t *>array.at, array.count, limit):
        raise ValueError(f"bounds do not ascend from 0 to {limit}")
    return 0


cdef int covers(Array array, int64_t limit) except -1:
    """The same of bounds that leave out nothing: the first is 0 and the last is ``limit``."""
    bounds(array, limit)
    if (<const int64_t *>array.at)[0] != 0 or (<const int64_t *>array.at)[array.count - 1] != limit:
        raise ValueError(f"bounds do not ascend from 0 to {limit}")
    return 0


cdef int slices(Array array, int64_t limit, size_t numbers=1) except -1:
    """Raises ValueError unless the first two int64s of all structs, or of all ``numbers`` int64s, are slices of rows."""
    if array.count % numbers:
        raise ValueError(f"the length of an array is no multiple of {numbers}")
    if not fp_are_slices(<const int64_t *>array.at, array.count // numbers, array.size * numbers, limit):
        raise ValueError(f"a line has rows that are not among the {limit}")
    return 0


cdef int spans(Array array, uint64_t size) except -1:
    """Raises ValueError unless the first two uint64s of all structs are an offset and a length within the given bytes."""
    cdef fp_vector items
    items.items, items.count = array.at, array.count
    return vector_spans(&items, array.size, size)


cdef int vector_spans(const fp_vector *vector, size_t item_size, uint64_t size) except -1:
    """The same of structs that C has found."""
    if not fp_are_spans(<const uint64_t *>vector.items, vector.count, item_size, size):
        raise ValueError(f"something lies outside of the {size} bytes")
    return 0


cdef int is_sorted(Array array) except -1:
    """Raises ValueError where the first int32 of an item is below that of the item before it."""
    if not fp_are_sorted(<const int32_t *>array.at, array.count, array.size):
        raise ValueError("an array is not sorted")
    return 0


cdef int check(fp_code code, str doing, const fp_fault *fault=NULL, path=None) except -1:
    """Raises what a status that is not FP_OK stands for. ``doing`` names the work, such as "nesting events"."""
    if code == FP_OK:
        return 0
    if fault != NULL and fault.what != NULL:
        doing = f"reading {fault.what.decode()}"
    if code == FP_NO_MEMORY:
        raise MemoryLimitError(f"out of memory while {doing}", path=path)
    if code == FP_CHANGED:
        raise ChangedError("the file changed while it was being read; load it again", path=path)
    if code == FP_UNREADABLE:
        raise UnreadableError(f"{fp_code_text(code).decode()} while {doing}", path=path)
    if code == FP_OVERFLOW:
        raise OverflowError(fp_code_text(code).decode())
    if code == FP_UNSORTED or code == FP_OUT_OF_RANGE:
        raise ValueError(fp_code_text(code).decode())
    raise CaptureError(f"{fp_code_text(code).decode()}, {doing}", path=path, offset=None if fault == NULL else fault.offset)


@cython.final
cdef class Items:
    """The bytes of a vector that C made, which are read-only."""

    cdef void *at
    cdef Py_ssize_t size

    def __dealloc__(self):
        fp_block_free(&blocks, self.at)

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.at, self.size, True, flags)


cdef object moved(fp_memory *memory, fp_vector *vector, size_t item_size):
    """The items, as a memoryview of bytes that nobody copied; the vector is empty then."""
    cdef Items self = Items.__new__(Items)
    fp_give_away(memory, vector.items)
    self.at, self.size = vector.items, <Py_ssize_t>(vector.count * item_size)
    vector.items, vector.count, vector.capacity = NULL, 0, 0
    return PyMemoryView_FromObject(self)


cdef bytes taken(const fp_vector *vector, size_t item_size):
    """The items as bytes; the vector is left as it is."""
    return PyBytes_FromStringAndSize(<char *>vector.items, <Py_ssize_t>(vector.count * item_size))
