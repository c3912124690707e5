"""What XProf's trace viewer is sent: all events with their stats (``trace_viewer``), and what its streaming form shows
of a window (``trace_viewer@``). ``chunks.chunks`` writes both."""

__all__ = ["chunks"]
