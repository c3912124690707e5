"""What the streams of GPUs do: which kinds of kernels overlap, what idle streams wait for, how long queues are."""

from __future__ import annotations

__all__ = ["stream_events", "stream_queues", "stream_times"]
