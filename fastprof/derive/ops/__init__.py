"""Ops: which ops ran, how long, and how much work was it?"""

__all__ = [
    "device_ops", "device_time", "framework", "gpu_attribution", "gpu_kernels", "gpu_ops", "host_op_stats",
    "host_ops", "kernel_fusion", "launches", "line_times", "longest_path", "op_columns", "op_flags", "op_nodes",
    "op_profile_tables", "op_table", "op_trees", "op_work", "record_checks", "roofline_model", "roofline_tables",
    "scope_trees", "stat_columns", "stream_events", "stream_sums", "torch_calls", "torch_work", "tpu_cores",
    "training_passes", "unit_use",
]  # fmt: skip
