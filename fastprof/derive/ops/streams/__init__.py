"""Streams of GPUs: which kernels overlap, what do idle streams wait for, how long are queues and critical paths?"""

from __future__ import annotations

__all__ = [
    "path_edges", "path_nodes", "path_sums", "stream_copies", "stream_events", "stream_queues", "stream_sums",
]  # fmt: skip
