"""Profile: what do users of the Python API hold?"""

__all__ = [
    "batch",
    "captured_run",
    "comparison",
    "event_page",
    "gate",
    "loading",
    "profile",
    "report",
    "sql",
    "sql_tables",
    "trace_out",
    "trend_figures",
]
