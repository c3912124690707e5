"""Tables: what are the tables of a session, and the events of one host?"""

__all__ = [
    "dataset_rows", "event_stats", "event_summary", "host_clocks", "host_events", "host_reader", "launch_links",
    "needs", "nesting_stream", "once", "open_session", "program_choice", "range_counters", "set_aside", "stacked",
    "table_set", "tables_of_runs", "tfprof_rows",
]  # fmt: skip
