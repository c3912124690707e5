"""What ops of GPUs are read from; gpu.py, which reads it, takes long to import."""

from __future__ import annotations

from typing import Final

EVENT_STATS: Final = ("hlo_op", "program_id", "tf_op", "flops", "bytes_accessed", "vdd_energy_j")
