"""Causes: who wrote an event of the host, and what was the program doing while a device did not compute?"""

__all__ = [
    "annotation_tables", "annotation_times", "budget", "cause_names", "event_origin", "gaps", "host_causes",
    "python_calls", "python_frames", "python_tables", "slow_steps",
]  # fmt: skip
