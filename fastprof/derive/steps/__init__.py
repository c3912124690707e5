"""Steps: which events belong together, where does a step begin and end, and what is its time made of?"""

__all__ = [
    "across_hosts", "alignment", "core_breakdown", "core_details", "database", "device_steps", "event_types",
    "forest", "gpu_step_events", "grouping", "host_times", "links", "module_steps", "no_steps", "of_host",
    "step_figures", "step_time", "stragglers", "stretches", "thread_pools", "time_spread", "time_types",
    "tpu_step_values", "verdicts",
]  # fmt: skip
