"""Causes: who wrote an event of the host, and what was the program doing while a device waited?"""

__all__ = ()
