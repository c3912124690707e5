"""Inputs: which files are meant, and what are their bytes?"""

__all__ = [
    "directory_content", "foreign_files", "formats", "framework_profilers", "log_directory", "message",
    "message_columns", "open_files", "own_profiler", "paths", "profile_columns", "profiler_client", "resolve",
    "source", "step_times", "stores",
]  # fmt: skip
