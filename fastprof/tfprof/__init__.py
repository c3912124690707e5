"""How do tfprof's views look: as tfprof prints them, as tables, as JSON, pprof and timelines?"""

__all__ = ["tfprof_text", "tfprof_views"]
