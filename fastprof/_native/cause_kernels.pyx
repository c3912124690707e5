"""Kernels of causes: what a device does at each time, and what its host does meanwhile. Arrays in, arrays out."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from fastprof._native.border cimport *


cdef extern from "kernels/foremost.h" nogil:
    ctypedef struct fp_piece:
        int64_t begin
    fp_code fp_foremost(fp_memory *memory, void *begin, void *end, void *rank, size_t count, int64_t first, int64_t last,
                        fp_vector *pieces)


cdef extern from "kernels/reasons.h" nogil:
    ctypedef struct fp_code_powers:
        unsigned char takes[256]
    fp_code fp_reasons(fp_memory *memory, void *start, void *duration, void *codes, void *powers, void *lines,
                       size_t line_count, fp_vector *pieces)


SIZES = {"PIECE": sizeof(fp_piece)}
"""Of the structs that arrays hold, in bytes."""


def foremost(begin, end, rank, int64_t first, int64_t last):
    """From a first time to a last one, which of overlapping spans counts, as bytes of structs; see kernels/foremost.h.
    Spans ascend by begin."""
    cdef Array begins = given(begin, I64), ends = given(end, I64, begins.count), ranks = given(rank, I32, begins.count)
    cdef fp_vector pieces
    cdef fp_memory memory
    cdef fp_code code
    memset(&pieces, 0, sizeof(pieces))
    fp_memory_init(&memory)
    try:
        with nogil:
            code = fp_foremost(&memory, begins.at, ends.at, ranks.at, begins.count, first, last, &pieces)
        check(code, "finding the span that counts")
        return taken(&pieces, sizeof(fp_piece))
    finally:
        fp_vector_free(&memory, &pieces)


def reasons(start, duration, codes, powers, lines):
    """When which row of a line says what its thread does, as bytes of structs; see kernels/reasons.h. ``powers``:
    uint8, what each of 256 codes takes, then what each holds. ValueError: there are not as many."""
    cdef Array starts = given(start, I64), durations = given(duration, I64, starts.count)
    cdef Array chosen = given(codes, U8, starts.count), rows = given(lines, "qqq")
    cdef Array of_codes = given(powers, U8)
    cdef fp_vector pieces
    cdef fp_memory memory
    cdef fp_code code
    slices(rows, starts.count)
    if of_codes.count != sizeof(fp_code_powers):
        raise ValueError("powers are those of 256 codes")
    memset(&pieces, 0, sizeof(pieces))
    fp_memory_init(&memory)
    try:
        with nogil:
            code = fp_reasons(&memory, starts.at, durations.at, chosen.at, of_codes.at, rows.at, rows.count, &pieces)
        check(code, "finding what threads do")
        return taken(&pieces, sizeof(fp_piece))
    finally:
        fp_vector_free(&memory, &pieces)
