"""What a format is: how it is known, and who transcribes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol

from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from fastprof.inputs.profile_columns import ProfileColumns

GRAPH_PLANE: Final = "TensorFlow graphs"
GRAPH_STATS: Final = ("graph", "graph_def", "offset")
"""Stats of a piece of a graph: the number of its graph, its bytes, and their offset in the file."""
PROFILE_PLANE, PROFILE_STAT = "tfprof", "profile_proto"
"""Plane and stat of an XSpace that was transcribed from a tfprof profile: each stat is a piece of the profile."""


@dataclass(frozen=True, slots=True)
class FormatRemark:
    """A row of import_log; ``first_offset`` counts the source's bytes after decompression."""

    severity: str
    code: str
    text: str
    count: int
    first_offset: int | None


class Scribe(Protocol):
    """Makes an XSpace of a document that is pushed in chunks of any size. Faults raise CaptureError, with their
    offset in the document."""

    def scan(self, chunk: bytes) -> Any:
        """Return the next bytes as ``push`` takes them. One thread may scan while another pushes what was scanned
        before."""
        ...

    def push(self, chunk: Any) -> bytes | list[memoryview] | None:
        """Take what was scanned; what of the XSpace is ready, if any is, and else of what ``parts`` are of."""
        ...

    def finish(self) -> Iterable[bytes | memoryview]:
        """Return the rest, once all bytes have been pushed."""
        ...

    @property
    def parts(self) -> bytes | None:
        """The parts of the output that are the XSpace, in order, as uint64 pairs of place and length, once ``finish``
        has given all. None: all of it."""
        ...

    def close(self) -> None:
        """Give back what it holds, at any time."""
        ...

    @property
    def profile(self) -> ProfileColumns | None:
        """The profile of tfprof that was transcribed, once ``finish`` has given all, so that views need not read it
        again. None if there is none, or it is too large to keep."""
        ...

    @property
    def remarks(self) -> list[FormatRemark]:
        """Tolerated faults, complete once ``finish`` has given all."""
        ...


class PlainScribe:
    """What scribes share that scan nothing ahead and give an XSpace in its order."""

    parts: bytes | None = None
    profile: ProfileColumns | None = None

    def scan(self, chunk: bytes) -> bytes:
        return chunk


class KeepingScribe(PlainScribe):
    """A scribe that keeps the document until all of it has been pushed: it cannot be read in one pass."""

    def __init__(self, path: str, salvage: bool) -> None:
        self.remarks: list[FormatRemark] = []
        self.document = bytearray()
        self._path = path
        self._salvage = salvage

    def push(self, chunk: bytes) -> bytes | None:
        self.document += chunk
        return None

    def close(self) -> None:
        self.document = bytearray()


class Format(Protocol):
    """A module of this folder."""

    @property
    def NAME(self) -> str: ...  # noqa: N802

    def begins(self, head: bytes) -> bool:
        """Return whether the format begins so: its first 64 KiB, or all, after decompression."""
        ...

    def scribe(self, path: str, salvage: bool) -> Scribe:
        """Someone to transcribe one document; ``salvage``: faults are passed over and remarked."""
        ...
