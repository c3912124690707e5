# csrc/formats/xspace.h, as far as it is called from here.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from fastprof._native.border cimport fp_code, fp_fault, fp_memory, fp_vector


cdef extern from "columns/strings.h" nogil:
    ctypedef struct fp_strings:
        fp_memory *memory
        fp_vector bytes
        fp_vector offsets
    int32_t fp_strings_add(fp_strings *pool, const uint8_t *text, size_t length)
    int32_t fp_strings_find(const fp_strings *pool, const uint8_t *text, size_t length)
    size_t fp_strings_count(const fp_strings *pool)
    void fp_strings_free(fp_strings *pool)


cdef extern from "columns/picked.h" nogil:
    ctypedef struct fp_picked:
        const int64_t *value
        const uint8_t *kind
        size_t count
    void fp_picked_free(fp_memory *memory, fp_picked *picked)
    void fp_picked_copy(const fp_picked *picked, void *own_numbers, int64_t text_base, int own_kind,
                        void *row, void *kind, void *value)


cdef extern from "formats/byte_window.h" nogil:
    ctypedef struct fp_window_part:
        uint64_t begin, place
    ctypedef fp_code fp_fetch(void *context, uint64_t begin, uint64_t end) noexcept
    ctypedef struct fp_window:
        fp_memory *memory
        const fp_window_part *parts
        size_t part_count
        fp_fetch *fetch
        void *fetched_for
        size_t capacity
    void fp_window_begin(fp_window *window, fp_memory *memory)
    void fp_window_of_memory(fp_window *window, const uint8_t *data, uint64_t size)
    void fp_window_of_file(fp_window *window, int descriptor, uint64_t size, bint same)
    fp_code fp_window_copy(fp_window *window, uint64_t offset, uint64_t size, uint8_t *to)
    void fp_window_free(fp_window *window)


cdef extern from "formats/key_order.h" nogil:
    bint fp_order_keys(fp_memory *memory, void *keys, size_t count)


cdef extern from "formats/xspace.h" nogil:
    enum: FP_SPAN_KINDS, FP_STR
    ctypedef struct fp_span:
        pass
    ctypedef struct fp_part:
        pass
    ctypedef struct fp_fault_row:
        int64_t code
        int64_t count
        uint64_t first_offset
        const char *what
    ctypedef struct fp_event_meta:
        pass
    ctypedef struct fp_stat_meta:
        pass
    ctypedef struct fp_owned_span:
        uint64_t offset, length
    ctypedef struct fp_child:
        pass
    ctypedef struct fp_piece:
        uint64_t offset, length
    ctypedef struct fp_segment:
        int64_t event_count
    ctypedef struct fp_unknown_stat:
        pass
    ctypedef struct fp_event_key:
        uint64_t offset
        uint32_t length
    ctypedef struct fp_bytes_at:
        int64_t row, column
        uint64_t offset, length

    ctypedef struct fp_held:
        uint64_t raised
    uint64_t fp_held_left(const fp_held *held, uint64_t size)
    bint fp_hold(fp_held *held, uint64_t more, uint64_t size)

    ctypedef struct fp_scanner:
        fp_memory *memory
        bint salvage
        fp_held held
        fp_vector parts
        fp_vector spans[7]
        fp_vector faults
    fp_code fp_scanner_read(fp_scanner *scanner, fp_window *window, fp_fault *fault)
    fp_code fp_scanner_push(fp_scanner *scanner, void *chunk, size_t size, fp_fault *fault)
    fp_code fp_scanner_finish(fp_scanner *scanner, fp_fault *fault)
    void fp_scanner_free(fp_scanner *scanner)

    ctypedef struct fp_xspace:
        fp_memory *memory
        size_t part_count
        bint salvage
        fp_held held
        fp_vector event_metas, stat_metas, meta_stats, children, faults
    fp_code fp_xspace_open(fp_xspace *xspace, const fp_scanner *scanner, fp_window *window, fp_fault *fault)
    fp_code fp_xspace_fork(const fp_xspace *xspace, fp_xspace *fork, fp_fault *fault)
    void fp_xspace_free_fork(fp_xspace *fork)
    fp_code fp_xspace_declare_stats(fp_xspace *xspace, int64_t part, void *ids, size_t count, fp_fault *fault)
    void fp_xspace_free(fp_xspace *xspace)

    ctypedef enum fp_depth:
        FP_HOP, FP_EVENTS, FP_STATS
    ctypedef struct fp_index:
        fp_vector segments, unknown, faults
        uint8_t *kinds
    fp_code fp_index_piece(const fp_xspace *xspace, fp_window *window, fp_piece *piece, int64_t piece_number,
                           fp_depth depth, uint64_t start, uint64_t budget, uint64_t segment_size, fp_index *index,
                           uint64_t *stopped, fp_fault *fault)
    void fp_index_free(fp_memory *memory, fp_index *index)

    ctypedef struct fp_index_column:
        void *to
        int width
    ctypedef struct fp_filter:
        void *keep_meta
        uint8_t keep_unnamed
        int64_t from_ps, to_ps
        uint8_t timed
    ctypedef struct fp_wide_column:
        void *kind
        void *value
        void *default_kind
        void *default_value
    ctypedef struct fp_sink:
        const fp_filter *filter
        void *meta_names
        void *meta_ids
        void *stat_names
        void *stat_texts
        void *wide_of_stat
        int64_t wide_count
        fp_wide_column *wide
        void *pick_of_stat
        void *pick_parts
        void *event_id
        void *metadata_id
        void *start_ps
        void *duration_ps
        void *num_occurrences
        void *plane_id
        void *line_id
        fp_index_column host, plane, line, name
        void *present
        int64_t want_stats
        void *stat_event_id
        void *int_value
        void *double_value
        fp_index_column stat
        void *kind
        fp_index_column text
        int64_t text_base
        fp_strings texts
        fp_vector bytes
        fp_picked *picks
        fp_vector faults
        int64_t unnamed
    fp_code fp_fill(const fp_xspace *xspace, fp_window *window, void *pieces, void *segments, size_t count,
                    fp_sink *sink, fp_fault *fault)
    fp_code fp_count_kept(const fp_xspace *xspace, fp_window *window, void *pieces, void *segments, size_t count,
                          const fp_filter *filter, bint stats, fp_fault *fault)
    fp_code fp_event_keys(const fp_xspace *xspace, fp_window *window, void *pieces, void *segment,
                          const fp_filter *filter, void *keys, fp_fault *fault)
    fp_code fp_fill_keys(const fp_xspace *xspace, fp_window *window, void *pieces, void *keys,
                         void *event_ids, size_t count, int64_t row, int64_t stat_row,
                         int64_t stat_row_end, fp_sink *sink, fp_fault *fault)
    fp_code fp_fill_spans(const fp_xspace *xspace, fp_window *window, void *spans, void *parts, size_t count,
                          void *stat_ids, fp_sink *sink, fp_fault *fault)
    fp_code fp_unknown_in_spans(const fp_xspace *xspace, fp_window *window, void *spans, void *parts,
                                size_t count, fp_vector *unknown, fp_fault *fault)
    fp_code fp_intern(const fp_xspace *xspace, fp_window *window, void *offsets, void *lengths, size_t count,
                      const char *what, fp_strings *pool, void *numbers, fp_vector *faults, fp_fault *fault)
