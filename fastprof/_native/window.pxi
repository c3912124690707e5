# The bytes of captures, and the windows through which the core reads them.

cdef object NUMBERS = count(1)
cdef enum: MOST_KEPT = 1 << 23, MOST_WINDOWS = 64


@cython.final
cdef class Window:
    """A buffer for stretches of files. One call has it at a time; a Memory, which outlives it, keeps those that none has."""

    cdef fp_window window
    cdef uint64_t holds  # the number of the Bytes that it holds a stretch of; 0: of none
    cdef object fetch  # of a file whose bytes come when they are needed
    cdef BaseException failure  # raised by fetch

    def __dealloc__(self):
        if self.window.memory != NULL:
            fp_window_free(&self.window)


cdef fp_code fetch_bytes(void *context, uint64_t begin, uint64_t end) noexcept with gil:
    cdef Window window = <Window>context
    try:
        window.fetch(begin, end)
    except BaseException as error:
        window.failure = error
        return FP_UNREADABLE
    return FP_OK


@cython.final
cdef class Memory:
    """Where the core allocates from; counts blocks, and fails on demand, for tests."""

    cdef fp_memory memory
    cdef list windows

    def __cinit__(self):
        start_memory(&self.memory)
        self.windows = []

    @property
    def live(self):
        """How many blocks are in use; buffers that no call reads through are released first."""
        self.windows.clear()
        return self.memory.live

    def fail_after(self, int64_t allocations):
        """Allocations fail after this number of further ones; negative: none fails."""
        self.memory.countdown = allocations

    cdef Window window(self):
        cdef Window window
        try:
            return self.windows.pop()
        except IndexError:
            window = Window.__new__(Window)
            fp_window_begin(&window.window, &self.memory)
            return window

    cdef int give_back(self, Window window) except -1:
        window.fetch = window.failure = None
        if window.window.capacity <= MOST_KEPT and len(self.windows) < MOST_WINDOWS:
            self.windows.append(window)
        return 0


cdef int begins_of_parts(Array parts, uint64_t size) except -1:
    """Raises ValueError unless parts begin at 0 and ascend, all within ``size``."""
    cdef const fp_window_part *part = <const fp_window_part *>parts.at
    cdef size_t i
    for i in range(parts.count):
        if part[i].begin >= size or (part[i].begin <= part[i - 1].begin if i else part[i].begin != 0):
            raise ValueError("parts do not ascend from 0 within the bytes")
    return 0


@cython.final
cdef class Bytes:
    """The bytes of a capture: in memory, or ``size`` bytes in a file.

    ``parts``: where they stand in the file, if not in their order: for each part, where it begins in the capture and in
    the file. ``data``: a buffer, or an object with ``begin()``, which returns a descriptor to read from, and ``end()``, which raises
    ChangedError where the file is not what it was. What is read between the two is not used unless ``end`` accepts it.
    ``fetch(begin, end)`` of the object, unless it is None, is called before these bytes of the file are read, in any thread.
    """

    cdef Array data, parts
    cdef object file
    cdef readonly uint64_t size
    cdef uint64_t number

    def __cinit__(self, data, size=None, parts=None):
        self.number = next(NUMBERS)
        if size is None:
            self.data = given(data, U8)
            self.size = self.data.count
        else:
            self.file, self.size = data, size
            self.parts = maybe(parts, WINDOW_PART)
            begins_of_parts(self.parts, self.size)

    cdef Window begin(self, Memory memory):
        """A window for one call; ``end`` must follow."""
        cdef Window window = memory.window()
        if self.file is None:
            fp_window_of_memory(&window.window, <const uint8_t *>self.data.at, self.size)
        else:
            try:
                fp_window_of_file(&window.window, self.file.begin(), self.size, window.holds == self.number)
                window.window.parts = <const fp_window_part *>self.parts.at
                window.window.part_count = self.parts.count
                window.fetch = self.file.fetch
                if window.fetch is not None:
                    window.window.fetch = fetch_bytes
                    window.window.fetched_for = <void *>window
            except BaseException:
                memory.give_back(window)
                raise
        window.holds = self.number
        return window

    cdef int end(self, Memory memory, Window window, fp_code code, str doing, const fp_fault *fault, str path) except -1:
        """Raises the exception of a status; that of a failed fetch; ChangedError, whatever the status, if the file has changed."""
        try:
            if self.file is not None:
                self.file.end()
            if window.failure is not None:
                raise window.failure
        except BaseException:
            window.holds = 0
            raise
        finally:
            memory.give_back(window)
        return check(code, doing, fault, path)

    cdef list copies(self, Memory memory, offsets, lengths, str path):
        """Copies of the bytes at these places."""
        cdef Array at = given(offsets, U64), sizes = given(lengths, U64, at.count)
        cdef const uint64_t *offset = <const uint64_t *>at.at
        cdef const uint64_t *length = <const uint64_t *>sizes.at
        cdef fp_fault fault
        cdef fp_code code = FP_OK
        cdef size_t i
        cdef uint8_t *to
        cdef Window window
        cdef list found = []
        for i in range(at.count):
            if offset[i] > self.size or length[i] > self.size - offset[i]:
                raise ValueError("bytes lie outside of the capture")
            found.append(PyBytes_FromStringAndSize(NULL, <Py_ssize_t>length[i]))
        window = self.begin(memory)
        fault.what = NULL
        for i in range(at.count):
            to = <uint8_t *>PyBytes_AsString(found[i])
            with nogil:
                code = fp_window_copy(&window.window, offset[i], length[i], to)
            if code != FP_OK:
                break
        self.end(memory, window, code, DOING, &fault, path)
        return found
