"""Streams of GPUs: which kinds of kernels overlap, what do idle streams wait for, how long are queues?"""

from __future__ import annotations

__all__ = ["stream_sums"]
