"""What do tfprof's views show of a graph: by name scope, by input, by op, by line of code?"""

__all__ = ["captured", "forest", "options", "recorded", "view_set", "view_tables", "views"]
