"""The bytes of a stream as those of an XSpace: the same, or what a format's scribe makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fastprof.errors import CaptureError
from fastprof.inputs.formats import HEAD, Scribe, format_of
from fastprof.inputs.formats.contract import Remark


class Transcription:
    """Takes a stream a chunk at a time. Its format is known from its first bytes, which wait until there are enough.

    ``read``: bytes of the stream that were taken.
    ``failed``: the format's own fault, not that of the stream.
    """

    def __init__(self, path: str, salvage: bool) -> None:
        self.read = 0
        self.failed = False
        self.remarks: list[Remark] = []
        self._path = path
        self._salvage = salvage
        self._head: bytes | None = b""
        self._scribe: Scribe | None = None

    def push(self, chunk: bytes) -> Iterator[bytes]:
        """What of the XSpace is ready."""
        self.read += len(chunk)
        if self._head is None:
            yield from self._taken(chunk)
            return
        self._head += chunk
        if len(self._head) >= HEAD:
            yield from self._begun()

    def finish(self) -> Iterator[bytes]:
        """The rest of it."""
        if self._head is not None:
            yield from self._begun()
        if self._scribe is not None:
            yield from self._checked(self._scribe.finish())
            self.remarks = self._scribe.remarks

    def close(self) -> None:
        if self._scribe is not None:
            self._scribe.close()

    def _begun(self) -> Iterator[bytes]:
        head, self._head = self._head or b"", None
        form = format_of(head[:HEAD])
        if form is not None:
            self._scribe = form.scribe(self._path, self._salvage)
        yield from self._taken(head)

    def _taken(self, chunk: bytes) -> Iterator[bytes]:
        if self._scribe is None:
            if chunk:
                yield chunk
            return
        try:
            ready = self._scribe.push(chunk)
        except CaptureError:
            self.failed = True
            raise
        if ready:
            yield ready

    def _checked(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        try:
            yield from pieces
        except CaptureError:
            self.failed = True
            raise
