"""Records of PyTorch's autograd: in which pass of training a call is, and which ops are forward.

What encloses a call on its thread shows its pass, the innermost first::

    autograd::engine::evaluate_function: MulBackward0  |-------------------------------------|
      torch/utils/checkpoint.py: recompute_fn             |-------------|
    pass                                              b  b   recompute     backward

An op outside of the backward pass is forward if the backward pass has its sequence number or an arrow leads from it
there, or if a module calls it. What is left, as the optimizer, has no pass. If nothing shows which ops are forward,
it is unknown what all outside of the backward pass is; if no backward pass is recorded, all passes are. Without calls
of Python it is unknown what the backward pass computes again, unless ops are named after a checkpoint or record that
gradients were on: they have a sequence number, but no backward op.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from fastprof._native.pipeline_kernels import nearest_marked
from fastprof.derive.devices.kineto_categories import PYTHON, is_of, is_op
from fastprof.derive.ops.tree.name_scopes import BACKWARD, FORWARD, OTHER, OUTSIDE, RECOMPUTE, UNKNOWN, WITHIN
from fastprof.derive.steps.enclosing import enclosing
from fastprof.schema.array_types import Bools, Int32s, Int64s, UInt8s
from fastprof.tables.once import once
from fastprof.wording.patterns import pattern_of

if TYPE_CHECKING:
    from fastprof.tables.host_events import HostEvents

SEQUENCE: Final = "Sequence number"
"""Stat of ops of PyTorch: a forward op and its backward op have the same."""

_BACKWARD: Final = pattern_of(r"autograd::engine::evaluate_function.*|torch::autograd::\w+|\w+Backward\d*")
_RECOMPUTES: Final = pattern_of(r"\w*[Cc]heckpoint\w*Backward\d*")
"""Backward of what was dropped: it runs forward again, and then the backward pass of that as ops of its own."""
_RECOMPUTE_FRAMES: Final = pattern_of(
    r".*checkpoint[^/\\:]*\.py\(\d+\): (?:recompute_fn|unpack|unpack_hook|inner_unpack|backward)"
)
_MODULE: Final = "nn.Module: "
_OPTIMIZER: Final = "Optimizer."
_MARK_OTHER: Final = 8


@once
def backward_names(events: HostEvents) -> UInt8s:
    """Return by row of event metadata BACKWARD, RECOMPUTE or 0: what runs within it is of that pass."""
    return np.array([*map(_marked, events.names, is_op(events).tolist(), is_of(events, PYTHON).tolist())], np.uint8)


def _marked(name: str, is_op: bool, is_frame: bool) -> int:
    if is_op:
        return RECOMPUTE if _RECOMPUTES.fullmatch(name) else BACKWARD if _BACKWARD.fullmatch(name) else 0
    return RECOMPUTE if is_frame and _RECOMPUTE_FRAMES.fullmatch(name) else 0


def pass_of_calls(events: HostEvents) -> UInt8s:
    """Return by row the code of the pass that it is in."""
    marks = backward_names(events)[events.meta]
    if not (marks == BACKWARD).any():
        return np.full(len(events), UNKNOWN, np.uint8)
    forward, within = forward_ops(events), innermost_mark(events, marks)
    if not is_of(events, PYTHON)[events.meta].any():
        marks[_recomputed_ops(events, marks, within)] = RECOMPUTE
        within = innermost_mark(events, marks)
        if not (marks == RECOMPUTE).any():
            within[within > 0] = WITHIN
    named = np.array([_outside(name) for name in events.names], np.uint8)[events.meta]
    named[forward] = FORWARD
    shows_forward = bool((named == FORWARD).any())
    beside = innermost_mark(events, named)
    beside[beside == 0] = OTHER if shows_forward else OUTSIDE
    beside[beside == _MARK_OTHER] = OTHER
    return np.where(within > 0, within, beside).astype(np.uint8)


def _outside(name: str) -> int:
    return FORWARD if name.startswith(_MODULE) else _MARK_OTHER if name.startswith(_OPTIMIZER) else 0


def innermost_mark(events: HostEvents, marks: UInt8s) -> UInt8s:
    """Return by row the mark of the innermost event at or above it that has one, or 0."""
    nearest = np.empty(len(events), np.int32)
    nearest_marked(enclosing(events), (marks > 0).astype(np.uint8), 1, nearest)
    found: UInt8s = np.append(marks, np.uint8(0))[nearest]
    return found


def forward_ops(events: HostEvents) -> Int32s:
    """Return the ops outside of the backward pass to which an op of it belongs."""
    marks = backward_names(events)[events.meta]
    within = innermost_mark(events, marks)
    rows, numbers = events.ints(SEQUENCE)
    begins, ends = events.recorded_arrows()
    led = begins[(within[ends] > 0) & (within[begins] == 0)]
    return np.concatenate([rows[(within[rows] == 0) & _has_backward(rows, numbers, marks)], led])


def _recomputed_ops(events: HostEvents, marks: UInt8s, within: UInt8s) -> Int32s:
    """Return the ops within the backward pass that ran with gradients on, but have no backward op themselves."""
    rows, numbers = events.ints(SEQUENCE)
    inside = (within[rows] == BACKWARD) & (marks[rows] == 0)
    found: Int32s = rows[inside & ~_has_backward(rows, numbers, marks)]
    return found


def _has_backward(rows: Int32s, numbers: Int64s, marks: UInt8s) -> Bools:
    """Return a mask of the ops whose sequence number an op of the backward pass has."""
    return np.isin(numbers, np.unique(numbers[marks[rows] > 0]))
