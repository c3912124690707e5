"""Profiles of tfprof, TensorFlow 1's profiler of graphs, as ``profile_context`` and ``profiler`` write them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fastprof.inputs.formats.contract import KeepingScribe
from fastprof.inputs.message import PROFILE, begins_with_kind

NAME: Final = "profile_proto"
_MOST_KEPT: Final = 256 << 20
"""Bytes of a profile that is kept with its session."""


def begins(head: bytes) -> bool:
    """Return whether there is a node with nothing but fields of nodes, and a name."""
    return begins_with_kind(head, PROFILE, (1, 2, 1))


def scribe(path: str, salvage: bool) -> ProfileScribe:
    return ProfileScribe(path, salvage)


class ProfileScribe(KeepingScribe):
    """Nodes refer to each other, and their texts come last."""

    def finish(self) -> Iterator[bytes]:
        from fastprof.inputs.profile_model import ProfilePlanes, drop_damaged_nodes

        profile = drop_damaged_nodes(self.document, self._path, self._salvage, self.remarks)
        planes = ProfilePlanes(profile)
        yield from planes.xspace()
        self.remarks.extend(planes.remarks())
        self.profile = profile if len(self.document) <= _MOST_KEPT else None
