"""Profile: what do users of the Python API hold?"""

__all__ = ["loading", "profile", "report", "trace_out"]
