"""Names of framework ops as their author wrote them: model, layer, op, without what transformations of the program add.

JAX calls an op ``jit(step)/transpose(jvp(Model))/layer_3/attn/while/body/dot_general``: the function that was compiled,
transformations with the scope that they were applied in, scopes, control flow, and last the primitive. TensorFlow calls
one ``gradient_tape/Model/layer_3/MatMul``. Both have the scopes Model, layer_3, …, and a pass of training, which the
transformations imply.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from typing import Final

from fastprof.derive.ops.tree.op_paths import limited
from fastprof.schema.array_types import Int64s
from fastprof.schema.value_classes import dataclass
from fastprof.wording.patterns import pattern_of

OTHER, FORWARD, BACKWARD, RECOMPUTE, OUTSIDE, WITHIN, UNKNOWN = range(7)
PASSES: Final = ("other", "forward", "backward", "recompute", "outside", "within", "unknown")
"""Of training, by code. Other: none of these, as of optimizers. Outside: forward or other. Within: backward or
recompute."""
PassTimes = Mapping[tuple[int, str], Int64s]
"""By program and name of an op its self time in each pass, by code."""

_WRAPPED = pattern_of(r"(\w+)\((.*)\)", re.DOTALL)
_BRACKET = pattern_of(r"[()/]")
_BRANCH = pattern_of(r"branch_\d+_fun")
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
"""Parts for how a function is called, not for what it does."""
_MOST_WRAPPINGS: Final = 64
_LAYER = pattern_of(r"(?:(.*[_.\- ])|((?:layer|block|stage|h)s?))?(\d+)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Scoped:
    """``path``: the scopes, and last the op; empty if unknown. ``passed``: code of its pass."""

    path: tuple[str, ...]
    passed: int


def scoped(provenance: str) -> Scoped:
    """Reads a provenance, ``name:type``; the first of several joined by semicolons."""
    reading = _Reading(provenance.partition(";")[0])
    return Scoped(tuple(limited(reading.without_calls())), reading.passed)


def layer_name(scope: str) -> str | None:
    """``layer_*`` for ``layer_3``, ``*`` for ``3``; None: the scope does not count layers."""
    match = _LAYER.fullmatch(scope)
    return None if match is None else f"{match[1] or match[2] or ''}*"


class _Reading:
    """The parts of one name, taken out of the transformations around them."""

    def __init__(self, name: str) -> None:
        """``name:type``: the type of the last part is no part of the name."""
        self.passed = OTHER
        self._parts: list[str] = []
        self._at_head = True
        self._of_gradients = False
        parts = _split(name)
        if parts:
            parts[-1] = parts[-1].partition(":")[0]
        waiting = deque((part, 0) for part in parts if part)
        while waiting:
            part, depth = waiting.popleft()
            wrapped = _WRAPPED.fullmatch(part) if depth < _MOST_WRAPPINGS else None
            if wrapped is None or not self._unwraps(wrapped[1]):
                self._scope(part)
            elif wrapped[1] in _FUNCTIONS:
                if not self._at_head and wrapped[2] != "main":
                    self._parts.append(wrapped[2])
            else:
                waiting.extendleft((inner, depth + 1) for inner in reversed(_split(wrapped[2])))

    def _unwraps(self, name: str) -> bool:
        if name in _TRANSFORMS:
            self._at_head = False
            self.passed = max(self.passed, _TRANSFORMS[name])
            return True
        return name in _FUNCTIONS or name in _TRANSPARENT

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
        """The scopes and the op, without control flow; a name that ends in a call keeps that."""
        left: list[str] = []
        parts, at = self._parts, 0
        while at < len(parts):
            last = at == len(parts) - 1
            if not last and _is_control(parts[at], parts[at + 1]):
                left += parts[at : at + 1] if at + 2 == len(parts) else ()
                at += 2
                continue
            if last or parts[at] not in _CALLS:
                left.append(parts[at])
            at += 1
        return left


def _is_control(part: str, after: str) -> bool:
    return (part == "while" and after in ("body", "cond")) or (part == "cond" and bool(_BRANCH.fullmatch(after)))


def _split(name: str) -> list[str]:
    """The parts between slashes that are not in parentheses."""
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
