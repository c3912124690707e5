"""XProf's trace viewer: all events with their stats (``trace_viewer``), and the streaming form of a window
(``trace_viewer@``). ``trace_forms.write_trace`` writes both."""

__all__ = ["trace_forms"]
