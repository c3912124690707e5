"""Causes: what was the program doing while a device did not compute?"""

__all__ = [
    "annotation_tables", "annotation_times", "budget", "cause_names", "gaps", "gpu_annotations",
    "python_calls", "python_tables", "run_window", "slow_steps", "step_programs",
]  # fmt: skip
