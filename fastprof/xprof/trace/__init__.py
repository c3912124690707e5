"""What XProf's trace viewer is sent: all events with their stats (``trace_viewer``), and what its streaming form shows
of a window (``trace_viewer@``). ``trace_forms.write_trace`` writes both."""

__all__ = ["trace_forms"]
