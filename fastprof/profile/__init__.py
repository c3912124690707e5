"""Profile: what do users of the Python API hold?"""

__all__ = ["loading", "profile", "report", "tfprof_views", "trace_out"]
