"""Communication: what is on the way between devices and to the host, and how much of it does compute hide?"""

__all__ = [
    "blame", "clocks", "communication_remarks", "communication_sums", "communication_tables", "flights",
    "host_communication", "meetings",
]  # fmt: skip
