"""Steps: which events belong together, where does a step begin and end, and what is its time made of?"""

__all__ = [
    "across_hosts", "core_details", "database", "device_steps", "event_types", "forest", "generic_steps",
    "gpu_input_waits", "gpu_step_events", "grouping", "links", "module_steps", "of_host", "remarks",
    "step_figures", "step_time", "stragglers", "stretches", "thread_pools", "time_spread", "time_types",
    "tpu_step_values", "verdicts",
]  # fmt: skip
