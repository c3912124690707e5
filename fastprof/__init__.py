"""Profiles of TensorFlow, JAX and PyTorch as Apache Arrow tables: one host or a pod of thousands, exact.

import fastprof

p = fastprof.load("logdir")     # a file, run or log directory, glob, bytes, file object, or a list of those
p.events                        # a pyarrow.Table; decoded on first use

with fastprof.record("logdir", steps=(10, 15)) as recording:   # this program, with its framework's profiler
    for batch in recording.steps(batches): ...
"""

from fastprof._version import __version__

TYPE_CHECKING = False
"""The constant of ``typing``, which takes as long to import as all that ``fastprof --version`` needs."""

if TYPE_CHECKING:
    from typing import Any

    from fastprof.errors import (
        CaptureError,
        ChangedError,
        EngineError,
        FastprofError,
        MemoryLimitError,
        NotFoundError,
        OutputError,
        UnreadableError,
        UsageError,
    )
    from fastprof.inputs.resolve import Run
    from fastprof.profile.batch import batch, trends
    from fastprof.profile.captured_run import record
    from fastprof.profile.comparison import compare, compare_events, compare_ops
    from fastprof.profile.gate import check
    from fastprof.profile.loading import load, load_graph, runs, scan
    from fastprof.profile.profile import Profile
    from fastprof.profile.report import Report

__all__ = [
    "CaptureError",
    "ChangedError",
    "EngineError",
    "FastprofError",
    "MemoryLimitError",
    "NotFoundError",
    "OutputError",
    "Profile",
    "Report",
    "Run",
    "UnreadableError",
    "UsageError",
    "__version__",
    "batch",
    "check",
    "compare",
    "compare_events",
    "compare_ops",
    "load",
    "load_graph",
    "record",
    "runs",
    "scan",
    "trends",
]

_HOMES = {
    "Profile": "profile.profile",
    "batch": "profile.batch",
    "check": "profile.gate",
    "compare": "profile.comparison",
    "compare_events": "profile.comparison",
    "compare_ops": "profile.comparison",
    "load": "profile.loading",
    "load_graph": "profile.loading",
    "record": "profile.captured_run",
    "runs": "profile.loading",
    "scan": "profile.loading",
    "trends": "profile.batch",
    "Report": "profile.report",
    "Run": "inputs.resolve",
}


def __getattr__(name: str) -> "Any":
    if name not in __all__:
        raise AttributeError(f"module 'fastprof' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"fastprof.{_HOMES.get(name, 'errors')}"), name)


def load_ipython_extension(ipython: "Any") -> None:
    """Make the cell magic ``%%fastprof`` known to a notebook: ``%load_ext fastprof``."""
    from fastprof.profile.cell_magic import register_magic

    register_magic(ipython)


def __dir__() -> list[str]:
    return sorted(__all__)
