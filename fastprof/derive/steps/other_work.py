"""Work of a training program that is not training, by names of Python functions, annotations and markers of steps:
evaluation, logging and metrics."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np

from fastprof.derive.steps.input_words import hold_rows, words_of
from fastprof.derive.steps.stretches import union
from fastprof.schema.array_types import Bools, Int32s, Int64s
from fastprof.schema.time_sums import ends_of
from fastprof.tables.host_events import HostEvents, Line
from fastprof.wording.patterns import pattern_of

EVALUATION, LOGGING = "evaluation", "logging"

_EVALUATES: Final = frozenset(("eval", "evaluate", "evaluation", "evaluator", "validate", "validation", "val"))
_TESTS: Final = pattern_of(r"^(?:run_)?test_?(?:step|epoch|loop|model|function|batch)?$")
_LOGS: Final = frozenset(("log", "logging", "logger", "metric", "tensorboard", "wandb", "mlflow", "telemetry"))
_MATHS: Final = frozenset(("softmax", "prob", "sum", "exp", "likelihood", "sigmoid", "normal", "det", "space", "add"))
"""Logarithms."""
_TRAINS: Final = frozenset(("train", "training", "forward", "backward", "optimizer"))
_LOADS: Final = frozenset(("dataset", "dataloader", "loader", "load", "fetch", "read", "next", "data", "batch"))
_NATIVE: Final = pattern_of(r"::|^\w+/\w+:")
_MOST: Final = 0.8
"""A program that evaluates for more of its time than this does not train."""


@lru_cache(maxsize=1 << 16)
def work_said_by(name: str) -> str | None:
    """Return which work that is not training a name says, or None."""
    if _NATIVE.search(name):
        return None
    words = words_of(name)
    if words & _TRAINS or words & _LOADS:
        return EVALUATION if words & {"evaluate"} and not words & _TRAINS else None
    if words & _EVALUATES or _TESTS.match(name):
        return EVALUATION
    return LOGGING if words & _LOGS and not words & _MATHS and name != "log" else None


def of_evaluation(events: HostEvents, marked: Int32s) -> Bools:
    """Return which markers of steps are of evaluation, if others are not."""
    names = [events.names[meta] for meta in events.meta[marked].tolist()]
    found = np.array([work_said_by(name) == EVALUATION for name in names], np.bool_)
    return found if not found.all() else np.zeros(len(marked), np.bool_)


def evaluates(events: HostEvents, line: Line, rows: Int64s, launches: Int64s) -> Bools:
    """Return which events of a thread that are called so are evaluation: those that launch work, unless all of them
    take most of the thread's time."""
    start = events.start_ps[rows]
    end = ends_of(start, np.maximum(events.duration_ps[rows], 0))
    holds = hold_rows(events, rows, launches)
    begin, until = union(start[holds], (end - start)[holds])
    whole = slice(line.first, line.last)
    last = ends_of(events.start_ps[whole], np.maximum(events.duration_ps[whole], 0)).max()
    if (until - begin).sum() > _MOST * (last - events.start_ps[whole].min()):
        return np.zeros(len(rows), np.bool_)
    return holds
