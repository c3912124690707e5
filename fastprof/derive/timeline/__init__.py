"""What a trace viewer shows of a host, as columns: processes, tracks, derived lines, flows, counters."""
