"""Causes: what was the program doing while a device did not compute?"""

__all__ = [
    "annotation_times", "callees", "cause_names", "compilations", "gaps", "python_calls", "recompilations",
    "slow_steps", "time_by_cause",
]  # fmt: skip
