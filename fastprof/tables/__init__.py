"""Tables: what are the tables of a session, and the events of one host?"""

__all__ = [
    "dataset_rows", "event_summary", "host_clocks", "host_events", "host_reader", "host_spill", "needs",
    "nesting_stream", "program_choice", "table_set", "tables_of_runs", "tfprof_rows",
]  # fmt: skip
