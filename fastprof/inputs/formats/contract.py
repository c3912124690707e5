"""What a format is: how it is known, and who transcribes it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Remark:
    """A row of import_log; ``first_offset`` counts the source's bytes after decompression."""

    severity: str
    code: str
    text: str
    count: int
    first_offset: int | None


class Scribe(Protocol):
    """Makes an XSpace of a document that is pushed in chunks of any size. Faults raise CaptureError, with their
    offset in the document."""

    def push(self, chunk: bytes) -> bytes | None:
        """Takes the next bytes; what of the XSpace is ready, if any is."""
        ...

    def finish(self) -> Iterable[bytes]:
        """All bytes have been pushed: the rest of the XSpace."""
        ...

    def close(self) -> None:
        """Gives back what it holds, at any time."""
        ...

    @property
    def remarks(self) -> list[Remark]:
        """After ``finish`` has given all: what was tolerated."""
        ...


class Format(Protocol):
    """A module of this folder."""

    @property
    def NAME(self) -> str: ...  # noqa: N802

    def begins(self, head: bytes) -> bool:
        """Whether the format begins so: its first 64 KiB, or all, after decompression."""
        ...

    def scribe(self, path: str, salvage: bool) -> Scribe:
        """Someone to transcribe one document; ``salvage``: faults are passed over and remarked."""
        ...
