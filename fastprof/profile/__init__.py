"""Profile: what do users of the Python API hold?"""

__all__ = [
    "batch", "captured_run", "comparison", "event_page", "exported_reports", "gate", "loading", "profile", "report",
    "run_exports", "run_names", "run_upload", "sql", "sql_tables", "trace_out",
]  # fmt: skip
