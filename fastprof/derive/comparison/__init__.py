"""Comparison: what is a mean step made of, what of it changed between two runs, and is that more than noise?"""

__all__ = [
    "change_points", "event_counts", "part_matching", "program_changes", "program_parts", "step_parts",
    "step_statistics", "work_change",
]  # fmt: skip
