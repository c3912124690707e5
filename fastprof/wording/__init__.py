"""Wording: how do people write and read times, sizes, steps and names?"""

__all__ = ["amounts", "cells", "json_values", "patterns", "quantities", "screen", "spelling"]
