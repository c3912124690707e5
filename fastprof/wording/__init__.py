"""Wording: how do people write and read times, sizes, steps and names?"""

__all__ = ["cells", "quantities", "screen", "sizes", "spelling", "step_ranges", "times"]
