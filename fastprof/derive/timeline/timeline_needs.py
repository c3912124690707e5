"""What of a capture derived lines, flows, steps and counters of a timeline read. Raw timelines need none of it."""

from __future__ import annotations

from typing import Final

from fastprof import hlo
from fastprof.derive.needs import Needs
from fastprof.derive.steps.forest import STATS

_OF_KERNELS: Final = (
    "kernel_details", "hlo_op", "hlo_module", "program_id", "tf_op", "cuda_graph_exec_id", "cuda_graph_id",
    "scope_range_id", "device_id",
)  # fmt: skip
_OF_TPU_OPS: Final = ("tf_op", "source", "_a", "raw_bytes_accessed", "shape_with_layout")

NEEDS: Final = Needs(
    stats=tuple(dict.fromkeys((*STATS, *_OF_KERNELS, "source", "flow"))),
    metadata_stats=tuple(dict.fromkeys((*hlo.METADATA_STATS, *_OF_TPU_OPS))),
)
