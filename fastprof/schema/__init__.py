"""Schema: what are tables, their columns, types and units?"""

__all__ = [
    "array_rows",
    "array_types",
    "arrow_columns",
    "ascending_rows",
    "capture_tables",
    "column_kinds",
    "message_fields",
    "tables",
    "tensor_types",
    "time_sums",
    "value_classes",
]  # fmt: skip
