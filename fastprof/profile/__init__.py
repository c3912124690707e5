"""Profile: what do users of the Python API hold?"""

__all__ = ["profile", "report", "trace_out"]
