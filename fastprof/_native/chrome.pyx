"""Chrome's JSON traces to bytes of an XSpace."""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint64_t

from fastprof._native.border cimport *
from fastprof.errors import CaptureError


cdef extern from "formats/growing_bytes.h" nogil:
    ctypedef struct fp_bytes:
        uint8_t *data
        size_t size


cdef extern from "formats/chrome.h" nogil:
    ctypedef struct fp_chrome:
        pass
    ctypedef struct fp_chrome_tape:
        pass
    ctypedef struct fp_chrome_part:
        uint64_t place, length
    ctypedef struct fp_chrome_remark:
        const char *code
        const char *text
        int64_t severity
        uint64_t count, first_offset, open_brackets
    fp_chrome *fp_chrome_new(fp_memory *memory, bint salvage)
    void fp_chrome_free(fp_chrome *chrome)
    fp_code fp_chrome_push(fp_chrome *chrome, const uint8_t *data, size_t size, fp_fault *fault)
    fp_chrome_tape *fp_chrome_tape_new(fp_memory *memory)
    void fp_chrome_tape_free(fp_chrome_tape *tape)
    void fp_chrome_scan(fp_chrome *chrome, fp_chrome_tape *tape, const uint8_t *data, size_t size)
    fp_code fp_chrome_take(fp_chrome *chrome, fp_chrome_tape *tape, fp_fault *fault)
    fp_code fp_chrome_finish(fp_chrome *chrome, fp_fault *fault)
    fp_bytes *fp_chrome_spill(fp_chrome *chrome)
    const fp_chrome_part *fp_chrome_parts(const fp_chrome *chrome, size_t *count)
    const fp_chrome_remark *fp_chrome_remarks(const fp_chrome *chrome, size_t *count)
    uint64_t fp_chrome_offset(const fp_chrome *chrome)
    const fp_bytes *fp_chrome_keys(const fp_chrome *chrome)


cdef extern from "formats/json_scan.h" nogil:
    enum: FP_JSON_LARGEST_EVENT


cdef object SEVERITIES = ("info", "notice", "data_loss")
cdef enum:
    MOST_SCANNED = 1 << 28
    HELD = 1 << 26  # bytes that any document may hold: an event may be so large
    HELD_A_BYTE = 4

cdef class ChromeScribe


@cython.no_gc_clear  # __dealloc__ needs the memory of the document
@cython.final
cdef class Tape:
    """What a stretch of a document has."""

    cdef fp_chrome_tape *tape  # NULL: it was taken
    cdef ChromeScribe document

    def __dealloc__(self):
        fp_chrome_tape_free(self.tape)


@cython.final
cdef class ChromeScribe:
    """Reads one document. What it gives is to be kept, one behind the other: ``parts`` of it are the XSpace."""

    cdef fp_memory memory
    cdef fp_chrome *chrome
    cdef str path
    cdef bint finished, salvage
    cdef list unused  # tapes that were taken
    cdef int64_t pushed  # bytes

    def __cinit__(self, str path not None, bint salvage):
        start_memory(&self.memory)
        self.path = path
        self.salvage = salvage
        self.unused = []
        self.chrome = fp_chrome_new(&self.memory, salvage)
        check(FP_NO_MEMORY if self.chrome == NULL else FP_OK, "reading JSON", NULL, path)

    def __dealloc__(self):
        fp_chrome_free(self.chrome)

    cdef bytes spilled(self):
        cdef fp_bytes *spill = fp_chrome_spill(self.chrome)
        found = PyBytes_FromStringAndSize(<char *>spill.data, <Py_ssize_t>spill.size) if spill.size else b""
        spill.size = 0
        return found

    def push(self, data):
        """Takes the next bytes; returns what is to be kept. CaptureError: they are no JSON. MemoryLimitError."""
        cdef Array chunk = given(data, U8)
        cdef fp_fault fault
        cdef fp_code code
        if self.finished:
            raise ValueError("all bytes have been pushed")
        self.count(chunk.count)
        with nogil:
            code = fp_chrome_push(self.chrome, <const uint8_t *>chunk.at, chunk.count, &fault)
        self.checked(code, &fault)
        return self.spilled()

    def scan(self, data):
        """Scans the next bytes; to ``take`` what this returns is to push them. Of two threads, one may scan while the other
        takes what was scanned before, each in the order of the document. Not to be salvaged."""
        cdef Array chunk = given(data, U8)
        cdef Tape tape
        if self.finished or self.salvage or chunk.count > MOST_SCANNED:
            raise ValueError("all bytes have been pushed, or too many are, or they are salvaged")
        try:
            tape = self.unused.pop()
        except IndexError:
            tape = Tape.__new__(Tape)
            tape.tape = fp_chrome_tape_new(&self.memory)
            check(FP_NO_MEMORY if tape.tape == NULL else FP_OK, "reading JSON", NULL, self.path)
        tape.document = self
        self.count(chunk.count)
        with nogil:
            fp_chrome_scan(self.chrome, tape.tape, <const uint8_t *>chunk.at, chunk.count)
        return tape

    def take(self, Tape tape not None):
        """Takes what was scanned; returns what is to be kept. Raises what ``push`` raises."""
        cdef Tape other = Tape.__new__(Tape)
        cdef fp_fault fault
        cdef fp_code code
        if tape.tape == NULL or tape.document is not self or self.finished:
            raise ValueError("the tape is of another document, or was taken")
        other.tape, tape.tape = tape.tape, NULL
        with nogil:
            code = fp_chrome_take(self.chrome, other.tape, &fault)
        self.unused.append(other)
        self.checked(code, &fault)
        return self.spilled()

    def finish(self):
        """All bytes have been pushed; returns what is to be kept. CaptureError: it is not a trace. MemoryLimitError."""
        cdef fp_fault fault
        cdef fp_code code
        if self.finished:
            raise ValueError("all bytes have been pushed")
        self.finished = True
        with nogil:
            code = fp_chrome_finish(self.chrome, &fault)
        if code not in (FP_OK, FP_NO_MEMORY) and fault.what in (b"no traceEvents", b"no events"):
            raise self.no_trace(fault.what.decode())
        self.checked(code, &fault)
        return self.spilled()

    cdef void count(self, size_t more) noexcept:
        self.pushed += <int64_t>more
        self.memory.most = HELD + HELD_A_BYTE * self.pushed

    cdef void checked(self, fp_code code, const fp_fault *fault) except *:
        if code == FP_TOO_LONG:
            raise CaptureError(f"an event is larger than {FP_JSON_LARGEST_EVENT >> 20} MiB", path=self.path, offset=fault.offset)
        if code == FP_NO_MEMORY and self.memory.is_exceeded:
            text = f"the trace takes more memory than {HELD_A_BYTE} bytes for each byte of its text, and {HELD >> 20} MiB"
            raise CaptureError(text, path=self.path, offset=fp_chrome_offset(self.chrome))
        check(code, "reading JSON", fault if code != FP_NO_MEMORY else NULL, self.path)

    cdef object no_trace(self, str missing):
        cdef const fp_bytes *keys = fp_chrome_keys(self.chrome)
        shown = PyBytes_FromStringAndSize(<char *>keys.data, <Py_ssize_t>keys.size).decode("utf-8", "replace") if keys.size else ""
        if "traceEvents" in shown.split(", "):
            missing = "traceEvents is not an array"
        return CaptureError(f"JSON that is not a trace: {missing}", path=self.path, offset=0, salvageable=False,
                            excerpt=f"its keys are {shown}" if shown else None)

    def parts(self):
        """After finish: the parts of the XSpace, as uint64 pairs: where each stands in what was kept, and its length."""
        cdef size_t count
        cdef const fp_chrome_part *parts = fp_chrome_parts(self.chrome, &count)
        return PyBytes_FromStringAndSize(<const char *>parts, <Py_ssize_t>(count * sizeof(fp_chrome_part)))

    def remarks(self):
        """After finish: severity, code, text, count and first offset of what was remarked."""
        cdef size_t count
        cdef const fp_chrome_remark *remarks = fp_chrome_remarks(self.chrome, &count)
        found = []
        for i in range(count):
            text = remarks[i].text.decode()
            if remarks[i].open_brackets:
                text += f", with {remarks[i].open_brackets} open brackets"
            found.append((SEVERITIES[remarks[i].severity], remarks[i].code.decode(), text, remarks[i].count,
                          remarks[i].first_offset))
        return found
