"""Steps: which events belong together, where does a step begin and end, and what is its time made of?"""

__all__ = [
    "across_hosts", "between_steps", "core_details", "database", "device_steps", "event_types", "forest",
    "gpu_step_events", "grouping", "links", "of_host", "remedies", "step_figures", "step_source", "step_time",
    "stragglers", "stretches", "thread_pools", "time_spread", "verdicts",
]  # fmt: skip
