"""What an event of PyTorch's profiler is, by its category.

Kineto writes a category to every event; the reader keeps it with the event's metadata. Old files write ``Operator``,
``Runtime`` and ``Kernel``, so case is ignored. Backends of vendors have categories of their own, such as
``mtia_runtime`` and ``privateuse1_driver``: what begins with ``_`` here is how categories end.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fastprof.schema.array_types import Bools
from fastprof.tables import launch_links
from fastprof.tables.host_events import HostEvents
from fastprof.tables.once import once

OPS: Final = frozenset({"cpu_op", "operator"})
"""Ops of PyTorch, and of 2021 its annotations too."""
ANNOTATIONS: Final = frozenset({"user_annotation"})
GPU_ANNOTATIONS: Final = frozenset({"_user_annotation"})
"""What a stream runs of an annotation of a thread: from its first kernel to its last."""
PYTHON: Final = frozenset({"python_function"})
MEMORY: Final = frozenset({"cpu_instant_event"})
CALLS: Final = launch_links.CALLS
STEP: Final = "ProfilerStep#"
"""How the annotation of a step begins; its number follows."""
LOADERS: Final = ("enumerate(DataLoader)#", "enumerate(DataPipe)#")
"""How annotations begin in which the program waits for its next batch."""
COLLECTIVES: Final = ("gloo:", "nccl:", "mpi:", "ucc:", "xccl:", "hccl:")
"""How ops begin that communicate; what they do follows."""

ARGUMENTS: Final = ("Input Dims", "Input dims", "Input type", "Concrete Inputs")
"""Stats of ops: shapes of their arguments, which files of 2021 write small, types of these, and other arguments."""


@once
def is_of(events: HostEvents, categories: frozenset[str]) -> Bools:
    """By row of event metadata, whether the category is one of these; the last is that of events without any."""
    found: Bools = launch_links.is_of(events, categories)
    return found


@once
def is_op(events: HostEvents) -> Bools:
    """By row of event metadata, whether it is an op of PyTorch: no marker of a step, and no other annotation that old
    files write as an op."""
    named = np.array([not name.startswith((STEP, "enumerate(", "Optimizer.")) for name in events.names], bool)
    found: Bools = is_of(events, OPS) & named
    return found


RECORD: Final = "record_param_comms"
"""What process groups write to record the arguments of a collective: an event in that of its op."""
_OF_GROUPS: Final = "c10d::"


@once
def may_launch(events: HostEvents) -> Bools:
    """By row of event metadata, whether it is an op that what a GPU runs belongs to: a record of arguments is none if
    ops of collectives, which newer versions have, are recorded around it."""
    is_record = np.array([name == RECORD for name in events.names], bool)
    if not is_record.any() or not any(name.startswith(_OF_GROUPS) for name in events.names):
        return is_op(events)
    found: Bools = is_op(events) & ~is_record
    return found


def is_kineto(events: HostEvents) -> bool:
    """Whether events have categories of PyTorch's profiler."""
    return bool(is_of(events, OPS | CALLS | PYTHON | ANNOTATIONS).any())
