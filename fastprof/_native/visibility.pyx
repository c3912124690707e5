"""Which events XProf's streaming trace viewer shows: arrays in, arrays out; see kernels/visibility.h."""

cimport cython
from libc.stdint cimport INT32_MAX, int64_t, uint64_t

from fastprof._native.border cimport *


cdef extern from "kernels/visibility.h" nogil:
    ctypedef struct fp_traced:
        void *start
        void *duration
        void *tracks
        void *points
        void *flow
        void *flow_end
        size_t track_count, flow_count
    ctypedef struct fp_view:
        uint64_t begin, end, resolution
    fp_code fp_traced_order(fp_memory *memory, const fp_traced *traced, void *order)
    void fp_traced_serials(const fp_traced *traced, void *order, void *serial)
    fp_code fp_traced_layers(fp_memory *memory, const fp_traced *traced, void *order, void *layer)
    fp_code fp_traced_visible(fp_memory *memory, const fp_traced *traced, void *order, void *layer, void *hidden,
                              const fp_view *view, void *visible)


@cython.final
cdef class Traced:
    """Events by track: start, duration (uint64), tracks (int64 bounds), points (uint8 by track), flow (int32 below
    flow_count, -1: none), flow_end (uint8)."""

    cdef fp_traced traced
    cdef size_t count
    cdef tuple held

    def __cinit__(self, start, duration, tracks, points, flow, flow_end, size_t flow_count):
        cdef Array starts = given(start, U64), durations = given(duration, U64, starts.count), edges = given(tracks, I64)
        cdef Array flows = given(flow, I32, starts.count), ends = given(flow_end, U8, starts.count), dots
        covers(edges, starts.count)
        within(flows, -1, flow_count)
        dots = given(points, U8, edges.count - 1)
        if starts.count > INT32_MAX or edges.count > INT32_MAX:
            raise ValueError("there are too many events or tracks")
        self.held = (starts, durations, edges, dots, flows, ends)
        self.count = starts.count
        self.traced = fp_traced(
            starts.at, durations.at, edges.at, dots.at, flows.at, ends.at, edges.count - 1, flow_count)

    cdef Array ordered(self, order):
        cdef Array places = given(order, I32, self.count)
        within(places, 0, self.count)
        return places

    def order(self, order):
        """Writes the events of all tracks in one order: int32."""
        cdef Array out = room(order, I32, self.count)
        cdef fp_memory memory
        cdef fp_code code
        start_memory(&memory)
        with nogil:
            code = fp_traced_order(&memory, &self.traced, out.at)
        check(code, "putting events in order")

    def serials(self, order, serial):
        """Writes numbers that distinguish events with the same start: uint32."""
        cdef Array places = self.ordered(order), out = room(serial, U32, self.count)
        with nogil:
            fp_traced_serials(&self.traced, places.at, out.at)

    def layers(self, order, layer):
        """Writes the layer that each event is kept in: uint8."""
        cdef Array places = self.ordered(order), out = room(layer, U8, self.count)
        cdef fp_memory memory
        cdef fp_code code
        start_memory(&memory)
        with nogil:
            code = fp_traced_layers(&memory, &self.traced, places.at, out.at)
        check(code, "finding the layers of events")

    def visible(self, order, layer, hidden, uint64_t begin, uint64_t end, uint64_t resolution, visible):
        """Writes which events are shown: uint8. ``layer`` None: all are read; ``hidden`` None: none is left out before."""
        cdef Array places = self.ordered(order), layers = maybe(layer, U8, self.count)
        cdef Array left = maybe(hidden, U8, self.count), out = room(visible, U8, self.count)
        cdef fp_view view = fp_view(begin, end, resolution)
        cdef fp_memory memory
        cdef fp_code code
        start_memory(&memory)
        with nogil:
            code = fp_traced_visible(&memory, &self.traced, places.at, layers.at, left.at, &view, out.at)
        check(code, "finding what is visible")
