"""Passes of training and name scopes: of ops by the names that their author gave them, of PyTorch's calls by autograd.

JAX calls an op ``jit(step)/transpose(jvp(Model))/layer_3/attn/while/body/dot_general``: the function that was
compiled, transformations with the scope that they were applied in, scopes, control flow, and last the primitive.
TensorFlow calls one ``gradient_tape/Model/layer_3/MatMul``. Both have the scopes Model, layer_3, …, and a pass of
training, which the transformations imply.

What encloses a call of PyTorch on its thread shows its pass, the innermost first::

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

import re
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from fastprof._native.pipeline_kernels import nearest_marked
from fastprof.derive.devices.op_names import PYTHON, has_category, is_op
from fastprof.derive.ops.op_trees import limit_scopes
from fastprof.derive.steps.event_graph import find_enclosing
from fastprof.schema.columns import Bools, Int32s, Int64s, UInt8s
from fastprof.schema.value_classes import dataclass
from fastprof.tables.host_events import compute_once
from fastprof.wording.patterns import compile_late

if TYPE_CHECKING:
    from fastprof.tables.host_events import HostEvents


OTHER, FORWARD, BACKWARD, RECOMPUTE, OUTSIDE, WITHIN, UNKNOWN = range(7)
PASSES: Final = ("other", "forward", "backward", "recompute", "outside", "within", "unknown")
"""Passes of training, by code. Other: none of these, as of optimizers. Outside: forward or other. Within: backward or
recompute."""
PassTimes = Mapping[tuple[int, str], Int64s]
"""Self time of an op in each pass by code, by program and name of the op."""

_WRAPPED = compile_late(r"(\w+)\((.*)\)", re.DOTALL)
_BRACKET = compile_late(r"[()/]")
_BRANCH = compile_late(r"branch_\d+_fun")
_FUNCTIONS: Final = frozenset({"jit", "pjit", "pmap", "xla_call"})
_TRANSFORMS: Final = {"jvp": FORWARD, "transpose": BACKWARD}
_TRANSPARENT: Final = frozenset(
    {"vmap", "remat", "checkpoint", "custom_jvp", "custom_vjp", "shard_map", "linearize", "closed_call"}
)
_CALLS: Final = frozenset(
    {"closed_call", "core_call", "checkpoint", "remat", "remat2", "rematted_computation", "shard_map", "pjit"}
    | {"xla_call", "custom_jvp_call", "custom_vjp_call", "custom_jvp_call_jaxpr", "custom_vjp_call_jaxpr"}
    | {"PartitionedCall", "StatefulPartitionedCall", "gradient_tape"}
)
"""Parts that say how a function is called, not what it does."""
_MOST_WRAPPINGS: Final = 64
_LAYER = compile_late(r"(?:(.*[_.\- ])|((?:layer|block|stage|h)s?))?(\d+)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class ScopedName:
    """``path``: the scopes, and last the op; empty if it is unknown. ``passed``: code of its pass."""

    path: tuple[str, ...]
    passed: int


def parse_scopes(provenance: str) -> ScopedName:
    """Parse a provenance, ``name:type``; the first of several joined by semicolons."""
    reading = _NameReader(provenance.partition(";")[0])
    return ScopedName(tuple(limit_scopes(reading.without_calls())), reading.passed)


def generalize_layer(scope: str) -> str | None:
    """``layer_*`` for ``layer_3``, ``*`` for ``3``; None if the scope does not count layers."""
    match = _LAYER.fullmatch(scope)
    return None if match is None else f"{match[1] or match[2] or ''}*"


class _NameReader:
    """Reads the parts of one name out of the transformations around them."""

    def __init__(self, name: str) -> None:
        """``name:type``: the type of the last part is no part of the name."""
        self.passed = OTHER
        self._parts: list[str] = []
        self._at_head = True
        self._of_gradients = False
        parts = _split_name(name)
        if parts:
            parts[-1] = parts[-1].partition(":")[0]
        waiting = deque((part, 0) for part in parts if part)
        while waiting:
            part, depth = waiting.popleft()
            wrapped = _WRAPPED.fullmatch(part) if depth < _MOST_WRAPPINGS else None
            wrapper = wrapped[1] if wrapped is not None else ""
            if wrapper in _TRANSFORMS:
                self._at_head = False
                self.passed = max(self.passed, _TRANSFORMS[wrapper])
            if wrapped is None or not (wrapper in _TRANSFORMS or wrapper in _FUNCTIONS or wrapper in _TRANSPARENT):
                self._scope(part)
            elif wrapper in _FUNCTIONS:
                if not self._at_head and wrapped[2] != "main":
                    self._parts.append(wrapped[2])
            else:
                waiting.extendleft((inner, depth + 1) for inner in reversed(_split_name(wrapped[2])))

    def _scope(self, part: str) -> None:
        self._at_head = False
        if part == "rematted_computation":
            self.passed = RECOMPUTE
        elif part == "gradient_tape" or (part.startswith("gradients") and not self._parts):
            self.passed = max(self.passed, BACKWARD)
            self._of_gradients = True
            if part != "gradient_tape":
                return
        self._parts.append(part.removesuffix("_grad") if self._of_gradients else part)

    def without_calls(self) -> list[str]:
        """Return the scopes and the op, without control flow; a name that ends in a call keeps that."""
        left: list[str] = []
        parts, at = self._parts, 0
        while at < len(parts):
            last = at == len(parts) - 1
            part, after = parts[at], "" if last else parts[at + 1]
            if (part == "while" and after in ("body", "cond")) or (part == "cond" and _BRANCH.fullmatch(after)):
                left += parts[at : at + 1] if at + 2 == len(parts) else ()
                at += 2
                continue
            if last or part not in _CALLS:
                left.append(part)
            at += 1
        return left


def _split_name(name: str) -> list[str]:
    """Return the parts between slashes that are not in parentheses."""
    if "/" not in name:
        return [name] if name else []
    if "(" not in name:
        return [part for part in name.split("/") if part]
    parts, depth, begin = [], 0, 0
    for match in _BRACKET.finditer(name):
        if match[0] != "/":
            depth += 1 if match[0] == "(" else -1
        elif depth <= 0:
            parts.append(name[begin : match.start()])
            begin = match.end()
    return [part for part in (*parts, name[begin:]) if part]


SEQUENCE: Final = "Sequence number"
"""Stat of ops of PyTorch: a forward op and its backward op have the same."""

_BACKWARD: Final = compile_late(r"autograd::engine::evaluate_function.*|torch::autograd::\w+|\w+Backward\d*")
_RECOMPUTES: Final = compile_late(r"\w*[Cc]heckpoint\w*Backward\d*")
"""Backward of what was dropped: it runs forward again, and then the backward pass of that as ops of its own."""
_RECOMPUTE_FRAMES: Final = compile_late(
    r".*checkpoint[^/\\:]*\.py\(\d+\): (?:recompute_fn|unpack|unpack_hook|inner_unpack|backward)"
)
_MODULE: Final = "nn.Module: "
_OPTIMIZER: Final = "Optimizer."
_MARK_OTHER: Final = 8


@compute_once
def mark_backward_names(events: HostEvents) -> UInt8s:
    """Return, per row of event metadata, BACKWARD, RECOMPUTE or 0: what runs within it is of that pass."""
    return np.array(
        [*map(_mark_name, events.names, is_op(events).tolist(), has_category(events, PYTHON).tolist())], np.uint8
    )


def _mark_name(name: str, is_op: bool, is_frame: bool) -> int:
    if is_op:
        return RECOMPUTE if _RECOMPUTES.fullmatch(name) else BACKWARD if _BACKWARD.fullmatch(name) else 0
    return RECOMPUTE if is_frame and _RECOMPUTE_FRAMES.fullmatch(name) else 0


def find_pass_of_calls(events: HostEvents) -> UInt8s:
    """Return, per row, the code of the pass that it is in."""
    marks = mark_backward_names(events)[events.meta]
    if not (marks == BACKWARD).any():
        return np.full(len(events), UNKNOWN, np.uint8)
    forward, within = find_forward_ops(events), find_innermost_mark(events, marks)
    if not has_category(events, PYTHON)[events.meta].any():
        # ops within the backward pass that ran with gradients on, but have no backward op themselves
        rows, numbers = events.ints(SEQUENCE)
        inside = (within[rows] == BACKWARD) & (marks[rows] == 0)
        marks[rows[inside & ~_has_backward(rows, numbers, marks)]] = RECOMPUTE
        del rows, numbers, inside
        within = find_innermost_mark(events, marks)
        if not (marks == RECOMPUTE).any():
            within[within > 0] = WITHIN
    codes = [
        FORWARD if name.startswith(_MODULE) else _MARK_OTHER if name.startswith(_OPTIMIZER) else 0
        for name in events.names
    ]
    named = np.array(codes, np.uint8)[events.meta]
    named[forward] = FORWARD
    shows_forward = bool((named == FORWARD).any())
    beside = find_innermost_mark(events, named)
    beside[beside == 0] = OTHER if shows_forward else OUTSIDE
    beside[beside == _MARK_OTHER] = OTHER
    return np.where(within > 0, within, beside).astype(np.uint8)


def find_innermost_mark(events: HostEvents, marks: UInt8s) -> UInt8s:
    """Return, per row, the mark of the innermost event at or above it that has one, or 0."""
    nearest = np.empty(len(events), np.int32)
    nearest_marked(find_enclosing(events), (marks > 0).astype(np.uint8), 1, nearest)
    marked: UInt8s = np.append(marks, np.uint8(0))[nearest]
    return marked


def find_forward_ops(events: HostEvents) -> Int32s:
    """Return the ops outside of the backward pass to which an op of it belongs."""
    marks = mark_backward_names(events)[events.meta]
    within = find_innermost_mark(events, marks)
    rows, numbers = events.ints(SEQUENCE)
    begins, ends = events.recorded_arrows()
    led = begins[(within[ends] > 0) & (within[begins] == 0)]
    return np.concatenate([rows[(within[rows] == 0) & _has_backward(rows, numbers, marks)], led])


def _has_backward(rows: Int32s, numbers: Int64s, marks: UInt8s) -> Bools:
    """Return a mask of the ops whose sequence number an op of the backward pass has."""
    return np.isin(numbers, np.unique(numbers[marks[rows] > 0]))
