"""Steps: where does a step begin and end, what do threads do in it, and what is its time?"""

__all__ = [
    "device_steps", "event_graph", "event_origin", "grouping", "host_calls", "host_causes", "host_steps",
    "step_advice", "step_alignment", "step_database", "step_events", "step_figures", "step_source", "stragglers",
    "tpu_steps",
]  # fmt: skip
