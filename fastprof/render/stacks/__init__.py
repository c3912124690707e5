"""Reports as stacks with weights, one module an analysis, each with ``stacks(report)``, for render/speedscope.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stacks:
    """A profile of n nodes in preorder, node 0 the root. ``own_ps``: the time of each without its children's;
    ``source``: ``file:line`` or None."""

    title: str
    parent: Sequence[int]
    name: Sequence[str]
    source: Sequence[str | None]
    own_ps: Sequence[int]
