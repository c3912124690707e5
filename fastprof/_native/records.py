"""The structs of csrc/formats/xspace.h and byte_window.h as NumPy types; a test compares their sizes with C's."""

from __future__ import annotations

import numpy as np

LINES, EVENT_METADATA, STAT_METADATA, PLANE_STATS, ERRORS, WARNINGS, HOSTNAMES = range(7)
NOTHING, HEAD, HOP, EVENTS, STATS = range(-2, 3)
"""How much is known of a line: nothing, the fields before its events, or a depth of C."""
REGULAR, SORTED = 1, 2
HAS_START, HAS_OCCURRENCES = 1, 2
INT64, UINT64, DOUBLE, STR, BYTES, REF, NONE, LOST_REF = range(8)
NO_TEXT = 2**64 - 1

_TEXT = [("name_offset", "u8"), ("name_length", "u8")]
_DISPLAY = [("display_offset", "u8"), ("display_length", "u8")]

PART = np.dtype([("offset", "u8"), ("end", "u8"), ("id", "i8"), *_TEXT])
SPAN = np.dtype([("offset", "u8"), ("length", "u8"), ("part", "i8")])
EVENT_META = np.dtype(
    [("id", "i8"), ("part", "i8"), *_TEXT, *_DISPLAY]
    + [("metadata_offset", "u8"), ("metadata_length", "u8"), ("has_metadata", "i8")]
)
STAT_META = np.dtype([("id", "i8"), ("part", "i8"), *_TEXT, ("description_offset", "u8"), ("description_length", "u8")])
OWNED_SPAN = np.dtype([("offset", "u8"), ("length", "u8"), ("owner", "i8")])
CHILD = np.dtype([("owner", "i8"), ("id", "i8")])
PIECE = np.dtype(
    [("offset", "u8"), ("length", "u8"), ("part", "i8")]
    + [("id", "i8"), ("timestamp_ns", "i8"), ("duration_ps", "i8"), ("display_id", "i8"), *_TEXT, *_DISPLAY]
    + [("event_count", "i8"), ("base_ps", "i8"), ("line_id", "i4"), ("plane_id", "i4")]
    + [("host", "i4"), ("plane", "i4"), ("line", "i4"), ("timeless", "i4")]
)
SEGMENT = np.dtype(
    [("offset", "u8"), ("end", "u8"), ("piece", "i8"), ("flags", "i8")]
    + [("event_count", "i8"), ("aggregated_count", "i8"), ("min_start", "i8"), ("max_start", "i8"), ("max_end", "i8")]
    + [("first_start", "i8"), ("first_duration", "i8"), ("last_start", "i8"), ("last_duration", "i8")]
    + [("stat_count", "i8"), ("text_count", "i8"), ("bytes_count", "i8")]
    + [("event_id", "i8"), ("row", "i8"), ("row_end", "i8"), ("stat_row", "i8"), ("stat_row_end", "i8")]
    + [("kept_events", "i8"), ("kept_stats", "i8")]
)
UNKNOWN_STAT = np.dtype([("part", "i8"), ("id", "i8"), ("kinds", "i8")])
EVENT_KEY = np.dtype(
    [("start", "i8"), ("reversed_duration", "i8"), ("offset", "u8"), ("length", "u4"), ("stat_count", "u4")]
    + [("piece", "i4"), ("flags", "i4")]
)
KEPT = 1
"""A flag of EVENT_KEY."""
WINDOW_PART = np.dtype([("begin", "u8"), ("place", "u8")])
BYTES_AT = np.dtype([("row", "i8"), ("column", "i8"), ("offset", "u8"), ("length", "u8")])
LINE_ROWS = np.dtype([("first", "i8"), ("last", "i8"), ("event_id", "i8")])
GROUP_SUM = np.dtype([("count", "i8"), ("total", "i8"), ("minimum", "i8"), ("maximum", "i8")])
