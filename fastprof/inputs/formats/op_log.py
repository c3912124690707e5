"""Logs of ops that tfprof writes beside graphs: types, float operations and code of nodes, by name. Alone they are no
profile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fastprof.errors import CaptureError
from fastprof.inputs.formats.contract import FormatRemark, PlainScribe
from fastprof.inputs.message import OP_LOG, begins_with_kind

NAME: Final = "op_log"


def begins(head: bytes) -> bool:
    """Return whether an entry has nothing but fields of entries, and a name."""
    return begins_with_kind(head, OP_LOG, (1, 1))


def scribe(path: str, salvage: bool) -> OpLogScribe:  # noqa: ARG001  # nothing of it is salvaged
    return OpLogScribe(path)


class OpLogScribe(PlainScribe):
    """Says what the file is."""

    def __init__(self, path: str) -> None:
        self.remarks: list[FormatRemark] = []
        self._path = path

    def push(self, chunk: bytes) -> bytes | None:  # noqa: ARG002
        text = "this is an OpLogProto of tfprof: it describes nodes of a graph, which is read with it"
        raise CaptureError(text, path=self._path, offset=0, salvageable=False)

    def finish(self) -> Iterator[bytes]:
        yield from ()

    def close(self) -> None:
        pass
