"""Patterns of nested events, repeated along a line at random times.

A pattern is a tree of kinds. Each child has its share of its parent's time, with gaps between, so
events of a repetition come in order: parent before child, earlier before later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import numpy.typing as npt
from event_kinds import Times
from trace_writer import Ints

Chunk = tuple[Ints, Times]
"""Kinds and times of events in the order of their line."""

CHUNK_EVENTS = 50_000
NARROWEST_UNITS = 3


@dataclass(frozen=True, slots=True)
class Node:
    """A kind of event, as an index, and what happens inside it. ``weight``: of its parent's time, beside siblings."""

    kind: int
    children: tuple[Node, ...] = ()
    instant: bool = False
    weight: float = 1.0


@dataclass(slots=True)
class Pattern:
    """A tree in preorder; begins and ends as shares of the whole."""

    kinds: Ints
    begins: npt.NDArray[np.float64]
    ends: npt.NDArray[np.float64]
    shortest: int
    mean_units: float
    weight: float

    @classmethod
    def of(cls, root: Node, rng: np.random.Generator, *, mean_units: float, weight: float = 1.0) -> Self:
        layout = _Layout(rng)
        layout.place(root, 0.0, 1.0)
        shortest = int(NARROWEST_UNITS / layout.narrowest) + 1
        return cls(
            np.array(layout.kinds),
            np.array(layout.begins),
            np.array(layout.ends),
            shortest,
            max(mean_units, 1.5 * shortest),
            weight,
        )


@dataclass(slots=True)
class _Layout:
    rng: np.random.Generator
    kinds: list[int] = field(default_factory=list)
    begins: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    narrowest: float = 1.0

    def place(self, node: Node, begin: float, end: float) -> None:
        self.kinds.append(node.kind)
        self.begins.append(begin)
        self.ends.append(begin if node.instant else end)
        if not node.children:
            return
        shares = self.rng.uniform(0.3, 1.0, 2 * len(node.children) + 1)
        shares[::2] *= 0.3
        shares[1::2] *= [child.weight for child in node.children]
        edges = begin + (end - begin) * np.cumsum(shares) / shares.sum()
        self.narrowest = min(self.narrowest, float((end - begin) * (shares / shares.sum()).min()))
        for number, child in enumerate(node.children):
            self.place(child, float(edges[2 * number]), float(edges[2 * number + 1]))


def repeat(
    patterns: Sequence[Pattern], rng: np.random.Generator, events: int, unit_ps: int, gap_units: float
) -> Iterator[Chunk]:
    """About ``events`` events: patterns picked by weight, one after the other, lengths and gaps at random."""
    weights = np.array([pattern.weight for pattern in patterns])
    sizes = np.array([len(pattern.kinds) for pattern in patterns])
    shortest = np.array([pattern.shortest for pattern in patterns])
    means = np.array([pattern.mean_units for pattern in patterns])
    mean_size = float((weights * sizes).sum() / weights.sum())
    now, left = 0, events
    while left > 0:
        count = max(1, round(min(left, CHUNK_EVENTS) / mean_size))
        picked = rng.choice(len(patterns), count, p=weights / weights.sum())
        drawn = (means[picked] * rng.lognormal(-0.3, 0.77, count)).astype(np.int64)
        lengths = np.maximum(shortest[picked], drawn)
        gaps = rng.exponential(gap_units, count).astype(np.int64) + 1
        starts = now + np.cumsum(lengths + gaps) - lengths
        now = int(starts[-1] + lengths[-1])
        chunk = place(patterns, picked, starts, lengths, unit_ps)
        left -= len(chunk[0])
        yield chunk


def place(patterns: Sequence[Pattern], picked: Ints, starts: Ints, lengths: Ints, unit_ps: int) -> Chunk:
    """For every i, pattern ``picked[i]`` from ``starts[i]`` on, stretched to ``lengths[i]`` units."""
    sizes = np.array([len(pattern.kinds) for pattern in patterns])[picked]
    ends = np.cumsum(sizes)
    kinds, begin, end = (np.empty(int(ends[-1]), np.int64) for _ in range(3))
    for number, pattern in enumerate(patterns):
        chosen = np.flatnonzero(picked == number)
        at = ((ends - sizes)[chosen, None] + np.arange(len(pattern.kinds))).ravel()
        kinds[at] = np.tile(pattern.kinds, len(chosen))
        for out, shares in ((begin, pattern.begins), (end, pattern.ends)):
            out[at] = (starts[chosen, None] + (lengths[chosen, None] * shares).astype(np.int64)).ravel()
    return kinds, Times(begin * unit_ps, (end - begin) * unit_ps)
