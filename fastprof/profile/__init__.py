"""Profile: what do users of the Python API hold?"""

__all__ = [
    "batch", "captured_run", "comparison", "event_page", "exported_reports", "gate", "loading", "new_runs", "profile",
    "report", "run_exports", "sql", "sql_tables", "trace_out",
]  # fmt: skip
