"""Render: how does a table or a report look as text, JSON, CSV, Arrow or a drawing?"""

__all__ = [
    "as_json", "as_text", "brief", "figure_feeds", "gate_forms", "report_graphics", "report_html", "report_json",
    "report_text", "table_forms",
]  # fmt: skip
