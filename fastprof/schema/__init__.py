"""Schema: what are tables, their columns, types and units?"""

__all__ = ["array_types", "arrow_columns", "column_kinds", "tables"]
