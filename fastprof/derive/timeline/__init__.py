"""Timeline: what does a trace viewer show of a host: processes, tracks, derived lines, flows, counters?"""

__all__ = ["counter_tracks", "derived_lines", "derived_track", "event_groups", "flows", "host_timeline"]
