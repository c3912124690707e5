"""XProf: what does XProf answer, and where does that differ from ours?"""

__all__ = ["report_xprof", "trace"]
