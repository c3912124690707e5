"""Memory: what do the allocators of devices and hosts hold, when, and for whom?"""

__all__ = [
    "host_memory", "kept_memory", "matching", "memory_events", "memory_of_hosts", "memory_remarks", "memory_tables",
    "sites", "tables_of_hosts", "torch_memory",
]  # fmt: skip
