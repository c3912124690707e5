"""Chrome's JSON traces: of browsers, Kineto (PyTorch), XProf and TF1. docs/traces.md says what becomes of them."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from fastprof.inputs.formats.contract import FormatRemark
from fastprof.wording.patterns import compile_late

if TYPE_CHECKING:
    from fastprof._native.chrome import ChromeScribe, Tape

NAME: Final = "chrome"
_BEGINS = compile_late(rb'(?:\xef\xbb\xbf)?[ \t\r\n\f]*(?:\{[ \t\r\n\f]*["}]|\[[ \t\r\n\f]*(?:[]\[{",\d-]|$))')
_CONTROLS = compile_late(rb"[\x00-\x08\x0e-\x1f]")  # an XSpace of 123 bytes begins with a line feed and a brace
_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""How text begins that tools of Windows save."""
_LOOKED_AT: Final = 6
_EVENTS = compile_late(rb'"traceEvents"\s*:\s*\[')
_ARRAY = compile_late(rb"(?:\xef\xbb\xbf)?\s*\[")
_PHASE = compile_late(rb'"ph"\s*:\s*"')


def begins(head: bytes) -> bool:
    """Return whether a JSON document begins so."""
    head = _convert_to_utf_8(head)
    return _BEGINS.match(head) is not None and not _CONTROLS.search(head.lstrip()[:_LOOKED_AT])


def is_trace(head: bytes) -> bool:
    """Return whether the document that begins so has ``traceEvents`` there, or is an array of events with phases."""
    head = _convert_to_utf_8(head)
    return begins(head) and bool(_EVENTS.search(head) or (_ARRAY.match(head) and _PHASE.search(head)))


def _convert_to_utf_8(head: bytes) -> bytes:
    """Return the first bytes of a document in UTF-8; those of UTF-16 may end within a character."""
    return head.decode("utf-16", "ignore").encode("utf-8", "ignore") if head.startswith(_UTF_16) else head


def scribe(path: str, salvage: bool) -> ChromeJsonScribe:
    return ChromeJsonScribe(path, salvage)


class ChromeJsonScribe:
    """Gives the events of lines as they come, and names and metadata at the end: an XSpace has them line by line."""

    profile = None

    def __init__(self, path: str, salvage: bool) -> None:
        from fastprof._native.chrome import ChromeScribe

        self._core: ChromeScribe = ChromeScribe(path, salvage)
        self._salvage = salvage
        self._begin, self._is_begun = b"", False
        self._utf_16: codecs.IncrementalDecoder | None = None
        self.remarks: list[FormatRemark] = []
        self.parts: bytes | None = None

    def scan(self, chunk: bytes) -> Tape | bytes:
        chunk = self._in_utf_8(chunk)
        return chunk if self._salvage else self._core.scan(chunk)

    def _in_utf_8(self, chunk: bytes) -> bytes:
        """Return the next bytes of a document; the first two say how it is encoded."""
        if not self._is_begun:
            self._begin += chunk
            if self._begin in (b"", *(mark[:1] for mark in _UTF_16)):
                return b""
            chunk, self._begin, self._is_begun = self._begin, b"", True
            if chunk.startswith(_UTF_16):
                self._utf_16 = codecs.getincrementaldecoder("utf-16")("replace")
        return chunk if self._utf_16 is None else self._utf_16.decode(chunk).encode("utf-8", "replace")

    def push(self, chunk: Tape | bytes) -> bytes:
        return self._core.push(chunk) if isinstance(chunk, bytes) else self._core.take(chunk)

    def finish(self) -> Iterator[bytes]:
        yield self._core.finish()
        self.remarks = [FormatRemark(*remark) for remark in self._core.remarks()]
        if self._utf_16 is not None:
            self.remarks.append(
                FormatRemark("notice", "utf_16", "the text is UTF-16; offsets count it as UTF-8", 1, None)
            )
        self.parts = self._core.parts()

    def close(self) -> None:
        pass
