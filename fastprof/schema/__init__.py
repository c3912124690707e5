"""Schema: what are tables, their columns, types and units?"""
