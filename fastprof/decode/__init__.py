"""Decode: which bytes of a capture become which columns?

``Capture`` opens a file, ``Index`` numbers the planes, lines and events of several. ``Selection`` and ``Request`` say
which events and which of their columns are wanted; ``Decoder`` decodes them, ``read_event`` a single event. Threads may
share all of it: a reader waits only while the capture that it needs is being indexed.
"""

__all__ = [
    "array_memory", "decoder", "flow_records", "graph_def", "import_log", "index", "jobs", "metadata_tables", "nesting",
    "plane_kinds", "selection", "single_event", "span_stats", "text_pools", "workers", "xspace_capture",
]  # fmt: skip
