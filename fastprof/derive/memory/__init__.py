"""Memory: what do the allocators of devices and hosts hold, when, and for whom?"""

__all__ = [
    "allocation_history", "host_memory", "memory_events", "memory_remarks", "memory_tables", "session_memory",
]  # fmt: skip
