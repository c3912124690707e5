"""Command line: which verbs are there, and what do they print?"""

__all__ = ["main"]
