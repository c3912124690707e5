"""Inputs: which files are meant, and what are their bytes?"""

__all__ = [
    "chosen_traces", "graph_files", "graph_planes", "log_directory", "made_ahead", "message_columns", "open_files",
    "other_files", "own_profiler", "paths", "profile_columns", "profiler_client", "resolve", "several_runs", "source",
    "spill", "unpacking", "value_columns",
]  # fmt: skip
