# What the modules of kernels share, included where it is used: a cdef class belongs to one module.
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer


cdef class Borrowed:
    """A buffer that is held for as long as C may use it."""

    cdef Py_buffer buffer
    cdef bint held

    def __cinit__(self, obj, bint writable=False):
        PyObject_GetBuffer(obj, &self.buffer, PyBUF_WRITABLE if writable else PyBUF_SIMPLE)
        self.held = True

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.buffer)
