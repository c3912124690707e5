"""Causes: who wrote an event of the host, and what was the program doing while a device waited?"""

__all__ = ["python_calls", "python_tables"]
