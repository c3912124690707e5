"""What an analysis reads: so that the decoder leaves out all else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fastprof.decode.plane_kinds import is_gpu_plane
from fastprof.schema.value_classes import dataclass


@dataclass(frozen=True, slots=True)
class Needs:
    """What is decoded. ``planes``: regular expressions, a plane is decoded if any matches; empty: all planes. They save
    time and are not a filter: analyses that run together receive the planes, and the stats, that any of them reads.
    ``stats``: stats of events; a name that ends in ``*`` is a prefix. ``metadata_stats``: stats of event metadata.
    ``stats_with_gpus``, ``planes_with_gpus``: more stats of events and planes, only on hosts with GPUs."""

    planes: tuple[str, ...] = ()
    stats: tuple[str, ...] = ()
    metadata_stats: tuple[str, ...] = ()
    stats_with_gpus: tuple[str, ...] = ()
    planes_with_gpus: tuple[str, ...] = ()

    def planes_of(self, planes: Iterable[tuple[str, int]]) -> tuple[str, ...]:
        """Return the patterns of planes to read on a host with these planes (names and ids)."""
        with_gpus = self.planes_with_gpus if self.planes and _has_gpus(planes) else ()
        return tuple(dict.fromkeys((*self.planes, *with_gpus)))

    def stats_of(self, planes: Iterable[tuple[str, int]]) -> tuple[str, ...]:
        """Return the stats of events that are read of a host with these planes, names and ids."""
        with_gpus = self.stats_with_gpus if _has_gpus(planes) else ()
        return tuple(dict.fromkeys((*self.stats, *with_gpus)))


def _has_gpus(planes: Iterable[tuple[str, int]]) -> bool:
    return any(is_gpu_plane(name) for name, _ in planes)


def unite_needs(needs: Sequence[Needs]) -> Needs:
    """Return the union of the needs."""
    everywhere = any(not need.planes for need in needs)
    return Needs(
        () if everywhere else tuple(dict.fromkeys(p for need in needs for p in need.planes)),
        tuple(dict.fromkeys(s for need in needs for s in need.stats)),
        tuple(dict.fromkeys(s for need in needs for s in need.metadata_stats)),
        tuple(dict.fromkeys(s for need in needs for s in need.stats_with_gpus)),
        tuple(dict.fromkeys(p for need in needs for p in need.planes_with_gpus)),
    )
