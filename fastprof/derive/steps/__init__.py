"""Steps: where does a step begin and end, what do threads do in it, and what is its time?"""

__all__ = [
    "across_hosts", "between_steps", "core_details", "database", "device_steps", "enclosing", "event_origin",
    "event_types", "forest", "gpu_step_events", "grouping", "host_causes", "host_collectives", "host_reasons",
    "input_words", "links", "lock_step", "marked_spans", "of_host", "outlines", "periods", "profiler_steps",
    "python_frames", "remedies", "step_columns", "step_figures", "step_numbers", "step_source", "step_summary",
    "step_time", "stragglers", "stretches", "thread_pools", "time_spread", "torch_loaders", "torch_ops",
    "traceme_names", "verdicts",
]  # fmt: skip
