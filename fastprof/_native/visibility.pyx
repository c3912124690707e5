"""Which events XProf's streaming trace viewer shows: arrays in, arrays out; see kernels/visibility.h."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from fastprof._native.core cimport fp_memory, fp_memory_init

from fastprof.errors import MemoryLimitError


cdef extern from "kernels/visibility.h" nogil:
    ctypedef struct fp_traced:
        const uint64_t *start
        const uint64_t *duration
        const int64_t *tracks
        const uint8_t *points
        const int32_t *flow
        const uint8_t *flow_end
        size_t track_count, flow_count
    ctypedef struct fp_view:
        uint64_t begin, end, resolution
    bint fp_traced_order(fp_memory *memory, const fp_traced *traced, int32_t *order)
    void fp_traced_serials(const fp_traced *traced, const int32_t *order, uint32_t *serial)
    bint fp_traced_layers(fp_memory *memory, const fp_traced *traced, const int32_t *order, uint8_t *layer)
    bint fp_traced_visible(fp_memory *memory, const fp_traced *traced, const int32_t *order, const uint8_t *layer,
                           const uint8_t *hidden, const fp_view *view, uint8_t *visible)


include "borrowed.pxi"


cdef class Traced:
    """Events by track: start, duration (uint64), tracks (int64 bounds), points (uint8 by track), flow (int32 below
    flow_count, -1: none), flow_end (uint8)."""

    cdef fp_traced traced
    cdef list held

    def __cinit__(self, start, duration, tracks, points, flow, flow_end, size_t flow_count):
        self.held = []
        self.traced.start = <const uint64_t *>self.hold(start)
        self.traced.duration = <const uint64_t *>self.hold(duration)
        self.traced.tracks = <const int64_t *>self.hold(tracks)
        self.traced.points = <const uint8_t *>self.hold(points)
        self.traced.flow = <const int32_t *>self.hold(flow)
        self.traced.flow_end = <const uint8_t *>self.hold(flow_end)
        self.traced.track_count = len(tracks) - 1
        self.traced.flow_count = flow_count

    cdef void *hold(self, array) except? NULL:
        cdef Borrowed view = Borrowed(array)
        self.held.append(view)
        return view.buffer.buf

    def order(self, order):
        """Writes the events of all tracks in one order: int32."""
        cdef Borrowed out = Borrowed(order, True)
        cdef fp_memory memory
        cdef bint done
        fp_memory_init(&memory)
        with nogil:
            done = fp_traced_order(&memory, &self.traced, <int32_t *>out.buffer.buf)
        if not done:
            raise MemoryLimitError("out of memory while putting events in order")

    def serials(self, order, serial):
        """Writes what tells events apart that start together: uint32."""
        cdef Borrowed places = Borrowed(order), out = Borrowed(serial, True)
        with nogil:
            fp_traced_serials(&self.traced, <const int32_t *>places.buffer.buf, <uint32_t *>out.buffer.buf)

    def layers(self, order, layer):
        """Writes the layer that each event is kept in: uint8."""
        cdef Borrowed places = Borrowed(order), out = Borrowed(layer, True)
        cdef fp_memory memory
        cdef bint done
        fp_memory_init(&memory)
        with nogil:
            done = fp_traced_layers(&memory, &self.traced, <const int32_t *>places.buffer.buf,
                                    <uint8_t *>out.buffer.buf)
        if not done:
            raise MemoryLimitError("out of memory while finding the layers of events")

    def visible(self, order, layer, hidden, uint64_t begin, uint64_t end, uint64_t resolution, visible):
        """Writes which events are shown: uint8. ``layer`` None: all are read; ``hidden`` None: none is left out before."""
        cdef Borrowed places = Borrowed(order), out = Borrowed(visible, True)
        cdef Borrowed layers = None if layer is None else Borrowed(layer)
        cdef Borrowed left = None if hidden is None else Borrowed(hidden)
        cdef const uint8_t *layer_at = NULL
        cdef const uint8_t *hidden_at = NULL
        cdef fp_view view = fp_view(begin, end, resolution)
        cdef fp_memory memory
        cdef bint done
        if layers is not None:
            layer_at = <const uint8_t *>layers.buffer.buf
        if left is not None:
            hidden_at = <const uint8_t *>left.buffer.buf
        fp_memory_init(&memory)
        with nogil:
            done = fp_traced_visible(&memory, &self.traced, <const int32_t *>places.buffer.buf, layer_at, hidden_at,
                                     &view, <uint8_t *>out.buffer.buf)
        if not done:
            raise MemoryLimitError("out of memory while finding what is visible")
