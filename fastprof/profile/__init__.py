"""Profile: what do users of the Python API hold?"""

__all__ = [
    "batch",
    "captured_run",
    "comparison",
    "gate",
    "loading",
    "profile",
    "report",
    "run_exports",
    "trace_out",
    "trend_figures",
]
