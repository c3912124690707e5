"""What an analysis reads: so that the decoder leaves out all else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Needs:
    """What is decoded. ``planes``: regular expressions, of which any may match; none: all planes. ``stats``: of
    events, a name that ends in ``*`` stands for all that begin so; ``metadata_stats``: of what events of one kind
    share."""

    planes: tuple[str, ...] = ()
    stats: tuple[str, ...] = ()
    metadata_stats: tuple[str, ...] = ()


def union(needs: Sequence[Needs]) -> Needs:
    """What all of them read together."""
    everywhere = any(not one.planes for one in needs)
    return Needs(
        () if everywhere else tuple(dict.fromkeys(p for one in needs for p in one.planes)),
        tuple(dict.fromkeys(s for one in needs for s in one.stats)),
        tuple(dict.fromkeys(s for one in needs for s in one.metadata_stats)),
    )
