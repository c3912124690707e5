"""What a format is: how it is known, and who transcribes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from fastprof.schema.value_classes import dataclass

if TYPE_CHECKING:
    from fastprof.inputs.profile_columns import ProfileColumns


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
        """The next bytes as ``push`` takes them. One thread may scan while another pushes what was scanned before."""
        ...

    def push(self, chunk: Any) -> bytes | list[memoryview] | None:
        """Takes what was scanned; what of the XSpace is ready, if any is, and else of what ``parts`` are of."""
        ...

    def finish(self) -> Iterable[bytes | memoryview]:
        """All bytes have been pushed: the rest of that."""
        ...

    @property
    def parts(self) -> bytes | None:
        """After ``finish`` has given all: parts of what was given that are the XSpace, one behind the other, as uint64
        pairs of place and length. None: all of it, in its order."""
        ...

    def close(self) -> None:
        """Gives back what it holds, at any time."""
        ...

    @property
    def profile(self) -> ProfileColumns | None:
        """After ``finish`` has given all: the profile of tfprof that was transcribed, so that views of it need not read
        it again; None: there is none, or it is too large to keep."""
        ...

    @property
    def remarks(self) -> list[FormatRemark]:
        """After ``finish`` has given all: what was tolerated."""
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
        """Whether the format begins so: its first 64 KiB, or all, after decompression."""
        ...

    def scribe(self, path: str, salvage: bool) -> Scribe:
        """Someone to transcribe one document; ``salvage``: faults are passed over and remarked."""
        ...
