"""Inputs: which files are meant, and what are their bytes?"""

__all__ = ["log_directory", "paths", "resolve", "source", "unpacking"]
