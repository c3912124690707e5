"""Native: what is compiled? Thin Cython over csrc/: arrays and buffers in, columns out."""

__all__ = [
    "border", "cause_kernels", "chrome", "communication_kernels", "grouping", "hlo", "kernels", "line_events", "lod",
    "memory_kernels", "messages", "op_kernels", "pipeline_kernels", "records", "riegeli", "step_kernels",
    "timeline_kernels", "trace_writers", "transcribing", "visibility", "xprof_events", "xspace",
]  # fmt: skip
