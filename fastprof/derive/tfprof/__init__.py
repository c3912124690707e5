"""What do tfprof's views show of a graph: by name scope, by input, by op, by line of code?"""

__all__ = [
    "advisor",
    "captured",
    "code_view",
    "forest",
    "name_scopes",
    "options",
    "recorded",
    "step_runs",
    "view_set",
    "view_tables",
    "views",
]
