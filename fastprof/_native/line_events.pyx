"""From columns to the events of a line, as an XSpace has them."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memset

from fastprof._native.border cimport *


cdef extern from "formats/growing_bytes.h" nogil:
    ctypedef struct fp_bytes:
        fp_memory *memory
        uint8_t *data
        size_t size
    void fp_bytes_free(fp_bytes *out)


cdef extern from "formats/line_events.h" nogil:
    ctypedef struct fp_line_events:
        size_t count
        const int64_t *metadata_id
        const int64_t *offset_ps
        const int64_t *duration_ps
        const int64_t *first_stat
        const int64_t *stat_id
        const int64_t *value
        const uint8_t *is_text
        size_t text_count
        const int64_t *text_at
        const uint8_t *texts
    fp_code fp_put_line_events(fp_bytes *out, const fp_line_events *events)


def line_events(metadata_id, offset_ps, duration_ps, first_stat, stat_id, value, is_text, text_at, texts):
    """Events as fields of an XLine, from int64 columns. The stats of event i are ``first_stat[i] .. first_stat[i + 1]``;
    where ``is_text``, uint8, is not 0, ``value`` numbers a text: ``text_at``, int64, has the bounds of each in ``texts``.

    Raises ValueError for a number that no text has, and MemoryLimitError.
    """
    cdef Array ids = given(metadata_id, I64), offsets = given(offset_ps, I64, ids.count)
    cdef Array durations = given(duration_ps, I64, ids.count), firsts = given(first_stat, I64, ids.count + 1)
    cdef Array stats = given(stat_id, I64), values = given(value, I64, stats.count), kinds = given(is_text, U8, stats.count)
    cdef Array places = given(text_at, I64), content = given(texts, U8)
    cdef fp_memory memory
    cdef fp_bytes out
    cdef fp_line_events events
    cdef fp_code code
    bounds(firsts, stats.count)
    bounds(places, content.count)
    start_memory(&memory)
    memset(&out, 0, sizeof(out))
    out.memory = &memory
    events.count, events.text_count = ids.count, places.count - 1
    events.metadata_id, events.offset_ps = <const int64_t *>ids.at, <const int64_t *>offsets.at
    events.duration_ps, events.first_stat = <const int64_t *>durations.at, <const int64_t *>firsts.at
    events.stat_id, events.value = <const int64_t *>stats.at, <const int64_t *>values.at
    events.is_text, events.text_at = <const uint8_t *>kinds.at, <const int64_t *>places.at
    events.texts = <const uint8_t *>content.at
    try:
        with nogil:
            code = fp_put_line_events(&out, &events)
        check(code, "writing events")
        return PyBytes_FromStringAndSize(<const char *>out.data, <Py_ssize_t>out.size)
    finally:
        fp_bytes_free(&out)
