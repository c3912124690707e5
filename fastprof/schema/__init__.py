"""Schema: what are tables, their columns, types and units?"""

__all__ = ["capture_tables", "columns", "message_fields", "tables", "value_classes"]
