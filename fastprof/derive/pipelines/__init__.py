"""Input pipelines: which tf.data iterators produced an element, and where did its time go?"""

__all__ = [
    "host_lines", "input_ops", "iterator_events", "iterator_kinds", "iterators", "kept_pipelines", "pipeline_tables",
    "pipeline_verdicts", "pipelines_of_hosts", "reading", "step_waits", "what_if",
]  # fmt: skip
