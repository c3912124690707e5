"""Ops: which ops ran, how long, and how much work was it?"""

__all__ = [
    "ceilings", "combine", "device_ops", "duty_cycle", "framework", "gpu", "gpu_ops",
    "hlo_columns", "hlo_schemas", "host_ops", "kernel_names", "memory_accesses", "op_columns", "op_groups", "op_marks",
    "op_remarks", "ranking", "roofline", "roofline_schemas", "roofline_totals", "schemas", "sparse_core",
    "step_ops", "tables", "tf_functions", "tpu", "transfers", "tree", "unknown_work",
]  # fmt: skip
