"b
eTask Environment*profile_start_time*profile_stop_time2€€¨±ãŸçË2€”“çŸçË"a