"""Ops: which ops ran, how long, and how much work was it?"""

__all__ = [
    "async_ops", "autograd", "call_tree", "ceilings", "combine", "device_ops", "device_time", "duty_cycle",
    "elementwise", "framework", "gpu", "gpu_ops", "host_ops", "impossible_events", "kept_ops", "kernel_names",
    "kernel_rows", "launches", "line_times", "lost_records", "memory_accesses", "nodes", "op_columns", "op_groups",
    "op_marks", "op_remarks", "ranking", "record_checks", "roofline", "roofline_tables", "roofline_totals",
    "sparse_core", "stat_values", "step_ops", "streams", "tables", "tf_functions", "threads_as_device",
    "torch_arguments", "torch_calls", "torch_passes", "tpu", "transfers", "tree", "unit_use",
]  # fmt: skip
