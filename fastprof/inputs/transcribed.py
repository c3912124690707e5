"""The bytes of a stream as those of an XSpace: the same, or what a format's scribe makes of them."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from fastprof.errors import CaptureError
from fastprof.inputs.formats import HEAD, Scribe, format_of
from fastprof.inputs.formats.contract import Remark

if TYPE_CHECKING:
    from fastprof.inputs.profile_columns import ProfileColumns


class Transcription:
    """Takes a stream a chunk at a time. Its format is known from its first bytes, which wait until there are enough.

    ``read``: bytes of the stream that were scanned.
    ``failed``: the format's own fault, not that of the stream.
    ``parts``: at the end, parts of what was given that are the XSpace; None: all of it (``contract.Scribe``).
    ``profile``: at the end, as the contract has it.
    """

    def __init__(self, path: str, salvage: bool) -> None:
        self.read = 0
        self.failed = False
        self.remarks: list[Remark] = []
        self.parts: bytes | None = None
        self.profile: ProfileColumns | None = None
        self._path = path
        self._salvage = salvage
        self._head: bytes | None = b""
        self._scribe: Scribe | None = None

    def scanned(self, chunks: Iterable[bytes]) -> Generator[Any, None, None]:
        """What ``push`` takes, made of chunks. A thread may make it while another one pushes what was made before."""
        for chunk in chunks:
            self.read += len(chunk)
            if self._head is None:
                yield self._scanned(chunk)
                continue
            self._head += chunk
            if len(self._head) >= HEAD:
                yield self._begun()

    def push(self, scanned: Any) -> Iterator[bytes | memoryview]:
        """What of the XSpace is ready."""
        if self._scribe is None:
            if scanned:
                yield scanned
            return
        try:
            ready = self._scribe.push(scanned)
        except CaptureError:
            self.failed = True
            raise
        if isinstance(ready, list):
            yield from ready
        elif ready:
            yield ready

    def finish(self) -> Iterator[bytes | memoryview]:
        """The rest of it."""
        if self._head is not None:
            yield from self.push(self._begun())
        if self._scribe is not None:
            yield from self._checked(self._scribe.finish())
            self.remarks, self.parts, self.profile = self._scribe.remarks, self._scribe.parts, self._scribe.profile

    @property
    def is_needed(self) -> bool:
        """Whether the stream is of another format; known before the first bytes are given."""
        return self._scribe is not None

    def close(self) -> None:
        if self._scribe is not None:
            self._scribe.close()

    def _begun(self) -> Any:
        head, self._head = self._head or b"", None
        form = format_of(head[:HEAD])
        if form is not None:
            self._scribe = form.scribe(self._path, self._salvage)
        return self._scanned(head)

    def _scanned(self, chunk: bytes) -> Any:
        return chunk if self._scribe is None else self._scribe.scan(chunk)

    def _checked(self, pieces: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
        try:
            yield from pieces
        except CaptureError:
            self.failed = True
            raise
