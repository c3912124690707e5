"""Profiles of tfprof, TensorFlow 1's profiler of graphs, as ``profile_context`` and ``profiler`` write them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fastprof.inputs.formats.contract import PlainScribe, Remark
from fastprof.inputs.formats.message_kinds import PROFILE, begins_with

NAME: Final = "profile_proto"


def begins(head: bytes) -> bool:
    """Whether there is a node with nothing but fields of nodes, and a name."""
    return begins_with(head, PROFILE, (1, 2, 1))


def scribe(path: str, salvage: bool) -> Scribe:
    return Scribe(path, salvage)


class Scribe(PlainScribe):
    """Keeps the document until all of it has come: nodes refer to each other, and texts come last."""

    def __init__(self, path: str, salvage: bool) -> None:
        self.remarks: list[Remark] = []
        self._path = path
        self._salvage = salvage
        self._document = bytearray()

    def push(self, chunk: bytes) -> bytes | None:
        self._document += chunk
        return None

    def finish(self) -> Iterator[bytes]:
        from fastprof.inputs.formats.profile_planes import ProfilePlanes
        from fastprof.inputs.formats.sound_profile import sound_profile

        profile = sound_profile(self._document, self._path, self._salvage, self.remarks)
        planes = ProfilePlanes(profile)
        yield from planes.xspace()
        self.remarks.extend(planes.remarks())

    def close(self) -> None:
        self._document = bytearray()
