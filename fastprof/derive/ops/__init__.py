"""Ops: which ops ran, how long, and how much work was it?"""

__all__ = [
    "device_ops", "device_time", "gpu_attribution", "gpu_kernels", "gpu_ops", "host_op_stats", "host_ops", "launches",
    "line_times", "longest_path", "op_columns", "op_nodes", "op_profile_tables", "op_table", "op_trees",
    "record_checks", "roofline_model", "roofline_tables", "scope_trees", "stream_events", "torch_calls", "tpu_cores",
    "training_passes", "unit_use",
]  # fmt: skip
