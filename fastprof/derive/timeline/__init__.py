"""Timeline: what does a trace viewer show of a host: processes, tracks, derived lines, flows, counters?"""

__all__ = [
    "counter_tracks", "derived_lines", "derived_track", "flow_ends", "flows", "group_names", "host_timeline",
    "preprocessing", "step_bands", "timeline_needs", "track_order",
]  # fmt: skip
