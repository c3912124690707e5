"""Render: how does a table or a report look as text, JSON, CSV, Arrow or a drawing?"""

__all__ = [
    "as_json",
    "as_text",
    "look",
    "pprof",
    "report_columns",
    "report_html",
    "report_json",
    "report_svg",
    "report_text",
    "speedscope",
    "table_forms",
    "tfprof_advice",
    "tfprof_answer",
    "tfprof_json",
    "tfprof_stacks",
    "tfprof_text",
    "tfprof_timeline",
    "weighted_stacks",
]  # fmt: skip
