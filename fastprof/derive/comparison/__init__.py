"""Comparison: what is a mean step made of, what of it changed between two runs, and is that more than noise?"""

__all__ = ["change_statistics", "event_counts", "part_matching", "program_changes"]
