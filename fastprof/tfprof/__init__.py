"""How do tfprof's views look: as tfprof prints them, as tables, as JSON, pprof and timelines?"""

__all__ = ["option_files", "tfprof_answer", "tfprof_text", "tfprof_views"]
