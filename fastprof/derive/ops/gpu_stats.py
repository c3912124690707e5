"""What ops of GPUs are read from; gpu.py, which reads it, takes long to import."""

from __future__ import annotations

from typing import Final

EVENT_STATS: Final = (
    "hlo_op", "hlo_module", "program_id", "tf_op", "annotation", "correlation_id", "cuda_graph_node_id",
    "flops", "bytes_accessed", "vdd_energy_j",
)  # fmt: skip
