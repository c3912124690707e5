"""Profile: what do users of the Python API hold?"""

__all__ = [
    "batch",
    "captured_run",
    "comparison",
    "exported_reports",
    "gate",
    "loading",
    "profile",
    "report",
    "run_exports",
    "trace_out",
    "trend_figures",
]
