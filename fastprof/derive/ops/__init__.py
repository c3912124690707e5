"""Ops: which ops ran, how long, and how much work was it?"""

__all__ = [
    "ceilings", "combine", "copies", "device_ops", "duty_cycle", "framework", "gpu", "gpu_ops", "gpu_stats",
    "hlo_columns", "hlo_schemas", "host_ops", "memory_accesses", "op_columns", "op_groups", "op_marks",
    "op_remarks", "op_shares", "ranking", "roofline", "roofline_schemas", "roofline_totals", "schemas", "sparse_core",
    "step_ops", "tables", "tf_functions", "tpu", "transfers", "tree", "untold_work",
]  # fmt: skip
