"""Wording: how do people write and read times, sizes, steps and names?"""

__all__ = [
    "amounts", "cells", "elision", "flags", "json_values", "moments", "patterns", "quantities", "screen", "spelling",
    "spreadsheets", "step_categories",
]  # fmt: skip
