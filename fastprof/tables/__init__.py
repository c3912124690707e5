"""Tables: what are the tables of a session, and the events of one host?"""

__all__ = [
    "event_summary", "host_clocks", "host_events", "needs", "once", "open_session", "program_choice", "stacked",
    "table_set", "tables_of_runs", "tfprof_rows",
]  # fmt: skip
