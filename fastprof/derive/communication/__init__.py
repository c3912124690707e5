"""Communication: what is on the way between devices and to the host, and how much of it does compute hide?"""

__all__ = [
    "blame", "clock_remarks", "clock_tables", "clocks", "communication_remarks", "communication_tables",
    "device_spans", "flights", "host_communication", "link_table", "meetings", "narrow_columns", "operation_sums",
    "session_arrivals", "step_numbers", "step_sums",
]  # fmt: skip
