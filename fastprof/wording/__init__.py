"""Wording: how do people write and read times, sizes, steps and names?"""

__all__ = ["amounts", "cells", "json_values", "kernel_names", "patterns", "quantities", "screen", "spelling",
           "traced_arguments"]  # fmt: skip
