
<Task Environment*profile_start_time2€€¨±ãŸçË	a warning"vm