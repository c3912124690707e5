"""Input pipelines: which tf.data iterators produced an element, and where did its time go?"""

__all__ = [
    "input_ops", "iterator_events", "iterators", "pipeline_tables", "pipelines_of_hosts", "recorded_pipelines",
    "stages",
]  # fmt: skip
