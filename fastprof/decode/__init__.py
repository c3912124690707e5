"""Decode: which bytes of a capture become which columns?"""

__all__ = [
    "blocks", "event_order", "fill", "index", "metadata_tables", "nesting", "plane_kinds", "selection",
    "session_texts", "span_stats", "stat_columns", "text_pools", "workers", "xspace_capture",
]  # fmt: skip
